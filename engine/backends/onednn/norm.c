/* The rules of batch normalisation: norm and norm_eval with what follows them, norm_backward with what precedes it.
 *
 * norm -> act -> add is one pass over the activation after the statistics. What is not wanted outside the site is not
 * written: norm's y always, act's y where no backward node takes its slope there. */
#include "backends/onednn/onednn.h"

static d9_cpu_norm shape_of(const d9_site *site, const d9_node *norm, d9_value_id x) {
    const d9_shape *s = &d9_onednn_value(site, x)->shape;
    const d9_shape *statistics = &d9_onednn_value(site, norm->inputs[norm->op == D9_OP_NORM_BACKWARD ? 2 : 3])->shape;
    return (d9_cpu_norm){s->d[0], s->d[1] * s->d[2], s->d[3], statistics->d[0]};
}

static bool storable(const d9_site *site, d9_value_id id) {
    const d9_type type = d9_onednn_value(site, id)->type;
    return type == D9_F32 || type == D9_BF16;
}

static bool same_type(const d9_site *site, d9_value_id a, d9_value_id b) {
    return d9_onednn_value(site, a)->type == d9_onednn_value(site, b)->type;
}

/* ---- forward ---- */

/* The other side of the addition; D9_NONE: the site's third node does not add to the activation. */
static d9_value_id addend_of(const d9_site *site) {
    const d9_value_id y = site->nodes[1]->outputs[0], *inputs = site->nodes[2]->inputs;
    if (inputs[0] == inputs[1]) return D9_NONE;
    return inputs[0] == y ? inputs[1] : inputs[1] == y ? inputs[0] : D9_NONE;
}

bool d9_onednn_norm_match(const d9_site *site) {
    const d9_node *norm = site->nodes[0], *act = site->nodes[1], *add = site->nodes[2];
    if (d9_onednn_value(site, norm->inputs[0])->shape.rank != 4) return false;
    if (!storable(site, norm->inputs[0]) || !same_type(site, norm->inputs[0], norm->outputs[0])) return false;
    if (d9_onednn_value(site, norm->inputs[1])->type != D9_F32) return false;
    if (site->node_count == 1) return true;
    if (act->inputs[0] != norm->outputs[0] || !same_type(site, act->inputs[0], act->outputs[0])) return false;
    if (!d9_site_internal(site, norm->outputs[0])) return false;
    if (site->node_count == 2) return true;
    return addend_of(site) != D9_NONE && same_type(site, addend_of(site), act->outputs[0]) &&
           same_type(site, add->outputs[0], act->outputs[0]);
}

d9_status d9_onednn_norm_prepare(d9_context *context, d9_site *site) {
    const d9_node *norm = site->nodes[site->node_count > 1 && site->nodes[1]->op == D9_OP_NORM_BACKWARD ? 1 : 0];
    const d9_cpu_norm shape = shape_of(site, norm, norm->inputs[norm->op == D9_OP_NORM_BACKWARD ? 1 : 0]);
    return d9_onednn_reserve(context, d9_onednn_of(site), d9_cpu_norm_scratch_bytes(&shape));
}

static d9_cpu_act act_of(const d9_node *node) {
    return (d9_cpu_act){(int)node->as.act.activation, (float)node->as.act.alpha};
}

/* What follows the norm, and where the value before the addition goes. */
static d9_cpu_epilogue epilogue_of(const d9_site *site, d9_cpu_out *y) {
    d9_cpu_epilogue epilogue = {.act = {D9_CPU_NO_ACT, 0}};
    *y = d9_onednn_out(site, site->nodes[0]->outputs[0]);
    if (site->node_count == 1) return epilogue;
    epilogue.act = act_of(site->nodes[1]);
    *y = d9_onednn_out(site, site->nodes[1]->outputs[0]);
    if (site->node_count == 2) return epilogue;
    if (d9_site_internal(site, site->nodes[1]->outputs[0])) y->data = NULL;
    epilogue.addend = d9_onednn_in(site, addend_of(site));
    epilogue.sum = d9_onednn_out(site, site->nodes[2]->outputs[0]);
    return epilogue;
}

d9_status d9_onednn_norm(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *norm = site->nodes[0];
    const d9_cpu_norm shape = shape_of(site, norm, norm->inputs[0]);
    const bool evaluate = norm->op == D9_OP_NORM_EVAL;
    const d9_cpu_norm_state state = {.scale = d9_site_data(site, norm->inputs[1]),
                                     .bias = d9_site_data(site, norm->inputs[2]),
                                     .running_mean = d9_site_data(site, norm->inputs[3]),
                                     .running_var = d9_site_data(site, norm->inputs[4]),
                                     .mean = evaluate ? NULL : d9_site_data(site, norm->outputs[1]),
                                     .inv_std = evaluate ? NULL : d9_site_data(site, norm->outputs[2]),
                                     .epsilon = norm->as.norm.epsilon,
                                     .momentum = norm->as.norm.momentum};
    d9_cpu_out y;
    const d9_cpu_epilogue epilogue = epilogue_of(site, &y);
    void *scratch = d9_onednn_of(site)->scratch;
    (void)context, (void)step;
    if (evaluate) d9_cpu_norm_eval(d9_onednn_cpu(site), &shape, d9_onednn_in(site, norm->inputs[0]), &state, &epilogue, scratch, y);
    else d9_cpu_norm_forward(d9_onednn_cpu(site), &shape, d9_onednn_in(site, norm->inputs[0]), &state, &epilogue, scratch, y);
    return D9_OK;
}

/* ---- backward ---- */

bool d9_onednn_norm_backward_match(const d9_site *site) {
    const d9_node *norm = site->nodes[site->node_count - 1], *act = site->nodes[0];
    if (d9_onednn_value(site, norm->inputs[1])->shape.rank != 4) return false;
    if (!storable(site, norm->inputs[0]) || !storable(site, norm->inputs[1])) return false;
    if (norm->outputs[0] != D9_NONE && !storable(site, norm->outputs[0])) return false;
    if (d9_onednn_value(site, norm->inputs[4])->type != D9_F32) return false;
    if (site->node_count == 1) return true;
    return norm->inputs[0] == act->outputs[0] && d9_site_internal(site, act->outputs[0]) &&
           same_type(site, act->inputs[0], act->outputs[0]) && storable(site, act->inputs[1]);
}

d9_status d9_onednn_norm_backward(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *norm = site->nodes[site->node_count - 1], *act = site->nodes[0];
    const d9_cpu_norm shape = shape_of(site, norm, norm->inputs[1]);
    d9_cpu_prologue prologue = {.act = {D9_CPU_NO_ACT, 0}};
    d9_cpu_in dy = d9_onednn_in(site, norm->inputs[0]);
    if (site->node_count == 2) {
        prologue = (d9_cpu_prologue){act_of(act), d9_onednn_in(site, act->inputs[1])};
        dy = d9_onednn_in(site, act->inputs[0]);
    }
    const d9_cpu_norm_gradients gradients = {d9_onednn_out(site, norm->outputs[0]), d9_site_data(site, norm->outputs[1]),
                                             d9_site_data(site, norm->outputs[2])};
    (void)context, (void)step;
    d9_cpu_norm_backward(d9_onednn_cpu(site), &shape, dy, &prologue, d9_onednn_in(site, norm->inputs[1]),
                         d9_site_data(site, norm->inputs[2]), d9_site_data(site, norm->inputs[3]),
                         d9_site_data(site, norm->inputs[4]), d9_onednn_of(site)->scratch, &gradients);
    return D9_OK;
}
