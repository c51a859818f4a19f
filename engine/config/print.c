/* The effective configuration as YAML, for people, for the record and for the hash. */
#include "config/config.h"
#include "config/sections.h"
#include "config/tree.h"
#include "config/values.h"
#include "core/hash.h"

#include <stdio.h>
#include <string.h>

typedef struct printer {
    d9_text *text;
    bool origins, results_only; /* results_only: without what cannot change a result */
} printer;

/* What cannot change a result, and the seed, which a run has beside its configuration. A section's name stands
 * for all its keys. */
static bool is_result_free(const char *section, const char *key) {
    static const char *const paths[][2] = {{"root", "title"}, {"root", "target"}, {"root", "threads"},
                                           {"root", "keep"},  {"root", "seed"},   {"data", "path"},
                                           {"eval", "every"}, {"published", NULL}};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (strcmp(section, paths[i][0]) == 0 && (!paths[i][1] || strcmp(key, paths[i][1]) == 0)) return true;
    return false;
}

static void end_line(const printer *printer, const d9_tree *node) {
    if (printer->origins && !node) d9_text_add(printer->text, "  # default");
    if (printer->origins && node) d9_text_add(printer->text, "  # %s", node->key_place.source);
    if (printer->origins && node && node->key_place.line > 0)
        d9_text_add(printer->text, ":%d", node->key_place.line);
    d9_text_add(printer->text, "\n");
}

typedef struct block {
    const char *head; /* "train:", written before the first option; NULL: none */
    int indent;
    const char *section;
    const d9_option *options;
    const void *base;
    const d9_tree *map; /* for origins */
} block;

/* One option a line; returns the number of lines. */
static int print_block(const printer *printer, const block *block) {
    int lines = 0;
    for (const d9_option *option = block->options; option && option->type != D9_OPTION_NONE; option++) {
        if (printer->results_only && is_result_free(block->section, option->key)) continue;
        d9_text value;
        d9_text_init(printer->text->context, &value);
        if (d9_value_write(option, block->base, &value)) {
            if (lines++ == 0 && block->head) d9_text_add(printer->text, "%s\n", block->head);
            d9_text_add(printer->text, "%*s%s: %s", block->indent, "", option->key, d9_text_get(&value));
            end_line(printer, d9_tree_find(block->map, option->key));
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
        block block = {
            .section = section->name, .options = section->options, .base = config, .map = config->tree};
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
    print_block(printer, &(block){"model:", 2, "model", d9_section_model_name(), &config->model->name, map});
    print_block(printer, &(block){NULL, 2, "model", config->model->options, config->model_options, map});
}

static void print_tricks(const printer *printer, const d9_config *config) {
    const d9_tree *map = d9_tree_find(config->tree, "tricks");
    int on = 0;
    char head[80];
    for (int i = 0; i < D9_TRICK_COUNT; i++) {
        if (!config->trick_on[i]) continue;
        const d9_trick *trick = d9_trick_at(i);
        if (on++ == 0) d9_text_add(printer->text, "tricks:\n");
        const d9_tree *node = d9_tree_find(map, trick->name);
        snprintf(head, sizeof head, "  %s:", trick->name);
        if (print_block(printer,
                        &(block){head, 4, "tricks", trick->options, config->trick_options[i], node}) > 0)
            continue;
        d9_text_add(printer->text, "%s {}", head);
        end_line(printer, node);
    }
    if (on == 0) d9_text_add(printer->text, "tricks: {}\n");
}

static void print_ablate(const printer *printer, const d9_config *config) {
    if (!config->ablate || !config->ablate->first || printer->results_only) return;
    d9_text_add(printer->text, "ablate:\n");
    for (const d9_tree *trick = config->ablate->first; trick; trick = trick->next) {
        d9_text_add(printer->text, "  %s: ", trick->key);
        d9_tree_write(trick, printer->text);
        end_line(printer, trick);
    }
}

static void print(const printer *printer, const d9_config *config) {
    print_sections(printer, config);
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
