/* airbench: Keller Jordan's networks for 94, 95 and 96% on CIFAR-10: a small first layer and three groups.
 *
 *   whiten  conv 2x2 without padding, 3 -> 24, bias, act; the output of 32 x 32 pixels is 31 x 31
 *   groupG  conv to entry G of `widths`, pool 2, norm, act; then conv, norm, act until there are `depth`
 *           convolutions, in the first group `first_depth` unless that is 0
 *   head    global max pool, linear without bias, times logits_scale
 *
 * With model.residual the output of a group's first activation is added to that of its last norm. Tricks whiten the
 * first layer (whitening_bias), initialise convolutions as the identity (dirac_init) and choose the activation
 * (gelu). */
#include "models/model.h"
#include "models/parts.h"

#include <stdio.h>

typedef struct airbench {
    d9_int_list widths;
    int64_t depth, first_depth;
    bool residual;
    double logits_scale, norm_momentum, norm_epsilon;
} airbench;

static const d9_option options[] = {
    {"widths", D9_OPTION_INTS, offsetof(airbench, widths), "[64, 256, 256]", 1, 4096, NULL,
     "output channels of the three groups"},
    {"depth", D9_OPTION_INT, offsetof(airbench, depth), "2", 1, 16, NULL, "convolutions per group"},
    {"first_depth", D9_OPTION_INT, offsetof(airbench, first_depth), "0", 0, 16, NULL,
     "convolutions of the first group; 0: the same as depth"},
    {"residual", D9_OPTION_BOOL, offsetof(airbench, residual), "off", 0, 0, NULL,
     "add the output of a group's first activation to that of its last norm"},
    {"logits_scale", D9_OPTION_REAL, offsetof(airbench, logits_scale), "0.1111111111111111", 1e-6, 1e6, NULL,
     "factor on the classifier's output"},
    {"norm_momentum", D9_OPTION_REAL, offsetof(airbench, norm_momentum), "0.4", 0, 1, NULL,
     "share of the new batch in the running statistics of norms"},
    {"norm_epsilon", D9_OPTION_REAL, offsetof(airbench, norm_epsilon), "1e-12", 0, 1, NULL,
     "added to variances before the square root"},
    {0}};

typedef struct builder {
    d9_context *context;
    d9_graph *graph;
    const airbench *self;
} builder;

static d9_status add_conv(const builder *b, const char *group, int index, d9_value_id x, int64_t channels,
                          d9_value_id *y) {
    char role[D9_NAME_SIZE];
    snprintf(role, sizeof role, "%s.conv%d", group, index);
    return d9_graph_conv(b->context, b->graph, role, x, channels, 3, 1, y);
}

static d9_status add_norm(const builder *b, const char *group, int index, d9_value_id x, d9_value_id *y) {
    d9_status status;
    char role[D9_NAME_SIZE];
    snprintf(role, sizeof role, "%s.norm%d", group, index);
    D9_TRY(d9_graph_batch_norm(b->context, b->graph, role, x, y));
    d9_norm_attributes *norm = &b->graph->nodes[b->graph->values[*y].producer].as.norm;
    norm->epsilon = b->self->norm_epsilon;
    norm->momentum = b->self->norm_momentum;
done:
    return status;
}

static d9_status add_act(const builder *b, const char *group, int index, d9_value_id x, d9_value_id *y) {
    char role[D9_NAME_SIZE];
    snprintf(role, sizeof role, "%s.act%d", group, index);
    return d9_graph_act(b->context, b->graph, role, x, y);
}

static int64_t depth_of(const airbench *self, int group) {
    return group == 0 && self->first_depth > 0 ? self->first_depth : self->depth;
}

static d9_status add_group(const builder *b, int index, d9_value_id x, d9_value_id *y) {
    static const char *const names[] = {"group1", "group2", "group3"};
    const char *name = names[index];
    const int64_t channels = b->self->widths.values[index], depth = depth_of(b->self, index);
    d9_status status;
    char role[D9_NAME_SIZE];
    d9_value_id trunk;
    D9_TRY(add_conv(b, name, 1, x, channels, y));
    D9_TRY(
        d9_graph_pool(b->context, b->graph, d9_parts_role(role, name, "pool"), *y, (d9_pool_attributes){2, 2, 0}, y));
    D9_TRY(add_norm(b, name, 1, *y, y));
    D9_TRY(add_act(b, name, 1, *y, y));
    trunk = *y;
    for (int i = 2; i <= depth; i++) {
        D9_TRY(add_conv(b, name, i, *y, channels, y));
        D9_TRY(add_norm(b, name, i, *y, y));
        if (b->self->residual && i == depth)
            D9_TRY(d9_graph_add(b->context, b->graph, d9_parts_role(role, name, "add"), trunk, *y, y));
        D9_TRY(add_act(b, name, i, *y, y));
    }
done:
    return status;
}

/* Adds convolution, bias and act. The convolution has two channels for each element of a 2x2 patch, because the trick
 * whitening_bias makes two filters of opposite sign from each eigenvector of the patches. */
static d9_status add_first_layer(const builder *b, d9_value_id x, d9_value_id *y) {
    d9_status status;
    const int64_t channels = 2 * 2 * 2 * d9_shape_channels(&b->graph->values[x].shape);
    D9_TRY(d9_parts_conv_bias(b->context, b->graph, "whiten.conv", x, channels, 2, y));
    const d9_value *made = &b->graph->values[*y];
    d9_node *node = &b->graph->nodes[b->graph->values[b->graph->nodes[made->producer].inputs[0]].producer];
    node->as.conv.pad = 0;
    D9_TRY(d9_graph_infer(b->context, b->graph));
    D9_TRY(d9_graph_act(b->context, b->graph, "whiten.act", *y, y));
done:
    return status;
}

static d9_status check_options(d9_context *context, const airbench *self, const d9_shape *image) {
    const int64_t side = image->d[1] < image->d[2] ? image->d[1] : image->d[2];
    if (self->widths.count != 3)
        return d9_fail(context, D9_USAGE, "model.widths has %d entries; airbench needs three, one per group",
                       self->widths.count);
    if (self->residual && (self->depth < 2 || self->first_depth == 1))
        return d9_fail(context, D9_USAGE, "model.residual needs a model.%s of at least 2",
                       self->depth < 2 ? "depth" : "first_depth");
    if (side < 9)
        return d9_fail(context, D9_USAGE, "images of %lldx%lld are too small for airbench: it needs 9 pixels a side",
                       (long long)image->d[1], (long long)image->d[2]);
    return D9_OK;
}

static d9_status build(d9_context *context, const void *opaque, int64_t classes, d9_graph *graph, d9_value_id x,
                       d9_value_id *logits) {
    d9_status status;
    const builder b = {context, graph, opaque};
    d9_value_id y;
    D9_TRY(check_options(context, b.self, &graph->values[x].shape));
    D9_TRY(add_first_layer(&b, x, &y));
    for (int g = 0; g < 3; g++) D9_TRY(add_group(&b, g, y, &y));
    const d9_shape left = graph->values[y].shape;
    const int side = (int)(left.d[1] < left.d[2] ? left.d[1] : left.d[2]);
    D9_TRY(d9_graph_pool(context, graph, "head.pool", y, (d9_pool_attributes){side, side, 0}, &y));
    D9_TRY(d9_graph_linear(context, graph, "head", y, classes, &y));
    D9_TRY(d9_graph_scale(context, graph, "head.scale", y, b.self->logits_scale, logits));
done:
    return status;
}

const d9_model d9_model_airbench = {
    .name = "airbench",
    .doc = "three groups of convolutions after a 2x2 first layer, as in airbench's records for CIFAR-10",
    .source = "Jordan 2024, arXiv 2404.00498; KellerJordan/cifar10-airbench@f1c599c4, legacy",
    .bf16_cost = {10, 0.0260, -0.0803},
    .options = options,
    .options_size = sizeof(airbench),
    .build = build,
};
