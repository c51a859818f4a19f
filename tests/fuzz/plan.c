/* Plans: the text that restores or forces a plan, for the reference backend (inputs that begin with a digit) and cpu.
 * If it is accepted, a step of training and one of evaluation must run, and the plan's own text must produce the same
 * plan. */
#include "backends/backend.h"
#include "config/config.h"
#include "tests/fuzz/support/fuzz.h"
#include "build/build.h"

static const char yaml[] = "model: {channels: [2, 2, 2, 4]}\ntrain: {epochs: 2, batch_size: 2}\n"
                           "tricks: {crop: {pad: 1}, flip: {}, ema: {every: 1}, celu: {}, label_smoothing: {}, "
                           "pool_before_activation: {}, patch_whitening: {}}\n";
static const d9_extent extent = {.train_samples = 4,
                                 .eval_samples = 2,
                                 .height = 16,
                                 .width = 16,
                                 .channels = 3,
                                 .classes = 3,
                                 .batch = 2,
                                 .epochs = 2,
                                 .mean = {125, 123, 114},
                                 .std = {63, 62, 67}};

static fuzz_fixture shared;
static d9_config *config;
static d9_program program;

static void require_ok(d9_status status) { fuzz_require(status == D9_OK, shared.context.message); }

static void set_up(void) {
    const d9_program_options options = {.seed = 1};
    fuzz_begin(&shared);
    require_ok(d9_config_parse(&shared.context, "fuzz.yaml", yaml, NULL, &config));
    require_ok(d9_program_build(&shared.context, config, &extent, d9_precision_find("f32"), &options, &program));
}

/* Plans training and evaluation by `text`, and runs a step of each if `run`. Adds the texts of both plans to `said`. */
static d9_status plan_and_run(const d9_backend *backend, const char *text, bool run, d9_text *said) {
    d9_status status;
    d9_context *context = &shared.context;
    const d9_backend_options options = {.threads = 1, .fuse = true, .tune = D9_TUNE_OFF, .force_plan = text};
    d9_device *device = NULL;
    d9_plan *train = NULL, *eval = NULL;
    D9_TRY(backend->open(context, &options, &device));
    D9_TRY(backend->allocate(context, device, &program));
    D9_TRY(backend->plan(context, device, &program, &program.train, &train));
    D9_TRY(backend->plan(context, device, &program, &program.eval, &eval));
    d9_text_add(said, "%s%s", backend->plan_text(train), backend->plan_text(eval));
    D9_TRY(d9_text_status(said));
    if (run) require_ok(backend->run(context, train, 0)), require_ok(backend->run(context, eval, 0));
done:
    backend->plan_free(context, train);
    backend->plan_free(context, eval);
    if (device) backend->close(context, device);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const d9_backend *backend;
    d9_text said, again;
    if (!program.steps) set_up();
    const bool reference = size && data[0] >= '0' && data[0] <= '9';
    require_ok(d9_backend_find(&shared.context, reference ? "reference" : "cpu", &backend));
    const int64_t blocks = shared.blocks;
    char *text = fuzz_text(data + reference, size - reference);
    d9_text_init(&shared.context, &said), d9_text_init(&shared.context, &again);
    const d9_status status = plan_and_run(backend, text, true, &said);
    if (fuzz_check_status(&shared, status)) {
        require_ok(plan_and_run(backend, d9_text_get(&said), false, &again));
        fuzz_require(strcmp(d9_text_get(&said), d9_text_get(&again)) == 0, "a plan's text makes the same plan");
    }
    d9_text_free(&said), d9_text_free(&again);
    fuzz_require(shared.blocks == blocks, "everything is released");
    free(text);
    return 0;
}
