/* Max pooling: the maximum over kernel x kernel windows, no padding. */
#include "graph/onnx.h"
#include "graph/op.h"

static d9_status shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape *x = d9_input_shape(graph, node, 0);
    const d9_pool_attributes *pool = &node->as.pool;
    if (x->rank != 4 || x->d[1] < pool->kernel || x->d[2] < pool->kernel)
        return d9_fail(context, D9_USAGE,
                       "%s: %lldx%lld is too small for a %dx%d pool: the images are too small for this model",
                       node->role, (long long)x->d[1], (long long)x->d[2], pool->kernel, pool->kernel);
    int64_t height = (x->d[1] - pool->kernel) / pool->stride + 1, width = (x->d[2] - pool->kernel) / pool->stride + 1;
    d9_set_shape(graph, node->outputs[0], (d9_shape){4, {x->d[0], height, width, x->d[3]}});
    return D9_OK;
}

static d9_status gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    return d9_gradient_of_input(
        gradients, forward, 0,
        (d9_node){.op = D9_OP_POOL_BACKWARD, .inputs = {dy, forward->inputs[0]}, .input_count = 2});
}

static d9_status to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    const d9_pool_attributes *pool = &node->as.pool;
    (void)context;
    writer->begin(writer, "MaxPool", node->role, (const char *[]){d9_onnx_input(writer, node, 0), NULL},
                  d9_onnx_output(writer, node));
    writer->integers(writer, "kernel_shape", (int64_t[]){pool->kernel, pool->kernel}, 2);
    writer->integers(writer, "strides", (int64_t[]){pool->stride, pool->stride}, 2);
    writer->end(writer);
    return D9_OK;
}

const d9_op_info d9_op_POOL = {
    .doc = "x -> y: maximum over kernel x kernel windows",
    .inputs = 1,
    .outputs = 1,
    .shape = shape,
    .type = d9_type_of_input,
    .gradient = gradient,
    .onnx = to_onnx,
};

const d9_op_info d9_op_POOL_BACKWARD = {
    .doc = "dy, x -> dx: to the first maximum of each window in row-major order",
    .inputs = 2,
    .outputs = 1,
    D9_AS_MADE,
};
