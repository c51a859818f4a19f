/* Lists of edits of a configuration, made by --with, --without, --set, an arm of an experiment or an ablation. */
#pragma once

#include "core/arena.h"
#include "core/text.h"

typedef enum d9_config_edit_kind { D9_EDIT_WITH, D9_EDIT_WITHOUT, D9_EDIT_SET } d9_config_edit_kind;

typedef struct d9_config_edit {
    d9_config_edit_kind kind;
    const char *text;           /* with: "ema" or "ema:every=5,momentum=0.9"; without: "ema"; set: "train.epochs=3" */
    const char *option;         /* the option that is short for this --set: "--seed" for "seed=4"; NULL: none */
    const struct d9_tree *node; /* the edit in the file of an experiment; NULL: not from a file */
    bool shared;                /* all arms of the experiment have this edit */
} d9_config_edit;

/* A `with` of a trick that is on changes the options it names; a `set` of an option whose trick is off is rejected. */
typedef struct d9_config_edits {
    d9_config_edit *items;
    int count, capacity;
    bool eval_only; /* the configuration trains nothing: checks of early stopping and of keep: best are left out */
} d9_config_edits;

/* Inserts the edit after all others of its kind, so that the order of the list is with, without, set. */
D9_MUST_USE d9_status d9_config_edits_add(d9_context *context, d9_arena *arena, d9_config_edits *edits,
                                          d9_config_edit edit);
D9_MUST_USE d9_status d9_config_edits_append(d9_context *context, d9_arena *arena, d9_config_edits *edits,
                                             const d9_config_edits *from);

const char *d9_config_edit_option(d9_config_edit_kind kind); /* "--with", "--without" or "--set" */
/* Appends the edit as on a shell's command line: "--without ema", "--set 'model.channels=[4, 8]'". */
void d9_config_edit_write(const d9_config_edit *edit, d9_text *text);
