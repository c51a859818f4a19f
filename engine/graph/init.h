/* Initialisers of parameters and statistics, and the data available to them. */
#pragma once

#include "graph/graph.h"

/* Arguments of an initialiser: its parameter, its random stream, the stored training images as bytes. */
typedef struct d9_init_site {
    const d9_value *parameter;
    uint64_t seed;
    uint32_t stream;       /* hash of the parameter's name: edits elsewhere in the network do not change its draws */
    const uint8_t *images; /* (image_count, H, W, C); C is 1 if grey; of texts and streams tokens i32 */
    bool grey;             /* images have one channel, which is used for all `channels` */
    int64_t image_count, height, width, channels;
    const double *table; /* (channels, 256): normalised value of each byte */
    int threads;         /* 0: one per physical core */
} d9_init_site;

/* Uniform in (-a, a). */
d9_status d9_init_uniform(d9_context *context, const d9_initializer *self, const d9_init_site *site, double *values,
                          int64_t count);
/* Normal with standard deviation a. */
d9_status d9_init_normal(d9_context *context, const d9_initializer *self, const d9_init_site *site, double *values,
                         int64_t count);
/* The constant a. */
d9_status d9_init_constant(d9_context *context, const d9_initializer *self, const d9_init_site *site, double *values,
                           int64_t count);

/* Initialises the parameters and statistics of `phase` in `state`, which has one double for each element of
 * D9_BUFFER_STATE. Called once for each phase, so that the caller can time it. The caller sets the fields of `site`
 * other than parameter and stream. */
D9_MUST_USE d9_status d9_init_state(d9_context *context, const d9_graph *graph, d9_type master,
                                    const d9_init_site *site, d9_init_phase phase, double *state);
