/* CUDA rules for the nodes that make, mix and rank the batch, clip gradients, update parameters, and average or copy
 * buffers. */
#include "backends/cuda/cuda.h"

#include <string.h>

static d9_cuda_slice slice_of(const d9_site *site, d9_value_id order, const d9_batch_attributes *batch) {
    return (d9_cuda_slice){d9_site_data(site, order), d9_cuda_of(site)->step, batch->batch, batch->count,
                           batch->steps_per_epoch};
}

D9_CUDA_RUN(draw) {
    const d9_node *node = site->nodes[0];
    const d9_cuda_slice slice = slice_of(site, node->inputs[0], &node->as.batch);
    (void)step;
    return d9_cuda_check(
        context, site,
        d9_cuda_draw(d9_cuda_stream_of(site), &slice, &node->as.batch.rule, d9_site_data(site, node->outputs[0])));
}

/* `draws` NULL: the kernel makes the random draws itself, by the node's augmentation rule. */
static d9_status augment(d9_context *context, const d9_site *site, const d9_node *node, const int32_t *draws) {
    const d9_cuda_slice slice = slice_of(site, node->inputs[1], &node->as.batch);
    const d9_cuda_batch batch = {.images = d9_site_data(site, node->inputs[0]),
                                 .table = d9_site_data(site, node->inputs[3]),
                                 .draws = draws,
                                 .rule = node->as.batch.rule,
                                 .stored = (int)d9_site_value(site, node->inputs[0])->shape.d[3],
                                 .channels = (int)d9_site_value(site, node->outputs[0])->shape.d[3]};
    return d9_cuda_check(
        context, site,
        d9_cuda_augment(d9_cuda_stream_of(site), &slice, &batch, d9_cuda_output(site, node->outputs[0])));
}

D9_CUDA_RUN(augment) {
    const d9_node *node = site->nodes[0];
    (void)step;
    return augment(context, site, node, d9_site_data(site, node->inputs[2]));
}

/* True if both nodes have equal batch, order and augmentation, the types fit, and no other node reads the draws. */
bool d9_cuda_draw_augment_match(const d9_site *site) {
    const d9_node *draw = site->nodes[0], *augment = site->nodes[1];
    const d9_batch_attributes *drawn = &draw->as.batch, *used = &augment->as.batch;
    return augment->inputs[2] == draw->outputs[0] && d9_site_internal(site, draw->outputs[0]) &&
           augment->inputs[1] == draw->inputs[0] && drawn->batch == used->batch && drawn->count == used->count &&
           drawn->steps_per_epoch == used->steps_per_epoch &&
           memcmp(&drawn->rule, &used->rule, sizeof drawn->rule) == 0 &&
           d9_cuda_storable(d9_site_value(site, augment->outputs[0])->type) &&
           d9_site_value(site, augment->inputs[3])->type == D9_F32;
}

D9_CUDA_RUN(draw_augment) {
    (void)step;
    return augment(context, site, site->nodes[1], NULL);
}

D9_CUDA_RUN(gather) {
    const d9_node *node = site->nodes[0];
    const d9_cuda_slice slice = slice_of(site, node->inputs[1], &node->as.batch);
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_gather_labels(d9_cuda_stream_of(site), &slice, d9_site_data(site, node->inputs[0]),
                                               d9_site_data(site, node->outputs[0])));
}

D9_CUDA_RUN(tokens) {
    const d9_node *node = site->nodes[0];
    const d9_cuda_slice slice = slice_of(site, node->inputs[1], &node->as.batch);
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_gather_tokens(d9_cuda_stream_of(site), &slice, d9_site_data(site, node->inputs[0]),
                                               d9_site_value(site, node->outputs[0])->shape.d[0],
                                               d9_site_data(site, node->outputs[0])));
}

D9_CUDA_RUN(stream) {
    const d9_node *node = site->nodes[0];
    const d9_batch_attributes *stream = &node->as.batch;
    const int64_t length = stream->samples / stream->batch; /* columns first, first + batch / count, ... are read */
    const d9_cuda_corpus corpus = {.tokens =
                                       (const int32_t *)d9_site_data(site, node->inputs[0]) + stream->first * length,
                                   .step = d9_cuda_of(site)->step,
                                   .columns = stream->count,
                                   .length = length,
                                   .time = d9_site_value(site, node->outputs[0])->shape.d[0],
                                   .steps_per_epoch = stream->steps_per_epoch,
                                   .apart = stream->batch / stream->count * length};
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_read_corpus(d9_cuda_stream_of(site), &corpus, d9_site_data(site, node->outputs[0]),
                                             d9_site_data(site, node->outputs[1])));
}

D9_CUDA_RUN(rank) {
    const d9_node *node = site->nodes[0];
    const d9_cuda_slice slice = slice_of(site, node->inputs[1], &node->as.batch);
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_rank(d9_cuda_stream_of(site), &slice, d9_site_data(site, node->inputs[0]),
                                      d9_site_data(site, node->outputs[0])));
}

D9_CUDA_RUN(mix) {
    const d9_node *node = site->nodes[0];
    const d9_shape *shape = &d9_site_value(site, node->inputs[0])->shape;
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_mix(d9_cuda_stream_of(site), d9_cuda_input(site, node->inputs[0]),
                                     d9_cuda_coefficient_of(site, &node->as.mix.share), d9_cuda_of(site)->step,
                                     shape->d[0], d9_shape_count(shape) / shape->d[0],
                                     d9_cuda_output(site, node->outputs[0])));
}

D9_CUDA_RUN(paste) {
    const d9_node *node = site->nodes[0];
    const d9_shape *shape = &d9_site_value(site, node->inputs[0])->shape; /* (N, H, W, C) */
    const d9_paste_attributes *box = &node->as.paste;
    const d9_cuda_paste paste = {.top = d9_cuda_coefficient_of(site, &box->top),
                                 .left = d9_cuda_coefficient_of(site, &box->left),
                                 .bottom = d9_cuda_coefficient_of(site, &box->bottom),
                                 .right = d9_cuda_coefficient_of(site, &box->right),
                                 .step = d9_cuda_of(site)->step,
                                 .images = shape->d[0],
                                 .height = shape->d[1],
                                 .width = shape->d[2],
                                 .channels = shape->d[3]};
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_paste_box(d9_cuda_stream_of(site), &paste, d9_cuda_input(site, node->inputs[0]),
                                           d9_cuda_output(site, node->outputs[0])));
}

/* ---- clipping of gradients, updates, averages and copies of buffers ---- */

d9_status d9_cuda_prepare_clip(d9_context *context, d9_site *site) {
    const int64_t count = d9_site_count(site, site->nodes[0]->inputs[0]);
    return d9_cuda_reserve_scratch(context, d9_cuda_of(site), d9_cuda_clip_scratch_bytes(count));
}

D9_CUDA_RUN(clip) {
    const d9_node *node = site->nodes[0];
    const d9_cuda_clip clip = {.share = d9_cuda_coefficient_of(site, &node->as.clip.mean_factor),
                               .most = node->as.clip.most,
                               .step = d9_cuda_of(site)->step,
                               .guard = d9_cuda_of(site)->guard};
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_clip_gradient(d9_cuda_stream_of(site), &clip, d9_site_count(site, node->inputs[0]),
                                               d9_cuda_of(site)->scratch, d9_site_data(site, node->outputs[0])));
}

D9_CUDA_RUN(update) {
    const d9_node *node = site->nodes[0];
    const d9_update_attributes *update = &node->as.update;
    d9_cuda_update rule = {.update = (int)update->update,
                           .rate = d9_cuda_coefficient_of(site, &update->rate),
                           .decay = d9_cuda_coefficient_of(site, &update->decay),
                           .share = d9_cuda_coefficient_of(site, &update->mean_factor),
                           .step = d9_cuda_of(site)->step,
                           .guard = d9_cuda_of(site)->guard};
    float *state[D9_UPDATE_STATES] = {NULL};
    (void)step;
    for (int i = 0; i < D9_UPDATE_NUMBERS; i++) rule.numbers[i] = (float)update->numbers[i];
    for (int i = 0; i < D9_UPDATE_STATES; i++)
        rule.correction[i] = d9_cuda_coefficient_of(site, &update->correction[i]);
    for (int i = 0; i + 1 < node->output_count; i++) state[i] = d9_site_data(site, node->outputs[1 + i]);
    return d9_cuda_check(context, site,
                         d9_cuda_update_group(d9_cuda_stream_of(site), &rule, d9_cuda_input(site, node->inputs[1]),
                                              d9_site_count(site, node->inputs[0]),
                                              d9_site_data(site, node->outputs[0]), state));
}

D9_CUDA_RUN(lerp) {
    const d9_node *node = site->nodes[0];
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_lerp(d9_cuda_stream_of(site), d9_cuda_coefficient_of(site, &node->as.lerp.ratio),
                                      d9_cuda_of(site)->step, d9_site_data(site, node->inputs[1]),
                                      d9_site_count(site, node->inputs[0]), d9_site_data(site, node->outputs[0])));
}

D9_CUDA_RUN(copy) {
    const d9_node *node = site->nodes[0];
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_copy(d9_cuda_stream_of(site), d9_site_data(site, node->inputs[0]),
                                      d9_site_bytes(site, node->inputs[0]), d9_site_data(site, node->outputs[0])));
}
