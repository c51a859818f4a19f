/* Backward nodes: the chain rule over the list of forward nodes, last to first. What the records under graph/ops/
 * write their gradients with; d9_gradient_append (passes.h) calls them. */
#ifndef D9_GRAPH_GRADIENT_H
#define D9_GRAPH_GRADIENT_H

#include "graph/graph.h"

typedef struct d9_gradients { /* the pass under way */
    d9_context *context;
    d9_graph *graph;
    d9_value_id *of; /* by forward value: holds d(sum of losses)/d(value) so far; D9_NONE: nothing yet */
    bool *needed;    /* by forward value: a trainable parameter feeds it */
} d9_gradients;

/* Adds `part` to the gradient of `value`. */
D9_MUST_USE d9_status d9_gradient_add(d9_gradients *gradients, const d9_node *forward, d9_value_id value,
                                      d9_value_id part);
/* Appends `node`, whose output 0 is made here as a part of the gradient of the forward node's input `slot`. Where
 * nobody needs that gradient, nothing is appended. Role and attributes are the forward node's. */
D9_MUST_USE d9_status d9_gradient_of_input(d9_gradients *gradients, const d9_node *forward, int slot, d9_node node);
/* A new value for the gradient of a parameter; D9_NONE where it is not trained. */
D9_MUST_USE d9_status d9_gradient_of_parameter(d9_gradients *gradients, d9_value_id parameter, d9_value_id *id);
/* Appends a node with the forward node's role and attributes. */
D9_MUST_USE d9_status d9_gradient_node(d9_gradients *gradients, const d9_node *forward, d9_node node);
/* Input 1 is a weight: its gradient by `weight_op` (dy, x), then the data's by `data_op` (dy, weight). */
D9_MUST_USE d9_status d9_gradient_weighted(d9_gradients *gradients, const d9_node *forward, d9_value_id dy,
                                           d9_op weight_op, d9_op data_op);

#endif
