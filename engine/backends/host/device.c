/* A device: the program's buffers, in host memory or allocated by the backend, and the backend's data. */
#include "backends/host/plan.h"
#include "core/machine.h"
#include "core/process.h"
#include "core/system.h"

#include <stdio.h>
#include <string.h>

/* Sets *given to the number of threads that OpenMP really starts: with a larger number, oneDNN's barriers would wait
 * for the missing threads for ever. `wanted`: the user's number; 0: the number of cores divided by the number of
 * processes that share them. Warns if OpenMP starts fewer threads than the user wanted. */
static d9_status choose_thread_count(d9_context *context, int wanted, const d9_parallel *parallel, int *given) {
    if (d9_parallel_sharers(parallel) > 1) d9_processors_unbind();
    const int sought = wanted > 0 ? wanted : d9_default_threads() / d9_parallel_sharers(parallel);
    const d9_status status = d9_openmp_threads_prepare(context, sought > 0 ? sought : 1, given);
    if (status == D9_OK && *given < wanted)
        d9_log(context, D9_LOG_WARNING,
               "threads: OpenMP gives %d of %d (OMP_THREAD_LIMIT, OMP_MAX_ACTIVE_LEVELS): using %d", *given, wanted,
               *given);
    return status;
}

d9_status d9_host_open(d9_context *context, const d9_device_kind *kind, const d9_backend_options *options,
                       d9_device **device) {
    d9_status status;
    d9_device *made = NULL;
    *device = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "a device", &made));
    made->kind = kind;
    made->options = *options;
    made->options.force_plan = NULL;
    D9_TRY(choose_thread_count(context, options->threads, options->parallel, &made->threads));
    made->options.threads = made->threads;
    if (options->force_plan) {
        size_t size = strlen(options->force_plan) + 1;
        D9_TRY(D9_ALLOCATE(context, size, "the plan to follow", &made->force_plan));
        made->options.force_plan = memcpy(made->force_plan, options->force_plan, size);
    }
    if (kind->open) D9_TRY(kind->open(context, &made->options, &made->backend));
    *device = made;
    made = NULL;
done:
    d9_host_close(context, made);
    return status;
}

static void release_buffer(d9_context *context, d9_device *device, int buffer) {
    const d9_device_memory *memory = device->kind->memory;
    if (memory && device->buffers[buffer]) memory->release(context, device->backend, device->buffers[buffer]);
    if (!memory) d9_parallel_release(context, device->options.parallel, device->buffers[buffer]);
}

void d9_host_close(d9_context *context, d9_device *device) {
    if (!device) return;
    for (int b = 0; b < D9_BUFFER_COUNT; b++) release_buffer(context, device, b);
    if (device->kind->close && device->backend) device->kind->close(context, device->backend);
    d9_release(context, device->force_plan);
    d9_release(context, device);
}

void d9_host_describe(const d9_device *device, d9_device_info *info) {
    *info = (d9_device_info){.threads = device->threads,
                             .memory_bytes = d9_memory_bytes(),
                             .preferred_precision = D9_PRECISION_F32,
                             .preferred_why = "",
                             .asynchronous = device->kind->memory != NULL};
    for (const d9_rule *const *table = device->kind->rules; *table; table++)
        for (const d9_rule *rule = *table; rule->name; rule++)
            if (rule->node_count > info->longest_rule) info->longest_rule = rule->node_count;
    if (!device->options.fuse) info->longest_rule = 1;
    d9_processor_name(info->name, sizeof info->name);
    device->kind->describe(device->backend, info);
}

/* Allocates a buffer on the backend's device or in host memory. On the host, the processes of a run share the memory of
 * GRADIENT, if possible, so that its sum over the processes needs no copies. */
static d9_status allocate_buffer(d9_context *context, d9_device *device, int buffer, int64_t bytes, const char *purpose,
                                 void **memory) {
    d9_parallel *sharing = buffer == D9_BUFFER_GRADIENT ? device->options.parallel : NULL;
    if (!device->kind->memory) return d9_parallel_allocate(context, sharing, bytes, purpose, memory);
    return device->kind->memory->allocate(context, device->backend, bytes, purpose, memory);
}

d9_status d9_host_allocate(d9_context *context, d9_device *device, const d9_program *program) {
    d9_status status = D9_OK;
    for (int b = 0; b < D9_BUFFER_COUNT; b++) {
        char purpose[64];
        void *memory;
        snprintf(purpose, sizeof purpose, "the buffer %s", d9_program_buffer_name(program, (d9_buffer)b));
        D9_TRY(allocate_buffer(context, device, b, program->buffer_bytes[b], purpose, &memory));
        device->buffers[b] = memory;
        device->bytes[b] = program->buffer_bytes[b];
    }
done:
    return status;
}

static d9_status check_range(d9_context *context, const d9_device *device, d9_buffer buffer, int64_t offset,
                             int64_t size) {
    if (offset >= 0 && size >= 0 && offset <= device->bytes[buffer] && size <= device->bytes[buffer] - offset)
        return D9_OK;
    return d9_fail(context, D9_DEVICE, "the buffer %s has %lld bytes: %lld at %lld lie outside", d9_buffer_name(buffer),
                   (long long)device->bytes[buffer], (long long)size, (long long)offset);
}

d9_status d9_host_write(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, const void *bytes,
                        int64_t size) {
    const d9_device_memory *memory = device->kind->memory;
    d9_status status = check_range(context, device, buffer, offset, size);
    if (status != D9_OK || size == 0) return status;
    if (memory) return memory->write(context, device->backend, device->buffers[buffer] + offset, bytes, size);
    memcpy(device->buffers[buffer] + offset, bytes, (size_t)size);
    return D9_OK;
}

d9_status d9_host_read(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, void *bytes,
                       int64_t size) {
    const d9_device_memory *memory = device->kind->memory;
    d9_status status = check_range(context, device, buffer, offset, size);
    if (status != D9_OK || size == 0) return status;
    if (memory) return memory->read(context, device->backend, device->buffers[buffer] + offset, bytes, size);
    memcpy(bytes, device->buffers[buffer] + offset, (size_t)size);
    return D9_OK;
}

d9_status d9_host_peak_rates(d9_context *context, d9_device *device, const d9_precision *precision,
                             d9_peak_rates *peak_rates) {
    *peak_rates = (d9_peak_rates){0};
    if (!device->kind->peak_rates) return D9_OK;
    return device->kind->peak_rates(context, device->backend, precision, peak_rates);
}

d9_status d9_host_sync(d9_context *context, d9_device *device) {
    if (device->kind->memory) return device->kind->memory->sync(context, device->backend);
    return D9_OK; /* on the host, d9_backend.run returns after its work is done */
}
