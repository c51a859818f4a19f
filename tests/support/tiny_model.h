/* A network only for tests: VGG-like, with roles that differ from resnet9's, so that tricks and passes cannot depend on
 * resnet9's names. Stage I:
 *
 *   features.I.filter   conv 3x3         features.I.batch   norm
 *   features.I.bend     act              features.I.shrink  pool 2
 *   classifier          linear on the flattened features; its output is the logits, without scale or global pool
 *
 * norm, act and pool can be omitted, so that tricks which need them find nothing to edit. */
#pragma once

#include "config/config.h"

/* The first layer: a convolution of stride 1; of stride 2; of stride 1 after a max pool; of stride 1 on 1.5 * image. */
typedef enum tiny_stem { TINY_STEM_CONV, TINY_STEM_STRIDED, TINY_STEM_POOL, TINY_STEM_SHARED } tiny_stem;

typedef struct tiny_model {
    d9_int_list widths; /* one per stage */
    bool norm, act, pool;
    int stem; /* tiny_stem; with TINY_STEM_SHARED two nodes read the image */
} tiny_model;

extern const d9_model d9_model_tiny; /* not in models.def */

tiny_model tiny_model_default(void); /* two stages of 4 and 6 channels with norm, act and pool */

/* Replaces the configuration's network by the tiny model; `options` must outlive the configuration. */
void tiny_model_use(d9_config *config, tiny_model *options);
