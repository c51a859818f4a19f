/* Conversion of arrays between bf16 and float, rounded to nearest even. With AVX512_BF16 the processor's instruction
 * rounds. The instruction flushes denormals (below 1.2e-38) to zero, the formula in half.h keeps them; otherwise the
 * two agree. */
#pragma once

#include "kernels/formulas/half.h"

static inline void d9_bf16_widen(const uint16_t *x, int64_t n, float *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = d9_bf16_to_float(x[i]);
}

#ifdef __AVX512BF16__
#include <immintrin.h>

/* Mask of the first n of 16 lanes. */
static inline __mmask16 d9_lanes_mask(int64_t n) { return (__mmask16)((1u << n) - 1); } /* 0 <= n < 16 */

static inline void d9_bf16_narrow(const float *x, int64_t n, uint16_t *y) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(void *)(y + i), (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i)));
    const __mmask16 left = d9_lanes_mask(n - i);
    _mm256_mask_storeu_epi16(y + i, left, (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(left, x + i)));
}

static inline __m512 d9_bf16_round_lanes(__m512 x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x)), 16));
}

static inline void d9_bf16_round(int64_t n, float *x) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(x + i, d9_bf16_round_lanes(_mm512_loadu_ps(x + i)));
    const __mmask16 left = d9_lanes_mask(n - i);
    _mm512_mask_storeu_ps(x + i, left, d9_bf16_round_lanes(_mm512_maskz_loadu_ps(left, x + i)));
}

#else

static inline void d9_bf16_narrow(const float *x, int64_t n, uint16_t *y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = d9_bf16_from_float(x[i]);
}

static inline void d9_bf16_round(int64_t n, float *x) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) x[i] = d9_bf16_to_float(d9_bf16_from_float(x[i]));
}
#endif
