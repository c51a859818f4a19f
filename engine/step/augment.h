/* The augmentation of a run, and its random draws.
 *
 * Order of operations, fixed: gather by the epoch's order, reflect-pad, crop, mirror, normalise by table, change the
 * colours, zero the cutout square; then mix two images. Every draw is Philox4x32-10 with key = seed and counter =
 * (sample, epoch, stream, draw). The kinds, their numbers and the formulas are in kernels/formulas/augment.h, shared by
 * every backend. */
#ifndef D9_STEP_AUGMENT_H
#define D9_STEP_AUGMENT_H

#include "kernels/formulas/augment.h"

/* A row for each kind, as a trick handed it over; all zero: off. */
typedef struct d9_augmentation {
    double number[D9_AUGMENT_KINDS][2];
} d9_augmentation;

/* Weight of an image in the mixture of step `step`, 0 to 1, of Beta(alpha, alpha), alpha above 0, by seed and step
 * alone. Image n of a batch keeps this share of its pixels and target; image N - 1 - n gives the rest. */
double d9_mix_share(uint64_t seed, int64_t step, double alpha);

#endif
