/* Reads experiment.json or the run folders, and each run's result.json. Incomplete records get a line in `problems`. */
#include "report/report_parts.h"

#include <stdio.h>
#include <string.h>

#include "core/system.h"
#include "core/listing.h"

enum { PATH_BYTES = 4096, MESSAGE_BYTES = 1024 };

static const char *json_text(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

d9_status d9_report_add_line(d9_context *context, d9_report *report, d9_report_lines *lines, const char *format, ...) {
    d9_status status = D9_OK;
    char line[MESSAGE_BYTES], *kept;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    D9_TRY(D9_ARENA_GROW(context, &report->arena, lines->count, &lines->capacity, &lines->items));
    D9_TRY(d9_arena_copy(context, &report->arena, line, &kept));
    lines->items[lines->count++] = kept;
done:
    return status;
}

static d9_status copy_text(d9_context *context, d9_report *report, const char *text, const char **kept) {
    char *copy = NULL;
    d9_status status = text ? d9_arena_copy(context, &report->arena, text, &copy) : D9_OK;
    *kept = copy;
    return status;
}

d9_status d9_report_keep(d9_context *context, d9_report *report, d9_text *text, const char **kept) {
    d9_status status = d9_text_status(text);
    if (status == D9_OK) status = copy_text(context, report, d9_text_get(text), kept);
    d9_text_free(text);
    return status;
}

/* Reads a JSON object. If the file is missing or invalid, returns NULL and sets `problem` to one line. */
static json_t *read_object(d9_context *context, const char *path, char problem[MESSAGE_BYTES]) {
    json_error_t error;
    json_t *object;
    d9_context quiet = *context; /* an incomplete record must not end the report */
    d9_context_clear(&quiet);
    if (d9_json_read(&quiet, path, &object, &error) != D9_OK)
        snprintf(problem, MESSAGE_BYTES, "%s", quiet.message);
    else if (!object)
        snprintf(problem, MESSAGE_BYTES, "%s: truncated or not JSON: line %d: %s", path, error.line, error.text);
    else if (!json_is_object(object)) {
        snprintf(problem, MESSAGE_BYTES, "%s: must be a JSON object", path);
        json_decref(object);
        object = NULL;
    }
    return object;
}

/* ---- one run ---- */

/* Number of epochs that an unfinished run completed, from the last complete line of events.jsonl; 0: none. */
static int64_t last_epoch(d9_context *context, const char *folder) {
    char path[PATH_BYTES + 16];
    uint8_t *bytes = NULL;
    size_t size;
    int64_t epoch = 0;
    d9_context quiet = *context;
    d9_context_clear(&quiet);
    snprintf(path, sizeof path, "%s/events.jsonl", folder);
    if (d9_file_read_limited(&quiet, path, D9_RECORD_MAX_BYTES, &bytes, &size) != D9_OK) return 0;
    for (const char *line = (const char *)bytes, *end; (end = strchr(line, '\n')); line = end + 1) {
        json_t *row = json_loadb(line, (size_t)(end - line), 0, NULL);
        const json_t *value = json_object_get(row, "epoch");
        if (json_is_integer(value)) epoch = json_integer_value(value);
        json_decref(row);
    }
    d9_release(&quiet, bytes);
    return epoch;
}

enum { LISTED_NOT_STARTED = 5 }; /* runs without a folder that get a line each; the rest are only counted */

/* Reads the failure of a run without a result, and adds a problem. A failure in a search is in the table of trials
 * instead. */
static d9_status report_missing_result(d9_context *context, d9_report *report, d9_report_run *run, const char *path) {
    d9_status status = D9_OK;
    char failure[PATH_BYTES + 16], problem[MESSAGE_BYTES];
    const char *name = strcmp(run->folder, ".") == 0 ? path : run->folder;
    snprintf(failure, sizeof failure, "%s/failure.json", path);
    if (!d9_file_exists(context, path)) {
        if (report->not_started++ >= LISTED_NOT_STARTED) return D9_OK;
        return d9_report_add_line(context, report, &report->problems, "%s: not run yet", name);
    }
    json_t *failed = d9_file_exists(context, failure) ? read_object(context, failure, problem) : NULL;
    const int64_t epoch = last_epoch(context, path);
    D9_TRY(copy_text(context, report, json_text(failed, "message"), &run->failure));
    if (run->failure && report->search) goto done;
    status = run->failure ? d9_report_add_line(context, report, &report->problems, "%s: failed: %s", name, run->failure)
             : epoch      ? d9_report_add_line(context, report, &report->problems,
                                               "%s: not finished: its last epoch is %lld", name, (long long)epoch)
                          : d9_report_add_line(context, report, &report->problems, "%s: not finished", name);
done:
    json_decref(failed);
    return status;
}

/* Noun for the samples of a run, by its network. */
static const char *sample_of(const json_t *result) {
    const char *name = json_text(json_object_get(json_object_get(result, "config"), "model"), "name");
    const d9_model *model = name ? d9_model_find(name) : NULL;
    return model ? d9_model_sample(model) : D9_WORD_IMAGE;
}

/* Reason why this result is excluded; NULL if it is valid. */
static const char *reason_to_exclude(const json_t *result, const d9_report_arm *arm, int64_t seed) {
    const char *hash = json_text(result, "config_hash");
    const json_t *seeded = json_object_get(result, "seed");
    if (d9_result_fault(result)) return d9_result_fault(result);
    if (isnan(d9_json_real(result, d9_result_measure(result)->name))) return "has no score";
    if (!json_is_array(json_object_get(result, "epochs"))) return "has no epochs";
    if (!hash || !json_is_integer(seeded)) return "has no config_hash or seed";
    if (arm && arm->config_hash && strcmp(arm->config_hash, hash) != 0) return "is the run of another configuration";
    if (arm && json_integer_value(seeded) != seed) return "is the run of another seed";
    return NULL;
}

/* Removes the report's folder from a path or a message that begins with it, because the page may be moved. */
static const char *strip_folder(const d9_report *report, const char *text) {
    const size_t length = strlen(report->folder);
    return strncmp(text, report->folder, length) == 0 && text[length] == '/' ? text + length + 1 : text;
}

/* True if an evaluation during training computed only one of several views. */
static bool has_plain_epochs(const json_t *result, const d9_measure *measure) {
    size_t index;
    const json_t *row;
    if (!(d9_json_real(result, "views") > 1)) return false;
    json_array_foreach(json_object_get(result, "epochs"), index,
                       row) if (!isnan(d9_json_real(row, measure->name)) &&
                                isnan(d9_json_real(row, measure->name_tta))) return true;
    return false;
}

static void clear_numbers(d9_report_run *run) {
    run->score = run->train_seconds = run->process_seconds = run->epoch_to_target = run->difference = NAN;
}

/* Fills the run from its result.json, or reports why it is excluded. Fails if its measure is not that of earlier runs.
 * `arm` NULL: place_run sets the arm later. */
static d9_status read_run(d9_context *context, d9_report *report, d9_report_run *run, const d9_report_arm *arm) {
    d9_status status = D9_OK;
    char folder[PATH_BYTES], path[PATH_BYTES + 16], problem[MESSAGE_BYTES];
    json_t *result = NULL;
    clear_numbers(run);
    snprintf(folder, sizeof folder, "%s/%s", report->folder, run->folder);
    snprintf(path, sizeof path, "%s/result.json", folder);
    if (!d9_file_exists(context, path)) {
        D9_TRY(report_missing_result(context, report, run, folder));
        goto done;
    }
    result = read_object(context, path, problem);
    run->excluded = true; /* until the result has passed the checks */
    if (!result) D9_TRY(d9_report_add_line(context, report, &report->problems, "%s", strip_folder(report, problem)));
    if (!result) goto done;
    const char *wrong = reason_to_exclude(result, arm, run->seed);
    if (wrong)
        D9_TRY(d9_report_add_line(context, report, &report->problems, "%s: %s", strip_folder(report, path), wrong));
    if (wrong) goto done;
    const d9_measure *measure = d9_result_measure(result);
    if (!report->measure) report->measure = measure;
    if (measure != report->measure)
        D9_TRY(d9_fail(context, D9_DATA,
                       "%s: its measure is %s, that of earlier runs %s: a report has runs of one measure", path,
                       measure->name, report->measure->name));
    const char *sample = sample_of(result);
    report->sample = !report->sample || strcmp(report->sample, sample) == 0 ? sample : "sample";
    run->score = d9_json_score(result, measure);
    report->plain_epochs |= has_plain_epochs(result, measure);
    run->train_seconds = d9_json_real(result, "train_seconds");
    run->process_seconds = d9_json_real(result, "process_seconds");
    run->epoch_to_target = d9_json_real(result, "epoch_to_target");
    run->seed = json_integer_value(json_object_get(result, "seed"));
    run->result = result;
    run->excluded = false;
    result = NULL;
    report->finished++;
done:
    json_decref(result);
    return status;
}

/* ---- experiment.json ---- */

/* Reads the published {MEASURE, "seconds", "epochs", "hardware"} of an arm or a configuration. Without a
 * valid run the measure is not known, so no score is read. */
static d9_status read_published(d9_context *context, d9_report *report, const json_t *object, d9_report_arm *arm) {
    d9_status status = D9_OK;
    arm->published_score = report->measure ? d9_json_real(object, report->measure->name) : NAN;
    arm->published_seconds = d9_json_real(object, "seconds");
    arm->published_epochs = d9_json_real(object, "epochs");
    D9_TRY(copy_text(context, report, json_text(object, "hardware"), &arm->published_hardware));
done:
    return status;
}

static d9_status join_edits(d9_context *context, d9_report *report, const json_t *edits, const char **joined) {
    d9_text text;
    size_t index;
    const json_t *edit;
    d9_text_init(context, &text);
    json_array_foreach(edits, index, edit) {
        if (json_is_string(edit)) d9_text_add(&text, "%s%s", text.size ? "; " : "", json_string_value(edit));
    }
    return d9_report_keep(context, report, &text, joined);
}

static int find_arm(const d9_report *report, const char *name) {
    for (int i = 0; name && i < report->arm_count; i++)
        if (strcmp(report->arms[i].name, name) == 0) return i;
    return -1;
}

static d9_status fail_experiment(d9_context *context, const d9_report *report, const char *what) {
    return d9_fail(context, D9_DATA, "%s/experiment.json: %s", report->folder, what);
}

static d9_status read_arms(d9_context *context, d9_report *report, const json_t *arms) {
    d9_status status = D9_OK;
    const int count = (int)json_array_size(arms);
    if (count == 0) D9_TRY(fail_experiment(context, report, "has no arms"));
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, count, &report->arms));
    for (int i = 0; i < count; i++) {
        const json_t *object = json_array_get(arms, (size_t)i);
        d9_report_arm *arm = &report->arms[i];
        const char *name = json_text(object, "name"), *label = json_text(object, "label");
        if (!name) D9_TRY(fail_experiment(context, report, "an arm has no name"));
        D9_TRY(copy_text(context, report, name, &arm->name));
        D9_TRY(copy_text(context, report, label && *label ? label : name, &arm->label));
        D9_TRY(copy_text(context, report, json_text(object, "config_hash"), &arm->config_hash));
        D9_TRY(join_edits(context, report, json_object_get(object, "edits"), &arm->edits));
        report->arm_count = i + 1;
    }
    for (int i = 0; i < count; i++) {
        const char *baseline = json_text(json_array_get(arms, (size_t)i), "baseline");
        report->arms[i].baseline = find_arm(report, baseline);
        if (baseline && report->arms[i].baseline < 0)
            D9_TRY(fail_experiment(context, report, "the baseline of an arm is not an arm"));
        if (report->arms[i].baseline == i) report->arms[i].baseline = -1;
    }
done:
    return status;
}

/* True if the run has a folder. Most runs that a search lists are never started. */
static bool is_begun(d9_context *context, const d9_report *report, const char *folder) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.2000s/%.2000s", report->folder, folder ? folder : "");
    return d9_file_exists(context, path);
}

static d9_status read_listed_runs(d9_context *context, d9_report *report, const json_t *runs) {
    d9_status status = D9_OK;
    const int count = (int)json_array_size(runs);
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, count, &report->runs));
    for (int i = 0; i < count; i++) {
        const json_t *object = json_array_get(runs, (size_t)i), *seed = json_object_get(object, "seed");
        d9_report_run *run = &report->runs[report->run_count];
        const char *folder = json_text(object, "folder");
        if (report->search && !is_begun(context, report, folder)) continue;
        run->arm = find_arm(report, json_text(object, "arm"));
        run->seed = json_integer_value(seed);
        if (run->arm < 0 || !folder || !json_is_integer(seed))
            D9_TRY(fail_experiment(context, report, "a run has no arm, seed or folder"));
        D9_TRY(copy_text(context, report, folder, &run->folder));
        report->run_count++;
        report->arms[run->arm].planned++;
        D9_TRY(read_run(context, report, run, &report->arms[run->arm]));
    }
    if (report->not_started > LISTED_NOT_STARTED)
        D9_TRY(d9_report_add_line(context, report, &report->problems, "and %d more runs not run yet",
                                  report->not_started - LISTED_NOT_STARTED));
done:
    return status;
}

static d9_status read_commands(d9_context *context, d9_report *report, const json_t *list) {
    d9_status status;
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, json_array_size(list), &report->commands));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *command = json_string_value(json_array_get(list, i));
        if (command) D9_TRY(copy_text(context, report, command, &report->commands[report->command_count++]));
    }
done:
    return status;
}

static d9_status read_experiment(d9_context *context, d9_report *report, const char *path) {
    d9_status status = D9_OK;
    char problem[MESSAGE_BYTES];
    json_t *object = read_object(context, path, problem);
    if (!object) D9_TRY(d9_fail(context, D9_DATA, "%s", problem));
    report->experiment = true;
    report->record = json_incref(object);
    const char *kind = json_text(object, "kind") ? json_text(object, "kind") : "";
    report->ablation = strcmp(kind, "ablation") == 0;
    report->search = strcmp(kind, "search") == 0;
    report->target = d9_json_real(object, "target");
    D9_TRY(copy_text(context, report, json_text(object, "title"), &report->title));
    D9_TRY(copy_text(context, report, json_text(object, "question"), &report->question));
    D9_TRY(read_commands(context, report, json_object_get(object, "commands")));
    D9_TRY(read_arms(context, report, json_object_get(object, "arms")));
    D9_TRY(read_listed_runs(context, report, json_object_get(object, "runs")));
    for (int i = 0; i < report->arm_count; i++)
        D9_TRY(read_published(context, report,
                              json_object_get(json_array_get(json_object_get(object, "arms"), (size_t)i), "published"),
                              &report->arms[i]));
done:
    json_decref(object);
    return status;
}

/* ---- evaluation images of a run ---- */

static const json_t *data_settings(const d9_report_run *run) {
    return json_object_get(json_object_get(run->result, "config"), "data");
}

int64_t d9_report_validation(const d9_report_run *run) {
    return json_integer_value(json_object_get(data_settings(run), "validation"));
}

/* Records without data_digest are taken to have the same data. */
static bool same_data(const d9_report_run *one, const d9_report_run *other) {
    const char *digest = json_text(one->result, "data_digest"), *its = json_text(other->result, "data_digest");
    return !digest || !its || strcmp(digest, its) == 0;
}

/* Digest of the user's own test images or texts, if the run was evaluated on them; NULL: not recorded, or it was
 * evaluated on the validation part, which the digest does not cover. */
static const char *test_digest(const d9_report_run *run) {
    return d9_report_validation(run) ? NULL : json_text(run->result, "test_digest");
}

/* Number of columns into which the evaluated words were cut (eval.streams). The first word of each column is not
 * scored, so runs with other numbers score other words. 0: the samples are no words of a stream. */
static int64_t stream_columns(const d9_report_run *run) {
    const json_t *eval = json_object_get(json_object_get(run->result, "config"), "eval");
    if (strcmp(sample_of(run->result), D9_WORD_WINDOW) != 0) return 0;
    return json_integer_value(json_object_get(eval, "streams"));
}

bool d9_report_same_samples(const d9_report_run *one, const d9_report_run *other) {
    const char *digest = test_digest(one), *its = test_digest(other);
    if (stream_columns(one) != stream_columns(other)) return false;
    if (digest && its) return strcmp(digest, its) == 0;
    return same_data(one, other) && d9_report_validation(one) == d9_report_validation(other);
}

/* ---- a folder of runs without experiment.json; checks of all runs ---- */

static bool is_run(d9_context *context, const char *folder) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.4000s/config.yaml", folder);
    if (d9_file_exists(context, path)) return true;
    snprintf(path, sizeof path, "%.4000s/result.json", folder);
    return d9_file_exists(context, path);
}

/* Finds or adds the arm of the run's configuration and data. */
static d9_status place_run(d9_context *context, d9_report *report, d9_report_run *run) {
    d9_status status = D9_OK;
    const char *hash = json_text(run->result, "config_hash"), *title = json_text(run->result, "title");
    char *name;
    run->arm = report->arm_count;
    for (const d9_report_run *other = report->runs; other < run; other++)
        if (other->result && strcmp(report->arms[other->arm].config_hash, hash) == 0 && same_data(run, other))
            run->arm = other->arm;
    d9_report_arm *arm = &report->arms[run->arm];
    arm->planned++;
    if (run->arm < report->arm_count) goto done;
    *arm = (d9_report_arm){.baseline = -1, .planned = 1, .edits = "", .config_hash = hash};
    report->arm_count++;
    if (isnan(report->target)) report->target = d9_json_real(run->result, "target");
    if (!report->title) D9_TRY(copy_text(context, report, title, &report->title));
    D9_TRY(d9_arena_format(context, &report->arena, &name, run->arm && title ? "%s (%s)" : "%s",
                           title ? title : run->folder, run->folder));
    arm->name = arm->label = name;
    D9_TRY(read_published(context, report, json_object_get(json_object_get(run->result, "config"), "published"), arm));
done:
    return status;
}

static d9_status read_run_folders(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    d9_listing listing = {0};
    const bool single = is_run(context, report->folder);
    D9_TRY(d9_listing_read(context, &report->arena, report->folder, &listing));
    const size_t most = (size_t)listing.count + 1;
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, most, &report->runs));
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, most, &report->arms));
    for (int64_t i = 0; i < (single ? 1 : listing.count); i++) {
        const d9_entry *entry = single ? NULL : &listing.entries[i];
        if (entry && (!entry->folder || !is_run(context, entry->path))) continue;
        d9_report_run *run = &report->runs[report->run_count++];
        run->folder = entry ? entry->name : ".";
        run->arm = -1;
        D9_TRY(read_run(context, report, run, NULL));
        if (run->result) D9_TRY(place_run(context, report, run));
    }
    if (report->run_count == 0)
        D9_TRY(d9_fail(context, D9_DATA, "%s: holds neither experiment.json nor a run", report->folder));
done:
    return status;
}

/* Excludes a run with the arm and seed of an earlier run: it is a copy, not a second sample. */
static d9_status drop_copies(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    for (int i = 0; i < report->run_count; i++) {
        d9_report_run *run = &report->runs[i];
        int first = 0;
        if (!run->result) continue;
        while (!report->runs[first].result || report->runs[first].arm != run->arm ||
               report->runs[first].seed != run->seed)
            first++;
        if (first == i) continue;
        D9_TRY(d9_report_add_line(context, report, &report->problems,
                                  "%s: does not count: the same configuration and seed as %s", run->folder,
                                  report->runs[first].folder));
        json_decref(run->result);
        run->result = NULL;
        run->excluded = true;
        clear_numbers(run);
        report->finished--;
    }
done:
    return status;
}

/* The first run of the same arm that has a result. */
static const d9_report_run *first_of_arm(const d9_report *report, const d9_report_run *run) {
    const d9_report_run *first = report->runs;
    while (first < run && (first->arm != run->arm || !first->result)) first++;
    return first;
}

/* Adds a problem if the run was evaluated on other images than `first`, the first run with the same data settings, or
 * trained on other images than its arm's first run. Adds a note if an arm trained on other images than `first`. */
static d9_status compare_images(d9_context *context, d9_report *report, const d9_report_run *run,
                                const d9_report_run *first) {
    d9_status status = D9_OK;
    const d9_report_run *own = first_of_arm(report, run);
    const bool other_columns =
        stream_columns(run) != stream_columns(first); /* of all runs of the arm: a line for the first */
    if (other_columns && own == run)
        D9_TRY(d9_report_add_line(context, report, &report->problems,
                                  "%s: evaluated on other words than %s, because eval.streams is %lld, not %lld: their "
                                  "%s are not comparable",
                                  run->folder, first->folder, (long long)stream_columns(run),
                                  (long long)stream_columns(first), report->measure->plural));
    else if (!other_columns && !d9_report_same_samples(run, first))
        D9_TRY(d9_report_add_line(context, report, &report->problems, "%s: evaluated on other %ss than %s", run->folder,
                                  report->sample, first->folder));
    else if (!same_data(run, own))
        D9_TRY(d9_report_add_line(context, report, &report->problems,
                                  "%s: trained on other %ss than %s of the same arm", run->folder, report->sample,
                                  own->folder));
    else if (own == run && !same_data(run, first))
        D9_TRY(d9_report_add_line(context, report, &report->notes,
                                  "%s: trained on other %ss than %s; their test %ss are equal.", run->folder,
                                  report->sample, first->folder, report->sample));
done:
    return status;
}

/* Compares the images of each run with those of the first run with the same data settings (compare_images). Adds a
 * problem for each of these first runs that was evaluated on other images than the very first. */
static d9_status compare_data(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    const d9_report_run **firsts;
    int first_count = 0;
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, report->run_count, &firsts));
    for (const d9_report_run *run = report->runs; run < report->runs + report->run_count; run++) {
        int f = 0;
        if (!json_text(run->result, "data_digest")) continue;
        while (f < first_count && !json_equal(data_settings(firsts[f]), data_settings(run))) f++;
        if (f == first_count) firsts[first_count++] = run;
        D9_TRY(compare_images(context, report, run, firsts[f]));
    }
    for (int f = 1; f < first_count; f++) {
        if (d9_report_same_samples(firsts[f], firsts[0])) continue;
        D9_TRY(d9_report_add_line(context, report, &report->problems,
                                  "%s: requests other data than %s: their %s are not comparable", firsts[f]->folder,
                                  firsts[0]->folder, report->measure->plural));
    }
done:
    return status;
}

static d9_status note_validation(d9_context *context, d9_report *report) {
    int validated = 0;
    for (int i = 0; i < report->run_count; i++) validated += d9_report_validation(&report->runs[i]) > 0;
    if (validated == 0) return D9_OK;
    if (validated == report->finished)
        return d9_report_add_line(context, report, &report->notes, "%s are of validation %ss, not of the test %ss.",
                                  report->measure->plural_title, report->sample, report->sample);
    return d9_report_add_line(
        context, report, &report->notes, "%s of %d runs are of validation %ss, of the other %d of test %ss.",
        report->measure->plural_title, validated, report->sample, report->finished - validated, report->sample);
}

/* Adds a note for each run with keep: best: the epoch whose model was kept. Scores and predictions are of this
 * model. */
static d9_status note_best(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    for (int i = 0; i < report->run_count; i++) {
        const d9_report_run *run = &report->runs[i];
        const json_int_t epoch = json_integer_value(json_object_get(run->result, "best_epoch"));
        if (epoch == 0) continue;
        D9_TRY(d9_report_add_line(context, report, &report->notes,
                                  "The model%s%s is of epoch %lld, the best of %zu trained (keep: best).",
                                  report->run_count > 1 ? " of " : "", report->run_count > 1 ? run->folder : "",
                                  (long long)epoch, json_array_size(json_object_get(run->result, "epochs"))));
    }
done:
    return status;
}

d9_status d9_report_gather(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    char path[PATH_BYTES];
    if (strlen(report->folder) > 2000) D9_TRY(d9_fail(context, D9_DATA, "the folder's name is too long"));
    if (!d9_file_exists(context, report->folder))
        D9_TRY(d9_fail(context, D9_DATA, "%s: there is no such folder", report->folder));
    snprintf(path, sizeof path, "%s/experiment.json", report->folder);
    D9_TRY(d9_file_exists(context, path) ? read_experiment(context, report, path) : read_run_folders(context, report));
    D9_TRY(drop_copies(context, report));
    D9_TRY(compare_data(context, report));
    D9_TRY(note_validation(context, report));
    D9_TRY(note_best(context, report));
    if (!report->title) report->title = "Runs";
    if (report->finished == 0)
        D9_TRY(d9_fail(context, D9_DATA, "%s: no run has finished (%d begun or asked for)%s%s", report->folder,
                       report->run_count, report->problems.count ? ": " : "",
                       report->problems.count ? report->problems.items[0] : ""));
done:
    return status;
}
