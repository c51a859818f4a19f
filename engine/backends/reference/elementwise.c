/* Elementwise operations: cast, activation, addition, scale, updates, averages and copies. Also sums of gradients over
 * the processes, and clipping of gradients. */
#define D9_REAL double
#include "backends/reference/reference.h"
#include "kernels/formulas/activation.h"
#include "kernels/formulas/clip.h"
#include "kernels/formulas/update.h"

#include <string.h>

static int64_t count_of(const d9_reference_op *op) { return d9_shape_count(&d9_reference_in(op, 0)->shape); }

d9_status d9_reference_CAST(const d9_reference_op *op) {
    memmove(op->out[0], op->in[0], (size_t)count_of(op) * sizeof(double));
    return D9_OK;
}

d9_status d9_reference_ACT(const d9_reference_op *op) {
    const d9_act_attributes *act = &op->node->as.act;
    const double *x = op->in[0];
    double *y = op->out[0];
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(op); i++)
        y[i] = d9_activation_value_double((int)act->activation, x[i], act->alpha);
    return D9_OK;
}

d9_status d9_reference_ACT_BACKWARD(const d9_reference_op *op) {
    const d9_act_attributes *act = &op->node->as.act;
    const double *dy = op->in[0], *t = op->in[1];
    double *dx = op->out[0];
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(op); i++)
        dx[i] = dy[i] * d9_activation_slope_double((int)act->activation, t[i], act->alpha);
    return D9_OK;
}

d9_status d9_reference_ADD(const d9_reference_op *op) {
    const double *a = op->in[0], *b = op->in[1];
    double *sum = op->out[0];
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(op); i++) sum[i] = a[i] + b[i];
    return D9_OK;
}

d9_status d9_reference_SCALE(const d9_reference_op *op) {
    const double factor = op->node->as.scale.factor, *x = op->in[0];
    double *y = op->out[0];
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(op); i++) y[i] = factor * x[i];
    return D9_OK;
}

d9_status d9_reference_ALL_REDUCE(const d9_reference_op *op) {
    if (op->out[0] != op->in[0]) memcpy(op->out[0], op->in[0], (size_t)count_of(op) * sizeof *op->out[0]);
    return d9_parallel_sum(op->context, op->site->options->parallel, op->out[0], count_of(op), true);
}

d9_status d9_reference_CLIP(const d9_reference_op *op) {
    const double share = d9_reference_coefficient(op, &op->node->as.clip.mean_factor), *g = op->in[0];
    double squares = 0;
    for (int64_t i = 0; i < count_of(op); i++) squares += g[i] * g[i];
    const double factor = d9_clip_factor(squares, share, op->node->as.clip.most);
    for (int64_t i = 0; i < count_of(op); i++) op->out[0][i] = factor * g[i];
    return D9_OK;
}

/* In f64, weights and state are updated in place: each element is read before it is written. */
d9_status d9_reference_UPDATE(const d9_reference_op *op) {
    const d9_update_attributes *update = &op->node->as.update;
    d9_update_terms_double terms = {.rate = d9_reference_coefficient(op, &update->rate),
                                    .decay = d9_reference_coefficient(op, &update->decay),
                                    .share = d9_reference_coefficient(op, &update->mean_factor)};
    const double *w = op->in[0], *g = op->in[1], *const *state = op->in + 2;
    double *w_out = op->out[0], *const *state_out = op->out + 1;
    for (int s = 0; s < D9_UPDATE_STATES; s++)
        terms.correction[s] = d9_reference_coefficient(op, &update->correction[s]);
    memcpy(terms.numbers, update->numbers, sizeof terms.numbers);
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(op); i++) {
        double weight = w[i], kept[D9_UPDATE_STATES];
        for (int s = 0; s < D9_UPDATE_STATES; s++) kept[s] = state[s] ? state[s][i] : 0;
        d9_update_element_double((int)update->update, g[i], &terms, &weight, &kept[0], &kept[1]);
        w_out[i] = weight;
        for (int s = 0; s < D9_UPDATE_STATES; s++)
            if (state_out[s]) state_out[s][i] = kept[s];
    }
    return D9_OK;
}

d9_status d9_reference_LERP(const d9_reference_op *op) {
    const double ratio = d9_reference_coefficient(op, &op->node->as.lerp.ratio);
    const double *a = op->in[0], *x = op->in[1];
    double *out = op->out[0];
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(op); i++) out[i] = d9_lerp_double(a[i], x[i], ratio);
    return D9_OK;
}

d9_status d9_reference_COPY(const d9_reference_op *op) { return d9_reference_CAST(op); }
