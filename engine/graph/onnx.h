/* Interface with which the onnx functions of operations (d9_op_info in graph/ops/) write a network as ONNX nodes;
 * exchange/onnx.c and exchange/network.c implement it. Attributes of a node are written between `begin` and `end`. */
#pragma once

#include "graph/graph.h"

typedef struct d9_onnx_writer {
    const d9_graph *graph;
    const double *mean, *std; /* per channel, for pixels 0 to 255 */
    int64_t channels;
    /* Starts a node. `inputs` ends with NULL; "" stands for an optional input that is left out. */
    void (*begin)(struct d9_onnx_writer *self, const char *op, const char *name, const char *const *inputs,
                  const char *output);
    void (*output)(struct d9_onnx_writer *self, const char *output); /* a further output of the node */
    void (*integers)(struct d9_onnx_writer *self, const char *name, const int64_t *values, size_t count);
    void (*integer)(struct d9_onnx_writer *self, const char *name, int64_t value);
    void (*real)(struct d9_onnx_writer *self, const char *name, double value);
    /* Writes an attribute that is a list of strings, with the one string `value`. */
    void (*word)(struct d9_onnx_writer *self, const char *name, const char *value);
    void (*end)(struct d9_onnx_writer *self);
    /* Adds a constant to the model: one number per channel; count 0: a scalar, *values. */
    void (*constant)(struct d9_onnx_writer *self, const char *name, const double *values, int64_t count);
    /* Adds a constant list of integers, such as axes, which are inputs instead of attributes since opset 13. */
    void (*integer_constant)(struct d9_onnx_writer *self, const char *name, const int64_t *values, size_t count);
} d9_onnx_writer;

/* Name of a value in the model. */
static inline const char *d9_onnx_value(const d9_onnx_writer *writer, d9_value_id id) {
    return id == writer->graph->logits ? "logits" : writer->graph->values[id].name;
}
static inline const char *d9_onnx_input(const d9_onnx_writer *writer, const d9_node *node, int slot) {
    return d9_onnx_value(writer, node->inputs[slot]);
}
static inline const char *d9_onnx_output(const d9_onnx_writer *writer, const d9_node *node) {
    return d9_onnx_value(writer, node->outputs[0]);
}
/* Writes a node without attributes. */
static inline void d9_onnx_node(d9_onnx_writer *writer, const char *op, const char *name, const char *const *inputs,
                                const char *output) {
    writer->begin(writer, op, name, inputs, output);
    writer->end(writer);
}

/* Writes a node that is, in ONNX, the operation `op` of its two inputs. */
static inline d9_status d9_onnx_of_two(d9_onnx_writer *writer, const char *op, const d9_node *node) {
    d9_onnx_node(writer, op, node->role,
                 (const char *[]){d9_onnx_input(writer, node, 0), d9_onnx_input(writer, node, 1), NULL},
                 d9_onnx_output(writer, node));
    return D9_OK;
}
/* For d9_op_info.onnx: writes nothing. */
static inline d9_status d9_onnx_nothing(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    (void)context, (void)writer, (void)node;
    return D9_OK;
}

/* True for the linear layer and the bias before a recurrent layer: ONNX's recurrent nodes include both. */
static inline bool d9_onnx_is_part_of_recur(const d9_graph *graph, const d9_node *node) {
    d9_node_id next;
    if (d9_graph_consumers(graph, node->outputs[0], &next) != 1) return false;
    const d9_op op = graph->nodes[next].op;
    return op == D9_OP_RECUR || (op == D9_OP_BIAS && d9_onnx_is_part_of_recur(graph, &graph->nodes[next]));
}
