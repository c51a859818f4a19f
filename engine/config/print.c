/* Prints the effective configuration as YAML, for users and records. */
#include "config/config.h"
#include "config/values.h"

#include <stdio.h>
#include <string.h>

typedef struct printer {
    d9_text *text;
    bool origins;
} printer;

/* Column of the "#" before an origin; on a longer line it follows after two spaces. */
enum { ORIGIN_COLUMN = 40 };

/* Ends the line that began at byte `start`; with origins, after the origin of `node` (NULL: `default_origin`). */
static void end_line(const printer *printer, size_t start, const d9_tree *node, const char *default_origin) {
    d9_text *text = printer->text;
    if (printer->origins) {
        const size_t width = text->size - start;
        d9_text_add(text, "%*s# ", width + 2 < ORIGIN_COLUMN ? (int)(ORIGIN_COLUMN - width) : 2, "");
        /* escaped, because a comment must not contain the line breaks that a text of the command line may have */
        const char *source = node ? node->key_place.source : default_origin;
        d9_text_add_escaped(text, d9_text_is_unicode(source) ? source : "a file whose name is not UTF-8");
        if (node && node->key_place.edit) d9_text_add(text, " "), d9_text_add_escaped(text, node->key_place.edit);
        if (node && node->key_place.line > 0) d9_text_add(text, ":%d", node->key_place.line);
    }
    d9_text_add(text, "\n");
}

typedef struct block {
    const char *head; /* "train:", written before the first option; NULL: none */
    int indent;
    const d9_option *options;
    const void *base;
    const d9_tree *map; /* the section's node, which has the origins of its values; NULL: all values are defaults */
} block;

/* The origin of a value that no file and no option has set. */
static const char *default_origin(const d9_option *option) {
    return strcmp(option->key, "title") == 0 ? "the file's name" : "default";
}

/* Prints one option per line, except options without a value; returns the number of lines. */
static int print_block(const printer *printer, const block *block) {
    int lines = 0;
    for (const d9_option *option = block->options; option && option->type != D9_OPTION_NONE; option++) {
        d9_text value;
        d9_text_init(printer->text->context, &value);
        if (d9_value_write(option, block->base, &value)) {
            if (lines++ == 0 && block->head) d9_text_add(printer->text, "%s\n", block->head);
            const size_t start = printer->text->size;
            d9_text_add(printer->text, "%*s%s: %s", block->indent, "", option->key, d9_text_get(&value));
            end_line(printer, start, d9_tree_find(block->map, option->key), default_origin(option));
        }
        d9_text_free_part(&value, printer->text);
    }
    return lines;
}

static void print_sections(const printer *printer, const d9_config *config) {
    char head[64];
    for (int i = 0; d9_section_at(i); i++) {
        const d9_section *section = d9_section_at(i);
        block block = {.options = section->options, .base = config, .map = config->tree};
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
    print_block(printer, &(block){"model:", 2, d9_section_model_name(), &config->model->name, map});
    print_block(printer, &(block){NULL, 2, config->model->options, config->model_options, map});
}

static void print_trick(const printer *printer, const d9_config *config, int index, const d9_tree *node) {
    const d9_trick *trick = d9_trick_at(index);
    const size_t start = printer->text->size;
    char head[80];
    const block block = {head, 4, trick->options, config->trick_options[index], node};
    snprintf(head, sizeof head, "  %s:", trick->name);
    if (!config->trick_on[index]) {
        d9_text_add(printer->text, "  # %s: off", trick->name);
        end_line(printer, start, node, "");
    } else if (print_block(printer, &block) == 0) {
        d9_text_add(printer->text, "%s {}", head);
        end_line(printer, start, node, "");
    }
}

/* Prints the tricks. With origins, those that were switched off are shown too, as comments. */
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
    if (!config->ablate || !config->ablate->first) return;
    d9_text_add(printer->text, "ablate:\n");
    for (const d9_tree *trick = config->ablate->first; trick; trick = trick->next) {
        const size_t start = printer->text->size;
        d9_text_add(printer->text, "  %s: ", trick->key);
        d9_tree_write(trick, printer->text);
        end_line(printer, start, trick, "");
    }
}

void d9_config_print(const d9_config *config, bool origins, d9_text *text) {
    const printer printer = {.text = text, .origins = origins};
    d9_config shown = *config;
    if (!d9_text_is_unicode(shown.title)) shown.title = "untitled"; /* from a file's name; YAML needs UTF-8 */
    print_sections(&printer, &shown);
    print_model(&printer, &shown);
    print_tricks(&printer, &shown);
    print_ablate(&printer, &shown);
}
