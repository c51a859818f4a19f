/* Binds a map of a configuration to option rows: every key must be known, and every row gets a value or its default. */
#include "config/values.h"

#include <string.h>

enum { WORDS_MAX = 64 };

bool d9_values_has_key(const d9_binding *bindings, int count, const char *const *others, const char *key) {
    for (int i = 0; i < count; i++)
        for (const d9_option *o = bindings[i].options; o && o->type != D9_OPTION_NONE; o++)
            if (strcmp(o->key, key) == 0) return true;
    for (; others && *others; others++)
        if (strcmp(*others, key) == 0) return true;
    return false;
}

static d9_status unknown_key(d9_context *context, const d9_tree *node, const d9_binding *bindings, int count,
                             const char *const *others) {
    const char *words[WORDS_MAX];
    int word_count = 0;
    for (int i = 0; i < count; i++)
        for (const d9_option *o = bindings[i].options; o && o->type != D9_OPTION_NONE && word_count < WORDS_MAX; o++)
            words[word_count++] = o->key;
    for (; others && *others && word_count < WORDS_MAX; others++) words[word_count++] = *others;
    d9_text text;
    d9_text_init(context, &text);
    d9_text_add(&text, "unknown key; ");
    if (word_count == 0)
        d9_text_add(&text, "there are no options here");
    else
        d9_suggest(&text, "known:", node->key, words, word_count);
    return d9_tree_fail_text(context, node, &node->key_place, &text);
}

d9_status d9_values_bind(d9_context *context, d9_arena *arena, const d9_tree *map, const d9_binding *bindings,
                         int count, const char *const *others) {
    d9_status status = D9_OK;
    if (map->kind != D9_TREE_MAP) D9_TRY(d9_value_wrong_type(context, map, "a map of keys, like {key: value}"));
    for (const d9_tree *child = map->first; child; child = child->next)
        if (!d9_values_has_key(bindings, count, others, child->key))
            D9_TRY(unknown_key(context, child, bindings, count, others));
    for (int i = 0; i < count; i++)
        for (const d9_option *option = bindings[i].options; option && option->type != D9_OPTION_NONE; option++) {
            const d9_tree *node = d9_tree_find(map, option->key);
            if (!node && !option->fallback) D9_TRY(d9_tree_fail(context, map, "%s must be given", option->key));
            D9_TRY(d9_value_read(context, arena, option, node, bindings[i].base));
        }
done:
    return status;
}
