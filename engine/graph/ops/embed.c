/* The embedding of tokens: the rows of a table, and the sum of gradients into them. */
#include "graph/onnx.h"
#include "graph/op.h"

static d9_status shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape *table = d9_input_shape(graph, node, 0), *tokens = d9_input_shape(graph, node, 1);
    if (tokens->rank != 2)
        return d9_fail(context, D9_USAGE, "%s: tokens of rank %d, must be (T, N)", node->role, tokens->rank);
    d9_set_shape(graph, node->outputs[0], (d9_shape){3, {tokens->d[0], tokens->d[1], table->d[1]}});
    return D9_OK;
}

/* If a later node reads the table too, as tied weights do, the table's gradient already exists, and this node adds to
 * it. */
static d9_status gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    d9_status status = D9_OK;
    d9_node node = {
        .op = D9_OP_EMBED_BACKWARD, .inputs = {dy, forward->inputs[1]}, .input_count = 2, .output_count = 1};
    node.outputs[0] = d9_gradient_of(gradients->graph, forward->inputs[0]);
    if (node.outputs[0] != D9_NONE)
        node.inputs[node.input_count++] = node.outputs[0];
    else
        D9_TRY(d9_gradient_of_parameter(gradients, forward->inputs[0], &node.outputs[0]));
    if (node.outputs[0] != D9_NONE) D9_TRY(d9_gradient_append_node(gradients, forward, node));
done:
    return status;
}

/* Elements read: all tokens, and a row of the table for each of them. */
static double read_rows(const d9_graph *graph, const d9_node *node, int input) {
    return (double)d9_shape_count(input == 0 ? &graph->values[node->outputs[0]].shape : d9_input_shape(graph, node, 1));
}

static d9_status to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    (void)context;
    return d9_onnx_of_two(writer, "Gather", node);
}

const d9_op_info d9_op_EMBED = {
    .doc = "table (V, C), tokens i32 (T, N) -> y (T, N, C)",
    .inputs = 2,
    .outputs = 1,
    .shape = shape,
    .type = d9_type_compute,
    .gradient = gradient,
    .read = read_rows,
    .onnx = to_onnx,
};

const d9_op_info d9_op_EMBED_BACKWARD = {
    .doc = "dy (T, N, C), tokens [, dtable] -> dtable (V, C): adds dy of each token to its row, in ascending position; "
           "without dtable rows begin at 0",
    .inputs = 3,
    .min_inputs = 2,
    .in_place = 4,
    .outputs = 1,
    D9_PRESET_OUTPUTS,
};
