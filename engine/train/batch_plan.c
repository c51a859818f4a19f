/* The batch nodes alone. The graph is a copy of the training graph, so that every value keeps its place. */
#include "train/batch_plan.h"
#include "graph/op.h"

d9_status d9_batch_plan(d9_session *session, d9_graph *graph, d9_plan **plan) {
    d9_status status = D9_OK;
    int kept = 0;
    D9_TRY(d9_graph_copy(session->context, &session->program.train, graph));
    for (int n = 0; n < graph->node_count; n++) {
        if (d9_op_info_of(graph->nodes[n].op)->batch) graph->nodes[kept++] = graph->nodes[n];
    }
    graph->node_count = kept;
    D9_TRY(session->backend->plan(session->context, session->device, &session->program, graph, plan));
done:
    return status;
}
