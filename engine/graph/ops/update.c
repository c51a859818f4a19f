/* Operations after the gradients: sums of gradients over the processes, clipping, updates of a parameter group or of
 * one weight, and averages and copies of buffers and recurrent states. */
#include "graph/onnx.h"
#include "graph/op.h"

const d9_op_info d9_op_ALL_REDUCE = {
    .doc = "gradient -> gradient: the sum over all processes, in the order of their ranks",
    .inputs = 1,
    .outputs = 1,
    .in_place = 1,
    D9_PRESET_OUTPUTS,
};

const d9_op_info d9_op_CLIP = {
    .doc = "gradient -> gradient: scaled so that the norm of its mean over the losses is at most `most`",
    .inputs = 1,
    .outputs = 1,
    .in_place = 1,
    D9_PRESET_OUTPUTS,
};

const d9_op_info d9_op_UPDATE = {
    .doc = "w, g, state... -> w, state...: a whole group, elementwise, by its row in kernels/formulas/updates.def",
    .inputs = 2 + D9_UPDATE_STATES,
    .min_inputs = 2,
    .outputs = 1 + D9_UPDATE_STATES,
    .update = true,
    D9_PRESET_OUTPUTS,
};

/* Operations of all Newton-Schulz iterations (orthogonal.h): products A, A A and B X; side: the shorter side of X. */
static double orthogonal_operations(const d9_graph *graph, const d9_node *node) {
    const d9_shape *filter = d9_input_shape(graph, node, 0);
    const double rows = (double)filter->d[0], columns = (double)d9_shape_count(filter) / rows;
    const double side = rows < columns ? rows : columns;
    return node->as.update.numbers[1] * 2 * side * side * (2 * (rows > columns ? rows : columns) + side);
}

const d9_op_info d9_op_ORTHOGONAL_UPDATE = {
    .doc = "w, g, velocity -> w, velocity: one weight, (O, ...), by kernels/formulas/orthogonal.h",
    .inputs = 3,
    .outputs = 2,
    .update = true,
    .per_parameter = true,
    .operations = orthogonal_operations,
    D9_PRESET_OUTPUTS,
};

const d9_op_info d9_op_LERP = {
    .doc = "a, x -> a = ratio*a + (1-ratio)*x",
    .inputs = 2,
    .outputs = 1,
    D9_PRESET_OUTPUTS,
};

/* An evaluation graph copies only recurrent states, for its next step; they are inputs and outputs of the ONNX model.
 */
const d9_op_info d9_op_COPY = {
    .doc = "x -> y",
    .inputs = 1,
    .outputs = 1,
    D9_PRESET_OUTPUTS,
    .onnx = d9_onnx_nothing,
};
