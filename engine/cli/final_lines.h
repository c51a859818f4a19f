/* The final lines that dawn9 train prints about a run. */
#ifndef D9_CLI_FINAL_LINES_H
#define D9_CLI_FINAL_LINES_H

#include "cli/cli.h"
#include "train/trainer.h"

/* "94.12%", or with `views` "94.12% plain, 94.30% with TTA"; no newline. */
void d9_run_print_scores(d9_cli *cli, const d9_measure *measure, double plain, double tta, bool views);
/* The scores, the number of samples that they were computed on, and whether the target was met. */
void d9_run_print_outcome(d9_cli *cli, const d9_result *result);
/* Why the run ended early, and which epoch's model was kept; nothing if neither applies. */
void d9_run_print_ending(d9_cli *cli, const d9_result *result);
/* The published figures of the configuration, if it has any. */
void d9_run_print_published(d9_cli *cli, const d9_config *config);
/* All final lines of the run in the folder `out`. peak_rate: operations per second of a large matrix product, printed
 * if `verbose`; 0: not known. */
void d9_run_print_end(d9_cli *cli, const d9_result *result, const char *out, bool verbose, double peak_rate);
/* Formats outcome and ending as one sentence, for live.html. */
void d9_run_describe(const d9_result *result, char *text, size_t size);

#endif
