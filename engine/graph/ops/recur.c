/* Recurrent layers: the cells over all tokens of a batch, and the output of the last token. The input's side of the
 * gates, W x + b_ih, is computed before by a linear layer and a bias. Equations: kernels/formulas/cells.h. */
#include "graph/onnx.h"
#include "graph/op.h"

#include <stdio.h>

enum { GX, U, B_HH, H0, C0 }; /* inputs */

static d9_status shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape *gx = d9_input_shape(graph, node, GX), *u = d9_input_shape(graph, node, U);
    const d9_cell_counts size = d9_cell_counts_of((int)node->as.recur.cell);
    const int64_t time = gx->d[0], samples = gx->d[1], units = u->d[1];
    if (gx->rank != 3 || gx->d[2] != size.gates * units || u->d[0] != gx->d[2])
        return d9_fail(context, D9_USAGE, "%s: %lld gates do not fit a state of %lld units", node->role,
                       (long long)d9_shape_channels(gx), (long long)units);
    d9_set_shape(graph, node->outputs[0], (d9_shape){3, {time, samples, units}});
    d9_set_shape(graph, node->outputs[1], (d9_shape){3, {time, samples, size.saved * units}});
    for (int i = 2; i < node->output_count; i++) d9_set_shape(graph, node->outputs[i], (d9_shape){2, {samples, units}});
    return D9_OK;
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
    /* The node also computes dU and db_hh, so it is appended even if W and b_ih are frozen. */
    gradients->needed[forward->inputs[GX]] = true;
    D9_TRY(d9_gradient_of_input(gradients, forward, GX, node));
done:
    return status;
}

/* Multiplications and additions of the products with U, in all steps of time. */
static double forward_operations(const d9_graph *graph, const d9_node *node) {
    return 2 * (double)d9_shape_count(d9_input_shape(graph, node, GX)) * (double)d9_input_shape(graph, node, U)->d[1];
}
/* Two products per token: for the gradients of the previous state and of U. */
static double backward_operations(const d9_graph *graph, const d9_node *node) {
    return 4 * (double)d9_shape_count(&graph->values[node->outputs[0]].shape) *
           (double)d9_input_shape(graph, node, 3)->d[1];
}

/* ---- ONNX: one node with the linear layer and the bias before it ---- */

/* ONNX's recurrent operations. order: ONNX's gate i is gate order[i] of cells.def. activation NULL: ONNX's default. */
static const struct {
    const char *op, *activation;
    bool reset_after;
    int64_t order[D9_CELL_GATES];
} cells[D9_CELL_COUNT] = {[D9_CELL_ELMAN_TANH] = {"RNN", NULL, false, {0}},
                          [D9_CELL_ELMAN_RELU] = {"RNN", "Relu", false, {0}},
                          [D9_CELL_GRU] = {"GRU", NULL, true, {1, 0, 2}},
                          [D9_CELL_LSTM] = {"LSTM", NULL, false, {0, 3, 1, 2}}};

enum { ONNX_NAME = D9_NAME_SIZE + 16 };

static void put_integer_list(d9_onnx_writer *writer, const d9_node *node, const char *suffix, const int64_t *values,
                             int64_t count, char name[ONNX_NAME]) {
    snprintf(name, ONNX_NAME, "%s.%s", node->role, suffix);
    writer->integer_constant(writer, name, values, (size_t)count);
}

/* Writes a node with inputs a and b. The node and its output are named A.SUFFIX, which `name` receives. axis -1: the
 * node has no attribute `axis`. */
static void put_node(d9_onnx_writer *writer, const char *op, const char *a, const char *b, int axis, const char *suffix,
                     char name[ONNX_NAME]) {
    snprintf(name, ONNX_NAME, "%.*s.%s", D9_NAME_SIZE - 1, a, suffix);
    writer->begin(writer, op, name, (const char *[]){a, b, NULL}, name);
    if (axis >= 0) writer->integer(writer, "axis", axis);
    writer->end(writer);
}

/* Names of the constants that put_gates uses: the shapes (gates, H, -1), (1, gates * H, -1) and (1, gates * H), and the
 * order of the gates. */
typedef struct gate_lists {
    char split[ONNX_NAME], order[ONNX_NAME], weights[ONNX_NAME], biases[ONNX_NAME];
} gate_lists;

/* Brings the gates of a weight (gates * H, I) or bias (gates * H) to the order of ONNX, and puts the dimension of the
 * directions, 1, before them. */
static void put_gates(d9_onnx_writer *writer, const gate_lists *lists, d9_value_id id, char ordered[ONNX_NAME]) {
    const d9_value *value = &writer->graph->values[id];
    const char *shape = value->shape.rank == 1 ? lists->biases : lists->weights;
    char parts[ONNX_NAME], moved[ONNX_NAME];
    put_node(writer, "Reshape", value->name, lists->split, -1, "split", parts);
    put_node(writer, "Gather", parts, lists->order, 0, "order", moved);
    put_node(writer, "Reshape", moved, shape, -1, "onnx", ordered);
}

static void put_layer(d9_onnx_writer *writer, const d9_node *node, const d9_node *linear, const d9_node *bias) {
    const d9_recurrent_cell cell = node->as.recur.cell;
    const int64_t gates = d9_cell_counts_of((int)cell).gates, units = d9_input_shape(writer->graph, node, U)->d[1];
    gate_lists lists;
    char w[ONNX_NAME], r[ONNX_NAME], input[ONNX_NAME], state[ONNX_NAME], b[ONNX_NAME], y[ONNX_NAME], axes[ONNX_NAME];
    put_integer_list(writer, node, "split", (int64_t[]){gates, units, -1}, 3, lists.split);
    put_integer_list(writer, node, "order", cells[cell].order, gates, lists.order);
    put_integer_list(writer, node, "weights", (int64_t[]){1, gates * units, -1}, 3, lists.weights);
    put_integer_list(writer, node, "biases", (int64_t[]){1, gates * units}, 2, lists.biases);
    put_integer_list(writer, node, "axes", (int64_t[]){1}, 1, axes);
    put_gates(writer, &lists, linear->inputs[1], w);
    put_gates(writer, &lists, node->inputs[U], r);
    put_gates(writer, &lists, bias->inputs[1], input);
    put_gates(writer, &lists, node->inputs[B_HH], state);
    put_node(writer, "Concat", input, state, 1, "both", b);
    snprintf(y, sizeof y, "%s.directions", node->role);
    const char *inputs[9] = {d9_onnx_input(writer, linear, 0), w, r, b, ""}; /* without lengths of the sequences */
    for (int i = H0; i < node->input_count; i++) inputs[5 + i - H0] = d9_onnx_input(writer, node, i);
    if (node->input_count == H0) inputs[4] = NULL;
    writer->begin(writer, cells[cell].op, node->role, inputs, y);
    for (int i = 2; i < node->output_count; i++) writer->output(writer, d9_onnx_value(writer, node->outputs[i]));
    writer->integer(writer, "hidden_size", units);
    if (cells[cell].activation) writer->word(writer, "activations", cells[cell].activation);
    if (cells[cell].reset_after) writer->integer(writer, "linear_before_reset", 1);
    writer->end(writer);
    d9_onnx_node(writer, "Squeeze", axes, (const char *[]){y, axes, NULL}, d9_onnx_output(writer, node));
}

static d9_status to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    const d9_graph *graph = writer->graph;
    const d9_node_id bias = graph->values[node->inputs[GX]].producer;
    const d9_node_id linear = bias == D9_NONE ? D9_NONE : graph->values[graph->nodes[bias].inputs[0]].producer;
    if (!cells[node->as.recur.cell].op || linear == D9_NONE || graph->nodes[linear].op != D9_OP_LINEAR ||
        !d9_onnx_is_part_of_recur(graph, &graph->nodes[linear]))
        return d9_fail(context, D9_USAGE, "%s: this recurrent layer cannot be exported to ONNX", node->role);
    put_layer(writer, node, &graph->nodes[linear], &graph->nodes[bias]);
    return D9_OK;
}

const d9_op_info d9_op_RECUR = {
    .doc = "gx (T, N, gates * H), U (gates * H, H), b_hh (gates * H) [, h0 (N, H) [, c0 (N, H)]] -> y (T, N, H), "
           "[saved (T, N, saved * H)] [, hT (N, H) [, cT (N, H)]]: by the cell in kernels/formulas/cells.def",
    .inputs = 5,
    .min_inputs = 3,
    .outputs = 4,
    .weighted = true,
    .shape = shape,
    .type = d9_type_compute_first, /* y: compute type; saved numbers and last states: master type */
    .gradient = gradient,
    .evaluation = evaluation,
    .operations = forward_operations,
    .onnx = to_onnx,
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

static d9_status last_to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    char index[ONNX_NAME], axes[ONNX_NAME], step[ONNX_NAME];
    (void)context;
    put_integer_list(writer, node, "index", (int64_t[]){-1}, 1, index);
    put_integer_list(writer, node, "axes", (int64_t[]){0}, 1, axes);
    put_node(writer, "Gather", d9_onnx_input(writer, node, 0), index, 0, "last", step);
    d9_onnx_node(writer, "Squeeze", node->role, (const char *[]){step, axes, NULL}, d9_onnx_output(writer, node));
    return D9_OK;
}

const d9_op_info d9_op_LAST = {
    .doc = "x (T, N, C) -> y (N, C), the last token's",
    .inputs = 1,
    .outputs = 1,
    .shape = last_shape,
    .type = d9_type_of_input,
    .gradient = last_gradient,
    .read = read_last,
    .onnx = last_to_onnx,
};

const d9_op_info d9_op_LAST_BACKWARD = {
    .doc = "dy (N, C) -> dx (T, N, C): dy at the last token, 0 at the others",
    .inputs = 1,
    .outputs = 1,
    D9_PRESET_OUTPUTS,
};
