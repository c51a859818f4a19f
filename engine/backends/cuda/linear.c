/* Large linear layers as matrix products by cuBLAS: y = x w^T, and its gradients dx = dy w, dw = dy^T x. */
#include "backends/cuda/cuda.h"

d9_cuda_product d9_cuda_product_of(const d9_site *site, const d9_kernel_linear *layer, d9_op pass) {
    const bool forward = pass == D9_OP_LINEAR, weight = pass == D9_OP_LINEAR_BACKWARD_WEIGHT;
    return (d9_cuda_product){.type = D9_F32,
                             .y_type = D9_F32,
                             .tf32 = site->program->precision->tf32,
                             .batch = 1,
                             .rows = weight ? layer->outputs : layer->samples,
                             .columns = forward ? layer->outputs : layer->inputs,
                             .depth = forward  ? layer->inputs
                                      : weight ? layer->samples
                                               : layer->outputs,
                             .a_transposed = weight,
                             .b_transposed = forward,
                             .alpha = 1};
}

/* Sizes of a site's linear layer, forward or backward; samples: rows of y, which are images or tokens. */
d9_kernel_linear d9_cuda_linear_of(const d9_site *site) {
    const d9_node *node = site->nodes[0];
    const bool forward = node->op == D9_OP_LINEAR, gradient = node->op == D9_OP_LINEAR_BACKWARD_WEIGHT;
    const d9_shape *weight = &d9_site_value(site, gradient ? node->outputs[0] : node->inputs[1])->shape;
    const int64_t elements = d9_site_count(site, forward ? node->outputs[0] : node->inputs[0]);
    return (d9_kernel_linear){elements / weight->d[0], weight->d[1], weight->d[0]};
}

static d9_type type_of(const d9_site *site, d9_value_id id) { return d9_site_value(site, id)->type; }

/* True if both factors have the same type, the result has it too or is f32, and the layer is large. */
bool d9_cuda_large_linear_match(const d9_site *site) {
    const d9_node *node = site->nodes[0];
    const d9_kernel_linear s = d9_cuda_linear_of(site);
    const d9_type type = type_of(site, node->inputs[0]), y_type = type_of(site, node->outputs[0]);
    return d9_cuda_storable(type) && type_of(site, node->inputs[1]) == type && (y_type == type || y_type == D9_F32) &&
           d9_cuda_uses_cublas(s.samples, s.inputs, s.outputs);
}

/* d9_cuda_large_linear_match; also, only the bias node reads the layer's output, and output, bias and sum are f32. */
bool d9_cuda_large_linear_bias_match(const d9_site *site) {
    const d9_node *linear = site->nodes[0], *bias = site->nodes[1];
    return d9_cuda_large_linear_match(site) && bias->inputs[0] == linear->outputs[0] &&
           d9_site_internal(site, linear->outputs[0]) && type_of(site, bias->outputs[0]) == D9_F32 &&
           type_of(site, linear->outputs[0]) == D9_F32 && type_of(site, bias->inputs[1]) == D9_F32;
}

d9_status d9_cuda_large_linear_prepare(d9_context *context, d9_site *site) {
    d9_status status;
    const d9_node *node = site->nodes[0];
    const d9_kernel_linear layer = d9_cuda_linear_of(site);
    d9_cuda_product product = d9_cuda_product_of(site, &layer, node->op);
    d9_cuda *cuda = d9_cuda_of(site);
    int64_t bytes;
    product.type = type_of(site, node->inputs[0]);
    product.y_type = type_of(site, node->outputs[0]);
    product.biased = site->node_count > 1;
    site->tf32_outputs = product.tf32;
    D9_TRY(cuda->multiplier->plan(context, &cuda->multiplier_state, &product, &site->data, &bytes));
    D9_TRY(d9_cuda_reserve_scratch(context, cuda, bytes));
done:
    return status;
}

void d9_cuda_product_release(d9_context *context, d9_site *site) {
    const d9_cuda *cuda = d9_cuda_of(site);
    cuda->multiplier->free_plan(context, cuda->multiplier_state, site->data);
}

D9_CUDA_RUN(large_linear) {
    const d9_node *node = site->nodes[0];
    const d9_cuda *cuda = d9_cuda_of(site);
    const d9_node *last = site->nodes[site->node_count - 1];
    const d9_cuda_matrices matrices = {d9_site_data(site, node->inputs[0]), d9_site_data(site, node->inputs[1]), NULL,
                                       d9_site_data(site, last->outputs[0]),
                                       last != node ? d9_site_data(site, last->inputs[1]) : NULL};
    (void)step;
    return cuda->multiplier->run(context, cuda->multiplier_state, site->data, &matrices, cuda->scratch, cuda->stream);
}
