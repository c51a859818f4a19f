/* Softmax over many classes, in f32. Sums are f32 over BLOCK terms in the vector's lanes and double over the blocks, so
 * that the error of a sum stays near that of its terms, whatever their number. In a loop, e and dz may be z. */
#include "kernels/cpu/loops/loops.h"
#include "kernels/formulas/real.h"

enum { BLOCK = 512 };

void D9_LOOP_NAME(largest)(const float *x, int64_t count, float *largest) {
    float most = -INFINITY;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < count; i++) most = x[i] > most ? x[i] : most;
    *largest = most;
}

void D9_LOOP_NAME(exponentials)(const float *z, int64_t count, float largest, float *e, double *sum, double *total) {
    float unused[BLOCK];
    *sum = *total = 0;
    for (int64_t at = 0, n; at < count; at += n) {
        n = count - at < BLOCK ? count - at : BLOCK;
        const float *from = z + at;
        float *to = e ? e + at : unused, exponentials = 0, logits = 0;
#pragma omp simd reduction(+ : exponentials, logits)
        for (int64_t i = 0; i < n; i++) {
            const float logit = from[i], exponential = d9_exp_float(logit - largest);
            exponentials += exponential;
            logits += logit;
            to[i] = exponential;
        }
        *sum += (double)exponentials;
        *total += (double)logits;
    }
}

void D9_LOOP_NAME(softmax_slopes)(const float *e, int64_t count, float factor, float smoothing, float *dz) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) dz[i] = factor * e[i] - smoothing;
}
