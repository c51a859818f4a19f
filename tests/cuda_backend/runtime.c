/* Runs of the CUDA backend on the fake CUDA runtime, cuDNN and cuBLAS, which count calls (fake.h): no allocation or
 * wait within an epoch, captured graphs, steps compared with the reference backend, failing calls, limited memory,
 * devices and their precisions, and copies. */
#include "backends/cuda/cuda.h"
#include "cli/bench.h"
#include "data/dataset.h"
#include "tests/cuda_backend/watch.h"
#include "tests/support/test.h"

/* Three CUDA graphs are captured: a training step with and without the average's update, and an evaluation step. After
 * that each step is one graph launch. */
static void check_recordings(const watch *w) {
    assert_ints(fake->counts.captures, 3, fake->counts.instantiations, 3);
    for (int64_t s = RUN_STEPS_PER_EPOCH + 2; s <= RUN_STEPS; s++) {
        const d9_fake_counts *before = &w->after[s - 1], *after = &w->after[s];
        assert_ints(after->replays - before->replays, 1, after->plans, before->plans);
        const bool first = (s - 1) % RUN_STEPS_PER_EPOCH == 0;
        if (!first) assert_true(after->calls - before->calls <= 4); /* an event is made or waited for, and recorded */
    }
}

/* No step within an epoch waits until the GPU has finished all its work. The epoch has fewer than 16 steps, so no step
 * waits for an earlier one either (the_host_is_at_most_16_steps_ahead in steps.c). */
TEST(nobody_waits_within_an_epoch) {
    static watch w;
    int waited = 0;
    watch_run_afresh("fp16", "off", &w);
    if (w.status != D9_OK) fail_msg("%s", w.message);
    for (int64_t s = 2; s <= RUN_STEPS; s++) {
        const d9_fake_counts *before = &w.after[s - 1], *after = &w.after[s];
        const bool first = (s - 1) % RUN_STEPS_PER_EPOCH == 0;
        assert_int_equal(after->waits - before->waits, first); /* an epoch's first step waits for the previous epoch */
        waited += first;
        assert_ints(after->allocations, before->allocations, after->frees, before->frees);
        if (first) continue;
        assert_ints(after->reads, before->reads, after->writes, before->writes);
    }
    assert_int_equal(waited, 2);
    check_recordings(&w);
    watch_assert_nothing_left();
}

typedef struct wait_counts {
    int64_t last_step, segment; /* waits of the host so far: after the last step, and after the training segment */
} wait_counts;

static void note_wait_of_step(void *user, const d9_program *program, int64_t step, double loss, double seconds) {
    (void)program, (void)step, (void)loss, (void)seconds;
    ((wait_counts *)user)->last_step = fake->counts.waits;
}

static void note_wait_of_lap(void *user, d9_segment_kind kind) {
    if (kind == D9_SEGMENT_TRAIN) ((wait_counts *)user)->segment = fake->counts.waits;
}

/* The time of the queued steps of an interrupted run counts as training, not as writing the checkpoint. */
TEST(training_that_is_stopped_ends_with_its_steps) {
    wait_counts waits = {0};
    d9_result result;
    fake->reset();
    const d9_train_options options = {.config = watch_small_config("cuda", "fp16", 8, "epochs: 2, batch_size: 8", ""),
                                      .seed = 7,
                                      .stop_after_steps = 3,
                                      .observer = {.user = &waits, .step = note_wait_of_step, .lap = note_wait_of_lap}};
    assert_rejection(d9_train(&context, &options, &result), D9_SIGINT, "4 8");
    assert_int_equal(waits.segment, waits.last_step + 1);
    watch_assert_nothing_left();
}

/* Kernels and convolutions, those of evaluation included, are loaded before training is timed. */
TEST(steps_load_no_code) {
    static const char *const precisions[] = {"fp16", "f32"};
    static watch w;
    for (int p = 0; p < 2; p++) {
        watch_run_afresh(precisions[p], "off", &w);
        if (w.status != D9_OK) fail_msg("%s", w.message);
        assert_true(w.after[0].loaded > 20);
        assert_ints(w.after[RUN_STEPS].loaded, w.after[0].loaded, fake->counts.loaded, w.after[0].loaded);
    }
}

/* `bench cold` loads code before the first step, as a run does; with `bench step` the first step loads it. */
TEST(a_cold_benchmark_begins_as_a_run) {
    for (int cold = 0; cold < 2; cold++) {
        d9_session session = {0};
        fake->reset();
        OK(d9_bench_open(&context, watch_config("fp16", "off"), cold ? "cold" : "step", 0, &session));
        OK(session.backend->sync(&context, session.device));
        const int64_t loaded = fake->counts.loaded;
        OK(d9_session_begin_epoch(&session, 0));
        OK(d9_session_step(&session, 0));
        OK(session.backend->sync(&context, session.device));
        assert_ints(fake->counts.loaded == loaded, cold, session.eval_plan != NULL, cold);
        d9_session_close(&session), watch_assert_nothing_left();
    }
}

/* If none of the three graphs can be recorded, or only the first, training gives the same weights, with one warning. */
TEST(a_rejected_capture_costs_only_time) {
    static watch recorded, w;
    watch_run_afresh("fp16", "off", &recorded);
    const int64_t replays = fake->counts.replays;
    for (int from = 1; from <= 2; from++) {
        fake->reset();
        fake->spoil_captures_from = from;
        watch_run("fp16", "off", &w);
        if (w.status != D9_OK) fail_msg("%s", w.message);
        assert_string_equal(w.params_sha256, recorded.params_sha256);
        assert_non_null(strstr(w.log, "CUDA graph"));
        assert_ptr_equal(strchr(w.log, '\n'), w.log + strlen(w.log) - 1);
        assert_ints(fake->counts.captures, 3, from == 1, fake->counts.replays == 0);
        assert_true(fake->counts.replays < replays);
        watch_assert_nothing_left();
    }
}

enum { MEASURED = 7, MOST_RUNS = 64 };
static const d9_backend *measured_backend;
static bool replayed[MOST_RUNS]; /* the run was one launch of a graph, and nothing was captured */
static int runs;

static d9_status run_and_note(d9_context *of, d9_plan *plan, int64_t step) {
    const d9_fake_counts before = fake->counts;
    const d9_status status = measured_backend->run(of, plan, step);
    const d9_fake_counts *after = &fake->counts;
    if (runs < MOST_RUNS) replayed[runs] = after->replays == before.replays + 1 && after->captures == before.captures;
    runs++;
    return status;
}

/* `bench step` times replays of CUDA graphs, as in a run; it times the single rules in other steps. */
TEST(timed_steps_are_replays) {
    d9_session session;
    d9_measurement m;
    fake->reset();
    runs = 0;
    d9_config *config = watch_config("fp16", "off");
    OK(d9_session_open(&context, &(d9_session_options){.config = config, .seed = 7, .no_eval = true}, &session));
    OK(d9_session_initialize(&session));
    measured_backend = session.backend;
    d9_backend noting = *session.backend;
    noting.run = run_and_note;
    noting.peak_rates = NULL; /* the fake would multiply for minutes */
    session.backend = &noting;
    OK(d9_bench_measure_plan(&session, session.train_plan, &session.program.train, MEASURED, &m));
    assert_true(runs > 2 * MEASURED && runs <= MOST_RUNS);
    for (int r = runs - MEASURED; r < runs; r++) assert_true(replayed[r]);
    int64_t sometimes = 0;
    for (int row = 0; row < m.row_count; row++) {
        assert_true(m.rows[row].runs > 0 && m.rows[row].runs <= MEASURED && m.rows[row].seconds > 0);
        sometimes += m.rows[row].runs < MEASURED;
    }
    assert_true(sometimes > 0); /* the updates of the moving average run only in some steps */
    session.backend = measured_backend;
    d9_measurement_free(&m), d9_session_close(&session), watch_assert_nothing_left();
}

/* Trains a small network for 8 steps with `tricks`, as one of several processes unless `parallel` is NULL. Fills
 * *result unless it fails. */
static d9_status train_small(const char *tricks, d9_parallel *parallel, d9_result *result) {
    const char *train = parallel ? "epochs: 2, batch_size: 8, norm_groups: 2" : "epochs: 2, batch_size: 8";
    d9_config *config = watch_small_config("cuda", "fp16", 8, train, tricks);
    const d9_train_options options = {.config = config, .seed = 7, .parallel = parallel};
    return d9_train(&context, &options, result);
}

/* Muon's update multiplies matrices: here two iterations of three products for each of the eight filter tensors.
 * Neighbouring filters of one shape share a batched product, the two of the first residual branch and the last three,
 * so a product is five batches. The untimed step that loads code computes them too. A run without Muon does not load
 * cuBLAS. */
TEST(products_are_batches_in_the_captured_step) {
    enum { STEPS = 8, PRODUCTS = 6, BATCHES = 5, FILTERS = 8 };
    char first[65] = "";
    d9_result result;
    fake->reset();
    OK(train_small("", NULL, &result));
    assert_ints(fake->counts.libraries, 0, fake->counts.products, 0);
    d9_result_free(&context, &result);
    for (int again = 0; again < 2; again++) {
        fake->reset();
        OK(train_small("muon: {iterations: 2}", NULL, &result));
        const d9_fake_counts *c = &fake->counts;
        assert_ints(c->libraries, 1, c->unsteady_products, 0);
        assert_ints(c->products, (1 + STEPS) * PRODUCTS * BATCHES, c->matrices, (1 + STEPS) * PRODUCTS * FILTERS);
        assert_int_equal(c->captured_products, PRODUCTS * BATCHES);
        if (again) assert_string_equal(result.params_sha256, first);
        snprintf(first, sizeof first, "%s", result.params_sha256);
        d9_result_free(&context, &result);
        watch_assert_nothing_left();
    }
    fake->without_cublas = true;
    assert_rejection(train_small("muon: {iterations: 2}", NULL, &result), D9_DEVICE, "cuBLAS NOT_INITIALIZED");
    watch_assert_nothing_left();
}

/* Counts the warnings about products. */
static void count_warning(void *user, d9_log_level level, const char *line) {
    if (level == D9_LOG_WARNING && strstr(line, "cuBLAS has no algorithm") && strstr(line, "slower")) ++*(int *)user;
}

/* If cuBLAS has no algorithm, our kernel is captured in its place, and the losses differ only by rounding. */
TEST(products_that_cublas_rejects_are_computed_by_our_kernel) {
    enum { PRODUCTS = 3, BATCHES = 5 };
    double loss = 0;
    const d9_log_sink log = context.log;
    for (int way = 0; way < 3; way++) {
        d9_result result;
        int warnings = 0;
        fake->reset();
        fake->without_products = way;
        context.log = count_warning, context.log_user = &warnings;
        OK(train_small("muon: {iterations: 2}", NULL, &result));
        context.log = log, context.log_user = NULL;
        const double got = result.epochs[result.epoch_count - 1].train_loss;
        if (way == 0) loss = got;
        if (!(fabs(got - loss) <= 2e-3 * loss)) fail_msg("loss %g, not %g", got, loss);
        assert_int_equal(fake->counts.products == 0, way > 0);
        assert_int_equal(warnings, way > 0 ? PRODUCTS * BATCHES : 0);
        assert_true(fake->counts.captures > 0);
        d9_result_free(&context, &result);
        watch_assert_nothing_left();
    }
    fake->reset();
}

static int64_t sums;

static d9_status count_sum(d9_context *of, d9_parallel *parallel, void *values, int64_t count, bool wide) {
    (void)of, (void)parallel, (void)values, (void)count, (void)wide;
    sums++;
    return D9_OK;
}

static d9_status fail_to_broadcast(d9_context *of, d9_parallel *parallel, void *bytes, int64_t size) {
    (void)parallel, (void)bytes, (void)size;
    return d9_fail(of, D9_USAGE, "another configuration");
}

/* Processes with different configurations might add arrays of different sizes. Therefore they compare configurations
 * before the first sum, which is in the step that loads code. */
TEST(processes_are_compared_before_they_add) {
    static const d9_parallel_kind kind = {.sum = count_sum, .broadcast = fail_to_broadcast};
    d9_parallel two = {.rank = 1, .ranks = 2, .kind = &kind};
    d9_result result;
    fake->reset();
    assert_int_equal(train_small("", &two, &result), D9_USAGE);
    assert_words(context.message, "another configuration");
    assert_int_equal(sums, 0);
    watch_assert_nothing_left();
}

static void note_writes(void *user, const d9_program *program, int64_t step, double loss, double seconds) {
    (void)program, (void)loss, (void)seconds;
    ((int64_t *)user)[step] = fake->counts.writes;
}

/* With two batches per step the device advances its step number itself; parameters equal those of larger batches. */
TEST(steps_may_take_two_batches) {
    d9_result results[2];
    int64_t writes[13] = {0}; /* by the number of batches trained: 12, four per epoch */
    fake->reset();
    for (int large = 0; large < 2; large++) {
        d9_config *config = watch_small_config(
            "cuda", "f32", 8,
            large ? "epochs: 3, batch_size: 16, weight_decay: 0.01" : "epochs: 3, batch_size: 8, weight_decay: 0.01",
            large ? "crop: {pad: 1}" : "crop: {pad: 1}, batch_schedule: {from: [0], batches: [2]}");
        const d9_train_options options = {
            .config = config, .seed = 7, .observer = {.user = writes, .step = note_writes}};
        OK(d9_train(&context, &options, &results[large]));
        if (!large)
            for (int step = 4; step <= 12; step += 4) assert_int_equal(writes[step], writes[step - 2]);
    }
    assert_string_equal(results[0].params_sha256, results[1].params_sha256);
    for (int large = 0; large < 2; large++) d9_result_free(&context, &results[large]);
    watch_assert_nothing_left();
}

/* Losses agree only if the fake and the reference backend select the same images for training. */
TEST(hard_images_give_the_loss_of_the_reference) {
    static const char *const backends[] = {"cuda", "reference"};
    double losses[2];
    fake->reset();
    for (int b = 0; b < 2; b++) {
        d9_result result;
        d9_config *config = watch_small_config(backends[b], "f32", 16, "epochs: 2, batch_size: 8",
                                               "crop: {pad: 1}, hard_examples: {widths: [2, 3, 4], every: 2}");
        OK(d9_train(&context, &(d9_train_options){.config = config, .seed = 7}, &result));
        losses[b] = result.epochs[1].train_loss;
        d9_result_free(&context, &result);
    }
    if (!(losses[0] > 1 && losses[0] / losses[1] > 0.9999 && losses[0] / losses[1] < 1.0001))
        fail_msg("%.9g, not %.9g", losses[0], losses[1]);
    watch_assert_nothing_left();
}

/* Copies state and accumulators. */
static void copy_state(d9_session *from, d9_session *to) {
    for (d9_buffer b = 0; b < D9_BUFFER_COUNT; b++) {
        const int64_t bytes = to->program.buffer_bytes[b];
        if ((b != D9_BUFFER_STATE && b < D9_BUFFER_ACCUMULATORS) || bytes == 0) continue;
        void *content = malloc((size_t)bytes);
        OK(d9_session_read(from, b, content)), OK(d9_session_write(to, b, content));
        free(content);
    }
}

/* Two sets of seven tricks. Each step of the fake starts from the state of the reference backend and must end with the
 * same state. Whole runs may differ by more without a fault: rounding decides which of two nearly equal pixels a max
 * pool takes, and norms over few values amplify rounding. */
TEST(steps_with_hard_images_agree) {
    static const char *const tricks[] = {
        "color_jitter: {}, progressive: {}, pool_before_activation: {position: before_norm}, "
        "ghost_batchnorm: {group_size: 4}, frozen_bn_scale: {scale: 1.0}",
        "trivial_augment: {}, batch_schedule: {from: [0.3], batches: [2]}, label_smoothing: {alpha: 0.2}, gelu: {}, "
        "lookahead: {every: 1}"};
    static const char *const backends[] = {"cuda", "reference"};
    fake->reset();
    for (int t = 0; t < 2; t++) {
        d9_session session[2];
        d9_config *config[2];
        double *state[2];
        for (int b = 0; b < 2; b++) {
            char all[512];
            snprintf(all, sizeof all, "hard_examples: {widths: [2, 3, 4], every: 2}, freeze: {until: [0.5]}, %s",
                     tricks[t]);
            config[b] = watch_small_config(backends[b], "f32", 16, "epochs: 2, batch_size: 8", all);
            OK(d9_session_open(&context, &(d9_session_options){.config = config[b], .seed = 7}, &session[b]));
            OK(d9_session_initialize(&session[b]));
            state[b] = calloc((size_t)session[b].program.state_elements, sizeof(double));
        }
        for (int64_t step = 0; step < 8; step += d9_program_batches(&session[1].program, step)) {
            copy_state(&session[1], &session[0]);
            for (int b = 0; b < 2; b++) {
                run_steps(&session[b], step, step + 1);
                OK(d9_session_read_state(&session[b], D9_BUFFER_STATE, state[b]));
            }
            const double distance = run_distance(state[0], state[1], session[0].program.state_elements);
            if (!(distance < 1e-5)) fail_msg("step %lld is off by %g: %s", (long long)step, distance, tricks[t]);
        }
        for (int b = 0; b < 2; b++) d9_session_close(&session[b]), free(state[b]);
    }
    watch_assert_nothing_left();
}

static const d9_backend *open_device(d9_device **device) {
    const d9_backend *backend;
    OK(d9_backend_find(&context, "cuda", &backend));
    OK(backend->open(&context, &(d9_backend_options){.threads = 1}, device));
    return backend;
}

/* Process i of a host opens device i, or the only visible device; with too few devices it is rejected. */
TEST(each_process_of_a_host_has_a_gpu) {
    static const struct {
        int devices, host_rank, host_ranks, opened;
    } cases[] = {{2, 0, 2, 0}, {2, 1, 2, 1}, {4, 2, 3, 2}, {1, 1, 2, 0}, {4, 0, 1, 0}, {2, 2, 3, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        d9_parallel parallel = {
            .rank = 5, .ranks = 8, .host_rank = cases[i].host_rank, .host_ranks = cases[i].host_ranks};
        const d9_backend_options options = {.threads = 1, .parallel = &parallel};
        const d9_backend *backend;
        d9_device *device = NULL;
        fake->reset();
        fake->devices = cases[i].devices;
        OK(d9_backend_find(&context, "cuda", &backend));
        const d9_status status = backend->open(&context, &options, &device);
        if (cases[i].opened < 0) {
            assert_rejection(status, D9_DEVICE, "cuda 3 processes 2 GPUs");
        } else {
            OK(status);
            assert_int_equal(fake->device, cases[i].opened);
            backend->close(&context, device);
        }
        watch_assert_nothing_left();
    }
}

TEST(the_order_is_the_host_s) {
    enum { SAMPLES = 1000, HEAD = 960 };
    static int32_t want[SAMPLES], got[HEAD];
    static d9_program program;
    d9_device *device;
    fake->reset();
    program.extent.train_samples = SAMPLES;
    program.buffer_bytes[D9_BUFFER_ORDER] = sizeof got;
    const d9_backend *backend = open_device(&device);
    OK(backend->allocate(&context, device, &program));
    fake->devices = 2;
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        fake->set_device(1);
        OK(backend->fill_order(&context, device, 11, epoch, SAMPLES));
        OK(backend->read(&context, device, D9_BUFFER_ORDER, 0, got, sizeof got));
        OK(d9_epoch_order(&context, 11, epoch, SAMPLES, want));
        assert_memory_equal(got, want, sizeof got);
    }
    backend->close(&context, device);
    watch_assert_nothing_left();
}

static void select_before_steps(void *user, const d9_program *program, const d9_device_info *device,
                                const char *precision_why) {
    (void)user, (void)program, (void)device, (void)precision_why;
    fake->set_device(1);
}

static void select_after_step(void *user, const d9_program *program, int64_t step, double loss, double seconds) {
    (void)user, (void)program, (void)step, (void)loss, (void)seconds;
    fake->set_device(1);
}

/* In callbacks another library may select its own device in the thread, which must not change the results. */
TEST(another_device_may_be_current) {
    static const d9_observer selecting = {.planned = select_before_steps, .step = select_after_step};
    char expected[65] = "";
    for (int way = 0; way < 2; way++) {
        d9_result result;
        d9_config *config =
            watch_small_config("cuda", "fp16", 8, "epochs: 3, batch_size: 8", "muon: {iterations: 2}, crop: {pad: 1}");
        d9_train_options options = {.config = config, .seed = 7};
        if (way) options.observer = selecting;
        fake->reset();
        fake->devices = 2;
        OK(d9_train(&context, &options, &result));
        if (way) assert_string_equal(result.params_sha256, expected);
        snprintf(expected, sizeof expected, "%s", result.params_sha256);
        d9_result_free(&context, &result);
        watch_assert_nothing_left();
    }
}

/* A run must fail, with these words in its message. kernel_driver: as in watch. */
static void expect_failure(const char *kernel_driver, const char *words) {
    static watch w;
    w.kernel_driver = kernel_driver;
    watch_run("f32", "off", &w);
    assert_int_equal(w.status, D9_DEVICE);
    assert_words(w.message, words);
    watch_assert_nothing_left();
}

static const char *const closed_driver =
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:  gcc 12\n";
static const char *const open_driver =
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@u16)\n";

TEST(a_driver_that_is_missing_or_old_is_named) {
    fake->reset();
    fake->driver_version = 0;
    expect_failure(NULL, "cuda");
    expect_failure(open_driver, "cuda 580.65.06 libcuda.so.1");
    fake->driver_version = 12040;
    expect_failure(closed_driver, "cuda 550.54.15 12.4 13 580");
    expect_failure(NULL, "cuda 12.4 13 580");
    fake->driver_version = 11080;
    fake->runtime_version = 12060;
    expect_failure("NVRM version: NVIDIA UNIX x86_64 Kernel Module  520.61.05\n", "520.61.05 11.8 12 525");
}

static void set_visible(const char *devices) {
    if (devices ? setenv("CUDA_VISIBLE_DEVICES", devices, 1) : unsetenv("CUDA_VISIBLE_DEVICES"))
        fail_msg("no environment");
}

TEST(devices_are_numbered_as_by_nvidia_smi) {
    d9_device *device;
    fake->reset();
    for (int given = 0; given < 2; given++) {
        if (given ? setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST", 1) : unsetenv("CUDA_DEVICE_ORDER"))
            fail_msg("no environment");
        const d9_backend *backend = open_device(&device);
        backend->close(&context, device);
        assert_string_equal(getenv("CUDA_DEVICE_ORDER"), given ? "FASTEST_FIRST" : "PCI_BUS_ID");
    }
    if (unsetenv("CUDA_DEVICE_ORDER") != 0) fail_msg("no environment");
}

TEST(a_missing_gpu_or_library_is_named) {
    set_visible(NULL);
    fake->reset();
    fake->devices = 0;
    expect_failure(open_driver, "cuda 580.65.06");
    expect_failure(NULL, "cuda");
    set_visible("3");
    expect_failure(open_driver, "cuda CUDA_VISIBLE_DEVICES 3");
    set_visible(NULL);
    fake->reset();
    fake->device_error = 802; /* cudaErrorSystemNotReady */
    expect_failure(open_driver, "cuda planted");
    fake->reset();
    fake->without_code = true;
    fake->major = 7;
    fake->minor = 5;
    expect_failure(NULL, "cuda sm_75");
    fake->reset();
    fake->without_cudnn = true;
    expect_failure(NULL, "cuDNN 91100 NOT_INITIALIZED");
}

/* In allocations that end 16 bytes early, the fake must notice writes past the end. */
TEST(writes_past_an_allocation_are_counted) {
    static watch w;
    fake->reset();
    fake->short_bytes = 16;
    watch_run("fp16", "off", &w);
    assert_int_equal(w.status, D9_OK);
    assert_true(fake->counts.overruns > 0);
}

typedef enum forbidden { NOTHING, ALLOCATION, WAIT, READ, WRITE, QUERY, FORBIDDEN } forbidden;

typedef struct recorded_work { /* arguments of call_while_recording */
    const d9_cuda *cuda;
    forbidden call;
    bool hides; /* the failure of the call is not returned */
} recorded_work;

static d9_status call_while_recording(d9_context *of, void *what) {
    const recorded_work *w = what;
    const d9_cuda *cuda = w->cuda;
    d9_status status = D9_OK;
    void *memory = NULL;
    int64_t bytes = 0, total = 0;
    if (w->call == ALLOCATION) status = cuda->driver->allocate(of, cuda->state, 256, "a test", &memory);
    if (w->call == WAIT) status = cuda->driver->sync(of, cuda->state);
    if (w->call == READ) status = cuda->driver->read(of, cuda->state, cuda->step, &bytes, sizeof bytes);
    if (w->call == WRITE) status = cuda->driver->write(of, cuda->state, cuda->step, &bytes, sizeof bytes);
    if (w->call == QUERY) status = cuda->driver->memory(of, cuda->state, &bytes, &total);
    if (memory) cuda->driver->release(of, cuda->state, memory);
    if (!w->hides) return status;
    d9_context_clear(of);
    return D9_OK;
}

/* Shows that watch_assert_nothing_left can find a call that is illegal in a capture. Such work is not recorded, even if
 * it hides the failure, and the device still works. */
TEST(captures_reject_allocations_waits_and_copies) {
    d9_device *device;
    for (int way = 0; way < 2 * FORBIDDEN; way++) {
        fake->reset();
        const d9_backend *backend = open_device(&device);
        const d9_cuda *cuda = device->backend;
        recorded_work work = {cuda, (forbidden)(way / 2), way % 2 != 0};
        void *graph = NULL;
        const int64_t allocations = fake->counts.allocations;
        const d9_status status = cuda->driver->record(&context, cuda->state, call_while_recording, &work, &graph);
        d9_context_clear(&context);
        if ((status == D9_OK) != (work.call == NOTHING) || (graph == NULL) != (work.call != NOTHING))
            fail_msg("call %d, hidden %d: status %d", (int)work.call, (int)work.hides, (int)status);
        assert_ints(fake->counts.illegal > 0, work.call != NOTHING, fake->counts.allocations, allocations);
        OK(backend->sync(&context, device));
        cuda->driver->free_graph(&context, cuda->state, graph);
        backend->close(&context, device);
        fake->counts.illegal = 0;
        watch_assert_nothing_left();
    }
}

/* One call fails in each run: call 1 in the first run, call 40 in the 40th, then every 109th call. The run may ignore a
 * failure of a call that it can do without, as in closing, but must leave nothing open. */
TEST(every_call_may_fail) {
    static watch w;
    int64_t calls, failed = 0, tried = 0;
    watch_run_afresh("fp16", "off", &w);
    calls = fake->counts.calls;
    assert_true(calls > 100);
    for (int64_t n = 1; n <= calls; n += n < 40 ? 1 : 109) {
        fake->reset();
        fake->fail_at = n;
        fake->fail_with = 719; /* cudaErrorLaunchFailure */
        watch_run("fp16", "off", &w);
        tried++;
        if (w.status != D9_OK) {
            failed++;
            assert_int_equal(w.status, D9_DEVICE);
            if (!strstr(w.message, "planted failure")) fail_msg("call %lld: %s", (long long)n, w.message);
        }
        watch_assert_nothing_left();
    }
    assert_true(failed > tried / 2);
}

/* Trains on a device with this much memory. True if the run is rejected with an error in GiB; false if it succeeds,
 * which it must with e7, the choice without a workspace. */
static bool is_run_rejected(int64_t bytes) {
    static watch w;
    fake->reset();
    fake->memory_bytes = bytes;
    watch_run("fp16", "off", &w);
    watch_assert_nothing_left();
    if (w.status == D9_OK) {
        assert_true(watch_count(w.plan, "e7") > 0);
        return false;
    }
    assert_int_equal(w.status, D9_DEVICE);
    assert_words(w.message, "GiB");
    return true;
}

TEST(too_little_memory_is_rejected_with_numbers) {
    static watch w;
    static const int64_t less[] = {256, 4096, 5000, 8192, 100000, 300000, 520000, 540000};
    enum { LESS = sizeof less / sizeof *less };
    int rejected = 0;
    watch_run_afresh("fp16", "off", &w);
    const int64_t enough = fake->counts.most_bytes;
    for (int part = 1; part < 7; part++)
        assert_true(is_run_rejected(enough * part / 28)); /* too little for any choice */
    for (int i = 0; i < LESS; i++) rejected += is_run_rejected(enough - less[i]);
    assert_true(rejected > 0 && rejected < LESS);
    fake->reset();
    fake->memory_bytes = enough;
    watch_run("fp16", "off", &w);
    assert_ints(w.status, D9_OK, watch_count(w.plan, "e7"), 0);
}

/* tf32 and bf16 need Ampere; on older tensor cores fp16 is the fastest precision. */
TEST(precisions_follow_the_device) {
    static const struct {
        int major, minor;
        const char *isa, *has;
        int preferred;
    } cases[] = {{6, 1, "sm_61", " f32 fp16", D9_PRECISION_F32},
                 {7, 0, "sm_70", " f32 fp16", D9_PRECISION_FP16},
                 {7, 5, "sm_75", " f32 fp16", D9_PRECISION_FP16},
                 {8, 0, "sm_80", " f32 tf32 bf16 fp16", D9_PRECISION_BF16},
                 {9, 0, "sm_90", " f32 tf32 bf16 fp16", D9_PRECISION_BF16},
                 {12, 0, "sm_120", " f32 tf32 bf16 fp16", D9_PRECISION_BF16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const d9_precision *precision;
        d9_device *device;
        d9_device_info info;
        fake->reset();
        fake->major = cases[i].major;
        fake->minor = cases[i].minor;
        const d9_backend *backend = open_device(&device);
        backend->describe(device, &info);
        backend->close(&context, device);
        assert_string_equal(info.isa, cases[i].isa);
        assert_int_equal(info.preferred_precision, cases[i].preferred);
        assert_int_equal(info.preferred_why[0] != 0, cases[i].preferred != D9_PRECISION_F32);
        OK(d9_backend_precision(&context, backend, &info, "auto", &precision));
        assert_int_equal(d9_backend_precision(&context, backend, &info, "f64", &precision), D9_DEVICE);
        assert_words(context.message, "f64 cuda " D9_FAKE_DEVICE);
        assert_words(context.message, cases[i].has), d9_context_clear(&context);
        watch_assert_nothing_left();
    }
}

enum { SMALL = 25, FEW = 1000, MANY = 1000000 }; /* SMALL writes of FEW numbers; MANY exceed the ring buffer */

/* The source is overwritten immediately after each call: many small copies, more than can be queued at once, and a
 * large one. */
TEST(writes_copy_their_source_at_once) {
    static int32_t source[MANY], got[MANY];
    static d9_program program;
    d9_device *device;
    fake->reset();
    program.buffer_bytes[D9_BUFFER_STATE] = SMALL * FEW * sizeof *source;
    program.buffer_bytes[D9_BUFFER_GRADIENT] = sizeof source;
    const d9_backend *backend = open_device(&device);
    OK(backend->allocate(&context, device, &program));
    const int64_t waits = fake->counts.waits;
    for (int32_t w = 0; w < SMALL; w++) {
        for (int32_t i = 0; i < FEW; i++) source[i] = w * FEW + i;
        OK(backend->write(&context, device, D9_BUFFER_STATE, w * FEW * (int64_t)sizeof *source, source,
                          FEW * sizeof *source));
        if (w == 6) assert_int_equal(fake->counts.waits, waits); /* the first seven do not wait */
    }
    for (int32_t i = 0; i < MANY; i++) source[i] = 3 * i;
    OK(backend->write(&context, device, D9_BUFFER_GRADIENT, 0, source, sizeof source));
    memset(source, 0, sizeof source);
    OK(backend->read(&context, device, D9_BUFFER_STATE, 0, got, SMALL * FEW * sizeof *got));
    for (int32_t i = 0; i < SMALL * FEW; i++) assert_int_equal(got[i], i);
    OK(backend->read(&context, device, D9_BUFFER_GRADIENT, 0, got, sizeof got));
    for (int32_t i = 0; i < MANY; i++) assert_int_equal(got[i], 3 * i);
    backend->close(&context, device);
    watch_assert_nothing_left();
}

/* The fake's d9_cudnn_read_ahead returns only when it is stopped, so opening the device must not wait for it. */
TEST(libraries_are_read_ahead) {
    d9_device_info info;
    fake->reset();
    OK(d9_backend_describe(&context, "cuda", 1, &info));
    assert_words(info.version, "CUDA cuDNN cuBLAS cuRAND");
    assert_ints(fake->counts.read_ahead, 1, fake->counts.libraries, 0);
    fake->reset();
    fake->devices = 0;
    assert_ints(d9_backend_describe(&context, "cuda", 1, &info), D9_DEVICE, fake->counts.read_ahead, 1);
}
