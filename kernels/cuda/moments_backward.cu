/* The closed form of a first layer, backward: one pass sums the products of the patches with the gradient before the
 * activation, D and S of kernels/cpu/moments.h; the rest is algebra in double. For a pair of convolutions, dW is the
 * gradient of their product times the transpose of the first one. */
#include "kernels/cuda/moments.h"

enum {
    TILE = 64, /* pixels of a tile, 16 for each of PARTS parts */
    RUN = 256, /* pixels summed in f32, 64 for each part, before the parts' sums are added in double */
    STRIDE = TILE + 4,
    PARTS = 4,
    SUMS = D9_MOMENTS_TERMS / D9_BLOCK, /* sums of each thread */
    WARPS = D9_BLOCK / D9_WARP
};

/* Layout of a block's shared floats: patches and gradients of a tile, later the sums of the parts. */
enum { SLOPES = D9_MOMENTS_ROWS * STRIDE, SHARED = PARTS * D9_MOMENTS_TERMS };
static_assert(SLOPES + TILE * D9_MOMENTS_CHUNK <= SHARED, "a tile lies where the sums lie");

/* Loads eight outputs of a pixel, or only the first n if n is less, V at a time; the others are 0. */
template <int V, int S> D9_DEVICE d9_vector<8> load_eight(d9_kernel_in x, int64_t at, int64_t n) {
    d9_vector<8> t = {};
    for (int i = 0; i < 8; i += V) {
        if (i >= n) break;
        const d9_vector<V> run = d9_load<V, S>(x, at + i, V);
        for (int k = 0; k < V; k++) t.v[i + k] = run.v[k];
    }
    return t;
}

/* Writes the gradients before the activation of a tile's pixels to `slopes` (TILE, CHUNK), with the outputs in the
 * order of d9_moments_term_at; zero from pixel `end` on. */
template <int V, int S>
D9_DEVICE void write_slopes(const d9_cuda_moments &s, const d9_moments_gradient &b, int64_t row, int64_t chunk,
                            int from, int end, float *slopes) {
    for (int item = static_cast<int>(threadIdx.x); item < TILE * 8; item += D9_BLOCK) {
        const int pixel = item / 8, eight = item % 8;
        const int64_t c = chunk * D9_MOMENTS_CHUNK + eight * 8, at = (row + from + pixel) * s.outputs + c;
        d9_vector<8> t = {};
        if (from + pixel < end && c < s.outputs) {
            t = load_eight<V, S>(b.dy, at, s.outputs - c);
            /* derivatives from y have the same formulas for every storage type */
            d9_slope_run(b.act, D9_KERNEL_F32, load_eight<V, S>(b.y, at, s.outputs - c), &t);
            d9_round(d9_store_of<S>(b.dy.store), &t);
        }
        float *to = slopes + pixel * D9_MOMENTS_CHUNK + eight * 4;
        *reinterpret_cast<float4 *>(to) = make_float4(t.v[0], t.v[1], t.v[2], t.v[3]);
        *reinterpret_cast<float4 *>(to + 32) = make_float4(t.v[4], t.v[5], t.v[6], t.v[7]);
    }
}

/* The sums of one thread: products of four outputs, from `column` on in the order of write_slopes, with the patches'
 * elements first, first + 4, ..., over quarter `part` of a tile's pixels. */
struct thread_part {
    int column, first, part;
};
D9_DEVICE thread_part thread_part_of() {
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP, warp = static_cast<int>(threadIdx.x) / D9_WARP;
    const thread_part p = {warp % 2 * 32 + lane % 8 * 4, lane / 8, warp / 2};
    return p;
}

D9_DEVICE void add_products(const float *shared, const thread_part &at, float4 sum[D9_MOMENTS_SETS]) {
    D9_UNROLL(1)
    for (int from = at.part * 16; from < at.part * 16 + 16; from += 4) {
        float4 slope[4];
        for (int i = 0; i < 4; i++)
            slope[i] = d9_moments_load_four(shared + SLOPES + (from + i) * D9_MOMENTS_CHUNK + at.column);
        for (int k = 0; k < D9_MOMENTS_SETS; k++) {
            const float4 p = d9_moments_load_four(shared + (at.first + 4 * k) * STRIDE + from);
            const float pixel[4] = {p.x, p.y, p.z, p.w};
            for (int i = 0; i < 4; i++) {
                sum[k].x += slope[i].x * pixel[i];
                sum[k].y += slope[i].y * pixel[i];
                sum[k].z += slope[i].z * pixel[i];
                sum[k].w += slope[i].w * pixel[i];
            }
        }
    }
}

/* One block for a slice of a group's images and a chunk of outputs. Writes parts (G, slices, chunks, CHUNK, ROWS). */
template <int V, int S>
__global__ void __launch_bounds__(D9_BLOCK)
    moments_backward_kernel(d9_cuda_moments s, unsigned slices, d9_kernel_in x, d9_moments_gradient b, double *parts) {
    D9_SHARED(float, shared, SHARED);
    D9_SHARED(double, totals, D9_MOMENTS_TERMS);
    double *total =
        totals + threadIdx.x; /* this thread's sums, D9_BLOCK elements apart; in shared memory to save registers */
    const int64_t group = blockIdx.x / slices, slice = blockIdx.x % slices;
    const int pixels = static_cast<int>(s.out_height * s.out_width);
    const thread_part at = thread_part_of();
    for (int k = 0; k < SUMS; k++) total[k * D9_BLOCK] = 0;
    for (int64_t m = slice; group + s.groups * m < s.images; m += slices)
        for (int run = 0; run < pixels; run += RUN) {
            const int64_t image = group + s.groups * m;
            const int end = static_cast<int>(D9_END(run + RUN < pixels ? run + RUN : pixels));
            float4 sum[D9_MOMENTS_SETS] = {};
            for (int from = run; from < end; from += TILE) {
                d9_moments_patches<TILE, S>(s, x, image, from, end, shared);
                write_slopes<V, S>(s, b, image * pixels, blockIdx.y, from, end, shared + SLOPES);
                D9_BARRIER();
                add_products(shared, at, sum);
                D9_BARRIER();
            }
            for (int k = 0; k < D9_MOMENTS_SETS; k++)
                *reinterpret_cast<float4 *>(shared + at.part * D9_MOMENTS_TERMS +
                                            (at.first + 4 * k) * D9_MOMENTS_CHUNK + at.column) = sum[k];
            D9_BARRIER();
            D9_UNROLL(1)
            for (int part = 0; part < PARTS; part++) {
                const float *of = shared + part * D9_MOMENTS_TERMS + threadIdx.x;
                for (int k = 0; k < SUMS; k++) total[k * D9_BLOCK] += static_cast<double>(of[k * D9_BLOCK]);
            }
            D9_BARRIER();
        }
    double *to = parts + (static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y) * D9_MOMENTS_TERMS;
    for (int k = 0; k < SUMS; k++) {
        const int row = (k * D9_BLOCK + static_cast<int>(threadIdx.x)) / D9_MOMENTS_CHUNK,
                  column = static_cast<int>(threadIdx.x) % D9_MOMENTS_CHUNK;
        const int output = column % 32 / 4 * 8 + column / 32 * 4 + column % 4;
        to[output * D9_MOMENTS_ROWS + row] = total[k * D9_BLOCK];
    }
}

/* One block for each output; a warp takes every eighth group, a lane one number of the patch. */
__global__ void __launch_bounds__(D9_BLOCK)
    moments_weight_kernel(d9_cuda_moments s, d9_moments_map map, int64_t chunks, double n, const double *moments,
                          const double *sums, const float *mean, const float *inv_std, const float *scale,
                          d9_cuda_moments_gradients gradients) {
    D9_SHARED(double, rows, D9_BLOCK);
    D9_SHARED(double, scales, WARPS);
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP, warp = static_cast<int>(threadIdx.x) / D9_WARP;
    const int64_t o = blockIdx.x;
    const double w = d9_moments_weight(map, o, lane), a = static_cast<double>(scale[o]);
    const double per = 1 / n;
    double *own = rows + warp * D9_WARP;
    d9_moments_broadcast(own, lane, w);
    double row = 0, dscale = 0; /* in lane ROWS - 1 `row` is dbias */
    for (int64_t g = warp; g < s.groups; g += WARPS) {
        const double *q = moments + g * D9_MOMENTS_SUMS;
        const double d =
            lane < D9_MOMENTS_ROWS ? sums[(g * chunks * D9_MOMENTS_CHUNK + o) * D9_MOMENTS_ROWS + lane] : 0;
        const double total = __shfl_sync(0xffffffffu, d, D9_MOMENTS_ROWS - 1);
        const double average = static_cast<double>(mean[g * s.outputs + o]),
                     inverse = static_cast<double>(inv_std[g * s.outputs + o]);
        const double product = inverse * (d9_warp_sum(w * d) - average * total); /* w is 0 past the end of the patch */
        const double m = lane < map.patch ? d9_moments_at(q, lane, D9_MOMENTS_ROWS - 1) : 0;
        const double spread = d9_moments_product(q, map.patch, own, lane) - average * m; /* sum of p (w p - mean) */
        dscale += product;
        row += lane < map.patch ? a * inverse * (d - total * m * per - product * per * inverse * spread) : d;
    }
    d9_moments_broadcast(own, lane, row);
    if (lane == 0) scales[warp] = dscale;
    D9_BARRIER();
    if (warp > 0) return;
    for (int i = 1; i < WARPS; i++) {
        row += rows[i * D9_WARP + lane];
        dscale += scales[i];
    }
    if (gradients.dbias && lane == D9_MOMENTS_ROWS - 1) gradients.dbias[o] = static_cast<float>(row);
    if (gradients.dscale && lane == 0) gradients.dscale[o] = static_cast<float>(dscale);
    if (!map.between) {
        if (lane < map.patch) gradients.dw[o * map.patch + lane] = static_cast<float>(row);
        return;
    }
    d9_moments_broadcast(own, lane, row);
    if (lane >= map.between) return;
    double sum = 0;
    for (int i = 0; i < map.patch; i++)
        sum += own[i] * static_cast<double>(d9_rounded(map.store, map.weights.first[lane * map.patch + i]));
    gradients.dw[o * map.between + lane] = static_cast<float>(sum);
}

/* ---- the launcher ---- */

int d9_cuda_moments_backward(d9_cuda_stream stream, const d9_cuda_moments *shape, d9_kernel_in dy, d9_kernel_act act,
                             d9_kernel_in y, d9_kernel_in x, const d9_cuda_moments_weights *weights, const float *mean,
                             const float *inv_std, const float *scale, const double *moments, void *scratch,
                             const d9_cuda_moments_gradients *gradients) {
    const d9_cuda_moments s = *shape;
    if (s.images <= 0 || s.out_height <= 0 || s.out_width <= 0 || s.outputs <= 0) return 0;
    const d9_moments_scratch at = d9_moments_lay_out(s, scratch);
    const d9_moments_map map = d9_moments_map_of(s, *weights, x.store);
    const d9_moments_gradient b = {dy, y, act};
    const int64_t slices = d9_moments_slices(s, D9_MOMENTS_BACKWARD_BLOCKS), chunks = d9_moments_chunks(s);
    const double n = static_cast<double>(s.images / s.groups * s.out_height * s.out_width);
    const dim3 grid(static_cast<unsigned>(slices * s.groups), static_cast<unsigned>(chunks));
    const bool wide = s.outputs % D9_WIDE == 0 && d9_aligned(dy.data) && d9_aligned(y.data) && dy.store == x.store &&
                      y.store == x.store;
    const unsigned each = static_cast<unsigned>(slices);
    if (wide && x.store != D9_KERNEL_F32)
        D9_CUDA_TRY(d9_moments_backward_half(stream, s, x, b, at.parts));
    else if (wide)
        D9_CUDA_TRY(D9_LAUNCH((moments_backward_kernel<D9_WIDE, D9_KERNEL_F32>), grid, D9_BLOCK, stream, s, each, x, b,
                              at.parts));
    else
        D9_CUDA_TRY(D9_LAUNCH((moments_backward_kernel<1, D9_ANY>), grid, D9_BLOCK, stream, s, each, x, b, at.parts));
    D9_CUDA_TRY(d9_moments_add_slices(stream, at.parts, s.groups, slices, chunks * D9_MOMENTS_TERMS, at.sums));
    return D9_LAUNCH(moments_weight_kernel, static_cast<unsigned>(s.outputs), D9_BLOCK, stream, s, map, chunks, n,
                     moments, at.sums, mean, inv_std, scale, *gradients);
}
