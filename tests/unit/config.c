/* Configurations: errors, defaults, schedules, help texts; edits, inheritance, lack of memory; printing and hashes. */
#include "backends/backend.h"
#include "config/reference.h"
#include "config_testing.h"
#include "core/hash.h"
#include "record/effective.h"
#include "tests/support/each_call.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

/* A list of one edit: --with, --without or --set. */
#define EDIT(how, what)                                                                                                \
    (&(d9_config_edits){.items = &(d9_config_edit){.kind = D9_EDIT_##how, .text = (what)}, .count = 1})

/* The configuration lives until the test ends. */
static d9_config *parse(const char *yaml, const d9_config_edits *edits) {
    d9_config *config;
    OK(d9_config_parse(&context, "x.yaml", yaml, edits, &config));
    return program_keep_config(config);
}

static void assert_rejected(const char *yaml, const d9_config_edits *edits, const char *words) {
    d9_config *config = (d9_config *)&context; /* must become NULL */
    d9_context_clear(&context);
    assert_int_equal(d9_config_parse(&context, "x.yaml", yaml, edits, &config), D9_USAGE);
    assert_words(context.message, words);
    assert_null(config);
    d9_context_clear(&context);
}

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
    {"data: {table: ''}\n", "x.yaml:1:15 data.table empty"},
    {"data: {separator: ''}\n", "x.yaml:1:19 data.separator empty"},
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
    {"seed: \"7\"\n", "x.yaml:1:7 seed 7"},
    {"train: {epochs: ten}\n", "x.yaml:1:17 train.epochs ten"},
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
    {"train: {lr: {values: [0, 1]}}\n", "x.yaml:1:13 train.lr knots"},
    {"train: {lr: {knots: [0, end], values: [1]}}\n", "x.yaml:1:13 train.lr 1 2"},
    {"train: {lr: {knots: [], values: []}}\n", "x.yaml:1:21 train.lr.knots"},
    {"train: {lr: {knots: [0, ned], values: [1, 2]}}\n", "x.yaml:1:25 train.lr.knots[1] ned"},
    {"train: {lr: {knots: [101%], values: [1]}}\n", "x.yaml:1:22 train.lr.knots[0] 101%"},
    {"train: {lr: {knots: [-1], values: [1]}}\n", "x.yaml:1:22 train.lr.knots[0] -1"},
    {"train: {lr: {knots: [end-2%], values: [1]}}\n", "x.yaml:1:22 train.lr.knots[0] end-2%"},
    {"train: {lr: {knots: [end--2], values: [1]}}\n", "x.yaml:1:22 train.lr.knots[0] end--2"},
    {"train: {lr: {knots: [\"0\"], values: [1]}}\n", "x.yaml:1:22 train.lr.knots[0] 0"},
    {"train: {lr: {knots: [5, 3], values: [1, 2]}}\n", "x.yaml:1:25 train.lr.knots[1] 3"},
    {"train: {lr: {knots: [end-2, end-3], values: [1, 2]}}\n", "x.yaml:1:29 train.lr.knots[1] end-3"},
    {"train: {lr: {knots: [0], values: [.nan]}}\n", "x.yaml:1:35 train.lr.values[0] .nan"},
    {"train: {lr: {knots: [0], values: [-1]}}\n", "x.yaml:1:35 train.lr.values[0] -1 0 1000000"},
};

TEST(invalid_files_are_rejected_with_their_place, enter_source_folder) {
    for (int i = 0; i < COUNT(rejections); i++) assert_rejected(rejections[i].yaml, NULL, rejections[i].words);
}

TEST(deep_nesting_is_rejected, enter_source_folder) {
    char yaml[256] = "seed: ";
    memset(yaml + 6, '[', 100);
    assert_rejected(yaml, NULL, "x.yaml:1:39 32");
}

TEST(a_missing_required_option_is_rejected, enter_source_folder) {
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

TEST(options_have_their_defaults, enter_source_folder) {
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
}

TEST(bounds_are_legal, enter_source_folder) {
    d9_config *config = parse("target: 100\nthreads: 4096\ntrain: {epochs: 0.001, momentum: 0.999999}\n", NULL);
    assert_true(config->target == 100 && config->train.epochs == 0.001 && config->train.momentum == 0.999999);
    assert_int_equal(config->threads, 4096);
}

/* A trick with its default options passes the checks, and no other trick is on. */
TEST(every_trick_is_legal_by_default, enter_source_folder) {
    for (int i = 0; i < D9_TRICK_COUNT; i++) {
        d9_config *config = parse("{}", EDIT(WITH, d9_trick_at(i)->name));
        for (int j = 0; j < D9_TRICK_COUNT; j++)
            assert_ints(config->trick_on[j], i == j, config->trick_options[j] != NULL, i == j);
    }
}

TEST(schedules_are_read_from_knots_and_values, enter_source_folder) {
    d9_config *config = parse("train: {lr: {knots: [0, 2.5, 20%, end-2, end], values: [0, 1, 0.5, 1.0e-1, 0]}}", NULL);
    static const d9_knot knots[] = {{0, D9_KNOT_EPOCHS},
                                    {2.5, D9_KNOT_EPOCHS},
                                    {20, D9_KNOT_PERCENT},
                                    {2, D9_KNOT_BEFORE_END},
                                    {0, D9_KNOT_BEFORE_END}};
    static const double values[] = {0, 1, 0.5, 0.1, 0};
    assert_true(config->train.lr.count == 5);
    for (int i = 0; i < 5; i++) {
        assert_true(config->train.lr.knots[i].value == knots[i].value && config->train.lr.values[i] == values[i]);
        assert_int_equal(config->train.lr.knots[i].unit, knots[i].unit);
    }
}

static void assert_learning_rates(const char *yaml, const char *set, int count, const double *values) {
    d9_config *config = parse(yaml, set ? EDIT(SET, set) : NULL);
    assert_int_equal(config->train.lr.count, count);
    for (int i = 0; i < count; i++) assert_true(config->train.lr.values[i] == values[i]);
}

/* A peak scales the file's schedule, or the default one. It does not scale values that are set later. */
TEST(a_peak_scales_the_schedule, enter_source_folder) {
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

TEST(a_schedule_has_any_number_of_knots, enter_source_folder) {
    const int count = 5000;
    d9_text *yaml = test_text();
    d9_text_add(yaml, "train: {lr: {knots: [0");
    for (int i = 1; i < count; i++) d9_text_add(yaml, ", %d", i);
    d9_text_add(yaml, "], values: [0");
    for (int i = 1; i < count; i++) d9_text_add(yaml, ", %d", i % 7);
    d9_text_add(yaml, "]}}");
    const d9_schedule *lr = &parse(d9_text_get(yaml), NULL)->train.lr;
    assert_int_equal(lr->count, count);
    for (int i = 0; i < count; i++) assert_true(lr->knots[i].value == i && lr->values[i] == i % 7);
    assert_true(d9_schedule_at(lr, 2 * 4321 - 1, 2, count) == 4321 % 7);
}

/* Another shape keeps only peak and `at` of the inherited schedule; a list of knots and values replaces a cosine.
 * Setting peak, warmup or end changes an inherited cosine. */
TEST(another_shape_replaces_the_schedule, enter_source_folder) {
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
    config = parse(listed, EDIT(SET, "train.lr.shape=cosine"));
    assert_true(config->train.lr.at_start);
}

/* The help text of a choice must explain each value, in their order, on a line that begins with "VALUE: ". */
static void assert_values_explained(const d9_option *option) {
    d9_choices choices;
    d9_text *text = test_text();
    d9_option_explain(option, "\n", text);
    d9_choices_split(option->choices, &choices);
    const char *at = d9_text_get(text);
    for (int i = 0; i < choices.count; i++) {
        char start[64];
        snprintf(start, sizeof start, "\n%s: ", choices.words[i]);
        if (!(at = strstr(at, start))) fail_msg("%s: the help does not explain %s", option->key, choices.words[i]);
    }
}

TEST(sections_list_and_explain_all_options, enter_source_folder) {
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

static double celu_alpha(const d9_config *config) {
    double alpha = NAN;
    int index = d9_trick_index("celu");
    d9_text *text = test_text();
    if (config->trick_on[index]) d9_value_write(d9_trick_at(index)->options, config->trick_options[index], text);
    if (!d9_text_to_real(d9_text_get(text), &alpha)) alpha = NAN;
    return alpha;
}

TEST(edits_override_the_file_and_the_last_edit_wins, enter_source_folder) {
    static d9_config_edit items[] = {{.kind = D9_EDIT_WITH, .text = "celu:alpha=0.2"},
                                     {.kind = D9_EDIT_WITH, .text = "celu"},
                                     {.kind = D9_EDIT_WITH, .text = "flip"},
                                     {.kind = D9_EDIT_WITHOUT, .text = "flip"},
                                     {.kind = D9_EDIT_WITHOUT, .text = "cutout"},
                                     {.kind = D9_EDIT_SET, .text = "train.epochs=3"},
                                     {.kind = D9_EDIT_SET, .text = "tricks.celu.alpha=0.5"},
                                     {.kind = D9_EDIT_SET, .text = "train.epochs=4.5"},
                                     {.kind = D9_EDIT_SET, .text = "data.path="},
                                     {.kind = D9_EDIT_SET, .text = "train.lr={knots: [0, end], values: [1, 0]}"},
                                     {.kind = D9_EDIT_SET, .text = "model.channels=[8,16,32,64]"}};
    d9_config_edits edits = {.items = items, .count = 5};
    const char *yaml = "data: {path: d}\ntrain: {epochs: 9}\ntricks: {celu: {alpha: 0.1}, cutout: {}}\n";
    d9_config *config = parse(yaml, &edits);
    assert_true(celu_alpha(config) == 0.2 && config->train.epochs == 9);
    assert_string_equal(config->data.path, "d");
    assert_true(!config->trick_on[d9_trick_index("flip")] && !config->trick_on[d9_trick_index("cutout")]);
    edits.count = COUNT(items);
    config = parse(yaml, &edits);
    assert_true(celu_alpha(config) == 0.5 && config->train.epochs == 4.5); /* the last edit counts */
    assert_null(config->data.path);
    assert_int_equal(config->train.lr.count, 2);
}

/* The edits of a list are one layer, whatever their order; an appended list is a layer over it. */
TEST(edits_of_a_list_keep_one_another, enter_source_folder) {
    static d9_config_edit items[] = {{.kind = D9_EDIT_SET, .text = "model.depth=34"},
                                     {.kind = D9_EDIT_SET, .text = "model.name=resnet"},
                                     {.kind = D9_EDIT_SET, .text = "train.lr.peak=0.2"},
                                     {.kind = D9_EDIT_SET, .text = "train.lr.values=[0, 1, 0]"}};
    const d9_config_edits edits = {.items = items, .count = COUNT(items)};
    d9_config_edits layers = {0};
    d9_arena arena = {0};
    const char *yaml = "model: {channels: [4, 4, 8, 8]}\ntrain: {lr: {knots: [0, 1, end], values: [0, 9, 0]}}\n";
    d9_config *config = parse(yaml, &edits);
    assert_string_equal(d9_tree_find(d9_tree_find(config->tree, "model"), "depth")->text, "34");
    assert_true(config->train.lr.values[1] == 0.2);
    assert_rejected(
        "{}",
        &(d9_config_edits){
            .items = (d9_config_edit[]){{.kind = D9_EDIT_SET, .text = "train.lr.shape=cosine"}, items[3]}, .count = 2},
        "train.lr.values cosine");
    OK(d9_config_edits_append(&context, &arena, &layers, &edits));
    OK(d9_config_edits_append(&context, &arena, &layers, EDIT(SET, "model.name=vgg")));
    OK(d9_config_edits_append(&context, &arena, &layers, EDIT(SET, "train.lr.values=[0, 3, 0]")));
    config = parse(yaml, &layers);
    assert_string_equal(config->model->name, "vgg");
    assert_true(config->train.lr.values[1] == 3);
    d9_arena_free(&context, &arena);
}

/* --set of a text takes it as it stands, unless it begins with a quote; --data always does. */
TEST(a_set_text_is_taken_as_it_stands, enter_source_folder) {
    static const char *const texts[] = {"lab #2", "/tmp/a: b", "#N/A", "@home", ",", "[a", " x ", "1.0", "|"};
    for (int i = 0; i < COUNT(texts); i++) {
        char set[32];
        snprintf(set, sizeof set, "data.path=%s", texts[i]);
        assert_string_equal(parse("{}", EDIT(SET, set))->data.path, texts[i]);
    }
    assert_string_equal(parse("{}", EDIT(SET, "data.path=\"a\\tb\""))->data.path, "a\tb");
    const d9_config_edits folder = {
        .items = &(d9_config_edit){.kind = D9_EDIT_SET, .text = "data.path='x'", .option = "--data"}, .count = 1};
    assert_string_equal(parse("{}", &folder)->data.path, "'x'");
    assert_rejected("{}", EDIT(SET, "data.path=lab\377"), "--set data.path UTF-8");
}

/* Edits are kept in the order --with, --without, --set; those of one kind in the order given. */
TEST(edits_are_sorted_by_kind, enter_source_folder) {
    static const d9_config_edit_kind kinds[] = {D9_EDIT_SET, D9_EDIT_WITHOUT, D9_EDIT_SET, D9_EDIT_WITH};
    static const char *const texts[] = {"a=1", "ema", "a=2", "flip"}, *const order[] = {"flip", "ema", "a=1", "a=2"};
    d9_arena arena = {0};
    d9_config_edits edits = {0};
    for (int i = 0; i < 4; i++)
        OK(d9_config_edits_add(&context, &arena, &edits, (d9_config_edit){.kind = kinds[i], .text = texts[i]}));
    for (int i = 0; i < 4; i++) assert_string_equal(edits.items[i].text, order[i]);
    d9_arena_free(&context, &arena);
}

TEST(invalid_edits_are_rejected, enter_source_folder) {
    assert_rejected("{}", EDIT(SET, "train.epochs"), "--set train.epochs KEY=VALUE");
    assert_rejected("{}", EDIT(SET, "=3"), "--set =3 KEY=VALUE");
    assert_rejected("{}", EDIT(SET, "train..epochs=3"), "--set train..epochs=3");
    assert_rejected("{}", EDIT(SET, "train.=3"), "--set train.=3");
    assert_rejected("{}", EDIT(SET, "base=a.yaml"), "--set base=a.yaml");
    assert_rejected("{}", EDIT(SET, "seed=[1"), "--set seed=[1");
    assert_rejected("{}", EDIT(SET, "train.epoch=3"), "--set train.epoch=3 batch_size image_gradient epochs");
    assert_rejected("{}", EDIT(SET, "train.epochs=0"), "--set train.epochs=0 train.epochs 0 0.001 1000000");
    assert_rejected("{}", EDIT(SET, "train.epochs.x=0"), "--set train.epochs.x=0 train.epochs");
    assert_rejected("{}", EDIT(SET, "tricks.celu.alpha=1"), "--set tricks.celu.alpha=1 tricks.celu --with celu");
    assert_rejected("tricks: {celu: off}", EDIT(SET, "tricks.celu.alpha=1"),
                    "--set tricks.celu.alpha=1 tricks.celu --with celu");
    assert_rejected("{}", EDIT(WITH, ""), "--with NAME:KEY=VALUE");
    assert_rejected("{}", EDIT(WITH, "ema:"), "--with ema: NAME:KEY=VALUE");
    assert_rejected("{}", EDIT(WITH, "ema:every"), "--with ema:every NAME:KEY=VALUE");
    assert_rejected("{}", EDIT(WITH, "ema:every=1,every=2"), "--with ema:every=1,every=2 tricks.ema.every");
    assert_rejected("{}", EDIT(WITH, "ema:evry=5"),
                    "--with ema:evry=5 tricks.ema.evry momentum every restart_each_epoch");
    assert_rejected("{}", EDIT(WITHOUT, ""), "--without");
    assert_rejected("{}", EDIT(WITHOUT, "cellu"), "--without cellu celu");
}

static int enter_folder(void **state) {
    (void)state;
    return chdir(run_folder_new()) == 0 && d9_directory_make(&context, "sub") == D9_OK ? 0 : -1;
}

static void write_file(const char *path, const char *yaml) { OK(d9_file_write(&context, path, yaml, strlen(yaml))); }

static void assert_not_loaded(const char *path, const char *words) {
    d9_config *config;
    d9_context_clear(&context);
    assert_rejection(d9_config_load(&context, path, NULL, &config), D9_USAGE, words);
    assert_null(config);
}

TEST(files_inherit_from_their_base, enter_folder, enter_source_folder) {
    write_file("sub/c.yaml",
               "title: c\npublished: {seconds: 9}\nseed: 7\ntrain: {epochs: 5, lr: {knots: [0, 1], values: [0, "
               "1]}}\n"
               "model: {name: resnet9, logits_scale: 0.5}\ntricks: {celu: {alpha: 0.1}, flip: {}, cutout: {}}\n");
    write_file("b.yaml", "base: sub/c.yaml\ntrain: {lr: {values: [0, 2]}}\nmodel: {channels: [8, 8, 8, 8]}\n"
                         "tricks: {flip: off, celu: on}\n");
    write_file("a.yaml", "base: b.yaml\ntrain: {batch_size: 64}\ntricks: {flip: on, cutout: off}\n");
    d9_config *config = program_load("a.yaml", NULL);
    assert_string_equal(config->title, "a");
    assert_true(isnan(config->published.seconds)); /* published results are not inherited */
    assert_true(config->seed == 7 && config->train.epochs == 5 && config->train.batch_size == 64);
    assert_true(config->train.lr.knots[1].value == 1 && config->train.lr.values[1] == 2 && celu_alpha(config) == 0.1);
    assert_true(config->trick_on[d9_trick_index("flip")] && !config->trick_on[d9_trick_index("cutout")]);
}

/* Naming a model drops the inherited options of another model, before they are checked. */
TEST(other_model_drops_options, enter_folder, enter_source_folder) {
    write_file("b.yaml", "model: {name: resnet9, logits_scale: 0.5}\n");
    write_file("a.yaml", "base: b.yaml\nmodel: {name: resnet9}\n");
    d9_config *config = program_load("a.yaml", NULL);
    assert_non_null(d9_tree_find(d9_tree_find(config->tree, "model"), "logits_scale"));
    write_file("b.yaml", "model: {name: another, logits_scale: wrong}\n");
    config = program_load("a.yaml", NULL); /* no option of b's model remains */
    assert_null(d9_tree_find(d9_tree_find(config->tree, "model"), "logits_scale"));
}

TEST(invalid_bases_and_files_are_rejected, enter_folder, enter_source_folder) {
    assert_not_loaded("none.yaml", "none.yaml");
    assert_not_loaded("sub", "sub");
    write_file("a.yaml", "base: none.yaml\n");
    assert_not_loaded("a.yaml", "a.yaml:1:7 base none.yaml");
    write_file("sub/c.yaml", "base: a.yaml\n");
    assert_not_loaded("sub/c.yaml", "sub/c.yaml:1:7 base sub/a.yaml relative there a.yaml");
    write_file("a.yaml", "base: [b.yaml]\n");
    assert_not_loaded("a.yaml", "a.yaml:1:7 base");
    write_file("a.yaml", "base: a.yaml\n");
    assert_not_loaded("a.yaml", "a.yaml:1:7 base");
    write_file("a.yaml", "seed: 2\nbase: sub/c.yaml\n");
    write_file("sub/c.yaml", "base: ../b.yaml\n");
    write_file("b.yaml", "base: sub/../a.yaml\n"); /* another path of a.yaml */
    assert_not_loaded("a.yaml", "b.yaml:1:7 base a.yaml sub/c.yaml sub/../a.yaml");
    write_file("b.yaml", "train: {epochs: 0}\n"); /* errors name the place of the value */
    assert_not_loaded("a.yaml", "b.yaml:1:17 train.epochs 0 0.001 1000000");
    OK(d9_file_write(&context, "b.yaml", "seed: 1\0", 8));
    assert_not_loaded("b.yaml", "b.yaml");
    write_file("b.yaml", "title: \x01\n");
    assert_not_loaded("b.yaml", "b.yaml:1:1 7");
}

TEST(lack_of_memory_is_an_error, enter_source_folder) {
    planted p = {0};
    const d9_system system = planted_system(&p, d9_system_default());
    const d9_config_edits edits = {.items = (d9_config_edit[]){{.kind = D9_EDIT_SET, .text = "tricks.ema.every=3"},
                                                               {.kind = D9_EDIT_SET, .text = "train.from=README.md"}},
                                   .count = 2};
    context.system = &system;
    while (planted_next_allocation(&p)) {
        d9_config *config;
        d9_context_clear(&context);
        const d9_status status = d9_config_load(&context, "configs/ladder/13-ten-epochs.yaml", &edits, &config);
        d9_config_free(&context, config);
        planted_check(&p, status);
    }
    assert_true(p.victim > 10);
}

static void assert_round_trip(const d9_config *config) {
    char hash[65], again[65];
    d9_text *text = test_text(), *second = test_text(), *origins = test_text();
    d9_config_print(config, false, text);
    d9_config_print(config, true, origins);
    const char *printed[] = {d9_text_get(text), d9_text_get(origins)};
    d9_config_hash(&context, config, hash);
    for (int i = 0; i < 2; i++) {
        d9_config *back = parse(printed[i], NULL);
        second->size = 0;
        d9_config_print(back, false, second);
        d9_config_hash(&context, back, again);
        assert_string_equal(d9_text_get(second), d9_text_get(text));
        assert_string_equal(again, hash);
        assert_true(back->train.epochs == config->train.epochs && back->target == config->target);
    }
}

TEST(printed_configurations_are_read_back, enter_source_folder) {
    glob_t found = {0};
    add_files("configs/*.yaml", &found), add_files("configs/ladder/*.yaml", &found);
    for (size_t i = 0; i < found.gl_pathc; i++) assert_round_trip(program_load(found.gl_pathv[i], NULL));
    assert_true(found.gl_pathc > 30);
    globfree(&found);
    d9_config *config =
        parse("title: 'a \"q\" \\ # : é'\ntarget: 0.1\ndata: {path: \"a\\tb c\"}\nkeep: all\n"
              "backend_options: {fuse: no, tune: on}\ntricks: {flip: {rule: alternating}}\n"
              "train: {epochs: 0.30000000000000004, weight_decay: 1.0e-30, momentum_form: torch,\n"
              "  lr: {knots: [0.1, 33.3%, end-0.5], values: [1.0e-3, 0.3333333333333333, 0], at: start}}\n",
              NULL);
    assert_string_equal(config->title, "a \"q\" \\ # : é");
    assert_string_equal(config->data.path, "a\tb c");
    assert_round_trip(config);
    config =
        parse("train: {lr: {end: 1.0e-4, warmup: end-1.5, shape: cosine, peak: 0.3, start: 0.1, at: start}}", NULL);
    assert_round_trip(config);
}

/* Inner keys of `ablate` are checked only when an arm of an ablation is made. */
TEST(any_key_and_value_is_printed_so_that_it_reads_back, enter_source_folder) {
    static const char *const keys[] = {"a: b", "a #b", "a, b", "{a}",        "?a",
                                       "- a",  "a:",   " a",   "a\tb",       "\"a\\",
                                       "'a'",  "-a",   "a:?b", "a\302\205b", "a\342\200\250b"};
    for (int i = 0; i < COUNT(keys); i++) {
        d9_text *yaml = test_text();
        d9_text_add(yaml, "ablate: {celu: {");
        d9_tree_quote(keys[i], yaml);
        d9_text_add(yaml, ": 1}}");
        assert_round_trip(parse(d9_text_get(yaml), NULL));
    }
    const d9_config *config = parse(
        "ablate:\n  celu:\n    it's -a:b: ?a\n    -c#: [1]\n    d:\n      -\n      - 1\n    e: x\n\n      y\n", NULL);
    assert_round_trip(config);
    d9_text *text = test_text();
    d9_tree_write(config->ablate, text);
    assert_string_equal(d9_text_get(text),
                        "{celu: {\"it's -a:b\": \"?a\", \"-c#\": [1], d: [\"\", 1], e: \"x\\x0ay\"}}");
}

/* Texts that YAML would read as numbers, dates, truth values or null are quoted, and texts with a space. */
TEST(texts_that_look_like_other_types_are_quoted, enter_source_folder) {
    static const struct {
        const char *text;
        bool quoted;
    } rows[] = {{"1.10", true}, {"007", true},   {"1e3", true},   {"-5", true},         {"1_000", true},
                {"0x1e", true}, {"no", true},    {"On", true},    {"null", true},       {".inf", true},
                {"TRUE", true}, {"a b", true},   {"e", false},    {"2024-01-01", true}, {"none", false},
                {".", false},   {"./1", false},  {"v1.0", false}, {"1st", false},       {"dawn94", false},
                {"0xFF", true}, {"0b101", true}, {"A100", false}, {"cafe4", false}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char yaml[64], line[64];
        json_t *effective;
        snprintf(yaml, sizeof yaml, "title: '%s'", rows[i].text);
        snprintf(line, sizeof line, rows[i].quoted ? "title: \"%s\"\n" : "title: %s\n", rows[i].text);
        d9_config *config = parse(yaml, NULL);
        d9_text *text = test_text();
        d9_config_print(config, false, text);
        assert_memory_equal(d9_text_get(text), line, strlen(line));
        OK(d9_effective_json(&context, config, &effective));
        assert_string_equal(json_string_value(json_object_get(run_json(effective), "title")), rows[i].text);
        assert_round_trip(config);
    }
}

TEST(origins_of_values_are_printed, enter_source_folder) {
    static d9_config_edit items[] = {{.kind = D9_EDIT_WITH, .text = "ema:every=7"},
                                     {.kind = D9_EDIT_WITHOUT, .text = "flip"},
                                     {.kind = D9_EDIT_SET, .text = "train.epochs=3"},
                                     {.kind = D9_EDIT_SET, .text = "seed=2", .option = "--seed"}};
    d9_config_edits edits = {.items = items, .count = COUNT(items)};
    const d9_config *config = program_load("configs/dawn94.yaml", &edits);
    static const char *const lines[] = {
        "title: dawn94                           # the file's name\n",
        "threads: 0                              # default\n",
        "seed: 2                                 # --seed 2\n",
        "  epochs: 3                             # --set train.epochs=3\n",
        "    every: 7                            # --with ema:every=7\n",
        "  batch_size: 512                       # configs/base.yaml:10\n",
        "tricks:\n  crop:\n    pad: 4                              # configs/dawn94.yaml:10\n",
        "  # flip: off                           # --without flip\n",
        "  lr: {knots: [0, 20%, end-2], values: [0, 1, 0.1]}  # configs/dawn94.yaml:8\n",
        "  flip_tta: {}                          # configs/dawn94.yaml:19\n"};
    d9_text *text = test_text();
    d9_config_print(config, true, text);
    for (int i = 0; i < COUNT(lines); i++)
        if (!strstr(d9_text_get(text), lines[i])) fail_msg("no line %s in\n%s", lines[i], d9_text_get(text));
}

/* An edit may contain a line break, U+2028 too; the printout must still be YAML of the same configuration. */
TEST(origins_with_newlines_stay_yaml, enter_source_folder) {
    static d9_config_edit items[] = {{.kind = D9_EDIT_SET, .text = "target=\n 50"},
                                     {.kind = D9_EDIT_SET, .text = "title=\"a\xe2\x80\xa8 b\\uFFFF\""},
                                     {.kind = D9_EDIT_SET, .text = "tricks={ema: off}"}};
    d9_config_edits edits = {.items = items, .count = COUNT(items)};
    const d9_config *config = program_load("configs/dawn94.yaml", &edits);
    assert_true(config->target == 50);
    assert_round_trip(config);
}

TEST(some_options_are_not_in_the_hash, enter_source_folder) {
    static const char *const same[] = {"title: t",
                                       "target: 50",
                                       "threads: 3",
                                       "keep: all",
                                       "seed: 2",
                                       "data: {path: d}",
                                       "backend_options: {choices: d}",
                                       "eval: {every: 2}",
                                       "{eval: {tta: every}, tricks: {flip_tta: off}}",
                                       "published: {seconds: 1}",
                                       "tricks: {celu: off}",
                                       "train: {epochs: 24}"},
                             *const other[] = {"backend: reference",       "precision: f32",
                                               "train: {epochs: 25}",      "data: {validation: 10}",
                                               "tricks: {celu: {}}",       "backend_options: {fuse: off}",
                                               "model: {logits_scale: 1}", "train: {lr: {knots: [0], values: [1]}}"};
    char plain[65], hash[65];
    for (int i = -1; i < COUNT(same) + COUNT(other); i++) {
        d9_config *config = parse(i < 0 ? "{}" : i < COUNT(same) ? same[i] : other[i - COUNT(same)], NULL);
        d9_config_hash(&context, config, i < 0 ? plain : hash);
        assert_int_equal(strlen(i < 0 ? plain : hash), 64);
        if (i >= 0) assert_int_equal(strcmp(plain, hash) == 0, i < COUNT(same));
    }
}

/* docs/records.md documents the text that is hashed; later versions must hash the same text. */
TEST(the_hash_is_of_the_documented_text, enter_source_folder) {
    static const struct {
        const char *yaml, *hashed;
    } rows[] = {
        {"{}", ""},
        {"train: {epochs: 24, momentum: 0.90}", ""},
        {"{tricks: {ema: {every: 2}, celu: {alpha: 5e-1}}, train: {epochs: 3}, backend: cpu}",
         "backend: cpu\ntrain.epochs: 3\ntricks.celu: on\ntricks.celu.alpha: 0.5\ntricks.ema: on\ntricks.ema.every: "
         "2\n"},
        {"{eval: {tta: every}, tricks: {flip_tta: {}}}", "tricks.flip_tta: on\n"},
        {"{tricks: {flip_tta: {}}, data: {validation: 9}, keep: best}", "data.validation: 9\ntricks.flip_tta: on\n"},
        {"{tricks: {flip_tta: {}}, data: {validation: 9}, eval: {patience: 2, tta: every}}",
         "data.validation: 9\neval.patience: 2\ntricks.flip_tta: on\n"},
        {"{tricks: {flip_tta: {}}, data: {validation: 9}, eval: {patience: 2}}",
         "data.validation: 9\neval.patience: 2\neval.tta: last\ntricks.flip_tta: on\n"},
        {"{tricks: {flip_tta: {}}, data: {validation: 9}, train: {plateau: 0.5}}",
         "data.validation: 9\neval.tta: last\ntrain.plateau: 0.5\ntricks.flip_tta: on\n"},
        {"{data: {validation: 9}, eval: {patience: 2}}", "data.validation: 9\neval.patience: 2\n"},
        {"{data: {validation: 9}, eval: {every: 2}, train: {plateau: 0.5}}",
         "data.validation: 9\neval.every: 2\ntrain.plateau: 0.5\n"},
        {"{data: {validation: 9}, eval: {every: 2}}", "data.validation: 9\n"},
        {"{model: {name: vgg, hidden: 13}, data: {path: d}}", "model.hidden: 13\nmodel.name: vgg\n"},
        {"data: {separator: '|', no_label: ''}", ""},
        {"data: {separator: ;}", "data.separator: \";\"\n"},
        {"data: {dataset: folder}", "data.dataset: folder\ndata.split: 2\n"},
        {"data: {dataset: labelled}", "data.dataset: labelled\ndata.split: 3\n"},
        {"data: {dataset: labelled, group_column: g}", "data.dataset: labelled\ndata.group_column: g\ndata.split: 2\n"},
        {"data: {dataset: labelled, split_column: s}", "data.dataset: labelled\ndata.split: 2\ndata.split_column: s\n"},
        {"train: {lr: {knots: [0, end], values: [1.0, 2]}}", "train.lr: {knots: [0, end], values: [1, 2]}\n"},
        {"train: {lr: {shape: linear, knots: [0, 20%, end], values: [0, 0.4, 0]}}", ""},
        {"train: {lr: {shape: cosine, peak: 0.4, warmup: 20%}}",
         "train.lr: {shape: cosine, peak: 0.4, warmup: 20%, start: 0, end: 0}\n"},
        {"train: {lr: {end: 0.01, start: 0.1, peak: 0.4, shape: cosine, at: start}}",
         "train.lr: {shape: cosine, peak: 0.4, warmup: 0, start: 0.1, end: 0.01, at: start}\n"},
    };
    char hash[65], expected[65];
    for (int i = 0; i < COUNT(rows); i++) {
        d9_config *config = parse(rows[i].yaml, NULL);
        d9_config_hash(&context, config, hash);
        d9_sha256_hex(&(d9_bytes){rows[i].hashed, strlen(rows[i].hashed)}, 1, expected);
        if (strcmp(hash, expected) != 0) fail_msg("%s: another hash", rows[i].yaml);
    }
}

/* Values that are not set, or equal the default in any notation, count as the default. */
TEST(unset_and_equal_values_count_as_default, enter_source_folder) {
    static const struct {
        const char *fallback, *same, *other;
        d9_option_type type;
    } rows[] = {{"off", "false", "on", D9_OPTION_BOOL},
                {"0.50", "5e-1", "0.25", D9_OPTION_REAL},
                {"", NULL, "0", D9_OPTION_REAL},
                {"3", "3", "-3", D9_OPTION_INT},
                {"b", "b", "a", D9_OPTION_CHOICE},
                {"", "\"\"", "a", D9_OPTION_TEXT},
                {"[1, 2]", "[ 1,2 ]", "[1]", D9_OPTION_INTS},
                {"{knots: [0, end], values: [1, 2]}", "{knots: [0.0, end], values: [1.0, 2]}",
                 "{knots: [0, end], values: [1, 3]}", D9_OPTION_SCHEDULE}};
    for (int i = 0; i < COUNT(rows); i++) {
        const d9_option option = {
            "key", rows[i].type, 0, rows[i].fallback, 0, 0, rows[i].type == D9_OPTION_CHOICE ? "a|b" : NULL, "a key"};
        const char *const values[] = {NULL, rows[i].same, rows[i].other};
        d9_arena arena = {0};
        for (int v = 0; v < COUNT(values); v++) {
            const d9_place place = {.source = "x"};
            d9_schedule field = {0};
            d9_tree *node = NULL;
            if (values[v]) OK(d9_tree_parse(&context, &arena, &place, values[v], strlen(values[v]), &node));
            OK(d9_value_read(&context, &arena, &option, node, &field));
            d9_text *text = test_text();
            assert_ints(d9_value_is_default(&option, &field, text), v < 2, d9_text_status(text), D9_OK);
        }
        d9_arena_free(&context, &arena);
    }
}
