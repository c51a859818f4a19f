/* Batch normalisation over runs of pixels of C channels: sums, and the passes that use them.
 *
 * Sums run in f32 over D9_FOLD additions and are then added to doubles. So the error stays near that of one f32
 * rounding, however large the batch is. Squares are of the difference from a pivot (forward) or from the mean
 * (backward), so that a large mean costs no digits. */
#include "kernels/cpu/loops/tile.h"

#include "kernels/formulas/norm.h"

enum { D9_FOLD = 64 }; /* additions in f32 between two folds */

/* How a tile goes over pixels: with few channels several pixels lie side by side, many channels are cut into chunks. */
typedef struct walk {
    int64_t channels, rows, width;
} walk; /* width = channels * rows */

static walk walk_of(int64_t c, int64_t channels) {
    const int64_t n = d9_tile_count(c, channels), rows = n == channels && 2 * n <= D9_TILE ? D9_TILE / n : 1;
    return (walk){n, rows, n * rows};
}

/* Elements of the next tile when `left` pixels remain. */
static inline int64_t lanes(const walk *w, int64_t left) { return (left < w->rows ? left : w->rows) * w->channels; }

/* A term per channel as a term per lane. */
static const float *repeat(const float *terms, const walk *w, float *tile) {
    if (w->rows == 1) return terms;
    for (int64_t r = 0; r < w->rows; r++)
        for (int64_t i = 0; i < w->channels; i++) tile[r * w->channels + i] = terms[i];
    return tile;
}

static void fold(const float *part, const walk *w, double *sums) {
    for (int64_t r = 0; r < w->rows; r++) {
        const float *row = part + r * w->channels;
#pragma omp simd
        for (int64_t i = 0; i < w->channels; i++) sums[i] += (double)row[i];
    }
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

void D9_LOOP_NAME(norm_sums)(d9_kernel_in x, int64_t at, int64_t pixels, int64_t channels, const float *pivot,
                             double *sums) {
    d9_tile tile, first, second, repeated;
    for (int64_t c = 0; c < channels; c += D9_TILE) {
        const walk w = walk_of(c, channels);
        const float *shift = repeat(pivot + c, &w, repeated);
        for (int64_t from = 0; from < pixels; from += D9_FOLD * w.rows) {
            const int64_t until = pixels - from < D9_FOLD * w.rows ? pixels : from + D9_FOLD * w.rows;
            clear(first, second, w.width);
            for (int64_t p = from; p < until; p += w.rows) {
                const int64_t n = lanes(&w, until - p);
                add_squares(d9_tile_load(x, at + p * channels + c, n, tile), shift, n, first, second);
            }
            fold(first, &w, sums + c);
            fold(second, &w, sums + channels + c);
        }
    }
}

/* dz of n channels from element `at`: dy, through the activation's slope where there is one. */
static inline const float *load_slope(d9_kernel_in dy, const d9_cpu_prologue *prologue, int64_t at, int64_t n,
                                      float *tile, float *reference) {
    const float *from = d9_tile_load(dy, at, n, tile);
    if (prologue->act.activation == D9_KERNEL_NO_ACT) return from;
    if (from != tile)
        for (int64_t i = 0; i < n; i++) tile[i] = from[i];
    d9_tile_slope(prologue->act, d9_tile_load(prologue->reference, at, n, reference), n, tile);
    d9_tile_round(dy.store, n, tile);
    return tile;
}

void D9_LOOP_NAME(norm_backward_sums)(d9_kernel_in dy, const d9_cpu_prologue *prologue, d9_kernel_in x, int64_t at,
                                      int64_t pixels, int64_t channels, const float *mean, double *sums) {
    d9_tile dy_tile, reference, x_tile, first, second, repeated;
    for (int64_t c = 0; c < channels; c += D9_TILE) {
        const walk w = walk_of(c, channels);
        const float *shift = repeat(mean + c, &w, repeated);
        for (int64_t from = 0; from < pixels; from += D9_FOLD * w.rows) {
            const int64_t until = pixels - from < D9_FOLD * w.rows ? pixels : from + D9_FOLD * w.rows;
            clear(first, second, w.width);
            for (int64_t p = from; p < until; p += w.rows) {
                const int64_t n = lanes(&w, until - p), here = at + p * channels + c;
                const float *dz = load_slope(dy, prologue, here, n, dy_tile, reference);
                add_products(dz, d9_tile_load(x, here, n, x_tile), shift, n, first, second);
            }
            fold(first, &w, sums + c);
            fold(second, &w, sums + channels + c);
        }
    }
}

/* y, and act(y) and the sum where they are wanted, for n channels from element `at`. */
static inline void finish(const d9_kernel_epilogue *epilogue, int64_t at, int64_t n, d9_kernel_out y, float *t) {
    d9_tile addend;
    if (epilogue->act.activation != D9_KERNEL_NO_ACT) {
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

/* The four terms of channels from c, each repeated. */
typedef struct four_terms {
    const float *term[4];
    d9_tile repeated[4];
} four_terms;
static void load_terms(const float *terms, int64_t c, int64_t channels, const walk *w, four_terms *four) {
    for (int i = 0; i < 4; i++) four->term[i] = repeat(terms + i * channels + c, w, four->repeated[i]);
}

void D9_LOOP_NAME(norm_apply)(d9_kernel_in x, int64_t at, int64_t pixels, int64_t channels, const float *terms,
                              const d9_kernel_epilogue *epilogue, d9_kernel_out y) {
    d9_tile tile;
    four_terms four;
    for (int64_t c = 0; c < channels; c += D9_TILE) {
        const walk w = walk_of(c, channels);
        load_terms(terms, c, channels, &w, &four);
        const float *mean = four.term[0], *inv_std = four.term[1], *scale = four.term[2], *bias = four.term[3];
        for (int64_t p = 0; p < pixels; p += w.rows) {
            const int64_t n = lanes(&w, pixels - p), here = at + p * channels + c;
            const float *from = d9_tile_load(x, here, n, tile);
            float *t = d9_tile_target(y, here, tile);
#pragma omp simd
            for (int64_t i = 0; i < n; i++) t[i] = d9_norm_apply_float(from[i], mean[i], inv_std[i], scale[i], bias[i]);
            finish(epilogue, here, n, y, t);
        }
    }
}

void D9_LOOP_NAME(norm_backward_apply)(d9_kernel_in dy, const d9_cpu_prologue *prologue, d9_kernel_in x, int64_t at,
                                       int64_t pixels, int64_t channels, const float *terms, d9_kernel_out dx) {
    d9_tile dy_tile, reference, x_tile;
    four_terms four;
    for (int64_t i = 0; i < channels; i += D9_TILE) {
        const walk w = walk_of(i, channels);
        load_terms(terms, i, channels, &w, &four);
        const float *mean = four.term[0], *a = four.term[1], *b = four.term[2], *c = four.term[3];
        for (int64_t p = 0; p < pixels; p += w.rows) {
            const int64_t n = lanes(&w, pixels - p), here = at + p * channels + i;
            const float *dz = load_slope(dy, prologue, here, n, dy_tile, reference);
            const float *from = d9_tile_load(x, here, n, x_tile);
            float *to = d9_tile_target(dx, here, dy_tile);
#pragma omp simd
            for (int64_t k = 0; k < n; k++) to[k] = a[k] * (dz[k] - b[k] - (from[k] - mean[k]) * c[k]);
            d9_tile_store(dx, here, n, to);
        }
    }
}
