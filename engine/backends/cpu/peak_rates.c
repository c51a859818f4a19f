/* Measures the peak rates of the machine in the operations that a step uses: large matrix products and our own copy. */
#include "backends/cpu/cpu.h"
#include "core/system.h"
#include "kernels/cpu/conv.h"

#include <omp.h>

enum { SIDE = 2048, COPY_BYTES = 1 << 28, TRIES = 5 };
static const double limit_seconds = 2; /* after this time no further run of the product begins, except the second */

/* Operations per second of a matrix product: a 1 x 1 convolution of 1-pixel images by our first kernel that fits. */
static d9_status measure_own_product(d9_context *context, const d9_cpu *cpu, d9_type type, double *rate) {
    d9_status status = D9_OK;
    const d9_cpu_conv_shape shape = {.pass = D9_CPU_CONV_FORWARD,
                                     .store = type == D9_BF16 ? D9_KERNEL_BF16 : D9_KERNEL_F32,
                                     .images = SIDE,
                                     .height = 1,
                                     .width = 1,
                                     .inputs = SIDE,
                                     .out_height = 1,
                                     .out_width = 1,
                                     .outputs = SIDE,
                                     .kernel = 1,
                                     .stride = 1};
    const size_t bytes = (size_t)SIDE * SIDE * d9_type_bytes(type);
    const d9_cpu_conv_kernel *kernel = NULL;
    uint8_t *matrices = NULL;
    void *scratch = NULL;
    *rate = 0;
    for (int k = 0; d9_cpu_conv_kernels[k] && !kernel; k++)
        if (d9_cpu_conv_kernels[k]->fits(cpu, &shape)) kernel = d9_cpu_conv_kernels[k];
    if (!kernel) return D9_OK;
    D9_TRY(D9_ALLOCATE(context, 3 * bytes, "matrices to time", &matrices));
    D9_TRY(d9_allocate(context, (size_t)kernel->scratch_bytes(cpu, &shape), "scratch to time in", &scratch));
    const d9_cpu_conv_arrays arrays = {.x = matrices, .w = matrices + bytes, .y = matrices + 2 * bytes};
    const double began = d9_clock_now();
    for (int i = 0; i < TRIES && (i < 2 || d9_clock_now() - began < limit_seconds); i++) {
        const double start = d9_clock_now();
        kernel->run(cpu, &shape, &arrays, scratch);
        const double here = 2.0 * SIDE * SIDE * SIDE / (d9_clock_now() - start);
        if (here > *rate) *rate = here;
    }
done:
    d9_release(context, scratch);
    d9_release(context, matrices);
    return status;
}

/* Bytes read and written per second by copies of COPY_BYTES bytes. */
static d9_status measure_copy(d9_context *context, const d9_cpu *cpu, double *rate) {
    d9_status status;
    uint8_t *memory = NULL;
    *rate = 0;
    D9_TRY(D9_ALLOCATE(context, (size_t)2 * COPY_BYTES, "memory to time copying in", &memory));
    for (int i = 0; i < TRIES; i++) {
        const double start = d9_clock_now();
        d9_cpu_copy(cpu, memory, COPY_BYTES, memory + COPY_BYTES);
        const double here = 2.0 * COPY_BYTES / (d9_clock_now() - start);
        if (here > *rate) *rate = here;
    }
done:
    d9_release(context, memory);
    return status;
}

d9_status d9_cpu_peak_rates(d9_context *context, void *opened, const d9_precision *precision,
                            d9_peak_rates *peak_rates) {
    d9_status status;
    const d9_cpu_device *device = opened;
    double theirs = 0;
    omp_set_num_threads(device->cpu.threads);
    D9_TRY(measure_own_product(context, &device->cpu, precision->compute, &peak_rates->operations_per_second));
    if (device->library)
        D9_TRY(device->library->matrix_rate(context, device->library_state, precision->compute, &theirs));
    if (theirs > peak_rates->operations_per_second) peak_rates->operations_per_second = theirs;
    D9_TRY(measure_copy(context, &device->cpu, &peak_rates->bytes_per_second));
done:
    return status;
}
