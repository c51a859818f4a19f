/* Augments one image of a batch: gather, reflect-pad, crop or resize, mirror, change, normalise by table, jitter, zero
 * the cutout square; and mixes two images. Augmented f32 images have the same bits at every level; mixed images
 * may differ. */
#include "kernels/cpu/loops/tile.h"

#include "kernels/formulas/augment.h"

/* Writes `count` pixels of output row y, from column x on, to `run` (count, C). `source`: source row of the image. */
static void augment_cropped_run(const d9_cpu_batch *b, const uint8_t *source, const int32_t *draws, int y, int x,
                                int count, float *run) {
    const d9_augment_rule *rule = b->rule;
    const int pad = d9_augment_pad(rule), colours = d9_augment_changes_colours(rule), apart = b->stored > 1;
    for (int i = 0; i < count; i++, run += b->channels) {
        const int column = d9_augment_column(x + i, draws[D9_DRAW_CROP_X], draws[D9_DRAW_MIRROR], pad, rule->out_width,
                                             rule->width),
                  cut = d9_augment_cuts(rule, draws, y, x + i);
        const uint8_t *pixel = source + (int64_t)column * b->stored;
        for (int c = 0; c < b->channels; c++) run[c] = cut ? 0.0f : b->table[c * 256 + pixel[c * apart]];
        if (colours && !cut) d9_augment_colour(rule, draws, b->channels, run);
    }
}

/* Like augment_cropped_run, for rules that resize or change images (d9_augment_is_general): by d9_augment_bytes.
 * `image`: the whole source image. `changes`, a compile-time constant: true if D9_AUGMENT_CHANGE is on. */
static inline __attribute__((always_inline)) void augment_general_run_as(bool changes, const d9_cpu_batch *b,
                                                                         const uint8_t *image, const int32_t *draws,
                                                                         int y, int x, int count, float *run) {
    const int colours = d9_augment_changes_colours(b->rule);
    for (int i = 0; i < count; i++, run += b->channels) {
        int bytes[D9_AUGMENT_CHANNELS];
        const bool empty = d9_augment_cuts(b->rule, draws, y, x + i) ||
                           !d9_augment_bytes(changes, b->rule, image, b->stored, b->channels, draws, y, x + i, bytes);
        for (int c = 0; c < b->channels; c++) run[c] = empty ? 0.0f : b->table[c * 256 + bytes[c]];
        if (colours && !empty) d9_augment_colour(b->rule, draws, b->channels, run);
    }
}

static void augment_general_run(const d9_cpu_batch *b, const uint8_t *image, const int32_t *draws, int y, int x,
                                int count, float *run) {
    if (d9_augment_on(b->rule, D9_AUGMENT_CHANGE))
        augment_general_run_as(true, b, image, draws, y, x, count, run);
    else
        augment_general_run_as(false, b, image, draws, y, x, count, run);
}

void D9_LOOP_NAME(augment)(const d9_cpu_batch *b, int64_t n, d9_kernel_out y) {
    d9_tile tile;
    const int fit = D9_TILE / b->channels; /* pixels in a tile */
    const d9_augment_rule *rule = b->rule;
    const int64_t row_size = (int64_t)rule->width * b->stored, out_row_size = (int64_t)rule->out_width * b->channels;
    const uint8_t *image = b->images + (int64_t)b->order[n] * rule->height * row_size;
    const int32_t *draws = b->draws + n * D9_DRAW_SLOTS;
    const bool general = d9_augment_is_general(rule) != 0;
    for (int oy = 0; oy < rule->out_height; oy++) {
        const int row = d9_augment_row(oy, draws[D9_DRAW_CROP_Y], d9_augment_pad(rule), rule->height);
        for (int x = 0; x < rule->out_width; x += fit) {
            const int count = rule->out_width - x < fit ? rule->out_width - x : fit;
            const int64_t at = (n * rule->out_height + oy) * out_row_size + (int64_t)x * b->channels;
            float *run = d9_tile_target(y, at, tile);
            if (general)
                augment_general_run(b, image, draws, oy, x, count, run);
            else
                augment_cropped_run(b, image + row * row_size, draws, oy, x, count, run);
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
