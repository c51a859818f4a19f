/* Matrix product, the hot loop of the reference backend: rows of c accumulate multiples of rows of b. Sums are not
 * reordered and operations are not contracted. */
#include "backends/reference/reference.h"

enum { COLUMN_BLOCK = 512, DEPTH_BLOCK = 32 }; /* a block of b has 128 KiB, which stay in the level 2 cache */

/* UBSan is disabled: sums of doubles have no undefined behaviour, and AddressSanitizer still checks each access. With
 * UBSan, unit.tricks_pairs took 39 s instead of 29 (two cores of an AMD EPYC, Zen 4). */
D9_REFERENCE_CLONED __attribute__((no_sanitize("undefined"))) static void
add_multiples(const double *a, int64_t a_column, const double *b, int64_t stride, int64_t depth, int64_t columns,
              double *restrict c) {
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4) {
        const double a0 = a[k * a_column], a1 = a[(k + 1) * a_column], a2 = a[(k + 2) * a_column],
                     a3 = a[(k + 3) * a_column];
        const double *b0 = b + k * stride, *b1 = b0 + stride, *b2 = b1 + stride, *b3 = b2 + stride;
#pragma omp simd
        for (int64_t j = 0; j < columns; j++) c[j] = c[j] + a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j];
    }
    for (; k < depth; k++) {
        const double a0 = a[k * a_column];
        const double *b0 = b + k * stride;
#pragma omp simd
        for (int64_t j = 0; j < columns; j++) c[j] += a0 * b0[j];
    }
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

void d9_reference_matmul(const double *a, int64_t a_row, int64_t a_column, const double *b, int64_t rows, int64_t depth,
                         int64_t columns, double *c) {
    for (int64_t j = 0; j < columns; j += COLUMN_BLOCK)
        for (int64_t k = 0; k < depth; k += DEPTH_BLOCK)
            for (int64_t i = 0; i < rows; i++)
                add_multiples(a + i * a_row + k * a_column, a_column, b + k * columns + j, columns,
                              smaller(DEPTH_BLOCK, depth - k), smaller(COLUMN_BLOCK, columns - j), c + i * columns + j);
}
