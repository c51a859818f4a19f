/* The effective configuration as YAML, for people, for the record and for the hash. */
#include "config/config.h"
#include "config/retired.h"
#include "config/sections.h"
#include "config/tree.h"
#include "config/values.h"
#include "core/hash.h"

#include <stdio.h>
#include <string.h>

typedef struct printer {
    d9_text *text;
    bool origins, results_only; /* results_only: without what cannot change a result, and as before a key was known */
} printer;

/* What cannot change a result, and the seed, which a run has beside its configuration. A section's name stands
 * for all its keys. */
static bool is_result_free(const char *section, const char *key) {
    static const char *const paths[][2] = {{"root", "title"}, {"root", "target"},      {"root", "threads"},
                                           {"root", "keep"},  {"root", "seed"},        {"data", "path"},
                                           {"eval", "every"}, {"published", NULL},     {"data", "largest_picture"},
                                           {"data", "check"}, {"data", "skip_damaged"}};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (strcmp(section, paths[i][0]) == 0 && (!paths[i][1] || strcmp(key, paths[i][1]) == 0)) return true;
    return false;
}

/* Whether "key|key" holds the key. */
static bool is_younger(const char *keys, const char *key) {
    const size_t length = strlen(key);
    for (const char *at = keys; at && *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == length && strncmp(at, key, length) == 0) return true;
    return false;
}

/* The comments stand below one another where the values leave room. */
enum { ORIGIN_COLUMN = 40 };

/* What a command line says may hold anything; a comment holds no line break. */
static void add_comment(d9_text *text, const char *bytes) {
    for (; *bytes; bytes++) d9_text_add(text, "%c", (unsigned char)*bytes < ' ' ? ' ' : *bytes);
}

/* Ends a line that began at `start`. `node`: what gave the value; NULL: nobody, it is `otherwise`. */
static void end_line(const printer *printer, size_t start, const d9_tree *node, const char *otherwise) {
    d9_text *text = printer->text;
    if (printer->origins) {
        const size_t width = text->size - start;
        d9_text_add(text, "%*s# ", width + 2 < ORIGIN_COLUMN ? (int)(ORIGIN_COLUMN - width) : 2, "");
        add_comment(text, node ? node->key_place.source : otherwise);
        if (node && node->key_place.edit) d9_text_add(text, " "), add_comment(text, node->key_place.edit);
        if (node && node->key_place.line > 0) d9_text_add(text, ":%d", node->key_place.line);
    }
    d9_text_add(text, "\n");
}

typedef struct block {
    const char *head; /* "train:", written before the first option; NULL: none */
    int indent;
    const char *section;
    const d9_option *options;
    const void *base;
    const d9_tree *map; /* for origins */
    const char *younger;
} block;

/* Who said what no file and no option said. */
static const char *otherwise(const d9_option *option) {
    return strcmp(option->key, "title") == 0 ? "the file's name" : "default";
}

/* One option a line; returns the number of lines. */
static int print_block(const printer *printer, const block *block) {
    int lines = 0;
    for (const d9_option *option = block->options; option && option->type != D9_OPTION_NONE; option++) {
        if (printer->results_only && is_result_free(block->section, option->key)) continue;
        if (printer->results_only && is_younger(block->younger, option->key) &&
            d9_value_is_default(option, block->base, printer->text))
            continue;
        if (printer->results_only) d9_retired_add_hashed(block->section, option->key, printer->text);
        d9_text value;
        d9_text_init(printer->text->context, &value);
        if (d9_value_write(option, block->base, &value)) {
            if (lines++ == 0 && block->head) d9_text_add(printer->text, "%s\n", block->head);
            const size_t start = printer->text->size;
            d9_text_add(printer->text, "%*s%s: %s", block->indent, "", option->key, d9_text_get(&value));
            end_line(printer, start, d9_tree_find(block->map, option->key), otherwise(option));
        }
        if (printer->text->status == D9_OK) printer->text->status = d9_text_status(&value);
        d9_text_free(&value);
    }
    return lines;
}

static void print_sections(const printer *printer, const d9_config *config) {
    char head[64];
    for (int i = 0; d9_section_at(i); i++) {
        const d9_section *section = d9_section_at(i);
        block block = {.section = section->name,
                       .options = section->options,
                       .base = config,
                       .map = config->tree,
                       .younger = section->younger};
        if (i > 0) {
            snprintf(head, sizeof head, "%s:", section->name);
            block.head = head;
            block.indent = 2;
            block.map = d9_tree_find(config->tree, section->name);
        }
        print_block(printer, &block);
    }
}

static void print_model(const printer *printer, const d9_config *config) {
    const d9_tree *map = d9_tree_find(config->tree, "model");
    print_block(printer, &(block){"model:", 2, "model", d9_section_model_name(), &config->model->name, map, NULL});
    print_block(printer,
                &(block){NULL, 2, "model", config->model->options, config->model_options, map, config->model->younger});
}

static void print_trick(const printer *printer, const d9_config *config, int index, const d9_tree *node) {
    const d9_trick *trick = d9_trick_at(index);
    const size_t start = printer->text->size;
    char head[80];
    const block block = {head, 4, "tricks", trick->options, config->trick_options[index], node, trick->younger};
    snprintf(head, sizeof head, "  %s:", trick->name);
    if (!config->trick_on[index]) {
        d9_text_add(printer->text, "  # %s: off", trick->name);
        end_line(printer, start, node, "");
    } else if (print_block(printer, &block) == 0) {
        d9_text_add(printer->text, "%s {}", head);
        end_line(printer, start, node, "");
    }
}

/* With origins, a trick that somebody switched off is shown too, as a comment. */
static void print_tricks(const printer *printer, const d9_config *config) {
    const d9_tree *map = d9_tree_find(config->tree, "tricks"), *node;
    int on = 0;
    for (int i = 0; i < D9_TRICK_COUNT; i++) on += config->trick_on[i];
    d9_text_add(printer->text, on > 0 ? "tricks:\n" : "tricks: {}\n");
    for (int i = 0; i < D9_TRICK_COUNT; i++) {
        node = d9_tree_find(map, d9_trick_at(i)->name);
        if (config->trick_on[i] || (printer->origins && node)) print_trick(printer, config, i, node);
    }
}

static void print_ablate(const printer *printer, const d9_config *config) {
    if (!config->ablate || !config->ablate->first || printer->results_only) return;
    d9_text_add(printer->text, "ablate:\n");
    for (const d9_tree *trick = config->ablate->first; trick; trick = trick->next) {
        const size_t start = printer->text->size;
        d9_text_add(printer->text, "  %s: ", trick->key);
        d9_tree_write(trick, printer->text);
        end_line(printer, start, trick, "");
    }
}

static void print(const printer *printer, const d9_config *config) {
    d9_config shown = *config;
    if (printer->results_only) shown.train.from = config->train.from_sha256;
    print_sections(printer, &shown);
    print_model(printer, config);
    print_tricks(printer, config);
    print_ablate(printer, config);
}

void d9_config_print(const d9_config *config, bool origins, d9_text *text) {
    print(&(printer){.text = text, .origins = origins}, config);
}

void d9_config_hash(d9_context *context, const d9_config *config, char hex[65]) {
    d9_text text;
    d9_text_init(context, &text);
    print(&(printer){.text = &text, .results_only = true}, config);
    hex[0] = 0; /* out of memory: no hash, and the context says why */
    if (d9_text_status(&text) == D9_OK) d9_sha256_hex(&(d9_bytes){d9_text_get(&text), text.size}, 1, hex);
    d9_text_free(&text);
}

/* ---- what differs ---- */

enum { KEY_BYTES = 256, LEVELS = 3 };

/* The next line of a printout as a key with its sections, "tricks.ema.every", and a value, "" of a section. NULL: the
 * end.
 */
typedef struct printed_line {
    char key[KEY_BYTES];
    const char *value;
    int value_length, ends[LEVELS + 1]; /* of the sections that lead to it */
} printed_line;

static const char *next_line(const char *at, printed_line *line) {
    if (!*at) return NULL;
    const int length = (int)strcspn(at, "\n"), indent = (int)strspn(at, " "), level = indent / 2;
    const int name = (int)strcspn(at + indent, ":"), start = level ? line->ends[level - 1] : 0;
    const int wrote =
        snprintf(line->key + start, sizeof line->key - (size_t)start, "%s%.*s", level ? "." : "", name, at + indent);
    line->ends[level] = start + wrote;
    line->value = at + indent + name + 1;
    line->value_length = length - indent - name - 1;
    if (line->value_length > 0) line->value++, line->value_length--;
    return at + length + (at[length] == '\n');
}

/* The first line of `one` that the other lacks or has otherwise. False: there is none. */
static bool find_difference(const char *one, const char *other, printed_line *mine, printed_line *theirs) {
    while ((one = next_line(one, mine))) {
        const char *at = other;
        while ((at = next_line(at, theirs)) && strcmp(mine->key, theirs->key) != 0) continue;
        if (!at) theirs->value = NULL;
        if (!at || mine->value_length != theirs->value_length ||
            strncmp(mine->value, theirs->value, (size_t)mine->value_length) != 0)
            return true;
    }
    return false;
}

void d9_config_difference(const d9_config *there, const d9_config *here, d9_text *text) {
    d9_text printed[2];
    const d9_config *const configs[2] = {there, here};
    printed_line a = {0}, b = {0};
    for (int i = 0; i < 2; i++) {
        d9_text_init(text->context, &printed[i]);
        print(&(printer){.text = &printed[i], .results_only = true}, configs[i]);
        if (text->status == D9_OK) text->status = d9_text_status(&printed[i]);
    }
    const char *one = d9_text_get(&printed[0]), *other = d9_text_get(&printed[1]);
    if (text->status == D9_OK && find_difference(one, other, &a, &b)) {
        if (b.value)
            d9_text_add(text, "%s is %.*s, here %.*s", a.key, a.value_length, a.value, b.value_length, b.value);
        else
            d9_text_add(text, "it has %s", a.key);
    } else if (text->status == D9_OK && find_difference(other, one, &a, &b)) {
        d9_text_add(text, "it has no %s", a.key);
    }
    for (int i = 0; i < 2; i++) d9_text_free(&printed[i]);
}
