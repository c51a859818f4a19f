/* Short training runs on the fake, watched: see watch.h. */
#include "tests/cuda_backend/watch.h"
#include "tests/support/test.h"
#include <errno.h>

d9_fake *fake;

static void note_step(void *user, const d9_program *program, int64_t step, double loss, double seconds) {
    watch *w = user;
    (void)program, (void)loss, (void)seconds;
    if (step <= RUN_STEPS) w->after[step] = fake->counts;
}

static void note_plan(void *user, const d9_program *program, const d9_device_info *device,
                      const char *precision_why) {
    watch *w = user;
    (void)program, (void)device, (void)precision_why;
    w->after[0] = fake->counts;
}

void watch_log(void *user, d9_log_level level, const char *line) {
    watch *w = user;
    const size_t used = strlen(w->log);
    if (level == D9_LOG_WARNING) snprintf(w->log + used, sizeof w->log - used, "%s\n", line);
}

enum { KERNEL_DRIVER = 1 << 20 }; /* a file descriptor that no file has */

static int open_or_pretend(void *user, const char *path, int flags, int mode) {
    const watch *w = user;
    if (strcmp(path, "/proc/driver/nvidia/version") != 0)
        return d9_system_default()->open(d9_system_default()->user, path, flags, mode);
    errno = ENOENT;
    return w->kernel_driver ? KERNEL_DRIVER : -1;
}

static ssize_t read_or_pretend(void *user, int file, void *bytes, size_t size) {
    const watch *w = user;
    if (file != KERNEL_DRIVER) return d9_system_default()->read(d9_system_default()->user, file, bytes, size);
    const size_t length = strlen(w->kernel_driver);
    memcpy(bytes, w->kernel_driver, length < size ? length : size);
    return (ssize_t)(length < size ? length : size);
}

static int close_or_pretend(void *user, int file) {
    (void)user;
    return file == KERNEL_DRIVER ? 0 : d9_system_default()->close(d9_system_default()->user, file);
}

d9_config *watch_config(const char *precision, const char *tune) {
    d9_config *config = run_config("cuda", precision, "eval: {every: 0}\n");
    config->data.image_size = 8;
    config->data.synthetic_test = 8;
    config->backend_options.tune = strcmp(tune, "on") == 0     ? D9_TUNE_ON
                                   : strcmp(tune, "auto") == 0 ? D9_TUNE_AUTO
                                                               : D9_TUNE_OFF;
    return config;
}

d9_config *watch_small_config(const char *backend, const char *precision, int image_size, const char *train,
                              const char *tricks) {
    return program_yaml(
        "data: {dataset: synthetic, synthetic_train: 32, synthetic_test: 12, image_size: %d}\nprecision: %s\n"
        "backend: %s\nbackend_options: {tune: off}\nthreads: 1\neval: {every: 0}\n"
        "model: {name: resnet9, channels: [4, 6, 8, 8]}\n"
        "train: {%s, lr: {knots: [0, end], values: [0.1, 0]}}\ntricks: {%s}\n",
        image_size, precision, backend, train, tricks);
}

void watch_run(const char *precision, const char *tune, watch *w) {
    d9_system system = *run_system();
    d9_context context;
    d9_result result;
    d9_context_init(&context);
    *w = (watch){.kernel_driver = w->kernel_driver};
    context.log = watch_log;
    context.log_user = w;
    system.user = w;
    system.open = open_or_pretend;
    system.read = read_or_pretend;
    system.close = close_or_pretend;
    context.system = &system;
    d9_config *config = watch_config(precision, tune);
    const d9_train_options options = {
        .config = config, .seed = 7, .observer = {.user = w, .planned = note_plan, .step = note_step}};
    w->status = d9_train(&context, &options, &result);
    snprintf(w->message, sizeof w->message, "%s", context.message);
    if (w->status == D9_OK) {
        snprintf(w->plan, sizeof w->plan, "%s", result.plan_text);
        snprintf(w->params_sha256, sizeof w->params_sha256, "%s", result.params_sha256);
        d9_result_free(&context, &result);
    }
}

void watch_run_afresh(const char *precision, const char *tune, watch *w) {
    fake->reset();
    watch_run(precision, tune, w);
}

int watch_count(const char *plan, const char *choice) {
    char end[32];
    int count = 0;
    snprintf(end, sizeof end, "\t%s\n", choice);
    for (const char *at = plan; (at = strstr(at, end)); at++) count++;
    return count;
}

void watch_assert_nothing_left(void) {
    const d9_fake_counts *c = &fake->counts;
    assert_ints(c->used_bytes, 0, c->pinned_bytes, 0, c->live_graphs, 0, c->live_events, 0);
    assert_ints(c->live_streams, 0, c->live_handles, 0, c->live_descriptors, 0, c->illegal, 0);
    assert_int_equal(c->overruns, 0);
}

TEST_MAIN(count, arguments) {
    fake = fake_find();
    if (fake) return test_run(NULL);
    print_error("the module beside this program is not the fake\n");
    return 1;
}
