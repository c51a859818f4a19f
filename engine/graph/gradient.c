/* Backward nodes: the chain rule over the list of forward nodes, last to first.
 *
 * grad[v] is the value that holds d(sum of losses)/dv so far. A second contribution adds an `add` node. Only
 * values that a trainable parameter feeds get one: `needed`. */
#include "core/system.h"
#include "graph/passes.h"

#include <stdio.h>
#include <string.h>

typedef struct gradients {
    d9_context *context;
    d9_graph *graph;
    d9_value_id *grad; /* by forward value */
    bool *needed;      /* by forward value */
    int forward_values;
} gradients;

static bool from_output(d9_activation activation) {
    static const bool table[D9_ACT_COUNT] = {
#define D9_ACTIVATION(id, name, from_output, doc) from_output,
#include "../kernels/formulas/activations.def"
#undef D9_ACTIVATION
    };
    return table[activation];
}

/* The parameter behind a value: itself, or what a cast narrowed. */
static d9_value_id parameter_of(const d9_graph *graph, d9_value_id id) {
    const d9_value *value = &graph->values[id];
    if (value->producer != D9_NONE && graph->nodes[value->producer].op == D9_OP_CAST)
        return graph->nodes[value->producer].inputs[0];
    return id;
}

static bool trainable(const d9_graph *graph, d9_value_id id) {
    const d9_value *value = &graph->values[parameter_of(graph, id)];
    return value->kind == D9_VALUE_PARAMETER && value->trainable;
}

/* A value of `like`'s shape and type to hold a gradient; parameters' gradients live in their own buffer. */
static d9_status new_gradient(gradients *g, d9_value_id like, const char *suffix, d9_value_id *id) {
    const d9_value *of = &g->graph->values[like];
    d9_value value = {.kind = D9_VALUE_ACTIVATION, .type = of->type, .shape = of->shape, .producer = D9_NONE};
    if (of->kind == D9_VALUE_PARAMETER) {
        value.kind = D9_VALUE_GRADIENT;
        value.buffer = D9_BUFFER_GRADIENT;
    }
    int length = snprintf(value.name, sizeof value.name, "%s.grad%s", of->name, suffix);
    if (length >= (int)sizeof value.name) return d9_fail(g->context, D9_USAGE, "role %s is too long", of->name);
    return d9_graph_add_value(g->context, g->graph, &value, id);
}

static d9_status append(gradients *g, const d9_node *forward, d9_op op, d9_node node) {
    node.op = op;
    node.backward = true;
    snprintf(node.role, sizeof node.role, "%s", forward->role);
    return d9_graph_add_node(g->context, g->graph, &node, NULL);
}

/* Adds the contribution `part` to the gradient of `value`. */
static d9_status accumulate(gradients *g, const d9_node *forward, d9_value_id value, d9_value_id part) {
    d9_status status = D9_OK;
    if (!g->needed[value]) return D9_OK;
    if (g->grad[value] == D9_NONE) {
        g->grad[value] = part;
        return D9_OK;
    }
    d9_node sum = {.inputs = {g->grad[value], part}, .input_count = 2, .output_count = 1};
    char suffix[16];
    snprintf(suffix, sizeof suffix, ".sum%d", g->graph->node_count);
    D9_TRY(new_gradient(g, value, suffix, &sum.outputs[0]));
    D9_TRY(append(g, forward, D9_OP_ADD, sum));
    g->grad[value] = sum.outputs[0];
done:
    return status;
}

/* dx of one node by the backward node `node`, whose output 0 is added here. */
static d9_status data_gradient(gradients *g, const d9_node *forward, d9_op op, d9_node node) {
    d9_status status = D9_OK;
    d9_value_id x = forward->inputs[0];
    char suffix[16];
    snprintf(suffix, sizeof suffix, ".%d", g->graph->node_count);
    if (!g->needed[x]) return D9_OK;
    if (node.output_count == 0) node.output_count = 1;
    D9_TRY(new_gradient(g, x, suffix, &node.outputs[0]));
    D9_TRY(append(g, forward, op, node));
    D9_TRY(accumulate(g, forward, x, node.outputs[0]));
done:
    return status;
}

/* conv and linear: the weight's gradient, then the data's. */
static d9_status weighted(gradients *g, const d9_node *forward, d9_value_id dy, d9_op weight_op, d9_op data_op) {
    d9_status status = D9_OK;
    d9_node node = {.inputs = {dy, forward->inputs[0]}, .input_count = 2, .output_count = 1, .as = forward->as};
    if (trainable(g->graph, forward->inputs[1])) {
        D9_TRY(new_gradient(g, parameter_of(g->graph, forward->inputs[1]), "", &node.outputs[0]));
        D9_TRY(append(g, forward, weight_op, node));
    }
    d9_node data = {.inputs = {dy, forward->inputs[1]}, .input_count = 2, .as = forward->as};
    D9_TRY(data_gradient(g, forward, data_op, data));
done:
    return status;
}

static d9_status norm(gradients *g, const d9_node *forward, d9_value_id dy) {
    d9_status status = D9_OK;
    d9_node node = {.inputs = {dy, forward->inputs[0], forward->outputs[1], forward->outputs[2], forward->inputs[1]},
                    .input_count = 5,
                    .outputs = {D9_NONE, D9_NONE, D9_NONE},
                    .output_count = 3,
                    .as = forward->as};
    for (int i = 0; i < 2; i++)
        if (trainable(g->graph, forward->inputs[1 + i]))
            D9_TRY(new_gradient(g, forward->inputs[1 + i], "", &node.outputs[1 + i]));
    if (g->needed[forward->inputs[0]])
        D9_TRY(data_gradient(g, forward, D9_OP_NORM_BACKWARD, node));
    else
        D9_TRY(append(g, forward, D9_OP_NORM_BACKWARD, node));
done:
    return status;
}

static d9_status differentiate(gradients *g, const d9_node *forward) {
    d9_value_id x = forward->inputs[0], y = forward->outputs[0];
    d9_value_id dy = forward->op == D9_OP_LOSS ? D9_NONE : g->grad[y];
    d9_node node = {.inputs = {dy, x}, .input_count = 2, .as = forward->as};
    if (forward->op == D9_OP_LOSS) {
        node = (d9_node){.inputs = {x, forward->inputs[1]}, .input_count = 2, .as = forward->as};
        return data_gradient(g, forward, D9_OP_LOSS_BACKWARD, node);
    }
    if (dy == D9_NONE) return D9_OK;
    switch (forward->op) {
    case D9_OP_ADD: {
        d9_status status = accumulate(g, forward, forward->inputs[1], dy);
        return status != D9_OK ? status : accumulate(g, forward, x, dy);
    }
    case D9_OP_SCALE:
        node.input_count = 1;
        return data_gradient(g, forward, D9_OP_SCALE, node);
    case D9_OP_ACT:
        if (from_output(forward->as.act.activation)) node.inputs[1] = y;
        return data_gradient(g, forward, D9_OP_ACT_BACKWARD, node);
    case D9_OP_POOL:
        return data_gradient(g, forward, D9_OP_POOL_BACKWARD, node);
    case D9_OP_NORM:
        return norm(g, forward, dy);
    case D9_OP_CONV:
        return weighted(g, forward, dy, D9_OP_CONV_BACKWARD_WEIGHT, D9_OP_CONV_BACKWARD_DATA);
    case D9_OP_LINEAR:
        return weighted(g, forward, dy, D9_OP_LINEAR_BACKWARD_WEIGHT, D9_OP_LINEAR_BACKWARD_DATA);
    case D9_OP_CAST:
        return D9_OK; /* its reader's weight gradient went straight to the parameter */
    default:
        return d9_fail(g->context, D9_USAGE, "%s: no gradient is known for %s", forward->role, d9_op_name(forward->op));
    }
}

d9_status d9_gradient_append(d9_context *context, d9_graph *graph) {
    d9_status status;
    void *grad = NULL, *needed = NULL;
    int nodes = graph->node_count, values = graph->value_count;
    D9_TRY(d9_allocate(context, (size_t)values * sizeof(d9_value_id), "gradients", &grad));
    D9_TRY(d9_allocate(context, (size_t)values * sizeof(bool), "gradients", &needed));
    gradients g = {context, graph, grad, needed, values};
    for (int v = 0; v < values; v++) {
        g.grad[v] = D9_NONE;
        g.needed[v] = graph->values[v].kind == D9_VALUE_PARAMETER && graph->values[v].trainable;
    }
    for (d9_node_id n = 0; n < nodes; n++) {
        const d9_node *node = &graph->nodes[n];
        for (int i = 0; i < node->input_count; i++)
            if (g.needed[node->inputs[i]]) g.needed[node->outputs[0]] = true;
    }
    for (d9_node_id n = nodes - 1; n >= 0; n--) {
        d9_node forward = graph->nodes[n]; /* a copy: appending moves the array */
        D9_TRY(differentiate(&g, &forward));
    }
done:
    d9_release(context, grad);
    d9_release(context, needed);
    return status;
}

d9_value_id d9_gradient_of(const d9_graph *graph, d9_value_id parameter) {
    char name[D9_NAME_SIZE + 8];
    snprintf(name, sizeof name, "%s.grad", graph->values[parameter].name);
    return d9_graph_find_value(graph, name);
}
