/* Element-wise kernels: cast, add, scale, copy, activations and their derivatives. Most are limited by memory
 * bandwidth, so a thread loads and stores up to 16 bytes at a time if the arrays are aligned. */
#include "kernels/cuda/vector.h"

template <int V>
__global__ void __launch_bounds__(D9_BLOCK) cast_kernel(d9_kernel_in x, int64_t count, d9_kernel_out y) {
    D9_FOR_RUNS(count) d9_store_run<V, D9_ANY>(y, at, n, d9_load<V, D9_ANY>(x, at, n));
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK) add_kernel(d9_kernel_in a, d9_kernel_in b, int64_t count, d9_kernel_out y) {
    D9_FOR_RUNS(count) {
        d9_vector<V> t = d9_load<V, D9_ANY>(a, at, n);
        const d9_vector<V> u = d9_load<V, D9_ANY>(b, at, n);
        for (int i = 0; i < V; i++) t.v[i] += u.v[i];
        d9_store_run<V, D9_ANY>(y, at, n, t);
    }
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK) scale_kernel(d9_kernel_in x, float factor, int64_t count, d9_kernel_out y) {
    D9_FOR_RUNS(count) {
        d9_vector<V> t = d9_load<V, D9_ANY>(x, at, n);
        for (int i = 0; i < V; i++) t.v[i] *= factor;
        d9_store_run<V, D9_ANY>(y, at, n, t);
    }
}

__global__ void __launch_bounds__(D9_BLOCK) copy_words_kernel(const uint4 *x, int64_t count, uint4 *y) {
    for (int64_t i = d9_thread(); i < D9_END(count); i += d9_threads()) y[i] = x[i];
}

__global__ void __launch_bounds__(D9_BLOCK) copy_bytes_kernel(const uint8_t *x, int64_t count, uint8_t *y) {
    for (int64_t i = d9_thread(); i < D9_END(count); i += d9_threads()) y[i] = x[i];
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    act_kernel(d9_kernel_in x, d9_kernel_act act, int64_t count, d9_kernel_out y) {
    const d9_act own = d9_act_of(act);
    D9_FOR_RUNS(count) {
        d9_vector<V> t = d9_load<V, D9_ANY>(x, at, n);
        d9_act_run(own, y.store, &t);
        d9_store_run<V, D9_ANY>(y, at, n, t);
    }
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    act_backward_kernel(d9_kernel_in dy, d9_kernel_in reference, d9_kernel_act act, int64_t count, d9_kernel_out dx) {
    D9_FOR_RUNS(count) {
        d9_vector<V> t = d9_load<V, D9_ANY>(dy, at, n);
        d9_slope_run(act, dx.store, d9_load<V, D9_ANY>(reference, at, n), &t);
        d9_store_run<V, D9_ANY>(dx, at, n, t);
    }
}

/* ---- launchers ---- */

static bool is_half(d9_kernel_in x) { return x.store != D9_KERNEL_F32; }

int d9_cuda_cast(d9_cuda_stream stream, d9_kernel_in x, int64_t count, d9_kernel_out y) {
    return D9_LAUNCH_FLOATS(cast_kernel, d9_aligned(x.data) && d9_aligned(y.data), count, stream, x, count, y);
}

int d9_cuda_add(d9_cuda_stream stream, d9_kernel_in a, d9_kernel_in b, int64_t count, d9_kernel_out y) {
    const bool aligned = d9_aligned(a.data) && d9_aligned(b.data) && d9_aligned(y.data);
    return D9_LAUNCH_RUNS(add_kernel, aligned, is_half(a) && is_half(b) && y.store != D9_KERNEL_F32, count, stream, a,
                          b, count, y);
}

int d9_cuda_scale(d9_cuda_stream stream, d9_kernel_in x, float factor, int64_t count, d9_kernel_out y) {
    const bool aligned = d9_aligned(x.data) && d9_aligned(y.data);
    return D9_LAUNCH_RUNS(scale_kernel, aligned, is_half(x) && y.store != D9_KERNEL_F32, count, stream, x, factor,
                          count, y);
}

int d9_cuda_copy(d9_cuda_stream stream, const void *x, int64_t bytes, void *y) {
    const int64_t words = d9_aligned(x) && d9_aligned(y) ? bytes / 16 : 0, rest = bytes - words * 16;
    const uint8_t *from = static_cast<const uint8_t *>(x) + words * 16;
    uint8_t *to = static_cast<uint8_t *>(y) + words * 16;
    if (words > 0)
        D9_CUDA_TRY(D9_LAUNCH(copy_words_kernel, d9_blocks(words), D9_BLOCK, stream, static_cast<const uint4 *>(x),
                              words, static_cast<uint4 *>(y)));
    return rest > 0 ? D9_LAUNCH(copy_bytes_kernel, d9_blocks(rest), D9_BLOCK, stream, from, rest, to) : 0;
}

int d9_cuda_act_forward(d9_cuda_stream stream, d9_kernel_in x, d9_kernel_act act, int64_t count, d9_kernel_out y) {
    const bool aligned = d9_aligned(x.data) && d9_aligned(y.data);
    return D9_LAUNCH_RUNS(act_kernel, aligned, is_half(x) && y.store != D9_KERNEL_F32, count, stream, x, act, count, y);
}

int d9_cuda_act_backward(d9_cuda_stream stream, d9_kernel_in dy, d9_kernel_in reference, d9_kernel_act act,
                         int64_t count, d9_kernel_out dx) {
    const bool aligned = d9_aligned(dy.data) && d9_aligned(reference.data) && d9_aligned(dx.data);
    return D9_LAUNCH_RUNS(act_backward_kernel, aligned, is_half(dy) && is_half(reference) && dx.store != D9_KERNEL_F32,
                          count, stream, dy, reference, act, count, dx);
}
