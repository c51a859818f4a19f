/* Experiments: files and their errors, arms, grids, ablations, experiment.json, and runs. */
#include "core/system.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <errno.h>

static const d9_experiment_options no_options = {0};

#define TINY                                                                                                           \
    "backend: reference\nprecision: f32\nthreads: 1\n"                                                                 \
    "model: {name: resnet9, channels: [4, 4, 8, 8]}\n"                                                                 \
    "data: {dataset: synthetic, synthetic_train: 64, synthetic_test: 32}\n"                                            \
    "train: {epochs: 1, batch_size: 32}\n"                                                                             \
    "tricks: {flip: {}, celu: {alpha: 0.3}, frozen_bn_scale: {}, ema: {every: 5}}\n"                                   \
    "ablate: {frozen_bn_scale: {celu.alpha: 0.075, train.bias_lr_multiplier: 2}}\n"                                    \
    "published: {accuracy: 90, epochs: 1, source: here}\n"

static int setup(void **state) {
    (void)state;
    experiment_make_folder(TINY);
    return 0;
}

/* Checks the edits that all arms share (`shared`) or those of this arm alone, each followed by a semicolon. */
static void assert_edits(const d9_arm *arm, bool shared, const char *wanted) {
    d9_text *text = test_text();
    for (int i = 0; i < arm->edits.count; i++) {
        if (arm->edits.items[i].shared != shared) continue;
        d9_config_edit_write(&arm->edits.items[i], text);
        d9_text_add(text, ";");
    }
    assert_string_equal(d9_text_get(text), wanted);
}

/* The file must be rejected with a message of these words, after "FOLDER/x.yaml". */
static void assert_rejected_with(const char *yaml, const d9_experiment_options *options, const char *words) {
    experiment_rejected(yaml, options, run_path(experiment_folder, "x.yaml"), words);
}
static void assert_rejected(const char *yaml, const char *words) { assert_rejected_with(yaml, &no_options, words); }

static const d9_arm *find_arm(const d9_experiment *experiment, const char *name) {
    for (int i = 0; i < experiment->arm_count; i++)
        if (strcmp(experiment->arms[i].name, name) == 0) return &experiment->arms[i];
    fail_msg("there is no arm %s", name);
    return NULL;
}

TEST(a_file_without_arms_is_one_arm, setup) {
    d9_experiment *experiment = experiment_load("config: tiny.yaml\n");
    assert_int_equal(experiment->arm_count, 1);
    assert_string_equal(experiment->arms[0].name, "tiny");
    assert_string_equal(experiment->title, "x");
    assert_null(experiment->question);
    assert_null(experiment->arms[0].baseline);
    assert_ints(experiment->seed_count, 5, experiment->seeds[4], 5, experiment->keep, D9_KEEP_NONE);
    assert_true(d9_config_published(experiment->arms[0].config) == 90);
}

TEST(arms_are_crossed_with_the_grid, setup) {
    d9_experiment *experiment =
        experiment_load("title: t\nquestion: q\nconfig: tiny.yaml\nseeds: [7, 3]\nset: {train.momentum: 0.8}\narms:\n"
                        "  a: {without: [ema], baseline: b}\n"
                        "  b: {label: The other, with: [\"ema:every=2\"], set: {train: {batch_size: 16}}}\n"
                        "grid: {train.epochs: [1, 2], model.channels: [[4, 4, 8, 8], [8, 8, 8, 8]]}\n");
    assert_ints(experiment->arm_count, 8, d9_experiment_run_count(experiment), 16, d9_experiment_seed(experiment, 7),
                7);
    assert_int_equal(d9_experiment_seed(experiment, 8), 3);
    const d9_arm *a = find_arm(experiment, "a,train.epochs=2,model.channels=8-8-8-8"),
                 *b = find_arm(experiment, "b,train.epochs=1,model.channels=4-4-8-8");
    assert_string_equal(a->baseline, "b,train.epochs=2,model.channels=8-8-8-8");
    assert_string_equal(b->label, "The other, epochs 1, channels [4, 4, 8, 8]");
    assert_true(a->config->train.epochs == 2 && b->config->train.epochs == 1);
    assert_true(a->config->train.momentum == 0.8 && b->config->train.momentum == 0.8);
    assert_int_equal(b->config->train.batch_size, 16);
    assert_false(a->config->trick_on[d9_trick_index("ema")]);
    assert_edits(a, false, "--without ema;--set train.epochs=2;--set 'model.channels=[8, 8, 8, 8]';");
    assert_edits(a, true, "--set train.momentum=0.8;");
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(experiment->arms[i].config_hash, experiment->arms[j].config_hash);
}

/* A setting of the grid needs another one, and an error names the edit that causes it. */
TEST(a_grid_keeps_options_of_the_model_that_it_names, setup) {
    d9_experiment *experiment = experiment_load("config: tiny.yaml\ngrid: {model.depth: [18, 34], "
                                                "model.name: [resnet]}\n");
    assert_string_not_equal(experiment->arms[0].config_hash, experiment->arms[1].config_hash);
    assert_rejected("config: tiny.yaml\ngrid: {model.depth: [18, 34], model.name: [resnet], train.epochs: [0]}\n",
                    ":2:68 train.epochs");
}

/* A map of a trick's options switches it on, as in a search. */
TEST(a_grid_switches_tricks_on, setup) {
    d9_experiment *experiment = experiment_load("config: tiny.yaml\ngrid: {tricks.cutout: [off, {size: 4}, on]}\n");
    const int cutout = d9_trick_index("cutout");
    assert_int_equal(experiment->arm_count, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(experiment->arms[i].config->trick_on[cutout], i > 0);
    assert_edits(&experiment->arms[1], false, "--with cutout;--set 'tricks.cutout={size: 4}';");
    assert_edits(&experiment->arms[2], false, "--set tricks.cutout=on;");
    assert_string_not_equal(experiment->arms[1].config_hash, experiment->arms[2].config_hash);
}

/* If several edits concern one trick, that of an arm replaces that of all arms, and that of the grid replaces both. */
TEST(edits_of_every_arm_come_first, setup) {
    d9_experiment *experiment = experiment_load("config: tiny.yaml\nwithout: [ema]\nset: {tricks.flip: off}\n"
                                                "arms: {plain: {}, more: {with: [ema, flip], without: [cutout]}}\n"
                                                "grid: {tricks.cutout: [{size: 4}]}\n");
    for (int i = 0; i < 2; i++) {
        const bool *on = experiment->arms[i].config->trick_on;
        assert_ints(on[d9_trick_index("ema")], i, on[d9_trick_index("flip")], i, on[d9_trick_index("cutout")], 1);
    }
}

TEST(the_command_line_comes_last, setup) {
    d9_config_edit edit = {.kind = D9_EDIT_SET, .text = "train.momentum=0.5"};
    const d9_experiment_options options = {.edits = {.items = &edit, .count = 1}, .seeds = 2};
    d9_experiment *experiment;
    OK(experiment_load_with("config: tiny.yaml\nseeds: 9\narms: {a: {set: {train.momentum: 0.7}}}\n", &options,
                            &experiment));
    assert_int_equal(experiment->seed_count, 2);
    assert_true(experiment->arms[0].config->train.momentum == 0.5);
    assert_edits(experiment->arms, true, "--set train.momentum=0.5;");
    assert_rejected_with("config: tiny.yaml\ngrid: {train.momentum: [0.1, 0.2]}\n", &options,
                         ":2:8 grid.train.momentum --set train.momentum=0.5");
    edit.text = "tricks.cutout.size=2";
    assert_rejected_with("config: tiny.yaml\ngrid: {tricks.cutout: [{size: 4}, {size: 8}]}\n", &options,
                         ":2:8 grid.tricks.cutout --set tricks.cutout.size=2");
    assert_rejected("config: tiny.yaml\ngrid: {tricks.cutout.size: [4, 8], tricks.cutout: [{size: 2}]}\n",
                    ":2:36 grid.tricks.cutout tricks.cutout.size");
    edit = (d9_config_edit){.kind = D9_EDIT_WITH, .text = "ema:every=3,momentum=0.5"};
    OK(experiment_load_with("config: tiny.yaml\nwithout: [ema]\ngrid: {tricks.cutout.size: [4, 8]}\nwith: [cutout]\n",
                            &options, &experiment));
    assert_true(experiment->arms[0].config->trick_on[d9_trick_index("ema")]);
    assert_rejected_with("config: tiny.yaml\ngrid: {tricks.ema.every: [1, 2]}\n", &options,
                         ":2:8 grid.tricks.ema.every --with ema:every=3,momentum=0.5");
    assert_rejected_with("config: tiny.yaml\ngrid: {tricks.ema: [{every: 1}, {every: 2}]}\n", &options,
                         ":2:8 grid.tricks.ema --with ema:every=3,momentum=0.5");
}

TEST(published_results_belong_to_their_configuration, setup) {
    d9_experiment *experiment =
        experiment_load("config: tiny.yaml\narms:\n  own: {}\n  edited: {without: [ema]}\n"
                        "  rows: {published: [{epochs: 2, accuracy: 60}, {epochs: 1, accuracy: 50}]}\n"
                        "grid: {train.epochs: [1, 2, 3]}\n");
    assert_true(d9_config_published(find_arm(experiment, "own,train.epochs=1")->config) == 90);
    assert_true(isnan(d9_config_published(find_arm(experiment, "own,train.epochs=2")->config)));
    assert_true(isnan(d9_config_published(find_arm(experiment, "edited,train.epochs=1")->config)));
    assert_true(d9_config_published(find_arm(experiment, "rows,train.epochs=1")->config) == 50);
    assert_null(find_arm(experiment, "rows,train.epochs=1")->config->published.source);
    assert_true(d9_config_published(find_arm(experiment, "rows,train.epochs=2")->config) == 60);
    assert_true(isnan(d9_config_published(find_arm(experiment, "rows,train.epochs=3")->config)));
    /* {size: 8} is two edits, but both are the grid's: the arm keeps the published result */
    experiment = experiment_load("config: tiny.yaml\ngrid: {tricks.cutout: [off, {size: 8}]}\n");
    for (int a = 0; a < 2; a++) assert_true(d9_config_published(experiment->arms[a].config) == 90);
}

TEST(invalid_experiments_are_rejected_with_their_place, setup) {
    assert_rejected("config: tiny.yaml\nseed: 3\n", ":2:1 seed config checkpoint_every seeds");
    assert_rejected("title: a\n", ":1:1 config arms");
    assert_rejected("config: none.yaml\n", ":1:9 config");
    assert_rejected("config: tiny.yaml\ngrid: {}\n", ":2:7 grid");
    assert_rejected("config: tiny.yaml\ngrid: {train.epochs: []}\n", ":2:22 grid.train.epochs");
    assert_rejected("config: tiny.yaml\ngrid: {seed: [1, 2]}\n", ":2:8 grid.seed seeds");
    assert_rejected("config: tiny.yaml\ngrid: {train.epohcs: [1]}\n", ":2:23 grid.train.epohcs[0] epochs");
    assert_rejected("config: tiny.yaml\ngrid: {train.epochs: [1, 1.0]}\narms: {a: {}}\nseeds: [4, 2, 4]\n",
                    ":4:15 seeds[2] 4");
    assert_rejected("config: tiny.yaml\nseeds: []\n", ":2:8 seeds");
    assert_rejected("config: tiny.yaml\nseeds: 0\n", ":2:8 seeds 1 100000");
    assert_rejected("config: tiny.yaml\nseeds: [1, -1]\n", ":2:12 seeds[1] 0");
    assert_rejected("config: tiny.yaml\nseeds: [1, 9223372036854775807]\n", ":2:12 seeds[1] 9e+18");
    assert_rejected("arms: {a: {}}\n", ":1:8 arms.a config");
    assert_rejected("config: tiny.yaml\narms: {}\n", ":2:7 arms");
    assert_rejected("config: tiny.yaml\narms: {a/b: {}}\n", ":2:8 arms.a/b");
    assert_rejected("config: tiny.yaml\narms: {a: {tricks: []}}\n", ":2:12 arms.a.tricks config with without");
    assert_rejected("config: tiny.yaml\narms:\n  a: {set: {model.chanels: [1]}}\n",
                    ":3:28 arms.a.set.model.chanels channels");
    assert_rejected("config: tiny.yaml\narms: {a: {without: [emma]}}\n", ":2:22 arms.a.without[0] emma crop ema");
    assert_rejected("config: tiny.yaml\nset: {train.momentum: 2}\narms: {a: {}}\n",
                    ":2:23 set.train.momentum 2 0 0.999999");
    assert_rejected("config: tiny.yaml\narms: {a: {baseline: bb}, b: {}}\n", " arms.a.baseline bb b");
    assert_rejected("config: tiny.yaml\narms: {a: {baseline: a}}\n", " arms.a.baseline");
    assert_rejected("config: tiny.yaml\ngrid: {train.epochs: [1, 1]}\n", " tiny,train.epochs=1");
    assert_rejected("config: tiny.yaml\narms: {a: {published: [{accuracy: 3}]}}\n", ":2:24 arms.a.published[0] epochs");
    assert_rejected("config: tiny.yaml\nablate: all\ngrid: {train.epochs: [1]}\n", ":3:1 grid");
    assert_rejected("config: tiny.yaml\nkeep: some\n", ":2:7 keep some none model all");
}

TEST(an_ablation_removes_and_adds_each_trick, setup) {
    d9_experiment *experiment;
    const char *const only[] = {"celu", "frozen_bn_scale"};
    OK(d9_experiment_ablation(&context, run_path(experiment_folder, "tiny.yaml"), only, 2, &no_options, &experiment));
    experiment_keep(experiment);
    assert_string_equal(experiment->title, "ablate-tiny");
    assert_ints(experiment->kind, D9_EXPERIMENT_ABLATION, experiment->arm_count, 2 + 3 + 3);
    const int celu = d9_trick_index("celu"), frozen = d9_trick_index("frozen_bn_scale"), ema = d9_trick_index("ema");
    const struct {
        const char *name, *baseline;
        bool celu, frozen, ema;
        double alpha, bias; /* alpha 0: celu is off */
    } rows[] = {
        {"full", NULL, true, true, true, 0.3, 1},
        {"plain", NULL, false, false, false, 0, 2},
        {"without-celu", "full", false, true, true, 0, 1},
        {"without-frozen_bn_scale", "full", true, false, true, 0.3, 1},
        {"without-frozen_bn_scale+companions", "full", true, false, true, 0.075, 2},
        {"with-celu", "plain", true, false, false, 0.075, 2},
        {"with-frozen_bn_scale", "plain", false, true, false, 0, 2},
        {"with-frozen_bn_scale+companions", "plain", false, true, false, 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const d9_arm *made = find_arm(experiment, rows[i].name);
        if (rows[i].baseline)
            assert_string_equal(made->baseline, rows[i].baseline);
        else
            assert_null(made->baseline);
        assert_ints(made->config->trick_on[celu], rows[i].celu, made->config->trick_on[frozen], rows[i].frozen);
        assert_int_equal(made->config->trick_on[ema], rows[i].ema);
        if (rows[i].celu) assert_true(*(const double *)made->config->trick_options[celu] == rows[i].alpha);
        assert_true(made->config->train.bias_lr_multiplier == rows[i].bias);
        assert_int_equal(made->companions, strstr(rows[i].name, "+companions") != NULL);
    }
}

/* Edits of the command line are applied before an arm leaves out its trick, even if they set an option of that trick.
 */
TEST(an_ablation_overrides_edits_of_its_trick, setup) {
    d9_config_edit edit = {.kind = D9_EDIT_SET, .text = "tricks.ema.every=3"};
    const d9_experiment_options options = {.edits = {.items = &edit, .count = 1}};
    const char *const only[] = {"ema"};
    d9_experiment *experiment;
    OK(d9_experiment_ablation(&context, run_path(experiment_folder, "tiny.yaml"), only, 1, &options, &experiment));
    experiment_keep(experiment);
    const int ema = d9_trick_index("ema");
    assert_true(find_arm(experiment, "with-ema")->config->trick_on[ema]);
    assert_false(find_arm(experiment, "without-ema")->config->trick_on[ema]);
}

TEST(an_ablation_rejects_an_unknown_trick, setup) {
    d9_experiment *experiment;
    const char *const only[] = {"cello"};
    const char *path = run_path(experiment_folder, "tiny.yaml");
    assert_int_equal(d9_experiment_ablation(&context, path, only, 1, &no_options, &experiment), D9_USAGE);
    assert_words(context.message, path);
    assert_words(context.message, "cello flip celu frozen_bn_scale ema");
    assert_null(experiment);
}

static json_t *read_experiment_json(const char *out) {
    return run_json(json_load_file(run_path(out, "experiment.json"), 0, NULL));
}

/* The only arm is named after the configuration's file, without the characters that a folder's name should not have;
 * "only" if no name is left. */
TEST(the_only_arm_is_named_after_its_file, setup) {
    static const char *const files[][2] = {{"lr=0.1.yaml", "lr=0.1"},
                                           {"gr\u00f6\u00dfe.yaml", "gr\u00f6\u00dfe"},
                                           {"a b.yaml", "ab"},
                                           {" .yaml", "only"},
                                           {"...yaml", "only"}};
    char yaml[64];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        run_write_text(experiment_folder, files[i][0], "seed: 1\n");
        snprintf(yaml, sizeof yaml, "title: t\nconfig: \"%s\"\n", files[i][0]);
        assert_string_equal(experiment_load(yaml)->arms[0].name, files[i][1]);
    }
}

TEST(the_record_lists_arms_and_runs, setup) {
    const char *out = run_path(experiment_folder, "out");
    d9_experiment *experiment =
        experiment_load("title: t\nconfig: tiny.yaml\nseeds: 2\narms: {a: {}, b: {without: [ema], baseline: a}}\n");
    OK(d9_experiment_write(&context, experiment, out));
    json_t *record = read_experiment_json(out), *b = json_array_get(json_object_get(record, "arms"), 1),
           *run = json_array_get(json_object_get(record, "runs"), 3);
    assert_string_equal(json_string_value(json_object_get(record, "kind")), "grid");
    assert_string_equal(json_string_value(json_object_get(record, "file")),
                        "x.yaml"); /* only the name of the file, whose path was absolute */
    assert_true(json_is_null(json_object_get(record, "question")));
    assert_string_equal(json_string_value(json_object_get(b, "baseline")), "a");
    assert_string_equal(json_string_value(json_object_get(b, "config_hash")), experiment->arms[1].config_hash);
    assert_string_equal(json_string_value(json_array_get(json_object_get(b, "edits"), 0)), "--without ema");
    assert_null(json_object_get(b, "published"));
    assert_non_null(json_object_get(json_array_get(json_object_get(record, "arms"), 0), "published"));
    assert_string_equal(json_string_value(json_object_get(run, "folder")), "runs/b/seed2");
    assert_int_equal(run_folder_count(out, ""), 1); /* the lock file is removed */
}

/* A record has the name of a file in place of an absolute path. */
TEST(a_record_holds_no_absolute_path, setup) {
    static const char yaml[] = "config: tiny.yaml\nset: {data: {path: \"/home/a b/images\"}, title: loss / epoch}\n"
                               "arms: {a: {set: {backend_options.choices: '/home/x, y/choices'}}}\n";
    d9_config_edit edit = {.kind = D9_EDIT_SET, .text = "data.path=\"/home/data/\""};
    const d9_experiment_options options = {.edits = {.items = &edit, .count = 1}};
    const char *out = run_path(experiment_folder, "out");
    d9_experiment *experiment;
    OK(experiment_load_with(yaml, &options, &experiment));
    OK(d9_experiment_write(&context, experiment, out));
    const char *text = (const char *)run_read_file(run_path(out, "experiment.json"), NULL);
    assert_null(strstr(text, "/home"));
    static const char *const held[] = {"\"images\\\"", "=\\\"data/\\\"", ".choices=\\\"choices\\\"", "=loss / epoch"};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) assert_non_null(strstr(text, held[i]));
}

TEST(a_folder_keeps_its_arms_and_seeds, setup) {
    const char *out = run_path(experiment_folder, "out");
    d9_experiment *experiment =
        experiment_load("title: t\nconfig: tiny.yaml\nseeds: [1, 2]\narms: {a: {}, b: {without: [ema]}}\n");
    OK(d9_experiment_write(&context, experiment, out));
    experiment = experiment_load("title: t\nconfig: tiny.yaml\nseeds: [2, 3]\narms: {a: {}, c: {without: [flip]}}\n");
    OK(d9_experiment_write(&context, experiment, out));
    json_t *record = read_experiment_json(out);
    assert_int_equal(json_array_size(json_object_get(record, "arms")), 3);
    assert_int_equal(json_array_size(json_object_get(record, "seeds")), 3);
    /* new: arms a and c, seeds 2 and 3; kept: arm a, seed 1, and arm b, seeds 1 and 2 */
    assert_int_equal(json_array_size(json_object_get(record, "runs")), 4 + 3);
    static const struct {
        const char *yaml, *words;
    } others[] = {{"title: u\nconfig: tiny.yaml\n", "t u"},
                  {"title: t\nconfig: tiny.yaml\nablate: all\n", "grid"},
                  {"title: t\nconfig: tiny.yaml\narms: {b: {without: [flip]}}\n", "arm b"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        experiment = experiment_load(others[i].yaml);
        assert_rejection(d9_experiment_write(&context, experiment, out), D9_USAGE, others[i].words);
    }
    json_t *after = read_experiment_json(out);
    assert_true(json_equal(record, after));
    run_write_text(experiment_folder, "out/experiment.json", "{\"title\": ");
    experiment = experiment_load("title: t\nconfig: tiny.yaml\n");
    assert_int_equal(d9_experiment_write(&context, experiment, out), D9_USAGE);
    assert_true(d9_file_exists(&context, run_path(out, "experiment.json")));
}

static d9_run_state train_run(const d9_experiment *experiment, const char *out, int64_t index, bool *trained) {
    const d9_run_options options = {0};
    d9_run_state made;
    OK(d9_run_train(&context, experiment, out, index, &options, &made, trained));
    return made;
}

/* A run stays where it is listed when arms with an identical configuration come or go. An arm whose configuration is
 * no longer identical gets a folder of its own. */
TEST(a_run_stays_in_its_folder, setup) {
    static const struct {
        const char *arms, *owners; /* owners: for each arm, the letter of the arm in whose folder its run is */
    } rows[] = {{"{a: {}}", "a"},
                {"{b: {}, a: {}}", "aa"},
                {"{b: {}}", "a"},
                {"{c: {without: [ema]}, d: {}, b: {}}", "caa"},
                {"{a: {}, b: {set: {eval.every: 0}}}", "ab"}};
    const char *out = run_path(experiment_folder, "out");
    char yaml[128], folder[D9_RUN_FOLDER_BYTES], wanted[32];
    bool trained;
    d9_run_state seen;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        snprintf(yaml, sizeof yaml, "title: t\nconfig: tiny.yaml\nseeds: 1\narms: %s\n", rows[r].arms);
        d9_experiment *experiment = experiment_load(yaml);
        OK(d9_experiment_write(&context, experiment, out));
        if (r == 0) train_run(experiment, out, 0, &trained);
        for (int a = 0; rows[r].owners[a]; a++) {
            snprintf(wanted, sizeof wanted, "runs/%c/seed1", rows[r].owners[a]);
            OK(d9_experiment_folder(&context, experiment, "", a, folder));
            assert_string_equal(folder, wanted);
            OK(d9_run_read_state(&context, experiment, out, a, &seen));
            assert_int_equal(seen.kind, rows[r].owners[a] == 'a' ? D9_RUN_DONE : D9_RUN_WAITING);
        }
    }
}

static int failing_lock(void *user, int file, const char *path) { /* `user`: points to the errno to fail with */
    (void)file, (void)path;
    errno = *(int *)user;
    return -1;
}

/* Without file locks a run fails. If another process takes the lock after the state was read, the run counts as
 * running. */
TEST(a_run_without_its_lock_is_not_trained, setup) {
    const struct {
        int error;
        d9_status status;
    } rows[] = {{ENOLCK, D9_OUTPUT}, {EWOULDBLOCK, D9_OK}};
    const d9_run_options options = {0};
    d9_run_state seen;
    bool trained;
    const char *out = run_path(experiment_folder, "out");
    d9_experiment *experiment = experiment_load("config: tiny.yaml\n");
    for (int i = 0; i < 2; i++) {
        int error = rows[i].error;
        d9_system system = *d9_system_default();
        system.lock = failing_lock;
        system.user = &error;
        context.system = &system;
        assert_int_equal(d9_run_train(&context, experiment, out, 0, &options, &seen, &trained), rows[i].status);
        assert_false(trained || d9_file_exists(&context, run_path(out, "runs/tiny/seed1/config.yaml")));
        d9_context_init(&context);
    }
    assert_int_equal(seen.kind, D9_RUN_RUNNING);
}

TEST(a_run_is_done_once, setup) {
    bool trained;
    int lock;
    d9_run_state seen;
    const char *out = run_path(experiment_folder, "out");
    d9_experiment *experiment = experiment_load("config: tiny.yaml\nseeds: 2\n");
    assert_ints(d9_run_read_state(&context, experiment, out, 0, &seen), D9_OK, seen.kind, D9_RUN_WAITING);
    seen = train_run(experiment, out, 0, &trained);
    assert_true(trained && seen.kind == D9_RUN_DONE && seen.score >= 0);
    assert_false(d9_file_exists(&context, run_path(out, "runs/tiny/seed1/lock")));
    seen = train_run(experiment, out, 0, &trained);
    assert_true(!trained && seen.kind == D9_RUN_DONE);
    run_make_directory(out, "runs/tiny/seed2");
    OK(d9_lock_take(&context, run_path(out, "runs/tiny/seed2/lock"), &lock)); /* another process trains it */
    seen = train_run(experiment, out, 1, &trained);
    assert_true(!trained && seen.kind == D9_RUN_RUNNING);
    context.system->close(context.system->user, lock); /* as after a kill: the file stays, the lock is released */
    assert_ints(d9_run_read_state(&context, experiment, out, 1, &seen), D9_OK, seen.kind, D9_RUN_STOPPED);
    run_write_text(experiment_folder, "out/runs/tiny/seed2/result.json.123.partial", "{");
    seen = train_run(experiment, out, 1, &trained);
    assert_true(trained && seen.kind == D9_RUN_DONE);
    assert_int_equal(run_folder_count(run_path(out, "runs/tiny/seed2"), ".partial"), 0);
}

TEST(a_damaged_result_is_done_again_and_a_foreign_one_rejected, setup) {
    bool trained;
    d9_run_state seen;
    const d9_run_options options = {0};
    const char *out = run_path(experiment_folder, "out");
    d9_experiment *experiment = experiment_load("config: tiny.yaml\nseeds: 1\n"),
                  *two = experiment_load("config: tiny.yaml\nseeds: 2\n"),
                  *other = experiment_load("config: tiny.yaml\nset: {train.momentum: 0.5}\n");
    train_run(experiment, out, 0, &trained);
    assert_int_equal(d9_run_train(&context, other, out, 0, &options, &seen, &trained), D9_USAGE);
    d9_context_clear(&context);
    run_write_text(experiment_folder, "out/runs/tiny/seed1/result.json", "{\"config_ha");
    /* `other` still differs from the configuration in config.yaml */
    assert_int_equal(d9_run_train(&context, other, out, 0, &options, &seen, &trained), D9_USAGE);
    assert_false(trained);
    d9_context_clear(&context);
    seen = train_run(experiment, out, 0, &trained);
    assert_true(trained && seen.kind == D9_RUN_DONE);
    char *result = (char *)run_read_file(run_path(out, "runs/tiny/seed1/result.json"), NULL);
    char *measure = strstr(result, "\"measure\": \"a") + 12; /* "accuracy" */
    *measure = 'X';
    run_write_text(experiment_folder, "out/runs/tiny/seed1/result.json", result);
    seen = train_run(experiment, out, 0, &trained);
    assert_true(trained && seen.kind == D9_RUN_DONE);
    *measure = 'a';
    run_make_directory(out, "runs/tiny/seed2");
    run_write_text(experiment_folder, "out/runs/tiny/seed2/result.json", result); /* the result of seed 1 */
    assert_rejection(d9_run_train(&context, two, out, 1, &options, &seen, &trained), D9_USAGE, "seed2");
}

TEST(a_failure_is_recorded_and_stays, setup) {
    bool trained;
    const char *out = run_path(experiment_folder, "out");
    d9_experiment *experiment = experiment_load(
        "config: tiny.yaml\nseeds: 1\nset: {train.epochs: 4, train.lr: {knots: [0, end], values: [1.0e6, 1.0e6]}}\n");
    d9_run_state seen = train_run(experiment, out, 0, &trained);
    assert_true(trained && seen.kind == D9_RUN_FAILED && seen.failure == D9_NONFINITE);
    seen = train_run(experiment, out, 0, &trained);
    assert_true(!trained && seen.kind == D9_RUN_FAILED && seen.failure == D9_NONFINITE);
    OK(d9_run_forget_failure(&context, experiment, out, 0));
    seen = train_run(experiment, out, 0, &trained);
    assert_true(trained && seen.kind == D9_RUN_FAILED);
}
