/* The graph: the computation of one step, as data. Values are tensors, nodes are operations.
 *
 * A model file builds the plain forward graph; tricks edit it (graph/edit.h); graph/passes.c sets the types;
 * graph/gradient.c appends the backward nodes; build/ adds the nodes of the batch, the updates, and the averages and
 * copies after them (the tail). A backend gets the finished list of nodes, in execution order.
 *
 * Feature maps are (N, H, W, C), activations of texts with T tokens (T, N, C); convolution weights (O, KH, KW, I);
 * linear weights (O, I); per-channel vectors (C); running statistics (G, C) with G ghost groups. Sample i is in ghost
 * group i mod G. */
#pragma once

#include "core/arena.h"
#include "kernels/formulas/augment.h"
#include "kernels/formulas/rows.h"

typedef enum d9_type { D9_F64, D9_F32, D9_BF16, D9_F16, D9_I32, D9_U8, D9_TYPE_COUNT } d9_type;
size_t d9_type_bytes(d9_type type);
const char *d9_type_name(d9_type type); /* "f64", "f32", "bf16", "f16", "i32", "u8" */

typedef struct d9_shape {
    int rank;     /* 1 to 4; 0: not yet inferred */
    int64_t d[4]; /* row-major, last dimension contiguous */
} d9_shape;
int64_t d9_shape_count(const d9_shape *shape); /* elements */
static inline int64_t d9_shape_channels(const d9_shape *shape) { return shape->d[shape->rank - 1]; }
static inline int64_t d9_shape_rows(const d9_shape *shape) { /* product of all dimensions but the last */
    return d9_shape_count(shape) / d9_shape_channels(shape);
}
bool d9_shape_equal(const d9_shape *a, const d9_shape *b);

typedef int d9_value_id; /* index into graph->values; D9_NONE: absent */
typedef int d9_node_id;  /* index into graph->nodes */
enum { D9_NONE = -1, D9_MAX_INPUTS = 8, D9_MAX_OUTPUTS = 4, D9_NAME_SIZE = 64, D9_MAX_ACCUMULATORS = 8 };

/* The buffer that holds a value. step/layout.c computes the buffers' sizes, a backend allocates them. */
typedef enum d9_buffer {
    D9_BUFFER_SCRATCH,     /* activations and their gradients; graph/memory.c reuses the space within a step */
    D9_BUFFER_STATE,       /* parameters, then running statistics; master type */
    D9_BUFFER_GRADIENT,    /* parameter gradients, at the offsets of their parameters; master type */
    D9_BUFFER_IMAGES,      /* u8 (count, H, W, C) of the training set, C 1 if stored as grey; of texts i32
                              (count, 1, T, 1); of a stream i32 (tokens) */
    D9_BUFFER_LABELS,      /* i32 (count) of the training set; of a stream empty */
    D9_BUFFER_EVAL_IMAGES, /* like IMAGES, of the test set */
    D9_BUFFER_ORDER,       /* i32 (steps_per_epoch * batch): this process's sample indices of the epoch */
    D9_BUFFER_EVAL_DRAWS,  /* i32 (batch, D9_DRAW_SLOTS): crop offset and mirroring of the evaluated view */
    D9_BUFFER_EVAL_ORDER,  /* i32 (batch): the indices of the evaluated samples */
    D9_BUFFER_CARRY,       /* master type: states that recurrent layers pass to the next step of a stream */
    D9_BUFFER_EVAL_CARRY,  /* like CARRY, for evaluations */
    D9_BUFFER_TABLE,       /* master type (channels, 256): normalised value of each byte */
    D9_BUFFER_METRICS,     /* f64 (4): summed loss, labelled and correct rows, first non-finite step + 1 (0: none) */
    D9_BUFFER_LOGITS, /* f32 or f64 (rows, classes): output of an evaluation step; rows: samples, of a stream tokens */
    D9_BUFFER_GUARD,  /* training in fp16: loss scale and its state, defined by the backend; otherwise empty */
    D9_BUFFER_ACCUMULATORS, /* the first of D9_MAX_ACCUMULATORS named buffers (step/program.h); master type */
    D9_BUFFER_COUNT = D9_BUFFER_ACCUMULATORS + D9_MAX_ACCUMULATORS
} d9_buffer;
const char *d9_buffer_name(d9_buffer buffer); /* "state"; "accumulator" for all accumulators */

typedef enum d9_value_kind {
    D9_VALUE_ACTIVATION, /* also a batch's tokens and labels, narrowed weights, and gradients of activations */
    D9_VALUE_PARAMETER,
    D9_VALUE_STATISTIC,
    D9_VALUE_GRADIENT, /* gradient of a parameter */
    D9_VALUE_STORED /* any other value that outlives the step: images, order, metrics, parts of D9_BUFFER_STATE, ... */
} d9_value_kind;

/* Kind of a parameter, by which parameter groups select. Per-channel scales are D9_NORM_SCALE, not D9_WEIGHT. */
typedef enum d9_parameter_kind { D9_WEIGHT, D9_NORM_SCALE, D9_BIAS } d9_parameter_kind;

/* Initialisers that read the training images run after the others and are timed separately. */
typedef enum d9_init_phase { D9_INIT_PLAIN, D9_INIT_FROM_IMAGES, D9_INIT_PHASES } d9_init_phase;

struct d9_init_site;
/* Initial values of a parameter. `fill` writes `count` doubles; it may read the training images through `site`
 * (graph/init.h). It is called once, before the first step. */
typedef struct d9_initializer {
    const char *name; /* "uniform", "constant", "dirac", ... */
    d9_status (*fill)(d9_context *context, const struct d9_initializer *self, const struct d9_init_site *site,
                      double *values, int64_t count);
    /* Lets a trick change the values that `fill` wrote; NULL: no change. */
    d9_status (*adjust)(d9_context *context, const struct d9_initializer *self, const struct d9_init_site *site,
                        double *values, int64_t count);
    double a; /* argument of `fill`, for example the bound of "uniform" (graph/init.h); tricks define their own */
    d9_init_phase phase;
    const void *options; /* options of the trick that set fill or adjust */
} d9_initializer;

typedef struct d9_value {
    char name[D9_NAME_SIZE]; /* role and slot: "layer1.conv.weight", "layer1.conv.out" */
    d9_value_kind kind;
    d9_type type;
    d9_shape shape;
    d9_node_id producer; /* node that writes an activation or the logits; D9_NONE for other values */
    d9_buffer buffer;
    int64_t offset; /* in bytes from the start of the buffer; set by graph/memory.c, step/layout.c, d9_build_stored */
    d9_initializer init; /* for parameters and statistics */
    /* only for parameters: */
    d9_parameter_kind parameter;
    bool trainable;
    int part; /* number of the part of the network, by which tricks select parameters; 0: none */
} d9_value;

static inline bool d9_value_learns(const d9_value *value) { /* a parameter that training changes */
    return value->kind == D9_VALUE_PARAMETER && value->trainable;
}

/* Operations, one row each in graph/ops.def; each is described by a d9_op_info (graph/op.h). */
typedef enum d9_op {
#define D9_OP(id, name) D9_OP_##id,
#include "graph/ops.def"
#undef D9_OP
    D9_OP_COUNT
} d9_op;
const char *d9_op_name(d9_op op);

const char *d9_activation_name(d9_activation activation);

/* Choices, separated by |, and help text of the option for the recurrent cell: rows of kernels/formulas/cells.def. */
#define D9_CELL_CHOICES (d9_cell_names + 1)
extern const char d9_cell_names[], d9_cell_doc[];

/* Steps in which a node runs, such as an update. Step numbers s count batches from 0: a step of several batches has
 * several numbers, and the node runs if any of them is due (d9_when_active in step/program.h). every 0: every step. */
typedef struct d9_when {
    int64_t every, offset;   /* due if (s - offset) % every == 0 and s >= offset */
    int64_t from, until;     /* and only if from <= s < until; until 0: to the end */
    bool restart_each_epoch; /* for `every` and `offset`, s counts from the start of the epoch */
} d9_when;

/* A coefficient: a constant, or a table of the program (d9_program.table), indexed by step. */
typedef struct d9_coefficient {
    int table; /* index of the table; D9_NONE: constant */
    double constant;
} d9_coefficient;

/* Number of processes, from a field `ranks` in which both 0 and 1 mean one process. */
static inline int d9_ranks_of(int ranks) { return ranks > 1 ? ranks : 1; }

/* Attributes: one struct per kind of operation that has any. */
typedef struct d9_conv_attributes {
    int kernel, stride, pad;
} d9_conv_attributes;
typedef struct d9_pool_attributes {
    int kernel, stride, pad;
} d9_pool_attributes; /* mean pools have no padding */
/* The elements that dropout keeps or drops together, by one random number: one element; all elements of a sample, or of
 * a token of (T, N, C); all of the batch. */
typedef enum d9_dropout_unit { D9_DROP_ELEMENTS, D9_DROP_SAMPLES, D9_DROP_BATCHES } d9_dropout_unit;
typedef struct d9_dropout_attributes {
    double p;           /* probability that a unit becomes zero, 0 <= p < 1 */
    uint32_t stream;    /* random stream, by d9_role_stream when the node is made */
    bool in_evaluation; /* also active in the evaluation graph */
    int rank, ranks;    /* sample n of this process is sample n * ranks + rank of the batch; both 0: one process */
    d9_dropout_unit unit;
} d9_dropout_attributes;
typedef struct d9_slice_attributes {
    int64_t offset;
} d9_slice_attributes; /* offset: first channel */
typedef struct d9_norm_attributes {
    double epsilon, momentum; /* momentum: weight of the new statistic */
    int64_t group_size;       /* images per ghost group; 0: one group in each process */
    int rank, ranks;          /* group g of this process is group g * ranks + rank of the batch; both 0: one process */
} d9_norm_attributes;
typedef struct d9_act_attributes {
    d9_activation activation;
    double alpha; /* of CELU; other activations ignore it */
} d9_act_attributes;
typedef struct d9_scale_attributes {
    double factor;
} d9_scale_attributes;
typedef struct d9_loss_attributes {
    d9_loss loss;
    double smoothing;     /* label smoothing (loss.h); 0: none */
    d9_coefficient share; /* weight of the image's own label; 1 - share: of its mixing partner's label */
    int weights;          /* table of the loss weight of each class; D9_NONE: 1 for every class */
} d9_loss_attributes;
typedef struct d9_mix_attributes {
    d9_coefficient share; /* weight of image n in the n-th of N mixtures; image N - 1 - n has weight 1 - share */
} d9_mix_attributes;
typedef struct d9_paste_attributes { /* the box: top <= y < bottom, left <= x < right, in pixels of the image */
    d9_coefficient top, left, bottom, right;
} d9_paste_attributes;
typedef struct d9_update_attributes {
    d9_update update;
    /* Learning rate, weight decay, and 1 / N, where N is the number of losses in a step. For an update rule that uses
     * the gradient of the summed loss, rate is the learning rate / N and decay the weight decay * N. A rule that uses
     * the mean loss gets both unchanged, and multiplies the summed gradient by mean_factor. */
    d9_coefficient rate, decay, mean_factor;
    d9_coefficient correction[D9_UPDATE_STATES]; /* bias corrections of moving averages: kernels/formulas/update.h */
    double numbers[D9_UPDATE_NUMBERS];           /* hyperparameters of the update rule, such as momentum */
    d9_type products;                            /* type in which an orthogonalised update multiplies matrices */
    d9_coefficient renormalise; /* above 0: the weight is first scaled to the norm sqrt(rows) (orthogonal.h) */
} d9_update_attributes;
typedef struct d9_lerp_attributes {
    d9_coefficient ratio;
} d9_lerp_attributes; /* a = ratio*a + (1-ratio)*x */
typedef struct d9_clip_attributes {
    double most;                /* largest norm of the gradient of the mean loss */
    d9_coefficient mean_factor; /* 1 / number of losses: turns the summed gradient into the mean */
} d9_clip_attributes;
typedef struct d9_recur_attributes {
    d9_recurrent_cell cell;
} d9_recur_attributes;
typedef struct d9_batch_attributes {       /* for draw, augment, gather, tokens, stream, rank */
    int64_t batch, count, steps_per_epoch; /* makes `count` samples, from order[step % steps_per_epoch * batch]
                                              on; stream: the next tokens of `count` of the `batch` columns */
    int64_t samples;                       /* number of samples in the dataset; of a stream, tokens */
    d9_augment_rule rule;                  /* only in draw and augment */
    int64_t first;                         /* stream: column n of the step is column first + n * (batch / count) */
} d9_batch_attributes;

typedef struct d9_node {
    d9_op op;
    char role[D9_NAME_SIZE]; /* "layer1.res2.norm", "head", "loss" */
    d9_value_id inputs[D9_MAX_INPUTS];
    int input_count;
    d9_value_id outputs[D9_MAX_OUTPUTS]; /* D9_NONE: the optional output is not needed */
    int output_count;
    d9_when when; /* all zero: every step */
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
        d9_paste_attributes paste;
        d9_update_attributes update;
        d9_lerp_attributes lerp;
        d9_recur_attributes recur;
        d9_clip_attributes clip;
        d9_batch_attributes batch;
    } as;
} d9_node;

typedef struct d9_graph {
    d9_value *values;
    int value_count;
    size_t value_capacity;
    d9_node *nodes; /* in execution order */
    int node_count;
    size_t node_capacity;
    /* Inputs and outputs of every model. `input`: images (N, H, W, C), or the tokens i32 (T, N) of texts; loss and
     * labels, one for each row of the logits (N, or T * N of a stream). */
    d9_value_id input, logits, loss, labels;
    d9_value_id features;        /* input of the classifier, if it must be kept after the step; otherwise D9_NONE */
    int64_t classes, vocabulary; /* vocabulary: number of different tokens; 0: the samples are images */
    bool stream;                 /* each step continues the tokens and the recurrent states of the step before */
} d9_graph;

void d9_graph_init(d9_graph *graph);
void d9_graph_free(d9_context *context, d9_graph *graph);
D9_MUST_USE d9_status d9_graph_copy(d9_context *context, const d9_graph *from, d9_graph *to);

/* ---- adding and removing nodes. d9_graph_embed and the builders below it add a node (d9_graph_recur: three), its
 * parameters and its output, and infer all shapes. x, a and b are input values; *y gets the output. ---- */
/* D9_USAGE if a value already has this name. */
D9_MUST_USE d9_status d9_graph_add_value(d9_context *context, d9_graph *graph, const d9_value *value, d9_value_id *id);
/* Sets *id to the value with the name of `wanted`; adds `wanted`, without a producer, if there is none. */
D9_MUST_USE d9_status d9_graph_find_or_add(d9_context *context, d9_graph *graph, const d9_value *wanted,
                                           d9_value_id *id);
D9_MUST_USE d9_status d9_graph_add_node(d9_context *context, d9_graph *graph, const d9_node *node);
/* Inserts the node before node `at`; later nodes, and their values' producers, move up. `id` may be NULL. */
D9_MUST_USE d9_status d9_graph_insert_node(d9_context *context, d9_graph *graph, d9_node_id at, const d9_node *node,
                                           d9_node_id *id);
typedef struct d9_merge {      /* arguments of d9_graph_merge */
    const char *prefix;        /* for roles and activations */
    const char *kept_prefix;   /* for parameters, statistics and gradients */
    d9_value_id input, labels; /* values of `to` that replace those of `from`; D9_NONE: treated like other values */
    d9_when when;              /* set in each copied node */
} d9_merge;
/* Inserts copies of all nodes of `from` before node `at` of `to`. Names get the prefixes, except those of stored values
 * (D9_VALUE_STORED). A value is added to `to` unless `to` has one with its name; D9_USAGE if their shapes differ. */
D9_MUST_USE d9_status d9_graph_merge(d9_context *context, const d9_graph *from, const d9_merge *as, d9_node_id at,
                                     d9_graph *to);
void d9_graph_remove_node(d9_graph *graph, d9_node_id at); /* its outputs then have no producer */
/* Replaces `from` by `to` in the inputs of all nodes and as graph->logits. */
void d9_graph_redirect(d9_graph *graph, d9_value_id from, d9_value_id to);

/* The next two add graph->input, which *x gets as well: images of `shape`, (N, H, W, C); or tokens i32 (length,
 * samples) of texts, or of columns of a stream, each below `vocabulary`. */
D9_MUST_USE d9_status d9_graph_image(d9_context *context, d9_graph *graph, const d9_shape *shape, d9_value_id *x);
D9_MUST_USE d9_status d9_graph_tokens(d9_context *context, d9_graph *graph, int64_t length, int64_t samples,
                                      int64_t vocabulary, bool stream, d9_value_id *x);
/* Looks up the row of each token (T, N) in `ROLE.weight` (vocabulary, channels), initially standard normal.
 * Result (T, N, C). */
D9_MUST_USE d9_status d9_graph_embed(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                     int64_t channels, d9_value_id *y);
/* One recurrent layer (T, N, C) -> (T, N, units) with PyTorch's parameters ROLE.NAME_lLAYER, NAME being weight_ih,
 * weight_hh, bias_ih or bias_hh, uniform in +-1/sqrt(units). The initial states are 0; of a stream they are the last
 * states of the previous step. */
D9_MUST_USE d9_status d9_graph_recur(d9_context *context, d9_graph *graph, const char *role, int layer, d9_value_id x,
                                     d9_recurrent_cell cell, int64_t units, d9_value_id *y);
D9_MUST_USE d9_status d9_graph_last_token(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                          d9_value_id *y); /* (T, N, C) -> (N, C) of the last token */
/* Convolution kernel x kernel, padding kernel / 2, no bias. Weight `ROLE.weight`, uniform in +-1/sqrt(fan-in). */
D9_MUST_USE d9_status d9_graph_conv(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                    int64_t channels, int kernel, int stride, d9_value_id *y);
D9_MUST_USE d9_status d9_graph_batch_norm(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                          d9_value_id *y); /* batch norm: epsilon 1e-5, momentum 0.1, scale 1, bias 0 */
D9_MUST_USE d9_status d9_graph_act(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                   d9_value_id *y); /* ReLU */
/* Max pool, which ignores positions outside the image, and mean pool, whose windows lie inside it. */
D9_MUST_USE d9_status d9_graph_pool(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                    d9_pool_attributes pool, d9_value_id *y);
D9_MUST_USE d9_status d9_graph_mean_pool(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                         d9_pool_attributes pool, d9_value_id *y);
D9_MUST_USE d9_status d9_graph_add(d9_context *context, d9_graph *graph, const char *role, d9_value_id a, d9_value_id b,
                                   d9_value_id *y);
D9_MUST_USE d9_status d9_graph_linear(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                      int64_t outputs, d9_value_id *y); /* flattens x unless it is (T, N, C); no bias */
/* A linear layer with the weight (outputs, inputs) of another node, such as an embedding's table; each row of
 * the weight gives an output. */
D9_MUST_USE d9_status d9_graph_linear_tied(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                           d9_value_id weight, d9_value_id *y);
D9_MUST_USE d9_status d9_graph_bias(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                    d9_value_id *y); /* adds `ROLE.bias`, initially zero */
D9_MUST_USE d9_status d9_graph_dropout(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, double p,
                                       d9_value_id *y);
D9_MUST_USE d9_status d9_graph_concat(d9_context *context, d9_graph *graph, const char *role, d9_value_id a,
                                      d9_value_id b, d9_value_id *y); /* channels of a, then those of b */
D9_MUST_USE d9_status d9_graph_scale(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                     double factor, d9_value_id *y);
/* Adds the labels and the loss of each row of the logits, a cross-entropy; sets graph->logits, classes, labels and
 * loss. Training minimises the SUM of the losses in a batch. */
D9_MUST_USE d9_status d9_graph_loss(d9_context *context, d9_graph *graph, d9_value_id logits);

/* ---- queries, and shape inference ---- */
d9_value_id d9_graph_find_value(const d9_graph *graph, const char *name); /* D9_NONE if there is none */
/* Number of node inputs that read `value`; `first`, if not NULL, gets the first of these nodes. */
int d9_graph_consumers(const d9_graph *graph, d9_value_id value, d9_node_id *first);
/* The parameter that a cast node reads to make `value`; without such a node `value` itself. */
d9_value_id d9_graph_parameter(const d9_graph *graph, d9_value_id value);
d9_node_id d9_graph_classifier(const d9_graph *graph); /* the last linear layer before the logits; D9_NONE: none */
uint32_t d9_role_stream(const char *role);             /* random stream that depends only on the role */
int64_t d9_graph_samples(const d9_graph *graph);       /* images or texts of a batch, or columns of a stream */
int64_t d9_node_groups(const d9_graph *graph, const d9_node *norm); /* ghost groups of a norm in this process's batch */

/* Infers the shapes of outputs and statistics from those of graph->input and the parameters, in node order. Errors name
 * the node that does not fit. */
D9_MUST_USE d9_status d9_graph_infer(d9_context *context, d9_graph *graph);
