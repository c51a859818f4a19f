/* Compares the statistics of image patches in a case file with those of the dataset. */
#pragma once

#include "verify/group_comparison.h"

/* Reports a row each for covariance and eigenvalues, if the file has them; one skipped row if no dataset loads. */
D9_MUST_USE d9_status d9_patch_statistics_compare(d9_verification *self);
