/* Concatenation along the channels. Its gradient is a slice of the channels for each input. */
#include "graph/onnx.h"
#include "graph/op.h"

static d9_status shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    d9_shape y = *d9_input_shape(graph, node, 0);
    const d9_shape *b = d9_input_shape(graph, node, 1);
    bool fits = y.rank == b->rank;
    for (int i = 0; fits && i + 1 < y.rank; i++) fits = y.d[i] == b->d[i];
    if (!fits) return d9_fail(context, D9_USAGE, "%s: the two sides differ in more than their channels", node->role);
    y.d[y.rank - 1] += d9_shape_channels(b);
    d9_set_shape(graph, node->outputs[0], y);
    return D9_OK;
}

static d9_status gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    d9_status status = D9_OK;
    d9_node slice = *forward; /* a copy whose attributes become those of the SLICE nodes; offset 0 at first */
    for (int i = 0; i < 2; i++) {
        D9_TRY(
            d9_gradient_of_input(gradients, &slice, i, (d9_node){.op = D9_OP_SLICE, .inputs = {dy}, .input_count = 1}));
        slice.as.slice.offset =
            d9_shape_channels(d9_input_shape(gradients->graph, forward, 0)); /* offset of the second input */
    }
done:
    return status;
}

static d9_status to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    (void)context;
    writer->begin(writer, "Concat", node->role,
                  (const char *[]){d9_onnx_input(writer, node, 0), d9_onnx_input(writer, node, 1), NULL},
                  d9_onnx_output(writer, node));
    writer->integer(writer, "axis", 1);
    writer->end(writer);
    return D9_OK;
}

const d9_op_info d9_op_CONCAT = {
    .doc = "a (..., A), b (..., B) -> y (..., A + B)",
    .inputs = 2,
    .outputs = 1,
    .shape = shape,
    .type = d9_type_of_input,
    .gradient = gradient,
    .onnx = to_onnx,
};

const d9_op_info d9_op_SLICE = {
    .doc = "x (..., C) -> y: channels of x, starting at offset",
    .inputs = 1,
    .outputs = 1,
    D9_PRESET_OUTPUTS,
};
