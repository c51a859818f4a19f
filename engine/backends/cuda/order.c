/* Computes the epoch's order on the device by sorting the keys of d9_epoch_order, so that no step waits for the host.
 * The scratch memory holds the sort's temporary data, then the whole order, whose beginning fills the buffer. */
#include "backends/cuda/cuda.h"

static d9_status check(d9_context *context, const d9_cuda *cuda, int error) {
    return error ? d9_fail(context, D9_DEVICE, "the epoch's order: %s", cuda->driver->error(error)) : D9_OK;
}

static d9_status sorting_bytes(d9_context *context, const d9_cuda *cuda, int64_t samples, int64_t *bytes) {
    size_t own = 0;
    const d9_status status = check(context, cuda, d9_cuda_order_scratch_bytes(samples, &own));
    *bytes = ((int64_t)own + 255) / 256 * 256;
    return status;
}

d9_status d9_cuda_epoch_order_bytes(d9_context *context, const d9_cuda *cuda, const d9_program *program,
                                    int64_t *bytes) {
    const int64_t samples = program->extent.train_samples;
    const d9_status status = sorting_bytes(context, cuda, samples, bytes);
    *bytes += samples * (int64_t)sizeof(int32_t);
    return status;
}

d9_status d9_cuda_epoch_order(d9_context *context, d9_device *device, uint64_t seed, int64_t epoch, int64_t samples) {
    d9_status status;
    d9_cuda *cuda = device->backend;
    int64_t bytes, head = samples * (int64_t)sizeof(int32_t);
    D9_TRY(cuda->driver->select(context, cuda->state));
    D9_TRY(sorting_bytes(context, cuda, samples, &bytes));
    D9_TRY(d9_cuda_borrow_scratch(context, cuda, bytes + head)); /* planning has reserved this size */
    int32_t *order = (int32_t *)(void *)((uint8_t *)cuda->scratch + bytes);
    D9_TRY(check(context, cuda, d9_cuda_order(cuda->stream, seed, (uint32_t)epoch, samples, cuda->scratch, order)));
    if (head > device->bytes[D9_BUFFER_ORDER]) head = device->bytes[D9_BUFFER_ORDER];
    D9_TRY(check(context, cuda, d9_cuda_copy(cuda->stream, order, head, device->buffers[D9_BUFFER_ORDER])));
    cuda->indices[D9_CUDA_ORDER].changed = false; /* the sort makes only valid indices */
done:
    return status;
}
