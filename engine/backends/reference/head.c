/* Linear layers, loss and metrics. */
#define D9_REAL double
#include "backends/reference/reference.h"
#include "kernels/formulas/loss.h"

#include <string.h>

/* ---- linear: x (rows, I), weight (O, I), y (rows, O); a row is an image or a token ---- */

d9_status d9_reference_LINEAR(const d9_reference_op *op) {
    const int64_t rows = d9_shape_rows(&d9_reference_out(op)->shape), out = d9_reference_in(op, 1)->shape.d[0];
    const int64_t in = d9_reference_in(op, 1)->shape.d[1];
    const double *x = op->in[0], *weight = op->in[1];
    double *y = op->out[0];
    for (int64_t n = 0; n < rows; n++)
        for (int64_t o = 0; o < out; o++) {
            double sum = 0;
            for (int64_t i = 0; i < in; i++) sum += x[n * in + i] * weight[o * in + i];
            y[n * out + o] = sum;
        }
    return D9_OK;
}

d9_status d9_reference_LINEAR_BACKWARD_DATA(const d9_reference_op *op) {
    const int64_t rows = d9_shape_rows(&d9_reference_in(op, 0)->shape), out = d9_reference_in(op, 1)->shape.d[0];
    const int64_t in = d9_reference_in(op, 1)->shape.d[1];
    const double *dy = op->in[0], *weight = op->in[1];
    double *dx = op->out[0];
    memset(dx, 0, (size_t)(rows * in) * sizeof(double));
    d9_reference_matmul(dy, out, 1, weight, rows, out, in, dx);
    return D9_OK;
}

d9_status d9_reference_LINEAR_BACKWARD_WEIGHT(const d9_reference_op *op) {
    const int64_t rows = d9_shape_rows(&d9_reference_in(op, 0)->shape), out = d9_reference_out(op)->shape.d[0];
    const int64_t in = d9_reference_out(op)->shape.d[1];
    const double *dy = op->in[0], *x = op->in[1];
    double *dweight = op->out[0];
    memset(dweight, 0, (size_t)(out * in) * sizeof(double));
    d9_reference_matmul(dy, 1, out, x, out, rows, in, dweight);
    return D9_OK;
}

/* ---- loss ---- */

/* Labels of an image and of its mixing partner; share of the image's own label in the target; weight of the image in
 * the loss. */
typedef struct target {
    int32_t label, other;
    double share, weight;
} target;

static target target_of(const d9_reference_op *op, const int32_t *labels, int64_t images, int64_t n) {
    const double share = d9_reference_coefficient(op, &op->node->as.loss.share);
    const int32_t label = labels[n], partner = labels[images - 1 - n], other = partner < 0 ? label : partner;
    const double *weights = d9_class_weights(op->site->program, op->node);
    if (!weights) return (target){label, other, share, 1};
    return (target){label, other, d9_loss_weighted_share_double(weights[label], weights[other], share),
                    d9_loss_at_target_double(weights[label], weights[other], share)};
}

static double target_at(const d9_loss_attributes *how, const target *t, int64_t k) {
    return d9_loss_target_double((int)how->loss, k, t->label, t->other, t->share);
}

static d9_loss_row_double loss_row_of(const d9_loss_attributes *how, const double *logits, int64_t classes,
                                      const target *t) {
    double largest = logits[0], exponentials = 0, total = 0;
    for (int64_t k = 1; k < classes; k++) largest = fmax(largest, logits[k]);
    for (int64_t k = 0; k < classes; k++) {
        exponentials += exp(logits[k] - largest);
        total += d9_loss_term_double((int)how->loss, logits[k], target_at(how, t, k));
    }
    const double own = logits[d9_loss_logit_index((int)how->loss, t->label)],
                 others = logits[d9_loss_logit_index((int)how->loss, t->other)];
    return (d9_loss_row_double){d9_log_sum_exp_double(largest, exponentials),
                                d9_loss_at_target_double(own, others, t->share), total, (double)classes,
                                how->smoothing};
}

d9_status d9_reference_LOSS(const d9_reference_op *op) {
    d9_status status;
    const d9_shape *shape = &d9_reference_in(op, 0)->shape; /* (N, classes) */
    const int32_t *labels = d9_site_data(op->site, op->node->inputs[1]);
    const d9_loss_attributes *how = &op->node->as.loss;
    const double *logits = op->in[0];
    double *loss = op->out[0];
    D9_TRY(d9_host_check_labels(op->context, op->site, labels, d9_shape_rows(shape), d9_shape_channels(shape)));
    for (int64_t n = 0; n < d9_shape_rows(shape); n++) {
        loss[n] = 0;
        if (labels[n] < 0) continue;
        const target t = target_of(op, labels, d9_shape_rows(shape), n);
        const d9_loss_row_double row =
            loss_row_of(how, logits + n * d9_shape_channels(shape), d9_shape_channels(shape), &t);
        loss[n] = t.weight * d9_loss_value_double((int)how->loss, &row);
    }
done:
    return status;
}

d9_status d9_reference_LOSS_BACKWARD(const d9_reference_op *op) {
    d9_status status;
    const d9_shape *shape = &d9_reference_in(op, 0)->shape;
    const int32_t *labels = d9_site_data(op->site, op->node->inputs[1]);
    const d9_loss_attributes *how = &op->node->as.loss;
    const double *logits = op->in[0];
    double *dlogits = op->out[0];
    D9_TRY(d9_host_check_labels(op->context, op->site, labels, d9_shape_rows(shape), d9_shape_channels(shape)));
    for (int64_t n = 0; n < d9_shape_rows(shape); n++) {
        const double *z = logits + n * d9_shape_channels(shape);
        if (labels[n] < 0) {
            memset(dlogits + n * d9_shape_channels(shape), 0, (size_t)d9_shape_channels(shape) * sizeof(double));
            continue;
        }
        const target t = target_of(op, labels, d9_shape_rows(shape), n);
        const d9_loss_row_double row = loss_row_of(how, z, d9_shape_channels(shape), &t);
        for (int64_t k = 0; k < d9_shape_channels(shape); k++)
            dlogits[n * d9_shape_channels(shape) + k] =
                t.weight * d9_loss_slope_double((int)how->loss, z[k], target_at(how, &t, k), &row);
    }
done:
    return status;
}

/* ---- metrics, f64 (4): see D9_BUFFER_METRICS ---- */

d9_status d9_reference_METRICS(const d9_reference_op *op) {
    const d9_shape *shape = &d9_reference_in(op, 1)->shape; /* (N, classes) */
    const int32_t *labels = d9_site_data(op->site, op->node->inputs[2]);
    const bool multi_label = d9_loss_multi_label((int)op->node->as.loss.loss) != 0;
    double *metrics = op->out[0];
    const double *loss = op->in[0], *logits = op->in[1];
    for (int64_t n = 0; n < d9_shape_rows(shape); n++) {
        metrics[0] += loss[n];
        metrics[1] += labels[n] >= 0;
        metrics[2] +=
            !multi_label && d9_argmax(logits + n * d9_shape_channels(shape), d9_shape_channels(shape)) == labels[n];
        if (!isfinite(loss[n]) && !(metrics[3] > 0)) metrics[3] = (double)(op->step + 1);
    }
    return D9_OK;
}
