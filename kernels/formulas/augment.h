/* The augmentation of a batch: the random draws of a sample, the source pixel of an output pixel, and its colours.
 * Shared by every backend, so that a run sees the same f32 batches bit for bit on each, unless images are mixed. Apart
 * from its trick, a new kind that changes colours needs only an enum constant, draws and a formula in this file.
 *
 * With pad 4 on 32 x 32: crop_y, crop_x in 0..8, where 4 is the centred crop. Output (y, x) of a mirrored sample
 * shows source row reflect(y + crop_y - 4), column reflect((31 - x) + crop_x - 4): crop first, then mirror. A 24 x 24
 * crop has 8 more positions in each direction: 0..16. The cutout square is placed in the output. Epochs count from 0.
 *
 * Colours are f32 arithmetic in every precision, without a product that a following sum could be fused with: every
 * backend computes the same bits. */
#ifndef D9_FORMULAS_AUGMENT_H
#define D9_FORMULAS_AUGMENT_H

#include "kernels/formulas/half.h"
#include "kernels/formulas/philox.h"

/* The kinds of augmentation, in the order in which they are applied, and the two settings of each; both 0: off.
 * Kinds between MIRROR and CUTOUT change the colours of a pixel. */
typedef enum d9_augment_kind {
    D9_AUGMENT_CROP,   /* reflect padding in pixels; a smaller output is a random crop even if this is 0 */
    D9_AUGMENT_MIRROR, /* D9_MIRROR_RANDOM or D9_MIRROR_ALTERNATING */
    D9_AUGMENT_JITTER, /* greatest shift of the normalised pixels; greatest distance from 1 of the factor after it */
    D9_AUGMENT_CUTOUT, /* side of the zeroed square */
    D9_AUGMENT_MIX,    /* alpha: weights from Beta(alpha, alpha), one per batch; the kinds above are drawn per image */
    D9_AUGMENT_PASTE,  /* alpha of the share outside the box, one box per batch; the probability that there is one */
    D9_AUGMENT_KINDS
} d9_augment_kind;

/* Alternating: mirrors a random half of the images in the first epoch, the other half in the second, and so on. */
enum { D9_MIRROR_NONE, D9_MIRROR_RANDOM, D9_MIRROR_ALTERNATING };

/* The random draws for one image, a row of the `draw` node's output: two slots for each kind before MIX, 0 if it is
 * off. The slots of jitter hold the bits of f32 numbers. */
enum {
    D9_DRAW_CROP_Y = 2 * D9_AUGMENT_CROP,
    D9_DRAW_CROP_X,
    D9_DRAW_MIRROR = 2 * D9_AUGMENT_MIRROR,
    D9_DRAW_BRIGHTNESS = 2 * D9_AUGMENT_JITTER,
    D9_DRAW_CONTRAST,
    D9_DRAW_CUTOUT_Y = 2 * D9_AUGMENT_CUTOUT,
    D9_DRAW_CUTOUT_X,
    D9_DRAW_SLOTS = 2 * D9_AUGMENT_MIX
};
typedef struct d9_augment_draws {
    int32_t slot[D9_DRAW_SLOTS];
} d9_augment_draws;

enum { D9_AUGMENT_CHANNELS = 4 }; /* of a pixel, at most */
typedef struct d9_augment_rule {
    uint64_t seed;
    int height, width;         /* of an image */
    int out_height, out_width; /* of the output: at most the image's, at least the side of the cutout square */
    float number[D9_AUGMENT_KINDS][2];
} d9_augment_rule;

D9_FN int d9_augment_on(const d9_augment_rule *rule, int kind) {
    return rule->number[kind][0] != 0 || rule->number[kind][1] != 0;
}
D9_FN int d9_augment_pad(const d9_augment_rule *rule) { return (int)rule->number[D9_AUGMENT_CROP][0]; }

/* Number of possible values (0, 1, ...) of an integer draw. */
D9_FN int d9_augment_value_count(const d9_augment_rule *rule, int slot) {
    const int pad = d9_augment_pad(rule), side = (int)rule->number[D9_AUGMENT_CUTOUT][0];
    if (slot == D9_DRAW_CROP_Y) return 2 * pad + rule->height - rule->out_height + 1;
    if (slot == D9_DRAW_CROP_X) return 2 * pad + rule->width - rule->out_width + 1;
    if (slot == D9_DRAW_MIRROR) return d9_augment_on(rule, D9_AUGMENT_MIRROR) ? 2 : 1;
    if (slot == D9_DRAW_CUTOUT_Y) return side > 0 ? rule->out_height - side + 1 : 1;
    return slot == D9_DRAW_CUTOUT_X && side > 0 ? rule->out_width - side + 1 : 1;
}

/* The bits of centre + u * range, where u is uniform in [-1, 1), from the word's upper 24 bits. The product of two
 * 24-bit numbers is exact in double, so a fused multiply-add gives the same bits. */
D9_FN int32_t d9_augment_uniform(uint32_t word, double centre, float range) {
    const double u = (double)((int32_t)(word >> 8) - 0x800000) * (1.0 / 0x800000);
    return (int32_t)d9_float_bits((float)(centre + u * (double)range));
}

D9_FN int32_t d9_augment_mirror(const d9_augment_rule *rule, uint32_t sample, uint32_t epoch) {
    const int alternating = rule->number[D9_AUGMENT_MIRROR][0] == (float)D9_MIRROR_ALTERNATING;
    if (!d9_augment_on(rule, D9_AUGMENT_MIRROR)) return 0;
    /* Alternating: one draw for all epochs decides if the first epoch mirrors the sample; the others alternate. */
    const d9_philox word = d9_philox4x32_10(rule->seed, sample, alternating ? 0 : epoch, D9_STREAM_MIRROR, 0);
    const uint32_t bit = d9_philox_below(word.v[0], 2);
    return (int32_t)(alternating ? bit ^ (epoch & 1) : bit);
}

/* Draws the integers of `slot` and `slot` + 1, each below its number of values. */
D9_FN void d9_augment_draw_pair(const d9_augment_rule *rule, uint32_t sample, uint32_t epoch, uint32_t stream, int slot,
                                d9_augment_draws *draws) {
    const int rows = d9_augment_value_count(rule, slot), columns = d9_augment_value_count(rule, slot + 1);
    if (rows <= 1 && columns <= 1) return;
    const d9_philox word = d9_philox4x32_10(rule->seed, sample, epoch, stream, 0);
    draws->slot[slot] = (int32_t)d9_philox_below(word.v[0], (uint32_t)rows);
    draws->slot[slot + 1] = (int32_t)d9_philox_below(word.v[1], (uint32_t)columns);
}

D9_FN d9_augment_draws d9_augment_draw(const d9_augment_rule *rule, uint32_t sample, uint32_t epoch) {
    d9_augment_draws draws = {{0}};
    d9_augment_draw_pair(rule, sample, epoch, D9_STREAM_CROP, D9_DRAW_CROP_Y, &draws);
    draws.slot[D9_DRAW_MIRROR] = d9_augment_mirror(rule, sample, epoch);
    if (d9_augment_on(rule, D9_AUGMENT_JITTER)) {
        const d9_philox word = d9_philox4x32_10(rule->seed, sample, epoch, D9_STREAM_JITTER, 0);
        const float *range = rule->number[D9_AUGMENT_JITTER];
        draws.slot[D9_DRAW_BRIGHTNESS] = d9_augment_uniform(word.v[0], 0, range[0]);
        draws.slot[D9_DRAW_CONTRAST] = d9_augment_uniform(word.v[1], 1, range[1]);
    }
    d9_augment_draw_pair(rule, sample, epoch, D9_STREAM_CUTOUT, D9_DRAW_CUTOUT_Y, &draws);
    return draws;
}

/* Reflection without repeating the edge: -1 -> 1, size -> size - 2. Holds for -size < i < 2 * size - 1. */
D9_FN int d9_augment_reflect(int i, int size) {
    const int low = i < 0 ? -i : i;
    return low >= size ? 2 * (size - 1) - low : low;
}

/* Source row of output row y; source column of output column x. */
D9_FN int d9_augment_row(int y, int crop_y, int pad, int height) {
    return d9_augment_reflect(y + crop_y - pad, height);
}
D9_FN int d9_augment_column(int x, int crop_x, int mirror, int pad, int out_width, int width) {
    return d9_augment_reflect((mirror ? out_width - 1 - x : x) + crop_x - pad, width);
}

/* True if row (or column) i of the output lies in a cutout of this size that begins at row (or column) `start`. */
D9_FN int d9_augment_cut(int i, int start, int size) { return i >= start && i < start + size; }

/* True if the cutout square covers row y, column x of the output. */
D9_FN int d9_augment_cuts(const d9_augment_rule *rule, const int32_t *draws, int y, int x) {
    const int side = (int)rule->number[D9_AUGMENT_CUTOUT][0];
    return side > 0 && d9_augment_cut(y, draws[D9_DRAW_CUTOUT_Y], side) &&
           d9_augment_cut(x, draws[D9_DRAW_CUTOUT_X], side);
}

/* True if a kind that changes colours is on. */
D9_FN int d9_augment_colours(const d9_augment_rule *rule) {
    int any = 0;
    for (int kind = D9_AUGMENT_MIRROR + 1; kind < D9_AUGMENT_CUTOUT; kind++) any |= d9_augment_on(rule, kind);
    return any;
}

/* Applies an image's brightness and contrast, given as the bits of floats, to a normalised value. */
D9_FN float d9_augment_jitter(float value, int32_t brightness, int32_t contrast) {
    return (value + d9_float_of_bits((uint32_t)brightness)) * d9_float_of_bits((uint32_t)contrast);
}

/* Changes the colours of a normalised pixel (channels), in place. */
D9_FN void d9_augment_colour(const d9_augment_rule *rule, const int32_t *draws, int channels, float *pixel) {
    if (d9_augment_on(rule, D9_AUGMENT_JITTER))
        for (int c = 0; c < channels; c++)
            pixel[c] = d9_augment_jitter(pixel[c], draws[D9_DRAW_BRIGHTNESS], draws[D9_DRAW_CONTRAST]);
}

/* Mixes an element of an image, with weight `share`, with the element of its partner. */
D9_FN float d9_augment_mix(float own, float other, float share) { return share * own + (1 - share) * other; }

#endif
