/* Printed configurations, which load to the same configuration and name the origin of each value; hashes. */
#include "config_testing.h"
#include "core/hash.h"
#include "record/effective.h"

static void assert_round_trip(const d9_config *config) {
    char hash[65], again[65];
    d9_text text, second, origins;
    d9_text_init(&context, &text), d9_text_init(&context, &second), d9_text_init(&context, &origins);
    d9_config_print(config, false, &text);
    d9_config_print(config, true, &origins);
    const char *printed[] = {d9_text_get(&text), d9_text_get(&origins)};
    d9_config_hash(&context, config, hash);
    for (int i = 0; i < 2; i++) {
        d9_config *back = parse(printed[i], NULL);
        second.size = 0;
        d9_config_print(back, false, &second);
        d9_config_hash(&context, back, again);
        assert_string_equal(d9_text_get(&second), d9_text_get(&text));
        assert_string_equal(again, hash);
        assert_true(back->train.epochs == config->train.epochs && back->target == config->target);
        d9_config_free(&context, back);
    }
    d9_text_free(&text), d9_text_free(&second), d9_text_free(&origins);
}

TEST(test_print_round_trip, enter_source_folder) {
    for (int i = 0; i < COUNT(config_files); i++) {
        d9_config *config = load(config_files[i]);
        assert_round_trip(config);
        d9_config_free(&context, config);
    }
    d9_config *config =
        parse("title: 'a \"q\" \\ # : é'\ntarget: 0.1\ndata: {path: \"a\\tb c\"}\nkeep: all\n"
              "backend_options: {fuse: no, tune: on}\ntricks: {flip: {rule: alternating}}\n"
              "train: {epochs: 0.30000000000000004, weight_decay: 1.0e-30, momentum_form: torch,\n"
              "  lr: {knots: [0.1, 33.3%, end-0.5], values: [1.0e-3, 0.3333333333333333, 0], at: start}}\n",
              NULL);
    assert_string_equal(config->title, "a \"q\" \\ # : é");
    assert_string_equal(config->data.path, "a\tb c");
    assert_round_trip(config);
    d9_config_free(&context, config);
    config =
        parse("train: {lr: {end: 1.0e-4, warmup: end-1.5, shape: cosine, peak: 0.3, start: 0.1, at: start}}", NULL);
    assert_round_trip(config);
    d9_config_free(&context, config);
}

/* A text is quoted where YAML has another type for it, so that no reader of a record takes it for a number, a date, a
 * truth value or null. */
TEST(test_print_quotes_texts_of_other_types, enter_source_folder) {
    static const struct {
        const char *text;
        bool quoted;
    } rows[] = {{"1.10", true}, {"007", true},  {"1e3", true},   {"-5", true},         {"1_000", true},
                {"0x1e", true}, {"no", true},   {"On", true},    {"null", true},       {".inf", true},
                {"TRUE", true}, {"a b", true},  {"e", false},    {"2024-01-01", true}, {"none", false},
                {".", false},   {"./1", false}, {"v1.0", false}, {"1st", false},       {"dawn94", false}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char yaml[64], line[64];
        d9_text text;
        json_t *effective;
        snprintf(yaml, sizeof yaml, "title: '%s'", rows[i].text);
        snprintf(line, sizeof line, rows[i].quoted ? "title: \"%s\"\n" : "title: %s\n", rows[i].text);
        d9_config *config = parse(yaml, NULL);
        d9_text_init(&context, &text);
        d9_config_print(config, false, &text);
        assert_memory_equal(d9_text_get(&text), line, strlen(line));
        OK(d9_effective_json(&context, config, &effective));
        assert_string_equal(json_string_value(json_object_get(effective, "title")), rows[i].text);
        assert_round_trip(config);
        json_decref(effective);
        d9_text_free(&text);
        d9_config_free(&context, config);
    }
}

TEST(test_print_origins, enter_source_folder) {
    static d9_config_edit items[] = {{.kind = D9_EDIT_WITH, .text = "ema:every=7"},
                                     {.kind = D9_EDIT_WITHOUT, .text = "flip"},
                                     {.kind = D9_EDIT_SET, .text = "train.epochs=3"},
                                     {.kind = D9_EDIT_SET, .text = "seed=2", .option = "--seed"}};
    d9_config_edits edits = {.items = items, .count = COUNT(items)};
    d9_config *config;
    OK(d9_config_load(&context, "configs/dawn94.yaml", &edits, &config));
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
    d9_text text;
    d9_text_init(&context, &text);
    d9_config_print(config, true, &text);
    for (int i = 0; i < COUNT(lines); i++)
        if (!strstr(d9_text_get(&text), lines[i])) fail_msg("no line %s in\n%s", lines[i], d9_text_get(&text));
    d9_text_free(&text), d9_config_free(&context, config);
}

/* An edit may contain a newline; the printout must still be YAML of the same configuration. */
TEST(test_print_origins_of_odd_words, enter_source_folder) {
    static d9_config_edit items[] = {{.kind = D9_EDIT_SET, .text = "target=\n 50"},
                                     {.kind = D9_EDIT_SET, .text = "tricks={ema: off}"}};
    d9_config_edits edits = {.items = items, .count = COUNT(items)};
    d9_config *config;
    OK(d9_config_load(&context, "configs/dawn94.yaml", &edits, &config));
    assert_true(config->target == 50);
    assert_round_trip(config);
    d9_config_free(&context, config);
}

TEST(test_hash_ignores_what_does_not_change_training, enter_source_folder) {
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
        d9_config_free(&context, config);
    }
}

/* docs/records.md documents the text that is hashed; it must be the same in every later version. */
TEST(test_hash_of_changes, enter_source_folder) {
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
        {"{model: {name: vgg, hidden: 13}, data: {path: d}}", "model.hidden: 13\nmodel.name: vgg\n"},
        {"data: {dataset: folder}", "data.dataset: folder\ndata.split: 2\n"},
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
        d9_config_free(&context, config);
    }
}

/* Values that are not set, or equal the default in any notation, count as the default. */
TEST(test_default_values, enter_source_folder) {
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
            d9_text text;
            if (values[v]) OK(d9_tree_parse(&context, &arena, &place, values[v], strlen(values[v]), &node));
            OK(d9_value_read(&context, &arena, &option, node, &field));
            d9_text_init(&context, &text);
            assert_ints(d9_value_is_default(&option, &field, &text), v < 2, d9_text_status(&text), D9_OK);
        }
        d9_arena_free(&context, &arena);
    }
}
