/* Configurations: edits on the command line, inheritance, and lack of memory. */
#include "config_testing.h"
#include "tests/support/each_call.h"
#include "tests/support/runs.h"

static double celu_alpha(const d9_config *config) {
    d9_text text;
    double alpha = NAN;
    int index = d9_trick_index("celu");
    d9_text_init(&context, &text);
    if (config->trick_on[index]) d9_value_write(d9_trick_at(index)->options, config->trick_options[index], &text);
    if (!d9_text_to_real(d9_text_get(&text), &alpha)) alpha = NAN;
    d9_text_free(&text);
    return alpha;
}

TEST(test_edits_change_the_file_and_the_last_counts, enter_source_folder) {
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
    d9_config_free(&context, config);
    edits.count = COUNT(items);
    config = parse(yaml, &edits);
    assert_true(celu_alpha(config) == 0.5 && config->train.epochs == 4.5); /* the last edit counts */
    assert_null(config->data.path);
    assert_int_equal(config->train.lr.count, 2);
    d9_config_free(&context, config);
}

/* Edits are kept in the order --with, --without, --set; those of one kind in the order given. */
TEST(test_order_of_edits, enter_source_folder) {
    static const d9_config_edit_kind kinds[] = {D9_EDIT_SET, D9_EDIT_WITHOUT, D9_EDIT_SET, D9_EDIT_WITH};
    static const char *const texts[] = {"a=1", "ema", "a=2", "flip"}, *const order[] = {"flip", "ema", "a=1", "a=2"};
    d9_arena arena = {0};
    d9_config_edits edits = {0};
    for (int i = 0; i < 4; i++)
        OK(d9_config_edits_add(&context, &arena, &edits, (d9_config_edit){kinds[i], texts[i], 0, 0, 0}));
    for (int i = 0; i < 4; i++) assert_string_equal(edits.items[i].text, order[i]);
    d9_arena_free(&context, &arena);
}

TEST(test_rejects_edits, enter_source_folder) {
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

static char folder[RUN_PATH_BYTES];

static int make_folder(void **state) {
    (void)state, run_folder_make(folder);
    return chdir(folder) == 0 && d9_directory_make(&context, "sub") == D9_OK ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state, run_folder_remove(folder);
    return chdir(D9_SOURCE_DIR);
}

static void put(const char *path, const char *yaml) { OK(d9_file_write(&context, path, yaml, strlen(yaml))); }

static void assert_not_loaded(const char *path, const char *words) {
    d9_config *config;
    d9_context_clear(&context);
    assert_rejection(d9_config_load(&context, path, NULL, &config), D9_USAGE, words);
    assert_null(config);
}

TEST(test_inheritance, make_folder, remove_folder) {
    put("sub/c.yaml",
        "title: c\npublished: {seconds: 9}\nseed: 7\ntrain: {epochs: 5, lr: {knots: [0, 1], values: [0, "
        "1]}}\n"
        "model: {name: resnet9, logits_scale: 0.5}\ntricks: {celu: {alpha: 0.1}, flip: {}, cutout: {}}\n");
    put("b.yaml", "base: sub/c.yaml\ntrain: {lr: {values: [0, 2]}}\nmodel: {channels: [8, 8, 8, 8]}\n"
                  "tricks: {flip: off, celu: on}\n");
    put("a.yaml", "base: b.yaml\ntrain: {batch_size: 64}\ntricks: {flip: on, cutout: off}\n");
    d9_config *config = load("a.yaml");
    assert_string_equal(config->title, "a");
    assert_true(isnan(config->published.seconds)); /* published results are not inherited */
    assert_true(config->seed == 7 && config->train.epochs == 5 && config->train.batch_size == 64);
    assert_true(config->train.lr.knots[1].value == 1 && config->train.lr.values[1] == 2 && celu_alpha(config) == 0.1);
    assert_true(config->trick_on[d9_trick_index("flip")] && !config->trick_on[d9_trick_index("cutout")]);
    d9_config_free(&context, config);
}

/* Naming a model drops the inherited options of another model, before they are checked. */
TEST(test_other_model_drops_options, make_folder, remove_folder) {
    put("b.yaml", "model: {name: resnet9, logits_scale: 0.5}\n");
    put("a.yaml", "base: b.yaml\nmodel: {name: resnet9}\n");
    d9_config *config = load("a.yaml");
    assert_non_null(d9_tree_find(d9_tree_find(config->tree, "model"), "logits_scale"));
    d9_config_free(&context, config);
    put("b.yaml", "model: {name: another, logits_scale: wrong}\n");
    config = load("a.yaml"); /* no option of b's model remains */
    assert_null(d9_tree_find(d9_tree_find(config->tree, "model"), "logits_scale"));
    d9_config_free(&context, config);
}

TEST(test_rejects_files, make_folder, remove_folder) {
    assert_not_loaded("none.yaml", "none.yaml");
    assert_not_loaded("sub", "sub");
    put("a.yaml", "base: none.yaml\n");
    assert_not_loaded("a.yaml", "a.yaml:1:7 base none.yaml");
    put("sub/c.yaml", "base: a.yaml\n");
    assert_not_loaded("sub/c.yaml", "sub/c.yaml:1:7 base sub/a.yaml relative there a.yaml");
    put("a.yaml", "base: [b.yaml]\n");
    assert_not_loaded("a.yaml", "a.yaml:1:7 base");
    put("a.yaml", "base: a.yaml\n");
    assert_not_loaded("a.yaml", "a.yaml:1:7 base");
    put("a.yaml", "seed: 2\nbase: sub/c.yaml\n");
    put("sub/c.yaml", "base: ../b.yaml\n");
    put("b.yaml", "base: sub/../a.yaml\n"); /* another path of a.yaml */
    assert_not_loaded("a.yaml", "b.yaml:1:7 base a.yaml sub/c.yaml sub/../a.yaml");
    put("b.yaml", "train: {epochs: 0}\n"); /* errors name the place of the value */
    assert_not_loaded("a.yaml", "b.yaml:1:17 train.epochs 0 0.001 1000000");
    OK(d9_file_write(&context, "b.yaml", "seed: 1\0", 8));
    assert_not_loaded("b.yaml", "b.yaml");
    put("b.yaml", "title: \x01\n");
    assert_not_loaded("b.yaml", "b.yaml:1:1 7");
}

TEST(test_out_of_memory, enter_source_folder) {
    planted p = {.kind = CALL_allocate};
    const d9_system system = planted_system(&p, d9_system_default());
    context.system = &system;
    do {
        d9_config *config;
        d9_context_clear(&context);
        p.calls[CALL_allocate] = 0, p.victim++, p.met = false;
        const d9_status status =
            d9_config_load(&context, "configs/ladder/13-ten-epochs.yaml", EDIT(SET, "tricks.ema.every=3"), &config);
        assert_int_equal(status, p.met ? D9_DEVICE : D9_OK);
        d9_config_free(&context, config);
        assert_int_equal(p.live, 0);
    } while (p.met);
    assert_true(p.victim > 10);
}
