/* Max pooling over (N, H, W, C), lanes along C. Ties go to the first of the window in row-major order; a NaN wins over
 * every number, and a later NaN over an earlier one. */
#include "kernels/cpu/loops/tile.h"

static int64_t input_at(const d9_kernel_window *w, int64_t n, int64_t iy, int64_t ix) {
    return ((n * w->height + iy) * w->width + ix) * w->channels;
}

static int64_t output_at(const d9_kernel_window *w, int64_t n, int64_t oy, int64_t ox) {
    return ((n * w->out_height + oy) * w->out_width + ox) * w->channels;
}

static inline int wins(float x, float best) { return (x > best) | (x != x); }

static inline void keep_larger(const float *from, int64_t n, float *best) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) best[i] = wins(from[i], best[i]) ? from[i] : best[i];
}

static inline void copy_lanes(const float *from, int64_t n, float *to) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
}

void D9_LOOP_NAME(pool)(d9_kernel_in x, const d9_kernel_window *w, int64_t n, int64_t oy, d9_kernel_out y) {
    d9_tile tile, best;
    const int64_t places = (int64_t)w->kernel * w->kernel;
    for (int64_t ox = 0; ox < w->out_width; ox++) {
        const int64_t corner = input_at(w, n, oy * w->stride, ox * w->stride), out = output_at(w, n, oy, ox);
        for (int64_t c = 0, count; c < w->channels; c += count) {
            count = d9_tile_count(c, w->channels);
            copy_lanes(d9_tile_load(x, corner + c, count, tile), count, best);
            for (int64_t k = 1; k < places; k++) {
                const int64_t there = corner + (k / w->kernel * w->width + k % w->kernel) * w->channels + c;
                keep_larger(d9_tile_load(x, there, count, tile), count, best);
            }
            if (y.store == D9_KERNEL_F32) copy_lanes(best, count, d9_tile_target(y, out + c, best));
            d9_tile_store(y, out + c, count, best);
        }
    }
}

/* The place 0 .. kernel * kernel - 1 of each lane's maximum in the window at `corner`. */
static void find_places(d9_kernel_in x, const d9_kernel_window *w, int64_t corner, int64_t n, int32_t *place) {
    d9_tile tile, best;
    copy_lanes(d9_tile_load(x, corner, n, tile), n, best);
    for (int64_t i = 0; i < n; i++) place[i] = 0;
    for (int32_t k = 1; k < w->kernel * w->kernel; k++) {
        const float *from = d9_tile_load(x, corner + (k / w->kernel * w->width + k % w->kernel) * w->channels, n, tile);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            place[i] = wins(from[i], best[i]) ? k : place[i];
            best[i] = wins(from[i], best[i]) ? from[i] : best[i];
        }
    }
}

/* The rectangle of inputs that belongs to one window: the window, and inputs between it and the next that are in
 * none. */
typedef struct rectangle {
    int64_t rows, columns;
} rectangle;

static rectangle owned(const d9_kernel_window *w, int64_t oy, int64_t ox) {
    const int64_t below = oy + 1 == w->out_height ? w->height : (oy + 1) * w->stride;
    const int64_t right = ox + 1 == w->out_width ? w->width : (ox + 1) * w->stride;
    return (rectangle){below - oy * w->stride, right - ox * w->stride};
}

static void scatter_window(d9_kernel_in dy, d9_kernel_in x, const d9_kernel_window *w, int64_t n, int64_t oy,
                           int64_t ox, d9_kernel_out dx) {
    d9_tile dy_tile, tile;
    int32_t place[D9_TILE];
    const int64_t corner = input_at(w, n, oy * w->stride, ox * w->stride), out = output_at(w, n, oy, ox);
    const rectangle area = owned(w, oy, ox);
    for (int64_t c = 0, count; c < w->channels; c += count) {
        count = d9_tile_count(c, w->channels);
        find_places(x, w, corner + c, count, place);
        const float *from = d9_tile_load(dy, out + c, count, dy_tile);
        for (int64_t r = 0; r < area.rows; r++)
            for (int64_t q = 0; q < area.columns; q++) {
                const int64_t there = corner + (r * w->width + q) * w->channels + c;
                const int32_t here = r < w->kernel && q < w->kernel ? (int32_t)(r * w->kernel + q) : -1;
                float *to = d9_tile_target(dx, there, tile);
#pragma omp simd
                for (int64_t i = 0; i < count; i++) to[i] = place[i] == here ? from[i] : 0;
                d9_tile_store(dx, there, count, to);
            }
    }
}

/* One input pixel of overlapping windows: asks each window that covers it whether its maximum is here. */
static void gather_pixel(d9_kernel_in dy, d9_kernel_in x, const d9_kernel_window *w, int64_t n, int64_t iy, int64_t ix,
                         d9_kernel_out dx) {
    d9_tile dy_tile, sum;
    int32_t place[D9_TILE];
    for (int64_t c = 0, count; c < w->channels; c += count) {
        count = d9_tile_count(c, w->channels);
        for (int64_t i = 0; i < count; i++) sum[i] = 0;
        for (int64_t oy = 0; oy < w->out_height; oy++)
            for (int64_t ox = 0; ox < w->out_width; ox++) {
                const int64_t r = iy - oy * w->stride, q = ix - ox * w->stride;
                if (r < 0 || q < 0 || r >= w->kernel || q >= w->kernel) continue;
                find_places(x, w, input_at(w, n, oy * w->stride, ox * w->stride) + c, count, place);
                const float *from = d9_tile_load(dy, output_at(w, n, oy, ox) + c, count, dy_tile);
                for (int64_t i = 0; i < count; i++) sum[i] += place[i] == r * w->kernel + q ? from[i] : 0;
            }
        const int64_t there = input_at(w, n, iy, ix) + c;
        if (dx.store == D9_KERNEL_F32) copy_lanes(sum, count, d9_tile_target(dx, there, sum));
        d9_tile_store(dx, there, count, sum);
    }
}

void D9_LOOP_NAME(pool_backward)(d9_kernel_in dy, d9_kernel_in x, const d9_kernel_window *w, int64_t n, int64_t iy,
                                 d9_kernel_out dx) {
    if (w->stride >= w->kernel) {
        for (int64_t ox = 0; ox < w->out_width; ox++) scatter_window(dy, x, w, n, iy / w->stride, ox, dx);
    } else {
        for (int64_t ix = 0; ix < w->width; ix++) gather_pixel(dy, x, w, n, iy, ix, dx);
    }
}
