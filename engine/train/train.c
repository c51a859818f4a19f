/* The training run: a loop over the program's steps, with evaluations, checkpoints and the record. */
#include "core/system.h"
#include "train/trainer_parts.h"
#include "train/evaluation.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct run {                 /* a run in progress */
    const d9_train_options *options; /* as given on rank 0; on other processes those of without_output */
    d9_parallel *parallel;
    bool writes;  /* rank 0 has a record on disk */
    bool resumes; /* a checkpoint is to be read */
    d9_record_mode mode;
    d9_session session;
    d9_record record;
    d9_tensorboard_run tensorboard;
    d9_result *result;
    double rate_factor;    /* factor by which train.plateau has multiplied the learning rates so far */
    int64_t step;          /* the next step */
    int64_t gathered_step; /* step at which every process last had the running statistics of all; -1: never */
    int64_t saved_step;    /* step of the last checkpoint; 0: none */
    double saved_seconds;  /* time of the last try to write a checkpoint, or of the start; CLOCK_MONOTONIC */
    d9_evaluation latest;
    bool evaluated;                       /* `latest` is set */
    bool unreported;                      /* the epoch of the last row is trained, but not yet evaluated and recorded */
    char checkpoint[600], lock_path[600]; /* paths of the files; "" without a record */
    int lock;                             /* handle of the lock; -1: not held */
} run;

/* ---- opening ---- */

/* Fails with the number of the process that holds the lock; waits up to 0.1 s until that process has written it. */
static d9_status fail_locked(d9_context *context, const run *self) {
    const struct timespec pause = {.tv_nsec = 5000000};
    char who[48] = "another process";
    int64_t holder = d9_lock_holder(context, self->lock_path);
    for (int tries = 0; holder == 0 && tries < 20; tries++) {
        nanosleep(&pause, NULL);
        holder = d9_lock_holder(context, self->lock_path);
    }
    if (holder > 0) snprintf(who, sizeof who, "process %lld", (long long)holder);
    return d9_fail(context, D9_USAGE, "%s: %s is training in this folder; wait for its end, or give another --out",
                   self->options->out, who);
}

/* Checks the folder before the data are read, without writing to it. */
static d9_status check_folder(d9_context *context, run *self) {
    const d9_train_options *options = self->options;
    if (options->resume && options->overwrite)
        return d9_fail(context, D9_USAGE, "a run is resumed or overwritten, not both");
    if (!options->out) return D9_OK;
    snprintf(self->checkpoint, sizeof self->checkpoint, "%s/checkpoint.safetensors", options->out);
    snprintf(self->lock_path, sizeof self->lock_path, "%s/lock", options->out);
    if (d9_directory_check(context, options->out) != D9_OK) return D9_OUTPUT;
    if (!options->locked && d9_lock_is_held(context, self->lock_path)) return fail_locked(context, self);
    return d9_record_check(context, options->out, options->config, self->mode);
}

/* Makes the folder, locks it for this process unless the caller did, and removes partial files. */
static d9_status lock_folder(d9_context *context, run *self) {
    d9_status status = D9_OK;
    const d9_train_options *options = self->options;
    if (!options->out) goto done;
    D9_TRY(d9_directory_make(context, options->out));
    if (!options->locked) D9_TRY(d9_lock_take(context, self->lock_path, &self->lock));
    if (!options->locked && self->lock < 0) D9_TRY(fail_locked(context, self));
    d9_record_remove_partial(context, options->out);
done:
    return status;
}

static d9_status save_plan(d9_context *context, const char *path, const d9_session *session) {
    d9_status status;
    d9_text text;
    d9_text_init(context, &text);
    d9_session_add_train_plans(session, &text);
    if (session->eval_plan) d9_text_add(&text, "%s", session->backend->plan_text(session->eval_plan));
    D9_TRY(d9_text_status(&text));
    D9_TRY(d9_file_write(context, path, d9_text_get(&text), text.size));
done:
    d9_text_free(&text);
    return status;
}

static d9_status describe_dataset(d9_context *context, const d9_dataset *data, d9_result *result) {
    d9_status status;
    D9_TRY(d9_arena_copy_all(context, &result->arena, data->class_names, data->classes, &result->class_names));
    result->classes = data->classes;
    result->channels = data->channels;
    memcpy(result->mean, data->mean, sizeof result->mean);
    memcpy(result->std, data->std, sizeof result->std);
done:
    return status;
}

static d9_status describe_run(d9_context *context, run *self) {
    d9_status status;
    d9_result *result = self->result;
    const d9_session *session = &self->session;
    const d9_program *program = &session->program;
    char *plan;
    d9_text text;
    d9_text_init(context, &text);
    result->seed = session->seed;
    result->config = session->config;
    d9_config_hash(context, session->config, result->config_hash);
    d9_session_add_train_plans(session, &text);
    D9_TRY(d9_text_status(&text));
    D9_TRY(d9_arena_copy(context, &result->arena, d9_text_get(&text), &plan));
    result->plan_text = plan;
    d9_sha256_hex(&(d9_bytes){plan, strlen(plan)}, 1, result->plan_sha256);
    snprintf(result->backend, sizeof result->backend, "%s", session->backend->name);
    snprintf(result->precision, sizeof result->precision, "%s", program->precision->name);
    result->device = session->info;
    result->batch = program->extent.batch;
    result->ranks = d9_extent_ranks(&program->extent);
    result->steps = program->steps;
    result->train_images = program->extent.train_samples;
    result->eval_images = program->extent.eval_samples;
    result->parameters = program->trainable_count + program->frozen_count;
    result->views = program->views.count;
    result->train_operations = d9_train_operations(program, 0);
    result->evaluation_operations = d9_evaluation_operations(program);
    result->score = result->score_tta = NAN;
    D9_TRY(
        D9_ARENA_ALLOCATE(context, &result->arena, d9_program_epochs_begun(program, program->steps), &result->epochs));
    D9_TRY(describe_dataset(context, session->dataset, result));
done:
    d9_text_free(&text);
    return status;
}

/* Sets `resumes` of every process to true if rank 0 has a checkpoint to read, else to false. */
static d9_status find_checkpoint(d9_context *context, run *self) {
    int found = self->options->resume && self->checkpoint[0] && d9_file_exists(context, self->checkpoint);
    const d9_status status = d9_parallel_maximum(context, self->parallel, &found);
    self->resumes = found != 0;
    return status;
}

static bool keeps_best(const run *self) { return self->options->config->keep == D9_KEEP_BEST; }

/* True if keep is `best` and the newest row's score is better than all earlier ones: its model is to be kept. */
static bool is_newest_best(const run *self) {
    return keeps_best(self) && d9_best_row(self->result) == self->result->epoch_count - 1;
}

/* Multiplies the learning rates of the further steps by train.plateau if the newest of `rows` rows was evaluated and is
 * not the best. */
static d9_status lower_rates(run *self, int64_t rows) {
    const double factor = self->options->config->train.plateau;
    const bool evaluated = !isnan(d9_deciding_score(self->result, rows - 1));
    if (factor == 1 || !evaluated || d9_best_of(self->result, rows) == rows - 1) return D9_OK;
    self->rate_factor *= factor;
    return d9_session_scale_rates(&self->session, factor);
}

/* Reads the hash of the kept model of a resumed run with keep: best. Fails if the model is not that of the best epoch
 * so far, as may happen after a change of eval.tta. A model of an epoch after the checkpoint's last row is accepted:
 * that epoch is reported again. */
static d9_status read_kept_hash(d9_context *context, run *self) {
    d9_status status = D9_OK;
    int64_t kept;
    if (!self->options->out || !keeps_best(self) || d9_best_row(self->result) < 0) goto done;
    const int64_t best = self->result->epochs[d9_best_row(self->result)].epoch;
    D9_TRY(d9_record_read_kept(context, self->options->out, self->result->params_sha256, &kept));
    if (!*self->result->params_sha256 ||
        (kept > 0 && kept != best && kept <= self->result->epoch_count - self->unreported))
        D9_TRY(d9_fail(context, D9_USAGE,
                       "%s: the model of the best epoch so far, %lld, was not kept; resume with the eval.tta from "
                       "before or with another `keep`, or --overwrite trains the run again",
                       self->options->out, (long long)best));
done:
    return status;
}

static d9_status resume(d9_context *context, run *self) {
    d9_status status;
    const d9_program *program = &self->session.program;
    d9_progress_state progress = {.epochs = self->result->epochs};
    if (!self->resumes) return D9_OK;
    D9_TRY(d9_checkpoint_read(&self->session, self->checkpoint, d9_program_epochs_begun(program, program->steps),
                              &progress));
    self->step = self->saved_step = progress.step;
    self->result->epoch_count = progress.epoch_count;
    self->result->resumed = true;
    for (int64_t rows = 1; rows <= progress.epoch_count; rows++) D9_TRY(lower_rates(self, rows));
    if (self->step % program->steps_per_epoch && self->step < program->steps) {
        D9_TRY(d9_session_begin_epoch(&self->session, self->step));
    } else if (progress.epoch_count > 0) { /* the evaluation of the last epoch may have been interrupted */
        self->unreported = isnan(progress.epochs[progress.epoch_count - 1].score);
    }
    D9_TRY(read_kept_hash(context, self));
done:
    return status;
}

/* Loads the weights of train.from, unless the run resumes from a checkpoint. The clocks count it as initialisation. */
static d9_status load_initial_weights(run *self) {
    d9_status status = D9_OK;
    const char *path = self->options->config->train.from;
    if (!path || self->resumes) return D9_OK;
    if (!self->options->load_weights || strncmp(path, D9_FROM_RECORD, strlen(D9_FROM_RECORD)) == 0)
        D9_TRY(d9_fail(self->session.context, D9_USAGE,
                       "train.from: %s only identifies the weights of a recorded run; give their file", path));
    D9_TRY(self->options->load_weights(&self->session, path));
    D9_TRY(d9_session_lap(&self->session, D9_SEGMENT_INIT, 0));
done:
    return status;
}

static d9_status open_run(d9_context *context, const d9_train_options *given, run *self) {
    d9_status status;
    const d9_train_options *options = self->options;
    uint8_t *plan = NULL;
    size_t plan_size;
    D9_TRY(check_folder(context, self));
    if (options->plan) D9_TRY(d9_file_read(context, options->plan, &plan, &plan_size));
    d9_session_options wanted = {.config = options->config,
                                 .seed = options->seed,
                                 .plan = (const char *)plan,
                                 .process_start = options->process_start,
                                 .parallel = self->parallel,
                                 .observer = options->observer};
    D9_TRY(d9_session_open(context, &wanted, &self->session));
    D9_TRY(d9_session_warn(&self->session));
    if (options->save_plan) D9_TRY(save_plan(context, options->save_plan, &self->session));
    D9_TRY(describe_run(context, self));
    D9_TRY(d9_together_check_same_run(&self->session, given));
    D9_TRY(d9_session_load_code(&self->session)); /* runs collective sums, so the processes must agree before */
    D9_TRY(find_checkpoint(context, self));
    D9_TRY(d9_session_initialize(&self->session));
    D9_TRY(load_initial_weights(self));
    D9_TRY(lock_folder(context, self));
    D9_TRY(resume(context, self));
    if (options->out)
        D9_TRY(d9_record_open(context, &self->record, options->out, options->config, self->mode, self->result->epochs,
                              self->result->epoch_count - self->unreported, self->session.program.views.count));
    if (options->tensorboard) /* TensorBoard drops earlier events from this step on; the last epoch's event stays */
        D9_TRY(d9_tensorboard_run_open(&self->tensorboard, &self->session, options->tensorboard,
                                       self->step + (self->step > 0 && !self->unreported)));
    if (options->ready) D9_TRY(options->ready(options->observer.user, &self->session));
    D9_TRY(d9_session_lap(&self->session, D9_SEGMENT_SAVE, 0));
    self->saved_seconds = self->session.mark;
    if (options->observer.planned)
        options->observer.planned(options->observer.user, &self->session.program, &self->session.info,
                                  self->session.precision_why);
    if (self->result->resumed && options->observer.resumed)
        options->observer.resumed(options->observer.user, self->step, self->result->epochs,
                                  self->result->epoch_count - self->unreported);
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

static d9_status check_finite(run *self, const double metrics[4]) {
    if (metrics[3] == 0) return D9_OK;
    int64_t step = (int64_t)metrics[3] - 1;
    return d9_fail(self->session.context, D9_NONFINITE,
                   "the loss became non-finite at step %lld (epoch %lld): a lower train.lr, or a wider precision, may "
                   "help",
                   (long long)(step + 1), (long long)(step / self->session.program.steps_per_epoch + 1));
}

/* Evaluates with all views, or only the plain view. A failed or interrupted evaluation belongs to no epoch in the
 * timeline, so that it is not taken for the final one: the resumed run repeats it. */
static d9_status evaluate(run *self, bool all_views, d9_segment_kind kind, int64_t epoch) {
    d9_status status, lap;
    d9_evaluation_free(self->session.context, &self->latest);
    status = (all_views ? d9_session_evaluate : d9_session_evaluate_plain)(&self->session, &self->latest);
    self->evaluated = status == D9_OK;
    lap = d9_session_lap(&self->session, self->evaluated ? kind : D9_SEGMENT_EVALUATE, self->evaluated ? epoch : 0);
    return status == D9_OK ? lap : status;
}

/* Gives every process the running statistics of all processes, at most once per step. */
static d9_status gather_state(run *self) {
    if (self->gathered_step == self->step) return D9_OK;
    self->gathered_step = self->step;
    return d9_together_gather_state(&self->session);
}

/* Adds the row of the epoch whose training has just ended. */
static d9_status add_row(run *self, int64_t epoch) {
    d9_status status;
    d9_session *session = &self->session;
    const d9_program *program = &session->program;
    const int64_t first = (epoch - 1) * program->steps_per_epoch; /* first step of the epoch */
    double metrics[4];
    D9_TRY(d9_session_lap(session, D9_SEGMENT_TRAIN, epoch));
    D9_TRY(d9_together_metrics(session, metrics));
    D9_TRY(check_finite(self, metrics));
    D9_TRY(gather_state(self));
    d9_epoch_row row = {.epoch = epoch,
                        .train_loss = metrics[0] / metrics[1],
                        .train_accuracy = d9_session_is_multilabel(session) ? NAN : 100 * metrics[2] / metrics[1],
                        .score = NAN,
                        .score_tta = NAN,
                        .eval_loss = NAN};
    row.seconds = segment_seconds(&session->timeline, D9_SEGMENT_TRAIN, epoch);
    row.images_per_second = (double)((self->step - first) * program->extent.batch) / row.seconds;
    row.hours = d9_timeline_sum(&session->timeline, d9_clock_find("dawnbench_seconds"), epoch) / 3600;
    row.learning_rate =
        self->rate_factor * d9_program_rate(program, &self->options->config->train.lr, program->extent.epochs,
                                            d9_program_step_before(program, self->step));
    self->result->epochs[self->result->epoch_count++] = row;
    self->unreported = true;
done:
    return status;
}

static d9_status write_model(run *self) {
    char path[600];
    snprintf(path, sizeof path, "%s/model.safetensors", self->options->out);
    return self->options->out && self->options->write_model ? self->options->write_model(&self->session, path) : D9_OK;
}

static d9_status call_kept(run *self) {
    return self->options->kept ? self->options->kept(self->options->observer.user, &self->session) : D9_OK;
}

static d9_status write_predictions(run *self) {
    d9_session *session = &self->session;
    const int64_t count = self->latest.top1 ? session->program.extent.eval_samples : 0; /* a stream has none */
    return self->options->out ? d9_record_predictions(&self->record, self->latest.top1, self->latest.confidence,
                                                      session->dataset->test.labels, count, self->result->params_sha256,
                                                      self->result->epoch_count)
                              : D9_OK;
}

/* Copies the scores of the labels from the latest evaluation, if the measure has such scores. */
static d9_status keep_label_scores(run *self) {
    d9_status status = D9_OK;
    const d9_dataset *data = self->session.dataset;
    d9_result *result = self->result;
    double *scores;
    int64_t *images;
    if (!self->latest.by_label) return D9_OK;
    D9_TRY(D9_ARENA_ALLOCATE(self->session.context, &result->arena, data->classes, &scores));
    D9_TRY(D9_ARENA_ALLOCATE(self->session.context, &result->arena, data->classes, &images));
    memcpy(scores, self->latest.by_label, (size_t)data->classes * sizeof *scores);
    d9_dataset_class_counts(data, &data->test, images);
    result->by_label = scores;
    result->label_images = images;
done:
    return status;
}

/* Keeps the model of the epoch that was just evaluated, with its hash, its predictions and its scores by label. */
static d9_status keep_epoch(run *self) {
    d9_status status;
    D9_TRY(d9_session_params_sha256(&self->session, self->result->params_sha256));
    D9_TRY(write_model(self));
    D9_TRY(write_predictions(self));
    D9_TRY(keep_label_scores(self));
    D9_TRY(call_kept(self));
done:
    return status;
}

/* Evaluates the epoch of the newest row if an evaluation is due: with all views if eval.tta asks for them, at the end
 * of the run, and for a model that is to be kept. */
static d9_status evaluate_epoch(run *self, bool last) {
    d9_status status = D9_OK;
    d9_epoch_row *row = &self->result->epochs[self->result->epoch_count - 1];
    const d9_config *config = self->options->config;
    if (!d9_evaluation_due(config, row->epoch, last)) return D9_OK;
    const bool all = d9_evaluation_has_all_views(config, last);
    D9_TRY(evaluate(self, all, last ? D9_SEGMENT_FINAL_EVALUATE : D9_SEGMENT_EVALUATE, row->epoch));
    row->score = self->latest.score;
    row->eval_loss = self->latest.loss;
    const bool stops = d9_out_of_patience(self->result);
    if (isnan(self->latest.score_tta) && (stops || is_newest_best(self)))
        D9_TRY(evaluate(self, true, stops ? D9_SEGMENT_FINAL_EVALUATE : D9_SEGMENT_EVALUATE, row->epoch));
    row->score_tta = self->latest.score_tta;
done:
    return status;
}

/* Makes the newest row that of an epoch without evaluation, in the timeline too: the resumed run evaluates it. */
static void forget_evaluation(run *self) {
    d9_epoch_row *row = &self->result->epochs[self->result->epoch_count - 1];
    const d9_timeline *timeline = &self->session.timeline;
    row->score = row->score_tta = row->eval_loss = NAN;
    for (int i = 0; i < timeline->count; i++) {
        d9_segment *segment = &timeline->segments[i];
        const bool evaluates = segment->kind == D9_SEGMENT_EVALUATE || segment->kind == D9_SEGMENT_FINAL_EVALUATE;
        if (evaluates && segment->epoch == row->epoch) segment->kind = D9_SEGMENT_EVALUATE, segment->epoch = 0;
    }
}

/* Ends the newest epoch: evaluates it and records its row. After an interrupt or a failure the resumed run repeats all
 * of this. */
static d9_status report_epoch(run *self) {
    d9_status status;
    d9_session *session = &self->session;
    const d9_program *program = &session->program;
    d9_epoch_row *row = &self->result->epochs[self->result->epoch_count - 1];
    const double factor = self->rate_factor; /* the factor in this epoch */
    D9_TRY(evaluate_epoch(self, self->step == program->steps));
    D9_TRY(lower_rates(self, self->result->epoch_count));
    if (is_newest_best(self)) D9_TRY(keep_epoch(self));
    if (self->options->out) D9_TRY(d9_record_epoch(&self->record, row, program->measure, program->views.count));
    if (self->tensorboard.state) D9_TRY(d9_tensorboard_run_epoch(&self->tensorboard, session, self->step, factor, row));
    if (self->options->observer.epoch) self->options->observer.epoch(self->options->observer.user, program, row);
    D9_TRY(d9_session_lap(session, D9_SEGMENT_SAVE, row->epoch));
    self->unreported = false;
done:
    if (status != D9_OK) forget_evaluation(self);
    return status;
}

/* ---- checkpoints ---- */

static void publish_unsaved_steps(const run *self) {
    if (self->options->unsaved_steps) *self->options->unsaved_steps = (sig_atomic_t)(self->step - self->saved_step);
}

/* Writes a checkpoint. `epoch`: the epoch that its time is counted in; 0: none. */
static d9_status write_checkpoint(run *self, int64_t epoch) {
    d9_status status = D9_OK;
    const d9_progress_state progress = {
        .step = self->step, .epochs = self->result->epochs, .epoch_count = self->result->epoch_count};
    if (!self->writes) goto done;
    D9_TRY(gather_state(self));
    D9_TRY(d9_checkpoint_write(&self->session, self->options->out ? self->checkpoint : NULL, &progress));
    D9_TRY(d9_session_lap(&self->session, D9_SEGMENT_SAVE, epoch));
    self->saved_step = self->step;
    self->saved_seconds = self->session.mark;
    publish_unsaved_steps(self);
done:
    return status;
}

/* Writes a checkpoint after an epoch if one is due. That takes 0.47 s for dawn94 (79 MB, synced; two Zen 5 cores), 1.6%
 * of the default interval. If it cannot be written, the run continues with the previous checkpoint. */
static d9_status checkpoint_if_due(run *self, int64_t epoch) {
    enum { SECONDS = 30 };
    const d9_train_options *options = self->options;
    d9_context *context = self->session.context;
    const double seconds = options->checkpoint_seconds > 0 ? options->checkpoint_seconds : SECONDS;
    int due = options->checkpoint_every ? epoch % options->checkpoint_every == 0
                                        : self->session.mark - self->saved_seconds >= seconds;
    d9_status status = d9_parallel_maximum(context, self->parallel, &due);
    if (status == D9_OK && due) status = write_checkpoint(self, epoch);
    if (status != D9_OUTPUT) return status;
    d9_log(context, D9_LOG_WARNING, "%s; the run continues without this checkpoint", context->message);
    d9_context_clear(context);
    self->saved_seconds = self->session.mark;
    return d9_session_lap(&self->session, D9_SEGMENT_SAVE, epoch);
}

/* After a failure, tries to write a checkpoint, unless the last step already has one. Returns the first error. With
 * several processes there is no such checkpoint, because only rank 0 knows of the failure. */
static d9_status save_after(run *self, d9_status failure) {
    const bool saves = failure != D9_OK && self->saved_step < self->step && d9_parallel_ranks(self->parallel) == 1;
    const d9_status saved = saves ? write_checkpoint(self, 0) : D9_OK;
    return failure != D9_OK ? failure : saved;
}

/* ---- stopping ---- */

/* The status with which the run stops before its next step; D9_OK: the run continues. It never stops between the
 * batches of an update. Several processes decide together: before each step if the device is synchronous, otherwise
 * before steps whose number within the epoch, from 0, is a multiple of 50. */
static d9_status stop_reason(const run *self) {
    enum { STEPS = 50 };
    const d9_train_options *options = self->options;
    const d9_session *session = &self->session;
    int signal = d9_context_interrupt(session->context);
    if (self->step % session->program.accumulate != 0) return D9_OK;
    const bool waits = !session->info.asynchronous || self->step % session->program.steps_per_epoch % STEPS == 0;
    if (d9_parallel_ranks(self->parallel) > 1 && !waits) return D9_OK;
    const d9_status status = d9_parallel_maximum(session->context, self->parallel, &signal);
    if (status != D9_OK) return status;
    if (signal) return (d9_status)(128 + signal);
    if (options->stop_after_steps && self->step >= options->stop_after_steps) return D9_SIGINT;
    return D9_OK;
}

static d9_status stop(run *self, d9_status why) {
    d9_status status;
    d9_session *session = &self->session;
    const bool last = self->step == session->program.steps; /* interrupted in the final evaluation */
    const int64_t epoch = (last ? self->step - 1 : self->step) / session->program.steps_per_epoch + 1;
    d9_context_clear(session->context);
    D9_TRY(d9_session_lap(session, D9_SEGMENT_TRAIN, epoch));
    D9_TRY(write_checkpoint(self, 0));
    if (self->parallel) self->parallel->together = true;
    status = d9_fail(session->context, why, "interrupted %s step %lld of %lld%s", last ? "after" : "before",
                     (long long)self->step + !last, (long long)session->program.steps,
                     self->writes ? ": a checkpoint was written; --resume continues" : "");
done:
    return status;
}

/* ---- the loop ---- */

static d9_status observe_step(run *self) {
    d9_session *session = &self->session;
    double metrics[4];
    publish_unsaved_steps(self);
    if (!self->options->observer.step) return D9_OK;
    double loss = NAN, seconds = d9_clock_now() - session->mark;
    if (!session->info.asynchronous) { /* not for asynchronous devices, because reading metrics would wait for them */
        d9_status status = d9_session_read(session, D9_BUFFER_METRICS, metrics);
        if (status == D9_OK) status = check_finite(self, metrics);
        if (status != D9_OK) return status;
        loss = metrics[0] / metrics[1];
    }
    self->options->observer.step(self->options->observer.user, &session->program, self->step, loss, seconds);
    return D9_OK;
}

/* Runs the next step, and the end of its epoch if it is the last step of one. */
static d9_status advance(run *self) {
    d9_status status;
    d9_session *session = &self->session;
    const int64_t per_epoch = session->program.steps_per_epoch;
    D9_TRY(stop_reason(self));
    if (self->step % per_epoch == 0) D9_TRY(d9_session_begin_epoch(session, self->step));
    D9_TRY(d9_session_step(session, self->step));
    self->step += d9_program_batches(&session->program, self->step);
    D9_TRY(observe_step(self));
    const bool last = self->step == session->program.steps;
    if (self->step % per_epoch != 0 && !last) goto done;
    const int64_t epoch = d9_program_epochs_begun(&session->program, self->step);
    D9_TRY(add_row(self, epoch));
    D9_TRY(report_epoch(self));
    if (!last) D9_TRY(checkpoint_if_due(self, epoch));
done:
    return status;
}

static d9_status train(run *self) {
    d9_status status = self->unreported ? report_epoch(self) : D9_OK;
    while (status == D9_OK && self->step < self->session.program.steps && !d9_out_of_patience(self->result))
        status = advance(self);
    if (status == D9_OUTPUT) return save_after(self, status); /* a file of the record could not be written */
    return d9_status_is_interrupt(status) ? stop(self, status) : status;
}

/* ---- the end ---- */

/* Writes predictions (unless keep: best, with which keep_epoch wrote them), model and checkpoint as configured, then
 * result.json; removes the checkpoint unless it is kept. */
static d9_status write_record(d9_context *context, run *self) {
    d9_status status;
    d9_session *session = &self->session;
    const d9_config *config = self->options->config;
    if (!keeps_best(self)) D9_TRY(write_predictions(self));
    if (config->keep == D9_KEEP_MODEL || config->keep == D9_KEEP_ALL) D9_TRY(write_model(self));
    if (config->keep == D9_KEEP_ALL) D9_TRY(write_checkpoint(self, 0));
    D9_TRY(d9_session_lap(session, D9_SEGMENT_SAVE, 0));
    if (!self->options->out) goto done;
    D9_TRY(d9_record_result(&self->record, self->result));
    if (config->keep != D9_KEEP_ALL) context->system->remove(context->system->user, self->checkpoint);
done:
    return status;
}

/* Corrects the result of a run that stopped early by patience: steps and operations become those done. The evaluation
 * of the last epoch becomes the final one of the timeline, unless the epoch has a final evaluation already. A resumed
 * run may have repeated the evaluation; the first one is taken. */
static void correct_early_result(run *self) {
    d9_result *result = self->result;
    d9_segment *segments = self->session.timeline.segments, *found = NULL;
    for (int i = 0; i < self->session.timeline.count; i++)
        if (segments[i].epoch == result->epoch_count &&
            (segments[i].kind == D9_SEGMENT_FINAL_EVALUATE || (segments[i].kind == D9_SEGMENT_EVALUATE && !found)))
            found = &segments[i];
    if (found) found->kind = D9_SEGMENT_FINAL_EVALUATE;
    result->train_operations -= d9_train_operations(&self->session.program, self->step);
    result->steps = self->step;
}

/* Sets the scores and the hash of the model that the run keeps: of the last epoch or, with keep: best, of the best
 * one. */
static d9_status describe_model(run *self) {
    d9_status status = D9_OK;
    d9_result *result = self->result;
    if (keeps_best(self)) { /* keep_epoch or read_kept_hash has set the hash */
        const d9_epoch_row *best = &result->epochs[d9_best_row(result)];
        result->best_epoch = best->epoch;
        result->score = best->score;
        result->score_tta = best->score_tta;
        goto done;
    }
    if (!self->evaluated) /* resumed after the last step: the timeline already has the final evaluation */
        D9_TRY(evaluate(self, true, D9_SEGMENT_EVALUATE, result->epoch_count));
    result->score = self->latest.score;
    result->score_tta = self->latest.score_tta;
    D9_TRY(keep_label_scores(self));
    D9_TRY(d9_session_params_sha256(&self->session, result->params_sha256));
done:
    return status;
}

static d9_status finish(d9_context *context, run *self) {
    d9_status status;
    d9_session *session = &self->session;
    d9_result *result = self->result;
    D9_TRY(describe_model(self));
    if (self->step < session->program.steps) correct_early_result(self);
    result->epoch_to_target = d9_epoch_to_target(result);
    snprintf(result->data_digest, sizeof result->data_digest, "%s", d9_session_data_digest(session));
    result->no_test = session->dataset->no_test;
    if (session->dataset->provenance.test_digest)
        snprintf(result->test_digest, sizeof result->test_digest, "%016llx",
                 (unsigned long long)session->dataset->provenance.test_digest);
    result->timeline = &session->timeline;
    if (self->writes) D9_TRY(save_after(self, write_record(context, self)));
    if (!keeps_best(self)) D9_TRY(call_kept(self));
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

/* The options of a process other than rank 0, which writes and reports nothing. */
static d9_train_options without_output(const d9_train_options *options) {
    d9_train_options own = *options;
    own.out = own.save_plan = own.tensorboard = NULL;
    own.observer = (d9_observer){0};
    own.ready = own.kept = NULL;
    return own;
}

d9_status d9_train(d9_context *context, const d9_train_options *given, d9_result *result) {
    d9_status status;
    const d9_train_options options_of_rank = d9_parallel_rank(given->parallel) > 0 ? without_output(given) : *given,
                           *options = &options_of_rank;
    run self = {.options = options,
                .parallel = given->parallel,
                .writes = given->out != NULL,
                .result = result,
                .rate_factor = 1,
                .gathered_step = -1,
                .lock = -1};
    self.mode = options->overwrite ? D9_RECORD_OVERWRITE : options->resume ? D9_RECORD_RESUME : D9_RECORD_NEW;
    memset(result, 0, sizeof *result);
    publish_unsaved_steps(&self);
    D9_TRY(open_run(context, given, &self));
    D9_TRY(train(&self));
    D9_TRY(finish(context, &self));
    D9_TRY(keep_timeline(context, &self));
    if (options->unsaved_steps) *options->unsaved_steps = 0; /* the model is written, or was not requested */
done:
    d9_evaluation_free(context, &self.latest);
    d9_tensorboard_run_close(context, &self.tensorboard);
    d9_session_close(&self.session);
    d9_lock_free(context, self.lock_path, self.lock);
    if (status != D9_OK) {
        result->timeline = NULL; /* freed with the session */
        d9_result_free(context, result);
    }
    return status;
}

void d9_result_free(d9_context *context, d9_result *result) {
    if (result->timeline) d9_timeline_free((d9_timeline *)result->timeline);
    d9_arena_free(context, &result->arena);
    memset(result, 0, sizeof *result);
}
