/* The step program: a training run as data.
 *
 * config -> model -> tricks -> precision -> gradients -> groups and tail -> layout = this. A backend plans it
 * and runs it; nothing in it is a callback (initialisers apart, which run once before the first step). */
#ifndef D9_STEP_PROGRAM_H
#define D9_STEP_PROGRAM_H

#include "core/arena.h"
#include "graph/passes.h"
#include "step/augment.h"

/* ---- parameter groups: what on_optimizer edits ---- */
typedef struct d9_group {
    const char *name; /* "weights", "biases" */
    double rate_multiplier, decay_multiplier;
    double momentum;
    d9_momentum_form form;
    d9_when when;
    int64_t begin, end; /* element range in STATE, GRADIENT and VELOCITY; set by the layout */
} d9_group;
enum { D9_GROUP_WEIGHTS, D9_GROUP_BIASES, D9_MAX_GROUPS = 8 };
typedef struct d9_groups { int count; d9_group group[D9_MAX_GROUPS]; } d9_groups;

/* ---- the tail: whole-buffer nodes after the updates; what on_step edits ---- */
typedef struct d9_tail_node {
    d9_op op; /* D9_OP_LERP or D9_OP_COPY */
    d9_buffer to, from;
    d9_coefficient ratio;
    d9_when when;
} d9_tail_node;
enum { D9_MAX_TAIL = 8 };
typedef struct d9_tail {
    int count;
    d9_tail_node node[D9_MAX_TAIL];
    d9_buffer evaluate; /* the state evaluations read: STATE, or AVERAGE */
} d9_tail;

/* ---- evaluation views: what on_views edits. Logits are averaged with these weights. ---- */
typedef struct d9_view { bool mirror; int dy, dx; double weight; } d9_view;
enum { D9_MAX_VIEWS = 8 };
typedef struct d9_views { int count; d9_view view[D9_MAX_VIEWS]; } d9_views;

/* ---- what the run is over ---- */
typedef struct d9_extent {
    int64_t train_images, eval_images, height, width, channels, classes, batch;
    double epochs;
    double mean[4], std[4]; /* per channel, in byte units */
} d9_extent;

typedef struct d9_table { const char *name; double *values; int64_t count; } d9_table; /* indexed by step */
enum { D9_MAX_TABLES = 8 };

typedef struct d9_program {
    d9_arena arena;
    d9_extent extent;
    int64_t steps_per_epoch, steps; /* the last partial batch is dropped; steps = round(epochs * per epoch) */
    const d9_precision *precision;
    uint64_t seed;
    d9_augmentation augmentation;
    d9_groups groups;
    d9_tail tail;
    d9_views views;
    d9_graph train, eval; /* finished node lists */
    d9_table table[D9_MAX_TABLES];
    int table_count;
    int64_t buffer_bytes[D9_BUFFER_COUNT];
    /* Elements. STATE holds the groups' parameters, the frozen ones, then the statistics, each value at a
     * multiple of 64 bytes; GRADIENT and VELOCITY cover the groups alone. */
    int64_t state_elements, group_elements;
    int64_t trainable_count, frozen_count; /* parameters proper, without the gaps */
} d9_program;

typedef struct d9_program_options {
    uint64_t seed; /* of the run: key of every draw */
    const double *rates; /* one per step instead of the schedule; NULL: the schedule (verify sets it) */
    int64_t rate_count;
    int64_t steps_per_epoch; /* 0: from the extent (verify sets it) */
    bool keep_all;           /* every scratch value keeps its place after the step */
    bool eval_only;          /* no memory for training: SCRATCH as evaluation needs it, GRADIENT and VELOCITY empty */
} d9_program_options;

void d9_program_free(d9_context *context, d9_program *program);

bool d9_when_active(const d9_when *when, int64_t step, int64_t steps_per_epoch);
double d9_coefficient_at(const d9_program *program, const d9_coefficient *coefficient, int64_t step);

#endif
