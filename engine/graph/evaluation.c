/* The forward graph in evaluation mode. */
#include "graph/passes.h"

d9_status d9_evaluation_make(d9_context *context, const d9_graph *forward, d9_buffer state, d9_graph *evaluation) {
    d9_status status;
    d9_graph_init(evaluation);
    D9_TRY(d9_graph_copy(context, forward, evaluation));
    for (int v = 0; v < evaluation->value_count; v++) {
        d9_value *value = &evaluation->values[v];
        if (value->kind == D9_VALUE_PARAMETER || value->kind == D9_VALUE_STATISTIC) value->buffer = state;
    }
    for (d9_node_id n = evaluation->node_count - 1; n >= 0; n--) {
        d9_node *node = &evaluation->nodes[n];
        if (node->op == D9_OP_NORM) {
            node->op = D9_OP_NORM_EVAL;
            node->output_count = 1;
        }
        if (node->op == D9_OP_LOSS) d9_graph_remove_node(evaluation, n);
    }
    evaluation->loss = evaluation->labels = D9_NONE;
    evaluation->values[evaluation->logits].kind = D9_VALUE_STORED;
    evaluation->values[evaluation->logits].buffer = D9_BUFFER_LOGITS;
done:
    return status;
}
