/* A bias for each channel. The forward pass runs the norm's loop with mean 0 and factor 1, which gives exactly x +
 * bias. The gradient sums fixed parts of the rows and adds the parts in order, so it does not depend on the number of
 * threads.
 *
 * Scratch: forward floats (3, C): mean, factor, bias; backward doubles (PARTS, 2, C). */
#include "kernels/cpu/kernels.h"

enum { PARTS = 64, WORTH = 1 << 14 }; /* parts; elements that are worth waking another thread */

int64_t d9_cpu_bias_scratch_bytes(int64_t channels) { return channels * PARTS * 2 * (int64_t)sizeof(double); }

/* Part i of the PARTS parts of the rows, as one run. */
static d9_cpu_run part_of(int64_t rows, int64_t channels, int64_t i) {
    const int64_t from = rows * i / PARTS, until = rows * (i + 1) / PARTS;
    return (d9_cpu_run){from * channels, 0, 1, until - from};
}

void d9_cpu_bias_forward(const d9_cpu *cpu, d9_kernel_in x, const float *bias, int64_t rows, int64_t channels,
                         const d9_kernel_epilogue *epilogue, void *scratch, d9_kernel_out y) {
    float *terms = scratch;
    const bool stream = d9_cpu_streams(cpu, rows * channels * d9_kernel_store_bytes(y.store));
    for (int64_t c = 0; c < channels; c++) {
        terms[c] = 0;
        terms[channels + c] = 1;
        terms[2 * channels + c] = bias[c];
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(static) if (rows * channels > WORTH)
    for (int64_t i = 0; i < PARTS; i++) {
        const d9_cpu_run run = part_of(rows, channels, i);
        cpu->loops->norm_apply(x, &run, channels, terms, epilogue, stream, y);
    }
}

void d9_cpu_bias_backward(const d9_cpu *cpu, d9_kernel_in dy, const d9_cpu_prologue *prologue, int64_t rows,
                          int64_t channels, void *scratch, float *dbias) {
    double *sums = scratch;
    const d9_kernel_in dz = prologue->dz.data ? (d9_kernel_in){prologue->dz.data, prologue->dz.store} : dy;
#pragma omp parallel for num_threads(cpu->threads) schedule(static) if (rows * channels > WORTH)
    for (int64_t i = 0; i < PARTS; i++) {
        const d9_cpu_run run = part_of(rows, channels, i);
        double *own = sums + i * 2 * channels;
        for (int64_t c = 0; c < 2 * channels; c++) own[c] = 0;
        if (prologue->dz.data) d9_cpu_prologue_run(cpu, prologue, dy, run.at, run.at + run.pixels * channels);
        cpu->loops->bias_sums(dz, &run, channels, own);
    }
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t i = 0; i < PARTS; i++) sum += sums[i * 2 * channels + c];
        if (dbias) dbias[c] = (float)sum;
    }
}
