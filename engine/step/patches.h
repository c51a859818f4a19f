/* Whitening filters, from statistics of image patches and the eigenvectors of a symmetric matrix. */
#pragma once

#include "graph/init.h"

/* Computes the covariance (d, d), d = channels * size * size, of the unpadded size x size patches of the first `images`
 * images, or of all if there are fewer: sums of products divided by patches - 1, without subtracting the mean; entries
 * in the order channel, row, column. The sums are exact integers, so the bits do not depend on the number of threads.
 * `site->table` must be affine in the byte, as normalisation is. D9_USAGE: the images are smaller than a patch, or
 * there are fewer than two patches. */
D9_MUST_USE d9_status d9_patch_covariance(d9_context *context, const d9_init_site *site, int64_t images, int size,
                                          double *covariance);

/* Computes eigenvalues and eigenvectors of a symmetric (d, d) matrix by cyclic Jacobi sweeps and overwrites `matrix`.
 * Eigenvalues are in descending order; vectors are rows, each with its entry of largest magnitude positive.
 * D9_NONFINITE: the matrix is not finite, or the sweeps do not converge. */
D9_MUST_USE d9_status d9_symmetric_eigen(d9_context *context, double *matrix, int d, double *eigenvalues,
                                         double *vectors);

typedef struct d9_whitening {
    const char *key;      /* the trick's key, for messages: "tricks.patch_whitening" */
    int64_t size, images; /* side of a patch, pixels; number of training images to measure */
    double epsilon;       /* added to each eigenvalue */
} d9_whitening;
/* Computes whitening filters (d, size, size, channels), d = channels * size * size: filter j is eigenvector j of the
 * covariance of patches, divided by sqrt(max(eigenvalue j, 0) + epsilon), largest eigenvalue first. `count`, the number
 * of elements of `values`, must be d * d. D9_DATA: a divisor is 0, so its filter would be infinite. */
D9_MUST_USE d9_status d9_whitening_filters(d9_context *context, const d9_whitening *whitening, const d9_init_site *site,
                                           double *values, int64_t count);
