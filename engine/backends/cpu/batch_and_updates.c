/* CPU rules for the nodes that make, mix and rank the batch (tokens: recur.c), add up and clip gradients, update
 * parameters, and average or copy buffers. */
#include "backends/cpu/cpu.h"
#include "kernels/formulas/rank.h"

static d9_status run_augment(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_node *node = site->nodes[0];
    const d9_batch_attributes *augment = &node->as.batch;
    const d9_shape *shape = &d9_site_value(site, node->inputs[0])->shape; /* (count, H, W, C) */
    d9_cpu_batch batch = {.images = d9_site_data(site, node->inputs[0]),
                          .draws = d9_site_data(site, node->inputs[2]),
                          .table = d9_site_data(site, node->inputs[3]),
                          .rule = &augment->rule,
                          .stored = (int)shape->d[3],
                          .channels = (int)d9_site_value(site, node->outputs[0])->shape.d[3]};
    D9_TRY(d9_host_order(context, site, 1, step, shape->d[0], &batch.order));
    d9_cpu_augment(d9_cpu_of(site), &batch, augment->count, d9_cpu_out(site, node->outputs[0]));
done:
    return status;
}

static d9_status run_rank(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_node *node = site->nodes[0];
    const int64_t count = node->as.batch.count;
    const float *losses = d9_site_data(site, node->inputs[0]);
    int32_t *ranked = d9_site_data(site, node->outputs[0]);
    const int32_t *order;
    D9_TRY(d9_host_order(context, site, 1, step, INT32_MAX, &order));
#pragma omp parallel for num_threads(site->threads) schedule(static)
    for (int64_t i = 0; i < count; i++) ranked[d9_rank_of(losses, count, i)] = order[i];
done:
    return status;
}

/* ---- gradients, updates, averages and copies of buffers, mixing of images ---- */

static d9_status run_update(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *node = site->nodes[0];
    const d9_update_attributes *update = &node->as.update;
    d9_cpu_update rule = {.update = (int)update->update,
                          .rate = (float)d9_coefficient_at(site->program, &update->rate, step),
                          .decay = (float)d9_coefficient_at(site->program, &update->decay, step),
                          .share = (float)d9_coefficient_at(site->program, &update->mean_factor, step)};
    float *state[D9_UPDATE_STATES] = {NULL};
    (void)context;
    for (int i = 0; i < D9_UPDATE_NUMBERS; i++) rule.numbers[i] = (float)update->numbers[i];
    for (int i = 0; i < D9_UPDATE_STATES; i++)
        rule.correction[i] = (float)d9_coefficient_at(site->program, &update->correction[i], step);
    for (int i = 0; i + 1 < node->output_count; i++) state[i] = d9_site_data(site, node->outputs[1 + i]);
    d9_cpu_update_group(d9_cpu_of(site), &rule, d9_site_data(site, node->inputs[1]),
                        d9_site_count(site, node->inputs[0]), d9_site_data(site, node->outputs[0]), state);
    return D9_OK;
}

static d9_cpu_orthogonal orthogonal_of(const d9_site *site, int64_t step) {
    const d9_node *node = site->nodes[0];
    const d9_update_attributes *update = &node->as.update;
    const d9_shape *filter = &d9_site_value(site, node->inputs[0])->shape;
    return (d9_cpu_orthogonal){.rows = filter->d[0],
                               .columns = d9_shape_count(filter) / filter->d[0],
                               .iterations = (int)update->numbers[1],
                               .renormalise = d9_coefficient_at(site->program, &update->renormalise, step) > 0,
                               .store = update->products == D9_BF16 ? D9_KERNEL_BF16 : D9_KERNEL_F32,
                               .momentum = (float)update->numbers[0],
                               .by = {(float)update->numbers[2], (float)update->numbers[3], (float)update->numbers[4]},
                               .rate = (float)d9_coefficient_at(site->program, &update->rate, step),
                               .decay = (float)d9_coefficient_at(site->program, &update->decay, step)};
}

static d9_status prepare_orthogonal(d9_context *context, d9_site *site) {
    const d9_cpu_orthogonal orthogonal = orthogonal_of(site, 0);
    return d9_cpu_reserve(context, d9_cpu_device_of(site),
                          d9_cpu_orthogonal_scratch_bytes(d9_cpu_of(site), &orthogonal));
}

static d9_status run_orthogonal(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *node = site->nodes[0];
    const d9_cpu_orthogonal orthogonal = orthogonal_of(site, step);
    (void)context;
    d9_cpu_orthogonal_update(d9_cpu_of(site), &orthogonal, d9_site_data(site, node->inputs[1]),
                             d9_cpu_device_of(site)->scratch, d9_site_data(site, node->outputs[0]),
                             d9_site_data(site, node->outputs[1]));
    return D9_OK;
}

static d9_status run_all_reduce(d9_context *context, const d9_site *site, int64_t step) {
    const d9_value_id gradient = site->nodes[0]->outputs[0];
    (void)step;
    return d9_parallel_sum(context, site->options->parallel, d9_site_data(site, gradient),
                           d9_site_count(site, gradient), false);
}

static d9_status prepare_clip(d9_context *context, d9_site *site) {
    const int64_t count = d9_site_count(site, site->nodes[0]->inputs[0]);
    return d9_cpu_reserve(context, d9_cpu_device_of(site), d9_cpu_clip_scratch_bytes(count));
}

static d9_status run_clip(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *node = site->nodes[0];
    (void)context;
    d9_cpu_clip(d9_cpu_of(site), d9_coefficient_at(site->program, &node->as.clip.mean_factor, step), node->as.clip.most,
                d9_site_count(site, node->inputs[0]), d9_cpu_device_of(site)->scratch,
                d9_site_data(site, node->outputs[0]));
    return D9_OK;
}

static d9_status run_lerp(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *node = site->nodes[0];
    (void)context;
    d9_cpu_lerp(d9_cpu_of(site), (float)d9_coefficient_at(site->program, &node->as.lerp.ratio, step),
                d9_site_data(site, node->inputs[1]), d9_site_count(site, node->inputs[0]),
                d9_site_data(site, node->outputs[0]));
    return D9_OK;
}

static d9_status run_copy(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *node = site->nodes[0];
    const int64_t element = (int64_t)d9_type_bytes(d9_site_value(site, node->inputs[0])->type);
    (void)context, (void)step;
    d9_cpu_copy(d9_cpu_of(site), d9_site_data(site, node->inputs[0]), d9_site_count(site, node->inputs[0]) * element,
                d9_site_data(site, node->outputs[0]));
    return D9_OK;
}

static d9_status run_mix(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *node = site->nodes[0];
    const d9_shape *shape = &d9_site_value(site, node->inputs[0])->shape;
    (void)context;
    d9_cpu_mix(d9_cpu_of(site), d9_cpu_in(site, node->inputs[0]),
               (float)d9_coefficient_at(site->program, &node->as.mix.share, step), shape->d[0],
               d9_shape_count(shape) / shape->d[0], d9_cpu_out(site, node->outputs[0]));
    return D9_OK;
}

static bool paste_match(const d9_site *site) {
    const d9_node *node = site->nodes[0];
    return d9_cpu_types_fit(site) &&
           d9_site_value(site, node->inputs[0])->type == d9_site_value(site, node->outputs[0])->type;
}

static d9_status run_paste(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *node = site->nodes[0];
    const d9_shape *shape = &d9_site_value(site, node->inputs[0])->shape;
    const d9_paste_attributes *box = &node->as.paste;
    const d9_cpu_box place = {.top = (int64_t)d9_coefficient_at(site->program, &box->top, step),
                              .left = (int64_t)d9_coefficient_at(site->program, &box->left, step),
                              .bottom = (int64_t)d9_coefficient_at(site->program, &box->bottom, step),
                              .right = (int64_t)d9_coefficient_at(site->program, &box->right, step)};
    (void)context;
    d9_cpu_paste(d9_cpu_of(site), d9_cpu_in(site, node->inputs[0]), &place, shape->d,
                 d9_cpu_out(site, node->outputs[0]));
    return D9_OK;
}

/* ---- the table ---- */

const d9_rule d9_cpu_batch_and_update_rules[] = {
    D9_PLAIN_RULE(D9_OP_DRAW, "draw", NULL, d9_host_draw),
    D9_PLAIN_RULE(D9_OP_AUGMENT, "augment", d9_cpu_types_fit, run_augment),
    D9_PLAIN_RULE(D9_OP_GATHER, "gather", NULL, d9_host_gather_labels),
    D9_PLAIN_RULE(D9_OP_MIX, "mix", d9_cpu_types_fit, run_mix),
    D9_PLAIN_RULE(D9_OP_PASTE, "paste", paste_match, run_paste),
    D9_PLAIN_RULE(D9_OP_RANK, "rank", d9_site_types_f32, run_rank),
    D9_PLAIN_RULE(D9_OP_ALL_REDUCE, "all_reduce", d9_site_types_f32, run_all_reduce),
    D9_PREPARED_RULE(D9_OP_CLIP, "clip", d9_site_types_f32, prepare_clip, run_clip),
    D9_PLAIN_RULE(D9_OP_UPDATE, "update", d9_site_types_f32, run_update),
    D9_PREPARED_RULE(D9_OP_ORTHOGONAL_UPDATE, "orthogonal_update", d9_site_types_f32, prepare_orthogonal,
                     run_orthogonal),
    D9_PLAIN_RULE(D9_OP_LERP, "lerp", d9_site_types_f32, run_lerp),
    D9_PLAIN_RULE(D9_OP_COPY, "copy", NULL, run_copy),
    {.name = NULL},
};
