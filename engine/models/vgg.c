/* A small VGG: the CNN with which ilkarman/DeepLearningFrameworks compared frameworks. Every layer has a bias; there
 * are no norms.
 *
 *   blockN  conv 3x3, act, conv 3x3, act, pool 2, dropout    for each entry of `channels`
 *   head    linear to `hidden`, act, dropout, linear
 *
 * The original pools before the second act, as `tricks: {pool_before_activation: {position: before_act}}` does: the
 * results are equal and act computes a quarter of the elements (configs/rosetta.yaml). */
#include "graph/init.h"
#include "models/model.h"
#include "models/parts.h"

#include <stdio.h>

typedef struct vgg {
    d9_int_list channels;
    int64_t hidden;
    d9_real_list dropout;
    bool dropout_in_evaluation;
    int init;
} vgg;

enum { INIT_GLOROT, INIT_DEFAULT };

static const d9_option options[] = {
    {"channels", D9_OPTION_INTS, offsetof(vgg, channels), "[50, 100]", 1, 4096, NULL,
     "output channels of each block's two convolutions"},
    {"hidden", D9_OPTION_INT, offsetof(vgg, hidden), "512", 1, 65536, NULL, "outputs of the hidden linear layer"},
    {"dropout", D9_OPTION_REALS, offsetof(vgg, dropout), "[0.25, 0.25, 0.5]", 0, 0.999999, NULL,
     "share of the values set to zero after each block and after the hidden layer, below 1; 0: no dropout there"},
    {"dropout_in_evaluation", D9_OPTION_BOOL, offsetof(vgg, dropout_in_evaluation), "off", 0, 0, NULL,
     "also drop in evaluation: a common mistake, to measure its cost"},
    {"init", D9_OPTION_CHOICE, offsetof(vgg, init), "glorot", 0, 0, "glorot|default",
     "initial weights\n"
     "glorot: uniform in +-sqrt(6 / (fan-in + fan-out)), with biases 0\n"
     "default: weights and biases uniform in +-1/sqrt(fan-in)"},
    {0}};

static d9_status add_dropout(d9_context *context, d9_graph *graph, const vgg *self, const char *role, double p,
                             d9_value_id *y) {
    d9_status status;
    if (p == 0) return D9_OK;
    D9_TRY(d9_graph_dropout(context, graph, role, *y, p, y));
    graph->nodes[graph->values[*y].producer].as.dropout.in_evaluation = self->dropout_in_evaluation;
done:
    return status;
}

static d9_status add_block(d9_context *context, d9_graph *graph, const vgg *self, int index, d9_value_id *y) {
    d9_status status;
    const int64_t channels = self->channels.values[index];
    char base[D9_NAME_SIZE], role[D9_NAME_SIZE];
    snprintf(base, sizeof base, "block%d", index + 1);
    D9_TRY(d9_parts_conv_bias(context, graph, d9_parts_role(role, base, "conv1"), *y, channels, 3, y));
    D9_TRY(d9_graph_act(context, graph, d9_parts_role(role, base, "act1"), *y, y));
    D9_TRY(d9_parts_conv_bias(context, graph, d9_parts_role(role, base, "conv2"), *y, channels, 3, y));
    D9_TRY(d9_graph_act(context, graph, d9_parts_role(role, base, "act2"), *y, y));
    D9_TRY(d9_graph_pool(context, graph, d9_parts_role(role, base, "pool"), *y, (d9_pool_attributes){2, 2, 0}, y));
    D9_TRY(add_dropout(context, graph, self, d9_parts_role(role, base, "drop"), self->dropout.values[index], y));
done:
    return status;
}

/* Uniform initialisation by Glorot and Bengio 2010; biases are 0. */
static void initialize_glorot(d9_graph *graph) {
    for (int v = 0; v < graph->value_count; v++) {
        d9_value *value = &graph->values[v];
        if (value->kind != D9_VALUE_PARAMETER) continue;
        if (value->parameter == D9_WEIGHT) {
            const d9_fans fans = d9_parts_fans(&value->shape);
            value->init.a = sqrt(6 / (fans.in + fans.out));
        } else {
            value->init = (d9_initializer){.name = "constant", .fill = d9_init_constant, .a = 0};
        }
    }
}

static d9_status check_options(d9_context *context, const vgg *self, const d9_shape *image) {
    const int blocks = self->channels.count;
    const int64_t side = image->d[1] < image->d[2] ? image->d[1] : image->d[2];
    if (self->dropout.count != blocks + 1)
        return d9_fail(context, D9_USAGE,
                       "model.dropout has %d entries; with %d in model.channels vgg needs %d: after each block and "
                       "after the hidden layer",
                       self->dropout.count, blocks, blocks + 1);
    if (side >> blocks == 0)
        return d9_fail(context, D9_USAGE,
                       "images of %lldx%lld are too small for the %d pools of model.channels: vgg needs %lld pixels a "
                       "side",
                       (long long)image->d[1], (long long)image->d[2], blocks, 1LL << blocks);
    return D9_OK;
}

static d9_status build(d9_context *context, const void *opaque, int64_t classes, d9_graph *graph, d9_value_id x,
                       d9_value_id *logits) {
    d9_status status;
    const vgg *self = opaque;
    const int blocks = self->channels.count;
    d9_value_id y = x;
    D9_TRY(check_options(context, self, &graph->values[x].shape));
    for (int b = 0; b < blocks; b++) D9_TRY(add_block(context, graph, self, b, &y));
    D9_TRY(d9_parts_linear_bias(context, graph, "fc1", y, self->hidden, &y));
    D9_TRY(d9_graph_act(context, graph, "fc1.act", y, &y));
    D9_TRY(add_dropout(context, graph, self, "fc1.drop", self->dropout.values[blocks], &y));
    D9_TRY(d9_parts_linear_bias(context, graph, "fc2", y, classes, logits));
    if (self->init == INIT_GLOROT) initialize_glorot(graph);
done:
    return status;
}

const d9_model d9_model_vgg = {
    .name = "vgg",
    .doc = "pairs of 3x3 convolutions with pools and dropout: the CNN of the Rosetta stone of deep learning frameworks",
    .source = "ilkarman/DeepLearningFrameworks; Simonyan and Zisserman 2014, arXiv 1409.1556",
    .options = options,
    .options_size = sizeof(vgg),
    .build = build,
};
