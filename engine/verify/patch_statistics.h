/* Statistics of image patches that a case file holds, against those of the data set itself. */
#ifndef D9_VERIFY_PATCH_STATISTICS_H
#define D9_VERIFY_PATCH_STATISTICS_H

#include "verify/group_comparison.h"

/* A row each for covariance and eigenvalues; one that says so where the data set is not there; none for a file without
 * such statistics. */
D9_MUST_USE d9_status d9_patch_statistics_compare(d9_verification *self);

#endif
