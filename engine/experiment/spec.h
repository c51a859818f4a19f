/* State shared by the readers of an experiment file. */
#pragma once

#include "experiment/draft.h"

enum { D9_RUNS_MAX = 100000 };

typedef struct d9_spec_head { /* keys with plain values */
    const char *title, *question, *config;
    int keep;
    int64_t checkpoint_every;
} d9_spec_head;

typedef struct d9_grid {
    const d9_tree *map; /* KEY -> list of values; NULL: no grid */
    int64_t points;     /* product of the lists' lengths; 1 without a grid */
} d9_grid;

typedef struct d9_spec {
    d9_context *context;
    d9_arena *arena;
    d9_experiment *experiment;
    const d9_tree *root;
    d9_spec_head head;
    d9_config_edits shared; /* the file's edits of every arm */
    d9_config_edits added;  /* edits of the command line, applied after the file's, but before those of `ablate` */
    d9_grid grid;
} d9_spec;

/* Sets the seeds 1 to `count`. */
D9_MUST_USE d9_status d9_seeds_set_first(d9_context *context, d9_experiment *experiment, int64_t count);
/* Reads the file's `seeds`, a number (default 5) or a list. If `instead` is not 0, sets the seeds 1 to `instead`. */
D9_MUST_USE d9_status d9_spec_read_seeds(d9_spec *spec, int64_t instead);

/* Makes `text` fit for the name of a folder: removes spaces, square brackets, braces and quotes; slashes, commas,
 * parentheses and other special characters become dashes. The result may be "" or begin with a dot. */
void d9_spec_clean_folder_name(char *text);

/* Adds the edit of --with NAME if `key` is tricks.NAME. It switches the trick on and leaves its options as they are.
 * `node`: place of the key in the file. */
D9_MUST_USE d9_status d9_spec_add_trick(d9_spec *spec, const char *key, const d9_tree *node, d9_config_edits *edits);

/* Fails if a value of `axis`, a key of the grid or of a search's ranges, is also set by an axis before it in `axes` or
 * by the command line: --set of the key, of a map that contains it or of a key within it; --without its trick; --with
 * its trick and this option or, if the key is a trick itself, --with this trick. */
D9_MUST_USE d9_status d9_spec_check_axis(const d9_spec *spec, const d9_tree *axes, const d9_tree *axis);
/* Reads the key `grid` of the file into spec->grid. */
D9_MUST_USE d9_status d9_spec_read_grid(d9_spec *spec);
/* Fills the draft for point `index` of the grid: edits, name, label, baseline. The last axis changes fastest. */
D9_MUST_USE d9_status d9_spec_apply_point(d9_spec *spec, int64_t index, d9_draft *draft);

/* Reads `node`, the value of the key `search`, draws the trials and makes their arms (sample.c). */
D9_MUST_USE d9_status d9_spec_read_search(d9_spec *spec, const d9_tree *node, const d9_experiment_options *options);
