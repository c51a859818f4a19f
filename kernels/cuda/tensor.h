/* A warp's matrix product on tensor cores: d += a b with a (16, 16) and b (16, 8) of half precision, d (16, 8) of f32.
 *
 * Lane l has, with g = l / 4 and t = l % 4 (PTX ISA, mma.m16n8k16; a word of a or b holds two numbers):
 *   a: rows g and g + 8, columns 2t and 2t + 1; then rows g and g + 8, columns 2t + 8 and 2t + 9
 *   b: rows 2t and 2t + 1 of column g; then rows 2t + 8 and 2t + 9
 *   d: row g, columns 2t and 2t + 1; then row g + 8
 * Products are exact. A GPU adds them in a fixed order; a GPU of another model may add in another order, or truncate a
 * sum instead of rounding it. */
#pragma once

#include "kernels/cuda/vector.h"

#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 800
template <int S> D9_DEVICE void d9_mma(const uint32_t a[4], const uint32_t b[2], float d[4]) {
    if (S == D9_KERNEL_BF16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else /* compute capability 7.5: 8 columns of a at a time, and no bf16, which is never used there (docs/gpu.md) */
template <int S> D9_DEVICE void d9_mma(const uint32_t a[4], const uint32_t b[2], float d[4]) {
    for (int half = 0; half < 2 && S != D9_KERNEL_BF16; half++)
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
}
#endif
#else
/* On the simulated GPU, lanes exchange their numbers through shared memory. __syncwarp orders these accesses, so the
 * race check does not watch them: that would take a fifth of the time of a training run there. */
template <int S> D9_UNWATCHED D9_DEVICE void d9_mma(const uint32_t a[4], const uint32_t b[2], float d[4]) {
    D9_SHARED(float, numbers, D9_BLOCK * 12);
    const int lane = static_cast<int>(threadIdx.x) % D9_WARP, g = lane / 4, t = lane % 4;
    float *warp = numbers + (threadIdx.x - static_cast<unsigned>(lane)) * 12, *own = warp + lane * 12;
    for (int i = 0; i < 4; i++) d9_unpack(S, a[i], own + 2 * i, own + 2 * i + 1);
    for (int i = 0; i < 2; i++) d9_unpack(S, b[i], own + 8 + 2 * i, own + 9 + 2 * i);
    __syncwarp();
    for (int k = 0; k < 16; k++) { /* column k of a, row k of b: lanes k % 8 / 2, word k / 8, number k % 2 */
        const float *left = warp + (g * 4 + k % 8 / 2) * 12 + k / 8 * 4 + k % 2;
        for (int column = 0; column < 2; column++) {
            const float right = warp[((2 * t + column) * 4 + k % 8 / 2) * 12 + 8 + k / 8 * 2 + k % 2];
            d[column] += left[0] * right;
            d[2 + column] += left[2] * right;
        }
    }
    __syncwarp();
}
#endif
