/* Common parts of the kernels of a first layer in closed form (moments.cu, moments_backward.cu, moments_half.cu):
 * patches in shared memory, the sums of their products, and a warp's algebra on a row of weights.
 *
 * A patch is a column of ROWS numbers: the convolution's inputs, zeros, and 1 in the last row, so that the sums of
 * products include plain sums. The rows form 7 sets of 4 rows: row i is number i / 7 of set i % 7. A lane sums the
 * 4 x 4 products of a pair of sets; by symmetry 28 of the 49 pairs are enough. Lanes read neighbouring rows.
 *
 * A warp sums at most 64 pixels (on tensor cores 128) in f32. These sums are added in double, in fixed order. */
#pragma once

#include "kernels/cuda/norm.h"
#include "kernels/cuda/reduce.h"

enum {
    D9_MOMENTS_ROWS = 28,
    D9_MOMENTS_SETS = 7,
    D9_MOMENTS_PAIRS = D9_MOMENTS_SETS * (D9_MOMENTS_SETS + 1) / 2,
    D9_MOMENTS_SUMS = D9_MOMENTS_PAIRS * 16,               /* sums of products of rows in a group */
    D9_MOMENTS_CHUNK = 64,                                 /* outputs of a block */
    D9_MOMENTS_TERMS = D9_MOMENTS_ROWS * D9_MOMENTS_CHUNK, /* numbers of a chunk: one for each row and output */
    /* blocks that sum: as many as run at a time on 128 multiprocessors with 4 (forward) or 3 (backward) blocks each */
    D9_MOMENTS_BLOCKS = 512,
    D9_MOMENTS_BACKWARD_BLOCKS = 384
};

/* Number of blocks among which a group's images are divided, if `blocks` blocks are wanted for all groups. */
static inline int64_t d9_moments_slices(const d9_cuda_moments &s, int blocks) {
    const int64_t members = s.images / s.groups, wanted = d9_parts_of(blocks, s.groups);
    return wanted < members ? wanted : members;
}

static inline int64_t d9_moments_chunks(const d9_cuda_moments &s) { return d9_parts_of(s.outputs, D9_MOMENTS_CHUNK); }

/* Scratch: double partial sums, (G, slices, SUMS) forward or (G, slices, chunks, TERMS) backward; double (G, chunks,
 * TERMS) gradient sums; float (G, chunks, TERMS) terms. */
struct d9_moments_scratch {
    double *parts, *sums;
    float *terms;
    int64_t bytes;
};
static inline d9_moments_scratch d9_moments_lay_out(const d9_cuda_moments &s, void *scratch) {
    static_assert(D9_MOMENTS_TERMS > 2 * D9_MOMENTS_SUMS && D9_MOMENTS_BLOCKS < 2 * D9_MOMENTS_BACKWARD_BLOCKS,
                  "the parts of a forward pass fit into those of a backward pass");
    const int64_t terms = d9_moments_chunks(s) * D9_MOMENTS_TERMS;
    const int64_t parts = s.groups * d9_moments_slices(s, D9_MOMENTS_BACKWARD_BLOCKS) * terms, sums = s.groups * terms;
    d9_moments_scratch d;
    d.parts = static_cast<double *>(scratch);
    d.sums = scratch ? d.parts + parts : nullptr;
    d.terms = scratch ? reinterpret_cast<float *>(d.sums + sums) : nullptr;
    d.bytes = (parts + sums) * 8 + sums * 4;
    return d;
}

/* ---- in a kernel: patches ---- */

/* Loads the patches of output pixels [from, from + T) as columns of the tile (ROWS, T + 4); zeros from `end` on. */
template <int T, int S>
D9_DEVICE void d9_moments_patches(const d9_cuda_moments &s, d9_kernel_in x, int64_t image, int from, int end,
                                  float *tile) {
    enum { STRIDE = T + 4, AT_ONCE = 9 }; /* elements loaded before the first is stored: 3 pixels of 3 channels */
    const int inputs = static_cast<int>(s.inputs), width = static_cast<int>(s.width), run = s.kernel * inputs;
    const int out_width = static_cast<int>(s.out_width);
    for (int item = static_cast<int>(threadIdx.x); item < T * (s.kernel + 1); item += D9_BLOCK) {
        const int column = item % T, line = item / T, pixel = from + column;
        float *to = tile + line * run * STRIDE + column;
        if (line == s.kernel) { /* the rows after the inputs: zeros, then the 1 */
            for (int row = line * run; row < D9_MOMENTS_ROWS - 1; row++, to += STRIDE) *to = 0;
            tile[(D9_MOMENTS_ROWS - 1) * STRIDE + column] = pixel < end ? 1.0f : 0.0f;
            continue;
        }
        const int row = pixel / out_width, y = row * s.stride - s.pad + line;
        const int left = (pixel - row * out_width) * s.stride - s.pad;
        const bool there = pixel < end && y >= 0 && y < s.height;
        const int64_t at = ((image * s.height + y) * width + left) * inputs;
        const int begin = left < 0 ? -left * inputs : 0, stop = (width - left) * inputs;
        for (int e = 0; e < run; e += AT_ONCE) {
            float v[AT_ONCE];
            for (int i = 0; i < AT_ONCE; i++)
                v[i] = there && e + i >= begin && e + i < stop && e + i < run ? d9_load_one<S>(x, at + e + i) : 0.0f;
            for (int i = 0; i < AT_ONCE; i++)
                if (e + i < run) to[(e + i) * STRIDE] = v[i];
        }
    }
}

/* Loads four neighbouring columns of a row. */
D9_DEVICE float4 d9_moments_load_four(const float *row) { return *reinterpret_cast<const float4 *>(row); }

/* ---- in a kernel: sums of products ---- */

struct d9_moments_pair {
    int first, second; /* indices of the sets */
};
D9_DEVICE d9_moments_pair d9_moments_pair_of(int number) {
    d9_moments_pair pair = {0, number};
    for (; pair.second >= D9_MOMENTS_SETS - pair.first; pair.first++) pair.second -= D9_MOMENTS_SETS - pair.first;
    pair.second += pair.first;
    return pair;
}

/* The sum of p_i p_j over the patches p at all output pixels of a group's images; p_i is row i of a patch. `sums`: the
 * group's D9_MOMENTS_SUMS, 4 x 4 for each pair of sets. */
D9_DEVICE double d9_moments_at(const double *sums, int i, int j) {
    int first = i % D9_MOMENTS_SETS, second = j % D9_MOMENTS_SETS, a = i / D9_MOMENTS_SETS, b = j / D9_MOMENTS_SETS;
    if (first > second) {
        const int square = first, row = a;
        first = second, second = square, a = b, b = row;
    }
    const int pair = first * D9_MOMENTS_SETS - first * (first - 1) / 2 + second - first;
    return sums[pair * 16 + a * 4 + b];
}

/* ---- in a kernel: a row of weights, a number for each lane of a warp ---- */

struct d9_moments_map { /* the filters of an output as a linear map of a patch */
    d9_cuda_moments_weights weights;
    int patch, between; /* numbers in a patch; filters of the first convolution of a pair, 0: one convolution */
    d9_kernel_store store;
};
static inline d9_moments_map d9_moments_map_of(const d9_cuda_moments &s, const d9_cuda_moments_weights &weights,
                                               d9_kernel_store store) {
    const d9_moments_map map = {weights, static_cast<int>(s.kernel * s.kernel * s.inputs), static_cast<int>(s.between),
                                store};
    return map;
}

/* This lane's weight of output o; 0 in lanes past the end of the patch. */
D9_DEVICE double d9_moments_weight(const d9_moments_map &map, int64_t o, int lane) {
    if (lane >= map.patch) return 0;
    if (!map.between) return static_cast<double>(d9_rounded(map.store, map.weights.w[o * map.patch + lane]));
    double sum = 0;
    for (int m = 0; m < map.between; m++)
        sum += static_cast<double>(d9_rounded(map.store, map.weights.w[o * map.between + m])) *
               static_cast<double>(d9_rounded(map.store, map.weights.first[m * map.patch + lane]));
    return sum;
}

/* Sum of p_lane (w p) over the patches p of a group, from the group's sums; 0 in lanes past the end of the patch. */
D9_DEVICE double d9_moments_product(const double *sums, int patch, const double *w, int lane) {
    double product = 0;
    for (int j = 0; j < patch && lane < patch; j++) product += w[j] * d9_moments_at(sums, lane, j);
    return product;
}

/* Stores each lane's number in `row`, which belongs to the warp, so that all its lanes can read it. */
D9_DEVICE void d9_moments_broadcast(double *row, int lane, double number) {
    __syncwarp();
    row[lane] = number;
    __syncwarp();
}

struct d9_moments_gradient { /* gradient of y, and y, from which the activation's derivative is computed */
    d9_kernel_in dy, y;
    d9_kernel_act act;
};

/* Index of the term of a patch's row for output o of a chunk. A thread reads eight neighbouring outputs, 16 bytes at a
 * time, so the lower halves of all groups of eight come first, then the upper halves. */
D9_DEVICE int d9_moments_term_at(int row, int o) { return row * D9_MOMENTS_CHUNK + o % 8 / 4 * 32 + o / 8 * 4 + o % 4; }

/* Computes y from x and the terms, in training and evaluation (moments_half.cu). x and y have one half-precision type,
 * the number of outputs is a multiple of eight, and y is aligned to 16 bytes. Image i uses the terms of group
 * i % groups. */
int d9_moments_apply_half(d9_cuda_stream stream, const d9_cuda_moments &s, int64_t groups, d9_kernel_in x,
                          const float *terms, d9_kernel_act act, d9_kernel_out y);

/* Writes partial sums of the products of patches and gradients before the activation to `parts` (G, slices, chunks,
 * TERMS) (moments_half.cu). dy and y have the half-precision type of x and are aligned to 16 bytes, and the number of
 * outputs is a multiple of eight. */
int d9_moments_backward_half(d9_cuda_stream stream, const d9_cuda_moments &s, d9_kernel_in x,
                             const d9_moments_gradient &b, double *parts);

/* Sums (G, slices, count) parts over the slices, to (G, count). */
int d9_moments_add_slices(d9_cuda_stream stream, const double *parts, int64_t groups, int64_t slices, int64_t count,
                          double *sums);
