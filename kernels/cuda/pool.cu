/* Pooling over (N, H, W, C), one run of channels for each thread. On a tie the first pixel of the window in row-major
 * order is the maximum; a NaN wins over every number, and a later NaN over an earlier one; pixels outside of the image
 * are ignored. The backward pass finds the maxima again: it reads x and needs no stored indices. */
#include "kernels/cuda/vector.h"

D9_DEVICE int64_t input_at(const d9_kernel_window &w, int64_t n, int64_t iy, int64_t ix) {
    return ((n * w.height + iy) * w.width + ix) * w.channels;
}

D9_DEVICE int64_t output_at(const d9_kernel_window &w, int64_t n, int64_t oy, int64_t ox) {
    return ((n * w.out_height + oy) * w.out_width + ox) * w.channels;
}

/* The part of a window that is inside of the image: rows [top, bottom) and columns [left, right) of the window. The
 * window's first element may be outside, but the part is never empty (engine/graph/ops/pool.c). */
struct inside {
    int top, bottom, left, right;
};

D9_DEVICE int clipped(int n, int most) { return n < 0 ? 0 : n < most ? n : most; }

/* First row, or column, of window `o`. */
D9_DEVICE int begin_of(const d9_kernel_window &w, int64_t o) { return static_cast<int>(o) * w.stride - w.pad; }

D9_DEVICE inside inside_of(const d9_kernel_window &w, int64_t oy, int64_t ox) {
    const int y = begin_of(w, oy), x = begin_of(w, ox);
    return {clipped(-y, w.kernel), clipped(static_cast<int>(w.height) - y, w.kernel), clipped(-x, w.kernel),
            clipped(static_cast<int>(w.width) - x, w.kernel)};
}

/* Maximum over a window for each channel of a run, and its place 0 .. kernel * kernel - 1, in row-major order. */
template <int V> struct window_maximum {
    d9_vector<V> best;
    int place[V];
};

/* Replaces the maximum of each channel in which t, the element at `place` of the window, is larger. */
template <int V> D9_DEVICE void keep_larger(const d9_vector<V> &t, int place, window_maximum<V> *f) {
    for (int i = 0; i < V; i++) {
        f->place[i] = d9_wins(t.v[i], f->best.v[i]) ? place : f->place[i];
        f->best.v[i] = d9_wins(t.v[i], f->best.v[i]) ? t.v[i] : f->best.v[i];
    }
}

/* The maximum of a K x K window inside of the image; all elements are loaded before the first is used. */
template <int V, int K>
D9_DEVICE window_maximum<V> find_inner_maximum(const d9_kernel_window &w, d9_kernel_in x, int64_t corner) {
    d9_raw<V, D9_ANY> raw[K * K];
    D9_UNROLL(K * K)
    for (int place = 0; place < K * K; place++)
        raw[place] = d9_fetch<V, D9_ANY>(x, corner + (place / K * w.width + place % K) * w.channels);
    window_maximum<V> f;
    f.best = d9_open<V, D9_ANY>(x.store, raw[0]);
    for (int i = 0; i < V; i++) f.place[i] = 0;
    D9_UNROLL(K * K)
    for (int place = 1; place < D9_END(K * K); place++) keep_larger(d9_open<V, D9_ANY>(x.store, raw[place]), place, &f);
    return f;
}

/* The maximum of window (oy, ox). K 0: windows of any size, which may extend beyond the image; otherwise as for
 * find_inner_maximum. */
template <int V, int K>
D9_DEVICE window_maximum<V> find_maximum(const d9_kernel_window &w, d9_kernel_in x, int64_t n, int64_t oy, int64_t ox,
                                         int64_t c) {
    const int64_t corner = input_at(w, n, begin_of(w, oy), begin_of(w, ox)) + c;
    if constexpr (K > 0) return find_inner_maximum<V, K>(w, x, corner);
    const inside part = inside_of(w, oy, ox);
    window_maximum<V> f;
    f.best = d9_load<V, D9_ANY>(x, corner + (part.top * w.width + part.left) * w.channels, V);
    for (int i = 0; i < V; i++) f.place[i] = part.top * w.kernel + part.left;
    for (int r = part.top; r < D9_END(part.bottom); r++)
        for (int q = r == part.top ? part.left + 1 : part.left; q < part.right; q++) {
            const d9_vector<V> t = d9_load<V, D9_ANY>(x, corner + (r * w.width + q) * w.channels, V);
            keep_larger(t, r * w.kernel + q, &f);
        }
    return f;
}

/* Grid: x over the runs of a row of pixels, y over the rows of all images. There are fewer than 2^31 rows, so 32-bit
 * division suffices; 64-bit division would be a function call. */
#define FOR_ROWS(row, rows) for (unsigned row = blockIdx.y; row < static_cast<unsigned>(rows); row += gridDim.y)
D9_DEVICE unsigned image_of(unsigned row, int64_t height) { return row / static_cast<unsigned>(height); }
D9_DEVICE unsigned row_within(unsigned row, int64_t height) { return row % static_cast<unsigned>(height); }
#define FOR_ROW_RUNS(at, width, channels)                                                                              \
    for (int64_t at = d9_thread() * V; at < D9_END((width) * (channels)); at += d9_threads() * V)

template <int V, int K>
__global__ void __launch_bounds__(D9_BLOCK, 3) pool_kernel(d9_kernel_window w, d9_kernel_in x, d9_kernel_out y) {
    FOR_ROWS(row, w.images * w.out_height) {
        const int64_t n = image_of(row, w.out_height), oy = row_within(row, w.out_height);
        FOR_ROW_RUNS(at, w.out_width, w.channels) {
            const unsigned ox = static_cast<unsigned>(at) / static_cast<unsigned>(w.channels);
            const window_maximum<V> f = find_maximum<V, K>(w, x, n, oy, ox, at - ox * w.channels);
            d9_store_run<V, D9_ANY>(y, output_at(w, n, oy, 0) + at, V, f.best);
        }
    }
}

/* Windows without overlap: a window writes the gradient of its own inputs and of the following ones that no window
 * contains, up to the next window or the edge. */
template <int V, int K>
D9_DEVICE void scatter_window(const d9_kernel_window &w, d9_kernel_in dy, d9_kernel_in x, int64_t n, int64_t oy,
                              int64_t ox, int64_t c, d9_kernel_out dx) {
    const int y = begin_of(w, oy), left = begin_of(w, ox);
    const int below = oy + 1 == w.out_height ? static_cast<int>(w.height) : y + w.stride;
    const int right = ox + 1 == w.out_width ? static_cast<int>(w.width) : left + w.stride;
    const d9_raw<V, D9_ANY> raw = d9_fetch<V, D9_ANY>(dy, output_at(w, n, oy, ox) + c);
    const window_maximum<V> f = find_maximum<V, K>(w, x, n, oy, ox, c);
    const d9_vector<V> from = d9_open<V, D9_ANY>(dy.store, raw);
    for (int r = y < 0 ? -y : 0; r < below - y; r++)
        for (int q = left < 0 ? -left : 0; q < right - left; q++) {
            const int here = r < w.kernel && q < w.kernel ? r * w.kernel + q : -1;
            d9_vector<V> t;
            for (int i = 0; i < V; i++) t.v[i] = f.place[i] == here ? from.v[i] : 0.0f;
            d9_store_run<V, D9_ANY>(dx, input_at(w, n, y + r, left + q) + c, V, t);
        }
}

template <int V, int K>
__global__ void __launch_bounds__(D9_BLOCK, 2)
    pool_scatter_kernel(d9_kernel_window w, d9_kernel_in dy, d9_kernel_in x, d9_kernel_out dx) {
    FOR_ROWS(row, w.images * w.out_height) {
        const int64_t n = image_of(row, w.out_height), oy = row_within(row, w.out_height);
        FOR_ROW_RUNS(at, w.out_width, w.channels) {
            const unsigned ox = static_cast<unsigned>(at) / static_cast<unsigned>(w.channels);
            scatter_window<V, K>(w, dy, x, n, oy, ox, at - ox * w.channels, dx);
        }
    }
}

/* The windows [first, end) that cover row, or column, `at` of the image; there are `out` windows in all. */
struct window_range {
    int64_t first, end;
};
D9_DEVICE window_range windows_covering(const d9_kernel_window &w, int64_t at, int64_t out) {
    const int padded = static_cast<int>(at) + w.pad, last = padded / w.stride + 1;
    return {padded < w.kernel ? 0 : (padded - w.kernel) / w.stride + 1, last < out ? last : out};
}

/* Overlapping windows: the gradient of input (iy, ix), summed in row-major order over the windows whose maximum the
 * input is. */
template <int V>
D9_DEVICE d9_vector<V> gather_gradient(const d9_kernel_window &w, d9_kernel_in dy, d9_kernel_in x, int64_t n,
                                       int64_t iy, int64_t ix, int64_t c) {
    d9_vector<V> sum = {};
    const window_range rows = windows_covering(w, iy, w.out_height), columns = windows_covering(w, ix, w.out_width);
    for (int64_t oy = rows.first; oy < rows.end; oy++)
        for (int64_t ox = columns.first; ox < columns.end; ox++) {
            const int64_t r = iy + w.pad - oy * w.stride, q = ix + w.pad - ox * w.stride;
            const window_maximum<V> f = find_maximum<V, 0>(w, x, n, oy, ox, c);
            const d9_vector<V> from = d9_load<V, D9_ANY>(dy, output_at(w, n, oy, ox) + c, V);
            for (int i = 0; i < V; i++) sum.v[i] += f.place[i] == static_cast<int>(r * w.kernel + q) ? from.v[i] : 0.0f;
        }
    return sum;
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK, 3)
    pool_gather_kernel(d9_kernel_window w, d9_kernel_in dy, d9_kernel_in x, d9_kernel_out dx) {
    FOR_ROWS(row, w.images * w.height) {
        const int64_t n = image_of(row, w.height), iy = row_within(row, w.height);
        FOR_ROW_RUNS(at, w.width, w.channels) {
            const unsigned ix = static_cast<unsigned>(at) / static_cast<unsigned>(w.channels);
            const d9_vector<V> t = gather_gradient<V>(w, dy, x, n, iy, ix, at - ix * w.channels);
            d9_store_run<V, D9_ANY>(dx, input_at(w, n, iy, 0) + at, V, t);
        }
    }
}

/* ---- means: without padding ---- */

/* share: 1 / number of elements in a window. In the forward pass, each row of a window is summed in f32, the rows in
 * double. */
D9_DEVICE float scaled(double sum, double share) { return static_cast<float>(sum * share); }

template <int V>
__global__ void __launch_bounds__(D9_BLOCK, 2)
    mean_pool_kernel(d9_kernel_window w, double share, d9_kernel_in x, d9_kernel_out y) {
    FOR_ROWS(row, w.images * w.out_height) {
        const int64_t n = image_of(row, w.out_height), oy = row_within(row, w.out_height);
        FOR_ROW_RUNS(at, w.out_width, w.channels) {
            const unsigned ox = static_cast<unsigned>(at) / static_cast<unsigned>(w.channels);
            const int64_t corner = input_at(w, n, oy * w.stride, static_cast<int64_t>(ox) * w.stride);
            double sum[V] = {};
            for (int r = 0; r < D9_END(w.kernel); r++) {
                d9_vector<V> line = {};
                for (int q = 0; q < w.kernel; q++) {
                    const int64_t from = corner + (r * w.width + q) * w.channels + at - ox * w.channels;
                    const d9_vector<V> t = d9_load<V, D9_ANY>(x, from, V);
                    for (int i = 0; i < V; i++) line.v[i] += t.v[i];
                }
                for (int i = 0; i < V; i++) sum[i] += static_cast<double>(line.v[i]);
            }
            d9_vector<V> mean;
            for (int i = 0; i < V; i++) mean.v[i] = scaled(sum[i], share);
            d9_store_run<V, D9_ANY>(y, output_at(w, n, oy, 0) + at, V, mean);
        }
    }
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK, 2)
    mean_pool_backward_kernel(d9_kernel_window w, double share, d9_kernel_in dy, d9_kernel_out dx) {
    FOR_ROWS(row, w.images * w.height) {
        const int64_t n = image_of(row, w.height), iy = row_within(row, w.height);
        const window_range rows = windows_covering(w, iy, w.out_height);
        FOR_ROW_RUNS(at, w.width, w.channels) {
            const unsigned ix = static_cast<unsigned>(at) / static_cast<unsigned>(w.channels);
            const window_range columns = windows_covering(w, ix, w.out_width);
            d9_vector<V> sum = {};
            for (int64_t oy = rows.first; oy < rows.end; oy++)
                for (int64_t ox = columns.first; ox < columns.end; ox++) {
                    const int64_t from = output_at(w, n, oy, ox) + at - ix * w.channels;
                    const d9_vector<V> t = d9_load<V, D9_ANY>(dy, from, V);
                    for (int i = 0; i < V; i++) sum.v[i] += t.v[i];
                }
            for (int i = 0; i < V; i++) sum.v[i] = scaled(sum.v[i], share);
            d9_store_run<V, D9_ANY>(dx, input_at(w, n, iy, 0) + at, V, sum);
        }
    }
}

/* ---- launchers ---- */

/* Threads of a block: the runs of a row, rounded up to whole warps, but at most D9_BLOCK. */
static unsigned block_of(int64_t runs) {
    const int64_t threads = d9_parts_of(runs, D9_WARP) * D9_WARP, most = D9_BLOCK;
    return static_cast<unsigned>(threads < most ? threads : most);
}

static dim3 grid_of(int64_t runs, int64_t rows) {
    return dim3(static_cast<unsigned>(d9_parts_of(runs, block_of(runs))),
                static_cast<unsigned>(rows < 65535 ? rows : 65535));
}

#define LAUNCH_ROWS(V, kernel, width, rows, stream, w, ...)                                                            \
    D9_LAUNCH((kernel), grid_of((width) * (w).channels / V, rows), block_of((width) * (w).channels / V), stream, w,    \
              __VA_ARGS__)
#define LAUNCH_WIDE(kernel, wide, width, rows, stream, w, ...)                                                         \
    ((wide) ? LAUNCH_ROWS(D9_WIDE, kernel<D9_WIDE>, width, rows, stream, w, __VA_ARGS__)                               \
            : LAUNCH_ROWS(1, kernel<1>, width, rows, stream, w, __VA_ARGS__))
/* True if all windows are 2 x 2 and inside of the image. */
static bool is_inner_2x2(const d9_kernel_window &w) { return w.kernel == 2 && w.pad == 0; }

#define LAUNCH_MAXIMUM(kernel, wide, width, rows, stream, w, ...)                                                      \
    (!(wide)           ? LAUNCH_ROWS(1, (kernel<1, 0>), width, rows, stream, w, __VA_ARGS__)                           \
     : is_inner_2x2(w) ? LAUNCH_ROWS(D9_WIDE, (kernel<D9_WIDE, 2>), width, rows, stream, w, __VA_ARGS__)               \
                       : LAUNCH_ROWS(D9_WIDE, (kernel<D9_WIDE, 0>), width, rows, stream, w, __VA_ARGS__))

static bool is_empty(const d9_kernel_window *w) {
    return w->images <= 0 || w->channels <= 0 || w->out_height <= 0 || w->out_width <= 0;
}

int d9_cuda_pool_forward(d9_cuda_stream stream, const d9_kernel_window *window, d9_kernel_in x, d9_kernel_out y) {
    const d9_kernel_window w = *window;
    const bool wide = w.channels % D9_WIDE == 0 && d9_aligned(x.data) && d9_aligned(y.data);
    if (is_empty(window)) return 0;
    return LAUNCH_MAXIMUM(pool_kernel, wide, w.out_width, w.images * w.out_height, stream, w, x, y);
}

int d9_cuda_pool_backward(d9_cuda_stream stream, const d9_kernel_window *window, d9_kernel_in dy, d9_kernel_in x,
                          d9_kernel_out dx) {
    const d9_kernel_window w = *window;
    const bool wide = w.channels % D9_WIDE == 0 && d9_aligned(dy.data) && d9_aligned(x.data) && d9_aligned(dx.data);
    if (is_empty(window)) return 0;
    if (w.stride >= w.kernel)
        return LAUNCH_MAXIMUM(pool_scatter_kernel, wide, w.out_width, w.images * w.out_height, stream, w, dy, x, dx);
    return LAUNCH_WIDE(pool_gather_kernel, wide, w.width, w.images * w.height, stream, w, dy, x, dx);
}

static double share_of(const d9_kernel_window &w) { return 1.0 / (w.kernel * w.kernel); }

int d9_cuda_mean_pool_forward(d9_cuda_stream stream, const d9_kernel_window *window, d9_kernel_in x, d9_kernel_out y) {
    const d9_kernel_window w = *window;
    const bool wide = w.channels % D9_WIDE == 0 && d9_aligned(x.data) && d9_aligned(y.data);
    if (is_empty(window)) return 0;
    return LAUNCH_WIDE(mean_pool_kernel, wide, w.out_width, w.images * w.out_height, stream, w, share_of(w), x, y);
}

int d9_cuda_mean_pool_backward(d9_cuda_stream stream, const d9_kernel_window *window, d9_kernel_in dy,
                               d9_kernel_out dx) {
    const d9_kernel_window w = *window;
    const bool wide = w.channels % D9_WIDE == 0 && d9_aligned(dy.data) && d9_aligned(dx.data);
    if (is_empty(window)) return 0;
    return LAUNCH_WIDE(mean_pool_backward_kernel, wide, w.width, w.images * w.height, stream, w, share_of(w), dy, dx);
}
