/* ResNet-18 to 152, with torchvision's names. Four stages of residual blocks; the first block of every stage but the
 * first halves the sides and doubles the channels.
 *
 *   basic       conv 3x3 stride s, norm, act, conv 3x3, norm                       + shortcut, act
 *   bottleneck  conv 1x1, norm, act, conv 3x3 stride s, norm, act, conv 1x1, norm  + shortcut, act
 *   shortcut    the block's input; if the shape changes: conv 1x1 stride s, norm
 *
 * The shortcut's nodes precede the rest of the block, so that the last norm, add and act are adjacent. */
#include "models/model.h"
#include "models/parts.h"

#include <stdio.h>

typedef struct resnet {
    int depth_choice, stem;
    int64_t width;
    bool zero_init_residual;
} resnet;

enum { STAGES = 4, EXPANSION = 4 /* output channels of a bottleneck / its width */ };

/* In the order of the choices of option `depth`. */
static const struct variant {
    int blocks[STAGES];
    bool bottleneck;
} variants[] = {
    {{2, 2, 2, 2}, false}, {{3, 4, 6, 3}, false}, {{3, 4, 6, 3}, true}, {{3, 4, 23, 3}, true}, {{3, 8, 36, 3}, true}};

static const d9_option options[] = {
    {"depth", D9_OPTION_CHOICE, offsetof(resnet, depth_choice), "18", 0, 0, "18|34|50|101|152",
     "layers\n"
     "18: blocks of two 3x3 convolutions\n"
     "34: as 18\n"
     "50: bottleneck blocks\n"
     "101: as 50\n"
     "152: as 50"},
    {"stem", D9_OPTION_CHOICE, offsetof(resnet, stem), "auto", 0, 0, D9_STEM_CHOICES, D9_STEM_DOC},
    {"width", D9_OPTION_INT, offsetof(resnet, width), "64", 1, 1024, NULL,
     "channels of the stem and of the first stage's 3x3 convolutions"},
    {"zero_init_residual", D9_OPTION_BOOL, offsetof(resnet, zero_init_residual), "on", 0, 0, NULL,
     "initialise the scale of each block's last norm with 0, so that every block starts as its shortcut"},
    {0}};

/* The block being built. add_conv_norm and add_act number its nodes by `index`: "conv3", "bn3", "relu3". */
typedef struct block {
    d9_context *context;
    d9_graph *graph;
    const char *role; /* "layer2.0" */
} block;

static d9_status add_conv_norm(const block *b, int index, d9_value_id x, int64_t channels, int kernel, int stride,
                               d9_value_id *y) {
    char conv[D9_NAME_SIZE], norm[D9_NAME_SIZE], part[16];
    snprintf(part, sizeof part, "conv%d", index);
    d9_parts_role(conv, b->role, part);
    snprintf(part, sizeof part, "bn%d", index);
    d9_parts_role(norm, b->role, part);
    return d9_parts_conv_norm(b->context, b->graph, conv, norm, x, channels, kernel, stride, y);
}

static d9_status add_act(const block *b, int index, d9_value_id x, d9_value_id *y) {
    char role[D9_NAME_SIZE], part[16];
    snprintf(part, sizeof part, "relu%d", index);
    return d9_graph_act(b->context, b->graph, d9_parts_role(role, b->role, part), x, y);
}

static d9_status add_shortcut(const block *b, d9_value_id x, int64_t channels, int stride, d9_value_id *y) {
    char conv[D9_NAME_SIZE], norm[D9_NAME_SIZE];
    *y = x;
    if (stride == 1 && b->graph->values[x].shape.d[3] == channels) return D9_OK;
    return d9_parts_conv_norm(b->context, b->graph, d9_parts_role(conv, b->role, "downsample.0"),
                              d9_parts_role(norm, b->role, "downsample.1"), x, channels, 1, stride, y);
}

static d9_status add_block(const block *b, const resnet *self, d9_value_id x, int64_t width, int stride,
                           d9_value_id *y) {
    d9_status status;
    const bool bottleneck = variants[self->depth_choice].bottleneck;
    const int64_t channels = bottleneck ? width * EXPANSION : width;
    const int last = bottleneck ? 3 : 2;
    char role[D9_NAME_SIZE];
    d9_value_id kept;
    D9_TRY(add_shortcut(b, x, channels, stride, &kept));
    if (bottleneck) {
        D9_TRY(add_conv_norm(b, 1, x, width, 1, 1, y));
        D9_TRY(add_act(b, 1, *y, y));
        D9_TRY(add_conv_norm(b, 2, *y, width, 3, stride, y));
        D9_TRY(add_act(b, 2, *y, y));
        D9_TRY(add_conv_norm(b, 3, *y, channels, 1, 1, y));
    } else {
        D9_TRY(add_conv_norm(b, 1, x, width, 3, stride, y));
        D9_TRY(add_act(b, 1, *y, y));
        D9_TRY(add_conv_norm(b, 2, *y, channels, 3, 1, y));
    }
    if (self->zero_init_residual) {
        const d9_node *norm = &b->graph->nodes[b->graph->values[*y].producer];
        b->graph->values[norm->inputs[1]].init.a = 0;
    }
    D9_TRY(d9_graph_add(b->context, b->graph, d9_parts_role(role, b->role, "add"), *y, kept, y));
    D9_TRY(add_act(b, last, *y, y));
done:
    return status;
}

static d9_status build(d9_context *context, const void *opaque, int64_t classes, d9_graph *graph, d9_value_id x,
                       d9_value_id *logits) {
    d9_status status;
    static const d9_stem_roles stem = {"conv1", "bn1", "relu", "maxpool"};
    const resnet *self = opaque;
    d9_value_id y;
    /* 5 is the smallest side after the stem that every later stage still halves, rounded up: 5, 3, 2, 1. */
    D9_TRY(d9_parts_stem(context, graph, &stem, (d9_stem)self->stem, 5, x, self->width, &y));
    for (int s = 0; s < STAGES; s++)
        for (int i = 0; i < variants[self->depth_choice].blocks[s]; i++) {
            char role[D9_NAME_SIZE];
            snprintf(role, sizeof role, "layer%d.%d", s + 1, i);
            const block b = {context, graph, role};
            D9_TRY(add_block(&b, self, y, self->width << s, s > 0 && i == 0 ? 2 : 1, &y));
        }
    D9_TRY(d9_parts_mean_head(context, graph, "fc", y, classes, logits));
    d9_parts_init_convolutions(graph, true);
done:
    return status;
}

const d9_model d9_model_resnet = {
    .name = "resnet",
    .doc = "residual networks of 18 to 152 layers, for small images and for those of ImageNet",
    .source = "He et al. 2015, arXiv 1512.03385; torchvision's resnet.py (a bottleneck's stride is on its 3x3)",
    .bf16_cost = {3, 0.0656, -0.8095},
    .options = options,
    .options_size = sizeof(resnet),
    .build = build,
};
