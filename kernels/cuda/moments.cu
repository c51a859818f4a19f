/* The closed form of a first layer, forward: moments of the patches of each ghost group, then the norm's statistics
 * from moments and weights, then one pass that reads the images and writes the activation. */
#include "kernels/cuda/moments.h"

enum {
    SUMS_TILE = 128, /* pixels of a tile of the moments, 16 for each warp */
    SUMS_RUN = 512,  /* pixels summed in f32, 64 by each warp, before the warps' sums are added in double */
    SUMS_STRIDE = SUMS_TILE + 4,
    APPLY_TILE = 128,
    APPLY_SPAN = 512, /* pixels of a block */
    APPLY_STRIDE = APPLY_TILE + 4,
    FOLD_COLUMNS = 32,
    FOLD_LINES = D9_BLOCK / FOLD_COLUMNS
};

/* ---- sums ---- */

/* Adds the products of the lane's pair of sets over the warp's 16 pixels of the tile. */
D9_DEVICE void add_products(const float *tile, d9_moments_pair pair, float sum[16]) {
    const int warp = static_cast<int>(threadIdx.x) / D9_WARP;
    for (int from = warp * 16; from < warp * 16 + 16; from += 4) {
        float4 second[4];
        for (int b = 0; b < 4; b++)
            second[b] = d9_moments_load_four(tile + (pair.second + D9_MOMENTS_SETS * b) * SUMS_STRIDE + from);
        for (int a = 0; a < 4; a++) {
            const float4 f = d9_moments_load_four(tile + (pair.first + D9_MOMENTS_SETS * a) * SUMS_STRIDE + from);
            for (int b = 0; b < 4; b++) {
                float s = sum[a * 4 + b];
                s += f.x * second[b].x;
                s += f.y * second[b].y;
                s += f.z * second[b].z;
                s += f.w * second[b].w;
                sum[a * 4 + b] = s;
            }
        }
    }
}

/* One block for each slice of a group's images. */
template <int S>
__global__ void __launch_bounds__(D9_BLOCK)
    moments_kernel(d9_cuda_moments s, unsigned slices, d9_kernel_in x, double *parts) {
    D9_SHARED(float, tile, D9_MOMENTS_ROWS *SUMS_STRIDE); /* also holds each warp's sums of a run */
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP, warp = static_cast<int>(threadIdx.x) / D9_WARP;
    const int64_t group = blockIdx.x / slices, slice = blockIdx.x % slices;
    const int pixels = static_cast<int>(s.out_height * s.out_width);
    const d9_moments_pair pair = d9_moments_pair_of(lane < D9_MOMENTS_PAIRS ? lane : 0);
    const bool has_second = threadIdx.x + D9_BLOCK < D9_MOMENTS_SUMS;
    double total[2] = {0, 0}; /* sums number threadIdx.x and threadIdx.x + D9_BLOCK */
    for (int64_t m = slice; group + s.groups * m < s.images; m += slices)
        for (int run = 0; run < pixels; run += SUMS_RUN) {
            const int end = static_cast<int>(D9_END(run + SUMS_RUN < pixels ? run + SUMS_RUN : pixels));
            float sum[16] = {};
            for (int from = run; from < end; from += SUMS_TILE) {
                d9_moments_patches<SUMS_TILE, S>(s, x, group + s.groups * m, from, end, tile);
                D9_BARRIER();
                add_products(tile, pair, sum);
                D9_BARRIER();
            }
            for (int k = 0; k < 16 && lane < D9_MOMENTS_PAIRS; k++)
                tile[warp * D9_MOMENTS_SUMS + lane * 16 + k] = sum[k];
            D9_BARRIER();
            for (int w = 0; w < D9_BLOCK / D9_WARP; w++) {
                const float *of = tile + w * D9_MOMENTS_SUMS + threadIdx.x;
                total[0] += static_cast<double>(of[0]);
                if (has_second) total[1] += static_cast<double>(of[D9_BLOCK]);
            }
            D9_BARRIER();
        }
    double *to = parts + static_cast<int64_t>(blockIdx.x) * D9_MOMENTS_SUMS + threadIdx.x;
    to[0] = total[0];
    if (has_second) to[D9_BLOCK] = total[1];
}

/* One block for 32 sums of a group: line l adds parts l, l + 8, ..., then the lines are added in order. */
__global__ void __launch_bounds__(D9_BLOCK)
    moments_fold_kernel(const double *parts, int64_t slices, int64_t count, double *sums) {
    D9_SHARED(double, part, D9_BLOCK);
    const int column = static_cast<int>(threadIdx.x) % FOLD_COLUMNS,
              line = static_cast<int>(threadIdx.x) / FOLD_COLUMNS;
    const int64_t at = static_cast<int64_t>(blockIdx.x) * FOLD_COLUMNS + column, group = blockIdx.y;
    double sum = 0;
    D9_UNROLL(4)
    for (int64_t i = line; at < count && i < slices; i += FOLD_LINES) sum += parts[(group * slices + i) * count + at];
    part[threadIdx.x] = sum;
    D9_BARRIER();
    if (line > 0 || at >= count) return;
    for (int l = 1; l < FOLD_LINES; l++) sum += part[l * FOLD_COLUMNS + column];
    sums[group * count + at] = sum;
}

/* ---- terms ---- */

D9_DEVICE int64_t term_at(int64_t group, int64_t chunks, int64_t o, int row) {
    return (group * chunks + o / D9_MOMENTS_CHUNK) * D9_MOMENTS_TERMS +
           d9_moments_term_at(row, static_cast<int>(o % D9_MOMENTS_CHUNK));
}

/* Sets the term of this lane's row of a patch for output o: w times factor; in the last row, where patches are 1, the
 * bias. */
D9_DEVICE void set_terms(int64_t group, int64_t chunks, int64_t o, int lane, double w, double factor, double bias,
                         float *terms) {
    if (lane < D9_MOMENTS_ROWS)
        terms[term_at(group, chunks, o, lane)] = static_cast<float>(lane == D9_MOMENTS_ROWS - 1 ? bias : w * factor);
}

/* One warp for each output of a group; padding outputs get zeros. The mean is w m, the variance w (Q - m m^T) w^T, with
 * m and Q as in kernels/cpu/moments.h; a channel has n values. */
__global__ void __launch_bounds__(D9_BLOCK)
    moments_terms_kernel(d9_cuda_moments s, d9_moments_map map, int64_t chunks, double n, const double *moments,
                         d9_kernel_norm_state state, float *terms) {
    D9_SHARED(double, rows, D9_BLOCK);
    const double inverse = 1 / n;
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP;
    double *row = rows + threadIdx.x / D9_WARP * D9_WARP;
    const int64_t g = blockIdx.y, o = d9_thread() / D9_WARP;
    if (o >= s.outputs) return set_terms(g, chunks, o, lane, 0, 0, 0, terms);
    const double *sums = moments + g * D9_MOMENTS_SUMS;
    const double w = d9_moments_weight(map, o, lane);
    const double m = lane < map.patch ? d9_moments_at(sums, lane, D9_MOMENTS_ROWS - 1) * inverse : 0;
    const double mean = d9_warp_sum(w * m);
    d9_moments_broadcast(row, lane, w);
    const double spread = d9_warp_sum(w * (d9_moments_product(sums, map.patch, row, lane) * inverse - m * mean));
    const d9_norm_pair total = {0, spread * n};
    double mean_again;
    const double inv_std =
        static_cast<double>(d9_norm_statistics(state, g * s.outputs + o, n, mean, total, lane == 0, &mean_again));
    const double factor = inv_std * static_cast<double>(state.scale[o]);
    set_terms(g, chunks, o, lane, w, factor, static_cast<double>(state.bias[o]) - mean * factor, terms);
}

/* Terms from the running statistics averaged over the groups; state.scale NULL: terms of the convolution alone. */
__global__ void __launch_bounds__(D9_BLOCK)
    moments_eval_terms_kernel(d9_cuda_moments s, d9_moments_map map, int64_t chunks, d9_kernel_norm_state state,
                              float *terms) {
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP;
    const int64_t o = d9_thread() / D9_WARP;
    double mean = 0, variance = 0, factor = 1, bias = 0;
    const bool is_there = o < s.outputs;
    if (is_there && state.scale) {
        const double per = 1 / static_cast<double>(s.groups);
        for (int64_t k = 0; k < s.groups; k++) {
            mean += static_cast<double>(state.running_mean[k * s.outputs + o]);
            variance += static_cast<double>(state.running_var[k * s.outputs + o]);
        }
        factor = d9_norm_inv_std_double(variance * per, state.epsilon) * static_cast<double>(state.scale[o]);
        bias = static_cast<double>(state.bias[o]) - mean * per * factor;
    }
    set_terms(0, chunks, o, lane, is_there ? d9_moments_weight(map, o, lane) : 0, factor, bias, terms);
}

/* ---- the pass ---- */

/* Stores eight outputs of a pixel, or only the first n if n is less, V at a time. */
template <int V, int S> D9_DEVICE void store_eight(d9_kernel_out y, int64_t at, int64_t n, const d9_vector<8> &t) {
    for (int i = 0; i < 8; i += V) {
        d9_vector<V> run;
        for (int k = 0; k < V; k++) run.v[k] = t.v[i + k];
        if (i < n) d9_store_run<V, S>(y, at + i, V, run);
    }
}

/* Adds the products of one row of the patches: four pixels by the weights of eight outputs. */
D9_DEVICE void add_row(const float4 &p, const float4 &low, const float4 &high, d9_vector<32> *sum) {
    const float pixel[4] = {p.x, p.y, p.z, p.w}, w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    for (int i = 0; i < 4; i++)
        for (int o = 0; o < 8; o++) sum->v[i * 8 + o] += pixel[i] * w[o];
}

/* One block for a span of an image's pixels and a chunk of outputs; per tile a thread computes 4 pixels x 8 outputs. */
template <int V, int S>
__global__ void __launch_bounds__(D9_BLOCK)
    moments_apply_kernel(d9_cuda_moments s, unsigned spans, unsigned groups, d9_kernel_in x, const float *terms,
                         d9_kernel_act act, d9_kernel_out y) {
    D9_SHARED(float, tile, D9_MOMENTS_ROWS *APPLY_STRIDE);
    D9_SHARED(float, w, D9_MOMENTS_TERMS);
    const int eight = static_cast<int>(threadIdx.x) % 8, four = static_cast<int>(threadIdx.x) / 8;
    const unsigned image = blockIdx.x / spans, chunk = blockIdx.y;
    const int pixels = static_cast<int>(s.out_height * s.out_width);
    const int begin = static_cast<int>(blockIdx.x % spans) * APPLY_SPAN;
    const int end = static_cast<int>(D9_END(begin + APPLY_SPAN < pixels ? begin + APPLY_SPAN : pixels));
    const int64_t c = static_cast<int64_t>(chunk) * D9_MOMENTS_CHUNK + eight * 8;
    const d9_act own = d9_act_of(act);
    const float *from_terms = terms + static_cast<int64_t>(image % groups * gridDim.y + chunk) * D9_MOMENTS_TERMS;
    for (int i = static_cast<int>(threadIdx.x) * 4; i < D9_MOMENTS_TERMS; i += D9_BLOCK * 4)
        *reinterpret_cast<float4 *>(w + i) = *reinterpret_cast<const float4 *>(from_terms + i);
    for (int from = begin; from < end; from += APPLY_TILE) {
        d9_moments_patches<APPLY_TILE, S>(s, x, image, from, end, tile);
        D9_BARRIER();
        d9_vector<32> sum = {};
        D9_UNROLL(4)
        for (int row = 0; row < D9_MOMENTS_ROWS; row++)
            add_row(d9_moments_load_four(tile + row * APPLY_STRIDE + four * 4),
                    d9_moments_load_four(w + row * D9_MOMENTS_CHUNK + eight * 4),
                    d9_moments_load_four(w + row * D9_MOMENTS_CHUNK + 32 + eight * 4), &sum);
        D9_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const int pixel = from + four * 4 + i;
            d9_vector<8> t;
            for (int o = 0; o < 8; o++) t.v[o] = sum.v[i * 8 + o];
            /* Only one of the two sets of formulas is compiled: with both the kernel would spill registers. */
            d9_act_run(own, S == D9_ANY ? static_cast<int>(D9_KERNEL_F32) : S, &t);
            if (pixel < end && c < s.outputs)
                store_eight<V, S>(y, (static_cast<int64_t>(image) * pixels + pixel) * s.outputs + c, s.outputs - c, t);
        }
        D9_BARRIER();
    }
}

/* ---- launchers ---- */

bool d9_cuda_moments_fits(const d9_cuda_moments *s) {
    return s->kernel * s->kernel * s->inputs < D9_MOMENTS_ROWS && s->between < D9_MOMENTS_ROWS &&
           s->images % s->groups == 0 && s->groups < 1 << 16;
}

int64_t d9_cuda_moments_scratch_bytes(const d9_cuda_moments *shape) {
    return d9_moments_lay_out(*shape, nullptr).bytes;
}

int64_t d9_cuda_moments_bytes(const d9_cuda_moments *shape) { return shape->groups * D9_MOMENTS_SUMS * 8; }

int d9_moments_add_slices(d9_cuda_stream stream, const double *parts, int64_t groups, int64_t slices, int64_t count,
                          double *sums) {
    const dim3 grid(static_cast<unsigned>(d9_parts_of(count, FOLD_COLUMNS)), static_cast<unsigned>(groups));
    return D9_LAUNCH(moments_fold_kernel, grid, D9_BLOCK, stream, parts, slices, count, sums);
}

static bool is_empty(const d9_cuda_moments &s) {
    return s.images <= 0 || s.out_height <= 0 || s.out_width <= 0 || s.outputs <= 0;
}

static int sum_moments(d9_cuda_stream stream, const d9_cuda_moments &s, d9_kernel_in x, double *parts,
                       double *moments) {
    const int64_t slices = d9_moments_slices(s, D9_MOMENTS_BLOCKS);
    const unsigned grid = static_cast<unsigned>(slices * s.groups);
    const unsigned each = static_cast<unsigned>(slices);
    D9_CUDA_TRY(x.store == D9_KERNEL_F32
                    ? D9_LAUNCH(moments_kernel<D9_KERNEL_F32>, grid, D9_BLOCK, stream, s, each, x, parts)
                : x.store == D9_KERNEL_F16
                    ? D9_LAUNCH(moments_kernel<D9_KERNEL_F16>, grid, D9_BLOCK, stream, s, each, x, parts)
                    : D9_LAUNCH(moments_kernel<D9_KERNEL_BF16>, grid, D9_BLOCK, stream, s, each, x, parts));
    return d9_moments_add_slices(stream, parts, s.groups, slices, D9_MOMENTS_SUMS, moments);
}

/* Image i uses the terms of group i % groups. */
static int launch_apply(d9_cuda_stream stream, const d9_cuda_moments &s, int64_t groups, d9_kernel_in x,
                        const float *terms, d9_kernel_act act, d9_kernel_out y) {
    const bool wide = s.outputs % D9_WIDE == 0 && d9_aligned(y.data) && x.store == y.store;
    if (wide && x.store != D9_KERNEL_F32) return d9_moments_apply_half(stream, s, groups, x, terms, act, y);
    const unsigned spans = static_cast<unsigned>(d9_parts_of(s.out_height * s.out_width, APPLY_SPAN));
    const dim3 grid(static_cast<unsigned>(s.images) * spans, static_cast<unsigned>(d9_moments_chunks(s)));
    const unsigned each = static_cast<unsigned>(groups);
    return wide
               ? D9_LAUNCH((moments_apply_kernel<D9_WIDE, D9_KERNEL_F32>), grid, D9_BLOCK, stream, s, spans, each, x,
                           terms, act, y)
               : D9_LAUNCH((moments_apply_kernel<1, D9_ANY>), grid, D9_BLOCK, stream, s, spans, each, x, terms, act, y);
}

static dim3 output_grid(const d9_cuda_moments &s, int64_t groups) {
    const int64_t warps = d9_moments_chunks(s) * D9_MOMENTS_CHUNK;
    return dim3(static_cast<unsigned>(warps * D9_WARP / D9_BLOCK), static_cast<unsigned>(groups));
}

int d9_cuda_moments_forward(d9_cuda_stream stream, const d9_cuda_moments *shape, d9_kernel_in x,
                            const d9_cuda_moments_weights *weights, const d9_kernel_norm_state *state,
                            d9_kernel_act act, void *scratch, double *moments, d9_kernel_out y) {
    const d9_cuda_moments s = *shape;
    if (is_empty(s)) return 0;
    const d9_moments_scratch at = d9_moments_lay_out(s, scratch);
    const d9_moments_map map = d9_moments_map_of(s, *weights, x.store);
    const double n = static_cast<double>(s.images / s.groups * s.out_height * s.out_width);
    D9_CUDA_TRY(sum_moments(stream, s, x, at.parts, moments));
    D9_CUDA_TRY(D9_LAUNCH(moments_terms_kernel, output_grid(s, s.groups), D9_BLOCK, stream, s, map,
                          d9_moments_chunks(s), n, moments, *state, at.terms));
    return launch_apply(stream, s, s.groups, x, at.terms, act, y);
}

int d9_cuda_moments_eval(d9_cuda_stream stream, const d9_cuda_moments *shape, d9_kernel_in x,
                         const d9_cuda_moments_weights *weights, const d9_kernel_norm_state *state, d9_kernel_act act,
                         void *scratch, d9_kernel_out y) {
    const d9_cuda_moments s = *shape;
    if (is_empty(s)) return 0;
    float *terms = d9_moments_lay_out(s, scratch).terms;
    const d9_moments_map map = d9_moments_map_of(s, *weights, x.store);
    D9_CUDA_TRY(D9_LAUNCH(moments_eval_terms_kernel, output_grid(s, 1), D9_BLOCK, stream, s, map, d9_moments_chunks(s),
                          *state, terms));
    return launch_apply(stream, s, 1, x, terms, act, y);
}

int d9_cuda_moments_conv(d9_cuda_stream stream, const d9_cuda_moments *shape, d9_kernel_in x,
                         const d9_cuda_moments_weights *weights, void *scratch, d9_kernel_out y) {
    const d9_kernel_norm_state no_norm = {};
    const d9_kernel_act no_act = {D9_KERNEL_NO_ACT, 0};
    return d9_cuda_moments_eval(stream, shape, x, weights, &no_norm, no_act, scratch, y);
}
