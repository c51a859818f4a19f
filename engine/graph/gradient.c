/* The gradient pass (d9_gradient_append). `add` nodes sum the gradient contributions of an activation. */
#include "core/system.h"
#include "graph/op.h"

#include <stdio.h>

/* Adds a value with the shape and type of `like` for a gradient; parameter gradients have their own buffer. */
static d9_status add_gradient_value(d9_gradients *g, d9_value_id like, const char *suffix, d9_value_id *id) {
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

d9_status d9_gradient_append_node(d9_gradients *g, const d9_node *forward, d9_node node) {
    node.as = forward->as;
    snprintf(node.role, sizeof node.role, "%s", forward->role);
    return d9_graph_add_node(g->context, g->graph, &node);
}

/* Moves the node that produces `part` to the end of the graph if it is a slice that no node reads yet, so that a
 * backend can slice and add in one pass. */
static d9_status move_slice_to_end(d9_gradients *g, d9_value_id part) {
    const d9_node_id producer = g->graph->values[part].producer;
    if (producer == D9_NONE || g->graph->nodes[producer].op != D9_OP_SLICE) return D9_OK;
    if (d9_graph_consumers(g->graph, part, NULL) > 0) return D9_OK;
    const d9_node slice = g->graph->nodes[producer];
    d9_graph_remove_node(g->graph, producer);
    return d9_graph_add_node(g->context, g->graph, &slice);
}

d9_status d9_gradient_add(d9_gradients *g, const d9_node *forward, d9_value_id value, d9_value_id part) {
    d9_status status = D9_OK;
    if (!g->needed[value]) return D9_OK;
    if (g->of[value] == D9_NONE) {
        g->of[value] = part;
        return D9_OK;
    }
    d9_node sum = {.op = D9_OP_ADD, .inputs = {g->of[value], part}, .input_count = 2, .output_count = 1};
    char suffix[16];
    D9_TRY(move_slice_to_end(g, g->of[value]));
    snprintf(suffix, sizeof suffix, ".sum%d", g->graph->node_count);
    D9_TRY(add_gradient_value(g, value, suffix, &sum.outputs[0]));
    D9_TRY(d9_gradient_append_node(g, forward, sum));
    g->of[value] = sum.outputs[0];
done:
    return status;
}

d9_status d9_gradient_of_input(d9_gradients *g, const d9_node *forward, int slot, d9_node node) {
    d9_status status = D9_OK;
    const d9_value_id x = forward->inputs[slot];
    char suffix[16];
    snprintf(suffix, sizeof suffix, ".%d", g->graph->node_count);
    if (!g->needed[x]) return D9_OK;
    if (node.output_count == 0) node.output_count = 1;
    D9_TRY(add_gradient_value(g, x, suffix, &node.outputs[0]));
    D9_TRY(d9_gradient_append_node(g, forward, node));
    D9_TRY(d9_gradient_add(g, forward, x, node.outputs[0]));
done:
    return status;
}

d9_status d9_gradient_of_parameter(d9_gradients *g, d9_value_id parameter, d9_value_id *id) {
    const d9_value_id master = d9_graph_parameter(g->graph, parameter);
    const d9_value *value = &g->graph->values[master];
    *id = D9_NONE;
    if (!d9_value_learns(value)) return D9_OK;
    return add_gradient_value(g, master, "", id);
}

d9_status d9_gradient_weighted(d9_gradients *g, const d9_node *forward, d9_value_id dy, d9_op weight_op,
                               d9_op data_op) {
    d9_status status;
    d9_node weight = {.op = weight_op, .inputs = {dy, forward->inputs[0]}, .input_count = 2, .output_count = 1};
    d9_node data = {.op = data_op, .inputs = {dy, forward->inputs[1]}, .input_count = 2};
    D9_TRY(d9_gradient_of_parameter(g, forward->inputs[1], &weight.outputs[0]));
    if (weight.outputs[0] != D9_NONE) D9_TRY(d9_gradient_append_node(g, forward, weight));
    D9_TRY(d9_gradient_of_input(g, forward, 0, data));
done:
    return status;
}

d9_status d9_gradient_by_same_op(d9_gradients *g, const d9_node *forward, d9_value_id dy) {
    return d9_gradient_of_input(g, forward, 0, (d9_node){.op = forward->op, .inputs = {dy}, .input_count = 1});
}

static d9_status differentiate(d9_gradients *g, const d9_node *forward) {
    const d9_op_info *info = d9_op_info_of(forward->op);
    const d9_value_id y = forward->outputs[0];
    if (y != g->graph->loss && g->of[y] == D9_NONE) return D9_OK; /* no gradient reaches y */
    if (y == g->graph->input) return D9_OK; /* the node that makes the image is not differentiated */
    if (info->gradient) return info->gradient(g, forward, g->of[y]);
    return d9_fail(g->context, D9_USAGE, "%s: %s has no gradient", forward->role, d9_op_name(forward->op));
}

d9_status d9_gradient_append(d9_context *context, d9_graph *graph, bool into_image) {
    d9_status status;
    void *of = NULL, *needed = NULL;
    int nodes = graph->node_count, values = graph->value_count;
    D9_TRY(d9_allocate(context, (size_t)values * sizeof(d9_value_id), "gradients", &of));
    D9_TRY(d9_allocate(context, (size_t)values * sizeof(bool), "gradients", &needed));
    d9_gradients g = {context, graph, of, needed};
    for (int v = 0; v < values; v++) {
        g.of[v] = D9_NONE;
        g.needed[v] = d9_value_learns(&graph->values[v]);
    }
    g.needed[graph->input] = into_image;
    for (d9_node_id n = 0; n < nodes; n++) {
        const d9_node *node = &graph->nodes[n];
        for (int i = 0; i < node->input_count; i++)
            if (g.needed[node->inputs[i]]) g.needed[node->outputs[0]] = true;
    }
    for (d9_node_id n = nodes - 1; n >= 0; n--) {
        d9_node forward = graph->nodes[n]; /* a copy, because appending may move the array */
        D9_TRY(differentiate(&g, &forward));
    }
done:
    d9_release(context, of);
    d9_release(context, needed);
    return status;
}

d9_value_id d9_gradient_of(const d9_graph *graph, d9_value_id parameter) {
    char name[D9_NAME_SIZE + 8];
    snprintf(name, sizeof name, "%s.grad", graph->values[parameter].name);
    return d9_graph_find_value(graph, name);
}
