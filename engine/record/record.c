/* Opens a run folder and writes its records; result.c writes result.json and submission.json.
 *
 *     config.yaml               effective configuration; identifies the run
 *     events.jsonl              one object per epoch, appended
 *     epochs.tsv                DAWNBench's format: a row per evaluated epoch
 *     predictions.safetensors   predictions for the evaluated images */
#include "record/record.h"
#include "core/listing.h"
#include "core/system.h"
#include "record/effective.h"
#include "record/safetensors.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Files of runs, reports and experiments, for d9_record_remove_partial. d9_record_open removes the first LEFTOVERS of
 * them. If it resumes a run with keep: best, it leaves the last KEPT of these, predictions and model, which may be of
 * an epoch before the checkpoint. */
enum { LEFTOVERS = 5, KEPT = 2 };
static const char *const files[] = {
    "result.json", "submission.json", "live.html",  "predictions.safetensors", "model.safetensors",
    "config.yaml", "events.jsonl",    "epochs.tsv", "checkpoint.safetensors",  "failure.json",
    "report.html", "experiment.json"};

enum { PATH_BYTES = 1024 };
static void path_in(const d9_record *record, const char *name, char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s/%s", record->folder, name);
}

d9_status d9_record_write(d9_record *record, const char *name, const d9_text *text) {
    char path[PATH_BYTES];
    path_in(record, name, path);
    return d9_file_write(record->context, path, d9_text_get(text), text->size);
}

static bool has_file(const d9_record *record, const char *name) {
    char path[PATH_BYTES];
    path_in(record, name, path);
    return d9_file_exists(record->context, path);
}

/* Returns D9_USAGE if the folder holds a run of another configuration or seed. */
static d9_status check_same_run(const d9_record *record, const d9_config *config) {
    d9_status status = D9_OK;
    d9_config *held = NULL;
    d9_text differs;
    char path[PATH_BYTES];
    d9_text_init(record->context, &differs);
    path_in(record, "config.yaml", path);
    if (!has_file(record, "config.yaml")) goto done;
    D9_TRY(d9_config_load(record->context, path, NULL, &held));
    d9_config_difference(held, config, &differs);
    D9_TRY(d9_text_status(&differs));
    if (differs.size > 0)
        D9_TRY(d9_fail(record->context, D9_USAGE,
                       "%s: holds a run of another configuration (%s: %s); give another --out, or --overwrite deletes "
                       "that run",
                       record->folder, path, d9_text_get(&differs)));
    if (held->seed != config->seed)
        D9_TRY(d9_fail(record->context, D9_USAGE,
                       "%s: holds a run of another seed (%lld, this one has %lld); give another --out, or --overwrite "
                       "deletes that run",
                       record->folder, (long long)held->seed, (long long)config->seed));
done:
    d9_text_free(&differs);
    d9_config_free(record->context, held);
    return status;
}

static d9_status remove_file(d9_record *record, const char *name) {
    const d9_system *system = record->context->system;
    char path[PATH_BYTES];
    path_in(record, name, path);
    if (system->remove(system->user, path) == 0 || errno == ENOENT) return D9_OK;
    return d9_fail(record->context, D9_OUTPUT, "%s: cannot remove: %s", path, strerror(errno));
}

static d9_status set_folder(d9_context *context, d9_record *record, const char *folder) {
    *record = (d9_record){.context = context};
    if (strlen(folder) >= sizeof record->folder)
        return d9_fail(context, D9_OUTPUT, "%s: the folder's name is longer than %zu bytes", folder,
                       sizeof record->folder - 1);
    memcpy(record->folder, folder, strlen(folder) + 1);
    return D9_OK;
}

bool d9_record_is_folder(d9_context *context, const char *folder) {
    d9_record record;
    d9_context quiet = *context; /* takes the error if the folder's name is too long */
    return set_folder(&quiet, &record, folder) == D9_OK && has_file(&record, "config.yaml") &&
           (has_file(&record, "events.jsonl") || has_file(&record, "checkpoint.safetensors") ||
            has_file(&record, "result.json"));
}

bool d9_record_is_file(d9_context *context, const char *path) {
    char folder[PATH_BYTES];
    char *const linked = realpath(path, NULL); /* NULL: no such file */
    const char *target = linked ? linked : path, *name = d9_text_file_name(target);
    bool named = false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) named = named || strcmp(name, files[i]) == 0;
    snprintf(folder, sizeof folder, "%.*s.", (int)(name - target), target);
    named = named && (d9_record_is_folder(context, folder) || (linked && strcmp(name, "experiment.json") == 0));
    free(linked);
    return named;
}

d9_status d9_record_find_finished(d9_context *context, const char *folder, const d9_config *config, bool *finished) {
    d9_status status;
    d9_record record;
    D9_TRY(set_folder(context, &record, folder));
    D9_TRY(check_same_run(&record, config));
    *finished = has_file(&record, "result.json");
done:
    return status;
}

/* Returns a file that is named like one of a record, if the folder has no run's config.yaml, nor a checkpoint to resume
 * from; NULL: none. */
static const char *find_foreign(const d9_record *record, d9_record_mode mode) {
    if (has_file(record, "config.yaml")) return NULL;
    if (mode == D9_RECORD_RESUME && has_file(record, "checkpoint.safetensors")) return NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (has_file(record, files[i])) return files[i];
    return NULL;
}

d9_status d9_record_check(d9_context *context, const char *folder, const d9_config *config, d9_record_mode mode) {
    d9_status status;
    d9_record record;
    bool finished = false;
    D9_TRY(set_folder(context, &record, folder));
    if (mode == D9_RECORD_OVERWRITE) goto done;
    const char *foreign = find_foreign(&record, mode);
    if (foreign) /* downloaded or copied here; only --overwrite replaces or deletes it */
        D9_TRY(d9_fail(context, D9_USAGE,
                       "%s: holds %s, but no config.yaml of a run; --overwrite replaces or deletes files named like "
                       "those of a run, or give another --out",
                       folder, foreign));
    D9_TRY(d9_record_find_finished(context, folder, config, &finished));
    if (finished && mode == D9_RECORD_RESUME)
        D9_TRY(
            d9_fail(context, D9_USAGE, "%s: this run is finished; --overwrite deletes it and trains it again", folder));
    if (finished)
        D9_TRY(d9_fail(context, D9_USAGE,
                       "%s: holds a finished run; --resume leaves it as it is, --overwrite deletes it and trains it "
                       "again; or give another --out",
                       folder));
    if (mode == D9_RECORD_NEW && has_file(&record, "checkpoint.safetensors"))
        D9_TRY(d9_fail(context, D9_USAGE,
                       "%s: holds a run that is not finished; --resume continues from its checkpoint, --overwrite "
                       "deletes it and starts over; or give another --out",
                       folder));
    if (mode == D9_RECORD_NEW && has_file(&record, "model.safetensors"))
        D9_TRY(d9_fail(context, D9_USAGE,
                       "%s: holds a model.safetensors and no finished run; --overwrite deletes that model, or give "
                       "another --out",
                       folder));
done:
    return status;
}

/* True for NAME.NUMBER.partial, the name that d9_file_write gives `name` until it is complete. */
static bool is_partial_of(const char *entry, const char *name) {
    const size_t length = strlen(name);
    if (strncmp(entry, name, length) != 0 || entry[length] != '.') return false;
    const char *number = entry + length + 1;
    const size_t digits = strspn(number, "0123456789");
    return digits > 0 && strcmp(number + digits, ".partial") == 0;
}

/* True for an unfinished copy of one of the files. */
static bool is_partial_record(const char *entry) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (is_partial_of(entry, files[i])) return true;
    return false;
}

void d9_record_remove_partial(d9_context *context, const char *folder) {
    d9_context quiet = *context; /* takes the error if the folder cannot be listed */
    d9_arena arena = {0};
    d9_listing listing;
    if (d9_listing_read(&quiet, &arena, folder, &listing) == D9_OK)
        for (int64_t i = 0; i < listing.count; i++)
            if (is_partial_record(listing.entries[i].name))
                context->system->remove(context->system->user, listing.entries[i].path);
    d9_arena_free(&quiet, &arena);
}

static d9_status append_line(d9_record *record, const char *name, const char *line) {
    char path[PATH_BYTES];
    path_in(record, name, path);
    return d9_file_append(record->context, path, line, strlen(line));
}

static const struct {
    const char *name;
    size_t offset;
} columns[D9_EPOCH_COLUMNS] = {
    {"train_loss", offsetof(d9_epoch_row, train_loss)},
    {"train_accuracy", offsetof(d9_epoch_row, train_accuracy)},
    {NULL, offsetof(d9_epoch_row, score)},
    {NULL, offsetof(d9_epoch_row, score_tta)},
    {"eval_loss", offsetof(d9_epoch_row, eval_loss)},
    {"images_per_second", offsetof(d9_epoch_row, images_per_second)},
    {"seconds", offsetof(d9_epoch_row, seconds)},
    {"hours", offsetof(d9_epoch_row, hours)},
    {"rate", offsetof(d9_epoch_row, learning_rate)},
};

const char *d9_epoch_column(const d9_measure *measure, int column) {
    const size_t offset = columns[column].offset;
    return offset == offsetof(d9_epoch_row, score)       ? measure->name
           : offset == offsetof(d9_epoch_row, score_tta) ? measure->name_tta
                                                         : columns[column].name;
}

double d9_epoch_score(const d9_epoch_row *row) { return isnan(row->score_tta) ? row->score : row->score_tta; }

double *d9_epoch_cell(const d9_epoch_row *row, int column) { return (double *)((char *)row + columns[column].offset); }

bool d9_scores_set(json_t *object, const d9_measure *measure, int views, double score, double score_tta) {
    const bool both = measure->both_keys || views > 1;
    return json_object_set_new(object, measure->name, d9_json_number(score)) == 0 &&
           (!both || json_object_set_new(object, measure->name_tta, d9_json_number(score_tta)) == 0);
}

json_t *d9_epoch_to_json(const d9_epoch_row *row, const d9_measure *measure, int views, int count) {
    json_t *object = json_pack("{s:I}", "epoch", (json_int_t)row->epoch);
    bool fine = object != NULL;
    for (int c = 0; fine && c < count; c++) {
        const double *cell = d9_epoch_cell(row, c);
        if (cell == &row->score)
            fine = d9_scores_set(object, measure, views, row->score, row->score_tta);
        else if (cell != &row->score_tta)
            fine = json_object_set_new(object, columns[c].name, d9_json_number(*cell)) == 0;
    }
    if (fine) return object;
    json_decref(object);
    return NULL;
}

d9_status d9_epoch_add_line(d9_context *context, const d9_epoch_row *row, const d9_measure *measure, int views,
                            d9_text *text) {
    json_t *object = d9_epoch_to_json(row, measure, views, D9_EPOCH_COLUMNS - 1);
    const bool fine = json_object_set_new(object, "learning_rate", d9_json_number(row->learning_rate)) == 0;
    char *dump = fine ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    if (dump) d9_text_add(text, "%s\n", dump);
    d9_status status = dump ? d9_text_status(text) : d9_fail(context, D9_DEVICE, "out of memory for an epoch's row");
    free(dump);
    json_decref(object);
    return status;
}

/* Adds the row's line for epochs.tsv, if the epoch was evaluated. */
static void add_tsv_line(const d9_epoch_row *row, const d9_measure *measure, int views, d9_text *text) {
    const double score = views > 1 ? d9_epoch_score(row) : row->score;
    if (isfinite(score))
        d9_text_add(text, "%lld\t%.9f\t%.*f\n", (long long)row->epoch, row->hours, measure->digits, score);
}

d9_status d9_record_epoch(d9_record *record, const d9_epoch_row *row, const d9_measure *measure, int views) {
    d9_status status = D9_OK;
    d9_text line, cells;
    d9_text_init(record->context, &line);
    d9_text_init(record->context, &cells);
    D9_TRY(d9_epoch_add_line(record->context, row, measure, views, &line));
    D9_TRY(append_line(record, "events.jsonl", d9_text_get(&line)));
    add_tsv_line(row, measure, views, &cells);
    D9_TRY(d9_text_status(&cells));
    if (cells.size > 0) D9_TRY(append_line(record, "epochs.tsv", d9_text_get(&cells)));
done:
    d9_text_free(&line);
    d9_text_free(&cells);
    return status;
}

/* Writes events.jsonl and epochs.tsv anew. A resumed run passes the rows of the checkpoint, because a power cut may
 * have taken lines that were appended before the checkpoint was written. */
static d9_status write_rows(d9_record *record, const d9_measure *measure, const d9_epoch_row *rows, int64_t count,
                            int views) {
    d9_status status = D9_OK;
    d9_text lines, cells;
    d9_text_init(record->context, &lines);
    d9_text_init(record->context, &cells);
    d9_text_add(&cells, "epoch\thours\t%s\n", measure->epochs_heading);
    for (int64_t i = 0; i < count; i++) {
        D9_TRY(d9_epoch_add_line(record->context, &rows[i], measure, views, &lines));
        add_tsv_line(&rows[i], measure, views, &cells);
    }
    D9_TRY(d9_text_status(&cells));
    D9_TRY(d9_record_write(record, "events.jsonl", &lines));
    D9_TRY(d9_record_write(record, "epochs.tsv", &cells));
done:
    d9_text_free(&lines);
    d9_text_free(&cells);
    return status;
}

d9_status d9_record_open(d9_context *context, d9_record *record, const char *folder, const d9_config *config,
                         d9_record_mode mode, const d9_epoch_row *rows, int64_t count, int views) {
    d9_status status;
    d9_text text;
    d9_text_init(context, &text);
    D9_TRY(set_folder(context, record, folder));
    D9_TRY(d9_directory_make(context, folder));
    D9_TRY(d9_record_check(context, folder, config, mode));
    const bool best = mode == D9_RECORD_RESUME && config->keep == D9_KEEP_BEST;
    for (int i = 0; i < LEFTOVERS - best * KEPT; i++) D9_TRY(remove_file(record, files[i]));
    if (mode == D9_RECORD_OVERWRITE) D9_TRY(remove_file(record, "checkpoint.safetensors"));
    D9_TRY(d9_effective_yaml(config, &text));
    D9_TRY(d9_record_write(record, "config.yaml", &text));
    D9_TRY(write_rows(record, config->measure, rows, mode == D9_RECORD_RESUME ? count : 0, views));
done:
    d9_text_free(&text);
    return status;
}

d9_status d9_record_predictions(d9_record *record, const int32_t *top1, const float *confidence, const int32_t *labels,
                                int64_t count, const char *params_sha256, int64_t epoch) {
    char path[PATH_BYTES], number[24];
    const d9_shape shape = {.rank = 1, .d = {count}};
    const size_t bytes = (size_t)count * 4;
    const d9_tensor tensors[] = {
        {.name = "top1", .type = D9_TENSOR_I32, .shape = shape, .bytes = top1, .size = bytes},
        {.name = "confidence", .type = D9_TENSOR_F32, .shape = shape, .bytes = confidence, .size = bytes},
        {.name = "label", .type = D9_TENSOR_I32, .shape = shape, .bytes = labels, .size = bytes},
    };
    path_in(record, "predictions.safetensors", path);
    const d9_metadata model[] = {{"params_sha256", params_sha256}, {"epoch", number}};
    snprintf(number, sizeof number, "%lld", (long long)epoch);
    return d9_safetensors_write(record->context, path, tensors, count > 0 ? 3 : 0, model, 2);
}

d9_status d9_record_read_kept(d9_context *context, const char *folder, char params_sha256[65], int64_t *epoch) {
    d9_status status = D9_OK;
    d9_safetensors *file = NULL;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/predictions.safetensors", folder);
    if (d9_file_exists(context, path)) D9_TRY(d9_safetensors_read(context, path, &file));
    const char *hash = file ? d9_safetensors_metadata(file, "params_sha256") : NULL;
    const char *number = file ? d9_safetensors_metadata(file, "epoch") : NULL;
    snprintf(params_sha256, 65, "%s", hash ? hash : "");
    *epoch = number ? strtoll(number, NULL, 10) : 0;
done:
    d9_safetensors_free(context, file);
    return status;
}
