/* Seeded permutations for the epoch order and the data splits. */
#pragma once

#include "core/context.h"

/* Writes 0 .. count-1 sorted by the 64-bit Philox keys at counter = (i, epoch, stream, draw); ties by i. */
D9_MUST_USE d9_status d9_keyed_order(d9_context *context, uint64_t seed, uint32_t epoch, uint32_t stream, uint32_t draw,
                                     int64_t count, int32_t *order);

/* The random number in [0, 1) by which `dawn9 generate` selects word `number` of its output. */
double d9_word_draw(uint64_t seed, int64_t number);
