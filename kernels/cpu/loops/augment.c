/* One image of a batch: gathered, padded by reflection, cropped, mirrored, normalised by table, jittered, cut out; and
 * mixed with another.
 * Integers, a table look-up, a sum and a product: every level gives the same bits. */
#include "kernels/cpu/loops/tile.h"

#include "kernels/formulas/augment.h"

static float pixel_of(const d9_cpu_batch *b, const int32_t *draws, float normalised) {
    return b->jitter ? d9_augment_jitter(normalised, draws[5], draws[6]) : normalised;
}

/* `count` pixels of output row y from column x, into `run` (count, C). */
static void fill_run(const d9_cpu_batch *b, const uint8_t *source, const int32_t *draws, int y, int x, int count,
                     float *run) {
    const bool cut_row = b->cutout > 0 && d9_augment_cut(y, draws[3], b->cutout);
    for (int i = 0; i < count; i++) {
        const int column = d9_augment_column(x + i, draws[1], draws[2], b->pad, b->out_width, b->width);
        const bool cut = cut_row && d9_augment_cut(x + i, draws[4], b->cutout);
        const uint8_t *pixel = source + (int64_t)column * b->channels;
        for (int c = 0; c < b->channels; c++)
            run[i * b->channels + c] = cut ? 0.0f : pixel_of(b, draws, b->table[c * 256 + pixel[c]]);
    }
}

void D9_LOOP_NAME(augment)(const d9_cpu_batch *b, int64_t n, d9_kernel_out y) {
    d9_tile tile;
    const int fit = D9_TILE / b->channels; /* pixels in a tile */
    const int64_t row_size = (int64_t)b->width * b->channels, out_row_size = (int64_t)b->out_width * b->channels;
    const uint8_t *image = b->images + (int64_t)b->order[n] * b->height * row_size;
    const int32_t *draws = b->draws + n * D9_AUGMENT_SLOTS;
    for (int oy = 0; oy < b->out_height; oy++) {
        const uint8_t *source = image + d9_augment_row(oy, draws[0], b->pad, b->height) * row_size;
        for (int x = 0; x < b->out_width; x += fit) {
            const int count = b->out_width - x < fit ? b->out_width - x : fit;
            const int64_t at = (n * b->out_height + oy) * out_row_size + (int64_t)x * b->channels;
            float *run = d9_tile_target(y, at, tile);
            fill_run(b, source, draws, oy, x, count, run);
            d9_tile_store(y, at, (int64_t)count * b->channels, run);
        }
    }
}

void D9_LOOP_NAME(mix)(d9_kernel_in x, float share, int64_t own, int64_t other, int64_t count, d9_kernel_out y) {
    d9_tile own_tile, other_tile;
    for (int64_t at = 0, n; at < count; at += n) {
        n = d9_tile_count(at, count);
        const float *p = d9_tile_load(x, own + at, n, own_tile), *q = d9_tile_load(x, other + at, n, other_tile);
        float *to = d9_tile_target(y, own + at, own_tile);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) to[i] = d9_augment_mix(p[i], q[i], share);
        d9_tile_store(y, own + at, n, to);
    }
}
