/* The final lines that dawn9 train prints about a run. */
#pragma once

#include "cli/cli.h"
#include "train/trainer.h"

/* Prints "94.12%" or, with `views`, "94.12% plain, 94.30% with TTA", without a newline. */
void d9_run_print_scores(d9_cli *cli, const d9_measure *measure, double plain, double tta, bool views);
/* Prints the scores, the number of samples that they were computed on, and whether the target was met. */
void d9_run_print_outcome(d9_cli *cli, const d9_result *result);
/* Prints why the run ended early, and which epoch's model was kept; nothing if neither applies. */
void d9_run_print_ending(d9_cli *cli, const d9_result *result);
/* Prints the published figures of the configuration, if it has any. */
void d9_run_print_published(d9_cli *cli, const d9_config *config);
/* Prints all final lines of the run in the folder `out`. `verbose`: prints every clock, and the rate of training
 * divided by peak_rate, the operations per second of a large matrix product; 0: not known, no such line. */
void d9_run_print_end(d9_cli *cli, const d9_result *result, const char *out, bool verbose, double peak_rate);
/* Formats the scores and the text of d9_run_print_ending as one sentence, for live.html. */
void d9_run_describe(const d9_result *result, char *text, size_t size);

/* dawn9 train --find-lr: a learning rate range test (Smith 2015, arXiv 1506.01186). The learning rate grows by a
 * constant factor per step, from far too small to far too large; the training loss shows the useful range. The trained
 * network is discarded. */

/* Writes the loss at each learning rate to OUT/rates.tsv and OUT/rates.svg and prints some of these losses, also after
 * an interrupt. Of the configured schedule it uses only the peak. It sets config->train.epochs. `quiet`: prints only
 * the result. */
D9_MUST_USE d9_status d9_find_lr(d9_cli *cli, d9_config *config, const char *out, bool quiet);
