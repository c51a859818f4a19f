/* Writes result.json and submission.json of a finished run. */
#include "record/record.h"
#include "core/system.h"
#include "record/effective.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commit.h" /* generated: D9_COMMIT */

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

const char *d9_build_version(void) { return DAWN9_VERSION; }
const char *d9_build_commit(void) { return D9_COMMIT; }
const char *d9_build_compiler(void) { return COMPILER; }

/* Sets `key` and takes ownership of `value`. False if `value` is NULL or memory runs out. */
static bool set_key(json_t *object, const char *key, json_t *value) {
    return json_object_set_new(object, key, value) == 0;
}

static json_t *positive_or_null(int64_t value) { return value > 0 ? json_integer(value) : json_null(); }

/* Converts the plan to objects, one for each line "RULE<TAB>ROLE<TAB>CHOICE" (backends/backend.h). */
static json_t *rules_json(const char *plan) {
    json_t *rules = json_array();
    for (const char *line = plan; rules && line && *line;) {
        size_t length = strcspn(line, "\n"), rule = strcspn(line, "\t\n");
        const char *role = line + rule + (line[rule] == '\t'), *choice;
        size_t role_length = strcspn(role, "\t\n");
        choice = role + role_length + (role[role_length] == '\t');
        json_t *row = json_pack("{s:s%, s:s%, s:s%}", "rule", line, rule, "role", role, role_length, "choice", choice,
                                strcspn(choice, "\n"));
        if (json_array_append_new(rules, row) != 0) break;
        line += length + (line[length] == '\n');
    }
    return rules;
}

static json_t *epochs_json(const d9_result *result) {
    json_t *rows = json_array();
    for (int64_t i = 0; i < result->epoch_count; i++)
        json_array_append_new(rows, d9_epoch_to_json(&result->epochs[i], result->config->measure, result->views,
                                                     D9_EPOCH_RESULT_COLUMNS));
    return rows;
}

/* `start` is written in seconds since timeline->origin; null: the segment is one of an earlier process. */
static json_t *timeline_json(const d9_timeline *timeline) {
    json_t *rows = json_array();
    for (int i = 0; i < timeline->count; i++) {
        const d9_segment *segment = &timeline->segments[i];
        json_t *row = json_pack("{s:s, s:o, s:o}", "name", d9_segment_name(segment->kind), "start",
                                d9_json_number(segment->start > 0 ? segment->start - timeline->origin : NAN), "seconds",
                                d9_json_number(segment->seconds));
        if (segment->epoch > 0) json_object_set_new(row, "epoch", json_integer(segment->epoch));
        json_array_append_new(rows, row);
    }
    return rows;
}

static bool set_clocks(json_t *root, const d9_result *result) {
    const d9_clock *clock;
    bool fine = true;
    for (int i = 0; fine && (clock = d9_clock_at(i)); i++) {
        if (result->resumed && clock->until == D9_CLOCK_FINAL_ACCURACY)
            continue; /* a resumed run has several processes, with gaps between them */
        fine = set_key(root, clock->name,
                       d9_json_number(d9_timeline_sum(result->timeline, clock, result->epoch_to_target)));
    }
    return fine;
}

static bool set_machine(json_t *root, const d9_result *result) {
    json_t *versions = json_pack("{s:s, s:s, s:s}", "dawn9", d9_build_version(), "compiler", d9_build_compiler(),
                                 "backend", result->device.version);
    return set_key(root, "backend", json_string(result->backend)) &&
           set_key(root, "device", json_string(result->device.name)) &&
           set_key(root, "isa", json_string(result->device.isa)) &&
           set_key(root, "threads", json_integer(result->device.threads)) &&
           set_key(root, "precision", json_string(result->precision)) && set_key(root, "versions", versions) &&
           set_key(root, "plan_sha256", json_string(result->plan_sha256)) &&
           set_key(root, "rules", rules_json(result->plan_text));
}

/* Class names and normalisation, as in a model's metadata: for pixels in 0..1. */
static bool set_data(json_t *root, const d9_result *result) {
    return set_key(root, "classes", d9_json_texts(result->class_names, result->classes)) &&
           set_key(root, "mean", d9_json_pixels(result->mean, result->channels)) &&
           set_key(root, "std", d9_json_pixels(result->std, result->channels));
}

/* [{"label": "Edema", "images": 31, "auc": 0.81}, ...] */
static json_t *labels_json(const d9_result *result) {
    const d9_measure *measure = result->config->measure;
    json_t *list = json_array();
    for (int64_t c = 0; c < result->classes; c++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:o}", "label", result->class_names[c], "images",
                                              (json_int_t)result->label_images[c],
                                              result->views > 1 ? measure->name_tta : measure->name,
                                              d9_json_number(result->by_label[c])));
    return list;
}

static bool set_outcome(json_t *root, const d9_result *result) {
    const d9_measure *measure = result->config->measure;
    return set_key(root, "measure", json_string(measure->name)) &&
           d9_scores_set(root, measure, result->views, result->score, result->score_tta) &&
           (!result->by_label || set_key(root, "labels", labels_json(result))) &&
           set_key(root, "target", d9_json_number(result->config->target)) &&
           set_key(root, "epoch_to_target", positive_or_null(result->epoch_to_target)) &&
           (result->best_epoch == 0 || set_key(root, "best_epoch", json_integer(result->best_epoch))) &&
           set_key(root, "params_sha256", json_string(result->params_sha256)) &&
           set_key(root, "data_digest", json_string(result->data_digest)) &&
           (!*result->test_digest || set_key(root, "test_digest", json_string(result->test_digest))) &&
           set_key(root, "parameters", json_integer(result->parameters)) &&
           set_key(root, "batch_size", json_integer(result->batch)) &&
           (result->ranks <= 1 || set_key(root, "ranks", json_integer(result->ranks))) &&
           set_key(root, "steps", json_integer(result->steps)) &&
           set_key(root, "train_images", json_integer(result->train_images)) &&
           set_key(root, "eval_images", json_integer(result->eval_images)) &&
           set_key(root, "views", json_integer(result->views)) &&
           set_key(root, "train_teraflop", d9_json_number(1e-12 * result->train_operations)) &&
           set_key(root, "evaluation_teraflop", d9_json_number(1e-12 * result->evaluation_operations)) &&
           set_key(root, "resumed", json_boolean(result->resumed)) && set_clocks(root, result) &&
           set_key(root, "epochs", epochs_json(result)) && set_key(root, "timeline", timeline_json(result->timeline));
}

static d9_status add_dump(d9_context *context, const json_t *root, d9_text *text) {
    char *dump = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    if (!dump) return d9_fail(context, D9_DEVICE, "out of memory for a JSON text");
    d9_text_add(text, "%s\n", dump);
    free(dump);
    return d9_text_status(text);
}

d9_status d9_result_add_json(d9_context *context, const d9_result *result, d9_text *text) {
    d9_status status = D9_OK;
    json_t *root = json_object(), *config = NULL;
    D9_TRY(d9_effective_json(context, result->config, &config));
    bool fine = set_key(root, "title", d9_json_text(result->config->title)) &&
                set_key(root, "commit", json_string(d9_build_commit())) &&
                set_key(root, "config", json_incref(config)) &&
                set_key(root, "config_hash", json_string(result->config_hash)) &&
                set_key(root, "seed", json_integer((json_int_t)result->seed)) && set_machine(root, result) &&
                set_data(root, result) && set_outcome(root, result);
    if (!fine) D9_TRY(d9_fail(context, D9_DEVICE, "the result holds text that is not UTF-8, or memory ran out"));
    D9_TRY(add_dump(context, root, text));
done:
    json_decref(config);
    json_decref(root);
    return status;
}

/* Format: stanford-futuredata/dawn-bench-entries README, "CIFAR10 Training". The submitter adds author, e-mail, URL and
 * price. */
static json_t *submission_json(const d9_result *result) {
    char date[16] = "", hardware[192];
    time_t now = time(NULL);
    struct tm day;
    if (gmtime_r(&now, &day)) strftime(date, sizeof date, "%Y-%m-%d", &day);
    snprintf(hardware, sizeof hardware,
             !result->device.threads       ? "%s"
             : result->device.threads == 1 ? "%s, %d thread"
                                           : "%s, %d threads",
             result->device.name, result->device.threads);
    json_t *misc = json_pack("{s:o, s:s, s:s, s:s, s:I, s:I, s:s, s:s}", "title", d9_json_text(result->config->title),
                             "commit", d9_build_commit(), "backend", result->backend, "precision", result->precision,
                             "seed", (json_int_t)result->seed, "batch_size", (json_int_t)result->batch, "config_hash",
                             result->config_hash, "library", result->device.version);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:n, s:s, s:o}", "version", "v1.0", "author", "",
                     "authorEmail", "", "framework", "dawn9", "codeURL", "", "model", result->config->model->name,
                     "hardware", hardware, "costPerHour", "timestamp", date, "misc", misc);
}

d9_status d9_record_result(d9_record *record, const d9_result *result) {
    d9_status status = D9_OK;
    d9_text text;
    d9_text_init(record->context, &text);
    json_t *submission = submission_json(result);
    if (!submission) D9_TRY(d9_fail(record->context, D9_DEVICE, "submission.json could not be made"));
    D9_TRY(add_dump(record->context, submission, &text));
    D9_TRY(d9_record_write(record, "submission.json", &text));
    d9_text_free(&text);
    d9_text_init(record->context, &text);
    D9_TRY(d9_result_add_json(record->context, result, &text));
    D9_TRY(d9_record_write(record, "result.json", &text));
done:
    json_decref(submission);
    d9_text_free(&text);
    return status;
}
