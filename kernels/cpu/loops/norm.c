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

/* Some rows of a tile's lanes, all in one visit of the sums. */
enum { D9_ROWS = 4 };
typedef const float *rows[D9_ROWS];

/* a += u - shift, b += (u - shift)^2 */
static inline void add_squares(rows u, const float *shift, int64_t n, float *a, float *b) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float p = u[0][i] - shift[i], q = u[1][i] - shift[i], r = u[2][i] - shift[i], s = u[3][i] - shift[i];
        a[i] += (p + q) + (r + s);
        b[i] += (p * p + q * q) + (r * r + s * s);
    }
}

static inline void add_row_squares(const float *u, const float *shift, int64_t n, float *a, float *b) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float d = u[i] - shift[i];
        a[i] += d;
        b[i] += d * d;
    }
}

/* a += u, b += u * (v - shift) */
static inline void add_products(rows u, rows v, const float *shift, int64_t n, float *a, float *b) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float s = shift[i];
        a[i] += (u[0][i] + u[1][i]) + (u[2][i] + u[3][i]);
        b[i] +=
            (u[0][i] * (v[0][i] - s) + u[1][i] * (v[1][i] - s)) + (u[2][i] * (v[2][i] - s) + u[3][i] * (v[3][i] - s));
    }
}

static inline void add_row_products(const float *u, const float *v, const float *shift, int64_t n, float *a, float *b) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        a[i] += u[i];
        b[i] += u[i] * (v[i] - shift[i]);
    }
}

/* The sums of a tile's lanes in f32, and how many rows they hold. */
typedef struct partial {
    d9_tile first, second;
    int64_t held;
} partial;

static void fold_partial(partial *part, const walk *w, double *sums, int64_t channels) {
    fold(part->first, w, sums);
    fold(part->second, w, sums + channels);
    clear(part->first, part->second, w->width);
    part->held = 0;
}

void D9_LOOP_NAME(norm_sums)(d9_kernel_in x, const d9_cpu_run *run, int64_t channels, const float *pivot,
                             double *sums) {
    d9_tile tile[D9_ROWS], repeated;
    partial part;
    for (int64_t c = 0; c < channels; c += D9_TILE) {
        const walk w = walk_of(c, channels);
        const float *shift = repeat(pivot + c, &w, repeated);
        clear(part.first, part.second, w.width);
        part.held = 0;
        for (int64_t m = 0; m < run->images; m++)
            for (int64_t p = 0, taken; p < run->pixels; p += taken * w.rows) {
                const int64_t here = run->at + m * run->stride + p * channels + c;
                taken = p + D9_ROWS * w.rows <= run->pixels ? D9_ROWS : 1;
                if (taken == 1) {
                    const int64_t n = lanes(&w, run->pixels - p);
                    add_row_squares(d9_tile_load(x, here, n, tile[0]), shift, n, part.first, part.second);
                } else {
                    rows u;
                    for (int k = 0; k < D9_ROWS; k++)
                        u[k] = d9_tile_load(x, here + k * w.rows * channels, w.width, tile[k]);
                    add_squares(u, shift, w.width, part.first, part.second);
                }
                part.held += taken;
                if (part.held + D9_ROWS > D9_FOLD) fold_partial(&part, &w, sums + c, channels);
            }
        fold_partial(&part, &w, sums + c, channels);
    }
}

/* dz of n channels from element `at`: dy, through the activation's slope where there is one. */
static inline const float *load_slope(d9_kernel_in dy, const d9_cpu_prologue *prologue, int64_t at, int64_t n,
                                      float *tile, float *reference) {
    const float *from = d9_tile_load(dy, at, n, tile);
    if (prologue->act.activation == D9_KERNEL_NO_ACT) return from;
    d9_tile_slope(prologue->act, from, d9_tile_load(prologue->reference, at, n, reference), n, tile);
    d9_tile_round(dy.store, n, tile);
    return tile;
}

void D9_LOOP_NAME(norm_backward_sums)(d9_kernel_in dy, const d9_cpu_prologue *prologue, d9_kernel_in x,
                                      const d9_cpu_run *run, int64_t channels, const float *mean, double *sums) {
    d9_tile dy_tile[D9_ROWS], x_tile[D9_ROWS], reference, repeated;
    partial part;
    for (int64_t c = 0; c < channels; c += D9_TILE) {
        const walk w = walk_of(c, channels);
        const float *shift = repeat(mean + c, &w, repeated);
        clear(part.first, part.second, w.width);
        part.held = 0;
        for (int64_t m = 0; m < run->images; m++)
            for (int64_t p = 0, taken; p < run->pixels; p += taken * w.rows) {
                const int64_t here = run->at + m * run->stride + p * channels + c;
                taken = p + D9_ROWS * w.rows <= run->pixels ? D9_ROWS : 1;
                const int64_t n = taken == 1 ? lanes(&w, run->pixels - p) : w.width;
                rows u, v;
                for (int64_t k = 0; k < taken; k++) {
                    const int64_t there = here + k * w.rows * channels;
                    u[k] = load_slope(dy, prologue, there, n, dy_tile[k], reference);
                    v[k] = d9_tile_load(x, there, n, x_tile[k]);
                }
                if (taken == 1)
                    add_row_products(u[0], v[0], shift, n, part.first, part.second);
                else
                    add_products(u, v, shift, n, part.first, part.second);
                part.held += taken;
                if (part.held + D9_ROWS > D9_FOLD) fold_partial(&part, &w, sums + c, channels);
            }
        fold_partial(&part, &w, sums + c, channels);
    }
}

/* The four terms of channels from c, each repeated. */
typedef struct four_terms {
    const float *term[4];
    d9_tile repeated[4];
} four_terms;
static void load_terms(const float *terms, int64_t c, int64_t channels, const walk *w, four_terms *four) {
    for (int i = 0; i < 4; i++) four->term[i] = repeat(terms + i * channels + c, w, four->repeated[i]);
}

/* t = act(norm(from)). In bf16 the value between is rounded as if it had been stored. */
static void normalise(const float *from, const four_terms *four, int64_t n, d9_kernel_act act, d9_kernel_store store,
                      float *t) {
    const float *mean = four->term[0], *inv_std = four->term[1], *scale = four->term[2], *bias = four->term[3];
    const float alpha = act.alpha;
    const bool apart = store != D9_KERNEL_F32;
    switch (apart ? D9_KERNEL_NO_ACT : act.activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                      \
    case D9_ACT_##id:                                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                \
            t[i] = d9_act_##id##_float(d9_norm_apply_float(from[i], mean[i], inv_std[i], scale[i], bias[i]), alpha);   \
        break;
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default:
#pragma omp simd
        for (int64_t i = 0; i < n; i++) t[i] = d9_norm_apply_float(from[i], mean[i], inv_std[i], scale[i], bias[i]);
    }
    if (!apart || act.activation == D9_KERNEL_NO_ACT) return;
    d9_tile_round(store, n, t);
    d9_tile_act(act, n, t);
}

/* t + addend, where it is wanted, for n channels from element `at`; t is y before it rounded. */
static inline void add_to(const d9_kernel_epilogue *epilogue, bool stream, int64_t at, int64_t n, d9_kernel_store store,
                          float *t) {
    d9_tile addend;
    const float *b = d9_tile_load(epilogue->addend, at, n, addend);
    float *to = d9_tile_place(epilogue->sum, stream, at, addend);
    d9_tile_round(store, n, t);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = t[i] + b[i];
    d9_tile_put(epilogue->sum, stream, at, n, to);
}

void D9_LOOP_NAME(norm_apply)(d9_kernel_in x, int64_t at, int64_t pixels, int64_t channels, const float *terms,
                              const d9_kernel_epilogue *epilogue, bool stream, d9_kernel_out y) {
    d9_tile tile;
    four_terms four;
    for (int64_t c = 0; c < channels; c += D9_TILE) {
        const walk w = walk_of(c, channels);
        load_terms(terms, c, channels, &w, &four);
        for (int64_t p = 0; p < pixels; p += w.rows) {
            const int64_t n = lanes(&w, pixels - p), here = at + p * channels + c;
            const float *from = d9_tile_load(x, here, n, tile);
            float *t = d9_tile_place(y, stream, here, tile);
            normalise(from, &four, n, epilogue->act, y.store, t);
            d9_tile_put(y, stream, here, n, t);
            if (epilogue->addend.data) add_to(epilogue, stream, here, n, y.store, t);
        }
    }
    if (stream) d9_stream_end();
}

void D9_LOOP_NAME(norm_backward_apply)(d9_kernel_in dy, const d9_cpu_prologue *prologue, d9_kernel_in x, int64_t at,
                                       int64_t pixels, int64_t channels, const float *terms, bool stream,
                                       d9_kernel_out dx) {
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
            float *to = d9_tile_place(dx, stream, here, dy_tile);
#pragma omp simd
            for (int64_t k = 0; k < n; k++) to[k] = a[k] * (dz[k] - b[k] - (from[k] - mean[k]) * c[k]);
            d9_tile_put(dx, stream, here, n, to);
        }
    }
    if (stream) d9_stream_end();
}
