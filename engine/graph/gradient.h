/* Helpers for the gradient functions of operations (d9_op_info in graph/ops/), which append backward nodes.
 * d9_gradient_append (passes.h) calls those functions from the last forward node to the first. */
#pragma once

#include "graph/graph.h"

typedef struct d9_gradients { /* state of d9_gradient_append */
    d9_context *context;
    d9_graph *graph;
    d9_value_id *of; /* for each forward value v: the value that holds d(summed loss)/dv, summed over the consumers of v
                        that were visited so far; D9_NONE: none yet */
    bool *needed;    /* for each forward value: it depends on a trainable parameter, or on the image (`into_image`) */
} d9_gradients;

/* Adds `part` to the gradient of `value` if that gradient is needed. If this takes an `add` node, it gets the role of
 * `forward`. */
D9_MUST_USE d9_status d9_gradient_add(d9_gradients *gradients, const d9_node *forward, d9_value_id value,
                                      d9_value_id part);
/* Appends `node` with the forward node's role and attributes. Its output 0, created here, is added to the gradient of
 * the forward node's input `slot`. Appends nothing if that gradient is not needed. */
D9_MUST_USE d9_status d9_gradient_of_input(d9_gradients *gradients, const d9_node *forward, int slot, d9_node node);
/* Adds a value for the gradient of a parameter, or sets *id to D9_NONE if the parameter is not trained. */
D9_MUST_USE d9_status d9_gradient_of_parameter(d9_gradients *gradients, d9_value_id parameter, d9_value_id *id);
/* Appends a node with the forward node's role and attributes. */
D9_MUST_USE d9_status d9_gradient_node(d9_gradients *gradients, const d9_node *forward, d9_node node);
/* For a node of x and a weight: appends dweight = weight_op (dy, x), then dx = data_op (dy, weight), each if needed. */
D9_MUST_USE d9_status d9_gradient_weighted(d9_gradients *gradients, const d9_node *forward, d9_value_id dy,
                                           d9_op weight_op, d9_op data_op);
