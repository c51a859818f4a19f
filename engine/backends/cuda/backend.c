/* The device of the CUDA backend: memory, the program's data outside of its buffers, checks of indices, peak rates. */
#include "backends/cuda/cuda.h"
#include "core/system.h"

#include <stdio.h>
#include <string.h>

/* ---- opening, closing, description ---- */

/* Allocates the step number and launches the first kernel, which shows whether there is code for this device. */
static d9_status make_step_counter(d9_context *context, d9_cuda *cuda) {
    d9_status status;
    d9_device_info info = {.threads = 0};
    void *step = NULL;
    D9_TRY(cuda->driver->allocate(context, cuda->state, sizeof(int64_t), "the step's number", &step));
    cuda->step = step;
    cuda->step_on_device = -1;
    const int error = d9_cuda_advance(cuda->stream, 1, cuda->step);
    cuda->driver->describe(cuda->state, &info);
    if (error)
        D9_TRY(d9_fail(context, D9_DEVICE, "backend cuda: no kernel runs on %s (%s): %s", info.name, info.isa,
                       cuda->driver->error(error)));
    D9_TRY(cuda->driver->sync(context, cuda->state));
done:
    return status;
}

static void name_device(d9_cuda *cuda) {
    d9_device_info info = {.threads = 0};
    d9_cuda_describe(cuda, &info);
    snprintf(cuda->name, sizeof cuda->name, "%s %s %lld MiB, %s", info.name, info.isa,
             (long long)(info.memory_bytes >> 20), info.version);
}

void d9_cuda_choice_key(const d9_cuda *cuda, const char *text, char key[D9_CUDA_CHOICE_KEY]) {
    if (snprintf(key, D9_CUDA_CHOICE_KEY, "%s: %s", cuda->name, text) >= D9_CUDA_CHOICE_KEY) key[0] = 0;
}

d9_status d9_cuda_open(d9_context *context, const d9_cuda_calls *driver, const d9_cuda_convolver *convolver,
                       const d9_cuda_multiplier *multiplier, const d9_cuda_reducer *reducer,
                       const d9_backend_options *options, void **backend) {
    d9_status status;
    d9_cuda *cuda = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "the CUDA backend", &cuda));
    *cuda = (d9_cuda){.driver = driver, .convolver = convolver, .multiplier = multiplier, .reducer = reducer};
    D9_TRY(driver->open(context, options->parallel, &cuda->state));
    cuda->stream = driver->stream(cuda->state);
    D9_TRY(make_step_counter(context, cuda));
    D9_TRY(convolver->open(context, driver, cuda->state, &cuda->convolver_state));
    name_device(cuda);
    D9_TRY(d9_cuda_choices_open(context, options->choices_folder, &cuda->choices));
    *backend = cuda;
    cuda = NULL;
done:
    d9_cuda_close(context, cuda);
    return status;
}

static void release_memory(d9_context *context, const d9_cuda *cuda, void *pointer) {
    if (pointer) cuda->driver->release(context, cuda->state, pointer);
}

void d9_cuda_close(d9_context *context, void *backend) {
    d9_cuda *cuda = backend;
    if (!cuda) return;
    if (cuda->state) cuda->driver->watch(cuda->state, NULL, NULL);
    if (cuda->reducer) cuda->reducer->close(context, cuda->reducer_state);
    for (int t = 0; t < D9_MAX_TABLES; t++) release_memory(context, cuda, cuda->table[t]);
    for (int i = 0; i < D9_CUDA_INDICES; i++) d9_release(context, cuda->indices[i].values);
    release_memory(context, cuda, cuda->step);
    release_memory(context, cuda, cuda->gradient_ends);
    d9_cuda_choices_close(context, cuda->choices);
    release_memory(context, cuda, cuda->scratch);
    if (cuda->convolver_state) cuda->convolver->close(context, cuda->convolver_state);
    cuda->multiplier->close(context, cuda->multiplier_state);
    if (cuda->state) cuda->driver->close(context, cuda->state);
    d9_release(context, cuda->gradients);
    d9_release(context, cuda);
}

void d9_cuda_describe(const void *backend, d9_device_info *info) {
    const d9_cuda *cuda = backend;
    cuda->driver->describe(cuda->state, info);
    /* in fp16 and bf16 cuDNN writes weight gradients in that type, and conv_cudnn.c casts them to f32 */
    info->narrow_gradients = true;
    if (cuda->convolver->describe) cuda->convolver->describe(cuda->convolver_state, info);
    cuda->multiplier->describe(info);
}

/* ---- memory and errors ---- */

static d9_status allocate(d9_context *context, void *backend, int64_t bytes, const char *purpose, void **pointer) {
    const d9_cuda *cuda = backend;
    *pointer = NULL;
    if (bytes == 0) return D9_OK;
    return cuda->driver->allocate(context, cuda->state, bytes, purpose, pointer);
}

static void release(d9_context *context, void *backend, void *pointer) { release_memory(context, backend, pointer); }

static d9_status write(d9_context *context, void *backend, void *to, const void *bytes, int64_t size) {
    const d9_cuda *cuda = backend;
    return cuda->driver->write(context, cuda->state, to, bytes, size);
}

static d9_status read(d9_context *context, void *backend, const void *from, void *bytes, int64_t size) {
    const d9_cuda *cuda = backend;
    return cuda->driver->read(context, cuda->state, from, bytes, size);
}

static d9_status synchronize(d9_context *context, void *backend) {
    const d9_cuda *cuda = backend;
    return cuda->driver->sync(context, cuda->state);
}

const d9_device_memory d9_cuda_memory = {allocate, release, write, read, synchronize};

static d9_status resize_scratch(d9_context *context, d9_cuda *cuda, int64_t bytes) {
    d9_status status;
    D9_TRY(synchronize(context, cuda));
    release_memory(context, cuda, cuda->scratch);
    cuda->scratch = NULL;
    cuda->scratch_bytes = 0;
    cuda->scratch_moves++;
    D9_TRY(allocate(context, cuda, bytes, "the scratch of the CUDA backend", &cuda->scratch));
    cuda->scratch_bytes = bytes;
done:
    return status;
}

d9_status d9_cuda_borrow_scratch(d9_context *context, d9_cuda *cuda, int64_t bytes) {
    return bytes > cuda->scratch_bytes ? resize_scratch(context, cuda, bytes) : D9_OK;
}

d9_status d9_cuda_can_enlarge_scratch(d9_context *context, const d9_cuda *cuda, int64_t bytes, bool *fits) {
    d9_status status = D9_OK;
    int64_t available = 0, total;
    if (bytes > cuda->scratch_bytes) D9_TRY(cuda->driver->memory(context, cuda->state, &available, &total));
    *fits = bytes <= cuda->scratch_bytes + available;
done:
    return status;
}

d9_status d9_cuda_reserve_scratch(d9_context *context, d9_cuda *cuda, int64_t bytes) {
    d9_status status = D9_OK;
    if (bytes > cuda->scratch_bytes && cuda->program)
        D9_TRY(d9_cuda_check_memory(context, cuda, cuda->program, bytes,
                                    d9_cuda_program_bytes(cuda->program) + cuda->scratch_bytes));
    if (bytes > cuda->scratch_needed) cuda->scratch_needed = bytes;
    D9_TRY(d9_cuda_borrow_scratch(context, cuda, bytes));
done:
    return status;
}

d9_status d9_cuda_site_allocate(d9_context *context, d9_cuda *cuda, int64_t bytes, const char *purpose,
                                d9_cuda_site_memory *own) {
    d9_status status;
    const int64_t held = d9_cuda_program_bytes(cuda->program) + cuda->scratch_bytes;
    D9_TRY(d9_cuda_check_memory(context, cuda, cuda->program, cuda->scratch_bytes + bytes, held));
    D9_TRY(allocate(context, cuda, bytes, purpose, &own->data));
    own->bytes = bytes;
    cuda->site_bytes += bytes;
done:
    return status;
}

void d9_cuda_site_free(d9_context *context, d9_cuda *cuda, d9_cuda_site_memory *own) {
    release_memory(context, cuda, own->data);
    cuda->site_bytes -= own->bytes;
    *own = (d9_cuda_site_memory){NULL, 0};
}

d9_status d9_cuda_restore_scratch(d9_context *context, d9_cuda *cuda) {
    return cuda->scratch_bytes != cuda->scratch_needed ? resize_scratch(context, cuda, cuda->scratch_needed) : D9_OK;
}

d9_status d9_cuda_check(d9_context *context, const d9_site *site, int error) {
    if (error == 0) return D9_OK;
    return d9_fail(context, D9_DEVICE, "%s: %s: %s", site->nodes[0]->role, d9_cuda_of(site)->driver->name,
                   d9_cuda_of(site)->driver->error(error));
}

/* ---- memory of a program: tables, indices, the guard, buffers ---- */

static d9_status upload(d9_context *context, d9_cuda *cuda, const void *bytes, int64_t size, const char *purpose,
                        void **pointer) {
    d9_status status;
    D9_TRY(allocate(context, cuda, size, purpose, pointer));
    if (size > 0) D9_TRY(write(context, cuda, *pointer, bytes, size));
done:
    return status;
}

/* Writes a table to *there on the device, as f32; allocates *there if it is NULL. */
static d9_status upload_table(d9_context *context, d9_cuda *cuda, const d9_table *table, float **there) {
    d9_status status;
    const int64_t bytes = table->count * (int64_t)sizeof(float);
    float *narrow = NULL;
    void *pointer = *there;
    D9_TRY(D9_ALLOCATE(context, table->count, "a schedule", &narrow));
    for (int64_t s = 0; s < table->count; s++) narrow[s] = (float)table->values[s];
    if (!pointer) D9_TRY(allocate(context, cuda, bytes, "a schedule", &pointer));
    *there = pointer;
    if (bytes > 0) D9_TRY(write(context, cuda, pointer, narrow, bytes));
done:
    d9_release(context, narrow);
    return status;
}

d9_status d9_cuda_upload_tables(d9_context *context, d9_device *device, const d9_program *program) {
    d9_status status = D9_OK;
    d9_cuda *cuda = device->backend;
    for (int t = 0; t < program->table_count; t++)
        D9_TRY(upload_table(context, cuda, &program->table[t], &cuda->table[t]));
done:
    return status;
}

static int32_t list_gradients_by_offset(const d9_graph *graph, d9_value_id *sorted) {
    int32_t count = 0;
    for (d9_value_id v = 0; v < graph->value_count; v++) {
        if (graph->values[v].kind != D9_VALUE_GRADIENT) continue;
        int32_t at = count++;
        for (; at > 0 && graph->values[sorted[at - 1]].offset > graph->values[v].offset; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = v;
    }
    return count;
}

/* Writes the guard (loss scale and record of non-finite gradients) and the gradients' end offsets. The default scale is
 * 1, because gradients of the batch's summed loss are already large. */
static d9_status upload_guard(d9_context *context, d9_cuda *cuda, const d9_device *device, const d9_graph *graph) {
    d9_status status;
    int64_t *ends = NULL;
    void *pointer = NULL;
    const float scale = device->options.loss_scale > 0 ? (float)device->options.loss_scale : 1;
    const d9_cuda_guard guard = {.scale = scale, .inverse = 1 / scale, .bad_parameter = D9_CUDA_FINE};
    _Static_assert(sizeof guard <= 64, "step/layout.c makes this room");
    D9_TRY(D9_ALLOCATE(context, graph->value_count, "the guard", &cuda->gradients));
    cuda->gradient_count = list_gradients_by_offset(graph, cuda->gradients);
    D9_TRY(D9_ALLOCATE(context, cuda->gradient_count + 1, "the guard", &ends));
    for (int32_t p = 0; p < cuda->gradient_count; p++) {
        const d9_value *value = &graph->values[cuda->gradients[p]];
        ends[p] = value->offset / (int64_t)d9_type_bytes(value->type) + d9_shape_count(&value->shape);
    }
    status = upload(context, cuda, ends, cuda->gradient_count * (int64_t)sizeof(int64_t), "the guard", &pointer);
    cuda->gradient_ends = pointer;
    if (status != D9_OK) goto done;
    cuda->guard = (d9_cuda_guard *)(void *)device->buffers[D9_BUFFER_GUARD];
    D9_TRY(write(context, cuda, cuda->guard, &guard, sizeof guard));
done:
    d9_release(context, ends);
    return status;
}

static const d9_buffer index_buffers[D9_CUDA_INDICES] = {[D9_CUDA_ORDER] = D9_BUFFER_ORDER,
                                                         [D9_CUDA_EVAL_ORDER] = D9_BUFFER_EVAL_ORDER,
                                                         [D9_CUDA_LABELS] = D9_BUFFER_LABELS,
                                                         [D9_CUDA_TEXTS] = D9_BUFFER_IMAGES,
                                                         [D9_CUDA_EVAL_TEXTS] = D9_BUFFER_EVAL_IMAGES};

static d9_status allocate_indices(d9_context *context, d9_cuda *cuda, const d9_program *program) {
    d9_status status = D9_OK;
    for (int i = 0; i < D9_CUDA_INDICES; i++) {
        d9_cuda_indices *indices = &cuda->indices[i];
        if (i >= D9_CUDA_TEXTS && program->train.vocabulary == 0) continue; /* the buffers hold images, not tokens */
        indices->count = program->buffer_bytes[index_buffers[i]] / (int64_t)sizeof *indices->values;
        D9_TRY(D9_ALLOCATE(context, indices->count, "indices", &indices->values));
    }
done:
    return status;
}

d9_status d9_cuda_allocate(d9_context *context, d9_device *device, const d9_program *program) {
    d9_status status;
    d9_cuda *cuda = device->backend;
    int64_t scratch;
    D9_TRY(cuda->driver->select(context, cuda->state));
    D9_TRY(d9_cuda_min_scratch(context, cuda, program, &scratch));
    D9_TRY(d9_cuda_check_memory(context, cuda, program, scratch, cuda->scratch_bytes));
    D9_TRY(d9_host_allocate(context, device, program));
    D9_TRY(allocate_indices(context, cuda, program));
    D9_TRY(d9_cuda_upload_tables(context, device, program));
    if (program->buffer_bytes[D9_BUFFER_GUARD] > 0) D9_TRY(upload_guard(context, cuda, device, &program->train));
    cuda->program = program;
done:
    return status;
}

/* ---- indices ---- */

d9_status d9_cuda_write(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, const void *bytes,
                        int64_t size) {
    d9_cuda *cuda = device->backend;
    d9_status status = d9_host_write(context, device, buffer, offset, bytes, size);
    for (int i = 0; status == D9_OK && i < D9_CUDA_INDICES; i++) {
        if (index_buffers[i] != buffer || size == 0 || !cuda->indices[i].values) continue;
        memcpy((uint8_t *)cuda->indices[i].values + offset, bytes, (size_t)size);
        cuda->indices[i].changed = true;
    }
    if (status == D9_OK && buffer == D9_BUFFER_GUARD && cuda->guard) { /* of a checkpoint: its run has warned */
        d9_cuda_guard guard;
        status = read(context, cuda, cuda->guard, &guard, sizeof guard);
        if (status == D9_OK) cuda->skipped = guard.skipped;
    }
    return status;
}

static d9_cuda_indices *changed_indices_of(d9_cuda *cuda, const d9_value *value) {
    for (int i = 0; i < D9_CUDA_INDICES; i++)
        if (index_buffers[i] == value->buffer && cuda->indices[i].changed) return &cuda->indices[i];
    return NULL;
}

/* Checks that the values of a node's input lie in [0, below) if the input's buffer was written since the last check,
 * and marks the buffer as checked. */
static d9_status check_input(d9_context *context, d9_cuda *cuda, const d9_graph *graph, const d9_node *node, int input,
                             const char *what, int64_t below) {
    const d9_value *value = &graph->values[node->inputs[input]];
    d9_cuda_indices *indices = changed_indices_of(cuda, value);
    if (!indices) return D9_OK;
    indices->checked = true;
    const int32_t *values = indices->values + value->offset / (int64_t)sizeof(int32_t);
    for (int64_t i = 0; i < d9_shape_count(&value->shape); i++)
        if (values[i] < 0 || values[i] >= below)
            return d9_fail(context, D9_DEVICE, "%s: %s %d, must be below %lld", node->role, what, values[i],
                           (long long)below);
    return D9_OK;
}

/* The limit below which labels must lie: the number of classes or, if a sample may have several classes, of their
 * combinations. */
static int64_t label_limit(const d9_graph *graph) {
    for (d9_node_id n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == D9_OP_LOSS && d9_loss_multi_label((int)graph->nodes[n].as.loss.loss))
            return (int64_t)1 << graph->classes;
    return graph->classes;
}

d9_status d9_cuda_check_indices(d9_context *context, const d9_plan *plan) {
    d9_status status = D9_OK;
    d9_cuda *cuda = plan->device->backend;
    const d9_graph *graph = plan->graph;
    bool changed = false;
    for (int i = 0; i < D9_CUDA_INDICES; i++) changed |= cuda->indices[i].changed;
    if (!changed) return D9_OK;
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        const d9_node *node = &graph->nodes[n];
        if (node->op == D9_OP_DRAW)
            D9_TRY(check_input(context, cuda, graph, node, 0, "sample index", node->as.batch.samples));
        if ((node->op == D9_OP_TOKENS || node->op == D9_OP_STREAM) && graph->vocabulary > 0)
            D9_TRY(check_input(context, cuda, graph, node, 0, "token", graph->vocabulary));
        if (node->op != D9_OP_AUGMENT && node->op != D9_OP_GATHER && node->op != D9_OP_TOKENS) continue;
        const int64_t samples = graph->values[node->inputs[0]].shape.d[0];
        D9_TRY(check_input(context, cuda, graph, node, 1, "sample index", samples));
        if (node->op == D9_OP_GATHER && graph->classes > 0)
            D9_TRY(check_input(context, cuda, graph, node, 0, "label", label_limit(graph)));
    }
    for (int i = 0; i < D9_CUDA_INDICES; i++) cuda->indices[i].changed &= !cuda->indices[i].checked;
done:
    for (int i = 0; i < D9_CUDA_INDICES; i++) cuda->indices[i].checked = false;
    return status;
}

/* ---- synchronisation ---- */

/* Warns of steps that updated no weight because a gradient was not finite. Such steps do not end the run. */
static d9_status report_skipped(d9_context *context, d9_cuda *cuda) {
    d9_status status;
    d9_cuda_guard guard;
    D9_TRY(read(context, cuda, cuda->guard, &guard, sizeof guard));
    if (guard.skipped == cuda->skipped) return D9_OK;
    cuda->skipped = guard.skipped;
    const bool known = guard.first_parameter >= 0 && guard.first_parameter < cuda->gradient_count;
    d9_log(context, D9_LOG_WARNING, "%lld step%s updated no weight; in the first, step %lld, %s was not finite",
           (long long)guard.skipped, d9_text_plural(guard.skipped), (long long)guard.first_step,
           known ? cuda->program->train.values[cuda->gradients[guard.first_parameter]].name : "a gradient");
done:
    return status;
}

d9_status d9_cuda_sync(d9_context *context, d9_device *device) {
    d9_status status;
    d9_cuda *cuda = device->backend;
    D9_TRY(d9_host_sync(context, device));
    if (cuda->guard) D9_TRY(report_skipped(context, cuda));
done:
    return status;
}

/* ---- peak rates ---- */

enum { COPY_BYTES = 1 << 28 };

static d9_status copy_once(d9_context *context, void *what) {
    const d9_cuda *cuda = what;
    uint8_t *half = cuda->scratch;
    const int error = d9_cuda_copy(cuda->stream, half, COPY_BYTES, half + COPY_BYTES);
    return error ? d9_fail(context, D9_DEVICE, "copying: %s", cuda->driver->error(error)) : D9_OK;
}

d9_status d9_cuda_peak_rates(d9_context *context, void *backend, const d9_precision *precision,
                             d9_peak_rates *peak_rates) {
    d9_status status;
    d9_cuda *cuda = backend;
    bool fits;
    double seconds;
    D9_TRY(d9_cuda_can_enlarge_scratch(context, cuda, 2 * (int64_t)COPY_BYTES, &fits));
    if (fits) {
        D9_TRY(d9_cuda_borrow_scratch(context, cuda, 2 * (int64_t)COPY_BYTES));
        D9_TRY(d9_cuda_time(context, cuda, copy_once, cuda, 10, INFINITY, &seconds));
        peak_rates->bytes_per_second = 2 * (double)COPY_BYTES / seconds;
        D9_TRY(d9_cuda_restore_scratch(context, cuda));
    }
    if (cuda->convolver->peak_rate)
        D9_TRY(cuda->convolver->peak_rate(context, cuda, precision, &peak_rates->operations_per_second));
    D9_TRY(d9_cuda_restore_scratch(context, cuda)); /* the matrix product may have borrowed it */
done:
    return status;
}
