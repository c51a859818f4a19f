/* The product of two packed blocks, the inner kernel of gemm.c, moments.c and winograd.c:
 *
 *   c (rows, D9_PRODUCT_WIDTH) = or += a (rows, K) b (K, D9_PRODUCT_WIDTH)
 *
 * All of c stays in registers: at most D9_PRODUCT_ROWS rows of two vectors. Each step along K loads two vectors of b
 * and multiplies them by one broadcast element of a for each row. `a` is stored in `groups` groups of `depth` steps, so
 * that within a group every address is a constant offset. Except for pairs of bf16, the code is C with GCC's vector
 * types, for any processor; GCC 12 keeps every sum in a register. Measured on a core of a Zen 5 whose peak is about
 * 265 GFLOP/s with AVX-512 and 132 with AVX2: 262 to 266 with 8 to 14 rows, and 130 with 6. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#if defined(__AVX512F__)
enum { D9_LANES = 16, D9_PRODUCT_ROWS = 14 };
#elif defined(__AVX2__)
enum { D9_LANES = 8, D9_PRODUCT_ROWS = 6 };
#else
enum { D9_LANES = 4, D9_PRODUCT_ROWS = 6 };
#endif
enum {
    D9_PRODUCT_WIDTH = 2 * D9_LANES,
    D9_PRODUCT_TALL = D9_LANES == 16 ? 8 : 6,     /* rows of a product whose `a` is stored as (K, rows) */
    D9_PRODUCT_ACROSS_ROWS = 2 * D9_PRODUCT_TALL, /* rows of a panel of such an `a` in loops/gemm.c */
};

/* D9_RECUR_TILE: samples of a recurrent layer's tile, at most D9_RECUR_ROWS. Their sums for all gates, at most
 * D9_RECUR_SUMS vectors, stay in registers (loops/recur.c). */
enum { D9_RECUR_ROWS = 8, D9_RECUR_SUMS = D9_LANES == 16 ? 24 : 12 };
#define D9_RECUR_TILE(gates) (D9_RECUR_SUMS / (gates) < D9_RECUR_ROWS ? D9_RECUR_SUMS / (gates) : D9_RECUR_ROWS)

typedef float d9_vector __attribute__((vector_size(4 * D9_LANES), may_alias));
#if defined(__GNUC__) && !defined(__clang__)
#define D9_UNROLL _Pragma("GCC unroll 16")
#else
#define D9_UNROLL
#endif

/* Layout of a (rows, depth): element (i, k) of a group of `depth` steps is at i * row + k * step. The fields must be
 * compile-time constants. The distance of the groups is an argument, `group`. */
typedef struct d9_product_layout {
    int row, step, depth;
} d9_product_layout;

/* Function NAME_pairs, for pairs of bf16, if `pairs`; on levels without AVX512_BF16 always NAME. */
#ifdef __AVX512BF16__
#define D9_PRODUCT_CHOOSE(name, pairs) ((pairs) ? name##_pairs : name)
#else
#define D9_PRODUCT_CHOOSE(name, pairs) ((void)(pairs), name)
#endif

/* Returns sum + x b. With `pairs`, x and each lane of b are pairs of bf16, and both products are added. */
#ifdef __AVX512BF16__
#include <immintrin.h>
enum { D9_PRODUCT_PAIRS = 1 };
static inline __attribute__((always_inline)) d9_vector d9_product_step(const bool pairs, d9_vector sum, float x,
                                                                       d9_vector b) {
    if (!pairs) return sum + x * b;
    return (d9_vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_ps(x), (__m512bh)b);
}
#else
enum { D9_PRODUCT_PAIRS = 0 };
static inline __attribute__((always_inline)) d9_vector d9_product_step(const bool pairs, d9_vector sum, float x,
                                                                       d9_vector b) {
    (void)pairs;
    return sum + x * b;
}
#endif

/* Adds the product of a and b to the sums. `pairs`, rows and layout are compile-time constants after inlining. b, which
 * is aligned to a vector, has groups * depth + tail rows of D9_PRODUCT_WIDTH; `tail` is the number of steps in a last,
 * partial group. */
static inline __attribute__((always_inline)) void d9_product_add(const bool pairs, const int rows,
                                                                 const d9_product_layout l, const float *a,
                                                                 int64_t group, const float *b, int64_t groups,
                                                                 int64_t tail, d9_vector sum[D9_PRODUCT_ROWS][2]) {
    for (; groups > 0; groups--, a += group, b += l.depth * D9_PRODUCT_WIDTH) {
        D9_UNROLL for (int k = 0; k < l.depth; k++) {
            const d9_vector left = *(const d9_vector *)(b + k * D9_PRODUCT_WIDTH),
                            right = *(const d9_vector *)(b + k * D9_PRODUCT_WIDTH + D9_LANES);
            D9_UNROLL for (int i = 0; i < rows; i++) {
                const float x = a[i * l.row + k * l.step];
                sum[i][0] = d9_product_step(pairs, sum[i][0], x, left);
                sum[i][1] = d9_product_step(pairs, sum[i][1], x, right);
            }
        }
    }
    for (; tail > 0; tail--, a += l.step, b += D9_PRODUCT_WIDTH) {
        const d9_vector left = *(const d9_vector *)b, right = *(const d9_vector *)(b + D9_LANES);
        D9_UNROLL for (int i = 0; i < rows; i++) {
            const float x = a[i * l.row];
            sum[i][0] = d9_product_step(pairs, sum[i][0], x, left);
            sum[i][1] = d9_product_step(pairs, sum[i][1], x, right);
        }
    }
}

/* The product over whole groups. Without `add`, c is overwritten; with it, the sums start from c. b and c are aligned
 * to a vector. */
static inline __attribute__((always_inline)) void d9_product(const bool pairs, const int rows,
                                                             const d9_product_layout l, const float *a, int64_t group,
                                                             const float *b, int64_t groups, bool add, float *c,
                                                             int64_t c_row) {
    d9_vector sum[D9_PRODUCT_ROWS][2];
    D9_UNROLL for (int i = 0; i < rows; i++) {
        sum[i][0] = add ? *(const d9_vector *)(c + i * c_row) : (d9_vector){0};
        sum[i][1] = add ? *(const d9_vector *)(c + i * c_row + D9_LANES) : (d9_vector){0};
    }
    d9_product_add(pairs, rows, l, a, group, b, groups, 0, sum);
    D9_UNROLL for (int i = 0; i < rows; i++) {
        *(d9_vector *)(c + i * c_row) = sum[i][0];
        *(d9_vector *)(c + i * c_row + D9_LANES) = sum[i][1];
    }
}
