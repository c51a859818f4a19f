/* dawn9 train --find-lr: a rate range test (Smith 2015, arXiv 1506.01186). The rate grows by the same factor every
 * step, from far too small to far too large, and the training loss says between which rates a peak may lie. Nothing is
 * kept of the training itself. */
#ifndef D9_CLI_FIND_LR_H
#define D9_CLI_FIND_LR_H

#include "cli/cli.h"

/* Prints the losses by rate, and writes OUT/rates.tsv and OUT/rates.svg; after an interrupt those of the steps until
 * then. The configuration's schedule is replaced. Quiet: prints only the end. */
D9_MUST_USE d9_status d9_find_lr(d9_cli *cli, d9_config *config, const char *out, bool quiet);

#endif
