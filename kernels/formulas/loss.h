/* Softmax cross-entropy with label smoothing s, over K classes, from the log-sum-exp of the logits z:
 *
 *   lse = max z + log sum exp(z - max z),   -log p_k = lse - z_k
 *   loss   = (1 - s) * (lse - z_label) + s * (lse - mean z)
 *   d/dz_k = p_k - (1 - s) [k == label] - s / K
 *
 * Include with D9_REAL set (real.h). Source: Szegedy et al., "Rethinking the Inception architecture", section 7; the
 * uniform part counts the true class too, as in cifar10-fast and PyTorch. */
#include "kernels/formulas/real.h"

D9_FN D9_REAL D9_OF(d9_log_sum_exp)(D9_REAL largest, D9_REAL sum) { return largest + D9_OF(d9_log)(sum); }

D9_FN D9_REAL D9_OF(d9_cross_entropy)(D9_REAL log_sum_exp, D9_REAL at_label, D9_REAL mean, D9_REAL smoothing) {
    return (1 - smoothing) * (log_sum_exp - at_label) + smoothing * (log_sum_exp - mean);
}

D9_FN D9_REAL D9_OF(d9_cross_entropy_slope)(D9_REAL logit, D9_REAL log_sum_exp, int is_label, D9_REAL classes,
                                            D9_REAL smoothing) {
    const D9_REAL target = (is_label ? 1 - smoothing : 0) + smoothing / classes;
    return D9_OF(d9_exp)(logit - log_sum_exp) - target;
}
