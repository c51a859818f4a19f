/* Axes of an experiment: seeds and grid. */
#include "experiment/spec.h"

#include <string.h>

/* ---- seeds ---- */

static d9_status read_seed(d9_context *context, const d9_tree *node, int64_t *seed) {
    if (node->kind != D9_TREE_SCALAR || node->quoted || !d9_text_to_integer(node->text, seed) || *seed < 0 ||
        *seed > D9_SEED_MAX)
        return d9_tree_fail(context, node, "must be an integer from 0 to %.10g", (double)D9_SEED_MAX);
    return D9_OK;
}

static d9_status allocate_seeds(d9_context *context, d9_experiment *experiment, int64_t count, int64_t **seeds) {
    d9_status status = D9_ARENA_ALLOCATE(context, &experiment->arena, count, seeds);
    experiment->seeds = *seeds;
    experiment->seed_count = status == D9_OK ? (int)count : 0;
    return status;
}

d9_status d9_seeds_set_first(d9_context *context, d9_experiment *experiment, int64_t count) {
    int64_t *seeds;
    d9_status status = allocate_seeds(context, experiment, count, &seeds);
    for (int64_t i = 0; status == D9_OK && i < count; i++) seeds[i] = i + 1;
    return status;
}

static d9_status read_seed_list(d9_spec *spec, const d9_tree *list) {
    d9_status status = D9_OK;
    int64_t *seeds;
    int count = 0;
    if (!list->first)
        D9_TRY(d9_tree_fail(spec->context, list, "is empty; give a number of seeds, or a list like [1, 2]"));
    D9_TRY(allocate_seeds(spec->context, spec->experiment, list->count, &seeds));
    for (const d9_tree *node = list->first; node; node = node->next, count++) {
        D9_TRY(read_seed(spec->context, node, &seeds[count]));
        for (int i = 0; i < count; i++)
            if (seeds[i] == seeds[count])
                D9_TRY(d9_tree_fail(spec->context, node, "seed %lld is given twice", (long long)seeds[i]));
    }
done:
    return status;
}

d9_status d9_spec_read_seeds(d9_spec *spec, int64_t instead) {
    const d9_tree *node = d9_tree_find(spec->root, "seeds");
    int64_t count = 5;
    if (instead) return d9_seeds_set_first(spec->context, spec->experiment, instead);
    if (node && node->kind == D9_TREE_LIST) return read_seed_list(spec, node);
    if (node && (node->kind != D9_TREE_SCALAR || node->quoted || !d9_text_to_integer(node->text, &count) || count < 1 ||
                 count > D9_RUNS_MAX))
        return d9_tree_fail(spec->context, node, "must be a number of seeds (1 to %d), or a list of seeds",
                            D9_RUNS_MAX);
    return d9_seeds_set_first(spec->context, spec->experiment, count);
}

/* ---- the grid ---- */

void d9_spec_clean_folder_name(char *text) {
    char *put = text;
    for (const char *at = text; *at; at++) {
        if (strchr(" []{}\"'", *at)) continue;
        *put++ = strchr("/\\:,;|*?<>&$`!#()~\n\t", *at) ? '-' : *at;
    }
    *put = 0;
}

/* True if `key` is `map` itself or the key of a value within this map. */
static bool is_within(const char *key, const char *map, size_t map_length) {
    return strncmp(key, map, map_length) == 0 && (key[map_length] == 0 || key[map_length] == '.');
}

/* True if "TRICK:KEY=VALUE,..." names the option. */
static bool names_option(const char *with, const char *option) {
    const size_t length = strlen(option);
    for (const char *at = strchr(with, ':'); at; at = strchr(at + 1, ','))
        if (strncmp(at + 1, option, length) == 0 && at[1 + length] == '=') return true;
    return false;
}

/* True if the edit changes the value of `key`: --set of the key, of a map that contains it or of a key within it;
 * --without its trick; --with that names this option or, if `key` is a trick, --with this trick. */
static bool replaces(const d9_config_edit *edit, const char *key) {
    static const char tricks[] = "tricks.";
    if (edit->kind != D9_EDIT_SET) {
        if (strncmp(key, tricks, strlen(tricks)) != 0) return false;
        key += strlen(tricks);
    }
    const size_t length = strcspn(edit->text, edit->kind == D9_EDIT_WITH ? ":" : "=");
    if (edit->kind == D9_EDIT_WITH)
        return is_within(key, edit->text, length) && (key[length] == 0 || names_option(edit->text, key + length + 1));
    return is_within(key, edit->text, length) || (edit->kind == D9_EDIT_SET && is_within(edit->text, key, strlen(key)));
}

d9_status d9_spec_check_axis(const d9_spec *spec, const d9_tree *axes, const d9_tree *axis) {
    for (const d9_tree *other = axes->first; other != axis; other = other->next)
        if (is_within(axis->key, other->key, strlen(other->key)) || is_within(other->key, axis->key, strlen(axis->key)))
            return d9_tree_fail_key(spec->context, axis, "is also set by %s", other->key);
    for (int i = 0; i < spec->added.count; i++) {
        const d9_config_edit *edit = &spec->added.items[i];
        if (replaces(edit, axis->key))
            return d9_tree_fail_key(spec->context, axis, "is also set by %s %s", d9_config_edit_option(edit->kind),
                                    edit->text);
    }
    return D9_OK;
}

d9_status d9_spec_read_grid(d9_spec *spec) {
    d9_status status = D9_OK;
    const d9_tree *map = d9_tree_find(spec->root, "grid");
    spec->grid = (d9_grid){map, 1};
    if (!map) return D9_OK;
    if (map->kind != D9_TREE_MAP || !map->first)
        D9_TRY(d9_tree_fail(spec->context, map,
                            "an empty grid: write keys and their values, like {train.epochs: [10, 20]}"));
    for (const d9_tree *axis = map->first; axis; axis = axis->next) {
        if (axis->kind != D9_TREE_LIST || !axis->first)
            D9_TRY(d9_tree_fail(spec->context, axis, "an empty grid: needs a list of values, like [10, 20]"));
        if (strcmp(axis->key, "seed") == 0)
            D9_TRY(d9_tree_fail_key(spec->context, axis, "seeds are not a grid axis: use the experiment's key seeds"));
        D9_TRY(d9_spec_check_axis(spec, map, axis));
        spec->grid.points *= axis->count;
        if (spec->grid.points > D9_RUNS_MAX)
            D9_TRY(d9_tree_fail(spec->context, map, "more than %d points", D9_RUNS_MAX));
    }
done:
    return status;
}

d9_status d9_spec_add_trick(d9_spec *spec, const char *key, const d9_tree *node, d9_config_edits *edits) {
    static const char tricks[] = "tricks.";
    const size_t length = strlen(tricks);
    if (strncmp(key, tricks, length) != 0 || d9_trick_index(key + length) < 0) return D9_OK;
    return d9_config_edits_add(spec->context, spec->arena, edits,
                               (d9_config_edit){.kind = D9_EDIT_WITH, .text = key + length, .node = node});
}

/* Sets the key of one axis to `value` in a grid point: adds the edits (for a map of a trick's options also --with) and
 * fills the point's row for this axis. Appends ",train.epochs=10" to the name, with a value that suits a folder, and
 * ", epochs 10" to the label. */
static d9_status add_axis(d9_spec *spec, const d9_tree *axis, const d9_tree *value, d9_config_edits *edits,
                          d9_grid_setting *row, d9_text *name, d9_text *label) {
    d9_status status;
    char *tidy;
    const char *dot = strrchr(axis->key, '.');
    if (value->kind == D9_TREE_MAP) D9_TRY(d9_spec_add_trick(spec, axis->key, value, edits));
    D9_TRY(d9_draft_set(spec->context, spec->arena, edits, axis->key, value, value));
    const char *text = edits->items[edits->count - 1].text + strlen(axis->key) + 1; /* after "KEY=" */
    *row = (d9_grid_setting){axis->key, text};
    D9_TRY(d9_arena_copy(spec->context, spec->arena, text, &tidy));
    d9_spec_clean_folder_name(tidy);
    d9_text_add(name, ",%s=%s", axis->key, tidy);
    d9_text_add(label, ", %s %s", dot ? dot + 1 : axis->key, text);
done:
    return status;
}

d9_status d9_spec_apply_point(d9_spec *spec, int64_t index, d9_draft *draft) {
    d9_status status = D9_OK;
    d9_text name, label;
    d9_config_edits edits = {0};
    d9_grid_setting *rows;
    char *made;
    int64_t stride = spec->grid.points;
    d9_text_init(spec->context, &name);
    d9_text_init(spec->context, &label);
    if (!spec->grid.map) goto done;
    D9_TRY(D9_ARENA_ALLOCATE(spec->context, spec->arena, spec->grid.map->count, &rows));
    draft->grid = rows;
    for (const d9_tree *axis = spec->grid.map->first; axis; axis = axis->next) {
        stride /= axis->count;
        const d9_tree *value = axis->first;
        for (int64_t i = index / stride % axis->count; i > 0; i--) value = value->next;
        D9_TRY(add_axis(spec, axis, value, &edits, rows + draft->grid_count++, &name, &label));
    }
    draft->grid_edits = edits.count;
    D9_TRY(d9_config_edits_append(spec->context, spec->arena, &draft->edits, &edits));
    D9_TRY(d9_text_status(&name));
    D9_TRY(d9_text_status(&label));
    D9_TRY(d9_arena_format(spec->context, spec->arena, &made, "%s%s", draft->label ? draft->label : draft->name,
                           d9_text_get(&label)));
    draft->label = made;
    D9_TRY(d9_arena_format(spec->context, spec->arena, &made, "%s%s", draft->name, d9_text_get(&name)));
    draft->name = made;
    if (!draft->baseline) goto done;
    D9_TRY(d9_arena_format(spec->context, spec->arena, &made, "%s%s", draft->baseline, d9_text_get(&name)));
    draft->baseline = made;
done:
    d9_text_free(&name);
    d9_text_free(&label);
    return status;
}
