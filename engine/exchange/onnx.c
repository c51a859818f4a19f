/* The evaluation graph as ONNX: see onnx.h. Activations are N,C,H,W there, weights as in model.safetensors. */
#include "exchange/onnx.h"
#include "core/system.h"
#include "record/message.h"
#include "record/record.h"
#include "exchange/description.h"
#include "exchange/exchange.h"

#include <stdio.h>
#include <string.h>

/* Field numbers of onnx.proto. */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_METADATA = 14 };
enum { OPSET_VERSION = 2, METADATA_KEY = 1, METADATA_VALUE = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_FLOAT = 2, ATTRIBUTE_INT = 3, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9, ELEMENT_FLOAT = 1 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_NAME = 2 };
enum { IR_VERSION = 8, OPSET = 17 };

typedef struct writer {
    d9_context *context;
    const char *path; /* of the model, for messages */
    const d9_description *about;
    const d9_safetensors *file;
    const d9_graph *graph;
    d9_message message;
} writer;

/* ---- pieces ---- */

/* An initializer of one value a channel, (C, 1, 1), or of rank 0: count 0. */
static void put_floats(writer *self, const char *name, const double *values, int64_t count) {
    float narrow[4];
    const int64_t dims[3] = {count, 1, 1};
    const size_t begin = d9_message_begin(&self->message, GRAPH_INITIALIZER), elements = count ? (size_t)count : 1;
    for (size_t i = 0; i < elements; i++) narrow[i] = (float)values[i];
    if (count) d9_message_integers(&self->message, TENSOR_DIMS, dims, 3);
    d9_message_integer(&self->message, TENSOR_TYPE, ELEMENT_FLOAT);
    d9_message_text(&self->message, TENSOR_NAME, name);
    d9_message_bytes(&self->message, TENSOR_RAW, narrow, elements * sizeof *narrow);
    d9_message_end(&self->message, begin);
}

/* A weight or statistic of the file, as it lies there. */
static d9_status put_tensor(writer *self, const d9_value *value) {
    const d9_shape shape = d9_exchange_shape(value);
    const d9_tensor *tensor = d9_safetensors_find(self->file, value->name);
    if (!tensor || tensor->type != D9_TENSOR_F32 || !d9_shape_equal(&tensor->shape, &shape))
        return d9_fail(self->context, D9_DATA, "%s: %s is missing, or not as its configuration has it", self->path,
                       value->name);
    const size_t begin = d9_message_begin(&self->message, GRAPH_INITIALIZER);
    d9_message_integers(&self->message, TENSOR_DIMS, shape.d, (size_t)shape.rank);
    d9_message_integer(&self->message, TENSOR_TYPE, ELEMENT_FLOAT);
    d9_message_text(&self->message, TENSOR_NAME, value->name);
    d9_message_bytes(&self->message, TENSOR_RAW, tensor->bytes, tensor->size);
    d9_message_end(&self->message, begin);
    return D9_OK;
}

/* A node is open between these; its attributes come in between. Inputs end with NULL. */
static size_t begin_node(writer *self, const char *op, const char *name, const char *const *inputs,
                         const char *output) {
    const size_t begin = d9_message_begin(&self->message, GRAPH_NODE);
    for (; *inputs; inputs++) d9_message_text(&self->message, NODE_INPUT, *inputs);
    d9_message_text(&self->message, NODE_OUTPUT, output);
    d9_message_text(&self->message, NODE_NAME, name);
    d9_message_text(&self->message, NODE_OP, op);
    return begin;
}

static void put_node(writer *self, const char *op, const char *name, const char *const *inputs, const char *output) {
    d9_message_end(&self->message, begin_node(self, op, name, inputs, output));
}

static void put_integers(writer *self, const char *name, const int64_t *values, size_t count) {
    const size_t begin = d9_message_begin(&self->message, NODE_ATTRIBUTE);
    d9_message_text(&self->message, ATTRIBUTE_NAME, name);
    d9_message_integers(&self->message, ATTRIBUTE_INTS, values, count);
    d9_message_integer(&self->message, ATTRIBUTE_TYPE, TYPE_INTS);
    d9_message_end(&self->message, begin);
}

static void put_integer(writer *self, const char *name, int64_t value) {
    const size_t begin = d9_message_begin(&self->message, NODE_ATTRIBUTE);
    d9_message_text(&self->message, ATTRIBUTE_NAME, name);
    d9_message_integer(&self->message, ATTRIBUTE_INT, value);
    d9_message_integer(&self->message, ATTRIBUTE_TYPE, TYPE_INT);
    d9_message_end(&self->message, begin);
}

static void put_float(writer *self, const char *name, double value) {
    const size_t begin = d9_message_begin(&self->message, NODE_ATTRIBUTE);
    d9_message_text(&self->message, ATTRIBUTE_NAME, name);
    d9_message_float(&self->message, ATTRIBUTE_FLOAT, (float)value);
    d9_message_integer(&self->message, ATTRIBUTE_TYPE, TYPE_FLOAT);
    d9_message_end(&self->message, begin);
}

/* ---- nodes, one function a kind ---- */

static const char *name_of(const writer *self, d9_value_id id) {
    if (id == self->graph->logits) return "logits";
    return self->graph->values[id].name;
}

static const char *input(const writer *self, const d9_node *node, int slot) {
    return name_of(self, node->inputs[slot]);
}
static const char *output(const writer *self, const d9_node *node) { return name_of(self, node->outputs[0]); }

/* (pixel - mean) / std is what the batch nodes do. */
static void put_image(writer *self, const d9_node *node) {
    put_floats(self, "mean", self->about->mean, self->about->channels);
    put_floats(self, "std", self->about->std, self->about->channels);
    put_node(self, "Sub", "image.centre", (const char *[]){"images", "mean", NULL}, "image.centred");
    put_node(self, "Div", "image.scale", (const char *[]){"image.centred", "std", NULL}, output(self, node));
}

static void put_conv(writer *self, const d9_node *node) {
    const d9_conv_attributes *conv = &node->as.conv;
    const size_t begin =
        begin_node(self, "Conv", node->role, (const char *[]){input(self, node, 0), input(self, node, 1), NULL},
                   output(self, node));
    put_integers(self, "kernel_shape", (int64_t[]){conv->kernel, conv->kernel}, 2);
    put_integers(self, "strides", (int64_t[]){conv->stride, conv->stride}, 2);
    put_integers(self, "pads", (int64_t[]){conv->pad, conv->pad, conv->pad, conv->pad}, 4);
    d9_message_end(&self->message, begin);
}

static void put_norm(writer *self, const d9_node *node) {
    const char *inputs[6] = {NULL};
    for (int i = 0; i < 5; i++) inputs[i] = input(self, node, i);
    const size_t begin = begin_node(self, "BatchNormalization", node->role, inputs, output(self, node));
    put_float(self, "epsilon", node->as.norm.epsilon);
    d9_message_end(&self->message, begin);
}

static void put_pool(writer *self, const d9_node *node) {
    const d9_pool_attributes *pool = &node->as.pool;
    const size_t begin =
        begin_node(self, "MaxPool", node->role, (const char *[]){input(self, node, 0), NULL}, output(self, node));
    put_integers(self, "kernel_shape", (int64_t[]){pool->kernel, pool->kernel}, 2);
    put_integers(self, "strides", (int64_t[]){pool->stride, pool->stride}, 2);
    d9_message_end(&self->message, begin);
}

static d9_status put_act(writer *self, const d9_node *node) {
    const char *const x[] = {input(self, node, 0), NULL}, *y = output(self, node);
    char name[D9_NAME_SIZE + 8];
    size_t begin;
    switch (node->as.act.activation) {
    case D9_ACT_RELU:
        put_node(self, "Relu", node->role, x, y);
        return D9_OK;
    case D9_ACT_CELU:
        begin = begin_node(self, "Celu", node->role, x, y);
        put_float(self, "alpha", node->as.act.alpha);
        d9_message_end(&self->message, begin);
        return D9_OK;
    case D9_ACT_SILU:
        snprintf(name, sizeof name, "%s.gate", node->role);
        put_node(self, "Sigmoid", name, x, name);
        put_node(self, "Mul", node->role, (const char *[]){x[0], name, NULL}, y);
        return D9_OK;
    default:
        return d9_fail(self->context, D9_USAGE, "%s: %s has no form in ONNX here", node->role,
                       d9_activation_name(node->as.act.activation));
    }
}

/* The weights count features as (H, W, C): where there is more than one pixel, so does the flattened input. */
static void put_linear(writer *self, const d9_node *node) {
    const d9_shape *shape = &self->graph->values[node->inputs[0]].shape;
    char turned[D9_NAME_SIZE + 8], flat[D9_NAME_SIZE + 8];
    const char *x = input(self, node, 0);
    size_t begin;
    snprintf(turned, sizeof turned, "%s.turned", node->role);
    snprintf(flat, sizeof flat, "%s.flat", node->role);
    if (shape->rank == 4 && shape->d[1] * shape->d[2] > 1) {
        begin = begin_node(self, "Transpose", turned, (const char *[]){x, NULL}, turned);
        put_integers(self, "perm", (int64_t[]){0, 2, 3, 1}, 4);
        d9_message_end(&self->message, begin);
        x = turned;
    }
    begin = begin_node(self, "Flatten", flat, (const char *[]){x, NULL}, flat);
    put_integer(self, "axis", 1);
    d9_message_end(&self->message, begin);
    begin =
        begin_node(self, "Gemm", node->role, (const char *[]){flat, input(self, node, 1), NULL}, output(self, node));
    put_integer(self, "transB", 1);
    d9_message_end(&self->message, begin);
}

static void put_scale(writer *self, const d9_node *node) {
    char factor[D9_NAME_SIZE + 8];
    snprintf(factor, sizeof factor, "%s.factor", node->role);
    put_floats(self, factor, &node->as.scale.factor, 0);
    put_node(self, "Mul", node->role, (const char *[]){input(self, node, 0), factor, NULL}, output(self, node));
}

static d9_status put_any(writer *self, const d9_node *node) {
    switch (node->op) {
    case D9_OP_AUGMENT:
        put_image(self, node);
        return D9_OK;
    case D9_OP_CONV:
        put_conv(self, node);
        return D9_OK;
    case D9_OP_NORM_EVAL:
        put_norm(self, node);
        return D9_OK;
    case D9_OP_ACT:
        return put_act(self, node);
    case D9_OP_POOL:
        put_pool(self, node);
        return D9_OK;
    case D9_OP_ADD:
        put_node(self, "Add", node->role, (const char *[]){input(self, node, 0), input(self, node, 1), NULL},
                 output(self, node));
        return D9_OK;
    case D9_OP_LINEAR:
        put_linear(self, node);
        return D9_OK;
    case D9_OP_SCALE:
        put_scale(self, node);
        return D9_OK;
    default:
        return d9_fail(self->context, D9_USAGE, "%s: %s has no form in ONNX here", node->role, d9_op_name(node->op));
    }
}

/* ---- the model ---- */

/* dims: 0 is the batch, whose size the caller of the network chooses. */
static void put_end(writer *self, int field, const char *name, const int64_t *dims, int rank) {
    d9_message *m = &self->message;
    const size_t value = d9_message_begin(m, field);
    d9_message_text(m, VALUE_NAME, name);
    const size_t type = d9_message_begin(m, VALUE_TYPE), tensor = d9_message_begin(m, TYPE_TENSOR);
    d9_message_integer(m, TENSOR_ELEMENT, ELEMENT_FLOAT);
    const size_t shape = d9_message_begin(m, TENSOR_SHAPE);
    for (int i = 0; i < rank; i++) {
        const size_t dim = d9_message_begin(m, SHAPE_DIM);
        if (dims[i])
            d9_message_integer(m, DIM_VALUE, dims[i]);
        else
            d9_message_text(m, DIM_NAME, "N");
        d9_message_end(m, dim);
    }
    d9_message_end(m, shape);
    d9_message_end(m, tensor);
    d9_message_end(m, type);
    d9_message_end(m, value);
}

static d9_status put_graph(writer *self) {
    d9_status status = D9_OK;
    const d9_graph *graph = self->graph;
    const d9_description *about = self->about;
    const size_t begin = d9_message_begin(&self->message, MODEL_GRAPH);
    for (int n = 0; n < graph->node_count; n++) D9_TRY(put_any(self, &graph->nodes[n]));
    d9_message_text(&self->message, GRAPH_NAME, "dawn9");
    for (int v = 0; v < graph->value_count; v++)
        if (d9_exchange_has(&graph->values[v])) D9_TRY(put_tensor(self, &graph->values[v]));
    put_end(self, GRAPH_INPUT, "images", (int64_t[]){0, about->channels, about->height, about->width}, 4);
    put_end(self, GRAPH_OUTPUT, "logits", (int64_t[]){0, about->classes}, 2);
    d9_message_end(&self->message, begin);
done:
    return status;
}

static void put_metadata(writer *self) {
    static const char *const keys[] = {"dawn9.config", "dawn9.classes", "dawn9.version"};
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
done:
    return status;
}

/* The program of the model's own configuration, in f32: no node casts. */
static d9_status build(writer *self, const d9_config *config, d9_program *program) {
    const d9_description *about = self->about;
    const d9_extent extent = {.train_images = config->train.batch_size,
                              .eval_images = config->train.batch_size,
                              .height = about->height,
                              .width = about->width,
                              .channels = about->channels,
                              .classes = about->classes,
                              .batch = config->train.batch_size,
                              .epochs = config->train.epochs};
    return d9_program_build(self->context, config, &extent, d9_precision_find("f32"), &(d9_program_options){0},
                            program);
}

d9_status d9_onnx_write(d9_context *context, const char *model, const char *path) {
    d9_status status;
    d9_description *about = NULL;
    d9_safetensors *file = NULL;
    d9_config *config = NULL;
    d9_program program = {0};
    writer self = {.context = context, .path = model};
    d9_message_init(context, &self.message);
    D9_TRY(d9_description_read(context, model, &about));
    D9_TRY(d9_safetensors_read(context, model, &file));
    D9_TRY(d9_config_parse(context, model, about->config, NULL, &config));
    self.about = about;
    self.file = file;
    D9_TRY(build(&self, config, &program));
    self.graph = &program.eval;
    D9_TRY(put_model(&self));
    D9_TRY(d9_file_write(context, path, self.message.bytes, self.message.size));
done:
    d9_message_free(&self.message);
    d9_program_free(context, &program);
    d9_config_free(context, config);
    d9_safetensors_free(context, file);
    d9_description_free(context, about);
    return status;
}
