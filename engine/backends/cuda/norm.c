/* The rules of batch normalisation: norm and norm_eval with what follows them, norm_backward with what precedes it.
 * What is not wanted outside the site is not written: norm's y always, act's y where no backward node takes its slope
 * there. */
#include "backends/cuda/cuda.h"

static d9_cuda_norm shape_of(const d9_site *site) {
    const d9_norm_extent extent = d9_chain_extent(site);
    return (d9_cuda_norm){extent.images, extent.pixels, extent.channels, extent.groups};
}

bool d9_cuda_norm_match(const d9_site *site) { return d9_chain_norm_fits(site, d9_cuda_storable); }
bool d9_cuda_norm_backward_match(const d9_site *site) { return d9_chain_norm_backward_fits(site, d9_cuda_storable); }

d9_status d9_cuda_norm_prepare(d9_context *context, d9_site *site) {
    const d9_cuda_norm shape = shape_of(site);
    return d9_cuda_reserve(context, d9_cuda_of(site), d9_cuda_norm_scratch_bytes(&shape));
}

static d9_cuda_act act_of(const d9_node *node) {
    return (d9_cuda_act){(int)node->as.act.activation, (float)node->as.act.alpha};
}

/* What follows the norm, and where the value before the addition goes. */
static d9_cuda_epilogue epilogue_of(const d9_site *site, d9_cuda_out *y) {
    d9_cuda_epilogue after = {.act = {D9_CUDA_NO_ACT, 0}};
    *y = d9_cuda_output(site, site->nodes[0]->outputs[0]);
    if (site->node_count > 1) {
        after.act = act_of(site->nodes[1]);
        *y = d9_cuda_output(site, site->nodes[1]->outputs[0]);
    }
    if (site->node_count > 2) {
        after.addend = d9_cuda_input(site, d9_chain_addend(site));
        after.sum = d9_cuda_output(site, site->nodes[2]->outputs[0]);
        if (d9_site_internal(site, site->nodes[1]->outputs[0])) y->data = NULL;
    }
    return after;
}

D9_CUDA_RUN(norm) {
    const d9_node *norm = site->nodes[0];
    const d9_cuda_norm shape = shape_of(site);
    const bool training = norm->op == D9_OP_NORM;
    d9_cuda_norm_state state = {.scale = d9_site_data(site, norm->inputs[1]),
                                .bias = d9_site_data(site, norm->inputs[2]),
                                .running_mean = d9_site_data(site, norm->inputs[3]),
                                .running_var = d9_site_data(site, norm->inputs[4]),
                                .epsilon = norm->as.norm.epsilon,
                                .momentum = norm->as.norm.momentum};
    d9_cuda_out y;
    const d9_cuda_epilogue after = epilogue_of(site, &y);
    const d9_cuda_in x = d9_cuda_input(site, norm->inputs[0]);
    void *scratch = d9_cuda_of(site)->scratch;
    (void)step;
    if (training) {
        state.mean = d9_site_data(site, norm->outputs[1]);
        state.inv_std = d9_site_data(site, norm->outputs[2]);
    }
    return d9_cuda_check(context, site,
                         (training ? d9_cuda_norm_forward : d9_cuda_norm_eval)(d9_cuda_stream_of(site), &shape, x,
                                                                               &state, &after, scratch, y));
}

D9_CUDA_RUN(norm_backward) {
    const d9_node *norm = d9_chain_norm(site), *act = site->nodes[0];
    const d9_cuda_norm shape = shape_of(site);
    const bool fused = act != norm;
    const d9_cuda_prologue before = {fused ? act_of(act) : (d9_cuda_act){D9_CUDA_NO_ACT, 0},
                                     fused ? d9_cuda_input(site, act->inputs[1]) : (d9_cuda_in){NULL, D9_CUDA_F32}};
    const d9_cuda_norm_gradients gradients = {d9_cuda_output(site, norm->outputs[0]),
                                              d9_site_data(site, norm->outputs[1]),
                                              d9_site_data(site, norm->outputs[2])};
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_norm_backward(d9_cuda_stream_of(site), &shape,
                                               d9_cuda_input(site, fused ? act->inputs[0] : norm->inputs[0]), &before,
                                               d9_cuda_input(site, norm->inputs[1]),
                                               d9_site_data(site, norm->inputs[2]), d9_site_data(site, norm->inputs[3]),
                                               d9_site_data(site, norm->inputs[4]), d9_cuda_of(site)->scratch,
                                               &gradients));
}
