/* D9_FN, the qualifier of every formula: an inline function for the C compiler, a host and device function for nvcc. */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define D9_FN static __host__ __device__ __forceinline__
#else
#define D9_FN static inline
#endif
