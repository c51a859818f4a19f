/* CPU rules for texts: tokens of samples or of a stream, embeddings, recurrent layers, the last token. */
#include "kernels/cpu/recur.h"
#include "backends/cpu/cpu.h"

static d9_value_id input(const d9_site *site, int i) {
    return i < site->nodes[0]->input_count ? site->nodes[0]->inputs[i] : D9_NONE;
}
static d9_value_id output(const d9_site *site, int i) {
    return i < site->nodes[0]->output_count ? site->nodes[0]->outputs[i] : D9_NONE;
}
static d9_kernel_in in(const d9_site *site, int i) {
    const d9_kernel_out value = d9_cpu_out(site, input(site, i));
    return (d9_kernel_in){value.data, value.store};
}
static d9_kernel_out out(const d9_site *site, int i) { return d9_cpu_out(site, output(site, i)); }

/* ---- embeddings ---- */

static d9_status run_embed(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_shape *table = &d9_site_value(site, input(site, 0))->shape; /* (V, C) */
    const int32_t *tokens = d9_site_data(site, input(site, 1));
    const int64_t count = d9_site_count(site, input(site, 1));
    (void)step;
    D9_TRY(d9_host_check_tokens(context, site, table->d[0]));
    d9_cpu_embed(d9_cpu_of(site), d9_site_data(site, input(site, 0)), tokens, count, table->d[1], out(site, 0));
done:
    return status;
}

static d9_status prepare_embed_backward(d9_context *context, d9_site *site) {
    return d9_cpu_reserve(context, d9_cpu_device_of(site),
                          d9_cpu_embed_backward_scratch_bytes(d9_site_value(site, output(site, 0))->shape.d[0],
                                                              d9_site_count(site, input(site, 1))));
}

static d9_status run_embed_backward(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_shape *table = &d9_site_value(site, output(site, 0))->shape;
    const int32_t *tokens = d9_site_data(site, input(site, 1));
    const int64_t count = d9_site_count(site, input(site, 1));
    (void)step;
    D9_TRY(d9_host_check_tokens(context, site, table->d[0]));
    d9_cpu_embed_backward(d9_cpu_of(site), in(site, 0), tokens, count, table->d[0], table->d[1],
                          input(site, 2) != D9_NONE, d9_cpu_device_of(site)->scratch,
                          d9_site_data(site, output(site, 0)));
done:
    return status;
}

/* ---- recurrent layers ---- */

/* The layer of a site. `y`: the value y or its gradient, (T, N, H). `u`, `state`: indices of the node's inputs U and
 * h0; input `state` + 1 is c0. */
static d9_cpu_recur layer_of(const d9_site *site, d9_value_id y, int u, int state) {
    const d9_shape *shape = &d9_site_value(site, y)->shape;
    return (d9_cpu_recur){.cell = (int)site->nodes[0]->as.recur.cell,
                          .time = shape->d[0],
                          .samples = shape->d[1],
                          .units = shape->d[2],
                          .u = in(site, u),
                          .h0 = in(site, state),
                          .c0 = d9_site_data(site, input(site, state + 1))};
}

static d9_cpu_recur forward_layer(const d9_site *site) { return layer_of(site, output(site, 0), 1, 3); }
static d9_cpu_recur backward_layer(const d9_site *site) { return layer_of(site, input(site, 0), 3, 4); }

static d9_status reserve_scratch(d9_context *context, d9_site *site, const d9_cpu_recur *layer) {
    return d9_cpu_reserve(context, d9_cpu_device_of(site), d9_cpu_recur_scratch_bytes(d9_cpu_of(site), layer));
}

static d9_status prepare_recur(d9_context *context, d9_site *site) {
    const d9_cpu_recur layer = forward_layer(site);
    return reserve_scratch(context, site, &layer);
}

static d9_status prepare_recur_backward(d9_context *context, d9_site *site) {
    const d9_cpu_recur layer = backward_layer(site);
    /* In bf16, the gradient of U is computed from gate gradients that were rounded to bf16. */
    site->rounds_transforms = d9_cpu_store(site, output(site, 0)) == D9_KERNEL_BF16;
    return reserve_scratch(context, site, &layer);
}

static d9_status run_recur(d9_context *context, const d9_site *site, int64_t step) {
    const d9_cpu_recur layer = forward_layer(site);
    const d9_cpu_recur_forward forward = {.gx = in(site, 0),
                                          .bias = d9_site_data(site, input(site, 2)),
                                          .y = out(site, 0),
                                          .saved = d9_site_data(site, output(site, 1)),
                                          .last_h = out(site, 2),
                                          .last_c = d9_site_data(site, output(site, 3))};
    (void)context, (void)step;
    d9_cpu_recur_run_forward(d9_cpu_of(site), &layer, &forward, d9_cpu_device_of(site)->scratch);
    return D9_OK;
}

static d9_status run_recur_backward(d9_context *context, const d9_site *site, int64_t step) {
    const d9_cpu_recur layer = backward_layer(site);
    const d9_cpu_recur_backward backward = {.dy = in(site, 0),
                                            .y = in(site, 1),
                                            .saved = d9_site_data(site, input(site, 2)),
                                            .dgx = out(site, 0),
                                            .du = d9_site_data(site, output(site, 1)),
                                            .db = d9_site_data(site, output(site, 2))};
    (void)context, (void)step;
    d9_cpu_recur_run_backward(d9_cpu_of(site), &layer, &backward, d9_cpu_device_of(site)->scratch);
    return D9_OK;
}

/* ---- the last token ---- */

static d9_status run_last(d9_context *context, const d9_site *site, int64_t step) {
    const int64_t last = d9_site_bytes(site, output(site, 0)), all = d9_site_bytes(site, input(site, 0));
    (void)context, (void)step;
    d9_cpu_copy(d9_cpu_of(site), (const char *)d9_site_data(site, input(site, 0)) + all - last, last,
                d9_site_data(site, output(site, 0)));
    return D9_OK;
}

static d9_status run_last_backward(d9_context *context, const d9_site *site, int64_t step) {
    const int64_t last = d9_site_bytes(site, input(site, 0)), all = d9_site_bytes(site, output(site, 0));
    char *dx = d9_site_data(site, output(site, 0));
    (void)context, (void)step;
    d9_cpu_clear(d9_cpu_of(site), all - last, dx);
    d9_cpu_copy(d9_cpu_of(site), d9_site_data(site, input(site, 0)), last, dx + all - last);
    return D9_OK;
}

/* ---- the table ---- */

/* True for D9_NONE and f32, the only type in which the kernels take embedding tables, biases, saved numbers, c and
 * gradients of parameters. */
static bool is_f32(const d9_site *site, d9_value_id id) {
    return id == D9_NONE || d9_site_value(site, id)->type == D9_F32;
}
static bool embed_match(const d9_site *site) { return d9_cpu_types_fit(site) && is_f32(site, input(site, 0)); }
static bool embed_backward_match(const d9_site *site) {
    return d9_cpu_types_fit(site) && is_f32(site, output(site, 0));
}
static bool recur_match(const d9_site *site) {
    return d9_cpu_types_fit(site) && is_f32(site, input(site, 2)) && is_f32(site, input(site, 4)) &&
           is_f32(site, output(site, 1)) && is_f32(site, output(site, 3));
}
static bool recur_backward_match(const d9_site *site) {
    return d9_cpu_types_fit(site) && output(site, 0) != D9_NONE && is_f32(site, input(site, 2)) &&
           is_f32(site, input(site, 5)) && is_f32(site, output(site, 1)) && is_f32(site, output(site, 2));
}

const d9_rule d9_cpu_recur_rules[] = {
    D9_PLAIN_RULE(D9_OP_TOKENS, "tokens", NULL, d9_host_tokens),
    D9_PLAIN_RULE(D9_OP_STREAM, "stream", NULL, d9_host_stream),
    D9_PLAIN_RULE(D9_OP_EMBED, "embed", embed_match, run_embed),
    D9_PREPARED_RULE(D9_OP_EMBED_BACKWARD, "embed_backward", embed_backward_match, prepare_embed_backward,
                     run_embed_backward),
    D9_PREPARED_RULE(D9_OP_RECUR, "recur", recur_match, prepare_recur, run_recur),
    D9_PREPARED_RULE(D9_OP_RECUR_BACKWARD, "recur_backward", recur_backward_match, prepare_recur_backward,
                     run_recur_backward),
    D9_PLAIN_RULE(D9_OP_LAST, "last", d9_cpu_types_fit, run_last),
    D9_PLAIN_RULE(D9_OP_LAST_BACKWARD, "last_backward", d9_cpu_types_fit, run_last_backward),
    {.name = NULL},
};
