/* The networks as graphs: number of parameters, names, shapes, order of nodes, dropout, initialisers, and errors for
 * invalid options. gradient_network.c tests their gradients. */
#include "graph/edit.h"
#include "tests/support/programs.h"
#include "tests/support/test.h"

enum { VOCABULARY = 30000 };

/* A network with its loss, without tricks. */
typedef struct network {
    d9_config *config;
    d9_graph graph;
} network;

/* Builds the network of the configuration `model: {MODEL}` for two images of side x side, or for two texts of `side`
 * tokens; the vocabulary of a language model has `classes` words. */
static d9_status try_build(const char *model, int64_t side, int64_t classes, network *b) {
    d9_status status;
    const d9_shape image = {4, {2, side, side, 3}};
    d9_value_id x, logits;
    b->config = program_yaml("model: {%s}\n", model);
    d9_graph_init(&b->graph);
    const d9_model *network = b->config->model;
    if (network->texts)
        D9_TRY(
            d9_graph_tokens(&context, &b->graph, side, 2, network->stream ? classes : VOCABULARY, network->stream, &x));
    else
        D9_TRY(d9_graph_image(&context, &b->graph, &image, &x));
    D9_TRY(network->build(&context, b->config->model_options, classes, &b->graph, x, &logits));
    D9_TRY(d9_graph_loss(&context, &b->graph, logits));
done:
    return status;
}

/* Builds a network like try_build, which must succeed; the network is freed when the test ends. */
static const network *build(const char *model, int64_t side, int64_t classes) {
    network *b = test_memory(sizeof *b);
    OK(try_build(model, side, classes, b));
    program_keep_graph(&b->graph);
    program_check_graph(&b->graph);
    return b;
}

/* Checks values: "NAME SHAPE, NAME SHAPE, ...", such as "fc.weight 10x512". The shape "-": no value may have this name.
 */
static void assert_shapes(const network *b, const char *wanted) {
    char name[D9_NAME_SIZE], shape[32], got[64];
    for (int used; sscanf(wanted, " %63[^ ] %31[^ ,]%n", name, shape, &used) == 2;
         wanted += used + (wanted[used] == ',')) {
        size_t at = 0;
        const d9_value_id id = d9_graph_find_value(&b->graph, name);
        const d9_shape none = {0}, *found = id == D9_NONE ? &none : &b->graph.values[id].shape;
        strcpy(got, "-");
        for (int i = 0; i < found->rank; i++)
            at += (size_t)snprintf(got + at, sizeof got - at, "%s%lld", i ? "x" : "", (long long)found->d[i]);
        if (strcmp(got, shape) != 0) fail_msg("%s is %s, must be %s", name, got, shape);
    }
    assert_int_equal(*wanted, 0);
}

static int64_t count_parameters(const d9_graph *graph) {
    int64_t count = 0;
    for (int v = 0; v < graph->value_count; v++)
        if (graph->values[v].kind == D9_VALUE_PARAMETER) count += d9_shape_count(&graph->values[v].shape);
    return count;
}

/* Sources: for ResNet and DenseNet with 1000 classes torchvision 0.14; for wide networks their paper (2.7 M, 36.5 M)
 * and tests/cli/pytorch.sh, which counts them in PyTorch; otherwise sums over the layers. */
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
        const int64_t count = count_parameters(&build(rows[i].model, rows[i].side, rows[i].classes)->graph);
        if (count != rows[i].parameters) fail_msg("%s: %lld parameters", rows[i].model, (long long)count);
    }
}

/* Names and sizes of torchvision's ResNet and DenseNet, of the wide networks' authors, and those of this program for
 * vgg and airbench. In bottleneck blocks the 3x3 convolution has the stride. */
TEST(values_have_the_published_names_and_sizes) {
    static const struct {
        const char *model;
        int64_t side, classes;
        const char *values;
    } rows[] = {
        {"name: resnet, depth: 50", 224, 1000,
         "conv1.weight 64x7x7x3, bn1.weight 64, bn1.running_var 1x64, layer1.0.conv1.weight 64x1x1x64, "
         "layer1.0.conv3.weight 256x1x1x64, layer1.0.downsample.0.weight 256x1x1x64, layer1.0.downsample.1.bias 256, "
         "layer1.1.downsample.0.weight -, layer4.2.bn3.running_mean 1x2048, fc.weight 1000x2048, fc.bias 1000, "
         "conv1.out 2x112x112x64, maxpool.out 2x56x56x64, layer2.0.conv1.out 2x56x56x128, layer2.0.conv2.out "
         "2x28x28x128, layer4.2.add.out 2x7x7x2048, avgpool.out 2x1x1x2048"},
        {"name: resnet", 32, 10,
         "conv1.weight 64x3x3x3, layer1.0.conv1.out 2x32x32x64, layer4.1.add.out 2x4x4x512, "
         "layer1.0.downsample.0.weight -"},
        {"name: densenet", 224, 1000,
         "features.conv0.weight 64x7x7x3, features.norm0.weight 64, features.denseblock1.denselayer1.norm1.weight 64, "
         "features.denseblock1.denselayer1.conv1.weight 128x1x1x64, "
         "features.denseblock1.denselayer1.conv2.weight 32x3x3x128, "
         "features.denseblock3.denselayer24.norm1.running_var 1x992, features.transition1.norm.weight 256, "
         "features.transition1.conv.weight 128x1x1x256, features.norm5.bias 1024, classifier.weight 1000x1024, "
         "classifier.bias 1000, features.transition1.pool.out 2x28x28x128, "
         "features.denseblock4.denselayer16.concat.out 2x7x7x1024"},
        {"name: wide_resnet, depth: 16, width: 4", 32, 10,
         "conv0.weight 16x3x3x3, group0.block0.bn0.weight 16, group0.block0.convdim.weight 64x1x1x16, "
         "group1.block0.conv0.weight 128x3x3x64, group2.block1.conv1.weight 256x3x3x256, "
         "group2.block1.bn1.running_var 1x256, bn.bias 256, fc.weight 10x256, group0.block1.add.out 2x32x32x64, "
         "group1.block0.relu0.out 2x32x32x64, group1.block0.conv0.out 2x16x16x128, group2.block1.add.out 2x8x8x256, "
         "group0.block1.convdim.weight -, group0.block2.conv0.weight -"},
        {"name: wide_resnet, depth: 10, width: 1", 32, 10, "group0.block0.convdim.weight -"}, /* equal channels */
        {"name: vgg", 32, 10,
         "block1.conv1.weight 50x3x3x3, block1.conv1.bias 50, block2.conv2.weight 100x3x3x100, fc1.weight 512x6400, "
         "fc2.bias 10"},
        {"name: airbench, residual: on", 32, 10,
         "whiten.conv.out 2x31x31x24, group3.act2.out 2x3x3x256, head.weight 10x256, head.bias -"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        assert_shapes(build(rows[r].model, rows[r].side, rows[r].classes), rows[r].values);
}

/* A shortcut that is a convolution reads the first act; an identity shortcut reads the input of the first norm of its
 * block. */
TEST(wide_resnet_shares_the_first_act_only_where_the_channels_change) {
    const d9_graph *graph = &build("name: wide_resnet, depth: 16, width: 2, dropout: 0.5", 32, 10)->graph;
    for (int g = 0; g < 3; g++)
        for (int i = 0; i < 2; i++) {
            char role[D9_NAME_SIZE];
            snprintf(role, sizeof role, "group%d.block%d.bn0", g, i);
            const d9_node *at = program_node(graph, D9_OP_NORM, role);
            snprintf(role, sizeof role, "group%d.block%d.add", g, i);
            const d9_node *add = program_node(graph, D9_OP_ADD, role);
            assert_int_equal(add->inputs[0], add[-1].outputs[0]);
            assert_int_equal(add->inputs[1], i == 0 ? at[2].outputs[0] : at->inputs[0]);
            if (i == 0) assert_int_equal(at[2].inputs[0], at[1].outputs[0]);
        }
}

/* Every name in a half-precision program, including gradients and casts, must fit in D9_NAME_SIZE. */
TEST(names_are_not_truncated) {
    static const char *const models[] = {"name: densenet, growth: 4", "name: resnet, depth: 152, width: 4", "name: vgg",
                                         "name: wide_resnet, width: 1, depth: 40, dropout: 0.5"};
    for (int m = 0; m < 4; m++) {
        const d9_graph *train =
            &program_of(program_yaml("model: {%s}\ntrain: {epochs: 1, batch_size: 4}\n", models[m]), 8, 32, "bf16")
                 ->train;
        program_check_graph(train);
        for (int v = 0; v < train->value_count; v++)
            assert_true(strlen(train->values[v].name) < D9_NAME_SIZE - 1); /* none is truncated */
    }
}

/* Every add follows its norm, which is its first input, and precedes its act. */
TEST(norm_add_and_act_are_neighbours) {
    static const char *const depths[] = {"name: resnet, depth: 34, width: 4", "name: resnet, depth: 50, width: 4"};
    for (int m = 0; m < 2; m++) {
        const d9_graph *graph = &build(depths[m], 32, 10)->graph;
        int adds = 0;
        for (d9_node_id n = 0; (n = d9_edit_next(graph, D9_OP_ADD, n)) != D9_NONE; n++, adds++) {
            const d9_node *at = &graph->nodes[n];
            assert_ints(at[-1].op, D9_OP_NORM, at[1].op, D9_OP_ACT);
            assert_ints(at->inputs[0], at[-1].outputs[0], at[1].inputs[0], at->outputs[0]);
        }
        assert_int_equal(adds, 16);
    }
}

/* Operations from the node `first` on; for airbench the last parts of the roles, in the order of Keller Jordan's code.
 * A first group that is deeper than the others has the addition after its last norm. */
TEST(blocks_are_in_order) {
    static const struct {
        const char *model, *first, *parts;
    } rows[] = {
        {"name: resnet, depth: 50, width: 4", "layer2.0.downsample.0",
         "conv norm conv norm act conv norm act conv norm add act"}, /* the shortcut first */
        {"name: densenet, growth: 4, features: 8", "features.denseblock1.denselayer2.norm1",
         "norm act conv norm act conv concat"},
        {"name: wide_resnet, depth: 16, width: 1, dropout: 0.5", "group1.block0.bn0",
         "norm act conv conv norm act dropout conv add norm"},
        {"name: vgg", "block2.conv1", "conv bias act conv bias act pool dropout"},
        {"name: airbench, residual: on", "whiten.conv",
         ".conv .bias .act .conv1 .pool .norm1 .act1 .conv2 .norm2 .add .act2"},
        {"name: airbench, first_depth: 3, residual: on", "group1.act1",
         ".act1 .conv2 .norm2 .act2 .conv3 .norm3 .add .act3 .conv1 .pool .norm1 .act1 .conv2 .norm2 .add"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const d9_graph *graph = &build(rows[r].model, 32, 10)->graph;
        char parts[128];
        const char *words[16];
        d9_node_id n = 0;
        snprintf(parts, sizeof parts, "%s", rows[r].parts);
        const int count = d9_text_split(parts, ' ', words, 16);
        while (n < graph->node_count && strcmp(graph->nodes[n].role, rows[r].first) != 0) n++;
        assert_true(n + count <= graph->node_count);
        for (int i = 0; i < count; i++)
            assert_string_equal(words[i][0] == '.' ? strrchr(graph->nodes[n + i].role, '.')
                                                   : d9_op_name(graph->nodes[n + i].op),
                                words[i]);
    }
}

/* Probability 0 makes no dropout node; evaluation has dropout only with dropout_in_evaluation. */
TEST(dropout_has_its_nodes_and_probabilities) {
    static const struct {
        const char *model;
        int train, eval;
    } rows[] = {{"name: vgg, channels: [4, 4], hidden: 8", 3, 0},
                {"name: vgg, channels: [4, 4], hidden: 8, dropout: [0, 0.25, 0]", 1, 0},
                {"name: vgg, channels: [4, 4], hidden: 8, dropout_in_evaluation: on", 3, 3},
                {"name: wide_resnet, depth: 10, width: 1", 0, 0},
                {"name: wide_resnet, depth: 10, width: 1, dropout: 0.3", 3, 0}};
    static const char *const roles[] = {"block1.drop", "block2.drop", "fc1.drop"};
    for (int r = 0; r < 5; r++) {
        const network *b = build(rows[r].model, 8, 10);
        d9_graph evaluation;
        assert_int_equal(program_count(&b->graph, D9_OP_DROPOUT, false), rows[r].train);
        OK(d9_evaluation_make(&context, &b->graph, D9_BUFFER_STATE, false, &evaluation));
        assert_int_equal(program_count(&evaluation, D9_OP_DROPOUT, false), rows[r].eval);
        d9_graph_free(&context, &evaluation);
    }
    const network *b = build("name: vgg, channels: [4, 4], hidden: 8, dropout: [0.125, 0.25, 0.5]", 8, 10);
    for (int i = 0; i < 3; i++) {
        const d9_node *node = program_node(&b->graph, D9_OP_DROPOUT, roles[i]);
        assert_true(node->as.dropout.p == ldexp(0.125, i));
        assert_int_equal(node->as.dropout.stream, d9_role_stream(roles[i]));
    }
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
    const struct {
        const char *model;
        int64_t side;
        const char *value, *how; /* name of the parameter; of its initialiser */
        double a;                /* bound of uniform, standard deviation of normal, the constant; 0.5: half_uniform */
    } rows[] = {
        {"name: vgg", 32, "block1.conv2.weight", "uniform", sqrt(6.0 / (450 + 450))},
        {"name: vgg", 32, "block2.conv1.weight", "uniform", sqrt(6.0 / (450 + 900))},
        {"name: vgg", 32, "fc1.weight", "uniform", sqrt(6.0 / (6400 + 512))},
        {"name: vgg", 32, "fc1.bias", "constant", 0},
        {"name: vgg, init: default", 32, "block2.conv1.weight", "uniform", 1 / sqrt(450)},
        {"name: vgg, init: default", 32, "block2.conv1.bias", "uniform", 1 / sqrt(450)},
        {"name: vgg, init: default", 32, "fc2.bias", "uniform", 1 / sqrt(512)},
        {"name: resnet, depth: 50", 224, "conv1.weight", "normal", sqrt(2.0 / (64 * 49))},
        {"name: resnet, depth: 50", 224, "layer2.0.conv2.weight", "normal", sqrt(2.0 / (128 * 9))},
        {"name: resnet, depth: 50", 224, "layer2.0.downsample.0.weight", "normal", sqrt(2.0 / 512)},
        {"name: resnet, depth: 50", 224, "layer2.0.downsample.1.weight", "constant", 1},
        {"name: resnet, depth: 50", 224, "layer2.0.bn2.weight", "constant", 1},
        {"name: resnet, depth: 50", 224, "layer2.0.bn3.weight", "constant", 0},
        {"name: resnet, depth: 50", 224, "layer4.2.bn3.weight", "constant", 0},
        {"name: resnet, depth: 50", 224, "fc.weight", "uniform", 1 / sqrt(2048)},
        {"name: resnet, depth: 50", 224, "fc.bias", "uniform", 1 / sqrt(2048)},
        {"name: resnet, zero_init_residual: off", 32, "layer4.1.bn2.weight", "constant", 1},
        {"name: densenet", 32, "features.denseblock1.denselayer1.conv2.weight", "normal", sqrt(2.0 / (128 * 9))},
        {"name: densenet", 32, "classifier.bias", "constant", 0},
        {"name: wide_resnet, depth: 16, width: 4", 32, "conv0.weight", "normal", sqrt(2.0 / (16 * 9))},
        {"name: wide_resnet, depth: 16, width: 4", 32, "group1.block0.conv0.weight", "normal", sqrt(2.0 / (128 * 9))},
        {"name: wide_resnet, depth: 16, width: 4", 32, "group1.block0.convdim.weight", "normal", sqrt(2.0 / 128)},
        {"name: wide_resnet, depth: 16, width: 4", 32, "group1.block0.bn1.weight", "half_uniform", 0.5},
        {"name: wide_resnet, depth: 16, width: 4", 32, "group1.block0.bn1.bias", "constant", 0},
        {"name: wide_resnet, depth: 16, width: 4", 32, "fc.weight", "uniform", 1 / sqrt(256)},
        {"name: wide_resnet, depth: 16, width: 4", 32, "fc.bias", "constant", 0},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const d9_value *found = program_value(&build(rows[r].model, rows[r].side, 10)->graph, rows[r].value);
        if (strcmp(found->init.name, rows[r].how) != 0 || !(fabs(found->init.a - rows[r].a) <= 1e-15))
            fail_msg("%s starts %s %.17g", rows[r].value, found->init.name, found->init.a);
    }
    assert_scales_in_0_to_1(
        program_value(&build("name: wide_resnet, depth: 16, width: 4", 32, 10)->graph, "group2.block0.bn1.weight"));
}

TEST(the_stem_follows_the_size_of_the_image) {
    static const struct {
        const char *model;
        int64_t side;
        int kernel;
    } rows[] = {{"name: resnet, width: 4", 64, 3},
                {"name: resnet, width: 4", 65, 7},
                {"name: resnet, width: 4, stem: imagenet", 32, 7},
                {"name: resnet, width: 4, stem: cifar", 65, 3}};
    for (int r = 0; r < 4; r++) {
        const d9_graph *graph = &build(rows[r].model, rows[r].side, 10)->graph;
        assert_ints(graph->nodes[0].as.conv.kernel, rows[r].kernel, program_count(graph, D9_OP_POOL, false),
                    rows[r].kernel == 7);
    }
}

/* The addend is the output of act1; epsilon and momentum are Keller Jordan's. */
TEST(airbench_adds_its_first_activation) {
    for (int depth = 2; depth <= 3; depth++) {
        char model[64], add[] = "group1.add";
        snprintf(model, sizeof model, "name: airbench, first_depth: %d, residual: on", depth);
        const d9_graph *graph = &build(model, 32, 10)->graph;
        const d9_norm_attributes *norm = &program_node(graph, D9_OP_NORM, "group1.norm1")->as.norm;
        assert_int_equal(program_node(graph, D9_OP_ADD, add)->inputs[0],
                         program_node(graph, D9_OP_ACT, "group1.act1")->outputs[0]);
        assert_true(norm->epsilon == 1e-12 && norm->momentum == 0.4);
    }
}

/* In rows with `smallest`, images one pixel larger must be accepted. */
TEST(invalid_options_are_rejected) {
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
            assert_rejection(d9_config_parse(&context, "x.yaml", yaml, NULL, &config), D9_USAGE, rows[r].words);
        else {
            assert_rejection(try_build(rows[r].model, rows[r].side, 10, &b), D9_USAGE, rows[r].words);
            d9_graph_free(&context, &b.graph);
        }
        if (rows[r].smallest) build(rows[r].model, rows[r].side + 1, 10);
    }
}
