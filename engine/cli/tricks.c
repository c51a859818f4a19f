/* dawn9 tricks: lists the tricks, or describes one. */
#include "cli/cli.h"
#include "cli/help.h"
#include <stdio.h>
#include <string.h>

typedef struct tricks_options {
    const char *name;
    bool json;
} tricks_options;

static const d9_flag flags[] = {
    {"NAME", D9_FLAG_OPTIONAL, offsetof(tricks_options, name), .doc = "full description of this trick"},
    {"json", D9_FLAG_SWITCH, offsetof(tricks_options, json), .doc = "print JSON"},
    {.type = D9_FLAG_END},
};

static const d9_example examples[] = {
    {"all tricks, in the order in which they are applied", "dawn9 tricks"},
    {"one trick: description, source, published and measured effect, options", "dawn9 tricks ghost_batchnorm"},
    {0},
};

static d9_status reject_unknown_trick(d9_cli *cli, const char *name) {
    const char *names[D9_TRICK_COUNT];
    for (int i = 0; i < D9_TRICK_COUNT; i++) names[i] = d9_trick_at(i)->name;
    const char *nearest = d9_text_nearest(name, names, D9_TRICK_COUNT);
    return d9_fail(&cli->context, D9_USAGE, "unknown trick \"%s\"%s%s%s (dawn9 tricks lists them)", name,
                   nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

/* ---- the description of one trick ---- */

enum { LABEL_COLUMNS = 13 };

static void add_field(d9_text *text, const char *label, const char *words, int width) {
    if (!words) return;
    d9_text_add(text, "  %-*s", LABEL_COLUMNS - 2, label);
    d9_wrap(words, LABEL_COLUMNS, LABEL_COLUMNS, width, text);
}

/* Formats "the recipe loses 0.41 points of accuracy without it (95% interval 0.27 to 0.55, 10 runs,
 * experiments/x.yaml)", and says if the recipe was smaller or the difference is not significant. */
static void format_measured(const d9_measured *row, char *sentence, size_t size) {
    const bool small = d9_text_ends_in(row->experiment, "-small"); /* names of experiments with reduced recipes */
    const bool gains = row->difference >= 0;
    const double ends[] = {gains ? row->low : -row->high, gains ? row->high : -row->low};
    const int length =
        snprintf(sentence, size,
                 "%s %s %.2f points of accuracy %s%s%s%s (95%% interval %.2f to %.2f, %d runs, experiments/%s.yaml%s)",
                 row->side == D9_ADDED_TO_NONE ? "a network without tricks"
                 : small                       ? "a smaller, shorter recipe"
                                               : "the recipe",
                 gains ? "gains" : "loses", fabs(row->difference), row->side == D9_LEFT_OUT ? "without it" : "with it",
                 row->companions ? ", with its companions" : "", row->instead_of ? " instead of " : "",
                 row->instead_of ? row->instead_of : "", ends[0], ends[1], row->runs, row->experiment,
                 small ? ": narrower, with fewer images and epochs" : "");
    if (row->p >= 0.05 && length > 0 && (size_t)length < size)
        snprintf(sentence + length, size - (size_t)length, "; not significant (Holm's p %.2g)", row->p);
}

static void add_measured(d9_text *text, int trick, int width) {
    const d9_measured *row;
    const char *label = "measured";
    for (int i = 0; (row = d9_measured_at(i)); i++) {
        char sentence[320];
        if (row->trick != trick) continue;
        format_measured(row, sentence, sizeof sentence);
        add_field(text, label, sentence, width);
        label = "";
    }
}

static void add_option(d9_text *text, const d9_option *option, int width) {
    enum { COLUMNS = 25 }; /* 18 letters of the longest keys, and margins */
    const int length = (int)strlen(option->key);
    d9_text_add(text, "    %s%*s", option->key, length + 6 > COLUMNS ? 2 : COLUMNS - 4 - length, "");
    d9_help_option(option, COLUMNS, width, text);
    d9_text_add(text, "%*s", COLUMNS, "");
    d9_option_describe(option, text);
    d9_text_add(text, "\n");
}

static void add_switches(d9_text *text, const d9_trick *trick) {
    const d9_option *option = trick->options && trick->options->key ? trick->options : NULL;
    d9_text_add(text, "  on         --with %s", trick->name);
    if (option && option->fallback)
        d9_text_add(text, "    with an option: --with %s:%s=%s", trick->name, option->key, option->fallback);
    d9_text_add(text, "\n  off        --without %s\n", trick->name);
}

d9_status d9_help_trick(d9_cli *cli, const d9_trick *trick) {
    const int width = d9_help_width(cli);
    const int self = d9_trick_index(trick->name);
    const char *field = "conflicts";
    d9_text text;
    d9_text_init(&cli->context, &text);
    d9_text_add(&text, "%s\n", trick->name);
    add_field(&text, "what", trick->doc, width);
    add_field(&text, "source", trick->source, width);
    add_field(&text, "published", trick->effect, width);
    add_measured(&text, self, width);
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        if (d9_tricks_conflict(self, i)) add_field(&text, field, d9_trick_at(i)->name, width), field = "";
    d9_text_add(&text, trick->options && trick->options->key ? "  options\n" : "  options    none\n");
    for (const d9_option *option = trick->options; option && option->key; option++) add_option(&text, option, width);
    add_switches(&text, trick);
    return d9_cli_print_text(cli, &text);
}

/* ---- JSON, and the command ---- */

static json_t *bound_json(const d9_option *option, double value) {
    const bool bounded = option->minimum != 0 || option->maximum != 0;
    return bounded && isfinite(value) ? json_real(value) : json_null();
}

static json_t *option_json(d9_cli *cli, const d9_option *option) {
    d9_text values, what;
    d9_text_init(&cli->context, &values);
    d9_text_init(&cli->context, &what);
    d9_option_values(option, &values);
    d9_option_explain(option, "; ", &what);
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s?, s:o, s:o, s:s?}", "key", option->key, "what", d9_text_get(&what), "values",
                  d9_text_get(&values), "default", option->fallback, "minimum", bound_json(option, option->minimum),
                  "maximum", bound_json(option, option->maximum), "choices", option->choices);
    d9_text_free(&values);
    d9_text_free(&what);
    return object;
}

static json_t *measured_json(int trick) {
    json_t *rows = json_array();
    const d9_measured *row;
    for (int i = 0; (row = d9_measured_at(i)); i++)
        if (row->trick == trick)
            json_array_append_new(
                rows, json_pack("{s:s, s:b, s:b, s:b, s:s?, s:i, s:f, s:f, s:f, s:f}", "experiment", row->experiment,
                                "added", row->side != D9_LEFT_OUT, "to_none", row->side == D9_ADDED_TO_NONE,
                                "companions", row->companions, "instead_of", row->instead_of, "runs", row->runs,
                                "difference", row->difference, "low", row->low, "high", row->high, "p_holm", row->p));
    return rows;
}

static json_t *trick_json(d9_cli *cli, const d9_trick *trick) {
    json_t *options = json_array(), *conflicts = json_array();
    for (const d9_option *option = trick->options; option && option->key; option++)
        json_array_append_new(options, option_json(cli, option));
    const int self = d9_trick_index(trick->name);
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        if (d9_tricks_conflict(self, i)) json_array_append_new(conflicts, json_string(d9_trick_at(i)->name));
    return json_pack("{s:s, s:s, s:s?, s:s?, s:o, s:o, s:o}", "name", trick->name, "what", trick->doc, "source",
                     trick->source, "published", trick->effect, "measured", measured_json(self), "conflicts", conflicts,
                     "options", options);
}

static json_t *tricks_json(d9_cli *cli) {
    json_t *all = json_array();
    for (int i = 0; i < D9_TRICK_COUNT; i++) json_array_append_new(all, trick_json(cli, d9_trick_at(i)));
    return all;
}

static d9_status run(d9_cli *cli, const void *options) {
    const tricks_options *chosen = options;
    const int index = chosen->name ? d9_trick_index(chosen->name) : -1;
    if (chosen->name && index < 0) return reject_unknown_trick(cli, chosen->name);
    if (chosen->name && !chosen->json) return d9_help_trick(cli, d9_trick_at(index));
    if (chosen->json)
        d9_cli_print_json(cli, chosen->name ? trick_json(cli, d9_trick_at(index)) : tricks_json(cli));
    else
        for (int i = 0; i < D9_TRICK_COUNT; i++)
            d9_cli_print(cli, "%-24s %s\n", d9_trick_at(i)->name, d9_trick_at(i)->doc);
    return D9_OK;
}

const d9_command d9_command_tricks = {
    .name = "tricks",
    .doc = "List the tricks in the order in which they are applied, or describe one",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(tricks_options),
    .run = run,
};
