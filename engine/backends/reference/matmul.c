/* Matrix product, the hot loop of the reference backend. In every tile, each sum adds its products one by one in the
 * order of k, without fused multiply-adds. */
#include "backends/reference/reference.h"

#include <string.h>

enum { COLUMN_BLOCK = 64, DEPTH_BLOCK = 32 }; /* a block of b has 16 KiB, which stay in the level 1 cache */
enum { ROWS = 4 };                            /* rows of a tile; its sums stay in registers */
enum { ROWS_TO_PACK = 8 };                    /* smallest number of rows of a for which copying a block of b pays */

typedef struct block { /* c += a b, all three within larger matrices */
    const double *a, *b;
    double *c;
    int64_t a_row, a_column, b_row, c_row; /* strides in doubles */
    int64_t depth;
} block;

typedef double wide __attribute__((vector_size(64), aligned(8), may_alias));
typedef double narrow __attribute__((vector_size(32), aligned(8), may_alias));

/* Defines `name`: computes `rows` rows (ROWS or 1) of a block from row i on, in columns [j, j + lanes of `type`). */
#define TILE(name, type)                                                                                               \
    __attribute__((always_inline)) static inline void name(const block *p, int64_t i, int64_t j, int rows) {           \
        const double *a = p->a + i * p->a_row, *b = p->b + j;                                                          \
        double *c = p->c + i * p->c_row + j;                                                                           \
        const int64_t row = rows == ROWS ? p->c_row : 0, a_row = rows == ROWS ? p->a_row : 0;                          \
        type c0 = *(type *)c, c1 = *(type *)(c + row), c2 = *(type *)(c + 2 * row), c3 = *(type *)(c + 3 * row);       \
        for (int64_t k = 0; k < p->depth; k++, a += p->a_column, b += p->b_row) {                                      \
            const type bk = *(const type *)b;                                                                          \
            c0 += a[0] * bk;                                                                                           \
            if (rows == 1) continue;                                                                                   \
            c1 += a[a_row] * bk;                                                                                       \
            c2 += a[2 * a_row] * bk;                                                                                   \
            c3 += a[3 * a_row] * bk;                                                                                   \
        }                                                                                                              \
        *(type *)c = c0;                                                                                               \
        if (rows == 1) return;                                                                                         \
        *(type *)(c + row) = c1;                                                                                       \
        *(type *)(c + 2 * row) = c2;                                                                                   \
        *(type *)(c + 3 * row) = c3;                                                                                   \
    }
TILE(add_wide, wide)
TILE(add_narrow, narrow)
TILE(add_single, double)

__attribute__((always_inline)) static inline void add_rows(const block *p, int64_t i, int64_t columns, int rows) {
    int64_t j = 0;
    for (; j + 8 <= columns; j += 8) add_wide(p, i, j, rows);
    for (; j + 4 <= columns; j += 4) add_narrow(p, i, j, rows);
    for (; j < columns; j++) add_single(p, i, j, rows);
}

D9_REFERENCE_CLONED static void add_block(const block *p, int64_t rows, int64_t columns) {
    int64_t i = 0;
    for (; i + ROWS <= rows; i += ROWS) add_rows(p, i, columns, ROWS);
    for (; i < rows; i++) add_rows(p, i, columns, 1);
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* If b is wide and a has at least ROWS_TO_PACK rows, each block of b is copied first: rows of b at a distance of a
 * power of two would share a few sets of the cache and evict each other. */
void d9_reference_matmul(const double *a, int64_t a_row, int64_t a_column, const double *b, int64_t rows, int64_t depth,
                         int64_t columns, double *c) {
    double packed[DEPTH_BLOCK * COLUMN_BLOCK];
    const bool packs = columns > COLUMN_BLOCK && rows >= ROWS_TO_PACK;
    block p = {.a_row = a_row, .a_column = a_column, .b_row = packs ? COLUMN_BLOCK : columns, .c_row = columns};
    for (int64_t k = 0; k < depth; k += DEPTH_BLOCK)
        for (int64_t j = 0; j < columns; j += COLUMN_BLOCK) {
            const int64_t width = smaller(COLUMN_BLOCK, columns - j);
            const double *from = b + k * columns + j;
            p.depth = smaller(DEPTH_BLOCK, depth - k);
            for (int64_t r = 0; packs && r < p.depth; r++)
                memcpy(packed + r * COLUMN_BLOCK, from + r * columns, (size_t)width * sizeof *packed);
            p.a = a + k * a_column;
            p.b = packs ? packed : from;
            p.c = c + j;
            add_block(&p, rows, width);
        }
}
