/* What several backends read off a site: a convolution's geometry, and whether the nodes around a norm form the chain
 * that one pass computes. */
#ifndef D9_BACKENDS_HOST_SHAPES_H
#define D9_BACKENDS_HOST_SHAPES_H

#include "backends/host/host.h"
#include "kernels/types.h"

static inline const d9_value *d9_site_value(const d9_site *site, d9_value_id id) { return &site->graph->values[id]; }
static inline int64_t d9_site_count(const d9_site *site, d9_value_id id) {
    return d9_shape_count(&d9_site_value(site, id)->shape);
}
static inline int64_t d9_site_bytes(const d9_site *site, d9_value_id id) {
    return d9_site_count(site, id) * (int64_t)d9_type_bytes(d9_site_value(site, id)->type);
}

/* Whether every input and output of the first node has an allowed type. */
bool d9_site_types(const d9_site *site, bool (*allowed)(d9_type type));

/* ---- attributes as the kernels take them ---- */

/* Of act and act_backward. NULL: none follows. */
static inline d9_kernel_act d9_node_act(const d9_node *node) {
    if (!node) return (d9_kernel_act){D9_KERNEL_NO_ACT, 0};
    return (d9_kernel_act){(int)node->as.act.activation, (float)node->as.act.alpha};
}
/* Of the site's first node, from the shape of its logits. A metrics node has no row and no smoothing: zeros. The
 * share is the caller's to set: it goes by the step. */
static inline d9_kernel_loss d9_site_loss(const d9_site *site, d9_value_id logits) {
    const d9_shape *shape = &d9_site_value(site, logits)->shape;
    const d9_loss_attributes *loss = &site->nodes[0]->as.loss;
    return (d9_kernel_loss){shape->d[0], shape->d[1], loss->smoothing, (int)loss->loss, 1};
}

/* ---- convolutions ---- */

/* The arguments of a pass: what lies on the image's side, on the output's side, and the weights between. */
typedef enum d9_conv_pass { D9_CONV_FORWARD, D9_CONV_BACKWARD_DATA, D9_CONV_BACKWARD_WEIGHT } d9_conv_pass;
enum { D9_CONV_IMAGE, D9_CONV_WEIGHTS, D9_CONV_OUTPUT, D9_CONV_ARGUMENTS };

typedef struct d9_conv_geometry {
    d9_conv_pass pass;
    d9_value_id value[D9_CONV_ARGUMENTS];
    d9_shape x, w, y; /* x and y (N, H, W, C), w (O, KH, KW, I) */
    d9_type type;     /* of x and y, and of w but for its gradient, which is f32 */
    bool tf32;        /* f32 may be rounded to tf32 before it is multiplied */
    int stride, pad;
} d9_conv_geometry;

/* Of a convolution, or of a linear layer as one: x (1, N, 1, I), w (O, 1, 1, I), y (1, N, 1, O). */
d9_conv_geometry d9_conv_geometry_of(const d9_site *site);
/* Whether the values have the types that the geometry's type says. */
bool d9_conv_typed(const d9_site *site, const d9_conv_geometry *geometry);

/* ---- norm or bias, then act and add in either order; add, act_backward, then its gradient ---- */

/* After the first node act, add, or both, all of one type; the first's output is internal, what lies between the two
 * others may be wanted. The state is f32, a norm's input has 4 dimensions. */
bool d9_chain_fits(const d9_site *site, bool (*storable)(d9_type type));
bool d9_chain_norm_fits(const d9_site *site, bool (*storable)(d9_type type));
/* The sum is internal; what act_backward makes may be wanted. */
bool d9_chain_backward_fits(const d9_site *site, bool (*storable)(d9_type type));
bool d9_chain_norm_backward_fits(const d9_site *site, bool (*storable)(d9_type type));
/* The other side of the addition; D9_NONE: it does not add to what the chain makes. */
d9_value_id d9_chain_addend(const d9_site *site);
/* The norm among the site's nodes, forward or backward. */
const d9_node *d9_chain_norm(const d9_site *site);
/* (N, H * W, C), and the ghost groups of the statistics. */
d9_kernel_norm d9_chain_extent(const d9_site *site);
/* The arrays and numbers of a norm or norm_eval node; the latter writes no statistics. */
d9_kernel_norm_state d9_site_norm_state(const d9_site *site, const d9_node *norm);

#endif
