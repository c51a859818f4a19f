/* Augments one image of a batch: gather, reflect-pad, crop or resize, mirror, normalise by table, change colours, zero
 * the cutout square; and mixes two images. Augmented f32 images have the same bits at every level, mixed ones may
 * differ. */
#include "kernels/cpu/loops/tile.h"

#include "kernels/formulas/augment.h"

/* Writes `count` pixels of output row y, from column x on, to `run` (count, C). */
static void fill_run(const d9_cpu_batch *b, const uint8_t *source, const int32_t *draws, int y, int x, int count,
                     float *run) {
    const d9_augment_rule *rule = b->rule;
    const int pad = d9_augment_pad(rule), colours = d9_augment_colours(rule), apart = b->stored > 1;
    for (int i = 0; i < count; i++, run += b->channels) {
        const int column = d9_augment_column(x + i, draws[D9_DRAW_CROP_X], draws[D9_DRAW_MIRROR], pad, rule->out_width,
                                             rule->width),
                  cut = d9_augment_cuts(rule, draws, y, x + i);
        const uint8_t *pixel = source + (int64_t)column * b->stored;
        for (int c = 0; c < b->channels; c++) run[c] = cut ? 0.0f : b->table[c * 256 + pixel[c * apart]];
        if (colours && !cut) d9_augment_colour(rule, draws, b->channels, run);
    }
}

/* The same for an image whose box is resized. */
static void fill_resized_run(const d9_cpu_batch *b, const uint8_t *image, const int32_t *draws, int y, int x, int count,
                             float *run) {
    const d9_augment_rule *rule = b->rule;
    const int colours = d9_augment_colours(rule), apart = b->stored > 1, out = rule->out_width;
    const d9_augment_between row = d9_augment_resize(y, rule->out_height, draws[D9_DRAW_CROP_Y], rule->height);
    for (int i = 0; i < count; i++, run += b->channels) {
        const int across = draws[D9_DRAW_MIRROR] ? out - 1 - x - i : x + i,
                  cut = d9_augment_cuts(rule, draws, y, x + i);
        const d9_augment_between column = d9_augment_resize(across, out, draws[D9_DRAW_CROP_X], rule->width);
        for (int c = 0; c < b->channels; c++)
            run[c] = cut ? 0.0f
                         : b->table[c * 256 + d9_augment_resized(image, rule->width * b->stored, b->stored, row, column,
                                                                 c * apart)];
        if (colours && !cut) d9_augment_colour(rule, draws, b->channels, run);
    }
}

void D9_LOOP_NAME(augment)(const d9_cpu_batch *b, int64_t n, d9_kernel_out y) {
    d9_tile tile;
    const int fit = D9_TILE / b->channels; /* pixels in a tile */
    const d9_augment_rule *rule = b->rule;
    const int64_t row_size = (int64_t)rule->width * b->stored, out_row_size = (int64_t)rule->out_width * b->channels;
    const uint8_t *image = b->images + (int64_t)b->order[n] * rule->height * row_size;
    const int32_t *draws = b->draws + n * D9_DRAW_SLOTS;
    const bool resizes = d9_augment_resizes(rule) != 0;
    for (int oy = 0; oy < rule->out_height; oy++) {
        const int row = d9_augment_row(oy, draws[D9_DRAW_CROP_Y], d9_augment_pad(rule), rule->height);
        for (int x = 0; x < rule->out_width; x += fit) {
            const int count = rule->out_width - x < fit ? rule->out_width - x : fit;
            const int64_t at = (n * rule->out_height + oy) * out_row_size + (int64_t)x * b->channels;
            float *run = d9_tile_target(y, at, tile);
            if (resizes)
                fill_resized_run(b, image, draws, oy, x, count, run);
            else
                fill_run(b, image + row * row_size, draws, oy, x, count, run);
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
