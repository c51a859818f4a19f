/* Losses of one sample, from its logits z over K classes, their log-sum-exp and its label. A row of losses.def has
 *
 *   d9_loss_term_ID    of one logit; `total` is the sum over the classes
 *   d9_loss_value_ID   the loss
 *   d9_loss_slope_ID   its derivative by one logit
 *
 * CROSS_ENTROPY, the softmax's, with label smoothing s:
 *
 *   lse = max z + log sum exp(z - max z),   -log p_k = lse - z_k
 *   loss   = (1 - s) * (lse - z_label) + s * (lse - mean z)
 *   d/dz_k = p_k - (1 - s) [k == label] - s / K
 *
 * Include with D9_REAL set (real.h). Source: Szegedy et al., "Rethinking the Inception architecture", section 7; the
 * uniform part counts the true class too, as in cifar10-fast and PyTorch. */
#include "kernels/formulas/real.h"
#include "kernels/formulas/rows.h"

D9_FN D9_REAL D9_OF(d9_log_sum_exp)(D9_REAL largest, D9_REAL sum) { return largest + D9_OF(d9_log)(sum); }

typedef struct D9_OF(d9_loss_row) { /* what the loss of a sample is made of */
    D9_REAL log_sum_exp, at_label, total, classes, smoothing;
} D9_OF(d9_loss_row);

D9_FN D9_REAL D9_OF(d9_loss_term_CROSS_ENTROPY)(D9_REAL logit, int is_label) {
    (void)is_label;
    return logit;
}

D9_FN D9_REAL D9_OF(d9_loss_value_CROSS_ENTROPY)(const D9_OF(d9_loss_row) *row) {
    const D9_REAL mean = row->total / row->classes, s = row->smoothing;
    return (1 - s) * (row->log_sum_exp - row->at_label) + s * (row->log_sum_exp - mean);
}

D9_FN D9_REAL D9_OF(d9_loss_slope_CROSS_ENTROPY)(D9_REAL logit, int is_label, const D9_OF(d9_loss_row) *row) {
    const D9_REAL target = (is_label ? 1 - row->smoothing : 0) + row->smoothing / row->classes;
    return D9_OF(d9_exp)(logit - row->log_sum_exp) - target;
}

/* By number: a loss is never where the time goes. */
D9_FN D9_REAL D9_OF(d9_loss_term)(int loss, D9_REAL logit, int is_label) {
    switch (loss) {
#define D9_LOSS(id, name, doc) case D9_LOSS_##id: return D9_OF(d9_loss_term_##id)(logit, is_label);
#include "kernels/formulas/losses.def"
#undef D9_LOSS
    default: return logit;
    }
}

D9_FN D9_REAL D9_OF(d9_loss_value)(int loss, const D9_OF(d9_loss_row) *row) {
    switch (loss) {
#define D9_LOSS(id, name, doc) case D9_LOSS_##id: return D9_OF(d9_loss_value_##id)(row);
#include "kernels/formulas/losses.def"
#undef D9_LOSS
    default: return 0;
    }
}

D9_FN D9_REAL D9_OF(d9_loss_slope)(int loss, D9_REAL logit, int is_label, const D9_OF(d9_loss_row) *row) {
    switch (loss) {
#define D9_LOSS(id, name, doc) case D9_LOSS_##id: return D9_OF(d9_loss_slope_##id)(logit, is_label, row);
#include "kernels/formulas/losses.def"
#undef D9_LOSS
    default: return 0;
    }
}
