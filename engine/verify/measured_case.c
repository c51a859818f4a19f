/* Running a reference case on a backend: the trainer's own session and step program, a fixed batch in every
 * step, every number a case file may hold noted down under the file's names. */
#include "core/system.h"
#include "kernels/formulas/philox.h"
#include "verify/reference_case.h"
#include "exchange/exchange.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const d9_observation *d9_observations_find(const d9_observations *observations, const char *name) {
    for (int i = 0; i < observations->count; i++)
        if (strcmp(observations->rows[i].name, name) == 0) return &observations->rows[i];
    return NULL;
}

void d9_observations_free(d9_context *context, d9_observations *observations) {
    d9_arena_free(context, &observations->arena);
    memset(observations, 0, sizeof *observations);
}

/* A new row PREFIX/NAME with room for `count` values. */
static d9_status note(d9_context *context, d9_observations *all, const char *prefix, const char *name, int64_t count,
                      double **values) {
    d9_status status;
    void *memory;
    char *full;
    if (all->count == all->capacity)
        return d9_fail(context, D9_CHECK_FAILED, "more than %d observations in one case", all->capacity);
    D9_TRY(d9_arena_format(context, &all->arena, &full, "%s%s", prefix, name));
    D9_TRY(d9_arena_allocate(context, &all->arena, (size_t)count * sizeof(double), &memory));
    *values = memory;
    all->rows[all->count++] = (d9_observation){full, memory, count};
done:
    return status;
}

/* Names inside and in the files differ in two places. */
static void file_name(const char *inside, char *outside, size_t size) {
    if (strncmp(inside, "stem.", 5) == 0)
        snprintf(outside, size, "prep.%s", inside + 5);
    else if (strncmp(inside, "head.", 5) == 0)
        snprintf(outside, size, "classifier.%s", inside + 5);
    else
        snprintf(outside, size, "%s", inside);
}

static d9_status note_step(d9_session *session, d9_observations *all, int64_t step) {
    d9_status status;
    const d9_graph *graph = &session->program.train;
    char prefix[32];
    double *values;
    snprintf(prefix, sizeof prefix, "step%lld/", (long long)step + 1);
    D9_TRY(note(session->context, all, prefix, "loss", d9_shape_count(&graph->values[graph->loss].shape), &values));
    D9_TRY(d9_session_read_value(session, graph, graph->loss, values));
    D9_TRY(note(session->context, all, prefix, "logits", d9_shape_count(&graph->values[graph->logits].shape), &values));
    D9_TRY(d9_session_read_value(session, graph, graph->logits, values));
done:
    return status;
}

static d9_status note_gradients(d9_session *session, d9_observations *all) {
    d9_status status = D9_OK;
    const d9_graph *graph = &session->program.train;
    void *inside = NULL;
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        char name[D9_NAME_SIZE + 8];
        double *values;
        d9_value_id gradient = value->kind == D9_VALUE_PARAMETER ? d9_gradient_of(graph, v) : D9_NONE;
        if (gradient == D9_NONE) continue;
        d9_release(session->context, inside);
        D9_TRY(d9_allocate(session->context, (size_t)d9_shape_count(&value->shape) * sizeof(double), "a gradient",
                           &inside));
        D9_TRY(d9_session_read_value(session, graph, gradient, inside));
        file_name(value->name, name, sizeof name);
        D9_TRY(note(session->context, all, "grad/", name, d9_shape_count(&value->shape), &values));
        d9_exchange_out(value, inside, values);
    }
done:
    d9_release(session->context, inside);
    return status;
}

static d9_status note_state(d9_session *session, d9_observations *all, const char *prefix, d9_buffer buffer) {
    d9_status status;
    const d9_graph *graph = &session->program.train;
    int64_t size = (int64_t)d9_type_bytes(session->program.precision->master);
    void *state = NULL;
    D9_TRY(d9_allocate(session->context, (size_t)session->program.state_elements * sizeof(double), "state", &state));
    D9_TRY(d9_session_read_state(session, buffer, state));
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        char name[D9_NAME_SIZE + 8];
        double *values;
        if (!d9_exchange_has(value)) continue;
        d9_shape shape = d9_exchange_shape(value);
        file_name(value->name, name, sizeof name);
        D9_TRY(note(session->context, all, prefix, name, d9_shape_count(&shape), &values));
        d9_exchange_out(value, (double *)state + value->offset / size, values);
    }
done:
    d9_release(session->context, state);
    return status;
}

static d9_status note_evaluation(d9_session *session, d9_observations *all) {
    d9_status status;
    const d9_extent *extent = &session->program.extent;
    double *plain, *views;
    D9_TRY(note(session->context, all, "eval/", "logits", extent->eval_images * extent->classes, &plain));
    D9_TRY(d9_session_logits(session, &(d9_views){1, {{.weight = 1}}}, plain));
    D9_TRY(note(session->context, all, "eval/", "logits_tta", extent->eval_images * extent->classes, &views));
    D9_TRY(d9_session_logits(session, &session->program.views, views));
done:
    return status;
}

/* ---- the batch as a dataset, and the file's initial weights ---- */

static d9_status find_images(d9_context *context, const char *name, const d9_safetensors *file,
                             const d9_tensor **images) {
    *images = d9_safetensors_find(file, "images");
    if (!*images || (*images)->type != D9_TENSOR_U8 || (*images)->shape.rank != 4 || (*images)->shape.d[1] != 3)
        return d9_fail(context, D9_DATA, "case %s: needs images u8 (N, 3, H, W)", name);
    return D9_OK;
}

static d9_status make_dataset(d9_context *context, const char *name, const d9_safetensors *file, int64_t batch,
                              d9_dataset **dataset) {
    d9_status status;
    const d9_tensor *images, *labels = d9_safetensors_find(file, "labels");
    void *memory = NULL, *pixels, *classes;
    *dataset = NULL;
    D9_TRY(find_images(context, name, file, &images));
    int64_t n = images->shape.d[0], h = images->shape.d[2], w = images->shape.d[3];
    if (n != batch || (labels && labels->shape.d[0] != n))
        D9_TRY(d9_fail(context, D9_DATA, "case %s: %lld images for a batch of %lld with as many labels", name,
                       (long long)n, (long long)batch));
    D9_TRY(d9_allocate(context, sizeof **dataset, "a case's batch", &memory));
    *dataset = memory;
    **dataset = (d9_dataset){.name = "case",
                             .height = h,
                             .width = w,
                             .channels = 3,
                             .classes = 10,
                             /* the files' normalisation is that of float32 constants */
                             .mean = {125.31f, 122.95f, 113.87f},
                             .std = {62.99f, 62.09f, 66.70f}};
    D9_TRY(d9_arena_allocate(context, &(*dataset)->arena, images->size, &pixels));
    D9_TRY(d9_arena_allocate(context, &(*dataset)->arena, (size_t)n * (sizeof(double) + sizeof(int32_t)), &classes));
    for (int64_t i = 0; i < n * 3 * h * w; i++) { /* N,C,H,W to N,H,W,C */
        int64_t x = i % w, y = i / w % h, c = i / (w * h) % 3, s = i / (w * h * 3);
        ((uint8_t *)pixels)[((s * h + y) * w + x) * 3 + c] = ((const uint8_t *)images->bytes)[i];
    }
    double *wide = classes;
    int32_t *narrow = (int32_t *)(wide + n);
    if (labels) d9_tensor_to_doubles(labels, wide); /* the pipeline file has none */
    for (int64_t i = 0; i < n; i++) narrow[i] = (int32_t)wide[i];
    (*dataset)->train = (*dataset)->test = (d9_split){n, pixels, narrow};
done:
    return status;
}

/* Moves values by up to 2^exponent of themselves: what the reference does then is a case's own sensitivity. */
static void jitter_values(double *values, int64_t count, int seed, int exponent) {
    for (int64_t i = 0; i < count && seed > 0; i++) {
        d9_philox random = d9_philox4x32_10((uint64_t)seed, (uint32_t)i, 0, D9_STREAM_INIT, 1);
        values[i] *= 1 + ldexp(2 * random.v[0] / 4294967296.0 - 1, exponent);
    }
}

static d9_status load_initial(d9_session *session, const d9_case *self, const d9_case_run *how) {
    d9_status status;
    const d9_graph *graph = &session->program.train;
    int64_t size = (int64_t)d9_type_bytes(session->program.precision->master);
    void *state = NULL, *outside = NULL;
    D9_TRY(d9_allocate(session->context, (size_t)session->program.state_elements * sizeof(double), "state", &state));
    D9_TRY(d9_session_read_state(session, D9_BUFFER_STATE, state));
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        char name[D9_NAME_SIZE + 8], full[D9_NAME_SIZE + 16];
        if (value->kind != D9_VALUE_PARAMETER) continue;
        file_name(value->name, name, sizeof name);
        snprintf(full, sizeof full, "init/%s", name);
        const d9_tensor *tensor = d9_safetensors_find(self->file, strstr(name, ".whiten.") ? "whiten.filters" : full);
        d9_shape shape = d9_exchange_shape(value);
        if (!tensor || !d9_shape_equal(&tensor->shape, &shape))
            D9_TRY(d9_fail(session->context, D9_DATA, "case %s: %s is missing or has another shape", self->name, full));
        d9_release(session->context, outside);
        D9_TRY(d9_allocate(session->context, (size_t)d9_shape_count(&shape) * sizeof(double), "initial weights",
                           &outside));
        d9_tensor_to_doubles(tensor, outside);
        jitter_values(outside, d9_shape_count(&shape), how->jitter, how->jitter_exponent);
        d9_exchange_in(value, outside, (double *)state + value->offset / size);
    }
    D9_TRY(d9_session_set_state(session, state));
done:
    d9_release(session->context, outside);
    d9_release(session->context, state);
    return status;
}

/* The same batch in every step. */
static d9_status write_identity_order(d9_session *session) {
    d9_status status;
    int64_t bytes = session->program.buffer_bytes[D9_BUFFER_ORDER];
    void *order = NULL;
    D9_TRY(d9_allocate(session->context, (size_t)bytes, "order", &order));
    for (int64_t i = 0; i < bytes / 4; i++) ((int32_t *)order)[i] = (int32_t)(i % session->program.extent.batch);
    D9_TRY(session->backend->write(session->context, session->device, D9_BUFFER_ORDER, 0, order, bytes));
done:
    d9_release(session->context, order);
    return status;
}

static d9_status open_session(d9_context *context, const d9_config *config, d9_config *patched, const d9_case_run *how,
                              d9_session_options *options, d9_session *session) {
    *patched = *config;
    patched->backend = how->backend;
    patched->precision = how->precision;
    patched->threads = how->threads;
    patched->backend_options.tune = D9_TUNE_OFF; /* the same plan every time */
    options->config = patched;
    options->seed = 1;
    options->program.keep_all = true;
    return d9_session_open(context, options, session);
}

static d9_status reserve(d9_context *context, d9_observations *all) {
    enum { CAPACITY = 4096 };
    void *rows;
    memset(all, 0, sizeof *all);
    d9_status status = d9_arena_allocate(context, &all->arena, CAPACITY * sizeof *all->rows, &rows);
    if (status == D9_OK) *all = (d9_observations){all->arena, rows, 0, CAPACITY};
    return status;
}

d9_status d9_case_session(d9_context *context, const d9_case *self, const d9_case_run *how, d9_config *config,
                          d9_session *session) {
    d9_status status;
    d9_session_options options = {
        .program = {.rates = self->rates, .rate_count = self->steps, .steps_per_epoch = self->steps}};
    D9_TRY(make_dataset(context, self->name, self->file, self->batch, &options.dataset));
    D9_TRY(open_session(context, self->config, config, how, &options, session));
    D9_TRY(d9_session_initialize(session));
    D9_TRY(load_initial(session, self, how));
    D9_TRY(write_identity_order(session));
done:
    return status;
}

d9_status d9_case_observe(d9_context *context, const d9_case *self, const d9_case_run *how, d9_observations *all) {
    d9_status status;
    d9_config config;
    d9_session session = {0};
    D9_TRY(reserve(context, all));
    D9_TRY(d9_case_session(context, self, how, &config, &session));
    for (int64_t step = 0; step < self->steps; step++) {
        D9_TRY(d9_session_step(&session, step));
        D9_TRY(session.backend->sync(context, session.device));
        D9_TRY(note_step(&session, all, step));
        if (step == 0) D9_TRY(note_gradients(&session, all));
    }
    D9_TRY(note_state(&session, all, "final/", D9_BUFFER_STATE));
    if (session.program.tail.evaluate != D9_BUFFER_STATE)
        D9_TRY(note_state(&session, all, "ema/", session.program.tail.evaluate));
    D9_TRY(note_evaluation(&session, all));
done:
    d9_session_close(&session);
    return status;
}

/* ---- the data pipeline: an augment node alone, with the file's draws ---- */

static d9_status write_draws(d9_session *session, const d9_safetensors *file, const char *name, int64_t n) {
    static const char *const slots[D9_DRAW_SLOTS] = {"crop_y", "crop_x", "flip", "cutout_y", "cutout_x"};
    d9_status status;
    void *draws = NULL, *wide = NULL;
    D9_TRY(d9_allocate(session->context, (size_t)(n * D9_DRAW_SLOTS) * sizeof(int32_t), "draws", &draws));
    D9_TRY(d9_allocate(session->context, (size_t)n * sizeof(double), "draws", &wide));
    for (int s = 0; s < D9_DRAW_SLOTS; s++) {
        const d9_tensor *tensor = d9_safetensors_find(file, slots[s]);
        if (!tensor || tensor->shape.d[0] != n)
            D9_TRY(d9_fail(session->context, D9_DATA, "case %s: needs %s (%lld)", name, slots[s], (long long)n));
        d9_tensor_to_doubles(tensor, wide);
        for (int64_t i = 0; i < n; i++) ((int32_t *)draws)[i * D9_DRAW_SLOTS + s] = (int32_t)((double *)wide)[i];
    }
    D9_TRY(session->backend->write(session->context, session->device, D9_BUFFER_EVAL_DRAWS, 0, draws,
                                   n * D9_DRAW_SLOTS * 4));
done:
    d9_release(session->context, draws);
    d9_release(session->context, wide);
    return status;
}

static d9_status pipeline_settings(d9_context *context, const d9_safetensors *file, const char *name, int *pad,
                                   int *cutout) {
    json_error_t error;
    const char *text = d9_safetensors_metadata(file, "case");
    json_t *json = text ? json_loads(text, 0, &error) : NULL;
    *pad = (int)json_integer_value(json_object_get(json, "pad"));
    *cutout = (int)json_integer_value(json_object_get(json, "cutout"));
    json_decref(json);
    return *pad > 0 ? D9_OK : d9_fail(context, D9_DATA, "case %s: its settings lack pad", name);
}

/* The evaluation list cut down to its augment node, with the training's padding and cutout. */
static d9_status plan_pipeline(d9_session *session, int pad, int cutout) {
    d9_graph *graph = &session->program.eval;
    graph->node_count = 1;
    graph->nodes[0].as.augment.pad = pad;
    graph->nodes[0].as.augment.cutout = cutout;
    return session->backend->plan(session->context, session->device, &session->program, graph, &session->eval_plan);
}

static d9_status run_pipeline(d9_session *session, d9_observations *all) {
    d9_status status;
    const d9_graph *graph = &session->program.eval;
    const d9_value *image = &graph->values[graph->image];
    const int64_t *d = image->shape.d, count = d9_shape_count(&image->shape);
    double *values;
    void *inside = NULL;
    D9_TRY(session->backend->run(session->context, session->eval_plan, 0));
    D9_TRY(d9_allocate(session->context, (size_t)count * sizeof(double), "a batch", &inside));
    D9_TRY(d9_session_read_value(session, graph, graph->image, inside));
    D9_TRY(note(session->context, all, "", "output", count, &values));
    for (int64_t i = 0; i < count; i++) { /* N,H,W,C to N,C,H,W */
        int64_t c = i % d[3], x = i / d[3] % d[2], y = i / (d[3] * d[2]) % d[1], s = i / (d[3] * d[2] * d[1]);
        values[((s * d[3] + c) * d[1] + y) * d[2] + x] = ((double *)inside)[i];
    }
done:
    d9_release(session->context, inside);
    return status;
}

d9_status d9_pipeline_observe(d9_context *context, const d9_safetensors *file, const d9_case_run *how,
                              d9_observations *all) {
    static const char yaml[] = "data: {dataset: synthetic}\nmodel: {name: resnet9, channels: [4, 4, 4, 4]}\n"
                               "train: {epochs: 1, batch_size: %lld, lr: {knots: [0], values: [0.1]}}\n";
    d9_status status;
    d9_config *made = NULL, config;
    d9_session session = {0};
    d9_session_options options = {.no_eval = true};
    const d9_tensor *images;
    char text[sizeof yaml + 24];
    int pad, cutout;
    D9_TRY(reserve(context, all));
    D9_TRY(find_images(context, "pipeline", file, &images));
    int64_t n = images->shape.d[0];
    snprintf(text, sizeof text, yaml, (long long)n);
    D9_TRY(pipeline_settings(context, file, "pipeline", &pad, &cutout));
    D9_TRY(d9_config_parse(context, "pipeline", text, NULL, &made));
    D9_TRY(make_dataset(context, "pipeline", file, n, &options.dataset));
    D9_TRY(open_session(context, made, &config, how, &options, &session));
    D9_TRY(plan_pipeline(&session, pad, cutout));
    D9_TRY(write_draws(&session, file, "pipeline", n));
    int64_t bytes = session.program.buffer_bytes[D9_BUFFER_EVAL_ORDER];
    int32_t order[4096];
    if (n > 4096) D9_TRY(d9_fail(context, D9_DATA, "case pipeline: more than 4096 images"));
    for (int32_t i = 0; i < n; i++) order[i] = i;
    D9_TRY(session.backend->write(context, session.device, D9_BUFFER_EVAL_ORDER, 0, order, bytes));
    D9_TRY(run_pipeline(&session, all));
done:
    d9_session_close(&session);
    d9_config_free(context, made);
    return status;
}
