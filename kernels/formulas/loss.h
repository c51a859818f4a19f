/* The loss of one sample, from its logits z over K classes, their log-sum-exp, and the target weights w_k of the
 * classes. The label has weight 1; in an image mixed from two, its own label has weight w and its partner's 1 - w.
 * A row of D9_LOSS_ROWS (rows.h) has
 *
 *   d9_loss_term_ID    a term of each logit; their sum over the classes is `total`
 *   d9_loss_value_ID   the loss
 *   d9_loss_slope_ID   the derivative of the loss with respect to one logit
 *
 * CROSS_ENTROPY of the softmax, with label smoothing s:
 *
 *   lse = max z + log sum exp(z - max z),   -log p_k = lse - z_k
 *   loss   = (1 - s) * (lse - sum w_k z_k) + s * (lse - mean z)
 *   d/dz_k = p_k - (1 - s) w_k - s / K
 *
 * SIGMOID, for samples of any number of classes, with t_k = w_k:
 *
 *   loss   = mean over k of max(z_k, 0) - t_k z_k + log(1 + exp(-|z_k|))
 *   d/dz_k = (sigmoid(z_k) - t_k) / K
 *
 * Include with D9_REAL set (real.h). Source: Szegedy et al., "Rethinking the Inception architecture", section 7; the
 * uniform part counts the true class too, as in cifar10-fast and PyTorch. */
#include "kernels/formulas/real.h"
#include "kernels/formulas/rows.h"

D9_FN D9_REAL D9_OF(d9_log_sum_exp)(D9_REAL largest, D9_REAL sum) { return largest + D9_OF(d9_log)(sum); }

typedef struct D9_OF(d9_loss_row) {                            /* inputs of a sample's loss */
    D9_REAL log_sum_exp, at_target, total, classes, smoothing; /* at_target: sum w_k z_k, if a sample has one class */
} D9_OF(d9_loss_row);

/* Target weight of class k for an image whose label has weight `share` and whose partner's label has the rest. */
D9_FN D9_REAL D9_OF(d9_loss_target)(int loss, int64_t k, int32_t label, int32_t other, D9_REAL share) {
    const int multi_label = d9_loss_multi_label(loss);
    const int own = multi_label ? label >> k & 1 : k == label, partners = multi_label ? other >> k & 1 : k == other;
    return (own ? share : 0) + (partners ? 1 - share : 0);
}
/* The sum over the classes of target weight times value, given the values at the image's label and at its partner's. */
D9_FN D9_REAL D9_OF(d9_loss_at_target)(D9_REAL at_label, D9_REAL at_other, D9_REAL share) {
    return share * at_label + (1 - share) * at_other;
}

/* Share of the own label in the targets of a mixed image whose labels' classes have the weights `own` and `partners`.
 * Times the image's weight, d9_loss_at_target of the two, each label's loss then counts with the weight of its class.
 * Shares stay as they are if both weights are 0. */
D9_FN D9_REAL D9_OF(d9_loss_weighted_share)(D9_REAL own, D9_REAL partners, D9_REAL share) {
    const D9_REAL weight = D9_OF(d9_loss_at_target)(own, partners, share);
    return weight > 0 ? share * own / weight : share;
}

D9_FN D9_REAL D9_OF(d9_loss_term_CROSS_ENTROPY)(D9_REAL logit, D9_REAL target) {
    (void)target;
    return logit;
}

D9_FN D9_REAL D9_OF(d9_loss_value_CROSS_ENTROPY)(const D9_OF(d9_loss_row) * row) {
    const D9_REAL mean = row->total / row->classes, s = row->smoothing;
    return (1 - s) * (row->log_sum_exp - row->at_target) + s * (row->log_sum_exp - mean);
}

D9_FN D9_REAL D9_OF(d9_loss_slope_CROSS_ENTROPY)(D9_REAL logit, D9_REAL target, const D9_OF(d9_loss_row) * row) {
    const D9_REAL smoothed = (1 - row->smoothing) * target + row->smoothing / row->classes;
    return D9_OF(d9_exp)(logit - row->log_sum_exp) - smoothed;
}

D9_FN D9_REAL D9_OF(d9_loss_term_SIGMOID)(D9_REAL logit, D9_REAL target) {
    const D9_REAL size = logit < 0 ? -logit : logit;
    return (logit > 0 ? logit : 0) - target * logit + D9_OF(d9_log)(1 + D9_OF(d9_exp)(-size));
}

D9_FN D9_REAL D9_OF(d9_loss_value_SIGMOID)(const D9_OF(d9_loss_row) * row) { return row->total / row->classes; }

D9_FN D9_REAL D9_OF(d9_loss_slope_SIGMOID)(D9_REAL logit, D9_REAL target, const D9_OF(d9_loss_row) * row) {
    return (D9_OF(d9_sigmoid)(logit) - target) / row->classes;
}

/* Term, value and slope of the loss with this number (d9_loss). */
D9_FN D9_REAL D9_OF(d9_loss_term)(int loss, D9_REAL logit, D9_REAL target) {
    switch (loss) {
#define D9_LOSS_CASE(id, name, multi_label, doc)                                                                       \
    case D9_LOSS_##id:                                                                                                 \
        return D9_OF(d9_loss_term_##id)(logit, target);
        D9_LOSS_ROWS(D9_LOSS_CASE)
#undef D9_LOSS_CASE
    default:
        return logit;
    }
}

D9_FN D9_REAL D9_OF(d9_loss_value)(int loss, const D9_OF(d9_loss_row) * row) {
    switch (loss) {
#define D9_LOSS_CASE(id, name, multi_label, doc)                                                                       \
    case D9_LOSS_##id:                                                                                                 \
        return D9_OF(d9_loss_value_##id)(row);
        D9_LOSS_ROWS(D9_LOSS_CASE)
#undef D9_LOSS_CASE
    default:
        return 0;
    }
}

D9_FN D9_REAL D9_OF(d9_loss_slope)(int loss, D9_REAL logit, D9_REAL target, const D9_OF(d9_loss_row) * row) {
    switch (loss) {
#define D9_LOSS_CASE(id, name, multi_label, doc)                                                                       \
    case D9_LOSS_##id:                                                                                                 \
        return D9_OF(d9_loss_slope_##id)(logit, target, row);
        D9_LOSS_ROWS(D9_LOSS_CASE)
#undef D9_LOSS_CASE
    default:
        return 0;
    }
}
