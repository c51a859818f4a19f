/* whitening_bias: a fixed whitening layer in front, with negated copies of its filters and a bias that learns in the
 * first epochs.
 *
 *   conv k x k, 3 -> 2 * 3 k^2 (frozen), bias, act, and then the network
 *
 * Filter j of the first 3 k^2 is patch eigenvector j over sqrt(eigenvalue j + epsilon), as in patch_whitening; the
 * others are their negatives, so that an activation that cuts off negative values loses nothing. A network whose first
 * convolution has this form and a bias (airbench) keeps it; other networks get a new layer in front. */
#include "step/patches.h"
#include "tricks/trick.h"

#include <stdio.h>
#include <string.h>

typedef struct whitening_bias {
    int64_t size, images;
    double epsilon, bias_epochs, bias_lr_multiplier, bias_spread;
    bool bias_anneal;
} whitening_bias;

static const d9_option options[] = {
    {"size", D9_OPTION_INT, offsetof(whitening_bias, size), "3", 1, 7, NULL,
     "side of the patches, in pixels; odd unless the network has such a layer of its own"},
    {"images", D9_OPTION_INT, offsetof(whitening_bias, images), "5000", 1, 1e9, NULL,
     "number of training images, from the first, whose patches are measured"},
    {"epsilon", D9_OPTION_REAL, offsetof(whitening_bias, epsilon), "5.0e-4", 0, 1e3, NULL,
     "added to each eigenvalue, so that directions without variance are not amplified"},
    {"bias_epochs", D9_OPTION_REAL, offsetof(whitening_bias, bias_epochs), "3", 0, 1e6, NULL,
     "epochs in which the bias learns; 0: none"},
    {"bias_lr_multiplier", D9_OPTION_REAL, offsetof(whitening_bias, bias_lr_multiplier), "1", 1e-6, 1e6, NULL,
     "factor of the learning rate of this bias; its weight decay is divided by it"},
    {"bias_spread", D9_OPTION_REAL, offsetof(whitening_bias, bias_spread), "0", 0, 1e3, NULL,
     "the bias is initialised uniformly between minus this and this; 0: to zero"},
    {"bias_anneal", D9_OPTION_BOOL, offsetof(whitening_bias, bias_anneal), "off", 0, 0, NULL,
     "the learning rate of the bias falls linearly from the peak of train.lr to 0 over these epochs; off: it follows "
     "train.lr"},
    {0}};

static d9_status fill_filters(d9_context *context, const d9_initializer *self, const d9_init_site *site, double *values,
                              int64_t count) {
    d9_status status;
    const whitening_bias *o = self->options;
    const d9_whitening whitening = {"tricks.whitening_bias", o->size, o->images, o->epsilon};
    D9_TRY(d9_whitening_filters(context, &whitening, site, values, count / 2));
    for (int64_t i = 0; i < count / 2; i++) values[count / 2 + i] = -values[i];
done:
    return status;
}

/* The bias node that alone reads the output of this convolution; D9_NONE if there is none. */
static d9_node_id bias_of(const d9_graph *graph, d9_node_id conv) {
    d9_node_id n = D9_NONE;
    if (d9_graph_consumers(graph, graph->nodes[conv].outputs[0], &n) != 1) return D9_NONE;
    return graph->nodes[n].op == D9_OP_BIAS ? n : D9_NONE;
}

/* True if the convolution has this size, the number of filters of a whitening layer, and a bias. */
static bool is_whitening_layer(const d9_graph *graph, d9_node_id conv, int64_t size) {
    const d9_shape *shape = &graph->values[graph->nodes[conv].inputs[1]].shape;
    return shape->d[1] == size && shape->d[0] == 2 * size * size * shape->d[3] && bias_of(graph, conv) != D9_NONE;
}

/* Inserts convolution, bias and activation between the image and `stem`. */
static d9_status insert_layer(d9_context *context, d9_graph *graph, d9_node_id stem, int64_t size) {
    d9_status status;
    const int64_t channels = d9_shape_channels(&graph->values[graph->input].shape),
                  filters = 2 * size * size * channels;
    const int side = (int)size;
    const d9_shape weight = {4, {filters, size, size, channels}}, one_each = {1, {filters}};
    d9_node conv = {.op = D9_OP_CONV, .input_count = 2, .as.conv = {side, 1, side / 2}},
            bias = {.op = D9_OP_BIAS, .input_count = 2}, act = {.op = D9_OP_ACT, .as.act = {D9_ACT_RELU, 0}};
    d9_node_id n;
    d9_edit_sibling_role(graph->nodes[stem].role, "whiten", conv.role);
    d9_edit_sibling_role(graph->nodes[stem].role, "whiten.bias", bias.role);
    d9_edit_sibling_role(graph->nodes[stem].role, "whiten.act", act.role);
    D9_TRY(d9_edit_add_parameter(context, graph, conv.role, "weight", &weight, D9_WEIGHT, &conv.inputs[1]));
    D9_TRY(d9_edit_add_parameter(context, graph, conv.role, "bias", &one_each, D9_BIAS, &bias.inputs[1]));
    d9_edit_set_conv_inputs(graph, stem, filters, graph->nodes[stem].as.conv);
    D9_TRY(d9_edit_insert(context, graph, graph->input, &conv, &n));
    D9_TRY(d9_edit_insert(context, graph, graph->nodes[n].outputs[0], &bias, &n));
    D9_TRY(d9_edit_insert(context, graph, graph->nodes[n].outputs[0], &act, &n));
done:
    return status;
}

static d9_status on_model(d9_context *context, const void *opaque, d9_graph *graph) {
    d9_status status = D9_OK;
    const whitening_bias *self = opaque;
    const d9_node_id stem = d9_edit_stem(graph);
    if (stem == D9_NONE || graph->nodes[stem].as.conv.stride != 1)
        return d9_trick_reject(context, "whitening_bias", "no convolution of stride 1 reads the image alone");
    if (!is_whitening_layer(graph, stem, self->size)) {
        if (self->size % 2 == 0)
            return d9_fail(context, D9_USAGE,
                           "tricks.whitening_bias.size is %lld; it must be odd: the first layer of this network is no "
                           "%lldx%lld whitening layer, and one in front would change the images' size",
                           (long long)self->size, (long long)self->size, (long long)self->size);
        D9_TRY(insert_layer(context, graph, stem, self->size));
    }
done:
    return status;
}

static d9_status on_init(d9_context *context, const void *opaque, d9_graph *graph) {
    const d9_node_id conv = d9_edit_stem(graph);
    d9_value *weight = &graph->values[graph->nodes[conv].inputs[1]],
             *bias = &graph->values[graph->nodes[bias_of(graph, conv)].inputs[1]];
    const whitening_bias *self = opaque;
    (void)context;
    weight->trainable = false;
    weight->init = (d9_initializer){
        .name = "whitening_bias", .fill = fill_filters, .phase = D9_INIT_FROM_IMAGES, .options = opaque};
    bias->trainable = self->bias_epochs > 0;
    bias->init = self->bias_spread > 0
                     ? (d9_initializer){.name = "uniform", .fill = d9_init_uniform, .a = self->bias_spread}
                     : (d9_initializer){.name = "constant", .fill = d9_init_constant, .a = 0};
    return D9_OK;
}

/* Knots of an annealed learning rate: the start of the run, and the end of the group's steps. */
static const d9_knot ends[] = {{0, D9_KNOT_EPOCHS}, {0, D9_KNOT_BEFORE_END}};

/* Gives the bias a group of its own that ends after bias_epochs. By default it has the learning rate and decay of the
 * weights, not those of the norms' biases. */
static d9_status on_optimizer(d9_context *context, const void *opaque, const d9_graph *graph, d9_groups *groups) {
    const d9_node_id conv = d9_edit_stem(graph);
    const d9_value *bias = &graph->values[graph->nodes[bias_of(graph, conv)].inputs[1]];
    const int weights = d9_groups_find(groups, &graph->values[graph->nodes[conv].inputs[1]]);
    const whitening_bias *self = opaque;
    d9_status status;
    double *values;
    if (self->bias_epochs == 0) return D9_OK;
    d9_group group = groups->group[weights];
    snprintf(group.name, sizeof group.name, "whitening_bias");
    group.selects = (d9_selector){0};
    memcpy(group.selects.role, bias->name, sizeof bias->name); /* the name contains no wildcard */
    group.until_epoch = self->bias_epochs;
    group.rate_multiplier *= self->bias_lr_multiplier;
    group.decay_multiplier /= self->bias_lr_multiplier;
    if (self->bias_anneal) {
        D9_TRY(D9_ARENA_ALLOCATE(context, groups->arena, 2, &values));
        values[0] = d9_schedule_peak(&group.rate);
        group.rate = (d9_schedule){.count = 2, .knots = ends, .values = values, .at_start = group.rate.at_start};
    }
    group.rate_ends = self->bias_anneal;
    D9_TRY(d9_group_insert(context, groups, 0, &group));
done:
    return status;
}

const d9_trick d9_trick_whitening_bias = {
    .name = "whitening_bias",
    .doc = "whitens patches by a fixed first layer with negated copies and a bias that learns in the first epochs",
    .source = "Jordan 2024, arXiv 2404.00498, section 3.2; KellerJordan/cifar10-airbench@f1c599c4, legacy",
    .effect = "airbench: 94% after 21 epochs instead of 34 (14.2 s to 8.6 s on an A100)",
    .conflicts = {"patch_whitening"},
    .options = options,
    .options_size = sizeof(whitening_bias),
    .on_model = on_model,
    .on_init = on_init,
    .on_optimizer = on_optimizer,
};
