/* Checkpoints: their contents; those of another run or version, or incomplete ones, are rejected. The error names the
 * file and the part, and training never starts over silently. */
#include "core/process.h"
#include "record/safetensors.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "train/trainer_parts.h"

enum { STOP = 7, MOST_ROWS = 8 };
static const char checkpoint[] = "checkpoint.safetensors";

/* A run that stopped after STOP steps, and a session of it that reads checkpoints. */
typedef struct fixture {
    d9_config *config;
    const char *folder, *path;
    d9_session *session;
    d9_safetensors *file; /* the checkpoint as written */
    d9_epoch_row rows[MOST_ROWS];
    d9_progress_state progress;
} fixture;

static int set_up(void **state) {
    static fixture b;
    memset(&b, 0, sizeof b);
    context.system = run_system();
    b.config = run_config("reference", "f32", "");
    b.folder = run_folder_new();
    b.path = run_path(b.folder, checkpoint);
    d9_train_options options = {.config = b.config, .seed = 7, .out = b.folder, .stop_after_steps = STOP};
    assert_int_equal(run_train(&options, NULL).status, D9_SIGINT);
    b.session = run_session_open(&(d9_session_options){.config = b.config, .seed = 7});
    b.file = run_tensors(b.path);
    *state = &b;
    return 0;
}

#define CHECKPOINT_TEST(name) TEST_WITH(fixture *b, name, set_up)

/* Writes a checkpoint of these tensors and the metadata of `file`, with the right checksum. */
static void write_tensors(fixture *b, const d9_tensor *tensors, int count) {
    uint8_t *bytes;
    size_t size;
    OK(d9_safetensors_encode(&context, b->path, tensors, count, b->file->metadata, b->file->metadata_count, &bytes,
                             &size));
    d9_safetensors_seal(bytes, size);
    OK(d9_file_write(&context, b->path, bytes, size));
    d9_release(&context, bytes);
}

/* Writes b->file as the checkpoint. */
static void write_checkpoint(fixture *b) { write_tensors(b, b->file->tensors, b->file->tensor_count); }

static d9_status read_into(fixture *b, d9_session *session) {
    b->progress = (d9_progress_state){.epochs = b->rows};
    return d9_checkpoint_read(session, b->path, MOST_ROWS, &b->progress);
}

static d9_status read_back(fixture *b) { return read_into(b, b->session); }

/* A session with these options, which differ from those of the checkpoint, must reject it. */
static void assert_checkpoint_rejected(fixture *b, const d9_session_options *options) {
    assert_int_equal(read_into(b, run_session_open(options)), D9_USAGE);
    d9_context_clear(&context);
}

/* Reading must fail with this status and a message with the file and the words. */
static void assert_rejected(fixture *b, d9_status wanted, const char *words) {
    assert_int_equal(read_back(b), wanted);
    assert_words(context.message, b->path);
    assert_words(context.message, words), d9_context_clear(&context);
}

/* Reading must fail with D9_DATA and the words if `wrong` replaces the tensor `at`, which is restored afterwards. */
static void assert_tensor_rejected(fixture *b, d9_tensor *at, d9_tensor wrong, const char *words) {
    const d9_tensor whole = *at;
    char kept[160];
    snprintf(kept, sizeof kept, "%s", words);
    *at = wrong;
    write_checkpoint(b);
    assert_rejected(b, D9_DATA, kept);
    *at = whole;
}

static d9_tensor *find_tensor(fixture *b, const char *name) {
    for (int t = 0; t < b->file->tensor_count; t++)
        if (strcmp(b->file->tensors[t].name, name) == 0) return &b->file->tensors[t];
    fail_msg("the checkpoint has no %s", name);
    return NULL;
}

static d9_metadata *find_metadata(fixture *b, const char *key) {
    for (int m = 0; m < b->file->metadata_count; m++)
        if (strcmp(b->file->metadata[m].key, key) == 0) return &b->file->metadata[m];
    fail_msg("the metadata has no %s", key);
    return NULL;
}

static d9_buffer find_accumulator(const fixture *b, const char *name) {
    const d9_buffer buffer = d9_accumulator_find(&b->session->program.accumulators, name);
    assert_true(buffer != D9_BUFFER_COUNT);
    return buffer;
}

/* Every parameter and statistic has its name, shape and the numbers that the session has after reading. */
CHECKPOINT_TEST(test_a_checkpoint_has_each_value_by_name) {
    const d9_graph *graph = &b->session->program.train;
    int values = 0;
    OK(read_back(b));
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        if (value->kind != D9_VALUE_PARAMETER && value->kind != D9_VALUE_STATISTIC) continue;
        const struct {
            const char *prefix;
            d9_buffer buffer;
        } parts[] = {{"state", D9_BUFFER_STATE},
                     {"average", find_accumulator(b, "average")},
                     {"velocity", find_accumulator(b, "velocity")}};
        for (int p = 0; p < (value->kind == D9_VALUE_PARAMETER && value->trainable ? 3 : 2); p++, values++) {
            char name[128];
            float held[4096];
            snprintf(name, sizeof name, "%s/%s", parts[p].prefix, value->name);
            const d9_tensor *found = find_tensor(b, name);
            assert_true(found->type == D9_TENSOR_F32 && d9_shape_equal(&found->shape, &value->shape));
            assert_true(found->size <= sizeof held);
            OK(b->session->backend->read(&context, b->session->device, parts[p].buffer, value->offset, held,
                                         (int64_t)found->size));
            assert_memory_equal(held, found->bytes, found->size);
        }
    }
    assert_true(values > 60);
    assert_int_equal(b->file->tensor_count, values + 1 + 9 + 2 * D9_SEGMENT_COUNT); /* metrics, columns, segments */
    assert_true(b->progress.step == STOP && b->progress.epoch_count == 1 && b->rows[0].epoch == 1);
    assert_true(b->rows[0].train_loss == *(const double *)find_tensor(b, "epochs/train_loss")->bytes);
    assert_int_equal(find_tensor(b, "metrics")->shape.d[0], 4);
    assert_int_equal(find_tensor(b, "timeline/train/epoch")->shape.d[0], 2); /* a whole epoch and a partial one */
}

/* Reading overwrites all previous contents of the buffers: the gaps between values become zero. */
CHECKPOINT_TEST(test_reading_sets_gaps_to_zero) {
    const d9_buffer buffers[] = {D9_BUFFER_STATE, find_accumulator(b, "average"), find_accumulator(b, "velocity")};
    const d9_graph *graph = &b->session->program.train;
    int64_t gaps = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t bytes = b->session->program.buffer_bytes[buffers[i]];
        uint8_t *held = test_memory((size_t)bytes);
        memset(held, 0xff, (size_t)bytes);
        OK(b->session->backend->write(&context, b->session->device, buffers[i], 0, held, bytes));
        OK(read_back(b));
        OK(b->session->backend->read(&context, b->session->device, buffers[i], 0, held, bytes));
        for (int v = 0; v < graph->value_count; v++) {
            const d9_value *value = &graph->values[v];
            if (value->kind != D9_VALUE_PARAMETER && value->kind != D9_VALUE_STATISTIC) continue;
            if (value->offset >= bytes) continue; /* not trained: no velocity */
            memset(held + value->offset, 1, (size_t)d9_shape_count(&value->shape) * sizeof(float));
        }
        for (int64_t at = 0; at < bytes; at++) {
            if (held[at] > 1)
                fail_msg("%s: byte %lld is left over", d9_program_buffer_name(&b->session->program, buffers[i]),
                         (long long)at);
            gaps += held[at] == 0;
        }
    }
    assert_true(gaps > 0);
}

CHECKPOINT_TEST(test_unknown_tensors_are_rejected) {
    static const char *const names[][2] = {{"state/of.the.weather", "state/of.the.weather"},
                                           {"timeline/weather/seconds", ""}};
    d9_tensor more[512];
    static const float number = 1;
    const int count = b->file->tensor_count;
    assert_true(count < 512);
    memcpy(more, b->file->tensors, (size_t)count * sizeof *more);
    for (int i = 0; i < 2; i++) {
        more[count] = (d9_tensor){names[i][0], D9_TENSOR_F32, {1, {1}}, &number, sizeof number};
        write_tensors(b, more, count + 1);
        assert_rejected(b, D9_DATA, names[i][1]);
    }
}

/* A changed bit in the second half of the file, at some ten places, or another checksum is rejected. */
CHECKPOINT_TEST(test_a_wrong_checksum_is_rejected) {
    size_t size;
    uint8_t *bytes = run_read_file(b->path, &size);
    for (size_t back = 1; back < size / 2; back += size / 20) {
        bytes[size - back] ^= 1;
        OK(d9_file_write(&context, b->path, bytes, size));
        assert_rejected(b, D9_DATA, "");
        bytes[size - back] ^= 1;
    }
    OK(d9_file_write(&context, b->path, bytes, size));
    find_metadata(b, "sha256")->value = "none";
    write_checkpoint(b);
    assert_rejected(b, D9_DATA, "");
}

static run_report resume(fixture *b, const d9_config *config, uint64_t seed) {
    return run_train(&(d9_train_options){.config = config, .seed = seed, .out = b->folder, .resume = true}, NULL);
}

/* A rejected run must have left the checkpoint unchanged: the run that wrote it resumes from it. */
static void assert_still_resumes(fixture *b, const char *what) {
    static run_report whole;
    if (!whole.epoch_count) whole = run_train_ok(&(d9_train_options){.config = b->config, .seed = 7});
    const run_report rest = resume(b, b->config, 7);
    assert_ints(rest.status, D9_OK, rest.resumed, true);
    run_assert_equal(&rest, &whole, what);
}

CHECKPOINT_TEST(test_another_seed_and_another_configuration_are_rejected) {
    const run_report report = resume(b, b->config, 8);
    d9_config *other = run_config("reference", "f32", "");
    assert_int_equal(report.status, D9_USAGE);
    assert_words(report.message, b->path), assert_words(report.message, "7 8 --resume");
    other->train.weight_decay = 0.25;
    assert_int_equal(resume(b, other, 7).status, D9_USAGE); /* because of the run folder's config.yaml */
    assert_checkpoint_rejected(b, &(d9_session_options){.config = other, .seed = 7});
    assert_still_resumes(b, "its own seed and configuration");
}

static void assert_other_digest(const d9_dataset *dataset, const char *digest) {
    char other[D9_DIGEST_DIGITS + 1];
    d9_dataset_digest(dataset, other);
    assert_string_not_equal(other, digest);
}

/* The digest differs with one pixel, label or class order; a data set with another digest is rejected. */
CHECKPOINT_TEST(test_a_checkpoint_of_another_data_set_is_rejected) {
    d9_dataset *dataset;
    OK(d9_config_dataset(&context, b->config, NULL, NULL, &dataset));
    uint8_t *pixels[] = {dataset->train.images + 100, dataset->test.images};
    int32_t *labels[] = {dataset->train.labels + dataset->train.count - 1, dataset->test.labels + 1};
    const char *const *names = dataset->class_names, *others[16] = {0};
    char digest[D9_DIGEST_DIGITS + 1];
    d9_dataset_digest(dataset, digest);
    for (int i = 0; i < 2; i++) {
        *pixels[i] ^= 1;
        assert_other_digest(dataset, digest);
        *pixels[i] ^= 1;
        *labels[i] ^= 1;
        assert_other_digest(dataset, digest);
        *labels[i] ^= 1;
    }
    for (int64_t c = 0; c < dataset->classes; c++) others[c] = names[dataset->classes - 1 - c];
    dataset->class_names = others;
    assert_other_digest(dataset, digest);
    dataset->class_names = names;
    char again[D9_DIGEST_DIGITS + 1];
    d9_dataset_digest(dataset, again);
    assert_string_equal(again, digest);
    *pixels[0] ^= 1;
    assert_checkpoint_rejected(b, &(d9_session_options){.config = b->config, .seed = 7, .dataset = dataset});
    assert_still_resumes(b, "its own data set");
}

CHECKPOINT_TEST(test_wrong_metadata_is_rejected) {
    static const struct {
        const char *key, *value;
        d9_status status;
        const char *words;
    } wrongs[] = {
        {"format", "dawn9 checkpoint 2", D9_USAGE, "2"},
        {"format", "dawn9 checkpoint 20", D9_USAGE, "20"},
        {"format", "a model", D9_DATA, "format"},
        {"precision", "f64", D9_USAGE, "f64 f32"},
        {"backend", "onednn", D9_USAGE, "onednn reference"},
        {"data_digest", "0", D9_USAGE, "0"},
        {"step", "14", D9_DATA, "14 0 13"},
        {"step", "-1", D9_DATA, "-1"},
        {"step", "seven", D9_DATA, "seven"},
        {"step", "4", D9_DATA, "epochs/train_loss 1 0"},
        {"step", "10", D9_DATA, "epochs/train_loss 1 2"},
        {"step", "13", D9_DATA, "epochs/train_loss 1 3"}, /* the last epoch is partial */
    };
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        d9_metadata *row = find_metadata(b, wrongs[i].key), before = *row;
        row->value = wrongs[i].value;
        write_checkpoint(b);
        assert_rejected(b, wrongs[i].status, wrongs[i].words);
        *row = before;
    }
    assert_string_equal(b->file->metadata[0].key, "format");
    b->file->metadata[0] = (d9_metadata){"key", "value"};
    write_checkpoint(b);
    assert_rejected(b, D9_DATA, "");
}

/* Resuming from a truncated checkpoint gives D9_DATA, and the run does not start anew. */
CHECKPOINT_TEST(test_truncated_checkpoints_are_rejected) {
    size_t size;
    const uint8_t *bytes = run_read_file(b->path, &size);
    const size_t cuts[] = {0, 4, 8, 100, size / 2, size - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        OK(d9_file_write(&context, b->path, bytes, cuts[i]));
        const run_report report = resume(b, b->config, 7);
        if (report.status != D9_DATA || !strstr(report.message, checkpoint) || run_has(b->folder, "result.json"))
            fail_msg("cut to %zu bytes: status %d: %s", cuts[i], (int)report.status, report.message);
    }
}

/* Rejected: a tensor that is missing, of another type, one row longer, or of another rank; each tensor in turn. */
CHECKPOINT_TEST(test_each_missing_or_malformed_tensor_is_rejected) {
    static const uint8_t zeros[65536];
    for (int t = 0; t < b->file->tensor_count; t++) {
        d9_tensor *at = &b->file->tensors[t], wrong;
        const d9_tensor whole = *at;
        char words[160];
        const bool added_later = strcmp(whole.name, "epochs/eval_loss") == 0; /* 0.3.0 did not write it */
        wrong = whole, wrong.name = "another";
        assert_tensor_rejected(b, at, wrong, added_later ? "tensor another" : whole.name);
        wrong = whole, wrong.type = D9_TENSOR_U8, wrong.shape = (d9_shape){1, {(int64_t)whole.size}};
        assert_tensor_rejected(b, at, wrong, whole.name);
        wrong = whole, wrong.shape.d[0]++, wrong.bytes = zeros;
        wrong.size += whole.size / (size_t)(whole.shape.d[0] ? whole.shape.d[0] : 1) +
                      (whole.size ? 0 : d9_tensor_type_bytes(whole.type));
        assert_true(wrong.size <= sizeof zeros);
        snprintf(words, sizeof words, "%s", whole.name);
        /* the seconds determine the number of segments; their epochs must match */
        if (strncmp(whole.name, "timeline/", 9) == 0) strcpy(strrchr(words, '/'), "/epoch");
        assert_tensor_rejected(b, at, wrong, words);
        wrong = whole, wrong.shape = (d9_shape){2, {1, d9_shape_count(&whole.shape)}};
        if (whole.shape.rank != 2 || whole.shape.d[0] != 1) assert_tensor_rejected(b, at, wrong, whole.name);
    }
    write_checkpoint(b);
    assert_still_resumes(b, "every tensor as it was");
}

/* A column of epoch rows of another type or number of elements is rejected, as are more rows than the caller has room
 * for. 648 bytes hold 81 numbers, more than MOST_ROWS; 719 bytes hold no whole number of them. */
CHECKPOINT_TEST(test_wrong_sizes_of_epoch_rows_are_rejected) {
    static const uint8_t zeros[719];
    static const struct {
        d9_tensor_type type;
        size_t size;
        const char *words;
    } wrongs[] = {
        {D9_TENSOR_U8, 648, "epochs/hours U8 648 F64 1"}, {D9_TENSOR_U8, 719, "epochs/hours U8 719 F64 1"},
        {D9_TENSOR_F64, 648, "epochs/hours 81 F64 1"},    {D9_TENSOR_F64, 0, "epochs/hours 0 F64 1"},
        {D9_TENSOR_I64, 8, "epochs/hours I64 F64 1"},
    };
    d9_tensor *hours = find_tensor(b, "epochs/hours");
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        const int64_t count = (int64_t)(wrongs[i].size / d9_tensor_type_bytes(wrongs[i].type));
        const d9_tensor wrong = {hours->name, wrongs[i].type, {1, {count}}, zeros, wrongs[i].size};
        assert_tensor_rejected(b, hours, wrong, wrongs[i].words);
        const run_report report = resume(b, b->config, 7);
        assert_int_equal(report.status, D9_DATA);
        assert_words(report.message, wrongs[i].words);
    }
    write_checkpoint(b);
    b->progress = (d9_progress_state){.epochs = b->rows};
    assert_rejection(d9_checkpoint_read(b->session, b->path, 0, &b->progress), D9_DATA, "1 0");
}

/* A file with `number` as the first or the `last` element of the tensor must be rejected. */
static void check_number(fixture *b, d9_tensor *at, bool last, const void *number) {
    const size_t element = d9_tensor_type_bytes(at->type);
    d9_tensor wrong = *at;
    uint8_t *bytes = test_memory(at->size);
    memcpy(bytes, at->bytes, at->size);
    memcpy(bytes + (last ? at->size - element : 0), number, element);
    wrong.bytes = bytes;
    assert_tensor_rejected(b, at, wrong, strstr(at->name, "timeline/load/epoch") ? "" : at->name);
}

/* A checkpoint is rejected if a number is infinite, if a value of the state, average or velocity, or a time, is NaN, if
 * a variance or time is negative, an accuracy above 100, or an epoch outside the run. Allowed, and not tried here, are
 * NaN as a score, training accuracy or evaluation loss, and infinity as a perplexity. */
CHECKPOINT_TEST(test_invalid_numbers_are_rejected) {
    static const double infinite = (double)INFINITY, negative = -1, nan = (double)NAN, accuracy = 100.5;
    static const float narrow = NAN, variance = -1;
    static const int64_t epochs[] = {-1, 4};
    const struct {
        const char *name;
        const void *number;
    } rows[] = {{"state/layer1.norm.running_var", &variance}, {"epochs/accuracy", &accuracy},
                {"timeline/load/epoch", &epochs[0]},          {"timeline/load/epoch", &epochs[1]},
                {"timeline/load/seconds", &negative},         {"timeline/load/seconds", &nan}};
    int tried = 0;
    for (int t = 0; t < b->file->tensor_count; t++) {
        d9_tensor *at = &b->file->tensors[t];
        const bool wide = at->type == D9_TENSOR_F64;
        if ((!wide && at->type != D9_TENSOR_F32) || at->size == 0) continue;
        check_number(b, at, true, wide ? (const void *)&infinite : &narrow);
        tried++;
    }
    assert_true(tried > 60);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        check_number(b, find_tensor(b, rows[r].name), false, rows[r].number);
}

/* A state with NaN, which no resume would accept, is not written, and the previous checkpoint stays. */
CHECKPOINT_TEST(test_a_state_with_nan_is_not_written) {
    const size_t state_bytes = (size_t)b->session->program.buffer_bytes[D9_BUFFER_STATE];
    float *numbers = test_memory(state_bytes);
    OK(read_back(b));
    OK(d9_session_read(b->session, D9_BUFFER_STATE, numbers));
    numbers[0] = NAN;
    OK(d9_session_write(b->session, D9_BUFFER_STATE, numbers));
    assert_rejection(d9_checkpoint_write(b->session, b->path, &b->progress), D9_NONFINITE, "state/stem.conv.weight");
    OK(read_back(b));
}

/* Entries on which the bits depend: another value is a warning, a missing one is not. The reference backend computes
 * the same bits on any number of threads. */
CHECKPOINT_TEST(test_resuming_with_other_kernels_is_a_warning) {
    static const char *const keys[] = {"ranks", "isa", "libraries", "plan_sha256", "threads"};
    for (int k = 0; k < 5; k++) {
        d9_metadata *row = find_metadata(b, keys[k]), before = *row;
        const test_warnings *warnings = test_catch_warnings(&context);
        for (int missing = 0; missing < 2; missing++) {
            *row = (d9_metadata){missing ? "unknown" : keys[k], "another"};
            write_checkpoint(b);
            OK(read_back(b));
            assert_int_equal(warnings->count, k < 4);
            if (k < 4) assert_words(warnings->last, keys[k]), assert_words(warnings->last, b->path);
        }
        *row = before;
    }
}

/* Resumes on two threads a run that stopped on one. Returns the last warning; "": none. */
static const char *resume_on_two(const char *folder, const char *backend) {
    d9_context own;
    d9_result result;
    d9_config *config = run_config(backend, "f32", "");
    d9_train_options options = {
        .config = config, .seed = 7, .out = folder, .overwrite = true, .stop_after_steps = STOP};
    assert_int_equal(run_train(&options, NULL).status, D9_SIGINT);
    config->threads = 2;
    options.stop_after_steps = 0, options.resume = true, options.overwrite = false;
    d9_context_init(&own);
    own.system = run_system();
    const test_warnings *warnings = test_catch_warnings(&own);
    test_ok(&own, d9_train(&own, &options, &result));
    d9_result_free(&own, &result);
    return warnings->last;
}

/* A run that resumes with another number of threads warns on oneDNN, whose bits depend on that number, and not on the
 * reference backend. */
TEST_WITH(const char *folder, resuming_on_more_threads_warns_on_onednn, run_folder_set_up) {
    assert_string_equal(resume_on_two(folder, "reference"), "");
    if (run_missing(&context, "onednn", "f32", NULL)) skip_for("onednn", context.message);
    if (d9_processors(NULL) < 2) skip_for("processors", "resuming on two threads needs two processors");
    const char *warning = resume_on_two(folder, "onednn");
    assert_words(warning, "threads 1 2 checkpoint.safetensors");
}
