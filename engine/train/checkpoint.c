/* Checkpoints: the complete state of an unfinished run, from which it continues with the same bits. Random draws and
 * orders are functions of (seed, step), so the buffers, the step, the rows of finished epochs and the timeline suffice.
 *
 * A checkpoint is one safetensors file in which each value has a name, a type and a shape of its own:
 *
 *     state/VALUE                  each parameter and running statistic, in the master type and in the engine's layout
 *     ACCUMULATOR/VALUE            (average/...) the same for each accumulator with the layout of the state
 *     ACCUMULATOR/VALUE            (velocity/...) each trained parameter, for each accumulator of the groups
 *     metrics                      f64 (4), as D9_BUFFER_METRICS
 *     guard                        u8, only in fp16 runs, in the backend's form
 *     carry                        only of streams: D9_BUFFER_CARRY, with the columns of all processes
 *     epochs/COLUMN                f64 (finished epochs): each column of d9_epoch_row; row i is epoch i + 1
 *     timeline/SEGMENT/epoch       i64 (segments of this kind); 0: outside the epochs
 *     timeline/SEGMENT/seconds     f64 (segments of this kind)
 *
 * The metadata holds the format, the properties that must agree with the run that reads it, those on which its further
 * bits depend, the step, the version and commit that wrote it, and a SHA-256 of the file (D9_SEAL_KEY). Process 0 warns
 * if a property on which the bits depend differs, and names the first; a missing one (dawn9 0.3.0) is taken as equal. A
 * reader requires exactly these tensors, in the types and shapes of the run, with finite numbers. Exceptions: a
 * perplexity may be infinite; scores and evaluation loss of an epoch may be NaN (not evaluated), as may the training
 * accuracy (samples with several labels); epochs/eval_loss may be missing (dawn9 0.3.0). */
#include "core/system.h"
#include "record/safetensors.h"
#include "train/trainer_parts.h"

#include <stdio.h>
#include <string.h>

#define FORMAT_NAME "dawn9 checkpoint "
static const char format[] = FORMAT_NAME "4";

/* ---- contents ---- */

/* A checkpoint in memory. Its arena owns what the pointers refer to. */
typedef struct snapshot {
    d9_arena arena;
    uint8_t *buffers[D9_BUFFER_COUNT]; /* sizes as in the program; NULL: not stored, or absent in this run */
    double *columns[D9_EPOCH_COLUMNS]; /* (finished epochs) */
    d9_tensor *tensors;
    int count, capacity;
} snapshot;

/* Adds the tensor `group/name`, or `group` if `name` is NULL. */
static d9_status add_tensor(d9_session *session, snapshot *all, const char *group, const char *name,
                            d9_tensor_type type, const d9_shape *shape, void *bytes) {
    d9_status status;
    char *full;
    const size_t size = (size_t)d9_shape_count(shape) * d9_tensor_type_bytes(type);
    D9_TRY(d9_arena_format(session->context, &all->arena, &full, "%s%s%s", group, name ? "/" : "", name ? name : ""));
    D9_TRY(D9_ARENA_GROW(session->context, &all->arena, all->count, &all->capacity, &all->tensors));
    all->tensors[all->count++] = (d9_tensor){full, type, *shape, bytes, size};
done:
    return status;
}

/* Adds the parameters and statistics in STATE or in an accumulator; `trained`: only the trained parameters. */
static d9_status add_values(d9_session *session, snapshot *all, d9_buffer buffer, const char *group, bool trained) {
    d9_status status;
    const d9_graph *graph = &session->program.train;
    const d9_tensor_type type = d9_tensor_type_of(session->program.precision->master);
    uint8_t **bytes = &all->buffers[buffer];
    D9_TRY(D9_ARENA_ALLOCATE(session->context, &all->arena, session->program.buffer_bytes[buffer], bytes));
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        const bool parameter = value->kind == D9_VALUE_PARAMETER, statistic = value->kind == D9_VALUE_STATISTIC;
        if (trained ? parameter && value->trainable : parameter || statistic)
            D9_TRY(add_tensor(session, all, group, value->name, type, &value->shape, *bytes + value->offset));
    }
done:
    return status;
}

static d9_status add_buffer(d9_session *session, snapshot *all, d9_buffer buffer, const char *name,
                            d9_tensor_type type) {
    d9_status status;
    const int64_t bytes = session->program.buffer_bytes[buffer];
    const d9_shape shape = {1, {bytes / (int64_t)d9_tensor_type_bytes(type)}};
    if (bytes == 0) return D9_OK;
    D9_TRY(D9_ARENA_ALLOCATE(session->context, &all->arena, bytes, &all->buffers[buffer]));
    D9_TRY(add_tensor(session, all, name, NULL, type, &shape, all->buffers[buffer]));
done:
    return status;
}

/* Adds all tensors that a checkpoint of this session has, except those of the timeline; their memory is zeroed. */
static d9_status add_tensors(d9_session *session, int64_t epochs, snapshot *all) {
    d9_status status;
    const d9_accumulators *accumulators = &session->program.accumulators;
    D9_TRY(add_values(session, all, D9_BUFFER_STATE, "state", false));
    for (int i = 0; i < accumulators->count; i++) {
        const d9_accumulator *accumulator = &accumulators->accumulator[i];
        if (accumulator->layout != D9_ACCUMULATOR_OF_UPDATE)
            D9_TRY(add_values(session, all, (d9_buffer)(D9_BUFFER_ACCUMULATORS + i), accumulator->name,
                              accumulator->layout == D9_ACCUMULATOR_OF_GROUPS));
    }
    D9_TRY(add_buffer(session, all, D9_BUFFER_METRICS, "metrics", D9_TENSOR_F64));
    D9_TRY(add_buffer(session, all, D9_BUFFER_GUARD, "guard", D9_TENSOR_U8));
    D9_TRY(add_buffer(session, all, D9_BUFFER_CARRY, "carry", d9_tensor_type_of(session->program.precision->master)));
    for (int c = 0; c < D9_EPOCH_COLUMNS; c++) {
        D9_TRY(D9_ARENA_ALLOCATE(session->context, &all->arena, epochs, &all->columns[c]));
        D9_TRY(add_tensor(session, all, "epochs", d9_epoch_column(session->program.measure, c), D9_TENSOR_F64,
                          &(d9_shape){1, {epochs}}, all->columns[c]));
    }
done:
    return status;
}

/* Metadata entries that are compared with those of the run that reads the checkpoint. The first IDENTITY_ROWS must be
 * equal; the bits of further steps depend on the others. */
enum { IDENTITY_ROWS = 5, ROWS = 10 };

typedef struct identity {
    char hash[65], seed[32], ranks[32], threads[32], plan[65];
    d9_metadata rows[ROWS];
    bool bits_depend_on_threads;
} identity;

static d9_status fill_identity(d9_session *session, identity *self) {
    d9_status status;
    const d9_backend *backend = session->backend;
    d9_text text;
    d9_text_init(session->context, &text);
    d9_session_add_train_plans(session, &text);
    D9_TRY(d9_text_status(&text));
    const char *plan = d9_text_get(&text);
    self->bits_depend_on_threads = backend->threads_matter && backend->threads_matter(plan);
    d9_sha256_hex(&(d9_bytes){plan, text.size}, 1, self->plan);
    d9_config_hash(session->context, session->config, self->hash);
    snprintf(self->seed, sizeof self->seed, "%llu", (unsigned long long)session->seed);
    snprintf(self->ranks, sizeof self->ranks, "%d", d9_parallel_ranks(session->parallel));
    snprintf(self->threads, sizeof self->threads, "%d", session->info.threads);
    const d9_metadata rows[ROWS] = {{"config_hash", self->hash},
                                    {"seed", self->seed},
                                    {"precision", session->program.precision->name},
                                    {"backend", backend->name},
                                    {"data_digest", d9_session_data_digest(session)},
                                    {"ranks", self->ranks},
                                    {"threads", self->threads},
                                    {"isa", session->info.isa},
                                    {"libraries", session->info.version},
                                    {"plan_sha256", self->plan}};
    memcpy(self->rows, rows, sizeof rows);
done:
    d9_text_free(&text);
    return status;
}

/* True for the column of evaluation losses, which dawn9 0.3.0 did not write. The loss of an epoch without evaluation is
 * NAN. */
static bool is_eval_loss(const char *name) { return strcmp(name, "epochs/eval_loss") == 0; }

/* ---- checks of the numbers ---- */

/* Fails with `status` and a message that ends in `why` if a number is not finite, or is a negative variance or an
 * impossible score. Scores, the training accuracy among them, and evaluation losses may be NaN; a perplexity may be
 * infinite. */
static d9_status check_numbers(d9_session *session, const char *path, const d9_tensor *tensor, d9_status status,
                               const char *why) {
    const int64_t count = d9_shape_count(&tensor->shape);
    const bool row = strncmp(tensor->name, "epochs/", strlen("epochs/")) == 0;
    const d9_measure *score = row ? d9_measure_find_in_key(tensor->name) : NULL;
    const bool variance = d9_text_ends_in(tensor->name, ".running_var");
    if (tensor->type != D9_TENSOR_F32 && tensor->type != D9_TENSOR_F64) return D9_OK;
    for (int64_t i = 0; i < count; i++) {
        const double value = tensor->type == D9_TENSOR_F32 ? (double)((const float *)tensor->bytes)[i]
                                                           : ((const double *)tensor->bytes)[i];
        if (is_eval_loss(tensor->name) && isnan(value)) continue;
        if (score && (isnan(value) || (value >= score->minimum && value <= score->maximum))) continue;
        if (score || !isfinite(value) || (variance && value < 0))
            return d9_fail(session->context, status, "%s: tensor %s holds %g, %s", path, tensor->name, value, why);
    }
    return D9_OK;
}

/* ---- writing ---- */

static d9_status add_segments(d9_session *session, snapshot *all, d9_segment_kind kind) {
    d9_status status;
    const d9_timeline *timeline = &session->timeline;
    int64_t *epochs;
    double *seconds;
    char *group;
    int64_t count = 0;
    D9_TRY(d9_arena_format(session->context, &all->arena, &group, "timeline/%s", d9_segment_name(kind)));
    D9_TRY(D9_ARENA_ALLOCATE(session->context, &all->arena, timeline->count, &epochs));
    D9_TRY(D9_ARENA_ALLOCATE(session->context, &all->arena, timeline->count, &seconds));
    for (int i = 0; i < timeline->count; i++) {
        if (timeline->segments[i].kind != kind) continue;
        epochs[count] = timeline->segments[i].epoch;
        seconds[count++] = timeline->segments[i].seconds;
    }
    D9_TRY(add_tensor(session, all, group, "epoch", D9_TENSOR_I64, &(d9_shape){1, {count}}, epochs));
    D9_TRY(add_tensor(session, all, group, "seconds", D9_TENSOR_F64, &(d9_shape){1, {count}}, seconds));
done:
    return status;
}

d9_status d9_checkpoint_write(d9_session *session, const char *path, const d9_progress_state *progress) {
    d9_status status;
    snapshot all = {0};
    identity mine;
    char step[32], seal[D9_SEAL_DIGITS + 1] = "";
    uint8_t *bytes = NULL;
    size_t size;
    D9_TRY(add_tensors(session, progress->epoch_count, &all));
    for (int b = 0; b < D9_BUFFER_COUNT; b++)
        if (all.buffers[b]) D9_TRY(d9_session_read(session, (d9_buffer)b, all.buffers[b]));
    D9_TRY(d9_together_metrics(session, (double *)(void *)all.buffers[D9_BUFFER_METRICS]));
    D9_TRY(d9_together_gather_carry(session, all.buffers[D9_BUFFER_CARRY]));
    if (!path) goto done;
    for (int64_t e = 0; e < progress->epoch_count; e++)
        for (int c = 0; c < D9_EPOCH_COLUMNS; c++) all.columns[c][e] = *d9_epoch_cell(&progress->epochs[e], c);
    for (d9_segment_kind kind = 0; kind < D9_SEGMENT_COUNT; kind++) D9_TRY(add_segments(session, &all, kind));
    for (int t = 0; t < all.count; t++)
        D9_TRY(check_numbers(session, path, &all.tensors[t], D9_NONFINITE,
                             "so it was not written: training became non-finite; a lower train.lr, or a wider "
                             "precision, may help"));
    D9_TRY(fill_identity(session, &mine));
    snprintf(step, sizeof step, "%lld", (long long)progress->step);
    memset(seal, '0', D9_SEAL_DIGITS);
    d9_metadata metadata[5 + ROWS] = {{"format", format},
                                      {"step", step},
                                      {"dawn9.version", d9_build_version()},
                                      {"dawn9.commit", d9_build_commit()},
                                      {D9_SEAL_KEY, seal}};
    memcpy(metadata + 5, mine.rows, sizeof mine.rows);
    D9_TRY(d9_safetensors_encode(session->context, path, all.tensors, all.count, metadata,
                                 sizeof metadata / sizeof *metadata, &bytes, &size));
    d9_safetensors_seal(bytes, size);
    D9_TRY(d9_file_write(session->context, path, bytes, size));
done:
    d9_release(session->context, bytes);
    d9_arena_free(session->context, &all.arena);
    return status;
}

/* ---- reading ---- */

static d9_status check_format(d9_session *session, const char *path, const d9_safetensors *file) {
    const char *theirs = d9_safetensors_metadata(file, "format"),
               *version = d9_safetensors_metadata(file, "dawn9.version");
    if (!theirs || strncmp(theirs, FORMAT_NAME, strlen(FORMAT_NAME)) != 0)
        return d9_fail(session->context, D9_DATA, "%s: is no checkpoint: its format is %.40s, must be %s", path,
                       theirs ? theirs : "not said", format);
    if (strcmp(theirs, format) == 0) return D9_OK;
    return d9_fail(
        session->context, D9_USAGE,
        "%s: is a %.40s, written by dawn9 %.20s; this version reads %s: start anew without --resume, or resume "
        "with the version that wrote it",
        path, theirs, version ? version : "(version unknown)", format);
}

/* Warns if a metadata entry from IDENTITY_ROWS on differs from that of this run, because the parameters may then differ
 * from those of an uninterrupted run. Only the first such entry is reported. Ignores missing entries, and the number of
 * threads unless the bits depend on it. Only process 0 compares, because it wrote the entries. */
static void compare_bits(const d9_session *session, const char *path, const d9_safetensors *file,
                         const identity *mine) {
    static const char *const what[ROWS] = {[IDENTITY_ROWS] = "another number of processes",
                                           "another number of threads, on which its kernels depend",
                                           "another instruction set",
                                           "other libraries",
                                           "other kernels"};
    for (int i = IDENTITY_ROWS; i < ROWS && d9_parallel_rank(session->parallel) == 0; i++) {
        const char *theirs = d9_safetensors_metadata(file, mine->rows[i].key);
        if (!theirs || strcmp(theirs, mine->rows[i].value) == 0) continue;
        if (mine->rows[i].value == mine->threads && !mine->bits_depend_on_threads) continue;
        d9_log(session->context, D9_LOG_WARNING,
               "%s: resumed with %s (%s: %.127s, now %s), so the parameters may differ from those of an uninterrupted "
               "run",
               path, what[i], mine->rows[i].key, theirs, mine->rows[i].value);
        return;
    }
}

static d9_status check_identity(d9_session *session, const char *path, const d9_safetensors *file) {
    d9_status status;
    static const char *const what[IDENTITY_ROWS] = {"configuration", "seed", "precision", "backend", "data set"};
    identity mine;
    D9_TRY(fill_identity(session, &mine));
    for (int i = 0; i < IDENTITY_ROWS; i++) {
        const char *theirs = d9_safetensors_metadata(file, mine.rows[i].key);
        if (!theirs)
            return d9_fail(session->context, D9_DATA, "%s: is no checkpoint: its metadata lacks %s", path, what[i]);
        if (strcmp(theirs, mine.rows[i].value) != 0)
            return d9_fail(session->context, D9_USAGE,
                           "%s: is a checkpoint of another %s (%.16s, this run has %.16s): start anew without "
                           "--resume, or in another folder",
                           path, what[i], theirs, mine.rows[i].value);
    }
    compare_bits(session, path, file, &mine);
done:
    return status;
}

static d9_status read_step(d9_session *session, const char *path, const d9_safetensors *file,
                           d9_progress_state *progress) {
    const char *said = d9_safetensors_metadata(file, "step");
    int64_t *step = &progress->step;
    if (said && d9_text_to_integer(said, step) && *step >= 0 && *step <= session->program.steps) return D9_OK;
    return d9_fail(session->context, D9_DATA, "%s: step %.40s is outside this run's 0 to %lld", path,
                   said ? said : "(none)", (long long)session->program.steps);
}

/* The number of epochs that are finished before `step`. The last epoch of a run may be a fraction. */
static int64_t finished_epochs(const d9_program *program, int64_t step) {
    return step == program->steps ? d9_program_epochs_begun(program, step) : step / program->steps_per_epoch;
}

/* Writes type and shape of a tensor: "F32 (64, 3, 3, 3)". */
static void describe_tensor(d9_tensor_type type, const d9_shape *shape, char text[128]) {
    int length = snprintf(text, 128, "%s (", d9_tensor_type_name(type));
    for (int i = 0; i < shape->rank; i++)
        length += snprintf(text + length, (size_t)(128 - length), "%s%lld", i ? ", " : "", (long long)shape->d[i]);
    snprintf(text + length, (size_t)(128 - length), ")");
}

/* Finds the tensor of this name; fails if it is missing or has another type or shape. */
static d9_status find_tensor(d9_session *session, const char *path, const d9_safetensors *file, const char *name,
                             d9_tensor_type type, const d9_shape *shape, const d9_tensor **found) {
    char theirs[128], mine[128];
    *found = d9_safetensors_find(file, name);
    if (!*found) return d9_fail(session->context, D9_DATA, "%s: has no tensor %s", path, name);
    if ((*found)->type == type && d9_shape_equal(&(*found)->shape, shape)) return D9_OK;
    describe_tensor((*found)->type, &(*found)->shape, theirs);
    describe_tensor(type, shape, mine);
    return d9_fail(session->context, D9_DATA, "%s: tensor %s is %s, must be %s", path, name, theirs, mine);
}

/* Fills the buffers and columns of the snapshot from the file. Padding between two values of a buffer stays zero. */
static d9_status copy_tensors(d9_session *session, const char *path, const d9_safetensors *file, snapshot *all) {
    d9_status status = D9_OK;
    const d9_tensor *found;
    for (int t = 0; t < all->count; t++) {
        const d9_tensor *mine = &all->tensors[t];
        if (is_eval_loss(mine->name) && !d9_safetensors_find(file, mine->name)) {
            for (int64_t i = 0; i < d9_shape_count(&mine->shape); i++) ((double *)mine->bytes)[i] = NAN;
            continue;
        }
        D9_TRY(find_tensor(session, path, file, mine->name, mine->type, &mine->shape, &found));
        D9_TRY(check_numbers(session, path, found, D9_DATA, "which no run has there"));
        memcpy((void *)mine->bytes, found->bytes, mine->size);
    }
done:
    return status;
}

static d9_status restore_segments(d9_session *session, const char *path, const d9_safetensors *file,
                                  d9_segment_kind kind) {
    d9_status status;
    const d9_tensor *epochs, *seconds;
    char name[64];
    snprintf(name, sizeof name, "timeline/%s/seconds", d9_segment_name(kind));
    seconds = d9_safetensors_find(file, name); /* its length is the number of segments */
    const d9_shape shape = {1, {seconds ? seconds->shape.d[0] : 0}};
    D9_TRY(find_tensor(session, path, file, name, D9_TENSOR_F64, &shape, &seconds));
    snprintf(name, sizeof name, "timeline/%s/epoch", d9_segment_name(kind));
    D9_TRY(find_tensor(session, path, file, name, D9_TENSOR_I64, &shape, &epochs));
    for (int64_t i = 0; i < shape.d[0]; i++) {
        const double took = ((const double *)seconds->bytes)[i];
        const int64_t epoch = ((const int64_t *)epochs->bytes)[i];
        if (epoch < 0 || epoch > finished_epochs(&session->program, session->program.steps))
            D9_TRY(d9_fail(session->context, D9_DATA, "%s: tensor %s holds %lld, which is no epoch of this run", path,
                           epochs->name, (long long)epoch));
        if (!(took >= 0 && isfinite(took)))
            D9_TRY(d9_fail(session->context, D9_DATA, "%s: tensor %s holds %g, which is no time", path, seconds->name,
                           took));
        D9_TRY(d9_timeline_add(&session->timeline, kind, epoch, 0, took));
    }
done:
    return status;
}

static bool is_of_timeline(const char *name) {
    char segment[64];
    for (d9_segment_kind kind = 0; kind < D9_SEGMENT_COUNT; kind++)
        for (int epoch = 0; epoch < 2; epoch++) {
            snprintf(segment, sizeof segment, "timeline/%s/%s", d9_segment_name(kind), epoch ? "epoch" : "seconds");
            if (strcmp(name, segment) == 0) return true;
        }
    return false;
}

static d9_status reject_unknown(d9_session *session, const char *path, const d9_safetensors *file,
                                const snapshot *all) {
    for (int t = 0; t < file->tensor_count; t++) {
        const char *name = file->tensors[t].name;
        bool known = is_of_timeline(name);
        for (int m = 0; m < all->count && !known; m++) known = strcmp(name, all->tensors[m].name) == 0;
        if (!known) return d9_fail(session->context, D9_DATA, "%s: tensor %s does not belong to this run", path, name);
    }
    return D9_OK;
}

d9_status d9_checkpoint_read(d9_session *session, const char *path, int64_t capacity, d9_progress_state *progress) {
    d9_status status;
    d9_safetensors *file = NULL;
    snapshot all = {0};
    uint8_t *bytes = NULL;
    size_t size;
    D9_TRY(d9_together_read(session, path, D9_TENSORS_MAX_BYTES, &bytes, &size));
    D9_TRY(d9_safetensors_decode(session->context, path, bytes, size, &file));
    D9_TRY(check_format(session, path, file));
    if (!d9_safetensors_reseal(bytes, size))
        D9_TRY(d9_fail(session->context, D9_DATA, "%s: damaged: its checksum is not that of its contents", path));
    D9_TRY(check_identity(session, path, file));
    D9_TRY(read_step(session, path, file, progress));
    progress->epoch_count = finished_epochs(&session->program, progress->step);
    if (progress->epoch_count > capacity)
        D9_TRY(d9_fail(session->context, D9_DATA, "%s: has %lld epochs, this run at most %lld", path,
                       (long long)progress->epoch_count, (long long)capacity));
    D9_TRY(add_tensors(session, progress->epoch_count, &all));
    D9_TRY(copy_tensors(session, path, file, &all));
    if (d9_parallel_rank(session->parallel) > 0) memset(all.buffers[D9_BUFFER_METRICS], 0, 4 * sizeof(double));
    D9_TRY(d9_together_scatter_carry(session, all.buffers[D9_BUFFER_CARRY]));
    for (int b = 0; b < D9_BUFFER_COUNT; b++)
        if (all.buffers[b]) D9_TRY(d9_session_write(session, (d9_buffer)b, all.buffers[b]));
    for (int64_t e = 0; e < progress->epoch_count; e++) {
        progress->epochs[e].epoch = e + 1;
        for (int c = 0; c < D9_EPOCH_COLUMNS; c++) *d9_epoch_cell(&progress->epochs[e], c) = all.columns[c][e];
    }
    for (d9_segment_kind kind = 0; kind < D9_SEGMENT_COUNT; kind++) D9_TRY(restore_segments(session, path, file, kind));
    D9_TRY(reject_unknown(session, path, file, &all));
done:
    d9_arena_free(session->context, &all.arena);
    d9_safetensors_free(session->context, file);
    d9_release(session->context, bytes);
    return status;
}
