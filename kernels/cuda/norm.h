/* The division of work in the passes of a batch norm, also used by channels.cu, and the norm's statistics, also used by
 * moments.cu.
 *
 * The rows of ghost group g are the pixels of its images g, g + G, g + 2G ...: row r is pixel r % pixels of member r /
 * pixels. A block works on one slice of one group's rows and on at most 8 runs of 8 channels, or 32 single channels:
 * `columns` threads (a power of two) along the channels, and `lines` rows at once. A thread loads several of its rows
 * before it uses the first. Partial sums are f32 over at most D9_NORM_FOLD rows of a thread, then double, in fixed
 * order. (If that needs more than D9_NORM_MOST_SLICES slices, at the earliest from 33 million rows on, a thread sums
 * more in f32.) The division depends only on the shape and the number of channels that a thread loads at once (8 or 1),
 * not on the device, unlike that of the kernels of one pass (norm_resident.h). */
#pragma once

#include "kernels/cuda/vector.h"

#include "kernels/formulas/norm.h"
#undef D9_REAL
#define D9_REAL double
#include "kernels/formulas/norm.h"
#undef D9_REAL

/* most rows that a thread sums in f32; blocks that fill a large GPU; most blocks along a grid's y */
enum { D9_NORM_FOLD = 64, D9_NORM_WANTED_BLOCKS = 1024, D9_NORM_MOST_SLICES = 65535 };

/* Divides numbers below 2^31 by a multiplication: Granlund and Montgomery, "Division by invariant integers", sec. 4. */
struct d9_divisor {
    unsigned by, factor, shift;
};
static inline d9_divisor d9_divisor_of(int64_t by) {
    d9_divisor d = {static_cast<unsigned>(by), 0, 0};
    while ((static_cast<uint64_t>(1) << d.shift) < static_cast<uint64_t>(by)) d.shift++;
    d.factor = static_cast<unsigned>((((static_cast<uint64_t>(1) << d.shift) - d.by) << 32) / d.by + 1);
    return d;
}
D9_DEVICE unsigned d9_divided(unsigned n, d9_divisor d) {
    const unsigned high = static_cast<unsigned>((static_cast<uint64_t>(n) * d.factor) >> 32);
    return (high + n) >> d.shift;
}

struct d9_norm_plan {
    d9_divisor image;                       /* divides by pixels */
    int64_t pixels, channels, groups, rows; /* rows: in one group */
    int64_t slices, chunks;                 /* parts of a group's rows; parts of the channels */
    int columns, lines;                     /* threads of a block along the channels; rows that it loads at once */
};

/* Most columns (threads along the channels) of a block: 8 of eight channels each (128 bytes in half precision, 256 in
 * f32), or 32 of one channel each (one warp). */
enum { D9_NORM_WIDE_COLUMNS = 8, D9_NORM_SINGLE_COLUMNS = 32 };

static inline d9_norm_plan d9_norm_plan_of(const d9_kernel_norm *norm, int64_t lanes) {
    d9_norm_plan p;
    p.image = d9_divisor_of(norm->pixels);
    p.pixels = norm->pixels, p.channels = norm->channels, p.groups = norm->groups;
    p.rows = norm->images / norm->groups * norm->pixels;
    const int64_t runs = d9_parts_of(norm->channels, lanes);
    const int widest = lanes == 1 ? D9_NORM_SINGLE_COLUMNS : D9_NORM_WIDE_COLUMNS;
    for (p.columns = 1; p.columns < runs && p.columns < widest;) p.columns *= 2;
    p.lines = D9_BLOCK / p.columns;
    p.chunks = d9_parts_of(runs, p.columns);
    const int64_t least = d9_parts_of(p.rows, static_cast<int64_t>(p.lines) * D9_NORM_FOLD);
    const int64_t most = d9_parts_of(p.rows, p.lines), wanted = d9_parts_of(D9_NORM_WANTED_BLOCKS, p.groups * p.chunks);
    p.slices = wanted > most ? most : wanted < least ? least : wanted;
    if (p.slices > D9_NORM_MOST_SLICES) p.slices = D9_NORM_MOST_SLICES;
    return p;
}

static inline dim3 d9_norm_grid(const d9_norm_plan &p) {
    return dim3(static_cast<unsigned>(p.chunks), static_cast<unsigned>(p.slices), static_cast<unsigned>(p.groups));
}

/* Scratch: double (G, slices, 2, C) sums, then float (G, 4, C) terms. */
static inline double *d9_norm_sums(void *scratch) { return static_cast<double *>(scratch); }
static inline float *d9_norm_terms(const d9_norm_plan &p, void *scratch) {
    return reinterpret_cast<float *>(d9_norm_sums(scratch) + p.groups * p.slices * 2 * p.channels);
}

/* ---- in a kernel ---- */

/* Work of one thread: rows [row, end) in steps of plan.lines, channels from c on. */
struct d9_norm_part {
    int64_t group, row, end, c;
    bool works; /* false: this thread has no work */
};

D9_DEVICE d9_norm_part d9_norm_part_of(const d9_norm_plan &p, int lanes) {
    d9_norm_part part;
    const int thread = static_cast<int>(threadIdx.x), line = thread / p.columns, column = thread % p.columns;
    const int64_t slice = blockIdx.y;
    part.group = blockIdx.z;
    part.c = (static_cast<int64_t>(blockIdx.x) * p.columns + column) * lanes;
    part.row = p.rows * slice / p.slices + line;
    part.end = D9_END(p.rows * (slice + 1) / p.slices);
    part.works = line < p.lines && part.c < p.channels;
    return part;
}

/* Index of the element at row r of the group, channel c. */
D9_DEVICE int64_t d9_norm_at(const d9_norm_plan &p, int64_t group, int64_t r, int64_t c) {
    const unsigned row = static_cast<unsigned>(r), member = d9_divided(row, p.image);
    return ((group + p.groups * member) * p.pixels + (row - member * p.image.by)) * p.channels + c;
}

/* Loops over a thread's rows, `rows` at a time while that many are left, then one by one. `call` processes R rows from
 * row r on, `lines` apart; it should load all of them before it stores anything. */
#define D9_NORM_FOR_ROWS(rows, p, part, call)                                                                          \
    do {                                                                                                               \
        int64_t r = (part).row;                                                                                        \
        for (; r + ((rows)-1) * (p).lines < (part).end; r += (rows) * (p).lines) {                                     \
            constexpr int R = rows;                                                                                    \
            call;                                                                                                      \
        }                                                                                                              \
        for (; r < (part).end; r += (p).lines) {                                                                       \
            constexpr int R = 1;                                                                                       \
            call;                                                                                                      \
        }                                                                                                              \
    } while (0)
/* Basic number of rows that a thread loads at once. With runs of 8 channels this is four loads of 16 bytes, of which a
 * row of f32 needs two. Kernels with few arrays load more rows at once, kernels with many arrays fewer. */
#define D9_NORM_ROWS(S) ((S) == D9_KERNEL_F32 ? 2 : 4)

/* Adds one row to the sums: d and d^2 with d = t - pivot; d9_norm_add_backward: dz and dz (x - mean). */
template <int V>
D9_DEVICE void d9_norm_add(const d9_vector<V> &t, const d9_vector<V> &pivot, d9_vector<V> *first,
                           d9_vector<V> *second) {
    D9_UNROLL(V)
    for (int i = 0; i < V; i++) {
        const float d = t.v[i] - pivot.v[i];
        first->v[i] += d;
        second->v[i] += d * d;
    }
}
template <int V>
D9_DEVICE void d9_norm_add_backward(const d9_vector<V> &dz, const d9_vector<V> &x, const d9_vector<V> &mean,
                                    d9_vector<V> *first, d9_vector<V> *second) {
    D9_UNROLL(V)
    for (int i = 0; i < V; i++) {
        first->v[i] += dz.v[i];
        second->v[i] += dz.v[i] * (x.v[i] - mean.v[i]);
    }
}

/* Sums N values over the lanes of a column (`columns` apart) with shuffles between lanes that differ in one bit. While
 * more than one value is left, each lane of a pair continues with half of them. One lane writes each sum to
 * to[value * columns + column]. Callers pass offset D9_REDUCED_LANES / 2, first 0 and writes true. */
template <int N>
D9_DEVICE void d9_norm_sum_lanes(double *values, int offset, int columns, int first, bool writes, double *to) {
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP;
    if (offset < columns) {
        D9_UNROLL(N)
        for (int i = 0; i < N; i++)
            if (writes) to[(first + i) * columns + lane % columns] = values[i];
        return;
    }
    constexpr int half = N / 2;
    const bool upper = (lane & offset) != 0;
    if (half == 0) values[0] += __shfl_xor_sync(0xffffffffu, values[0], offset);
    D9_UNROLL(N)
    for (int i = 0; i < half; i++) {
        const double kept = upper ? values[half + i] : values[i], given = upper ? values[i] : values[half + i];
        values[i] = kept + __shfl_xor_sync(0xffffffffu, given, offset);
    }
    d9_norm_sum_lanes<(half > 0 ? half : 1)>(values, offset / 2, columns, upper ? first + half : first,
                                             writes && (half > 0 || !upper), to);
}

/* Adds the 2 V partial sums of each column's threads in fixed order: to[j] is the first and to[apart + j] the second
 * sum of the block's channel j < count. All threads of the block must call it. The warps take `turns` turns to write
 * their sums to shared memory; more turns need less of it. */
template <int V, int turns = 1>
D9_DEVICE void d9_norm_sum_block(const d9_norm_plan &p, const d9_vector<V> &first, const d9_vector<V> &second,
                                 int64_t apart, int64_t count, double *to) {
    constexpr int columns = V == 1 ? D9_NORM_SINGLE_COLUMNS : D9_NORM_WIDE_COLUMNS;
    constexpr int at_once = D9_BLOCK / D9_WARP / turns;
    static_assert(2 * V * columns <= D9_BLOCK, "a thread adds one sum over the warps");
    D9_SHARED(double, warps, at_once * 2 * V * columns);
    const int thread = static_cast<int>(threadIdx.x), sums = 2 * V * p.columns, own = thread / D9_WARP;
    double values[2 * V], sum = 0;
    D9_UNROLL(V)
    for (int i = 0; i < V; i++) {
        values[i] = static_cast<double>(first.v[i]);
        values[V + i] = static_cast<double>(second.v[i]);
    }
    D9_UNROLL(1)
    for (int turn = 0; turn < turns; turn++) {
        if (turn) D9_BARRIER();
        if (own / at_once == turn)
            d9_norm_sum_lanes<2 * V>(values, D9_REDUCED_LANES / 2, p.columns, 0, true, warps + own % at_once * sums);
        D9_BARRIER();
        for (int warp = 0; warp < at_once && thread < sums; warp++) sum += warps[warp * sums + thread];
    }
    const int lane = thread / p.columns, j = thread % p.columns * V + lane % V;
    if (thread < sums && j < count) to[lane / V * apart + j] = sum;
}

/* First channel of the block's chunk; the chunk has `lanes` channels for each of its columns. */
D9_DEVICE int64_t d9_norm_chunk(const d9_norm_plan &p, int lanes) {
    return static_cast<int64_t>(blockIdx.x) * p.columns * lanes;
}

/* Writes the sums of d9_norm_sum_block to the block's slice and chunk of the scratch. */
template <int V>
D9_DEVICE void d9_norm_sum_slice(const d9_norm_plan &p, const d9_vector<V> &first, const d9_vector<V> &second,
                                 double *sums) {
    const int64_t chunk = d9_norm_chunk(p, V);
    double *slice = sums + (blockIdx.z * p.slices + blockIdx.y) * 2 * p.channels;
    d9_norm_sum_block<V>(p, first, second, p.channels, p.channels - chunk, slice + chunk);
}

/* ---- in a kernel that adds slices: a block of 8 columns, one for each channel, and 32 lines ---- */

enum { D9_FOLD_COLUMNS = 8, D9_FOLD_LINES = D9_BLOCK / D9_FOLD_COLUMNS };

static inline dim3 d9_fold_grid(int64_t channels, int64_t groups) {
    return dim3(static_cast<unsigned>(d9_parts_of(channels, D9_FOLD_COLUMNS)), static_cast<unsigned>(groups));
}

struct d9_fold {
    int64_t c; /* the thread's channel; may be past the last one */
    int line;
};
D9_DEVICE d9_fold d9_fold_of() {
    const int thread = static_cast<int>(threadIdx.x);
    return {static_cast<int64_t>(blockIdx.x) * D9_FOLD_COLUMNS + thread % D9_FOLD_COLUMNS, thread / D9_FOLD_COLUMNS};
}

/* total[i] = the sum over s < slices of parts[s * step + i * apart + c]: line l adds slices l, l + 32, ..., and the
 * lines are added in fixed order; all lines get the totals. All threads of the block must call it, once in a kernel. */
template <int N>
D9_DEVICE void d9_fold_slices(const d9_fold &own, const double *parts, int64_t slices, int64_t step, int64_t apart,
                              int64_t channels, double total[N]) {
    D9_SHARED(double, warps, D9_BLOCK / D9_WARP * N * D9_FOLD_COLUMNS);
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t end = own.c < channels ? D9_END(slices) : 0;
    double sum[N] = {};
    D9_UNROLL(8)
    for (int64_t s = own.line; s < end; s += D9_FOLD_LINES)
        for (int i = 0; i < N; i++) sum[i] += parts[s * step + i * apart + own.c];
    d9_norm_sum_lanes<N>(sum, D9_REDUCED_LANES / 2, D9_FOLD_COLUMNS, 0, true,
                         warps + thread / D9_WARP * N * D9_FOLD_COLUMNS);
    D9_BARRIER();
    for (int i = 0; i < N; i++) {
        total[i] = 0;
        for (int warp = 0; warp < D9_BLOCK / D9_WARP; warp++)
            total[i] += warps[(warp * N + i) * D9_FOLD_COLUMNS + thread % D9_FOLD_COLUMNS];
    }
}

/* Two sums of one channel over a group. */
struct d9_norm_pair {
    double first, second;
};
/* The group's two sums of the thread's channel, over all slices. */
D9_DEVICE d9_norm_pair d9_norm_total(const d9_norm_plan &p, const d9_fold &own, const double *sums, int64_t group) {
    double total[2];
    d9_fold_slices<2>(own, sums + group * p.slices * 2 * p.channels, p.slices, 2 * p.channels, p.channels, p.channels,
                      total);
    return {total[0], total[1]};
}

/* Forward: computes *mean and the variance of n values from their sums about a pivot, and returns inv_std =
 * 1 / sqrt(variance + epsilon). If `writes`, stores mean and inv_std and updates the running statistics, at index `at`
 * of (G, C). */
D9_DEVICE float d9_norm_statistics(const d9_kernel_norm_state &state, int64_t at, double n, double pivot,
                                   d9_norm_pair total, bool writes, double *mean) {
    const double shift = total.first / n, spread = total.second / n - shift * shift;
    const double variance = spread < 0 ? 0 : spread; /* a NaN stays */
    const float inv_std = static_cast<float>(d9_norm_inv_std_double(variance, state.epsilon));
    const double fresh = d9_norm_unbiased_double(variance, n);
    *mean = pivot + shift;
    if (!writes) return inv_std;
    state.mean[at] = static_cast<float>(*mean);
    state.inv_std[at] = inv_std;
    const int64_t row = state.row_gap ? at + at / state.channels * state.row_gap : at;
    state.running_mean[row] =
        static_cast<float>(d9_norm_running_double(static_cast<double>(state.running_mean[row]), *mean, state.momentum));
    state.running_var[row] =
        static_cast<float>(d9_norm_running_double(static_cast<double>(state.running_var[row]), fresh, state.momentum));
    return inv_std;
}

/* Four coefficients of each of V channels, for the passes of a norm (such as d9_norm_gradient, which says what a, b, c
 * and d are). In memory the coefficients of a channel are `apart` floats from each other. */
template <int V> struct d9_norm_factors { d9_vector<V> a, b, c, d; };
template <int V> D9_DEVICE d9_norm_factors<V> d9_norm_load_terms(const float *from, int64_t apart) {
    return {d9_load_floats<V>(from, 0, V), d9_load_floats<V>(from, apart, V), d9_load_floats<V>(from, 2 * apart, V),
            d9_load_floats<V>(from, 3 * apart, V)};
}

/* Terms of the forward norm of V channels: y = (x - mean) * factor + bias, where factor is scale * inv_std. */
template <int V> struct d9_norm_affine { d9_vector<V> mean, factor, bias; };
template <int V> D9_DEVICE d9_vector<V> d9_norm_apply_affine(const d9_norm_affine<V> &own, const d9_vector<V> &x) {
    d9_vector<V> y;
    for (int i = 0; i < V; i++) y.v[i] = d9_norm_apply_float(x.v[i], own.mean.v[i], own.factor.v[i], 1, own.bias.v[i]);
    return y;
}
template <int V> D9_DEVICE d9_norm_affine<V> d9_norm_load_affine(const float *from, int64_t apart) {
    return {d9_load_floats<V>(from, 0, V), d9_load_floats<V>(from, apart, V), d9_load_floats<V>(from, 2 * apart, V)};
}

/* Rounds t to the storage type and adds the addend `more`. */
template <int V, int S>
D9_DEVICE void d9_norm_add_addend(const d9_kernel_epilogue &epilogue, int store, const d9_raw<V, S> &more,
                                  d9_vector<V> *t) {
    const d9_vector<V> b = d9_open<V, S>(epilogue.addend.store, more);
    d9_round(store, t);
    for (int i = 0; i < V; i++) t->v[i] += b.v[i];
}

/* Applies activation and addition in either order and stores the results. The input of each stage is rounded to the
 * storage type first. */
template <int V, int S>
D9_DEVICE void d9_norm_apply_epilogue(const d9_kernel_epilogue &epilogue, d9_act act, int64_t at, d9_kernel_out y,
                                      d9_vector<V> t, const d9_raw<V, S> &more) {
    const int store = d9_store_of<S>(y.store);
    const bool adds = epilogue.addend.data, adds_first = adds && epilogue.adds_first;
    if (adds_first) {
        d9_norm_add_addend<V, S>(epilogue, store, more, &t);
        if (y.data) d9_store_run<V, S>(y, at, V, t);
    }
    if (epilogue.normed.data) d9_store_run<V, S>(epilogue.normed, at, V, t);
    if (act.activation != D9_KERNEL_NO_ACT) {
        d9_round(store, &t);
        d9_act_run(act, store, &t);
    }
    if (!adds_first && y.data) d9_store_run<V, S>(y, at, V, t);
    if (!adds) return;
    if (!adds_first) d9_norm_add_addend<V, S>(epilogue, store, more, &t);
    d9_store_run<V, S>(epilogue.last, at, V, t);
}

/* Normalises R rows of x. */
template <int V, int S, int R>
D9_DEVICE void d9_norm_apply_rows(const d9_norm_plan &p, const d9_norm_part &part, int64_t r, d9_kernel_in x,
                                  const d9_norm_affine<V> &own, const d9_kernel_epilogue &epilogue, d9_act act,
                                  d9_kernel_out y) {
    int64_t at[R];
    d9_raw<V, S> from[R], more[R] = {};
    for (int k = 0; k < R; k++) {
        at[k] = d9_norm_at(p, part.group, r + k * p.lines, part.c);
        from[k] = d9_fetch<V, S>(x, at[k]);
        if (epilogue.addend.data) more[k] = d9_fetch<V, S>(epilogue.addend, at[k]);
    }
    D9_UNROLL(R)
    for (int k = 0; k < R; k++) {
        const d9_vector<V> t = d9_norm_apply_affine(own, d9_open<V, S>(x.store, from[k]));
        d9_norm_apply_epilogue<V, S>(epilogue, act, at[k], y, t, more[k]);
    }
}

/* ---- backward ---- */
struct d9_norm_backward {
    d9_kernel_in dy, x;
    d9_cuda_prologue prologue;
    const float *mean, *inv_std, *scale;
};

template <int V, int S> struct d9_norm_fetched { d9_raw<V, S> dy, addend, reference; };

template <int V, int S> D9_DEVICE d9_norm_fetched<V, S> d9_norm_fetch(const d9_norm_backward &b, int64_t at) {
    d9_norm_fetched<V, S> f = {};
    f.dy = d9_fetch<V, S>(b.dy, at);
    if (b.prologue.addend.data) f.addend = d9_fetch<V, S>(b.prologue.addend, at);
    if (b.prologue.act.activation != D9_KERNEL_NO_ACT) f.reference = d9_fetch<V, S>(b.prologue.reference, at);
    return f;
}

/* dx of V channels: b (dz - c - (x - a) d), with the fields a (the mean), b, c and d of `own`. */
template <int V>
D9_DEVICE d9_vector<V> d9_norm_gradient(const d9_norm_factors<V> &own, const d9_vector<V> &dz, const d9_vector<V> &x) {
    d9_vector<V> t;
    for (int i = 0; i < V; i++) t.v[i] = own.b.v[i] * (dz.v[i] - own.c.v[i] - (x.v[i] - own.a.v[i]) * own.d.v[i]);
    return t;
}

/* dz: dy plus the addend, if any; the sum times the activation's derivative, if any. Each result is rounded. */
template <int V, int S> D9_DEVICE d9_vector<V> d9_norm_dz(const d9_norm_backward &b, const d9_norm_fetched<V, S> &f) {
    d9_vector<V> t = d9_open<V, S>(b.dy.store, f.dy);
    const int store = d9_store_of<S>(b.dy.store);
    if (b.prologue.addend.data) {
        const d9_vector<V> more = d9_open<V, S>(b.prologue.addend.store, f.addend);
        for (int i = 0; i < V; i++) t.v[i] += more.v[i];
        d9_round(store, &t);
    }
    if (b.prologue.act.activation == D9_KERNEL_NO_ACT) return t;
    d9_slope_run(b.prologue.act, store, d9_open<V, S>(b.prologue.reference.store, f.reference), &t);
    d9_round(store, &t);
    return t;
}

D9_DEVICE void d9_norm_set_terms(const d9_norm_plan &p, int64_t group, int64_t c, float a, float b, float d, float e,
                                 float *terms) {
    float *to = terms + group * 4 * p.channels + c;
    to[0] = a;
    to[p.channels] = b;
    to[2 * p.channels] = d;
    to[3 * p.channels] = e;
}

/* ---- launching: if channels are loaded in eights, all arrays have one storage type, a template argument ---- */

/* True if the channels are divisible by eight and the scratch is aligned. */
static inline bool d9_norm_wide(const d9_kernel_norm *norm, const void *scratch) {
    return norm->channels % D9_WIDE == 0 && d9_aligned(scratch);
}

/* True if dy and, if present, dz, reference and addend have this storage type and are aligned to 16 bytes. */
static inline bool d9_norm_uniform(const d9_norm_backward &b, d9_kernel_store store) {
    const d9_cuda_prologue &p = b.prologue;
    const bool slope = p.act.activation != D9_KERNEL_NO_ACT;
    return b.dy.store == store && d9_aligned(b.dy.data) &&
           (!slope || (p.reference.store == store && d9_aligned(p.reference.data))) &&
           (!p.addend.data || (p.addend.store == store && d9_aligned(p.addend.data))) &&
           (!p.dz.data || (p.dz.store == store && d9_aligned(p.dz.data)));
}

#define D9_LAUNCH_BY_STORE(kernel, wide, store, grid, stream, ...)                                                     \
    (!(wide)                    ? D9_LAUNCH((kernel<1, D9_ANY>), grid, D9_BLOCK, stream, __VA_ARGS__)                  \
     : (store) == D9_KERNEL_F32 ? D9_LAUNCH((kernel<D9_WIDE, D9_KERNEL_F32>), grid, D9_BLOCK, stream, __VA_ARGS__)     \
     : (store) == D9_KERNEL_F16 ? D9_LAUNCH((kernel<D9_WIDE, D9_KERNEL_F16>), grid, D9_BLOCK, stream, __VA_ARGS__)     \
                                : D9_LAUNCH((kernel<D9_WIDE, D9_KERNEL_BF16>), grid, D9_BLOCK, stream, __VA_ARGS__))
