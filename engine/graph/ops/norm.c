/* Batch normalisation over ghost groups: group g of G consists of the images g, g + G, g + 2G, ... */
#include "graph/onnx.h"
#include "graph/op.h"

static d9_status shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape x = *d9_input_shape(graph, node, 0);
    int64_t size = node->as.norm.group_size;
    if (d9_input_shape(graph, node, 1)->d[0] != x.d[3])
        return d9_fail(context, D9_USAGE, "%s: %lld scales do not fit %lld channels", node->role,
                       (long long)d9_input_shape(graph, node, 1)->d[0], (long long)x.d[3]);
    if (size > 0 && x.d[0] % size != 0)
        return d9_fail(context, D9_USAGE, "%s: a batch of %lld images does not divide into groups of %lld", node->role,
                       (long long)x.d[0], (long long)size);
    const int64_t groups = d9_node_groups(graph, node), ranks = d9_ranks_of(node->as.norm.ranks);
    const d9_shape statistics = {2, {groups, x.d[3]}}, running = {2, {groups * ranks, x.d[3]}};
    d9_set_shape(graph, node->outputs[0], x);
    d9_set_shape(graph, node->inputs[3], running);
    d9_set_shape(graph, node->inputs[4], running);
    for (int i = 1; i < node->output_count; i++) d9_set_shape(graph, node->outputs[i], statistics);
    return D9_OK;
}

static d9_status gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    d9_status status = D9_OK;
    d9_node node = {.op = D9_OP_NORM_BACKWARD,
                    .inputs = {dy, forward->inputs[0], forward->outputs[1], forward->outputs[2], forward->inputs[1]},
                    .input_count = 5,
                    .outputs = {D9_NONE, D9_NONE, D9_NONE},
                    .output_count = 3};
    for (int i = 0; i < 2; i++)
        D9_TRY(d9_gradient_of_parameter(gradients, forward->inputs[1 + i], &node.outputs[1 + i]));
    if (gradients->needed[forward->inputs[0]])
        D9_TRY(d9_gradient_of_input(gradients, forward, 0, node));
    else
        D9_TRY(d9_gradient_append_node(gradients, forward, node));
done:
    return status;
}

static bool evaluation(d9_node *node) {
    node->op = D9_OP_NORM_EVAL;
    node->output_count = 1;
    return true;
}

static d9_status to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    const char *inputs[6] = {NULL};
    (void)context;
    for (int i = 0; i < 5; i++) inputs[i] = d9_onnx_input(writer, node, i);
    writer->begin(writer, "BatchNormalization", node->role, inputs, d9_onnx_output(writer, node));
    writer->real(writer, "epsilon", node->as.norm.epsilon);
    writer->end(writer);
    return D9_OK;
}

const d9_op_info d9_op_NORM = {
    .doc = "x, scale, bias, running_mean, running_var -> y, mean (G,C), inv_std (G,C); updates the running statistics",
    .inputs = 5,
    .outputs = 3,
    .in_place = 1u << 3 | 1u << 4,
    .shape = shape,
    .type = d9_type_compute_first,
    .gradient = gradient,
    .evaluation = evaluation,
};

const d9_op_info d9_op_NORM_EVAL = {
    .doc = "x, scale, bias, running_mean (G,C), running_var (G,C) -> y; statistics averaged over G",
    .inputs = 5,
    .outputs = 1,
    .shape = shape,
    .type = d9_type_compute,
    .onnx = to_onnx,
};

const d9_op_info d9_op_NORM_BACKWARD = {
    .doc = "dy, x, mean, inv_std, scale -> dx, [dscale], dbias",
    .inputs = 5,
    .outputs = 3,
    D9_PRESET_OUTPUTS,
};
