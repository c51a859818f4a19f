/* Batch normalisation over runs of pixels with C channels: sums, and the passes that use them.
 *
 * At most D9_FOLD additions are made in f32, then the sum is added to a double, so the error does not grow with the
 * batch size. Products use the difference of x from a pivot (forward) or from the mean (backward), so that a large mean
 * costs no precision.
 *
 * Each loop reads its arrays once, one vector at a time from load to store, with storage type and activation as
 * compile-time constants, so that loads, arithmetic and non-temporal stores overlap. */
#include "kernels/cpu/loops/lanes.h"
#include "kernels/integers.h"

#include "kernels/formulas/norm.h"

enum { D9_FOLD = 64, D9_ROWS = 4 }; /* most additions in f32 before a sum is added to a double; rows at a time */

/* Loops go row by row. A row is several pixels if there are few channels, otherwise at most D9_TILE channels of one
 * pixel. */
typedef struct layout {
    int64_t channels, rows, width;
} layout; /* of a row: channels of each pixel, number of pixels, number of elements */

static layout layout_of(int64_t c, int64_t channels) {
    const int64_t n = d9_tile_count(c, channels), rows = n == channels && 2 * n <= D9_TILE ? D9_TILE / n : 1;
    return (layout){n, rows, n * rows};
}

/* Number of elements in the next row if n pixels remain. */
static inline int64_t row_elements(const layout *w, int64_t n) { return (n < w->rows ? n : w->rows) * w->channels; }

/* Repeats the terms, one per channel, for each pixel of a row. Returns `tile` or, with one pixel a row, `terms`. */
static const float *repeat_terms(const float *terms, const layout *w, float *tile) {
    if (w->rows == 1) return terms;
    for (int64_t r = 0; r < w->rows; r++)
        for (int64_t i = 0; i < w->channels; i++) tile[r * w->channels + i] = terms[i];
    return tile;
}

/* Terms of the channels of a row, one for each of its elements. */
enum { MOST_TERMS = 5 };
typedef struct row_terms {
    const float *term[MOST_TERMS];
    d9_tile repeated[MOST_TERMS];
} row_terms;
static void load_terms(const float *terms, int count, int64_t c, int64_t channels, const layout *w, row_terms *here) {
    for (int i = 0; i < count; i++) here->term[i] = repeat_terms(terms + i * channels + c, w, here->repeated[i]);
}

/* The terms of one vector of channels. */
typedef struct vector_terms {
    d9_vector term[MOST_TERMS];
} vector_terms;
D9_INLINE vector_terms load_vector_terms(const row_terms *here, const int count, int64_t i, int64_t left) {
    vector_terms of;
    D9_UNROLL for (int k = 0; k < MOST_TERMS; k++) of.term[k] =
        k < count ? d9_lanes_load(D9_KERNEL_F32, here->term[k], i, left) : (d9_vector){0};
    return of;
}

/* The norm of a difference d = x - mean, before it is rounded. The forward and the backward pass compute it by this
 * formula alone, so a value computed again has the same bits. */
D9_INLINE d9_vector norm_of(d9_vector d, const vector_terms *of) { return d * of->term[1] + of->term[2]; }

/* The largest number that is stored as 0 in bf16: the instructions of AVX512_BF16 flush what is below 2^-126. */
#ifdef __AVX512BF16__
#define STORED_AS_ZERO 0x0.fffffep-126f
#else
#define STORED_AS_ZERO 0x1p-134f
#endif

/* RELU's derivative at its stored output, computed from the norm t. */
D9_INLINE d9_vector relu_slope(const d9_kernel_store store, d9_vector t) {
    const float zero = store == D9_KERNEL_BF16 ? STORED_AS_ZERO : 0;
    d9_lanes in, out;
    *(d9_vector *)in = t;
    D9_EACH_LANE(i) out[i] = in[i] <= zero ? 0.0f : 1.0f;
    return *(const d9_vector *)out;
}

/* Returns dz for `left` lanes from element `at`: dy, plus the addend and multiplied by the activation's derivative if
 * the prologue has them. `d`: x - mean, used if RELU's sign is recomputed. RELU's product needs no rounding, because
 * its factor is 0 or 1. */
D9_INLINE d9_vector load_dz(const d9_kernel_store store, const int activation, const bool recomputes, d9_kernel_in dy,
                            const d9_cpu_prologue *prologue, int64_t at, d9_vector d, const vector_terms *of,
                            int64_t left) {
    d9_vector from = d9_lanes_load(store, dy.data, at, left);
    if (prologue->addend.data)
        from = d9_lanes_round(store, from + d9_lanes_load(store, prologue->addend.data, at, left));
    if (activation == D9_KERNEL_NO_ACT) return from;
    if (recomputes) return from * relu_slope(store, norm_of(d, of));
    const d9_vector reference = d9_lanes_load(store, prologue->reference.data, at, left);
    const d9_vector dz = d9_lanes_act_backward(activation, prologue->act.alpha, from, reference);
    return activation == D9_ACT_RELU ? dz : d9_lanes_round(store, dz);
}

/* ---- sums ---- */

/* Sums in f32 for each element of a row, and the number of rows added since they were cleared. */
typedef struct partial {
    d9_tile first, second;
    int64_t held;
} partial;

static void clear_partial(partial *part, int64_t n) {
    for (int64_t i = 0; i < n; i++) part->first[i] = part->second[i] = 0;
    part->held = 0;
}

static void add_pixels_to_sums(const float *part, const layout *w, double *sums) {
    for (int64_t r = 0; r < w->rows; r++) {
        const float *row = part + r * w->channels;
#pragma omp simd
        for (int64_t i = 0; i < w->channels; i++) sums[i] += (double)row[i];
    }
}

static void flush_partial(partial *part, const layout *w, double *sums, int64_t channels) {
    add_pixels_to_sums(part->first, w, sums);
    add_pixels_to_sums(part->second, w, sums + channels);
    clear_partial(part, w->width);
}

typedef struct operands { /* operands of the sums: x, dz or both; load_dz computes dz from dy */
    d9_kernel_in x, dy;
    d9_cpu_prologue prologue;
} operands;
enum summand { OF_X, OF_DZ_AND_X, OF_DZ };

/* Prefetches a later row to the L2 cache; the sums are up to 20% faster on two cores of a Zen 5. */
D9_INLINE void prefetch(const d9_kernel_store store, d9_kernel_in x, int64_t at) {
    __builtin_prefetch((const char *)x.data + at * d9_kernel_store_bytes(store), 0, 2);
}

/* Adds elements [i, i + left) of `count` rows that are `step` elements apart: first += e, second += e d, with
 * d = x - term[0]. e is dz, or d if only x is summed. If only dz is summed, `second` is unchanged. */
D9_INLINE void add_rows(const d9_kernel_store store, const int activation, const bool recomputes,
                        const enum summand what, const int count, const operands *of, int64_t at, int64_t step,
                        const row_terms *terms, int64_t i, int64_t left, partial *part) {
    const bool prefetches =
        what == OF_X || store == D9_KERNEL_BF16; /* prefetching the three f32 arrays of a backward pass is 5% slower */
    const vector_terms of_row = load_vector_terms(terms, what == OF_DZ ? 0 : recomputes ? 3 : 1, i, left);
    d9_vector first = *(const d9_vector *)(part->first + i), second = *(const d9_vector *)(part->second + i);
    D9_UNROLL for (int k = 0; k < count; k++) {
        const int64_t here = at + k * step + i;
        d9_vector d = {0}, e;
        if (prefetches && what != OF_DZ) prefetch(store, of->x, here + count * step);
        if (prefetches && what != OF_X) prefetch(store, of->dy, here + count * step);
        if (prefetches && what == OF_DZ_AND_X && of->prologue.addend.data)
            prefetch(store, of->prologue.addend, here + count * step);
        if (prefetches && activation != D9_KERNEL_NO_ACT && !recomputes)
            prefetch(store, of->prologue.reference, here + count * step);
        if (what != OF_DZ) d = d9_lanes_load(store, of->x.data, here, left) - of_row.term[0];
        e = d;
        if (what != OF_X) e = load_dz(store, activation, recomputes, of->dy, &of->prologue, here, d, &of_row, left);
        if (what == OF_DZ_AND_X && of->prologue.dz.data)
            d9_lanes_store(store, false, e, left, of->prologue.dz.data, here);
        first += e;
        if (what != OF_DZ) second += e * d;
    }
    *(d9_vector *)(part->first + i) = first;
    if (what != OF_DZ) *(d9_vector *)(part->second + i) = second;
}

/* add_rows for elements [0, n) of `rows` rows: whole vectors of D9_ROWS rows at once, all else row by row. */
D9_INLINE void add_elements(const d9_kernel_store store, const int activation, const bool recomputes,
                            const enum summand what, const operands *of, int64_t rows, int64_t at, int64_t step,
                            const row_terms *terms, int64_t n, partial *part) {
    int64_t whole = 0;
    for (; rows == D9_ROWS && whole + D9_LANES <= n; whole += D9_LANES)
        add_rows(store, activation, recomputes, what, D9_ROWS, of, at, step, terms, whole, D9_LANES, part);
    for (int64_t k = 0, i; k < rows; k++) {
        for (i = whole; i + D9_LANES <= n; i += D9_LANES)
            add_rows(store, activation, recomputes, what, 1, of, at + k * step, step, terms, i, D9_LANES, part);
        if (i < n) add_rows(store, activation, recomputes, what, 1, of, at + k * step, step, terms, i, n - i, part);
    }
}

/* Adds the two sums of channels [from, until) to `sums` (2, until - from); `from` is 0 or a multiple of D9_TILE.
 * `terms` (rows, channels): the value subtracted from x and, if a reference is recomputed, the norm's factor and bias.
 */
D9_INLINE void add_run(const d9_kernel_store store, const int activation, const bool recomputes,
                       const enum summand what, const operands *of, const d9_cpu_run *run, int64_t channels,
                       int64_t from, int64_t until, const float *terms, double *sums) {
    row_terms here;
    partial part;
    for (int64_t c = from; c < until; c += D9_TILE) {
        const layout w = layout_of(c, channels);
        load_terms(terms, what == OF_DZ ? 0 : recomputes ? 3 : 1, c, channels, &w, &here);
        clear_partial(&part, D9_TILE);
        for (int64_t m = 0; m < run->images; m++)
            for (int64_t p = 0, taken; p < run->pixels; p += taken * w.rows) {
                const int64_t at = run->at + m * run->stride + p * channels + c;
                taken = p + D9_ROWS * w.rows <= run->pixels ? D9_ROWS : 1;
                add_elements(store, activation, recomputes, what, of, taken, at, w.rows * channels, &here,
                             row_elements(&w, run->pixels - p), &part);
                part.held += taken;
                if (part.held + D9_ROWS > D9_FOLD) flush_partial(&part, &w, sums + c - from, until - from);
            }
        flush_partial(&part, &w, sums + c - from, until - from);
    }
}

/* Calls `loop` with storage type, activation and `recomputes` as compile-time constants. */
#define BY_STORE(loop, activation, recomputes, ...)                                                                    \
    if (store == D9_KERNEL_F32)                                                                                        \
        loop(D9_KERNEL_F32, activation, recomputes, __VA_ARGS__);                                                      \
    else                                                                                                               \
        loop(D9_KERNEL_BF16, activation, recomputes, __VA_ARGS__);

void D9_LOOP_NAME(norm_sums)(d9_kernel_in x, const d9_cpu_run *run, int64_t channels, const float *pivot,
                             double *sums) {
    const operands of = {.x = x};
    const d9_kernel_store store = x.store;
    BY_STORE(add_run, D9_KERNEL_NO_ACT, false, OF_X, &of, run, channels, 0, channels, pivot, sums)
}

void D9_LOOP_NAME(norm_backward_sums)(d9_kernel_in dy, const d9_cpu_prologue *prologue, d9_kernel_in x,
                                      const d9_cpu_run *run, int64_t channels, const float *terms, double *sums) {
    const operands of = {x, dy, *prologue};
    const d9_kernel_store store = x.store;
    if (prologue->bias) {
        BY_STORE(add_run, D9_ACT_RELU, true, OF_DZ_AND_X, &of, run, channels, 0, channels, terms, sums)
        return;
    }
    switch (prologue->act.activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                      \
    case D9_ACT_##id:                                                                                                  \
        BY_STORE(add_run, D9_ACT_##id, false, OF_DZ_AND_X, &of, run, channels, 0, channels, terms, sums)               \
        break;
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default:
        BY_STORE(add_run, D9_KERNEL_NO_ACT, false, OF_DZ_AND_X, &of, run, channels, 0, channels, terms, sums)
    }
}

void D9_LOOP_NAME(bias_sums)(d9_kernel_in dz, const d9_cpu_run *run, int64_t channels, int64_t from, int64_t until,
                             double *sums) {
    const operands of = {.dy = dz};
    const d9_kernel_store store = dz.store;
    BY_STORE(add_run, D9_KERNEL_NO_ACT, false, OF_DZ, &of, run, channels, from, until, NULL, sums)
}

/* ---- passes that use the statistics ---- */

typedef struct pass {
    d9_kernel_in x, dy;                 /* dy: backward */
    const d9_kernel_epilogue *epilogue; /* forward */
    const d9_cpu_prologue *prologue;    /* backward */
    const d9_cpu_rows *summand;         /* backward; NULL: nothing is added to dx */
    d9_kernel_out y;                    /* or dx */
    bool stream;
} pass;

/* Position of a vector: `left` lanes from element `at` of x on; `row`: its first element in the summand. */
typedef struct place {
    int64_t at, row, left;
} place;

/* Stores act(norm(x)); an addend is added before or after the activation. In bf16 each intermediate value is rounded as
 * if it had been stored, but for RELU's argument: rounding before or after RELU gives the same. */
D9_INLINE void normalise(const d9_kernel_store store, const int activation, const bool recomputes, const pass *a,
                         place here, const vector_terms *of) {
    const int64_t at = here.at, left = here.left;
    const d9_kernel_epilogue *e = a->epilogue;
    const bool before = e->addend.data && e->adds_first, after = e->addend.data && !e->adds_first;
    d9_vector t = norm_of(d9_lanes_load(store, a->x.data, at, left) - of->term[0], of);
    (void)recomputes;
    if (before) {
        t = d9_lanes_round(store, t) + d9_lanes_load(store, e->addend.data, at, left);
        if (a->y.data) d9_lanes_store(store, a->stream, t, left, a->y.data, at);
    }
    if (activation != D9_KERNEL_NO_ACT && activation != D9_ACT_RELU) t = d9_lanes_round(store, t);
    if (activation != D9_KERNEL_NO_ACT) t = d9_lanes_act(activation, e->act.alpha, t);
    if (a->y.data && !before) d9_lanes_store(store, a->stream, t, left, a->y.data, at);
    if (after) t = d9_lanes_round(store, t) + d9_lanes_load(store, e->addend.data, at, left);
    if (e->addend.data) d9_lanes_store(store, a->stream, t, left, e->last.data, at);
}

/* dx = a (dz - b - (x - mean) c); a is also the factor of the forward pass. A summand is added to the rounded dx. */
D9_INLINE void normalise_backward(const d9_kernel_store store, const int activation, const bool recomputes,
                                  const pass *p, place here, const vector_terms *of) {
    const int64_t at = here.at, left = here.left;
    const d9_vector d = d9_lanes_load(store, p->x.data, at, left) - of->term[0];
    const d9_vector dz = load_dz(store, activation, recomputes, p->dy, p->prologue, at, d, of, left);
    d9_vector dx = of->term[1] * (dz - of->term[3] - d * of->term[4]);
    if (p->summand) dx = d9_lanes_round(store, dx) + d9_lanes_load(store, p->summand->x.data, here.row, left);
    d9_lanes_store(store, p->stream, dx, left, p->y.data, at);
}

typedef void (*pass_step)(const d9_kernel_store store, const int activation, const bool recomputes, const pass *p,
                          place here, const vector_terms *of);

/* Runs `step` on elements [0, n) of `rows` rows. from: place of the first row; apart: distance between two rows. */
D9_INLINE void pass_rows(const d9_kernel_store store, const int activation, const bool recomputes, pass_step step,
                         const int count, const pass *p, int64_t rows, place from, place apart, const row_terms *terms,
                         int64_t n) {
    for (int64_t k = 0; k < rows; k++)
        for (int64_t i = 0; i < n; i += D9_LANES) {
            const int64_t left = d9_min(D9_LANES, n - i);
            const vector_terms of = load_vector_terms(terms, count, i, left);
            step(store, activation, recomputes, p,
                 (place){from.at + k * apart.at + i, from.row + k * apart.row + i, left}, &of);
        }
}

/* pass_rows of D9_ROWS rows of whole vectors: loads each vector's terms once for all rows. Only for activations of few
 * instructions, because it is long code. */
D9_INLINE void pass_vectors(const d9_kernel_store store, const int activation, const bool recomputes, pass_step step,
                            const int count, const pass *p, place from, place apart, const row_terms *terms,
                            int64_t n) {
    for (int64_t i = 0; i < n; i += D9_LANES) {
        const vector_terms of = load_vector_terms(terms, count, i, D9_LANES);
        D9_UNROLL for (int k = 0; k < D9_ROWS; k++)
            step(store, activation, recomputes, p,
                 (place){from.at + k * apart.at + i, from.row + k * apart.row + i, D9_LANES}, &of);
    }
}

D9_INLINE void run_pass(const d9_kernel_store store, const int activation, const bool recomputes, pass_step step,
                        const int count, const pass *p, const d9_cpu_run *run, int64_t channels, const float *terms) {
    row_terms here;
    const bool short_code = activation == D9_KERNEL_NO_ACT || activation == D9_ACT_RELU;
    const int64_t gap = p->summand ? p->summand->stride : 0;
    for (int64_t c = 0; c < channels; c += D9_TILE) {
        layout w = layout_of(c, channels);
        if (p->summand) w = (layout){w.channels, 1, w.channels}; /* its pixels are apart */
        const place apart = {w.rows * channels, gap, 0};
        load_terms(terms, count, c, channels, &w, &here);
        for (int64_t m = 0; m < run->images; m++)
            for (int64_t q = 0, taken; q < run->pixels; q += taken * w.rows) {
                const int64_t at = run->at + m * run->stride + q * channels;
                const place from = {at + c, p->summand ? at / channels * gap + c : 0, 0};
                taken = q + D9_ROWS * w.rows <= run->pixels ? D9_ROWS : 1;
                const int64_t n = row_elements(&w, run->pixels - q);
                if (short_code && taken == D9_ROWS && n % D9_LANES == 0)
                    pass_vectors(store, activation, recomputes, step, count, p, from, apart, &here, n);
                else
                    pass_rows(store, activation, recomputes, step, count, p, taken, from, apart, &here, n);
            }
    }
    if (p->stream) d9_stream_end();
}

D9_INLINE void run_pass_by_activation(int activation, pass_step step, const int count, const pass *p,
                                      const d9_cpu_run *run, int64_t channels, const float *terms) {
    const d9_kernel_store store = p->x.store;
    switch (activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                      \
    case D9_ACT_##id:                                                                                                  \
        BY_STORE(run_pass, D9_ACT_##id, false, step, count, p, run, channels, terms)                                   \
        break;
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default:
        BY_STORE(run_pass, D9_KERNEL_NO_ACT, false, step, count, p, run, channels, terms)
    }
}

/* True if all stores to y are whole, aligned vectors, as non-temporal stores must be. */
static bool can_stream(d9_kernel_out y, int64_t channels) {
    const int64_t bytes = D9_LANES * d9_kernel_store_bytes(y.store);
    return channels % D9_LANES == 0 && (uintptr_t)y.data % (uintptr_t)bytes == 0;
}

void D9_LOOP_NAME(norm_apply)(d9_kernel_in x, const d9_cpu_run *run, int64_t channels, const float *terms,
                              const d9_kernel_epilogue *epilogue, bool stream, d9_kernel_out y) {
    const pass p = {.x = x,
                    .epilogue = epilogue,
                    .y = y,
                    .stream = stream && can_stream(y, channels) && can_stream(epilogue->last, channels)};
    run_pass_by_activation(epilogue->act.activation, normalise, 3, &p, run, channels, terms);
}

void D9_LOOP_NAME(norm_backward_apply)(d9_kernel_in dy, const d9_cpu_prologue *prologue, d9_kernel_in x,
                                       const d9_cpu_run *run, int64_t channels, const float *terms,
                                       const d9_cpu_rows *summand, bool stream, d9_kernel_out dx) {
    const pass p = {.x = x,
                    .dy = dy,
                    .prologue = prologue,
                    .summand = summand,
                    .y = dx,
                    .stream = stream && can_stream(dx, channels)};
    const d9_kernel_store store = x.store;
    if (prologue->bias) {
        BY_STORE(run_pass, D9_ACT_RELU, true, normalise_backward, 5, &p, run, channels, terms)
    } else {
        run_pass_by_activation(prologue->act.activation, normalise_backward, 5, &p, run, channels, terms);
    }
}
