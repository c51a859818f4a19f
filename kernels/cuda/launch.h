/* CUDA's syntax for launches and shared memory is used only here and in cluster.h, so that the kernel sources also
 * compile as C++ against the execution model of tests/cuda_model, which runs them on the CPU.
 *
 *   D9_SHARED(double, part, 256);                                        inside a kernel: a shared array, aligned to
 *                                                                        16 bytes
 *   D9_LAUNCH((add<8>), grid, D9_BLOCK, stream, a, b, count, y)          an expression: the launch's cudaError_t
 *
 * Clusters of blocks are in cluster.h.
 *
 * Four places where kernels are most easily wrong are macros: the barrier, the fence, the width of a warp's reduction
 * and the end of an array. Tests build the kernels with a mistake in one of them (not the fence) and check that the
 * comparison with the CPU fails. */
#pragma once

#include "kernels/cuda/kernels.h"
#include "kernels/integers.h"

#ifdef D9_CUDA_MODEL
#include "cuda_model.h"
#define D9_UNROLL(times)
#else
#include <cuda_runtime.h>

#define D9_PRAGMA(text)  _Pragma(#text)
#define D9_UNROLL(times) D9_PRAGMA(unroll times)

#define D9_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define D9_LAUNCH(kernel, grid, block, stream, ...)                                                                    \
    (kernel<<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(__VA_ARGS__), static_cast<int>(cudaGetLastError()))
#endif

#ifndef D9_BARRIER
#define D9_BARRIER() __syncthreads()
#endif
#ifndef D9_FENCE
#define D9_FENCE() __threadfence()
#endif
#ifndef D9_REDUCED_LANES
#define D9_REDUCED_LANES 32
#endif
#ifndef D9_END
#define D9_END(count) (count)
#endif

#define D9_DEVICE static __device__ __forceinline__

enum { D9_BLOCK = 256, D9_WARP = 32 }; /* threads */

/* Returns the error of `call` from the enclosing function if it is not 0. */
#define D9_CUDA_TRY(call)                                                                                              \
    do {                                                                                                               \
        const int d9_cuda_error = (call);                                                                              \
        if (d9_cuda_error) return d9_cuda_error;                                                                       \
    } while (0)

/* Number of blocks for `threads` threads, at most 2^16: kernels use grid-stride loops for more. */
static inline unsigned d9_blocks(int64_t threads) {
    const int64_t blocks = d9_parts_of(threads, D9_BLOCK), most = 1 << 16;
    return static_cast<unsigned>(blocks < most ? blocks : most);
}

/* Index of this thread along x, and the number of threads along x: of the whole grid, if it is one-dimensional. */
D9_DEVICE int64_t d9_thread() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
D9_DEVICE int64_t d9_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

/* The coefficient's value in step *step; step NULL: in step 0. */
D9_DEVICE float d9_coefficient(d9_cuda_coefficient coefficient, const int64_t *step) {
    return coefficient.table ? coefficient.table[step ? *step : 0] : coefficient.constant;
}
