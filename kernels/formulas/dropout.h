/* The elements that dropout keeps. Element i of the whole batch reads random word k = i / unit, and is kept if the
 * word is at least p 2^32. Word k is word k mod 4 of Philox(seed; k / 4, step, D9_STREAM_DROPOUT, stream), where
 * `stream` depends on the layer. The backward pass draws again instead of storing a mask, and every backend keeps the
 * same elements.
 *
 * With several processes, a process holds the samples rank, rank + ranks, rank + 2 ranks ... of the batch. Its sample n
 * (of texts (T, N, C): its token n) is therefore number n * ranks + rank of the whole batch. */
#pragma once

#include "kernels/formulas/philox.h"

typedef struct d9_dropout {
    uint64_t seed;
    uint32_t step, stream;
    uint32_t least_kept_word; /* p 2^32, rounded down */
    float scale;              /* 1 / (1 - p) */
    int64_t row;              /* elements of a sample or token; d9_dropout_place reads it only if ranks > 1 */
    int32_t rank, ranks;
    int64_t unit; /* consecutive elements of the whole batch that are kept or dropped together */
} d9_dropout;

/* Dropout with probability p for one process, where each element is kept or dropped by itself. */
static inline d9_dropout d9_dropout_of(uint64_t seed, int64_t step, uint32_t stream, double p) {
    return (d9_dropout){seed, (uint32_t)step, stream, (uint32_t)(p * 4294967296.0), (float)(1 / (1 - p)), 0, 0, 1, 1};
}

/* Index in the whole batch of this process's element i. */
D9_FN int64_t d9_dropout_place(const d9_dropout *dropout, int64_t i) {
    if (dropout->ranks == 1) return i;
    return (i / dropout->row * dropout->ranks + dropout->rank) * dropout->row + i % dropout->row;
}

/* Index of the random word that this process's element i reads. */
D9_FN int64_t d9_dropout_word(const d9_dropout *dropout, int64_t i) {
    return d9_dropout_place(dropout, i) / dropout->unit;
}

/* Random words 4 * block to 4 * block + 3. */
D9_FN d9_philox d9_dropout_words(const d9_dropout *dropout, int64_t block) {
    return d9_philox4x32_10(dropout->seed, (uint32_t)block, dropout->step, D9_STREAM_DROPOUT, dropout->stream);
}
