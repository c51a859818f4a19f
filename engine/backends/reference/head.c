/* The head: classifier, loss and metrics. */
#define D9_REAL double
#include "backends/reference/reference.h"
#include "kernels/formulas/loss.h"

#include <math.h>
#include <string.h>

/* ---- linear: x (N, I), weight (O, I), y (N, O) ---- */

d9_status d9_reference_LINEAR(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const int64_t images = d9_reference_out(site, 0)->shape.d[0], out = d9_reference_in(site, 1)->shape.d[0];
    const int64_t in = d9_reference_in(site, 1)->shape.d[1];
    const double *x, *weight;
    double *y;
    (void)step;
    D9_TRY(d9_reference_input(context, site, 0, &x));
    D9_TRY(d9_reference_input(context, site, 1, &weight));
    D9_TRY(d9_reference_output(context, site, 0, &y));
    for (int64_t n = 0; n < images; n++)
        for (int64_t o = 0; o < out; o++) {
            double sum = 0;
            for (int64_t i = 0; i < in; i++) sum += x[n * in + i] * weight[o * in + i];
            y[n * out + o] = sum;
        }
    d9_reference_store(site, 0);
done:
    return status;
}

d9_status d9_reference_LINEAR_BACKWARD_DATA(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const int64_t images = d9_reference_in(site, 0)->shape.d[0], out = d9_reference_in(site, 1)->shape.d[0];
    const int64_t in = d9_reference_in(site, 1)->shape.d[1];
    const double *dy, *weight;
    double *dx;
    (void)step;
    D9_TRY(d9_reference_input(context, site, 0, &dy));
    D9_TRY(d9_reference_input(context, site, 1, &weight));
    D9_TRY(d9_reference_output(context, site, 0, &dx));
    memset(dx, 0, (size_t)(images * in) * sizeof(double));
    d9_reference_matmul(dy, out, 1, weight, images, out, in, dx);
    d9_reference_store(site, 0);
done:
    return status;
}

d9_status d9_reference_LINEAR_BACKWARD_WEIGHT(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const int64_t images = d9_reference_in(site, 0)->shape.d[0], out = d9_reference_out(site, 0)->shape.d[0];
    const int64_t in = d9_reference_out(site, 0)->shape.d[1];
    const double *dy, *x;
    double *dweight;
    (void)step;
    D9_TRY(d9_reference_input(context, site, 0, &dy));
    D9_TRY(d9_reference_input(context, site, 1, &x));
    D9_TRY(d9_reference_output(context, site, 0, &dweight));
    memset(dweight, 0, (size_t)(out * in) * sizeof(double));
    d9_reference_matmul(dy, 1, out, x, out, images, in, dweight);
    d9_reference_store(site, 0);
done:
    return status;
}

/* ---- loss ---- */

/* Labels of an image and its mixing partner, the share of its own label in the target, and its weight in the loss. */
typedef struct target {
    int32_t label, other;
    double share, weight;
} target;

static target target_of(const d9_site *site, const int32_t *labels, int64_t images, int64_t n, int64_t step) {
    const double share = d9_coefficient_at(site->program, &site->nodes[0]->as.loss.share, step);
    const int32_t label = labels[n], other = labels[images - 1 - n];
    const double *weights = d9_class_weights(site->program, site->nodes[0]);
    return (target){label, other, share, weights ? d9_loss_at_target_double(weights[label], weights[other], share) : 1};
}

static double target_at(const target *t, int64_t k) { return d9_loss_target_double(k, t->label, t->other, t->share); }

static d9_loss_row_double row_of(const d9_loss_attributes *how, const double *logits, int64_t classes,
                                 const target *t) {
    double largest = logits[0], exponentials = 0, total = 0;
    for (int64_t k = 1; k < classes; k++) largest = fmax(largest, logits[k]);
    for (int64_t k = 0; k < classes; k++) {
        exponentials += exp(logits[k] - largest);
        total += d9_loss_term_double((int)how->loss, logits[k], target_at(t, k));
    }
    return (d9_loss_row_double){d9_log_sum_exp_double(largest, exponentials),
                                d9_loss_at_target_double(logits[t->label], logits[t->other], t->share), total,
                                (double)classes, how->smoothing};
}

static d9_status check_labels(d9_context *context, const d9_site *site, const int32_t *labels, int64_t images,
                              int64_t classes) {
    for (int64_t n = 0; n < images; n++)
        if (labels[n] < 0 || labels[n] >= classes)
            return d9_fail(context, D9_DEVICE, "%s: label %d of image %lld, must be below %lld", site->nodes[0]->role,
                           labels[n], (long long)n, (long long)classes);
    return D9_OK;
}

d9_status d9_reference_LOSS(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_shape *shape = &d9_reference_in(site, 0)->shape; /* (N, classes) */
    const int32_t *labels = d9_site_data(site, site->nodes[0]->inputs[1]);
    const d9_loss_attributes *how = &site->nodes[0]->as.loss;
    const double *logits;
    double *loss;
    D9_TRY(check_labels(context, site, labels, shape->d[0], shape->d[1]));
    D9_TRY(d9_reference_input(context, site, 0, &logits));
    D9_TRY(d9_reference_output(context, site, 0, &loss));
    for (int64_t n = 0; n < shape->d[0]; n++) {
        const target t = target_of(site, labels, shape->d[0], n, step);
        const d9_loss_row_double row = row_of(how, logits + n * shape->d[1], shape->d[1], &t);
        loss[n] = t.weight * d9_loss_value_double((int)how->loss, &row);
    }
    d9_reference_store(site, 0);
done:
    return status;
}

d9_status d9_reference_LOSS_BACKWARD(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_shape *shape = &d9_reference_in(site, 0)->shape;
    const int32_t *labels = d9_site_data(site, site->nodes[0]->inputs[1]);
    const d9_loss_attributes *how = &site->nodes[0]->as.loss;
    const double *logits;
    double *dlogits;
    D9_TRY(check_labels(context, site, labels, shape->d[0], shape->d[1]));
    D9_TRY(d9_reference_input(context, site, 0, &logits));
    D9_TRY(d9_reference_output(context, site, 0, &dlogits));
    for (int64_t n = 0; n < shape->d[0]; n++) {
        const double *z = logits + n * shape->d[1];
        const target t = target_of(site, labels, shape->d[0], n, step);
        const d9_loss_row_double row = row_of(how, z, shape->d[1], &t);
        for (int64_t k = 0; k < shape->d[1]; k++)
            dlogits[n * shape->d[1] + k] =
                t.weight * d9_loss_slope_double((int)how->loss, z[k], target_at(&t, k), &row);
    }
    d9_reference_store(site, 0);
done:
    return status;
}

/* ---- metrics: f64 (4), updated in place ---- */

static int64_t first_maximum(const double *row, int64_t count) {
    int64_t best = 0;
    for (int64_t k = 1; k < count; k++)
        if (row[k] > row[best]) best = k;
    return best;
}

d9_status d9_reference_METRICS(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_shape *shape = &d9_reference_in(site, 1)->shape; /* (N, classes) */
    const int32_t *labels = d9_site_data(site, site->nodes[0]->inputs[2]);
    double *metrics = d9_site_data(site, site->nodes[0]->outputs[0]);
    const double *loss, *logits;
    D9_TRY(d9_reference_input(context, site, 0, &loss));
    D9_TRY(d9_reference_input(context, site, 1, &logits));
    for (int64_t n = 0; n < shape->d[0]; n++) {
        metrics[0] += loss[n];
        metrics[1] += 1;
        metrics[2] += first_maximum(logits + n * shape->d[1], shape->d[1]) == labels[n];
        if (!isfinite(loss[n]) && !(metrics[3] > 0)) metrics[3] = (double)(step + 1);
    }
done:
    return status;
}
