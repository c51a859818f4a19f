/* Properties of a site that several backends use: types, attributes for kernels, the geometry of a convolution, and
 * conditions under which one rule can compute the nodes around a loss, a norm or a bias; and matching of rules. */
#pragma once

#include "backends/host/host.h"
#include "kernels/formulas/dropout.h"
#include "kernels/types.h"

static inline const d9_value *d9_site_value(const d9_site *site, d9_value_id id) { return &site->graph->values[id]; }
static inline int64_t d9_site_count(const d9_site *site, d9_value_id id) {
    return d9_shape_count(&d9_site_value(site, id)->shape);
}
static inline int64_t d9_site_bytes(const d9_site *site, d9_value_id id) {
    return d9_site_count(site, id) * (int64_t)d9_type_bytes(d9_site_value(site, id)->type);
}

/* True if every input and output of the first node has an allowed type; d9_site_types_f32: is f32 or an integer. */
bool d9_site_types_fit(const d9_site *site, bool (*allowed)(d9_type type));
bool d9_site_types_f32(const d9_site *site);

/* ---- attributes in the kernels' format ---- */

/* Activation of an act or act_backward node; `node` NULL: no activation. */
static inline d9_kernel_act d9_node_act(const d9_node *node) {
    if (!node) return (d9_kernel_act){D9_KERNEL_NO_ACT, 0};
    return (d9_kernel_act){(int)node->as.act.activation, (float)node->as.act.alpha};
}
/* Parameters of the site's dropout in a step; `row` is the size of a sample or, if x is (T, N, C), of a token. */
d9_dropout d9_site_dropout(const d9_site *site, int64_t step);
/* Size of the logits and attributes of the first node's loss, for kernels. The share of the image's own label is set
 * to 1; a caller whose kernel reads it must replace it. */
static inline d9_kernel_loss d9_site_loss(const d9_site *site, d9_value_id logits) {
    const d9_shape *shape = &d9_site_value(site, logits)->shape;
    const d9_loss_attributes *loss = &site->nodes[0]->as.loss;
    return (d9_kernel_loss){d9_shape_rows(shape), d9_shape_channels(shape), loss->smoothing, (int)loss->loss, 1};
}

/* For a site of a loss or its gradient alone, or of a loss, metrics and perhaps the gradient, in this order: true if
 * all read the same f32 logits and the same labels, the metrics read the site's loss, and loss and gradient have the
 * same attributes. */
bool d9_loss_chain_fits(const d9_site *site);

/* For a site of metrics alone: true if losses and logits are f32; the metrics themselves are always f64. */
bool d9_metrics_fit(const d9_site *site);

/* ---- convolutions ---- */

typedef enum d9_conv_pass { D9_CONV_FORWARD, D9_CONV_BACKWARD_DATA, D9_CONV_BACKWARD_WEIGHT } d9_conv_pass;
/* Arguments of a pass, each a value or its gradient: the input x, the weights w, the output y. */
enum { D9_CONV_IMAGE, D9_CONV_WEIGHTS, D9_CONV_OUTPUT, D9_CONV_ARGUMENTS };
static inline int d9_conv_written(d9_conv_pass pass) { /* the argument that the pass writes */
    return pass == D9_CONV_FORWARD ? D9_CONV_OUTPUT : pass == D9_CONV_BACKWARD_DATA ? D9_CONV_IMAGE : D9_CONV_WEIGHTS;
}

typedef struct d9_conv_geometry {
    d9_conv_pass pass;
    d9_value_id value[D9_CONV_ARGUMENTS];
    d9_shape x, w, y; /* x and y (N, H, W, C), w (O, KH, KW, I) */
    d9_type type;     /* of x, y and w; the gradient of w is f32 */
    bool tf32;        /* f32 factors may be rounded to tf32 */
    int stride, pad;
} d9_conv_geometry;

/* Geometry of the first node, a convolution or its gradient. A linear layer is described as a 1 x 1 convolution: x (1,
 * rows, 1, I), w (O, 1, 1, I), y (1, rows, 1, O), with a row per sample, or per token of (T, N, I). */
d9_conv_geometry d9_conv_geometry_of(const d9_site *site);
/* True if the values have the types that the geometry requires. */
bool d9_conv_types_fit(const d9_site *site, const d9_conv_geometry *geometry);

/* ---- chains: norm or bias, then act and add in either order; backward: add (of two gradients), act_backward, then the
 * gradient of the norm or bias; act and add may be absent ---- */

/* For a site of a norm or bias followed by nothing, act, add or both: true if all activations have one storable type,
 * input 1 (scale or bias) is f32, and each node reads the output of the node before. If nodes follow the first one, no
 * node outside of the site may read its output; other nodes may read a value between act and add. */
bool d9_chain_fits(const d9_site *site, bool (*storable)(d9_type type));
/* d9_chain_fits, but other nodes may always read the first node's output. */
bool d9_chain_is_linked(const d9_site *site, bool (*storable)(d9_type type));
bool d9_chain_norm_fits(const d9_site *site, bool (*storable)(d9_type type)); /* d9_chain_fits, and x is (N, H, W, C) */
/* For the gradient of a norm or bias, alone or after add, act_backward or both in this order: true if all activations
 * and their gradients have one storable type, each node reads the output of the node before, and the output of add is
 * internal.
 * d9_chain_norm_backward_fits: also, x is (N, H, W, C) of this type, and the scale is f32. */
bool d9_chain_backward_fits(const d9_site *site, bool (*storable)(d9_type type));
bool d9_chain_norm_backward_fits(const d9_site *site, bool (*storable)(d9_type type));
/* The one input of a forward chain's add that the chain does not write; D9_NONE: no add, or not exactly one input. */
d9_value_id d9_chain_addend(const d9_site *site);
/* The norm of the site, forward or backward. */
const d9_node *d9_chain_norm(const d9_site *site);
/* `norm` is the gradient of a forward norm, `act` an act_backward. Returns the bias (C) of that forward norm if act's
 * activation directly follows it: input 1 of `act`, the reference, can then be recomputed from the norm's x. Otherwise
 * D9_NONE. */
d9_value_id d9_chain_norm_bias(const d9_site *site, const d9_node *act, const d9_node *norm);
/* Sizes of the norm's input as (N, H * W, C), and the number of ghost groups; for norm_eval, of all processes. */
d9_kernel_norm d9_chain_extent(const d9_site *site);
/* Arrays and attributes of a norm or norm_eval node; the latter writes no statistics. */
d9_kernel_norm_state d9_site_norm_state(const d9_site *site, const d9_node *norm);

/* ---- matching (match.c) ---- */
/* True if the rule fits `site`, which has as many nodes as the rule, by the conditions in host.h. */
bool d9_rule_fits(const d9_rule *rule, const d9_site *site);

bool d9_site_writes(const d9_site *site, d9_value_id value); /* true if a node of the site writes the value */
