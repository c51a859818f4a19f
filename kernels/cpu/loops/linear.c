/* The classifier: small enough for dot products and sums of rows. Sums fold into doubles as in norm.c. */
#include "kernels/cpu/loops/tile.h"

enum { D9_FOLD = 64 }; /* samples */

static float element(d9_kernel_in x, int64_t at) {
    if (x.store == D9_KERNEL_F32) return ((const float *)x.data)[at];
    return d9_bf16_to_float(((const uint16_t *)x.data)[at]);
}

static void put(d9_kernel_out y, int64_t at, float value) {
    if (y.store == D9_KERNEL_F32) ((float *)y.data)[at] = value;
    else ((uint16_t *)y.data)[at] = d9_bf16_from_float(value);
}

void D9_LOOP_NAME(linear)(d9_kernel_in x, d9_kernel_in w, int64_t n, int64_t inputs, int64_t outputs, d9_kernel_out y) {
    d9_tile x_tile, w_tile;
    for (int64_t o = 0; o < outputs; o++) {
        double sum = 0;
        for (int64_t i = 0, count; i < inputs; i += count) {
            count = d9_tile_count(i, inputs);
            const float *p = d9_tile_load(x, n * inputs + i, count, x_tile);
            const float *q = d9_tile_load(w, o * inputs + i, count, w_tile);
            float part = 0;
#pragma omp simd reduction(+ : part)
            for (int64_t k = 0; k < count; k++) part += p[k] * q[k];
            sum += (double)part;
        }
        put(y, n * outputs + o, (float)sum);
    }
}

static inline void add_scaled(const float *from, float factor, int64_t n, float *sum) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) sum[i] += factor * from[i];
}

void D9_LOOP_NAME(linear_backward_data)(d9_kernel_in dy, d9_kernel_in w, int64_t n, int64_t inputs, int64_t outputs,
                                  d9_kernel_out dx) {
    d9_tile w_tile, sum;
    for (int64_t i = 0, count; i < inputs; i += count) {
        count = d9_tile_count(i, inputs);
        for (int64_t k = 0; k < count; k++) sum[k] = 0;
        for (int64_t o = 0; o < outputs; o++)
            add_scaled(d9_tile_load(w, o * inputs + i, count, w_tile), element(dy, n * outputs + o), count, sum);
        float *to = d9_tile_target(dx, n * inputs + i, sum);
        for (int64_t k = 0; k < count; k++) to[k] = sum[k];
        d9_tile_store(dx, n * inputs + i, count, sum);
    }
}

void D9_LOOP_NAME(linear_backward_weight)(d9_kernel_in dy, d9_kernel_in x, int64_t o, int64_t samples, int64_t inputs,
                                    int64_t outputs, d9_kernel_out dw) {
    d9_tile x_tile, part;
    double sum[D9_TILE];
    for (int64_t i = 0, count; i < inputs; i += count) {
        count = d9_tile_count(i, inputs);
        for (int64_t k = 0; k < count; k++) sum[k] = 0;
        for (int64_t from = 0; from < samples; from += D9_FOLD) {
            const int64_t until = from + D9_FOLD < samples ? from + D9_FOLD : samples;
            for (int64_t k = 0; k < count; k++) part[k] = 0;
            for (int64_t n = from; n < until; n++)
                add_scaled(d9_tile_load(x, n * inputs + i, count, x_tile), element(dy, n * outputs + o), count, part);
            for (int64_t k = 0; k < count; k++) sum[k] += (double)part[k];
        }
        for (int64_t k = 0; k < count; k++) put(dw, o * inputs + i + k, (float)sum[k]);
    }
}
