/* What the records under graph/ops/ write a network with, node by node as ONNX has them; exchange/onnx.c and network.c
 * supply the functions. A node is open
 * between `begin` and `end`; its attributes come in between. */
#ifndef D9_GRAPH_ONNX_H
#define D9_GRAPH_ONNX_H

#include "graph/graph.h"

typedef struct d9_onnx_writer {
    const d9_graph *graph;
    const double *mean, *std; /* per channel, of pixels in 0..1 */
    int64_t channels;
    /* `inputs` ends with NULL. */
    void (*begin)(struct d9_onnx_writer *self, const char *op, const char *name, const char *const *inputs,
                  const char *output);
    void (*integers)(struct d9_onnx_writer *self, const char *name, const int64_t *values, size_t count);
    void (*integer)(struct d9_onnx_writer *self, const char *name, int64_t value);
    void (*real)(struct d9_onnx_writer *self, const char *name, double value);
    void (*end)(struct d9_onnx_writer *self);
    /* A constant of the model; count 0: a scalar. */
    void (*constant)(struct d9_onnx_writer *self, const char *name, const double *values, int64_t count);
    /* A constant list of whole numbers: axes, which are no attribute since opset 13. */
    void (*whole)(struct d9_onnx_writer *self, const char *name, const int64_t *values, size_t count);
} d9_onnx_writer;

/* A value's name in the model. */
static inline const char *d9_onnx_value(const d9_onnx_writer *writer, d9_value_id id) {
    return id == writer->graph->logits ? "logits" : writer->graph->values[id].name;
}
static inline const char *d9_onnx_input(const d9_onnx_writer *writer, const d9_node *node, int slot) {
    return d9_onnx_value(writer, node->inputs[slot]);
}
static inline const char *d9_onnx_output(const d9_onnx_writer *writer, const d9_node *node) {
    return d9_onnx_value(writer, node->outputs[0]);
}
/* A node without attributes. */
static inline void d9_onnx_node(d9_onnx_writer *writer, const char *op, const char *name, const char *const *inputs,
                                const char *output) {
    writer->begin(writer, op, name, inputs, output);
    writer->end(writer);
}

#endif
