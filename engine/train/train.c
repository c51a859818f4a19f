/* The training run: steps, epochs, evaluations, the record. One straight loop over the program's steps. */
#include "core/hash.h"
#include "core/system.h"
#include "train/tensorboard_run.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct run { /* a run in progress */
    const d9_train_options *options;
    d9_session session;
    d9_record record;
    d9_tensorboard_run tensorboard;
    d9_result *result;
    int64_t step; /* the next one */
    d9_evaluation latest;
    bool evaluated;       /* `latest` is there */
    char checkpoint[600]; /* its file; empty without a record */
} run;

/* ---- opening ---- */

static d9_status save_plan(d9_context *context, const char *path, const d9_session *session) {
    d9_status status;
    d9_text text;
    d9_text_init(context, &text);
    d9_text_add(&text, "%s%s", session->backend->plan_text(session->train_plan),
                session->backend->plan_text(session->eval_plan));
    D9_TRY(d9_text_status(&text));
    D9_TRY(d9_file_write(context, path, d9_text_get(&text), text.size));
done:
    d9_text_free(&text);
    return status;
}

static d9_status describe_dataset(d9_context *context, const d9_dataset *data, d9_result *result) {
    d9_status status;
    char **names;
    D9_TRY(D9_ARENA_ALLOCATE(context, &result->arena, data->classes, &names));
    for (int64_t c = 0; c < data->classes; c++)
        D9_TRY(d9_arena_copy(context, &result->arena, data->class_names[c], &names[c]));
    result->class_names = (const char *const *)names;
    result->classes = data->classes;
    result->channels = data->channels;
    memcpy(result->mean, data->mean, sizeof result->mean);
    memcpy(result->std, data->std, sizeof result->std);
done:
    return status;
}

/* The last epoch may be a part. */
static int64_t epochs_in(const d9_program *program) {
    return (program->steps + program->steps_per_epoch - 1) / program->steps_per_epoch;
}

static d9_status describe_run(d9_context *context, run *self) {
    d9_status status;
    d9_result *result = self->result;
    const d9_session *session = &self->session;
    const d9_program *program = &session->program;
    char *plan;
    result->seed = session->seed;
    result->config = session->config;
    d9_config_hash(context, session->config, result->config_hash);
    D9_TRY(d9_arena_copy(context, &result->arena, session->backend->plan_text(session->train_plan), &plan));
    result->plan_text = plan;
    d9_sha256_hex(&(d9_bytes){plan, strlen(plan)}, 1, result->plan_sha256);
    snprintf(result->backend, sizeof result->backend, "%s", session->backend->name);
    snprintf(result->precision, sizeof result->precision, "%s", program->precision->name);
    result->device = session->info;
    result->batch = program->extent.batch;
    result->steps = program->steps;
    result->train_images = program->extent.train_images;
    result->eval_images = program->extent.eval_images;
    result->parameters = program->trainable_count + program->frozen_count;
    result->accuracy = result->accuracy_tta = NAN;
    D9_TRY(D9_ARENA_ALLOCATE(context, &result->arena, epochs_in(program), &result->epochs));
    D9_TRY(describe_dataset(context, session->dataset, result));
done:
    return status;
}

static d9_status resume(d9_context *context, run *self) {
    d9_status status;
    const d9_program *program = &self->session.program;
    d9_progress_state progress = {.epochs = self->result->epochs};
    if (!self->options->resume || !self->checkpoint[0] || !d9_file_exists(context, self->checkpoint)) return D9_OK;
    D9_TRY(d9_checkpoint_read(&self->session, self->checkpoint, epochs_in(program), &progress));
    self->step = progress.step;
    self->result->epoch_count = progress.epoch_count;
    self->result->resumed = true;
    if (self->step % program->steps_per_epoch) D9_TRY(d9_session_begin_epoch(&self->session, self->step));
done:
    return status;
}

static d9_status open_run(d9_context *context, run *self) {
    d9_status status;
    const d9_train_options *options = self->options;
    uint8_t *plan = NULL;
    size_t plan_size;
    if (options->out) snprintf(self->checkpoint, sizeof self->checkpoint, "%s/checkpoint.safetensors", options->out);
    if (options->out) D9_TRY(d9_record_check(context, options->out, options->config, options->resume));
    if (options->plan) D9_TRY(d9_file_read(context, options->plan, &plan, &plan_size));
    d9_session_options wanted = {.config = options->config,
                                 .seed = options->seed,
                                 .plan = (const char *)plan,
                                 .process_start = options->process_start};
    D9_TRY(d9_session_open(context, &wanted, &self->session));
    D9_TRY(d9_dataset_remark(context, self->session.dataset));
    if (options->save_plan) D9_TRY(save_plan(context, options->save_plan, &self->session));
    D9_TRY(describe_run(context, self));
    D9_TRY(d9_session_initialize(&self->session));
    D9_TRY(resume(context, self));
    if (options->out)
        D9_TRY(d9_record_open(context, &self->record, options->out, options->config, options->resume,
                              self->result->epoch_count));
    if (options->tensorboard)
        D9_TRY(d9_tensorboard_run_open(&self->tensorboard, &self->session, options->tensorboard, self->step));
    D9_TRY(d9_session_lap(&self->session, D9_SEGMENT_SAVE, 0));
    if (options->observer.planned)
        options->observer.planned(options->observer.user, &self->session.program, &self->session.info,
                                  self->result->precision);
done:
    d9_release(context, plan);
    return status;
}

/* ---- an epoch's end ---- */

static double segment_seconds(const d9_timeline *timeline, d9_segment_kind kind, int64_t epoch) {
    double seconds = 0;
    for (int i = 0; i < timeline->count; i++)
        if (timeline->segments[i].kind == kind && timeline->segments[i].epoch == epoch)
            seconds += timeline->segments[i].seconds;
    return seconds;
}

static d9_status read_metrics(d9_session *session, double metrics[4]) {
    return d9_session_read(session, D9_BUFFER_METRICS, metrics);
}

static d9_status check_finite(run *self, const double metrics[4]) {
    if (metrics[3] == 0) return D9_OK;
    int64_t step = (int64_t)metrics[3] - 1;
    return d9_fail(self->session.context, D9_NONFINITE,
                   "the loss became non-finite at step %lld (epoch %lld), seed %llu: a lower train.lr, or a wider "
                   "precision, may help",
                   (long long)(step + 1), (long long)(step / self->session.program.steps_per_epoch + 1),
                   (unsigned long long)self->session.seed);
}

static d9_status evaluate(run *self, int64_t epoch, bool last) {
    d9_status status;
    d9_evaluation_free(self->session.context, &self->latest);
    D9_TRY(d9_session_evaluate(&self->session, &self->latest));
    self->evaluated = true;
    D9_TRY(d9_session_lap(&self->session, last ? D9_SEGMENT_FINAL_EVALUATE : D9_SEGMENT_EVALUATE, epoch));
done:
    return status;
}

static d9_status end_epoch(run *self, int64_t epoch, bool last) {
    d9_status status;
    d9_session *session = &self->session;
    const d9_program *program = &session->program;
    double metrics[4];
    D9_TRY(session->backend->sync(session->context, session->device));
    D9_TRY(d9_session_lap(session, D9_SEGMENT_TRAIN, epoch));
    D9_TRY(read_metrics(session, metrics));
    D9_TRY(check_finite(self, metrics));
    d9_epoch_row row = {.epoch = epoch,
                        .train_loss = metrics[0] / metrics[1],
                        .train_accuracy = 100 * metrics[2] / metrics[1],
                        .accuracy = NAN,
                        .accuracy_tta = NAN};
    row.seconds = segment_seconds(&session->timeline, D9_SEGMENT_TRAIN, epoch);
    row.images_per_second = metrics[1] / row.seconds;
    row.hours = d9_timeline_sum(&session->timeline, d9_clock_find("dawnbench_seconds"), epoch) / 3600;
    row.rate = d9_schedule_at(&self->options->config->train.lr, self->step - 1, program->steps_per_epoch,
                              program->extent.epochs);
    if (d9_evaluation_due(self->options->config, epoch, last)) {
        D9_TRY(evaluate(self, epoch, last));
        row.accuracy = self->latest.accuracy;
        row.accuracy_tta = self->latest.accuracy_tta;
    }
    self->result->epochs[self->result->epoch_count++] = row;
    if (self->options->out) D9_TRY(d9_record_epoch(&self->record, &row, program->views.count > 1));
    if (self->tensorboard.state) D9_TRY(d9_tensorboard_run_epoch(&self->tensorboard, session, self->step, &row));
    if (self->options->observer.epoch) self->options->observer.epoch(self->options->observer.user, program, &row);
    D9_TRY(d9_session_lap(session, D9_SEGMENT_SAVE, epoch));
done:
    return status;
}

/* ---- stopping ---- */

static d9_status checkpoint(run *self) {
    d9_status status;
    const d9_progress_state progress = {self->step, self->result->epochs, self->result->epoch_count};
    if (!self->options->out) return D9_OK;
    D9_TRY(d9_session_lap(&self->session, D9_SEGMENT_TRAIN, self->step / self->session.program.steps_per_epoch + 1));
    D9_TRY(d9_checkpoint_write(&self->session, self->checkpoint, &progress));
    D9_TRY(d9_session_lap(&self->session, D9_SEGMENT_SAVE, 0));
done:
    return status;
}

/* Why the run should stop before its next step: D9_OK when it should not. */
static d9_status stop_reason(const run *self) {
    const d9_train_options *options = self->options;
    if (options->interrupt && *options->interrupt) return *options->interrupt == SIGTERM ? D9_SIGTERM : D9_SIGINT;
    if (options->stop_after_steps && self->step >= options->stop_after_steps) return D9_SIGINT;
    return D9_OK;
}

static d9_status stop(run *self, d9_status why) {
    d9_status status = checkpoint(self);
    if (status != D9_OK) return status;
    return d9_fail(self->session.context, why, "interrupted before step %lld of %lld%s", (long long)self->step + 1,
                   (long long)self->session.program.steps,
                   self->options->out ? ": a checkpoint was written; --resume continues" : "");
}

/* ---- the loop ---- */

static d9_status observe_step(run *self) {
    d9_session *session = &self->session;
    double metrics[4];
    if (!self->options->observer.step) return D9_OK;
    double loss = NAN, seconds = d9_clock_now() - session->mark;
    if (!session->info.asynchronous) { /* its metrics are there without waiting */
        d9_status status = read_metrics(session, metrics);
        if (status == D9_OK) status = check_finite(self, metrics);
        if (status != D9_OK) return status;
        loss = metrics[0] / metrics[1];
    }
    self->options->observer.step(self->options->observer.user, &session->program, self->step, loss, seconds);
    return D9_OK;
}

static d9_status train(run *self) {
    d9_status status = D9_OK;
    d9_session *session = &self->session;
    int64_t per_epoch = session->program.steps_per_epoch, steps = session->program.steps;
    while (self->step < steps) {
        d9_status why = stop_reason(self);
        if (why != D9_OK) return stop(self, why);
        if (self->step % per_epoch == 0) D9_TRY(d9_session_begin_epoch(session, self->step));
        D9_TRY(d9_session_step(session, self->step));
        self->step++;
        D9_TRY(observe_step(self));
        bool last = self->step == steps;
        if (self->step % per_epoch == 0 || last) {
            int64_t epoch = (self->step + per_epoch - 1) / per_epoch, every = self->options->checkpoint_every;
            D9_TRY(end_epoch(self, epoch, last));
            if (every && epoch % every == 0 && !last) D9_TRY(checkpoint(self));
        }
    }
done:
    return status;
}

/* ---- the end ---- */

/* What the folder of the run holds beside its rows; result.json last. */
static d9_status write_record(d9_context *context, run *self) {
    d9_status status;
    d9_session *session = &self->session;
    const d9_config *config = self->options->config;
    char model[600];
    D9_TRY(d9_record_predictions(&self->record, self->latest.top1, self->latest.confidence,
                                 session->dataset->test.labels, session->program.extent.eval_images));
    snprintf(model, sizeof model, "%s/model.safetensors", self->options->out);
    if (config->keep != D9_KEEP_NONE && self->options->write_model) D9_TRY(self->options->write_model(session, model));
    if (config->keep == D9_KEEP_ALL) D9_TRY(checkpoint(self));
    D9_TRY(d9_session_lap(session, D9_SEGMENT_SAVE, 0));
    D9_TRY(d9_record_result(&self->record, self->result));
    if (config->keep != D9_KEEP_ALL) context->system->remove(context->system->user, self->checkpoint);
done:
    return status;
}

static d9_status finish(d9_context *context, run *self) {
    d9_status status;
    d9_session *session = &self->session;
    d9_result *result = self->result;
    if (!self->evaluated) D9_TRY(evaluate(self, result->epoch_count, true)); /* resumed after the last step */
    result->accuracy = self->latest.accuracy;
    result->accuracy_tta = self->latest.accuracy_tta;
    for (int64_t i = result->epoch_count; i-- > 0;)
        if (result->epochs[i].accuracy_tta >= self->options->config->target)
            result->epoch_to_target = result->epochs[i].epoch;
    D9_TRY(d9_session_params_sha256(session, result->params_sha256));
    result->timeline = &session->timeline;
    if (self->options->out) D9_TRY(write_record(context, self));
    if (self->options->finished) D9_TRY(self->options->finished(self->options->observer.user, session));
done:
    return status;
}

/* The result outlives the session, so it takes over the timeline. */
static d9_status keep_timeline(d9_context *context, run *self) {
    d9_timeline *timeline;
    const d9_status status = D9_ARENA_ALLOCATE(context, &self->result->arena, 1, &timeline);
    self->result->timeline = timeline;
    if (status != D9_OK) return status;
    *timeline = self->session.timeline;
    self->session.timeline = (d9_timeline){0};
    return D9_OK;
}

d9_status d9_train(d9_context *context, const d9_train_options *options, d9_result *result) {
    d9_status status;
    run self = {.options = options, .result = result};
    memset(result, 0, sizeof *result);
    D9_TRY(open_run(context, &self));
    D9_TRY(train(&self));
    D9_TRY(finish(context, &self));
    D9_TRY(keep_timeline(context, &self));
done:
    d9_evaluation_free(context, &self.latest);
    d9_tensorboard_run_close(context, &self.tensorboard);
    d9_session_close(&self.session);
    if (status != D9_OK) {
        result->timeline = NULL; /* it went with the session */
        d9_result_free(context, result);
    }
    return status;
}

void d9_result_free(d9_context *context, d9_result *result) {
    if (result->timeline) d9_timeline_free((d9_timeline *)result->timeline);
    d9_arena_free(context, &result->arena);
    memset(result, 0, sizeof *result);
}
