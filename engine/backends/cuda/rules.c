/* The table of all rules but those of moments.c, and the rules without a file of their own. Most of these rules call
 * one launcher; convolutions call d9_cuda.convolver, which is cuDNN (conv_cudnn.c). */
#include "backends/cuda/conv_description.h"
#include "backends/cuda/cuda.h"

static d9_value_id input(const d9_site *site, int i) { return site->nodes[0]->inputs[i]; }
static d9_value_id output(const d9_site *site, int i) { return site->nodes[0]->outputs[i]; }
static d9_kernel_in in(const d9_site *site, int i) { return d9_cuda_input(site, input(site, i)); }
static d9_kernel_out out(const d9_site *site) { return d9_cuda_output(site, output(site, 0)); }
static void *data(const d9_site *site, int i) { return d9_site_data(site, input(site, i)); }
static int64_t count(const d9_site *site) { return d9_site_count(site, input(site, 0)); }

/* Defines run_NAME, the run function of a rule that calls one launcher on the site's stream; `...`: the launcher's
 * other arguments. */
#define RULE(name, launcher, ...)                                                                                      \
    static d9_status run_##name(d9_context *context, const d9_site *site, int64_t step) {                              \
        (void)step;                                                                                                    \
        return d9_cuda_check(context, site, launcher(d9_cuda_stream_of(site), __VA_ARGS__));                           \
    }

/* ---- elementwise ---- */

RULE(cast, d9_cuda_cast, in(site, 0), count(site), out(site))
RULE(add, d9_cuda_add, in(site, 0), in(site, 1), count(site), out(site))
RULE(scale, d9_cuda_scale, in(site, 0), (float)site->nodes[0]->as.scale.factor, count(site), out(site))
RULE(act, d9_cuda_act_forward, in(site, 0), d9_node_act(site->nodes[0]), count(site), out(site))
RULE(act_backward, d9_cuda_act_backward, in(site, 0), in(site, 1), d9_node_act(site->nodes[0]), count(site), out(site))

/* ---- pools ---- */

d9_kernel_window d9_cuda_window_of(const d9_site *site, const d9_node *pool) {
    const bool backward = pool->op == D9_OP_POOL_BACKWARD || pool->op == D9_OP_MEAN_POOL_BACKWARD;
    const d9_shape *whole = &d9_site_value(site, backward ? pool->outputs[0] : pool->inputs[0])->shape;
    const d9_shape *pooled = &d9_site_value(site, backward ? pool->inputs[0] : pool->outputs[0])->shape;
    return (d9_kernel_window){.images = whole->d[0],
                              .height = whole->d[1],
                              .width = whole->d[2],
                              .channels = whole->d[3],
                              .out_height = pooled->d[1],
                              .out_width = pooled->d[2],
                              .kernel = pool->as.pool.kernel,
                              .stride = pool->as.pool.stride,
                              .pad = pool->as.pool.pad};
}

#define POOL(name, ...)                                                                                                \
    static d9_status run_##name(d9_context *context, const d9_site *site, int64_t step) {                              \
        const d9_kernel_window window = d9_cuda_window_of(site, site->nodes[0]);                                       \
        (void)step;                                                                                                    \
        return d9_cuda_check(context, site, d9_cuda_##name(d9_cuda_stream_of(site), &window, __VA_ARGS__));            \
    }
POOL(pool_forward, in(site, 0), out(site))
POOL(pool_backward, in(site, 0), in(site, 1), out(site))
POOL(mean_pool_forward, in(site, 0), out(site))
POOL(mean_pool_backward, in(site, 0), out(site))

/* ---- concatenation and slices of channels ---- */

static int64_t channels_of(const d9_site *site, d9_value_id id) {
    return d9_shape_channels(&d9_site_value(site, id)->shape);
}
static int64_t channels(const d9_site *site, int i) { return channels_of(site, input(site, i)); }
static int64_t rows(const d9_site *site) { return count(site) / channels(site, 0); }

RULE(concat, d9_cuda_concat, in(site, 0), in(site, 1), rows(site), channels(site, 0), channels(site, 1), out(site))
RULE(slice, d9_cuda_slice_channels, in(site, 0), rows(site), channels(site, 0), site->nodes[0]->as.slice.offset,
     channels_of(site, output(site, 0)), out(site))

/* ---- bias with an optional activation; its gradient, optionally after that of the activation ---- */

static bool bias_match(const d9_site *site) { return d9_chain_fits(site, d9_cuda_storable); }

static d9_status run_bias(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *last = site->nodes[site->node_count - 1];
    const d9_kernel_act act = d9_node_act(site->node_count > 1 ? last : NULL);
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_bias_forward(d9_cuda_stream_of(site), in(site, 0), data(site, 1), act, rows(site),
                                              channels(site, 0), d9_cuda_output(site, last->outputs[0])));
}

static bool bias_backward_match(const d9_site *site) {
    return d9_chain_backward_fits(site, d9_cuda_storable) &&
           d9_site_value(site, site->nodes[site->node_count - 1]->outputs[0])->type == D9_F32;
}

static d9_status prepare_bias_backward(d9_context *context, d9_site *site) {
    return d9_cuda_reserve_scratch(context, d9_cuda_of(site),
                                   d9_cuda_bias_scratch_bytes(rows(site), channels(site, 0)));
}

static d9_status run_bias_backward(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *last = site->nodes[site->node_count - 1], *act = site->node_count > 1 ? site->nodes[0] : NULL;
    d9_cuda_prologue before = {.act = d9_node_act(act)};
    if (act) before.reference = in(site, 1);
    if (act && !d9_site_internal(site, output(site, 0))) before.dz = out(site);
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_bias_backward(d9_cuda_stream_of(site), in(site, 0), &before, rows(site),
                                               channels(site, 0), d9_cuda_of(site)->scratch,
                                               d9_site_data(site, last->outputs[0])));
}

/* ---- dropout: the step number is read on the device ---- */

static d9_status run_dropout(d9_context *context, const d9_site *site, int64_t step) {
    const d9_dropout dropout = d9_site_dropout(site, step);
    return d9_cuda_check(context, site,
                         d9_cuda_dropout(d9_cuda_stream_of(site), in(site, 0), &dropout, d9_cuda_of(site)->step,
                                         count(site), out(site)));
}

/* ---- linear layers that are small or have mixed types ---- */

#define LINEAR(name)                                                                                                   \
    static d9_status run_linear_##name(d9_context *context, const d9_site *site, int64_t step) {                       \
        const d9_kernel_linear shape = d9_cuda_linear_of(site);                                                        \
        (void)step;                                                                                                    \
        return d9_cuda_check(                                                                                          \
            context, site,                                                                                             \
            d9_cuda_linear_##name(d9_cuda_stream_of(site), &shape, in(site, 0), in(site, 1), out(site)));              \
    }
LINEAR(forward)
LINEAR(backward_data)
LINEAR(backward_weight)

/* ---- loss and metrics ---- */

/* Address on the device of the table of class weights; NULL: every class has weight 1. */
static const float *class_weights(const d9_site *site) {
    const int table = site->nodes[0]->as.loss.weights;
    return table == D9_NONE ? NULL : d9_cuda_of(site)->table[table];
}

static d9_status run_loss(d9_context *context, const d9_site *site, int64_t step) {
    const d9_kernel_loss shape = d9_site_loss(site, input(site, 0));
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_loss_forward(d9_cuda_stream_of(site), &shape,
                                              d9_cuda_coefficient_of(site, &site->nodes[0]->as.loss.share),
                                              d9_cuda_of(site)->step, class_weights(site), data(site, 0), data(site, 1),
                                              out(site).data));
}

static d9_status run_loss_backward(d9_context *context, const d9_site *site, int64_t step) {
    const d9_kernel_loss shape = d9_site_loss(site, input(site, 0));
    const d9_cuda_guard *guard = d9_cuda_of(site)->guard;
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_loss_backward(d9_cuda_stream_of(site), &shape,
                                               d9_cuda_coefficient_of(site, &site->nodes[0]->as.loss.share),
                                               d9_cuda_of(site)->step, class_weights(site), data(site, 0),
                                               data(site, 1), guard ? &guard->scale : NULL, out(site)));
}

static d9_status reserve_metrics(d9_context *context, const d9_site *site, d9_value_id logits) {
    const d9_kernel_loss shape = d9_site_loss(site, logits);
    return d9_cuda_reserve_scratch(context, d9_cuda_of(site), d9_cuda_metrics_scratch_bytes(&shape));
}

static d9_status prepare_metrics(d9_context *context, d9_site *site) {
    return reserve_metrics(context, site, input(site, 1));
}

static d9_status run_metrics(d9_context *context, const d9_site *site, int64_t step) {
    const d9_kernel_loss shape = d9_site_loss(site, input(site, 1));
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_metrics(d9_cuda_stream_of(site), &shape, data(site, 0), data(site, 1), data(site, 2),
                                         d9_cuda_of(site)->step, d9_cuda_of(site)->scratch,
                                         d9_site_data(site, output(site, 0))));
}

/* True if the loss has many classes and the nodes (loss, metrics, perhaps the gradient) form a chain
 * (d9_loss_chain_fits). */
static bool wide_loss_match(const d9_site *site) {
    const d9_kernel_loss shape = d9_site_loss(site, input(site, 0));
    return d9_loss_chain_fits(site) && d9_cuda_loss_is_wide(&shape);
}

static d9_status prepare_wide_loss(d9_context *context, d9_site *site) {
    return reserve_metrics(context, site, input(site, 0));
}

static d9_status run_wide_loss(d9_context *context, const d9_site *site, int64_t step) {
    const d9_kernel_loss shape = d9_site_loss(site, input(site, 0));
    const d9_cuda *cuda = d9_cuda_of(site);
    const d9_node *gradient = site->node_count > 2 ? site->nodes[2] : NULL;
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_loss_with_metrics(cuda->stream, &shape,
                                                   d9_cuda_coefficient_of(site, &site->nodes[0]->as.loss.share),
                                                   cuda->step, class_weights(site), data(site, 0), data(site, 1),
                                                   cuda->guard ? &cuda->guard->scale : NULL, cuda->scratch,
                                                   out(site).data, d9_site_data(site, site->nodes[1]->outputs[0]),
                                                   d9_cuda_output(site, gradient ? gradient->outputs[0] : D9_NONE)));
}

/* ---- convolutions, by d9_cuda.convolver ---- */

static const d9_cuda_convolver *convolver_of(const d9_site *site) { return d9_cuda_of(site)->convolver; }

static bool conv_match(const d9_site *site) { return convolver_of(site)->match(site); }
static d9_status conv_prepare(d9_context *context, d9_site *site) { return convolver_of(site)->prepare(context, site); }
static void conv_release(d9_context *context, d9_site *site) { convolver_of(site)->release(context, site); }
static d9_status conv_run(d9_context *context, const d9_site *site, int64_t step) {
    return convolver_of(site)->run(context, site, step);
}
static d9_status conv_benchmark(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *found) {
    return convolver_of(site)->benchmark(context, site, rows, capacity, found);
}

/* ---- the table ---- */

static bool not_f64(d9_type type) { return type != D9_F64; }
static bool types_fit(const d9_site *site) { return d9_site_types_fit(site, not_f64); }

static bool loss_backward_match(const d9_site *site) {
    return types_fit(site) && d9_site_value(site, input(site, 0))->type == D9_F32;
}

static bool rank_match(const d9_site *site) { return d9_site_value(site, input(site, 0))->type == D9_F32; }

/* The kernels require that input 3, the table that maps a pixel's byte to its value, is f32. */
static bool augment_match(const d9_site *site) {
    return d9_cuda_storable(d9_site_value(site, output(site, 0))->type) &&
           d9_site_value(site, input(site, 3))->type == D9_F32;
}

#define CONV(rule_op, rule_name, matches)                                                                              \
    {                                                                                                                  \
        .name = rule_name, .node_count = 1, .ops = {rule_op}, .match = matches, .prepare = conv_prepare,               \
        .run = conv_run, .release = conv_release, .benchmark = conv_benchmark                                          \
    }
#define LARGE_LINEAR(rule_op, rule_name)                                                                               \
    {                                                                                                                  \
        .name = rule_name, .node_count = 1, .ops = {rule_op}, .match = d9_cuda_large_linear_match,                     \
        .prepare = d9_cuda_large_linear_prepare, .run = d9_cuda_run_large_linear, .release = d9_cuda_product_release   \
    }
/* The kernels multiply in f32, whatever the types of the values. */
#define LINEAR_RULE(rule_op, rule_name, pass)                                                                          \
    {                                                                                                                  \
        .name = rule_name, .node_count = 1, .ops = {rule_op}, .in_f32 = true, .match = types_fit,                      \
        .run = run_linear_##pass                                                                                       \
    }
#define NORM(rule_name, count, ...)                                                                                    \
    {                                                                                                                  \
        .name = rule_name, .node_count = count, .ops = {__VA_ARGS__}, .match = d9_cuda_norm_match,                     \
        .prepare = d9_cuda_norm_prepare, .run = d9_cuda_run_norm, .release = d9_cuda_norm_release,                     \
        .benchmark = d9_cuda_norm_benchmark                                                                            \
    }
#define NORM_BACKWARD(rule_name, count, ...)                                                                           \
    {                                                                                                                  \
        .name = rule_name, .node_count = count, .ops = {__VA_ARGS__}, .match = d9_cuda_norm_backward_match,            \
        .prepare = d9_cuda_norm_prepare, .run = d9_cuda_run_norm_backward, .release = d9_cuda_norm_release,            \
        .benchmark = d9_cuda_norm_benchmark                                                                            \
    }

#define WIDE_LOSS(rule_name, count, ...)                                                                               \
    {                                                                                                                  \
        .name = rule_name, .node_count = count, .ops = {__VA_ARGS__}, .match = wide_loss_match,                        \
        .prepare = prepare_wide_loss, .run = run_wide_loss                                                             \
    }
#define BIAS(rule_name, count, ...)                                                                                    \
    { .name = rule_name, .node_count = count, .ops = {__VA_ARGS__}, .match = bias_match, .run = run_bias }
#define BIAS_BACKWARD(rule_name, count, ...)                                                                           \
    {                                                                                                                  \
        .name = rule_name, .node_count = count, .ops = {__VA_ARGS__}, .match = bias_backward_match,                    \
        .prepare = prepare_bias_backward, .run = run_bias_backward                                                     \
    }

#define ORTHOGONAL(rule_name, count, ...)                                                                              \
    {                                                                                                                  \
        .name = rule_name, .node_count = count, .ops = {__VA_ARGS__}, .match = d9_cuda_orthogonal_match,               \
        .prepare = d9_cuda_orthogonal_prepare, .run = d9_cuda_run_orthogonal_update,                                   \
        .release = d9_cuda_orthogonal_release                                                                          \
    }

static const d9_rule d9_cuda_rules[] = {
    NORM_BACKWARD("add+act_backward+norm_backward+pool_backward", 4, D9_OP_ADD, D9_OP_ACT_BACKWARD, D9_OP_NORM_BACKWARD,
                  D9_OP_POOL_BACKWARD),
    NORM("pool+norm+act", 3, D9_OP_POOL, D9_OP_NORM, D9_OP_ACT),
    NORM("pool+norm_eval+act", 3, D9_OP_POOL, D9_OP_NORM_EVAL, D9_OP_ACT),
    NORM("norm+act+add", 3, D9_OP_NORM, D9_OP_ACT, D9_OP_ADD),
    NORM("norm_eval+act+add", 3, D9_OP_NORM_EVAL, D9_OP_ACT, D9_OP_ADD),
    NORM("norm+add+act", 3, D9_OP_NORM, D9_OP_ADD, D9_OP_ACT),
    NORM("norm_eval+add+act", 3, D9_OP_NORM_EVAL, D9_OP_ADD, D9_OP_ACT),
    NORM_BACKWARD("act_backward+norm_backward+pool_backward", 3, D9_OP_ACT_BACKWARD, D9_OP_NORM_BACKWARD,
                  D9_OP_POOL_BACKWARD),
    NORM_BACKWARD("add+act_backward+norm_backward", 3, D9_OP_ADD, D9_OP_ACT_BACKWARD, D9_OP_NORM_BACKWARD),
    NORM("norm+act", 2, D9_OP_NORM, D9_OP_ACT),
    NORM("norm_eval+act", 2, D9_OP_NORM_EVAL, D9_OP_ACT),
    NORM_BACKWARD("act_backward+norm_backward", 2, D9_OP_ACT_BACKWARD, D9_OP_NORM_BACKWARD),
    {.name = "draw+augment",
     .node_count = 2,
     .ops = {D9_OP_DRAW, D9_OP_AUGMENT},
     .match = d9_cuda_draw_augment_match,
     .run = d9_cuda_run_draw_augment},
    NORM("norm", 1, D9_OP_NORM),
    NORM("norm_eval", 1, D9_OP_NORM_EVAL),
    NORM_BACKWARD("norm_backward", 1, D9_OP_NORM_BACKWARD),
    CONV(D9_OP_CONV, "conv", conv_match),
    CONV(D9_OP_CONV_BACKWARD_DATA, "conv_backward_data", conv_match),
    CONV(D9_OP_CONV_BACKWARD_WEIGHT, "conv_backward_weight", conv_match),
    {.name = "linear+bias by cuBLAS",
     .node_count = 2,
     .ops = {D9_OP_LINEAR, D9_OP_BIAS},
     .match = d9_cuda_large_linear_bias_match,
     .prepare = d9_cuda_large_linear_prepare,
     .run = d9_cuda_run_large_linear,
     .release = d9_cuda_product_release},
    LARGE_LINEAR(D9_OP_LINEAR, "linear by cuBLAS"),
    LARGE_LINEAR(D9_OP_LINEAR_BACKWARD_DATA, "linear_backward_data by cuBLAS"),
    LARGE_LINEAR(D9_OP_LINEAR_BACKWARD_WEIGHT, "linear_backward_weight by cuBLAS"),
    D9_PLAIN_RULE(D9_OP_DRAW, "draw", NULL, d9_cuda_run_draw),
    D9_PLAIN_RULE(D9_OP_AUGMENT, "augment", augment_match, d9_cuda_run_augment),
    D9_PLAIN_RULE(D9_OP_GATHER, "gather", NULL, d9_cuda_run_gather),
    D9_PLAIN_RULE(D9_OP_MIX, "mix", types_fit, d9_cuda_run_mix),
    D9_PLAIN_RULE(D9_OP_PASTE, "paste", types_fit, d9_cuda_run_paste),
    D9_PLAIN_RULE(D9_OP_RANK, "rank", rank_match, d9_cuda_run_rank),
    D9_PLAIN_RULE(D9_OP_TOKENS, "tokens", NULL, d9_cuda_run_tokens),
    D9_PLAIN_RULE(D9_OP_STREAM, "stream", NULL, d9_cuda_run_stream),
    D9_PLAIN_RULE(D9_OP_CAST, "cast", types_fit, run_cast),
    D9_PLAIN_RULE(D9_OP_ACT, "act", types_fit, run_act),
    D9_PLAIN_RULE(D9_OP_ACT_BACKWARD, "act_backward", types_fit, run_act_backward),
    D9_PLAIN_RULE(D9_OP_POOL, "pool", types_fit, run_pool_forward),
    D9_PLAIN_RULE(D9_OP_POOL_BACKWARD, "pool_backward", types_fit, run_pool_backward),
    D9_PLAIN_RULE(D9_OP_MEAN_POOL, "mean_pool", types_fit, run_mean_pool_forward),
    D9_PLAIN_RULE(D9_OP_MEAN_POOL_BACKWARD, "mean_pool_backward", types_fit, run_mean_pool_backward),
    D9_PLAIN_RULE(D9_OP_ADD, "add", types_fit, run_add),
    BIAS("bias+act", 2, D9_OP_BIAS, D9_OP_ACT),
    BIAS("bias", 1, D9_OP_BIAS),
    BIAS_BACKWARD("act_backward+bias_backward", 2, D9_OP_ACT_BACKWARD, D9_OP_BIAS_BACKWARD),
    BIAS_BACKWARD("bias_backward", 1, D9_OP_BIAS_BACKWARD),
    D9_PLAIN_RULE(D9_OP_DROPOUT, "dropout", types_fit, run_dropout),
    D9_PLAIN_RULE(D9_OP_CONCAT, "concat", types_fit, run_concat),
    D9_PLAIN_RULE(D9_OP_SLICE, "slice", types_fit, run_slice),
    LINEAR_RULE(D9_OP_LINEAR, "linear", forward),
    LINEAR_RULE(D9_OP_LINEAR_BACKWARD_DATA, "linear_backward_data", backward_data),
    LINEAR_RULE(D9_OP_LINEAR_BACKWARD_WEIGHT, "linear_backward_weight", backward_weight),
    D9_PLAIN_RULE(D9_OP_SCALE, "scale", types_fit, run_scale),
    D9_PLAIN_RULE(D9_OP_EMBED, "embed", types_fit, d9_cuda_run_embed),
    D9_PREPARED_RULE(D9_OP_EMBED_BACKWARD, "embed_backward", types_fit, d9_cuda_prepare_embed_backward,
                     d9_cuda_run_embed_backward),
    D9_PLAIN_RULE(D9_OP_RECUR, "recur", d9_cuda_recur_match, d9_cuda_run_recur),
    {.name = "recur_backward",
     .node_count = 1,
     .ops = {D9_OP_RECUR_BACKWARD},
     .match = d9_cuda_recur_match,
     .prepare = d9_cuda_prepare_recur_backward,
     .run = d9_cuda_run_recur_backward,
     .release = d9_cuda_product_release},
    D9_PLAIN_RULE(D9_OP_LAST, "last", types_fit, d9_cuda_run_last),
    D9_PLAIN_RULE(D9_OP_LAST_BACKWARD, "last_backward", types_fit, d9_cuda_run_last_backward),
    WIDE_LOSS("loss+metrics+loss_backward", 3, D9_OP_LOSS, D9_OP_METRICS, D9_OP_LOSS_BACKWARD),
    WIDE_LOSS("loss+metrics", 2, D9_OP_LOSS, D9_OP_METRICS),
    D9_PLAIN_RULE(D9_OP_LOSS, "loss", d9_site_types_f32, run_loss),
    D9_PLAIN_RULE(D9_OP_LOSS_BACKWARD, "loss_backward", loss_backward_match, run_loss_backward),
    D9_PREPARED_RULE(D9_OP_METRICS, "metrics", d9_metrics_fit, prepare_metrics, run_metrics),
    {.name = "all_reduce",
     .node_count = 1,
     .ops = {D9_OP_ALL_REDUCE},
     .match = d9_site_types_f32,
     .prepare = d9_cuda_prepare_all_reduce,
     .run = d9_cuda_run_all_reduce,
     .release = d9_cuda_release_all_reduce},
    D9_PREPARED_RULE(D9_OP_CLIP, "clip", d9_site_types_f32, d9_cuda_prepare_clip, d9_cuda_run_clip),
    D9_PLAIN_RULE(D9_OP_UPDATE, "update", d9_site_types_f32, d9_cuda_run_update),
    ORTHOGONAL("orthogonal_update of 4", 4, D9_OP_ORTHOGONAL_UPDATE, D9_OP_ORTHOGONAL_UPDATE, D9_OP_ORTHOGONAL_UPDATE,
               D9_OP_ORTHOGONAL_UPDATE),
    ORTHOGONAL("orthogonal_update of 3", 3, D9_OP_ORTHOGONAL_UPDATE, D9_OP_ORTHOGONAL_UPDATE, D9_OP_ORTHOGONAL_UPDATE),
    ORTHOGONAL("orthogonal_update of 2", 2, D9_OP_ORTHOGONAL_UPDATE, D9_OP_ORTHOGONAL_UPDATE),
    ORTHOGONAL("orthogonal_update", 1, D9_OP_ORTHOGONAL_UPDATE),
    D9_PLAIN_RULE(D9_OP_LERP, "lerp", d9_site_types_f32, d9_cuda_run_lerp),
    D9_PLAIN_RULE(D9_OP_COPY, "copy", NULL, d9_cuda_run_copy),
    {.name = NULL},
};

const d9_rule *const d9_cuda_rule_tables[] = {d9_cuda_rules, d9_cuda_moments_rules, NULL};
