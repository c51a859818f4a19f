/* Activations: rows of kernels/formulas/activations.def. */
#include "graph/onnx.h"
#include "graph/op.h"

#include <stdio.h>

static d9_status gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    const d9_value_id reference =
        d9_activation_from_output((int)forward->as.act.activation) ? forward->outputs[0] : forward->inputs[0];
    return d9_gradient_of_input(gradients, forward, 0,
                                (d9_node){.op = D9_OP_ACT_BACKWARD, .inputs = {dy, reference}, .input_count = 2});
}

/* x / 2 * (1 + erf(x / sqrt(2))), because ONNX has no Gelu in the exported opset. */
static void gelu_to_onnx(d9_onnx_writer *writer, const char *role, const char *x, const char *y) {
    static const double constants[] = {0.70710678118654752440, 1, 0.5};
    enum { SCALED, ERF, SUM, HALF, ROOT, ONE, POINT_FIVE, NAMES };
    static const char *const parts[NAMES] = {"scaled", "erf", "sum", "halved", "root_half", "one", "half"};
    char names[NAMES][D9_NAME_SIZE + 16];
    for (int i = 0; i < NAMES; i++) snprintf(names[i], sizeof names[i], "%s.%s", role, parts[i]);
    for (int i = 0; i < 3; i++) writer->constant(writer, names[ROOT + i], &constants[i], 0);
    d9_onnx_node(writer, "Mul", names[SCALED], (const char *[]){x, names[ROOT], NULL}, names[SCALED]);
    d9_onnx_node(writer, "Erf", names[ERF], (const char *[]){names[SCALED], NULL}, names[ERF]);
    d9_onnx_node(writer, "Add", names[SUM], (const char *[]){names[ERF], names[ONE], NULL}, names[SUM]);
    d9_onnx_node(writer, "Mul", names[HALF], (const char *[]){x, names[POINT_FIVE], NULL}, names[HALF]);
    d9_onnx_node(writer, "Mul", role, (const char *[]){names[HALF], names[SUM], NULL}, y);
}

static d9_status to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    const char *const x[] = {d9_onnx_input(writer, node, 0), NULL}, *y = d9_onnx_output(writer, node);
    char gate[D9_NAME_SIZE + 8];
    switch (node->as.act.activation) {
    case D9_ACT_RELU:
        d9_onnx_node(writer, "Relu", node->role, x, y);
        return D9_OK;
    case D9_ACT_CELU:
        writer->begin(writer, "Celu", node->role, x, y);
        writer->real(writer, "alpha", node->as.act.alpha);
        writer->end(writer);
        return D9_OK;
    case D9_ACT_GELU:
        gelu_to_onnx(writer, node->role, x[0], y);
        return D9_OK;
    case D9_ACT_SILU:
        snprintf(gate, sizeof gate, "%s.gate", node->role);
        d9_onnx_node(writer, "Sigmoid", gate, x, gate);
        d9_onnx_node(writer, "Mul", node->role, (const char *[]){x[0], gate, NULL}, y);
        return D9_OK;
    default:
        return d9_fail(context, D9_USAGE, "%s: %s cannot be exported to ONNX", node->role,
                       d9_activation_name(node->as.act.activation));
    }
}

const d9_op_info d9_op_ACT = {
    .doc = "x -> y",
    .inputs = 1,
    .outputs = 1,
    .shape = d9_shape_copy_input,
    .type = d9_type_of_input,
    .gradient = gradient,
    .onnx = to_onnx,
};

const d9_op_info d9_op_ACT_BACKWARD = {
    .doc = "dy, y or x (activations.def says which) -> dx",
    .inputs = 2,
    .outputs = 1,
    D9_PRESET_OUTPUTS,
};
