/* One run of an experiment: reading its state from disk, and training it.
 *
 * A run is done if its result.json exists (written last, by rename) with the right configuration and seed. The folder's
 * `lock` is held during training. The kernel frees the lock of a killed process, and the next process continues from
 * the checkpoint or starts again. */
#include "core/process.h"
#include "core/system.h"
#include "exchange/model.h"
#include "experiment/experiment.h"
#include "record/effective.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    d9_context *context;
    const d9_experiment *experiment;
    const d9_arm *arm;
    int64_t seed, index;
    char folder[D9_RUN_FOLDER_BYTES];
} run;

enum { PATH_BYTES = D9_RUN_FOLDER_BYTES + 64 };
static const char *path_in(const run *self, const char *name, char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s/%s", self->folder, name);
    return path;
}

static bool has_file(const run *self, const char *name) {
    char path[PATH_BYTES];
    return d9_file_exists(self->context, path_in(self, name, path));
}

static void remove_file(const run *self, const char *name) {
    char path[PATH_BYTES];
    self->context->system->remove(self->context->system->user, path_in(self, name, path));
}

static d9_status find_run(d9_context *context, const d9_experiment *experiment, const char *out, int64_t index,
                          run *self) {
    *self = (run){.context = context,
                  .experiment = experiment,
                  .arm = d9_experiment_arm(experiment, index),
                  .seed = d9_experiment_seed(experiment, index),
                  .index = index};
    return d9_experiment_folder(context, experiment, out, index, self->folder);
}

const char *d9_run_kind_name(d9_run_kind kind) {
    static const char *const names[] = {"waiting", "stopped", "running", "failed", "done"};
    return names[kind];
}

/* ---- state ---- */

/* Reads a JSON file of the run. *object is NULL if the file is missing or not JSON, for example truncated. */
static d9_status read_json(const run *self, const char *name, json_t **object) {
    char path[PATH_BYTES];
    *object = NULL;
    return has_file(self, name) ? d9_json_read(self->context, path_in(self, name, path), object, NULL) : D9_OK;
}

/* process_seconds of the result; of a resumed run, which has none, the sum of the segments of all its processes. */
static double process_seconds_of(const json_t *result) {
    const double whole = d9_json_real(result, "process_seconds");
    const json_t *segment;
    double sum = 0;
    size_t i;
    if (!isnan(whole) || json_array_size(json_object_get(result, "timeline")) == 0) return whole;
    json_array_foreach(json_object_get(result, "timeline"), i, segment) sum += d9_json_real(segment, "seconds");
    return sum;
}

/* Sets `state` from result.json; waiting if the file is missing or damaged. *damaged: the file exists but has no
 * configuration hash or no seed, or an impossible value. */
static d9_status read_result(const run *self, d9_run_state *state, bool *damaged) {
    d9_status status;
    json_t *result;
    *state = (d9_run_state){.measure = self->arm->config->measure,
                            .score = NAN,
                            .score_tta = NAN,
                            .train_seconds = NAN,
                            .process_seconds = NAN,
                            .teraflop = NAN};
    *damaged = false;
    D9_TRY(read_json(self, "result.json", &result));
    const char *hash = json_string_value(json_object_get(result, "config_hash"));
    const json_t *seed = json_object_get(result, "seed");
    *damaged = has_file(self, "result.json") && (!hash || !json_is_integer(seed) || d9_result_fault(result));
    if (!hash || *damaged) goto done;
    if (strcmp(hash, self->arm->config_hash) != 0 || json_integer_value(seed) != self->seed)
        D9_TRY(d9_fail(self->context, D9_USAGE,
                       "%s: holds a run of another configuration or seed; give another --out, or remove the folder",
                       self->folder));
    state->kind = D9_RUN_DONE;
    state->score = d9_json_real(result, state->measure->name);
    state->score_tta = d9_json_real(result, state->measure->name_tta);
    state->views = json_integer_value(json_object_get(result, "views"));
    const char *keep = json_string_value(json_object_get(json_object_get(result, "config"), "keep"));
    state->without_model = self->experiment->keep != D9_KEEP_NONE && keep && strcmp(keep, "none") == 0;
    state->train_seconds = d9_json_real(result, "train_seconds");
    state->process_seconds = process_seconds_of(result);
    state->teraflop = d9_json_real(result, "train_teraflop") + d9_json_real(result, "evaluation_teraflop");
done:
    json_decref(result);
    return status;
}

/* Sets `state` to failed if failure.json has a message or the arm was rejected. */
static d9_status read_failure(const run *self, d9_run_state *state) {
    d9_status status;
    json_t *failure;
    D9_TRY(read_json(self, "failure.json", &failure));
    const char *message =
        self->arm->rejected ? self->arm->rejected : json_string_value(json_object_get(failure, "message"));
    if (!message) goto done;
    state->kind = D9_RUN_FAILED;
    state->failure = failure ? (d9_status)json_integer_value(json_object_get(failure, "status")) : D9_USAGE;
    snprintf(state->message, sizeof state->message, "%s", message);
done:
    json_decref(failure);
    return status;
}

static d9_status read_state(const run *self, d9_run_state *state, bool *damaged) {
    d9_status status;
    char path[PATH_BYTES];
    D9_TRY(read_result(self, state, damaged));
    if (state->kind == D9_RUN_DONE) goto done;
    D9_TRY(read_failure(self, state));
    if (d9_lock_is_held(self->context, path_in(self, "lock", path)))
        state->kind = D9_RUN_RUNNING;
    else if (state->kind == D9_RUN_WAITING && (has_file(self, "config.yaml") || has_file(self, "lock")))
        state->kind = D9_RUN_STOPPED;
done:
    return status;
}

d9_status d9_run_read_state(d9_context *context, const d9_experiment *experiment, const char *out, int64_t index,
                            d9_run_state *state) {
    run self;
    bool damaged;
    d9_status status = find_run(context, experiment, out, index, &self);
    return status == D9_OK ? read_state(&self, state, &damaged) : status;
}

d9_status d9_run_forget_failure(d9_context *context, const d9_experiment *experiment, const char *out, int64_t index) {
    run self;
    d9_status status = find_run(context, experiment, out, index, &self);
    if (status == D9_OK && has_file(&self, "failure.json")) remove_file(&self, "failure.json");
    return status;
}

/* ---- training ---- */

static d9_status record_failure(const run *self, d9_status why, const char *message) {
    d9_status status = D9_OK;
    char path[PATH_BYTES];
    d9_arena arena = {0};
    path_in(self, "failure.json", path);
    json_t *object =
        json_pack("{s:i, s:o, s:s, s:I}", "status", (int)why, "message", d9_json_path(self->context, &arena, message),
                  "config_hash", self->arm->config_hash, "seed", (json_int_t)self->seed);
    char *dump = object ? json_dumps(object, JSON_INDENT(2)) : NULL;
    if (!dump) D9_TRY(d9_fail(self->context, D9_DEVICE, "out of memory for %s", path));
    status = d9_file_write(self->context, path, dump, strlen(dump));
done:
    free(dump);
    json_decref(object);
    d9_arena_free(self->context, &arena);
    return status;
}

/* The arm's configuration with the run's seed and `keep`. */
static d9_config run_config(const run *self) {
    d9_config config = *self->arm->config;
    config.seed = self->seed;
    config.keep = self->experiment->keep;
    return config;
}

/* Trains the run in the processes that options->launch starts, and reads the scores from the record that they write. */
static d9_status launch(const run *self, const d9_run_options *options, bool resume, d9_run_state *state) {
    enum { WORDS = 1024 };
    d9_status status;
    char path[PATH_BYTES], index[24];
    const char *words[WORDS + 4];
    int count = 0;
    bool damaged;
    while (count < WORDS && options->launch[count]) words[count] = options->launch[count], count++;
    if (options->launch[count])
        return d9_fail(self->context, D9_USAGE, "--ranks: a command of more than %d words cannot be launched", WORDS);
    snprintf(index, sizeof index, "%lld", (long long)self->index);
    const char *const added[] = {"--run", index, "--resume-run"};
    const int more = resume ? 3 : 2;
    int at = 0; /* the options go before "--" */
    while (at < count && strcmp(words[at], "--") != 0) at++;
    memmove(words + at + more, words + at, (size_t)(count - at) * sizeof *words);
    memcpy(words + at, added, (size_t)more * sizeof *words);
    words[count + more] = NULL;
    D9_TRY(d9_process_launch(self->context, words, path_in(self, "ranks.log", path)));
    D9_TRY(read_result(self, state, &damaged));
    if (state->kind == D9_RUN_DONE) remove_file(self, "ranks.log"); /* a launcher may have written names of hosts */
    if (state->kind != D9_RUN_DONE)
        D9_TRY(d9_fail(self->context, D9_DEVICE, "%s: the processes of the run ended without a result", path));
done:
    return status;
}

static d9_status train(const run *self, const d9_run_options *options, bool resume, d9_run_state *state) {
    if (options->launch) return launch(self, options, resume, state);
    d9_config config = run_config(self);
    d9_result result;
    if (options->threads)
        config.threads = options->threads;
    else if (config.threads == 0)
        config.threads = options->threads_default;
    if (options->data) config.data.path = options->data;
    const d9_train_options wanted = {.config = &config,
                                     .write_model = d9_model_write,
                                     .load_weights = d9_model_load_initial_weights,
                                     .seed = (uint64_t)self->seed,
                                     .out = self->folder,
                                     .resume = resume,
                                     .overwrite = !resume,
                                     .locked = true,
                                     .checkpoint_every = self->experiment->checkpoint_every,
                                     .process_start = options->process_start,
                                     .unsaved_steps = options->unsaved_steps,
                                     .parallel = options->parallel,
                                     .observer = options->observer};
    d9_status status = d9_train(self->context, &wanted, &result);
    if (status != D9_OK) return status;
    state->kind = D9_RUN_DONE;
    state->score = result.score;
    state->score_tta = result.score_tta;
    state->views = result.views;
    state->train_seconds = d9_timeline_sum(result.timeline, d9_clock_find("train_seconds"), result.epoch_to_target);
    state->process_seconds = d9_timeline_sum(result.timeline, d9_clock_find("process_seconds"), result.epoch_to_target);
    state->teraflop = 1e-12 * (result.train_operations + result.evaluation_operations);
    d9_result_free(self->context, &result);
    return D9_OK;
}

/* Continues from the checkpoint; starts again if it is missing or unusable, or if the record is `damaged`. */
static d9_status train_or_resume(const run *self, const d9_run_options *options, bool damaged, d9_run_state *state) {
    if (damaged || !has_file(self, "checkpoint.safetensors")) return train(self, options, false, state);
    d9_status status = train(self, options, true, state);
    if (status != D9_USAGE && status != D9_DATA) return status;
    d9_log(self->context, D9_LOG_WARNING, "%s; the run starts again", self->context->message);
    d9_context_clear(self->context);
    return train(self, options, false, state);
}

/* Records D9_USAGE, D9_DEVICE or D9_NONFINITE as the failure of this run; returns any other failure. */
static d9_status handle_failure(const run *self, d9_status status, d9_run_state *state) {
    if (status != D9_USAGE && status != D9_DEVICE && status != D9_NONFINITE) return status;
    state->kind = D9_RUN_FAILED;
    state->failure = status;
    snprintf(state->message, sizeof state->message, "%s", self->context->message);
    d9_context_clear(self->context);
    return record_failure(self, status, state->message);
}

/* Sets *truncated if config.yaml, at `path`, is a truncated copy of the file that this run writes. */
static d9_status find_truncated(const run *self, const char *path, const d9_config *config, bool *truncated) {
    uint8_t *held = NULL;
    size_t size = 0;
    d9_text text;
    d9_text_init(self->context, &text);
    d9_status status = d9_effective_yaml(config, &text);
    if (status == D9_OK) status = d9_file_read(self->context, path, &held, &size);
    *truncated = status == D9_OK && size < text.size && memcmp(held, d9_text_get(&text), size) == 0;
    d9_release(self->context, held);
    d9_text_free(&text);
    return status;
}

/* Fails if the folder's config.yaml is that of another run. Sets *damaged, with a warning, if it was truncated, for
 * example by a crash of the machine, or is no configuration. */
static d9_status check_config(const run *self, bool *damaged) {
    d9_status status;
    char path[PATH_BYTES];
    bool finished, truncated;
    const d9_config config = run_config(self);
    d9_config *held = NULL;
    if (!has_file(self, "config.yaml")) return D9_OK;
    D9_TRY(find_truncated(self, path_in(self, "config.yaml", path), &config, &truncated));
    status = d9_config_load(self->context, path, NULL, &held);
    if (status == D9_OK && !truncated) D9_TRY(d9_record_find_finished(self->context, self->folder, &config, &finished));
    if (status != D9_OK && status != D9_USAGE) goto done;
    *damaged = *damaged || truncated || status != D9_OK;
    if (truncated || status != D9_OK)
        d9_log(self->context, D9_LOG_WARNING, "%s: truncated or no configuration; the run is repeated", path);
    d9_context_clear(self->context);
    status = D9_OK;
done:
    d9_config_free(self->context, held);
    return status;
}

/* Trains the run; the caller holds the lock. Reads the state again, because it may have changed before the lock was
 * taken. */
static d9_status train_locked(const run *self, const d9_run_options *options, d9_run_state *state, bool *trained) {
    d9_status status;
    bool damaged;
    d9_record_remove_partial(self->context, self->folder);
    D9_TRY(read_result(self, state, &damaged));
    if (state->kind == D9_RUN_DONE) {
        if (self->experiment->keep != D9_KEEP_ALL) remove_file(self, "checkpoint.safetensors");
        goto done;
    }
    D9_TRY(read_failure(self, state));
    if (state->kind == D9_RUN_FAILED) goto done;
    if (damaged) d9_log(self->context, D9_LOG_WARNING, "%s/result.json: damaged; the run is repeated", self->folder);
    D9_TRY(check_config(self, &damaged));
    *trained = true;
    status = train_or_resume(self, options, damaged, state);
    if (status != D9_OK) status = handle_failure(self, status, state);
done:
    return status;
}

d9_status d9_run_train_launched(d9_context *context, const d9_experiment *experiment, const char *out, int64_t index,
                                bool resume, const d9_run_options *options) {
    run self;
    d9_run_state state;
    const d9_status status = find_run(context, experiment, out, index, &self);
    return status == D9_OK ? train(&self, options, resume, &state) : status;
}

d9_status d9_run_train(d9_context *context, const d9_experiment *experiment, const char *out, int64_t index,
                       const d9_run_options *options, d9_run_state *state, bool *trained) {
    d9_status status;
    run self;
    char path[PATH_BYTES] = "";
    int lock = -1;
    bool damaged;
    *trained = false;
    D9_TRY(find_run(context, experiment, out, index, &self));
    D9_TRY(read_state(&self, state, &damaged));
    path_in(&self, "lock", path);
    if (state->kind == D9_RUN_RUNNING) goto done;
    if ((state->kind == D9_RUN_DONE || state->kind == D9_RUN_FAILED) && !has_file(&self, "lock")) goto done;
    D9_TRY(d9_directory_make(context, self.folder));
    D9_TRY(d9_lock_take(context, path, &lock));
    if (lock < 0) {
        state->kind = D9_RUN_RUNNING;
        goto done;
    }
    status = train_locked(&self, options, state, trained);
done:
    d9_lock_free(context, path, lock);
    return status;
}
