/* What the CUDA backend asks of the CUDA runtime and of cuDNN, on the fake of both (fake.h): nothing is allocated and
 * nobody waits within an epoch, every set of active nodes is recorded once, every call may fail, memory may be short,
 * and tuning chooses, keeps and gives room back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/dataset.h"
#include "tests/cuda_backend/fake.h"
#include "tests/support/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static d9_fake *fake;

/* ---- runs, watched ---- */

typedef struct watch {
    d9_fake_counts after[RUN_STEPS + 1]; /* each step, from 1 */
    char log[2048];
    char plan[8192];
    d9_status status;
    char message[1024];
} watch;

static void note_step(void *user, const d9_program *program, int64_t step, double loss, double seconds) {
    watch *w = user;
    (void)program, (void)loss, (void)seconds;
    if (step <= RUN_STEPS) w->after[step] = fake->counts;
}

static void note_log(void *user, d9_log_level level, const char *line) {
    watch *w = user;
    const size_t used = strlen(w->log);
    if (level == D9_LOG_WARNING) snprintf(w->log + used, sizeof w->log - used, "%s\n", line);
}

static int no_sync(void *user, int file) {
    (void)user, (void)file;
    return 0;
}

/* A few epochs of tiny images, evaluated at the end. */
static void run_watched(const char *precision, const char *tune, watch *w) {
    d9_system quick = *d9_system_default();
    d9_context context;
    d9_result result;
    d9_context_init(&context);
    memset(w, 0, sizeof *w);
    context.log = note_log;
    context.log_user = w;
    quick.sync = no_sync;
    context.system = &quick;
    d9_config *config = run_config(&context, "cuda", precision, "eval: {every: 0}\n");
    config->data.image_size = 8;
    config->data.synthetic_test = 8;
    config->backend_options.tune = strcmp(tune, "on") == 0     ? D9_TUNE_ON
                                   : strcmp(tune, "auto") == 0 ? D9_TUNE_AUTO
                                                               : D9_TUNE_OFF;
    const d9_train_options options = {.config = config, .seed = 7, .observer = {.user = w, .step = note_step}};
    w->status = d9_train(&context, &options, &result);
    snprintf(w->message, sizeof w->message, "%s", context.message);
    if (w->status == D9_OK) snprintf(w->plan, sizeof w->plan, "%s", result.plan_text);
    if (w->status == D9_OK) d9_result_free(&context, &result);
    d9_config_free(&context, config);
}

static void nothing_is_left(void) {
    const d9_fake_counts *c = &fake->counts;
    assert_int_equal(c->used_bytes, 0);
    assert_int_equal(c->live_graphs, 0);
    assert_int_equal(c->live_events, 0);
    assert_int_equal(c->live_streams, 0);
    assert_int_equal(c->live_handles, 0);
    assert_int_equal(c->live_descriptors, 0);
    assert_int_equal(c->illegal, 0);
}

/* ---- a step ---- */

/* With and without a move of the average: two sets in training, one in evaluation. Once each is recorded, a step is one
 * replay and nothing else. */
static void check_recordings(const watch *w) {
    assert_int_equal(fake->counts.captures, 3);
    assert_int_equal(fake->counts.instantiations, 3);
    for (int64_t s = RUN_STEPS_PER_EPOCH + 2; s <= RUN_STEPS; s++) {
        const d9_fake_counts *before = &w->after[s - 1], *after = &w->after[s];
        assert_int_equal(after->replays - before->replays, 1);
        assert_int_equal(after->plans, before->plans);
        const bool first = (s - 1) % RUN_STEPS_PER_EPOCH == 0;
        if (!first) assert_true(after->calls - before->calls <= 2);
    }
}

static void nobody_waits_within_an_epoch(void **state) {
    static watch w;
    int waited = 0;
    (void)state;
    fake->reset();
    run_watched("fp16", "off", &w);
    if (w.status != D9_OK) fail_msg("%s", w.message);
    for (int64_t s = 2; s <= RUN_STEPS; s++) {
        const d9_fake_counts *before = &w.after[s - 1], *after = &w.after[s];
        const bool first = (s - 1) % RUN_STEPS_PER_EPOCH == 0;
        assert_int_equal(after->waits - before->waits, first); /* for the epoch that ended */
        waited += first;
        assert_int_equal(after->allocations, before->allocations);
        assert_int_equal(after->frees, before->frees);
        if (first) continue;
        assert_int_equal(after->reads, before->reads);
        assert_int_equal(after->writes, before->writes);
    }
    assert_int_equal(waited, 2);
    check_recordings(&w);
    nothing_is_left();
}

static void the_order_is_the_host_s(void **state) {
    enum { SAMPLES = 1000, HEAD = 960 };
    static int32_t want[SAMPLES], got[HEAD];
    static d9_program program;
    d9_context context;
    const d9_backend *backend;
    d9_device *device;
    (void)state;
    fake->reset();
    d9_context_init(&context);
    program.extent.train_images = SAMPLES;
    program.buffer_bytes[D9_BUFFER_ORDER] = sizeof got;
    op_ok(&context, d9_backend_find(&context, "cuda", &backend));
    op_ok(&context, backend->open(&context, &(d9_backend_options){.threads = 1}, &device));
    op_ok(&context, backend->allocate(&context, device, &program));
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        op_ok(&context, backend->order(&context, device, 11, epoch, SAMPLES));
        op_ok(&context, backend->read(&context, device, D9_BUFFER_ORDER, 0, got, sizeof got));
        op_ok(&context, d9_epoch_order(&context, 11, epoch, SAMPLES, want));
        assert_memory_equal(got, want, sizeof got);
    }
    backend->close(&context, device);
    nothing_is_left();
}

/* ---- what goes wrong ---- */

static void expect_failure(const char *pattern) {
    static watch w;
    run_watched("f32", "off", &w);
    assert_int_equal(w.status, D9_DEVICE);
    if (!strstr(w.message, pattern)) fail_msg("\"%s\" does not say \"%s\"", w.message, pattern);
    nothing_is_left();
}

static void what_is_missing_is_named(void **state) {
    (void)state;
    fake->reset();
    fake->devices = 0;
    expect_failure("backend cuda: no GPU answers: no CUDA-capable device is detected");
    fake->reset();
    fake->without_code = true;
    fake->major = 7;
    expect_failure("backend cuda: no kernel runs on " D9_FAKE_DEVICE " (sm_70): no kernel image is available");
    fake->reset();
    fake->without_cudnn = true;
    expect_failure("cuDNN 91100: NOT_INITIALIZED");
}

/* The call of each number fails once. Those that a run does without (closing) may be forgiven; nothing is ever left. */
static void every_call_may_fail(void **state) {
    static watch w;
    int64_t calls, failed = 0, tried = 0;
    (void)state;
    fake->reset();
    run_watched("fp16", "off", &w);
    calls = fake->counts.calls;
    assert_true(calls > 100);
    for (int64_t n = 1; n <= calls; n += n < 40 ? 1 : 109) {
        fake->reset();
        fake->fail_at = n;
        fake->fail_with = 719; /* cudaErrorLaunchFailure */
        run_watched("fp16", "off", &w);
        tried++;
        if (w.status != D9_OK) {
            failed++;
            assert_int_equal(w.status, D9_DEVICE);
            if (!strstr(w.message, "planted failure")) fail_msg("call %lld: %s", (long long)n, w.message);
        }
        nothing_is_left();
    }
    assert_true(failed > tried / 2);
}

/* From far too little memory to enough: one message each time, with figures. */
static void short_memory_is_refused_in_figures(void **state) {
    static watch w;
    int refused = 0, late = 0;
    (void)state;
    fake->reset();
    run_watched("fp16", "off", &w);
    const int64_t enough = fake->counts.most_bytes;
    for (int64_t bytes = enough / 7; bytes < enough; bytes += enough / 7 - 256) {
        fake->reset();
        fake->memory_bytes = bytes;
        run_watched("fp16", "off", &w);
        assert_int_equal(w.status, D9_DEVICE);
        if (!strstr(w.message, "out of device memory: ") || !strstr(w.message, "free"))
            fail_msg("%lld bytes: %s", (long long)bytes, w.message);
        refused++;
        late += strstr(w.message, "this run needs") == NULL;
        nothing_is_left();
    }
    assert_true(refused > 5 && late > 0);
    fake->reset();
    fake->memory_bytes = enough;
    run_watched("fp16", "off", &w);
    assert_int_equal(w.status, D9_OK);
}

/* tf32 wants Ampere, as bf16 does. */
static void precisions_follow_the_device(void **state) {
    static const struct {
        int major;
        const char *has;
    } cases[] = {{9, " f32 tf32 bf16 fp16"}, {8, " f32 tf32 bf16 fp16"}, {7, " f32 fp16"}, {12, " f32 tf32 bf16 fp16"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        d9_context context;
        const d9_backend *backend;
        const d9_precision *precision;
        d9_device *device;
        d9_device_info info;
        char want[128];
        fake->reset();
        fake->major = cases[i].major;
        d9_context_init(&context);
        op_ok(&context, d9_backend_find(&context, "cuda", &backend));
        op_ok(&context, backend->open(&context, &(d9_backend_options){.threads = 1}, &device));
        backend->describe(device, &info);
        backend->close(&context, device);
        assert_int_equal(d9_backend_precision(&context, backend, &info, "f64", &precision), D9_DEVICE);
        snprintf(want, sizeof want, "precision f64: backend cuda on " D9_FAKE_DEVICE " has%s", cases[i].has);
        assert_string_equal(context.message, want);
        nothing_is_left();
    }
}

/* ---- tuning ---- */

/* Lines of the plan that end in this choice. */
static int count_choice(const char *plan, const char *choice) {
    char end[32];
    int count = 0;
    snprintf(end, sizeof end, "\t%s\n", choice);
    for (const char *at = plan; (at = strstr(at, end)); at++) count++;
    return count;
}

static void set_cache(const char *folder) {
    if (setenv("XDG_CACHE_HOME", folder, 1) != 0) fail_msg("no environment");
}

static void cache_path(const char *folder, char path[RUN_PATH_BYTES]) {
    snprintf(path, RUN_PATH_BYTES, "%.400s/dawn9/cuda-choices.tsv", folder);
}

/* e3 is the fastest of those that can be built, run and given room; what the others asked for is given back. */
static void tuning_takes_the_fastest(void **state) {
    static watch off, on;
    char folder[RUN_PATH_BYTES];
    (void)state;
    run_folder_make(folder);
    set_cache(folder);
    fake->reset();
    run_watched("fp16", "off", &off);
    assert_int_equal(off.status, D9_OK);
    const int convolutions = count_choice(off.plan, "e1");
    assert_true(convolutions >= 20);
    assert_false(run_has(folder, "dawn9")); /* nothing was timed, so nothing is kept */
    fake->reset();
    run_watched("fp16", "on", &on);
    if (on.status != D9_OK) fail_msg("%s", on.message);
    assert_int_equal(count_choice(on.plan, "e3"), convolutions);
    const int64_t more = on.after[RUN_STEPS].used_bytes - off.after[RUN_STEPS].used_bytes;
    assert_true(more > 0 && more <= 1 << 20);
    assert_true(fake->counts.most_bytes > on.after[RUN_STEPS].used_bytes + (32 << 20));
    nothing_is_left();
}

static void write_text(const char *path, const char *text) {
    d9_context context;
    d9_context_init(&context);
    op_ok(&context, d9_file_write(&context, path, text, strlen(text)));
}

static void what_was_chosen_is_remembered(void **state) {
    static watch w;
    char folder[RUN_PATH_BYTES], path[RUN_PATH_BYTES];
    (void)state;
    run_folder_make(folder);
    set_cache(folder);
    cache_path(folder, path);
    fake->reset();
    run_watched("fp16", "auto", &w);
    const int64_t asked = fake->counts.surveyed;
    assert_true(asked > 10 && asked < count_choice(w.plan, "e3")); /* equal shapes share */
    fake->reset();
    run_watched("fp16", "auto", &w);
    assert_int_equal(fake->counts.surveyed, 0);
    assert_true(count_choice(w.plan, "e3") > asked);
    fake->reset();
    run_watched("bf16", "auto", &w); /* another type is another question */
    assert_int_equal(fake->counts.surveyed, asked);
    fake->reset();
    run_watched("f32", "auto", &w);
    fake->reset();
    run_watched("tf32", "auto", &w); /* so is permission to round */
    assert_int_equal(fake->counts.surveyed, asked);
    fake->reset();
    run_watched("fp16", "on", &w); /* asks anew */
    assert_true(fake->counts.surveyed > 0);
    write_text(path, "dawn9 choices 1\nhalf a line\n");
    fake->reset();
    run_watched("fp16", "auto", &w);
    assert_non_null(strstr(w.log, "cuda-choices.tsv line 2: damaged: tuning anew"));
    assert_int_equal(fake->counts.surveyed, asked);
    fake->reset();
    run_watched("fp16", "auto", &w);
    assert_string_equal(w.log, "");
    assert_int_equal(fake->counts.surveyed, 0);
    nothing_is_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_waits_within_an_epoch),       cmocka_unit_test(the_order_is_the_host_s),
        cmocka_unit_test(what_is_missing_is_named),           cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(short_memory_is_refused_in_figures), cmocka_unit_test(tuning_takes_the_fastest),
        cmocka_unit_test(what_was_chosen_is_remembered),      cmocka_unit_test(precisions_follow_the_device),
    };
    fake = fake_find();
    if (!fake) {
        print_error("the module beside this program is not the fake\n");
        return 1;
    }
    return cmocka_run_group_tests_name("cuda_backend_runtime", tests, NULL, NULL);
}
