/* The table of operations, generated from ops.def; functions of d9_op_info that several operations share; shape
 * inference. */
#include "graph/op.h"

#define D9_OP(id, name) extern const d9_op_info d9_op_##id;
#include "graph/ops.def"
#undef D9_OP

const d9_op_info *d9_op_info_of(d9_op op) {
    static const d9_op_info *const infos[D9_OP_COUNT] = {
#define D9_OP(id, name) &d9_op_##id,
#include "graph/ops.def"
#undef D9_OP
    };
    return infos[op];
}

double d9_graph_operations(const d9_graph *graph, d9_node_id begin, d9_node_id end) {
    double sum = 0;
    for (d9_node_id n = begin; n < end; n++) {
        const d9_op_info *info = d9_op_info_of(graph->nodes[n].op);
        if (info->operations) sum += info->operations(graph, &graph->nodes[n]);
    }
    return sum;
}

d9_status d9_op_check(d9_context *context, const d9_node *node) {
    const d9_op_info *info = d9_op_info_of(node->op);
    const int least = info->min_inputs ? info->min_inputs : info->inputs;
    if (node->input_count >= least && node->input_count <= info->inputs && node->output_count <= info->outputs)
        return D9_OK;
    return d9_fail(context, D9_USAGE, "%s: %s with %d inputs and %d outputs, must be: %s", node->role,
                   d9_op_name(node->op), node->input_count, node->output_count, info->doc);
}

const char *d9_op_name(d9_op op) {
    static const char *const names[D9_OP_COUNT] = {
#define D9_OP(id, name) name,
#include "graph/ops.def"
#undef D9_OP
    };
    return names[op];
}

d9_status d9_shape_preset(d9_context *context, d9_graph *graph, const d9_node *node) {
    for (int i = 0; i < node->output_count; i++)
        if (node->outputs[i] != D9_NONE && graph->values[node->outputs[i]].shape.rank == 0)
            return d9_fail(context, D9_USAGE, "%s: %s was made without the shape of its output %d", node->role,
                           d9_op_name(node->op), i);
    return D9_OK;
}

d9_status d9_shape_copy_input(d9_context *context, d9_graph *graph, const d9_node *node) {
    (void)context;
    d9_set_shape(graph, node->outputs[0], *d9_input_shape(graph, node, 0));
    return D9_OK;
}

static double product_operations(const d9_graph *graph, d9_value_id side, d9_value_id weight) {
    const d9_shape *rows = &graph->values[side].shape, *filters = &graph->values[weight].shape;
    return 2 * (double)d9_shape_count(rows) * (double)d9_shape_count(filters) / (double)filters->d[0];
}

double d9_operations_forward(const d9_graph *graph, const d9_node *node) {
    return product_operations(graph, node->outputs[0], node->inputs[1]);
}
double d9_operations_backward_data(const d9_graph *graph, const d9_node *node) {
    return product_operations(graph, node->inputs[0], node->inputs[1]);
}
double d9_operations_backward_weight(const d9_graph *graph, const d9_node *node) {
    return product_operations(graph, node->inputs[0], node->outputs[0]);
}

d9_type d9_type_compute(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision) {
    (void)graph, (void)node, (void)slot;
    return precision->compute;
}

d9_type d9_type_compute_first(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision) {
    (void)graph, (void)node;
    return slot == 0 ? precision->compute : precision->master;
}

d9_type d9_type_master(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision) {
    (void)graph, (void)node, (void)slot;
    return precision->master;
}

d9_type d9_type_of_input(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision) {
    (void)slot, (void)precision;
    return graph->values[node->inputs[0]].type;
}

d9_type d9_type_preset(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision) {
    (void)precision;
    return graph->values[node->outputs[slot]].type;
}

d9_status d9_graph_infer(d9_context *context, d9_graph *graph) {
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        const d9_node *node = &graph->nodes[n];
        const d9_op_info *info = d9_op_info_of(node->op);
        if (!info->shape)
            return d9_fail(context, D9_USAGE, "%s: the shapes of %s cannot be inferred", node->role,
                           d9_op_name(node->op));
        const d9_status status = info->shape(context, graph, node);
        if (status != D9_OK) return status;
    }
    return D9_OK;
}

const char d9_cell_names[] = ""
#define D9_CELL(id, name, gates, saved, memory, shared, doc) "|" name
#include "kernels/formulas/cells.def"
#undef D9_CELL
    ;
const char d9_cell_doc[] = "recurrent cell"
#define D9_CELL(id, name, gates, saved, memory, shared, doc) "\n" name ": " doc
#include "kernels/formulas/cells.def"
#undef D9_CELL
    ;
