/* Draws of mixed images and pasted boxes. The weight is a symmetric beta variate without rejection. For u and v uniform
 * in (0, 1), t = sqrt(2a (u^(-1/a) - 1)) cos(2 pi v) is a Student's t with 2a degrees of freedom, and
 * 1/2 (1 + t / sqrt(2a + t^2)) is of Beta(a, a). Source: Bailey 1994, "Polar generation of random variates with the
 * t-distribution", Mathematics of Computation 62. */
#include "step/augment.h"

double d9_mix_weight(uint64_t seed, int64_t step, double alpha) {
    const d9_philox word = d9_philox4x32_10(seed, (uint32_t)step, 0, D9_STREAM_MIX, 0);
    const double u = (word.v[0] + 0.5) / 4294967296.0, cosine = cos(2 * acos(-1) * d9_philox_unit(word.v[1]));
    const double square = expm1(-log(u) / alpha) * cosine * cosine; /* t^2 / 2a; may overflow for a small alpha */
    const double half = isinf(square) ? 0.5 : 0.5 * sqrt(square / (1 + square));
    return cosine < 0 ? 0.5 - half : 0.5 + half;
}

d9_box d9_paste_box(uint64_t seed, int64_t step, double alpha, double probability, int64_t height, int64_t width) {
    const d9_philox word = d9_philox4x32_10(seed, (uint32_t)step, 0, D9_STREAM_PASTE, 0);
    if (d9_philox_unit(word.v[2]) >= probability) return (d9_box){0, 0, 0, 0};
    const double side = sqrt(1 - d9_mix_weight(seed, step, alpha)); /* as a share of the image's sides */
    const int64_t rows = llround(side * (double)height), columns = llround(side * (double)width),
                  top = d9_philox_below(word.v[0], (uint32_t)(height - rows + 1)),
                  left = d9_philox_below(word.v[1], (uint32_t)(width - columns + 1));
    return (d9_box){top, left, top + rows, left + columns};
}
