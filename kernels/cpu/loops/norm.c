/* Batch normalisation over runs of pixels of C channels: sums, and the passes that use them.
 *
 * Sums run in f32 over D9_FOLD pixels and are then folded into doubles: the error stays near that of one f32
 * rounding whatever the batch. Squares are taken about a pivot (forward) or the mean (backward), so that a large mean
 * costs no digits. */
#include "kernels/cpu/loops/tile.h"

#include "kernels/formulas/norm.h"

enum { D9_FOLD = 64 }; /* pixels */

static void fold(const float *part, int64_t n, double *sums) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) sums[i] += (double)part[i];
}

static void clear(float *a, float *b, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) a[i] = b[i] = 0;
}

/* a += u - shift, b += (u - shift)^2 */
static inline void add_squares(const float *u, const float *shift, int64_t n, float *a, float *b) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float d = u[i] - shift[i];
        a[i] += d;
        b[i] += d * d;
    }
}

/* a += u, b += u * (v - shift) */
static inline void add_products(const float *u, const float *v, const float *shift, int64_t n, float *a, float *b) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        a[i] += u[i];
        b[i] += u[i] * (v[i] - shift[i]);
    }
}

void d9_loop_norm_sums(d9_cpu_in x, int64_t at, int64_t pixels, int64_t channels, const float *pivot, double *sums) {
    d9_tile tile, first, second;
    for (int64_t c = 0, n; c < channels; c += n) {
        n = d9_tile_count(c, channels);
        for (int64_t from = 0; from < pixels; from += D9_FOLD) {
            const int64_t until = from + D9_FOLD < pixels ? from + D9_FOLD : pixels;
            clear(first, second, n);
            for (int64_t p = from; p < until; p++)
                add_squares(d9_tile_load(x, at + p * channels + c, n, tile), pivot + c, n, first, second);
            fold(first, n, sums + c);
            fold(second, n, sums + channels + c);
        }
    }
}

/* dz of n channels from element `at`: dy, through the activation's slope where there is one. */
static inline const float *load_slope(d9_cpu_in dy, const d9_cpu_prologue *prologue, int64_t at, int64_t n,
                                      float *tile, float *reference) {
    const float *from = d9_tile_load(dy, at, n, tile);
    if (prologue->act.activation == D9_CPU_NO_ACT) return from;
    if (from != tile)
        for (int64_t i = 0; i < n; i++) tile[i] = from[i];
    d9_tile_slope(prologue->act, d9_tile_load(prologue->reference, at, n, reference), n, tile);
    d9_tile_round(dy.store, n, tile);
    return tile;
}

void d9_loop_norm_backward_sums(d9_cpu_in dy, const d9_cpu_prologue *prologue, d9_cpu_in x, int64_t at, int64_t pixels,
                                int64_t channels, const float *mean, double *sums) {
    d9_tile dy_tile, reference, x_tile, first, second;
    for (int64_t c = 0, n; c < channels; c += n) {
        n = d9_tile_count(c, channels);
        for (int64_t from = 0; from < pixels; from += D9_FOLD) {
            const int64_t until = from + D9_FOLD < pixels ? from + D9_FOLD : pixels;
            clear(first, second, n);
            for (int64_t p = from; p < until; p++) {
                const int64_t here = at + p * channels + c;
                const float *dz = load_slope(dy, prologue, here, n, dy_tile, reference);
                add_products(dz, d9_tile_load(x, here, n, x_tile), mean + c, n, first, second);
            }
            fold(first, n, sums + c);
            fold(second, n, sums + channels + c);
        }
    }
}

/* y, and act(y) and the sum where they are wanted, for n channels from element `at`. */
static inline void finish(const d9_cpu_epilogue *epilogue, int64_t at, int64_t n, d9_cpu_out y, float *t) {
    d9_tile addend;
    if (epilogue->act.activation != D9_CPU_NO_ACT) {
        d9_tile_round(y.store, n, t);
        d9_tile_act(epilogue->act, n, t);
    }
    d9_tile_store(y, at, n, t);
    if (!epilogue->addend.data) return;
    const float *b = d9_tile_load(epilogue->addend, at, n, addend);
    float *to = d9_tile_target(epilogue->sum, at, addend);
    d9_tile_round(y.store, n, t);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = t[i] + b[i];
    d9_tile_store(epilogue->sum, at, n, to);
}

void d9_loop_norm_apply(d9_cpu_in x, int64_t at, int64_t pixels, int64_t channels, const float *terms,
                        const d9_cpu_epilogue *epilogue, d9_cpu_out y) {
    d9_tile tile;
    for (int64_t c = 0, n; c < channels; c += n) {
        n = d9_tile_count(c, channels);
        const float *mean = terms + c, *inv_std = mean + channels, *scale = inv_std + channels, *bias = scale + channels;
        for (int64_t p = 0; p < pixels; p++) {
            const int64_t here = at + p * channels + c;
            const float *from = d9_tile_load(x, here, n, tile);
            float *t = d9_tile_target(y, here, tile);
#pragma omp simd
            for (int64_t i = 0; i < n; i++) t[i] = d9_norm_apply_float(from[i], mean[i], inv_std[i], scale[i], bias[i]);
            finish(epilogue, here, n, y, t);
        }
    }
}

void d9_loop_norm_backward_apply(d9_cpu_in dy, const d9_cpu_prologue *prologue, d9_cpu_in x, int64_t at,
                                 int64_t pixels, int64_t channels, const float *terms, d9_cpu_out dx) {
    d9_tile dy_tile, reference, x_tile;
    for (int64_t i = 0, n; i < channels; i += n) {
        n = d9_tile_count(i, channels);
        const float *mean = terms + i, *a = mean + channels, *b = a + channels, *c = b + channels;
        for (int64_t p = 0; p < pixels; p++) {
            const int64_t here = at + p * channels + i;
            const float *dz = load_slope(dy, prologue, here, n, dy_tile, reference);
            const float *from = d9_tile_load(x, here, n, x_tile);
            float *to = d9_tile_target(dx, here, dy_tile);
#pragma omp simd
            for (int64_t k = 0; k < n; k++) to[k] = a[k] * (dz[k] - b[k] - (from[k] - mean[k]) * c[k]);
            d9_tile_store(dx, here, n, to);
        }
    }
}
