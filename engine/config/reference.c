/* Describes the option tables in words, for help, suggestions and the reference page. */
#include "config/config.h"
#include "config/reference.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- one row ---- */

static const char *const type_words[] = {
    [D9_OPTION_BOOL] = "on or off",        [D9_OPTION_INT] = "whole number",
    [D9_OPTION_REAL] = "number",           [D9_OPTION_TEXT] = "text",
    [D9_OPTION_CHOICE] = "word",           [D9_OPTION_INTS] = "list of whole numbers",
    [D9_OPTION_REALS] = "list of numbers", [D9_OPTION_SCHEDULE] = "schedule"};

/* Adds the bounds of an option; 0 and 0 mean none. A maximum from 1e15 on, or infinity, is not shown. */
static void add_bounds(const d9_option *option, d9_text *text) {
    const double endless = 1e15;
    if (option->minimum == 0 && option->maximum == 0) return;
    d9_text_add(text, option->type == D9_OPTION_SCHEDULE ? ", values " : ", ");
    if (option->maximum < endless)
        d9_text_add(text, "%.10g to %.10g", option->minimum, option->maximum);
    else
        d9_text_add(text, "at least %.10g", option->minimum);
}

void d9_option_values(const d9_option *option, d9_text *text) {
    if (!option->choices) {
        d9_text_add(text, "%s", type_words[option->type]);
        add_bounds(option, text);
        return;
    }
    d9_text_add(text, "one of ");
    for (const char *c = option->choices; *c; c++) d9_text_add(text, *c == '|' ? ", " : "%c", *c);
}

void d9_option_describe(const d9_option *option, d9_text *text) {
    d9_option_values(option, text);
    if (!option->fallback)
        d9_text_add(text, "; must be given");
    else if (*option->fallback)
        d9_text_add(text, "; default %s", option->fallback);
}

void d9_option_explain(const d9_option *option, const char *between, d9_text *text) {
    for (const char *c = option->doc; *c; c++)
        if (*c == '\n')
            d9_text_add(text, "%s", between);
        else
            d9_text_add(text, "%c", *c);
    for (int i = 0; option == d9_section_model_name() && d9_model_at(i); i++)
        d9_text_add(text, "%s%s: %s", between, d9_model_at(i)->name, d9_model_at(i)->doc);
}

/* ---- keys by path ---- */

/* Makes the path of a key. The section "model (resnet9)" is the map `model`, and the root adds no prefix. */
static void make_path(const char *section, const char *option, char *path, size_t size) {
    const bool root = strcmp(section, "root") == 0;
    snprintf(path, size, "%.*s%s%s", root ? 0 : (int)strcspn(section, " "), section, root ? "" : ".", option);
}

bool d9_config_key(int index, d9_key *key) {
    const char *doc;
    const d9_option *option;
    for (int s = 0; d9_config_section(s, &key->section, &doc, &option); s++)
        for (; option->type != D9_OPTION_NONE; option++)
            if (index-- == 0) {
                key->option = option;
                make_path(key->section, option->key, key->path, sizeof key->path);
                return true;
            }
    return false;
}

bool d9_config_key_find(const char *path, d9_key *key) {
    for (int i = 0; d9_config_key(i, key); i++)
        if (strcmp(key->path, path) == 0) return true;
    return false;
}

/* True if `path` is `word` or ends in '.' and `word`. */
static bool ends_in_key(const char *path, const char *word) {
    const size_t length = strlen(path), tail = strlen(word);
    if (tail > length || strcmp(path + length - tail, word) != 0) return false;
    return tail == length || path[length - tail - 1] == '.';
}

/* True if a key before number `index` has this path: several models may have the option. */
static bool is_repeated(int index, const char *path) {
    d9_key key;
    for (int i = 0; i < index; i++)
        if (d9_config_key(i, &key) && strcmp(key.path, path) == 0) return true;
    return false;
}

/* Keys of `published` are not suggested, because they are only data for reports. */
bool d9_config_key_paths(const char *word, d9_text *text) {
    d9_key key;
    int found = 0;
    for (int i = 0; *word && d9_config_key(i, &key); i++)
        if (ends_in_key(key.path, word) && strcmp(key.section, "published") != 0 && !is_repeated(i, key.path))
            d9_text_add(text, "%s%s", found++ ? " or " : "", key.path);
    if (!found && d9_trick_index(word) >= 0) d9_text_add(text, "tricks.%s", word), found++;
    return found > 0;
}

/* ---- the page ---- */

static const char preface[] =
    "<!-- Made by `dawn9 config --reference` from the option tables. Change those, and make it again. -->\n"
    "# Every key of a configuration\n"
    "\n"
    "A configuration is a YAML file of the keys below. `--set train.epochs=3` sets one from the command line,\n"
    "`--with ema:every=7` switches a trick on or changes its options, `--without ema` switches it off, and\n"
    "`dawn9 config FILE --origins` shows the value of every key and where it was set. Their order on the\n"
    "command line does not matter. If several set one key, the first kind of this list wins: a short option such as\n"
    "`--epochs`, `--set`, `--without`, `--with`; among options of one kind the last wins. `--set` takes a text as it\n"
    "stands, `--set 'title=run 1: baseline'`, unless it begins with a quote.\n"
    "\n"
    "Three keys have no row of their own:\n"
    "\n"
    "- `base: FILE`, relative to the file that names it, is loaded first. Maps merge by key, everything else is "
    "replaced.\n"
    "  `title` and `published` are not inherited; another `model.name` drops the inherited options of the model.\n"
    "- `tricks` is a map of names to their options: `{}` for the defaults, `off` to remove an inherited one. The "
    "order\n"
    "  in the file means nothing.\n"
    "- `ablate` is a map of tricks to their companions, the settings that change when the trick is left out\n"
    "  ([experiments.md](experiments.md)).\n"
    "\n"
    "A schedule is a map of two lists, `{knots: [0, 20%, end-2], values: [0, 1, 0.1]}`, linear between its knots and\n"
    "constant outside. A knot is a number of epochs, `P%` of the run, `end` or `end-N`. With `peak: N` the values are\n"
    "multiplied so that the largest is N: `--lr 0.2`, or `--set train.lr.peak=0.2`, keeps the rest of a file's "
    "schedule.\n"
    "`{shape: cosine, peak: 0.4, warmup: 5, start: 0, end: 0}` instead rises linearly from `start` to `peak` at the "
    "knot\n"
    "`warmup`, then falls to `end` by half a cosine, `end + (peak - end) * (1 + cos(pi * p)) / 2` at the share p of "
    "what\n"
    "is left. Without `warmup` it begins at `peak`; `start` and `end` are 0 unless given. `peak` and `--lr` change\n"
    "only the peak of a cosine. A file or `--set` replaces the keys of an inherited schedule that it names: new\n"
    "`knots` keep the `values`. Another shape drops the keys of the inherited one. A warm-up that takes the whole run\n"
    "gives a warning, and so does a knot beyond the end of the run.\n"
    "A step uses the value at its end, as Page's recipe does, or with `at: start` at its start, as airbench's do. Two\n"
    "knots at one place make a jump: with `at: start` in the step of PyTorch's `MultiStepLR`, otherwise one step "
    "earlier.\n";

/* Adds text to a table cell; a bar would end the cell, so it is escaped. */
static void add_cell(d9_text *text, const char *bytes) {
    for (; *bytes; bytes++) d9_text_add(text, *bytes == '|' ? "\\|" : "%c", *bytes);
}

static void add_row(d9_context *context, const d9_option *option, d9_text *page) {
    d9_text values, doc;
    d9_text_init(context, &values);
    d9_text_init(context, &doc);
    d9_option_values(option, &values);
    d9_option_explain(option, "; ", &doc);
    d9_text_add(page, "| `%s` | ", option->key);
    add_cell(page, d9_text_get(&values));
    const char *fallback = !option->fallback ? "must be given" : *option->fallback ? option->fallback : "none";
    const char *mark = fallback == option->fallback ? "`" : "";
    d9_text_add(page, " | %s", mark);
    add_cell(page, fallback);
    d9_text_add(page, "%s | ", mark);
    add_cell(page, d9_text_get(&doc));
    d9_text_add(page, " |\n");
    d9_text_free_part(&values, page);
    d9_text_free_part(&doc, page);
}

void d9_config_reference(d9_text *text) {
    const char *section, *doc;
    const d9_option *options;
    d9_text_add(text, "%s", preface);
    for (int s = 0; d9_config_section(s, &section, &doc, &options); s++) {
        if (strcmp(section, "root") == 0)
            d9_text_add(text, "\n## At the top\n\n");
        else
            d9_text_add(text, "\n## `%s`\n\n", section);
        d9_text_add(text, "%c%s.\n", toupper((unsigned char)*doc), doc + 1);
        if (options->type == D9_OPTION_NONE) {
            d9_text_add(text, "It has no options.\n");
            continue;
        }
        d9_text_add(text, "\n| key | value | default | what |\n|---|---|---|---|\n");
        for (; options->type != D9_OPTION_NONE; options++) add_row(text->context, options, text);
    }
}
