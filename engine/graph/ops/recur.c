/* Recurrent layers: the cells over all tokens of a batch, and the output of the last token. The input's side of the
 * gates, W x + b_ih, is computed before by a linear layer and a bias. Equations: kernels/formulas/cells.h. */
#include "graph/op.h"

enum { GX, U, B_HH, H0, C0 }; /* inputs */

static d9_status shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape *gx = d9_input_shape(graph, node, GX), *u = d9_input_shape(graph, node, U);
    const d9_cell_size size = d9_cell_size_of(node->as.recur.cell);
    const int64_t time = gx->d[0], samples = gx->d[1], units = u->d[1];
    if (gx->rank != 3 || gx->d[2] != size.gates * units || u->d[0] != gx->d[2])
        return d9_fail(context, D9_USAGE, "%s: %lld gates do not fit a state of %lld units", node->role,
                       (long long)d9_shape_channels(gx), (long long)units);
    d9_set_shape(graph, node->outputs[0], (d9_shape){3, {time, samples, units}});
    d9_set_shape(graph, node->outputs[1], (d9_shape){3, {time, samples, size.saved * units}});
    for (int i = 2; i < node->output_count; i++) d9_set_shape(graph, node->outputs[i], (d9_shape){2, {samples, units}});
    return D9_OK;
}

/* y has the compute type, in which the next token reads it; saved numbers and the last states the master type. */
static d9_type type(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision) {
    (void)graph, (void)node;
    return slot == 0 ? precision->compute : precision->master;
}

/* Evaluation saves nothing for a backward pass. */
static bool evaluation(d9_node *node) {
    node->outputs[1] = D9_NONE;
    return true;
}

static d9_status gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    d9_status status;
    d9_node node = {.op = D9_OP_RECUR_BACKWARD,
                    .inputs = {dy, forward->outputs[0], forward->outputs[1], forward->inputs[U]},
                    .input_count = 4,
                    .output_count = 3};
    for (int i = H0; i < forward->input_count; i++) node.inputs[node.input_count++] = forward->inputs[i];
    D9_TRY(d9_gradient_of_parameter(gradients, forward->inputs[U], &node.outputs[1]));
    D9_TRY(d9_gradient_of_parameter(gradients, forward->inputs[B_HH], &node.outputs[2]));
    D9_TRY(d9_gradient_of_input(gradients, forward, GX, node));
done:
    return status;
}

/* Multiplications with U in each step of time. */
static double forward_operations(const d9_graph *graph, const d9_node *node) {
    return 2 * (double)d9_shape_count(d9_input_shape(graph, node, GX)) * (double)d9_input_shape(graph, node, U)->d[1];
}
static double backward_operations(const d9_graph *graph, const d9_node *node) { /* dh' and dU */
    return 4 * (double)d9_shape_count(&graph->values[node->outputs[0]].shape) *
           (double)d9_input_shape(graph, node, 3)->d[1];
}

const d9_op_info d9_op_RECUR = {
    .doc = "gx (T, N, gates * H), U (gates * H, H), b_hh (gates * H) [, h0 (N, H) [, c0 (N, H)]] -> y (T, N, H), "
           "[saved (T, N, saved * H)] [, hT (N, H) [, cT (N, H)]]: by the cell in kernels/formulas/cells.def",
    .inputs = 5,
    .min_inputs = 3,
    .outputs = 4,
    .weighted = true,
    .shape = shape,
    .type = type,
    .gradient = gradient,
    .evaluation = evaluation,
    .operations = forward_operations,
};

const d9_op_info d9_op_RECUR_BACKWARD = {
    .doc = "dy (T, N, H), y, saved, U [, h0 [, c0]] -> dgx (T, N, gates * H), [dU], [db_hh]",
    .inputs = 6,
    .min_inputs = 4,
    .outputs = 3,
    D9_PRESET_OUTPUTS,
    .operations = backward_operations,
};

/* ---- the last token ---- */

static d9_status last_shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape *x = d9_input_shape(graph, node, 0);
    if (x->rank != 3) return d9_fail(context, D9_USAGE, "%s: input of rank %d, must be (T, N, C)", node->role, x->rank);
    d9_set_shape(graph, node->outputs[0], (d9_shape){2, {x->d[1], x->d[2]}});
    return D9_OK;
}

static d9_status last_gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    return d9_gradient_of_input(gradients, forward, 0,
                                (d9_node){.op = D9_OP_LAST_BACKWARD, .inputs = {dy}, .input_count = 1});
}

static double read_last(const d9_graph *graph, const d9_node *node, int input) {
    (void)input;
    return (double)d9_shape_count(&graph->values[node->outputs[0]].shape);
}

const d9_op_info d9_op_LAST = {
    .doc = "x (T, N, C) -> y (N, C), the last token's",
    .inputs = 1,
    .outputs = 1,
    .shape = last_shape,
    .type = d9_type_of_input,
    .gradient = last_gradient,
    .read = read_last,
};

const d9_op_info d9_op_LAST_BACKWARD = {
    .doc = "dy (N, C) -> dx (T, N, C): dy at the last token, 0 at the others",
    .inputs = 1,
    .outputs = 1,
    D9_PRESET_OUTPUTS,
};
