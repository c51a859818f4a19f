/* A trick: one file that ends in one const struct, and one row in tricks.def.
 *
 * Every hook is optional and is called before planning, once for each forward graph that is built. D9_USAGE: the trick
 * does not suit network or options. A trick edits data (graph, augmentation, phases, second network, groups,
 * accumulators, tail, views) and runs no code while training, so a trick that is off costs nothing. */
#pragma once

#include "core/option.h"
#include "graph/edit.h"
#include "graph/init.h"
#include "step/program.h"

enum { D9_MAX_CONFLICTS = 4 };

typedef struct d9_trick {
    const char *name;
    const char *doc;          /* one phrase: what the trick does and, unless that is plain, why */
    const char *source;       /* paper, or repository@commit and place */
    const char *effect;       /* its published effect */
    const d9_option *options; /* ends with an all-zero row; NULL: none */
    size_t options_size;
    const char *peak; /* key of the option with the peak of the trick's own learning rate schedule; NULL: none */
    const char *conflicts[D9_MAX_CONFLICTS]; /* tricks that cannot be on together with this one; NULL: end of list */
    const char *one_process; /* reason why several processes cannot share a batch with this trick; NULL: they can */
    /* The hooks, in call order. Each edits its last argument; on_loss edits the node `loss` of `graph` (D9_NONE: none),
     * on_step also the accumulators. */
    d9_status (*on_model)(d9_context *context, const void *options, d9_graph *graph); /* the forward graph */
    d9_status (*on_loss)(d9_context *context, const void *options, d9_graph *graph, d9_node_id loss);
    d9_status (*on_augment)(d9_context *context, const void *options, d9_augmentation *augmentation);
    d9_status (*on_phases)(d9_context *context, const void *options, d9_phase_changes *changes);
    d9_status (*on_selection)(d9_context *context, const void *options, d9_selection *selection);
    /* on_init sets fields of parameters: initial values, whether they are trained, and d9_value.part, by which
     * on_optimizer selects them */
    d9_status (*on_init)(d9_context *context, const void *options, d9_graph *graph);
    d9_status (*on_optimizer)(d9_context *context, const void *options, const d9_graph *graph, d9_groups *groups);
    d9_status (*on_step)(d9_context *context, const void *options, d9_accumulators *accumulators, d9_tail *tail);
    d9_status (*on_views)(d9_context *context, const void *options, d9_views *views);
} d9_trick;

enum {
#define D9_TRICK(name) D9_TRICK_##name,
#include "tricks.def"
#undef D9_TRICK
    D9_TRICK_COUNT
};

const d9_trick *d9_trick_at(int index); /* in tricks.def order, in which hooks run; NULL: no such index */
int d9_trick_index(const char *name);   /* -1: unknown */
bool d9_tricks_conflict(int a, int b);  /* true if one lists the other in `conflicts` */

/* Measured effect of a trick, a row of measured.def: accuracy of runs without the trick (D9_LEFT_OUT) or with it
 * (D9_ADDED), minus that of the baseline, in percentage points. D9_ADDED_TO_NONE: the baseline has no tricks. */
typedef enum d9_measured_side { D9_LEFT_OUT, D9_ADDED, D9_ADDED_TO_NONE } d9_measured_side;
typedef struct d9_measured {
    int trick;              /* index in tricks.def */
    const char *experiment; /* experiments/EXPERIMENT.yaml */
    d9_measured_side side;
    bool companions;        /* the trick's companions, settings under `ablate` in the configuration, changed with it */
    const char *instead_of; /* the trick that it replaced; NULL: none */
    int runs; /* pairs of runs that share a seed; of an unpaired comparison, runs of the arm */
    double difference, low, high; /* low, high: 95% interval */
    double p;                     /* p-value of no difference, with Holm's correction over the experiment */
} d9_measured;
const d9_measured *d9_measured_at(int index); /* NULL past the end */

/* Returns D9_USAGE. The message says that the trick finds nothing to edit, that `why` is the reason, and that --without
 * leaves it out. */
d9_status d9_trick_reject(d9_context *context, const char *trick, const char *why);
