/* bfloat16 and IEEE half as bits: exact widening, and narrowing rounded to nearest, ties to even.
 *
 * The functions have no branches, so that loops over them vectorise. Denormals are kept in both directions; narrowing
 * turns overflow into infinity and a NaN into a quiet NaN of the same sign. The `_from_double` functions give the
 * result of a single rounding: they round to float by round-to-odd, so that the second rounding is right. */
#pragma once

#include "kernels/formulas/common.h"

D9_FN uint32_t d9_float_bits(float x) {
    union {
        float value;
        uint32_t bits;
    } u;
    u.value = x;
    return u.bits;
}

D9_FN float d9_float_of_bits(uint32_t bits) {
    union {
        uint32_t bits;
        float value;
    } u;
    u.bits = bits;
    return u.value;
}

D9_FN float d9_bf16_to_float(uint16_t h) { return d9_float_of_bits((uint32_t)h << 16); }

D9_FN uint16_t d9_bf16_from_float(float x) {
    const uint32_t bits = d9_float_bits(x);
    const uint32_t rounded = (bits + UINT32_C(0x7fff) + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet = bits >> 16 | UINT32_C(0x40);
    return (uint16_t)((bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000) ? quiet : rounded);
}

D9_FN float d9_fp16_to_float(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = (uint32_t)(h & 0x7fff);
    const uint32_t rebias = UINT32_C(0x38000000); /* 127 - 15 in float's exponent field */
    const uint32_t normal = (magnitude << 13) + rebias + (magnitude >= 0x7c00 ? rebias : 0);
    const uint32_t denormal = d9_float_bits((float)(int32_t)magnitude * 0x1p-24f);
    return d9_float_of_bits(sign | (magnitude < 0x400 ? denormal : normal));
}

D9_FN uint16_t d9_fp16_from_float(float x) {
    const uint32_t bits = d9_float_bits(x), sign = bits >> 16 & 0x8000, magnitude = bits & UINT32_C(0x7fffffff);
    const uint32_t normal = (magnitude - UINT32_C(0x38000000) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    /* Below 2^-14 the spacing of halfs is 2^-24, the spacing of floats near 0.5, so adding 0.5 rounds. */
    const uint32_t denormal = d9_float_bits(d9_float_of_bits(magnitude) + 0.5f) - UINT32_C(0x3f000000);
    const uint32_t quiet = 0x7e00 | (magnitude >> 13 & 0x3ff);
    uint32_t half = magnitude < UINT32_C(0x38800000) ? denormal : normal;
    half = magnitude >= UINT32_C(0x477ff000) ? 0x7c00 : half; /* 65520 and above round to infinity */
    half = magnitude > UINT32_C(0x7f800000) ? quiet : half;
    return (uint16_t)(sign | half);
}

/* Rounds to odd: returns x if it is a float, otherwise the one of its two neighbouring floats whose last bit is 1. */
D9_FN float d9_float_round_odd(double x) {
    const float nearest = (float)x;
    const double back = (double)nearest;
    const uint32_t bits = d9_float_bits(nearest), away = (back < 0 ? -back : back) > (x < 0 ? -x : x);
    return d9_float_of_bits(((back != x) & (x == x)) ? (bits - away) | 1 : bits);
}

D9_FN uint16_t d9_bf16_from_double(double x) { return d9_bf16_from_float(d9_float_round_odd(x)); }
D9_FN uint16_t d9_fp16_from_double(double x) { return d9_fp16_from_float(d9_float_round_odd(x)); }
