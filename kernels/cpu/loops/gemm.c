/* Packing and multiplying the blocks of a product (kernels/cpu/gemm.h). Three packed forms of (K, panel) blocks:
 *
 *   along    (lines of K, panel, D9_GEMM_LINE)   an operand whose rows go along K: whole lines are copied
 *   across   (K, panel)                          one whose rows are steps of K: pieces of rows are copied
 *   turned   (K, panel)                          from rows along K: weights alone, which are few */
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/loops/product.h"
#include "kernels/cpu/loops/tile.h"

#include <string.h>

enum { LINE = D9_GEMM_LINE, WIDTH = D9_PRODUCT_WIDTH };

/* Numbers of rows that a product across K may have, so that few are wasted where there are not many. */
#ifdef __AVX512F__
#define ROW_COUNTS(X) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
#define ROW_COUNTS(X) X(6)
#endif

/* Each step loads a row of b as well, which costs about as much as one row of sums. */
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

typedef struct place { int64_t n, h, w; } place;

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

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static void take(const struct d9_gemm_source *s, bool narrow, int64_t at, int64_t count, void *to) {
    if (s->x.store == D9_KERNEL_F32) memcpy(to, (const float *)s->x.data + at, (size_t)count * 4);
    else if (narrow) memcpy(to, (const uint16_t *)s->x.data + at, (size_t)count * 2);
    else d9_bf16_widen((const uint16_t *)s->x.data + at, count, to);
}

/* `count` elements of a row, from element `from`, as f32 or as bf16: where they lie, or put together in `to`. */
static const void *fetch(const struct d9_gemm_source *s, place at, bool narrow, int64_t from, int64_t count, void *to) {
    const int64_t run = s->taps_wide * s->channels, pixel = at.w * s->step + s->left, bytes = narrow ? 2 : 4;
    const int64_t low = least(most(-pixel, 0), s->taps_wide) * s->channels, /* of a run lies in x */
        high = most(least(s->width - pixel, s->taps_wide) * s->channels, low);
    int64_t line = at.h * s->step + s->top;
    if (count > 0 && from >= run) line += from / run, from %= run;
    char *end = to;
    while (count > 0) {
        const int64_t here = least(count, run - from), until = from + here;
        const bool inside = line >= 0 && line < s->height;
        const int64_t first = inside ? most(from, low) : until, last = inside ? least(until, high) : until;
        const int64_t start = s->start + at.n * s->image + line * s->line + pixel * s->pixel + first;
        if (here == count && end == (char *)to && first == from && last == until && inside &&
            bytes == d9_kernel_store_bytes(s->x.store))
            return (const char *)s->x.data + start * bytes;
        if (first >= last) {
            memset(end, 0, (size_t)(here * bytes));
        } else {
            memset(end, 0, (size_t)((first - from) * bytes));
            take(s, narrow, start, last - first, end + (first - from) * bytes);
            memset(end + (last - from) * bytes, 0, (size_t)((until - last) * bytes));
        }
        end += here * bytes;
        count -= here;
        from = 0;
        line++;
    }
    return to;
}

/* ---- packing ---- */

static void copy_lines(const char *row, int64_t bytes, int64_t lines, int64_t stride, float *to) {
    int64_t g = 0;
    for (; (g + 1) * LINE * 4 <= bytes; g++) memcpy(to + g * stride, row + g * LINE * 4, LINE * 4);
    if (g == lines) return;
    memset(to + g * stride, 0, LINE * 4);
    if (bytes > g * LINE * 4) memcpy(to + g * stride, row + g * LINE * 4, (size_t)(bytes - g * LINE * 4));
}

void D9_LOOP_NAME(gemm_pack_along)(const struct d9_gemm_pack *p) {
    const int64_t lines = (p->lanes + LINE - 1) / LINE, stride = p->panel * LINE;
    const int64_t bytes = p->k_count * (p->pairs ? 2 : 4);
    place at = place_of(p->source, p->from);
    for (int64_t first = 0; first < p->count; first += p->panel) {
        float *panel = p->to + first * lines * LINE;
        for (int64_t r = 0; r < p->panel; r++) {
            if (first + r >= p->count) {
                copy_lines(NULL, 0, lines, stride, panel + r * LINE);
                continue;
            }
            copy_lines(fetch(p->source, at, p->pairs, p->k, p->k_count, p->temporary[0]), bytes, lines, stride,
                       panel + r * LINE);
            advance(p->source, &at);
        }
    }
}

static inline __attribute__((always_inline)) void spread_by(const int64_t panel, const float *row, int64_t count,
                                                            int64_t stride, float *to) {
    for (; count >= panel; count -= panel, row += panel, to += stride) memcpy(to, row, (size_t)panel * 4);
    if (count == 0) return;
    memcpy(to, row, (size_t)count * 4);
    memset(to + count, 0, (size_t)(panel - count) * 4);
}

static void spread(int panel, const float *row, int64_t count, int64_t stride, float *to) {
    switch (panel) {
#define CASE_(rows) case rows: spread_by(rows, row, count, stride, to); break;
        ROW_COUNTS(CASE_)
#undef CASE_
    default: spread_by(WIDTH, row, count, stride, to); break;
    }
}

static void interleave(const uint16_t *low, const uint16_t *high, int64_t n, uint32_t *to) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = (uint32_t)low[i] | (uint32_t)high[i] << 16;
}

void D9_LOOP_NAME(gemm_pack_across)(const struct d9_gemm_pack *p) {
    const int64_t stride = p->panel * p->lanes, each = p->pairs ? 2 : 1;
    place at = place_of(p->source, p->k);
    for (int64_t k = 0; k < p->lanes * each; k += each) {
        const void *row[2];
        for (int64_t i = 0; i < each; i++) {
            if (k + i < p->k_count) {
                row[i] = fetch(p->source, at, p->pairs, p->from, p->count, p->temporary[i]);
                advance(p->source, &at);
            } else {
                row[i] = memset(p->temporary[i], 0, (size_t)p->count * 4);
            }
        }
        if (p->pairs) {
            interleave(row[0], row[1], p->count, (uint32_t *)(void *)p->temporary[2]);
            row[0] = p->temporary[2];
        }
        spread(p->panel, row[0], p->count, stride, p->to + k / each * p->panel);
    }
}

void D9_LOOP_NAME(gemm_pack_turned)(const struct d9_gemm_pack *p) {
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
    d9_product_tail(false, D9_PRODUCT_ROWS, (d9_product_layout){LINE, 1, LINE}, a, D9_PRODUCT_ROWS * LINE, b,
                    lanes / LINE, lanes % LINE, add, c, WIDTH);
}
#define ACROSS_(rows)                                                                                                  \
    static void across_##rows(const float *a, const float *b, int64_t lanes, bool add, float *c) {                     \
        d9_product_tail(false, rows, (d9_product_layout){1, rows, 4}, a, 4 * rows, b, lanes / 4, lanes % 4, add, c,    \
                        WIDTH);                                                                                        \
    }
ROW_COUNTS(ACROSS_)

#ifdef __AVX512BF16__
static void along_pairs(const float *a, const float *b, int64_t lanes, bool add, float *c) {
    d9_product_tail(true, D9_PRODUCT_ROWS, (d9_product_layout){LINE, 1, LINE}, a, D9_PRODUCT_ROWS * LINE, b,
                    lanes / LINE, lanes % LINE, add, c, WIDTH);
}
#define ACROSS_PAIRS_(rows)                                                                                            \
    static void across_pairs_##rows(const float *a, const float *b, int64_t lanes, bool add, float *c) {               \
        d9_product_tail(true, rows, (d9_product_layout){1, rows, 4}, a, 4 * rows, b, lanes / 4, lanes % 4, add, c,     \
                        WIDTH);                                                                                        \
    }
ROW_COUNTS(ACROSS_PAIRS_)
#define PAIRED(name, plain) name
#else
#define PAIRED(name, plain) plain /* nothing is packed as pairs */
#endif

static d9_gemm_product *product_of(bool pairs, bool is_across, int rows) {
    if (!is_across) return pairs ? PAIRED(along_pairs, along) : along;
    switch (rows) {
#define CASE_(count) case count: return pairs ? PAIRED(across_pairs_##count, across_##count) : across_##count;
        ROW_COUNTS(CASE_)
#undef CASE_
    default: return NULL;
    }
}

static void put(const float *sums, int64_t count, int64_t at, d9_kernel_out y) {
    if (y.store == D9_KERNEL_F32) {
        if (count == WIDTH) memcpy((float *)y.data + at, sums, WIDTH * 4);
        else memcpy((float *)y.data + at, sums, (size_t)count * 4);
    } else {
        d9_bf16_narrow(sums, count, (uint16_t *)y.data + at);
    }
}

/* A panel of b stays in the first cache while all of a passes by. */
void D9_LOOP_NAME(gemm_multiply)(const struct d9_gemm_block *g) {
    d9_gemm_product *product = product_of(g->pairs, g->across, g->rows);
    const int64_t lines = (g->lanes + LINE - 1) / LINE * LINE, a_panel = g->rows * (g->across ? g->lanes : lines);
    float *sums = g->sums;
    for (int64_t column = 0; column < g->columns_count; column += WIDTH)
        for (int64_t row = 0; row < g->rows_count; row += g->rows) {
            product(g->a + row / g->rows * a_panel, g->b + column * g->lanes, g->lanes, g->add, sums);
            for (int64_t r = 0; g->last && r < g->rows && row + r < g->rows_count; r++)
                put(sums + r * WIDTH, least(WIDTH, g->columns_count - column), g->places[row + r] + column, g->y);
            if (!g->alone) sums += g->rows * WIDTH;
        }
}

void D9_LOOP_NAME(gemm_fold)(const float *sums, int64_t slices, int64_t stride, int64_t begin, int64_t end,
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
