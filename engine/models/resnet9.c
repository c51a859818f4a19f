/* ResNet-9, David Page's network without tricks: 3x3 convolutions; layer1 and layer3 each have a residual block of two
 * convolutions.
 *
 *   stem    conv 3->c0, norm, act                                          @32, the side of the output for CIFAR-10
 *   layer1  conv c0->c1, norm, act, pool 2; y + res2(res1(y))              @16
 *   layer2  conv c1->c2, norm, act, pool 2                                 @8
 *   layer3  conv c2->c3, norm, act, pool 2; y + res2(res1(y))              @4
 *   head    global max pool, linear, times logits_scale */
#include "models/model.h"
#include "models/parts.h"

#include <stdio.h>

typedef struct resnet9 {
    d9_int_list channels;
    double logits_scale;
} resnet9;

static const d9_option options[] = {{"channels", D9_OPTION_INTS, offsetof(resnet9, channels), "[64, 128, 256, 512]", 1,
                                     4096, NULL, "output channels of stem, layer1, layer2 and layer3"},
                                    {"logits_scale", D9_OPTION_REAL, offsetof(resnet9, logits_scale), "0.125", 1e-6,
                                     1e6, NULL, "factor on the classifier's output"},
                                    {0}};

/* Adds conv, norm and act, and a 2x2 max pool if `pool`. */
static d9_status add_block(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, int64_t channels,
                           bool pool, d9_value_id *y) {
    d9_status status;
    char names[2][D9_NAME_SIZE];
    D9_TRY(d9_graph_conv(context, graph, d9_parts_role(names[0], role, "conv"), x, channels, 3, 1, y));
    D9_TRY(d9_parts_norm_act(context, graph, d9_parts_role(names[0], role, "norm"),
                             d9_parts_role(names[1], role, "act"), *y, y));
    if (pool)
        D9_TRY(
            d9_graph_pool(context, graph, d9_parts_role(names[0], role, "pool"), *y, (d9_pool_attributes){2, 2, 0}, y));
done:
    return status;
}

static d9_status add_stage(d9_context *context, d9_graph *graph, int index, d9_value_id x, int64_t channels,
                           bool residual, d9_value_id *y) {
    d9_status status;
    char role[D9_NAME_SIZE];
    d9_value_id trunk;
    snprintf(role, sizeof role, "layer%d", index);
    D9_TRY(add_block(context, graph, role, x, channels, true, &trunk));
    *y = trunk;
    if (!residual) return D9_OK;
    snprintf(role, sizeof role, "layer%d.res1", index);
    D9_TRY(add_block(context, graph, role, trunk, channels, false, y));
    snprintf(role, sizeof role, "layer%d.res2", index);
    D9_TRY(add_block(context, graph, role, *y, channels, false, y));
    snprintf(role, sizeof role, "layer%d.add", index);
    D9_TRY(d9_graph_add(context, graph, role, trunk, *y, y));
done:
    return status;
}

static d9_status build(d9_context *context, const void *opaque, int64_t classes, d9_graph *graph, d9_value_id x,
                       d9_value_id *logits) {
    d9_status status;
    const resnet9 *self = opaque;
    const int64_t *channels = self->channels.values;
    d9_value_id y;
    if (self->channels.count != 4)
        return d9_fail(context, D9_USAGE,
                       "model.channels has %d entries; resnet9 needs four: stem, layer1, layer2, layer3",
                       self->channels.count);
    D9_TRY(add_block(context, graph, "stem", x, channels[0], false, &y));
    D9_TRY(add_stage(context, graph, 1, y, channels[1], true, &y));
    D9_TRY(add_stage(context, graph, 2, y, channels[2], false, &y));
    D9_TRY(add_stage(context, graph, 3, y, channels[3], true, &y));
    const int side = (int)graph->values[y].shape.d[1];
    D9_TRY(d9_graph_pool(context, graph, "head.pool", y, (d9_pool_attributes){side, side, 0}, &y));
    D9_TRY(d9_graph_linear(context, graph, "head", y, classes, &y));
    D9_TRY(d9_graph_scale(context, graph, "head.scale", y, self->logits_scale, logits));
done:
    return status;
}

const d9_model d9_model_resnet9 = {
    .name = "resnet9",
    .doc = "nine-layer residual network of the DAWNBench CIFAR-10 entries",
    .source = "davidcpage/cifar10-fast@f79e8b89, bag_of_tricks.ipynb",
    .bf16_cost = {6, 0.0067, -0.1233},
    .options = options,
    .options_size = sizeof(resnet9),
    .build = build,
};
