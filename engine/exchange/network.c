/* Writes the evaluation graph as JSON; see exchange.h. */
#include "exchange/exchange.h"
#include "exchange/description.h"
#include "graph/onnx.h"
#include "graph/op.h"
#include "record/effective.h"

#include <stdlib.h>

typedef struct writer {
    d9_onnx_writer base; /* given to an operation's `onnx` function */
    json_t *nodes, *constants, *node;
} writer;

static writer *writer_of(d9_onnx_writer *base) { return (writer *)(void *)base; } /* `base` is the first member */

static void begin_node(d9_onnx_writer *base, const char *op, const char *name, const char *const *inputs,
                       const char *output) {
    json_t *list = json_array();
    for (; *inputs; inputs++) json_array_append_new(list, json_string(*inputs));
    writer_of(base)->node =
        json_pack("{s:s, s:s, s:o, s:s, s:{}}", "op", op, "name", name, "inputs", list, "output", output, "attributes");
}

static void put_further_output(d9_onnx_writer *base, const char *output) {
    json_t *node = writer_of(base)->node;
    if (!json_object_get(node, "states")) json_object_set_new(node, "states", json_array());
    json_array_append_new(json_object_get(node, "states"), json_string(output));
}

static void put_attribute(d9_onnx_writer *base, const char *name, json_t *value) {
    json_object_set_new(json_object_get(writer_of(base)->node, "attributes"), name, value);
}

static json_t *integers_json(const int64_t *values, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(list, json_integer(values[i]));
    return list;
}

static void put_integers(d9_onnx_writer *base, const char *name, const int64_t *values, size_t count) {
    put_attribute(base, name, integers_json(values, count));
}

static void put_integer(d9_onnx_writer *base, const char *name, int64_t value) {
    put_attribute(base, name, json_integer(value));
}

static void put_real(d9_onnx_writer *base, const char *name, double value) {
    put_attribute(base, name, json_real(value));
}

static void put_word(d9_onnx_writer *base, const char *name, const char *value) {
    put_attribute(base, name, json_pack("[s]", value));
}

static void end_node(d9_onnx_writer *base) {
    json_array_append_new(writer_of(base)->nodes, writer_of(base)->node);
    writer_of(base)->node = NULL;
}

static void put_constant(d9_onnx_writer *base, const char *name, const double *values, int64_t count) {
    json_t *list = count ? json_array() : json_real(*values);
    for (int64_t i = 0; i < count; i++) json_array_append_new(list, json_real(values[i]));
    json_object_set_new(writer_of(base)->constants, name, list);
}

static void put_integer_constant(d9_onnx_writer *base, const char *name, const int64_t *values, size_t count) {
    json_object_set_new(writer_of(base)->constants, name, integers_json(values, count));
}

static json_t *describe_views(const d9_views *views) {
    json_t *list = json_array();
    for (int i = 0; i < views->count; i++) {
        const d9_view *view = &views->view[i];
        json_array_append_new(list, json_pack("{s:f, s:b, s:i, s:i}", "weight", view->weight, "mirror",
                                              (int)view->mirror, "dy", view->dy, "dx", view->dx));
    }
    return list;
}

static bool put_nodes(writer *self) {
    d9_context quiet; /* drops the message: only the ONNX export reports a node that cannot be written */
    d9_context_init(&quiet);
    for (int n = 0; n < self->base.graph->node_count; n++) {
        const d9_node *node = &self->base.graph->nodes[n];
        const d9_op_info *info = d9_op_info_of(node->op);
        if (!info->onnx || info->onnx(&quiet, &self->base, node) != D9_OK) return false;
    }
    return true;
}

static d9_status dump_network(d9_context *context, const writer *self, const d9_views *views, d9_arena *arena,
                              const char **text) {
    d9_status status;
    json_t *whole = json_pack("{s:O, s:O, s:o}", "nodes", self->nodes, "constants", self->constants, "views",
                              describe_views(views));
    char *dumped = whole ? json_dumps(whole, JSON_COMPACT) : NULL, *copy = NULL;
    if (!dumped) D9_TRY(d9_fail(context, D9_DEVICE, "out of memory for a network's description"));
    D9_TRY(d9_arena_copy(context, arena, dumped, &copy));
    *text = copy;
done:
    free(dumped);
    json_decref(whole);
    return status;
}

d9_status d9_network_describe(d9_context *context, const d9_config *config, const d9_extent *extent, d9_arena *arena,
                              const char **text) {
    d9_status status;
    const d9_program_options options = {.eval_only = true, .logits = true};
    d9_program program = {0};
    writer self = {.nodes = json_array(), .constants = json_object()};
    *text = NULL;
    /* f32: the graph has no casts */
    D9_TRY(d9_program_build(context, config, extent, d9_precision_find("f32"), &options, &program));
    self.base = (d9_onnx_writer){.graph = &program.eval,
                                 .mean = extent->mean,
                                 .std = extent->std,
                                 .channels = extent->channels,
                                 .begin = begin_node,
                                 .output = put_further_output,
                                 .integers = put_integers,
                                 .integer = put_integer,
                                 .real = put_real,
                                 .word = put_word,
                                 .end = end_node,
                                 .constant = put_constant,
                                 .integer_constant = put_integer_constant};
    if (put_nodes(&self)) D9_TRY(dump_network(context, &self, &program.views, arena, text));
done:
    json_decref(self.node);
    json_decref(self.nodes);
    json_decref(self.constants);
    d9_program_free(context, &program);
    return status;
}
