/* The networks as graphs: number of parameters, names, shapes, order of nodes, and errors for invalid options.
 * gradient_network.c tests their gradients. */
#include "graph/edit.h"
#include "tests/support/programs.h"
#include "tests/support/test.h"

enum { VOCABULARY = 30000 };

/* The network of `model: {name: NAME, ...}` with its loss, without tricks, for two images, or two texts of `side`
 * tokens; a language model's vocabulary has `classes` words. */
typedef struct network {
    d9_config *config;
    d9_graph graph;
} network;

static d9_status try_build(const char *model, int64_t side, int64_t classes, network *b) {
    d9_status status;
    char yaml[256];
    const d9_shape image = {4, {2, side, side, 3}};
    d9_value_id x, logits;
    snprintf(yaml, sizeof yaml, "model: {%s}\n", model);
    b->config = program_config(&context, yaml);
    d9_graph_init(&b->graph);
    const d9_model *network = b->config->model;
    if (network->texts)
        D9_TRY(
            d9_graph_tokens(&context, &b->graph, side, 2, network->stream ? classes : VOCABULARY, network->stream, &x));
    else
        D9_TRY(d9_graph_image(&context, &b->graph, &image, &x));
    D9_TRY(b->config->model->build(&context, b->config->model_options, classes, &b->graph, x, &logits));
    D9_TRY(d9_graph_loss(&context, &b->graph, logits));
done:
    return status;
}

static void drop(network *b) { d9_graph_free(&context, &b->graph), d9_config_free(&context, b->config); }

static network build(const char *model, int64_t side, int64_t classes) {
    network b;
    OK(try_build(model, side, classes, &b));
    program_check_graph(&b.graph);
    return b;
}

static const d9_value *value(const network *b, const char *name) {
    const d9_value_id id = d9_graph_find_value(&b->graph, name);
    if (id == D9_NONE) fail_msg("there is no value %s", name);
    return &b->graph.values[id];
}

static void assert_shape(const network *b, const char *name, d9_shape shape) {
    if (!d9_shape_equal(&value(b, name)->shape, &shape)) fail_msg("%s has another shape", name);
}

static int64_t count_parameters(const d9_graph *graph) {
    int64_t count = 0;
    for (int v = 0; v < graph->value_count; v++)
        if (graph->values[v].kind == D9_VALUE_PARAMETER) count += d9_shape_count(&graph->values[v].shape);
    return count;
}

/* ResNet and DenseNet: torchvision 0.14's numbers for 1000 classes; those for other counts follow from stem and head.
 * The wide ones are also counted in PyTorch (tests/cli/pytorch.sh); their paper has 2.7 M and 36.5 M. For other
 * networks: sums over their layers. */
TEST(parameters_are_counted) {
    static const struct {
        const char *model;
        int64_t side, classes, parameters;
    } rows[] = {{"name: resnet, depth: 18", 224, 1000, 11689512},
                {"name: resnet, depth: 34", 224, 1000, 21797672},
                {"name: resnet, depth: 50", 224, 1000, 25557032},
                {"name: resnet, depth: 101", 224, 1000, 44549160},
                {"name: resnet, depth: 152", 224, 1000, 60192808},
                {"name: resnet, depth: 18", 32, 10, 11173962},
                {"name: resnet, depth: 34", 32, 10, 21282122},
                {"name: resnet, depth: 50", 32, 10, 23520842},
                {"name: resnet, depth: 101", 32, 10, 42512970},
                {"name: resnet, depth: 152", 32, 10, 58156618},
                {"name: densenet", 224, 1000, 7978856},
                {"name: densenet", 224, 14, 6968206},
                {"name: resnet9", 32, 10, 6573120},
                {"name: vgg", 32, 10, 3441592},
                {"name: airbench", 32, 10, 1972792},
                {"name: wide_resnet, depth: 16, width: 4", 32, 10, 2748890},
                {"name: wide_resnet, depth: 28, width: 10", 32, 10, 36479194},
                {"name: wide_resnet", 32, 100, 36536884},
                {"name: sentiment", 150, 2, 3818302}, /* the GRU of ilkarman/DeepLearningFrameworks */
                {"name: sentiment, cell: elman_tanh, layers: 2", 5, 2, 3750000 + 22700 + 20200 + 202},
                {"name: language", 35, 33278, 13987678}, /* 2 LSTMs of 4 * (2 * 200 + 2) * 200, untied */
                {"name: language, tied: on, cell: gru", 35, 33278, 6655600 + 482400 + 33278},
                {"name: airbench, first_depth: 4", 32, 10, 2046776},
                {"name: airbench, widths: [128, 384, 384]", 32, 10, 4606520},
                {"name: airbench, widths: [128, 384, 512], depth: 3, residual: on", 32, 10, 9918776}};
    program_check_networks(&rows[0].model, sizeof rows / sizeof *rows, sizeof *rows, true);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        network b = build(rows[i].model, rows[i].side, rows[i].classes);
        if (count_parameters(&b.graph) != rows[i].parameters)
            fail_msg("%s: %lld parameters", rows[i].model, (long long)count_parameters(&b.graph));
        drop(&b);
    }
}

TEST(resnet_has_torchvisions_names) {
    network b = build("name: resnet, depth: 50", 224, 1000);
    assert_shape(&b, "conv1.weight", (d9_shape){4, {64, 7, 7, 3}});
    assert_shape(&b, "bn1.weight", (d9_shape){1, {64}});
    assert_shape(&b, "bn1.running_var", (d9_shape){2, {1, 64}});
    assert_shape(&b, "layer1.0.conv1.weight", (d9_shape){4, {64, 1, 1, 64}});
    assert_shape(&b, "layer1.0.conv3.weight", (d9_shape){4, {256, 1, 1, 64}});
    assert_shape(&b, "layer1.0.downsample.0.weight", (d9_shape){4, {256, 1, 1, 64}});
    assert_shape(&b, "layer1.0.downsample.1.bias", (d9_shape){1, {256}});
    assert_shape(&b, "layer4.2.bn3.running_mean", (d9_shape){2, {1, 2048}});
    assert_shape(&b, "fc.weight", (d9_shape){2, {1000, 2048}});
    assert_shape(&b, "fc.bias", (d9_shape){1, {1000}});
    assert_int_equal(d9_graph_find_value(&b.graph, "layer1.1.downsample.0.weight"), D9_NONE);
    /* sizes of outputs; the 3x3 convolution has the stride, as in torchvision */
    assert_shape(&b, "conv1.out", (d9_shape){4, {2, 112, 112, 64}});
    assert_shape(&b, "maxpool.out", (d9_shape){4, {2, 56, 56, 64}});
    assert_shape(&b, "layer2.0.conv1.out", (d9_shape){4, {2, 56, 56, 128}});
    assert_shape(&b, "layer2.0.conv2.out", (d9_shape){4, {2, 28, 28, 128}});
    assert_shape(&b, "layer4.2.add.out", (d9_shape){4, {2, 7, 7, 2048}});
    assert_shape(&b, "avgpool.out", (d9_shape){4, {2, 1, 1, 2048}});
    drop(&b);
    b = build("name: resnet", 32, 10);
    assert_shape(&b, "conv1.weight", (d9_shape){4, {64, 3, 3, 3}});
    assert_shape(&b, "layer1.0.conv1.out", (d9_shape){4, {2, 32, 32, 64}});
    assert_shape(&b, "layer4.1.add.out", (d9_shape){4, {2, 4, 4, 512}});
    assert_int_equal(d9_graph_find_value(&b.graph, "layer1.0.downsample.0.weight"), D9_NONE);
    drop(&b);
}

TEST(densenet_has_torchvisions_names) {
    network b = build("name: densenet", 224, 1000);
    assert_shape(&b, "features.conv0.weight", (d9_shape){4, {64, 7, 7, 3}});
    assert_shape(&b, "features.norm0.weight", (d9_shape){1, {64}});
    assert_shape(&b, "features.denseblock1.denselayer1.norm1.weight", (d9_shape){1, {64}});
    assert_shape(&b, "features.denseblock1.denselayer1.conv1.weight", (d9_shape){4, {128, 1, 1, 64}});
    assert_shape(&b, "features.denseblock1.denselayer1.conv2.weight", (d9_shape){4, {32, 3, 3, 128}});
    assert_shape(&b, "features.denseblock3.denselayer24.norm1.running_var", (d9_shape){2, {1, 992}});
    assert_shape(&b, "features.transition1.norm.weight", (d9_shape){1, {256}});
    assert_shape(&b, "features.transition1.conv.weight", (d9_shape){4, {128, 1, 1, 256}});
    assert_shape(&b, "features.norm5.bias", (d9_shape){1, {1024}});
    assert_shape(&b, "classifier.weight", (d9_shape){2, {1000, 1024}});
    assert_shape(&b, "classifier.bias", (d9_shape){1, {1000}});
    assert_shape(&b, "features.transition1.pool.out", (d9_shape){4, {2, 28, 28, 128}});
    assert_shape(&b, "features.denseblock4.denselayer16.concat.out", (d9_shape){4, {2, 7, 7, 1024}});
    drop(&b);
}

/* The names of the authors' PyTorch code. */
TEST(wide_resnet_has_the_published_names_and_sizes) {
    network b = build("name: wide_resnet, depth: 16, width: 4", 32, 10);
    assert_shape(&b, "conv0.weight", (d9_shape){4, {16, 3, 3, 3}});
    assert_shape(&b, "group0.block0.bn0.weight", (d9_shape){1, {16}});
    assert_shape(&b, "group0.block0.convdim.weight", (d9_shape){4, {64, 1, 1, 16}});
    assert_shape(&b, "group1.block0.conv0.weight", (d9_shape){4, {128, 3, 3, 64}});
    assert_shape(&b, "group2.block1.conv1.weight", (d9_shape){4, {256, 3, 3, 256}});
    assert_shape(&b, "group2.block1.bn1.running_var", (d9_shape){2, {1, 256}});
    assert_shape(&b, "bn.bias", (d9_shape){1, {256}});
    assert_shape(&b, "fc.weight", (d9_shape){2, {10, 256}});
    assert_shape(&b, "group0.block1.add.out", (d9_shape){4, {2, 32, 32, 64}});
    assert_shape(&b, "group1.block0.relu0.out", (d9_shape){4, {2, 32, 32, 64}});
    assert_shape(&b, "group1.block0.conv0.out", (d9_shape){4, {2, 16, 16, 128}});
    assert_shape(&b, "group2.block1.add.out", (d9_shape){4, {2, 8, 8, 256}});
    assert_int_equal(d9_graph_find_value(&b.graph, "group0.block1.convdim.weight"), D9_NONE);
    assert_int_equal(d9_graph_find_value(&b.graph, "group0.block2.conv0.weight"), D9_NONE);
    drop(&b);
    b = build("name: wide_resnet, depth: 10, width: 1", 32, 10); /* equal channels, so no convolution in the shortcut */
    assert_int_equal(d9_graph_find_value(&b.graph, "group0.block0.convdim.weight"), D9_NONE);
    drop(&b);
}

/* A shortcut that is a convolution reads the first act, and the identity reads the input of the block's first norm. */
TEST(wide_resnet_shares_the_first_act_only_where_the_channels_change) {
    network b = build("name: wide_resnet, depth: 16, width: 2, dropout: 0.5", 32, 10);
    const d9_node *nodes = b.graph.nodes;
    for (int g = 0; g < 3; g++)
        for (int i = 0; i < 2; i++) {
            char role[D9_NAME_SIZE];
            snprintf(role, sizeof role, "group%d.block%d.bn0", g, i);
            const d9_node *at = &nodes[program_find(&b.graph, D9_OP_NORM, role)];
            snprintf(role, sizeof role, "group%d.block%d.add", g, i);
            const d9_node *add = &nodes[program_find(&b.graph, D9_OP_ADD, role)];
            assert_int_equal(add->inputs[0], add[-1].outputs[0]);
            assert_int_equal(add->inputs[1], i == 0 ? at[2].outputs[0] : at->inputs[0]);
            if (i == 0) assert_int_equal(at[2].inputs[0], at[1].outputs[0]);
        }
    drop(&b);
}

TEST(vgg_has_weights_and_biases_side_by_side) {
    network b = build("name: vgg", 32, 10);
    assert_shape(&b, "block1.conv1.weight", (d9_shape){4, {50, 3, 3, 3}});
    assert_shape(&b, "block1.conv1.bias", (d9_shape){1, {50}});
    assert_shape(&b, "block2.conv2.weight", (d9_shape){4, {100, 3, 3, 100}});
    assert_shape(&b, "fc1.weight", (d9_shape){2, {512, 6400}});
    assert_shape(&b, "fc2.bias", (d9_shape){1, {10}});
    drop(&b);
}

/* Every name in a half-precision program, including gradients and casts, must fit in D9_NAME_SIZE. */
TEST(names_fit) {
    static const char *const models[] = {"name: densenet, growth: 4", "name: resnet, depth: 152, width: 4", "name: vgg",
                                         "name: wide_resnet, width: 1, depth: 40, dropout: 0.5"};
    for (int m = 0; m < 4; m++) {
        char yaml[256];
        snprintf(yaml, sizeof yaml, "model: {%s}\ntrain: {epochs: 1, batch_size: 4}\n", models[m]);
        built b = program_built(program_config(&context, yaml), 8, 32, "bf16");
        program_check_graph(&b.program.train);
        for (int v = 0; v < b.program.train.value_count; v++)
            assert_true(strlen(b.program.train.values[v].name) < D9_NAME_SIZE - 1); /* none is truncated */
        program_drop(&b);
    }
}

static const d9_op *ops_from(const network *b, const char *first, int count) {
    static d9_op found[16];
    for (d9_node_id n = 0; n < b->graph.node_count; n++)
        if (strcmp(b->graph.nodes[n].role, first) == 0) {
            for (int i = 0; i < count; i++) found[i] = b->graph.nodes[n + i].op;
            return found;
        }
    fail_msg("there is no node %s", first);
    return found;
}

/* Every add follows its norm and precedes its act; its inputs are the norm and the shortcut, in this order. */
TEST(norm_add_and_act_are_neighbours) {
    static const char *const depths[] = {"name: resnet, depth: 34, width: 4", "name: resnet, depth: 50, width: 4"};
    for (int m = 0; m < 2; m++) {
        network b = build(depths[m], 32, 10);
        int adds = 0;
        for (d9_node_id n = d9_edit_next(&b.graph, D9_OP_ADD, 0); n != D9_NONE;
             n = d9_edit_next(&b.graph, D9_OP_ADD, n + 1), adds++) {
            const d9_node *at = &b.graph.nodes[n];
            assert_ints(at[-1].op, D9_OP_NORM, at[1].op, D9_OP_ACT);
            assert_ints(at->inputs[0], at[-1].outputs[0], at[1].inputs[0], at->outputs[0]);
        }
        assert_int_equal(adds, 16);
        drop(&b);
    }
}

TEST(blocks_are_in_order) {
    static const d9_op bottleneck[] = {D9_OP_CONV, D9_OP_NORM, /* the shortcut */
                                       D9_OP_CONV, D9_OP_NORM, D9_OP_ACT,  D9_OP_CONV, D9_OP_NORM,
                                       D9_OP_ACT,  D9_OP_CONV, D9_OP_NORM, D9_OP_ADD,  D9_OP_ACT};
    static const d9_op layer[] = {D9_OP_NORM, D9_OP_ACT, D9_OP_CONV, D9_OP_NORM, D9_OP_ACT, D9_OP_CONV, D9_OP_CONCAT};
    static const d9_op widening[] = {D9_OP_NORM, D9_OP_ACT,     D9_OP_CONV, D9_OP_CONV, D9_OP_NORM,
                                     D9_OP_ACT,  D9_OP_DROPOUT, D9_OP_CONV, D9_OP_ADD,  D9_OP_NORM};
    static const d9_op pair[] = {D9_OP_CONV, D9_OP_BIAS, D9_OP_ACT,  D9_OP_CONV,
                                 D9_OP_BIAS, D9_OP_ACT,  D9_OP_POOL, D9_OP_DROPOUT};
    network b = build("name: resnet, depth: 50, width: 4", 32, 10);
    assert_memory_equal(ops_from(&b, "layer2.0.downsample.0", 12), bottleneck, sizeof bottleneck);
    drop(&b);
    b = build("name: densenet, growth: 4, features: 8", 32, 10);
    assert_memory_equal(ops_from(&b, "features.denseblock1.denselayer2.norm1", 7), layer, sizeof layer);
    drop(&b);
    b = build("name: wide_resnet, depth: 16, width: 1, dropout: 0.5", 32, 10);
    assert_memory_equal(ops_from(&b, "group1.block0.bn0", 10), widening, sizeof widening);
    drop(&b);
    b = build("name: vgg", 32, 10);
    assert_memory_equal(ops_from(&b, "block2.conv1", 8), pair, sizeof pair);
    drop(&b);
}

/* Probability 0 makes no dropout node; evaluation has dropout only with dropout_in_evaluation. */
TEST(dropout_is_where_it_is_asked_for) {
    static const struct {
        const char *model;
        int train, eval;
    } rows[] = {{"name: vgg, channels: [4, 4], hidden: 8", 3, 0},
                {"name: vgg, channels: [4, 4], hidden: 8, dropout: [0, 0.25, 0]", 1, 0},
                {"name: vgg, channels: [4, 4], hidden: 8, dropout_in_evaluation: on", 3, 3},
                {"name: wide_resnet, depth: 10, width: 1", 0, 0},
                {"name: wide_resnet, depth: 10, width: 1, dropout: 0.3", 3, 0}};
    for (int r = 0; r < 5; r++) {
        network b = build(rows[r].model, 8, 10);
        d9_graph evaluation;
        assert_int_equal(program_count(&b.graph, D9_OP_DROPOUT, false), rows[r].train);
        OK(d9_evaluation_make(&context, &b.graph, D9_BUFFER_STATE, false, &evaluation));
        assert_int_equal(program_count(&evaluation, D9_OP_DROPOUT, false), rows[r].eval);
        d9_graph_free(&context, &evaluation), drop(&b);
    }
    network b = build("name: vgg, channels: [4, 4], hidden: 8, dropout: [0.125, 0.25, 0.5]", 8, 10);
    static const char *const roles[] = {"block1.drop", "block2.drop", "fc1.drop"};
    for (int i = 0; i < 3; i++) {
        const d9_node *node = &b.graph.nodes[program_find(&b.graph, D9_OP_DROPOUT, roles[i])];
        assert_true(node->as.dropout.p == (i == 0 ? 0.125 : i == 1 ? 0.25 : 0.5));
        assert_int_equal(node->as.dropout.stream, d9_role_stream(roles[i]));
    }
    drop(&b);
}

static void assert_init(const network *b, const char *name, const char *how, double a) {
    const d9_value *found = value(b, name);
    if (strcmp(found->init.name, how) != 0 || !(fabs(found->init.a - a) <= 1e-15))
        fail_msg("%s starts %s %.17g", name, found->init.name, found->init.a);
}

/* The 256 scales of a norm are uniform in (0, 1): mean and variance within five standard errors. */
static void assert_scales_in_0_to_1(const d9_value *scale) {
    enum { COUNT = 256 };
    double values[COUNT], sum = 0, squares = 0;
    assert_int_equal(d9_shape_count(&scale->shape), COUNT);
    OK(scale->init.fill(&context, &scale->init, &(d9_init_site){.parameter = scale, .seed = 1, .stream = 2}, values,
                        COUNT));
    for (int i = 0; i < COUNT; i++) {
        if (!(values[i] > 0 && values[i] < 1)) fail_msg("scale %d is %g", i, values[i]);
        sum += values[i], squares += (values[i] - 0.5) * (values[i] - 0.5);
    }
    assert_true(fabs(sum / COUNT - 0.5) <= 5 * sqrt(1.0 / 12 / COUNT));
    assert_true(fabs(squares / COUNT - 1.0 / 12) <= 5 * sqrt(1.0 / 180 / COUNT));
}

TEST(weights_start_as_published) {
    network b = build("name: vgg", 32, 10);
    assert_init(&b, "block1.conv2.weight", "uniform", sqrt(6.0 / (450 + 450)));
    assert_init(&b, "block2.conv1.weight", "uniform", sqrt(6.0 / (450 + 900)));
    assert_init(&b, "fc1.weight", "uniform", sqrt(6.0 / (6400 + 512)));
    assert_init(&b, "fc1.bias", "constant", 0);
    drop(&b);
    b = build("name: vgg, init: default", 32, 10);
    assert_init(&b, "block2.conv1.weight", "uniform", 1 / sqrt(450));
    assert_init(&b, "block2.conv1.bias", "uniform", 1 / sqrt(450));
    assert_init(&b, "fc2.bias", "uniform", 1 / sqrt(512));
    drop(&b);
    b = build("name: resnet, depth: 50", 224, 10);
    assert_init(&b, "conv1.weight", "normal", sqrt(2.0 / (64 * 49)));
    assert_init(&b, "layer2.0.conv2.weight", "normal", sqrt(2.0 / (128 * 9)));
    assert_init(&b, "layer2.0.downsample.0.weight", "normal", sqrt(2.0 / 512));
    assert_init(&b, "layer2.0.downsample.1.weight", "constant", 1);
    assert_init(&b, "layer2.0.bn2.weight", "constant", 1);
    assert_init(&b, "layer2.0.bn3.weight", "constant", 0);
    assert_init(&b, "layer4.2.bn3.weight", "constant", 0);
    assert_init(&b, "fc.weight", "uniform", 1 / sqrt(2048));
    assert_init(&b, "fc.bias", "uniform", 1 / sqrt(2048));
    drop(&b);
    b = build("name: resnet, zero_init_residual: off", 32, 10);
    assert_init(&b, "layer4.1.bn2.weight", "constant", 1);
    drop(&b);
    b = build("name: densenet", 32, 10);
    assert_init(&b, "features.denseblock1.denselayer1.conv2.weight", "normal", sqrt(2.0 / (128 * 9)));
    assert_init(&b, "classifier.bias", "constant", 0);
    drop(&b);
    b = build("name: wide_resnet, depth: 16, width: 4", 32, 10);
    assert_init(&b, "conv0.weight", "normal", sqrt(2.0 / (16 * 9)));
    assert_init(&b, "group1.block0.conv0.weight", "normal", sqrt(2.0 / (128 * 9)));
    assert_init(&b, "group1.block0.convdim.weight", "normal", sqrt(2.0 / 128));
    assert_init(&b, "group1.block0.bn1.weight", "half_uniform", 0.5);
    assert_init(&b, "group1.block0.bn1.bias", "constant", 0);
    assert_init(&b, "fc.weight", "uniform", 1 / sqrt(256));
    assert_init(&b, "fc.bias", "constant", 0);
    assert_scales_in_0_to_1(value(&b, "group2.block0.bn1.weight"));
    drop(&b);
}

TEST(the_stem_follows_the_image) {
    static const struct {
        const char *model;
        int64_t side;
        int kernel;
    } rows[] = {{"name: resnet, width: 4", 64, 3},
                {"name: resnet, width: 4", 65, 7},
                {"name: resnet, width: 4, stem: imagenet", 32, 7},
                {"name: resnet, width: 4, stem: cifar", 65, 3}};
    for (int r = 0; r < 4; r++) {
        network b = build(rows[r].model, rows[r].side, 10);
        assert_int_equal(b.graph.nodes[0].as.conv.kernel, rows[r].kernel);
        assert_int_equal(program_count(&b.graph, D9_OP_POOL, false), rows[r].kernel == 7);
        drop(&b);
    }
}

/* The order of nodes and the batch norm's epsilon and momentum are those of Keller Jordan's airbench. */
TEST(airbench_pools_ahead_of_its_norms) {
    static const char *const roles[] = {"whiten.conv",  "whiten.conv.bias", "whiten.act",  "group1.conv1",
                                        "group1.pool",  "group1.norm1",     "group1.act1", "group1.conv2",
                                        "group1.norm2", "group1.add",       "group1.act2"};
    network b = build("name: airbench, residual: on", 32, 10);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) assert_string_equal(b.graph.nodes[i].role, roles[i]);
    assert_int_equal(b.graph.nodes[9].inputs[0], b.graph.nodes[6].outputs[0]); /* the addend is act1's output */
    assert_true(b.graph.nodes[5].as.norm.epsilon == 1e-12 && b.graph.nodes[5].as.norm.momentum == 0.4);
    assert_shape(&b, "whiten.conv.out", (d9_shape){4, {2, 31, 31, 24}});
    assert_shape(&b, "group3.act2.out", (d9_shape){4, {2, 3, 3, 256}});
    assert_shape(&b, "head.weight", (d9_shape){2, {10, 256}});
    assert_int_equal(d9_graph_find_value(&b.graph, "head.bias"), D9_NONE);
    drop(&b);
}

/* A first group deeper than the others: the addition follows its last norm. */
TEST(airbench_has_a_deeper_first_group) {
    static const char *const roles[] = {"group1.act1",  "group1.conv2", "group1.norm2", "group1.act2",  "group1.conv3",
                                        "group1.norm3", "group1.add",   "group1.act3",  "group2.conv1", "group2.pool",
                                        "group2.norm1", "group2.act1",  "group2.conv2", "group2.norm2", "group2.add"};
    network b = build("name: airbench, first_depth: 3, residual: on", 32, 10);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) assert_string_equal(b.graph.nodes[6 + i].role, roles[i]);
    assert_int_equal(b.graph.nodes[12].inputs[0], b.graph.nodes[6].outputs[0]);
    drop(&b);
}

/* In rows with `smallest`, images one pixel larger must be accepted. */
TEST(bad_options_are_named) {
    static const struct {
        const char *model;
        int64_t side;      /* of the images; 0: parsing the configuration fails already */
        const char *words; /* of the error */
        bool smallest;
    } rows[] = {
        {"name: vgg, dropout: [0.25, 1, 0.5]", 0, "model.dropout[1] 1 0 0.999999", false},
        {"name: resnet, depth: 20", 0, "model.depth 20 18 34 50 101 152", false},
        {"name: vgg, channels: []", 0, "model.channels", false},
        {"name: vgg, dropout: [0.25]", 32, "model.dropout 1 model.channels 2 3", false},
        {"name: vgg", 3, "3x3 model.channels 2 4", true},
        {"name: resnet", 4, "4x4 model.stem cifar 5", true},
        {"name: resnet, stem: imagenet", 16, "16x16 model.stem imagenet 17 cifar 5", true},
        {"name: densenet", 7, "7x7 model.stem cifar 8", true},
        {"name: airbench, widths: [64, 256]", 32, "model.widths 2 airbench", false},
        {"name: airbench, depth: 1, residual: on", 32, "model.residual model.depth 2", false},
        {"name: airbench, first_depth: 1, residual: on", 32, "model.residual model.first_depth 2", false},
        {"name: airbench", 8, "8x8 airbench 9", true},
        {"name: wide_resnet, depth: 18", 0, "model.depth 18 10 16 22 28 34 40", false},
        {"name: wide_resnet, dropout: 1", 0, "model.dropout 1 0 0.999999", false},
        {"name: densenet, stem: imagenet", 28, "28x28 model.stem imagenet 29 cifar 8", true},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        network b;
        char yaml[256];
        d9_config *config;
        snprintf(yaml, sizeof yaml, "model: {%s}\n", rows[r].model);
        if (rows[r].side == 0)
            assert_int_equal(d9_config_parse(&context, "x.yaml", yaml, NULL, &config), D9_USAGE);
        else {
            assert_int_equal(try_build(rows[r].model, rows[r].side, 10, &b), D9_USAGE);
            drop(&b);
        }
        assert_words(context.message, rows[r].words), d9_context_clear(&context);
        if (!rows[r].smallest) continue;
        b = build(rows[r].model, rows[r].side + 1, 10);
        drop(&b);
    }
}
