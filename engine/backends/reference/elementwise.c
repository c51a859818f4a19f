/* Elementwise operations: cast, activation, addition, scale, updates, and averages and copies of whole buffers. */
#define D9_REAL double
#include "backends/reference/reference.h"
#include "kernels/formulas/activation.h"
#include "kernels/formulas/update.h"

#include <string.h>

static int64_t count_of(const d9_site *site) { return d9_shape_count(&d9_reference_in(site, 0)->shape); }

d9_status d9_reference_CAST(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const double *x;
    (void)step;
    D9_TRY(d9_reference_input(context, site, 0, &x));
    d9_reference_write(site, site->nodes[0]->outputs[0], x);
done:
    return status;
}

d9_status d9_reference_ACT(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_act_attributes *act = &site->nodes[0]->as.act;
    const double *x;
    double *y;
    (void)step;
    D9_TRY(d9_reference_input(context, site, 0, &x));
    D9_TRY(d9_reference_output(context, site, 0, &y));
#pragma omp parallel for num_threads(site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(site); i++)
        y[i] = d9_activation_value_double((int)act->activation, x[i], act->alpha);
    d9_reference_store(site, 0);
done:
    return status;
}

d9_status d9_reference_ACT_BACKWARD(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_act_attributes *act = &site->nodes[0]->as.act;
    const double *dy, *t;
    double *dx;
    (void)step;
    D9_TRY(d9_reference_input(context, site, 0, &dy));
    D9_TRY(d9_reference_input(context, site, 1, &t));
    D9_TRY(d9_reference_output(context, site, 0, &dx));
#pragma omp parallel for num_threads(site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(site); i++)
        dx[i] = dy[i] * d9_activation_slope_double((int)act->activation, t[i], act->alpha);
    d9_reference_store(site, 0);
done:
    return status;
}

d9_status d9_reference_ADD(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const double *a, *b;
    double *sum;
    (void)step;
    D9_TRY(d9_reference_input(context, site, 0, &a));
    D9_TRY(d9_reference_input(context, site, 1, &b));
    D9_TRY(d9_reference_output(context, site, 0, &sum));
#pragma omp parallel for num_threads(site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(site); i++) sum[i] = a[i] + b[i];
    d9_reference_store(site, 0);
done:
    return status;
}

d9_status d9_reference_SCALE(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const double factor = site->nodes[0]->as.scale.factor, *x;
    double *y;
    (void)step;
    D9_TRY(d9_reference_input(context, site, 0, &x));
    D9_TRY(d9_reference_output(context, site, 0, &y));
#pragma omp parallel for num_threads(site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(site); i++) y[i] = factor * x[i];
    d9_reference_store(site, 0);
done:
    return status;
}

/* Weights and state are updated in place; each element is read before it is written. */
d9_status d9_reference_UPDATE(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_update_attributes *update = &site->nodes[0]->as.update;
    d9_update_terms_double terms = {.rate = d9_coefficient_at(site->program, &update->rate, step),
                                    .decay = d9_coefficient_at(site->program, &update->decay, step),
                                    .share = d9_coefficient_at(site->program, &update->share, step)};
    const double *w, *g, *state[D9_UPDATE_STATES];
    double *w_out, *state_out[D9_UPDATE_STATES];
    for (int s = 0; s < D9_UPDATE_STATES; s++)
        terms.correction[s] = d9_coefficient_at(site->program, &update->correction[s], step);
    memcpy(terms.numbers, update->numbers, sizeof terms.numbers);
    D9_TRY(d9_reference_input(context, site, 0, &w));
    D9_TRY(d9_reference_input(context, site, 1, &g));
    D9_TRY(d9_reference_output(context, site, 0, &w_out));
    for (int s = 0; s < D9_UPDATE_STATES; s++) {
        D9_TRY(d9_reference_input(context, site, 2 + s, &state[s]));
        D9_TRY(d9_reference_output(context, site, 1 + s, &state_out[s]));
    }
#pragma omp parallel for num_threads(site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(site); i++) {
        double weight = w[i], kept[D9_UPDATE_STATES];
        for (int s = 0; s < D9_UPDATE_STATES; s++) kept[s] = state[s] ? state[s][i] : 0;
        d9_update_one_double((int)update->update, g[i], &terms, &weight, &kept[0], &kept[1]);
        w_out[i] = weight;
        for (int s = 0; s < D9_UPDATE_STATES; s++)
            if (state_out[s]) state_out[s][i] = kept[s];
    }
    for (int i = 0; i <= D9_UPDATE_STATES; i++) d9_reference_store(site, i);
done:
    return status;
}

d9_status d9_reference_LERP(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const double ratio = d9_coefficient_at(site->program, &site->nodes[0]->as.lerp.ratio, step);
    const double *a, *x;
    double *out;
    D9_TRY(d9_reference_input(context, site, 0, &a));
    D9_TRY(d9_reference_input(context, site, 1, &x));
    D9_TRY(d9_reference_output(context, site, 0, &out));
#pragma omp parallel for num_threads(site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(site); i++) out[i] = d9_lerp_double(a[i], x[i], ratio);
    d9_reference_store(site, 0);
done:
    return status;
}

d9_status d9_reference_COPY(d9_context *context, const d9_site *site, int64_t step) {
    const d9_value *x = d9_reference_in(site, 0);
    (void)context, (void)step;
    memmove(d9_site_data(site, site->nodes[0]->outputs[0]), d9_site_data(site, site->nodes[0]->inputs[0]),
            (size_t)d9_shape_count(&x->shape) * d9_type_bytes(x->type));
    return D9_OK;
}
