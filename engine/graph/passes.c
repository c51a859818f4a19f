/* The precision pass, and the evaluation graph. The precision pass assigns the floating-point types of a forward graph:
 * parameters, statistics and carried states have the master type, images the compute type; weights that are multiplied
 * are cast to the compute type; each operation's d9_op_info gives the types of its outputs. Tokens and labels stay
 * integers. */
#include "graph/op.h"
#include <stdio.h>
#include <string.h>

const d9_precision *d9_precision_at(int index) {
    static const d9_precision precisions[] = {[D9_PRECISION_F64] = {"f64", D9_F64, D9_F64, false},
                                              [D9_PRECISION_F32] = {"f32", D9_F32, D9_F32, false},
                                              [D9_PRECISION_TF32] = {"tf32", D9_F32, D9_F32, true},
                                              [D9_PRECISION_BF16] = {"bf16", D9_BF16, D9_F32, false},
                                              [D9_PRECISION_FP16] = {"fp16", D9_F16, D9_F32, false}};
    return &precisions[index];
}

const d9_precision *d9_precision_find(const char *name) {
    for (int i = 0; i < D9_PRECISIONS; i++)
        if (strcmp(d9_precision_at(i)->name, name) == 0) return d9_precision_at(i);
    return NULL;
}

/* Adds a cast of node n's weight to the compute type, right before node n. */
static d9_status cast_weight(d9_context *context, d9_graph *graph, d9_node_id n, const d9_precision *precision) {
    d9_status status;
    const d9_value weight = graph->values[graph->nodes[n].inputs[1]];
    d9_value narrow = {
        .kind = D9_VALUE_ACTIVATION, .type = precision->compute, .shape = weight.shape, .producer = D9_NONE};
    d9_node cast = {.op = D9_OP_CAST, .inputs = {graph->nodes[n].inputs[1]}, .input_count = 1, .output_count = 1};
    snprintf(cast.role, sizeof cast.role, "%s", graph->nodes[n].role);
    snprintf(narrow.name, sizeof narrow.name, "%.*s.%s", (int)sizeof narrow.name - 6, weight.name,
             d9_type_name(narrow.type));
    D9_TRY(d9_graph_add_value(context, graph, &narrow, &cast.outputs[0]));
    graph->nodes[n].inputs[1] = cast.outputs[0];
    D9_TRY(d9_graph_insert_node(context, graph, n, &cast, NULL));
done:
    return status;
}

d9_status d9_precision_apply(d9_context *context, d9_graph *graph, const d9_precision *precision) {
    d9_status status = D9_OK;
    for (int v = 0; v < graph->value_count; v++)
        if (graph->values[v].kind == D9_VALUE_PARAMETER || graph->values[v].kind == D9_VALUE_STATISTIC ||
            graph->values[v].buffer == D9_BUFFER_CARRY || graph->values[v].buffer == D9_BUFFER_EVAL_CARRY)
            graph->values[v].type = precision->master;
    if (!graph->vocabulary) graph->values[graph->input].type = precision->compute;
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        const d9_op_info *info = d9_op_info_of(graph->nodes[n].op);
        if (info->weighted && precision->compute != precision->master)
            D9_TRY(cast_weight(context, graph, n++, precision));
        const d9_node *node = &graph->nodes[n];
        for (int i = 0; i < node->output_count; i++)
            if (node->outputs[i] != D9_NONE)
                graph->values[node->outputs[i]].type = info->type(graph, node, i, precision);
    }
done:
    return status;
}

/* ---- the evaluation graph ---- */

/* Removes node n; consumers of its output 0, and the graph's logits, read its input 0 instead. */
static void bypass(d9_graph *graph, d9_node_id n) {
    const d9_value_id x = graph->nodes[n].inputs[0], y = graph->nodes[n].outputs[0];
    d9_graph_remove_node(graph, n);
    d9_graph_redirect(graph, y, x);
}

d9_status d9_evaluation_make(d9_context *context, const d9_graph *forward, d9_buffer state, bool scored,
                             d9_graph *evaluation) {
    d9_status status;
    d9_graph_init(evaluation);
    D9_TRY(d9_graph_copy(context, forward, evaluation));
    for (int v = 0; v < evaluation->value_count; v++) {
        d9_value *value = &evaluation->values[v];
        if (value->kind == D9_VALUE_PARAMETER || value->kind == D9_VALUE_STATISTIC) value->buffer = state;
        if (value->buffer == D9_BUFFER_CARRY) value->buffer = D9_BUFFER_EVAL_CARRY;
    }
    for (d9_node_id n = evaluation->node_count - 1; n >= 0; n--) {
        const d9_op_info *info = d9_op_info_of(evaluation->nodes[n].op);
        if (evaluation->nodes[n].op == D9_OP_LOSS && scored) {
            evaluation->nodes[n].as.loss.smoothing = 0;
            continue;
        }
        if (info->evaluation && !info->evaluation(&evaluation->nodes[n])) bypass(evaluation, n);
    }
    if (scored) goto done;
    evaluation->loss = evaluation->labels = D9_NONE;
    evaluation->values[evaluation->logits].kind = D9_VALUE_STORED;
    evaluation->values[evaluation->logits].buffer = D9_BUFFER_LOGITS;
done:
    return status;
}
