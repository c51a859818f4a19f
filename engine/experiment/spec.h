/* An experiment's file while it is read: what its readers share. */
#ifndef D9_EXPERIMENT_SPEC_H
#define D9_EXPERIMENT_SPEC_H

#include "experiment/draft.h"

enum { D9_RUNS_MAX = 100000 };

typedef struct d9_spec_head { /* the keys of a file that are plain values */
    const char *title, *question, *config;
    int keep;
    int64_t checkpoint_every;
} d9_spec_head;

typedef struct d9_grid {
    const d9_tree *map; /* KEY -> list; NULL: none */
    int64_t points;     /* the product of the lists' lengths; 1 without a grid */
} d9_grid;

typedef struct d9_spec {
    d9_context *context;
    d9_arena *arena;
    d9_experiment *experiment;
    const d9_tree *root;
    d9_spec_head head;
    d9_config_edits shared; /* edits of every arm */
    d9_config_edits added;  /* the command line's: after all others, the grid's too */
    d9_grid grid;
} d9_spec;

/* The seeds 1 to `count`. */
D9_MUST_USE d9_status d9_seeds_count(d9_context *context, d9_experiment *experiment, int64_t count);
/* The file's `seeds`: how many, or which; `instead`, if not 0, how many instead. */
D9_MUST_USE d9_status d9_spec_seeds(d9_spec *spec, int64_t instead);

/* Leaves of a text what may stand in a folder's name. */
void d9_spec_name(char *text);

D9_MUST_USE d9_status d9_spec_grid(d9_spec *spec);
/* The draft at point `index` of the grid: edits, name, label, baseline. The last axis changes fastest. */
D9_MUST_USE d9_status d9_spec_point(d9_spec *spec, int64_t index, d9_draft *draft);

#endif
