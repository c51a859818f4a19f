/* Builders, called by models: each adds a node with its parameters and outputs and infers the shapes; see graph.h. */
#include "graph/edit.h"
#include "graph/init.h"
#include "graph/op.h"

#include <stdio.h>

static d9_shape make_shape(int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    return (d9_shape){rank, {a, b, c, d}};
}

static d9_status add_value(d9_context *context, d9_graph *graph, const char *role, const char *slot, d9_value value,
                           d9_value_id *id) {
    int length = snprintf(value.name, sizeof value.name, "%s.%s", role, slot);
    if (length >= (int)sizeof value.name) return d9_fail(context, D9_USAGE, "role %s is too long", role);
    value.producer = D9_NONE;
    return d9_graph_add_value(context, graph, &value, id);
}

static d9_status add_output(d9_context *context, d9_graph *graph, const char *role, const char *slot, d9_node *node) {
    return add_value(context, graph, role, slot, (d9_value){.kind = D9_VALUE_ACTIVATION},
                     &node->outputs[node->output_count++]);
}

/* Adds running statistics that start at `start`: 0 for means, 1 for variances. */
static d9_status add_statistic(d9_context *context, d9_graph *graph, const char *role, const char *slot, double start,
                               d9_node *node) {
    d9_value value = {.kind = D9_VALUE_STATISTIC,
                      .buffer = D9_BUFFER_STATE,
                      .init = {.name = "constant", .fill = d9_init_constant, .a = start}};
    return add_value(context, graph, role, slot, value, &node->inputs[node->input_count++]);
}

d9_status d9_edit_add_parameter(d9_context *context, d9_graph *graph, const char *role, const char *slot,
                                const d9_shape *shape, d9_parameter_kind kind, d9_value_id *id) {
    d9_value value = {
        .kind = D9_VALUE_PARAMETER, .buffer = D9_BUFFER_STATE, .shape = *shape, .parameter = kind, .trainable = true};
    double fan_in = (double)d9_shape_count(shape) / (double)shape->d[0];
    switch (kind) {
    case D9_WEIGHT:
        value.init = (d9_initializer){.name = "uniform", .fill = d9_init_uniform, .a = 1 / sqrt(fan_in)};
        break;
    case D9_NORM_SCALE:
        value.init = (d9_initializer){.name = "constant", .fill = d9_init_constant, .a = 1};
        break;
    case D9_BIAS:
        value.init = (d9_initializer){.name = "constant", .fill = d9_init_constant, .a = 0};
        break;
    }
    return add_value(context, graph, role, slot, value, id);
}

/* Last step of adding a node: inserts it at the end and infers all shapes. *y: its output 0. */
static d9_status add_node(d9_context *context, d9_graph *graph, const char *role, d9_node *node, d9_value_id *y) {
    d9_status status;
    snprintf(node->role, sizeof node->role, "%s", role);
    D9_TRY(d9_graph_add_node(context, graph, node));
    D9_TRY(d9_graph_infer(context, graph));
    *y = node->outputs[0];
done:
    return status;
}

d9_status d9_graph_image(d9_context *context, d9_graph *graph, const d9_shape *shape, d9_value_id *x) {
    d9_value value = {.name = "image", .kind = D9_VALUE_ACTIVATION, .shape = *shape, .producer = D9_NONE};
    d9_status status = d9_graph_add_value(context, graph, &value, x);
    graph->input = *x;
    return status;
}

d9_status d9_graph_tokens(d9_context *context, d9_graph *graph, int64_t length, int64_t samples, int64_t vocabulary,
                          bool stream, d9_value_id *x) {
    d9_value value = {.name = "tokens",
                      .kind = D9_VALUE_ACTIVATION,
                      .type = D9_I32,
                      .shape = make_shape(2, length, samples, 0, 0),
                      .producer = D9_NONE};
    d9_status status = d9_graph_add_value(context, graph, &value, x);
    graph->input = *x;
    graph->vocabulary = vocabulary;
    graph->stream = stream;
    return status;
}

d9_status d9_graph_conv(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, int64_t channels,
                        int kernel, int stride, d9_value_id *y) {
    d9_status status;
    d9_node node = {.op = D9_OP_CONV, .inputs = {x}, .input_count = 2, .as.conv = {kernel, stride, kernel / 2}};
    d9_shape shape = make_shape(4, channels, kernel, kernel, graph->values[x].shape.d[3]);
    D9_TRY(d9_edit_add_parameter(context, graph, role, "weight", &shape, D9_WEIGHT, &node.inputs[1]));
    D9_TRY(add_output(context, graph, role, "out", &node));
    D9_TRY(add_node(context, graph, role, &node, y));
done:
    return status;
}

d9_status d9_graph_batch_norm(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, d9_value_id *y) {
    d9_status status;
    d9_node node = {.op = D9_OP_NORM, .inputs = {x}, .input_count = 3, .as.norm = {1e-5, 0.1, 0, 0, 0}};
    d9_shape shape = make_shape(1, graph->values[x].shape.d[3], 0, 0, 0);
    D9_TRY(d9_edit_add_parameter(context, graph, role, "weight", &shape, D9_NORM_SCALE, &node.inputs[1]));
    D9_TRY(d9_edit_add_parameter(context, graph, role, "bias", &shape, D9_BIAS, &node.inputs[2]));
    D9_TRY(add_statistic(context, graph, role, "running_mean", 0, &node));
    D9_TRY(add_statistic(context, graph, role, "running_var", 1, &node));
    D9_TRY(add_output(context, graph, role, "out", &node));
    D9_TRY(add_output(context, graph, role, "mean", &node));
    D9_TRY(add_output(context, graph, role, "inv_std", &node));
    D9_TRY(add_node(context, graph, role, &node, y));
done:
    return status;
}

/* Adds the output `ROLE.out` and the node. */
static d9_status add_output_and_node(d9_context *context, d9_graph *graph, const char *role, d9_node node,
                                     d9_value_id *y) {
    d9_status status;
    D9_TRY(add_output(context, graph, role, "out", &node));
    D9_TRY(add_node(context, graph, role, &node, y));
done:
    return status;
}

d9_status d9_graph_act(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, d9_value_id *y) {
    d9_node node = {.op = D9_OP_ACT, .inputs = {x}, .input_count = 1, .as.act = {D9_ACT_RELU, 0}};
    return add_output_and_node(context, graph, role, node, y);
}

d9_status d9_graph_pool(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, d9_pool_attributes pool,
                        d9_value_id *y) {
    d9_node node = {.op = D9_OP_POOL, .inputs = {x}, .input_count = 1, .as.pool = pool};
    return add_output_and_node(context, graph, role, node, y);
}

d9_status d9_graph_mean_pool(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                             d9_pool_attributes pool, d9_value_id *y) {
    d9_node node = {.op = D9_OP_MEAN_POOL, .inputs = {x}, .input_count = 1, .as.pool = pool};
    return add_output_and_node(context, graph, role, node, y);
}

d9_status d9_graph_dropout(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, double p,
                           d9_value_id *y) {
    d9_node node = {
        .op = D9_OP_DROPOUT, .inputs = {x}, .input_count = 1, .as.dropout = {.p = p, .stream = d9_role_stream(role)}};
    return add_output_and_node(context, graph, role, node, y);
}

d9_status d9_graph_concat(d9_context *context, d9_graph *graph, const char *role, d9_value_id a, d9_value_id b,
                          d9_value_id *y) {
    d9_node node = {.op = D9_OP_CONCAT, .inputs = {a, b}, .input_count = 2};
    return add_output_and_node(context, graph, role, node, y);
}

d9_status d9_graph_bias(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, d9_value_id *y) {
    d9_status status;
    d9_node node = {.op = D9_OP_BIAS, .inputs = {x}, .input_count = 2};
    d9_shape shape = make_shape(1, d9_shape_channels(&graph->values[x].shape), 0, 0, 0);
    char name[D9_NAME_SIZE];
    snprintf(name, sizeof name, "%.*s.bias", (int)sizeof name - 6, role);
    D9_TRY(d9_edit_add_parameter(context, graph, role, "bias", &shape, D9_BIAS, &node.inputs[1]));
    D9_TRY(add_output_and_node(context, graph, name, node, y));
done:
    return status;
}

d9_status d9_graph_add(d9_context *context, d9_graph *graph, const char *role, d9_value_id a, d9_value_id b,
                       d9_value_id *y) {
    d9_node node = {.op = D9_OP_ADD, .inputs = {a, b}, .input_count = 2};
    return add_output_and_node(context, graph, role, node, y);
}

d9_status d9_graph_scale(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, double factor,
                         d9_value_id *y) {
    d9_node node = {.op = D9_OP_SCALE, .inputs = {x}, .input_count = 1, .as.scale = {factor}};
    return add_output_and_node(context, graph, role, node, y);
}

d9_status d9_graph_linear(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, int64_t outputs,
                          d9_value_id *y) {
    d9_status status;
    d9_node node = {.op = D9_OP_LINEAR, .inputs = {x}, .input_count = 2};
    d9_shape shape = make_shape(2, outputs, d9_linear_inputs(&graph->values[x].shape), 0, 0);
    D9_TRY(d9_edit_add_parameter(context, graph, role, "weight", &shape, D9_WEIGHT, &node.inputs[1]));
    D9_TRY(add_output_and_node(context, graph, role, node, y));
done:
    return status;
}

d9_status d9_graph_linear_tied(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                               d9_value_id weight, d9_value_id *y) {
    d9_node node = {.op = D9_OP_LINEAR, .inputs = {x, weight}, .input_count = 2};
    return add_output_and_node(context, graph, role, node, y);
}

/* ---- texts ---- */

d9_status d9_graph_embed(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, int64_t channels,
                         d9_value_id *y) {
    d9_status status;
    d9_node node = {.op = D9_OP_EMBED, .inputs = {D9_NONE, x}, .input_count = 2};
    const d9_shape shape = make_shape(2, graph->vocabulary, channels, 0, 0);
    D9_TRY(d9_edit_add_parameter(context, graph, role, "weight", &shape, D9_WEIGHT, &node.inputs[0]));
    graph->values[node.inputs[0]].init = (d9_initializer){.name = "normal", .fill = d9_init_normal, .a = 1};
    D9_TRY(add_output_and_node(context, graph, role, node, y));
done:
    return status;
}

/* Adds ROLE.NAME_lLAYER, uniform in +-1/sqrt(units). */
static d9_status add_recurrent_parameter(d9_context *context, d9_graph *graph, const char *role, const char *name,
                                         int layer, d9_shape shape, int64_t units, d9_value_id *id) {
    d9_status status;
    char slot[32];
    snprintf(slot, sizeof slot, "%s_l%d", name, layer);
    D9_TRY(d9_edit_add_parameter(context, graph, role, slot, &shape, shape.rank == 1 ? D9_BIAS : D9_WEIGHT, id));
    graph->values[*id].init =
        (d9_initializer){.name = "uniform", .fill = d9_init_uniform, .a = 1 / sqrt((double)units)};
done:
    return status;
}

/* Adds the input ROLE.STATE_lLAYER, the state before a step of a stream, and the output ROLE.STATE_lLAYER.next. */
static d9_status add_carried_state(d9_context *context, d9_graph *graph, const char *role, const char *state, int layer,
                                   d9_shape shape, d9_node *node) {
    d9_status status;
    char slot[32];
    snprintf(slot, sizeof slot, "%s_l%d", state, layer);
    const d9_value value = {.kind = D9_VALUE_STORED, .buffer = D9_BUFFER_CARRY, .shape = shape};
    D9_TRY(add_value(context, graph, role, slot, value, &node->inputs[node->input_count++]));
    snprintf(slot, sizeof slot, "%s_l%d.next", state, layer);
    D9_TRY(add_output(context, graph, role, slot, node));
done:
    return status;
}

d9_status d9_graph_recur(d9_context *context, d9_graph *graph, const char *role, int layer, d9_value_id x,
                         d9_recurrent_cell cell, int64_t units, d9_value_id *y) {
    d9_status status;
    const int64_t rows = d9_cell_counts_of((int)cell).gates * units;
    const d9_shape biases = make_shape(1, rows, 0, 0, 0);
    char input[D9_NAME_SIZE], bias[D9_NAME_SIZE], recur[D9_NAME_SIZE];
    snprintf(input, sizeof input, "%.*s.input_l%d", (int)sizeof input - 24, role, layer);
    snprintf(bias, sizeof bias, "%.*s.input_l%d.bias", (int)sizeof bias - 24, role, layer);
    snprintf(recur, sizeof recur, "%.*s.recur_l%d", (int)sizeof recur - 24, role, layer);
    d9_node linear = {.op = D9_OP_LINEAR, .inputs = {x}, .input_count = 2}, add = {.op = D9_OP_BIAS, .input_count = 2},
            node = {.op = D9_OP_RECUR, .input_count = 3, .as.recur = {cell}};
    D9_TRY(add_recurrent_parameter(context, graph, role, "weight_ih", layer,
                                   make_shape(2, rows, d9_shape_channels(&graph->values[x].shape), 0, 0), units,
                                   &linear.inputs[1]));
    D9_TRY(add_recurrent_parameter(context, graph, role, "weight_hh", layer, make_shape(2, rows, units, 0, 0), units,
                                   &node.inputs[1]));
    D9_TRY(add_recurrent_parameter(context, graph, role, "bias_ih", layer, biases, units, &add.inputs[1]));
    D9_TRY(add_recurrent_parameter(context, graph, role, "bias_hh", layer, biases, units, &node.inputs[2]));
    D9_TRY(add_output_and_node(context, graph, input, linear, &add.inputs[0]));
    D9_TRY(add_output_and_node(context, graph, bias, add, &node.inputs[0]));
    D9_TRY(add_output(context, graph, recur, "out", &node));
    D9_TRY(add_output(context, graph, recur, "saved", &node));
    const d9_shape state = make_shape(2, d9_graph_samples(graph), units, 0, 0);
    if (graph->stream) D9_TRY(add_carried_state(context, graph, role, "h", layer, state, &node));
    if (graph->stream && d9_cell_counts_of((int)cell).memory)
        D9_TRY(add_carried_state(context, graph, role, "c", layer, state, &node));
    D9_TRY(add_node(context, graph, recur, &node, y));
done:
    return status;
}

d9_status d9_graph_last_token(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, d9_value_id *y) {
    d9_node node = {.op = D9_OP_LAST, .inputs = {x}, .input_count = 1};
    return add_output_and_node(context, graph, role, node, y);
}

d9_status d9_graph_loss(d9_context *context, d9_graph *graph, d9_value_id logits) {
    d9_status status;
    d9_value labels = {.name = "labels",
                       .kind = D9_VALUE_ACTIVATION,
                       .type = D9_I32,
                       .producer = D9_NONE,
                       .shape = make_shape(1, d9_shape_rows(&graph->values[logits].shape), 0, 0, 0)};
    D9_TRY(d9_graph_add_value(context, graph, &labels, &graph->labels));
    d9_node node = {.op = D9_OP_LOSS,
                    .inputs = {logits, graph->labels},
                    .input_count = 2,
                    .as.loss = {.share = {D9_NONE, 1}, .weights = D9_NONE}};
    graph->logits = logits;
    graph->classes = d9_shape_channels(&graph->values[logits].shape);
    D9_TRY(add_output_and_node(context, graph, "loss", node, &graph->loss));
done:
    return status;
}
