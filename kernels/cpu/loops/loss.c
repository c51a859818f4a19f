/* The largest logit, and softmax over many classes, in f32. Sums are f32 over BLOCK terms in LANES partial sums and
 * double over the blocks, so that the error of a sum stays near that of its terms, whatever their number. e and dz may
 * be the array z. */
#include "kernels/cpu/loops/tile.h"

enum { BLOCK = 512, LANES = 16 };

void D9_LOOP_NAME(largest)(const float *x, int64_t count, float *largest) {
    float most[LANES]; /* not OpenMP's max reduction, which starts from -inf only in some compilers */
    int64_t i = 0;
    for (int l = 0; l < LANES; l++) most[l] = -INFINITY;
    for (; i + LANES <= count; i += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; l++) most[l] = x[i + l] > most[l] ? x[i + l] : most[l];
    }
    for (; i < count; i++) most[0] = x[i] > most[0] ? x[i] : most[0];
    for (int l = 1; l < LANES; l++) most[0] = most[l] > most[0] ? most[l] : most[0];
    *largest = most[0];
}

void D9_LOOP_NAME(exponentials)(const float *z, int64_t count, float largest, float *e, double *sum, double *total) {
    float unused[BLOCK];
    *sum = *total = 0;
    for (int64_t at = 0, n; at < count; at += n) {
        n = count - at < BLOCK ? count - at : BLOCK;
        const float *from = z + at;
        float *to = e ? e + at : unused, exponentials[LANES] = {0}, logits[LANES] = {0};
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES) {
#pragma omp simd
            for (int l = 0; l < LANES; l++) {
                const float logit = from[i + l], exponential = d9_exp_float(logit - largest);
                exponentials[l] += exponential;
                logits[l] += logit;
                to[i + l] = exponential;
            }
        }
        for (; i < n; i++) {
            const float logit = from[i], exponential = d9_exp_float(logit - largest);
            exponentials[i % LANES] += exponential;
            logits[i % LANES] += logit;
            to[i] = exponential;
        }
        for (int l = 0; l < LANES; l++) {
            *sum += (double)exponentials[l];
            *total += (double)logits[l];
        }
    }
}

void D9_LOOP_NAME(softmax_slopes)(const float *e, int64_t count, float factor, float smoothing, d9_kernel_out dz,
                                  int64_t at) {
    d9_tile tile;
    for (int64_t begin = 0, n; begin < count; begin += n) {
        n = d9_tile_count(begin, count);
        float *to = d9_tile_target(dz, at + begin, tile);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) to[i] = factor * e[begin + i] - smoothing;
        d9_tile_store(dz, at + begin, n, tile);
    }
}
