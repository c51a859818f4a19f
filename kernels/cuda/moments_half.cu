/* The two large matrix products of a first layer in closed form, for arrays in half precision, on tensor cores.
 * Products of half-precision numbers are exact, and sums are f32, as without tensor cores.
 *
 * Forward, as in moments.cu: pixels by outputs, with the rows of the patches as the reduction. Each f32 weight is
 * multiplied by a power of two, which keeps its parts in the range of fp16, and split into a sum of three
 * half-precision numbers, largest first. A warp takes 16 pixels and a chunk's outputs at a time.
 *
 * Backward, the sums of moments_backward.cu: rows of the patches by outputs, with the pixels as the reduction. A warp
 * takes 16 pixels and half of a chunk's outputs at a time. Its operands need neither shared memory nor a barrier: lane
 * (g, t), of tensor.h, loads rows g, g + 8, g + 16, g + 24 of the patches of pixels 4t to 4t + 3, and outputs
 * 4g to 4g + 3 of the gradient of these pixels. Sums are f32 over at most 128 pixels, and double from there on. */
#include "kernels/cuda/moments.h"
#include "kernels/cuda/tensor.h"

enum {
    STEP = 16,                      /* pixels of one d9_mma */
    HALF = D9_MOMENTS_CHUNK / 2,    /* outputs of a warp */
    LINES = D9_BLOCK / D9_WARP / 2, /* pairs of warps, which divide the pixels among them */
    RUN = 128 * LINES,              /* pixels summed in f32, 128 for each pair of warps */
    STRIDE = D9_MOMENTS_CHUNK + 4,
    SUMS = D9_MOMENTS_TERMS / D9_BLOCK, /* sums of each thread */
    NO_LINE = 1 << 29                   /* outside of every image */
};

struct patch_row { /* distance of a row's input from the patch's corner: in lines, columns, and elements of the image */
    int line, column, offset;
};

D9_DEVICE patch_row patch_row_of(const d9_cuda_moments &s, int row) {
    const int inputs = static_cast<int>(s.inputs), run = s.kernel * inputs, line = row / run;
    return {line < s.kernel ? line : NO_LINE, row % run / inputs,
            line * static_cast<int>(s.width) * inputs + row % run};
}

/* Bits of the number 1. */
D9_DEVICE uint32_t bits_of_one(int store) { return store == D9_KERNEL_BF16 ? 0x3f80 : 0x3c00; }

/* ---- forward ---- */

enum {
    SPAN = 512 /* pixels of a thread block */,
    PARTS = 3 /* parts of a weight */,
    BLOCKS = D9_MOMENTS_CHUNK / 8 /* blocks of 8 outputs in a chunk */
};
enum { EXPONENT_BIAS = 127, TOP_EXPONENT = 13 }; /* TOP_EXPONENT: of the largest weight after the multiplication */

/* The chunk's output in column `column` of block j. A lane with t, which has columns 2t and 2t + 1 of each block, thus
 * has outputs 8t to 8t + 7 in blocks 0 to 3, and 32 + 8t to 32 + 8t + 7 in blocks 4 to 7. */
D9_DEVICE int output_of(int j, int column) { return j / 4 * 32 + column / 2 * 8 + j % 4 * 2 + column % 2; }

/* Returns the exponent e with which the largest magnitude of the thread block's weights times 2^e is in [2^13, 2^14);
 * 126 if the weights are too small for that or 0, -114 if one is infinite or NaN. All threads of the block must call
 * it. */
D9_DEVICE int exponent_of(const float w[8]) {
    D9_SHARED(int, most, D9_BLOCK / D9_WARP);
    int largest = 0; /* largest magnitude as bits: without their sign bit, floats are ordered like their bits */
    for (int k = 0; k < 8; k++) {
        const int bits = static_cast<int>(d9_float_bits(w[k]) & 0x7fffffff);
        largest = bits > largest ? bits : largest;
    }
    D9_UNROLL(5)
    for (int offset = D9_REDUCED_LANES / 2; offset > 0; offset /= 2) {
        const int other = __shfl_xor_sync(0xffffffffu, largest, offset);
        largest = other > largest ? other : largest;
    }
    if (threadIdx.x % D9_WARP == 0) most[threadIdx.x / D9_WARP] = largest;
    D9_BARRIER();
    for (int warp = 0; warp < D9_BLOCK / D9_WARP; warp++) largest = most[warp] > largest ? most[warp] : largest;
    const int exponent = largest >> 23;
    return TOP_EXPONENT + EXPONENT_BIAS -
           (exponent < TOP_EXPONENT + 1 ? TOP_EXPONENT + 1
            : exponent > 254            ? 254
                                        : exponent);
}

/* Multiplies eight weights by `scale` and divides each into PARTS half-precision numbers: parts[p] has part p of all,
 * two in a word. w is overwritten. */
template <int S> D9_DEVICE void split_weights(float w[8], float scale, uint4 parts[PARTS]) {
    D9_UNROLL(8)
    for (int k = 0; k < 8; k++) w[k] *= scale;
    D9_UNROLL(PARTS)
    for (int part = 0; part < PARTS; part++) {
        uint32_t words[4];
        D9_UNROLL(4)
        for (int pair = 0; pair < 4; pair++) {
            words[pair] = d9_pack(S, w[2 * pair], w[2 * pair + 1]);
            float low, high;
            d9_unpack(S, words[pair], &low, &high);
            w[2 * pair] -= low;
            w[2 * pair + 1] -= high;
        }
        parts[part] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

/* Loads rows 8t to 8t + 7 of the patch of a pixel, two in a word. has_last: t is 3; these rows include the last row of
 * a patch, which is 1. */
template <int S>
D9_DEVICE uint4 load_patch(const d9_cuda_moments &s, const uint16_t *image, const patch_row of[8], bool has_last,
                           int line, int column) {
    const int width = static_cast<int>(s.width), height = static_cast<int>(s.height);
    const int y = line * s.stride - s.pad, x = column * s.stride - s.pad;
    const int corner = (y * width + x) * static_cast<int>(s.inputs);
    uint32_t v[8];
    D9_UNROLL(8)
    for (int k = 0; k < 8; k++) {
        const bool inside = static_cast<unsigned>(y + of[k].line) < static_cast<unsigned>(height) &&
                            static_cast<unsigned>(x + of[k].column) < static_cast<unsigned>(width);
        v[k] = 0;
        if (inside) v[k] = image[corner + of[k].offset];
    }
    if (has_last) v[(D9_MOMENTS_ROWS - 1) % 8] = bits_of_one(S);
    return make_uint4(v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16);
}

/* One block for a span of an image's pixels and a chunk of outputs. terms: in the order of d9_moments_term_at. */
template <int S>
__global__ void __launch_bounds__(D9_BLOCK, 2)
    moments_apply_half_kernel(d9_cuda_moments s, unsigned spans, unsigned groups, d9_kernel_in x, const float *terms,
                              d9_kernel_act act, d9_kernel_out y) {
    D9_SHARED(uint4, weights, PARTS * BLOCKS * D9_WARP);
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP, warp = static_cast<int>(threadIdx.x) / D9_WARP;
    const int g = lane / 4, t = lane % 4;
    const unsigned image = blockIdx.x / spans, chunk = blockIdx.y;
    const int out_width = static_cast<int>(s.out_width), pixels = static_cast<int>(s.out_height) * out_width;
    const int begin = static_cast<int>(blockIdx.x % spans) * SPAN;
    const int end = static_cast<int>(D9_END(begin + SPAN < pixels ? begin + SPAN : pixels));
    const float *from_terms = terms + static_cast<int64_t>(image % groups * gridDim.y + chunk) * D9_MOMENTS_TERMS;
    float w[8]; /* rows 8t to 8t + 7 of output output_of(warp, g) */
    patch_row of[8];
    D9_UNROLL(8)
    for (int k = 0; k < 8; k++) {
        const int row = 8 * t + k;
        of[k] = patch_row_of(s, row);
        w[k] = row < D9_MOMENTS_ROWS ? from_terms[d9_moments_term_at(row, output_of(warp, g))] : 0;
    }
    const int exponent = exponent_of(w);
    uint4 parts[PARTS];
    split_weights<S>(w, d9_power_of_two(exponent), parts);
    for (int part = 0; part < PARTS; part++) weights[part * D9_BLOCK + static_cast<int>(threadIdx.x)] = parts[part];
    D9_BARRIER();
    const float inverse = d9_power_of_two(-exponent);
    const d9_act own = d9_act_of(act);
    const uint16_t *from =
        static_cast<const uint16_t *>(x.data) + static_cast<int64_t>(image) * s.height * s.width * s.inputs;
    D9_UNROLL(1)
    for (int first = begin + warp * STEP; first < end; first += D9_BLOCK / D9_WARP * STEP) {
        const int low = (first + g) / out_width, high = (first + g + 8) / out_width;
        const uint4 p = load_patch<S>(s, from, of, t == 3, low, first + g - low * out_width),
                    q = load_patch<S>(s, from, of, t == 3, high, first + g + 8 - high * out_width);
        const uint32_t left[2][4] = {{p.x, q.x, p.y, q.y}, {p.z, q.z, p.w, q.w}};
        float sum[BLOCKS][4] = {};
        D9_UNROLL(1)
        for (int part = PARTS - 1; part >= 0; part--) { /* the smallest first */
            D9_UNROLL(BLOCKS)
            for (int j = 0; j < BLOCKS; j++) {
                const uint4 b = weights[part * D9_BLOCK + j * D9_WARP + lane];
                const uint32_t right[2][2] = {{b.x, b.y}, {b.z, b.w}};
                d9_mma<S>(left[0], right[0], sum[j]);
                d9_mma<S>(left[1], right[1], sum[j]);
            }
        }
        D9_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const int pixel = first + g + i / 2 * 8, half = i % 2;
            const int64_t c = static_cast<int64_t>(chunk) * D9_MOMENTS_CHUNK + half * 32 + t * 8;
            d9_vector<8> v;
            for (int o = 0; o < 8; o++) v.v[o] = sum[half * 4 + o / 2][i / 2 * 2 + o % 2] * inverse;
            d9_act_run(own, S, &v);
            if (pixel < end && c < s.outputs)
                d9_store_run<8, S>(y, (static_cast<int64_t>(image) * pixels + pixel) * s.outputs + c, 8, v);
        }
    }
}

int d9_moments_apply_half(d9_cuda_stream stream, const d9_cuda_moments &s, int64_t groups, d9_kernel_in x,
                          const float *terms, d9_kernel_act act, d9_kernel_out y) {
    const unsigned spans = static_cast<unsigned>(d9_parts_of(s.out_height * s.out_width, SPAN));
    const dim3 grid(static_cast<unsigned>(s.images) * spans, static_cast<unsigned>(d9_moments_chunks(s)));
    const unsigned each = static_cast<unsigned>(groups);
    return x.store == D9_KERNEL_F16 ? D9_LAUNCH(moments_apply_half_kernel<D9_KERNEL_F16>, grid, D9_BLOCK, stream, s,
                                                spans, each, x, terms, act, y)
                                    : D9_LAUNCH(moments_apply_half_kernel<D9_KERNEL_BF16>, grid, D9_BLOCK, stream, s,
                                                spans, each, x, terms, act, y);
}

/* ---- backward ---- */

/* Loads one row of the patches of four consecutive output pixels, the first at (line, column). is_ones: the last row,
 * which is 1. Pixels past the end of a run need no zeros, because their gradients are 0. */
template <int S>
D9_DEVICE uint2 load_patches(const d9_cuda_moments &s, const uint16_t *image, const patch_row &of, bool is_ones,
                             int column, int line) {
    const int width = static_cast<int>(s.width), height = static_cast<int>(s.height);
    const int out_width = static_cast<int>(s.out_width), inputs = static_cast<int>(s.inputs);
    uint32_t v[4];
    D9_UNROLL(4)
    for (int q = 0; q < 4; q++) {
        const int y = line * s.stride - s.pad, x = column * s.stride - s.pad;
        const bool inside = static_cast<unsigned>(y + of.line) < static_cast<unsigned>(height) &&
                            static_cast<unsigned>(x + of.column) < static_cast<unsigned>(width);
        v[q] = is_ones ? bits_of_one(S) : 0;
        if (inside) v[q] = image[(y * width + x) * inputs + of.offset];
        if (++column == out_width) column = 0, line++;
    }
    return make_uint2(v[0] | v[1] << 16, v[2] | v[3] << 16);
}

template <int S> D9_DEVICE d9_vector<4> open_four(uint2 raw) {
    d9_vector<4> t;
    d9_unpack(S, raw.x, &t.v[0], &t.v[1]);
    d9_unpack(S, raw.y, &t.v[2], &t.v[3]);
    return t;
}

/* Gradients with respect to the activation's input, of four pixels and four outputs, two pixels to a word: words 2j and
 * 2j + 1 hold output j at pixels 0, 1 and 2, 3. */
template <int S>
D9_DEVICE void open_slopes(const d9_kernel_act act, const uint2 dy[4], const uint2 y[4], uint32_t words[8]) {
    D9_UNROLL(2)
    for (int pair = 0; pair < 2; pair++) {
        d9_vector<4> t[2];
        D9_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            t[i] = open_four<S>(dy[2 * pair + i]);
            /* derivatives from y have the same formulas for every storage type */
            d9_slope_run(act, D9_KERNEL_F32, open_four<S>(y[2 * pair + i]), &t[i]);
        }
        for (int j = 0; j < 4; j++) words[2 * j + pair] = d9_pack(S, t[0].v[j], t[1].v[j]);
    }
}

/* Stores a warp's sums: that of row `row` and of output o of the warp's half in to[row * STRIDE + o]. Lane (g, t) has
 * outputs 8t to 8t + 7 of rows g, g + 8, g + 16 and g + 24. */
D9_DEVICE void store_sums(const float sum[2][4][4], int g, int t, float *to) {
    D9_UNROLL(4)
    for (int r = 0; r < 4; r++) {
        const int row = g + 8 * r;
        if (row >= D9_MOMENTS_ROWS) continue;
        for (int high = 0; high < 2; high++) {
            const int k = r % 2 * 2 + high;
            *reinterpret_cast<float4 *>(to + row * STRIDE + 8 * t + 4 * high) =
                make_float4(sum[r / 2][0][k], sum[r / 2][1][k], sum[r / 2][2][k], sum[r / 2][3][k]);
        }
    }
}

/* One block for a slice of a group's runs, each of up to RUN pixels of an image, and a chunk of outputs. Writes parts
 * (G, slices, chunks, CHUNK, ROWS). */
template <int S>
__global__ void __launch_bounds__(D9_BLOCK, 3)
    moments_backward_half_kernel(d9_cuda_moments s, unsigned slices, d9_kernel_in x, d9_moments_gradient b,
                                 double *parts) {
    D9_SHARED(float, shared, D9_MOMENTS_ROWS *STRIDE);
    D9_SHARED(double, totals, D9_MOMENTS_TERMS);
    D9_SHARED(patch_row, rows, D9_WARP);
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP, warp = static_cast<int>(threadIdx.x) / D9_WARP;
    const int g = lane / 4, t = lane % 4, line = warp / 2, first_output = warp % 2 * HALF;
    const int groups = static_cast<int>(s.groups), images = static_cast<int>(s.images);
    const int out_width = static_cast<int>(s.out_width), pixels = static_cast<int>(s.out_height) * out_width;
    const int outputs = static_cast<int>(s.outputs);
    const int c = static_cast<int>(blockIdx.y) * D9_MOMENTS_CHUNK + first_output + g * 4;
    double *total = totals + threadIdx.x;
    for (int k = 0; k < SUMS; k++) total[k * D9_BLOCK] = 0;
    if (warp == 0) rows[lane] = patch_row_of(s, lane);
    D9_BARRIER();
    const int runs = (pixels + RUN - 1) / RUN, group = static_cast<int>(blockIdx.x / slices);
    for (int item = static_cast<int>(blockIdx.x % slices); item < images / groups * runs;
         item += static_cast<int>(slices)) {
        const int image = group + groups * (item / runs), run = item % runs * RUN;
        const uint16_t *of =
            static_cast<const uint16_t *>(x.data) + static_cast<int64_t>(image) * s.height * s.width * s.inputs;
        const int end = static_cast<int>(D9_END(run + RUN < pixels ? run + RUN : pixels));
        float sum[2][4][4] = {};
        D9_UNROLL(1)
        for (int from = run + line * STEP; from < end; from += LINES * STEP) {
            const int pixel = from + 4 * t;
            const int64_t at = (static_cast<int64_t>(image) * pixels + pixel) * outputs + c;
            const uint16_t *from_dy = static_cast<const uint16_t *>(b.dy.data) + at,
                           *from_y = static_cast<const uint16_t *>(b.y.data) + at;
            uint2 dy[4], y[4];
            uint32_t slope[8];
            D9_UNROLL(4)
            for (int q = 0; q < 4; q++) {
                const bool there = c < outputs && pixel + q < end;
                dy[q] = there ? *reinterpret_cast<const uint2 *>(from_dy + q * outputs) : make_uint2(0, 0);
                y[q] = there ? *reinterpret_cast<const uint2 *>(from_y + q * outputs) : make_uint2(0, 0);
            }
            open_slopes<S>(b.act, dy, y, slope);
            const int row = pixel / out_width, column = pixel - row * out_width;
            D9_UNROLL(2)
            for (int half = 0; half < 2; half++) {
                const int low = g + 16 * half, high = low + 8;
                const uint2 p = load_patches<S>(s, of, rows[low], false, column, row),
                            q = load_patches<S>(s, of, rows[high], high == D9_MOMENTS_ROWS - 1, column, row);
                const uint32_t left[4] = {p.x, q.x, p.y, q.y};
                D9_UNROLL(4)
                for (int j = 0; j < 4; j++) d9_mma<S>(left, slope + 2 * j, sum[half][j]);
            }
        }
        for (int turn = 0; turn < LINES; turn++) {
            if (line == turn) store_sums(sum, g, t, shared + first_output);
            D9_BARRIER();
            for (int k = 0; k < SUMS; k++) {
                const int term = k * D9_BLOCK + static_cast<int>(threadIdx.x);
                total[k * D9_BLOCK] +=
                    static_cast<double>(shared[term / D9_MOMENTS_CHUNK * STRIDE + term % D9_MOMENTS_CHUNK]);
            }
            D9_BARRIER();
        }
    }
    double *to = parts + (static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y) * D9_MOMENTS_TERMS;
    for (int k = 0; k < SUMS; k++) {
        const int term = k * D9_BLOCK + static_cast<int>(threadIdx.x);
        to[term % D9_MOMENTS_CHUNK * D9_MOMENTS_ROWS + term / D9_MOMENTS_CHUNK] = total[k * D9_BLOCK];
    }
}

int d9_moments_backward_half(d9_cuda_stream stream, const d9_cuda_moments &s, d9_kernel_in x,
                             const d9_moments_gradient &b, double *parts) {
    const int64_t slices = d9_moments_slices(s, D9_MOMENTS_BACKWARD_BLOCKS);
    const dim3 grid(static_cast<unsigned>(slices * s.groups), static_cast<unsigned>(d9_moments_chunks(s)));
    const unsigned each = static_cast<unsigned>(slices);
    return x.store == D9_KERNEL_F16
               ? D9_LAUNCH(moments_backward_half_kernel<D9_KERNEL_F16>, grid, D9_BLOCK, stream, s, each, x, b, parts)
               : D9_LAUNCH(moments_backward_half_kernel<D9_KERNEL_BF16>, grid, D9_BLOCK, stream, s, each, x, b, parts);
}
