/* Configurations: errors, defaults, bounds, learning rate schedules, and the list of options. */
#include "config_testing.h"
#include "backends/backend.h"
#include "config/reference.h"

static const struct {
    const char *yaml, *words;
} rejections[] = {
    {"", "x.yaml:1:1"},
    {"# only a comment\n", "x.yaml:2:1"},
    {"- a\n", "x.yaml:1:1 {seed:"},
    {"seed", "x.yaml:1:1 {seed:"},
    {"seed: 1\nthreads: 2\nseed: 2\n", "x.yaml:3:1 1"},
    {"train: {epochs: 1, epochs: 1}\n", "x.yaml:1:20 train.epochs 1"},
    {"train: &a {epochs: 1}\n", "x.yaml:1:8 &a"},
    {"train: *a\n", "x.yaml:1:8 *a"},
    {"seed: !!int 3\n", "x.yaml:1:7 tag:yaml.org,2002:int"},
    {"seed: 1\n---\nseed: 2\n", "x.yaml:2:1"},
    {"{[1]: 2}\n", "x.yaml:1:2"},
    {"{\"\": 2}\n", "x.yaml:1:2"},
    {"title: \"a\\0b\"\n", "x.yaml:1:8"},
    {"train:\n\tepochs: 1\n", "x.yaml:2:1"},
    {"train: @\n", "x.yaml:1:8"},
    {"train: [1\n", "x.yaml:2:1"},
    {"train:\n  epoch: 3\n", "x.yaml:2:3 train.epoch batch_size image_gradient epochs"},
    {"dta: {}\n", "x.yaml:1:1 dta title data"},
    {"tricks:\n  celu: {alhpa: 0.3}\n", "x.yaml:2:10 tricks.celu.alhpa alpha"},
    {"tricks: {flip_tta: {a: 1}}\n", "x.yaml:1:21 tricks.flip_tta.a"},
    {"tricks: {cellu: {}}\n", "x.yaml:1:10 tricks.cellu crop celu"},
    {"model: {name: resnet8}\n", "x.yaml:1:15 model.name resnet8 resnet9 vgg resnet densenet airbench wide_resnet"},
    {"model: {name: resnet9, chanels: [1]}\n", "x.yaml:1:24 model.chanels channels logits_scale"},
    {"train: {lr: {knots: [0], value: [1]}}\n", "x.yaml:1:26 train.lr.value knots values peak"},
    {"train: 3\n", "x.yaml:1:8 train 3"},
    {"train:\n", "x.yaml:1:7 train"},
    {"tricks: off\n", "x.yaml:1:9 tricks off"},
    {"tricks: {celu: 0.3}\n", "x.yaml:1:16 tricks.celu on off"},
    {"tricks: {celu: }\n", "x.yaml:1:16 tricks.celu on off"},
    {"model: resnet9\n", "x.yaml:1:8 model resnet9"},
    {"title:\n", "x.yaml:1:7 title"},
    {"title: [a]\n", "x.yaml:1:8 title"},
    {"seed: 1.5\n", "x.yaml:1:7 seed 1.5"},
    {"seed: 1e3\n", "x.yaml:1:7 seed 1e3"},
    {"seed: 9223372036854775808\n", "x.yaml:1:7 seed 9223372036854775808"},
    {"seed: \"7\"\n", "x.yaml:1:7 seed 7"},
    {"train: {epochs: ten}\n", "x.yaml:1:17 train.epochs ten"},
    {"train: {epochs: .inf}\n", "x.yaml:1:17 train.epochs .inf"},
    {"train: {epochs: nan}\n", "x.yaml:1:17 train.epochs nan"},
    {"train: {epochs: 1e999}\n", "x.yaml:1:17 train.epochs 1e999"},
    {"train: {epochs: 0x10}\n", "x.yaml:1:17 train.epochs 0x10"},
    {"train: {epochs: {}}\n", "x.yaml:1:17 train.epochs"},
    {"backend_options: {fuse: 1}\n", "x.yaml:1:25 backend_options.fuse on off 1"},
    {"backend: gpu\n", "x.yaml:1:10 backend gpu mean cuda?"},
    {"backend: onedn\n", "x.yaml:1:10 backend onedn auto reference cpu onednn cuda"},
    {"keep: [all]\n", "x.yaml:1:7 keep none model all best"},
    {"tricks: {pool_before_activation: {position: before}}\n",
     "x.yaml:1:45 tricks.pool_before_activation.position before before_act before_norm"},
    {"model: {channels: 64}\n", "x.yaml:1:19 model.channels 64"},
    {"model: {channels: []}\n", "x.yaml:1:19 model.channels"},
    {"model: {channels: [64, 1.5]}\n", "x.yaml:1:24 model.channels[1] 1.5"},
    {"model: {channels: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}\n", "x.yaml:1:19 model.channels 17 16"},
    {"train: {epochs: 0}\n", "x.yaml:1:17 train.epochs 0 0.001 1000000"},
    {"train: {batch_size: 0}\n", "x.yaml:1:21 train.batch_size 0 1 1000000"},
    {"train: {momentum: 1}\n", "x.yaml:1:19 train.momentum 1 0 0.999999"},
    {"train: {weight_decay: -1}\n", "x.yaml:1:23 train.weight_decay -1 0 1000"},
    {"train: {bias_lr_multiplier: 0}\n", "x.yaml:1:29 train.bias_lr_multiplier 0 1e-06 1000000"},
    {"target: 101\n", "x.yaml:1:9 target 101 0 100"},
    {"seed: -1\n", "x.yaml:1:7 seed -1 0"},
    {"data: {validation: -5}\n", "x.yaml:1:20 data.validation -5 0 1000000000"},
    {"eval: {every: -1}\n", "x.yaml:1:15 eval.every -1 0 1000000"},
    {"published: {seconds: -1}\n", "x.yaml:1:22 published.seconds -1 0"},
    {"model: {channels: [64, 0]}\n", "x.yaml:1:24 model.channels[1] 0 1 4096"},
    {"train: {lr: 0.4}\n", "x.yaml:1:13 train.lr peak 0.4 --lr"},
    {"train: {lr: high}\n", "x.yaml:1:13 train.lr knots values high"},
    {"train: {lr: {peak: -1}}\n", "x.yaml:1:20 train.lr.peak -1 0 1000000"},
    {"train: {lr: {peak: high}}\n", "x.yaml:1:20 train.lr.peak high"},
    {"train: {lr: {knots: [0], values: [1], at: middle}}\n", "x.yaml:1:43 train.lr.at end start middle"},
    {"train: {lr: {knots: [0, end], peak: 1}}\n", "x.yaml:1:13 train.lr values"},
    {"train: {lr: {shape: cosine}}\n", "x.yaml:1:13 train.lr peak cosine --lr"},
    {"train: {lr: {shape: [cosine], peak: 1}}\n", "x.yaml:1:21 train.lr.shape linear cosine"},
    {"train: {lr: {shape: cosine, peak: 1, values: [1]}}\n", "x.yaml:1:46 train.lr.values peak warmup start end"},
    {"train: {lr: {shape: cosine, peak: 1, warmup: -1}}\n", "x.yaml:1:46 train.lr.warmup -1"},
    {"train: {lr: {shape: cosine, peak: 1, end: 1.5}}\n", "x.yaml:1:43 train.lr.end 1.5 peak 1"},
    {"train: {lr: {shape: cosine, peak: 1, start: 2}}\n", "x.yaml:1:45 train.lr.start 2 peak 1"},
    {"train: {lr: {shape: linear, peak: 1, warmup: 1}}\n", "x.yaml:1:46 train.lr.warmup cosine"},
    {"train: {lr: {knots: [0], values: [0], peak: 2}}\n", "x.yaml:1:45 train.lr.peak 0 2"},
    {"train: {lr: {knots: [0, end]}}\n", "x.yaml:1:13 train.lr values"},
    {"train: {lr: {values: [0, 1]}}\n", "x.yaml:1:13 train.lr knots"},
    {"train: {lr: {knots: [0, end], values: [1]}}\n", "x.yaml:1:13 train.lr 1 2"},
    {"train: {lr: {knots: [], values: []}}\n", "x.yaml:1:21 train.lr.knots"},
    {"train: {lr: {knots: [0, ned], values: [1, 2]}}\n", "x.yaml:1:25 train.lr.knots[1] ned"},
    {"train: {lr: {knots: [101%], values: [1]}}\n", "x.yaml:1:22 train.lr.knots[0] 101%"},
    {"train: {lr: {knots: [-1], values: [1]}}\n", "x.yaml:1:22 train.lr.knots[0] -1"},
    {"train: {lr: {knots: [end-2%], values: [1]}}\n", "x.yaml:1:22 train.lr.knots[0] end-2%"},
    {"train: {lr: {knots: [end--2], values: [1]}}\n", "x.yaml:1:22 train.lr.knots[0] end--2"},
    {"train: {lr: {knots: [inf], values: [1]}}\n", "x.yaml:1:22 train.lr.knots[0] inf"},
    {"train: {lr: {knots: [\"0\"], values: [1]}}\n", "x.yaml:1:22 train.lr.knots[0] 0"},
    {"train: {lr: {knots: [5, 3], values: [1, 2]}}\n", "x.yaml:1:25 train.lr.knots[1] 3"},
    {"train: {lr: {knots: [end-2, end-3], values: [1, 2]}}\n", "x.yaml:1:29 train.lr.knots[1] end-3"},
    {"train: {lr: {knots: [0], values: [.nan]}}\n", "x.yaml:1:35 train.lr.values[0] .nan"},
    {"train: {lr: {knots: [0], values: [-1]}}\n", "x.yaml:1:35 train.lr.values[0] -1 0 1000000"},
};

TEST(test_invalid_files_are_rejected_with_their_place, enter_source_folder) {
    for (int i = 0; i < COUNT(rejections); i++) assert_rejected(rejections[i].yaml, NULL, rejections[i].words);
}

TEST(test_rejects_deep_nesting, enter_source_folder) {
    char yaml[256] = "seed: ";
    memset(yaml + 6, '[', 100);
    assert_rejected(yaml, NULL, "x.yaml:1:39 32");
}

TEST(test_required_option, enter_source_folder) {
    static const d9_option options[] = {{"size", D9_OPTION_INT, 0, NULL, 0, 0, NULL, "a size"}, {0}};
    d9_arena arena = {0};
    d9_tree *map;
    int64_t size;
    d9_place place = {"t.yaml", NULL, 4, 2};
    OK(d9_tree_make(&context, &arena, D9_TREE_MAP, &place, NULL, &map));
    assert_int_equal(d9_values_bind(&context, &arena, map, &(d9_binding){options, &size}, 1, NULL), D9_USAGE);
    assert_words(context.message, "t.yaml:4:2 size");
    d9_arena_free(&context, &arena);
}

TEST(test_defaults, enter_source_folder) {
    d9_config *config = parse("{}", NULL);
    assert_string_equal(config->title, "x");
    assert_true(config->target == 94 && config->seed == 1 && config->threads == 0 && config->keep == D9_KEEP_MODEL);
    assert_string_equal(config->backend, "auto");
    assert_string_equal(config->precision, "auto");
    assert_true(config->backend_options.fuse && config->backend_options.tune == D9_TUNE_AUTO);
    assert_string_equal(config->data.dataset, "cifar10");
    assert_null(config->data.path);
    assert_true(config->data.validation == 0);
    assert_true(config->data.image_size == 32 && config->data.synthetic_train == 2048 &&
                config->data.synthetic_test == 512);
    assert_true(config->eval.every == 1);
    assert_true(config->train.epochs == 24 && config->train.batch_size == 512 && config->train.momentum == 0.9);
    assert_true(config->train.weight_decay == 5e-4 && config->train.bias_lr_multiplier == 1);
    assert_int_equal(config->train.momentum_form, D9_MOMENTUM_PAGE);
    assert_true(isnan(d9_config_published(config)) && isnan(config->published.seconds) &&
                isnan(config->published.epochs));
    assert_true(!config->published.hardware && !config->published.source);
    assert_string_equal(config->model->name, "resnet9");
    for (int i = 0; i < D9_TRICK_COUNT; i++) assert_true(!config->trick_on[i] && !config->trick_options[i]);
    d9_config_free(&context, config);
}

TEST(test_bounds_are_legal, enter_source_folder) {
    d9_config *config = parse("target: 100\nthreads: 4096\ntrain: {epochs: 0.001, momentum: 0.999999}\n", NULL);
    assert_true(config->target == 100 && config->train.epochs == 0.001 && config->train.momentum == 0.999999);
    assert_int_equal(config->threads, 4096);
    d9_config_free(&context, config);
}

/* A trick with its default options passes the checks, and no other trick is on. */
TEST(test_every_trick_by_default, enter_source_folder) {
    for (int i = 0; i < D9_TRICK_COUNT; i++) {
        d9_config *config = parse("{}", EDIT(WITH, d9_trick_at(i)->name));
        for (int j = 0; j < D9_TRICK_COUNT; j++)
            assert_ints(config->trick_on[j], i == j, config->trick_options[j] != NULL, i == j);
        d9_config_free(&context, config);
    }
}

TEST(test_schedule_of_knots_and_values, enter_source_folder) {
    d9_config *config = parse("train: {lr: {knots: [0, 2.5, 20%, end-2, end], values: [0, 1, 0.5, 1.0e-1, 0]}}", NULL);
    static const d9_knot knots[] = {{0, D9_KNOT_EPOCHS},
                                    {2.5, D9_KNOT_EPOCHS},
                                    {20, D9_KNOT_PERCENT},
                                    {2, D9_KNOT_BEFORE_END},
                                    {0, D9_KNOT_BEFORE_END}};
    static const double values[] = {0, 1, 0.5, 0.1, 0};
    assert_true(config->train.lr.count == 5 && config->train.lr.value_count == 5);
    for (int i = 0; i < 5; i++) {
        assert_true(config->train.lr.knots[i].value == knots[i].value && config->train.lr.values[i] == values[i]);
        assert_int_equal(config->train.lr.knots[i].unit, knots[i].unit);
    }
    d9_config_free(&context, config);
}

static void assert_learning_rates(const char *yaml, const char *set, int count, const double *values) {
    d9_config *config = parse(yaml, set ? EDIT(SET, set) : NULL);
    assert_int_equal(config->train.lr.value_count, count);
    for (int i = 0; i < count; i++) assert_true(config->train.lr.values[i] == values[i]);
    d9_config_free(&context, config);
}

/* A peak scales the file's schedule, or the default one. It does not scale values that are set later. */
TEST(test_schedule_peak, enter_source_folder) {
    static const char own[] = "train: {lr: {knots: [0, 1, end], values: [0, 0.1, 0.04]}}",
                      scaled[] = "train: {lr: {knots: [0, 1, end], values: [0, 0.1, 0.04], peak: 5}}";
    assert_learning_rates(own, "train.lr.peak=0.3", 3, (const double[]){0, 0.3, 0.12});
    assert_learning_rates(own, "train.lr={peak: 0}", 3, (const double[]){0, 0, 0});
    assert_learning_rates("train: {lr: {peak: 3}}", NULL, 3, (const double[]){0, 3, 0});
    assert_learning_rates("seed: 1", "train.lr.peak=0.7", 3, (const double[]){0, 0.7, 0});
    assert_learning_rates(scaled, NULL, 3, (const double[]){0, 5, 2});
    assert_learning_rates(scaled, "train.lr.values=[1, 2, 3]", 3, (const double[]){1, 2, 3});
    assert_learning_rates(scaled, "train.lr.knots=[0, 2, 3]", 3, (const double[]){0, 5, 2});
}

/* 256 knots are read in order, and one more is an error that says so. */
TEST(test_many_knots, enter_source_folder) {
    char words[64];
    for (int count = 256; count <= 257; count++) {
        d9_text yaml;
        d9_text_init(&context, &yaml);
        d9_text_add(&yaml, "train: {lr: {knots: [0");
        for (int i = 1; i < count; i++) d9_text_add(&yaml, ", %d", i);
        d9_text_add(&yaml, "], values: [0");
        for (int i = 1; i < count; i++) d9_text_add(&yaml, ", %d", i % 7);
        d9_text_add(&yaml, "]}}");
        snprintf(words, sizeof words, "x.yaml:1:21 train.lr.knots %d 256", count);
        if (count > 256) {
            assert_rejected(d9_text_get(&yaml), NULL, words);
        } else {
            d9_config *config = parse(d9_text_get(&yaml), NULL);
            const d9_schedule *lr = &config->train.lr;
            for (int i = 0; i < count; i++) assert_true(lr->knots[i].value == i && lr->values[i] == i % 7);
            assert_true(d9_schedule_at(lr, 2 * 255 - 1, 2, 300) == 255 % 7);
            d9_config_free(&context, config);
        }
        d9_text_free(&yaml);
    }
}

/* A shape, knots or values set later replace the schedule; peak, warmup, start and end change an inherited cosine. */
TEST(test_shape_knots_or_values_replace_the_schedule, enter_source_folder) {
    static const char listed[] = "train: {lr: {knots: [0, 1, end], values: [0, 0.1, 0.04], peak: 5, at: start}}",
                      cosine[] = "train: {lr: {shape: cosine, peak: 0.4, warmup: 10%, start: 0.1, end: 0.01}}";
    assert_learning_rates(listed, "train.lr={shape: cosine, peak: 2, end: 1}", 3, (const double[]){0, 2, 1});
    assert_learning_rates(listed, "train.lr.shape=cosine", 3, (const double[]){0, 5, 0});
    assert_learning_rates(cosine, NULL, 3, (const double[]){0.1, 0.4, 0.01});
    assert_learning_rates(cosine, "train.lr.peak=0.2", 3, (const double[]){0.1, 0.2, 0.01});
    assert_learning_rates(cosine, "train.lr={shape: cosine, end: 0}", 3, (const double[]){0.1, 0.4, 0});
    assert_learning_rates(cosine, "train.lr={knots: [0, end], values: [2, 1]}", 2, (const double[]){2, 1});
    assert_learning_rates(cosine, "train.lr.shape=linear", 3, (const double[]){0, 0.4, 0});
    d9_config *config = parse(cosine, EDIT(SET, "train.lr.warmup=end-2"));
    const d9_schedule *lr = &config->train.lr;
    assert_true(lr->shape == D9_SCHEDULE_COSINE && !lr->at_start && lr->knots[1].value == 2 && lr->knots[2].value == 0);
    assert_ints(lr->knots[1].unit, D9_KNOT_BEFORE_END, lr->knots[2].unit, D9_KNOT_BEFORE_END);
    d9_config_free(&context, config);
    config = parse(listed, EDIT(SET, "train.lr.shape=cosine"));
    assert_true(config->train.lr.at_start);
    d9_config_free(&context, config);
}

/* The help text of a choice has one line for each value, in their order, which begins with the value. */
static void assert_values_explained(const d9_option *option) {
    d9_choices choices;
    d9_text text;
    d9_text_init(&context, &text);
    d9_option_explain(option, "\n", &text);
    d9_choices_split(option->choices, &choices);
    const char *at = d9_text_get(&text);
    for (int i = 0; i < choices.count; i++) {
        char start[64];
        snprintf(start, sizeof start, "\n%s: ", choices.words[i]);
        if (!(at = strstr(at, start))) fail_msg("%s: the help does not explain %s", option->key, choices.words[i]);
    }
    d9_text_free(&text);
}

TEST(test_sections_list_and_explain_all_options, enter_source_folder) {
    const char *section, *doc;
    const d9_option *options;
    int count = 0, rows = 0, models = 0;
    bool train = false, ema = false, model = false;
    for (; d9_config_section(count, &section, &doc, &options); count++) {
        assert_true(*section && doc && *doc && options);
        for (; options->type != D9_OPTION_NONE; options++, rows++) {
            assert_true(options->key && options->doc && *options->doc);
            assert_values_explained(options);
        }
        train = train || strcmp(section, "train") == 0;
        ema = ema || strcmp(section, "tricks.ema") == 0;
        model = model || strcmp(section, "model (resnet9)") == 0;
    }
    assert_true(train && ema && model && rows > 40);
    while (d9_model_at(models)) models++;
    assert_int_equal(count, 6 + 1 + models + D9_TRICK_COUNT);
    assert_false(d9_config_section(-1, &section, &doc, &options));
}
