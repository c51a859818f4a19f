/* Kernels that depend on an element's channel: bias and its gradient, concatenation and slices. Arrays are rows of
 * channels; (N, H, W, C) has N H W rows. */
#include "kernels/cuda/norm.h"

/* ---- bias ---- */

/* Biases of V channels from channel c on, wrapping around after the last channel. */
template <int V> D9_DEVICE d9_vector<V> biases_from(const float *bias, int64_t channels, int64_t c) {
    if (channels % V == 0) return d9_load_floats<V>(bias, c, V);
    d9_vector<V> t;
    for (int i = 0; i < V; i++) {
        t.v[i] = bias[c];
        c = c + 1 == channels ? 0 : c + 1;
    }
    return t;
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK) bias_kernel(d9_kernel_in x, const float *bias, d9_kernel_act act,
                                                        int64_t channels, int64_t count, d9_kernel_out y) {
    const d9_act own = d9_act_of(act);
    D9_FOR_RUNS(count) {
        d9_vector<V> t = d9_load<V, D9_ANY>(x, at, n);
        const d9_vector<V> b = biases_from<V>(bias, channels, at % channels);
        for (int i = 0; i < V; i++) t.v[i] += b.v[i];
        if (act.activation != D9_KERNEL_NO_ACT) {
            d9_round(y.store, &t);
            d9_act_run(own, y.store, &t);
        }
        d9_store_run<V, D9_ANY>(y, at, n, t);
    }
}

/* Adds dz of R rows, p.lines apart from row r on, to `sum`; also writes dz if b.prologue.dz has data. */
template <int V, int S, int R>
D9_DEVICE void sum_rows(const d9_norm_plan &p, const d9_norm_part &part, int64_t r, const d9_norm_backward &b,
                        d9_vector<V> *sum) {
    d9_norm_fetched<V, S> f[R];
    for (int k = 0; k < R; k++) f[k] = d9_norm_fetch<V, S>(b, (r + k * p.lines) * p.channels + part.c);
    D9_UNROLL(R)
    for (int k = 0; k < R; k++) {
        const d9_vector<V> dz = d9_norm_dz<V, S>(b, f[k]);
        if (b.prologue.dz.data) d9_store_run<V, S>(b.prologue.dz, (r + k * p.lines) * p.channels + part.c, V, dz);
        D9_UNROLL(V)
        for (int i = 0; i < V; i++) sum->v[i] += dz.v[i];
    }
}

/* The work is divided as for a norm of one group (norm.h); a block adds the sums of its rows of threads in double,
 * in a fixed order. Writes sums (slices, C). */
template <int V, int S>
__global__ void __launch_bounds__(D9_BLOCK) bias_sums_kernel(d9_norm_plan p, d9_norm_backward b, double *sums) {
    D9_SHARED(double, lines, D9_BLOCK *V);
    const d9_norm_part part = d9_norm_part_of(p, V);
    const int thread = static_cast<int>(threadIdx.x), side = p.columns * V;
    const int64_t chunk = d9_norm_chunk(p, V);
    d9_vector<V> sum = {};
    if (part.works) D9_NORM_FOR_ROWS(D9_NORM_ROWS(S), p, part, (sum_rows<V, S, R>(p, part, r, b, &sum)));
    D9_UNROLL(V)
    for (int i = 0; i < V; i++) lines[thread * V + i] = static_cast<double>(sum.v[i]);
    D9_BARRIER();
    for (int j = thread; j < side && chunk + j < p.channels; j += D9_BLOCK) {
        double total = 0;
        for (int line = 0; line < p.lines; line++) total += lines[line * side + j];
        sums[blockIdx.y * p.channels + chunk + j] = total;
    }
}

__global__ void __launch_bounds__(D9_BLOCK) bias_fold_kernel(d9_norm_plan p, const double *sums, float *dbias) {
    const d9_fold own = d9_fold_of();
    double total[1];
    d9_fold_slices<1>(own, sums, p.slices, p.channels, 0, p.channels, total);
    if (own.line == 0 && own.c < p.channels) dbias[own.c] = static_cast<float>(total[0]);
}

/* ---- concatenation and slices: copies of some channels of each row; the work is divided as in norm.h ---- */

struct channel_range {   /* the copied channels of an array's rows */
    int64_t line, first; /* number of channels of a row; first copied channel */
};

D9_DEVICE int64_t element_index(const channel_range &s, int64_t r, int64_t c) { return r * s.line + s.first + c; }

template <int V, int S, int R>
D9_DEVICE void copy_rows(const d9_norm_plan &p, const d9_norm_part &part, int64_t r, d9_kernel_in x,
                         const channel_range &from, const channel_range &to, d9_kernel_out y) {
    d9_raw<V, S> t[R];
    for (int k = 0; k < R; k++) t[k] = d9_fetch<V, S>(x, element_index(from, r + k * p.lines, part.c));
    for (int k = 0; k < R; k++)
        d9_store_run<V, S>(y, element_index(to, r + k * p.lines, part.c), V, d9_open<V, S>(x.store, t[k]));
}

template <int V, int S>
__global__ void __launch_bounds__(D9_BLOCK)
    strip_kernel(d9_norm_plan p, d9_kernel_in x, channel_range from, channel_range to, d9_kernel_out y) {
    const d9_norm_part part = d9_norm_part_of(p, V);
    if (part.works) D9_NORM_FOR_ROWS(D9_NORM_ROWS(S), p, part, (copy_rows<V, S, R>(p, part, r, x, from, to, y)));
}

/* ---- launchers ---- */

static bool is_half(d9_kernel_in x, d9_kernel_out y) { return x.store != D9_KERNEL_F32 && y.store != D9_KERNEL_F32; }

int d9_cuda_bias_forward(d9_cuda_stream stream, d9_kernel_in x, const float *bias, d9_kernel_act act, int64_t rows,
                         int64_t channels, d9_kernel_out y) {
    const int64_t count = rows * channels;
    const bool aligned = d9_aligned(x.data) && d9_aligned(bias) && d9_aligned(y.data);
    return D9_LAUNCH_RUNS(bias_kernel, aligned, is_half(x, y), count, stream, x, bias, act, channels, count, y);
}

static d9_kernel_norm shape_of_rows(int64_t rows, int64_t channels) { return {rows, 1, channels, 1}; }

int64_t d9_cuda_bias_scratch_bytes(int64_t rows, int64_t channels) {
    const d9_kernel_norm shape = shape_of_rows(rows, channels);
    const int64_t wide = d9_norm_plan_of(&shape, D9_WIDE).slices, narrow = d9_norm_plan_of(&shape, 1).slices;
    return (wide > narrow ? wide : narrow) * channels * static_cast<int64_t>(sizeof(double));
}

int d9_cuda_bias_backward(d9_cuda_stream stream, d9_kernel_in dy, const d9_cuda_prologue *prologue, int64_t rows,
                          int64_t channels, void *scratch, float *dbias) {
    if (rows <= 0 || channels <= 0) return 0;
    const d9_kernel_norm shape = shape_of_rows(rows, channels);
    const d9_norm_backward b = {dy, {NULL, dy.store}, *prologue, NULL, NULL, NULL};
    const bool wide = channels % D9_WIDE == 0 && d9_norm_uniform(b, dy.store);
    const d9_norm_plan p = d9_norm_plan_of(&shape, wide ? D9_WIDE : 1);
    double *sums = static_cast<double *>(scratch);
    D9_CUDA_TRY(D9_LAUNCH_BY_STORE(bias_sums_kernel, wide, dy.store, d9_norm_grid(p), stream, p, b, sums));
    return D9_LAUNCH(bias_fold_kernel, d9_fold_grid(channels, 1), D9_BLOCK, stream, p, sums, dbias);
}

static int copy_strip(d9_cuda_stream stream, d9_kernel_in x, channel_range from, int64_t rows, int64_t taken,
                      channel_range to, d9_kernel_out y) {
    if (rows <= 0 || taken <= 0) return 0;
    const d9_kernel_norm shape = shape_of_rows(rows, taken);
    const bool even = (from.line | from.first | taken | to.line | to.first) % D9_WIDE == 0;
    const bool wide = even && x.store == y.store && d9_aligned(x.data) && d9_aligned(y.data);
    const d9_norm_plan p = d9_norm_plan_of(&shape, wide ? D9_WIDE : 1);
    return D9_LAUNCH_BY_STORE(strip_kernel, wide, x.store, d9_norm_grid(p), stream, p, x, from, to, y);
}

int d9_cuda_concat(d9_cuda_stream stream, d9_kernel_in a, d9_kernel_in b, int64_t rows, int64_t first, int64_t second,
                   d9_kernel_out y) {
    D9_CUDA_TRY(copy_strip(stream, a, {first, 0}, rows, first, {first + second, 0}, y));
    return copy_strip(stream, b, {second, 0}, rows, second, {first + second, first}, y);
}

int d9_cuda_slice_channels(d9_cuda_stream stream, d9_kernel_in x, int64_t rows, int64_t channels, int64_t offset,
                           int64_t taken, d9_kernel_out y) {
    return copy_strip(stream, x, {channels, offset}, rows, taken, {taken, 0}, y);
}
