/* Linear layers as plain sums of products, because a classifier is small: x (N, I), w (O, I), y (N, O). Also a product
 * of matrices of any shape and type, for products that cuBLAS does not support. */
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"

enum {
    WEIGHT_COLUMNS = 32,
    WEIGHT_LINES = D9_BLOCK / WEIGHT_COLUMNS,
    FOLD = 64 /* samples that a thread sums in f32 */
};            /* for linear_backward_weight_kernel */

/* One warp for each element of y. V products are summed in f32, then in double. */
template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    linear_kernel(d9_kernel_linear s, d9_kernel_in x, d9_kernel_in w, d9_kernel_out y) {
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP;
    const int64_t warps = d9_threads() / D9_WARP;
    for (int64_t at = d9_thread() / D9_WARP; at < s.samples * s.outputs; at += warps) {
        const int64_t n = at / s.outputs, o = at % s.outputs;
        double sum = 0;
        for (int64_t i = lane * V; i < D9_END(s.inputs); i += D9_WARP * V) {
            const d9_vector<V> p = d9_load<V, D9_ANY>(x, n * s.inputs + i, V);
            const d9_vector<V> q = d9_load<V, D9_ANY>(w, o * s.inputs + i, V);
            float part = 0;
            for (int k = 0; k < V; k++) part += p.v[k] * q.v[k];
            sum += static_cast<double>(part);
        }
        sum = d9_warp_sum(sum);
        if (lane == 0) d9_store_one<D9_ANY>(y, at, static_cast<float>(sum));
    }
}

/* One thread for each run of dx. Grid: x over the runs of a row, y over the samples. */
template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    linear_backward_data_kernel(d9_kernel_linear s, d9_kernel_in dy, d9_kernel_in w, d9_kernel_out dx) {
    for (int64_t n = blockIdx.y; n < s.samples; n += gridDim.y)
        for (int64_t i = d9_thread() * V; i < D9_END(s.inputs); i += d9_threads() * V) {
            d9_vector<V> sum = {};
            for (int64_t o = 0; o < s.outputs; o++) {
                const float factor = d9_load_one<D9_ANY>(dy, n * s.outputs + o);
                const d9_vector<V> row = d9_load<V, D9_ANY>(w, o * s.inputs + i, V);
                for (int k = 0; k < V; k++) sum.v[k] += factor * row.v[k];
            }
            d9_store_run<V, D9_ANY>(dx, n * s.inputs + i, V, sum);
        }
}

/* One block for 32 columns of one row of dw. Line l adds samples l, l + 8, ...: FOLD of them in f32, then in double. */
__global__ void __launch_bounds__(D9_BLOCK)
    linear_backward_weight_kernel(d9_kernel_linear s, d9_kernel_in dy, d9_kernel_in x, d9_kernel_out dw) {
    D9_SHARED(double, part, D9_BLOCK);
    const int column = static_cast<int>(threadIdx.x) % WEIGHT_COLUMNS,
              line = static_cast<int>(threadIdx.x) / WEIGHT_COLUMNS;
    const unsigned across = static_cast<unsigned>((s.inputs + WEIGHT_COLUMNS - 1) / WEIGHT_COLUMNS);
    const int64_t i = static_cast<int64_t>(blockIdx.x % across) * WEIGHT_COLUMNS + column, o = blockIdx.x / across;
    double sum = 0;
    for (int64_t from = line; i < s.inputs && from < D9_END(s.samples); from += FOLD * WEIGHT_LINES) {
        float run = 0;
        for (int64_t n = from; n < D9_END(s.samples) && n < from + FOLD * WEIGHT_LINES; n += WEIGHT_LINES)
            run += d9_load_one<D9_ANY>(dy, n * s.outputs + o) * d9_load_one<D9_ANY>(x, n * s.inputs + i);
        sum += static_cast<double>(run);
    }
    part[threadIdx.x] = sum;
    D9_BARRIER();
    if (line > 0 || i >= s.inputs) return;
    for (int l = 1; l < WEIGHT_LINES; l++) sum += part[l * WEIGHT_COLUMNS + column];
    d9_store_one<D9_ANY>(dw, o * s.inputs + i, static_cast<float>(sum));
}

/* ---- products of matrices ---- */

enum { TILE = D9_WARP, TILE_LINES = D9_BLOCK / TILE, TILE_ROWS = TILE / TILE_LINES, TILE_STRIDE = TILE + 1 };

struct factor { /* op(a), or op(b) transposed: (count, depth) */
    d9_kernel_in x;
    int64_t count, depth, stride; /* stride: elements between successive matrices */
    bool by_depth;                /* elements of a row are neighbours in memory; false: those of a column */
};

/* tile (TILE columns, TILE_STRIDE) = rows [first, first + TILE) of the matrix, columns [from, from + TILE); zeros past
 * the matrix's end. Neighbouring lanes read neighbouring elements. */
D9_DEVICE void load_tile(const factor &f, int64_t first, int64_t from, float *tile) {
    const int lane = static_cast<int>(threadIdx.x) % TILE, line = static_cast<int>(threadIdx.x) / TILE;
    uint32_t bits[TILE_ROWS];
    D9_UNROLL(TILE_ROWS)
    for (int n = 0; n < TILE_ROWS; n++) {
        const int other = line + TILE_LINES * n;
        const int64_t i = first + (f.by_depth ? other : lane), k = from + (f.by_depth ? lane : other);
        const int64_t at = blockIdx.z * f.stride + (f.by_depth ? i * f.depth + k : k * f.count + i);
        bits[n] = i < f.count && k < D9_END(f.depth) ? d9_fetch_bits(f.x, at) : 0;
    }
    D9_UNROLL(TILE_ROWS)
    for (int n = 0; n < TILE_ROWS; n++) {
        const int other = line + TILE_LINES * n;
        tile[(f.by_depth ? lane : other) * TILE_STRIDE + (f.by_depth ? other : lane)] =
            d9_open_bits(f.x.store, bits[n]);
    }
}

/* One block for TILE x TILE numbers of y; a thread has TILE_ROWS of one column. TILE products are summed in f32, then
 * in double. */
__global__ void __launch_bounds__(D9_BLOCK) product_kernel(factor a, factor b, float alpha, float beta, d9_kernel_in c,
                                                           const float *bias, d9_kernel_out y, int64_t stride) {
    D9_SHARED(float, left, TILE *TILE_STRIDE);
    D9_SHARED(float, right, TILE *TILE_STRIDE);
    const int column = static_cast<int>(threadIdx.x) % TILE, line = static_cast<int>(threadIdx.x) / TILE;
    const int64_t across = (b.count + TILE - 1) / TILE;
    const int64_t i = blockIdx.x / across * TILE, j = blockIdx.x % across * TILE;
    double total[TILE_ROWS] = {};
    for (int64_t from = 0; from < a.depth; from += TILE) {
        float sum[TILE_ROWS] = {};
        load_tile(a, i, from, left);
        load_tile(b, j, from, right);
        D9_BARRIER();
        for (int k = 0; k < TILE; k++) {
            D9_UNROLL(TILE_ROWS)
            for (int n = 0; n < TILE_ROWS; n++)
                sum[n] += left[k * TILE_STRIDE + line + TILE_LINES * n] * right[k * TILE_STRIDE + column];
        }
        for (int n = 0; n < TILE_ROWS; n++) total[n] += static_cast<double>(sum[n]);
        D9_BARRIER();
    }
    for (int n = 0; n < TILE_ROWS; n++) {
        const int64_t row = i + line + TILE_LINES * n, at = blockIdx.z * stride + row * b.count + j + column;
        if (row >= a.count || j + column >= b.count) continue;
        float t = alpha * static_cast<float>(total[n]);
        if (c.data) t += beta * d9_load_one<D9_ANY>(c, at);
        if (bias) t += bias[j + column];
        d9_store_one<D9_ANY>(y, at, t);
    }
}

/* ---- launchers ---- */

static bool is_empty(const d9_kernel_linear *s) { return s->samples <= 0 || s->inputs <= 0 || s->outputs <= 0; }

int d9_cuda_linear_forward(d9_cuda_stream stream, const d9_kernel_linear *shape, d9_kernel_in x, d9_kernel_in w,
                           d9_kernel_out y) {
    const d9_kernel_linear s = *shape;
    const unsigned blocks = d9_blocks(s.samples * s.outputs * D9_WARP);
    if (is_empty(shape)) return 0;
    if (s.inputs % D9_WIDE == 0 && d9_aligned(x.data) && d9_aligned(w.data))
        return D9_LAUNCH(linear_kernel<D9_WIDE>, blocks, D9_BLOCK, stream, s, x, w, y);
    return D9_LAUNCH(linear_kernel<1>, blocks, D9_BLOCK, stream, s, x, w, y);
}

static dim3 data_grid(const d9_kernel_linear &s, int lanes) {
    return dim3(d9_blocks(d9_parts_of(s.inputs, lanes)), static_cast<unsigned>(s.samples < 65535 ? s.samples : 65535));
}

int d9_cuda_linear_backward_data(d9_cuda_stream stream, const d9_kernel_linear *shape, d9_kernel_in dy, d9_kernel_in w,
                                 d9_kernel_out dx) {
    const d9_kernel_linear s = *shape;
    if (is_empty(shape)) return 0;
    if (s.inputs % D9_WIDE == 0 && d9_aligned(w.data) && d9_aligned(dx.data))
        return D9_LAUNCH(linear_backward_data_kernel<D9_WIDE>, data_grid(s, D9_WIDE), D9_BLOCK, stream, s, dy, w, dx);
    return D9_LAUNCH(linear_backward_data_kernel<1>, data_grid(s, 1), D9_BLOCK, stream, s, dy, w, dx);
}

int d9_cuda_linear_backward_weight(d9_cuda_stream stream, const d9_kernel_linear *shape, d9_kernel_in dy,
                                   d9_kernel_in x, d9_kernel_out dw) {
    const d9_kernel_linear s = *shape;
    const unsigned blocks = static_cast<unsigned>(d9_parts_of(s.inputs, WEIGHT_COLUMNS) * s.outputs);
    if (is_empty(shape)) return 0;
    return D9_LAUNCH(linear_backward_weight_kernel, blocks, D9_BLOCK, stream, s, dy, x, dw);
}

int d9_cuda_multiply(d9_cuda_stream stream, const d9_cuda_matrix_product *shape, d9_kernel_in a, d9_kernel_in b,
                     const void *c, const float *bias, d9_kernel_out y) {
    const d9_cuda_matrix_product &s = *shape;
    const factor left = {a, s.rows, s.depth, s.a_stride, !s.a_transposed};
    const factor right = {b, s.columns, s.depth, s.b_stride, s.b_transposed};
    const int64_t tiles = d9_parts_of(s.rows, TILE) * d9_parts_of(s.columns, TILE);
    if (tiles <= 0 || s.batch <= 0) return 0;
    const dim3 grid(static_cast<unsigned>(tiles), 1, static_cast<unsigned>(s.batch));
    return D9_LAUNCH(product_kernel, grid, D9_BLOCK, stream, left, right, s.alpha, s.beta,
                     d9_kernel_in{s.beta == 0 ? NULL : c, y.store}, bias, y, s.y_stride);
}
