/* Edits of a forward graph, for use by tricks. Nothing here depends on a trick or a model.
 *
 * Tricks run before d9_gradient_append, so edits never meet backward nodes. After all tricks, shapes are inferred. */
#pragma once

#include "graph/graph.h"

/* The next node with operation `op` at or after `from`; D9_NONE at the end:
 *   for (n = d9_edit_next(g, op, 0); n != D9_NONE; n = d9_edit_next(g, op, n + 1)) */
d9_node_id d9_edit_next(const d9_graph *graph, d9_op op, d9_node_id from);

/* Finds the next chain ops[0] -> ops[1] -> ... whose first node is at or after `from`: output 0 of a node is input 0 of
 * the next node, and no other node reads it. Fills nodes[count]; false if there is no chain. */
bool d9_edit_find_chain(const d9_graph *graph, const d9_op *ops, int count, d9_node_id from, d9_node_id *nodes);

/* Exchanges two neighbours of a chain: first -> second becomes second -> first. Both must have one data input and one
 * data output, number 0; parameters stay with their node. */
void d9_edit_swap(d9_graph *graph, d9_node_id first, d9_node_id second);

/* Inserts `node` between `value` and all its consumers; sets the node's input 0 and output 0. `id` may be NULL. */
D9_MUST_USE d9_status d9_edit_insert(d9_context *context, d9_graph *graph, d9_value_id value, const d9_node *node,
                                     d9_node_id *id);

/* Sets the attributes of every activation; returns the number of activations. */
int d9_edit_set_activations(d9_graph *graph, d9_act_attributes act);

/* The convolution that reads the image; D9_NONE if another operation reads it, or several nodes do. */
d9_node_id d9_edit_stem(const d9_graph *graph);

/* Sets the attributes and the number of input channels of a convolution. Its weight gets the matching shape and is
 * initialised uniform in +-1/sqrt(fan-in). */
void d9_edit_set_conv_inputs(d9_graph *graph, d9_node_id conv, int64_t channels, d9_conv_attributes attributes);

/* Replaces the last part of a role: "stem.conv", "whiten" -> "stem.whiten". */
void d9_edit_sibling_role(const char *role, const char *name, char sibling[D9_NAME_SIZE]);

/* Adds a trainable parameter ROLE.SLOT. Initial values: weights uniform in +-1/sqrt(fan-in), scales 1, biases 0. */
D9_MUST_USE d9_status d9_edit_add_parameter(d9_context *context, d9_graph *graph, const char *role, const char *slot,
                                            const d9_shape *shape, d9_parameter_kind kind, d9_value_id *id);
