/* How the passes of a normalisation divide the work: shared by norm*.cu.
 *
 * The rows of ghost group g are the pixels of its images g, g + G, g + 2G ...: row r is pixel r % pixels of member r /
 * pixels. A block works on one slice of one group's rows and at most 32 runs of V channels: `columns` threads side by
 * side along the channels, `lines` rows at once. Partial sums are f32 over at most FOLD rows of one thread, and double
 * from there on, in fixed order. All this follows from the shape and V alone, not from the device. */
#ifndef D9_CUDA_NORM_H
#define D9_CUDA_NORM_H

#include "kernels/cuda/vector.h"

#include "kernels/formulas/norm.h"
#undef D9_REAL
#define D9_REAL double
#include "kernels/formulas/norm.h"
#undef D9_REAL

enum { D9_NORM_FOLD = 64, D9_NORM_BLOCKS = 1024 }; /* rows a thread; blocks that fill a large GPU */

struct d9_norm_plan {
    int64_t pixels, channels, groups, rows; /* rows: of one group */
    int64_t slices, chunks;                 /* of a group's rows; of the channels */
    int columns, lines;
};

static inline d9_norm_plan d9_norm_divide(const d9_kernel_norm *norm, int64_t lanes) {
    d9_norm_plan p;
    p.pixels = norm->pixels, p.channels = norm->channels, p.groups = norm->groups;
    p.rows = norm->images / norm->groups * norm->pixels;
    const int64_t runs = d9_ceiling(norm->channels, lanes);
    p.columns = runs < D9_WARP ? static_cast<int>(runs) : static_cast<int>(D9_WARP);
    p.lines = D9_BLOCK / p.columns;
    p.chunks = d9_ceiling(runs, p.columns);
    const int64_t least = d9_ceiling(p.rows, static_cast<int64_t>(p.lines) * D9_NORM_FOLD);
    const int64_t most = d9_ceiling(p.rows, p.lines), wanted = d9_ceiling(D9_NORM_BLOCKS, p.groups * p.chunks);
    p.slices = wanted > most ? most : wanted < least ? least : wanted;
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

/* This thread's part: rows [row, end) in steps of plan.lines, channels from c. */
struct d9_norm_part {
    int64_t group, row, end, c;
    bool works; /* false: there is nothing for this thread */
};

D9_DEVICE d9_norm_part d9_norm_share(const d9_norm_plan &p, int lanes) {
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

/* Element of row r of the group, channel c. */
D9_DEVICE int64_t d9_norm_at(const d9_norm_plan &p, int64_t group, int64_t r, int64_t c) {
    const unsigned row = static_cast<unsigned>(r), pixels = static_cast<unsigned>(p.pixels);
    const unsigned member = row / pixels;
    return ((group + p.groups * member) * p.pixels + (row - member * pixels)) * p.channels + c;
}

/* Adds the 2 V partial sums of the threads of each column, in the order of their lines: to[j] the first and
 * to[apart + j] the second of the block's channel j < count. All threads of the block call it. */
template <int V>
D9_DEVICE void d9_norm_fold(const d9_norm_plan &p, const d9_vector<V> &first, const d9_vector<V> &second, int64_t apart,
                            int64_t count, double *to) {
    D9_SHARED(float, shared, 2 * V * D9_BLOCK);
    const int thread = static_cast<int>(threadIdx.x);
    for (int i = 0; i < V; i++) {
        shared[i * D9_BLOCK + thread] = first.v[i];
        shared[(V + i) * D9_BLOCK + thread] = second.v[i];
    }
    D9_BARRIER();
    for (int k = thread; k < 2 * V * p.columns; k += D9_BLOCK) {
        const int lane = k / p.columns, column = k % p.columns;
        const int j = column * V + lane % V;
        if (j >= count) continue;
        double sum = 0;
        for (int line = 0; line < p.lines; line++)
            sum += static_cast<double>(shared[lane * D9_BLOCK + line * p.columns + column]);
        to[lane / V * apart + j] = sum;
    }
}

/* The first channel of the block's chunk, V at a time. */
D9_DEVICE int64_t d9_norm_chunk(const d9_norm_plan &p, int lanes) {
    return static_cast<int64_t>(blockIdx.x) * p.columns * lanes;
}

/* The same into the slice's place in scratch. */
template <int V>
D9_DEVICE void d9_norm_fold_slice(const d9_norm_plan &p, const d9_vector<V> &first, const d9_vector<V> &second,
                                  double *sums) {
    const int64_t chunk = d9_norm_chunk(p, V);
    double *slice = sums + (blockIdx.z * p.slices + blockIdx.y) * 2 * p.channels;
    d9_norm_fold<V>(p, first, second, p.channels, p.channels - chunk, slice + chunk);
}

/* The group's sums at channel c, added over its slices in order. */
struct d9_norm_pair {
    double first, second;
};
D9_DEVICE d9_norm_pair d9_norm_total(const d9_norm_plan &p, const double *sums, int64_t group, int64_t c) {
    d9_norm_pair total = {0, 0};
    for (int64_t s = 0; s < p.slices; s++) {
        const double *slice = sums + (group * p.slices + s) * 2 * p.channels;
        total.first += slice[c];
        total.second += slice[p.channels + c];
    }
    return total;
}

/* Forward, about a pivot: notes mean and variance of n values in the state, at group and channel `at`. Returns
 * 1 / sqrt(variance + epsilon). */
D9_DEVICE float d9_norm_note(const d9_kernel_norm_state &state, int64_t at, double n, double pivot, d9_norm_pair total,
                             bool writes, double *mean) {
    const double shift = total.first / n, spread = total.second / n - shift * shift;
    const double variance = spread < 0 ? 0 : spread; /* a NaN stays */
    const float inv_std = static_cast<float>(d9_norm_inv_std_double(variance, state.epsilon));
    const double fresh = d9_norm_unbiased_double(variance, n);
    *mean = pivot + shift;
    if (!writes) return inv_std;
    state.mean[at] = static_cast<float>(*mean);
    state.inv_std[at] = inv_std;
    state.running_mean[at] =
        static_cast<float>(d9_norm_running_double(static_cast<double>(state.running_mean[at]), *mean, state.momentum));
    state.running_var[at] =
        static_cast<float>(d9_norm_running_double(static_cast<double>(state.running_var[at]), fresh, state.momentum));
    return inv_std;
}

/* y, act(y) and the sum; each is computed from the value before it as storage holds that one. */
template <int V, int S>
D9_DEVICE void d9_norm_finish(const d9_kernel_epilogue &epilogue, int64_t at, d9_kernel_out y, d9_vector<V> *t) {
    const int store = d9_store_of<S>(y.store);
    if (epilogue.act.activation != D9_KERNEL_NO_ACT) {
        d9_round(store, t);
        d9_act_run(epilogue.act, store, t);
    }
    if (y.data) d9_put<V, S>(y, at, V, *t);
    if (!epilogue.addend.data) return;
    d9_round(store, t);
    const d9_vector<V> b = d9_load<V, S>(epilogue.addend, at, V);
    for (int i = 0; i < V; i++) t->v[i] += b.v[i];
    d9_put<V, S>(epilogue.sum, at, V, *t);
}

/* ---- backward: what every pass reads ---- */
struct d9_norm_backward {
    d9_kernel_in dy, x;
    d9_cuda_prologue prologue;
    const float *mean, *inv_std, *scale;
};

/* dz of V channels from element `at`: the sum of the gradients where there are two, through the activation's slope
 * where there is one. */
template <int V, int S> D9_DEVICE d9_vector<V> d9_norm_slope(const d9_norm_backward &b, int64_t at) {
    d9_vector<V> t = d9_load<V, S>(b.dy, at, V);
    if (b.prologue.addend.data) {
        const d9_vector<V> more = d9_load<V, S>(b.prologue.addend, at, V);
        for (int i = 0; i < V; i++) t.v[i] += more.v[i];
        d9_round(d9_store_of<S>(b.dy.store), &t);
    }
    if (b.prologue.act.activation == D9_KERNEL_NO_ACT) return t;
    d9_slope_run(b.prologue.act, d9_load<V, S>(b.prologue.reference, at, V), &t);
    d9_round(d9_store_of<S>(b.dy.store), &t);
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

/* ---- launching: with the store as a template argument where all are alike, and channels in eights ---- */
static inline bool d9_norm_wide(const d9_kernel_norm *norm, const void *scratch) {
    return norm->channels % D9_WIDE == 0 && d9_aligned(scratch);
}

#define D9_LAUNCH_BY_STORE(kernel, wide, store, grid, stream, ...)                                                     \
    (!(wide)                    ? D9_LAUNCH((kernel<1, D9_ANY>), grid, D9_BLOCK, stream, __VA_ARGS__)                  \
     : (store) == D9_KERNEL_F32 ? D9_LAUNCH((kernel<D9_WIDE, D9_KERNEL_F32>), grid, D9_BLOCK, stream, __VA_ARGS__)     \
     : (store) == D9_KERNEL_F16 ? D9_LAUNCH((kernel<D9_WIDE, D9_KERNEL_F16>), grid, D9_BLOCK, stream, __VA_ARGS__)     \
                                : D9_LAUNCH((kernel<D9_WIDE, D9_KERNEL_BF16>), grid, D9_BLOCK, stream, __VA_ARGS__))

#endif
