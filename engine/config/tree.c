/* Builds a tree with source positions from libyaml's events. */
#include "config/tree.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum { DEPTH_MAX = 32, KEYS_MAX = 1024 }; /* KEYS_MAX: of a map, because looking up a key scans the map */

/* ---- nodes ---- */

d9_status d9_tree_make(d9_context *context, d9_arena *arena, d9_tree_kind kind, const d9_place *place, const char *key,
                       d9_tree **node) {
    d9_status status = D9_OK;
    char *copy = NULL;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, 1, node));
    if (key) D9_TRY(d9_arena_copy(context, arena, key, &copy));
    **node = (d9_tree){.kind = kind, .key = copy, .place = *place, .key_place = *place};
done:
    return status;
}

void d9_tree_append(d9_tree *parent, d9_tree *child) {
    child->parent = parent;
    child->next = NULL;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

void d9_tree_remove(d9_tree *map, const char *key) {
    d9_tree *before = NULL;
    for (d9_tree *child = map->first; child; before = child, child = child->next) {
        if (!child->key || strcmp(child->key, key) != 0) continue;
        if (before)
            before->next = child->next;
        else
            map->first = child->next;
        if (map->last == child) map->last = before;
        map->count--;
        return;
    }
}

d9_tree *d9_tree_find(const d9_tree *map, const char *key) {
    if (!map || map->kind != D9_TREE_MAP) return NULL;
    for (d9_tree *child = map->first; child; child = child->next)
        if (strcmp(child->key, key) == 0) return child;
    return NULL;
}

d9_status d9_tree_find_or_add_map(d9_context *context, d9_arena *arena, d9_tree *parent, const char *key,
                                  d9_tree **map) {
    *map = d9_tree_find(parent, key);
    if (*map) return D9_OK;
    d9_status status = d9_tree_make(context, arena, D9_TREE_MAP, &parent->place, key, map);
    if (status == D9_OK) d9_tree_append(parent, *map);
    return status;
}

/* ---- writing ---- */

void d9_tree_quote(const char *bytes, d9_text *text) {
    d9_text escaped;
    d9_text_init(text->context, &escaped);
    for (; *bytes; bytes++) d9_text_add(&escaped, *bytes == '"' || *bytes == '\\' ? "\\%c" : "%c", *bytes);
    d9_text_add(text, "\"");
    d9_text_add_escaped(text, d9_text_get(&escaped)); /* escapes have the same meaning in a quoted scalar */
    d9_text_add(text, "\"");
    d9_text_free_part(&escaped, text);
}

/* Writes a scalar, quoted if needed. Inside brackets more scalars need quotes than in a block. */
static void write_scalar(const d9_tree *node, bool bracketed, d9_text *text) {
    const bool marked = node->text[strcspn(node->text, ",[]{}:#")] || node->text[0] == '?';
    const bool folded = strchr(node->text, '\n') != NULL; /* an unquoted scalar with an empty line in it */
    if (node->quoted || folded || (bracketed && (marked || (!node->key && !node->text[0]))))
        d9_tree_quote(node->text, text);
    else
        d9_text_add(text, "%s", node->text);
}

/* True for a key that is written without quotes, such as the keys of options and the names of tricks. */
static bool is_plain_key(const char *key) { return key[0] && key[0] != '-' && !key[strspn(key, D9_NAME_CHARACTERS)]; }

static void write_key(const char *key, d9_text *text) {
    if (is_plain_key(key))
        d9_text_add(text, "%s", key);
    else
        d9_tree_quote(key, text);
    d9_text_add(text, ": ");
}

static void write_node(const d9_tree *node, bool bracketed, d9_text *text) {
    if (node->kind == D9_TREE_SCALAR) {
        write_scalar(node, bracketed, text);
        return;
    }
    d9_text_add(text, node->kind == D9_TREE_MAP ? "{" : "[");
    for (const d9_tree *child = node->first; child; child = child->next) {
        if (child != node->first) d9_text_add(text, ", ");
        if (child->key) write_key(child->key, text);
        write_node(child, true, text);
    }
    d9_text_add(text, node->kind == D9_TREE_MAP ? "}" : "]");
}

void d9_tree_write(const d9_tree *node, d9_text *text) { write_node(node, false, text); }

/* ---- failures with a place ---- */

static void add_path(d9_text *text, const d9_tree *node) {
    if (!node->parent) return;
    add_path(text, node->parent);
    if (node->key) {
        d9_text_add(text, "%s%s", node->parent->parent ? "." : "", node->key);
        return;
    }
    int index = 0;
    for (const d9_tree *child = node->parent->first; child != node; child = child->next) index++;
    d9_text_add(text, "[%d]", index);
}

static void add_message(d9_text *text, const d9_place *place, const d9_tree *node, const char *format,
                        va_list arguments) {
    char reason[1024];
    vsnprintf(reason, sizeof reason, format, arguments);
    d9_text_add(text, "%s", place->source);
    if (place->edit) d9_text_add(text, " %s", place->edit);
    if (place->line > 0) d9_text_add(text, ":%d:%d", place->line, place->column);
    d9_text_add(text, ": ");
    size_t before = text->size;
    if (node) add_path(text, node);
    d9_text_add(text, "%s%s", text->size > before ? ": " : "", reason);
}

d9_status d9_tree_fail_at(d9_context *context, const d9_place *place, const d9_tree *node, const char *format, ...) {
    va_list arguments;
    d9_text text;
    d9_text_init(context, &text);
    va_start(arguments, format);
    add_message(&text, place, node, format, arguments);
    va_end(arguments);
    d9_status status = d9_text_status(&text);
    if (status == D9_OK) status = d9_fail(context, D9_USAGE, "%s", d9_text_get(&text));
    d9_text_free(&text);
    return status;
}

d9_status d9_tree_fail_text(d9_context *context, const d9_tree *node, const d9_place *place, d9_text *reason) {
    d9_status status = d9_text_status(reason);
    if (status == D9_OK) status = d9_tree_fail_at(context, place, node, "%s", d9_text_get(reason));
    d9_text_free(reason);
    return status;
}

/* ---- reading ---- */

typedef struct reader {
    d9_context *context;
    d9_arena *arena;
    d9_place place; /* source and edit for every node */
    yaml_parser_t parser;
    yaml_event_t event; /* the current event; empty before the first */
} reader;

static d9_place place_at(const reader *reader, const yaml_mark_t *mark) {
    d9_place place = reader->place;
    if (place.line > 0) place.line = (int)mark->line + 1, place.column = (int)mark->column + 1;
    return place;
}

#define REJECT(reader, mark, ...)                                                                                      \
    d9_tree_fail_at((reader)->context, (d9_place[]){place_at((reader), &(mark))}, NULL, __VA_ARGS__)

static d9_status next_event(reader *reader) {
    yaml_event_delete(&reader->event);
    if (yaml_parser_parse(&reader->parser, &reader->event)) return D9_OK;
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR) return d9_fail(reader->context, D9_DEVICE, "out of memory: reading YAML");
    if (parser->error == YAML_READER_ERROR)
        return REJECT(reader, parser->mark, "not YAML: %s (byte %zu)", parser->problem, parser->problem_offset);
    if (parser->error == YAML_SCANNER_ERROR && parser->buffer.pointer < parser->buffer.last &&
        *parser->buffer.pointer == '\t')
        return REJECT(reader, parser->problem_mark, "not YAML: a tab, where only spaces may be");
    return REJECT(reader, parser->problem_mark, "not YAML: %s%s%s", parser->context ? parser->context : "",
                  parser->context ? ": " : "", parser->problem);
}

/* Rejects anchors and aliases, by which one part of a file changes another, and tags: the types of keys are fixed. */
static d9_status reject_extras(reader *reader) {
    const yaml_event_t *event = &reader->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return REJECT(reader, event->start_mark, "aliases (*%s) are not read here: write the value out",
                      (const char *)event->data.alias.anchor);
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor, tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor, tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor, tag = event->data.mapping_start.tag;
        break;
    default:
        break;
    }
    if (anchor)
        return REJECT(reader, event->start_mark,
                      "anchors (&%s) are not read here: write the value out where it is used", (const char *)anchor);
    if (tag)
        return REJECT(reader, event->start_mark, "tags (%s) are not read here: a key's type is fixed, remove the tag",
                      (const char *)tag);
    return D9_OK;
}

static d9_status copy_scalar(reader *reader, const char **text) {
    const char *value = (const char *)reader->event.data.scalar.value;
    size_t length = reader->event.data.scalar.length;
    if (strlen(value) != length) return REJECT(reader, reader->event.start_mark, "a text holds a zero byte");
    char *copy;
    d9_status status = d9_arena_copy(reader->context, reader->arena, value, &copy);
    *text = copy;
    return status;
}

static d9_status read_node(reader *reader, d9_tree *parent, const char *key, const d9_place *key_place, int depth,
                           d9_tree **node);

static d9_status read_list(reader *reader, d9_tree *list, int depth) {
    d9_status status = D9_OK;
    for (;;) {
        D9_TRY(next_event(reader));
        if (reader->event.type == YAML_SEQUENCE_END_EVENT) break;
        D9_TRY(read_node(reader, list, NULL, NULL, depth + 1, NULL));
    }
done:
    return status;
}

static d9_status read_map(reader *reader, d9_tree *map, int depth) {
    d9_status status = D9_OK;
    for (;;) {
        const char *key;
        D9_TRY(next_event(reader));
        if (reader->event.type == YAML_MAPPING_END_EVENT) break;
        D9_TRY(reject_extras(reader));
        d9_place place = place_at(reader, &reader->event.start_mark);
        if (reader->event.type != YAML_SCALAR_EVENT || reader->event.data.scalar.length == 0)
            D9_TRY(REJECT(reader, reader->event.start_mark, "a key must be a word"));
        D9_TRY(copy_scalar(reader, &key));
        if (map->count == KEYS_MAX)
            D9_TRY(d9_tree_fail_at(reader->context, &place, map, "more than %d keys", KEYS_MAX));
        const d9_tree *twin = d9_tree_find(map, key); /* NOLINT(clang-analyzer-core.CallAndMessage): `key` is set */
        D9_TRY(next_event(reader));
        if (twin && place.line > 0)
            D9_TRY(
                d9_tree_fail_at(reader->context, &place, twin, "given twice; first on line %d", twin->key_place.line));
        if (twin) D9_TRY(d9_tree_fail_at(reader->context, &place, twin, "given twice"));
        D9_TRY(read_node(reader, map, key, &place, depth + 1, NULL));
    }
done:
    return status;
}

/* Reads the node whose first event is the current one. */
static d9_status read_node(reader *reader, d9_tree *parent, const char *key, const d9_place *key_place, int depth,
                           d9_tree **result) {
    d9_status status = D9_OK;
    const yaml_event_t *event = &reader->event;
    d9_tree *node;
    if (depth > DEPTH_MAX) D9_TRY(REJECT(reader, event->start_mark, "nested deeper than %d levels", DEPTH_MAX));
    D9_TRY(reject_extras(reader));
    d9_place place = place_at(reader, &event->start_mark);
    d9_tree_kind kind = event->type == YAML_SCALAR_EVENT           ? D9_TREE_SCALAR
                        : event->type == YAML_SEQUENCE_START_EVENT ? D9_TREE_LIST
                                                                   : D9_TREE_MAP;
    D9_TRY(d9_tree_make(reader->context, reader->arena, kind, &place, NULL, &node));
    node->key = key;
    if (key_place) node->key_place = *key_place;
    if (parent) d9_tree_append(parent, node);
    if (kind == D9_TREE_SCALAR) {
        node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        D9_TRY(copy_scalar(reader, &node->text));
    }
    if (kind == D9_TREE_LIST) D9_TRY(read_list(reader, node, depth));
    if (kind == D9_TREE_MAP) D9_TRY(read_map(reader, node, depth));
    if (result) *result = node;
done:
    return status;
}

static d9_status read_document(reader *reader, d9_tree **root) {
    d9_status status = D9_OK;
    D9_TRY(next_event(reader)); /* stream start */
    D9_TRY(next_event(reader)); /* document start */
    if (reader->event.type == YAML_STREAM_END_EVENT)
        D9_TRY(REJECT(reader, reader->event.start_mark, "there is nothing in it; a configuration is a map of keys"));
    D9_TRY(next_event(reader));
    D9_TRY(read_node(reader, NULL, NULL, NULL, 0, root));
    D9_TRY(next_event(reader)); /* document end */
    D9_TRY(next_event(reader));
    if (reader->event.type != YAML_STREAM_END_EVENT)
        D9_TRY(REJECT(reader, reader->event.start_mark, "a second document starts here; one is read"));
done:
    return status;
}

d9_status d9_tree_parse(d9_context *context, d9_arena *arena, const d9_place *place, const char *yaml, size_t size,
                        d9_tree **root) {
    reader reader = {.context = context, .arena = arena, .place = *place};
    *root = NULL;
    if (!yaml_parser_initialize(&reader.parser)) return d9_fail(context, D9_DEVICE, "out of memory: reading YAML");
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)yaml, size);
    d9_status status = read_document(&reader, root);
    yaml_event_delete(&reader.event);
    yaml_parser_delete(&reader.parser);
    return status;
}
