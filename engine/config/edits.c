/* Lists of edits, and their application as layers: each edit becomes a small tree that is merged over the file. */
#include "config/layers.h"

#include <string.h>

/* ---- lists ---- */

d9_status d9_config_edits_add(d9_context *context, d9_arena *arena, d9_config_edits *edits, d9_config_edit edit) {
    d9_status status = D9_ARENA_GROW(context, arena, edits->count, &edits->capacity, &edits->items);
    if (status != D9_OK) return status;
    int at = edits->count++;
    for (; at > 0 && edits->items[at - 1].kind > edit.kind; at--) edits->items[at] = edits->items[at - 1];
    edits->items[at] = edit;
    return D9_OK;
}

d9_status d9_config_edits_append(d9_context *context, d9_arena *arena, d9_config_edits *edits,
                                 const d9_config_edits *from) {
    d9_status status = D9_OK;
    for (int i = 0; i < from->count; i++) {
        D9_TRY(D9_ARENA_GROW(context, arena, edits->count, &edits->capacity, &edits->items));
        edits->items[edits->count++] = from->items[i];
    }
done:
    return status;
}

const char *d9_config_edit_option(d9_config_edit_kind kind) {
    return (const char *const[]){"--with", "--without", "--set"}[kind];
}

void d9_config_edit_write(const d9_config_edit *edit, d9_text *text) {
    d9_text_add(text, "%s ", d9_config_edit_option(edit->kind));
    d9_text_add_shell_word(text, edit->text);
}

/* ---- a layer from a path and a value ---- */

static d9_status parse_value(d9_context *context, d9_arena *arena, const d9_place *place, const char *value,
                             d9_tree **node) {
    if (*value) return d9_tree_parse(context, arena, place, value, strlen(value), node);
    d9_status status = d9_tree_make(context, arena, D9_TREE_SCALAR, place, NULL, node);
    if (status != D9_OK) return status;
    (*node)->text = "";
    (*node)->quoted = true;
    return D9_OK;
}

static d9_status add_value(d9_context *context, d9_arena *arena, d9_tree *map, const char *key, const char *value) {
    d9_status status = D9_OK;
    d9_tree *node;
    char *copy;
    if (d9_tree_find(map, key)) D9_TRY(d9_tree_fail(context, d9_tree_find(map, key), "given twice"));
    D9_TRY(d9_arena_copy(context, arena, key, &copy));
    D9_TRY(parse_value(context, arena, &map->place, value, &node));
    node->key = copy;
    d9_tree_append(map, node);
done:
    return status;
}

/* Makes an empty layer, whose position names the option and its value, and a copy of the edit's text. */
static d9_status make_layer(d9_context *context, d9_arena *arena, const d9_config_edit *edit, d9_tree **layer,
                            char **copy) {
    d9_status status = D9_OK;
    d9_place place = {.source = edit->option ? edit->option : d9_config_edit_option(edit->kind)};
    D9_TRY(d9_arena_copy(context, arena, edit->text, copy));
    const char *value = edit->option ? strchr(edit->text, '=') : NULL;
    char *argument;
    D9_TRY(d9_arena_copy(context, arena, value ? value + 1 : edit->text, &argument));
    place.edit = argument;
    D9_TRY(d9_tree_make(context, arena, D9_TREE_MAP, &place, NULL, layer));
done:
    return status;
}

/* ---- --with NAME[:KEY=VALUE,...] ---- */

/* Ends `text` at the first `mark` outside brackets and quotes. Returns the text after it, or NULL. */
static char *split_at(char *text, char mark) {
    int depth = 0;
    char quote = 0;
    for (; *text; text++) {
        if (quote)
            quote = *text == quote ? 0 : quote;
        else if (*text == '"' || *text == '\'')
            quote = *text;
        else if (*text == '[' || *text == '{')
            depth++;
        else if (*text == ']' || *text == '}')
            depth--;
        else if (*text == mark && depth == 0) {
            *text = 0;
            return text + 1;
        }
    }
    return NULL;
}

/* Rejects names like "ema,celu" and "ema=3", which are common mistakes, with a hint. */
static d9_status check_trick_name(d9_context *context, const d9_tree *layer, const char *name) {
    if (strchr(name, ',')) return d9_tree_fail(context, layer, "takes one trick; repeat it for each");
    if (strchr(name, '=')) return d9_tree_fail(context, layer, "write NAME or NAME:KEY=VALUE,KEY=VALUE");
    return D9_OK;
}

static d9_status apply_with(d9_context *context, d9_arena *arena, const d9_config_edit *edit, d9_tree *root) {
    d9_status status = D9_OK;
    d9_tree *layer, *tricks, *trick;
    char *name;
    D9_TRY(make_layer(context, arena, edit, &layer, &name));
    char *options = split_at(name, ':');
    if (!*name || (options && !*options))
        D9_TRY(d9_tree_fail(context, layer, "write NAME or NAME:KEY=VALUE,KEY=VALUE"));
    D9_TRY(check_trick_name(context, layer, name));
    D9_TRY(d9_tree_find_or_add_map(context, arena, layer, "tricks", &tricks));
    D9_TRY(d9_tree_find_or_add_map(context, arena, tricks, name, &trick));
    while (options) {
        char *key = options;
        options = split_at(key, ',');
        char *value = split_at(key, '=');
        if (!value || !*key) D9_TRY(d9_tree_fail(context, trick, "write NAME or NAME:KEY=VALUE,KEY=VALUE"));
        D9_TRY(add_value(context, arena, trick, key, value));
    }
    d9_config_layers_merge(root, layer);
done:
    return status;
}

/* ---- --without NAME ---- */

static d9_status apply_without(d9_context *context, d9_arena *arena, const d9_config_edit *edit, d9_tree *root) {
    d9_status status = D9_OK;
    d9_tree *layer, *tricks;
    char *name;
    D9_TRY(make_layer(context, arena, edit, &layer, &name));
    if (!*name) D9_TRY(d9_tree_fail(context, layer, "write the trick's name"));
    D9_TRY(check_trick_name(context, layer, name));
    D9_TRY(d9_tree_find_or_add_map(context, arena, layer, "tricks", &tricks));
    D9_TRY(add_value(context, arena, tricks, name, "off"));
    d9_config_layers_merge(root, layer);
done:
    return status;
}

/* ---- --set KEY=VALUE; all edits ---- */

/* Fails if --set names an option of a trick that is off, because setting it would switch the trick on. */
static d9_status check_trick_is_on(d9_context *context, const d9_tree *root, const d9_tree *layer) {
    const d9_tree *wanted = layer->first, *trick = wanted->first;
    if (strcmp(wanted->key, "tricks") != 0 || !trick || !trick->first || d9_trick_index(trick->key) < 0) return D9_OK;
    const d9_tree *present = d9_tree_find(d9_tree_find(root, "tricks"), trick->key);
    if (present && !d9_config_trick_is_off(present)) return D9_OK;
    return d9_tree_fail(context, layer, "tricks.%s is off; --with %s switches it on", trick->key, trick->key);
}

static d9_status apply_set(d9_context *context, d9_arena *arena, const d9_config_edit *edit, d9_tree *root) {
    d9_status status = D9_OK;
    d9_tree *layer, *map;
    char *key;
    D9_TRY(make_layer(context, arena, edit, &layer, &key));
    char *value = split_at(key, '=');
    if (!value || !*key) D9_TRY(d9_tree_fail(context, layer, "write KEY=VALUE, like train.epochs=3"));
    if (strcmp(key, "base") == 0) D9_TRY(d9_tree_fail(context, layer, "base can only be set in a file"));
    map = layer;
    for (char *rest; (rest = split_at(key, '.')); key = rest) {
        if (!*key) D9_TRY(d9_tree_fail(context, layer, "a part of the key is empty"));
        D9_TRY(d9_tree_find_or_add_map(context, arena, map, key, &map));
    }
    if (!*key) D9_TRY(d9_tree_fail(context, layer, "a part of the key is empty"));
    D9_TRY(add_value(context, arena, map, key, value));
    D9_TRY(check_trick_is_on(context, root, layer));
    d9_config_layers_normalize(layer);
    d9_config_layers_merge(root, layer);
done:
    return status;
}

d9_status d9_config_layers_edit(d9_context *context, d9_arena *arena, const d9_config_edits *edits, d9_tree *root) {
    d9_status status = D9_OK;
    d9_status (*const apply[])(d9_context *, d9_arena *, const d9_config_edit *, d9_tree *) = {
        [D9_EDIT_WITH] = apply_with, [D9_EDIT_WITHOUT] = apply_without, [D9_EDIT_SET] = apply_set};
    for (int i = 0; i < edits->count; i++) D9_TRY(apply[edits->items[i].kind](context, arena, &edits->items[i], root));
done:
    return status;
}
