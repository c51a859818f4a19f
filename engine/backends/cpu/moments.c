/* Rules that fuse a convolution of few input channels with its norm and activation: the norm's statistics follow in
 * closed form from moments of the image (kernels/cpu/moments.h).
 *
 * The backward rule does not read the convolution's output. The forward rule writes it only if another rule reads it or
 * the program keeps all values. The backend onednn never uses these rules. */
#include "backends/cpu/conv.h"
#include "kernels/cpu/moments.h"

static bool is_f32(d9_type type) { return type == D9_F32; }

/* Shape of the convolution that is node `index` of the site; `groups`: ghost groups of its norm. */
static d9_cpu_moments shape_of(const d9_site *site, int index, int64_t groups) {
    const d9_site part = d9_site_part(site, index, 1);
    d9_cpu_moments shape = {d9_conv_shape_of(&part), groups};
    shape.conv.pass = D9_CPU_CONV_FORWARD;
    return shape;
}

static bool conv_fits(const d9_site *site, int index) {
    const d9_site part = d9_site_part(site, index, 1);
    const d9_conv_geometry g = d9_conv_geometry_of(&part);
    const d9_cpu_moments shape = shape_of(site, index, 1);
    return !d9_cpu_device_of(site)->library_first && g.type == D9_F32 && d9_conv_types_fit(&part, &g) &&
           d9_cpu_moments_fits(&shape);
}

/* ---- forward ---- */

static d9_cpu_moments forward_shape(const d9_site *site) {
    const d9_site norm = d9_site_part(site, 1, 2);
    return shape_of(site, 0, d9_chain_extent(&norm).groups);
}

static bool forward_match(const d9_site *site) {
    const d9_site norm = d9_site_part(site, 1, 2);
    return site->nodes[1]->inputs[0] == site->nodes[0]->outputs[0] && conv_fits(site, 0) &&
           d9_chain_norm_fits(&norm, is_f32);
}

static d9_status reserve_scratch(d9_context *context, d9_site *site, d9_cpu_moments shape) {
    return d9_cpu_reserve(context, d9_cpu_device_of(site), d9_cpu_moments_scratch_bytes(&shape));
}

/* The site's data is the address of the convolution's output, or NULL if it need not be written. */
static d9_status forward_prepare(d9_context *context, d9_site *site) {
    const d9_value_id conv = site->nodes[0]->outputs[0];
    site->data = d9_site_must_write(site, conv) ? d9_site_data(site, conv) : NULL;
    return reserve_scratch(context, site, forward_shape(site));
}

static d9_status run_forward(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *conv = site->nodes[0], *norm = site->nodes[1], *act = site->nodes[2];
    const d9_cpu_moments shape = forward_shape(site);
    const d9_kernel_norm_state state = d9_site_norm_state(site, norm);
    (void)context, (void)step;
    (norm->op == D9_OP_NORM_EVAL ? d9_cpu_moments_eval : d9_cpu_moments_forward)(
        d9_cpu_of(site), &shape, d9_site_data(site, conv->inputs[0]), d9_site_data(site, conv->inputs[1]), &state,
        d9_node_act(act), d9_cpu_device_of(site)->scratch, site->data, d9_site_data(site, act->outputs[0]));
    return D9_OK;
}

/* ---- backward ---- */

/* The convolution that wrote the norm's input; NULL: another operation did, or the site's weight gradient is that of a
 * convolution with another input. */
static const d9_node *forward_conv(const d9_site *site) {
    const d9_node_id producer = d9_site_value(site, site->nodes[1]->inputs[1])->producer;
    if (producer == D9_NONE) return NULL;
    const d9_node *node = &site->graph->nodes[producer];
    return node->op == D9_OP_CONV && node->inputs[0] == site->nodes[2]->inputs[1] ? node : NULL;
}

static d9_cpu_moments backward_shape(const d9_site *site) {
    const d9_site norm = d9_site_part(site, 0, 2);
    return shape_of(site, 2, d9_chain_extent(&norm).groups);
}

static bool backward_match(const d9_site *site) {
    const d9_node *act = site->nodes[0], *norm = site->nodes[1], *weight = site->nodes[2];
    const d9_site chain = d9_site_part(site, 0, 2);
    return weight->inputs[0] == norm->outputs[0] && d9_site_internal(site, norm->outputs[0]) && conv_fits(site, 2) &&
           d9_site_internal(site, act->outputs[0]) && d9_activation_from_output((int)act->as.act.activation) &&
           d9_chain_norm_backward_fits(&chain, is_f32) && forward_conv(site);
}

static bool recomputes(const d9_site *site, d9_value_id value) { return value == site->nodes[1]->inputs[1]; }

static d9_status backward_prepare(d9_context *context, d9_site *site) {
    return reserve_scratch(context, site, backward_shape(site));
}

static d9_status run_backward(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *act = site->nodes[0], *norm = site->nodes[1], *weight = site->nodes[2];
    const d9_cpu_moments shape = backward_shape(site);
    const d9_cpu_moments_gradients gradients = {d9_site_data(site, weight->outputs[0]),
                                                d9_site_data(site, norm->outputs[1]),
                                                d9_site_data(site, norm->outputs[2])};
    (void)context, (void)step;
    d9_cpu_moments_backward(d9_cpu_of(site), &shape, d9_site_data(site, act->inputs[0]), d9_node_act(act),
                            d9_site_data(site, act->inputs[1]), d9_site_data(site, weight->inputs[1]),
                            d9_site_data(site, forward_conv(site)->inputs[1]), d9_site_data(site, norm->inputs[2]),
                            d9_site_data(site, norm->inputs[3]), d9_site_data(site, norm->inputs[4]),
                            d9_cpu_device_of(site)->scratch, &gradients);
    return D9_OK;
}

/* ---- the table ---- */

#define FORWARD(rule_name, norm)                                                                                       \
    {                                                                                                                  \
        .name = rule_name, .node_count = 3, .ops = {D9_OP_CONV, norm, D9_OP_ACT}, .match = forward_match,              \
        .prepare = forward_prepare, .run = run_forward, .benchmark = d9_conv_benchmark_parts                           \
    }

const d9_rule d9_cpu_moments_rules[] = {
    FORWARD("conv+norm+act", D9_OP_NORM),
    FORWARD("conv+norm_eval+act", D9_OP_NORM_EVAL),
    {.name = "act_backward+norm_backward+conv_backward_weight",
     .node_count = 3,
     .ops = {D9_OP_ACT_BACKWARD, D9_OP_NORM_BACKWARD, D9_OP_CONV_BACKWARD_WEIGHT},
     .match = backward_match,
     .recomputes = recomputes,
     .prepare = backward_prepare,
     .run = run_backward,
     .benchmark = d9_conv_benchmark_parts},
    {.name = NULL},
};
