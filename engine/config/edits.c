/* Lists of edits, and their application as layers: each edit becomes a small tree, those of a layer are joined, and the
 * layer is merged over the file. */
#include "config/layers.h"
#include "config/reference.h"

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
        edits->items[edits->count] = from->items[i];
        edits->items[edits->count].begins_layer |= i == 0 && edits->count > 0;
        edits->count++;
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

/* Makes a node of the value, which is parsed as YAML or, if `verbatim`, taken as a text. "" is an empty text. */
static d9_status parse_value(d9_context *context, d9_arena *arena, const d9_place *place, const char *value,
                             bool verbatim, d9_tree **node) {
    if (*value && !verbatim) return d9_tree_parse(context, arena, place, value, strlen(value), node);
    d9_status status = d9_tree_make(context, arena, D9_TREE_SCALAR, place, NULL, node);
    if (status != D9_OK) return status;
    (*node)->text = value;
    (*node)->quoted = true;
    return D9_OK;
}

static d9_status add_value(d9_context *context, d9_arena *arena, d9_tree *map, const char *key, const char *value,
                           bool verbatim) {
    d9_status status = D9_OK;
    d9_tree *node;
    char *copy;
    if (d9_tree_find(map, key)) D9_TRY(d9_tree_fail(context, d9_tree_find(map, key), "given twice"));
    D9_TRY(d9_arena_copy(context, arena, key, &copy));
    D9_TRY(parse_value(context, arena, &map->place, value, verbatim, &node));
    node->key = copy;
    d9_tree_append(map, node);
done:
    return status;
}

/* Makes an empty tree, whose position names the option and its value, and a copy of the edit's text. */
static d9_status make_tree(d9_context *context, d9_arena *arena, const d9_config_edit *edit, d9_tree **tree,
                           char **copy) {
    d9_status status = D9_OK;
    d9_place place = {.source = edit->option ? edit->option : d9_config_edit_option(edit->kind)};
    D9_TRY(d9_arena_copy(context, arena, edit->text, copy));
    const char *value = edit->option ? strchr(edit->text, '=') : NULL;
    char *argument;
    D9_TRY(d9_arena_copy(context, arena, value ? value + 1 : edit->text, &argument));
    place.edit = argument;
    D9_TRY(d9_tree_make(context, arena, D9_TREE_MAP, &place, NULL, tree));
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
static d9_status check_trick_name(d9_context *context, const d9_tree *tree, const char *name) {
    if (strchr(name, ',')) return d9_tree_fail(context, tree, "takes one trick; repeat it for each");
    if (strchr(name, '=')) return d9_tree_fail(context, tree, "write NAME or NAME:KEY=VALUE,KEY=VALUE");
    return D9_OK;
}

static d9_status join_with(d9_context *context, d9_arena *arena, const d9_config_edit *edit, d9_tree *layer) {
    d9_status status = D9_OK;
    d9_tree *tree, *tricks, *trick;
    char *name;
    D9_TRY(make_tree(context, arena, edit, &tree, &name));
    char *options = split_at(name, ':');
    if (!*name || (options && !*options)) D9_TRY(d9_tree_fail(context, tree, "write NAME or NAME:KEY=VALUE,KEY=VALUE"));
    D9_TRY(check_trick_name(context, tree, name));
    D9_TRY(d9_tree_find_or_add_map(context, arena, tree, "tricks", &tricks));
    D9_TRY(d9_tree_find_or_add_map(context, arena, tricks, name, &trick));
    while (options) {
        char *key = options;
        options = split_at(key, ',');
        char *value = split_at(key, '=');
        if (!value || !*key) D9_TRY(d9_tree_fail(context, trick, "write NAME or NAME:KEY=VALUE,KEY=VALUE"));
        D9_TRY(add_value(context, arena, trick, key, value, false));
    }
    d9_config_layers_join(layer, tree);
done:
    return status;
}

/* ---- --without NAME ---- */

static d9_status join_without(d9_context *context, d9_arena *arena, const d9_config_edit *edit, d9_tree *layer) {
    d9_status status = D9_OK;
    d9_tree *tree, *tricks;
    char *name;
    D9_TRY(make_tree(context, arena, edit, &tree, &name));
    if (!*name) D9_TRY(d9_tree_fail(context, tree, "write the trick's name"));
    D9_TRY(check_trick_name(context, tree, name));
    D9_TRY(d9_tree_find_or_add_map(context, arena, tree, "tricks", &tricks));
    D9_TRY(add_value(context, arena, tricks, name, "off", false));
    d9_config_layers_join(layer, tree);
done:
    return status;
}

/* ---- --set KEY=VALUE; all edits ---- */

/* Fails if --set names an option of a trick that is off, because setting it would switch the trick on. `tree`: this
 * edit; `layer`: the edits before it in its layer; `under`: the tree over which the layer will be merged. */
static d9_status check_trick_is_on(d9_context *context, const d9_tree *under, const d9_tree *layer,
                                   const d9_tree *tree) {
    const d9_tree *wanted = tree->first, *trick = wanted->first;
    if (strcmp(wanted->key, "tricks") != 0 || !trick || !trick->first || d9_trick_index(trick->key) < 0) return D9_OK;
    const d9_tree *present = d9_tree_find(d9_tree_find(layer, "tricks"), trick->key);
    if (!present) present = d9_tree_find(d9_tree_find(under, "tricks"), trick->key);
    if (present && !d9_config_trick_is_off(present)) return D9_OK;
    return d9_tree_fail(context, tree, "tricks.%s is off; tricks.%s=on before it, or --with %s, switches it on",
                        trick->key, trick->key, trick->key);
}

/* True if the value is a text that is not parsed as YAML: spaces, "#" and ": " belong to it. A value that begins with a
 * quote is parsed. */
static bool is_verbatim(const d9_config_edit *edit, const char *path, const char *value) {
    d9_key key;
    if (!d9_config_key_find(path, &key) || key.option->type != D9_OPTION_TEXT) return false;
    return edit->option || !strchr("\"'", *value);
}

static d9_status join_set(d9_context *context, d9_arena *arena, const d9_config_edit *edit, const d9_tree *under,
                          d9_tree *layer) {
    d9_status status = D9_OK;
    d9_tree *tree, *map;
    char *key;
    D9_TRY(make_tree(context, arena, edit, &tree, &key));
    char *value = split_at(key, '=');
    if (!value || !*key) D9_TRY(d9_tree_fail(context, tree, "write KEY=VALUE, like train.epochs=3"));
    if (strcmp(key, "base") == 0) D9_TRY(d9_tree_fail(context, tree, "base can only be set in a file"));
    const bool verbatim = is_verbatim(edit, key, value);
    map = tree;
    for (char *rest; (rest = split_at(key, '.')); key = rest) {
        if (!*key) D9_TRY(d9_tree_fail(context, tree, "a part of the key is empty"));
        D9_TRY(d9_tree_find_or_add_map(context, arena, map, key, &map));
    }
    if (!*key) D9_TRY(d9_tree_fail(context, tree, "a part of the key is empty"));
    D9_TRY(add_value(context, arena, map, key, value, verbatim));
    D9_TRY(check_trick_is_on(context, under, layer, tree));
    d9_config_layers_normalize(tree);
    d9_config_layers_join(layer, tree);
done:
    return status;
}

d9_status d9_config_layers_edit(d9_context *context, d9_arena *arena, const d9_config_edits *edits, d9_tree *root) {
    static const d9_place place = {.source = "edits"};
    d9_status status = D9_OK;
    d9_tree *layer = NULL;
    for (int i = 0; i < edits->count; i++) {
        const d9_config_edit *edit = &edits->items[i];
        if (layer && edit->begins_layer) d9_config_layers_merge(root, layer);
        if (!layer || edit->begins_layer) D9_TRY(d9_tree_make(context, arena, D9_TREE_MAP, &place, NULL, &layer));
        D9_TRY(edit->kind == D9_EDIT_WITH      ? join_with(context, arena, edit, layer)
               : edit->kind == D9_EDIT_WITHOUT ? join_without(context, arena, edit, layer)
                                               : join_set(context, arena, edit, root, layer));
    }
    if (layer) d9_config_layers_merge(root, layer);
done:
    return status;
}
