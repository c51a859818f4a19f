/* CPU rules for elementwise operations, pools, dropout, concatenation, slices, linear layers, the loss and metrics. */
#include "backends/cpu/cpu.h"

static d9_value_id input(const d9_site *site, int i) { return site->nodes[0]->inputs[i]; }
static d9_value_id output(const d9_site *site, int i) { return site->nodes[0]->outputs[i]; }

static d9_kernel_in in(const d9_site *site, int i) { return d9_cpu_in(site, input(site, i)); }
static d9_kernel_out out(const d9_site *site) { return d9_cpu_out(site, output(site, 0)); }
static int64_t count(const d9_site *site) { return d9_site_count(site, input(site, 0)); }

/* Defines run_NAME, the run function of a rule that calls one kernel; `...`: the kernel's arguments after d9_cpu. */
#define RUN(name, kernel, ...)                                                                                         \
    static d9_status run_##name(d9_context *context, const d9_site *site, int64_t step) {                              \
        (void)context, (void)step;                                                                                     \
        kernel(d9_cpu_of(site), __VA_ARGS__);                                                                          \
        return D9_OK;                                                                                                  \
    }

RUN(cast, d9_cpu_cast, in(site, 0), count(site), out(site))
RUN(add, d9_cpu_add, in(site, 0), in(site, 1), count(site), out(site))
RUN(scale, d9_cpu_scale, in(site, 0), (float)site->nodes[0]->as.scale.factor, count(site), out(site))
RUN(act, d9_cpu_act_forward, in(site, 0), d9_node_act(site->nodes[0]), count(site), out(site))
RUN(act_backward, d9_cpu_act_backward, in(site, 0), in(site, 1), d9_node_act(site->nodes[0]), count(site), out(site))

/* ---- pools ---- */

static const d9_kernel_window *window_of(const d9_site *site, d9_value_id x, d9_value_id y, d9_kernel_window *window) {
    const d9_shape *whole = &d9_site_value(site, x)->shape, *pooled = &d9_site_value(site, y)->shape;
    const d9_pool_attributes *pool = &site->nodes[0]->as.pool;
    *window = (d9_kernel_window){whole->d[0],  whole->d[1],  whole->d[2],  whole->d[3], pooled->d[1],
                                 pooled->d[2], pool->kernel, pool->stride, pool->pad};
    return window;
}

RUN(pool, d9_cpu_pool_forward, window_of(site, input(site, 0), output(site, 0), &(d9_kernel_window){0}), in(site, 0),
    out(site))
RUN(pool_backward, d9_cpu_pool_backward, window_of(site, input(site, 1), input(site, 0), &(d9_kernel_window){0}),
    in(site, 0), in(site, 1), out(site))

RUN(mean_pool, d9_cpu_mean_pool_forward, window_of(site, input(site, 0), output(site, 0), &(d9_kernel_window){0}),
    in(site, 0), out(site))
RUN(mean_pool_backward, d9_cpu_mean_pool_backward,
    window_of(site, output(site, 0), input(site, 0), &(d9_kernel_window){0}), in(site, 0), out(site))

/* ---- dropout, concatenation, slices ---- */

static d9_status run_dropout(d9_context *context, const d9_site *site, int64_t step) {
    const d9_dropout dropout = d9_site_dropout(site, step);
    (void)context;
    d9_cpu_dropout(d9_cpu_of(site), in(site, 0), &dropout, count(site), out(site));
    return D9_OK;
}

/* Bytes of all channels of a pixel, or of a row of (N, C). */
static int64_t pixel_bytes(const d9_site *site, d9_value_id id) {
    return d9_shape_channels(&d9_site_value(site, id)->shape) * d9_kernel_store_bytes(d9_cpu_store(site, id));
}

static d9_status run_concat(d9_context *context, const d9_site *site, int64_t step) {
    const int64_t whole = pixel_bytes(site, output(site, 0));
    char *to = d9_site_data(site, output(site, 0));
    (void)context, (void)step;
    for (int i = 0; i < 2; i++) {
        const int64_t bytes = pixel_bytes(site, input(site, i));
        const d9_cpu_block_copy runs = {d9_site_bytes(site, input(site, i)) / bytes, bytes, bytes, whole};
        d9_cpu_copy_blocks(d9_cpu_of(site), &runs, d9_site_data(site, input(site, i)), to);
        to += bytes;
    }
    return D9_OK;
}

static d9_status run_slice(d9_context *context, const d9_site *site, int64_t step) {
    const int64_t bytes = pixel_bytes(site, output(site, 0)), whole = pixel_bytes(site, input(site, 0));
    const int64_t element = d9_kernel_store_bytes(d9_cpu_store(site, input(site, 0)));
    const char *from = d9_site_data(site, input(site, 0));
    const d9_cpu_block_copy runs = {d9_site_bytes(site, output(site, 0)) / bytes, bytes, whole, bytes};
    (void)context, (void)step;
    d9_cpu_copy_blocks(d9_cpu_of(site), &runs, from + site->nodes[0]->as.slice.offset * element,
                       d9_site_data(site, output(site, 0)));
    return D9_OK;
}

/* ---- linear layers ---- */

/* Sets *linear, and returns it: the sizes of a linear layer with this weight (O, I) or weight gradient. `y`: the
 * layer's output or its gradient, with a row per image or token. */
static const d9_kernel_linear *linear_of(const d9_site *site, d9_value_id weight, d9_value_id y,
                                         d9_kernel_linear *linear) {
    const d9_shape *w = &d9_site_value(site, weight)->shape;
    *linear = (d9_kernel_linear){d9_site_count(site, y) / w->d[0], w->d[1], w->d[0]};
    return linear;
}

/* The bias (O), if the site has a bias node after its linear layer; otherwise NULL. */
static const float *bias_of(const d9_site *site) {
    return site->node_count > 1 ? d9_site_data(site, site->nodes[1]->inputs[1]) : NULL;
}

static bool linear_bias_match(const d9_site *site) {
    const d9_node *linear = site->nodes[0], *bias = site->nodes[1];
    return d9_cpu_types_fit(site) && bias->inputs[0] == linear->outputs[0] &&
           d9_site_internal(site, linear->outputs[0]);
}

#define LINEAR(name, kernel, weight, y, ...)                                                                           \
    static d9_status prepare_##name(d9_context *context, d9_site *site) {                                              \
        const d9_kernel_linear *shape = linear_of(site, weight, y, &(d9_kernel_linear){0});                            \
        return d9_cpu_reserve(context, d9_cpu_device_of(site), d9_cpu_linear_scratch_bytes(d9_cpu_of(site), shape));   \
    }                                                                                                                  \
    RUN(name, kernel, linear_of(site, weight, y, &(d9_kernel_linear){0}), __VA_ARGS__,                                 \
        d9_cpu_device_of(site)->scratch, d9_cpu_out(site, site->nodes[site->node_count - 1]->outputs[0]))
LINEAR(linear, d9_cpu_linear_forward, input(site, 1), output(site, 0), in(site, 0), in(site, 1), bias_of(site))
LINEAR(linear_backward_data, d9_cpu_linear_backward_data, input(site, 1), input(site, 0), in(site, 0), in(site, 1))
LINEAR(linear_backward_weight, d9_cpu_linear_backward_weight, output(site, 0), input(site, 0), in(site, 0), in(site, 1))

/* ---- loss and metrics ---- */

/* Reserves scratch as for dlogits in bf16, the type that needs the most, even if the site computes none. */
static d9_status prepare_loss(d9_context *context, d9_site *site) {
    const d9_kernel_loss shape = d9_site_loss(site, input(site, 0));
    return d9_cpu_reserve(context, d9_cpu_device_of(site),
                          d9_cpu_loss_scratch_bytes(d9_cpu_of(site), &shape, D9_KERNEL_BF16));
}

/* Runs LOSS, LOSS_BACKWARD and METRICS, or some of them, in one pass over the rows of logits. */
static d9_status run_loss(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_node *metrics = NULL;
    int64_t correct = 0;
    d9_cpu_loss loss = {.correct = &correct};
    for (int n = 0; n < site->node_count; n++) {
        const d9_node *node = site->nodes[n];
        if (node->op == D9_OP_LOSS) loss.loss = d9_site_data(site, node->outputs[0]);
        if (node->op == D9_OP_LOSS_BACKWARD) loss.dlogits = d9_cpu_out(site, node->outputs[0]);
        if (node->op == D9_OP_METRICS) metrics = node;
    }
    loss.shape = d9_site_loss(site, input(site, 0));
    loss.shape.share = d9_coefficient_at(site->program, &site->nodes[0]->as.loss.share, step);
    loss.weights = d9_class_weights(site->program, site->nodes[0]);
    loss.logits = d9_site_data(site, input(site, 0));
    loss.labels = d9_site_data(site, input(site, 1));
    D9_TRY(d9_host_check_labels(context, site, loss.labels, loss.shape.samples, loss.shape.classes));
    d9_cpu_loss_run(d9_cpu_of(site), &loss, d9_cpu_device_of(site)->scratch);
    if (metrics)
        d9_cpu_metrics(&loss.shape, loss.loss, loss.labels, correct, step, d9_site_data(site, metrics->outputs[0]));
done:
    return status;
}

static d9_status run_metrics(d9_context *context, const d9_site *site, int64_t step) {
    const d9_kernel_loss shape = d9_site_loss(site, input(site, 1));
    const int32_t *labels = d9_site_data(site, input(site, 2));
    (void)context;
    d9_cpu_metrics(&shape, d9_site_data(site, input(site, 0)), labels,
                   d9_cpu_correct(d9_cpu_of(site), &shape, d9_site_data(site, input(site, 1)), labels), step,
                   d9_site_data(site, output(site, 0)));
    return D9_OK;
}

/* ---- the table ---- */

static bool loss_match(const d9_site *site) { return d9_loss_chain_fits(site) && d9_cpu_types_fit(site); }

#define LOSS_RULE(rule_name, count, ...)                                                                               \
    {                                                                                                                  \
        .name = rule_name, .node_count = count, .ops = {__VA_ARGS__}, .match = loss_match, .prepare = prepare_loss,    \
        .run = run_loss                                                                                                \
    }
#define LINEAR_RULE(operation, rule) D9_PREPARED_RULE(operation, #rule, d9_cpu_types_fit, prepare_##rule, run_##rule)

const d9_rule d9_cpu_layer_rules[] = {
    D9_PLAIN_RULE(D9_OP_CAST, "cast", d9_cpu_types_fit, run_cast),
    D9_PLAIN_RULE(D9_OP_ACT, "act", d9_cpu_types_fit, run_act),
    D9_PLAIN_RULE(D9_OP_ACT_BACKWARD, "act_backward", d9_cpu_types_fit, run_act_backward),
    D9_PLAIN_RULE(D9_OP_POOL, "pool", d9_cpu_types_fit, run_pool),
    D9_PLAIN_RULE(D9_OP_POOL_BACKWARD, "pool_backward", d9_cpu_types_fit, run_pool_backward),
    D9_PLAIN_RULE(D9_OP_MEAN_POOL, "mean_pool", d9_cpu_types_fit, run_mean_pool),
    D9_PLAIN_RULE(D9_OP_MEAN_POOL_BACKWARD, "mean_pool_backward", d9_cpu_types_fit, run_mean_pool_backward),
    D9_PLAIN_RULE(D9_OP_DROPOUT, "dropout", d9_cpu_types_fit, run_dropout),
    D9_PLAIN_RULE(D9_OP_CONCAT, "concat", d9_cpu_types_fit, run_concat),
    D9_PLAIN_RULE(D9_OP_SLICE, "slice", d9_cpu_types_fit, run_slice),
    D9_PLAIN_RULE(D9_OP_ADD, "add", d9_cpu_types_fit, run_add),
    {.name = "linear+bias",
     .node_count = 2,
     .ops = {D9_OP_LINEAR, D9_OP_BIAS},
     .match = linear_bias_match,
     .prepare = prepare_linear,
     .run = run_linear},
    LINEAR_RULE(D9_OP_LINEAR, linear),
    LINEAR_RULE(D9_OP_LINEAR_BACKWARD_DATA, linear_backward_data),
    LINEAR_RULE(D9_OP_LINEAR_BACKWARD_WEIGHT, linear_backward_weight),
    D9_PLAIN_RULE(D9_OP_SCALE, "scale", d9_cpu_types_fit, run_scale),
    LOSS_RULE("loss+metrics+loss_backward", 3, D9_OP_LOSS, D9_OP_METRICS, D9_OP_LOSS_BACKWARD),
    LOSS_RULE("loss+metrics", 2, D9_OP_LOSS, D9_OP_METRICS),
    LOSS_RULE("loss", 1, D9_OP_LOSS),
    LOSS_RULE("loss_backward", 1, D9_OP_LOSS_BACKWARD),
    D9_PLAIN_RULE(D9_OP_METRICS, "metrics", d9_metrics_fit, run_metrics),
    {.name = NULL},
};
