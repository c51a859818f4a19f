/* The loss of each row of the logits, its gradient, and the metrics. The objective is the sum of the losses. */
#include "graph/op.h"

static d9_status shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    (void)context;
    d9_set_shape(graph, node->outputs[0], (d9_shape){1, {d9_shape_rows(d9_input_shape(graph, node, 0))}});
    return D9_OK;
}

/* With D9_MANY_CLASSES or more classes, the logits' gradient has the compute type of the classifier's backward
 * products. With fewer classes these products take little time, and the gradient keeps the type of the logits. */
static d9_type gradient_type(const d9_graph *graph, d9_value_id logits) {
    const d9_node_id classifier = d9_graph_classifier(graph);
    if (graph->classes < D9_MANY_CLASSES || classifier == D9_NONE) return graph->values[logits].type;
    return graph->values[graph->nodes[classifier].inputs[1]].type;
}

static d9_status gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    d9_status status;
    d9_graph *graph = gradients->graph;
    const d9_node_id made = graph->node_count;
    (void)dy; /* dy is 1 for every row */
    D9_TRY(d9_gradient_of_input(
        gradients, forward, 0,
        (d9_node){.op = D9_OP_LOSS_BACKWARD, .inputs = {forward->inputs[0], forward->inputs[1]}, .input_count = 2}));
    if (made < graph->node_count)
        graph->values[graph->nodes[made].outputs[0]].type = gradient_type(graph, forward->inputs[0]);
done:
    return status;
}

static bool evaluation(d9_node *node) {
    (void)node;
    return false;
}

const d9_op_info d9_op_LOSS = {
    .doc = "logits (..., classes), labels (rows) -> loss (rows): by its row in kernels/formulas/rows.h; 0 for "
           "label -1",
    .inputs = 2,
    .outputs = 1,
    .shape = shape,
    .type = d9_type_master,
    .gradient = gradient,
    .evaluation = evaluation,
};

const d9_op_info d9_op_LOSS_BACKWARD = {
    .doc = "logits, labels -> dlogits of the summed loss",
    .inputs = 2,
    .outputs = 1,
    .may_overwrite_input = true, /* each sample's logits are read before its gradient is written */
    D9_PRESET_OUTPUTS,
};

const d9_op_info d9_op_METRICS = {
    .doc =
        "loss, logits, labels, metrics -> metrics: adds the batch without labels -1; records the first non-finite step",
    .inputs = 4,
    .outputs = 1,
    D9_PRESET_OUTPUTS,
};
