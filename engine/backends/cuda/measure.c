/* Times work on the device, for planning and benchmarks; see cuda.h. */
#include "backends/cuda/cuda.h"
#include "core/system.h"

enum { TIMED_TOGETHER = 8 };

static d9_status time_together(d9_context *context, const d9_cuda *cuda, d9_cuda_work work, void *what, int together,
                               double *seconds) {
    d9_status status;
    D9_TRY(cuda->driver->mark(context, cuda->state, 0));
    for (int t = 0; t < together; t++) D9_TRY(work(context, what));
    D9_TRY(cuda->driver->mark(context, cuda->state, 1));
    D9_TRY(cuda->driver->elapsed(context, cuda->state, 0, 1, seconds));
    *seconds /= together;
done:
    return status;
}

d9_status d9_cuda_time(d9_context *context, const d9_cuda *cuda, d9_cuda_work work, void *what, int runs,
                       double give_up, double *seconds) {
    d9_status status;
    D9_TRY(cuda->driver->select(context, cuda->state));
    D9_TRY(work(context, what)); /* warm-up: loads the code */
    D9_TRY(time_together(context, cuda, work, what, 1, seconds));
    for (int i = 0; i < runs && *seconds <= give_up; i++) {
        double here;
        D9_TRY(time_together(context, cuda, work, what, TIMED_TOGETHER, &here));
        if (here < *seconds) *seconds = here;
    }
done:
    return status;
}

d9_status d9_cuda_ignore_failure(d9_context *context, const d9_cuda *cuda, d9_status status) {
    if (status == D9_OK || cuda->driver->sync(context, cuda->state) != D9_OK) return status;
    d9_log(context, D9_LOG_DEBUG, "%s", context->message);
    d9_context_clear(context);
    return D9_OK;
}

d9_status d9_cuda_time_fallible(d9_context *context, const d9_cuda *cuda, d9_cuda_work work, void *what, int runs,
                                double give_up, bool *ran, double *seconds) {
    const d9_status status = d9_cuda_time(context, cuda, work, what, runs, give_up, seconds);
    *ran = status == D9_OK;
    return d9_cuda_ignore_failure(context, cuda, status);
}

/* ---- data for timing ---- */

enum { PATTERN_BYTES = 1 << 16 }; /* repeated to fill the memory */

static void make_pattern(d9_type type, int64_t bytes, uint8_t *pattern) {
    for (int64_t i = 0; i < bytes / (int64_t)d9_type_bytes(type); i++) {
        const double x = 2 * d9_philox_unit(d9_philox4x32_10(0, (uint32_t)i, 0, 0, 0).v[0]) - 1;
        if (type == D9_F32)
            ((float *)(void *)pattern)[i] = (float)x;
        else
            ((uint16_t *)(void *)pattern)[i] = type == D9_BF16 ? d9_bf16_from_double(x) : d9_fp16_from_double(x);
    }
}

d9_status d9_cuda_fill_random(d9_context *context, const d9_cuda *cuda, d9_type type, int64_t bytes, void *to) {
    d9_status status;
    uint8_t *pattern = NULL;
    int64_t filled = bytes < PATTERN_BYTES ? bytes : PATTERN_BYTES;
    D9_TRY(D9_ALLOCATE(context, PATTERN_BYTES, "random numbers", &pattern));
    make_pattern(type, filled, pattern);
    D9_TRY(cuda->driver->write(context, cuda->state, to, pattern, filled));
    for (int64_t more; filled < bytes; filled += more) {
        more = filled < bytes - filled ? filled : bytes - filled;
        const int error = d9_cuda_copy(cuda->stream, to, more, (uint8_t *)to + filled);
        if (error) D9_TRY(d9_fail(context, D9_DEVICE, "random numbers: %s", cuda->driver->error(error)));
    }
done:
    d9_release(context, pattern);
    return status;
}
