/* Arms in the making: what a file or an ablation says of one, until its configuration is loaded. */
#ifndef D9_EXPERIMENT_DRAFT_H
#define D9_EXPERIMENT_DRAFT_H

#include "config/tree.h"
#include "experiment/experiment.h"

typedef struct d9_draft {
    const char *name, *label, *baseline, *config, *trick;
    bool companions;
    const d9_tree *node;      /* the arm's, for its place; NULL: none */
    const d9_tree *published; /* rows of what was published of this arm; NULL: what its file says */
    d9_config_edits edits;
    const d9_grid_point *grid;
    int grid_count;
} d9_draft;

/* Adds --set KEY=VALUE. `node` is the place of the key in the file; NULL: an ablation's edit has none. */
D9_MUST_USE d9_status d9_draft_set(d9_context *context, d9_arena *arena, d9_config_edits *edits, const char *key,
                                   const d9_tree *value, const d9_tree *node);
/* Appends edits that all arms have. */
D9_MUST_USE d9_status d9_draft_share(d9_context *context, d9_arena *arena, d9_config_edits *edits,
                                     const d9_config_edits *from);

/* The draft as an arm: loads its configuration. A refusal names the edit's place in the file. */
D9_MUST_USE d9_status d9_draft_settle(d9_context *context, d9_arena *arena, const d9_draft *draft, d9_arm *arm);

/* experiment->command: `verb` is ablate or experiment; `only` the tricks that an ablation was asked for. */
D9_MUST_USE d9_status d9_experiment_say(d9_context *context, d9_experiment *experiment, const char *verb,
                                        const char *const *only, int only_count, const d9_experiment_options *options);

/* Names differ, and every baseline is an arm; finds the arms that share their runs. */
D9_MUST_USE d9_status d9_arms_check(d9_context *context, d9_experiment *experiment);

/* The arms of an ablation of `base` (config and edits). `only` as in d9_experiment_ablation. */
D9_MUST_USE d9_status d9_ablation_arms(d9_context *context, const d9_draft *base, const char *const *only,
                                       int only_count, d9_experiment *experiment);

#endif
