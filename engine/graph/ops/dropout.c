/* Dropout: an element x becomes x / (1 - p) with probability 1 - p, otherwise 0. Elements are kept or dropped one by
 * one, or together by d9_dropout_unit. The choice is a function of seed, step, random stream and the element's place
 * (kernels/formulas/dropout.h), so no mask is stored, and the gradient is dropout of dy. */
#include "graph/op.h"

static d9_status shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    if (!(node->as.dropout.p >= 0 && node->as.dropout.p < 1))
        return d9_fail(context, D9_USAGE, "%s: a dropout of %g leaves nothing: must be from 0 to below 1", node->role,
                       node->as.dropout.p);
    return d9_shape_copy_input(context, graph, node);
}

static bool evaluation(d9_node *node) { return node->as.dropout.in_evaluation; }

const d9_op_info d9_op_DROPOUT = {
    .doc = "x -> y: x / (1 - p) or 0, by an independent random number per step and element, sample or batch",
    .inputs = 1,
    .outputs = 1,
    .shape = shape,
    .type = d9_type_of_input,
    .gradient = d9_gradient_by_same_op,
    .evaluation = evaluation,
};
