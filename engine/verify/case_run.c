/* Runs a reference case. A training case runs through the trainer's session and step program, with the case's batch in
 * every step, or the next tokens of its stream. An augmentation case runs only the node that makes a batch, with the
 * random draws of the file. */
#include "verify/case_run.h"
#include "core/system.h"
#include "exchange/exchange.h"
#include "train/evaluation.h"
#include <stdio.h>
#include <string.h>

d9_status d9_recorded_tensors_add(d9_context *context, d9_recorded_tensors *self, const char *prefix, const char *name,
                                  int64_t count, double **values) {
    d9_status status;
    char *full;
    D9_TRY(D9_ARENA_GROW(context, &self->arena, self->count, &self->capacity, &self->rows));
    D9_TRY(d9_arena_format(context, &self->arena, &full, "%s%s", prefix, name));
    D9_TRY(D9_ARENA_ALLOCATE(context, &self->arena, count, values));
    self->rows[self->count++] = (d9_recorded_tensor){full, *values, count};
done:
    return status;
}

const d9_recorded_tensor *d9_recorded_tensors_find(const d9_recorded_tensors *self, const char *name) {
    for (int i = 0; i < self->count; i++)
        if (strcmp(self->rows[i].name, name) == 0) return &self->rows[i];
    return NULL;
}

void d9_recorded_tensors_free(d9_context *context, d9_recorded_tensors *self) {
    d9_arena_free(context, &self->arena);
    memset(self, 0, sizeof *self);
}

/* ---- the session ---- */

/* Opens a session with the case's batch and configuration; other fields of `session_options` are kept. */
static d9_status open_session(d9_context *context, const d9_reference_case *reference,
                              const d9_case_run_options *options, d9_session_options *session_options,
                              d9_config *config, d9_session *session) {
    d9_status status;
    D9_TRY(d9_reference_case_dataset(context, reference, &session_options->dataset));
    *config = *reference->config;
    config->backend = options->backend;
    config->precision = options->precision;
    config->threads = options->threads;
    config->backend_options.tune = D9_TUNE_OFF; /* always the same plan */
    session_options->config = config;
    session_options->seed = 1;
    session_options->program.keep_all = true;
    D9_TRY(d9_session_open(context, session_options, session));
    status = d9_reference_case_check_norms(context, reference, &session->program.train);
    if (status != D9_OK) d9_session_close(session);
done:
    return status;
}

static void perturb(double *values, int64_t count, const d9_case_run_options *options) {
    for (int64_t i = 0; i < count && options->perturbation > 0; i++) {
        d9_philox random = d9_philox4x32_10((uint64_t)options->perturbation, (uint32_t)i, 0, D9_STREAM_INIT, 1);
        values[i] *= 1 + ldexp(2 * random.v[0] / 4294967296.0 - 1, options->perturbation_exponent);
    }
}

static d9_status load_parameter(d9_session *session, const d9_reference_case *reference,
                                const d9_case_run_options *options, const d9_value *value, double *state) {
    d9_status status;
    const char *name = d9_reference_case_name_in_file(reference, value->name);
    const d9_tensor *tensor = d9_reference_case_initial(reference, name);
    const d9_shape shape = d9_exchange_shape(value);
    double *file_values = NULL;
    if (!tensor || !d9_shape_equal(&tensor->shape, &shape))
        return d9_fail(session->context, D9_DATA, "case %s: init/%s is missing or has another shape", reference->name,
                       name);
    D9_TRY(D9_ALLOCATE(session->context, d9_shape_count(&shape), "initial weights", &file_values));
    d9_tensor_to_doubles(tensor, file_values);
    perturb(file_values, d9_shape_count(&shape), options);
    d9_exchange_put_state(&session->program.train, value, file_values, state);
done:
    d9_release(session->context, file_values);
    return status;
}

static d9_status load_initial(d9_session *session, const d9_reference_case *reference,
                              const d9_case_run_options *options) {
    d9_status status;
    const d9_graph *graph = &session->program.train;
    double *state = NULL;
    D9_TRY(D9_ALLOCATE(session->context, session->program.state_elements, "state", &state));
    D9_TRY(d9_session_read_state(session, D9_BUFFER_STATE, state));
    for (int v = 0; v < graph->value_count; v++)
        if (graph->values[v].kind == D9_VALUE_PARAMETER)
            D9_TRY(load_parameter(session, reference, options, &graph->values[v], state));
    D9_TRY(d9_session_set_state(session, state));
done:
    d9_release(session->context, state);
    return status;
}

d9_status d9_case_session_open(d9_context *context, const d9_reference_case *reference,
                               const d9_case_run_options *options, d9_config *config, d9_session *session) {
    d9_status status;
    d9_session_options session_options = {
        .program = {.rates = reference->rates, .rate_count = reference->steps, .steps_per_epoch = reference->steps}};
    D9_TRY(open_session(context, reference, options, &session_options, config, session));
    D9_TRY(d9_session_initialize(session));
    D9_TRY(load_initial(session, reference, options));
    D9_TRY(d9_session_repeat_batch(session, D9_BUFFER_ORDER)); /* no effect on a stream */
done:
    return status;
}

/* ---- a training case ---- */

typedef struct run {
    const d9_reference_case *reference;
    d9_session *session;
    d9_recorded_tensors *recorded;
} run;

static d9_status record_value(run *self, const char *prefix, const char *name, const d9_value *value,
                              d9_buffer buffer) {
    d9_status status;
    const d9_shape shape = d9_exchange_shape(value);
    double *values;
    D9_TRY(
        d9_recorded_tensors_add(self->session->context, self->recorded, prefix, name, d9_shape_count(&shape), &values));
    D9_TRY(d9_exchange_read(self->session, value, buffer, values));
done:
    return status;
}

static d9_status record_step(run *self, int64_t step) {
    d9_status status;
    const d9_graph *graph = &self->session->program.train;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "step%lld/", (long long)step + 1);
    D9_TRY(record_value(self, prefix, "loss", &graph->values[graph->loss], graph->values[graph->loss].buffer));
    D9_TRY(record_value(self, prefix, "logits", &graph->values[graph->logits], graph->values[graph->logits].buffer));
done:
    return status;
}

/* Records parameters and statistics from STATE or an average of it; from GRADIENT only parameters with a gradient. */
static d9_status record_state(run *self, const char *prefix, d9_buffer buffer) {
    d9_status status = D9_OK;
    const d9_graph *graph = &self->session->program.train;
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        if (!d9_exchange_is_state(value)) continue;
        if (buffer == D9_BUFFER_GRADIENT && d9_gradient_of(graph, v) == D9_NONE) continue;
        D9_TRY(record_value(self, prefix, d9_reference_case_name_in_file(self->reference, value->name), value, buffer));
    }
done:
    return status;
}

static d9_status record_logits(run *self, const char *name, const d9_views *views) {
    d9_status status;
    const d9_extent *extent = &self->session->program.extent;
    double *logits;
    D9_TRY(d9_recorded_tensors_add(self->session->context, self->recorded, "eval/", name,
                                   extent->eval_samples * extent->classes, &logits));
    D9_TRY(d9_session_logits(self->session, views, logits));
done:
    return status;
}

/* Records the logits of the plain view and of all views; of a stream, whose evaluation keeps no logits, the score. */
static d9_status record_evaluation(run *self) {
    d9_status status;
    d9_evaluation evaluation = {0};
    double *score;
    if (!self->session->dataset->stream) {
        D9_TRY(record_logits(self, "logits", &d9_plain_view));
        D9_TRY(record_logits(self, "logits_tta", &self->session->program.views));
        goto done;
    }
    D9_TRY(d9_session_evaluate(self->session, &evaluation));
    D9_TRY(d9_recorded_tensors_add(self->session->context, self->recorded, "eval/",
                                   self->session->program.measure->name, 1, &score));
    *score = evaluation.score;
done:
    d9_evaluation_free(self->session->context, &evaluation);
    return status;
}

/* Sets rounds_transforms and rounds_elsewhere, by the rules of the training plan. */
static d9_status record_rounding(const d9_session *session, d9_recorded_tensors *recorded) {
    d9_status status;
    d9_rule_time *rules = NULL;
    const int count = session->backend->times(session->train_plan, NULL, 0, false);
    D9_TRY(D9_ALLOCATE(session->context, count, "rules", &rules));
    session->backend->times(session->train_plan, rules, count, false);
    recorded->rounds_elsewhere = session->info.narrow_gradients;
    for (int i = 0; i < count; i++) {
        recorded->rounds_transforms |= rules[i].rounds_transforms;
        recorded->rounds_elsewhere |= rules[i].in_f32;
    }
done:
    d9_release(session->context, rules);
    return status;
}

static d9_status run_training(d9_context *context, const d9_reference_case *reference,
                              const d9_case_run_options *options, d9_recorded_tensors *recorded) {
    d9_status status;
    d9_config config;
    d9_session session = {0};
    run self = {reference, &session, recorded};
    D9_TRY(d9_case_session_open(context, reference, options, &config, &session));
    D9_TRY(record_rounding(&session, recorded));
    for (int64_t step = 0; step < reference->steps; step++) {
        D9_TRY(d9_session_step(&session, step));
        D9_TRY(session.backend->sync(context, session.device));
        D9_TRY(record_step(&self, step));
        if (step == 0) D9_TRY(record_state(&self, "grad/", D9_BUFFER_GRADIENT));
    }
    D9_TRY(record_state(&self, "final/", D9_BUFFER_STATE));
    if (session.program.tail.evaluate != D9_BUFFER_STATE)
        D9_TRY(record_state(&self, "ema/", session.program.tail.evaluate));
    D9_TRY(record_evaluation(&self));
done:
    d9_session_close(&session);
    return status;
}

/* ---- an augmentation case ---- */

/* Writes the file's draws to the buffer from which evaluation reads the draws of its views. */
static d9_status write_draws(d9_session *session, const d9_reference_case *reference) {
    static const char *const slots[D9_DRAW_SLOTS] = {/* NULL: a case file has no such draws */
                                                     [D9_DRAW_CROP_Y] = "crop_y",
                                                     [D9_DRAW_CROP_X] = "crop_x",
                                                     [D9_DRAW_MIRROR] = "flip",
                                                     [D9_DRAW_CUTOUT_Y] = "cutout_y",
                                                     [D9_DRAW_CUTOUT_X] = "cutout_x"};
    d9_status status;
    const d9_augment_rule *rule = &session->program.eval.nodes[0].as.batch.rule;
    const int64_t n = session->program.extent.batch;
    int32_t *draws = NULL;
    double *wide = NULL;
    D9_TRY(D9_ALLOCATE(session->context, n * D9_DRAW_SLOTS, "draws", &draws));
    D9_TRY(D9_ALLOCATE(session->context, n, "draws", &wide));
    for (int s = 0; s < D9_DRAW_SLOTS; s++) {
        if (!slots[s]) continue;
        const int last = d9_augment_value_count(rule, s) - 1;
        const d9_tensor *tensor = d9_safetensors_find(reference->file, slots[s]);
        if (!tensor || d9_shape_count(&tensor->shape) != n)
            D9_TRY(d9_fail(session->context, D9_DATA, "case %s: needs %s (%lld)", reference->name, slots[s],
                           (long long)n));
        d9_tensor_to_doubles(tensor, wide);
        for (int64_t i = 0; i < n; i++) {
            if (!(wide[i] >= 0 && wide[i] <= last))
                D9_TRY(d9_fail(session->context, D9_DATA, "case %s: %s of image %lld is %g, must be 0 to %d",
                               reference->name, slots[s], (long long)i, wide[i], last));
            draws[i * D9_DRAW_SLOTS + s] = (int32_t)wide[i];
        }
    }
    D9_TRY(d9_session_write(session, D9_BUFFER_EVAL_DRAWS, draws));
done:
    d9_release(session->context, draws);
    d9_release(session->context, wide);
    return status;
}

/* Runs the evaluation graph cut to the node that makes its batch; the configuration's tricks set the augmentation. */
static d9_status run_augmentation(d9_context *context, const d9_reference_case *reference,
                                  const d9_case_run_options *options, d9_recorded_tensors *recorded) {
    d9_status status;
    d9_config config;
    d9_session session = {0};
    d9_session_options session_options = {.no_eval = true}; /* the plan is made below */
    d9_graph *graph = &session.program.eval;
    D9_TRY(open_session(context, reference, options, &session_options, &config, &session));
    const d9_value *image = &graph->values[graph->input];
    graph->node_count = 1;
    const int draw = d9_edit_next(&session.program.train, D9_OP_DRAW, 0);
    graph->nodes[0].as.batch.rule = session.program.train.nodes[draw].as.batch.rule;
    if (d9_augment_changes_colours(&graph->nodes[0].as.batch.rule))
        D9_TRY(d9_fail(context, D9_DATA, "case %s: a case file has no draws that change colours", reference->name));
    if (d9_augment_is_general(&graph->nodes[0].as.batch.rule))
        D9_TRY(d9_fail(context, D9_DATA, "case %s: a case file has no draws of resized boxes and changes",
                       reference->name));
    D9_TRY(d9_session_plan(&session, graph, &session.eval_plan));
    D9_TRY(write_draws(&session, reference));
    D9_TRY(d9_session_repeat_batch(&session, D9_BUFFER_EVAL_ORDER));
    D9_TRY(session.backend->run(context, session.eval_plan, 0));
    D9_TRY(record_value(&(run){reference, &session, recorded}, "", "output", image, image->buffer));
done:
    d9_session_close(&session);
    return status;
}

d9_status d9_case_run(d9_context *context, const d9_reference_case *reference, const d9_case_run_options *options,
                      d9_recorded_tensors *recorded) {
    *recorded = (d9_recorded_tensors){0};
    return (reference->augmentation ? run_augmentation : run_training)(context, reference, options, recorded);
}
