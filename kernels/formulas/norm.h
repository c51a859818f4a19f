/* Batch normalisation of one element of a channel with n values in its ghost group; the caller computes the sums over
 * these. xh = (x - mean) * inv_std.
 *
 *   y  = xh * scale + bias                     inv_std = 1 / sqrt(variance + epsilon), with the biased variance
 *   dx = scale * inv_std * (dy - (sum dy + xh * sum(dy * xh)) / n),   dscale = sum(dy * xh),   dbias = sum dy
 *
 * The running variance is a moving average of the unbiased variance, n / (n - 1) times the biased one. Include with
 * D9_REAL set (real.h). Source: Ioffe and Szegedy, "Batch normalization", section 3. */
#include "kernels/formulas/real.h"

D9_FN D9_REAL D9_OF(d9_norm_inv_std)(D9_REAL variance, D9_REAL epsilon) {
    return 1 / D9_OF(d9_sqrt)(variance + epsilon);
}

D9_FN D9_REAL D9_OF(d9_norm_apply)(D9_REAL x, D9_REAL mean, D9_REAL inv_std, D9_REAL scale, D9_REAL bias) {
    return (x - mean) * inv_std * scale + bias;
}

D9_FN D9_REAL D9_OF(d9_norm_dx)(D9_REAL dy, D9_REAL xh, D9_REAL sum_dy, D9_REAL sum_dy_xh, D9_REAL inv_count,
                                D9_REAL scale, D9_REAL inv_std) {
    return scale * inv_std * (dy - (sum_dy + xh * sum_dy_xh) * inv_count);
}

/* The unbiased variance of n values from the biased one. A single value has none; its biased variance, 0, is used. */
D9_FN D9_REAL D9_OF(d9_norm_unbiased)(D9_REAL variance, D9_REAL n) {
    return n > 1 ? variance * (n / (n - 1)) : variance;
}

D9_FN D9_REAL D9_OF(d9_norm_running)(D9_REAL running, D9_REAL fresh, D9_REAL momentum) {
    return (1 - momentum) * running + momentum * fresh;
}
