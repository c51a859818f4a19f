/* The augmentation record and its random draws.
 *
 * Order of operations, fixed: gather by the epoch's order, reflect-pad, crop, mirror, normalise by table, shift the
 * brightness, scale the contrast, zero the cutout square; then mix two images. Every draw is Philox4x32-10 with key =
 * seed and counter = (sample, epoch, stream, draw); the formulas are in kernels/formulas/augment.h, shared by every
 * backend. Mixup draws a share a step (mixup.c). */
#ifndef D9_STEP_AUGMENT_H
#define D9_STEP_AUGMENT_H

#include <stdint.h>

typedef enum d9_mirror { D9_MIRROR_NONE, D9_MIRROR_RANDOM, D9_MIRROR_ALTERNATING } d9_mirror;

typedef struct d9_augmentation {
    int pad;          /* reflect padding of the random crop; 0: no crop */
    d9_mirror mirror; /* alternating: a random half in epoch 1, the others in epoch 2, and so on */
    int cutout;       /* side of the zeroed square; 0: none */
    float brightness; /* greatest shift of an image's normalised pixels */
    float contrast;   /* greatest distance from 1 of the factor after it; both 0: no jitter */
    double mixup;     /* alpha of the batch's share, Beta(alpha, alpha); 0: images are not mixed */
} d9_augmentation;

/* One sample's draws, as the `draw` node writes them: i32 (N, 7). The last two are the bits of f32 numbers,
 * and 0 without jitter. */
typedef enum d9_draw_slot {
    D9_DRAW_CROP_Y,
    D9_DRAW_CROP_X,
    D9_DRAW_MIRROR,
    D9_DRAW_CUTOUT_Y,
    D9_DRAW_CUTOUT_X,
    D9_DRAW_BRIGHTNESS,
    D9_DRAW_CONTRAST,
    D9_DRAW_SLOTS
} d9_draw_slot;

/* Mixup's share of a step, 0 to 1: of Beta(alpha, alpha), alpha above 0, by seed and step alone. Image n of a batch
 * keeps the share, in pixels and target; image N - 1 - n gives the rest. */
double d9_mixup_share(uint64_t seed, int64_t step, double alpha);

#endif
