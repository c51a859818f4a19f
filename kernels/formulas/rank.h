/* Images in order of decreasing loss. NaN counts as the largest loss; among equal losses the earlier image comes first,
 * so every backend ranks the same losses in the same order. */
#pragma once

#include "kernels/formulas/half.h"

/* An integer that grows with the loss; the largest integer for a NaN. */
D9_FN uint32_t d9_rank_key(float loss) {
    const uint32_t bits = d9_float_bits(loss);
    if (loss != loss) return UINT32_MAX;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* Rank of image i among n images: the number of images before it. */
D9_FN int64_t d9_rank_of(const float *losses, int64_t n, int64_t i) {
    const uint32_t own = d9_rank_key(losses[i]);
    int64_t before = 0;
    for (int64_t j = 0; j < n; j++) {
        const uint32_t key = d9_rank_key(losses[j]);
        before += key > own || (key == own && j < i);
    }
    return before;
}
