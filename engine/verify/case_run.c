/* The run of a training case: the trainer's own session and step program, with the case's batch in every step. See
 * case_run.h. */
#include "verify/case_run.h"
#include "core/system.h"
#include "exchange/exchange.h"
#include "kernels/formulas/philox.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct run {
    const d9_reference_case *reference;
    d9_session *session;
    d9_recorded_tensors *recorded;
} run;

/* ---- the session ---- */

d9_status d9_case_session_open(d9_context *context, const d9_reference_case *reference,
                               const d9_case_run_options *options, d9_session_options *session_options,
                               d9_config *config, d9_session *session) {
    d9_status status;
    D9_TRY(d9_reference_case_dataset(context, reference, &session_options->dataset));
    *config = *reference->config;
    config->backend = options->backend;
    config->precision = options->precision;
    config->threads = options->threads;
    config->backend_options.tune = D9_TUNE_OFF; /* the same plan every time */
    session_options->config = config;
    session_options->seed = 1;
    session_options->program.keep_all = true;
    D9_TRY(d9_session_open(context, session_options, session));
done:
    return status;
}

static void perturb(double *values, int64_t count, const d9_case_run_options *options) {
    for (int64_t i = 0; i < count && options->perturbation > 0; i++) {
        d9_philox random = d9_philox4x32_10((uint64_t)options->perturbation, (uint32_t)i, 0, D9_STREAM_INIT, 1);
        values[i] *= 1 + ldexp(2 * random.v[0] / 4294967296.0 - 1, options->perturbation_exponent);
    }
}

/* One parameter, from the file into `state`. */
static d9_status load_parameter(d9_session *session, const d9_reference_case *reference,
                                const d9_case_run_options *options, const d9_value *value, double *state) {
    d9_status status;
    const char *name = d9_reference_case_file_name(reference, value->name);
    const d9_tensor *tensor = d9_reference_case_initial(reference, name);
    const d9_shape shape = d9_exchange_shape(value);
    void *outside = NULL;
    if (!tensor || !d9_shape_equal(&tensor->shape, &shape))
        return d9_fail(session->context, D9_DATA, "case %s: init/%s is missing or has another shape", reference->name,
                       name);
    D9_TRY(d9_allocate(session->context, (size_t)d9_shape_count(&shape) * sizeof(double), "initial weights", &outside));
    d9_tensor_to_doubles(tensor, outside);
    perturb(outside, d9_shape_count(&shape), options);
    d9_exchange_in(value, outside, state + value->offset / (int64_t)d9_type_bytes(session->program.precision->master));
done:
    d9_release(session->context, outside);
    return status;
}

static d9_status load_initial(d9_session *session, const d9_reference_case *reference,
                              const d9_case_run_options *options) {
    d9_status status;
    const d9_graph *graph = &session->program.train;
    void *state = NULL;
    D9_TRY(d9_allocate(session->context, (size_t)session->program.state_elements * sizeof(double), "state", &state));
    D9_TRY(d9_session_read_state(session, D9_BUFFER_STATE, state));
    for (int v = 0; v < graph->value_count; v++)
        if (graph->values[v].kind == D9_VALUE_PARAMETER)
            D9_TRY(load_parameter(session, reference, options, &graph->values[v], state));
    D9_TRY(d9_session_set_state(session, state));
done:
    d9_release(session->context, state);
    return status;
}

d9_status d9_case_write_order(d9_session *session, d9_buffer buffer) {
    d9_status status;
    int64_t bytes = session->program.buffer_bytes[buffer];
    void *order = NULL;
    D9_TRY(d9_allocate(session->context, (size_t)bytes, "order", &order));
    for (int64_t i = 0; i < bytes / 4; i++) ((int32_t *)order)[i] = (int32_t)(i % session->program.extent.batch);
    D9_TRY(session->backend->write(session->context, session->device, buffer, 0, order, bytes));
done:
    d9_release(session->context, order);
    return status;
}

d9_status d9_case_session(d9_context *context, const d9_reference_case *reference, const d9_case_run_options *options,
                          d9_config *config, d9_session *session) {
    d9_status status;
    d9_session_options session_options = {
        .program = {.rates = reference->rates, .rate_count = reference->steps, .steps_per_epoch = reference->steps}};
    D9_TRY(d9_case_session_open(context, reference, options, &session_options, config, session));
    D9_TRY(d9_session_initialize(session));
    D9_TRY(load_initial(session, reference, options));
    D9_TRY(d9_case_write_order(session, D9_BUFFER_ORDER));
done:
    return status;
}

/* ---- recording ---- */

static d9_status record_value(run *self, const char *prefix, const char *name, d9_value_id id) {
    d9_status status;
    d9_session *session = self->session;
    const d9_graph *graph = &session->program.train;
    double *values;
    D9_TRY(d9_recorded_tensors_add(session->context, self->recorded, prefix, name,
                                   d9_shape_count(&graph->values[id].shape), &values));
    D9_TRY(d9_session_read_value(session, graph, id, values));
done:
    return status;
}

static d9_status record_step(run *self, int64_t step) {
    d9_status status;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "step%lld/", (long long)step + 1);
    D9_TRY(record_value(self, prefix, "loss", self->session->program.train.loss));
    D9_TRY(record_value(self, prefix, "logits", self->session->program.train.logits));
done:
    return status;
}

/* A parameter or statistic, or the gradient of a parameter, in the layout of the file. */
static d9_status record_outside(run *self, const char *prefix, const d9_value *value, const double *inside) {
    d9_status status;
    const d9_shape shape = d9_exchange_shape(value);
    double *values;
    D9_TRY(d9_recorded_tensors_add(self->session->context, self->recorded, prefix,
                                   d9_reference_case_file_name(self->reference, value->name), d9_shape_count(&shape),
                                   &values));
    d9_exchange_out(value, inside, values);
done:
    return status;
}

static d9_status record_gradients(run *self) {
    d9_status status = D9_OK;
    d9_session *session = self->session;
    const d9_graph *graph = &session->program.train;
    void *inside = NULL;
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        d9_value_id gradient = value->kind == D9_VALUE_PARAMETER ? d9_gradient_of(graph, v) : D9_NONE;
        if (gradient == D9_NONE) continue;
        d9_release(session->context, inside);
        D9_TRY(d9_allocate(session->context, (size_t)d9_shape_count(&value->shape) * sizeof(double), "a gradient",
                           &inside));
        D9_TRY(d9_session_read_value(session, graph, gradient, inside));
        D9_TRY(record_outside(self, "grad/", value, inside));
    }
done:
    d9_release(session->context, inside);
    return status;
}

static d9_status record_state(run *self, const char *prefix, d9_buffer buffer) {
    d9_status status;
    d9_session *session = self->session;
    const d9_graph *graph = &session->program.train;
    int64_t size = (int64_t)d9_type_bytes(session->program.precision->master);
    void *state = NULL;
    D9_TRY(d9_allocate(session->context, (size_t)session->program.state_elements * sizeof(double), "state", &state));
    D9_TRY(d9_session_read_state(session, buffer, state));
    for (int v = 0; v < graph->value_count; v++)
        if (d9_exchange_has(&graph->values[v]))
            D9_TRY(record_outside(self, prefix, &graph->values[v],
                                  (const double *)state + graph->values[v].offset / size));
done:
    d9_release(session->context, state);
    return status;
}

static d9_status record_evaluation(run *self) {
    d9_status status;
    d9_session *session = self->session;
    const d9_extent *extent = &session->program.extent;
    const int64_t count = extent->eval_images * extent->classes;
    double *plain, *views;
    D9_TRY(d9_recorded_tensors_add(session->context, self->recorded, "eval/", "logits", count, &plain));
    D9_TRY(d9_session_logits(session, &(d9_views){1, {{.weight = 1}}}, plain));
    D9_TRY(d9_recorded_tensors_add(session->context, self->recorded, "eval/", "logits_tta", count, &views));
    D9_TRY(d9_session_logits(session, &session->program.views, views));
done:
    return status;
}

/* ---- running ---- */

static d9_status run_training(d9_context *context, const d9_reference_case *reference,
                              const d9_case_run_options *options, d9_recorded_tensors *recorded) {
    d9_status status;
    d9_config config;
    d9_session session = {0};
    run self = {reference, &session, recorded};
    D9_TRY(d9_case_session(context, reference, options, &config, &session));
    for (int64_t step = 0; step < reference->steps; step++) {
        D9_TRY(d9_session_step(&session, step));
        D9_TRY(session.backend->sync(context, session.device));
        D9_TRY(record_step(&self, step));
        if (step == 0) D9_TRY(record_gradients(&self));
    }
    D9_TRY(record_state(&self, "final/", D9_BUFFER_STATE));
    if (session.program.tail.evaluate != D9_BUFFER_STATE)
        D9_TRY(record_state(&self, "ema/", session.program.tail.evaluate));
    D9_TRY(record_evaluation(&self));
done:
    d9_session_close(&session);
    return status;
}

d9_status d9_case_run(d9_context *context, const d9_reference_case *reference, const d9_case_run_options *options,
                      d9_recorded_tensors *recorded) {
    d9_status status;
    D9_TRY(d9_recorded_tensors_init(context, recorded));
    if (reference->augmentation)
        D9_TRY(d9_augmentation_run(context, reference, options, recorded));
    else
        D9_TRY(run_training(context, reference, options, recorded));
done:
    return status;
}
