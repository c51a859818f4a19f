/* CUDA rules for texts: embeddings, recurrent layers, the last token. */
#include "backends/cuda/cuda.h"

/* ---- embeddings ---- */

d9_cuda_embedding d9_cuda_embedding_of(const d9_site *site) {
    const d9_node *node = site->nodes[0];
    const d9_value_id table = node->op == D9_OP_EMBED ? node->inputs[0] : node->outputs[0];
    const d9_shape *shape = &d9_site_value(site, table)->shape;
    return (d9_cuda_embedding){shape->d[0], d9_site_count(site, node->inputs[1]), shape->d[1]};
}

D9_CUDA_RUN(embed) {
    const d9_node *node = site->nodes[0];
    const d9_cuda_embedding shape = d9_cuda_embedding_of(site);
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_embed_forward(d9_cuda_stream_of(site), &shape, d9_site_data(site, node->inputs[0]),
                                               d9_site_data(site, node->inputs[1]),
                                               d9_cuda_output(site, node->outputs[0])));
}

d9_status d9_cuda_prepare_embed_backward(d9_context *context, d9_site *site) {
    d9_status status;
    int64_t bytes;
    const d9_cuda_embedding shape = d9_cuda_embedding_of(site);
    D9_TRY(d9_cuda_check(context, site, d9_cuda_embed_scratch_bytes(&shape, &bytes)));
    D9_TRY(d9_cuda_reserve_scratch(context, d9_cuda_of(site), bytes));
done:
    return status;
}

D9_CUDA_RUN(embed_backward) {
    const d9_node *node = site->nodes[0];
    const float *before = node->input_count > 2 ? d9_site_data(site, node->inputs[2]) : NULL;
    const d9_cuda_embedding shape = d9_cuda_embedding_of(site);
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_embed_backward(d9_cuda_stream_of(site), &shape, d9_cuda_input(site, node->inputs[0]),
                                                d9_site_data(site, node->inputs[1]), before, d9_cuda_of(site)->scratch,
                                                d9_site_data(site, node->outputs[0])));
}

/* ---- recurrent layers ---- */

d9_cuda_recur d9_cuda_recur_of(const d9_site *site) {
    const d9_node *node = site->nodes[0];
    const d9_value_id y = node->op == D9_OP_RECUR ? node->outputs[0] : node->inputs[1];
    const d9_shape *shape = &d9_site_value(site, y)->shape;
    return (d9_cuda_recur){(int)node->as.recur.cell, shape->d[0], shape->d[1], shape->d[2]};
}

/* True if each value is f32 or D9_NONE. Biases, saved numbers, c and gradients of parameters must be f32. */
static bool are_f32(const d9_site *site, const d9_value_id *values, int count) {
    for (int i = 0; i < count; i++)
        if (values[i] != D9_NONE && d9_site_value(site, values[i])->type != D9_F32) return false;
    return true;
}

bool d9_cuda_recur_match(const d9_site *site) {
    const d9_node *node = site->nodes[0];
    const d9_cuda_recur shape = d9_cuda_recur_of(site);
    const d9_value_id forward[] = {node->inputs[2], node->input_count > 4 ? node->inputs[4] : D9_NONE, node->outputs[1],
                                   node->output_count > 3 ? node->outputs[3] : D9_NONE};
    const d9_value_id backward[] = {node->inputs[2], node->input_count > 5 ? node->inputs[5] : D9_NONE,
                                    node->outputs[1], node->outputs[2]};
    return d9_site_types_fit(site, d9_cuda_storable) && d9_cuda_recur_fits(&shape) &&
           are_f32(site, node->op == D9_OP_RECUR ? forward : backward, 4);
}

/* The states before the first time step: h is input `first` and c the next one; a missing input means zeros. */
static d9_cuda_recur_state state_of(const d9_site *site, int first) {
    const d9_node *node = site->nodes[0];
    d9_cuda_recur_state state = {{NULL, D9_KERNEL_F32}, NULL};
    if (node->input_count > first) state.h = d9_cuda_input(site, node->inputs[first]);
    if (node->input_count > first + 1) state.c = d9_site_data(site, node->inputs[first + 1]);
    return state;
}

D9_CUDA_RUN(recur) {
    const d9_node *node = site->nodes[0];
    const d9_cuda_recur shape = d9_cuda_recur_of(site);
    const d9_cuda_recur_state first = state_of(site, 3);
    d9_cuda_recur_result out = {.y = d9_cuda_output(site, node->outputs[0]),
                                .saved = d9_site_data(site, node->outputs[1])};
    (void)step;
    if (node->output_count > 2) out.last_h = d9_cuda_output(site, node->outputs[2]);
    if (node->output_count > 3) out.last_c = d9_site_data(site, node->outputs[3]);
    return d9_cuda_check(context, site,
                         d9_cuda_recur_forward(d9_cuda_stream_of(site), &shape, d9_cuda_input(site, node->inputs[0]),
                                               d9_cuda_input(site, node->inputs[1]),
                                               d9_site_data(site, node->inputs[2]), &first, &out));
}

/* Sizes of a linear layer with weight U over the samples of all time steps; its weight gradient is that of U. */
static d9_kernel_linear layer_of(const d9_cuda_recur *shape) {
    const int64_t gates = d9_cell_counts_of(shape->cell).gates;
    return (d9_kernel_linear){shape->time * shape->samples, shape->units, gates * shape->units};
}

/* Offset of the product's workspace in the scratch memory. */
static int64_t workspace_offset(const d9_cuda_recur *shape) {
    enum { ALIGNMENT = 256 };
    return (d9_cuda_recur_scratch_bytes(shape) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The gradient of U is a matrix product by cuBLAS, whose plan is the site's data, or, if it is small, by our kernel. */
d9_status d9_cuda_prepare_recur_backward(d9_context *context, d9_site *site) {
    d9_status status;
    const d9_cuda_recur shape = d9_cuda_recur_of(site);
    const d9_kernel_linear layer = layer_of(&shape);
    const d9_cuda_product product = d9_cuda_product_of(site, &layer, D9_OP_LINEAR_BACKWARD_WEIGHT);
    d9_cuda *cuda = d9_cuda_of(site);
    int64_t bytes = 0;
    if (d9_cuda_uses_cublas(layer.samples, layer.inputs, layer.outputs)) {
        D9_TRY(cuda->multiplier->plan(context, &cuda->multiplier_state, &product, &site->data, &bytes));
        site->tf32_outputs = product.tf32 ? 1u << 1 : 0; /* the gradient of U */
    }
    D9_TRY(d9_cuda_reserve_scratch(context, cuda, workspace_offset(&shape) + bytes));
done:
    return status;
}

D9_CUDA_RUN(recur_backward) {
    d9_status status;
    const d9_node *node = site->nodes[0];
    const d9_cuda_recur shape = d9_cuda_recur_of(site);
    const d9_cuda_recur_kept kept = {d9_cuda_input(site, node->inputs[1]), d9_site_data(site, node->inputs[2]),
                                     state_of(site, 4)};
    const d9_cuda *cuda = d9_cuda_of(site);
    float *du = d9_site_data(site, node->outputs[1]), *da, *before;
    (void)step;
    D9_TRY(d9_cuda_check(context, site,
                         d9_cuda_recur_backward(cuda->stream, &shape, d9_cuda_input(site, node->inputs[0]), &kept,
                                                d9_cuda_input(site, node->inputs[3]), cuda->scratch,
                                                d9_cuda_output(site, node->outputs[0]), site->data ? NULL : du,
                                                d9_site_data(site, node->outputs[2]))));
    d9_cuda_recur_product_operands(&shape, cuda->scratch, &da, &before);
    const d9_cuda_matrices matrices = {da, before, NULL, du, NULL};
    if (site->data && du)
        D9_TRY(cuda->multiplier->run(context, cuda->multiplier_state, site->data, &matrices,
                                     (uint8_t *)cuda->scratch + workspace_offset(&shape), cuda->stream));
done:
    return status;
}

/* ---- the last token ---- */

D9_CUDA_RUN(last) {
    const d9_node *node = site->nodes[0];
    const int64_t bytes = d9_site_bytes(site, node->outputs[0]);
    const uint8_t *x = d9_site_data(site, node->inputs[0]);
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_copy(d9_cuda_stream_of(site), x + d9_site_bytes(site, node->inputs[0]) - bytes, bytes,
                                      d9_site_data(site, node->outputs[0])));
}

D9_CUDA_RUN(last_backward) {
    const d9_node *node = site->nodes[0];
    (void)step;
    return d9_cuda_check(context, site,
                         d9_cuda_last_backward(d9_cuda_stream_of(site), d9_cuda_input(site, node->inputs[0]),
                                               d9_site_value(site, node->outputs[0])->shape.d[0],
                                               d9_site_count(site, node->inputs[0]),
                                               d9_cuda_output(site, node->outputs[0])));
}
