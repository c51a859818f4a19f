/* The step program: a training run as data.
 *
 * config -> model -> tricks -> precision -> gradients -> groups and tail -> layout = this (build/build.h). A backend
 * plans it and runs it; nothing in it is a callback (initialisers apart, which run once before the first step). */
#ifndef D9_STEP_PROGRAM_H
#define D9_STEP_PROGRAM_H

#include "core/arena.h"
#include "core/schedule.h"
#include "graph/passes.h"
#include "step/augment.h"

/* ---- accumulators: what updates and the tail keep between steps beside the state, by name ---- */
typedef enum d9_accumulator_layout {
    D9_ACCUMULATOR_OF_GROUPS, /* an element for each of the groups' parameters, where GRADIENT has its; starts at zero
                               */
    D9_ACCUMULATOR_OF_STATE   /* an element for each of STATE's, which it starts as */
} d9_accumulator_layout;
typedef struct d9_accumulator {
    const char *name;
    d9_accumulator_layout layout;
} d9_accumulator;
typedef struct d9_accumulators { /* number i lies in the buffer D9_BUFFER_ACCUMULATORS + i */
    int count;
    d9_accumulator accumulator[D9_MAX_ACCUMULATORS];
} d9_accumulators;
/* A new one. The name was taken before: D9_USAGE, so that two tricks never share one by accident. */
D9_MUST_USE d9_status d9_accumulator_add(d9_context *context, d9_accumulators *accumulators, const char *name,
                                         d9_accumulator_layout layout, d9_buffer *buffer);
/* D9_BUFFER_COUNT: there is none of this name. */
d9_buffer d9_accumulator_find(const d9_accumulators *accumulators, const char *name);

/* ---- parameter groups: what on_optimizer edits ---- */

/* What agrees with all that is said. */
typedef struct d9_selector {
    unsigned kinds;          /* bits 1u << d9_parameter_kind; 0: any */
    int rank;                /* of the shape; 0: any */
    char role[D9_NAME_SIZE]; /* pattern of the name, as a shell's: "head.*"; "": any */
    int frozen_group;        /* only those whose value has this number; 0: any */
} d9_selector;

/* Each trainable parameter belongs to the first group that selects it. */
typedef struct d9_group {
    char name[D9_NAME_SIZE]; /* "weights", "biases" */
    d9_selector selects;
    d9_op op;         /* whose record says that it is an update */
    d9_update update; /* of D9_OP_UPDATE: its row in kernels/formulas/updates.def */
    double numbers[D9_UPDATE_NUMBERS];
    bool mean;      /* moves by the mean loss, whatever the batch, not by the sum */
    bool per_image; /* the rate is for learning from one batch: a step that learns from two has twice as much */
    int averages;   /* of what it keeps: the first so many are moving averages that start at zero (updates.def) */
    int64_t every;  /* steps from one in which it moves to the next; 0: it moves in each */
    /* Steps from one return to the norm to the next; 0: none. By the end they have become `last`; 0: they stay. */
    int64_t renormalise_every, renormalise_last;
    /* What the row keeps, by name, shared with other groups. NULL ends the list: the rest is zero at every step. */
    const char *accumulators[D9_UPDATE_STATES];
    d9_schedule rate; /* as for a mean loss */
    double rate_multiplier, weight_decay, decay_multiplier;
    double from_epoch, until_epoch; /* the steps in which it moves; until 0: to the end */
    double until_share;             /* of the run, if that is earlier; 0: to the end */
    bool rate_ends;                 /* the end of its rate's schedule is the group's, not the run's */
    int64_t begin, end;             /* element range in STATE and GRADIENT; set by the layout */
} d9_group;
enum { D9_MAX_GROUPS = 144 }; /* 17 of each of two, and those of a second network twice as many */
typedef struct d9_groups {
    int count;
    d9_group group[D9_MAX_GROUPS];
} d9_groups;
/* Puts a group at place `at`, before those that were there from there on. Too many: D9_USAGE. */
D9_MUST_USE d9_status d9_group_insert(d9_context *context, d9_groups *groups, int at, const d9_group *group);
/* The row, with the names of what it keeps and what else updates.def says. */
void d9_group_set_update(d9_group *group, d9_update update);
bool d9_selector_takes(const d9_selector *selector, const d9_value *parameter);
/* The group a trainable parameter belongs to; D9_NONE: none. */
int d9_groups_find(const d9_groups *groups, const d9_value *parameter);

/* ---- the tail: whole-buffer nodes after the updates; what on_step edits ---- */
typedef struct d9_tail_node {
    d9_op op;           /* D9_OP_LERP or D9_OP_COPY */
    d9_buffer to, from; /* STATE, or an accumulator of it */
    d9_coefficient ratio;
    double power; /* not 0: after step t of T the ratio is the constant times (t / T)^power */
    d9_when when;
} d9_tail_node;
enum { D9_MAX_TAIL = 8 };
typedef struct d9_tail {
    int count;
    d9_tail_node node[D9_MAX_TAIL];
    d9_buffer evaluate; /* the state evaluations read: STATE, or an accumulator of it */
} d9_tail;

/* ---- evaluation views: what on_views edits. Logits are averaged with these weights. ---- */
typedef struct d9_view {
    bool mirror;
    int dy, dx;
    double weight;
} d9_view;
enum { D9_MAX_VIEWS = 8 };
typedef struct d9_views {
    int count;
    d9_view view[D9_MAX_VIEWS];
    double alone; /* share of the images, those of which the first view is surest, for which it answers alone */
} d9_views;
/* Views an image, on average. */
double d9_views_an_image(const d9_views *views);

/* ---- a second network: what on_selection fills in ---- */

/* A second network computes the loss of every image that a step draws; the network learns from those with the largest
 * losses. All zero: it learns from every image. */
typedef struct d9_selection {
    const char *trick;   /* its name, for messages; NULL: no second network */
    const char *network; /* a row of models.def */
    d9_op order;         /* (loss, order) -> samples, those to train on first: D9_OP_RANK */
    char settings[96];   /* the network's options as a YAML map */
    double share;        /* of a step's images: how many the network learns from */
    int64_t every;       /* update interval of the second network, in steps */
} d9_selection;

/* ---- what the run is over ---- */
typedef struct d9_extent {
    int64_t train_images, eval_images, height, width, channels, classes, batch;
    double epochs;
    double mean[4], std[4]; /* per channel, in byte units */
} d9_extent;

typedef struct d9_table {
    const char *name;
    double *values;
    int64_t count;
} d9_table; /* by step, or by class */

/* ---- phases: what on_phases edits ---- */

/* From a share of the run's steps on, images have another size or a step draws another number of batches. */
typedef struct d9_phase_change {
    const char *trick; /* its name, for messages */
    double from;
    double scale;    /* of an image's sides, at most 1: random crops of this size; 0: the size stays */
    int64_t batches; /* of a step; 0: the number stays */
} d9_phase_change;
enum { D9_MAX_PHASE_CHANGES = 24, D9_MAX_BATCHES = 64 /* of a step */ };
typedef struct d9_phase_changes { /* where two apply, the later row counts */
    int count;
    d9_phase_change change[D9_MAX_PHASE_CHANGES];
} d9_phase_changes;
/* Appends a change. Too many: D9_USAGE. */
D9_MUST_USE d9_status d9_phase_change_add(d9_context *context, d9_phase_changes *changes, d9_phase_change change);

enum { D9_MAX_TABLES = 2 + (3 + D9_UPDATE_STATES) * D9_MAX_GROUPS + D9_MAX_TAIL };

/* Steps that run another list than `train`, over the same state and the same updates: on smaller images, of several
 * batches at once, or without the gradients of what no longer moves.
 *
 * Steps are counted in batches: one that takes three is followed by the third behind it. What happens every so many
 * steps happens in one that holds such a batch. */
typedef struct d9_phase {
    int64_t from, until; /* steps, until excluded */
    int64_t batches;     /* that a step takes; where fewer are left in the phase or the epoch, another list serves */
    d9_graph list;
} d9_phase;
enum { D9_MAX_PHASES = 48 };

typedef struct d9_program {
    d9_arena arena;
    d9_extent extent;
    int64_t steps_per_epoch, steps; /* the last partial batch is dropped; steps = round(epochs * per epoch) */
    const d9_precision *precision;
    uint64_t seed;
    d9_augmentation augmentation;
    d9_selection selection;
    d9_phase_changes changes;
    d9_groups groups;
    d9_accumulators accumulators;
    d9_tail tail;
    d9_views views;
    d9_graph train, eval;          /* finished node lists */
    d9_phase phase[D9_MAX_PHASES]; /* in the order of their steps; all others run `train` */
    int phase_count;
    d9_table table[D9_MAX_TABLES];
    int table_count;
    bool keep_all; /* every scratch value keeps its place after the step */
    int64_t buffer_bytes[D9_BUFFER_COUNT];
    /* Elements. STATE holds the groups' parameters, the frozen ones, then the statistics, each value at a
     * multiple of 64 bytes; GRADIENT covers the groups alone. */
    int64_t state_elements, group_elements;
    int64_t trainable_count, frozen_count; /* parameters proper, without the gaps */
} d9_program;

struct d9_trick;
typedef struct d9_program_options {
    uint64_t seed;       /* of the run: key of every draw */
    const double *rates; /* one per step instead of the schedule; NULL: the schedule (verify sets it) */
    int64_t rate_count;
    const double *class_weights; /* (extent.classes) what an image of each counts in the loss; NULL: each counts 1 */
    int64_t steps_per_epoch;     /* 0: from the extent (verify sets it) */
    int longest_rule;            /* nodes of the longest rule of the backend; 0: not known, the longest there may be */
    bool keep_all;               /* as in the program */
    bool eval_only; /* no memory for training: SCRATCH as evaluation needs it, GRADIENT and the like empty */
    bool features;  /* eval.features is set, and can be read after an evaluation step */
    const struct d9_trick *const *tricks; /* further ones without options, after the configuration's (tests) */
    int trick_count;
} d9_program_options;

void d9_program_free(d9_context *context, d9_program *program);

/* How many batches a step takes that begins with this one, from 1 on, and so how far away the next step is. */
int64_t d9_program_batches(const d9_program *program, int64_t step);
/* Of so many images that a step takes, how many it learns from. */
int64_t d9_program_learned(const d9_program *program, int64_t images);
/* Images that this step learns from. */
int64_t d9_program_images(const d9_program *program, int64_t step);
/* The step that is followed by this one, from 1 on. */
int64_t d9_program_step_before(const d9_program *program, int64_t step);
/* Whether a step of the phase has room from this one on: before the phase ends, and the epoch. */
bool d9_phase_has_room(const d9_program *program, const d9_phase *phase, int64_t step);
/* The phase of a step, or D9_NONE: the step runs `train`. */
int d9_program_phase(const d9_program *program, int64_t step);
/* How many steps of the same list, from this one on, follow each other before the epoch or a phase ends or begins. */
int64_t d9_program_alike(const d9_program *program, int64_t step);
/* The list that a step of training runs. */
const d9_graph *d9_program_list(const d9_program *program, int64_t step);
/* A step of the list that most steps run: what a step usually is. */
int64_t d9_program_usual_step(const d9_program *program);
/* The step from which on a group no longer moves: the run's steps, where it moves to the end. */
int64_t d9_group_until(const d9_program *program, const d9_group *group);
/* What a schedule over so many epochs has for that step: at its end, or at its start. */
double d9_program_rate(const d9_program *program, const d9_schedule *schedule, double epochs, int64_t step);
/* What multiplies the schedule's value in that step: with per_image also the batches that are learned from. */
double d9_group_multiplier(const d9_program *program, const d9_group *group, int64_t step);
/* The group's rate in that step, from 0, as for a mean loss, its multiplier in it; behind its end it means nothing. */
double d9_group_rate(const d9_program *program, const d9_group *group, int64_t step);

/* "state", "velocity": an accumulator by its own name. */
const char *d9_program_buffer_name(const d9_program *program, d9_buffer buffer);

/* In a step that takes `batches` from this one on. */
bool d9_when_active(const d9_when *when, int64_t step, int64_t batches, int64_t steps_per_epoch);
/* (classes) of a loss node, or its gradient: what an image of each class counts. NULL: each counts 1. */
const double *d9_class_weights(const d9_program *program, const d9_node *loss);
double d9_coefficient_at(const d9_program *program, const d9_coefficient *coefficient, int64_t step);

#endif
