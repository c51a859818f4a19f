/* Pooling over kernel x kernel windows: max pooling, which ignores positions outside the image, and mean pooling. */
#include "graph/onnx.h"
#include "graph/op.h"

/* Infers the output's shape, or rejects the pool's sizes. */
static d9_status shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape *x = d9_input_shape(graph, node, 0);
    const d9_pool_attributes *pool = &node->as.pool;
    if (pool->kernel < 1 || pool->stride < 1 || pool->pad < 0 || 2 * pool->pad > pool->kernel)
        return d9_fail(
            context, D9_USAGE,
            "%s: a %dx%d pool by %d with padding %d: kernel and stride must be at least 1, the padding at most "
            "half of the kernel",
            node->role, pool->kernel, pool->kernel, pool->stride, pool->pad);
    const int64_t high = x->d[1] + 2 * pool->pad - pool->kernel, wide = x->d[2] + 2 * pool->pad - pool->kernel;
    if (x->rank != 4 || high < 0 || wide < 0)
        return d9_fail(context, D9_USAGE,
                       "%s: %lldx%lld is too small for a %dx%d pool: the images are too small for this model",
                       node->role, (long long)x->d[1], (long long)x->d[2], pool->kernel, pool->kernel);
    d9_set_shape(graph, node->outputs[0],
                 (d9_shape){4, {x->d[0], high / pool->stride + 1, wide / pool->stride + 1, x->d[3]}});
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
    writer->begin(writer, node->op == D9_OP_POOL ? "MaxPool" : "AveragePool", node->role,
                  (const char *[]){d9_onnx_input(writer, node, 0), NULL}, d9_onnx_output(writer, node));
    writer->integers(writer, "kernel_shape", (int64_t[]){pool->kernel, pool->kernel}, 2);
    writer->integers(writer, "strides", (int64_t[]){pool->stride, pool->stride}, 2);
    if (pool->pad) writer->integers(writer, "pads", (int64_t[]){pool->pad, pool->pad, pool->pad, pool->pad}, 4);
    writer->end(writer);
    return D9_OK;
}

const d9_op_info d9_op_POOL = {
    .doc = "x -> y: maximum over kernel x kernel windows, ignoring positions outside the image",
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
    D9_PRESET_OUTPUTS,
};

static d9_status mean_shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    if (node->as.pool.pad != 0) return d9_fail(context, D9_USAGE, "%s: a mean pool has no padding", node->role);
    return shape(context, graph, node);
}

static d9_status mean_gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    return d9_gradient_of_input(gradients, forward, 0,
                                (d9_node){.op = D9_OP_MEAN_POOL_BACKWARD, .inputs = {dy}, .input_count = 1});
}

const d9_op_info d9_op_MEAN_POOL = {
    .doc = "x -> y: mean over kernel x kernel windows",
    .inputs = 1,
    .outputs = 1,
    .shape = mean_shape,
    .type = d9_type_of_input,
    .gradient = mean_gradient,
    .onnx = to_onnx,
};

const d9_op_info d9_op_MEAN_POOL_BACKWARD = {
    .doc = "dy -> dx: each pixel gets dy / kernel^2 of every window that contains it",
    .inputs = 1,
    .outputs = 1,
    D9_PRESET_OUTPUTS,
};
