/* Operations that make the batch: random draws, augmented images, tokens and labels in epoch order; mixing of image
 * pairs, by weight or by area; ranking of images by loss. */
#include "graph/onnx.h"
#include "graph/op.h"

/* Elements read: `count` rows of inputs 0 and 1, and all of each other input. */
static double read_batch(const d9_graph *graph, const d9_node *node, int input) {
    const d9_shape *shape = d9_input_shape(graph, node, input);
    const double all = (double)d9_shape_count(shape);
    return input < 2 ? all * (double)node->as.batch.count / (double)shape->d[0] : all;
}

/* Elements read: all losses, and as many of the order. */
static double read_ranked(const d9_graph *graph, const d9_node *node, int input) {
    (void)input;
    return (double)d9_input_shape(graph, node, 0)->d[0];
}

static d9_status image_to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    (void)context;
    writer->constant(writer, "mean", writer->mean, writer->channels);
    writer->constant(writer, "std", writer->std, writer->channels);
    d9_onnx_node(writer, "Sub", "image.centre", (const char *[]){"images", "mean", NULL}, "image.centred");
    d9_onnx_node(writer, "Div", "image.scale", (const char *[]){"image.centred", "std", NULL},
                 d9_onnx_output(writer, node));
    return D9_OK;
}

/* Transposes the texts, which are (N, T) in ONNX and in files, to (T, N). */
static d9_status tokens_to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    (void)context;
    writer->begin(writer, "Transpose", node->role, (const char *[]){d9_onnx_input(writer, node, 0), NULL},
                  d9_onnx_output(writer, node));
    writer->integers(writer, "perm", (int64_t[]){1, 0}, 2);
    writer->end(writer);
    return D9_OK;
}

const d9_op_info d9_op_DRAW = {
    .doc = "order -> draws i32 (N, SLOTS): kernels/formulas/augment.h",
    .inputs = 1,
    .outputs = 1,
    .batch = true,
    .exact = true,
    D9_PRESET_OUTPUTS,
    .read = read_batch,
};

const d9_op_info d9_op_AUGMENT = {
    .doc = "images, order, draws, table -> image (N, H, W, C)",
    .inputs = 4,
    .outputs = 1,
    .batch = true,
    .exact = true,
    D9_PRESET_OUTPUTS,
    .read = read_batch,
    .onnx = image_to_onnx,
};

const d9_op_info d9_op_GATHER = {
    .doc = "labels, order -> the batch's labels i32 (N)",
    .inputs = 2,
    .outputs = 1,
    .batch = true,
    .exact = true,
    D9_PRESET_OUTPUTS,
    .read = read_batch,
};

const d9_op_info d9_op_MIX = {
    .doc = "image (N, ...) -> image: share of image n, the rest of image N - 1 - n",
    .inputs = 1,
    .outputs = 1,
    .batch = true,
    D9_PRESET_OUTPUTS,
};

const d9_op_info d9_op_PASTE = {
    .doc = "image (N, H, W, C) -> image: in the box image N - 1 - n, elsewhere image n",
    .inputs = 1,
    .outputs = 1,
    .batch = true,
    .exact = true,
    D9_PRESET_OUTPUTS,
};

const d9_op_info d9_op_TOKENS = {
    .doc = "texts i32 (count, 1, T, 1), order -> tokens i32 (T, N)",
    .inputs = 2,
    .outputs = 1,
    .batch = true,
    .exact = true,
    D9_PRESET_OUTPUTS,
    .read = read_batch,
    .onnx = tokens_to_onnx,
};

/* Elements read: T + 1 tokens of each column. */
static double read_step(const d9_graph *graph, const d9_node *node, int input) {
    (void)input;
    return (double)d9_shape_count(&graph->values[node->outputs[0]].shape) + (double)node->as.batch.count;
}

const d9_op_info d9_op_STREAM = {
    .doc = "tokens i32 (count) -> tokens i32 (T, N), [labels i32 (T * N)]: the stream is cut into N columns of equal "
           "length; a step reads the next T tokens of each, and labels are the tokens that follow; past the end "
           "tokens are 0 and labels -1",
    .inputs = 1,
    .outputs = 2,
    .batch = true,
    .exact = true,
    D9_PRESET_OUTPUTS,
    .read = read_step,
    .onnx = d9_onnx_nothing, /* the tokens are an input of the model */
};

const d9_op_info d9_op_RANK = {
    .doc = "loss (N), order -> the step's samples i32 (N), by descending loss",
    .inputs = 2,
    .outputs = 1,
    .exact = true,
    D9_PRESET_OUTPUTS,
    .read = read_ranked,
};
