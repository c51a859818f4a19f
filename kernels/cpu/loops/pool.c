/* Pooling over (N, H, W, C) and its gradient, with vector lanes along C: the maximum of the pixels inside the image, or
 * the mean. Of equal pixels the first of the window in row-major order is the maximum and gets the gradient; a NaN wins
 * over every number, and a later NaN over an earlier one. */
#include "kernels/integers.h"
#include "kernels/cpu/loops/lanes.h"

static int64_t input_at(const d9_kernel_window *w, int64_t n, int64_t iy, int64_t ix) {
    return ((n * w->height + iy) * w->width + ix) * w->channels;
}

static int64_t output_at(const d9_kernel_window *w, int64_t n, int64_t oy, int64_t ox) {
    return ((n * w->out_height + oy) * w->out_width + ox) * w->channels;
}

/* One dimension of a window that begins at row (or column) `first`: positions [from, until) of the window are inside of
 * the image. */
typedef struct inside {
    int64_t first, from, until;
} inside;

static inside inside_of(int64_t first, int64_t kernel, int64_t size) {
    return (inside){first, first < 0 ? -first : 0, first + kernel > size ? size - first : kernel};
}
static inside rows_of(const d9_kernel_window *w, int64_t oy) {
    return inside_of(oy * w->stride - w->pad, w->kernel, w->height);
}
static inside columns_of(const d9_kernel_window *w, int64_t ox) {
    return inside_of(ox * w->stride - w->pad, w->kernel, w->width);
}

typedef struct range {
    int64_t from, until;
} range;

/* The range of the windows that contain row (or column) i, in a dimension that has `windows` windows. */
static range windows_of(const d9_kernel_window *w, int64_t i, int64_t windows) {
    const int64_t last = (i + w->pad) / w->stride + 1, before = i + w->pad - w->kernel;
    return (range){before < 0 ? 0 : before / w->stride + 1, last < windows ? last : windows};
}

static inline int wins(float x, float best) { return (x > best) | (x != x); }

static inline void keep_larger(const float *from, int64_t n, float *best) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) best[i] = wins(from[i], best[i]) ? from[i] : best[i];
}

void D9_LOOP_NAME(pool)(d9_kernel_in x, const d9_kernel_window *w, int64_t n, int64_t oy, d9_kernel_out y) {
    d9_tile tile, best;
    const inside rows = rows_of(w, oy);
    for (int64_t ox = 0; ox < w->out_width; ox++) {
        const inside columns = columns_of(w, ox);
        const int64_t corner = input_at(w, n, rows.first, columns.first), out = output_at(w, n, oy, ox);
        for (int64_t c = 0, count; c < w->channels; c += count) {
            bool first = true;
            count = d9_tile_count(c, w->channels);
            for (int64_t r = rows.from; r < rows.until; r++)
                for (int64_t q = columns.from; q < columns.until; q++, first = false) {
                    const float *from = d9_tile_load(x, corner + (r * w->width + q) * w->channels + c, count, tile);
                    if (first)
                        d9_tile_copy(from, count, best);
                    else
                        keep_larger(from, count, best);
                }
            if (y.store == D9_KERNEL_F32) d9_tile_copy(best, count, d9_tile_target(y, out + c, best));
            d9_tile_store(y, out + c, count, best);
        }
    }
}

typedef int32_t place_vector __attribute__((vector_size(4 * D9_LANES), may_alias));

/* Returns for each of `left` channels the position, 0 .. kernel * kernel - 1, of the maximum in the window that begins
 * at element `corner`. */
D9_INLINE place_vector find_maximum(const d9_kernel_store store, d9_kernel_in x, const d9_kernel_window *w,
                                    int64_t corner, inside rows, inside columns, int64_t left) {
    const int64_t pixel = w->channels, line = w->width * pixel;
    d9_vector best = d9_lanes_load(store, x.data, corner + rows.from * line + columns.from * pixel, left);
    place_vector place = (place_vector){0} + (int32_t)(rows.from * w->kernel + columns.from);
    for (int64_t r = rows.from; r < rows.until; r++)
        for (int64_t q = columns.from; q < columns.until; q++) {
            const d9_vector v = d9_lanes_load(store, x.data, corner + r * line + q * pixel, left);
            const place_vector here = (place_vector){0} + (int32_t)(r * w->kernel + q);
            const place_vector is_nan = (place_vector)(v != v); /* NOLINT(misc-redundant-expression): true for a NaN */
            const place_vector taken = (place_vector)(v > best) | is_nan;
            best = (d9_vector)((taken & (place_vector)v) | (~taken & (place_vector)best));
            place = (taken & here) | (~taken & place);
        }
    return place;
}

/* find_places for a storage type. */
D9_INLINE void find_places_of_type(const d9_kernel_store store, d9_kernel_in x, const d9_kernel_window *w,
                                   int64_t corner, inside rows, inside columns, int64_t n, int32_t *place) {
    for (int64_t i = 0; i < n; i += D9_LANES) {
        const int64_t left = d9_min(D9_LANES, n - i);
        const place_vector found = find_maximum(store, x, w, corner + i, rows, columns, left);
        memcpy(place + i, &found, (size_t)left * sizeof *place);
    }
}

/* place (n): position, 0 .. kernel * kernel - 1, of the maximum in a window, for n channels from channel c on. */
static void find_places(d9_kernel_in x, const d9_kernel_window *w, int64_t image, inside rows, inside columns,
                        int64_t c, int64_t n, int32_t *place) {
    const int64_t corner = input_at(w, image, rows.first, columns.first) + c;
    if (x.store == D9_KERNEL_F32)
        find_places_of_type(D9_KERNEL_F32, x, w, corner, rows, columns, n, place);
    else
        find_places_of_type(D9_KERNEL_BF16, x, w, corner, rows, columns, n, place);
}

/* Windows without overlap: the range of inputs along one dimension whose gradient a window writes: its own inputs and
 * the following ones that no window contains, up to the next window or, after the last window, up to the edge. */
static range owned_inputs(int64_t first, int64_t next, bool last, int64_t size) {
    return (range){first < 0 ? 0 : first, last ? size : next};
}

static void scatter_window(d9_kernel_in dy, d9_kernel_in x, const d9_kernel_window *w, int64_t n, int64_t oy,
                           int64_t ox, d9_kernel_out dx) {
    d9_tile dy_tile, tile;
    int32_t place[D9_TILE];
    const inside rows = rows_of(w, oy), columns = columns_of(w, ox);
    const range high = owned_inputs(rows.first, rows.first + w->stride, oy + 1 == w->out_height, w->height);
    const range wide = owned_inputs(columns.first, columns.first + w->stride, ox + 1 == w->out_width, w->width);
    for (int64_t c = 0, count; c < w->channels; c += count) {
        count = d9_tile_count(c, w->channels);
        find_places(x, w, n, rows, columns, c, count, place);
        const float *from = d9_tile_load(dy, output_at(w, n, oy, ox) + c, count, dy_tile);
        for (int64_t iy = high.from; iy < high.until; iy++)
            for (int64_t ix = wide.from; ix < wide.until; ix++) {
                const int64_t there = input_at(w, n, iy, ix) + c, r = iy - rows.first, q = ix - columns.first;
                const int32_t here = r < w->kernel && q < w->kernel ? (int32_t)(r * w->kernel + q) : -1;
                float *to = d9_tile_target(dx, there, tile);
#pragma omp simd
                for (int64_t i = 0; i < count; i++)
                    to[i] = place[i] == here ? from[i] : 0; /* NOLINT(clang-analyzer-core.*): place is set */
                d9_tile_store(dx, there, count, to);
            }
    }
}

/* Overlapping windows: blocks of at most ROWS x COLUMNS pixels with DEEP channels. For each block, every window that
 * covers one of its pixels is searched once and adds its gradient to the pixel of its maximum if the block has it. */
enum { ROWS = 8, COLUMNS = 8, DEEP = 64 };
typedef float block_sums[ROWS][COLUMNS][DEEP] __attribute__((aligned(64)));

/* Adds the gradients of window (oy, ox) to `sums`, which belong to pixels of rows `high` and columns `wide` and to
 * `count` channels from channel c on. from (count): gradients of the window. */
D9_INLINE void gather_window(const d9_kernel_store store, d9_kernel_in x, const d9_kernel_window *w, int64_t n,
                             int64_t oy, int64_t ox, range high, range wide, int64_t c, int64_t count,
                             const float *from, block_sums sums) {
    const inside rows = rows_of(w, oy), columns = columns_of(w, ox);
    const int64_t corner = input_at(w, n, rows.first, columns.first) + c;
    const range down = {d9_max(high.from, rows.first + rows.from), d9_min(high.until, rows.first + rows.until)},
                across = {d9_max(wide.from, columns.first + columns.from),
                          d9_min(wide.until, columns.first + columns.until)};
    for (int64_t i = 0; i < count; i += D9_LANES) {
        const int64_t left = d9_min(D9_LANES, count - i);
        const place_vector place = find_maximum(store, x, w, corner + i, rows, columns, left);
        const place_vector gradient = (place_vector)d9_lanes_load(D9_KERNEL_F32, from, i, left);
        for (int64_t iy = down.from; iy < down.until; iy++)
            for (int64_t ix = across.from; ix < across.until; ix++) {
                const place_vector here =
                    (place_vector){0} + (int32_t)((iy - rows.first) * w->kernel + ix - columns.first);
                *(d9_vector *)&sums[iy - high.from][ix - wide.from][i] += (d9_vector)((place == here) & gradient);
            }
    }
}

static void gather_block(d9_kernel_in dy, d9_kernel_in x, const d9_kernel_window *w, int64_t n, range high, range wide,
                         int64_t c, d9_kernel_out dx) {
    d9_tile tile;
    block_sums sums = {0};
    const int64_t count = d9_min(DEEP, w->channels - c);
    const range down[2] = {windows_of(w, high.from, w->out_height), windows_of(w, high.until - 1, w->out_height)},
                across[2] = {windows_of(w, wide.from, w->out_width), windows_of(w, wide.until - 1, w->out_width)};
    for (int64_t oy = down[0].from; oy < down[1].until; oy++)
        for (int64_t ox = across[0].from; ox < across[1].until; ox++) {
            const float *from = d9_tile_load(dy, output_at(w, n, oy, ox) + c, count, tile);
            if (x.store == D9_KERNEL_F32)
                gather_window(D9_KERNEL_F32, x, w, n, oy, ox, high, wide, c, count, from, sums);
            else
                gather_window(D9_KERNEL_BF16, x, w, n, oy, ox, high, wide, c, count, from, sums);
        }
    for (int64_t iy = high.from; iy < high.until; iy++)
        for (int64_t ix = wide.from; ix < wide.until; ix++) {
            float *sum = sums[iy - high.from][ix - wide.from];
            const int64_t there = input_at(w, n, iy, ix) + c;
            if (dx.store == D9_KERNEL_F32) d9_tile_copy(sum, count, d9_tile_target(dx, there, sum));
            d9_tile_store(dx, there, count, sum);
        }
}

void D9_LOOP_NAME(pool_backward)(d9_kernel_in dy, d9_kernel_in x, const d9_kernel_window *w, int64_t n, int64_t iy,
                                 int64_t rows, d9_kernel_out dx) {
    if (w->stride >= w->kernel) {
        for (int64_t ox = 0; ox < w->out_width; ox++) scatter_window(dy, x, w, n, iy / w->stride, ox, dx);
        return;
    }
    const int64_t last = d9_min(iy + rows, w->height);
    for (int64_t row = iy; row < last; row += ROWS)
        for (int64_t column = 0; column < w->width; column += COLUMNS)
            for (int64_t c = 0; c < w->channels; c += DEEP)
                gather_block(dy, x, w, n, (range){row, d9_min(row + ROWS, last)},
                             (range){column, d9_min(column + COLUMNS, w->width)}, c, dx);
}

/* ---- means ---- */

/* to += from */
static inline void add_lanes(const float *from, int64_t n, float *to) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

/* Stores sum / kernel^2 (n elements) in y from element `out` on. */
static void store_mean(const d9_kernel_window *w, float *sum, int64_t n, d9_kernel_out y, int64_t out) {
    const float places = (float)(w->kernel * w->kernel);
    d9_tile tile;
    float *to = d9_tile_target(y, out, tile);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = sum[i] / places;
    d9_tile_store(y, out, n, to);
}

void D9_LOOP_NAME(mean_pool)(d9_kernel_in x, const d9_kernel_window *w, int64_t n, int64_t oy, d9_kernel_out y) {
    d9_tile tile, sum;
    for (int64_t ox = 0; ox < w->out_width; ox++)
        for (int64_t c = 0, count; c < w->channels; c += count) {
            const int64_t corner = input_at(w, n, oy * w->stride, ox * w->stride) + c;
            count = d9_tile_count(c, w->channels);
            for (int64_t i = 0; i < count; i++) sum[i] = 0;
            for (int64_t r = 0; r < w->kernel; r++)
                for (int64_t q = 0; q < w->kernel; q++)
                    add_lanes(d9_tile_load(x, corner + (r * w->width + q) * w->channels, count, tile), count, sum);
            store_mean(w, sum, count, y, output_at(w, n, oy, ox) + c);
        }
}

void D9_LOOP_NAME(mean_pool_backward)(d9_kernel_in dy, const d9_kernel_window *w, int64_t n, int64_t iy,
                                      d9_kernel_out dx) {
    d9_tile tile, sum;
    const range high = windows_of(w, iy, w->out_height);
    for (int64_t ix = 0; ix < w->width; ix++) {
        const range wide = windows_of(w, ix, w->out_width);
        for (int64_t c = 0, count; c < w->channels; c += count) {
            count = d9_tile_count(c, w->channels);
            for (int64_t i = 0; i < count; i++) sum[i] = 0;
            for (int64_t oy = high.from; oy < high.until; oy++)
                for (int64_t ox = wide.from; ox < wide.until; ox++)
                    add_lanes(d9_tile_load(dy, output_at(w, n, oy, ox) + c, count, tile), count, sum);
            store_mean(w, sum, count, dx, input_at(w, n, iy, ix) + c);
        }
    }
}
