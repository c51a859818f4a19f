/* dawn9 train --find-lr: a learning rate range test (Smith 2015, arXiv 1506.01186). The learning rate grows by a
 * constant factor per step, from far too small to far too large; the training loss shows the useful range. The trained
 * network is discarded. */
#pragma once

#include "cli/cli.h"

/* Writes the loss at each learning rate to OUT/rates.tsv and OUT/rates.svg and prints some of these losses, also after
 * an interrupt. Of the configured schedule it uses only the peak. It sets config->train.epochs. `quiet`: prints only
 * the result. */
D9_MUST_USE d9_status d9_find_lr(d9_cli *cli, d9_config *config, const char *out, bool quiet);
