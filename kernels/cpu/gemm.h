/* The product of two matrices, which are packed from arrays of any layout:
 *
 *   c (M, N) = sum over k of a (M, K) b (K, N)
 *
 * Only the packing code knows the addresses of an operand's elements: it reads both operands as rows of patches of an
 * array (implicit im2col), in blocks that fit into the caches; elements outside of the array are zero. Sums are f32 and
 * are rounded to the target's type at the end.
 *
 * K is split at positions that depend only on shape, type and instruction set, and the parts are added in order. The
 * result therefore depends neither on the number of threads nor on the cache sizes. */
#pragma once

#include "kernels/cpu/kernels.h"

/* An operand, as rows of patches of x. Row (n, h, w) has index (n * high + h) * wide + w. Its elements are the patch
 * (taps_high, taps_wide, channels) of image n that begins at line h * step + top and pixel w * step + left. */
typedef struct d9_gemm_source {
    d9_kernel_in x;
    int64_t start; /* index in x of the first pixel of image 0 */
    int64_t high, wide;
    int64_t image, line, pixel; /* strides in elements of x */
    int64_t height, width;      /* of x */
    int64_t step, top, left;
    int64_t taps_high, taps_wide, channels; /* with more than one tap, `pixel` must equal `channels` */
} d9_gemm_source;

/* Row (n, h, w), indexed as above, begins at element start + n * image + h * line + w * pixel of y. The sums are
 * rounded to the type of y before a bias is added, as by a separate node. */
typedef struct d9_gemm_target {
    d9_kernel_out y;
    int64_t start;
    int64_t high, wide;
    int64_t image, line, pixel;
    const float *bias; /* (N); NULL: none. Must be NULL for D9_GEMM_ACROSS_ACROSS */
} d9_gemm_target;

/* Meaning of a source's rows. Along K: row r is row r of a, or column r of b. Across K: row r holds the operands of
 * step r of the reduction. With D9_GEMM_ACROSS_ACROSS the target must be a plain (M, N) array. */
typedef enum d9_gemm_form {
    D9_GEMM_ALONG_ALONG,   /* a along K, b along K: y = x w^T */
    D9_GEMM_ALONG_ACROSS,  /* a along K, b across K: dx = dy w */
    D9_GEMM_ACROSS_ACROSS, /* both across K, which may be long: dw = dy^T x */
} d9_gemm_form;

typedef struct d9_gemm {
    d9_gemm_form form;
    int64_t m, n, k;
    d9_gemm_source a, b;
    d9_gemm_target c;
} d9_gemm;

/* Bytes of scratch for d9_gemm_run with operands of these types. */
int64_t d9_gemm_scratch_bytes(const d9_cpu *cpu, const d9_gemm *gemm);
/* The larger of the scratch sizes for f32 and for bf16 operands. Either can be larger: pairs of bf16 have shorter
 * blocks of K, which allow larger blocks of rows. */
int64_t d9_gemm_max_scratch_bytes(const d9_cpu *cpu, d9_gemm gemm);
void d9_gemm_run(const d9_cpu *cpu, const d9_gemm *gemm, void *scratch); /* scratch: aligned to 64 bytes */

/* A plain (rows, columns) array as a source, and as a target. */
d9_gemm_source d9_gemm_matrix(d9_kernel_in x, int64_t rows, int64_t columns);
d9_gemm_target d9_gemm_result(d9_kernel_out y, int64_t rows, int64_t columns);

/* ---- shared by the loops and the driver ---- */

/* Packed blocks are measured in lanes: a lane is one f32 along K or, with `pairs`, two neighbouring bf16. */
enum {
    D9_GEMM_LINE = 16,    /* consecutive lanes of a row in a block packed along K */
    D9_GEMM_AT_ONCE = 16, /* lanes that are packed together in a block packed across K */
};

struct d9_gemm_pack { /* a block to pack, as panels of `panel` rows or columns by `lanes` lanes */
    const d9_gemm_source *source;
    bool pairs;
    int64_t from, count; /* rows or columns; the rest of the last panel is zero */
    int64_t k, k_count;  /* elements along K */
    int panel;
    int64_t lanes;
    float *temporary; /* buffer for parts of 2 D9_GEMM_AT_ONCE rows of the source, `temporary_row` floats apart */
    int64_t temporary_row;
    float *to;
};

struct d9_gemm_block { /* packed operands to multiply */
    bool pairs, across;
    int64_t rows_count, columns_count, lanes;
    const float *a, *b;
    bool add, last;            /* add to the sums of earlier K blocks; this is the last K block */
    bool single_block;         /* there is one K block: tile sums are not kept */
    float *sums;               /* (panels of b, register tiles of a, their rows, width) */
    const int64_t *row_starts; /* index in y of each row's first column */
    const float *bias;         /* of the first column; NULL: none */
    d9_kernel_out y;
};
