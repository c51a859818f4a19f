/* A YAML document as a tree whose nodes know their position in the source.
 *
 * Only maps, lists and scalars: anchors, aliases, tags, second documents and duplicate keys are rejected. Nodes are
 * freed with their arena. Invalid YAML is D9_USAGE, "FILE:LINE:COLUMN: ..."; lack of memory is D9_DEVICE. */
#pragma once

#include "core/arena.h"
#include "core/text.h"

typedef struct d9_place {
    const char *source; /* the file's path; an option such as "--seed"; or another name, such as "default" */
    const char *edit;   /* argument of that option, or key of the metadata in that model file; NULL: none */
    int line, column;   /* from 1; line 0: no position, for example of an option */
} d9_place;

typedef enum d9_tree_kind { D9_TREE_SCALAR, D9_TREE_LIST, D9_TREE_MAP } d9_tree_kind;

typedef struct d9_tree {
    d9_tree_kind kind;
    const char *key;  /* its key in a map; NULL: the root, or an element of a list */
    const char *text; /* value of a scalar */
    bool quoted;      /* the scalar is in quotes, or is a block scalar */
    d9_place place, key_place;
    struct d9_tree *parent, *first, *last, *next;
    int count; /* children */
} d9_tree;

/* Parses one document. `place` names its source; place->line: 1 for a file, 0 if the source has no lines. */
D9_MUST_USE d9_status d9_tree_parse(d9_context *context, d9_arena *arena, const d9_place *place, const char *yaml,
                                    size_t size, d9_tree **root);

/* Makes an empty node. `key` is copied; NULL: none. */
D9_MUST_USE d9_status d9_tree_make(d9_context *context, d9_arena *arena, d9_tree_kind kind, const d9_place *place,
                                   const char *key, d9_tree **node);
/* Finds the child with this key, which may be of any kind, or adds an empty map. */
D9_MUST_USE d9_status d9_tree_find_or_add_map(d9_context *context, d9_arena *arena, d9_tree *parent, const char *key,
                                              d9_tree **map);
void d9_tree_append(d9_tree *parent, d9_tree *child);
void d9_tree_remove(d9_tree *map, const char *key);
d9_tree *d9_tree_find(const d9_tree *map, const char *key); /* NULL: no such key, or `map` is not a map */

/* Appends the node as one line of YAML: 0.3, "a b", [64, 128], {celu.alpha: 0.3}, {"a: b": 1}. Reads back to an
 * equal tree, except that keys have at most 1024 bytes in YAML. An empty item of a list becomes an empty text. */
void d9_tree_write(const d9_tree *node, d9_text *text);

void d9_tree_quote(const char *bytes, d9_text *text); /* appends a double-quoted scalar: a b becomes "a b" */

/* Fails with a message that starts with the position of the value, or of its key, and the path of the node. */
#define d9_tree_fail(context, node, ...)     d9_tree_fail_at((context), &(node)->place, (node), __VA_ARGS__)
#define d9_tree_fail_key(context, node, ...) d9_tree_fail_at((context), &(node)->key_place, (node), __VA_ARGS__)
D9_MUST_USE d9_status d9_tree_fail_at(d9_context *context, const d9_place *place, const d9_tree *node,
                                      const char *format, ...) D9_PRINTF(4, 5); /* `node` NULL: no path */
/* d9_tree_fail_at with the text `reason`, which is freed; `place` is that of the value or key. */
D9_MUST_USE d9_status d9_tree_fail_text(d9_context *context, const d9_tree *node, const d9_place *place,
                                        d9_text *reason);
