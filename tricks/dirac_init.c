/* dirac_init: initialises learned convolutions larger than 1x1 as the identity. Filter o copies input channel o;
 * filters beyond the last input channel keep their random initial values. */
#include "tricks/trick.h"

/* A convolution's weight is (O, H, W, I). If a side is even, the pixel after the middle is copied. */
static d9_status set_identity_filters(d9_context *context, const d9_initializer *self, const d9_init_site *site,
                                      double *values, int64_t count) {
    (void)context, (void)self;
    const int64_t *d = site->parameter->shape.d, size = count / d[0], centre = (d[1] / 2 * d[2] + d[2] / 2) * d[3];
    for (int64_t o = 0; o < d[0] && o < d[3]; o++)
        for (int64_t i = 0; i < size; i++) values[o * size + i] = i == centre + o;
    return D9_OK;
}

/* True for weights of learned convolutions larger than 1x1. A 1x1 convolution serves to mix channels or, in a shortcut,
 * to change their number. */
static bool becomes_identity(const d9_value *value) {
    return d9_value_learns(value) && value->shape.rank == 4 && value->shape.d[1] > 1;
}

static d9_status on_init(d9_context *context, const void *opaque, d9_graph *graph) {
    (void)opaque;
    int edits = 0;
    for (int v = 0; v < graph->value_count; v++) {
        if (!becomes_identity(&graph->values[v])) continue;
        graph->values[v].init.name = "dirac";
        graph->values[v].init.adjust = set_identity_filters;
        edits++;
    }
    return edits ? D9_OK : d9_trick_reject(context, "dirac_init", "the model has no learned convolution above 1x1");
}

const d9_trick d9_trick_dirac_init = {
    .name = "dirac_init",
    .doc = "initialises convolutions as the identity: at first every layer passes on its input",
    .source = "Zagoruyko and Komodakis 2017, arXiv 1706.00388; Jordan 2024, arXiv 2404.00498, section 3.3",
    .effect = "airbench: 94% after 18 epochs instead of 21 (8.6 s to 7.3 s on an A100)",
    .on_init = on_init,
};
