/* The step program: a training run as data.
 *
 * config -> model -> tricks -> precision -> gradients -> layout of the state -> updates and tail -> layout of the
 * buffers -> step program (build/build.h). A backend plans and runs it. Its nodes contain no callbacks; the
 * initialisers of its parameters are called once, before the first step. */
#pragma once

#include "core/measure.h"
#include "core/schedule.h"
#include "graph/passes.h"
#include "step/augment.h"

enum { D9_PREVIEW_EPOCHS = 8 /* epochs whose batches a preview shows, also if the run is shorter */ };

/* ---- accumulators: named arrays, besides the state, that updates and the tail read and write ---- */
typedef enum d9_accumulator_layout {
    D9_ACCUMULATOR_OF_GROUPS, /* one element per trained parameter, laid out as GRADIENT; initially zero */
    D9_ACCUMULATOR_OF_STATE,  /* one element per element of STATE; initially a copy of STATE */
    D9_ACCUMULATOR_OF_UPDATE  /* laid out as GRADIENT; written anew in each update, so not in checkpoints */
} d9_accumulator_layout;
typedef struct d9_accumulator {
    const char *name;
    d9_accumulator_layout layout;
} d9_accumulator;
typedef struct d9_accumulators { /* number i has the buffer D9_BUFFER_ACCUMULATORS + i */
    int count;
    d9_accumulator accumulator[D9_MAX_ACCUMULATORS];
} d9_accumulators;
/* Adds an accumulator and sets *buffer to its buffer. The name is not copied. D9_USAGE if there are too many, or if the
 * name is reserved or used, so that two tricks never share an accumulator by accident. */
D9_MUST_USE d9_status d9_accumulator_add(d9_context *context, d9_accumulators *accumulators, const char *name,
                                         d9_accumulator_layout layout, d9_buffer *buffer);
/* Finds the buffer of an accumulator; D9_BUFFER_COUNT if there is none of this name. */
d9_buffer d9_accumulator_find(const d9_accumulators *accumulators, const char *name);

/* ---- parameter groups, edited by a trick's on_optimizer ---- */

/* Selects the parameters that match every field that is set. */
typedef struct d9_selector {
    unsigned kinds;          /* bits 1u << d9_parameter_kind; 0: any */
    int rank;                /* rank of the shape; 0: any */
    char role[D9_NAME_SIZE]; /* shell pattern of the name: "head.*"; "": any */
    int part;                /* d9_value.part; 0: any */
} d9_selector;

/* Each trainable parameter belongs to the first group that selects it. */
typedef struct d9_group {
    char name[D9_NAME_SIZE]; /* "weights", "biases" */
    d9_selector selects;
    d9_op op;                          /* an update operation */
    d9_update update;                  /* for D9_OP_UPDATE: the row in kernels/formulas/updates.def */
    double numbers[D9_UPDATE_NUMBERS]; /* hyperparameters of the update, such as momentum */
    bool mean;                         /* takes the mean loss's gradient (Muon: any scale); false: the summed loss's */
    bool per_image;                    /* the learning rate is multiplied by images per update / train.batch_size */
    int average_count; /* the first `average_count` accumulators are moving averages that start at zero (updates.def) */
    int64_t every;     /* update interval, in units of train.accumulate steps; 0: one unit */
    /* Muon: interval, in the units of `every`, at which weights are rescaled to a fixed norm (0: never), and its value
     * at the group's last step, towards which it changes linearly (0: it is constant). */
    int64_t renormalise_every, renormalise_last;
    /* Names of the accumulators that hold the update's states; groups may share them. The first NULL ends the list:
     * further states are read as zero and not kept. */
    const char *accumulators[D9_UPDATE_STATES];
    d9_schedule rate; /* learning rate for a mean loss */
    double rate_multiplier, weight_decay, decay_multiplier;
    double from_epoch, until_epoch; /* epochs between which the group is updated; until_epoch 0: to the end */
    /* A second limit: shares of the run's steps between which the group is updated; until_share 0: to the end.
     * from_share is below 1; however large it is, the group takes part in the run's last update. */
    double from_share, until_share;
    bool rate_ends;     /* the learning rate schedule ends when the group is frozen, not with the run */
    int64_t begin, end; /* element range in STATE and GRADIENT; set by the layout */
} d9_group;
enum { D9_MAX_GROUPS = 144 }; /* freezing splits a group into up to 17, and a second network has groups of its own */
typedef struct d9_groups {
    int count;
    d9_group *group; /* (D9_MAX_GROUPS) */
    d9_arena *arena; /* the program's; for the memory that groups point to */
    double clip; /* largest norm, over all groups, of the gradient of the mean loss: a larger gradient is scaled down
                    before the updates; 0: no limit */
} d9_groups;
/* Inserts a group at index `at`, before the groups from there on. Too many groups: D9_USAGE. */
D9_MUST_USE d9_status d9_group_insert(d9_context *context, d9_groups *groups, int at, const d9_group *group);
/* Moves the parameters of each part (d9_value), from 1 to `parts`, out of their groups into new groups inserted before
 * these: copies, named GROUP.SUFFIXPART, that `change` edits. */
D9_MUST_USE d9_status d9_groups_split(d9_context *context, const d9_graph *graph, d9_groups *groups, int parts,
                                      const char *suffix,
                                      void (*change)(const void *options, int part, d9_group *group),
                                      const void *options);
/* Sets the update row of a group with all properties from updates.def, such as its accumulators. */
void d9_group_set_update(d9_group *group, d9_update update);
bool d9_selector_matches(const d9_selector *selector, const d9_value *parameter);
/* The index of the group to which a trainable parameter belongs; D9_NONE: none. */
int d9_groups_find(const d9_groups *groups, const d9_value *parameter);

/* ---- the tail: whole-buffer nodes after the updates, edited by a trick's on_step ---- */
typedef struct d9_tail_node {
    d9_op op;             /* D9_OP_LERP or D9_OP_COPY */
    d9_buffer to, from;   /* STATE, or an accumulator with its layout */
    d9_coefficient ratio; /* D9_OP_LERP: to = ratio * to + (1 - ratio) * from */
    double power;         /* unless 0, the ratio after step t of T is the constant times (t / T)^power */
    /* Unless 0, the node runs only at the end of the run: in the step before the last `last` updates, if there is one,
     * with a ratio of 0, and in every when.every-th of these updates. Replaces when.offset. */
    int64_t last;
    d9_when when; /* `every` and `offset` in units of train.accumulate steps */
} d9_tail_node;
enum { D9_MAX_TAIL = 8 };
typedef struct d9_tail {
    int count;
    d9_tail_node node[D9_MAX_TAIL];
    d9_buffer evaluate; /* the buffer that evaluations read: STATE, or an accumulator with its layout */
} d9_tail;

/* ---- views of test-time augmentation, edited by a trick's on_views. Their logits are averaged by weight. ---- */
typedef struct d9_view {
    bool mirror;
    int dy, dx; /* shift of the crop, in pixels */
    double weight;
} d9_view;
enum { D9_MAX_VIEWS = 8 };
typedef struct d9_views {
    int count;
    d9_view view[D9_MAX_VIEWS];
    /* Share of the images, the most confident ones in the first view, that get only this view. */
    double first_only_share;
} d9_views;
/* The average number of views per image. */
double d9_views_per_image(const d9_views *views);
/* The number of images out of `images` that get all views: their share, rounded down. */
int64_t d9_views_full_count(const d9_views *views, int64_t images);

/* ---- a second network, described by a trick's on_selection ---- */

/* A second network computes the loss of every image that a step draws; the first network trains on those with the
 * largest losses. All zero: there is no second network. */
typedef struct d9_selection {
    const char *trick;   /* the trick's name, for messages; NULL: no second network */
    const char *network; /* the second network: a row of models.def */
    d9_op order;         /* operation (losses, order) -> samples, in which those to train on come first: D9_OP_RANK */
    char settings[96];   /* options of the second network as a YAML map */
    double share;        /* share of a step's images that the first network trains on */
    int64_t every;       /* update interval of the second network, in steps */
} d9_selection;

/* ---- sizes of the data and the run, and tables ---- */
typedef struct d9_extent {
    int64_t train_samples, eval_samples, height, width, channels, classes, batch; /* batch: of all processes */
    /* Size of the stored training images, if the network sees random crops of them; 0: height and width. */
    int64_t train_height, train_width;
    bool grey;          /* images are stored as one channel, which the batch repeats */
    int64_t vocabulary; /* texts: number of different tokens; their length is `width`, height 1; 0: images */
    /* Numbers of tokens of a stream, which training cuts into `batch` columns and evaluation into eval_batch; 0: no
     * stream. For a stream, train_samples and eval_samples count windows of `width` tokens; the last window of each
     * column is padded. */
    int64_t train_tokens, eval_tokens, eval_batch;
    /* Number of this process, and number of processes; both 0: one process. This process holds batch / ranks samples of
     * a batch, or columns of a stream: numbers rank, rank + ranks, rank + 2 ranks ... */
    int rank, ranks;
    double epochs;
    double mean[4], std[4]; /* per channel, in byte units */
} d9_extent;
static inline int d9_extent_ranks(const d9_extent *extent) { return d9_ranks_of(extent->ranks); }
/* Number of processes that share the columns of a stream's evaluation. 1 if the number of columns is not a multiple of
 * the number of processes: each process then evaluates all columns. */
static inline int d9_extent_eval_ranks(const d9_extent *extent) {
    return extent->eval_batch % d9_extent_ranks(extent) == 0 ? d9_extent_ranks(extent) : 1;
}
static inline int64_t d9_extent_own_batch(const d9_extent *extent) { return extent->batch / d9_extent_ranks(extent); }
/* Shape of the stored samples of training or evaluation: images (count, H, W, C), or texts (count, 1, length, 1). */
d9_shape d9_extent_stored(const d9_extent *extent, bool training);
/* Number of windows of `length` tokens in a column, when `tokens` are cut into `columns`. The label of a token is the
 * next token, so the first token of a column is no label. */
int64_t d9_stream_windows(int64_t tokens, int64_t columns, int64_t length);

typedef struct d9_table {
    const char *name;
    double *values; /* (count), one for each step or for each class */
    int64_t count;
} d9_table;

/* ---- phases, whose changes on_phases adds, and the program ---- */

/* A change of the image size or of the number of batches per step, which begins after a share of the run's steps plus a
 * number of epochs. */
typedef struct d9_phase_change {
    const char *trick; /* the trick's name, for messages */
    double from;       /* share of the steps before the change, 0 to 1 */
    double from_epoch; /* epochs before the change, in addition to those steps */
    double scale;      /* image side as a fraction of the full side; below 1 images are random crops, or resized
                          (D9_AUGMENT_SHRINK); 0: unchanged */
    int64_t batches;   /* batches per step; 0: unchanged */
} d9_phase_change;
enum { D9_MAX_PHASE_CHANGES = 24, D9_MAX_BATCHES = 64 /* of a step */ };
/* Each trick adds its changes in the order of their steps. The scale and the batches of a step are each set by the last
 * change in the array that has begun and sets them. */
typedef struct d9_phase_changes {
    int count;
    d9_phase_change change[D9_MAX_PHASE_CHANGES];
} d9_phase_changes;
/* Appends a change. Too many: D9_USAGE. */
D9_MUST_USE d9_status d9_phase_change_add(d9_context *context, d9_phase_changes *changes, d9_phase_change change);

/* 8: tables of mixed images (5), class weights, accumulation and clipping; the others are of groups and tail nodes. */
enum { D9_MAX_TABLES = 8 + (3 + D9_UPDATE_STATES) * D9_MAX_GROUPS + D9_MAX_TAIL };

/* A range of steps with its own list of nodes, over the same state and updates as `train`: on smaller images, of
 * several batches, or without the gradients of frozen parameters.
 *
 * Steps are counted in batches: a step s of three batches is followed by step s + 3. A node with an interval in
 * steps runs in the step that contains the batch at which it is due. */
typedef struct d9_phase {
    int64_t from, until; /* range of steps; `until` is excluded */
    int64_t batches;     /* per step; a step for which fewer are left in the phase or the epoch runs another list */
    d9_graph list;
} d9_phase;
enum { D9_MAX_PHASES = 48 };

typedef struct d9_program {
    d9_arena arena;
    d9_extent extent;
    /* In batches. `steps` is the options' rate_count if they give rates, else epochs * steps_per_epoch rounded to whole
     * updates. */
    int64_t steps_per_epoch, steps;
    /* Batches per update. If above 1, each step is one batch, and the last step of an update applies the mean of the
     * gradients of its batches. */
    int64_t accumulate;
    const d9_precision *precision;
    const d9_measure *measure; /* score that evaluations report */
    uint64_t seed;
    d9_augmentation augmentation;
    d9_selection selection;
    d9_phase_changes changes;
    d9_groups groups;
    d9_accumulators accumulators;
    d9_tail tail;
    d9_views views;
    d9_graph train, eval;          /* finished node lists */
    d9_node loss;                  /* copy of the node of the training loss, with its label smoothing and class
                                    * weights */
    d9_phase phase[D9_MAX_PHASES]; /* a step runs the first phase in which it fits (d9_phase_can_begin), else `train` */
    int phase_count;
    d9_table *table; /* (D9_MAX_TABLES) */
    int table_count;
    bool keep_all; /* no two scratch values share memory, so all can be read after a step */
    int64_t buffer_bytes[D9_BUFFER_COUNT];
    /* Elements. STATE holds the parameters of the groups, then frozen parameters, then statistics, each value at a
     * multiple of 64 bytes; GRADIENT has only those of the groups. */
    int64_t state_elements, group_elements;
    int64_t trainable_count, frozen_count; /* numbers of parameters, without padding */
} d9_program;

struct d9_trick;
typedef struct d9_program_options {
    uint64_t seed;       /* of the run: key of all random draws */
    const double *rates; /* (rate_count) train.lr by step, of one batch each (verify, --find-lr); NULL: the schedule */
    int64_t rate_count;
    const double *class_weights; /* (extent.classes) weight of an image of each class in the loss; NULL: all 1 */
    int64_t steps_per_epoch;     /* 0: from the extent (verify sets it) */
    int longest_rule;            /* nodes of the longest rule of the backend; 0: unknown, the maximum is assumed */
    bool keep_all;               /* as in the program */
    bool eval_only; /* no gradients, updates, phases and second network: `train` is the forward graph. SCRATCH is sized
                     * for evaluation; GRADIENT, GUARD and the groups' accumulators are empty */
    bool logits;    /* evaluation steps of a stream write logits, as those of other samples do, and no losses */
    bool features;  /* sets eval.features, which can be read after an evaluation step */
    const struct d9_trick *const *tricks; /* more tricks, without options, after the configuration's (tests) */
    int trick_count;
} d9_program_options;

void d9_program_free(d9_context *context, d9_program *program);

/* The number of batches of the step that begins at `step`; the next step begins at `step` plus this number. */
int64_t d9_program_batches(const d9_program *program, int64_t step);
/* The number of images on which a step trains if it draws `images`. */
int64_t d9_program_selected(const d9_program *program, int64_t images);
/* The number of images that this step trains on. */
int64_t d9_program_images(const d9_program *program, int64_t step);
/* The number of losses that this step sums: one per image, or per token that has a label in a stream. */
int64_t d9_program_losses(const d9_program *program, int64_t step);
/* The number of epochs that the first `steps` steps begin; the last of them may be incomplete. */
int64_t d9_program_epochs_begun(const d9_program *program, int64_t steps);
/* The step before the step that begins at `step` > 0; if `step` is program->steps, the last step of the run. */
int64_t d9_program_step_before(const d9_program *program, int64_t step);
/* True if a step of the phase can begin at `step`: all its batches must lie within the phase and within one epoch. */
bool d9_phase_can_begin(const d9_program *program, const d9_phase *phase, int64_t step);
/* The phase of a step; D9_NONE if the step runs `train`. */
int d9_program_phase(const d9_program *program, int64_t step);
/* The number of steps, from `step` on, that run the same list, up to the end of the epoch or the next phase
 * boundary. */
int64_t d9_program_steps_of_list(const d9_program *program, int64_t step);
/* The node list of the step that begins at `step`. */
const d9_graph *d9_program_list(const d9_program *program, int64_t step);
/* A typical step: the first step of the list that trains on most batches of the run. */
int64_t d9_program_usual_step(const d9_program *program);
/* Rounds a number of steps to a whole number of updates, and returns it in steps. */
int64_t d9_program_round_to_update(const d9_program *program, double steps);
/* The first step in which a group may be updated. Before it, the group is frozen. */
int64_t d9_group_from(const d9_program *program, const d9_group *group);
/* The step at which a group is frozen; the number of steps of the run if it never is. */
int64_t d9_group_until(const d9_program *program, const d9_group *group);
bool d9_group_is_frozen(const d9_program *program, const d9_group *group, int64_t step);
/* The value of a schedule over `epochs` epochs for a step: at the end of the step or, with schedule->at_start, at the
 * start of the update that the step belongs to. */
double d9_program_rate(const d9_program *program, const d9_schedule *schedule, double epochs, int64_t step);
/* The factor on a group's schedule in a step: rate_multiplier; with per_image, times images per update / batch_size. */
double d9_group_multiplier(const d9_program *program, const d9_group *group, int64_t step);
/* A group's learning rate in step `step` (from 0), for a mean loss, with its multiplier; undefined once frozen. */
double d9_group_rate(const d9_program *program, const d9_group *group, int64_t step);

/* The name of a buffer: "state", "velocity"; accumulators have their own names. */
const char *d9_program_buffer_name(const d9_program *program, d9_buffer buffer);
/* True for STATE and for accumulators with its layout. */
bool d9_program_has_state_layout(const d9_program *program, d9_buffer buffer);

/* True if `when` is active in the step of `batches` batches that begins at `step`. */
bool d9_when_active(const d9_when *when, int64_t step, int64_t batches, int64_t steps_per_epoch);
bool d9_when_equal(const d9_when *a, const d9_when *b); /* compares all fields */
/* The class weights (classes) of a loss node or of its gradient; NULL: all 1. */
const double *d9_class_weights(const d9_program *program, const d9_node *loss);
/* The value of a coefficient in the step that begins at `step`. */
double d9_coefficient_at(const d9_program *program, const d9_coefficient *coefficient, int64_t step);

/* ---- the layout of parameters, statistics and buffers (layout.c) ---- */
/* Sets the offsets of parameters, gradients and statistics, the groups' ranges, and the program's element counts. */
D9_MUST_USE d9_status d9_layout_state(d9_context *context, d9_program *program);
/* Gives parameters (and their gradients) and statistics of `to` the offsets of those with the same name in `from`. */
void d9_layout_copy(const d9_graph *from, d9_graph *to);
/* Plans the scratch memory of all lists, places the states that they carry from step to step, and sets the size of
 * every buffer. */
D9_MUST_USE d9_status d9_layout_buffers(d9_context *context, d9_program *program, const d9_program_options *options);

/* The largest shift of any view in either direction, in pixels: the padding that evaluation needs. */
int d9_views_padding(const d9_views *views);
