/* Edits of a forward graph; see edit.h. */
#include "graph/edit.h"
#include "graph/init.h"

#include <stdio.h>
#include <string.h>

d9_node_id d9_edit_next(const d9_graph *graph, d9_op op, d9_node_id from) {
    for (d9_node_id n = from; n < graph->node_count; n++)
        if (graph->nodes[n].op == op) return n;
    return D9_NONE;
}

bool d9_edit_find_chain(const d9_graph *graph, const d9_op *ops, int count, d9_node_id from, d9_node_id *nodes) {
    for (d9_node_id n = d9_edit_next(graph, ops[0], from); n != D9_NONE; n = d9_edit_next(graph, ops[0], n + 1)) {
        int length = 1;
        nodes[0] = n;
        while (length < count) {
            d9_node_id next = D9_NONE;
            if (d9_graph_consumers(graph, graph->nodes[nodes[length - 1]].outputs[0], &next) != 1) break;
            if (graph->nodes[next].op != ops[length] ||
                graph->nodes[next].inputs[0] != graph->nodes[nodes[length - 1]].outputs[0])
                break;
            nodes[length++] = next;
        }
        if (length == count) return true;
    }
    return false;
}

void d9_edit_swap(d9_graph *graph, d9_node_id first, d9_node_id second) {
    d9_node *a = &graph->nodes[first], *b = &graph->nodes[second];
    d9_value_id before = a->inputs[0], between = a->outputs[0], after = b->outputs[0];
    /* Each node keeps its output value and thus the value's name; only the inputs change. */
    d9_graph_redirect(graph, after, between);
    b->inputs[0] = before;
    a->inputs[0] = after;
    d9_node moved = *a;
    *a = *b;
    *b = moved;
    for (int n = 0; n < 2; n++) {
        const d9_node *node = &graph->nodes[n ? second : first];
        for (int i = 0; i < node->output_count; i++) graph->values[node->outputs[i]].producer = n ? second : first;
    }
}

d9_status d9_edit_insert(d9_context *context, d9_graph *graph, d9_value_id value, const d9_node *node, d9_node_id *id) {
    d9_status status;
    d9_node inserted = *node;
    d9_value output = {.kind = D9_VALUE_ACTIVATION, .producer = D9_NONE};
    snprintf(output.name, sizeof output.name, "%.*s.out", (int)sizeof output.name - 5, node->role);
    D9_TRY(d9_graph_add_value(context, graph, &output, &inserted.outputs[0]));
    if (inserted.output_count == 0) inserted.output_count = 1;
    if (inserted.input_count == 0) inserted.input_count = 1;
    d9_graph_redirect(graph, value, inserted.outputs[0]);
    inserted.inputs[0] = value;
    D9_TRY(d9_graph_insert_node(context, graph, graph->values[value].producer + 1, &inserted, id));
    D9_TRY(d9_graph_infer(context, graph));
done:
    return status;
}

int d9_edit_set_activations(d9_graph *graph, d9_act_attributes act) {
    int edits = 0;
    for (d9_node_id n = d9_edit_next(graph, D9_OP_ACT, 0); n != D9_NONE;
         n = d9_edit_next(graph, D9_OP_ACT, n + 1), edits++)
        graph->nodes[n].as.act = act;
    return edits;
}

d9_node_id d9_edit_stem(const d9_graph *graph) {
    d9_node_id n = D9_NONE;
    if (d9_graph_consumers(graph, graph->input, &n) != 1) return D9_NONE;
    return graph->nodes[n].op == D9_OP_CONV ? n : D9_NONE;
}

void d9_edit_set_conv_inputs(d9_graph *graph, d9_node_id conv, int64_t channels, d9_conv_attributes attributes) {
    d9_node *node = &graph->nodes[conv];
    d9_value *weight = &graph->values[node->inputs[1]];
    const int64_t kernel = attributes.kernel;
    node->as.conv = attributes;
    weight->shape = (d9_shape){4, {weight->shape.d[0], kernel, kernel, channels}};
    weight->init = (d9_initializer){
        .name = "uniform", .fill = d9_init_uniform, .a = 1 / sqrt((double)(channels * kernel * kernel))};
}

void d9_edit_sibling_role(const char *role, const char *name, char sibling[D9_NAME_SIZE]) {
    const char *dot = strrchr(role, '.');
    snprintf(sibling, D9_NAME_SIZE, "%.*s%s", dot ? (int)(dot - role) + 1 : 0, role, name);
}
