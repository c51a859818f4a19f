/* Bias: one number per channel, added to all elements of the channel. */
#include "graph/onnx.h"
#include "graph/op.h"

#include <stdio.h>

static d9_status shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape *x = d9_input_shape(graph, node, 0), *b = d9_input_shape(graph, node, 1);
    if (b->d[0] != d9_shape_channels(x))
        return d9_fail(context, D9_USAGE, "%s: %lld biases do not fit %lld channels", node->role, (long long)b->d[0],
                       (long long)d9_shape_channels(x));
    return d9_shape_copy_input(context, graph, node);
}

static d9_status gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    d9_status status;
    d9_node node = {.op = D9_OP_BIAS_BACKWARD, .inputs = {dy}, .input_count = 1, .output_count = 1};
    D9_TRY(d9_gradient_of_parameter(gradients, forward->inputs[1], &node.outputs[0]));
    if (node.outputs[0] != D9_NONE) D9_TRY(d9_gradient_append_node(gradients, forward, node));
    D9_TRY(d9_gradient_add(gradients, forward, forward->inputs[0], dy));
done:
    return status;
}

/* In ONNX the channels are the second dimension: for (N, C, H, W) the bias must have the shape (C, 1, 1). */
static d9_status to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    if (d9_onnx_is_part_of_recur(writer->graph, node)) return D9_OK;
    const char *bias = d9_onnx_input(writer, node, 1);
    char high[D9_NAME_SIZE + 8], axes[D9_NAME_SIZE + 8];
    (void)context;
    snprintf(high, sizeof high, "%s.high", node->role);
    snprintf(axes, sizeof axes, "%s.axes", node->role);
    if (d9_input_shape(writer->graph, node, 0)->rank == 4) {
        writer->integer_constant(writer, axes, (int64_t[]){1, 2}, 2);
        d9_onnx_node(writer, "Unsqueeze", high, (const char *[]){bias, axes, NULL}, high);
        bias = high;
    }
    d9_onnx_node(writer, "Add", node->role, (const char *[]){d9_onnx_input(writer, node, 0), bias, NULL},
                 d9_onnx_output(writer, node));
    return D9_OK;
}

const d9_op_info d9_op_BIAS = {
    .doc = "x (..., C), bias (C) -> x + bias",
    .inputs = 2,
    .outputs = 1,
    .shape = shape,
    .type = d9_type_of_input,
    .gradient = gradient,
    .onnx = to_onnx,
};

const d9_op_info d9_op_BIAS_BACKWARD = {
    .doc = "dy (..., C) -> dbias (C): the sum over all other dimensions",
    .inputs = 1,
    .outputs = 1,
    D9_PRESET_OUTPUTS,
};
