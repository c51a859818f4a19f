/* The graph: what one step computes, as data. Values are tensors, nodes are operations.
 *
 * A model file builds the plain forward graph; tricks edit it (graph/edit.h); graph/precision.c gives every
 * value a type; graph/gradient.c appends the backward nodes; build/build.c adds updates and the tail. A backend only
 * ever sees the finished list of nodes, in the order in which they run.
 *
 * Activations are (N, H, W, C); convolution weights (O, KH, KW, I); linear weights (O, I); per-channel
 * vectors (C); running statistics (G, C) with G ghost groups. The ghost group of sample i is i mod G. */
#ifndef D9_GRAPH_GRAPH_H
#define D9_GRAPH_GRAPH_H

#include "core/arena.h"
#include "core/context.h"
#include "kernels/formulas/rows.h"

typedef enum d9_type { D9_F64, D9_F32, D9_BF16, D9_F16, D9_I32, D9_U8, D9_TYPE_COUNT } d9_type;
size_t d9_type_bytes(d9_type type);
const char *d9_type_name(d9_type type); /* "f64", "f32", "bf16", "f16", "i32", "u8" */

typedef struct d9_shape {
    int rank;     /* 1 to 4 */
    int64_t d[4]; /* row-major, last dimension contiguous */
} d9_shape;
int64_t d9_shape_count(const d9_shape *shape);                                                       /* elements */
static inline int64_t d9_shape_channels(const d9_shape *shape) { return shape->d[shape->rank - 1]; } /* the last size */
bool d9_shape_equal(const d9_shape *a, const d9_shape *b);

typedef int d9_value_id; /* index into graph->values; -1: absent */
typedef int d9_node_id;  /* index into graph->nodes */
enum { D9_NONE = -1, D9_MAX_INPUTS = 8, D9_MAX_OUTPUTS = 4, D9_NAME_SIZE = 64, D9_MAX_ACCUMULATORS = 8 };

/* Where a value's bytes are: step/program.h sizes the buffers, a backend allocates them. */
typedef enum d9_buffer {
    D9_BUFFER_SCRATCH,  /* activations and their gradients; reused within a step by graph/memory.c */
    D9_BUFFER_STATE,    /* parameters, then running statistics; master type */
    D9_BUFFER_GRADIENT, /* parameter gradients, at the offsets of their parameters; master type */
    D9_BUFFER_IMAGES,   /* u8 (count, H, W, C) of the training set */
    D9_BUFFER_LABELS,   /* i32 (count) */
    D9_BUFFER_EVAL_IMAGES,
    D9_BUFFER_ORDER,        /* i32 (steps_per_epoch * batch): the epoch's sample indices */
    D9_BUFFER_EVAL_DRAWS,   /* i32 (batch, 7): explicit draws, for evaluation views */
    D9_BUFFER_EVAL_ORDER,   /* i32 (batch) */
    D9_BUFFER_TABLE,        /* master type (3, 256): normalised value of each byte, per channel */
    D9_BUFFER_METRICS,      /* f64 (4): summed loss, images seen, correct, first bad step + 1 (0: none) */
    D9_BUFFER_LOGITS,       /* f32 or f64 (batch, classes): of an evaluation step */
    D9_BUFFER_GUARD,        /* fp16: the loss scale and what goes with it, a backend's own; else empty */
    D9_BUFFER_ACCUMULATORS, /* the first of D9_MAX_ACCUMULATORS: what is kept by name (step/program.h); master type */
    D9_BUFFER_COUNT = D9_BUFFER_ACCUMULATORS + D9_MAX_ACCUMULATORS
} d9_buffer;
const char *d9_buffer_name(d9_buffer buffer); /* "state"; of all accumulators "accumulator" */

typedef enum d9_value_kind {
    D9_VALUE_ACTIVATION,
    D9_VALUE_PARAMETER,
    D9_VALUE_STATISTIC,
    D9_VALUE_GRADIENT, /* of a parameter */
    D9_VALUE_STORED    /* any other value that outlives the step: images, order, metrics, ranges of STATE ... */
} d9_value_kind;

/* What a parameter is: decides its group. Per-channel scales and biases never count as weights. */
typedef enum d9_parameter_kind { D9_WEIGHT, D9_NORM_SCALE, D9_BIAS } d9_parameter_kind;

/* When an initialiser runs; the timeline counts each phase as a segment of its own. */
typedef enum d9_init_phase { D9_INIT_PLAIN, D9_INIT_FROM_IMAGES, D9_INIT_PHASES } d9_init_phase;

struct d9_init_site;
/* How a parameter starts. `fill` writes `count` doubles; it may look at the training images through `site`
 * (graph/init.h) and is called once, before the first step. */
typedef struct d9_initializer {
    const char *name; /* "uniform", "constant", "dirac", ... */
    d9_status (*fill)(d9_context *context, const struct d9_initializer *self, const struct d9_init_site *site,
                      double *values, int64_t count);
    /* What a trick makes of the values that fill left; NULL: they stay. */
    d9_status (*adjust)(d9_context *context, const struct d9_initializer *self, const struct d9_init_site *site,
                        double *values, int64_t count);
    double a, b; /* bound; or value; or what the trick says */
    d9_init_phase phase;
    const void *options; /* of the trick that installed fill, or adjust */
} d9_initializer;

typedef struct d9_value {
    char name[D9_NAME_SIZE]; /* role path and slot: "layer1.conv.weight", "layer1.conv.out" */
    d9_value_kind kind;
    d9_type type;
    d9_shape shape;
    d9_node_id producer; /* D9_NONE for parameters and stored values */
    d9_buffer buffer;
    int64_t offset;      /* bytes into the buffer; set by graph/memory.c and step/layout.c */
    d9_initializer init; /* parameters and statistics */
    /* parameters only */
    d9_parameter_kind parameter;
    bool trainable;
    int rests; /* a number for those that stop learning together before the run ends, for selectors; 0: none */
} d9_value;

/* One row per operation in graph/ops.def; what is known of it: graph/op.h. */
typedef enum d9_op {
#define D9_OP(id, name) D9_OP_##id,
#include "graph/ops.def"
#undef D9_OP
    D9_OP_COUNT
} d9_op;
const char *d9_op_name(d9_op op);

const char *d9_activation_name(d9_activation activation);

/* When an update or tail node runs. Steps count from 0; all fields in steps. every 0 means every step. */
typedef struct d9_when {
    int64_t every, offset;   /* runs when (s - offset) % every == 0, s >= offset */
    int64_t from, until;     /* from <= step < until; until 0: to the end */
    bool restart_each_epoch; /* s counts from the epoch's first step */
} d9_when;

/* A coefficient: a constant, or a row of the program's tables indexed by the step. */
typedef struct d9_coefficient {
    int table; /* D9_NONE: constant */
    double constant;
} d9_coefficient;

/* Attributes: one struct per kind of operation that has any. */
typedef struct d9_conv_attributes {
    int kernel, stride, pad;
} d9_conv_attributes;
typedef struct d9_pool_attributes {
    int kernel, stride, pad;
} d9_pool_attributes; /* a mean has no padding */
typedef struct d9_dropout_attributes {
    double p;        /* share that becomes zero, 0 <= p < 1 */
    uint32_t stream; /* of its role: d9_role_stream */
    bool stays;      /* in the evaluation graph, too */
} d9_dropout_attributes;
typedef struct d9_slice_attributes {
    int64_t offset;
} d9_slice_attributes; /* first channel */
typedef struct d9_norm_attributes {
    double epsilon, momentum; /* momentum: weight of the new statistic */
    int64_t group_size;       /* images per ghost group; 0: the whole batch is one group */
} d9_norm_attributes;
typedef struct d9_act_attributes {
    d9_activation activation;
    double alpha;
} d9_act_attributes;
typedef struct d9_scale_attributes {
    double factor;
} d9_scale_attributes;
typedef struct d9_loss_attributes {
    d9_loss loss;
    double smoothing;
    d9_coefficient share; /* of an image's own label; as the mix node's */
    int weights;          /* table with what an image of each class counts; D9_NONE: each counts 1 */
} d9_loss_attributes;
typedef struct d9_mix_attributes {
    d9_coefficient share; /* of an image's own pixels; image N - 1 - n has the rest */
} d9_mix_attributes;
typedef struct d9_update_attributes {
    d9_update update;
    /* By summed gradients rate / N and decay * N; by the mean loss as they are, with share = 1 / N. */
    d9_coefficient rate, decay, share;
    d9_coefficient correction[D9_UPDATE_STATES]; /* of moving averages: kernels/formulas/update.h */
    double numbers[D9_UPDATE_NUMBERS];           /* the row's: momentum, ... */
    d9_type products;                            /* what an update that multiplies matrices multiplies in */
    d9_coefficient renormalise;                  /* not 0: a filter first returns to its norm in this step */
} d9_update_attributes;
typedef struct d9_lerp_attributes {
    d9_coefficient ratio;
} d9_lerp_attributes; /* a = ratio*a + (1-ratio)*x */
typedef struct d9_draw_attributes {
    uint64_t seed;
    int pad, mirror, cutout;                        /* step/augment.h */
    int64_t batch, count, steps_per_epoch, samples; /* makes `count` from order[step % steps_per_epoch * batch] on */
    int height, width;                              /* of an image */
    int out_height, out_width;                      /* of the batch's, at most that: bounds of the cutout square */
    float brightness, contrast;
} d9_draw_attributes;
typedef struct d9_augment_attributes {
    int pad, cutout;
    int64_t batch, count, steps_per_epoch; /* as of draw */
    bool jitter;                           /* by the draws of brightness and contrast */
} d9_augment_attributes;

typedef struct d9_node {
    d9_op op;
    char role[D9_NAME_SIZE]; /* "layer1.res2.norm", "head", "loss" */
    d9_value_id inputs[D9_MAX_INPUTS];
    int input_count;
    d9_value_id outputs[D9_MAX_OUTPUTS]; /* D9_NONE where an optional output is not wanted */
    int output_count;
    d9_when when; /* all zero: in every step */
    union {
        d9_conv_attributes conv;
        d9_pool_attributes pool;
        d9_dropout_attributes dropout;
        d9_slice_attributes slice;
        d9_norm_attributes norm;
        d9_act_attributes act;
        d9_scale_attributes scale;
        d9_loss_attributes loss;
        d9_mix_attributes mix;
        d9_update_attributes update;
        d9_lerp_attributes lerp;
        d9_draw_attributes draw;
        d9_augment_attributes augment;
    } as;
} d9_node;

typedef struct d9_graph {
    d9_value *values;
    int value_count, value_capacity;
    d9_node *nodes; /* in the order in which they run */
    int node_count, node_capacity;
    d9_value_id image, logits, loss, labels; /* the ends every model has; loss (N), labels (N) */
    d9_value_id features; /* what the classifier reads, where it must outlive the step; else D9_NONE */
    int64_t classes;
} d9_graph;

void d9_graph_init(d9_graph *graph);
void d9_graph_free(d9_context *context, d9_graph *graph);
D9_MUST_USE d9_status d9_graph_copy(d9_context *context, const d9_graph *from, d9_graph *to);

/* ---- building blocks for model files. Shapes are inferred at once; `x` and results are values. ---- */
D9_MUST_USE d9_status d9_graph_add_value(d9_context *context, d9_graph *graph, const d9_value *value, d9_value_id *id);
/* The value of this name, added, without a producer, where there is none yet. */
D9_MUST_USE d9_status d9_graph_find_or_add(d9_context *context, d9_graph *graph, const d9_value *wanted,
                                           d9_value_id *id);
D9_MUST_USE d9_status d9_graph_add_node(d9_context *context, d9_graph *graph, const d9_node *node, d9_node_id *id);
/* Puts the node before the one at `at`; later nodes and their values' producers move up. `id` may be NULL. */
D9_MUST_USE d9_status d9_graph_insert_node(d9_context *context, d9_graph *graph, d9_node_id at, const d9_node *node,
                                           d9_node_id *id);
/* The nodes of `from` at place `at` and behind it, in their order. Names get the prefixes, but those of values with a
 * place of their own; values of one name are one value, of one shape. */
typedef struct d9_merge {
    const char *prefix, *kept_prefix; /* of roles and of what is made; of parameters, statistics and gradients */
    d9_value_id image, labels;        /* those of `to` that stand for those of `from`; D9_NONE: like all others */
    d9_when when;                     /* of each node */
} d9_merge;
D9_MUST_USE d9_status d9_graph_merge(d9_context *context, const d9_graph *from, const d9_merge *as, d9_node_id at,
                                     d9_graph *to);
void d9_graph_remove_node(d9_graph *graph, d9_node_id at); /* its outputs are left without a producer */

D9_MUST_USE d9_status d9_graph_image(d9_context *context, d9_graph *graph, const d9_shape *shape, d9_value_id *x);
/* kernel x kernel, same padding, stride 1, no bias; weight `ROLE.weight`, uniform in +-1/sqrt(fan-in) */
D9_MUST_USE d9_status d9_graph_conv(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                    int64_t channels, int kernel, int stride, d9_value_id *y);
D9_MUST_USE d9_status d9_graph_norm(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                    d9_value_id *y); /* epsilon 1e-5, momentum 0.1, scale 1, bias 0 */
D9_MUST_USE d9_status d9_graph_act(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                   d9_value_id *y); /* ReLU */
/* The maximum of each window, what lies outside the image not counted; the mean of each, all inside. */
D9_MUST_USE d9_status d9_graph_pool(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                    d9_pool_attributes pool, d9_value_id *y);
D9_MUST_USE d9_status d9_graph_mean_pool(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                         d9_pool_attributes pool, d9_value_id *y);
D9_MUST_USE d9_status d9_graph_add(d9_context *context, d9_graph *graph, const char *role, d9_value_id a, d9_value_id b,
                                   d9_value_id *y);
D9_MUST_USE d9_status d9_graph_linear(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                      int64_t outputs, d9_value_id *y); /* flattens; no bias */
D9_MUST_USE d9_status d9_graph_bias(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                    d9_value_id *y); /* `ROLE.bias`, zero */
D9_MUST_USE d9_status d9_graph_dropout(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, double p,
                                       d9_value_id *y);
D9_MUST_USE d9_status d9_graph_concat(d9_context *context, d9_graph *graph, const char *role, d9_value_id a,
                                      d9_value_id b, d9_value_id *y); /* channels of a, then of b */
D9_MUST_USE d9_status d9_graph_scale(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                     double factor, d9_value_id *y);
/* Cross-entropy of `logits`: sets graph->logits, labels and loss. The objective is the SUM over the batch. */
D9_MUST_USE d9_status d9_graph_loss(d9_context *context, d9_graph *graph, d9_value_id logits);

/* ---- looking ---- */
d9_value_id d9_graph_find_value(const d9_graph *graph, const char *name);            /* D9_NONE: no such value */
int d9_graph_consumers(const d9_graph *graph, d9_value_id value, d9_node_id *first); /* count; first may be NULL */
d9_value_id d9_graph_parameter(const d9_graph *graph, d9_value_id value); /* behind it: it, or what was narrowed */
d9_node_id d9_graph_classifier(const d9_graph *graph); /* the linear layer that makes the logits; D9_NONE: none does */
uint32_t d9_role_stream(const char *role);             /* a random stream of its own, whatever else is in the network */
int64_t d9_node_groups(const d9_graph *graph, const d9_node *norm); /* ghost groups of a norm node */

/* Shapes of every value from the image's, in node order. Says which node does not fit, and why. */
D9_MUST_USE d9_status d9_graph_infer(d9_context *context, d9_graph *graph);

#endif
