/* How parameters start, and what an initialiser may look at. */
#ifndef D9_GRAPH_INIT_H
#define D9_GRAPH_INIT_H

#include "graph/graph.h"

/* Handed to every initialiser: its parameter, its own random stream, the training images as bytes. */
typedef struct d9_init_site {
    const d9_value *parameter;
    uint64_t seed;
    uint32_t stream;       /* of this parameter: a hash of its name, so that edits elsewhere move no draw */
    const uint8_t *images; /* (image_count, H, W, C) */
    int64_t image_count, height, width, channels;
    const double *table; /* (3, 256) normalised values */
    int threads;         /* 0: as OpenMP thinks best */
} d9_init_site;

/* uniform in (-a, a) */
d9_status d9_init_uniform(d9_context *context, const d9_initializer *self, const d9_init_site *site, double *values,
                          int64_t count);
/* normal, of deviation a */
d9_status d9_init_normal(d9_context *context, const d9_initializer *self, const d9_init_site *site, double *values,
                         int64_t count);
/* the constant a */
d9_status d9_init_constant(d9_context *context, const d9_initializer *self, const d9_init_site *site, double *values,
                           int64_t count);

/* Fills the parameters and statistics of `phase` in `state`: doubles, laid out as D9_BUFFER_STATE is in the master
 * type. Once for every phase, which the caller may time. `site` carries seed, images and table; the rest is set here.
 */
D9_MUST_USE d9_status d9_init_state(d9_context *context, const d9_graph *graph, d9_type master,
                                    const d9_init_site *site, d9_init_phase phase, double *state);

#endif
