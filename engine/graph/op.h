/* The description of an operation, d9_op_info, in a file under graph/ops/: all properties of the operation that do not
 * depend on a backend. An operation of ops.def without a d9_op_info does not link.
 *
 * A backend implements one or several consecutive operations by a function, called a rule (backends/host/host.h). */
#pragma once

#include "graph/passes.h"
#include "graph/graph.h"

/* Helpers for the gradient functions of operations (d9_op_info in graph/ops/), which append backward nodes.
 * d9_gradient_append (passes.h) calls those functions from the last forward node to the first. */
typedef struct d9_gradients { /* state of d9_gradient_append */
    d9_context *context;
    d9_graph *graph;
    d9_value_id *of; /* for each forward activation v: the value that holds d(summed loss)/dv, summed over the consumers
                        of v that were visited so far; D9_NONE: none yet. Not for parameters: see d9_gradient_of */
    bool *needed;    /* for each forward value: its gradient must be computed */
} d9_gradients;

/* Adds `part` to the gradient of `value` if that gradient is needed. If an `add` node is needed for
 * that, the node gets the role of `forward`. */
D9_MUST_USE d9_status d9_gradient_add(d9_gradients *gradients, const d9_node *forward, d9_value_id value,
                                      d9_value_id part);
/* Appends `node` with the forward node's role and attributes. Its output 0, created here, is added to the gradient of
 * the forward node's input `slot`. Appends nothing if that gradient is not needed. */
D9_MUST_USE d9_status d9_gradient_of_input(d9_gradients *gradients, const d9_node *forward, int slot, d9_node node);
/* Adds a value for the gradient of a parameter, or sets *id to D9_NONE if the parameter is not trained. */
D9_MUST_USE d9_status d9_gradient_of_parameter(d9_gradients *gradients, d9_value_id parameter, d9_value_id *id);
/* Appends a node with the forward node's role and attributes. */
D9_MUST_USE d9_status d9_gradient_append_node(d9_gradients *gradients, const d9_node *forward, d9_node node);
/* For a node of x and a weight: appends dweight = weight_op (dy, x), then dx = data_op (dy, weight), each if needed. */
D9_MUST_USE d9_status d9_gradient_weighted(d9_gradients *gradients, const d9_node *forward, d9_value_id dy,
                                           d9_op weight_op, d9_op data_op);
/* The gradient function of operations whose dx is the same operation applied to dy, such as dropout. */
D9_MUST_USE d9_status d9_gradient_by_same_op(d9_gradients *gradients, const d9_node *forward, d9_value_id dy);

struct d9_onnx_writer;

typedef struct d9_op_info {
    const char *doc;     /* inputs -> outputs, some with their shapes; optional ones in [brackets] */
    int inputs, outputs; /* maximum numbers */
    int min_inputs;      /* minimum number of inputs; 0: `inputs` */
    bool update;         /* updates a group's parameters from gradients; only updates, averages and copies follow it */
    bool per_parameter;  /* the update takes one parameter, with its shape: one node for each parameter of the group */
    bool batch;          /* makes or mixes the batch: draws, images, tokens, labels */
    bool weighted;       /* input 1 is a weight, which is multiplied in the compute type */
    bool conv_or_linear; /* convolution or linear layer, or a gradient of one */
    bool exact;          /* all backends compute identical bits */
    unsigned in_place;   /* bit i: input i is updated in place; may be 0 if that input is listed as an output, too */
    /* Output 0 may have input 0's memory if their types are equal and no later node reads input 0. */
    bool may_overwrite_input;

    /* Infers the shapes of outputs and statistics from the inputs' shapes; errors name the node and what fits. */
    d9_status (*shape)(d9_context *context, d9_graph *graph, const d9_node *node);
    /* Type of output `slot`. */
    d9_type (*type)(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision);
    /* Appends the nodes that compute the inputs' gradients from dy, the gradient of output 0 (D9_NONE for a loss).
     * NULL: the operation has no gradient. */
    d9_status (*gradient)(d9_gradients *gradients, const d9_node *forward, d9_value_id dy);
    /* Adapts a node to the evaluation graph; false: it is removed, and input 0 replaces output 0. NULL: unchanged. */
    bool (*evaluation)(d9_node *node);
    /* Number of multiplications and additions, for FLOP rates. NULL: 0, because memory traffic limits the
     * operation's speed. */
    double (*operations)(const d9_graph *graph, const d9_node *node);
    /* Number of elements of an input that are read. NULL: all. */
    double (*read)(const d9_graph *graph, const d9_node *node, int input);
    /* Writes a node of an evaluation graph as ONNX nodes (graph/onnx.h). NULL: cannot be exported. */
    d9_status (*onnx)(d9_context *context, struct d9_onnx_writer *writer, const d9_node *node);
} d9_op_info;

const d9_op_info *d9_op_info_of(d9_op op);
/* Number of multiplications and additions of nodes [begin, end), each run once. */
double d9_graph_operations(const d9_graph *graph, d9_node_id begin, d9_node_id end);
/* Returns D9_USAGE unless the numbers of inputs and outputs match the d9_op_info. */
D9_MUST_USE d9_status d9_op_check(d9_context *context, const d9_node *node);

/* ---- shape and type functions that several operations share ---- */

/* For operations whose nodes are created with output shapes and types: batch, gradients, metrics, updates, averages. */
#define D9_PRESET_OUTPUTS .shape = d9_shape_preset, .type = d9_type_preset
d9_status d9_shape_preset(d9_context *context, d9_graph *graph, const d9_node *node);
d9_status d9_shape_copy_input(d9_context *context, d9_graph *graph,
                              const d9_node *node); /* output 0 gets input 0's shape */
static inline const d9_shape *d9_input_shape(const d9_graph *graph, const d9_node *node, int slot) {
    return &graph->values[node->inputs[slot]].shape;
}
static inline void d9_set_shape(d9_graph *graph, d9_value_id id, d9_shape shape) {
    if (id != D9_NONE) graph->values[id].shape = shape;
}

/* Inputs of a linear layer that reads a value of this shape: its elements per image, or per token of (T, N, C). */
static inline int64_t d9_linear_inputs(const d9_shape *x) {
    return x->rank == 3 ? x->d[2] : d9_shape_count(x) / x->d[0];
}

/* Multiplications and additions of a convolution or linear layer (x, weight -> y), and of its two backward passes (dy,
 * weight -> dx; dy, x -> dweight). y is (..., O), the weight has O rows. */
double d9_operations_forward(const d9_graph *graph, const d9_node *node);
double d9_operations_backward_data(const d9_graph *graph, const d9_node *node);
double d9_operations_backward_weight(const d9_graph *graph, const d9_node *node);

d9_type d9_type_compute(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision);
/* The compute type for output 0, such as activations; the master type for the others, such as statistics. */
d9_type d9_type_compute_first(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision);
d9_type d9_type_master(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision);
d9_type d9_type_of_input(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision);
d9_type d9_type_preset(const d9_graph *graph, const d9_node *node, int slot, const d9_precision *precision);
