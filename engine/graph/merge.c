/* Inserts the nodes of one graph into another; see graph.h. */
#include "core/system.h"
#include "graph/graph.h"

#include <stdio.h>

typedef struct merging {
    d9_context *context;
    const d9_graph *from;
    const d9_merge *as;
    d9_graph *to;
    d9_value_id *value_in_to; /* (from->value_count): the corresponding value of `to`; D9_NONE: not yet known */
} merging;

static d9_status add_prefix(d9_context *context, const char *prefix, const char *name, char made[D9_NAME_SIZE]) {
    if (snprintf(made, D9_NAME_SIZE, "%s%s", prefix, name) < D9_NAME_SIZE) return D9_OK;
    return d9_fail(context, D9_USAGE, "the name %s%s is too long", prefix, name);
}

static bool gets_kept_prefix(const d9_value *value) {
    return value->kind == D9_VALUE_PARAMETER || value->kind == D9_VALUE_STATISTIC || value->kind == D9_VALUE_GRADIENT;
}

/* Finds the value of `to` that corresponds to value `id` of `from`; adds it if there is none with its name. */
static d9_status find_or_add_value(const merging *m, d9_value_id id) {
    d9_status status = D9_OK;
    d9_value value = m->from->values[id];
    if (m->value_in_to[id] != D9_NONE) goto done;
    if (value.kind != D9_VALUE_STORED)
        D9_TRY(add_prefix(m->context, gets_kept_prefix(&value) ? m->as->kept_prefix : m->as->prefix,
                          m->from->values[id].name, value.name));
    D9_TRY(d9_graph_find_or_add(m->context, m->to, &value, &m->value_in_to[id]));
    if (!d9_shape_equal(&m->to->values[m->value_in_to[id]].shape, &value.shape))
        D9_TRY(d9_fail(m->context, D9_USAGE, "two values with different shapes are named %s", value.name));
done:
    return status;
}

static d9_status insert_copy(const merging *m, const d9_node *of, d9_node_id at) {
    d9_status status;
    d9_node node = *of;
    D9_TRY(add_prefix(m->context, m->as->prefix, of->role, node.role));
    node.when = m->as->when;
    for (int i = 0; i < node.input_count; i++) {
        D9_TRY(find_or_add_value(m, of->inputs[i]));
        node.inputs[i] = m->value_in_to[of->inputs[i]];
    }
    for (int i = 0; i < node.output_count; i++) {
        if (of->outputs[i] == D9_NONE) continue;
        D9_TRY(find_or_add_value(m, of->outputs[i]));
        node.outputs[i] = m->value_in_to[of->outputs[i]];
    }
    D9_TRY(d9_graph_insert_node(m->context, m->to, at, &node, NULL));
done:
    return status;
}

d9_status d9_graph_merge(d9_context *context, const d9_graph *from, const d9_merge *as, d9_node_id at, d9_graph *to) {
    d9_status status;
    merging m = {context, from, as, to, NULL};
    D9_TRY(D9_ALLOCATE(context, from->value_count + 1, "graph", &m.value_in_to));
    for (int v = 0; v < from->value_count; v++) m.value_in_to[v] = D9_NONE;
    if (as->input != D9_NONE) m.value_in_to[from->input] = as->input;
    if (as->labels != D9_NONE) m.value_in_to[from->labels] = as->labels;
    for (d9_node_id n = 0; n < from->node_count; n++) D9_TRY(insert_copy(&m, &from->nodes[n], at + n));
done:
    d9_release(context, m.value_in_to);
    return status;
}
