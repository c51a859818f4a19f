/* Wide residual networks (WRN-depth-width): a 3x3 convolution to 16 channels, then three groups of (depth - 4) / 6
 * blocks with 16, 32 and 64 times `width` channels, and a head. The first block of the second and third group halves
 * the sides. The names are those of the authors' PyTorch code.
 *
 *   block     norm, act, conv 3x3 stride s, norm, act, dropout, conv 3x3   + shortcut
 *   shortcut  the block's input; if the channels change: conv 1x1 stride s of the first act's output
 *   head      norm, act, global mean, linear with bias
 *
 * The shortcut's convolution precedes the others of its block, so that the last convolution, the add and the next norm
 * are adjacent. */
#include "graph/init.h"
#include "models/model.h"
#include "models/parts.h"

#include <stdio.h>

typedef struct wide_resnet {
    int depth_choice;
    int64_t width;
    double dropout;
} wide_resnet;

enum { GROUPS = 3, STEM = 16 /* output channels of the first convolution, and of the first group at width 1 */ };

/* Choice i of option `depth`, from 0, has i + 1 blocks in each group and 6 (i + 1) + 4 layers. */
static const d9_option options[] = {
    {"depth", D9_OPTION_CHOICE, offsetof(wide_resnet, depth_choice), "28", 0, 0, "10|16|22|28|34|40",
     "layers\n"
     "10: one block in each of the three groups\n"
     "16: two\n"
     "22: three\n"
     "28: four\n"
     "34: five\n"
     "40: six"},
    {"width", D9_OPTION_INT, offsetof(wide_resnet, width), "10", 1, 64, NULL,
     "widening factor: the groups have 16, 32 and 64 times as many channels"},
    {"dropout", D9_OPTION_REAL, offsetof(wide_resnet, dropout), "0", 0, 0.999999, NULL,
     "share of the values set to zero before the second convolution of each block, below 1; 0: no dropout"},
    {0}};

/* The block being built. Its nodes are named after `role`, such as "group1.block0". */
typedef struct block {
    d9_context *context;
    d9_graph *graph;
    const char *role;
} block;

static d9_status add_norm_act(const block *b, const char *norm, const char *act, d9_value_id x, d9_value_id *y) {
    char names[2][D9_NAME_SIZE];
    return d9_parts_norm_act(b->context, b->graph, d9_parts_role(names[0], b->role, norm),
                             d9_parts_role(names[1], b->role, act), x, y);
}

static d9_status add_conv(const block *b, const char *part, d9_value_id x, int64_t channels, int kernel, int stride,
                          d9_value_id *y) {
    char name[D9_NAME_SIZE];
    return d9_graph_conv(b->context, b->graph, d9_parts_role(name, b->role, part), x, channels, kernel, stride, y);
}

static d9_status add_block(const block *b, double dropout, d9_value_id x, int64_t channels, int stride,
                           d9_value_id *y) {
    d9_status status;
    const bool widens = b->graph->values[x].shape.d[3] != channels;
    char name[D9_NAME_SIZE];
    d9_value_id shortcut = x;
    D9_TRY(add_norm_act(b, "bn0", "relu0", x, y));
    if (widens) D9_TRY(add_conv(b, "convdim", *y, channels, 1, stride, &shortcut));
    D9_TRY(add_conv(b, "conv0", *y, channels, 3, stride, y));
    D9_TRY(add_norm_act(b, "bn1", "relu1", *y, y));
    if (dropout > 0)
        D9_TRY(d9_graph_dropout(b->context, b->graph, d9_parts_role(name, b->role, "drop"), *y, dropout, y));
    D9_TRY(add_conv(b, "conv1", *y, channels, 3, 1, y));
    D9_TRY(d9_graph_add(b->context, b->graph, d9_parts_role(name, b->role, "add"), *y, shortcut, y));
done:
    return status;
}

/* Fills `values` uniformly from (0, 2 a). */
static d9_status fill_scale(d9_context *context, const d9_initializer *self, const d9_init_site *site, double *values,
                            int64_t count) {
    const d9_status status = d9_init_uniform(context, self, site, values, count);
    for (int64_t i = 0; i < count; i++) values[i] += self->a;
    return status;
}

/* The initial values of the authors' Torch code: convolutions by He et al., scales of norms uniform in (0, 1), the last
 * layer's bias 0. */
static void initialize(d9_graph *graph) {
    d9_parts_init_convolutions(graph, true);
    for (d9_node_id n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == D9_OP_NORM)
            graph->values[graph->nodes[n].inputs[1]].init =
                (d9_initializer){.name = "half_uniform", .fill = fill_scale, .a = 0.5};
    graph->values[d9_graph_find_value(graph, "fc.bias")].init =
        (d9_initializer){.name = "constant", .fill = d9_init_constant, .a = 0};
}

static d9_status build(d9_context *context, const void *opaque, int64_t classes, d9_graph *graph, d9_value_id x,
                       d9_value_id *logits) {
    d9_status status;
    const wide_resnet *self = opaque;
    d9_value_id y;
    D9_TRY(d9_graph_conv(context, graph, "conv0", x, STEM, 3, 1, &y));
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; i <= self->depth_choice; i++) {
            char role[D9_NAME_SIZE];
            snprintf(role, sizeof role, "group%d.block%d", g, i);
            const block b = {context, graph, role};
            D9_TRY(add_block(&b, self->dropout, y, (STEM * self->width) << g, g > 0 && i == 0 ? 2 : 1, &y));
        }
    D9_TRY(d9_parts_norm_act(context, graph, "bn", "relu", y, &y));
    D9_TRY(d9_parts_mean_head(context, graph, "fc", y, classes, logits));
    initialize(graph);
done:
    return status;
}

const d9_model d9_model_wide_resnet = {
    .name = "wide_resnet",
    .doc = "residual networks that are wide instead of deep, for small images: WRN-16-4, WRN-28-10",
    .source = "Zagoruyko and Komodakis 2016, arXiv 1605.07146; szagoruyko/wide-residual-networks",
    .options = options,
    .options_size = sizeof(wide_resnet),
    .build = build,
};
