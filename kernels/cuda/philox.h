/* In GPU code all draws use the words of cuRAND's stateless generator. The CPU and the simulated GPU use our own one
 * (kernels/formulas/philox.h); unit.cuda_curand compares both, and unit.formulas has the published known answers. */
#pragma once

#define QUALIFIERS static __host__ __device__ __forceinline__ /* as D9_FN: formulas are compiled for both */
#include <curand_philox4x32_x.h>
#undef QUALIFIERS

#define D9_PHILOX_WORDS(key, c0, c1, c2, c3)                                                                           \
    curand_Philox4x32_10(make_uint4(c0, c1, c2, c3),                                                                   \
                         make_uint2(static_cast<uint32_t>(key), static_cast<uint32_t>((key) >> 32)))
