/* All that is known of an operation above the backends: one const d9_op_info, at the foot of its family's file under
 * graph/ops/. Nothing else tells operations apart. A row of ops.def without its record does not link.
 *
 * A backend knows an operation by rules of its own (backends/host/host.h). */
#ifndef D9_GRAPH_OP_H
#define D9_GRAPH_OP_H

#include "graph/gradient.h"
#include "graph/passes.h"

struct d9_onnx_writer;

typedef struct d9_op_info {
    const char *doc;     /* inputs -> outputs with their shapes; optional ones in [brackets] */
    int inputs, outputs; /* at most; */
    int least_inputs;    /* 0: as many as there may be */
    bool update;         /* moves a group's parameters by their gradients: the last part of a step */
    bool apart;          /* an update of one parameter, in its shape: a node for each of the group */
    bool batch;          /* makes the batch from the data set: the first part */
    bool weighted;       /* input 1 is a weight, multiplied in the compute type */
    bool convolution;    /* what tf32 rounds, and what a narrow weight gradient comes from */
    bool exact;          /* every backend writes the same bits */
    unsigned moves;      /* bit i: input i is state that is changed in place */

    /* Sets the outputs' shapes (and those of statistics) from the inputs'; names the node and what would fit. */
    d9_status (*shape)(d9_context *context, d9_graph *graph, const d9_node *node);
    /* The type of output `slot`. */
    d9_type (*type)(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision);
    /* Appends the nodes that hand dy, the gradient of output 0 (D9_NONE for a loss), to the inputs. NULL: none is
     * known. */
    d9_status (*gradient)(d9_gradients *gradients, const d9_node *forward, d9_value_id dy);
    /* What the node becomes in the evaluation graph; false: it leaves, and what reads output 0 reads input 0 there.
     * NULL: it stays. */
    bool (*evaluation)(d9_node *node);
    /* Multiplications and additions, for rates. NULL: bound by the bytes it touches. */
    double (*operations)(const d9_graph *graph, const d9_node *node);
    /* The elements of an input that are read. NULL: all. */
    double (*read)(const d9_graph *graph, const d9_node *node, int input);
    /* The node of an evaluation graph as nodes of an ONNX model (graph/onnx.h). NULL: it has no form there. */
    d9_status (*onnx)(d9_context *context, struct d9_onnx_writer *writer, const d9_node *node);
} d9_op_info;

const d9_op_info *d9_op_info_of(d9_op op);
/* Multiplications and additions of the nodes [begin, end), each run once. */
double d9_graph_operations(const d9_graph *graph, d9_node_id begin, d9_node_id end);
/* Whether the node has as many inputs and outputs as its record says. Else D9_USAGE. */
D9_MUST_USE d9_status d9_op_check(d9_context *context, const d9_node *node);

/* ---- shape and type rules that several operations share ---- */

/* A record's rules for nodes that are made with their outputs' shapes and types: gradients, updates, the batch. A
 * missing shape is an error. */
#define D9_AS_MADE .shape = d9_shape_given, .type = d9_type_given
d9_status d9_shape_given(d9_context *context, d9_graph *graph, const d9_node *node);
d9_status d9_shape_same(d9_context *context, d9_graph *graph, const d9_node *node); /* output 0 as input 0 */
static inline const d9_shape *d9_input_shape(const d9_graph *graph, const d9_node *node, int slot) {
    return &graph->values[node->inputs[slot]].shape;
}
static inline void d9_set_shape(d9_graph *graph, d9_value_id id, d9_shape shape) {
    if (id != D9_NONE) graph->values[id].shape = shape;
}

/* One product of the output's side, (N, OH, OW, O) or (N, O), with a weight of O rows: of a weighted node, and of the
 * two passes back (dy, weight -> dx; dy, x -> dweight). */
double d9_operations_forward(const d9_graph *graph, const d9_node *node);
double d9_operations_backward_data(const d9_graph *graph, const d9_node *node);
double d9_operations_backward_weight(const d9_graph *graph, const d9_node *node);

d9_type d9_type_compute(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision);
d9_type d9_type_master(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision);
d9_type d9_type_of_input(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision);
d9_type d9_type_given(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision);

#endif
