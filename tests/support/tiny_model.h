/* A second network, for the tests alone: a VGG-like stack with other roles than resnet9, so that what tricks and
 * passes do there cannot rest on the first network's names.
 *
 *   features.I.filter   conv 3x3         features.I.batch   norm
 *   features.I.bend     act              features.I.shrink  pool 2
 *   classifier          linear over what is left, flattened; its output is the logits: no scale, no global pool
 *
 * Each part can be left out, so that a trick which needs it finds nothing to edit. */
#ifndef D9_TESTS_TINY_MODEL_H
#define D9_TESTS_TINY_MODEL_H

#include "config/config.h"

/* What reads the image. */
typedef enum tiny_stem { TINY_STEM_CONV, TINY_STEM_STRIDED, TINY_STEM_POOL, TINY_STEM_SHARED } tiny_stem;

typedef struct tiny_model {
    d9_int_list widths; /* one stage each */
    bool norm, act, pool;
    int stem; /* tiny_stem; shared: a second branch reads the image, too */
} tiny_model;

extern const d9_model d9_model_tiny; /* no row of models.def: only tests know it */

tiny_model tiny_model_default(void); /* two stages of 4 and 6 channels, everything on */

/* Puts the tiny model in place of the configuration's own; `options` must outlive it. */
void tiny_model_use(d9_config *config, tiny_model *options);

#endif
