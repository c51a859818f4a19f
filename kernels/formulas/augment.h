/* The batch's maths: what one sample's augmentation draws are, which source pixel an output pixel shows, and what
 * jitter makes of it. Shared by every backend, so that the same run sees the same batches bit for bit.
 *
 * With pad 4 on 32 x 32: crop_y, crop_x in 0..8, where 4 is the centred crop. Output (y, x) of a mirrored sample
 * shows source row reflect(y + crop_y - 4), column reflect((31 - x) + crop_x - 4): crop first, then mirror. A smaller
 * crop, 24 x 24, has as many places more: 0..16. The cutout square is placed in the output. Epochs count from 0.
 *
 * Jitter is f32 arithmetic in every precision, and no step of it is one that a compiler may contract into another
 * result: so its bits are everybody's, too. */
#ifndef D9_FORMULAS_AUGMENT_H
#define D9_FORMULAS_AUGMENT_H

#include "kernels/formulas/half.h"
#include "kernels/formulas/philox.h"

/* The numbers of d9_mirror (step/augment.h); a backend asserts that they agree. */
enum { D9_AUGMENT_MIRROR_NONE, D9_AUGMENT_MIRROR_RANDOM, D9_AUGMENT_MIRROR_ALTERNATING };

typedef struct d9_augment_rule {
    uint64_t seed;
    int pad, mirror, cutout;    /* pad 0: no crop; cutout 0: no square */
    int height, width;          /* of an image */
    int out_height, out_width;  /* of the crop: at most the image's; cutout is at most either */
    float brightness, contrast; /* both 0: no jitter */
} d9_augment_rule;

/* crop_y, crop_x, mirror, cutout_y, cutout_x, and the bits of brightness and contrast: one row of the `draw` node's
 * output. */
enum { D9_AUGMENT_SLOTS = 7 };
typedef struct d9_augment_draws {
    int32_t slot[D9_AUGMENT_SLOTS];
} d9_augment_draws;

D9_FN int d9_augment_jitters(const d9_augment_rule *rule) { return rule->brightness > 0 || rule->contrast > 0; }

/* centre + u * range for u uniform in [-1, 1), by the word's upper 24 bits. The product of two f32 numbers is exact in
 * double: so it is rounded once, contracted or not. */
D9_FN int32_t d9_augment_spread(uint32_t word, double centre, float range) {
    const double u = (double)((int32_t)(word >> 8) - 0x800000) * (1.0 / 0x800000);
    return (int32_t)d9_float_bits((float)(centre + u * (double)range));
}

D9_FN int32_t d9_augment_mirror(const d9_augment_rule *rule, uint32_t sample, uint32_t epoch) {
    const int alternating = rule->mirror == D9_AUGMENT_MIRROR_ALTERNATING;
    if (rule->mirror == D9_AUGMENT_MIRROR_NONE) return 0;
    /* Alternating: one draw for all epochs says which half starts mirrored; each epoch takes the other half. */
    const d9_philox word = d9_philox4x32_10(rule->seed, sample, alternating ? 0 : epoch, D9_STREAM_MIRROR, 0);
    const uint32_t bit = d9_philox_below(word.v[0], 2);
    return (int32_t)(alternating ? bit ^ (epoch & 1) : bit);
}

D9_FN d9_augment_draws d9_augment_draw(const d9_augment_rule *rule, uint32_t sample, uint32_t epoch) {
    d9_augment_draws draws = {{0, 0, 0, 0, 0, 0, 0}};
    const int rows = 2 * rule->pad + rule->height - rule->out_height + 1, /* places of the crop */
        columns = 2 * rule->pad + rule->width - rule->out_width + 1;
    if (rows > 1 || columns > 1) {
        const d9_philox word = d9_philox4x32_10(rule->seed, sample, epoch, D9_STREAM_CROP, 0);
        draws.slot[0] = (int32_t)d9_philox_below(word.v[0], (uint32_t)rows);
        draws.slot[1] = (int32_t)d9_philox_below(word.v[1], (uint32_t)columns);
    }
    draws.slot[2] = d9_augment_mirror(rule, sample, epoch);
    if (rule->cutout > 0) {
        const d9_philox word = d9_philox4x32_10(rule->seed, sample, epoch, D9_STREAM_CUTOUT, 0);
        draws.slot[3] = (int32_t)d9_philox_below(word.v[0], (uint32_t)(rule->out_height - rule->cutout + 1));
        draws.slot[4] = (int32_t)d9_philox_below(word.v[1], (uint32_t)(rule->out_width - rule->cutout + 1));
    }
    if (d9_augment_jitters(rule)) {
        const d9_philox word = d9_philox4x32_10(rule->seed, sample, epoch, D9_STREAM_JITTER, 0);
        draws.slot[5] = d9_augment_spread(word.v[0], 0, rule->brightness);
        draws.slot[6] = d9_augment_spread(word.v[1], 1, rule->contrast);
    }
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

/* Whether output position i lies in a cutout of this size that starts at `start` (rows and columns alike). */
D9_FN int d9_augment_cut(int i, int start, int size) { return i >= start && i < start + size; }

/* A normalised pixel by the two draws of an image. */
D9_FN float d9_augment_jitter(float pixel, int32_t brightness, int32_t contrast) {
    return (pixel + d9_float_of_bits((uint32_t)brightness)) * d9_float_of_bits((uint32_t)contrast);
}

/* Mixup: an element of an image and of its partner. */
D9_FN float d9_augment_mix(float own, float other, float share) { return share * own + (1 - share) * other; }

#endif
