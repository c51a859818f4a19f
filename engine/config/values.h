/* Reads the value of an option from a tree node, writes it as YAML, and reads whole maps of options. */
#pragma once

#include "core/option.h"
#include "config/tree.h"

/* Reads `node` (NULL: the default) into `base + option->offset`, checked against type, bounds and choices. */
D9_MUST_USE d9_status d9_value_read(d9_context *context, d9_arena *arena, const d9_option *option, const d9_tree *node,
                                    void *base);

extern const char *const d9_schedule_keys[]; /* keys of a schedule's map, ended by NULL */
/* Prepares merging the map `over` into the map `under`: if `over` sets the shape, knots or values of a schedule,
 * removes the keys of `under` that do not fit. Otherwise changes nothing. */
void d9_schedule_drop_keys(const d9_tree *over, d9_tree *under);

/* Appends the field as YAML; false, and nothing is appended, if an optional value is absent. */
bool d9_value_write(const d9_option *option, const void *base, d9_text *text);

/* True if the field has its default value, or is absent and the default is ""; false if the option is required. `text`
 * receives only the status of a failure. */
bool d9_value_is_default(const d9_option *option, const void *base, d9_text *text);

/* A table of options and the struct that its offsets refer to. */
typedef struct d9_binding {
    const d9_option *options; /* NULL: none */
    void *base;
} d9_binding;
/* Reads a map by option tables: each option gets its value in the map, or else its default. D9_USAGE if an option has
 * neither, or if a key is in no table and not in `others` (NULL-terminated; may be NULL). */
D9_MUST_USE d9_status d9_values_bind(d9_context *context, d9_arena *arena, const d9_tree *map,
                                     const d9_binding *bindings, int count, const char *const *others);

bool d9_values_has_key(const d9_binding *bindings, int count, const char *const *others, const char *key);

/* Appends the end of an error message, such as "known: a, b; did you mean b?", where `label` is "known:". */
void d9_suggest(d9_text *text, const char *label, const char *word, const char *const *words, int count);
