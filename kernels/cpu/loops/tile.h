/* Tiles: short runs of floats in the L1 cache, on which many loops compute. f32 arrays are used in place; bf16 is
 * widened into a tile, and rounded when the tile is stored.
 *
 * Inner loops are plain C over a tile, most with `omp simd`: the compiler uses vectors as wide as the level allows. */
#pragma once

#define D9_REAL float
#include "kernels/formulas/activation.h"

#include "kernels/cpu/loops/bf16.h"
#include "kernels/cpu/loops/loops.h"
#include "kernels/cpu/loops/stream.h"

enum { D9_TILE = 512 }; /* floats: 2 KiB */
typedef float d9_tile[D9_TILE] __attribute__((aligned(64)));

static inline int64_t d9_tile_count(int64_t begin, int64_t end) {
    return end - begin < D9_TILE ? end - begin : D9_TILE;
}

/* Returns n <= D9_TILE floats of x from element `at` on: a pointer into x, or `tile` with the widened elements. */
static inline const float *d9_tile_load(d9_kernel_in x, int64_t at, int64_t n, float *tile) {
    if (x.store == D9_KERNEL_F32) return (const float *)x.data + at;
    d9_bf16_widen((const uint16_t *)x.data + at, n, tile);
    return tile;
}

/* Returns the buffer in which to compute elements of y from `at` on: y itself or, if y is bf16 or has no data, `tile`.
 * d9_tile_store then writes the tile to a bf16 y. */
static inline float *d9_tile_target(d9_kernel_out y, int64_t at, float *tile) {
    return y.store == D9_KERNEL_F32 && y.data ? (float *)y.data + at : tile;
}

static inline void d9_tile_store(d9_kernel_out y, int64_t at, int64_t n, const float *tile) {
    if (y.store == D9_KERNEL_BF16 && y.data) d9_bf16_narrow(tile, n, (uint16_t *)y.data + at);
}

/* d9_tile_target and d9_tile_store, with non-temporal stores if `stream`; d9_stream_end must run before y is read. */
static inline float *d9_tile_stream_target(d9_kernel_out y, bool stream, int64_t at, float *tile) {
    return stream ? tile : d9_tile_target(y, at, tile);
}

static inline void d9_tile_stream_store(d9_kernel_out y, bool stream, int64_t at, int64_t n, const float *tile) {
    uint16_t narrow[D9_TILE] __attribute__((aligned(64)));
    if (!stream || !y.data) {
        d9_tile_store(y, at, n, tile);
    } else if (y.store == D9_KERNEL_F32) {
        d9_stream(tile, n * 4, (char *)y.data + at * 4);
    } else {
        d9_bf16_narrow(tile, n, narrow);
        d9_stream(narrow, n * 2, (char *)y.data + at * 2);
    }
}

static inline void d9_tile_copy(const float *from, int64_t n, float *to) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = from[i]; /* NOLINT(clang-analyzer-core.*): callers set from[0, n) */
}

/* t = act(t), and t = dy * slope(reference); dy may be t. Without an activation the first leaves t unchanged, and the
 * second is t = dy. */
void D9_ISA(d9_tile_act)(d9_kernel_act act, int64_t n, float *t);
void D9_ISA(d9_tile_act_backward)(d9_kernel_act act, const float *dy, const float *reference, int64_t n, float *t);
#define d9_tile_act          D9_ISA(d9_tile_act)
#define d9_tile_act_backward D9_ISA(d9_tile_act_backward)
