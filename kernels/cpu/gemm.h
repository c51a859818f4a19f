/* The product of two matrices that are read from anything:
 *
 *   c (M, N) = sum over k of a (M, K) b (K, N)
 *
 * Convolutions of every kind and linear layers are such products. Only what packs an operand knows where its elements
 * lie: both are read as rows of patches of an array, in blocks that stay in the caches, and what lies outside of the
 * array is zero. Sums are f32, rounded once to the target's type.
 *
 * K is cut at places that the shape alone decides, and its parts are added in order. So the bits depend neither on the
 * number of threads nor on the caches. */
#ifndef D9_KERNELS_CPU_GEMM_H
#define D9_KERNELS_CPU_GEMM_H

#include "kernels/cpu/kernels.h"

/* Row (n, h, w) has the number (n * high + h) * wide + w. It holds, in this order, the (taps_high, taps_wide, channels)
 * elements that begin at line h * step + top and pixel w * step + left of image n. */
typedef struct d9_gemm_source {
    d9_kernel_in x;
    int64_t start; /* element of x where all begins */
    int64_t high, wide;
    int64_t image, line, pixel; /* elements of x from one to the next */
    int64_t height, width;      /* of x */
    int64_t step, top, left;
    int64_t taps_high, taps_wide, channels; /* with more than one tap a pixel is `channels` long */
} d9_gemm_source;

typedef struct d9_gemm_target { /* row (n, h, w), numbered as above, is at element start + n image + h line + w pixel */
    d9_kernel_out y;
    int64_t start;
    int64_t high, wide;
    int64_t image, line, pixel;
} d9_gemm_target;

/* How an operand's rows are meant. Along K: row r is row r of a, or column r of b. Across K: row r is all that step r
 * of the sum multiplies. What is summed over a long K must be a plain array. */
typedef enum d9_gemm_form {
    D9_GEMM_ALONG_ALONG,   /* a along K, b along K: y = x w^T */
    D9_GEMM_ALONG_ACROSS,  /* dx = dy w */
    D9_GEMM_ACROSS_ACROSS, /* dw = dy^T x: a long K */
} d9_gemm_form;

typedef struct d9_gemm {
    d9_gemm_form form;
    int64_t m, n, k;
    d9_gemm_source a, b;
    d9_gemm_target c;
} d9_gemm;

int64_t d9_gemm_scratch_bytes(const d9_cpu *cpu, const d9_gemm *gemm);
void d9_gemm_run(const d9_cpu *cpu, const d9_gemm *gemm, void *scratch); /* aligned to 64 bytes */

/* A plain (rows, columns) array as a source, and as a target. */
d9_gemm_source d9_gemm_matrix(d9_kernel_in x, int64_t rows, int64_t columns);
d9_gemm_target d9_gemm_result(d9_kernel_out y, int64_t rows, int64_t columns);

/* ---- what the loops share with the driver ---- */

/* Packed blocks are counted in lanes: a lane is one f32 of K, or as `pairs` two neighbours of bf16. */
enum { D9_GEMM_LINE = 16 }; /* lanes of a row that lie together where a block is packed along K */

struct d9_gemm_tile { /* what a level's product works on */
    bool pairs;       /* multiplies bf16 as it is */
    int rows, width;
    int rows_across; /* best number of rows for an `a` across K; set from m */
};

struct d9_gemm_pack { /* a block to pack: panels of `panel` rows or columns, each of `lanes` steps */
    const d9_gemm_source *source;
    bool pairs;
    int64_t from, count; /* rows or columns; where a panel has more, they are zero */
    int64_t k, k_count;  /* elements along K */
    int panel;
    int64_t lanes;
    float *temporary[2]; /* room for a row's part of the block each */
    float *to;
};

typedef void d9_gemm_product(const float *a, const float *b, int64_t lanes, bool add, float *c);

struct d9_gemm_block { /* packed operands to multiply */
    bool pairs, across;
    int rows;
    int64_t rows_count, columns_count, lanes;
    const float *a, *b;
    bool add, last;        /* whether there are sums of earlier K; whether this is the end of K */
    bool alone;            /* one K block: a tile of sums need not stay */
    float *sums;           /* (panels of b, panels of a, rows, width) */
    const int64_t *places; /* of each row in y: element of its first column */
    d9_kernel_out y;
};

#endif
