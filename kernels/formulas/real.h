/* Compiles formulas for two precisions. A header that uses D9_REAL has no include guard and may be included twice:
 *
 *   #define D9_REAL float
 *   #include "kernels/formulas/activation.h"    d9_act_CELU_float, ...
 *   #undef D9_REAL
 *   #define D9_REAL double
 *   #include "kernels/formulas/activation.h"    d9_act_CELU_double, ...
 *   #undef D9_REAL
 *
 * D9_OF(d9_act_CELU) is the name in the current precision, D9_R(0.5) a constant of it. Formulas may call the elementary
 * functions below, as D9_OF(d9_exp) and so on. The float exponentials do not call libm: they have no branches, so that
 * loops vectorise (GCC needs -fno-trapping-math for that). Their error is at most 1.1 units in the last place;
 * tests/unit/formulas.c checks every 1009th float. */
#pragma once

#include "kernels/formulas/half.h"
#include <math.h>

#define D9_JOIN_(name, type) name##_##type
#define D9_JOIN(name, type)  D9_JOIN_(name, type)
#define D9_OF(name)          D9_JOIN(name, D9_REAL)
#define D9_R(constant)       ((D9_REAL)(constant))

D9_FN double d9_exp_double(double x) { return exp(x); }
D9_FN double d9_expm1_below_double(double x) { return expm1(x); }
D9_FN double d9_log_double(double x) { return log(x); }
D9_FN double d9_sqrt_double(double x) { return sqrt(x); }
/* Cumulative distribution function of the standard normal distribution. *density = e^(-x^2 / 2), not normalised. */
D9_FN double d9_normal_cdf_double(double x, double *density) {
    const double below = 0.5 * erfc(x * -0.70710678118654752440);
    *density = exp(-0.5 * x * x);
    return below;
}
D9_FN float d9_log_float(float x) { return logf(x); }
D9_FN float d9_sqrt_float(float x) { return sqrtf(x); }

/* Sets *n and returns e^r - 1, where x = n ln 2 + r with |r| <= ln 2 / 2. The Taylor series ends at r^7; its remainder
 * is below 2^-27 e^r. */
D9_FN float d9_exp_reduce(float x, int32_t *n) {
    const float shift = 0x1.8p23f; /* adding it rounds to an integer in the low bits */
    const float t = x * 0x1.715476p+0f + shift, whole = t - shift;
    const float r =
        (x - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f; /* ln 2 in two parts, the first product exact */
    const float q = 1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720 + r * (1.0f / 5040))));
    *n = (int32_t)(d9_float_bits(t) - d9_float_bits(shift));
    return r + r * r * (0.5f + r * q);
}

D9_FN float d9_power_of_two(int32_t n) { return d9_float_of_bits((uint32_t)(n + 127) << 23); } /* n = -127 gives 0 */

D9_FN float d9_exp_float(float x) {
    float in = x < -104.0f ? -104.0f : x; /* a NaN stays a NaN */
    in = in > 89.0f ? 89.0f : in;
    int32_t n;
    const float p = d9_exp_reduce(in, &n);
    n = in == in ? n : 0;
    const int32_t half = n >> 1; /* two factors, so that neither overflows */
    return (p + 1.0f) * d9_power_of_two(half) * d9_power_of_two(n - half);
}

/* e^x - 1 for x <= 0; for larger x the result is undefined. A NaN stays a NaN. With x = n ln 2 + r, ln 2 is a single
 * float here: the error of r grows with |n|, but is multiplied by 2^n. The polynomial is the minimax one of its degree,
 * with a relative error below 2^-25. */
D9_FN float d9_expm1_below_float(float x) {
    const float shift = 0x1.8p23f + 127; /* the low bits of t become n + 127, the exponent field of 2^n */
    const float in = x < -87.0f ? -87.0f : x;
    const float t = in * 0x1.715476p+0f + shift, whole = t - shift, r = in - whole * 0x1.62e43p-1f;
    const float q = 0x1.5554b2p-3f + r * (0x1.5554c8p-5f + r * (0x1.122704p-7f + r * 0x1.6d71ap-10f));
    const float p = r + r * r * (0.5f + r * q), power = d9_float_of_bits(d9_float_bits(t) << 23);
    return power * p + (power - 1.0f);
}

/* 1 / (1 + e^-x). The exponential of -|x| never overflows. */
D9_FN double d9_sigmoid_double(double x) {
    const double e = d9_exp_double(x < 0 ? x : -x);
    return (x < 0 ? e : 1) / (1 + e);
}
D9_FN float d9_sigmoid_float(float x) {
    const float e = d9_exp_float(x < 0 ? x : -x);
    return (x < 0 ? e : 1) / (1 + e);
}

/* (1 - e^-2|x|) / (1 + e^-2|x|) with the sign of x; but in f32 the result for +0 is -0. */
D9_FN double d9_tanh_double(double x) { return tanh(x); }
D9_FN float d9_tanh_float(float x) {
    const float e = d9_expm1_below_float(x < 0 ? 2 * x : -2 * x), above = -e / (2 + e);
    return x < 0 ? -above : above;
}

/* Probability of the standard normal distribution below -u, for u >= 0, from e = e^(-u^2 / 2) and t = 1 / (1 + 0.35 u).
 * The probability divided by e decreases like 1 / u; this quotient is approximated by t times a minimax polynomial in
 * t, within 2^-24 up to u = 14.5; for larger u, e is 0. */
D9_FN float d9_normal_tail_float(float e, float t) {
    const float high = 0x1.464a38p-3f + t * (-0x1.05fb06p-2f + t * (0x1.26fa0cp-3f + t * -0x1.ddb9a4p-6f));
    const float low = 0x1.eac99ep-4f + t * (0x1.b05844p-4f + t * (-0x1.7c5408p-6f + t * high));
    return e * t * (0x1.1df1c6p-3f + t * (0x1.1e70c6p-3f + t * low));
}

#ifdef __CUDACC__
/* CUDA's erfcf needs fewer registers than the polynomial above, with which norm kernels spill on compute capability 7.5
 * and 8.0. */
D9_FN float d9_normal_cdf_float(float x, float *density) {
    const float below = 0.5f * erfcf(x * -0.70710678118654752440f);
    *density = d9_exp_float(-0.5f * x * x);
    return below;
}
#else
D9_FN float d9_normal_cdf_float(float x, float *density) {
    const float e = d9_exp_float(-0.5f * x * x),
                tail = d9_normal_tail_float(e, 1.0f / (1.0f + 0.35f * (x < 0 ? -x : x)));
    *density = e;
    return x < 0 ? tail : 1 - tail;
}
#endif
