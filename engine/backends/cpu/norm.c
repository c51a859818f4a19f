/* The rules of batch normalisation: norm and norm_eval with what follows them, norm_backward with what precedes it.
 *
 * norm -> act -> add is one pass over the activation after the statistics. What is not wanted outside the site is not
 * written: norm's y always, act's y where no backward node takes its slope there. */
#include "backends/cpu/cpu.h"
#include "backends/host/shapes.h"

static bool storable(d9_type type) { return type == D9_F32 || type == D9_BF16; }

/* ---- forward ---- */

static bool norm_match(const d9_site *site) { return d9_chain_norm_fits(site, storable); }

static d9_status prepare(d9_context *context, d9_site *site) {
    const d9_kernel_norm shape = d9_chain_extent(site);
    return d9_cpu_reserve(context, d9_cpu_device_of(site), d9_cpu_norm_scratch_bytes(&shape));
}

/* What follows the norm, and where the value before the addition goes. */
static d9_kernel_epilogue epilogue_of(const d9_site *site, d9_kernel_out *y) {
    d9_kernel_epilogue epilogue = {.act = {D9_KERNEL_NO_ACT, 0}};
    *y = d9_cpu_out(site, site->nodes[0]->outputs[0]);
    if (site->node_count == 1) return epilogue;
    epilogue.act = d9_node_act(site->nodes[1]);
    *y = d9_cpu_out(site, site->nodes[1]->outputs[0]);
    if (site->node_count == 2) return epilogue;
    if (d9_site_internal(site, site->nodes[1]->outputs[0])) y->data = NULL;
    epilogue.addend = d9_cpu_in(site, d9_chain_addend(site));
    epilogue.last = d9_cpu_out(site, site->nodes[2]->outputs[0]);
    return epilogue;
}

static d9_status run_norm(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *norm = site->nodes[0];
    const d9_kernel_norm shape = d9_chain_extent(site);
    const bool evaluate = norm->op == D9_OP_NORM_EVAL;
    const d9_kernel_norm_state state = d9_site_norm_state(site, norm);
    d9_kernel_out y;
    const d9_kernel_epilogue epilogue = epilogue_of(site, &y);
    void *scratch = d9_cpu_device_of(site)->scratch;
    (void)context, (void)step;
    if (evaluate)
        d9_cpu_norm_eval(d9_cpu_of(site), &shape, d9_cpu_in(site, norm->inputs[0]), &state, &epilogue, scratch, y);
    else
        d9_cpu_norm_forward(d9_cpu_of(site), &shape, d9_cpu_in(site, norm->inputs[0]), &state, &epilogue, scratch, y);
    return D9_OK;
}

/* ---- backward ---- */

static bool norm_backward_match(const d9_site *site) { return d9_chain_norm_backward_fits(site, storable); }

static d9_status run_norm_backward(d9_context *context, const d9_site *site, int64_t step) {
    const d9_node *norm = d9_chain_norm(site), *act = site->nodes[0];
    const d9_kernel_norm shape = d9_chain_extent(site);
    d9_cpu_prologue prologue = {.act = {D9_KERNEL_NO_ACT, 0}};
    d9_kernel_in dy = d9_cpu_in(site, norm->inputs[0]);
    if (site->node_count == 2) {
        prologue = (d9_cpu_prologue){d9_node_act(act), d9_cpu_in(site, act->inputs[1])};
        dy = d9_cpu_in(site, act->inputs[0]);
    }
    const d9_kernel_norm_gradients gradients = {
        d9_cpu_out(site, norm->outputs[0]), d9_site_data(site, norm->outputs[1]), d9_site_data(site, norm->outputs[2])};
    (void)context, (void)step;
    d9_cpu_norm_backward(d9_cpu_of(site), &shape, dy, &prologue, d9_cpu_in(site, norm->inputs[1]),
                         d9_site_data(site, norm->inputs[2]), d9_site_data(site, norm->inputs[3]),
                         d9_site_data(site, norm->inputs[4]), d9_cpu_device_of(site)->scratch, &gradients);
    return D9_OK;
}

/* ---- the table ---- */

#define NORM(rule_name, count, ...)                                                                                    \
    {                                                                                                                  \
        .name = rule_name, .node_count = count, .ops = {__VA_ARGS__}, .match = norm_match, .prepare = prepare,         \
        .run = run_norm                                                                                                \
    }
#define NORM_BACKWARD(rule_name, count, ...)                                                                           \
    {                                                                                                                  \
        .name = rule_name, .node_count = count, .ops = {__VA_ARGS__}, .match = norm_backward_match,                    \
        .prepare = prepare, .run = run_norm_backward                                                                   \
    }

const d9_rule d9_cpu_norm_rules[] = {
    NORM("norm+act+add", 3, D9_OP_NORM, D9_OP_ACT, D9_OP_ADD),
    NORM("norm_eval+act+add", 3, D9_OP_NORM_EVAL, D9_OP_ACT, D9_OP_ADD),
    NORM("norm+act", 2, D9_OP_NORM, D9_OP_ACT),
    NORM("norm_eval+act", 2, D9_OP_NORM_EVAL, D9_OP_ACT),
    NORM_BACKWARD("act_backward+norm_backward", 2, D9_OP_ACT_BACKWARD, D9_OP_NORM_BACKWARD),
    NORM("norm", 1, D9_OP_NORM),
    NORM("norm_eval", 1, D9_OP_NORM_EVAL),
    NORM_BACKWARD("norm_backward", 1, D9_OP_NORM_BACKWARD),
    {.name = NULL},
};
