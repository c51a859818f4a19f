/* OUT/experiment.json: the list of runs and their folders, written before the first run and read by the report. */
#include "core/system.h"
#include "experiment/experiment.h"
#include "record/effective.h"
#include "record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *d9_experiment_kind_name(d9_experiment_kind kind) {
    static const char *const names[] = {"grid", "ablation", "search"};
    return names[kind];
}

/* ---- runs by index ---- */

int64_t d9_experiment_run_count(const d9_experiment *experiment) {
    return (int64_t)experiment->arm_count * experiment->seed_count;
}
const d9_arm *d9_experiment_arm(const d9_experiment *experiment, int64_t index) {
    return &experiment->arms[index % experiment->arm_count];
}
bool d9_experiment_run_is_trained(const d9_experiment *experiment, int64_t index) {
    const d9_arm *arm = d9_experiment_arm(experiment, index);
    return arm == &experiment->arms[arm->runs_of] && !arm->rejected;
}
int64_t d9_experiment_seed(const d9_experiment *experiment, int64_t index) {
    return experiment->seeds[index / experiment->arm_count];
}

/* Index of the run with the same seed of the arm that trains run `index`. */
static int64_t trained_index(const d9_experiment *experiment, int64_t index) {
    return index - index % experiment->arm_count + d9_experiment_arm(experiment, index)->runs_of;
}

d9_status d9_experiment_folder(d9_context *context, const d9_experiment *experiment, const char *out, int64_t index,
                               char folder[D9_RUN_FOLDER_BYTES]) {
    const int64_t trained = trained_index(experiment, index);
    const char *owner = experiment->owners ? experiment->owners[trained] : NULL;
    if (!owner) owner = d9_experiment_arm(experiment, trained)->name;
    const int length = snprintf(folder, D9_RUN_FOLDER_BYTES, "%s%sruns/%s/seed%lld", out, *out ? "/" : "", owner,
                                (long long)d9_experiment_seed(experiment, index));
    if (length < D9_RUN_FOLDER_BYTES) return D9_OK;
    return d9_fail(context, D9_USAGE, "%s: the folder of a run would have a name of %d bytes, at most %d", out, length,
                   D9_RUN_FOLDER_BYTES - 1);
}

/* ---- JSON ---- */

static json_t *value_json(const char *text) {
    int64_t integer;
    double real;
    if (d9_text_to_integer(text, &integer)) return json_integer(integer);
    if (d9_text_to_real(text, &real)) return json_real(real);
    return d9_json_text(text);
}

/* Reduces an absolute path to its file name, because records contain no absolute paths. */
static const char *portable_path(const char *path) { return *path == '/' ? d9_text_file_name(path) : path; }

/* True if the value of a key begins at `at`, also within a list or a map: KEY=VALUE, {KEY: VALUE}, [VALUE, VALUE]. */
static bool begins_value(const char *text, const char *at) {
    return at > text && (strchr("=\"'[{", at[-1]) || (at > text + 1 && at[-1] == ' ' && strchr(":,", at[-2])));
}

/* Length of the path that begins at `at`: in quotes up to the quote, in a list or a map up to its next value. */
static size_t path_length(const char *text, const char *at) {
    if (at[-1] == '"' || at[-1] == '\'') return strcspn(at, at[-1] == '"' ? "\"" : "'");
    return text + strcspn(text, "[{") < at ? strcspn(at, ",]}") : strlen(at);
}

/* Adds the edit as on a command line, with the names of files in place of absolute paths. */
static void add_edit(const d9_config_edit *edit, d9_text *text) {
    d9_config_edit shown = *edit;
    d9_text words;
    d9_text_init(text->context, &words);
    for (const char *at = edit->text, *end; *at; at = end) {
        const bool path = *at == '/' && begins_value(edit->text, at);
        end = at + (path ? path_length(edit->text, at) : 1);
        for (const char *c = at; path && c + 1 < end; c++)
            if (*c == '/') at = c + 1;
        d9_text_add(&words, "%.*s", (int)(end - at), at);
    }
    shown.text = d9_text_get(&words);
    d9_config_edit_write(&shown, text);
    d9_text_free_part(&words, text);
}

d9_status d9_experiment_set_command(d9_context *context, d9_experiment *experiment, const char *verb,
                                    const char *const *only, int only_count, const d9_experiment_options *options) {
    d9_status status;
    char *command;
    d9_text text;
    d9_text_init(context, &text);
    d9_text_add(&text, "dawn9 %s ", verb);
    d9_text_add_shell_word(&text, portable_path(experiment->file));
    for (int i = 0; i < only_count; i++) d9_text_add(&text, "%s%s", i ? "," : " --only ", only[i]);
    for (int i = 0; i < options->edits.count; i++) {
        d9_text_add(&text, " ");
        add_edit(&options->edits.items[i], &text);
    }
    if (options->data) d9_text_add(&text, " --data ");
    if (options->data) d9_text_add_shell_word(&text, *options->data == '/' ? "DIR" : options->data);
    if (options->seeds) d9_text_add(&text, " --seeds %lld", (long long)options->seeds);
    D9_TRY(d9_text_status(&text));
    D9_TRY(d9_arena_copy(context, &experiment->arena, d9_text_get(&text), &command));
    experiment->command = command;
done:
    d9_text_free(&text);
    return status;
}

/* Lists, as written on a command line, the edits that all arms share (`shared`) or the others. */
static d9_status edits_json(d9_context *context, const d9_config_edits *edits, bool shared, json_t **list) {
    d9_status status = D9_OK;
    *list = json_array();
    for (int i = 0; i < edits->count && status == D9_OK; i++) {
        d9_text text;
        if (edits->items[i].shared != shared) continue;
        d9_text_init(context, &text);
        add_edit(&edits->items[i], &text);
        json_array_append_new(*list, d9_json_text(d9_text_get(&text)));
        status = d9_text_status(&text);
        d9_text_free(&text);
    }
    return status;
}

static json_t *published_json(const d9_config *config) {
    json_t *object = json_object();
    const struct {
        const char *key;
        double value;
    } numbers[] = {{config->measure->name, d9_config_published(config)},
                   {"seconds", config->published.seconds},
                   {"epochs", config->published.epochs}};
    for (int i = 0; i < 3; i++)
        if (isfinite(numbers[i].value)) json_object_set_new(object, numbers[i].key, json_real(numbers[i].value));
    if (config->published.hardware) json_object_set_new(object, "hardware", d9_json_text(config->published.hardware));
    if (config->published.source) json_object_set_new(object, "source", d9_json_text(config->published.source));
    return object;
}

static d9_status add_arm_json(d9_context *context, const d9_arm *arm, json_t *arms) {
    json_t *edits, *grid = json_object(), *published = published_json(arm->config);
    const d9_status status = edits_json(context, &arm->edits, false, &edits);
    for (int i = 0; i < arm->grid_count; i++)
        json_object_set_new(grid, arm->grid[i].key, value_json(arm->grid[i].value));
    json_t *object =
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:f}", "name", arm->name, "label", d9_json_text(arm->label),
                  "baseline", d9_json_text(arm->baseline), "config", d9_json_text(portable_path(arm->config->path)),
                  "edits", edits, "grid", grid, "config_hash", arm->config_hash, "epochs", arm->config->train.epochs);
    if (json_object_size(published) > 0) json_object_set(object, "published", published);
    json_decref(published);
    if (arm->rejected) json_object_set_new(object, "rejected", d9_json_text(arm->rejected));
    if (arm->trick) {
        json_object_set_new(object, "trick", json_string(arm->trick));
        json_object_set_new(object, "companions", json_boolean(arm->companions));
    }
    json_array_append_new(arms, object);
    return status;
}

static json_t *search_json(const d9_search *search) {
    json_t *rungs = json_array();
    for (int i = 0; i < search->rung_count; i++) json_array_append_new(rungs, json_real(search->rungs[i]));
    return json_pack("{s:I, s:I, s:I, s:s, s:s, s:o, s:f, s:f}", "trials", (json_int_t)search->trials, "seed",
                     (json_int_t)search->seed, "eta", (json_int_t)search->eta, "promote",
                     search->promote == D9_PROMOTE_FRONTIER ? "frontier" : "score", "rungs_of",
                     search->by_seeds ? "seeds" : "train.epochs", "rungs", rungs, "teraflop", search->teraflop, "hours",
                     search->hours);
}

static d9_status runs_json(d9_context *context, const d9_experiment *experiment, json_t *runs) {
    d9_status status = D9_OK;
    char folder[D9_RUN_FOLDER_BYTES];
    for (int64_t i = 0; i < d9_experiment_run_count(experiment); i++) {
        D9_TRY(d9_experiment_folder(context, experiment, "", i, folder));
        json_array_append_new(runs, json_pack("{s:s, s:I, s:s}", "arm", d9_experiment_arm(experiment, i)->name, "seed",
                                              (json_int_t)d9_experiment_seed(experiment, i), "folder", folder));
    }
done:
    return status;
}

d9_status d9_experiment_json(d9_context *context, const d9_experiment *experiment, json_t **object) {
    d9_status status;
    json_t *arms = json_array(), *seeds = json_array(), *runs = json_array(), *shared;
    D9_TRY(edits_json(context, &experiment->arms[0].edits, true, &shared));
    for (int i = 0; i < experiment->arm_count; i++) D9_TRY(add_arm_json(context, &experiment->arms[i], arms));
    for (int i = 0; i < experiment->seed_count; i++) json_array_append_new(seeds, json_integer(experiment->seeds[i]));
    D9_TRY(runs_json(context, experiment, runs));
    *object = json_pack(
        "{s:o, s:o, s:s, s:[o], s:f, s:o, s:O, s:O, s:O, s:O}", "title", d9_json_text(experiment->title), "question",
        d9_json_text(experiment->question), "kind", d9_experiment_kind_name(experiment->kind), "commands",
        d9_json_text(experiment->command), "target", experiment->arms[0].config->target, "file",
        d9_json_text(portable_path(experiment->file)), "shared", shared, "arms", arms, "seeds", seeds, "runs", runs);
    if (*object && experiment->kind == D9_EXPERIMENT_SEARCH)
        json_object_set_new(*object, "search", search_json(&experiment->search));
    if (!*object)
        status = d9_fail(context, D9_DEVICE, "the experiment holds text that is not UTF-8, or memory ran out");
done:
    json_decref(shared);
    json_decref(arms);
    json_decref(seeds);
    json_decref(runs);
    return status;
}

/* ---- writing experiment.json, merged with an existing one ---- */

static const char *string_at(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* True if the objects have equal values of the one or two keys; without keys, if they are equal. */
static bool keys_equal(const json_t *one, const json_t *other, const char *const keys[2]) {
    bool all = keys[0] || json_equal(one, other);
    for (int k = 0; k < 2 && keys[k]; k++)
        all = all && json_equal(json_object_get(one, keys[k]), json_object_get(other, keys[k]));
    return all;
}

/* Finds the item of the list that equals `like` in these keys; NULL: none. Tries index `at` first, the usual place. */
static json_t *find_equal(const json_t *list, size_t at, const char *const keys[2], const json_t *like) {
    size_t i;
    json_t *item = json_array_get(list, at);
    if (item && keys_equal(item, like, keys)) return item;
    json_array_foreach(list, i, item) if (keys_equal(item, like, keys)) return item;
    return NULL;
}

static const char *const by_name[2] = {"name"}, *const by_run[2] = {"arm", "seed"}, *const whole[2] = {0};

/* True if the items of the list at `key` of `before` are the first items of the same list of `now`. */
static bool begins_alike(const json_t *before, const json_t *now, const char *key) {
    size_t i;
    const json_t *item;
    json_array_foreach(json_object_get(before, key), i, item) {
        if (!json_equal(item, json_array_get(json_object_get(now, key), i))) return false;
    }
    return true;
}

/* True if the search `wanted` can continue the search `held`: both have rungs of seeds, or both have rungs of epochs
 * and the rungs and seeds of `held` come first in `wanted`. Then, as the report expects, the arms of each trial in
 * `wanted` lie one after another, and a rung is finished once the runs of all recorded seeds are done. True also if
 * either is no search. */
static bool continues_rungs(const json_t *held, const json_t *wanted) {
    const json_t *before = json_object_get(held, "search"), *now = json_object_get(wanted, "search");
    if (!before || !now) return true;
    if (strcmp(string_at(before, "rungs_of"), string_at(now, "rungs_of")) != 0) return false;
    if (strcmp(string_at(before, "rungs_of"), "seeds") == 0) return true;
    return begins_alike(before, now, "rungs") && begins_alike(held, wanted, "seeds");
}

/* Returns D9_USAGE if `held`, the experiment.json in the folder, has another title or kind than `wanted`, a search that
 * `wanted` cannot continue, or an arm of the same name with another configuration. */
static d9_status check_held(d9_context *context, const char *out, const json_t *held, const json_t *wanted) {
    static const char *const keys[] = {"title", "kind"};
    size_t i;
    json_t *arm;
    for (int k = 0; k < 2; k++)
        if (strcmp(string_at(held, keys[k]), string_at(wanted, keys[k])) != 0)
            return d9_fail(context, D9_USAGE,
                           "%s: holds another experiment (%s \"%s\", not \"%s\"); give another --out", out, keys[k],
                           string_at(held, keys[k]), string_at(wanted, keys[k]));
    if (!continues_rungs(held, wanted))
        return d9_fail(context, D9_USAGE, "%s: its search has other rungs or more seeds; give another --out", out);
    json_array_foreach(json_object_get(held, "arms"), i, arm) {
        const json_t *mine = find_equal(json_object_get(wanted, "arms"), i, by_name, arm);
        if (!mine || strcmp(string_at(mine, "config_hash"), string_at(arm, "config_hash")) == 0) continue;
        return d9_fail(context, D9_USAGE,
                       "%s: its arm %s has another configuration (%.12s, now %.12s); give another --out, or rename the "
                       "arm",
                       out, string_at(arm, "name"), string_at(arm, "config_hash"), string_at(mine, "config_hash"));
    }
    return D9_OK;
}

/* Appends to the list of `wanted` the items of the same list of `held` that it lacks. */
static void keep_earlier(const json_t *held, json_t *wanted, const char *list, const char *const keys[2]) {
    size_t i;
    json_t *item, *kept = json_object_get(wanted, list);
    json_array_foreach(json_object_get(held, list), i, item) {
        if (!find_equal(kept, i, keys, item)) json_array_append(kept, item);
    }
}

/* Puts the commands of `held` in front of those of `wanted`, each once. */
static void keep_commands(const json_t *held, json_t *wanted) {
    size_t i;
    json_t *item, *all = json_array();
    const json_t *earlier = json_object_get(held, "commands");
    json_array_foreach(earlier, i, item) json_array_append(all, item);
    json_array_foreach(json_object_get(wanted, "commands"), i, item) {
        if (!find_equal(all, i, whole, item)) json_array_append(all, item);
    }
    json_object_set_new(wanted, "commands", all);
}

static d9_status read_held(d9_context *context, const char *path, json_t **held) {
    json_error_t error;
    *held = NULL;
    if (!d9_file_exists(context, path)) return D9_OK;
    d9_status status = d9_json_read(context, path, held, &error);
    if (status == D9_OK && !json_is_object(*held))
        status = d9_fail(context, D9_USAGE,
                         "%s:%d: not the record of an experiment, or truncated; remove it to have it written again",
                         path, *held ? 1 : error.line);
    return status;
}

/* Index of the run of this arm and seed; -1: none. Begins at run `at`, the usual place. */
static int64_t find_index(const d9_experiment *experiment, int64_t at, const char *arm, int64_t seed) {
    const int64_t arms = experiment->arm_count, seeds = experiment->seed_count;
    for (int64_t s = 0; s < seeds; s++) {
        const int64_t row = (at / arms + s) % seeds;
        for (int64_t a = 0; experiment->seeds[row] == seed && a < arms; a++)
            if (strcmp(experiment->arms[(at + a) % arms].name, arm) == 0) return row * arms + (at + a) % arms;
    }
    return -1;
}

/* Sets `owners` from the folders, "runs/ARM/seedN", of the runs that `held` (NULL: none) lists. An arm whose
 * configuration is no longer identical with that of the owner gets a folder of its own. */
static d9_status adopt_folders(d9_context *context, const json_t *held, d9_experiment *experiment) {
    static const char above[] = "runs/";
    d9_status status = D9_OK;
    size_t i;
    json_t *run;
    char *owner;
    if (!experiment->owners)
        D9_TRY(
            D9_ARENA_ALLOCATE(context, &experiment->arena, d9_experiment_run_count(experiment), &experiment->owners));
    json_array_foreach(json_object_get(held, "runs"), i, run) {
        const char *folder = string_at(run, "folder"), *name = folder + strlen(above);
        const int64_t seed = json_integer_value(json_object_get(run, "seed")), at = (int64_t)i,
                      index = find_index(experiment, at, string_at(run, "arm"), seed);
        if (index < 0 || strncmp(folder, above, strlen(above)) != 0 || *name == '.') continue;
        const int64_t trained = trained_index(experiment, index);
        if (experiment->owners[trained]) continue;
        D9_TRY(d9_arena_format(context, &experiment->arena, &owner, "%.*s", (int)strcspn(name, "/"), name));
        const int64_t own = find_index(experiment, at, owner, seed); /* -1: the owner is not in the file any more */
        if (own < 0 || trained_index(experiment, own) == trained) experiment->owners[trained] = owner;
    }
done:
    return status;
}

static d9_status write_json(d9_context *context, const char *path, const json_t *object) {
    char *dump = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    d9_status status = dump ? D9_OK : d9_fail(context, D9_DEVICE, "out of memory for %s", path);
    size_t length = dump ? strlen(dump) : 0;
    if (dump) dump[length] = '\n'; /* replaces the terminating zero */
    if (dump) status = d9_file_write(context, path, dump, length + 1);
    free(dump);
    return status;
}

/* Takes the lock. Waits for it up to 30 s, because another process that is just starting holds it only briefly. */
static d9_status wait_for_lock(d9_context *context, const char *path, int *lock) {
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    const double deadline = d9_clock_now() + 30;
    for (;;) {
        d9_status status = d9_lock_take(context, path, lock);
        if (status != D9_OK || *lock >= 0) return status;
        if (d9_clock_now() > deadline)
            return d9_fail(context, D9_OUTPUT, "%s: another process has held it for 30 s", path);
        nanosleep(&pause, NULL);
    }
}

d9_status d9_experiment_reject_folder(d9_context *context, d9_arena *arena, const char *out, bool experiments) {
    static const char *const files[] = {"config.yaml", "result.json", "experiment.json", "lock"};
    d9_status status = D9_OK;
    char *path;
    bool held;
    for (int i = 0; i < (experiments ? 4 : 2); i++) {
        D9_TRY(d9_arena_format(context, arena, &path, "%s/%s", out, files[i]));
        D9_TRY(d9_file_find(context, D9_OUTPUT, path, &held));
        if (held)
            D9_TRY(d9_fail(context, D9_USAGE, "%s: holds a run%s (%s); give another --out", out,
                           experiments ? " or an experiment" : "", files[i]));
    }
done:
    return status;
}

/* Reads experiment.json into *held (NULL: there is none), sets `owners` from it, and checks that the folder can hold
 * the experiment, whose own experiment.json is *wanted. */
static d9_status read_and_check(d9_context *context, d9_experiment *experiment, const char *out, json_t **held,
                                json_t **wanted) {
    d9_status status;
    d9_arena arena = {0};
    char *path;
    *held = *wanted = NULL;
    D9_TRY(d9_arena_format(context, &arena, &path, "%s/experiment.json", out));
    D9_TRY(read_held(context, path, held));
    D9_TRY(adopt_folders(context, *held, experiment));
    D9_TRY(d9_experiment_json(context, experiment, wanted));
    if (*held)
        D9_TRY(check_held(context, out, *held, *wanted));
    else
        D9_TRY(d9_experiment_reject_folder(context, &arena, out, false)); /* files of a run would mix with its own */
done:
    d9_arena_free(context, &arena);
    return status;
}

static d9_status merge_and_write(d9_context *context, d9_experiment *experiment, const char *out, const char *path) {
    d9_status status;
    json_t *held, *wanted;
    D9_TRY(read_and_check(context, experiment, out, &held, &wanted));
    keep_earlier(held, wanted, "arms", by_name);
    keep_earlier(held, wanted, "runs", by_run);
    keep_earlier(held, wanted, "seeds", whole);
    keep_commands(held, wanted);
    if (!json_equal(held, wanted)) D9_TRY(write_json(context, path, wanted));
done:
    json_decref(held);
    json_decref(wanted);
    return status;
}

d9_status d9_experiment_open(d9_context *context, d9_experiment *experiment, const char *out) {
    json_t *held, *wanted;
    const d9_status status = read_and_check(context, experiment, out, &held, &wanted);
    json_decref(held);
    json_decref(wanted);
    return status;
}

d9_status d9_experiment_write(d9_context *context, d9_experiment *experiment, const char *out) {
    d9_status status;
    d9_arena arena = {0};
    char *path, *lock_path = NULL;
    int lock = -1;
    D9_TRY(d9_experiment_open(context, experiment, out)); /* checked before anything is written */
    D9_TRY(d9_arena_format(context, &arena, &path, "%s/experiment.json", out));
    D9_TRY(d9_arena_format(context, &arena, &lock_path, "%s/lock", out));
    D9_TRY(d9_directory_make(context, out));
    D9_TRY(wait_for_lock(context, lock_path, &lock));
    d9_record_remove_partial(context, out);
    D9_TRY(merge_and_write(context, experiment, out, path));
done:
    d9_lock_free(context, lock_path, lock);
    d9_arena_free(context, &arena);
    return status;
}
