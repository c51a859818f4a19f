/* Parts shared by several networks: stems for small images and for those of ImageNet, convolutions and activations with
 * a norm, layers with a bias, the head, and initial weights. */
#pragma once

#include "graph/graph.h"

/* Writes "BASE.PART" to `name` and returns it. */
const char *d9_parts_role(char name[D9_NAME_SIZE], const char *base, const char *part);

/* Kinds of stem, a network's first layers:
 *
 *   cifar     conv 3x3, norm, act                                                  keeps the image's size
 *   imagenet  conv 7x7 stride 2, norm, act, max pool 3x3 stride 2, padded          a quarter of the side, rounded up
 *   auto      cifar for images of up to 64 pixels a side, otherwise imagenet */
typedef enum d9_stem { D9_STEM_AUTO, D9_STEM_CIFAR, D9_STEM_IMAGENET } d9_stem;
#define D9_STEM_CHOICES "auto|cifar|imagenet"
#define D9_STEM_DOC                                                                                                    \
    "first layers\n"                                                                                                   \
    "auto: cifar for images of up to 64 pixels a side, otherwise imagenet\n"                                           \
    "cifar: a 3x3 convolution\n"                                                                                       \
    "imagenet: a 7x7 convolution of stride 2 and a max pool of stride 2"
typedef struct d9_stem_roles {
    const char *conv, *norm, *act, *pool; /* roles of the nodes; pool: only of the imagenet stem */
} d9_stem_roles;
/* Builds the stem. Returns D9_USAGE if the stem's output would have fewer than `least` pixels a side. */
D9_MUST_USE d9_status d9_parts_stem(d9_context *context, d9_graph *graph, const d9_stem_roles *roles, d9_stem stem,
                                    int64_t least, d9_value_id x, int64_t channels, d9_value_id *y);

D9_MUST_USE d9_status d9_parts_conv_norm(d9_context *context, d9_graph *graph, const char *conv, const char *norm,
                                         d9_value_id x, int64_t channels, int kernel, int stride, d9_value_id *y);
D9_MUST_USE d9_status d9_parts_norm_act(d9_context *context, d9_graph *graph, const char *norm, const char *act,
                                        d9_value_id x, d9_value_id *y);

/* Add a convolution (stride 1, padding kernel / 2) or a linear layer, with `ROLE.weight` and `ROLE.bias`, both uniform
 * in +-1/sqrt(fan-in), as PyTorch initialises them. */
D9_MUST_USE d9_status d9_parts_conv_bias(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                         int64_t channels, int kernel, d9_value_id *y);
D9_MUST_USE d9_status d9_parts_linear_bias(d9_context *context, d9_graph *graph, const char *role, d9_value_id x,
                                           int64_t outputs, d9_value_id *y);

/* Global mean pool `avgpool`, then a linear layer with bias. Returns D9_USAGE unless x is square. */
D9_MUST_USE d9_status d9_parts_mean_head(d9_context *context, d9_graph *graph, const char *linear, d9_value_id x,
                                         int64_t classes, d9_value_id *logits);

/* Fan-in and fan-out of a weight (O, K, K, I) or (O, I). */
typedef struct d9_fans {
    double in, out;
} d9_fans;
d9_fans d9_parts_fans(const d9_shape *weight);
/* Initialises every convolution from a normal distribution with standard deviation sqrt(2 / fan), where fan is the
 * fan-out or the fan-in: He et al. 2015, arXiv 1502.01852. */
void d9_parts_init_convolutions(d9_graph *graph, bool fan_out);
