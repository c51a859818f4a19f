/* Muon's update of weight matrices (kernels/formulas/orthogonal.h) except for its matrix products: momentum and sums of
 * squares, the factors that follow from them, the initial X, and the step. Block (i, f) works on matrix f. Nothing here
 * waits for the host: learning rates, the step number and the steps that normalise weights are in device memory. */
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"

#include "kernels/formulas/orthogonal.h"
#undef D9_REAL

constexpr unsigned SUM_BLOCKS = 512; /* most blocks that sum the squares of a matrix */

struct terms_of_step {
    float scale, keep, rate; /* factors of H, w and X */
};

/* The pointer of this block's matrix, selected by comparisons: with a variable index, the compiler would copy the
 * kernel's arguments to local memory. */
static_assert(D9_CUDA_MOST_MATRICES == 4, "of_matrix compares with each");
template <class T> D9_DEVICE T *of_matrix(T *first, T *second, T *third, T *fourth) {
    T *const low = blockIdx.y == 0 ? first : second, *const high = blockIdx.y == 2 ? third : fourth;
    return blockIdx.y < 2 ? low : high;
}
#define D9_OF_MATRIX(array) of_matrix((array)[0], (array)[1], (array)[2], (array)[3])

__global__ void __launch_bounds__(D9_BLOCK)
    orthogonal_start_kernel(d9_cuda_orthogonal o, d9_cuda_orthogonal_matrices matrices, int64_t stride, float *wide,
                            double *sums) {
    const float inverse = o.guard ? o.guard->inverse : 1.0f;
    const float *g = D9_OF_MATRIX(matrices.g), *w = D9_OF_MATRIX(matrices.w);
    float *v = D9_OF_MATRIX(matrices.velocity), *h_out = wide + blockIdx.y * stride;
    double h_sum = 0, w_sum = 0;
    if (o.guard && o.guard->bad_parameter != D9_CUDA_FINE) return;
    for (int64_t i = d9_thread(); i < D9_END(o.rows * o.columns); i += d9_threads()) {
        const float h = d9_orthogonal_momentum_float(inverse * g[i], o.momentum, &v[i]);
        h_out[i] = h;
        h_sum += static_cast<double>(h) * static_cast<double>(h);
        w_sum += static_cast<double>(w[i]) * static_cast<double>(w[i]);
    }
    h_sum = d9_block_sum(h_sum);
    D9_BARRIER();
    w_sum = d9_block_sum(w_sum);
    if (threadIdx.x > 0) return;
    sums += 2 * SUM_BLOCKS * blockIdx.y;
    sums[blockIdx.x] = h_sum;
    sums[SUM_BLOCKS + blockIdx.x] = w_sum;
}

/* One block a matrix adds the sums of at most SUM_BLOCKS blocks. */
__global__ void __launch_bounds__(D9_BLOCK)
    orthogonal_terms_kernel(d9_cuda_orthogonal o, const double *sums, int blocks, terms_of_step *terms) {
    double h_sum = 0, w_sum = 0;
    sums += 2 * SUM_BLOCKS * blockIdx.y;
    for (int i = static_cast<int>(threadIdx.x); i < blocks; i += D9_BLOCK) {
        h_sum += sums[i];
        w_sum += sums[SUM_BLOCKS + static_cast<unsigned>(i)];
    }
    h_sum = d9_block_sum(h_sum);
    D9_BARRIER();
    w_sum = d9_block_sum(w_sum);
    if (threadIdx.x > 0) return;
    const bool renormalise = d9_coefficient(o.renormalise, o.step) > 0;
    terms += blockIdx.y;
    terms->rate = d9_coefficient(o.rate, o.step);
    terms->scale = static_cast<float>(d9_orthogonal_scale(sqrt(h_sum)));
    terms->keep = static_cast<float>(d9_orthogonal_weight_factor(
        static_cast<double>(o.rows), renormalise ? sqrt(w_sum) : 0, static_cast<double>(terms->rate),
        static_cast<double>(d9_coefficient(o.decay, o.step))));
}

__global__ void __launch_bounds__(D9_BLOCK) orthogonal_scale_kernel(const float *wide, int64_t count, int64_t stride,
                                                                    const terms_of_step *terms, d9_kernel_out x) {
    const float scale = terms[blockIdx.y].scale;
    for (int64_t i = d9_thread(); i < D9_END(count); i += d9_threads())
        d9_store_one<D9_ANY>(x, blockIdx.y * stride + i, scale * wide[blockIdx.y * stride + i]);
}

__global__ void __launch_bounds__(D9_BLOCK)
    orthogonal_apply_kernel(d9_cuda_orthogonal o, d9_cuda_orthogonal_matrices matrices, int64_t stride, d9_kernel_in x,
                            const terms_of_step *terms) {
    float *w = D9_OF_MATRIX(matrices.w);
    if (o.guard && o.guard->bad_parameter != D9_CUDA_FINE) return;
    const float keep = terms[blockIdx.y].keep, rate = terms[blockIdx.y].rate;
    for (int64_t i = d9_thread(); i < D9_END(o.rows * o.columns); i += d9_threads())
        w[i] = d9_orthogonal_apply_float(w[i], keep, rate, d9_load_one<D9_ANY>(x, blockIdx.y * stride + i));
}

/* ---- launchers ---- */

static terms_of_step *terms_in(const d9_cuda_orthogonal_arrays *r) { return static_cast<terms_of_step *>(r->terms); }

d9_cuda_orthogonal_arrays d9_cuda_orthogonal_lay_out(const d9_cuda_orthogonal *o, void *scratch) {
    enum { ALIGNMENT = 256 }; /* in bytes, of every matrix */
    static_assert(D9_CUDA_MOST_MATRICES * sizeof(terms_of_step) <= ALIGNMENT, "the terms fit before the sums");
    const int64_t each = o->store == D9_KERNEL_F32 ? 4 : 2, side = o->rows < o->columns ? o->rows : o->columns;
    const int64_t matrix = d9_parts_of(o->rows * o->columns * each, ALIGNMENT) * ALIGNMENT;
    const int64_t square = d9_parts_of(side * side * each, ALIGNMENT) * ALIGNMENT;
    const int64_t sums = o->matrices * static_cast<int64_t>(2 * SUM_BLOCKS * sizeof(double));
    d9_cuda_orthogonal_arrays r = {};
    void **const arrays[] = {&r.terms, &r.sums, &r.wide, &r.x, &r.next, &r.a, &r.b};
    const int64_t bytes[] = {ALIGNMENT,
                             sums,
                             o->matrices * matrix / each * 4,
                             o->matrices * matrix,
                             o->matrices * matrix,
                             o->matrices * square,
                             o->matrices * square};
    r.matrix_stride = matrix / each;
    r.square_stride = square / each;
    for (int i = 0; i < 7; i++) {
        if (scratch) *arrays[i] = static_cast<uint8_t *>(scratch) + r.bytes;
        r.bytes += bytes[i];
    }
    return r;
}

int d9_cuda_orthogonal_start(d9_cuda_stream stream, const d9_cuda_orthogonal *orthogonal,
                             const d9_cuda_orthogonal_matrices *matrices, const d9_cuda_orthogonal_arrays *arrays) {
    const d9_cuda_orthogonal o = *orthogonal;
    const int64_t count = o.rows * o.columns, stride = arrays->matrix_stride;
    float *wide = static_cast<float *>(arrays->wide);
    double *sums = static_cast<double *>(arrays->sums);
    if (count <= 0) return 0;
    const unsigned many = static_cast<unsigned>(o.matrices), all = d9_blocks(count);
    const unsigned few = all < SUM_BLOCKS ? all : SUM_BLOCKS;
    D9_CUDA_TRY(
        D9_LAUNCH(orthogonal_start_kernel, dim3(few, many), D9_BLOCK, stream, o, *matrices, stride, wide, sums));
    D9_CUDA_TRY(D9_LAUNCH(orthogonal_terms_kernel, dim3(1, many), D9_BLOCK, stream, o, sums, static_cast<int>(few),
                          terms_in(arrays)));
    return D9_LAUNCH(orthogonal_scale_kernel, dim3(all, many), D9_BLOCK, stream, wide, count, stride, terms_in(arrays),
                     d9_kernel_out{arrays->x, o.store});
}

int d9_cuda_orthogonal_apply(d9_cuda_stream stream, const d9_cuda_orthogonal *orthogonal,
                             const d9_cuda_orthogonal_matrices *matrices, const d9_cuda_orthogonal_arrays *arrays) {
    const d9_cuda_orthogonal o = *orthogonal;
    const int64_t count = o.rows * o.columns;
    if (count <= 0) return 0;
    return D9_LAUNCH(orthogonal_apply_kernel, dim3(d9_blocks(count), static_cast<unsigned>(o.matrices)), D9_BLOCK,
                     stream, o, *matrices, arrays->matrix_stride, d9_kernel_in{arrays->x, o.store}, terms_in(arrays));
}
