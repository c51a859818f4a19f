/* dawn9 compare: differences of finished runs in configuration and execution, and their results, in columns. It also
 * compares configurations that were not run, with each other or with runs.
 *
 *                      runs/a   runs/b
 *     configuration
 *       train.epochs       10        8
 *     outcome
 *       accuracy_tta    94.20    93.71
 *
 * A run is read from its result.json and, if a configuration is compared too, from its config.yaml. Of configuration,
 * machine and rules only differences are shown. */
#include "cli/cli.h"
#include "core/system.h"
#include "core/listing.h"
#include "record/effective.h"
#include "record/timeline.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct compare_options {
    d9_flag_list runs;
    bool json;
} compare_options;

static const d9_flag flags[] = {
    {"RUN", D9_FLAG_WORDS, offsetof(compare_options, runs),
     .doc = "a run's folder, a folder of runs, or a configuration; two or more in all"},
    {"json", D9_FLAG_SWITCH, offsetof(compare_options, json), .doc = "print JSON"},
    {.type = D9_FLAG_END},
};

enum { MAX_RUNS = 64, MAX_DEPTH = 3, CELL_BYTES = 96 };

typedef struct row {
    const char *key;
    json_t *cells[MAX_RUNS]; /* owned; NULL: empty in this run's column */
    struct row *next;
} row;

typedef struct section {
    const char *name;
    bool all;           /* also show rows in which all runs agree */
    row *first, **last; /* last: the link that gets the next row */
} section;

typedef enum part { PART_CONFIGURATION, PART_MACHINE, PART_OUTCOME, PART_RULES, PART_COUNT } part;

typedef struct table {
    d9_cli *cli;
    const char *paths[MAX_RUNS];
    json_t *results[MAX_RUNS];
    int count;
    bool configs_only; /* a column is a configuration that was not run: only configurations are compared */
    section sections[PART_COUNT];
} table;

/* ---- reading ---- */

/* Adds a column. Takes ownership of `result`; NULL (out of memory) becomes an empty column. */
static d9_status add_column(table *table, const char *name, json_t *result) {
    if (table->count < MAX_RUNS) {
        table->results[table->count] = result;
        table->paths[table->count++] = name;
        return D9_OK;
    }
    json_decref(result);
    return d9_fail(&table->cli->context, D9_USAGE, "%s: at most %d can be compared (use dawn9 report for more)", name,
                   MAX_RUNS);
}

static d9_status read_result(table *table, const char *folder, const char *path) {
    d9_status status;
    d9_context *context = &table->cli->context;
    json_error_t error;
    json_t *result;
    D9_TRY(d9_json_read(context, path, &result, &error));
    if (!result) D9_TRY(d9_fail(context, D9_DATA, "%s:%d: %s", path, error.line, error.text));
    D9_TRY(add_column(table, folder, result));
    if (!json_is_object(json_object_get(result, "config")) || !json_is_array(json_object_get(result, "rules")))
        D9_TRY(d9_fail(context, D9_DATA, "%s: not the result of a run", path));
    if (d9_result_fault(result)) D9_TRY(d9_fail(context, D9_DATA, "%s: %s", path, d9_result_fault(result)));
done:
    return status;
}

/* Adds the run in `folder`; if there is none, those in its subfolders, at most MAX_DEPTH levels deep. */
static d9_status read_runs(table *table, const char *folder, int depth) {
    d9_status status = D9_OK;
    d9_context *context = &table->cli->context;
    d9_listing listing;
    char *path;
    D9_TRY(d9_arena_format(context, &table->cli->arena, &path, "%s/result.json", folder));
    if (d9_file_exists(context, path)) return read_result(table, folder, path);
    D9_TRY(d9_listing_read(context, &table->cli->arena, folder, &listing));
    for (int64_t i = 0; i < listing.count && depth < MAX_DEPTH; i++)
        if (listing.entries[i].folder) D9_TRY(read_runs(table, listing.entries[i].path, depth + 1));
done:
    return status;
}

static d9_status read_configuration(d9_context *context, const char *path, json_t **effective) {
    d9_status status = D9_OK;
    d9_config *config = NULL;
    D9_TRY(d9_config_load(context, path, NULL, &config));
    D9_TRY(d9_effective_json(context, config, effective));
done:
    d9_config_free(context, config);
    return status;
}

static d9_status add_configuration(table *table, const char *path) {
    d9_status status = D9_OK;
    json_t *effective = NULL;
    D9_TRY(read_configuration(&table->cli->context, path, &effective));
    D9_TRY(add_column(table, path, json_pack("{s:o}", "config", effective)));
    table->configs_only = true;
done:
    return status;
}

/* Reads the configuration of a run again from its config.yaml, if there is one. Keys added to dawn9 after the run then
 * have their defaults, as in a configuration that was not run. */
static d9_status reload_configuration(table *table, int run) {
    d9_status status = D9_OK;
    d9_context *context = &table->cli->context;
    json_t *effective = NULL;
    char *path;
    D9_TRY(d9_arena_format(context, &table->cli->arena, &path, "%s/config.yaml", table->paths[run]));
    if (!d9_file_exists(context, path)) goto done;
    D9_TRY(read_configuration(context, path, &effective));
    json_object_set_new(table->results[run], "config", effective);
done:
    return status;
}

static d9_status read_words(table *table, const d9_flag_list *words) {
    d9_status status = D9_OK;
    d9_context *context = &table->cli->context;
    char found[D9_INSTALLED_BYTES];
    for (int i = 0; i < words->count; i++) {
        const int before = table->count;
        if (!d9_folder_exists(context, words->items[i]) && d9_config_find(context, words->items[i], found))
            D9_TRY(add_configuration(table, words->items[i]));
        else
            D9_TRY(read_runs(table, words->items[i], 0));
        if (table->count == before)
            D9_TRY(d9_fail(context, D9_DATA, "%s: contains no finished run: no result.json in it or its subfolders",
                           words->items[i]));
    }
    if (table->count < 2)
        status = d9_fail(context, D9_USAGE, "%s: nothing to compare it with; give a second one (dawn9 compare --help)",
                         table->paths[0]);
done:
    return status;
}

/* ---- rows ---- */

/* Puts `value` (consumed; NULL: an empty cell) into the row of `key`, which is added if it is missing. */
static d9_status put_cell(table *table, part part, int run, const char *key, json_t *value) {
    d9_status status = D9_OK;
    d9_context *context = &table->cli->context;
    section *section = &table->sections[part];
    row *found = section->first;
    char *name = NULL;
    while (found && strcmp(found->key, key) != 0) found = found->next;
    if (!found) {
        D9_TRY(D9_ARENA_ALLOCATE(context, &table->cli->arena, 1, &found));
        D9_TRY(d9_arena_copy(context, &table->cli->arena, key, &name));
        found->key = name;
        *section->last = found;
        section->last = &found->next;
    }
    json_decref(found->cells[run]);
    found->cells[run] = value;
    value = NULL;
done:
    json_decref(value);
    return status;
}

/* Adds a row per key of `object`. Nested maps are flattened: {train: {epochs: 10}} becomes train.epochs. An empty map
 * in a section, such as a trick without options, is "on". Leaves out title, published and empty sections. */
static d9_status put_flat(table *table, int run, const char *prefix, json_t *object) {
    d9_status status = D9_OK;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        char path[160];
        const bool skipped =
            !*prefix &&
            (strcmp(key, "title") == 0 || strcmp(key, "published") == 0 ||
             (json_is_object(value) && json_object_size(value) == 0)); /* an empty map, such as tricks: {} */
        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (skipped) continue;
        if (json_object_size(value) > 0)
            D9_TRY(put_flat(table, run, path, value));
        else
            D9_TRY(put_cell(table, PART_CONFIGURATION, run, path,
                            json_is_object(value) ? json_string("on") : json_incref(value)));
    }
done:
    return status;
}

/* Adds a row per rule, named by its role; repeated roles are numbered: "layer1.conv", "layer1.conv 2". */
static d9_status put_rules(table *table, int run) {
    d9_status status = D9_OK;
    const json_t *rules = json_object_get(table->results[run], "rules");
    for (size_t i = 0; i < json_array_size(rules); i++) {
        const char *rule = "", *role = "", *choice = "", *other = "";
        char key[160], text[160];
        int before = 0;
        json_unpack(json_array_get(rules, i), "{s:s, s:s, s:s}", "rule", &rule, "role", &role, "choice", &choice);
        for (size_t j = 0; j < i; j++)
            before += json_unpack(json_array_get(rules, j), "{s:s}", "role", &other) == 0 && strcmp(role, other) == 0;
        snprintf(key, sizeof key, before ? "%s %d" : "%s", role, before + 1);
        snprintf(text, sizeof text, "%s%s%s", rule, *choice ? " " : "", choice);
        D9_TRY(put_cell(table, PART_RULES, run, key, json_string(text)));
    }
done:
    return status;
}

/* Puts the member `name` of the run's result.json into the row of that name. */
static d9_status put_member(table *table, part part, int run, const char *name) {
    return put_cell(table, part, run, name, json_incref(json_object_get(table->results[run], name)));
}

static d9_status put_run(table *table, int run) {
    static const char *const machine[] = {"backend", "precision", "device", "isa", "threads", "commit", "resumed"};
    static const char *const versions[] = {"dawn9", "compiler", "backend"};
    d9_status status;
    const json_t *result = table->results[run];
    const d9_measure *measure = d9_result_measure(result);
    const char *const outcome[] = {measure->name, measure->name_tta, "epoch_to_target"};
    const json_t *epochs = json_object_get(result, "epochs");
    json_t *best = json_object_get(result, "best_epoch"); /* NULL: the scores are those of the last epoch */
    const size_t epoch = best ? (size_t)json_integer_value(best) : json_array_size(epochs);
    const json_t *row = json_array_get(epochs, epoch - 1);
    char key[32];
    D9_TRY(put_flat(table, run, "", json_object_get(result, "config")));
    if (table->configs_only) goto done;
    D9_TRY(put_member(table, PART_CONFIGURATION, run, "data_digest"));
    for (size_t i = 0; i < sizeof machine / sizeof *machine; i++)
        D9_TRY(put_member(table, PART_MACHINE, run, machine[i]));
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        snprintf(key, sizeof key, "version of %s", versions[i]);
        json_t *version = json_object_get(json_object_get(result, "versions"), versions[i]);
        D9_TRY(put_cell(table, PART_MACHINE, run, key, json_incref(version)));
    }
    for (size_t i = 0; i < sizeof outcome / sizeof *outcome; i++)
        D9_TRY(put_member(table, PART_OUTCOME, run, outcome[i]));
    if (best) D9_TRY(put_member(table, PART_OUTCOME, run, "best_epoch"));
    D9_TRY(put_cell(table, PART_OUTCOME, run, "train_loss", json_incref(json_object_get(row, "train_loss"))));
    for (int i = 0; d9_clock_at(i); i++) D9_TRY(put_member(table, PART_OUTCOME, run, d9_clock_at(i)->name));
    D9_TRY(put_member(table, PART_OUTCOME, run, "params_sha256"));
    D9_TRY(put_rules(table, run));
done:
    return status;
}

static bool is_shown(const table *table, const section *section, const row *row) {
    bool same = true;
    for (int r = 1; r < table->count && same; r++)
        same = row->cells[r] == row->cells[0] || json_equal(row->cells[r], row->cells[0]);
    return section->all || !same;
}

/* ---- printing, and the command ---- */

static void format_cell(const row *row, int run, char text[CELL_BYTES]) {
    const json_t *cell = row->cells[run];
    if (!cell || json_is_null(cell)) {
        snprintf(text, CELL_BYTES, "-");
    } else if (json_is_string(cell)) {
        const bool hash = strcmp(row->key, "params_sha256") == 0;
        snprintf(text, CELL_BYTES, "%.*s", hash ? 12 : CELL_BYTES - 1, json_string_value(cell));
    } else if (json_is_real(cell)) {
        const d9_measure *measure = d9_measure_find_in_key(row->key);
        if (measure || strstr(row->key, "_seconds"))
            snprintf(text, CELL_BYTES, "%.*f", measure ? measure->digits : 2, json_real_value(cell));
        else
            snprintf(text, CELL_BYTES, "%.6g", json_real_value(cell));
    } else {
        char *dump = json_dumps(cell, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
        snprintf(text, CELL_BYTES, "%s", dump ? dump : "?");
        free(dump);
    }
}

typedef struct widths {
    int key, cells[MAX_RUNS];
} widths;

static void widen(int *width, const char *text) {
    if (d9_text_columns(text) > *width) *width = d9_text_columns(text);
}

static void measure_columns(const table *table, widths *widths) {
    char text[CELL_BYTES];
    *widths = (struct widths){.key = 13};
    for (int r = 0; r < table->count; r++) widen(&widths->cells[r], table->paths[r]);
    for (int s = 0; s < PART_COUNT; s++)
        for (const row *row = table->sections[s].first; row; row = row->next) {
            if (!is_shown(table, &table->sections[s], row)) continue;
            widen(&widths->key, row->key);
            for (int r = 0; r < table->count; r++) format_cell(row, r, text), widen(&widths->cells[r], text);
        }
}

static void print_table(const table *table) {
    d9_cli *cli = table->cli;
    widths widths;
    char text[CELL_BYTES];
    measure_columns(table, &widths);
    d9_cli_print(cli, "%*s", widths.key + 2, "");
    for (int r = 0; r < table->count; r++) d9_cli_print(cli, "   %*s", widths.cells[r], table->paths[r]);
    d9_cli_print(cli, "\n");
    for (int s = 0; s < (table->configs_only ? 1 : PART_COUNT); s++) {
        const section *section = &table->sections[s];
        bool any = false;
        for (const row *row = section->first; row && !any; row = row->next) any = is_shown(table, section, row);
        d9_cli_print(cli, any ? "%s\n" : "%-13s the same\n", section->name);
        for (const row *row = section->first; row; row = row->next) {
            if (!is_shown(table, section, row)) continue;
            d9_cli_print(cli, "  %-*s", widths.key, row->key);
            for (int r = 0; r < table->count; r++) {
                format_cell(row, r, text);
                d9_cli_print(cli, "   %*s", widths.cells[r], text);
            }
            d9_cli_print(cli, "\n");
        }
    }
}

static void print_json(const table *table) {
    json_t *all = json_object(), *runs = json_array();
    for (int r = 0; r < table->count; r++) json_array_append_new(runs, d9_cli_json_text(table->cli, table->paths[r]));
    json_object_set_new(all, "runs", runs);
    for (int s = 0; s < (table->configs_only ? 1 : PART_COUNT); s++) {
        json_t *rows = json_object();
        for (const row *row = table->sections[s].first; row; row = row->next) {
            json_t *cells = json_array();
            for (int r = 0; r < table->count; r++)
                json_array_append_new(cells, row->cells[r] ? json_incref(row->cells[r]) : json_null());
            if (is_shown(table, &table->sections[s], row)) json_object_set(rows, row->key, cells);
            json_decref(cells);
        }
        json_object_set_new(all, table->sections[s].name, rows);
    }
    d9_cli_print_json(table->cli, all);
}

static void free_table(table *table) {
    for (int s = 0; s < PART_COUNT; s++)
        for (const row *row = table->sections[s].first; row; row = row->next)
            for (int r = 0; r < table->count; r++) json_decref(row->cells[r]);
    for (int r = 0; r < table->count; r++) json_decref(table->results[r]);
}

static d9_status run(d9_cli *cli, const void *options) {
    d9_status status = D9_OK;
    const compare_options *chosen = options;
    char found[D9_INSTALLED_BYTES];
    table table = {
        .cli = cli,
        .sections = {
            {.name = "configuration"}, {.name = "machine"}, {.name = "outcome", .all = true}, {.name = "rules"}}};
    for (int s = 0; s < PART_COUNT; s++) table.sections[s].last = &table.sections[s].first;
    for (int i = 0; i < chosen->runs.count; i++) {
        const char *word = chosen->runs.items[i];
        if (d9_folder_exists(&cli->context, word)) continue;
        D9_TRY(d9_cli_find(cli, D9_INSTALLED_CONFIGS, word, found));
        D9_TRY(d9_cli_check_path(cli, found)); /* fails, naming a run's folder, if that has a similar name */
    }
    D9_TRY(read_words(&table, &chosen->runs));
    for (int r = 0; r < table.count && table.configs_only; r++) D9_TRY(reload_configuration(&table, r));
    for (int r = 0; r < table.count; r++) D9_TRY(put_run(&table, r));
    if (chosen->json)
        print_json(&table);
    else
        print_table(&table);
done:
    free_table(&table);
    return status;
}

static const d9_example examples[] = {
    {"two runs: differences of configuration and result", "dawn9 compare runs/first runs/second"},
    {"all runs in a folder", "dawn9 compare runs/five"},
    {"differences of two configurations", "dawn9 compare configs/dawn94.yaml configs/airbench94.yaml"},
    {0},
};

const d9_command d9_command_compare = {
    .name = "compare",
    .doc = "Compare finished runs or configurations: differences and results",
    .about = "Of configuration, machine and rules only the differences are shown; accuracy is in percent, time in "
             "seconds. Where "
             "one of them is a configuration, only configurations are compared.",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(compare_options),
    .run = run,
};
