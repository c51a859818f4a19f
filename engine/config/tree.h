/* A YAML document as a tree that remembers where each node was said.
 *
 * Maps, lists and scalars only: anchors, aliases, tags, second documents and duplicate keys are refused. All
 * nodes live in the arena they were made in. Failures are D9_USAGE, "FILE:LINE:COLUMN: key.path: ...". */
#ifndef D9_CONFIG_TREE_H
#define D9_CONFIG_TREE_H

#include "core/arena.h"
#include "core/text.h"

typedef struct d9_place {
    const char *source; /* the file's path; or "--set", "--with", "--without", "default" */
    const char *edit;   /* what the command line said after it; NULL for a file */
    int line, column;   /* from 1; line 0: not a file */
} d9_place;

typedef enum d9_tree_kind { D9_TREE_SCALAR, D9_TREE_LIST, D9_TREE_MAP } d9_tree_kind;

typedef struct d9_tree {
    d9_tree_kind kind;
    const char *key;  /* in a map; NULL: the root, or an element of a list */
    const char *text; /* of a scalar */
    bool quoted;
    d9_place place, key_place;
    struct d9_tree *parent, *first, *last, *next;
    int count; /* children */
} d9_tree;

/* One document. `place` names the source; its line is 1 for a file, 0 where lines mean nothing. */
D9_MUST_USE d9_status d9_tree_parse(d9_context *context, d9_arena *arena, const d9_place *place, const char *yaml,
                                    size_t size, d9_tree **root);

/* An empty node; `key` is copied, NULL for none. */
D9_MUST_USE d9_status d9_tree_make(d9_context *context, d9_arena *arena, d9_tree_kind kind, const d9_place *place,
                                   const char *key, d9_tree **node);
void d9_tree_append(d9_tree *parent, d9_tree *child);
void d9_tree_remove(d9_tree *map, const char *key);
d9_tree *d9_tree_find(const d9_tree *map, const char *key); /* NULL: no such key, or not a map */

/* Appends the node as YAML in one line that reads back to the same tree: 0.3, "a b", [64, 128], {celu.alpha: 0.3}. */
void d9_tree_write(const d9_tree *node, d9_text *text);

/* Fails with the place of the value, or of its key, and the node's path in front. `warn` only logs it. */
D9_MUST_USE d9_status d9_tree_fail(d9_context *context, const d9_tree *node, const char *format, ...) D9_PRINTF(3, 4);
D9_MUST_USE d9_status d9_tree_fail_key(d9_context *context, const d9_tree *node, const char *format, ...)
    D9_PRINTF(3, 4);
void d9_tree_warn_key(d9_context *context, const d9_tree *node, const char *format, ...) D9_PRINTF(3, 4);

#endif
