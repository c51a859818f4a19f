/* Arms in the making: what a file or an ablation says of one, until its configuration is loaded. */
#ifndef D9_EXPERIMENT_DRAFT_H
#define D9_EXPERIMENT_DRAFT_H

#include "config/tree.h"
#include "experiment/experiment.h"

typedef enum d9_edit_kind { D9_EDIT_WITH, D9_EDIT_WITHOUT, D9_EDIT_SET } d9_edit_kind; /* applied in this order */

typedef struct d9_edit {
    d9_edit_kind kind;
    const char *text;    /* as on the command line, without the option's name */
    const d9_tree *node; /* where it was said; NULL: the command line, or an ablation */
    const char *by;      /* of D9_EDIT_SET, as d9_config_edits.set_by has it */
    bool shared;         /* by all arms: not what sets this one apart */
} d9_edit;

typedef struct d9_edit_list {
    d9_edit *items;
    int count, capacity;
} d9_edit_list;

typedef struct d9_draft {
    const char *name, *label, *baseline, *config, *trick;
    bool companions;
    const d9_tree *node;      /* the arm's, for its place; NULL: none */
    const d9_tree *published; /* rows of what was published of this arm; NULL: what its file says */
    d9_edit_list edits;
    const d9_grid_point *grid;
    int grid_count;
} d9_draft;

D9_MUST_USE d9_status d9_edit_add(d9_context *context, d9_arena *arena, d9_edit_list *list, d9_edit_kind kind,
                                  const char *text, const d9_tree *node);
/* --set KEY=VALUE */
D9_MUST_USE d9_status d9_edit_set(d9_context *context, d9_arena *arena, d9_edit_list *list, const char *key,
                                  const d9_tree *value, const d9_tree *node);
D9_MUST_USE d9_status d9_edit_append(d9_context *context, d9_arena *arena, d9_edit_list *list,
                                     const d9_edit_list *from);
void d9_edit_share(d9_edit_list *list); /* marks them all */
/* What the command line says, shared. */
D9_MUST_USE d9_status d9_edit_add_options(d9_context *context, d9_arena *arena, d9_edit_list *list,
                                          const d9_config_edits *edits);

/* The draft as an arm: loads its configuration. A refusal names the edit's place in the file. */
D9_MUST_USE d9_status d9_draft_settle(d9_context *context, d9_arena *arena, const d9_draft *draft, d9_arm *arm);

/* As a shell's command line says it: "--without ema", "--set 'model.channels=[4, 8]'". */
D9_MUST_USE d9_status d9_edits_format(d9_context *context, d9_arena *arena, const d9_edit_list *list, bool shared,
                                      d9_edit_texts *texts);

/* experiment->command: `verb` is ablate or experiment; `only` the tricks that an ablation was asked for. */
D9_MUST_USE d9_status d9_experiment_say(d9_context *context, d9_experiment *experiment, const char *verb,
                                        const char *const *only, int only_count, const d9_experiment_options *options);

/* Names differ, and every baseline is an arm; finds the arms that share their runs. */
D9_MUST_USE d9_status d9_arms_check(d9_context *context, d9_experiment *experiment);

/* The arms of an ablation of `base` (config and edits). `only` as in d9_experiment_ablation. */
D9_MUST_USE d9_status d9_ablation_arms(d9_context *context, const d9_draft *base, const char *const *only,
                                       int only_count, d9_experiment *experiment);

#endif
