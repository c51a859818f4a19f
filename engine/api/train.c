/* The public API: training. See dawn9.h. */
#include "api/handles.h"
#include "core/system.h"
#include "exchange/model.h"
#include "train/trainer.h"

#include <stdio.h>

typedef struct run { /* argument of the trainer's callbacks */
    dawn9_context *outer;
    const dawn9_train_options *options;
    volatile sig_atomic_t stop; /* the trainer's interrupt flag: not 0 to stop */
    uint8_t *bytes;             /* content of a model file with the trained network; NULL: none yet */
    size_t size;
    bool wants_model;
    int64_t step; /* steps done */
} run;

/* ---- the trainer's observer ---- */

static void call_progress(run *self, const d9_program *program, double loss, double seconds, const dawn9_epoch *epoch) {
    const dawn9_progress progress = {self->step, program->steps, loss, seconds, epoch};
    if (!self->options->progress) return;
    const d9_context call = d9_api_pause(self->outer);
    if (self->options->progress(self->options->user, &progress) != 0) self->stop = SIGINT;
    d9_api_resume(self->outer, &call);
}

static void on_step(void *user, const d9_program *program, int64_t step, double loss, double epoch_seconds) {
    run *self = user;
    self->step = step;
    call_progress(self, program, loss, epoch_seconds, NULL);
}

static void on_resumed(void *user, int64_t steps, const d9_epoch_row *rows, int64_t count) {
    (void)rows, (void)count;
    ((run *)user)->step = steps;
}

static void on_epoch(void *user, const d9_program *program, const d9_epoch_row *row) {
    const dawn9_epoch epoch = {.epoch = row->epoch,
                               .train_loss = row->train_loss,
                               .train_accuracy = row->train_accuracy,
                               .measure = program->measure->name,
                               .score = row->score,
                               .score_tta = row->score_tta,
                               .learning_rate = row->learning_rate,
                               .images_per_second = row->images_per_second,
                               .seconds = row->seconds};
    call_progress(user, program, row->train_loss, row->seconds, &epoch);
}

static d9_status on_kept(void *user, d9_session *session) {
    run *self = user;
    if (!self->wants_model) return D9_OK;
    d9_release(session->context, self->bytes);
    self->bytes = NULL;
    return d9_model_encode(session, session->config->title, &self->bytes, &self->size);
}

/* Reads the model from the run's folder, for a resumed run whose best epoch came before the checkpoint: on_kept did not
 * run. */
static d9_status read_kept(d9_context *context, run *self) {
    d9_status status;
    d9_text path;
    d9_text_init(context, &path);
    d9_text_add(&path, "%s/model.safetensors", self->options->folder);
    D9_TRY(d9_text_status(&path));
    D9_TRY(d9_file_read_limited(context, d9_text_get(&path), D9_TENSORS_MAX_BYTES, &self->bytes, &self->size));
done:
    d9_text_free(&path);
    return status;
}

/* ---- the result, and the whole call ---- */

static double clock_seconds(const d9_result *result, const char *name) {
    const d9_clock *clock = d9_clock_find(name);
    if (result->resumed && clock->until == D9_CLOCK_FINAL_ACCURACY) return NAN; /* the clock would span several calls */
    return d9_timeline_sum(result->timeline, clock, result->epoch_to_target);
}

static void copy_result(const d9_result *from, dawn9_result *to) {
    *to = (dawn9_result){.measure = from->config->measure->name,
                         .score = from->score,
                         .score_tta = from->score_tta,
                         .epoch_to_target = from->epoch_to_target,
                         .best_epoch = from->best_epoch,
                         .epochs = from->epoch_count,
                         .steps = from->steps,
                         .train_images = from->train_images,
                         .test_images = from->eval_images,
                         .parameters = from->parameters,
                         .train_seconds = clock_seconds(from, "train_seconds"),
                         .airbench_seconds = clock_seconds(from, "airbench_seconds"),
                         .dawnbench_seconds = clock_seconds(from, "dawnbench_seconds"),
                         .total_seconds = clock_seconds(from, "process_seconds"),
                         .seed = from->seed};
    snprintf(to->backend, sizeof to->backend, "%s", from->backend);
    snprintf(to->precision, sizeof to->precision, "%s", from->precision);
    snprintf(to->device, sizeof to->device, "%s", from->device.name);
    snprintf(to->params_sha256, sizeof to->params_sha256, "%s", from->params_sha256);
}

dawn9_status dawn9_train(dawn9_context *outer, const dawn9_config *config, const dawn9_train_options *options,
                         dawn9_result *result, dawn9_model **model) {
    static const dawn9_train_options nothing = {0};
    d9_status status;
    d9_context *context = d9_api_begin(outer);
    run self = {.outer = outer, .options = options ? options : &nothing, .wants_model = model != NULL};
    d9_result trained = {0};
    /* The flag of an outer dawn9_train whose callback called this one; NULL: none. */
    const volatile sig_atomic_t *const before = context->interrupt;
    const d9_train_options train = {
        .write_model = d9_model_write,
        .load_weights = d9_model_load_initial_weights,
        .config = config->inner,
        .seed = (uint64_t)config->inner->seed,
        .out = self.options->folder,
        .resume = self.options->resume != 0,
        .overwrite = self.options->overwrite != 0,
        .observer = {.user = &self,
                     .step = self.options->progress ? on_step : NULL,
                     .epoch = on_epoch,
                     .resumed = on_resumed},
        .kept = on_kept,
    };
    context->interrupt = &self.stop;
    if (model) *model = NULL;
    if (!train.out && (train.resume || train.overwrite))
        D9_TRY(d9_fail(context, D9_USAGE, "%s is set, but no folder", train.resume ? "resume" : "overwrite"));
    D9_TRY(d9_train(context, &train, &trained));
    if (result) copy_result(&trained, result);
    if (model) {
        if (!self.bytes) D9_TRY(read_kept(context, &self));
        uint8_t *bytes = self.bytes;
        self.bytes = NULL; /* now owned by the model */
        D9_TRY(d9_api_model(outer, config->inner->title, bytes, self.size, dawn9_config_text(config), NULL, model));
    }
done:
    d9_release(context, self.bytes);
    d9_result_free(context, &trained);
    context->interrupt = before;
    return d9_api_end(outer, status);
}
