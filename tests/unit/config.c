/* config: what is refused and in which words, and what a file that says nothing means. */
#include "config_testing.h"
#include "backends/backend.h"

/* ---- refusals ---- */

typedef struct refusal {
    const char *yaml, *message;
} refusal;

static const refusal yaml_refusals[] = {
    {"", "x.yaml:1:1: there is nothing in it; a configuration is a map of keys"},
    {"# only a comment\n", "x.yaml:2:1: there is nothing in it; a configuration is a map of keys"},
    {"- a\n", "x.yaml:1:1: a configuration is a map of keys, like {seed: 1}"},
    {"seed", "x.yaml:1:1: a configuration is a map of keys, like {seed: 1}"},
    {"seed: 1\nthreads: 2\nseed: 2\n", "x.yaml:3:1: seed: given twice; first on line 1"},
    {"train: {epochs: 1, epochs: 1}\n", "x.yaml:1:20: train.epochs: given twice; first on line 1"},
    {"train: &a {epochs: 1}\n", "x.yaml:1:8: anchors (&a) are not read here: write the value out where it is used"},
    {"train: *a\n", "x.yaml:1:8: aliases (*a) are not read here: write the value out"},
    {"seed: !!int 3\n",
     "x.yaml:1:7: tags (tag:yaml.org,2002:int) are not read here: a key's type is fixed, remove the tag"},
    {"seed: 1\n---\nseed: 2\n", "x.yaml:2:1: a second document starts here; one is read"},
    {"{[1]: 2}\n", "x.yaml:1:2: a key must be a word"},
    {"{\"\": 2}\n", "x.yaml:1:2: a key must be a word"},
    {"title: \"a\\0b\"\n", "x.yaml:1:8: a text holds a zero byte"},
    {"train:\n\tepochs: 1\n", "x.yaml:2:1: not YAML: a tab, where only spaces may be"},
    {"train: @\n",
     "x.yaml:1:8: not YAML: while scanning for the next token: found character that cannot start any token"},
    {"train: [1\n", "x.yaml:2:1: not YAML: while parsing a flow sequence: did not find expected ',' or ']'"},
};

static const refusal key_refusals[] = {
    {"train:\n  epoch: 3\n", "x.yaml:2:3: train.epoch: unknown key; known: epochs, batch_size, weight_decay, momentum, "
                             "bias_lr_multiplier, momentum_form, decoupled, optimizer, beta2, epsilon, class_weights, "
                             "image_gradient, lr, from; "
                             "did you mean epochs?"},
    {"dta: {}\n", "x.yaml:1:1: dta: unknown key; known: title, target, backend, precision, seed, threads, keep, base, "
                  "model, tricks, ablate, backend_options, data, eval, train, published; did you mean data?"},
    {"tricks:\n  celu: {alhpa: 0.3}\n",
     "x.yaml:2:10: tricks.celu.alhpa: unknown key; known: alpha; did you mean alpha?"},
    {"tricks: {flip_tta: {a: 1}}\n", "x.yaml:1:21: tricks.flip_tta.a: unknown key; there are no options here"},
    {"tricks: {cellu: {}}\n", "x.yaml:1:10: tricks.cellu: unknown key; known: " TRICKS "; did you mean celu?"},
    {"model: {name: resnet8}\n", "x.yaml:1:15: model.name: no model is called resnet8; known: resnet9, vgg, resnet, "
                                 "densenet, airbench; did you mean resnet9?"},
    {"model: {name: resnet9, chanels: [1]}\n", "x.yaml:1:24: model.chanels: unknown key; known: name, channels, "
                                               "logits_scale; did you mean channels?"},
    {"train: {lr: {knots: [0], value: [1]}}\n",
     "x.yaml:1:26: train.lr.value: unknown key; known: knots, values, peak, at; did you mean values?"},
};

static const refusal value_refusals[] = {
    {"train: 3\n", "x.yaml:1:8: train: needs a map of keys, like {key: value}, not 3"},
    {"train:\n", "x.yaml:1:7: train: needs a map of keys, like {key: value}, not nothing"},
    {"tricks: off\n", "x.yaml:1:9: tricks: needs a map of keys, like {key: value}, not off"},
    {"tricks: {celu: 0.3}\n", "x.yaml:1:16: tricks.celu: needs a map of options ({} for the defaults), on, or off"},
    {"tricks: {celu: }\n", "x.yaml:1:16: tricks.celu: needs a map of options ({} for the defaults), on, or off"},
    {"model: resnet9\n", "x.yaml:1:8: model: needs a map, like {name: resnet9}"},
    {"title:\n", "x.yaml:1:7: title: needs a text, not nothing"},
    {"title: [a]\n", "x.yaml:1:8: title: needs a text, not a list"},
    {"seed: 1.5\n", "x.yaml:1:7: seed: needs a whole number, not 1.5"},
    {"seed: 1e3\n", "x.yaml:1:7: seed: needs a whole number, not 1e3"},
    {"seed: 9223372036854775808\n", "x.yaml:1:7: seed: needs a whole number, not 9223372036854775808"},
    {"seed: \"7\"\n", "x.yaml:1:7: seed: needs a whole number, not the text 7"},
    {"train: {epochs: ten}\n", "x.yaml:1:17: train.epochs: needs a finite number, not ten"},
    {"train: {epochs: .inf}\n", "x.yaml:1:17: train.epochs: needs a finite number, not .inf"},
    {"train: {epochs: nan}\n", "x.yaml:1:17: train.epochs: needs a finite number, not nan"},
    {"train: {epochs: 1e999}\n", "x.yaml:1:17: train.epochs: needs a finite number, not 1e999"},
    {"train: {epochs: 0x10}\n", "x.yaml:1:17: train.epochs: needs a finite number, not 0x10"},
    {"train: {epochs: {}}\n", "x.yaml:1:17: train.epochs: needs a finite number, not a map"},
    {"backend_options: {fuse: 1}\n", "x.yaml:1:25: backend_options.fuse: needs on or off, not 1"},
    {"backend: onedn\n",
     "x.yaml:1:10: backend: onedn is not known here; one of: auto, reference, cpu, onednn, cuda; did you "
     "mean onednn?"},
    {"keep: [all]\n", "x.yaml:1:7: keep: a list is not known here; one of: none, model, all, best"},
    {"tricks: {pool_before_activation: {position: before}}\n",
     "x.yaml:1:45: tricks.pool_before_activation.position: before is not known here; one of: before_act, "
     "before_norm; "
     "did you mean before_act?"},
    {"model: {channels: 64}\n", "x.yaml:1:19: model.channels: needs a list of whole numbers, like [64, 128], not 64"},
    {"model: {channels: []}\n",
     "x.yaml:1:19: model.channels: needs a list of whole numbers, like [64, 128], not an empty list"},
    {"model: {channels: [64, 1.5]}\n", "x.yaml:1:24: model.channels[1]: needs a whole number, not 1.5"},
    {"model: {channels: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}\n",
     "x.yaml:1:19: model.channels: has 17 elements; at most 16"},
};

static const refusal range_refusals[] = {
    {"train: {epochs: 0}\n", "x.yaml:1:17: train.epochs: 0 is out of range; must lie between 0.001 and 1000000"},
    {"train: {batch_size: 0}\n", "x.yaml:1:21: train.batch_size: 0 is out of range; must lie between 1 and 1000000"},
    {"train: {momentum: 1}\n", "x.yaml:1:19: train.momentum: 1 is out of range; must lie between 0 and 0.999999"},
    {"train: {weight_decay: -1}\n", "x.yaml:1:23: train.weight_decay: -1 is out of range; must lie between 0 and 1000"},
    {"train: {bias_lr_multiplier: 0}\n",
     "x.yaml:1:29: train.bias_lr_multiplier: 0 is out of range; must lie between 1e-06 and 1000000"},
    {"target: 101\n", "x.yaml:1:9: target: 101 is out of range; must lie between 0 and 100"},
    {"seed: -1\n", "x.yaml:1:7: seed: -1 is out of range; must be at least 0"},
    {"data: {validation: -5}\n", "x.yaml:1:20: data.validation: -5 is out of range; must lie between 0 and 1000000000"},
    {"eval: {every: -1}\n", "x.yaml:1:15: eval.every: -1 is out of range; must lie between 0 and 1000000"},
    {"published: {seconds: -1}\n", "x.yaml:1:22: published.seconds: -1 is out of range; must be at least 0"},
    {"model: {channels: [64, 0]}\n", "x.yaml:1:24: model.channels[1]: 0 is out of range; must lie between 1 and 4096"},
};

#define KNOT "a knot: a number of epochs, 0% to 100%, end, or end-N"
static const refusal schedule_refusals[] = {
    {"train: {lr: 0.4}\n",
     "x.yaml:1:13: train.lr: needs a map; {peak: 0.4}, or --lr 0.4, keeps the schedule and sets its largest value"},
    {"train: {lr: high}\n",
     "x.yaml:1:13: train.lr: needs a map like {knots: [0, 20%, end-2], values: [0, 1, 0.1]}, not high"},
    {"train: {lr: {peak: -1}}\n", "x.yaml:1:20: train.lr.peak: -1 is out of range; must lie between 0 and 1000000"},
    {"train: {lr: {peak: high}}\n", "x.yaml:1:20: train.lr.peak: needs a finite number, not high"},
    {"train: {lr: {knots: [0], values: [1], at: middle}}\n",
     "x.yaml:1:43: train.lr.at: needs end or start, of a step, not middle"},
    {"train: {lr: {knots: [0, end], peak: 1}}\n", "x.yaml:1:13: train.lr: values must be given"},
    {"train: {lr: {knots: [0], values: [0], peak: 2}}\n",
     "x.yaml:1:45: train.lr.peak: every value is 0, so none can become 2"},
    {"train: {lr: {knots: [0, end]}}\n", "x.yaml:1:13: train.lr: values must be given"},
    {"train: {lr: {values: [0, 1]}}\n", "x.yaml:1:13: train.lr: knots must be given"},
    {"train: {lr: {knots: [0, end], values: [1]}}\n",
     "x.yaml:1:13: train.lr: 1 values for 2 knots; there must be one for each"},
    {"train: {lr: {knots: [], values: []}}\n",
     "x.yaml:1:21: train.lr.knots: needs a list of knots, like [0, 20%, end-2], not an empty list"},
    {"train: {lr: {knots: [0, ned], values: [1, 2]}}\n", "x.yaml:1:25: train.lr.knots[1]: needs " KNOT ", not ned"},
    {"train: {lr: {knots: [101%], values: [1]}}\n", "x.yaml:1:22: train.lr.knots[0]: needs " KNOT ", not 101%"},
    {"train: {lr: {knots: [-1], values: [1]}}\n", "x.yaml:1:22: train.lr.knots[0]: needs " KNOT ", not -1"},
    {"train: {lr: {knots: [end-2%], values: [1]}}\n", "x.yaml:1:22: train.lr.knots[0]: needs " KNOT ", not end-2%"},
    {"train: {lr: {knots: [end--2], values: [1]}}\n", "x.yaml:1:22: train.lr.knots[0]: needs " KNOT ", not end--2"},
    {"train: {lr: {knots: [inf], values: [1]}}\n", "x.yaml:1:22: train.lr.knots[0]: needs " KNOT ", not inf"},
    {"train: {lr: {knots: [\"0\"], values: [1]}}\n", "x.yaml:1:22: train.lr.knots[0]: needs " KNOT ", not the text 0"},
    {"train: {lr: {knots: [5, 3], values: [1, 2]}}\n",
     "x.yaml:1:25: train.lr.knots[1]: 3 lies before the knot in front of it"},
    {"train: {lr: {knots: [end-2, end-3], values: [1, 2]}}\n",
     "x.yaml:1:29: train.lr.knots[1]: end-3 lies before the knot in front of it"},
    {"train: {lr: {knots: [0], values: [.nan]}}\n", "x.yaml:1:35: train.lr.values[0]: needs a finite number, not .nan"},
    {"train: {lr: {knots: [0], values: [-1]}}\n",
     "x.yaml:1:35: train.lr.values[0]: -1 is out of range; must lie between 0 and 1000000"},
};

static void assert_table(const refusal *rows, int count) {
    assert_true(count > 0);
    for (int i = 0; i < count; i++) assert_refused(rows[i].yaml, NULL, rows[i].message);
}

static void test_refuses_yaml(void **state) { (void)state, assert_table(yaml_refusals, COUNT(yaml_refusals)); }
static void test_refuses_keys(void **state) { (void)state, assert_table(key_refusals, COUNT(key_refusals)); }
static void test_refuses_values(void **state) { (void)state, assert_table(value_refusals, COUNT(value_refusals)); }
static void test_refuses_ranges(void **state) { (void)state, assert_table(range_refusals, COUNT(range_refusals)); }
static void test_refuses_schedules(void **state) {
    (void)state, assert_table(schedule_refusals, COUNT(schedule_refusals));
}

static void test_refuses_depth(void **state) {
    (void)state;
    char yaml[256] = "seed: ";
    memset(yaml + 6, '[', 100);
    assert_refused(yaml, NULL, "x.yaml:1:39: nested deeper than 32 levels");
}

static void test_required_option(void **state) {
    (void)state;
    static const d9_option options[] = {{"size", D9_OPTION_INT, 0, NULL, 0, 0, NULL, "a size"}, {0}};
    d9_arena arena = {0};
    d9_tree *map;
    int64_t size;
    d9_place place = {"t.yaml", NULL, 4, 2};
    assert_int_equal(d9_tree_make(&context, &arena, D9_TREE_MAP, &place, NULL, &map), D9_OK);
    assert_int_equal(d9_values_bind(&context, &arena, map, &(d9_binding){options, &size}, 1, NULL), D9_USAGE);
    assert_string_equal(context.message, "t.yaml:4:2: size must be given");
    d9_arena_free(&context, &arena);
}

/* ---- defaults ---- */

static void test_defaults(void **state) {
    (void)state;
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
    assert_true(isnan(config->published.accuracy) && isnan(config->published.seconds) &&
                isnan(config->published.epochs));
    assert_true(!config->published.hardware && !config->published.source);
    assert_string_equal(config->model->name, "resnet9");
    for (int i = 0; i < D9_TRICK_COUNT; i++) assert_true(!config->trick_on[i] && !config->trick_options[i]);
    d9_config_free(&context, config);
}

/* Every default of every trick passes its own row's checks. */
/* What lies at a bound lies within it. */
static void test_bounds(void **state) {
    (void)state;
    d9_config *config = parse("target: 100\nthreads: 4096\ntrain: {epochs: 0.001, momentum: 0.999999}\n", NULL);
    assert_true(config->target == 100 && config->train.epochs == 0.001 && config->train.momentum == 0.999999);
    assert_int_equal(config->threads, 4096);
    d9_config_free(&context, config);
}

static void test_every_trick_by_default(void **state) {
    (void)state;
    for (int i = 0; i < D9_TRICK_COUNT; i++) {
        d9_config *config = parse("{}", EDITS(with, d9_trick_at(i)->name));
        for (int j = 0; j < D9_TRICK_COUNT; j++) {
            assert_int_equal(config->trick_on[j], i == j);
            assert_int_equal(config->trick_options[j] != NULL, i == j);
        }
        d9_config_free(&context, config);
    }
}

/* ---- keys of earlier versions ---- */

typedef struct warnings {
    int count;
    char last[256];
} warnings;

static void keep_warning(void *user, d9_log_level level, const char *line) {
    warnings *all = user;
    assert_int_equal(level, D9_LOG_WARNING);
    all->count++;
    snprintf(all->last, sizeof all->last, "%s", line);
}

/* Read as if it were not there, with a warning: in a file, in an old record, on the command line. */
static void test_retired_key(void **state) {
    (void)state;
    static const char *const placement[] = {"data.placement=device"};
    static const d9_config_edits set = {.set = placement, .set_count = 1};
    static const struct {
        const char *yaml;
        const d9_config_edits *edits;
        const char *warning; /* NULL: none */
    } rows[] = {
        {"data: {validation: 3}", NULL, NULL},
        {"data: {validation: 3, placement: host}", NULL, "x.yaml:1:23: data.placement: is a key of earlier versions"},
        {"data: {placement: {nothing: of it}, validation: 3}", NULL, "x.yaml:1:8: data.placement: is a key of"},
        {"data: {validation: 3}", &set,
         "--set data.placement=device: data.placement: is a key of earlier versions and is ignored: "},
    };
    char first[65], hash[65];
    for (int i = 0; i < COUNT(rows); i++) {
        warnings all = {0};
        d9_text text;
        context.log = keep_warning;
        context.log_user = &all;
        d9_config *config = parse(rows[i].yaml, rows[i].edits);
        assert_int_equal(all.count, rows[i].warning != NULL);
        if (rows[i].warning && !strstr(all.last, rows[i].warning)) fail_msg("%s", all.last);
        d9_config_hash(&context, config, i == 0 ? first : hash);
        if (i > 0) assert_string_equal(hash, first);
        d9_text_init(&context, &text);
        d9_config_print(config, true, &text);
        assert_null(strstr(d9_text_get(&text), "placement"));
        d9_text_free(&text);
        assert_int_equal(config->data.validation, 3);
        d9_config_free(&context, config);
    }
    assert_refused("data: {placements: host}", NULL,
                   "x.yaml:1:8: data.placements: unknown key; known: dataset, path, check, validation, image_size, "
                   "largest_picture, skip_damaged, "
                   "synthetic_train, synthetic_test, normalize");
}

static void test_schedule(void **state) {
    (void)state;
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

static void assert_values(const char *yaml, const char *set, int count, const double *values) {
    d9_config_edits edits = {.set = &set, .set_count = set != NULL};
    d9_config *config = parse(yaml, &edits);
    assert_int_equal(config->train.lr.value_count, count);
    for (int i = 0; i < count; i++) assert_true(config->train.lr.values[i] == values[i]);
    d9_config_free(&context, config);
}

/* The shape stays: of the file, of the default where there is none. Values that are given later have their own peak. */
static void test_schedule_peak(void **state) {
    (void)state;
    static const char own[] = "train: {lr: {knots: [0, 1, end], values: [0, 0.1, 0.04]}}",
                      scaled[] = "train: {lr: {knots: [0, 1, end], values: [0, 0.1, 0.04], peak: 5}}";
    assert_values(own, "train.lr.peak=0.3", 3, (const double[]){0, 0.3, 0.12});
    assert_values(own, "train.lr={peak: 0}", 3, (const double[]){0, 0, 0});
    assert_values("train: {lr: {peak: 3}}", NULL, 3, (const double[]){0, 3, 0});
    assert_values("seed: 1", "train.lr.peak=0.7", 3, (const double[]){0, 0.7, 0});
    assert_values(scaled, NULL, 3, (const double[]){0, 5, 2});
    assert_values(scaled, "train.lr.values=[1, 2, 3]", 3, (const double[]){1, 2, 3});
    assert_values(scaled, "train.lr.knots=[0, 2, 3]", 3, (const double[]){0, 5, 2});
}

static void test_sections(void **state) {
    (void)state;
    const char *section, *doc;
    const d9_option *options;
    int count = 0, rows = 0, models = 0;
    bool train = false, ema = false, model = false;
    for (; d9_config_section(count, &section, &doc, &options); count++) {
        assert_true(*section && doc && *doc && options);
        for (; options->type != D9_OPTION_NONE; options++, rows++)
            assert_true(options->key && options->doc && *options->doc);
        train = train || strcmp(section, "train") == 0;
        ema = ema || strcmp(section, "tricks.ema") == 0;
        model = model || strcmp(section, "model (resnet9)") == 0;
    }
    assert_true(train && ema && model && rows > 40);
    while (d9_model_at(models)) models++;
    assert_int_equal(count, 6 + 1 + models + D9_TRICK_COUNT);
    assert_false(d9_config_section(-1, &section, &doc, &options));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_refuses_yaml, reset),
        cmocka_unit_test_setup(test_refuses_keys, reset),
        cmocka_unit_test_setup(test_refuses_values, reset),
        cmocka_unit_test_setup(test_refuses_ranges, reset),
        cmocka_unit_test_setup(test_refuses_schedules, reset),
        cmocka_unit_test_setup(test_refuses_depth, reset),
        cmocka_unit_test_setup(test_required_option, reset),
        cmocka_unit_test_setup(test_defaults, reset),
        cmocka_unit_test_setup(test_bounds, reset),
        cmocka_unit_test_setup(test_every_trick_by_default, reset),
        cmocka_unit_test_setup(test_retired_key, reset),
        cmocka_unit_test_setup(test_schedule, reset),
        cmocka_unit_test_setup(test_schedule_peak, reset),
        cmocka_unit_test_setup(test_sections, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
