/* Builds the evaluation graph from the forward graph. */
#include "graph/op.h"

/* Removes node n; consumers of its output 0, and the graph's logits, read its input 0 instead. */
static void bypass(d9_graph *graph, d9_node_id n) {
    const d9_value_id x = graph->nodes[n].inputs[0], y = graph->nodes[n].outputs[0];
    d9_graph_remove_node(graph, n);
    for (d9_node_id m = 0; m < graph->node_count; m++)
        for (int i = 0; i < graph->nodes[m].input_count; i++)
            if (graph->nodes[m].inputs[i] == y) graph->nodes[m].inputs[i] = x;
    if (graph->logits == y) graph->logits = x;
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
        if (evaluation->nodes[n].op == D9_OP_LOSS && scored) continue;
        if (info->evaluation && !info->evaluation(&evaluation->nodes[n])) bypass(evaluation, n);
    }
    if (scored) goto done;
    evaluation->loss = evaluation->labels = D9_NONE;
    evaluation->values[evaluation->logits].kind = D9_VALUE_STORED;
    evaluation->values[evaluation->logits].buffer = D9_BUFFER_LOGITS;
done:
    return status;
}
