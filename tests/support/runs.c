/* Training runs for tests: see runs.h. */
#include "core/listing.h"
#include "exchange/description.h"
#include "exchange/model.h"
#include "kernels/formulas/philox.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "verify/rule_comparison.h"
#include <dirent.h>

static void fill_report(const d9_result *result, run_report *report) {
    assert_in_range(result->epoch_count, 0, RUN_MAX_EPOCHS);
    memcpy(report->params_sha256, result->params_sha256, sizeof report->params_sha256);
    memcpy(report->plan_sha256, result->plan_sha256, sizeof report->plan_sha256);
    report->score = result->score;
    report->score_tta = result->score_tta;
    report->resumed = result->resumed;
    report->epoch_count = result->epoch_count;
    for (int64_t e = 0; e < result->epoch_count; e++) {
        report->train_loss[e] = result->epochs[e].train_loss;
        report->train_accuracy[e] = result->epochs[e].train_accuracy;
        report->epoch_score[e] = result->epochs[e].score;
    }
    for (int i = 0; i < result->timeline->count; i++)
        report->final_evaluations += result->timeline->segments[i].kind == D9_SEGMENT_FINAL_EVALUATE;
}

static int no_sync(void *user, int file) {
    (void)user, (void)file;
    return 0;
}

const d9_system *run_system(void) {
    static d9_system quick;
    quick = *d9_system_default();
    quick.sync = no_sync;
    return &quick;
}

run_report run_train(const d9_train_options *options, const d9_system *system) {
    d9_context own;
    d9_result result;
    run_report report = {0};
    d9_context_init(&own);
    own.system = system ? system : run_system();
    own.interrupt = context.interrupt;
    d9_train_options wanted = *options;
    wanted.write_model = d9_model_write;
    report.status = d9_train(&own, &wanted, &result);
    memcpy(report.message, own.message, sizeof report.message);
    if (report.status == D9_OK) {
        fill_report(&result, &report);
        d9_result_free(&own, &result);
    }
    return report;
}

run_report run_train_ok(const d9_train_options *options) {
    run_report report = run_train(options, NULL);
    if (report.status != D9_OK) fail_msg("status %d: %s", (int)report.status, report.message);
    return report;
}

void run_assert_equal(const run_report *a, const run_report *b, const char *what) {
    if (strcmp(a->params_sha256, b->params_sha256) != 0) fail_msg("%s: the parameters differ", what);
    if (a->score != b->score || a->score_tta != b->score_tta)
        fail_msg("%s: score %g and %g, with views %g and %g", what, a->score, b->score, a->score_tta, b->score_tta);
    assert_int_equal(a->epoch_count, b->epoch_count);
    for (int64_t e = 0; e < a->epoch_count; e++) {
        if (!(a->train_loss[e] == b->train_loss[e]))
            fail_msg("%s: epoch %lld: loss %.17g and %.17g", what, (long long)e + 1, a->train_loss[e],
                     b->train_loss[e]);
        if (memcmp(&a->train_accuracy[e], &b->train_accuracy[e], sizeof(double)) != 0)
            fail_msg("%s: epoch %lld: training accuracy %g and %g", what, (long long)e + 1, a->train_accuracy[e],
                     b->train_accuracy[e]);
        if (memcmp(&a->epoch_score[e], &b->epoch_score[e], sizeof(double)) != 0) /* NaN: neither was evaluated */
            fail_msg("%s: epoch %lld: score %g and %g", what, (long long)e + 1, a->epoch_score[e], b->epoch_score[e]);
    }
}

void run_folder_make(char folder[RUN_PATH_BYTES]) {
    snprintf(folder, RUN_PATH_BYTES, "%s/test-run.XXXXXX", D9_BINARY_DIR);
    if (!mkdtemp(folder)) fail_msg("%s cannot be made", folder);
}

static char *path_in(const char *folder, const char *name, char path[RUN_PATH_BYTES]) {
    if (snprintf(path, RUN_PATH_BYTES, "%s/%s", folder, name) >= RUN_PATH_BYTES) fail_msg("%s is too long", folder);
    return path;
}

const char *run_path(const char *folder, const char *name) {
    enum { KEPT = 64 };
    static char paths[KEPT][RUN_PATH_BYTES];
    static int next;
    return path_in(folder, name, paths[next++ % KEPT]);
}

bool run_has(const char *folder, const char *name) {
    char path[RUN_PATH_BYTES];
    return access(path_in(folder, name, path), F_OK) == 0;
}

int run_folder_count(const char *folder, const char *ending) {
    DIR *directory = opendir(folder);
    int count = 0;
    if (!directory) return 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        const size_t length = strlen(entry->d_name), tail = strlen(ending);
        count += entry->d_name[0] != '.' && length >= tail && strcmp(entry->d_name + length - tail, ending) == 0;
    }
    closedir(directory);
    return count;
}

void run_folder_remove(const char *folder) {
    d9_context own;
    d9_context_init(&own);
    d9_folder_remove(&own, folder);
    if (access(folder, F_OK) == 0) fail_msg("%s cannot be removed", folder);
}

void run_check_files(const char *folder, const char *what) {
    static const char *const tensors[] = {"predictions.safetensors", "model.safetensors", "checkpoint.safetensors"},
                             *const objects[] = {"result.json", "submission.json"},
                             *const lines[] = {"events.jsonl", "epochs.tsv"};
    if (run_folder_count(folder, ".partial")) fail_msg("%s: a partial file was left", what);
    for (int i = 0; i < 3; i++) {
        d9_safetensors *file;
        if (!run_has(folder, tensors[i])) continue;
        OK(d9_safetensors_read(&context, run_path(folder, tensors[i]), &file));
        d9_safetensors_free(&context, file);
    }
    for (int i = 0; i < 2; i++) {
        if (!run_has(folder, objects[i])) continue;
        json_t *json = json_load_file(run_path(folder, objects[i]), 0, NULL);
        if (!json) fail_msg("%s: %s is no JSON", what, objects[i]);
        json_decref(json);
    }
    for (int i = 0; i < 2; i++) {
        uint8_t *bytes;
        size_t size;
        if (!run_has(folder, lines[i])) continue;
        OK(d9_file_read(&context, run_path(folder, lines[i]), &bytes, &size));
        if (size && bytes[size - 1] != '\n') fail_msg("%s: %s ends within a line", what, lines[i]);
        d9_release(&context, bytes);
    }
    if (run_has(folder, "config.yaml")) {
        d9_config *config;
        OK(d9_config_load(&context, run_path(folder, "config.yaml"), NULL, &config));
        d9_config_free(&context, config);
    }
}

static void remove_folder(void *folder) { run_folder_remove(folder), free(folder); }

const char *run_folder_new(void) {
    char folder[RUN_PATH_BYTES];
    run_folder_make(folder);
    return test_keep(strdup(folder), remove_folder);
}

static void release_bytes(void *bytes) { d9_release(&context, bytes); }
static void free_tensors(void *file) { d9_safetensors_free(&context, file); }
static void free_json(void *json) { json_decref(json); }

uint8_t *run_read_file(const char *path, size_t *size) {
    uint8_t *bytes;
    size_t unused;
    OK(d9_file_read(&context, path, &bytes, size ? size : &unused));
    return test_keep(bytes, release_bytes);
}

d9_safetensors *run_tensors(const char *path) {
    d9_safetensors *file;
    OK(d9_safetensors_read(&context, path, &file));
    return test_keep(file, free_tensors);
}

json_t *run_json(json_t *json) { return test_keep(json, free_json); }

int run_folder_set_up(void **state) {
    context.system = run_system();
    unsetenv("DAWN9_DATA");
    *state = (void *)(uintptr_t)run_folder_new();
    return 0;
}

void run_make_directory(const char *folder, const char *name) {
    OK(d9_directory_make(&context, run_path(folder, name)));
}

void run_write(const char *folder, const char *name, const void *bytes, size_t size) {
    char parent[RUN_PATH_BYTES];
    if (strchr(name, '/')) *strrchr(path_in(folder, name, parent), '/') = 0, OK(d9_directory_make(&context, parent));
    OK(d9_file_write(&context, run_path(folder, name), bytes, size));
}

void run_write_text(const char *folder, const char *name, const char *text) {
    run_write(folder, name, text, strlen(text));
}

static d9_config *make_config(const char *backend, const char *precision, int threads, const char *channels,
                              const char *more) {
    return program_yaml(
        "data: {dataset: synthetic, synthetic_train: 42, synthetic_test: 21, image_size: 16}\n"
        "backend: %s\nprecision: %s\nthreads: %d\nbackend_options: {tune: off}\n"
        "model: {name: resnet9, channels: [%s], logits_scale: 0.125}\n"
        "train: {epochs: 2.6, batch_size: 8, bias_lr_multiplier: 4, lr: {knots: [0, 1, end], values: [0, 0.3, 0]}}\n"
        "tricks: {%s}\n%s",
        backend, precision, threads, channels, program_many_tricks, more);
}

d9_config *run_config(const char *backend, const char *precision, const char *more) {
    return make_config(backend, precision, 1, "4, 6, 8, 8", more);
}

d9_config *run_language_config(const char *backend, const char *precision, const char *folder, int hidden) {
    static const char *const words[] = {"a", "bird", "cat", "dog", "eve", "hears", "sees"}, *const parts[] = {"train",
                                                                                                              "valid",
                                                                                                              "test"};
    for (int p = 0; p < 3; p++) {
        d9_text *text = test_text();
        for (int line = 0; line < (p ? 8 : 40); line++) {
            for (int w = 0; w < 5; w++) d9_text_add(text, " %s", words[(line * line + w * w + line * w + p) % 7]);
            d9_text_add(text, "\n");
        }
        char name[16];
        snprintf(name, sizeof name, "%s.txt", parts[p]);
        run_write(folder, name, d9_text_get(text), text->size);
    }
    return program_yaml(
        "data: {dataset: corpus, path: \"%s\", length: 5}\n"
        "backend: %s\nprecision: %s\nthreads: 1\nbackend_options: {tune: off}\n"
        "model: {name: language, cell: lstm, layers: 2, embedding: 8, hidden: %d, dropout: 0.2}\n"
        "eval: {streams: 2}\n"
        "train: {epochs: 2, batch_size: 4, momentum: 0, momentum_form: plain, weight_decay: 0, lr: {knots: [0], "
        "values: [4]}}\n"
        "tricks: {clip_norm: {most: 0.25}}\n",
        folder, backend, precision, hidden);
}

int run_fixture_set_up(void **state) {
    static run_fixture b;
    b = (run_fixture){run_config("reference", "f32", ""), run_folder_new()};
    *state = &b;
    return 0;
}

const run_report *run_fixture_report(const run_fixture *b) {
    static run_report whole;
    if (!whole.epoch_count) whole = run_train_ok(&(d9_train_options){.config = b->config, .seed = 7});
    return &whole;
}

void run_check_seeds(const d9_config *config) {
    run_report first = run_train_ok(&(d9_train_options){.config = config, .seed = 7});
    run_report again = run_train_ok(&(d9_train_options){.config = config, .seed = 7});
    run_report other = run_train_ok(&(d9_train_options){.config = config, .seed = 8});
    run_assert_equal(&first, &again, "the same seed twice");
    assert_int_equal(strlen(first.params_sha256), 64);
    assert_string_equal(first.plan_sha256, other.plan_sha256);
    if (strcmp(first.params_sha256, other.params_sha256) == 0) fail_msg("seeds 7 and 8 gave the same parameters");
    if (first.train_loss[0] == other.train_loss[0]) fail_msg("seeds 7 and 8 gave the same loss");
}

/* Stops after `stop` steps and resumes; the result must equal `whole`, that of an uninterrupted run. */
static void check_stop(const d9_config *config, int64_t stop, const run_report *whole) {
    const char *folder = run_folder_new();
    char what[64];
    snprintf(what, sizeof what, "resumed after step %lld", (long long)stop);
    d9_train_options options = {.config = config, .seed = 7, .out = folder, .stop_after_steps = stop};
    run_report part = run_train(&options, NULL);
    if (part.status != D9_SIGINT) fail_msg("%s: status %d: %s", what, (int)part.status, part.message);
    assert_true(run_has(folder, "checkpoint.safetensors"));
    assert_false(run_has(folder, "result.json"));
    options.stop_after_steps = 0;
    options.resume = true;
    run_report rest = run_train_ok(&options);
    assert_true(rest.resumed);
    run_assert_equal(&rest, whole, what);
    assert_true(run_has(folder, "result.json"));
}

void run_check_resume(const d9_config *config, const int64_t *stops) {
    run_report whole = run_train_ok(&(d9_train_options){.config = config, .seed = 7});
    assert_false(whole.resumed);
    for (; *stops; stops++) check_stop(config, *stops, &whole);
}

static void keep_row(void *user, const d9_verify_row *row) {
    run_verified *v = user;
    assert_true(v->count < RUN_MAX_ROWS);
    v->rows[v->count++] = *row;
    v->failed += !row->passed && !row->skipped;
    v->skipped += row->skipped;
}

void run_verify(run_verified *v, const d9_verify_options *options) {
    d9_context_clear(&context);
    v->count = v->failed = v->skipped = 0;
    v->status = d9_verify(&context, options, keep_row, v);
}

const d9_verify_row *run_verified_row(const run_verified *v, const char *group) {
    for (int i = 0; i < v->count; i++)
        if (strcmp(v->rows[i].group, group) == 0) return &v->rows[i];
    fail_msg("no row for %s", group);
    return NULL;
}

const char *const run_cases[RUN_IMAGE_CASES + RUN_TEXT_CASES] = {
    "patch_whitening.safetensors",   "vgg.safetensors",      "resnet18_imagenet.safetensors",
    "resnet50_imagenet.safetensors", "densenet.safetensors", "airbench_residual.safetensors",
    "wide_resnet.safetensors",       "text_gru.safetensors", "text_lstm_layers.safetensors",
    "language_lstm_tied.safetensors"};

void run_check_verify(const char *backend, const char *precision, const char *cases, int training_cases) {
    static run_verified v;
    int rules = 0;
    run_verify(&v, &(d9_verify_options){.cases = run_path(D9_SOURCE_DIR "/tests/golden/cases", cases),
                                        .backend = backend,
                                        .precision = precision,
                                        .data = training_cases > 1 ? NULL : D9_SOURCE_DIR "/tests",
                                        .threads = strcmp(backend, "onednn") == 0 ? 1 : 2});
    for (int i = 0; i < v.count; i++) {
        const d9_verify_row *row = &v.rows[i];
        rules += strcmp(row->group, "rule by rule") == 0;
        if (!row->passed && !row->skipped)
            print_error("%s, %s: error %.2e, limit %.2e, sensitivity %.2e (%s)\n", row->name, row->group, row->error,
                        row->limit, row->sensitivity, row->note);
    }
    OK(v.status);
    assert_ints(v.failed, 0, rules, training_cases);
    assert_true(v.count >= 6 * training_cases);
}

static void count_row_and_print_failure(void *user, const d9_verify_row *row) {
    int *rows = user;
    ++*rows;
    if (!row->passed)
        print_error("%s at %s: error %.2e, limit %.2e, cosine %.7f (%s)\n", row->name, row->group, row->error,
                    row->limit, row->cosine, row->note);
}

static void close_session(void *session) { d9_session_close(session); }

d9_session *run_session_open(const d9_session_options *options) {
    d9_session *session = test_memory(sizeof *session);
    OK(d9_session_open(&context, options, session));
    return test_keep(session, close_session);
}

d9_session *run_session(const d9_config *config, uint64_t seed) {
    d9_session *session = run_session_open(&(d9_session_options){.config = config, .seed = seed});
    OK(d9_session_initialize(session));
    return session;
}

void run_session_rejected(const d9_config *config, const char *words) {
    d9_session session;
    const d9_session_options options = {.config = config, .seed = 5};
    assert_rejection(d9_session_open(&context, &options, &session), D9_USAGE, words);
}

void run_steps(d9_session *session, int64_t from, int64_t until) {
    for (int64_t step = from; step < until; step += d9_program_batches(&session->program, step)) {
        if (step % session->program.steps_per_epoch == 0)
            test_ok(session->context, d9_session_begin_epoch(session, step));
        test_ok(session->context, d9_session_step(session, step));
    }
}

double run_distance(const double *a, const double *b, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++) most = test_larger(most, fabs(a[i] - b[i]));
    return most;
}

/* The step's node list must make images of `side` x `side` pixels, and its last pool reduce `map` x `map` pixels to
 * one. */
static void check_sizes(const d9_program *program, int64_t step, int side, int map) {
    const d9_graph *list = d9_program_list(program, step);
    const d9_node *pool = &list->nodes[program_find(list, D9_OP_POOL, "head.pool")];
    const d9_shape *image = &list->values[list->input].shape, *from = &list->values[pool->inputs[0]].shape,
                   *to = &list->values[pool->outputs[0]].shape;
    assert_ints(image->d[1], side, image->d[2], side);
    assert_ints(from->d[1], map, from->d[2], map);
    assert_ints(to->d[1], 1, to->d[2], 1);
}

/* Returns the state after all eight steps; sets *count to its number of elements. */
static double *train_smaller_images(const char *backend, int64_t *count) {
    static const char *const settings[] = {
        "data.dataset=synthetic",
        "data.synthetic_train=32",
        "data.synthetic_test=8",
        "precision=f32",
        "threads=1",
        "model.widths=[4, 6, 6]",
        "train.batch_size=8",
        "train.epochs=2",
        "train.lr={peak: 0.5}",
        "tricks.progressive={form: resize, scales: [0.625, 0.75, 0.875], until: [0.5, 1, 1.5]}",
        "tricks.whitening_bias.images=32",
        "tricks.muon.rate=0.05",
        "tricks.lookahead.last=4"};
    enum { SETTINGS = sizeof settings / sizeof *settings };
    d9_config_edit items[SETTINGS + 1];
    char named[32];
    snprintf(named, sizeof named, "backend=%s", backend);
    for (int i = 0; i <= SETTINGS; i++)
        items[i] = (d9_config_edit){.kind = D9_EDIT_SET, .text = i < SETTINGS ? settings[i] : named};
    const d9_config_edits edits = {.items = items, .count = SETTINGS + 1};
    d9_session *session = run_session(program_load(D9_SOURCE_DIR "/configs/fewest94.yaml", &edits), 5);
    for (int64_t step = 0; step < 8; step++)
        check_sizes(&session->program, step, 20 + 4 * (int)(step / 2), step < 4 ? 2 : 3);
    run_steps(session, 0, 8);
    *count = session->program.state_elements;
    double *state = test_memory((size_t)*count * sizeof *state);
    OK(d9_session_read_state(session, D9_BUFFER_STATE, state));
    return state;
}

void run_check_smaller_images(const char *backend) {
    int64_t count;
    double *tested = train_smaller_images(backend, &count), *expected = train_smaller_images("reference", &count);
    const double distance = run_distance(tested, expected, count);
    if (!(distance < 1e-3)) fail_msg("%s is off by %g", backend, distance);
}

void run_open_ready(d9_context *context, const d9_config *config, d9_session *session) {
    d9_session_options options = {.config = config, .seed = 1, .no_eval = true, .program.keep_all = true};
    if (d9_session_open(context, &options, session) != D9_OK) fail_msg("%s", context->message);
    assert_ints(d9_session_initialize(session), D9_OK, d9_session_begin_epoch(session, 0), D9_OK);
}

static void poison_state(d9_session *session) {
    void *state = NULL;
    int64_t count = session->program.state_elements;
    OK(d9_allocate(session->context, (size_t)count * sizeof(double), "a poisoned state", &state));
    for (int64_t i = 0; i < count; i++) ((double *)state)[i] = NAN;
    OK(d9_session_write_state(session, D9_BUFFER_STATE, state));
    d9_release(session->context, state);
}

void run_check_rules(d9_context *context, const d9_config *config, bool poisoned, int least) {
    d9_config expected_config = *config;
    expected_config.backend = "reference";
    if (strcmp(config->precision, "tf32") == 0) expected_config.precision = "f32";
    d9_session tested, expected;
    run_open_ready(context, config, &tested);
    run_open_ready(context, &expected_config, &expected);
    if (poisoned) poison_state(&tested);
    int failed = -1, rows = 0;
    if (d9_rules_compare(&tested, &expected, 0, config->precision, count_row_and_print_failure, &rows, &failed) !=
        D9_OK)
        fail_msg("%s", context->message);
    if (poisoned)
        assert_true(failed > 10);
    else
        assert_int_equal(failed, 0);
    assert_true(rows > least);
    d9_session_close(&tested), d9_session_close(&expected);
}

typedef struct tested {
    const char *backend, *precision;
} tested;

/* Checks resuming, or seeds if `stops` is NULL, with the narrow network of run_config. */
static void check_narrow(tested *b, const int64_t *stops) {
    d9_config *config = run_config(b->backend, b->precision, "");
    if (stops)
        run_check_resume(config, stops);
    else
        run_check_seeds(config);
}

static void seed_determines_the_run(void **state) { check_narrow(*state, NULL); }

static void resumed_runs_are_equal(void **state) {
    check_narrow(*state, (const int64_t[]){1, 3, RUN_STEPS_PER_EPOCH, 7, RUN_STEPS - 1, 0});
}

/* A network whose narrowest layers have 16 channels, the fewest with which f32 convolutions of the CPU backend use
 * Winograd by default. */
static d9_config *make_wide_config(tested *b, int threads) {
    return make_config(b->backend, b->precision, threads, "16, 16, 32, 32", "");
}

/* On one thread and, except on a GPU, on two: an interrupted and resumed run of the wide network equals an
 * uninterrupted one. */
static void resumed_wide_runs_are_equal(void **state) {
    tested *b = *state;
    const int most = strcmp(b->backend, "cuda") == 0 ? 1 : 2;
    for (int threads = 1; threads <= most; threads++)
        run_check_resume(make_wide_config(b, threads), (const int64_t[]){7, 0});
}

/* Rewrites a plan file so that all convolutions use dawn9's own kernels: gemm in the stem, Winograd elsewhere. Returns
 * how many used own Winograd before. */
static int choose_own_kernels(const char *path) {
    const char *lines[256];
    d9_text *text = test_text();
    int before = 0;
    const int count = d9_text_split((char *)run_read_file(path, NULL), '\n', lines, 256);
    for (int i = 0; i < count; i++) {
        const char *choice = strrchr(lines[i], '\t');
        if (!choice) continue;
        before += strcmp(choice + 1, "own winograd") == 0;
        d9_text_add(text, "%.*s", (int)(choice + 1 - lines[i]), lines[i]);
        if (choice[1]) d9_text_add(text, strstr(lines[i], "stem") ? "own gemm" : "own winograd");
        d9_text_add(text, "\n");
    }
    OK(d9_file_write(&context, path, d9_text_get(text), strlen(d9_text_get(text))));
    return before;
}

/* With dawn9's own kernels for all convolutions, one thread and two give equal runs. */
static void own_kernels_train_equally_on_one_and_two_threads(void **state) {
    tested *b = *state;
    d9_config *one = make_wide_config(b, 1), *two = make_wide_config(b, 2);
    const char *path = run_path(run_folder_new(), "plan");
    run_train_ok(&(d9_train_options){.config = one, .seed = 7, .save_plan = path});
    const int winograd = choose_own_kernels(path);
    if (strcmp(b->precision, "f32") == 0) assert_true(winograd >= 9); /* three layers, three passes each */
    const run_report a = run_train_ok(&(d9_train_options){.config = one, .seed = 7, .plan = path}),
                     c = run_train_ok(&(d9_train_options){.config = two, .seed = 7, .plan = path});
    run_assert_equal(&a, &c, "one thread and two");
}

const char *run_missing(d9_context *context, const char *backend, const char *precision, const char *level) {
    const d9_backend *found;
    d9_device *device;
    d9_device_info info;
    const d9_precision *chosen;
    if (d9_backend_find(context, backend, &found) != D9_OK) return backend;
    if (found->open(context, &(d9_backend_options){.threads = 1, .cpu_level = level}, &device) != D9_OK) return backend;
    found->describe(device, &info);
    found->close(context, device);
    return d9_backend_precision(context, found, &info, precision, &chosen) == D9_OK ? NULL : precision;
}

int run_backend_main(const char *backend, const char *precision) {
    tested b = {.backend = backend, .precision = precision};
    const char *missing = run_missing(&context, backend, precision, NULL);
    if (missing) return skipped(missing, context.message);
    test_add(seed_determines_the_run);
    test_add(resumed_runs_are_equal);
    test_add(resumed_wide_runs_are_equal);
    if (strcmp(backend, "cpu") == 0) test_add(own_kernels_train_equally_on_one_and_two_threads);
    return test_run(&b);
}

d9_dataset *run_random_texts(d9_vocabulary vocabulary, int length, int64_t count, bool stream) {
    const d9_description about = {.height = 1,
                                  .width = length,
                                  .channels = 1,
                                  .classes = stream ? vocabulary.count : 2,
                                  .vocabulary = vocabulary,
                                  .class_names = vocabulary.words,
                                  .std = {1}};
    d9_dataset *dataset;
    OK(d9_description_dataset(&context, &about, "texts", count, &dataset));
    dataset->stream = stream;
    int32_t *tokens = (int32_t *)(void *)dataset->train.images;
    for (int64_t i = 0; i < (stream ? count : count * length); i++)
        tokens[i] =
            (int32_t)d9_philox_below(d9_philox4x32_10(6, (uint32_t)i, 0, 0, 0).v[0], (uint32_t)vocabulary.count);
    for (int64_t i = 0; i < count && !stream; i++) dataset->train.labels[i] = (int32_t)(i % 3 == 0);
    return dataset;
}

static void free_data(void *dataset) { d9_dataset_free(&context, dataset); }

d9_dataset *run_data(const char *folder, d9_dataset_options options) {
    d9_dataset *dataset;
    if (!options.path) options.path = folder;
    OK(d9_dataset_load(&context, &options, &dataset));
    return test_keep(dataset, free_data);
}

void run_data_rejected(const char *folder, d9_dataset_options options, d9_status expected, const char *words) {
    d9_dataset *dataset;
    if (!options.path) options.path = folder;
    d9_context_clear(&context);
    assert_int_equal(d9_dataset_load(&context, &options, &dataset), expected);
    assert_null(dataset);
    assert_words(context.message, words);
}

/* ---- experiments ---- */

const char *experiment_folder;

void experiment_make_folder(const char *tiny) {
    experiment_folder = run_folder_new();
    run_write_text(experiment_folder, "tiny.yaml", tiny);
}

static void free_experiment(void *experiment) { d9_experiment_free(&context, experiment); }

d9_experiment *experiment_keep(d9_experiment *experiment) { return test_keep(experiment, free_experiment); }

d9_status experiment_load_with(const char *yaml, const d9_experiment_options *options, d9_experiment **experiment) {
    run_write_text(experiment_folder, "x.yaml", yaml);
    const d9_status status = d9_experiment_load(&context, run_path(experiment_folder, "x.yaml"), options, experiment);
    if (status == D9_OK) experiment_keep(*experiment);
    return status;
}

d9_experiment *experiment_load(const char *yaml) {
    d9_experiment *experiment;
    OK(experiment_load_with(yaml, &(d9_experiment_options){0}, &experiment));
    return experiment;
}

void experiment_rejected(const char *yaml, const d9_experiment_options *options, const char *path, const char *words) {
    d9_experiment *experiment = (d9_experiment *)&context; /* must become NULL */
    char wanted[1024];
    snprintf(wanted, sizeof wanted, "%s%s", path, words);
    assert_rejection(experiment_load_with(yaml, options, &experiment), D9_USAGE, wanted);
    assert_null(experiment);
}
