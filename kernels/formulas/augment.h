/* The augmentation of a batch: the random draws of a sample, the source pixel of an output pixel, and the output's
 * colours. Every backend uses these formulas, so f32 batches are equal bit for bit on all backends, unless images are
 * mixed. A new kind that changes the colours of normalised pixels needs, besides its trick and a stream in philox.h,
 * only an enum constant, draws and a formula in this file.
 *
 * With pad 4 on 32 x 32: crop_y, crop_x in 0..8, where 4 is the centred crop. Output (y, x) of a mirrored sample
 * shows source row reflect(y + crop_y - 4), column reflect((31 - x) + crop_x - 4): crop first, then mirror. A 24 x 24
 * crop has 8 more positions in each direction: 0..16. The cutout square is placed in the output. Epochs count from 0.
 *
 * RESIZE cuts a box of random size out of the image and resizes it to the output, bilinearly, in integers: each byte is
 * rounded once. Products, quotients and square roots of its draws have the same bits on every processor. SHRINK resizes
 * the box of CROP in the same way; that box has a fixed size and may reach into the padding. CHANGE is applied to the
 * cropped or resized, then mirrored image (change.h).
 *
 * Colours are computed in f32 for every storage type. Their formulas never add to a product, because a compiler
 * might fuse the two operations and change the bits. */
#pragma once

#include "kernels/formulas/change.h"
#include "kernels/formulas/half.h"
#include "kernels/formulas/philox.h"
#include "kernels/formulas/real.h"

#include <stdbool.h>

/* The kinds of augmentation, applied in this order unless a comment says otherwise. Each comment gives the kind's one
 * or two settings, separated by a semicolon; all 0: off. MIX and PASTE draw once per batch, the other kinds for each
 * image. Kinds between MIRROR and CUTOUT change the colours of a normalised pixel. */
typedef enum d9_augment_kind {
    D9_AUGMENT_CROP,   /* reflect padding in pixels (a smaller output is a random crop even if this is 0) */
    D9_AUGMENT_MIRROR, /* D9_MIRROR_RANDOM or D9_MIRROR_ALTERNATING */
    D9_AUGMENT_JITTER, /* largest shift of normalised values; largest distance from 1 of the factor applied next */
    D9_AUGMENT_CUTOUT, /* side of the zeroed square */
    D9_AUGMENT_MIX,    /* alpha: the weight of an image's own pixels is drawn from Beta(alpha, alpha) */
    D9_AUGMENT_PASTE,  /* alpha: the share of pixels outside the box is from Beta(alpha, alpha); probability of a box */
    D9_AUGMENT_RESIZE, /* replaces CROP and uses its draw slots: smallest share of the area; largest aspect ratio */
    D9_AUGMENT_SHRINK, /* height; width of CROP's box, which is resized to the output (the draws are spans) */
    D9_AUGMENT_CHANGE, /* applied between MIRROR and JITTER: largest magnitude, as a share of that in D9_CHANGE_ROWS */
    D9_AUGMENT_KINDS
} d9_augment_kind;

/* Alternating: a draw decides if an image is mirrored in the even epochs or in the odd ones. */
enum { D9_MIRROR_NONE, D9_MIRROR_RANDOM, D9_MIRROR_ALTERNATING };

/* The random draws for one image, a row of the `draw` node's output: two slots for each kind before MIX and three for
 * CHANGE; RESIZE and SHRINK use those of CROP. Slots without a draw are 0. Those of JITTER hold the bits of f32
 * numbers. */
enum {
    D9_DRAW_CROP_Y = 2 * D9_AUGMENT_CROP,
    D9_DRAW_CROP_X,
    D9_DRAW_MIRROR = 2 * D9_AUGMENT_MIRROR,
    D9_DRAW_BRIGHTNESS = 2 * D9_AUGMENT_JITTER,
    D9_DRAW_CONTRAST,
    D9_DRAW_CUTOUT_Y = 2 * D9_AUGMENT_CUTOUT,
    D9_DRAW_CUTOUT_X,
    D9_DRAW_CHANGE = 2 * D9_AUGMENT_MIX, /* the fields of d9_change */
    D9_DRAW_SLOTS = D9_DRAW_CHANGE + 3
};
typedef struct d9_augment_draws {
    int32_t slot[D9_DRAW_SLOTS];
} d9_augment_draws;

enum { D9_AUGMENT_CHANNELS = 4 }; /* most channels of a pixel */
typedef struct d9_augment_rule {
    uint64_t seed;
    int height, width;         /* of an image */
    int out_height, out_width; /* of the output: at most the image's, at least the side of the cutout square */
    float settings[D9_AUGMENT_KINDS][2]; /* of each kind, as in d9_augment_kind; 0 if there is no second */
} d9_augment_rule;

D9_FN int d9_augment_on(const d9_augment_rule *rule, int kind) {
    return rule->settings[kind][0] != 0 || rule->settings[kind][1] != 0;
}
/* Width of the reflect padding in pixels. */
D9_FN int d9_augment_pad(const d9_augment_rule *rule) { return (int)rule->settings[D9_AUGMENT_CROP][0]; }
/* True if a box is resized to the output. */
D9_FN int d9_augment_resizes(const d9_augment_rule *rule) {
    return d9_augment_on(rule, D9_AUGMENT_RESIZE) || d9_augment_on(rule, D9_AUGMENT_SHRINK);
}
/* Rows and columns of the box of CROP. */
D9_FN int d9_augment_box_height(const d9_augment_rule *rule) {
    return d9_augment_on(rule, D9_AUGMENT_SHRINK) ? (int)rule->settings[D9_AUGMENT_SHRINK][0] : rule->out_height;
}
D9_FN int d9_augment_box_width(const d9_augment_rule *rule) {
    return d9_augment_on(rule, D9_AUGMENT_SHRINK) ? (int)rule->settings[D9_AUGMENT_SHRINK][1] : rule->out_width;
}

/* Number of values (0, 1, ...) that the draw in a slot of CROP, MIRROR or CUTOUT can have; 1 for other slots. */
D9_FN int d9_augment_value_count(const d9_augment_rule *rule, int slot) {
    const int pad = d9_augment_pad(rule), side = (int)rule->settings[D9_AUGMENT_CUTOUT][0];
    if (slot == D9_DRAW_CROP_Y) return 2 * pad + rule->height - d9_augment_box_height(rule) + 1;
    if (slot == D9_DRAW_CROP_X) return 2 * pad + rule->width - d9_augment_box_width(rule) + 1;
    if (slot == D9_DRAW_MIRROR) return d9_augment_on(rule, D9_AUGMENT_MIRROR) ? 2 : 1;
    if (slot == D9_DRAW_CUTOUT_Y) return side > 0 ? rule->out_height - side + 1 : 1;
    return slot == D9_DRAW_CUTOUT_X && side > 0 ? rule->out_width - side + 1 : 1;
}

/* The bits of the float centre + u * range, with u uniform in [-1, 1) from the word's upper 24 bits. The product of two
 * 24-bit numbers is exact in double, so a fused multiply-add gives the same bits. */
D9_FN int32_t d9_augment_uniform_bits(uint32_t word, double centre, float range) {
    const double u = (double)((int32_t)(word >> 8) - 0x800000) * (1.0 / 0x800000);
    return (int32_t)d9_float_bits((float)(centre + u * (double)range));
}

/* One axis of a resized box, packed into one slot: its first row or column, which may be negative (in the padding), and
 * its number of rows or columns. */
D9_FN int32_t d9_augment_span(int start, int count) { return (int32_t)((start & 0xffff) | count << 16); }
D9_FN int d9_augment_span_start(int32_t span) { return (int16_t)(span & 0xffff); }
D9_FN int d9_augment_span_count(int32_t span) { return span >> 16; }

/* Rounds half up, for 0 <= x < 2^30, without a sum x + 0.5: a compiler might fuse that with a product that gave x. */
D9_FN int d9_augment_round(float x) { return ((int)(2 * x) + 1) / 2; }

/* most^(u - 1/2) with u uniform in [0, 1), from the upper 16 bits of the word; most >= 1. */
D9_FN float d9_augment_root_ratio(uint32_t word, float most) {
    float root = most, result = 1;
    for (int bit = 31; bit >= 16; bit--) {
        root = d9_sqrt_float(root); /* most^(1/2), most^(1/4), ... */
        if (word >> bit & 1) result = result * root;
    }
    return result / d9_sqrt_float(most);
}

/* Draws the box of RESIZE as torchvision's RandomResizedCrop does: its share of the area is uniform in [least, 1), the
 * logarithm of its aspect ratio in [-log most, log most). If none of ten tries fits into the image, takes the largest
 * centred box with a permitted ratio. */
D9_FN void d9_augment_draw_box(const d9_augment_rule *rule, uint32_t sample, uint32_t epoch, d9_augment_draws *draws) {
    const float least = rule->settings[D9_AUGMENT_RESIZE][0], most = rule->settings[D9_AUGMENT_RESIZE][1];
    const float area = (float)(rule->height * rule->width);
    int rows = 0, columns = 0, top = 0, left = 0;
    for (uint32_t attempt = 0; attempt < 10 && !rows; attempt++) {
        const d9_philox word = d9_philox4x32_10(rule->seed, sample, epoch, D9_STREAM_RESIZE, attempt);
        /* the product of two 24-bit numbers is exact in double */
        const double share = (double)least + (double)(word.v[0] >> 8) * (1.0 / 0x1000000) * (double)(1 - least);
        const float side = d9_sqrt_float((float)share * area), root = d9_augment_root_ratio(word.v[1], most);
        const int high = d9_augment_round(side / root), wide = d9_augment_round(side * root);
        if (high < 1 || high > rule->height || wide < 1 || wide > rule->width) continue;
        rows = high, columns = wide;
        top = (int)d9_philox_below(word.v[2], (uint32_t)(rule->height - high + 1));
        left = (int)d9_philox_below(word.v[3], (uint32_t)(rule->width - wide + 1));
    }
    if (!rows) {
        const int high = d9_augment_round((float)rule->width * most),
                  wide = d9_augment_round((float)rule->height * most);
        rows = high < rule->height ? high : rule->height;
        columns = wide < rule->width ? wide : rule->width;
        top = (rule->height - rows) / 2, left = (rule->width - columns) / 2;
    }
    draws->slot[D9_DRAW_CROP_Y] = d9_augment_span(top, rows);
    draws->slot[D9_DRAW_CROP_X] = d9_augment_span(left, columns);
}

/* Returns 1 if the sample is mirrored in this epoch, otherwise 0. */
D9_FN int32_t d9_augment_mirror(const d9_augment_rule *rule, uint32_t sample, uint32_t epoch) {
    const int alternating = rule->settings[D9_AUGMENT_MIRROR][0] == (float)D9_MIRROR_ALTERNATING;
    if (!d9_augment_on(rule, D9_AUGMENT_MIRROR)) return 0;
    /* Alternating: the draw of epoch 0 decides if the first epoch mirrors the sample; later epochs alternate. */
    const d9_philox word = d9_philox4x32_10(rule->seed, sample, alternating ? 0 : epoch, D9_STREAM_MIRROR, 0);
    const uint32_t bit = d9_philox_below(word.v[0], 2);
    return (int32_t)(alternating ? bit ^ (epoch & 1) : bit);
}

/* Draws the integers of `slot` and `slot` + 1, each below its d9_augment_value_count. */
D9_FN void d9_augment_draw_pair(const d9_augment_rule *rule, uint32_t sample, uint32_t epoch, uint32_t stream, int slot,
                                d9_augment_draws *draws) {
    const int rows = d9_augment_value_count(rule, slot), columns = d9_augment_value_count(rule, slot + 1);
    if (rows <= 1 && columns <= 1) return;
    const d9_philox word = d9_philox4x32_10(rule->seed, sample, epoch, stream, 0);
    draws->slot[slot] = (int32_t)d9_philox_below(word.v[0], (uint32_t)rows);
    draws->slot[slot + 1] = (int32_t)d9_philox_below(word.v[1], (uint32_t)columns);
}

/* Draws a row of D9_CHANGE_ROWS, one of D9_CHANGE_LEVELS equally spaced magnitudes, and a sign, each with equal
 * probabilities. The magnitudes go from 0 to the setting of CHANGE times the row's greatest magnitude. */
D9_FN void d9_augment_draw_change(const d9_augment_rule *rule, uint32_t sample, uint32_t epoch,
                                  d9_augment_draws *draws) {
    const d9_philox word = d9_philox4x32_10(rule->seed, sample, epoch, D9_STREAM_CHANGE, 0);
    const float level = (float)d9_philox_below(word.v[1], D9_CHANGE_LEVELS);
    const d9_change change =
        d9_change_of((int)d9_philox_below(word.v[0], D9_CHANGES),
                     rule->settings[D9_AUGMENT_CHANGE][0] * level / (D9_CHANGE_LEVELS - 1), (int)(word.v[2] >> 31));
    draws->slot[D9_DRAW_CHANGE] = change.row;
    draws->slot[D9_DRAW_CHANGE + 1] = change.parameters[0];
    draws->slot[D9_DRAW_CHANGE + 2] = change.parameters[1];
}

/* True if the rule resizes or changes images; d9_augment_bytes then computes the bytes of an output pixel. Otherwise
 * they are the bytes of one pixel of the image. */
D9_FN int d9_augment_is_general(const d9_augment_rule *rule) {
    return d9_augment_resizes(rule) || d9_augment_on(rule, D9_AUGMENT_CHANGE);
}

/* The draws of a sample in an epoch. general: d9_augment_is_general(rule); if it is a constant, the compiler drops
 * unused code. */
D9_FN d9_augment_draws d9_augment_draw_as(bool general, const d9_augment_rule *rule, uint32_t sample, uint32_t epoch) {
    d9_augment_draws draws = {{0}};
    if (general && d9_augment_on(rule, D9_AUGMENT_RESIZE))
        d9_augment_draw_box(rule, sample, epoch, &draws);
    else
        d9_augment_draw_pair(rule, sample, epoch, D9_STREAM_CROP, D9_DRAW_CROP_Y, &draws);
    if (general && d9_augment_on(rule, D9_AUGMENT_SHRINK)) {
        const int top = draws.slot[D9_DRAW_CROP_Y] - d9_augment_pad(rule),
                  left = draws.slot[D9_DRAW_CROP_X] - d9_augment_pad(rule);
        draws.slot[D9_DRAW_CROP_Y] = d9_augment_span(top, d9_augment_box_height(rule));
        draws.slot[D9_DRAW_CROP_X] = d9_augment_span(left, d9_augment_box_width(rule));
    }
    if (general && d9_augment_on(rule, D9_AUGMENT_CHANGE)) d9_augment_draw_change(rule, sample, epoch, &draws);
    draws.slot[D9_DRAW_MIRROR] = d9_augment_mirror(rule, sample, epoch);
    if (d9_augment_on(rule, D9_AUGMENT_JITTER)) {
        const d9_philox word = d9_philox4x32_10(rule->seed, sample, epoch, D9_STREAM_JITTER, 0);
        const float *range = rule->settings[D9_AUGMENT_JITTER];
        draws.slot[D9_DRAW_BRIGHTNESS] = d9_augment_uniform_bits(word.v[0], 0, range[0]);
        draws.slot[D9_DRAW_CONTRAST] = d9_augment_uniform_bits(word.v[1], 1, range[1]);
    }
    d9_augment_draw_pair(rule, sample, epoch, D9_STREAM_CUTOUT, D9_DRAW_CUTOUT_Y, &draws);
    return draws;
}

D9_FN d9_augment_draws d9_augment_draw(const d9_augment_rule *rule, uint32_t sample, uint32_t epoch) {
    return d9_augment_draw_as(d9_augment_is_general(rule) != 0, rule, sample, epoch);
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

/* The two rows (or columns) of the image from which row (or column) i of the output is interpolated, and the weight of
 * the second one, in units of 1 / D9_RESIZE_UNIT. `out`, `size`: number of rows (columns) of the output and of the
 * image. `span`: of the box (d9_augment_span). Pixel centres are at halves, and the edges of the box are repeated. */
enum { D9_RESIZE_UNIT = 2048 };
typedef struct d9_augment_neighbours {
    int first, second, weight;
} d9_augment_neighbours;
D9_FN d9_augment_neighbours d9_augment_neighbours_of(int i, int out, int32_t span, int size) {
    const int start = d9_augment_span_start(span), count = d9_augment_span_count(span);
    const int centre = (2 * i + 1) * count - out, at = centre < 0 ? 0 : centre; /* in units of 1 / (2 out) pixel */
    const int first = at / (2 * out), second = first + 1 < count ? first + 1 : first;
    return (d9_augment_neighbours){d9_augment_reflect(start + first, size), d9_augment_reflect(start + second, size),
                                   ((at - 2 * out * first) * D9_RESIZE_UNIT + out) / (2 * out)};
}

/* The interpolated byte of channel c, from rows y and columns x of an image with row_size bytes a row and `stored`
 * bytes a pixel. */
D9_FN int d9_augment_resized(const uint8_t *image, int row_size, int stored, d9_augment_neighbours y,
                             d9_augment_neighbours x, int c) {
    const uint8_t *top = image + y.first * row_size + c, *bottom = image + y.second * row_size + c;
    const int a = top[x.first * stored], b = top[x.second * stored], d = bottom[x.first * stored],
              e = bottom[x.second * stored], other = D9_RESIZE_UNIT - x.weight;
    const int sum = (D9_RESIZE_UNIT - y.weight) * (other * a + x.weight * b) + y.weight * (other * d + x.weight * e);
    return (sum + D9_RESIZE_UNIT * D9_RESIZE_UNIT / 2) / (D9_RESIZE_UNIT * D9_RESIZE_UNIT);
}

/* For rules that are general (d9_augment_is_general): sets `bytes` (channels) of output row y, column x from an image
 * (height, width, stored); stored 1: all channels are equal. Returns false without setting `bytes` if a change moved
 * the pixel's source out of the image: the normalised pixel is then 0, the mean colour. `changes`: CHANGE is on; a
 * constant lets the compiler drop unused code. Constant trip counts let a GPU load all channels at once. */
D9_FN int d9_augment_bytes(bool changes, const d9_augment_rule *rule, const uint8_t *image, int stored, int channels,
                           const int32_t *draws, int y, int x, int *bytes) {
    const d9_change change = {draws[D9_DRAW_CHANGE], {draws[D9_DRAW_CHANGE + 1], draws[D9_DRAW_CHANGE + 2]}};
    const int row_size = rule->width * stored, apart = stored > 1;
    if (changes && !d9_change_find_source(change, rule->out_height, rule->out_width, &y, &x)) return 0;
    if (d9_augment_resizes(rule)) {
        const int across = draws[D9_DRAW_MIRROR] ? rule->out_width - 1 - x : x;
        const d9_augment_neighbours row = d9_augment_neighbours_of(y, rule->out_height, draws[D9_DRAW_CROP_Y],
                                                                   rule->height),
                                    column = d9_augment_neighbours_of(across, rule->out_width, draws[D9_DRAW_CROP_X],
                                                                      rule->width);
        for (int c = 0; c < D9_AUGMENT_CHANNELS; c++)
            if (c < channels) bytes[c] = d9_augment_resized(image, row_size, stored, row, column, c * apart);
    } else {
        const int pad = d9_augment_pad(rule), row = d9_augment_row(y, draws[D9_DRAW_CROP_Y], pad, rule->height),
                  column = d9_augment_column(x, draws[D9_DRAW_CROP_X], draws[D9_DRAW_MIRROR], pad, rule->out_width,
                                             rule->width);
        for (int c = 0; c < D9_AUGMENT_CHANNELS; c++)
            if (c < channels) bytes[c] = image[row * row_size + column * stored + c * apart];
    }
    if (changes) d9_change_bytes(change, channels, bytes);
    return 1;
}

/* True if row (or column) i of the output lies in a cutout of `size` rows (columns) from row (column) `start` on. */
D9_FN int d9_augment_in_cutout(int i, int start, int size) { return i >= start && i < start + size; }

/* True if the cutout square covers row y, column x of the output. */
D9_FN int d9_augment_cuts(const d9_augment_rule *rule, const int32_t *draws, int y, int x) {
    const int side = (int)rule->settings[D9_AUGMENT_CUTOUT][0];
    return side > 0 && d9_augment_in_cutout(y, draws[D9_DRAW_CUTOUT_Y], side) &&
           d9_augment_in_cutout(x, draws[D9_DRAW_CUTOUT_X], side);
}

/* True if a kind that changes the colours of normalised pixels is on. */
D9_FN int d9_augment_changes_colours(const d9_augment_rule *rule) {
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

/* Mixes an element of an image, with weight `share`, and the same element of its partner, with weight 1 - share. */
D9_FN float d9_augment_mix(float own, float other, float share) { return share * own + (1 - share) * other; }
