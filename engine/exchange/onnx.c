/* Writes the evaluation graph as ONNX; see model.h. Activations are N,C,H,W in ONNX, or T,N,C of texts; weights are as
 * in model.safetensors. */
#include "exchange/model.h"
#include "core/system.h"
#include "exchange/description.h"
#include "exchange/exchange.h"
#include "graph/onnx.h"
#include "graph/op.h"
#include "record/message.h"

/* Field numbers of onnx.proto, and values of enums. */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_METADATA = 14 };
enum { OPSET_VERSION = 2, METADATA_KEY = 1, METADATA_VALUE = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_FLOAT = 2, ATTRIBUTE_INT = 3, ATTRIBUTE_INTS = 8 };
enum { ATTRIBUTE_STRINGS = 9, ATTRIBUTE_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_INTS = 7, TYPE_STRINGS = 8 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9, ELEMENT_FLOAT = 1, ELEMENT_INT64 = 7 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_NAME = 2 };
enum { IR_VERSION = 8, OPSET = 17 };

typedef struct writer {
    d9_onnx_writer base; /* given to an operation's `onnx` function */
    d9_context *context;
    const char *path; /* path of the model, for messages */
    const d9_description *about;
    const d9_safetensors *file;
    d9_message message;
    size_t node; /* start of the node being written */
} writer;

/* ---- tensors ---- */

static d9_status put_tensor(writer *self, const d9_value *value) {
    d9_status status;
    const d9_shape shape = d9_exchange_shape(value);
    const int64_t count = d9_shape_count(&shape);
    double *wide = NULL;
    float *narrow = NULL;
    D9_TRY(d9_exchange_load(self->context, self->path, self->file, value, &wide));
    D9_TRY(D9_ALLOCATE(self->context, count, value->name, &narrow));
    for (int64_t i = 0; i < count; i++) narrow[i] = (float)wide[i];
    const size_t begin = d9_message_begin(&self->message, GRAPH_INITIALIZER);
    d9_message_integers(&self->message, TENSOR_DIMS, shape.d, (size_t)shape.rank);
    d9_message_integer(&self->message, TENSOR_TYPE, ELEMENT_FLOAT);
    d9_message_text(&self->message, TENSOR_NAME, value->name);
    d9_message_bytes(&self->message, TENSOR_RAW, narrow, (size_t)count * sizeof *narrow);
    d9_message_end(&self->message, begin);
done:
    d9_release(self->context, wide);
    d9_release(self->context, narrow);
    return status;
}

/* ---- functions of d9_onnx_writer (graph/onnx.h) ---- */

static writer *writer_of(d9_onnx_writer *base) { return (writer *)(void *)base; } /* `base` is the first member */

static void begin_node(d9_onnx_writer *base, const char *op, const char *name, const char *const *inputs,
                       const char *output) {
    d9_message *message = &writer_of(base)->message;
    writer_of(base)->node = d9_message_begin(message, GRAPH_NODE);
    for (; *inputs; inputs++) d9_message_text(message, NODE_INPUT, *inputs);
    d9_message_text(message, NODE_OUTPUT, output);
    d9_message_text(message, NODE_NAME, name);
    d9_message_text(message, NODE_OP, op);
}

static void put_output(d9_onnx_writer *base, const char *output) {
    d9_message_text(&writer_of(base)->message, NODE_OUTPUT, output);
}

static void end_node(d9_onnx_writer *base) { d9_message_end(&writer_of(base)->message, writer_of(base)->node); }

static size_t begin_attribute(d9_message *message, const char *name) {
    const size_t begin = d9_message_begin(message, NODE_ATTRIBUTE);
    d9_message_text(message, ATTRIBUTE_NAME, name);
    return begin;
}

static void end_attribute(d9_message *message, size_t begin, int64_t type) {
    d9_message_integer(message, ATTRIBUTE_TYPE, type);
    d9_message_end(message, begin);
}

static void put_integers(d9_onnx_writer *base, const char *name, const int64_t *values, size_t count) {
    const size_t begin = begin_attribute(&writer_of(base)->message, name);
    d9_message_integers(&writer_of(base)->message, ATTRIBUTE_INTS, values, count);
    end_attribute(&writer_of(base)->message, begin, TYPE_INTS);
}

static void put_integer(d9_onnx_writer *base, const char *name, int64_t value) {
    const size_t begin = begin_attribute(&writer_of(base)->message, name);
    d9_message_integer(&writer_of(base)->message, ATTRIBUTE_INT, value);
    end_attribute(&writer_of(base)->message, begin, TYPE_INT);
}

static void put_real(d9_onnx_writer *base, const char *name, double value) {
    const size_t begin = begin_attribute(&writer_of(base)->message, name);
    d9_message_float(&writer_of(base)->message, ATTRIBUTE_FLOAT, (float)value);
    end_attribute(&writer_of(base)->message, begin, TYPE_FLOAT);
}

static void put_word(d9_onnx_writer *base, const char *name, const char *value) {
    const size_t begin = begin_attribute(&writer_of(base)->message, name);
    d9_message_text(&writer_of(base)->message, ATTRIBUTE_STRINGS, value);
    end_attribute(&writer_of(base)->message, begin, TYPE_STRINGS);
}

/* Writes an initializer: one number per channel, (count, 1, 1), or for a count of 0 a scalar of rank 0. */
static void put_constant(d9_onnx_writer *base, const char *name, const double *values, int64_t count) {
    d9_message *message = &writer_of(base)->message;
    float narrow[4];
    const int64_t dims[3] = {count, 1, 1};
    const size_t begin = d9_message_begin(message, GRAPH_INITIALIZER), elements = count ? (size_t)count : 1;
    for (size_t i = 0; i < elements; i++) narrow[i] = (float)values[i];
    if (count) d9_message_integers(message, TENSOR_DIMS, dims, 3);
    d9_message_integer(message, TENSOR_TYPE, ELEMENT_FLOAT);
    d9_message_text(message, TENSOR_NAME, name);
    d9_message_bytes(message, TENSOR_RAW, narrow, elements * sizeof *narrow);
    d9_message_end(message, begin);
}

static void put_integer_constant(d9_onnx_writer *base, const char *name, const int64_t *values, size_t count) {
    d9_message *message = &writer_of(base)->message;
    const int64_t dims[1] = {(int64_t)count};
    const size_t begin = d9_message_begin(message, GRAPH_INITIALIZER);
    d9_message_integers(message, TENSOR_DIMS, dims, 1);
    d9_message_integer(message, TENSOR_TYPE, ELEMENT_INT64);
    d9_message_text(message, TENSOR_NAME, name);
    d9_message_bytes(message, TENSOR_RAW, values, count * sizeof *values);
    d9_message_end(message, begin);
}

static d9_status put_node(writer *self, const d9_node *node) {
    const d9_op_info *info = d9_op_info_of(node->op);
    if (info->onnx) return info->onnx(self->context, &self->base, node);
    return d9_fail(self->context, D9_USAGE, "%s: %s cannot be exported to ONNX", node->role, d9_op_name(node->op));
}

/* ---- the model ---- */

enum { BATCH = 0, TIME = -1 }; /* dimensions whose size the user of the model chooses */

/* Writes an input or output of the graph. */
static void put_endpoint(writer *self, int field, const char *name, int element, const int64_t *dims, int rank) {
    d9_message *m = &self->message;
    const size_t value = d9_message_begin(m, field);
    d9_message_text(m, VALUE_NAME, name);
    const size_t type = d9_message_begin(m, VALUE_TYPE), tensor = d9_message_begin(m, TYPE_TENSOR);
    d9_message_integer(m, TENSOR_ELEMENT, element);
    const size_t shape = d9_message_begin(m, TENSOR_SHAPE);
    for (int i = 0; i < rank; i++) {
        const size_t dim = d9_message_begin(m, SHAPE_DIM);
        if (dims[i] > 0)
            d9_message_integer(m, DIM_VALUE, dims[i]);
        else
            d9_message_text(m, DIM_NAME, dims[i] == TIME ? "T" : "N");
        d9_message_end(m, dim);
    }
    d9_message_end(m, shape);
    d9_message_end(m, tensor);
    d9_message_end(m, type);
    d9_message_end(m, value);
}

/* Writes the inputs and outputs of a stream: tokens and logits, and each recurrent layer's state before the tokens (an
 * input) and after them (an output). The graph has one copy node per state: it copies the state after the tokens to the
 * state before the next ones. */
static void put_stream_endpoints(writer *self) {
    const d9_graph *graph = self->base.graph;
    put_endpoint(self, GRAPH_INPUT, "tokens", ELEMENT_INT64, (int64_t[]){TIME, BATCH}, 2);
    put_endpoint(self, GRAPH_OUTPUT, "logits", ELEMENT_FLOAT, (int64_t[]){TIME, BATCH, self->about->classes}, 3);
    for (int n = 0; n < graph->node_count; n++) {
        const d9_node *node = &graph->nodes[n];
        if (node->op != D9_OP_COPY) continue;
        const int64_t state[] = {1, BATCH, d9_shape_channels(d9_input_shape(graph, node, 0))};
        put_endpoint(self, GRAPH_INPUT, d9_onnx_output(&self->base, node), ELEMENT_FLOAT, state, 3);
        put_endpoint(self, GRAPH_OUTPUT, d9_onnx_input(&self->base, node, 0), ELEMENT_FLOAT, state, 3);
    }
}

static void put_sample_endpoints(writer *self) {
    const d9_description *about = self->about;
    if (self->base.graph->vocabulary)
        put_endpoint(self, GRAPH_INPUT, "texts", ELEMENT_INT64, (int64_t[]){BATCH, about->width}, 2);
    else
        put_endpoint(self, GRAPH_INPUT, "images", ELEMENT_FLOAT,
                     (int64_t[]){BATCH, about->channels, about->height, about->width}, 4);
    put_endpoint(self, GRAPH_OUTPUT, "logits", ELEMENT_FLOAT, (int64_t[]){BATCH, about->classes}, 2);
}

static d9_status put_graph(writer *self) {
    d9_status status = D9_OK;
    const d9_graph *graph = self->base.graph;
    const size_t begin = d9_message_begin(&self->message, MODEL_GRAPH);
    for (int n = 0; n < graph->node_count; n++) D9_TRY(put_node(self, &graph->nodes[n]));
    d9_message_text(&self->message, GRAPH_NAME, "dawn9");
    for (int v = 0; v < graph->value_count; v++)
        if (d9_exchange_is_state(&graph->values[v])) D9_TRY(put_tensor(self, &graph->values[v]));
    if (graph->stream)
        put_stream_endpoints(self);
    else
        put_sample_endpoints(self);
    d9_message_end(&self->message, begin);
done:
    return status;
}

static void put_metadata(writer *self) {
    static const char *const keys[] = {"dawn9.config", "dawn9.classes", "dawn9.words", "dawn9.version"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = d9_safetensors_metadata(self->file, keys[i]);
        if (!value) continue;
        const size_t begin = d9_message_begin(&self->message, MODEL_METADATA);
        d9_message_text(&self->message, METADATA_KEY, keys[i]);
        d9_message_text(&self->message, METADATA_VALUE, value);
        d9_message_end(&self->message, begin);
    }
}

static d9_status put_model(writer *self) {
    d9_status status;
    d9_message_integer(&self->message, MODEL_IR, IR_VERSION);
    d9_message_text(&self->message, MODEL_PRODUCER, "dawn9");
    d9_message_text(&self->message, MODEL_VERSION, d9_build_version());
    D9_TRY(put_graph(self));
    const size_t opset = d9_message_begin(&self->message, MODEL_OPSET);
    d9_message_integer(&self->message, OPSET_VERSION, OPSET);
    d9_message_end(&self->message, opset);
    put_metadata(self);
    D9_TRY(d9_message_status(&self->message));
    if (self->message.size > INT32_MAX)
        D9_TRY(d9_fail(self->context, D9_USAGE, "%s: needs %zu bytes as ONNX, which has a limit of 2 GiB", self->path,
                       self->message.size));
done:
    return status;
}

d9_status d9_onnx_write(d9_context *context, const char *model, const char *path, const char **input) {
    d9_status status;
    d9_description *about = NULL;
    d9_safetensors *file = NULL;
    d9_config *config = NULL;
    d9_program program = {0};
    writer self = {.context = context, .path = model};
    d9_message_init(context, &self.message);
    D9_TRY(d9_description_read(context, model, &about));
    D9_TRY(d9_safetensors_read(context, model, &file));
    D9_TRY(d9_description_config(context, about, model, NULL, &config));
    self.about = about;
    self.file = file;
    /* f32: the graph has no casts */
    D9_TRY(d9_description_program(context, about, config, config->train.batch_size, &program));
    self.base = (d9_onnx_writer){.graph = &program.eval,
                                 .mean = about->mean,
                                 .std = about->std,
                                 .channels = about->channels,
                                 .begin = begin_node,
                                 .output = put_output,
                                 .integers = put_integers,
                                 .integer = put_integer,
                                 .real = put_real,
                                 .word = put_word,
                                 .end = end_node,
                                 .constant = put_constant,
                                 .integer_constant = put_integer_constant};
    D9_TRY(put_model(&self));
    D9_TRY(d9_file_write(context, path, self.message.bytes, self.message.size));
    *input = self.base.graph->stream       ? "tokens (T,N) and the states before them"
             : self.base.graph->vocabulary ? "texts (N,T) of tokens"
             : config->data.grey           ? "images (N,C,H,W) of 0 to 255 in grey, with equal channels,"
                                           : "images (N,C,H,W) of 0 to 255";
done:
    d9_message_free(&self.message);
    d9_program_free(context, &program);
    d9_config_free(context, config);
    d9_safetensors_free(context, file);
    d9_description_free(context, about);
    return status;
}
