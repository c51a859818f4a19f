/* DenseNet-121, with torchvision's names. Each layer of a block reads the concatenated channels of the block's input
 * and of all earlier layers of the block, and adds `growth` channels.
 *
 *   layer       norm, act, conv 1x1 to 4 x growth channels, norm, act, conv 3x3 to growth; concatenated to its input
 *   transition  norm, act, conv 1x1 to half the channels, mean pool 2x2
 *   head        norm, act, global mean, linear with bias */
#include "graph/init.h"
#include "models/model.h"
#include "models/parts.h"

#include <stdio.h>

typedef struct densenet {
    int stem;
    int64_t growth, features;
    d9_int_list blocks;
} densenet;

enum { BOTTLENECK = 4 /* output channels of a layer's 1x1 convolution, in units of growth */ };

static const d9_option options[] = {
    {"blocks", D9_OPTION_INTS, offsetof(densenet, blocks), "[6, 12, 24, 16]", 1, 128, NULL, "layers of each block"},
    {"growth", D9_OPTION_INT, offsetof(densenet, growth), "32", 1, 1024, NULL, "channels that a layer adds"},
    {"features", D9_OPTION_INT, offsetof(densenet, features), "64", 2, 4096, NULL, "channels of the stem"},
    {"stem", D9_OPTION_CHOICE, offsetof(densenet, stem), "auto", 0, 0, D9_STEM_CHOICES, D9_STEM_DOC},
    {0}};

/* Adds nodes named BASE.normSUFFIX, BASE.reluSUFFIX and BASE.convSUFFIX. */
static d9_status add_norm_act_conv(d9_context *context, d9_graph *graph, const char *base, const char *suffix,
                                   d9_value_id x, int64_t channels, int kernel, d9_value_id *y) {
    d9_status status;
    char norm[D9_NAME_SIZE], act[D9_NAME_SIZE], conv[D9_NAME_SIZE];
    snprintf(norm, sizeof norm, "%s.norm%s", base, suffix);
    snprintf(act, sizeof act, "%s.relu%s", base, suffix);
    snprintf(conv, sizeof conv, "%s.conv%s", base, suffix);
    D9_TRY(d9_parts_norm_act(context, graph, norm, act, x, y));
    D9_TRY(d9_graph_conv(context, graph, conv, *y, channels, kernel, 1, y));
done:
    return status;
}

static d9_status add_block(d9_context *context, d9_graph *graph, const densenet *self, int index, d9_value_id x,
                           d9_value_id *y) {
    d9_status status = D9_OK;
    *y = x;
    for (int i = 0; i < (int)self->blocks.values[index]; i++) {
        char layer[D9_NAME_SIZE], role[D9_NAME_SIZE];
        d9_value_id grown;
        snprintf(layer, sizeof layer, "features.denseblock%d.denselayer%d", index + 1, i + 1);
        D9_TRY(add_norm_act_conv(context, graph, layer, "1", *y, BOTTLENECK * self->growth, 1, &grown));
        D9_TRY(add_norm_act_conv(context, graph, layer, "2", grown, self->growth, 3, &grown));
        D9_TRY(d9_graph_concat(context, graph, d9_parts_role(role, layer, "concat"), *y, grown, y));
    }
done:
    return status;
}

static d9_status add_transition(d9_context *context, d9_graph *graph, int index, d9_value_id x, d9_value_id *y) {
    d9_status status;
    const int64_t channels = graph->values[x].shape.d[3] / 2;
    char base[D9_NAME_SIZE], role[D9_NAME_SIZE];
    snprintf(base, sizeof base, "features.transition%d", index + 1);
    D9_TRY(add_norm_act_conv(context, graph, base, "", x, channels, 1, y));
    D9_TRY(d9_graph_mean_pool(context, graph, d9_parts_role(role, base, "pool"), *y, (d9_pool_attributes){2, 2, 0}, y));
done:
    return status;
}

static d9_status build(d9_context *context, const void *opaque, int64_t classes, d9_graph *graph, d9_value_id x,
                       d9_value_id *logits) {
    d9_status status;
    static const d9_stem_roles stem = {"features.conv0", "features.norm0", "features.relu0", "features.pool0"};
    const densenet *self = opaque;
    const int last = self->blocks.count - 1;
    char norm[D9_NAME_SIZE];
    d9_value_id y;
    D9_TRY(d9_parts_stem(context, graph, &stem, (d9_stem)self->stem, INT64_C(1) << last, x, self->features, &y));
    for (int b = 0; b <= last; b++) {
        D9_TRY(add_block(context, graph, self, b, y, &y));
        if (b < last) D9_TRY(add_transition(context, graph, b, y, &y));
    }
    snprintf(norm, sizeof norm, "features.norm%d", last + 2);
    D9_TRY(d9_parts_norm_act(context, graph, norm, "relu", y, &y));
    D9_TRY(d9_parts_mean_head(context, graph, "classifier", y, classes, logits));
    d9_parts_init_convolutions(graph, false);
    graph->values[d9_graph_find_value(graph, "classifier.bias")].init =
        (d9_initializer){.name = "constant", .fill = d9_init_constant, .a = 0};
done:
    return status;
}

const d9_model d9_model_densenet = {
    .name = "densenet",
    .doc = "DenseNet-121: every layer of a block reads the outputs of all earlier ones",
    .source = "Huang et al. 2016, arXiv 1608.06993; torchvision's densenet.py",
    .options = options,
    .options_size = sizeof(densenet),
    .build = build,
};
