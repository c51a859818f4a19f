/* A vector of elements in registers: loads that widen, formulas applied lane by lane, stores that round. Loops with
 * several stages and arrays use it, because tiles (tile.h) would go through the L1 cache between any two stages.
 * Storage type and activation are compile-time constants after inlining. The compiler turns the loops over lanes into
 * vector instructions. */
#pragma once

#include "kernels/cpu/loops/product.h"
#include "kernels/cpu/loops/tile.h"

#define D9_INLINE static inline __attribute__((always_inline))

typedef float d9_loose_vector __attribute__((vector_size(4 * D9_LANES), aligned(4), may_alias));
typedef float d9_lanes[D9_LANES] __attribute__((aligned(4 * D9_LANES)));

/* Marks a loop over the lanes of one vector: GCC must not unroll it before it vectorises. */
#if defined(__GNUC__) && !defined(__clang__)
#define D9_EACH_LANE(i) _Pragma("GCC unroll 1") for (int i = 0; i < D9_LANES; i++)
#else
#define D9_EACH_LANE(i) for (int i = 0; i < D9_LANES; i++)
#endif

/* Makes the compiler round v, so that it cannot fuse a product that gave v with a following sum. */
#if defined(__AVX512F__)
#define D9_NO_CONTRACTION(v) __asm__("" : "+v"(v))
#elif defined(__SSE2__)
#define D9_NO_CONTRACTION(v) __asm__("" : "+x"(v))
#else
#define D9_NO_CONTRACTION(v) __asm__("" : "+m"(v))
#endif

typedef uint16_t d9_narrow_vector __attribute__((vector_size(2 * D9_LANES), aligned(2), may_alias));
typedef uint32_t d9_bits_vector __attribute__((vector_size(4 * D9_LANES), may_alias));

#if defined(__AVX512F__)
D9_INLINE d9_vector d9_lanes_widen(d9_narrow_vector x) {
    return (d9_vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)x), 16);
}
#elif defined(__AVX2__)
D9_INLINE d9_vector d9_lanes_widen(d9_narrow_vector x) {
    return (d9_vector)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)x), 16);
}
#else
D9_INLINE d9_vector d9_lanes_widen(d9_narrow_vector x) {
    return (d9_vector)(__builtin_convertvector(x, d9_bits_vector) << 16);
}
#endif

#ifdef __AVX512BF16__
D9_INLINE d9_narrow_vector d9_lanes_narrow(d9_vector v) { return (d9_narrow_vector)_mm512_cvtneps_pbh((__m512)v); }
D9_INLINE d9_vector d9_lanes_round_bf16(d9_vector v) { return d9_lanes_widen(d9_lanes_narrow(v)); }
#else
/* Returns each lane's bf16 bits as a 32-bit integer. */
D9_INLINE d9_bits_vector d9_lanes_bf16_bits(d9_vector v) {
    d9_lanes in;
    uint32_t out[D9_LANES] __attribute__((aligned(4 * D9_LANES)));
    *(d9_vector *)in = v;
    D9_EACH_LANE(i) out[i] = d9_bf16_from_float(in[i]);
    return *(const d9_bits_vector *)out;
}
D9_INLINE d9_narrow_vector d9_lanes_narrow(d9_vector v) {
    return __builtin_convertvector(d9_lanes_bf16_bits(v), d9_narrow_vector);
}
D9_INLINE d9_vector d9_lanes_round_bf16(d9_vector v) { return (d9_vector)(d9_lanes_bf16_bits(v) << 16); }
#endif

/* Rounds both vectors to bf16 and returns pairs: lane i holds low[i] in its lower half and high[i] in its upper one. */
#ifdef __AVX512BF16__
D9_INLINE d9_vector d9_lanes_pair(d9_vector low, d9_vector high) {
    static const uint16_t turns[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                       8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return (d9_vector)_mm512_permutexvar_epi16(_mm512_loadu_si512(turns),
                                               (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low));
}
#else
D9_INLINE d9_vector d9_lanes_pair(d9_vector low, d9_vector high) {
    return (d9_vector)((d9_bits_vector)d9_lanes_round_bf16(high) | (d9_bits_vector)d9_lanes_round_bf16(low) >> 16);
}
#endif

/* Loads or stores the first `left` lanes, 0 <= left < D9_LANES; the others are loaded as zeros. */
#if defined(__AVX512F__)
D9_INLINE d9_vector d9_lanes_load_few(const float *x, int64_t left) {
    return (d9_vector)_mm512_maskz_loadu_ps((__mmask16)((1u << left) - 1), x);
}
D9_INLINE void d9_lanes_store_few(d9_vector v, int64_t left, float *y) {
    _mm512_mask_storeu_ps(y, (__mmask16)((1u << left) - 1), (__m512)v);
}
#elif defined(__AVX2__)
/* Mask of the first `left` lanes. */
D9_INLINE __m256i d9_lanes_first_mask(int64_t left) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
D9_INLINE d9_vector d9_lanes_load_few(const float *x, int64_t left) {
    return (d9_vector)_mm256_maskload_ps(x, d9_lanes_first_mask(left));
}
D9_INLINE void d9_lanes_store_few(d9_vector v, int64_t left, float *y) {
    _mm256_maskstore_ps(y, d9_lanes_first_mask(left), (__m256)v);
}
#else
D9_INLINE d9_vector d9_lanes_load_few(const float *x, int64_t left) {
    d9_lanes wide = {0};
    for (int64_t i = 0; i < left; i++) wide[i] = x[i];
    return *(const d9_vector *)wide;
}
D9_INLINE void d9_lanes_store_few(d9_vector v, int64_t left, float *y) { memcpy(y, &v, (size_t)left * 4); }
#endif

/* Loads the first `left` lanes, at most D9_LANES, from element `at`; the other lanes are zero. */
D9_INLINE d9_vector d9_lanes_load(const d9_kernel_store store, const void *x, int64_t at, int64_t left) {
    uint16_t narrow[D9_LANES] = {0};
    if (store == D9_KERNEL_F32) {
        if (left >= D9_LANES) return *(const d9_loose_vector *)((const float *)x + at);
        return d9_lanes_load_few((const float *)x + at, left);
    }
    if (left >= D9_LANES) return d9_lanes_widen(*(const d9_narrow_vector *)((const uint16_t *)x + at));
    for (int64_t i = 0; i < left; i++) narrow[i] = ((const uint16_t *)x)[at + i];
    return d9_lanes_widen(*(const d9_narrow_vector *)narrow);
}

/* Rounds to the storage type, as storing and loading would. In f32 this only prevents a fused multiply-add. */
D9_INLINE d9_vector d9_lanes_round(const d9_kernel_store store, d9_vector v) {
    if (store == D9_KERNEL_BF16) v = d9_lanes_round_bf16(v);
    D9_NO_CONTRACTION(v);
    return v;
}

/* Stores the first `left` lanes, at most D9_LANES, from element `at` on. `stream`: a whole vector, which must be
 * aligned, is written by a non-temporal store. */
D9_INLINE void d9_lanes_store(const d9_kernel_store store, bool stream, d9_vector v, int64_t left, void *y,
                              int64_t at) {
    const int64_t bytes = d9_kernel_store_bytes(store);
    d9_narrow_vector narrow;
    char *to = (char *)y + at * bytes;
    if (store == D9_KERNEL_BF16) narrow = d9_lanes_narrow(v);
    const void *from = store == D9_KERNEL_BF16 ? (const void *)&narrow : &v;
    if (left < D9_LANES && store == D9_KERNEL_F32)
        d9_lanes_store_few(v, left, (float *)(void *)to);
    else if (left < D9_LANES)
        memcpy(to, from, (size_t)(left * bytes));
    else if (stream)
        d9_stream_vector(from, (int)(D9_LANES * bytes), to);
    else
        memcpy(to, from, (size_t)(D9_LANES * bytes));
}

D9_INLINE d9_vector d9_lanes_act(const int activation, float alpha, d9_vector x) {
    d9_lanes in, out;
    *(d9_vector *)in = x;
    switch (activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                      \
    case D9_ACT_##id:                                                                                                  \
        D9_EACH_LANE(i) out[i] = d9_act_##id##_float(in[i], alpha);                                                    \
        return *(const d9_vector *)out;
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default:
        return x;
    }
}

/* Returns dy times the slope of the activation, or dy without an activation. reference: the activation's output if
 * d9_activation_from_output, else its input. */
D9_INLINE d9_vector d9_lanes_act_backward(const int activation, float alpha, d9_vector dy, d9_vector reference) {
    d9_lanes in, out;
    *(d9_vector *)in = reference;
    switch (activation) {
#define D9_ACTIVATION(id, name, from_output, doc)                                                                      \
    case D9_ACT_##id:                                                                                                  \
        D9_EACH_LANE(i) out[i] = d9_act_slope_##id##_float(in[i], alpha);                                              \
        return dy * *(const d9_vector *)out;
#include "kernels/formulas/activations.def"
#undef D9_ACTIVATION
    default:
        return dy;
    }
}
