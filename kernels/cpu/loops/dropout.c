/* Dropout. Loops that vectorise draw the Philox words of a whole tile at once; with larger units, one word a unit. */
#include "kernels/integers.h"
#include "kernels/cpu/loops/tile.h"

enum { BLOCKS = D9_TILE / 4 }; /* Philox blocks of four words for a tile */

/* Draws the words of BLOCKS blocks (d9_dropout_words); word v of block first + b is stored at [4 b + v]. */
static void draw_blocks(const d9_dropout *d, int64_t first, uint32_t *words) {
    uint32_t c0[BLOCKS], c1[BLOCKS], c2[BLOCKS], c3[BLOCKS];
    for (uint32_t b = 0; b < BLOCKS; b++) {
        c0[b] = (uint32_t)first + b;
        c1[b] = d->step;
        c2[b] = D9_STREAM_DROPOUT;
        c3[b] = d->stream;
    }
    for (int round = 0; round < D9_PHILOX_ROUNDS; round++) {
        const uint32_t k0 = (uint32_t)d->seed + (uint32_t)round * D9_PHILOX_WEYL_0,
                       k1 = (uint32_t)(d->seed >> 32) + (uint32_t)round * D9_PHILOX_WEYL_1;
#pragma omp simd
        for (int b = 0; b < BLOCKS; b++) {
            const uint64_t p = (uint64_t)D9_PHILOX_MULTIPLIER_0 * c0[b], q = (uint64_t)D9_PHILOX_MULTIPLIER_1 * c2[b];
            c0[b] = (uint32_t)(q >> 32) ^ c1[b] ^ k0;
            c1[b] = (uint32_t)q;
            c2[b] = (uint32_t)(p >> 32) ^ c3[b] ^ k1;
            c3[b] = (uint32_t)p;
        }
    }
    for (int b = 0; b < BLOCKS; b++) {
        words[4 * b] = c0[b];
        words[4 * b + 1] = c1[b];
        words[4 * b + 2] = c2[b];
        words[4 * b + 3] = c3[b];
    }
}

void D9_LOOP_NAME(dropout)(d9_kernel_in x, const d9_dropout *d, d9_kernel_out y, int64_t begin, int64_t end) {
    uint32_t words[D9_TILE] __attribute__((aligned(64)));
    d9_tile tile;
    const uint32_t least = d->least_kept_word;
    const float scale = d->scale;
    for (int64_t at = begin, n; at < end; at += n) {
        const int64_t place = d9_dropout_place(d, at);
        const uint32_t *drawn = words + place % 4;
        n = d9_tile_count(at, end);
        /* With several processes, the elements are consecutive in the whole batch only within a row. The drawn words
         * begin at a multiple of 4, so D9_TILE - place % 4 of them are left. */
        if (d->ranks > 1) n = d9_min(n, d9_min(d->row - at % d->row, D9_TILE - place % 4));
        if (d->unit > 1) {
            const int64_t word = d9_dropout_word(d, at);
            const uint32_t one = d9_dropout_words(d, word / 4).v[word % 4];
            n = d9_min(n, d->unit - place % d->unit);
            drawn = words;
            for (int64_t i = 0; i < n; i++) words[i] = one;
        } else {
            draw_blocks(d, place / 4, words);
        }
        const float *from = d9_tile_load(x, at, n, tile);
        float *to = d9_tile_target(y, at, tile);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) to[i] = drawn[i] >= least ? from[i] * scale : 0;
        d9_tile_store(y, at, n, to);
    }
}
