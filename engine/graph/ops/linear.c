/* The linear layer: y = x w^T, where x is flattened to (N, I); of texts (T, N, I), each token is a row. */
#include "graph/onnx.h"
#include "graph/op.h"

#include <stdio.h>

static d9_status shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape *x = d9_input_shape(graph, node, 0), *w = d9_input_shape(graph, node, 1);
    const int64_t inputs = d9_linear_inputs(x);
    if (inputs != w->d[1])
        return d9_fail(context, D9_USAGE, "%s: %lld features do not fit a weight of %lld", node->role,
                       (long long)inputs, (long long)w->d[1]);
    d9_set_shape(graph, node->outputs[0],
                 x->rank == 3 ? (d9_shape){3, {x->d[0], x->d[1], w->d[0]}} : (d9_shape){2, {x->d[0], w->d[0]}});
    return D9_OK;
}

/* The classifier's output has the type of the logits, even if scales and biases follow it. */
static d9_type type(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision) {
    d9_value_id y = node->outputs[slot];
    d9_node_id next;
    while (y != graph->logits && d9_graph_consumers(graph, y, &next) == 1 &&
           (graph->nodes[next].op == D9_OP_SCALE || graph->nodes[next].op == D9_OP_BIAS))
        y = graph->nodes[next].outputs[0];
    return y == graph->logits ? precision->master : precision->compute;
}

static d9_status gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    return d9_gradient_weighted(gradients, forward, dy, D9_OP_LINEAR_BACKWARD_WEIGHT, D9_OP_LINEAR_BACKWARD_DATA);
}

/* Multiplies each token (T, N, I) by the transposed weight. */
static d9_status tokens_to_onnx(d9_onnx_writer *writer, const d9_node *node) {
    char transposed[D9_NAME_SIZE + 16];
    if (d9_onnx_is_part_of_recur(writer->graph, node)) return D9_OK;
    snprintf(transposed, sizeof transposed, "%s.transposed", node->role);
    writer->begin(writer, "Transpose", transposed, (const char *[]){d9_onnx_input(writer, node, 1), NULL}, transposed);
    writer->integers(writer, "perm", (int64_t[]){1, 0}, 2);
    writer->end(writer);
    d9_onnx_node(writer, "MatMul", node->role, (const char *[]){d9_onnx_input(writer, node, 0), transposed, NULL},
                 d9_onnx_output(writer, node));
    return D9_OK;
}

/* ONNX flattens feature maps as (C, H, W); the weight's columns are reordered accordingly (exchange/exchange.h). */
static d9_status to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    char flat[D9_NAME_SIZE + 8];
    (void)context;
    if (d9_input_shape(writer->graph, node, 0)->rank == 3) return tokens_to_onnx(writer, node);
    snprintf(flat, sizeof flat, "%s.flat", node->role);
    writer->begin(writer, "Flatten", flat, (const char *[]){d9_onnx_input(writer, node, 0), NULL}, flat);
    writer->integer(writer, "axis", 1);
    writer->end(writer);
    writer->begin(writer, "Gemm", node->role, (const char *[]){flat, d9_onnx_input(writer, node, 1), NULL},
                  d9_onnx_output(writer, node));
    writer->integer(writer, "transB", 1);
    writer->end(writer);
    return D9_OK;
}

const d9_op_info d9_op_LINEAR = {
    .doc = "x (N, ...) flattened to (N, I), weight (O, I) -> y (N, O); x (T, N, I) -> y (T, N, O)",
    .inputs = 2,
    .outputs = 1,
    .weighted = true,
    .conv_or_linear = true, /* equal to a 1 x 1 convolution */
    .shape = shape,
    .type = type,
    .gradient = gradient,
    .operations = d9_operations_forward,
    .onnx = to_onnx,
};

const d9_op_info d9_op_LINEAR_BACKWARD_DATA = {
    .doc = "dy, weight -> dx",
    .inputs = 2,
    .outputs = 1,
    D9_PRESET_OUTPUTS,
    .conv_or_linear = true,
    .operations = d9_operations_backward_data,
};

const d9_op_info d9_op_LINEAR_BACKWARD_WEIGHT = {
    .doc = "dy, x -> dweight",
    .inputs = 2,
    .outputs = 1,
    D9_PRESET_OUTPUTS,
    .conv_or_linear = true,
    .operations = d9_operations_backward_weight,
};
