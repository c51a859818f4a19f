/* Rules for batch norms and biases, fused with the nodes that follow; in the backward pass with the nodes before, in
 * one rule also with a slice and an addition after. norm -> act -> add and norm -> add -> act are computed in one pass
 * over the activation, after the statistics. Of the values between the nodes, the norm's y, a sum before act_backward,
 * and dx and the slice before the last addition are never written; the value between act and add and the output of
 * act_backward are written only if a node outside of the rule reads them. */
#include "backends/cpu/cpu.h"

static bool storable(d9_type type) { return type == D9_F32 || type == D9_BF16; }

static d9_kernel_out output_unless_internal(const d9_site *site, d9_value_id id) {
    d9_kernel_out out = d9_cpu_out(site, id);
    if (d9_site_internal(site, id)) out.data = NULL;
    return out;
}

/* ---- forward ---- */

/* Collects the operations after the norm or bias; `y`: output of the first of them, or of the norm or bias alone. */
static d9_kernel_epilogue epilogue_of(const d9_site *site, d9_kernel_out *y) {
    d9_kernel_epilogue epilogue = {.act = {D9_KERNEL_NO_ACT, 0}};
    const d9_node *last = site->nodes[site->node_count - 1];
    *y = d9_cpu_out(site, last->outputs[0]);
    for (int n = 1; n < site->node_count; n++)
        if (site->nodes[n]->op == D9_OP_ACT) epilogue.act = d9_node_act(site->nodes[n]);
    if (site->node_count < 3) return epilogue;
    epilogue.adds_first = last->op == D9_OP_ACT;
    epilogue.addend = d9_cpu_in(site, d9_chain_addend(site));
    epilogue.last = *y;
    *y = output_unless_internal(site, site->nodes[1]->outputs[0]);
    return epilogue;
}

static bool norm_match(const d9_site *site) { return d9_chain_norm_fits(site, storable); }

static d9_status prepare_norm(d9_context *context, d9_site *site) {
    const d9_kernel_norm shape = d9_chain_extent(site);
    return d9_cpu_reserve(context, d9_cpu_device_of(site), d9_cpu_norm_scratch_bytes(&shape));
}

static d9_status run_norm(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *norm = site->nodes[0];
    const d9_kernel_norm shape = d9_chain_extent(site);
    const bool evaluate = norm->op == D9_OP_NORM_EVAL;
    const d9_kernel_norm_state state = d9_site_norm_state(site, norm);
    d9_kernel_out y;
    const d9_kernel_epilogue epilogue = epilogue_of(site, &y);
    void *scratch = d9_cpu_device_of(site)->scratch;
    const d9_kernel_in x = d9_cpu_in(site, norm->inputs[0]);
    (void)context, (void)step;
    if (evaluate)
        d9_cpu_norm_eval(d9_cpu_of(site), &shape, x, &state, &epilogue, scratch, y);
    else
        d9_cpu_norm_forward(d9_cpu_of(site), &shape, x, &state, &epilogue, scratch, y);
    return D9_OK;
}

/* ---- backward ---- */

/* Collects the operations before the last node; *dy gets the gradient that the first node reads. */
static d9_cpu_prologue prologue_of(const d9_site *site, d9_kernel_in *dy) {
    d9_cpu_prologue prologue = {.act = {D9_KERNEL_NO_ACT, 0}};
    *dy = d9_cpu_in(site, site->nodes[0]->inputs[0]);
    for (int n = 0; n + 1 < site->node_count; n++) {
        const d9_node *node = site->nodes[n];
        const d9_kernel_in second = d9_cpu_in(site, node->inputs[1]);
        if (node->op == D9_OP_ADD) {
            prologue.addend = second;
            continue;
        }
        prologue.act = d9_node_act(node);
        prologue.reference = second;
        prologue.dz = output_unless_internal(site, node->outputs[0]);
    }
    return prologue;
}

/* With an addition the kernel must write dz, the output of act_backward, which prologue_of allows only if dz is not
 * internal. */
static bool norm_backward_match(const d9_site *site) {
    return d9_chain_norm_backward_fits(site, storable) &&
           (site->nodes[0]->op != D9_OP_ADD || !d9_site_internal(site, site->nodes[1]->outputs[0]));
}

/* The norm's bias, if RELU directly follows the norm: the gradient then recomputes RELU's sign from the norm's x and
 * does not read RELU's y. NULL: there is no activation, or y is read, because the activation is not RELU (slower to
 * recompute), dz is written, gradients are added first, or the norm's rule begins with a convolution (other bits). */
static const float *bias_to_recompute(const d9_site *site) {
    const d9_node *act = site->nodes[0], *norm = d9_chain_norm(site);
    if (act->op != D9_OP_ACT_BACKWARD || act->as.act.activation != D9_ACT_RELU) return NULL;
    if (!d9_site_internal(site, act->outputs[0])) return NULL;
    const d9_site *forward = d9_site_producer(site, norm->inputs[2]);
    const d9_value_id bias = d9_chain_norm_bias(site, act, norm);
    return forward && forward->nodes[0]->op == D9_OP_NORM ? d9_site_data(site, bias) : NULL;
}

/* Runs a site's backward chain. `dx`: value that receives the gradient of x plus `summand` (NULL: nothing is added). */
static void run_chain_backward(const d9_site *site, const d9_cpu_rows *summand, d9_value_id dx) {
    const d9_node *norm = d9_chain_norm(site);
    const d9_kernel_norm shape = d9_chain_extent(site);
    d9_kernel_in dy;
    d9_cpu_prologue prologue = prologue_of(site, &dy);
    prologue.bias = bias_to_recompute(site);
    const d9_kernel_norm_gradients gradients = {d9_cpu_out(site, dx), d9_site_data(site, norm->outputs[1]),
                                                d9_site_data(site, norm->outputs[2])};
    d9_cpu_norm_backward(d9_cpu_of(site), &shape, dy, &prologue, d9_cpu_in(site, norm->inputs[1]),
                         d9_site_data(site, norm->inputs[2]), d9_site_data(site, norm->inputs[3]),
                         d9_site_data(site, norm->inputs[4]), d9_cpu_device_of(site)->scratch, summand, &gradients);
}

static d9_status run_norm_backward(d9_context *context, const d9_site *site, int64_t step) {
    (void)context, (void)step;
    run_chain_backward(site, NULL, d9_chain_norm(site)->outputs[0]);
    return D9_OK;
}

/* ---- backward, with the gradient of a concatenation ----
 *
 * A layer of a dense block reads a concatenation that is also part of the next layer's input. The gradient of the
 * concatenation is therefore the dx of its layer's norm plus a slice of the gradient of the next layer's input. */

static d9_site chain_before_slice(const d9_site *site) { return d9_site_part(site, 0, site->node_count - 2); }

static bool norm_slice_add_match(const d9_site *site) {
    const d9_site chain = chain_before_slice(site);
    const d9_node *slice = site->nodes[site->node_count - 2], *add = site->nodes[site->node_count - 1];
    const d9_value_id dx = d9_chain_norm(&chain)->outputs[0], part = slice->outputs[0];
    return norm_backward_match(&chain) && dx != D9_NONE && d9_site_internal(site, dx) && d9_site_internal(site, part) &&
           ((add->inputs[0] == dx && add->inputs[1] == part) || (add->inputs[0] == part && add->inputs[1] == dx)) &&
           d9_cpu_store(site, slice->inputs[0]) == d9_cpu_store(site, dx) &&
           d9_cpu_store(site, add->outputs[0]) == d9_cpu_store(site, dx);
}

static d9_status prepare_norm_slice_add(d9_context *context, d9_site *site) {
    d9_site chain = chain_before_slice(site);
    return prepare_norm(context, &chain);
}

static d9_status run_norm_slice_add(d9_context *context, const d9_site *site, int64_t step) {
    const d9_site chain = chain_before_slice(site);
    const d9_node *slice = site->nodes[site->node_count - 2], *add = site->nodes[site->node_count - 1];
    d9_cpu_rows rows = {d9_cpu_in(site, slice->inputs[0]),
                        d9_shape_channels(&d9_site_value(site, slice->inputs[0])->shape)};
    rows.x.data = (const char *)rows.x.data + slice->as.slice.offset * d9_kernel_store_bytes(rows.x.store);
    (void)context, (void)step;
    run_chain_backward(&chain, &rows, add->outputs[0]);
    return D9_OK;
}

/* ---- biases ---- */

static bool bias_match(const d9_site *site) { return d9_chain_fits(site, storable); }
static bool bias_backward_match(const d9_site *site) {
    return d9_chain_backward_fits(site, storable) &&
           (site->node_count == 1 || !d9_site_internal(site, site->nodes[0]->outputs[0])) &&
           d9_site_value(site, site->nodes[site->node_count - 1]->outputs[0])->type == D9_F32;
}

/* Channels of a bias node or its gradient: the last dimension of input 0. */
static int64_t channels_of(const d9_site *site, const d9_node *bias) {
    return d9_shape_channels(&d9_site_value(site, bias->inputs[0])->shape);
}

static d9_status prepare_bias(d9_context *context, d9_site *site) {
    const int64_t channels = channels_of(site, site->nodes[0]);
    return d9_cpu_reserve(context, d9_cpu_device_of(site), d9_cpu_bias_scratch_bytes(channels));
}

static d9_status run_bias(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *bias = site->nodes[0];
    const int64_t channels = channels_of(site, bias);
    d9_kernel_out y;
    const d9_kernel_epilogue epilogue = epilogue_of(site, &y);
    (void)context, (void)step;
    d9_cpu_bias_forward(d9_cpu_of(site), d9_cpu_in(site, bias->inputs[0]), d9_site_data(site, bias->inputs[1]),
                        d9_site_count(site, bias->inputs[0]) / channels, channels, &epilogue,
                        d9_cpu_device_of(site)->scratch, y);
    return D9_OK;
}

static d9_status run_bias_backward(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *bias = site->nodes[site->node_count - 1];
    const int64_t channels = channels_of(site, bias);
    d9_kernel_in dy;
    const d9_cpu_prologue prologue = prologue_of(site, &dy);
    (void)context, (void)step;
    d9_cpu_bias_backward(d9_cpu_of(site), dy, &prologue, d9_site_count(site, bias->inputs[0]) / channels, channels,
                         d9_cpu_device_of(site)->scratch, d9_site_data(site, bias->outputs[0]));
    return D9_OK;
}

/* ---- the table ---- */

#define CHAIN(rule_name, what, direction, count, ...)                                                                  \
    {                                                                                                                  \
        .name = rule_name, .node_count = count, .ops = {__VA_ARGS__}, .match = what##direction##_match,                \
        .prepare = prepare_##what, .run = run_##what##direction                                                        \
    }

const d9_rule d9_cpu_norm_rules[] = {
    CHAIN("norm+act+add", norm, , 3, D9_OP_NORM, D9_OP_ACT, D9_OP_ADD),
    CHAIN("norm+add+act", norm, , 3, D9_OP_NORM, D9_OP_ADD, D9_OP_ACT),
    CHAIN("norm_eval+act+add", norm, , 3, D9_OP_NORM_EVAL, D9_OP_ACT, D9_OP_ADD),
    CHAIN("norm_eval+add+act", norm, , 3, D9_OP_NORM_EVAL, D9_OP_ADD, D9_OP_ACT),
    CHAIN("norm+act", norm, , 2, D9_OP_NORM, D9_OP_ACT),
    CHAIN("norm_eval+act", norm, , 2, D9_OP_NORM_EVAL, D9_OP_ACT),
    CHAIN("add+act_backward+norm_backward", norm, _backward, 3, D9_OP_ADD, D9_OP_ACT_BACKWARD, D9_OP_NORM_BACKWARD),
    CHAIN("act_backward+norm_backward+slice+add", norm_slice_add, , 4, D9_OP_ACT_BACKWARD, D9_OP_NORM_BACKWARD,
          D9_OP_SLICE, D9_OP_ADD),
    CHAIN("act_backward+norm_backward", norm, _backward, 2, D9_OP_ACT_BACKWARD, D9_OP_NORM_BACKWARD),
    CHAIN("norm", norm, , 1, D9_OP_NORM),
    CHAIN("norm_eval", norm, , 1, D9_OP_NORM_EVAL),
    CHAIN("norm_backward", norm, _backward, 1, D9_OP_NORM_BACKWARD),
    CHAIN("bias+act", bias, , 2, D9_OP_BIAS, D9_OP_ACT),
    CHAIN("bias", bias, , 1, D9_OP_BIAS),
    CHAIN("act_backward+bias_backward", bias, _backward, 2, D9_OP_ACT_BACKWARD, D9_OP_BIAS_BACKWARD),
    CHAIN("bias_backward", bias, _backward, 1, D9_OP_BIAS_BACKWARD),
    {.name = NULL},
};
