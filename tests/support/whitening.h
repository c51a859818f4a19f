/* Fails unless the filters of patch_whitening, in a session of this configuration on the reference backend, whiten the
 * patches of its first `images` training images: F C F^T, with C their covariance, is diagonal with lambda / (lambda +
 * epsilon) on the diagonal. C's largest and smallest eigenvalue must lie beyond the two given, far from white. */
#ifndef D9_TESTS_WHITENING_H
#define D9_TESTS_WHITENING_H

#include <stdint.h>

void whitening_check(const char *yaml, int64_t images, double largest, double smallest, double tolerance);

#endif
