/* Drafts: arms of an experiment before their configurations are loaded. */
#pragma once

#include "config/tree.h"
#include "experiment/experiment.h"

typedef struct d9_draft {
    const char *name, *label, *baseline, *config, *trick; /* config: path; label NULL: the name; others: as in d9_arm */
    bool companions;
    const d9_tree *node;      /* place in the file for errors of the configuration; NULL: none */
    const d9_tree *published; /* the file's rows of published results; NULL: those of the configuration */
    d9_config_edits edits;
    const d9_grid_setting *grid;
    int grid_count, grid_edits; /* rows of `grid`; edits that set them (a map of a trick's options takes two) */
} d9_draft;

/* Adds the edit of --set KEY=VALUE. `node`: place of the key in the experiment file; NULL: not from a file. */
D9_MUST_USE d9_status d9_draft_set(d9_context *context, d9_arena *arena, d9_config_edits *edits, const char *key,
                                   const d9_tree *value, const d9_tree *node);
/* Adds the edits of `from` as d9_config_edits_add does, marked as shared by all arms. */
D9_MUST_USE d9_status d9_draft_add_shared(d9_context *context, d9_arena *arena, d9_config_edits *edits,
                                          const d9_config_edits *from);

/* Loads the draft's configuration, applies its edits and fills `arm`. An error in an edit that comes from the file of
 * the experiment is reported with its line there. */
D9_MUST_USE d9_status d9_draft_resolve(d9_context *context, d9_arena *arena, const d9_draft *draft, d9_arm *arm);

/* Sets experiment->command. `verb` is ablate or experiment; `only` are the tricks selected for an ablation. */
D9_MUST_USE d9_status d9_experiment_set_command(d9_context *context, d9_experiment *experiment, const char *verb,
                                                const char *const *only, int only_count,
                                                const d9_experiment_options *options);

/* Checks that arm names differ and that every baseline is another arm, and sets `runs_of` of every arm. */
D9_MUST_USE d9_status d9_arms_link(d9_context *context, d9_experiment *experiment);

/* Adds the arms of an ablation of `base` (configuration and edits). `only` as in d9_experiment_ablation. */
D9_MUST_USE d9_status d9_ablation_make_arms(d9_context *context, const d9_draft *base, const char *const *only,
                                            int only_count, d9_experiment *experiment);
