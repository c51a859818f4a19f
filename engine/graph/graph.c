/* Adds, removes, finds and copies values and nodes of a graph. Builders for models: build.c; shape inference: op.c. */
#include "graph/graph.h"
#include "core/hash.h"
#include "core/system.h"
#include "graph/op.h"

#include <string.h>

size_t d9_type_bytes(d9_type type) {
    static const size_t bytes[D9_TYPE_COUNT] = {8, 4, 2, 2, 4, 1};
    return bytes[type];
}

const char *d9_type_name(d9_type type) {
    static const char *const names[D9_TYPE_COUNT] = {"f64", "f32", "bf16", "f16", "i32", "u8"};
    return names[type];
}

const char *d9_buffer_name(d9_buffer buffer) {
    static const char *const names[D9_BUFFER_ACCUMULATORS] = {
        [D9_BUFFER_SCRATCH] = "scratch", [D9_BUFFER_STATE] = "state",           [D9_BUFFER_GRADIENT] = "gradient",
        [D9_BUFFER_IMAGES] = "images",   [D9_BUFFER_LABELS] = "labels",         [D9_BUFFER_EVAL_IMAGES] = "eval_images",
        [D9_BUFFER_ORDER] = "order",     [D9_BUFFER_EVAL_DRAWS] = "eval_draws", [D9_BUFFER_EVAL_ORDER] = "eval_order",
        [D9_BUFFER_CARRY] = "carry",     [D9_BUFFER_EVAL_CARRY] = "eval_carry", [D9_BUFFER_TABLE] = "table",
        [D9_BUFFER_METRICS] = "metrics", [D9_BUFFER_LOGITS] = "logits",         [D9_BUFFER_GUARD] = "guard"};
    return buffer < D9_BUFFER_ACCUMULATORS ? names[buffer] : "accumulator";
}

const char *d9_activation_name(d9_activation activation) {
    static const char *const names[D9_ACT_COUNT] = {
#define D9_ACTIVATION(id, name, from_output, doc) name,
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    };
    return names[activation];
}

int64_t d9_shape_count(const d9_shape *shape) {
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++) count *= shape->d[i];
    return count;
}

bool d9_shape_equal(const d9_shape *a, const d9_shape *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->d[i] != b->d[i]) return false;
    return true;
}

void d9_graph_init(d9_graph *graph) {
    memset(graph, 0, sizeof *graph);
    graph->input = graph->logits = graph->loss = graph->labels = graph->features = D9_NONE;
}

void d9_graph_free(d9_context *context, d9_graph *graph) {
    d9_release(context, graph->values);
    d9_release(context, graph->nodes);
    d9_graph_init(graph);
}

d9_status d9_graph_copy(d9_context *context, const d9_graph *from, d9_graph *to) {
    d9_status status;
    d9_value *values = NULL;
    d9_node *nodes = NULL;
    D9_TRY(D9_ALLOCATE(context, from->value_capacity, "graph", &values));
    D9_TRY(D9_ALLOCATE(context, from->node_capacity, "graph", &nodes));
    *to = *from;
    to->values = memcpy(values, from->values, (size_t)from->value_count * sizeof *from->values);
    to->nodes = memcpy(nodes, from->nodes, (size_t)from->node_count * sizeof *from->nodes);
    return D9_OK;
done:
    d9_release(context, values);
    return status;
}

d9_status d9_graph_add_value(d9_context *context, d9_graph *graph, const d9_value *value, d9_value_id *id) {
    d9_status status;
    if (d9_graph_find_value(graph, value->name) != D9_NONE)
        return d9_fail(context, D9_USAGE, "the graph already has a value named %s", value->name);
    D9_TRY(D9_GROW(context, graph->value_count, 1, "graph", &graph->value_capacity, &graph->values));
    *id = graph->value_count++;
    graph->values[*id] = *value;
done:
    return status;
}

d9_status d9_graph_find_or_add(d9_context *context, d9_graph *graph, const d9_value *wanted, d9_value_id *id) {
    d9_value value = *wanted;
    *id = d9_graph_find_value(graph, value.name);
    if (*id != D9_NONE) return D9_OK;
    value.producer = D9_NONE;
    return d9_graph_add_value(context, graph, &value, id);
}

d9_status d9_graph_insert_node(d9_context *context, d9_graph *graph, d9_node_id at, const d9_node *node,
                               d9_node_id *id) {
    d9_status status;
    D9_TRY(d9_op_check(context, node));
    D9_TRY(D9_GROW(context, graph->node_count, 1, "graph", &graph->node_capacity, &graph->nodes));
    memmove(&graph->nodes[at + 1], &graph->nodes[at], (size_t)(graph->node_count - at) * sizeof *graph->nodes);
    graph->nodes[at] = *node;
    graph->node_count++;
    for (int v = 0; v < graph->value_count; v++)
        if (graph->values[v].producer != D9_NONE && graph->values[v].producer >= at) graph->values[v].producer++;
    for (int i = 0; i < node->output_count; i++)
        if (node->outputs[i] != D9_NONE && graph->values[node->outputs[i]].kind == D9_VALUE_ACTIVATION)
            graph->values[node->outputs[i]].producer = at;
    if (id) *id = at;
done:
    return status;
}

d9_status d9_graph_add_node(d9_context *context, d9_graph *graph, const d9_node *node) {
    return d9_graph_insert_node(context, graph, graph->node_count, node, NULL);
}

void d9_graph_remove_node(d9_graph *graph, d9_node_id at) {
    for (int v = 0; v < graph->value_count; v++) {
        d9_value *value = &graph->values[v];
        if (value->producer == at) value->producer = D9_NONE;
        if (value->producer > at) value->producer--;
    }
    graph->node_count--;
    memmove(&graph->nodes[at], &graph->nodes[at + 1], (size_t)(graph->node_count - at) * sizeof *graph->nodes);
}

d9_value_id d9_graph_find_value(const d9_graph *graph, const char *name) {
    for (int v = 0; v < graph->value_count; v++)
        if (strcmp(graph->values[v].name, name) == 0) return v;
    return D9_NONE;
}

int d9_graph_consumers(const d9_graph *graph, d9_value_id value, d9_node_id *first) {
    int count = 0;
    for (d9_node_id n = 0; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n].input_count; i++)
            if (graph->nodes[n].inputs[i] == value && count++ == 0 && first) *first = n;
    return count;
}

void d9_graph_redirect(d9_graph *graph, d9_value_id from, d9_value_id to) {
    for (d9_node_id n = 0; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n].input_count; i++)
            if (graph->nodes[n].inputs[i] == from) graph->nodes[n].inputs[i] = to;
    if (graph->logits == from) graph->logits = to;
}

d9_value_id d9_graph_parameter(const d9_graph *graph, d9_value_id value) {
    const d9_node_id producer = graph->values[value].producer;
    if (producer == D9_NONE || graph->nodes[producer].op != D9_OP_CAST) return value;
    return graph->nodes[producer].inputs[0];
}

d9_node_id d9_graph_classifier(const d9_graph *graph) {
    d9_node_id n = graph->values[graph->logits].producer;
    while (n != D9_NONE && graph->nodes[n].op != D9_OP_LINEAR) n = graph->values[graph->nodes[n].inputs[0]].producer;
    return n;
}

int64_t d9_graph_samples(const d9_graph *graph) {
    return graph->values[graph->input].shape.d[graph->vocabulary ? 1 : 0];
}

uint32_t d9_role_stream(const char *role) { return d9_fnv1a(role); }

int64_t d9_node_groups(const d9_graph *graph, const d9_node *norm) {
    int64_t batch = graph->values[norm->inputs[0]].shape.d[0];
    int64_t size = norm->as.norm.group_size;
    return size > 0 ? batch / size : 1;
}
