/* The augmentation of a run, and its random draws.
 *
 * The order of operations is fixed: gather by the epoch's order, reflect-pad, crop or resize, mirror, change geometry
 * or colours (trivial_augment), normalise by table, jitter colours, zero the cutout square; then mix two images, or
 * paste a box of one into the other. Draws are Philox4x32-10 with key = seed and counter = (sample, epoch, stream,
 * draw); draws of mixtures and boxes have counter = (step, 0, stream, 0). The kinds, their settings and the formulas
 * for an image are in kernels/formulas/augment.h, which all backends share. */
#pragma once

#include "kernels/formulas/augment.h"

/* The two settings of each kind of augmentation, as set by a trick; both zero: off. SHRINK is (1, 0) if steps on
 * smaller images resize them instead of cropping; in the d9_augment_rule of such a step these two numbers are height
 * and width of the full image. */
typedef struct d9_augmentation {
    double settings[D9_AUGMENT_KINDS][2];
} d9_augmentation;

/* Draws the weight of an image in the mixtures of a step, 0 to 1, from Beta(alpha, alpha) with alpha above 0. It
 * depends on the arguments only. Image n of a batch has this weight in pixels and target, image N - 1 - n the rest. */
double d9_mix_weight(uint64_t seed, int64_t step, double alpha);

/* The box of a step that each image of height x width takes from its partner: rows top <= y < bottom, columns left <= x
 * < right. The box covers the share 1 - d9_mix_weight of the image, up to rounding of its sides to pixels; all places
 * inside the image are equally likely. In a share 1 - probability of the steps the box is empty, all 0. The result
 * depends on the arguments only. */
typedef struct d9_box {
    int64_t top, left, bottom, right;
} d9_box;
d9_box d9_paste_box(uint64_t seed, int64_t step, double alpha, double probability, int64_t height, int64_t width);
