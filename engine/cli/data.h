/* dawn9 data: its options, and the part of it that has a file of its own. */
#ifndef D9_CLI_DATA_H
#define D9_CLI_DATA_H

#include "cli/cli.h"

typedef struct d9_data_options {
    const char *action, *what; /* what: a dataset's name, or the configuration of a preview */
    d9_cli_edits edits;
    const char *out, *filters; /* PNG files of a preview */
    bool json;
} d9_data_options;

/* Writes the sheet (and the filters, when asked for). */
D9_MUST_USE d9_status d9_data_preview(d9_cli *cli, const d9_data_options *options);

#endif
