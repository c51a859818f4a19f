/* Deterministic sums over a warp and over a block, in a fixed order of lanes and warps; the maximum over a warp. */
#pragma once

#include "kernels/cuda/launch.h"

/* Butterfly sum: every lane gets the same bits. All 32 lanes must call it. */
D9_DEVICE double d9_warp_sum(double x) {
    for (int offset = D9_REDUCED_LANES / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    return x;
}

/* Every lane gets the largest x of all 32 lanes, which must call it. x must not be NaN. */
D9_DEVICE double d9_warp_largest(double x) {
    for (int offset = D9_REDUCED_LANES / 2; offset > 0; offset /= 2) {
        const double other = __shfl_xor_sync(0xffffffffu, x, offset);
        x = other > x ? other : x;
    }
    return x;
}

/* Sum over a block of D9_BLOCK threads, all of which must call it. Only thread 0 gets the sum. There is no barrier at
 * the end. */
D9_DEVICE double d9_block_sum(double x) {
    D9_SHARED(double, part, D9_BLOCK / D9_WARP);
    const double sum = d9_warp_sum(x);
    if (threadIdx.x % D9_WARP == 0) part[threadIdx.x / D9_WARP] = sum;
    D9_BARRIER();
    double total = 0;
    if (threadIdx.x == 0)
        for (int i = 0; i < D9_BLOCK / D9_WARP; i++) total += part[i];
    return total;
}
