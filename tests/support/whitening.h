/* Fails unless the 3x3 filters F of patch_whitening (epsilon 0.01), in a session of this f64 configuration, whiten the
 * patches of its first `images` training images: F C F^T, with C their covariance, is diagonal with lambda / (lambda +
 * epsilon) on the diagonal. C must have eigenvalues above `largest` and below `smallest`: the patches are not white. */
#pragma once

#include <stdint.h>

void whitening_check(const char *yaml, int64_t images, double largest, double smallest, double tolerance);
