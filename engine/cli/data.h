/* Options of dawn9 data, and its action preview. */
#pragma once

#include "cli/cli.h"

typedef struct d9_data_options {
    const char *action, *what; /* what: dataset for check and fetch, configuration for preview */
    d9_cli_edits edits;
    const char *from;          /* archive for fetch */
    const char *out, *filters; /* PNG files that preview writes */
    bool json;
} d9_data_options;

/* Draws augmented training images to `out` and the first convolution's filters to `filters`, each if not NULL. Of a
 * dataset of texts, prints training texts; D9_USAGE if `out` or `filters` is set. */
D9_MUST_USE d9_status d9_data_preview(d9_cli *cli, const d9_data_options *options);
