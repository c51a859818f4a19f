/* Editing a forward graph: what tricks are written with. Nothing here knows a trick or a model.
 *
 * Tricks run before d9_gradient_append, so an edit never meets a backward node. After an edit shapes are
 * inferred again by the caller of the tricks. */
#ifndef D9_GRAPH_EDIT_H
#define D9_GRAPH_EDIT_H

#include "graph/graph.h"

/* The next node of this kind at or after `from`; D9_NONE at the end:
 *   for (n = d9_edit_next(g, op, 0); n != D9_NONE; n = d9_edit_next(g, op, n + 1)) */
d9_node_id d9_edit_next(const d9_graph *graph, d9_op op, d9_node_id from);

/* The next chain of single consumers ops[0] -> ops[1] -> ... whose first node is at or after `from`.
 * Fills nodes[count]; false at the end. A chain breaks where a value has a second consumer. */
bool d9_edit_chain(const d9_graph *graph, const d9_op *ops, int count, d9_node_id from, d9_node_id *nodes);

/* Exchanges two neighbours of a chain, first -> second becomes second -> first. Both have one data input and
 * one data output (slot 0); parameters stay with their node. */
void d9_edit_swap(d9_graph *graph, d9_node_id first, d9_node_id second);

/* Puts `node` between `value` and all its consumers; node's slot-0 input and output are set here. */
D9_MUST_USE d9_status d9_edit_insert(d9_context *context, d9_graph *graph, d9_value_id value, const d9_node *node,
                                     d9_node_id *id);

/* Every activation becomes this one; how many there were. */
int d9_edit_activations(d9_graph *graph, d9_act_attributes act);

/* The convolution that reads the image, if nothing else does; D9_NONE: another operation does, or several. */
d9_node_id d9_edit_stem(const d9_graph *graph);

/* The convolution reads `channels` from now on: its weight's shape, which starts uniform in +-1/sqrt(fan-in). */
void d9_edit_conv_inputs(d9_graph *graph, d9_node_id conv, int64_t channels, d9_conv_attributes attributes);

/* "stem.conv", "whiten" -> "stem.whiten": the role of a new neighbour. */
void d9_edit_sibling_role(const char *role, const char *name, char sibling[D9_NAME_SIZE]);

/* Adds a parameter named ROLE.SLOT. */
D9_MUST_USE d9_status d9_edit_parameter(d9_context *context, d9_graph *graph, const char *role, const char *slot,
                                        const d9_shape *shape, d9_parameter_kind kind, d9_value_id *id);

#endif
