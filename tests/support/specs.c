/* The table of op cases: every operation of ops.def, also at odd sizes. */
#include "kernels/formulas/half.h"
#include "tests/support/graphs.h"
#include "tests/support/test.h"

/* Rows with the same sizes: PAIR of an operation and its _BACKWARD; THREE with _BACKWARD_DATA and _BACKWARD_WEIGHT. */
#define PAIR(operation, ...)                                                                                           \
    {.op = operation, __VA_ARGS__}, { .op = operation##_BACKWARD, __VA_ARGS__ }
#define THREE(operation, ...)                                                                                          \
    {.op = operation, __VA_ARGS__}, {.op = operation##_BACKWARD_DATA, __VA_ARGS__}, {                                  \
        .op = operation##_BACKWARD_WEIGHT, __VA_ARGS__                                                                 \
    }

/* A recurrent layer of `c` units. kernel 1: the states before the first token are inputs, those after the last token
 * outputs; pad 1: the forward node has no output `saved`, the backward node none for parameters. */
#define CELL(cell)                                                                                                     \
    PAIR(D9_OP_RECUR, .t = 1, .n = 1, .c = 1, .variant = cell),                                                        \
        PAIR(D9_OP_RECUR, .t = 1, .n = 7, .c = 7, .variant = cell, .kernel = 1),                                       \
        PAIR(D9_OP_RECUR, .t = 2, .n = 7, .c = 1, .variant = cell),                                                    \
        PAIR(D9_OP_RECUR, .t = 2, .n = 1, .c = 16, .variant = cell, .kernel = 1),                                      \
        PAIR(D9_OP_RECUR, .t = 5, .n = 3, .c = 7, .variant = cell),                                                    \
        PAIR(D9_OP_RECUR, .t = 5, .n = 7, .c = 16, .variant = cell, .kernel = 1),                                      \
        PAIR(D9_OP_RECUR, .t = 5, .n = 3, .c = 7, .variant = cell, .kernel = 1, .pad = 1),                             \
        PAIR(D9_OP_RECUR, .t = 3, .n = 9, .c = 100, .variant = cell),                                                  \
        PAIR(D9_OP_RECUR, .t = 2, .n = 5, .c = 130, .variant = cell, .kernel = 1)

static const op_spec specs[] = {
    THREE(D9_OP_CONV, .n = 1, .h = 5, .w = 5, .c = 3, .o = 7, .kernel = 3, .stride = 1, .pad = 1),
    THREE(D9_OP_CONV, .n = 7, .h = 9, .w = 6, .c = 27, .o = 65, .kernel = 1, .stride = 1, .pad = 0),
    THREE(D9_OP_CONV, .n = 2, .h = 7, .w = 8, .c = 65, .o = 27, .kernel = 3, .stride = 1, .pad = 1),
    THREE(D9_OP_CONV, .n = 3, .h = 7, .w = 5, .c = 5, .o = 4, .kernel = 3, .stride = 2, .pad = 0),
    {.op = D9_OP_CONV, .n = 4, .h = 8, .w = 8, .c = 32, .o = 64, .kernel = 3, .stride = 1, .pad = 1},
    {.op = D9_OP_NORM, .n = 7, .h = 3, .w = 5, .c = 3},
    {.op = D9_OP_NORM, .n = 65, .h = 2, .w = 2, .c = 27, .group_size = 13},
    {.op = D9_OP_NORM, .n = 8, .h = 3, .w = 3, .c = 65, .group_size = 2},
    {.op = D9_OP_NORM, .n = 16, .h = 4, .w = 4, .c = 64, .group_size = 16},
    {.op = D9_OP_NORM, .n = 6, .h = 2, .w = 3, .c = 5, .group_size = 2},
    {.op = D9_OP_NORM, .n = 12, .h = 2, .w = 3, .c = 5, .group_size = 3, .variant = 3},
    {.op = D9_OP_NORM, .n = 7, .h = 6, .w = 5, .c = 16, .parameter = 30},
    {.op = D9_OP_NORM, .n = 6, .h = 4, .w = 3, .c = 65, .group_size = 2, .parameter = 30},
    {.op = D9_OP_NORM_EVAL, .n = 7, .h = 3, .w = 5, .c = 27},
    {.op = D9_OP_NORM_EVAL, .n = 8, .h = 3, .w = 3, .c = 65, .group_size = 2},
    {.op = D9_OP_NORM_BACKWARD, .n = 7, .h = 3, .w = 5, .c = 3},
    {.op = D9_OP_NORM_BACKWARD, .n = 65, .h = 2, .w = 2, .c = 27, .group_size = 13},
    {.op = D9_OP_NORM_BACKWARD, .n = 8, .h = 3, .w = 3, .c = 65, .group_size = 2, .variant = 1}, /* without dscale */
    PAIR(D9_OP_ACT, .n = 7, .h = 3, .w = 5, .c = 65, .variant = D9_ACT_RELU),
    PAIR(D9_OP_ACT, .n = 7, .h = 3, .w = 5, .c = 65, .variant = D9_ACT_CELU, .parameter = 0.3),
    {.op = D9_OP_ACT, .n = 1, .h = 3, .w = 5, .c = 27, .variant = D9_ACT_RELU},
    {.op = D9_OP_ACT, .n = 1, .h = 3, .w = 5, .c = 27, .variant = D9_ACT_CELU, .parameter = 0.075},
    PAIR(D9_OP_ACT, .n = 1, .h = 3, .w = 5, .c = 27, .variant = D9_ACT_GELU),
    PAIR(D9_OP_ACT, .n = 1, .h = 3, .w = 5, .c = 27, .variant = D9_ACT_SILU),
    PAIR(D9_OP_POOL, .n = 7, .h = 8, .w = 6, .c = 27, .kernel = 2, .stride = 2),
    PAIR(D9_OP_POOL, .n = 3, .h = 9, .w = 7, .c = 65, .kernel = 2, .stride = 2), /* an edge outside all windows */
    PAIR(D9_OP_POOL, .n = 2, .h = 4, .w = 4, .c = 65, .kernel = 4, .stride = 4),
    PAIR(D9_OP_POOL, .n = 1, .h = 7, .w = 7, .c = 3, .kernel = 3, .stride = 2), /* overlapping windows */
    PAIR(D9_OP_POOL, .n = 3, .h = 9, .w = 6, .c = 27, .kernel = 3, .stride = 2, .pad = 1),
    PAIR(D9_OP_POOL, .n = 2, .h = 5, .w = 8, .c = 65, .kernel = 2, .stride = 2, .pad = 1),
    PAIR(D9_OP_MEAN_POOL, .n = 7, .h = 4, .w = 4, .c = 27, .kernel = 4, .stride = 4),
    PAIR(D9_OP_MEAN_POOL, .n = 3, .h = 9, .w = 7, .c = 65, .kernel = 2, .stride = 2),
    PAIR(D9_OP_MEAN_POOL, .n = 1, .h = 7, .w = 8, .c = 3, .kernel = 3, .stride = 2),
    {.op = D9_OP_BIAS, .n = 7, .h = 3, .w = 5, .c = 27},
    {.op = D9_OP_BIAS, .n = 1, .h = 2, .w = 2, .c = 64},
    {.op = D9_OP_BIAS_BACKWARD, .n = 65, .h = 3, .w = 5, .c = 27},
    {.op = D9_OP_BIAS_BACKWARD, .n = 3, .h = 9, .w = 7, .c = 64},
    {.op = D9_OP_DROPOUT, .n = 7, .h = 3, .w = 5, .c = 27, .parameter = 0.25},
    {.op = D9_OP_DROPOUT, .n = 65, .h = 2, .w = 4, .c = 64, .parameter = 0.5},
    {.op = D9_OP_DROPOUT, .n = 3, .h = 2, .w = 3, .c = 13, .parameter = 0.25},
    {.op = D9_OP_DROPOUT, .n = 5, .h = 3, .w = 7, .c = 9, .parameter = 0.5, .variant = 3},
    {.op = D9_OP_DROPOUT, .n = 3, .h = 16, .w = 16, .c = 16, .parameter = 0.5, .variant = 2},
    {.op = D9_OP_DROPOUT, .n = 33, .h = 2, .w = 3, .c = 13, .parameter = 0.5, .kernel = D9_DROP_SAMPLES},
    {.op = D9_OP_DROPOUT, .n = 9, .h = 8, .w = 8, .c = 64, .parameter = 0.25, .kernel = D9_DROP_SAMPLES},
    {.op = D9_OP_DROPOUT, .n = 9, .h = 3, .w = 7, .c = 9, .parameter = 0.5, .variant = 3, .kernel = D9_DROP_SAMPLES},
    {.op = D9_OP_DROPOUT, .n = 7, .h = 3, .w = 5, .c = 27, .parameter = 0.5, .kernel = D9_DROP_BATCHES},
    {.op = D9_OP_CONCAT, .n = 7, .h = 3, .w = 5, .c = 27, .o = 3},
    {.op = D9_OP_CONCAT, .n = 2, .h = 4, .w = 4, .c = 64, .o = 32},
    {.op = D9_OP_CONCAT, .n = 3, .h = 1, .w = 2, .c = 5, .o = 13},
    {.op = D9_OP_SLICE, .n = 7, .h = 3, .w = 5, .c = 27, .o = 3, .pad = 5},
    {.op = D9_OP_SLICE, .n = 2, .h = 4, .w = 4, .c = 64, .o = 32, .pad = 32},
    {.op = D9_OP_ADD, .n = 7, .h = 3, .w = 5, .c = 27},
    {.op = D9_OP_SCALE, .n = 7, .h = 1, .w = 1, .c = 10, .parameter = 0.0625},
    {.op = D9_OP_CAST, .n = 7, .h = 3, .w = 5, .c = 27},
    THREE(D9_OP_LINEAR, .n = 7, .h = 1, .w = 1, .c = 65, .o = 10),
    THREE(D9_OP_LINEAR, .n = 65, .h = 2, .w = 3, .c = 27, .o = 3),
    PAIR(D9_OP_LOSS, .n = 7, .o = 10),
    PAIR(D9_OP_LOSS, .n = 65, .o = 3, .parameter = 0.2),
    PAIR(D9_OP_LOSS, .n = 7, .o = 10, .parameter = 0.2, .variant = 1),
    PAIR(D9_OP_LOSS, .n = 7, .o = 10, .parameter = 0.2, .variant = 2),
    PAIR(D9_OP_LOSS, .n = 33, .o = 3, .loss = D9_LOSS_SIGMOID),
    PAIR(D9_OP_LOSS, .n = 7, .o = 6, .loss = D9_LOSS_SIGMOID, .variant = 1),
    {.op = D9_OP_METRICS, .n = 65, .o = 10},
    {.op = D9_OP_UPDATE, .n = 1003, .variant = D9_UPDATE_SGD_PAGE, .kernel = 1},
    {.op = D9_OP_UPDATE, .n = 7, .variant = D9_UPDATE_SGD_TORCH, .kernel = 1},
    {.op = D9_OP_UPDATE, .n = 65, .variant = D9_UPDATE_SGD_PAGE} /* without momentum */,
    {.op = D9_OP_UPDATE, .n = 27, .variant = D9_UPDATE_SGD_PLAIN, .kernel = 1},
    {.op = D9_OP_UPDATE, .n = 1003, .variant = D9_UPDATE_ADAM, .kernel = 2},
    {.op = D9_OP_UPDATE, .n = 65, .variant = D9_UPDATE_ADAMW, .kernel = 2},
    /* o: outputs; stride: iterations; n: 1 if the filter is renormalised; parameter: momentum */
    {.op = D9_OP_ORTHOGONAL_UPDATE, .n = 1, .o = 7, .kernel = 3, .c = 5, .stride = 3, .parameter = 0.5},
    {.op = D9_OP_ORTHOGONAL_UPDATE, .n = 1, .o = 65, .kernel = 1, .c = 27, .stride = 2, .parameter = 0.75},
    {.op = D9_OP_ORTHOGONAL_UPDATE, .n = 0, .o = 27, .kernel = 3, .c = 3, .stride = 1, .parameter = 0.5},
    {.op = D9_OP_ORTHOGONAL_UPDATE, .n = 0, .o = 70, .kernel = 3, .c = 13, .stride = 3, .parameter = 0},
    {.op = D9_OP_ORTHOGONAL_UPDATE, .n = 1, .o = 1, .kernel = 3, .c = 3, .stride = 0, .parameter = 0.5},
    {.op = D9_OP_LERP, .n = 1003},
    {.op = D9_OP_COPY, .n = 1003},
    {.op = D9_OP_DRAW, .n = 7, .h = 13, .w = 9, .c = 3, .pad = 4, .kernel = 5, .variant = D9_MIRROR_RANDOM},
    {.op = D9_OP_DRAW, .n = 65, .h = 32, .w = 32, .c = 3, .pad = 2, .kernel = 0, .variant = D9_MIRROR_ALTERNATING},
    {.op = D9_OP_DRAW, .n = 7, .h = 8, .w = 8, .c = 3, .pad = 0, .kernel = 8, .variant = D9_MIRROR_NONE},
    {.op = D9_OP_DRAW, .n = 65, .h = 8, .w = 8, .c = 3, .parameter = 0.25},
    {.op = D9_OP_AUGMENT, .n = 7, .h = 13, .w = 9, .c = 3, .pad = 4, .kernel = 5},
    {.op = D9_OP_AUGMENT, .n = 5, .h = 6, .w = 7, .c = 1, .pad = 0, .kernel = 0},
    {.op = D9_OP_AUGMENT, .n = 7, .h = 13, .w = 9, .c = 3, .pad = 4, .kernel = 5, .parameter = 0.25},
    {.op = D9_OP_DRAW, .n = 65, .h = 13, .w = 9, .c = 3, .pad = 2, .kernel = 3, .stride = 5},
    {.op = D9_OP_AUGMENT, .n = 7, .h = 13, .w = 9, .c = 3, .pad = 2, .kernel = 3, .stride = 5},
    {.op = D9_OP_AUGMENT, .n = 9, .h = 13, .w = 9, .c = 3, .pad = 0, .kernel = 0, .stride = 2},
    {.op = D9_OP_DRAW, .n = 65, .h = 13, .w = 9, .c = 3, .variant = D9_MIRROR_RANDOM, .group_size = 1},
    {.op = D9_OP_DRAW, .n = 65, .h = 3, .w = 32, .c = 3, .group_size = 1}, /* most tries do not fit */
    {.op = D9_OP_AUGMENT, .n = 7, .h = 13, .w = 9, .c = 3, .kernel = 3, .parameter = 0.25, .group_size = 1},
    {.op = D9_OP_AUGMENT, .n = 9, .h = 13, .w = 9, .c = 1, .stride = 3, .group_size = 1},
    {.op = D9_OP_DRAW, .n = 65, .h = 13, .w = 9, .c = 3, .pad = 2, .kernel = 3, .stride = 5, .group_size = 2},
    {.op = D9_OP_AUGMENT, .n = 7, .h = 13, .w = 9, .c = 3, .pad = 2, .kernel = 3, .stride = 5, .group_size = 2},
    {.op = D9_OP_AUGMENT, .n = 9, .h = 32, .w = 32, .c = 3, .pad = 4, .stride = 8, .parameter = 0.25, .group_size = 2},
    {.op = D9_OP_DRAW, .n = 65, .h = 13, .w = 9, .c = 3, .pad = 2, .variant = D9_MIRROR_RANDOM, .group_size = 3},
    {.op = D9_OP_AUGMENT, .n = 45, .h = 13, .w = 9, .c = 3, .pad = 4, .kernel = 3, .parameter = 0.25, .group_size = 3},
    {.op = D9_OP_AUGMENT, .n = 36, .h = 9, .w = 12, .c = 1, .stride = 2, .group_size = 4},
    {.op = D9_OP_MIX, .n = 7, .h = 3, .w = 5, .c = 3, .parameter = 0.75},
    {.op = D9_OP_MIX, .n = 6, .h = 4, .w = 4, .c = 3, .parameter = 0.25},
    {.op = D9_OP_PASTE, .n = 7, .h = 6, .w = 5, .c = 3, .kernel = 2, .pad = 1, .stride = 4},
    {.op = D9_OP_PASTE, .n = 6, .h = 4, .w = 8, .c = 3, .kernel = 3, .pad = 5, .stride = 8},
    {.op = D9_OP_PASTE, .n = 3, .h = 4, .w = 4, .c = 1, .kernel = 0, .pad = 2, .stride = 2}, /* an empty box */
    {.op = D9_OP_GATHER, .n = 65, .h = 1, .w = 1, .c = 1},
    /* n divisible by three: a step of three batches */
    {.op = D9_OP_DRAW, .n = 66, .h = 13, .w = 9, .c = 3, .pad = 4, .kernel = 5, .variant = D9_MIRROR_RANDOM},
    {.op = D9_OP_AUGMENT, .n = 6, .h = 13, .w = 9, .c = 3, .pad = 4, .kernel = 5},
    {.op = D9_OP_GATHER, .n = 66, .h = 1, .w = 1, .c = 1},
    {.op = D9_OP_RANK, .n = 65},
    {.op = D9_OP_RANK, .n = 66},
    {.op = D9_OP_TOKENS, .t = 5, .n = 7},
    {.op = D9_OP_TOKENS, .t = 1, .n = 65},
    {.op = D9_OP_TOKENS, .t = 9, .n = 66},
    PAIR(D9_OP_EMBED, .t = 1, .n = 1, .c = 5, .o = 1),
    PAIR(D9_OP_EMBED, .t = 5, .n = 7, .c = 16, .o = 11),
    PAIR(D9_OP_EMBED, .t = 9, .n = 65, .c = 27, .o = 99),
    {.op = D9_OP_EMBED_BACKWARD, .t = 5, .n = 7, .c = 16, .o = 11, .pad = 1}, /* added to a gradient */
    {.op = D9_OP_STREAM, .t = 5, .n = 3, .o = 26}, /* o: tokens; in step 4 each column has two left */
    {.op = D9_OP_STREAM, .t = 2, .n = 7, .o = 37},
    {.op = D9_OP_STREAM, .t = 2, .n = 3, .o = 61, .variant = 2}, /* the second of two processes */
    {.op = D9_OP_CLIP, .n = 1003, .parameter = 0.25},
    {.op = D9_OP_ALL_REDUCE, .n = 65},
    {.op = D9_OP_CLIP, .n = 65, .parameter = 1e6}, /* nothing to clip */
    PAIR(D9_OP_LOSS, .t = 5, .n = 7, .o = 10),     /* some tokens have no label */
    PAIR(D9_OP_LOSS, .t = 3, .n = 5, .o = 65, .parameter = 0.2),
    {.op = D9_OP_METRICS, .t = 5, .n = 7, .o = 10},
#define D9_CELL(id, name, gates, saved, memory, shared, doc) CELL(D9_CELL_##id),
#include "kernels/formulas/cells.def"
#undef D9_CELL
    PAIR(D9_OP_LAST, .t = 1, .n = 7, .c = 5),
    PAIR(D9_OP_LAST, .t = 5, .n = 7, .c = 16),
    THREE(D9_OP_LINEAR, .t = 1, .n = 7, .c = 5, .o = 3),
    THREE(D9_OP_LINEAR, .t = 5, .n = 7, .c = 13, .o = 48),
    PAIR(D9_OP_BIAS, .t = 5, .n = 7, .c = 27),
    {.op = D9_OP_DROPOUT, .t = 5, .n = 7, .c = 27, .parameter = 0.25},
    {.op = D9_OP_DROPOUT, .t = 5, .n = 7, .c = 27, .parameter = 0.25, .variant = 2},
};

int op_spec_count(void) { return (int)(sizeof specs / sizeof *specs); }
d9_op op_spec_op(int index) { return specs[index].op; }

static d9_shape vector(int64_t n) { return (d9_shape){1, {n}}; }
static d9_shape matrix(int64_t rows, int64_t columns) { return (d9_shape){2, {rows, columns}}; }
static d9_shape samples(const op_spec *s, int64_t channels) {
    return s->t ? (d9_shape){3, {s->t, s->n, channels}} : (d9_shape){4, {s->n, s->h, s->w, channels}};
}

/* Add a value in scratch memory. add_activation: an input of the compute type; add_result: an output of the compute
 * type; add_master: an input of the master type. */
static d9_value_id add_activation(op_case *c, const char *name, d9_shape shape) {
    return op_input(c, name, D9_BUFFER_SCRATCH, c->compute, shape, -2, 2);
}
static d9_value_id add_result(op_case *c, const char *name, d9_shape shape) {
    return op_output(c, name, D9_BUFFER_SCRATCH, c->compute, shape);
}
static d9_value_id add_master(op_case *c, const char *name, d9_shape shape, double low, double high) {
    return op_input(c, name, D9_BUFFER_SCRATCH, c->master, shape, low, high);
}

static void build_conv(op_case *c, const op_spec *s, d9_node *node) {
    int64_t oh = (s->h + 2 * s->pad - s->kernel) / s->stride + 1, ow = (s->w + 2 * s->pad - s->kernel) / s->stride + 1;
    d9_shape x = samples(s, s->c), y = {4, {s->n, oh, ow, s->o}}, w = {4, {s->o, s->kernel, s->kernel, s->c}};
    bool forward = s->op == D9_OP_CONV, data = s->op == D9_OP_CONV_BACKWARD_DATA;
    node->as.conv = (d9_conv_attributes){s->kernel, s->stride, s->pad};
    node->inputs[0] = add_activation(c, forward ? "x" : "dy", forward ? x : y);
    node->inputs[1] = add_activation(c, forward || data ? "weight" : "x", forward || data ? w : x);
    node->outputs[0] = forward ? add_result(c, "y", y)
                       : data  ? add_result(c, "dx", x)
                               : op_output(c, "dweight", D9_BUFFER_GRADIENT, c->master, w);
    node->input_count = 2;
}

static void build_linear(op_case *c, const op_spec *s, d9_node *node) {
    const d9_shape x = samples(s, s->c), y = s->t ? samples(s, s->o) : matrix(s->n, s->o),
                   w = matrix(s->o, s->t ? s->c : s->h * s->w * s->c);
    bool forward = s->op == D9_OP_LINEAR, data = s->op == D9_OP_LINEAR_BACKWARD_DATA;
    node->inputs[0] = forward ? add_activation(c, "x", x) : add_master(c, "dy", y, -2, 2);
    node->inputs[1] = add_activation(c, forward || data ? "weight" : "x", forward || data ? w : x);
    node->outputs[0] = forward ? op_output(c, "y", D9_BUFFER_SCRATCH, c->master, y)
                       : data  ? add_result(c, "dx", x)
                               : op_output(c, "dweight", D9_BUFFER_GRADIENT, c->master, w);
    node->input_count = 2;
}

static void build_embed(op_case *c, const op_spec *s, d9_node *node) {
    const d9_shape table = matrix(s->o, s->c), y = samples(s, s->c);
    const bool forward = s->op == D9_OP_EMBED;
    node->inputs[0] =
        forward ? op_input(c, "table", D9_BUFFER_STATE, c->master, table, -2, 2) : add_activation(c, "dy", y);
    node->inputs[1] = op_input(c, "tokens", D9_BUFFER_SCRATCH, D9_I32, matrix(s->t, s->n), 0, (double)(s->o - 1));
    node->input_count = s->pad ? 3 : 2;
    if (s->pad) {
        node->inputs[2] = node->outputs[0] = op_input(c, "dtable", D9_BUFFER_GRADIENT, c->master, table, -2, 2);
        return;
    }
    node->outputs[0] = forward ? add_result(c, "y", y) : op_output(c, "dtable", D9_BUFFER_GRADIENT, c->master, table);
}

/* Weights so small that states and gradients do not grow from step to step; integers are -1, 0 or 1. */
static d9_value_id add_recurrent_weight(op_case *c, d9_shape shape) {
    const double reach = c->fill == OP_FILL_INTEGER ? 1 : 2 / sqrt((double)shape.d[1]);
    return op_input(c, "U", D9_BUFFER_SCRATCH, c->compute, shape, -reach, reach);
}

/* If s->kernel is 1, the states before the first token become inputs. */
static void add_states(op_case *c, const op_spec *s, d9_node *node) {
    if (!s->kernel) return;
    node->inputs[node->input_count++] = add_master(c, "h0", matrix(s->n, s->c), -1, 1);
    if (d9_cell_counts_of(s->variant).memory)
        node->inputs[node->input_count++] = add_master(c, "c0", matrix(s->n, s->c), -1, 1);
}

static void build_recur(op_case *c, const op_spec *s, d9_node *node) {
    const d9_cell_counts size = d9_cell_counts_of(s->variant);
    const int64_t rows = size.gates * s->c;
    node->as.recur.cell = (d9_recurrent_cell)s->variant;
    node->inputs[0] = add_activation(c, "gx", samples(s, rows));
    node->inputs[1] = add_recurrent_weight(c, matrix(rows, s->c));
    node->inputs[2] = op_input(c, "b_hh", D9_BUFFER_STATE, c->master, vector(rows), -1, 1);
    node->input_count = 3;
    add_states(c, s, node);
    node->outputs[0] = add_result(c, "y", samples(s, s->c));
    node->outputs[1] =
        s->pad ? D9_NONE : op_output(c, "saved", D9_BUFFER_SCRATCH, c->master, samples(s, size.saved * s->c));
    node->output_count = 2;
    if (!s->kernel) return;
    node->outputs[node->output_count++] = op_output(c, "hT", D9_BUFFER_SCRATCH, c->master, matrix(s->n, s->c));
    if (size.memory)
        node->outputs[node->output_count++] = op_output(c, "cT", D9_BUFFER_SCRATCH, c->master, matrix(s->n, s->c));
}

static void build_recur_backward(op_case *c, const op_spec *s, d9_node *node) {
    const d9_cell_counts size = d9_cell_counts_of(s->variant);
    const int64_t rows = size.gates * s->c;
    node->as.recur.cell = (d9_recurrent_cell)s->variant;
    node->inputs[0] = add_activation(c, "dy", samples(s, s->c));
    node->inputs[1] = op_input(c, "y", D9_BUFFER_SCRATCH, c->compute, samples(s, s->c), -1, 1);
    /* gates are in 0..1, but integers 0 and 1 would make almost all gradients of an LSTM zero */
    const bool wide = s->variant == D9_CELL_LSTM && c->fill == OP_FILL_INTEGER;
    node->inputs[2] =
        add_master(c, "saved", samples(s, size.saved * s->c), size.gates == 1 || wide ? -1 : 0, wide ? 2 : 1);
    node->inputs[3] = add_recurrent_weight(c, matrix(rows, s->c));
    node->input_count = 4;
    add_states(c, s, node);
    node->outputs[0] = add_result(c, "dgx", samples(s, rows));
    node->outputs[1] = s->pad ? D9_NONE : op_output(c, "dU", D9_BUFFER_GRADIENT, c->master, matrix(rows, s->c));
    node->outputs[2] = s->pad ? D9_NONE : op_output(c, "db_hh", D9_BUFFER_GRADIENT, c->master, vector(rows));
    node->output_count = 3;
}

static void build_last(op_case *c, const op_spec *s, d9_node *node) {
    const bool forward = s->op == D9_OP_LAST;
    node->inputs[0] = add_activation(c, forward ? "x" : "dy", forward ? samples(s, s->c) : matrix(s->n, s->c));
    node->outputs[0] = add_result(c, forward ? "y" : "dx", forward ? matrix(s->n, s->c) : samples(s, s->c));
}

/* variant, here and in build_dropout: the number of processes, of which this is the second; 0: one process.
 * parameter: added to x, so that the mean may exceed the spread. */
static void build_norm(op_case *c, const op_spec *s, d9_node *node) {
    d9_shape per_group = matrix(s->group_size ? s->n / s->group_size : 1, s->c);
    d9_shape running = per_group;
    node->as.norm = (d9_norm_attributes){1e-5, 0.1, s->group_size, s->variant ? 1 : 0, s->variant};
    if (s->variant && s->op == D9_OP_NORM) running.d[0] *= s->variant;
    node->inputs[0] =
        op_input(c, "x", D9_BUFFER_SCRATCH, c->compute, samples(s, s->c), s->parameter - 2, s->parameter + 2);
    node->inputs[1] = op_input(c, "scale", D9_BUFFER_STATE, c->master, vector(s->c), 0.5, 2);
    node->inputs[2] = op_input(c, "bias", D9_BUFFER_STATE, c->master, vector(s->c), -1, 1);
    node->inputs[3] = op_input(c, "running_mean", D9_BUFFER_STATE, c->master, running, -1, 1);
    node->inputs[4] = op_input(c, "running_var", D9_BUFFER_STATE, c->master, running, 0.5, 2);
    node->input_count = 5;
    node->outputs[0] = add_result(c, "y", samples(s, s->c));
    if (s->op == D9_OP_NORM_EVAL) return;
    node->outputs[1] = op_output(c, "mean", D9_BUFFER_SCRATCH, c->master, per_group);
    node->outputs[2] = op_output(c, "inv_std", D9_BUFFER_SCRATCH, c->master, per_group);
    node->output_count = 3;
}

static void build_norm_backward(op_case *c, const op_spec *s, d9_node *node) {
    d9_shape per_group = matrix(s->group_size ? s->n / s->group_size : 1, s->c);
    node->as.norm = (d9_norm_attributes){1e-5, 0.1, s->group_size, 0, 0};
    node->inputs[0] = add_activation(c, "dy", samples(s, s->c));
    node->inputs[1] = add_activation(c, "x", samples(s, s->c));
    node->inputs[2] = add_master(c, "mean", per_group, -1, 1);
    node->inputs[3] = add_master(c, "inv_std", per_group, 0.5, 2);
    node->inputs[4] = op_input(c, "scale", D9_BUFFER_STATE, c->master, vector(s->c), 0.5, 2);
    node->input_count = 5;
    node->outputs[0] = add_result(c, "dx", samples(s, s->c));
    node->outputs[1] = s->variant ? D9_NONE : op_output(c, "dscale", D9_BUFFER_GRADIENT, c->master, vector(s->c));
    node->outputs[2] = op_output(c, "dbias", D9_BUFFER_GRADIENT, c->master, vector(s->c));
    node->output_count = 3;
}

static void build_pool(op_case *c, const op_spec *s, d9_node *node) {
    const int64_t oh = (s->h + 2 * s->pad - s->kernel) / s->stride + 1,
                  ow = (s->w + 2 * s->pad - s->kernel) / s->stride + 1;
    d9_shape y = {4, {s->n, oh, ow, s->c}};
    node->as.pool = (d9_pool_attributes){s->kernel, s->stride, s->pad};
    if (s->op == D9_OP_POOL || s->op == D9_OP_MEAN_POOL) {
        node->inputs[0] = add_activation(c, "x", samples(s, s->c));
        node->outputs[0] = add_result(c, "y", y);
        return;
    }
    node->inputs[0] = add_activation(c, "dy", y);
    node->outputs[0] = add_result(c, "dx", samples(s, s->c));
    if (s->op == D9_OP_MEAN_POOL_BACKWARD) return;
    node->inputs[1] = add_activation(c, "x", samples(s, s->c));
    node->input_count = 2;
}

static void build_bias(op_case *c, const op_spec *s, d9_node *node) {
    node->inputs[0] = add_activation(c, s->op == D9_OP_BIAS ? "x" : "dy", samples(s, s->c));
    if (s->op == D9_OP_BIAS_BACKWARD) {
        node->outputs[0] = op_output(c, "dbias", D9_BUFFER_GRADIENT, c->master, vector(s->c));
        return;
    }
    node->inputs[1] = op_input(c, "bias", D9_BUFFER_STATE, c->master, vector(s->c), -1, 1);
    node->input_count = 2;
    node->outputs[0] = add_result(c, "y", samples(s, s->c));
}

/* o: channels of the second input, or of the slice, which starts at channel `pad`. */
static void build_channels(op_case *c, const op_spec *s, d9_node *node) {
    node->inputs[0] = add_activation(c, "a", samples(s, s->c));
    if (s->op == D9_OP_SLICE) {
        node->as.slice.offset = s->pad;
        node->outputs[0] = add_result(c, "y", samples(s, s->o));
        return;
    }
    node->inputs[1] = add_activation(c, "b", samples(s, s->o));
    node->input_count = 2;
    node->outputs[0] = add_result(c, "y", samples(s, s->c + s->o));
}

/* s->kernel: d9_dropout_unit; s->parameter: probability of dropping. */
static void build_dropout(op_case *c, const op_spec *s, d9_node *node) {
    c->program.seed = 7;
    node->as.dropout = (d9_dropout_attributes){s->parameter, d9_role_stream("dropout"), false, s->variant ? 1 : 0,
                                               s->variant,   (d9_dropout_unit)s->kernel};
    node->inputs[0] = add_activation(c, "x", samples(s, s->c));
    node->outputs[0] = add_result(c, "y", samples(s, s->c));
}

static void build_mix(op_case *c, const op_spec *s, d9_node *node) {
    node->as.mix.share = (d9_coefficient){D9_NONE, s->parameter};
    node->inputs[0] = add_activation(c, "x", samples(s, s->c));
    node->outputs[0] = add_result(c, "y", samples(s, s->c));
}

/* The box is `kernel` rows high, from the second row on, and has columns `pad` to `stride` - 1. */
static void build_paste(op_case *c, const op_spec *s, d9_node *node) {
    node->as.paste = (d9_paste_attributes){
        {D9_NONE, 1}, {D9_NONE, (double)s->pad}, {D9_NONE, 1 + (double)s->kernel}, {D9_NONE, (double)s->stride}};
    node->inputs[0] = add_activation(c, "x", samples(s, s->c));
    node->outputs[0] = add_result(c, "y", samples(s, s->c));
}

static void build_elementwise(op_case *c, const op_spec *s, d9_node *node) {
    d9_shape shape = samples(s, s->c);
    bool two = s->op == D9_OP_ADD || s->op == D9_OP_ACT_BACKWARD;
    if (s->op == D9_OP_SCALE) node->as.scale.factor = s->parameter;
    if (s->op == D9_OP_ACT || s->op == D9_OP_ACT_BACKWARD)
        node->as.act = (d9_act_attributes){(d9_activation)s->variant, s->parameter};
    node->inputs[0] = s->op == D9_OP_CAST ? op_input(c, "x", D9_BUFFER_STATE, c->master, shape, -2, 2)
                                          : add_activation(c, "x", shape);
    if (two) node->inputs[1] = add_activation(c, "b", shape);
    node->input_count = two ? 2 : 1;
    node->outputs[0] = add_result(c, "y", shape);
}

/* Weights of images by class, of which a case uses the first `o`; never written. */
static double class_weights[] = {0.5, 3, 0.25, 1, 2, 0.125, 4, 1.5, 0.75, 8};

static int64_t rows_of(const op_spec *s) { return s->t ? s->t * s->n : s->n; }
static d9_value_id add_logits(op_case *c, const op_spec *s) {
    return add_master(c, "logits", s->t ? samples(s, s->o) : matrix(s->n, s->o), -3, 3);
}
/* Adds random labels. If the samples are texts, some tokens have the label -1, which means none. */
static d9_value_id add_labels(op_case *c, const op_spec *s) {
    const double largest = d9_loss_multi_label((int)s->loss) ? ldexp(1, (int)s->o) - 1 : (double)(s->o - 1);
    const d9_value_id labels = op_input(c, "labels", D9_BUFFER_SCRATCH, D9_I32, vector(rows_of(s)), 0, largest);
    for (int64_t i = 2; s->t && i < rows_of(s); i += 5) c->content[labels][i] = -1;
    return labels;
}

/* variant 1: mixed targets; 2: also class weights. */
static void build_loss(op_case *c, const op_spec *s, d9_node *node) {
    node->as.loss.loss = s->loss;
    node->as.loss.smoothing = s->parameter;
    node->as.loss.share = (d9_coefficient){D9_NONE, s->variant ? 0.75 : 1};
    node->as.loss.weights = D9_NONE;
    if (s->variant == 2) {
        test_ok(c->context, D9_ARENA_ALLOCATE(c->context, &c->program.arena, 1, &c->program.table));
        node->as.loss.weights = c->program.table_count++;
        c->program.table[node->as.loss.weights] = (d9_table){"class weights", class_weights, s->o};
    }
    node->inputs[0] = add_logits(c, s);
    node->inputs[1] = add_labels(c, s);
    node->input_count = 2;
    const d9_shape shape = s->op == D9_OP_LOSS ? vector(rows_of(s)) : s->t ? samples(s, s->o) : matrix(s->n, s->o);
    node->outputs[0] = op_output(c, s->op == D9_OP_LOSS ? "loss" : "dlogits", D9_BUFFER_SCRATCH, c->master, shape);
}

static void build_metrics(op_case *c, const op_spec *s, d9_node *node) {
    node->inputs[0] = add_master(c, "loss", vector(rows_of(s)), 0, 4);
    node->inputs[1] = add_logits(c, s);
    node->inputs[2] = add_labels(c, s);
    node->inputs[3] = node->outputs[0] = op_input(c, "metrics", D9_BUFFER_METRICS, D9_F64, vector(4), 0, 0);
    node->input_count = 4;
}

static void build_update(op_case *c, const op_spec *s, d9_node *node) {
    d9_coefficient rate = {D9_NONE, 0.125}, decay = {D9_NONE, 0.25}, ratio = {D9_NONE, 0.75}, share = {D9_NONE, 0.5};
    node->inputs[0] = op_input(c, "w", D9_BUFFER_STATE, c->master, vector(s->n), -2, 2);
    if (s->op == D9_OP_UPDATE) { /* kernel: number of state arrays */
        node->as.update = (d9_update_attributes){.update = (d9_update)s->variant,
                                                 .rate = rate,
                                                 .decay = decay,
                                                 .mean_factor = share,
                                                 .correction = {{D9_NONE, 0.875}, ratio},
                                                 .numbers = {0.5, 0.75, 0.25}};
        node->inputs[1] = op_input(c, "g", D9_BUFFER_GRADIENT, c->master, vector(s->n), -2, 2);
        node->input_count = 2;
        for (int k = 0; k < s->kernel; k++) {
            const d9_buffer buffer = (d9_buffer)(D9_BUFFER_ACCUMULATORS + k);
            node->inputs[2 + k] =
                op_input(c, k ? "more state" : "state", buffer, c->master, vector(s->n), k ? 0 : -2, 2);
            node->outputs[1 + k] = node->inputs[2 + k];
            node->input_count++;
            node->output_count++;
        }
    } else if (s->op == D9_OP_LERP) {
        node->as.lerp.ratio = ratio;
        node->inputs[1] = op_input(c, "x", D9_BUFFER_ACCUMULATORS, c->master, vector(s->n), -2, 2);
        node->input_count = 2;
    }
    node->outputs[0] =
        s->op == D9_OP_COPY ? op_output(c, "y", D9_BUFFER_ACCUMULATORS, c->master, vector(s->n)) : node->inputs[0];
}

/* Learning rate 1/8, weight decay 1/4; n: 1 if the filter is renormalised, otherwise 0. */
static void build_orthogonal_update(op_case *c, const op_spec *s, d9_node *node) {
    const d9_shape filter = {4, {s->o, s->kernel, s->kernel, s->c}};
    node->as.update = (d9_update_attributes){.rate = {D9_NONE, 0.125},
                                             .decay = {D9_NONE, 0.25},
                                             .renormalise = {D9_NONE, (double)s->n},
                                             .numbers = {s->parameter, s->stride, 3.5, -4.75, 2.125},
                                             .products = c->compute};
    node->inputs[0] = op_input(c, "w", D9_BUFFER_STATE, c->master, filter, -2, 2);
    node->inputs[1] = op_input(c, "g", D9_BUFFER_GRADIENT, c->master, filter, -2, 2);
    node->inputs[2] = op_input(c, "v", D9_BUFFER_ACCUMULATORS, c->master, filter, -2, 2);
    node->outputs[0] = node->inputs[0];
    node->outputs[1] = node->inputs[2];
    node->input_count = 3;
    node->output_count = 2;
}

/* parameter: the largest norm of half the gradient. */
static void build_clip(op_case *c, const op_spec *s, d9_node *node) {
    node->as.clip = (d9_clip_attributes){s->parameter, {D9_NONE, 0.5}};
    node->inputs[0] = node->outputs[0] = op_input(c, "g", D9_BUFFER_GRADIENT, c->master, vector(s->n), -2, 2);
}

/* One process: nothing is added. */
static void build_all_reduce(op_case *c, const op_spec *s, d9_node *node) {
    node->inputs[0] = node->outputs[0] = op_input(c, "g", D9_BUFFER_GRADIENT, c->master, vector(s->n), -2, 2);
}

enum { SAMPLES = 100, STEPS_PER_EPOCH = 3 };

static void build_stream(op_case *c, const op_spec *s, d9_node *node) {
    c->program.steps_per_epoch = STEPS_PER_EPOCH;
    node->as.batch = (d9_batch_attributes){.batch = s->variant ? s->n * s->variant : s->n,
                                           .count = s->n,
                                           .steps_per_epoch = STEPS_PER_EPOCH,
                                           .samples = s->o,
                                           .first = s->variant ? 1 : 0};
    node->inputs[0] = op_input(c, "stream", D9_BUFFER_IMAGES, D9_I32, vector(s->o), 0, 30000);
    node->outputs[0] = op_output(c, "tokens", D9_BUFFER_SCRATCH, D9_I32, matrix(s->t, s->n));
    node->outputs[1] = op_output(c, "labels", D9_BUFFER_SCRATCH, D9_I32, vector(s->t * s->n));
    node->output_count = 2;
}

/* The bits of x as f32, the form in which draws for jitter are stored. */
static double bits_of(double x) { return (double)(int32_t)d9_float_bits((float)x); }

/* Ranks the losses of `n` images, among which are equal losses. */
static void build_rank(op_case *c, const op_spec *s, d9_node *node) {
    const int64_t batches = s->n % 3 == 0 ? 3 : 1;
    node->as.batch = (d9_batch_attributes){.batch = s->n / batches, .count = s->n, .steps_per_epoch = STEPS_PER_EPOCH};
    c->program.steps_per_epoch = STEPS_PER_EPOCH;
    node->inputs[0] = op_input(c, "loss", D9_BUFFER_SCRATCH, c->master, vector(s->n), 0, 8);
    for (int64_t i = 0; i + 3 < s->n; i += 3) c->content[node->inputs[0]][i] = c->content[node->inputs[0]][i + 3];
    node->inputs[1] = op_input(c, "order", D9_BUFFER_ORDER, D9_I32, vector(s->n * STEPS_PER_EPOCH), 0, SAMPLES - 1);
    node->input_count = 2;
    node->outputs[0] = op_output(c, "ranked", D9_BUFFER_SCRATCH, D9_I32, vector(s->n));
}

/* `pad`: of the crop; `kernel`: side of the cutout square; `stride`: rows and columns by which a crop is smaller than
 * an image; `variant`: mirror rule; `parameter`: range of the jitter. `group_size` 1: boxes are resized; 2: crops, one
 * pixel smaller than the image, are resized; 3: images get a d9_change; 4: boxes are resized and get a d9_change. */
static void build_batch(op_case *c, const op_spec *s, d9_node *node) {
    const d9_shape all = {4, {SAMPLES, s->h, s->w, s->c}}, made = {4, {s->n, s->h - s->stride, s->w - s->stride, s->c}};
    const int64_t places = 2 * s->pad + s->stride + 1;
    const bool boxes = s->group_size == 1 || s->group_size == 4, shrinks = s->group_size == 2,
               changes = s->group_size >= 3;
    d9_value_id order = op_input(c, "order", D9_BUFFER_ORDER, D9_I32, vector(s->n * STEPS_PER_EPOCH), 0, SAMPLES - 1);
    c->program.extent =
        (d9_extent){.train_samples = SAMPLES, .height = s->h, .width = s->w, .channels = s->c, .batch = s->n};
    c->program.steps_per_epoch = STEPS_PER_EPOCH;
    const int64_t batches = s->n % 3 == 0 ? 3 : 1;
    node->as.batch = (d9_batch_attributes){
        s->n / batches,
        s->n,
        STEPS_PER_EPOCH,
        SAMPLES,
        {11,
         (int)s->h,
         (int)s->w,
         (int)made.d[1],
         (int)made.d[2],
         {[D9_AUGMENT_CROP] = {(float)s->pad},
          [D9_AUGMENT_MIRROR] = {(float)s->variant},
          [D9_AUGMENT_JITTER] = {(float)s->parameter, (float)s->parameter / 2},
          [D9_AUGMENT_CUTOUT] = {(float)s->kernel},
          [D9_AUGMENT_RESIZE] = {boxes ? 0.08f : 0, boxes ? 4.0f / 3 : 0},
          [D9_AUGMENT_SHRINK] = {shrinks ? (float)(s->h - 1) : 0, shrinks ? (float)(s->w - 1) : 0},
          [D9_AUGMENT_CHANGE] = {changes ? 0.75f : 0}}},
        0};
    if (s->op == D9_OP_DRAW) {
        node->inputs[0] = order;
        node->outputs[0] = op_output(c, "draws", D9_BUFFER_SCRATCH, D9_I32, matrix(s->n, D9_DRAW_SLOTS));
        return;
    }
    node->inputs[1] = order;
    if (s->op == D9_OP_GATHER) {
        node->inputs[0] = op_input(c, "labels", D9_BUFFER_LABELS, D9_I32, vector(SAMPLES), 0, 9);
        node->outputs[0] = op_output(c, "batch_labels", D9_BUFFER_SCRATCH, D9_I32, vector(s->n));
        node->input_count = 2;
        return;
    }
    if (s->op == D9_OP_TOKENS) {
        node->inputs[0] =
            op_input(c, "texts", D9_BUFFER_IMAGES, D9_I32, (d9_shape){4, {SAMPLES, 1, s->t, 1}}, 0, 30000);
        node->outputs[0] = op_output(c, "tokens", D9_BUFFER_SCRATCH, D9_I32, matrix(s->t, s->n));
        node->input_count = 2;
        return;
    }
    node->inputs[0] = op_input(c, "images", D9_BUFFER_IMAGES, D9_U8, all, 0, 255);
    node->inputs[2] = op_input(c, "draws", D9_BUFFER_SCRATCH, D9_I32, matrix(s->n, D9_DRAW_SLOTS), 0, 1);
    node->inputs[3] = op_input(c, "table", D9_BUFFER_TABLE, c->master, matrix(s->c, 256), -2, 2);
    for (int64_t i = 0; i < s->n; i++) { /* keeps the mirror bit; sets the other draws */
        double *draws = c->content[node->inputs[2]] + i * D9_DRAW_SLOTS;
        draws[D9_DRAW_CROP_Y] = (double)(i * 5 % places);
        draws[D9_DRAW_CROP_X] = (double)((i * 7 + 2) % places);
        if (boxes) {
            const int high = 1 + (int)(i * 5 % s->h), wide = 1 + (int)((i * 3 + 6) % s->w);
            draws[D9_DRAW_CROP_Y] = d9_augment_span((int)(i % (s->h - high + 1)), high);
            draws[D9_DRAW_CROP_X] = d9_augment_span((int)((i + 1) % (s->w - wide + 1)), wide);
        }
        if (shrinks) {
            const int64_t more = 2 * s->pad + 2;
            draws[D9_DRAW_CROP_Y] = d9_augment_span((int)(i * 5 % more - s->pad), (int)s->h - 1);
            draws[D9_DRAW_CROP_X] = d9_augment_span((int)((i * 7 + 2) % more - s->pad), (int)s->w - 1);
        }
        const d9_change change = d9_change_of((int)i % D9_CHANGES, (float)(i % 7 + 1) / 7, (int)(i / 11 % 2));
        for (int k = 0; k < 3; k++) draws[D9_DRAW_CHANGE + k] = changes ? k ? change.parameters[k - 1] : change.row : 0;
        draws[D9_DRAW_CUTOUT_Y] = (double)(i * 3 % (made.d[1] - s->kernel + 1));
        draws[D9_DRAW_CUTOUT_X] = (double)((i + 1) % (made.d[2] - s->kernel + 1));
        draws[D9_DRAW_BRIGHTNESS] = bits_of(s->parameter * (double)(i - 3) / 7);
        draws[D9_DRAW_CONTRAST] = bits_of(1 + s->parameter * (double)(3 - i) / 11);
    }
    node->input_count = 4;
    node->outputs[0] = add_result(c, "image", made);
}

typedef void builder(op_case *c, const op_spec *s, d9_node *node);

#define BY(op, build)       [D9_OP_##op] = build
#define PAIR_BY(op, build)  BY(op, build), BY(op##_BACKWARD, build)
#define THREE_BY(op, build) BY(op, build), BY(op##_BACKWARD_DATA, build), BY(op##_BACKWARD_WEIGHT, build)

void op_case_of(op_case *c, d9_context *context, const op_spec *s, d9_type compute, d9_type master_type, op_fill fill) {
    static builder *const builders[D9_OP_COUNT] = {
        THREE_BY(CONV, build_conv),
        THREE_BY(LINEAR, build_linear),
        BY(NORM, build_norm),
        BY(NORM_EVAL, build_norm),
        BY(NORM_BACKWARD, build_norm_backward),
        PAIR_BY(POOL, build_pool),
        PAIR_BY(MEAN_POOL, build_pool),
        PAIR_BY(BIAS, build_bias),
        BY(CONCAT, build_channels),
        BY(SLICE, build_channels),
        BY(DROPOUT, build_dropout),
        PAIR_BY(ACT, build_elementwise),
        BY(ADD, build_elementwise),
        BY(SCALE, build_elementwise),
        BY(CAST, build_elementwise),
        PAIR_BY(LOSS, build_loss),
        BY(METRICS, build_metrics),
        BY(UPDATE, build_update),
        BY(ORTHOGONAL_UPDATE, build_orthogonal_update),
        BY(LERP, build_update),
        BY(COPY, build_update),
        BY(DRAW, build_batch),
        BY(AUGMENT, build_batch),
        BY(GATHER, build_batch),
        BY(MIX, build_mix),
        BY(PASTE, build_paste),
        BY(RANK, build_rank),
        BY(TOKENS, build_batch),
        BY(STREAM, build_stream),
        BY(CLIP, build_clip),
        BY(ALL_REDUCE, build_all_reduce),
        PAIR_BY(EMBED, build_embed),
        BY(RECUR, build_recur),
        BY(RECUR_BACKWARD, build_recur_backward),
        PAIR_BY(LAST, build_last),
    };
    char name[96];
    d9_node node = {.op = s->op, .input_count = 1, .output_count = 1};
    snprintf(name, sizeof name, "%s:t%lldn%lldh%lldw%lldc%lldo%lldk%ds%dp%dg%lldv%d", d9_op_name(s->op),
             (long long)s->t, (long long)s->n, (long long)s->h, (long long)s->w, (long long)s->c, (long long)s->o,
             s->kernel, s->stride, s->pad, (long long)s->group_size, s->variant);
    op_case_begin(c, context, name, compute, master_type, fill);
    builders[s->op](c, s, &node);
    op_node(c, &node);
}

void op_case_make(op_case *c, d9_context *context, int index, d9_type compute, d9_type master_type, op_fill fill) {
    op_case_of(c, context, &specs[index], compute, master_type, fill);
}

/* Sigmoid loss of a sample: w times that for the labels `own` and 1 - w times that for the labels `other` of the sample
 * mixed with it. Bit k is set if the sample has label k. */
static double sigmoid_loss(const double *z, int64_t classes, int64_t own, int64_t other, double w) {
    double sum = 0;
    for (int64_t k = 0; k < classes; k++) {
        const double yes = -log(1 / (1 + exp(-z[k]))), no = -log(1 / (1 + exp(z[k])));
        sum += w * (own >> k & 1 ? yes : no) + (1 - w) * (other >> k & 1 ? yes : no);
    }
    return sum / (double)classes;
}

double op_loss_by_hand(const op_case *c, int64_t i) {
    const d9_node *node = &c->graph->nodes[0];
    const double *labels = c->content[node->inputs[1]];
    const d9_shape *logits = &c->graph->values[node->inputs[0]].shape;
    const int64_t classes = d9_shape_channels(logits), images = d9_shape_count(logits) / classes;
    const double *z = c->content[node->inputs[0]] + i * classes, s = node->as.loss.smoothing;
    double sum = 0, uniform = 0;
    for (int64_t k = 0; k < classes; k++) sum += exp(z[k]);
    for (int64_t k = 0; k < classes; k++) uniform -= log(exp(z[k]) / sum) / (double)classes;
    if (labels[i] < 0) return 0;
    const int64_t own = (int64_t)labels[i], other = (int64_t)labels[images - 1 - i];
    const double w = node->as.loss.share.constant;
    if (node->as.loss.loss == D9_LOSS_SIGMOID) return sigmoid_loss(z, classes, own, other, w);
    const bool weighted = node->as.loss.weights != D9_NONE;
    const double at_own = (1 - s) * -log(exp(z[own]) / sum) + s * uniform,
                 at_other = (1 - s) * -log(exp(z[other]) / sum) + s * uniform;
    return w * (weighted ? class_weights[own] : 1) * at_own +
           (1 - w) * (weighted ? class_weights[other] : 1) * at_other;
}
