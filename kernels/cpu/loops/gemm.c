/* Packing and multiplying the blocks of a product (kernels/cpu/gemm.h). Three packed forms of (K, panel) blocks:
 *
 *   along        (lines of K, panel, D9_GEMM_LINE)   an operand whose rows run along K: whole lines are copied
 *   across       (K, panel)                          an operand whose rows are steps of K: pieces of rows are copied
 *   transposed   (K, panel)                          rows along K, transposed: only for weights, which are small */
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/integers.h"
#include "kernels/cpu/loops/product.h"
#include "kernels/cpu/loops/tile.h"

#include <string.h>

enum { LINE = D9_GEMM_LINE, WIDTH = D9_PRODUCT_WIDTH };

/* Possible tile heights of a product across K; several, so that few rows are wasted if m is small. */
#ifdef __AVX512F__
#define ROW_COUNTS(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define ROW_COUNTS(X) X(6)
#endif

/* The cost of a tile is its height + 1: each step also loads a row of b, which costs about as much as a row of sums. */
void D9_LOOP_NAME(gemm_tile)(int64_t m, struct d9_gemm_tile *tile) {
    int64_t best = INT64_MAX;
    *tile = (struct d9_gemm_tile){.pairs = D9_PRODUCT_PAIRS, .rows = D9_PRODUCT_ROWS, .width = WIDTH};
#define TRY_(count)                                                                                                    \
    if ((m + count - 1) / count * (count + 1) <= best)                                                                 \
        best = (m + count - 1) / count * (count + 1), tile->rows_across = count;
    ROW_COUNTS(TRY_)
#undef TRY_
}

/* ---- rows of patches ---- */

typedef struct place {
    int64_t n, h, w;
} place;

static place place_of(const struct d9_gemm_source *s, int64_t row) {
    return (place){row / s->wide / s->high, row / s->wide % s->high, row % s->wide};
}

static void advance(const struct d9_gemm_source *s, place *at) {
    if (++at->w < s->wide) return;
    at->w = 0;
    if (++at->h < s->high) return;
    at->h = 0;
    at->n++;
}

/* ---- copying a few elements: loops with fixed trip counts, which compile to masked vectors ---- */

static inline __attribute__((always_inline)) void move_f32(const float *from, int64_t n, float *to) {
    for (; n >= LINE; n -= LINE, from += LINE, to += LINE) memcpy(to, from, LINE * 4);
#pragma omp simd
    for (int i = 0; i < LINE; i++)
        if (i < n) to[i] = from[i];
}

static inline __attribute__((always_inline)) void move_bf16(const uint16_t *from, int64_t n, uint16_t *to) {
    for (; n >= 2 * LINE; n -= 2 * LINE, from += 2 * LINE, to += 2 * LINE) memcpy(to, from, LINE * 4);
#pragma omp simd
    for (int i = 0; i < 2 * LINE; i++)
        if (i < n) to[i] = from[i];
}

static inline __attribute__((always_inline)) void clear(int64_t n, float *to) { /* n < 2 LINE */
#pragma omp simd
    for (int i = 0; i < 2 * LINE; i++)
        if (i < n) to[i] = 0;
}

/* Copies n elements of x from index `at`: bf16 is widened to f32 unless `narrow`. */
static inline __attribute__((always_inline)) void move(const d9_kernel_in *x, bool narrow, int64_t at, int64_t n,
                                                       void *to) {
    if (x->store == D9_KERNEL_F32)
        move_f32((const float *)x->data + at, n, to);
    else if (narrow)
        move_bf16((const uint16_t *)x->data + at, n, to);
    else
        d9_bf16_widen((const uint16_t *)x->data + at, n, to);
}

/* ---- a part of a row: contiguous pieces of x, and zeros ---- */

typedef struct walk {
    int64_t line, from, left; /* next piece: line of x, first element in the patch's line; elements left to copy */
    int64_t run, low, high;   /* a line of the patch has `run` elements, of which [low, high) are inside of x */
    int64_t row;              /* index in x at which the patch would begin if it began at line 0 */
} walk;

static inline walk walk_of(const struct d9_gemm_source *s, place at, int64_t from, int64_t count) {
    const int64_t pixel = at.w * s->step + s->left, run = s->taps_wide * s->channels;
    walk w = {.line = at.h * s->step + s->top, .from = from, .left = count, .run = run};
    w.low = d9_min(d9_max(-pixel, 0), s->taps_wide) * s->channels;
    w.high = d9_max(d9_min(s->width - pixel, s->taps_wide) * s->channels, w.low);
    w.row = s->start + at.n * s->image + pixel * s->pixel;
    if (count > 0 && from >= run) w.line += from / run, w.from = from % run;
    return w;
}

/* Returns the length of the next piece and sets `at` to its first index in x, or to -1 if the piece is zeros. */
static inline int64_t next_piece(const struct d9_gemm_source *s, walk *w, int64_t *at) {
    int64_t until = w->run, piece;
    *at = -1;
    if (w->line >= 0 && w->line < s->height) {
        if (w->from >= w->low && w->from < w->high)
            *at = w->row + w->line * s->line + w->from, until = w->high;
        else if (w->from < w->low)
            until = w->low;
    }
    piece = d9_min(until - w->from, w->left);
    w->left -= piece;
    w->from += piece;
    if (w->from == w->run) w->from = 0, w->line++;
    return piece;
}

/* Returns `count` elements of a row from element `from`, as f32 or bf16: a pointer into x if they are contiguous there
 * in that type, otherwise `to`, into which they are copied. */
static const void *fetch(const struct d9_gemm_source *s, place place, bool narrow, int64_t from, int64_t count,
                         void *to) {
    const int64_t bytes = narrow ? 2 : 4;
    walk w = walk_of(s, place, from, count);
    for (char *end = to; w.left > 0;) {
        int64_t at, piece = next_piece(s, &w, &at);
        if (piece == count && at >= 0 && bytes == d9_kernel_store_bytes(s->x.store))
            return (const char *)s->x.data + at * bytes;
        if (at < 0)
            memset(end, 0, (size_t)(piece * bytes));
        else
            move(&s->x, narrow, at, piece, end);
        end += piece * bytes;
    }
    return to;
}

/* Copies elements of a row as lines of `length` elements, `stride` floats apart; zeros fill up the last line. */
static inline __attribute__((always_inline)) void copy_lines(const struct d9_gemm_source *s, place place, bool narrow,
                                                             int64_t from, int64_t count, const int64_t length,
                                                             int64_t stride, float *to) {
    const int64_t bytes = narrow ? 2 : 4;
    walk w = walk_of(s, place, from, count);
    int64_t filled = 0; /* elements of the line at `to` */
    while (w.left > 0) {
        int64_t at, piece = next_piece(s, &w, &at);
        while (piece > 0) {
            const int64_t here = d9_min(piece, length - filled);
            char *end = (char *)to + filled * bytes;
            if (at < 0) {
                memset(end, 0, (size_t)(here * bytes));
            } else if (here == length && bytes == d9_kernel_store_bytes(s->x.store)) {
                memcpy(end, (const char *)s->x.data + at * bytes, (size_t)(length * bytes));
                at += here;
            } else {
                move(&s->x, narrow, at, here, end);
                at += here;
            }
            piece -= here;
            filled += here;
            if (filled == length) filled = 0, to += stride;
        }
    }
    if (filled == 0) return;
    if (narrow)
        memset((char *)to + filled * 2, 0, (size_t)((length - filled) * 2));
    else
        clear(length - filled, to + filled);
}

/* ---- packing ---- */

static inline __attribute__((always_inline)) void pack_along(const struct d9_gemm_pack *p, const bool pairs) {
    const int64_t lines = d9_parts_of(p->lanes, LINE), stride = p->panel * LINE;
    place at = place_of(p->source, p->from);
    for (int64_t first = 0; first < p->count; first += p->panel)
        for (int64_t r = 0; r < p->panel; r++) {
            float *to = p->to + first * lines * LINE + r * LINE;
            if (first + r < p->count) {
                copy_lines(p->source, at, pairs, p->k, p->k_count, pairs ? 2 * LINE : LINE, stride, to);
                advance(p->source, &at);
            } else {
                for (int64_t g = 0; g < lines; g++) memset(to + g * stride, 0, LINE * 4);
            }
        }
}

void D9_LOOP_NAME(gemm_pack_along)(const struct d9_gemm_pack *p) {
    if (p->pairs)
        pack_along(p, true);
    else
        pack_along(p, false);
}

static inline __attribute__((always_inline)) void interleave(const int64_t panel, const uint16_t *low,
                                                             const uint16_t *high, int64_t count, int64_t stride,
                                                             uint32_t *to) {
    for (; count >= panel; count -= panel, low += panel, high += panel, to += stride) {
#pragma omp simd
        for (int64_t i = 0; i < panel; i++) to[i] = (uint32_t)low[i] | (uint32_t)high[i] << 16;
    }
    if (count == 0) return;
    for (int64_t i = 0; i < panel; i++) to[i] = i < count ? (uint32_t)low[i] | (uint32_t)high[i] << 16 : 0;
}

static inline __attribute__((always_inline)) void pack_across(const struct d9_gemm_pack *p, const int64_t panel) {
    place at = place_of(p->source, p->k);
    for (int64_t k = 0; k < p->lanes; k++) {
        copy_lines(p->source, at, false, p->from, p->count, panel, panel * p->lanes, p->to + k * panel);
        advance(p->source, &at);
    }
}

static inline __attribute__((always_inline)) void pack_pairs_across(const struct d9_gemm_pack *p, const int64_t panel) {
    place at = place_of(p->source, p->k);
    for (int64_t k = 0; k < p->lanes; k++) {
        const uint16_t *row[2];
        for (int i = 0; i < 2; i++) {
            row[i] = (const uint16_t *)(const void *)p->temporary[i];
            if (2 * k + i < p->k_count)
                row[i] = fetch(p->source, at, true, p->from, p->count, p->temporary[i]);
            else
                memset(p->temporary[i], 0, (size_t)p->count * 2);
            advance(p->source, &at);
        }
        interleave(panel, row[0], row[1], p->count, panel * p->lanes, (uint32_t *)(void *)(p->to + k * panel));
    }
}

void D9_LOOP_NAME(gemm_pack_across)(const struct d9_gemm_pack *p) {
    switch (p->panel * 2 + p->pairs) {
#define CASE_(rows)                                                                                                    \
    case rows * 2:                                                                                                     \
        pack_across(p, rows);                                                                                          \
        break;                                                                                                         \
    case rows * 2 + 1:                                                                                                 \
        pack_pairs_across(p, rows);                                                                                    \
        break;
        ROW_COUNTS(CASE_)
        CASE_(WIDTH)
#undef CASE_
    default:
        break;
    }
}

void D9_LOOP_NAME(gemm_pack_transposed)(const struct d9_gemm_pack *p) {
    const int64_t bytes = p->k_count * (p->pairs ? 2 : 4);
    place at = place_of(p->source, p->from);
    for (int64_t first = 0; first < p->count; first += p->panel)
        for (int64_t c = 0; c < p->panel; c++) {
            float *to = p->to + first * p->lanes + c, lane = 0;
            int64_t k = 0;
            if (first + c < p->count) {
                const char *row = fetch(p->source, at, p->pairs, p->k, p->k_count, p->temporary[0]);
                advance(p->source, &at);
                for (; (k + 1) * 4 <= bytes; k++) memcpy(to + k * p->panel, row + k * 4, 4);
                if (bytes % 4) memcpy(&lane, row + k * 4, 2), to[k++ * p->panel] = lane;
            }
            for (; k < p->lanes; k++) to[k * p->panel] = 0;
        }
}

/* ---- multiplying ---- */

static void along(const float *a, const float *b, int64_t lanes, bool add, float *c) {
    d9_product_tail(false, true, D9_PRODUCT_ROWS, (d9_product_layout){LINE, 1, LINE}, a, D9_PRODUCT_ROWS * LINE, b,
                    lanes / LINE, lanes % LINE, add, c, WIDTH);
}
#define ACROSS_(rows)                                                                                                  \
    static void across_##rows(const float *a, const float *b, int64_t lanes, bool add, float *c) {                     \
        d9_product_tail(false, true, rows, (d9_product_layout){1, rows, 4}, a, 4 * rows, b, lanes / 4, lanes % 4, add, \
                        c, WIDTH);                                                                                     \
    }
ROW_COUNTS(ACROSS_)

#ifdef __AVX512BF16__
static void along_pairs(const float *a, const float *b, int64_t lanes, bool add, float *c) {
    d9_product_tail(true, true, D9_PRODUCT_ROWS, (d9_product_layout){LINE, 1, LINE}, a, D9_PRODUCT_ROWS * LINE, b,
                    lanes / LINE, lanes % LINE, add, c, WIDTH);
}
#define ACROSS_PAIRS_(rows)                                                                                            \
    static void across_pairs_##rows(const float *a, const float *b, int64_t lanes, bool add, float *c) {               \
        d9_product_tail(true, true, rows, (d9_product_layout){1, rows, 4}, a, 4 * rows, b, lanes / 4, lanes % 4, add,  \
                        c, WIDTH);                                                                                     \
    }
ROW_COUNTS(ACROSS_PAIRS_)
#define PAIRED(name, plain) name
#else
#define PAIRED(name, plain) plain /* this level has no bf16 pairs */
#endif

static d9_gemm_product *product_of(bool pairs, bool is_across, int rows) {
    if (!is_across) return pairs ? PAIRED(along_pairs, along) : along;
    switch (rows) {
#define CASE_(count)                                                                                                   \
    case count:                                                                                                        \
        return pairs ? PAIRED(across_pairs_##count, across_##count) : across_##count;
        ROW_COUNTS(CASE_)
#undef CASE_
    default:
        return NULL;
    }
}

static void put(const float *sums, int64_t count, int64_t at, d9_kernel_out y) {
    if (y.store == D9_KERNEL_F32) {
        if (count == WIDTH)
            memcpy((float *)y.data + at, sums, WIDTH * 4);
        else
            move_f32(sums, count, (float *)y.data + at);
    } else {
        d9_bf16_narrow(sums, count, (uint16_t *)y.data + at);
    }
}

/* A panel of b is multiplied by all panels of a before the next one, so it can stay in the L1 cache. */
void D9_LOOP_NAME(gemm_multiply)(const struct d9_gemm_block *g) {
    d9_gemm_product *product = product_of(g->pairs, g->across, g->rows);
    const int64_t lines = d9_round_up(g->lanes, LINE), a_panel = g->rows * (g->across ? g->lanes : lines);
    float *sums = g->sums;
    for (int64_t column = 0; column < g->columns_count; column += WIDTH)
        for (int64_t row = 0; row < g->rows_count; row += g->rows) {
            product(g->a + row / g->rows * a_panel, g->b + column * g->lanes, g->lanes, g->add, sums);
            for (int64_t r = 0; g->last && r < g->rows && row + r < g->rows_count; r++)
                put(sums + r * WIDTH, d9_min(WIDTH, g->columns_count - column), g->places[row + r] + column, g->y);
            if (!g->alone) sums += g->rows * WIDTH;
        }
}

void D9_LOOP_NAME(gemm_reduce)(const float *sums, int64_t slices, int64_t stride, int64_t begin, int64_t end,
                               d9_kernel_out y) {
    d9_tile tile;
    for (int64_t at = begin, count; at < end; at += count) {
        count = d9_tile_count(at, end);
        float *to = d9_tile_target(y, at, tile);
        memcpy(to, sums + at, (size_t)count * 4);
        for (int64_t s = 1; s < slices; s++) {
            const float *from = sums + s * stride + at;
#pragma omp simd
            for (int64_t i = 0; i < count; i++) to[i] += from[i];
        }
        d9_tile_store(y, at, count, tile);
    }
}
