/* Philox4x32-10: a random word is a function of key and counter. No generator state is saved; every backend, thread
 * count and resumed run draws the same numbers.
 *
 * Ten rounds of (v0, v1, v2, v3) -> (hi(M1*v2)^v1^k0, lo(M1*v2), hi(M0*v0)^v3^k1, lo(M0*v0)), the key growing by
 * the Weyl constants between rounds. CUDA kernels call cuRAND's curand_Philox4x32_10(uint4 counter, uint2 key), which
 * gives the same words; key.x is the low word of the key. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers:
 * as easy as 1, 2, 3", SC11.
 *
 * dawn9's use: key = seed, counter = (sample, epoch, stream, draw), unless the stream's comment says otherwise. */
#pragma once

#include "kernels/formulas/common.h"

/* A stream has one purpose, or several told apart by `draw`. Renumbering would change the meaning of every seed: only
 * append. */
enum {
    D9_STREAM_ORDER = 0,     /* sort key of a sample within an epoch */
    D9_STREAM_CROP = 1,      /* v[0]: y, v[1]: x */
    D9_STREAM_MIRROR = 2,    /* v[0]; D9_MIRROR_ALTERNATING: the counter has 0 in place of the epoch */
    D9_STREAM_CUTOUT = 3,    /* v[0]: y, v[1]: x */
    D9_STREAM_INIT = 4,      /* draw 0: initial weights; the counter has (index / 4, hash of the parameter's name).
                                draw 1: perturbation of weights; the counter has (index, 0): engine/verify/case_run.c */
    D9_STREAM_SYNTHETIC = 5, /* images of the synthetic data set; the counter has the split in place of the epoch */
    D9_STREAM_SPLIT = 6,     /* held-out images, order of files; counter: position or hash of a name; data/split.h */
    D9_STREAM_DROPOUT = 7,   /* one word for each element, or for several; counter: formulas/dropout.h */
    D9_STREAM_JITTER = 8,    /* v[0]: brightness, v[1]: contrast */
    D9_STREAM_MIX = 9,       /* mixing weight or box size of a batch; the counter has (step, 0) for (sample, epoch) */
    D9_STREAM_GENERATE = 10, /* generated text; the counter has the draw's 64-bit number in place of sample and epoch */
    D9_STREAM_PASTE = 11,    /* place of a batch's box, v[0]: y, v[1]: x, v[2]: if it is used; counter as for MIX */
    D9_STREAM_RESIZE = 12,   /* v[0]: share of the area, v[1]: aspect ratio, v[2]: y, v[3]: x; draw: the attempt */
    D9_STREAM_SEARCH = 13,   /* hyperparameters of a search; the counter has the number of the trial in place of the
                                sample; draw: a hash of the option's name, such as "model.widths[0]" */
    D9_STREAM_CHANGE = 14    /* v[0]: row of D9_CHANGE_ROWS, v[1]: level, v[2]: sign */
};

typedef struct d9_philox {
    uint32_t v[4];
} d9_philox;

#define D9_PHILOX_MULTIPLIER_0 UINT32_C(0xD2511F53)
#define D9_PHILOX_MULTIPLIER_1 UINT32_C(0xCD9E8D57)
#define D9_PHILOX_WEYL_0       UINT32_C(0x9E3779B9) /* golden ratio */
#define D9_PHILOX_WEYL_1       UINT32_C(0xBB67AE85) /* sqrt(3) - 1 */
enum { D9_PHILOX_ROUNDS = 10 };

#ifdef D9_PHILOX_WORDS /* a library's Philox: kernels/cuda/philox.h */
D9_FN d9_philox d9_philox4x32_10(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    const uint4 words = D9_PHILOX_WORDS(key, c0, c1, c2, c3);
    return {{words.x, words.y, words.z, words.w}};
}
#else
D9_FN d9_philox d9_philox4x32_10(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    d9_philox out;
    for (int round = 0; round < D9_PHILOX_ROUNDS; round++) {
        const uint64_t a = (uint64_t)D9_PHILOX_MULTIPLIER_0 * c0;
        const uint64_t b = (uint64_t)D9_PHILOX_MULTIPLIER_1 * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += D9_PHILOX_WEYL_0;
        k1 += D9_PHILOX_WEYL_1;
    }
    out.v[0] = c0;
    out.v[1] = c1;
    out.v[2] = c2;
    out.v[3] = c3;
    return out;
}
#endif

/* An integer in [0, n) by multiply-high, with a bias below n / 2^32. n = 0 gives 0. */
D9_FN uint32_t d9_philox_below(uint32_t word, uint32_t n) { return (uint32_t)(((uint64_t)word * n) >> 32); }

/* A double in [0, 1), exactly word / 2^32. */
D9_FN double d9_philox_unit(uint32_t word) { return (double)word * (1.0 / 4294967296.0); }

/* The first two words as one 64-bit number; v[0] is its low half. */
D9_FN uint64_t d9_philox_pair(d9_philox draw) { return (uint64_t)draw.v[0] | (uint64_t)draw.v[1] << 32; }
