/* Packing and multiplying the blocks of a product (kernels/cpu/gemm.h). Three packed forms of (K, panel) blocks:
 *
 *   along        (lines of K, panel, D9_GEMM_LINE)   an operand whose rows run along K: whole lines are copied
 *   across       (K, panel)                          an operand whose rows are steps of K: pieces of rows are copied
 *   transposed   (K, panel)                          b in a product a b^T: its rows run along K and are transposed */
#include "kernels/cpu/gemm.h"
#include "kernels/integers.h"
#include "kernels/cpu/loops/lanes.h"
#include "kernels/cpu/loops/product.h"
#include "kernels/cpu/loops/tile.h"

enum {
    LINE = D9_GEMM_LINE,
    LANES = D9_LANES,
    WIDTH = D9_PRODUCT_WIDTH,
    TALL = D9_PRODUCT_TALL,
    ACROSS = D9_PRODUCT_ACROSS_ROWS
};

/* ---- rows of patches ---- */

typedef struct position {
    int64_t n, h, w;
} position;

static position position_of(const struct d9_gemm_source *s, int64_t row) {
    return (position){row / s->wide / s->high, row / s->wide % s->high, row % s->wide};
}

static void advance(const struct d9_gemm_source *s, position *at) {
    if (++at->w < s->wide) return;
    at->w = 0;
    if (++at->h < s->high) return;
    at->h = 0;
    at->n++;
}

/* ---- copying a few elements: the last loops have constant trip counts, so that AVX-512 can use masks ---- */

static inline __attribute__((always_inline)) void copy_f32(const float *from, int64_t n, float *to) {
    for (; n >= LINE; n -= LINE, from += LINE, to += LINE) memcpy(to, from, LINE * 4);
#pragma omp simd
    for (int i = 0; i < LINE; i++)
        if (i < n) to[i] = from[i];
}

static inline __attribute__((always_inline)) void copy_bf16(const uint16_t *from, int64_t n, uint16_t *to) {
    for (; n >= 2 * LINE; n -= 2 * LINE, from += 2 * LINE, to += 2 * LINE) memcpy(to, from, LINE * 4);
#pragma omp simd
    for (int i = 0; i < 2 * LINE; i++)
        if (i < n) to[i] = from[i];
}

static inline __attribute__((always_inline)) void clear_floats(int64_t n, float *to) { /* n < 2 LINE */
#pragma omp simd
    for (int i = 0; i < 2 * LINE; i++)
        if (i < n) to[i] = 0;
}

/* Copies n elements of x from index `at` on; bf16 is widened to f32 unless `narrow`. */
static inline __attribute__((always_inline)) void copy_elements(const d9_kernel_in *x, bool narrow, int64_t at,
                                                                int64_t n, void *to) {
    if (x->store == D9_KERNEL_F32)
        copy_f32((const float *)x->data + at, n, to);
    else if (narrow)
        copy_bf16((const uint16_t *)x->data + at, n, to);
    else
        d9_bf16_widen((const uint16_t *)x->data + at, n, to);
}

/* ---- a part of a row: contiguous pieces of x, and zeros ---- */

typedef struct walk {
    int64_t line, from, left; /* next piece: line of x, first element in the patch's line; elements left to copy */
    int64_t run, low, high;   /* a line of the patch has `run` elements, of which [low, high) are inside of x */
    int64_t row;              /* index in x at which the patch would begin if it began at line 0 */
} walk;

static inline walk walk_of(const struct d9_gemm_source *s, position at, int64_t from, int64_t count) {
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

/* Returns `count` elements of a row from element `from` on, as bf16 if `narrow`, otherwise as f32: a pointer into x if
 * they are contiguous there and have this type, otherwise `to`, into which they are copied. */
static const void *fetch_elements(const struct d9_gemm_source *s, position position, bool narrow, int64_t from,
                                  int64_t count, void *to) {
    const int64_t bytes = narrow ? 2 : 4;
    walk w = walk_of(s, position, from, count);
    for (char *end = to; w.left > 0;) {
        int64_t at, piece = next_piece(s, &w, &at);
        if (piece == count && at >= 0 && bytes == d9_kernel_store_bytes(s->x.store))
            return (const char *)s->x.data + at * bytes;
        if (at < 0)
            memset(end, 0, (size_t)(piece * bytes));
        else
            copy_elements(&s->x, narrow, at, piece, end);
        end += piece * bytes;
    }
    return to;
}

/* Copies elements [from, from + count) of a row as lines of `length` elements, `stride` floats apart, as bf16 if
 * `narrow`; zeros fill up the last line. */
static inline __attribute__((always_inline)) void copy_lines(const struct d9_gemm_source *s, position position,
                                                             bool narrow, int64_t from, int64_t count,
                                                             const int64_t length, int64_t stride, float *to) {
    const int64_t bytes = narrow ? 2 : 4;
    walk w = walk_of(s, position, from, count);
    int64_t filled = 0; /* elements already written of the line at `to` */
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
                copy_elements(&s->x, narrow, at, here, end);
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
        clear_floats(length - filled, to + filled);
}

/* ---- packing ---- */

/* True if every row is one pixel of x: neither padding nor several taps. */
static bool is_plain(const struct d9_gemm_source *s) {
    return s->taps_high == 1 && s->taps_wide == 1 && s->top >= 0 && s->left >= 0 &&
           (s->high - 1) * s->step + s->top < s->height && (s->wide - 1) * s->step + s->left < s->width;
}

/* Address of element `from` of a plain source's row. */
static inline const char *plain_row(const struct d9_gemm_source *s, position at, int64_t from) {
    const int64_t line = at.h * s->step + s->top, pixel = at.w * s->step + s->left;
    return (const char *)s->x.data +
           (s->start + at.n * s->image + line * s->line + pixel * s->pixel + from) * d9_kernel_store_bytes(s->x.store);
}

/* Copies `bytes` bytes as lines of 64 bytes, `stride` floats apart; zeros fill up the last line. */
static inline void copy_row(const char *from, int64_t bytes, int64_t stride, float *to) {
    for (; bytes >= LINE * 4; bytes -= LINE * 4, from += LINE * 4, to += stride) memcpy(to, from, LINE * 4);
    if (bytes == 0) return;
    memset(to, 0, LINE * 4);
    memcpy(to, from, (size_t)bytes);
}

static inline __attribute__((always_inline)) void pack_along(const struct d9_gemm_pack *p, const bool pairs) {
    const int64_t lines = d9_parts_of(p->lanes, LINE), stride = p->panel * LINE, bytes = pairs ? 2 : 4;
    const bool plain = is_plain(p->source) && bytes == d9_kernel_store_bytes(p->source->x.store);
    position at = position_of(p->source, p->from);
    for (int64_t first = 0; first < p->count; first += p->panel)
        for (int64_t r = 0; r < p->panel; r++) {
            float *to = p->to + first * lines * LINE + r * LINE;
            if (first + r >= p->count) {
                for (int64_t g = 0; g < lines; g++) memset(to + g * stride, 0, LINE * 4);
                continue;
            }
            if (plain)
                copy_row(plain_row(p->source, at, p->k), p->k_count * bytes, stride, to);
            else
                copy_lines(p->source, at, pairs, p->k, p->k_count, pairs ? 2 * LINE : LINE, stride, to);
            advance(p->source, &at);
        }
}

void D9_LOOP_NAME(gemm_pack_along)(const struct d9_gemm_pack *p) {
    if (p->pairs)
        pack_along(p, true);
    else
        pack_along(p, false);
}

/* Packs one lane of a panel: `count` columns of row[0] or, with pairs, of row[0] and row[1]; others are zero. */
D9_INLINE void pack_lane(const int64_t panel, const bool pairs, const void *const *row, int64_t from, int64_t count,
                         float *to) {
    if (pairs) {
        /* NOLINTNEXTLINE(clang-analyzer-core.*): the caller has set both rows */
        const uint16_t *low = (const uint16_t *)row[0] + from, *high = (const uint16_t *)row[1] + from;
        uint32_t *lane = (uint32_t *)(void *)to;
        if (count >= panel) {
#pragma omp simd
            for (int64_t i = 0; i < panel; i++) lane[i] = (uint32_t)low[i] | (uint32_t)high[i] << 16;
            return;
        }
        for (int64_t i = 0; i < panel; i++) lane[i] = i < count ? (uint32_t)low[i] | (uint32_t)high[i] << 16 : 0;
        return;
    }
    if (count < panel) memset(to, 0, (size_t)panel * 4);
    memcpy(to, (const float *)row[0] + from, (size_t)(count < panel ? count : panel) * 4);
}

/* Sets row[] to the block's elements at each K of `lanes` lanes from lane k on; advances `at`, their source row. */
D9_INLINE void fetch_rows(const struct d9_gemm_pack *p, const bool pairs, bool plain, int64_t k, int64_t lanes,
                          position *at, const void **row) {
    const int rows_per_lane = pairs ? 2 : 1;
    for (int64_t i = 0; i < lanes * rows_per_lane; i++) {
        float *temporary = p->temporary + i * p->temporary_row;
        if (k * rows_per_lane + i >= p->k_count)
            row[i] = memset(temporary, 0, (size_t)p->count * 4);
        else if (plain)
            row[i] = plain_row(p->source, *at, p->from);
        else
            row[i] = fetch_elements(p->source, *at, pairs, p->from, p->count, temporary);
        advance(p->source, at);
    }
}

/* Packs a few lanes at a time, so that each panel is written in longer stretches: the panels begin at addresses that
 * share cache sets, so partly written cache lines would be evicted. A processor does not foresee which rows come next,
 * so the next lanes' rows are prefetched if they are read in place. */
D9_INLINE void pack_across(const struct d9_gemm_pack *p, const int64_t panel, const bool pairs) {
    const int rows_per_lane = pairs ? 2 : 1;
    const int64_t bytes = pairs ? 2 : 4;
    const bool plain = is_plain(p->source) && d9_kernel_store_bytes(p->source->x.store) == bytes;
    position at = position_of(p->source, p->k);
    const void *row[2 * D9_GEMM_AT_ONCE], *next[2 * D9_GEMM_AT_ONCE];
    if (plain) fetch_rows(p, pairs, true, 0, d9_min(D9_GEMM_AT_ONCE, p->lanes), &at, next);
    for (int64_t k = 0; k < p->lanes; k += D9_GEMM_AT_ONCE) {
        const int64_t lanes = d9_min(D9_GEMM_AT_ONCE, p->lanes - k),
                      later = plain ? d9_min(D9_GEMM_AT_ONCE, p->lanes - k - lanes) : 0;
        if (plain)
            memcpy(row, next, sizeof row);
        else
            fetch_rows(p, pairs, false, k, lanes, &at, row);
        if (later > 0) fetch_rows(p, pairs, true, k + lanes, later, &at, next);
        for (int64_t first = 0; first < p->count; first += panel)
            for (int64_t i = 0; i < lanes; i++) {
                for (int64_t r = i * rows_per_lane; i < later && r < (i + 1) * rows_per_lane; r++)
                    __builtin_prefetch((const char *)next[r] + first * bytes, 0, 2);
                pack_lane(panel, pairs, row + i * rows_per_lane, first, p->count - first,
                          p->to + first * p->lanes + (k + i) * panel);
            }
    }
}

void D9_LOOP_NAME(gemm_pack_across)(const struct d9_gemm_pack *p) {
    if (p->panel == WIDTH && p->pairs)
        pack_across(p, WIDTH, true);
    else if (p->panel == WIDTH)
        pack_across(p, WIDTH, false);
    else if (p->pairs)
        pack_across(p, ACROSS, true);
    else
        pack_across(p, ACROSS, false);
}

/* Copies each line of 16 lanes before transposing it: rows may begin at addresses that share a cache set, which cannot
 * hold a line of each row. */
void D9_LOOP_NAME(gemm_pack_transposed)(const struct d9_gemm_pack *p) {
    const int64_t bytes = p->k_count * (p->pairs ? 2 : 4);
    position at = position_of(p->source, p->from);
    for (int64_t first = 0; first < p->count; first += WIDTH) {
        const int64_t columns = d9_min(WIDTH, p->count - first);
        const char *rows[WIDTH];
        float lines[WIDTH][LINE] = {{0}}, *to = p->to + first * p->lanes;
        for (int64_t c = 0; c < columns; c++) {
            rows[c] = fetch_elements(p->source, at, p->pairs, p->k, p->k_count, p->temporary + c * p->temporary_row);
            advance(p->source, &at);
        }
        for (int64_t lane = 0; lane < p->lanes; lane += LINE) {
            for (int64_t c = 0; c < columns; c++)
                copy_row(rows[c] + lane * 4, d9_min(LINE * 4, bytes - lane * 4), 0, lines[c]);
            for (int64_t k = 0; k < d9_min(LINE, p->lanes - lane); k++, to += WIDTH)
                for (int c = 0; c < WIDTH; c++) memcpy(to + c, &lines[c][k], 4);
        }
    }
}

/* ---- multiplying ---- */

typedef struct register_tile { /* rows of a times a panel of b */
    const float *a, *b;
    int64_t lanes;
    bool add;                  /* add the product to `sums` */
    float *sums;               /* (rows, WIDTH); written if row_starts is NULL, and by multiply_left */
    const int64_t *row_starts; /* index in y of each row's first column; NULL: the sums do not go to y */
    int64_t column;            /* first column */
    const float *bias;         /* of the first column; added after rounding to the type of y; NULL: none */
    d9_kernel_out y;
} register_tile;

D9_INLINE void store_sums(d9_vector sum[D9_PRODUCT_ROWS][2], const int rows, const d9_kernel_store store,
                          const register_tile *t) {
    if (t->bias) {
        const d9_vector left = *(const d9_loose_vector *)t->bias, right = *(const d9_loose_vector *)(t->bias + LANES);
        D9_UNROLL for (int i = 0; i < rows; i++) {
            sum[i][0] = d9_lanes_round(store, sum[i][0]) + left;
            sum[i][1] = d9_lanes_round(store, sum[i][1]) + right;
        }
    }
    D9_UNROLL for (int i = 0; i < rows; i++) {
        const int64_t at = t->row_starts[i] + t->column;
        if (store == D9_KERNEL_F32) {
            *(d9_loose_vector *)((float *)t->y.data + at) = sum[i][0];
            *(d9_loose_vector *)((float *)t->y.data + at + LANES) = sum[i][1];
        } else {
            *(d9_narrow_vector *)((uint16_t *)t->y.data + at) = d9_lanes_narrow(sum[i][0]);
            *(d9_narrow_vector *)((uint16_t *)t->y.data + at + LANES) = d9_lanes_narrow(sum[i][1]);
        }
    }
}

/* Computes only the left half of a panel, for a last panel with at most LANES columns; stores the sums in t->sums. */
D9_INLINE void multiply_left(const bool pairs, const int rows, const d9_product_layout l, int64_t group,
                             const register_tile *t) {
    d9_vector sum[D9_PRODUCT_ROWS];
    const float *a = t->a, *b = t->b;
    D9_UNROLL for (int i = 0; i < rows; i++) sum[i] = (d9_vector){0};
    for (int64_t groups = t->lanes / l.depth; groups > 0; groups--, a += group, b += l.depth * WIDTH) {
        D9_UNROLL for (int k = 0; k < l.depth; k++) {
            const d9_vector left = *(const d9_vector *)(b + k * WIDTH);
            D9_UNROLL for (int i = 0; i < rows; i++) sum[i] =
                d9_product_step(pairs, sum[i], a[i * l.row + k * l.step], left);
        }
    }
    for (int64_t tail = t->lanes % l.depth; tail > 0; tail--, a += l.step, b += WIDTH) {
        const d9_vector left = *(const d9_vector *)b;
        D9_UNROLL for (int i = 0; i < rows; i++) sum[i] = d9_product_step(pairs, sum[i], a[i * l.row], left);
    }
    D9_UNROLL for (int i = 0; i < rows; i++) {
        if (t->add) sum[i] += *(const d9_vector *)(t->sums + i * WIDTH);
        *(d9_vector *)(t->sums + i * WIDTH) = sum[i];
    }
}

D9_INLINE void multiply(const bool pairs, const int rows, const d9_product_layout l, int64_t group,
                        const register_tile *t) {
    d9_vector sum[D9_PRODUCT_ROWS][2];
    D9_UNROLL for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (d9_vector){0};
    d9_product_add(pairs, rows, l, t->a, group, t->b, t->lanes / l.depth, t->lanes % l.depth, sum);
    /* Earlier sums are added last, which keeps the rounding error of a long sum small. */
    if (t->add) {
        D9_UNROLL for (int i = 0; i < rows; i++) {
            sum[i][0] += *(const d9_vector *)(t->sums + i * WIDTH);
            sum[i][1] += *(const d9_vector *)(t->sums + i * WIDTH + LANES);
        }
    }
    if (t->row_starts && t->y.store == D9_KERNEL_F32) {
        store_sums(sum, rows, D9_KERNEL_F32, t);
        return;
    }
    if (t->row_starts) {
        store_sums(sum, rows, D9_KERNEL_BF16, t);
        return;
    }
    D9_UNROLL for (int i = 0; i < rows; i++) {
        *(d9_vector *)(t->sums + i * WIDTH) = sum[i][0];
        *(d9_vector *)(t->sums + i * WIDTH + LANES) = sum[i][1];
    }
}

#define TILES_(name, pairs)                                                                                            \
    static __attribute__((noinline)) void multiply_along##name(const register_tile *t) {                               \
        multiply(pairs, D9_PRODUCT_ROWS, (d9_product_layout){LINE, 1, LINE}, D9_PRODUCT_ROWS *LINE, t);                \
    }                                                                                                                  \
    static __attribute__((noinline)) void multiply_along_left##name(const register_tile *t) {                          \
        multiply_left(pairs, D9_PRODUCT_ROWS, (d9_product_layout){LINE, 1, LINE}, D9_PRODUCT_ROWS *LINE, t);           \
    }                                                                                                                  \
    static __attribute__((noinline)) void multiply_across##name(const register_tile *t) {                              \
        multiply(pairs, TALL, (d9_product_layout){1, ACROSS, 4}, 4 * ACROSS, t);                                       \
    }                                                                                                                  \
    static __attribute__((noinline)) void multiply_across_left##name(const register_tile *t) {                         \
        multiply_left(pairs, TALL, (d9_product_layout){1, ACROSS, 4}, 4 * ACROSS, t);                                  \
    }
TILES_(, false)
#ifdef __AVX512BF16__
TILES_(_pairs, true)
#endif

static void store_with_bias(float *sums, int64_t count, const float *bias, int64_t at, d9_kernel_out y) {
    if (bias && y.store == D9_KERNEL_BF16) d9_bf16_round(count, sums);
    for (int64_t i = 0; bias && i < count; i++) sums[i] += bias[i];
    if (y.store == D9_KERNEL_F32)
        copy_f32(sums, count, (float *)y.data + at);
    else
        d9_bf16_narrow(sums, count, (uint16_t *)y.data + at);
}

/* Multiplies one panel of b after the other by all panels of a, so that the panel of b can stay in the L1 cache. */
void D9_LOOP_NAME(gemm_multiply)(const struct d9_gemm_block *g) {
    void (*const whole_panel)(const register_tile *t) =
        g->across ? D9_PRODUCT_CHOOSE(multiply_across, g->pairs) : D9_PRODUCT_CHOOSE(multiply_along, g->pairs);
    void (*const left_half)(const register_tile *t) = g->across ? D9_PRODUCT_CHOOSE(multiply_across_left, g->pairs)
                                                                : D9_PRODUCT_CHOOSE(multiply_along_left, g->pairs);
    const int64_t panel = g->across ? ACROSS : D9_PRODUCT_ROWS, tall = g->across ? TALL : D9_PRODUCT_ROWS;
    const int64_t a_panel = panel * (g->across ? g->lanes : d9_round_up(g->lanes, LINE));
    float *sums = g->sums;
    for (int64_t column = 0; column < g->columns_count; column += WIDTH) {
        const int64_t columns = d9_min(WIDTH, g->columns_count - column);
        const float *bias = g->bias ? g->bias + column : NULL;
        void (*const product)(const register_tile *t) = columns > LANES ? whole_panel : left_half;
        for (int64_t row = 0; row < g->rows_count; row += tall) {
            const int64_t within = row % panel, rows = d9_min(tall, g->rows_count - row);
            const bool whole = rows == tall && columns == WIDTH; /* the product stores the last sums in y */
            product(&(register_tile){.a = g->a + row / panel * a_panel + within,
                                     .b = g->b + column * g->lanes,
                                     .lanes = g->lanes,
                                     .add = g->add,
                                     .sums = sums,
                                     .row_starts = g->last && whole ? g->row_starts + row : NULL,
                                     .column = column,
                                     .bias = bias,
                                     .y = g->y});
            for (int64_t r = 0; g->last && !whole && r < rows; r++)
                store_with_bias(sums + r * WIDTH, columns, bias, g->row_starts[row + r] + column, g->y);
            if (!g->single_block) sums += tall * WIDTH;
        }
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
