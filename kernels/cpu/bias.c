/* A bias for each channel. The forward pass runs the norm's loop with mean 0 and factor 1, which gives exactly x +
 * bias. The gradient sums fixed parts of the rows and adds the parts in order, so it does not depend on the number of
 * threads. Threads share the parts or, with many channels, the blocks of channels; both give the same bits.
 *
 * Scratch: forward floats (3, C): mean, factor, bias; backward doubles (PARTS, 2, C), or (blocks, 3, BLOCK). */
#include "kernels/integers.h"
#include "kernels/cpu/kernels.h"

enum { PARTS = 64, WORTH = 1 << 14, BLOCK = 4096 }; /* more than WORTH elements use all threads; BLOCK: channels */

int64_t d9_cpu_bias_scratch_bytes(int64_t channels) {
    return (channels > BLOCK ? d9_round_up(channels, BLOCK) * 3 : channels * PARTS * 2) * (int64_t)sizeof(double);
}

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

/* own (2, until - from): the first row gets the sums of part i of the rows, the second one zeros */
static void sum_part(const d9_cpu *cpu, d9_kernel_in dz, int64_t rows, int64_t channels, int64_t i, int64_t from,
                     int64_t until, double *own) {
    const d9_cpu_run run = part_of(rows, channels, i);
    for (int64_t c = 0; c < 2 * (until - from); c++) own[c] = 0;
    cpu->loops->bias_sums(dz, &run, channels, from, until, own);
}

/* Writes dz of part i of the rows. If dz has no data, it equals dy, and nothing is written. */
static void apply_prologue(const d9_cpu *cpu, const d9_cpu_prologue *prologue, d9_kernel_in dy, int64_t rows,
                           int64_t channels, int64_t i) {
    const d9_cpu_run run = part_of(rows, channels, i);
    if (prologue->dz.data) d9_cpu_prologue_run(cpu, prologue, dy, run.at, run.at + run.pixels * channels);
}

static void sum_blocks(const d9_cpu *cpu, d9_kernel_in dz, int64_t rows, int64_t channels, double *sums, float *dbias) {
#pragma omp parallel for num_threads(cpu->threads) schedule(dynamic)
    for (int64_t from = 0; from < channels; from += BLOCK) {
        const int64_t until = d9_min(from + BLOCK, channels), count = until - from;
        double *all = sums + 3 * from, *own = all + count;
        for (int64_t c = 0; c < count; c++) all[c] = 0;
        for (int64_t i = 0; i < PARTS; i++) {
            sum_part(cpu, dz, rows, channels, i, from, until, own);
            for (int64_t c = 0; c < count; c++) all[c] += own[c];
        }
        for (int64_t c = 0; c < count; c++) dbias[from + c] = (float)all[c];
    }
}

void d9_cpu_bias_backward(const d9_cpu *cpu, d9_kernel_in dy, const d9_cpu_prologue *prologue, int64_t rows,
                          int64_t channels, void *scratch, float *dbias) {
    double *sums = scratch;
    const d9_kernel_in dz = prologue->dz.data ? (d9_kernel_in){prologue->dz.data, prologue->dz.store} : dy;
    const bool by_blocks = channels > BLOCK;
#pragma omp parallel for num_threads(cpu->threads) schedule(static) if (rows * channels > WORTH)
    for (int64_t i = 0; i < PARTS; i++) {
        apply_prologue(cpu, prologue, dy, rows, channels, i);
        if (!by_blocks) sum_part(cpu, dz, rows, channels, i, 0, channels, sums + i * 2 * channels);
    }
    if (by_blocks && dbias) sum_blocks(cpu, dz, rows, channels, sums, dbias);
    for (int64_t c = 0; c < channels && !by_blocks; c++) {
        double sum = 0;
        for (int64_t i = 0; i < PARTS; i++) sum += sums[i * 2 * channels + c];
        if (dbias) dbias[c] = (float)sum;
    }
}
