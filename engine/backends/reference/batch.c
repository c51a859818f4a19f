/* Operations that make the batch: draws, augmentation, mixing and pasting, labels, ranking. The order buffer holds a
 * whole epoch; step s reads it from (s mod steps_per_epoch) * batch on. Step numbers count batches. */
#include "backends/reference/reference.h"
#include "core/system.h"
#include "kernels/formulas/rank.h"

d9_status d9_reference_DRAW(const d9_reference_op *op) { return d9_host_draw(op->context, op->site, op->step); }

d9_status d9_reference_GATHER(const d9_reference_op *op) {
    return d9_host_gather_labels(op->context, op->site, op->step);
}

/* Augments one sample: image (H, W, stored) bytes -> out (out_height, out_width, C), by table (C, 256). The one channel
 * of a grey sample becomes all C. */
static void augment_sample(const uint8_t *image, const d9_augment_rule *rule, int stored, int channels,
                           const int32_t *draws, const double *table, double *out) {
    const bool colours = d9_augment_changes_colours(rule) != 0;
    for (int y = 0; y < rule->out_height; y++)
        for (int x = 0; x < rule->out_width; x++, out += channels) {
            int bytes[D9_AUGMENT_CHANNELS] = {0};
            float pixel[D9_AUGMENT_CHANNELS];
            const bool empty = !d9_augment_bytes(true, rule, image, stored, channels, draws, y, x, bytes) ||
                               d9_augment_cuts(rule, draws, y, x);
            for (int c = 0; c < channels; c++) pixel[c] = (float)(out[c] = table[c * 256 + bytes[c]]);
            d9_augment_colour(rule, draws, channels, pixel);
            for (int c = 0; c < channels; c++) out[c] = empty ? 0 : colours ? (double)pixel[c] : out[c];
        }
}

d9_status d9_reference_AUGMENT(const d9_reference_op *op) {
    d9_status status;
    const d9_batch_attributes *augment = &op->node->as.batch;
    const d9_shape *shape = &d9_reference_in(op, 0)->shape, /* (count, H, W, C) */
        *batch = &d9_reference_out(op)->shape;
    const uint8_t *images = d9_site_data(op->site, op->node->inputs[0]);
    const int32_t *draws = d9_site_data(op->site, op->node->inputs[2]), *order;
    const int64_t pixels = d9_shape_count(shape) / shape->d[0], made = d9_shape_count(batch) / batch->d[0];
    const double *table = op->in[3];
    double *out = op->out[0];
    D9_TRY(d9_host_order(op->context, op->site, 1, op->step, shape->d[0], &order));
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t i = 0; i < augment->count; i++)
        augment_sample(images + order[i] * pixels, &augment->rule, (int)shape->d[3], (int)batch->d[3],
                       draws + i * D9_DRAW_SLOTS, table, out + i * made);
done:
    return status;
}

d9_status d9_reference_MIX(const d9_reference_op *op) {
    const d9_shape *shape = &d9_reference_in(op, 0)->shape; /* (N, ...) */
    const double share = d9_reference_coefficient(op, &op->node->as.mix.share);
    const int64_t images = shape->d[0], size = d9_shape_count(shape) / images;
    const double *x = op->in[0];
    double *y = op->out[0];
    for (int64_t n = 0; n < images; n++)
        for (int64_t i = 0; i < size; i++)
            y[n * size + i] = share * x[n * size + i] + (1 - share) * x[(images - 1 - n) * size + i];
    return D9_OK;
}

d9_status d9_reference_PASTE(const d9_reference_op *op) {
    const d9_shape *shape = &d9_reference_in(op, 0)->shape; /* (N, H, W, C) */
    const d9_paste_attributes *box = &op->node->as.paste;
    const double top = d9_reference_coefficient(op, &box->top), left = d9_reference_coefficient(op, &box->left),
                 bottom = d9_reference_coefficient(op, &box->bottom), right = d9_reference_coefficient(op, &box->right);
    const int64_t images = shape->d[0], size = d9_shape_count(shape) / images;
    const double *x = op->in[0];
    double *to = op->out[0];
    for (int64_t n = 0; n < images; n++)
        for (int64_t i = 0; i < size; i++) {
            const int64_t row = i / (shape->d[2] * shape->d[3]), column = i / shape->d[3] % shape->d[2];
            const bool inside =
                (double)row >= top && (double)row < bottom && (double)column >= left && (double)column < right;
            to[n * size + i] = x[(inside ? images - 1 - n : n) * size + i];
        }
    return D9_OK;
}

d9_status d9_reference_RANK(const d9_reference_op *op) {
    d9_status status;
    const int64_t count = op->node->as.batch.count;
    int32_t *ranked = d9_site_data(op->site, op->node->outputs[0]);
    const int32_t *order;
    const double *wide = op->in[0];
    float *losses = NULL;
    D9_TRY(d9_host_order(op->context, op->site, 1, op->step, INT32_MAX, &order));
    D9_TRY(D9_ALLOCATE(op->context, count, "losses", &losses));
    for (int64_t i = 0; i < count; i++) losses[i] = (float)wide[i];
    for (int64_t i = 0; i < count; i++) ranked[d9_rank_of(losses, count, i)] = order[i];
done:
    d9_release(op->context, losses);
    return status;
}
