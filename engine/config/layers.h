/* Merges layers of configuration trees: a file over its base, the command line over the file. */
#pragma once

#include "config/config.h"
#include "config/tree.h"

/* Loads a file, merged over all its bases, as a map without the key `base`. `yaml`: its text; NULL: reads `path`. Adds
 * the path of each file that was read to `files`; `path` must live as long as the arena. */
D9_MUST_USE d9_status d9_config_layers_load(d9_context *context, d9_arena *arena, const char *path, const char *yaml,
                                            d9_config_files *files, d9_tree **root);

/* Merges `over` into `under`: maps by key, everything else is replaced. Another model.name replaces the whole model,
 * and keys of a schedule that do not fit its new shape, knots or values are removed (d9_schedule_drop_keys). Nodes of
 * `over` move into `under`. */
void d9_config_layers_merge(d9_tree *under, d9_tree *over);
/* Like d9_config_layers_merge, but of two parts of one layer: `under` keeps all keys that `over` does not set. */
void d9_config_layers_join(d9_tree *under, d9_tree *over);

/* Applies the edits, layer by layer. */
D9_MUST_USE d9_status d9_config_layers_edit(d9_context *context, d9_arena *arena, const d9_config_edits *edits,
                                            d9_tree *root);

/* Replaces `tricks: {x: on}` by `{x: {}}`. `off` stays a scalar, so that it replaces an inherited map. */
void d9_config_layers_normalize(d9_tree *root);
bool d9_config_trick_is_off(const d9_tree *trick); /* true for off, false and no */
