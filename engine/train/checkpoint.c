/* Checkpoints: everything a run needs to go on as if nothing had happened. Draws and orders are functions of
 * (seed, step), so the buffers, the step and the timeline so far are all there is. */
#include "core/system.h"
#include "record/safetensors.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const d9_buffer kept[] = {D9_BUFFER_STATE,
                                 D9_BUFFER_ACCUMULATORS,
                                 D9_BUFFER_ACCUMULATORS + 1,
                                 D9_BUFFER_ACCUMULATORS + 2,
                                 D9_BUFFER_ACCUMULATORS + 3,
                                 D9_BUFFER_ACCUMULATORS + 4,
                                 D9_BUFFER_ACCUMULATORS + 5,
                                 D9_BUFFER_ACCUMULATORS + 6,
                                 D9_BUFFER_ACCUMULATORS + 7,
                                 D9_BUFFER_METRICS,
                                 D9_BUFFER_GUARD};
enum { KEPT = sizeof kept / sizeof *kept };

static d9_tensor_type tensor_type(const d9_session *session, d9_buffer buffer) {
    if (buffer == D9_BUFFER_GUARD) return D9_TENSOR_U8;
    if (buffer == D9_BUFFER_METRICS || session->program.precision->master == D9_F64) return D9_TENSOR_F64;
    return D9_TENSOR_F32;
}

static d9_tensor vector(const char *name, d9_tensor_type type, const void *bytes, int64_t size) {
    int64_t element = type == D9_TENSOR_F64 ? 8 : type == D9_TENSOR_F32 ? 4 : 1;
    return (d9_tensor){name, type, {1, {size / element}}, bytes, (size_t)size};
}

/* What must agree between the checkpoint and the run that reads it. */
static void identity(const d9_session *session, char hash[65], char seed[32], d9_metadata metadata[4]) {
    d9_config_hash(session->context, session->config, hash);
    snprintf(seed, 32, "%llu", (unsigned long long)session->seed);
    metadata[0] = (d9_metadata){"config_hash", hash};
    metadata[1] = (d9_metadata){"seed", seed};
    metadata[2] = (d9_metadata){"precision", session->program.precision->name};
    metadata[3] = (d9_metadata){"backend", session->backend->name};
}

static d9_status read_buffers(d9_session *session, d9_arena *arena, d9_tensor *tensors, int *count) {
    d9_status status = D9_OK;
    for (int i = 0; i < KEPT; i++) {
        int64_t bytes = session->program.buffer_bytes[kept[i]];
        void *memory;
        if (bytes == 0) continue;
        D9_TRY(d9_arena_allocate(session->context, arena, (size_t)bytes, &memory));
        D9_TRY(session->backend->read(session->context, session->device, kept[i], 0, memory, bytes));
        tensors[(*count)++] = vector(d9_program_buffer_name(&session->program, kept[i]), tensor_type(session, kept[i]), memory, bytes);
    }
done:
    return status;
}

d9_status d9_checkpoint_write(d9_session *session, const char *path, const d9_progress_state *progress) {
    d9_status status;
    d9_arena arena = {0};
    d9_tensor tensors[KEPT + 2];
    d9_metadata metadata[6];
    char hash[65], seed[32], step[32];
    int count = 0;
    const d9_timeline *timeline = &session->timeline;
    identity(session, hash, seed, metadata);
    snprintf(step, sizeof step, "%lld", (long long)progress->step);
    metadata[4] = (d9_metadata){"step", step};
    metadata[5] = (d9_metadata){"format", "dawn9 checkpoint 1"};
    D9_TRY(read_buffers(session, &arena, tensors, &count));
    /* Rows and segments are structs of eight-byte fields (and one int); they travel as the bytes they are. */
    tensors[count++] =
        vector("epochs", D9_TENSOR_U8, progress->epochs, progress->epoch_count * (int64_t)sizeof(d9_epoch_row));
    tensors[count++] =
        vector("timeline", D9_TENSOR_U8, timeline->segments, timeline->count * (int64_t)sizeof(d9_segment));
    D9_TRY(d9_safetensors_write(session->context, path, tensors, count, metadata, 6));
done:
    d9_arena_free(session->context, &arena);
    return status;
}

static d9_status check_identity(d9_session *session, const char *path, const d9_safetensors *file) {
    static const char *const what[4] = {"configuration", "seed", "precision", "backend"};
    char hash[65], seed[32];
    d9_metadata mine[4];
    identity(session, hash, seed, mine);
    for (int i = 0; i < 4; i++) {
        const char *theirs = d9_safetensors_metadata(file, mine[i].key);
        if (!theirs)
            return d9_fail(session->context, D9_DATA, "%s: is no checkpoint: it does not say its %s", path, what[i]);
        if (strcmp(theirs, mine[i].value) != 0)
            return d9_fail(session->context, D9_USAGE,
                           "%s: is a checkpoint of another %s (%.16s, this run has %.16s): start anew without "
                           "--resume, or in another folder",
                           path, what[i], theirs, mine[i].value);
    }
    return D9_OK;
}

static d9_status expect(d9_session *session, const char *path, const d9_safetensors *file, const char *name,
                        int64_t bytes, const d9_tensor **tensor) {
    *tensor = d9_safetensors_find(file, name);
    if (!*tensor) return d9_fail(session->context, D9_DATA, "%s: has no tensor %s", path, name);
    if (bytes >= 0 && (*tensor)->size != (size_t)bytes)
        return d9_fail(session->context, D9_DATA, "%s: %s has %zu bytes, %lld expected", path, name, (*tensor)->size,
                       (long long)bytes);
    return D9_OK;
}

static d9_status restore_timeline(d9_session *session, const d9_tensor *tensor) {
    d9_status status = D9_OK;
    const d9_segment *segments = tensor->bytes;
    for (size_t i = 0; i < tensor->size / sizeof *segments; i++) {
        if (segments[i].kind < 0 || segments[i].kind >= D9_SEGMENT_COUNT) continue;
        D9_TRY(d9_timeline_add(&session->timeline, segments[i].kind, segments[i].epoch, 0, segments[i].seconds));
    }
done:
    return status;
}

d9_status d9_checkpoint_read(d9_session *session, const char *path, int64_t capacity, d9_progress_state *progress) {
    d9_status status;
    d9_safetensors *file = NULL;
    const d9_tensor *tensor;
    D9_TRY(d9_safetensors_read(session->context, path, &file));
    D9_TRY(check_identity(session, path, file));
    const char *step = d9_safetensors_metadata(file, "step");
    if (!step || !d9_text_to_integer(step, &progress->step) || progress->step < 0 ||
        progress->step > session->program.steps)
        D9_TRY(d9_fail(session->context, D9_DATA, "%s: step %s is outside this run's 0 to %lld", path,
                       step ? step : "(none)", (long long)session->program.steps));
    for (int i = 0; i < KEPT; i++) {
        int64_t bytes = session->program.buffer_bytes[kept[i]];
        if (bytes == 0) continue;
        D9_TRY(expect(session, path, file, d9_program_buffer_name(&session->program, kept[i]), bytes, &tensor));
        D9_TRY(session->backend->write(session->context, session->device, kept[i], 0, tensor->bytes, bytes));
    }
    D9_TRY(expect(session, path, file, "epochs", -1, &tensor));
    progress->epoch_count = (int64_t)(tensor->size / sizeof(d9_epoch_row));
    if (progress->epoch_count > capacity)
        D9_TRY(d9_fail(session->context, D9_DATA, "%s: has %lld epochs, more than this run", path,
                       (long long)progress->epoch_count));
    memcpy(progress->epochs, tensor->bytes, tensor->size);
    D9_TRY(expect(session, path, file, "timeline", -1, &tensor));
    D9_TRY(restore_timeline(session, tensor));
done:
    d9_safetensors_free(session->context, file);
    return status;
}
