/* Elementwise operations: cast, addition, scale. */
#include "graph/onnx.h"
#include "graph/op.h"

#include <stdio.h>

/* ---- cast: inserted by passes.c to narrow a weight ---- */

/* No node is needed: the only reader of the cast writes its weight gradient directly to the parameter's gradient. */
static d9_status cast_gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    (void)dy;
    if (gradients->graph->values[forward->inputs[0]].kind == D9_VALUE_PARAMETER) return D9_OK;
    return d9_fail(gradients->context, D9_USAGE, "%s: only a parameter may be cast before the gradients",
                   forward->role);
}

const d9_op_info d9_op_CAST = {
    .doc = "x -> x in the output's type",
    .inputs = 1,
    .outputs = 1,
    .shape = d9_shape_copy_input,
    .type = d9_type_preset,
    .gradient = cast_gradient,
};

/* ---- add ---- */

static d9_status add_shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    if (!d9_shape_equal(d9_input_shape(graph, node, 0), d9_input_shape(graph, node, 1)))
        return d9_fail(context, D9_USAGE, "%s: the two sides of the addition differ in shape", node->role);
    return d9_shape_copy_input(context, graph, node);
}

static d9_status add_gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    d9_status status = d9_gradient_add(gradients, forward, forward->inputs[1], dy);
    return status != D9_OK ? status : d9_gradient_add(gradients, forward, forward->inputs[0], dy);
}

static d9_status addition_to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    (void)context;
    return d9_onnx_of_two(writer, "Add", node);
}

const d9_op_info d9_op_ADD = {
    .doc = "a, b -> a + b",
    .inputs = 2,
    .outputs = 1,
    .shape = add_shape,
    .type = d9_type_of_input,
    .gradient = add_gradient,
    .onnx = addition_to_onnx,
};

/* ---- scale ---- */

static d9_status scale_to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    char factor[D9_NAME_SIZE + 8];
    (void)context;
    snprintf(factor, sizeof factor, "%s.factor", node->role);
    writer->constant(writer, factor, &node->as.scale.factor, 0);
    d9_onnx_node(writer, "Mul", node->role, (const char *[]){d9_onnx_input(writer, node, 0), factor, NULL},
                 d9_onnx_output(writer, node));
    return D9_OK;
}

const d9_op_info d9_op_SCALE = {
    .doc = "x -> factor * x",
    .inputs = 1,
    .outputs = 1,
    .shape = d9_shape_copy_input,
    .type = d9_type_of_input,
    .gradient = d9_gradient_by_same_op,
    .onnx = scale_to_onnx,
};
