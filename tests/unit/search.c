/* Searches: files and their errors, drawn values, budgets, and which run comes next; also the next run of a grid. */
#include "core/system.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

#define TINY                                                                                                           \
    "backend: reference\nprecision: f32\nthreads: 1\n"                                                                 \
    "model: {name: resnet9, channels: [4, 4, 8, 8]}\n"                                                                 \
    "data: {dataset: synthetic, synthetic_train: 64, synthetic_test: 32, validation: 16}\n"                            \
    "train: {epochs: 1, batch_size: 16}\ntricks: {flip: {}}\n"

/* One folder for all tests. */
static int set_up(void **state) {
    (void)state;
    experiment_make_folder(TINY);
    return 0;
}

TEST_GROUP(set_up, NULL)

static const char *value_of(const d9_arm *arm, const char *key) {
    for (int i = 0; i < arm->grid_count; i++)
        if (strcmp(arm->grid[i].key, key) == 0) return arm->grid[i].value;
    fail_msg("%s has no value of %s", arm->name, key);
    return NULL;
}

/* ---- drawn values ---- */

#define MOMENTUM "    train.momentum: {uniform: [0.5, 0.9]}\n"
#define OTHERS                                                                                                         \
    "    train.weight_decay: {log: [0.0001, 0.01]}\n"                                                                  \
    "    model.channels: [{whole: [4, 8, 2]}, {whole: [4, 8]}, 8, 8]\n"                                                \
    "    tricks.flip: {choice: [off, on]}\n"                                                                           \
    "    tricks.celu: {choice: [off, {alpha: {uniform: [0.1, 0.4]}}]}\n"
#define SEARCH "config: tiny.yaml\nsearch:\n  seed: 2\n  trials: "

/* Computed by a separate Python program from Philox (SC11), SHA-256 and the description in sample.c. */
TEST(values_follow_from_seed_trial_and_place) {
    static const char *const rows[3][5] = {
        {"0.6865", "0.002063", "[4, 4, 8, 8]", "on", "off"},
        {"0.6239", "0.0007242", "[8, 8, 8, 8]", "on", "{alpha: 0.3949}"},
        {"0.509", "0.004838", "[8, 8, 8, 8]", "off", "off"},
    };
    d9_experiment *experiment = experiment_load(SEARCH "3\n  ranges:\n" MOMENTUM OTHERS);
    assert_ints(experiment->kind, D9_EXPERIMENT_SEARCH, experiment->arm_count, 3);
    for (int t = 0; t < 3; t++) {
        const d9_arm *arm = &experiment->arms[t];
        assert_string_equal(value_of(arm, "train.momentum"), rows[t][0]);
        assert_string_equal(value_of(arm, "train.weight_decay"), rows[t][1]);
        assert_string_equal(value_of(arm, "model.channels"), rows[t][2]);
        assert_string_equal(value_of(arm, "tricks.flip"), rows[t][3]);
        assert_string_equal(value_of(arm, "tricks.celu"), rows[t][4]);
        assert_true(arm->config->train.momentum == strtod(rows[t][0], NULL));
        assert_int_equal(arm->config->trick_on[d9_trick_index("flip")], strcmp(rows[t][3], "on") == 0);
        assert_int_equal(arm->config->trick_on[d9_trick_index("celu")], strcmp(rows[t][4], "off") != 0);
        assert_null(arm->rejected);
    }
    assert_string_equal(experiment->arms[2].name, "trial0003");
}

TEST(values_do_not_depend_on_other_ranges_or_trials) {
    d9_experiment *one = experiment_load(SEARCH "3\n  ranges:\n" MOMENTUM OTHERS),
                  *other = experiment_load(SEARCH "4\n  ranges:\n" OTHERS MOMENTUM),
                  *reseeded = experiment_load("config: tiny.yaml\nsearch:\n  trials: 3\n  ranges:\n" MOMENTUM);
    int equal = 0;
    for (int t = 0; t < 3; t++) {
        assert_string_equal(one->arms[t].config_hash, other->arms[t].config_hash);
        equal += strcmp(value_of(&one->arms[t], "train.momentum"), value_of(&reseeded->arms[t], "train.momentum")) == 0;
    }
    assert_true(equal < 3);
}

TEST(values_fill_their_ranges) {
    d9_experiment *experiment =
        experiment_load("config: tiny.yaml\nsearch:\n  trials: 400\n  ranges:\n"
                        "    train.momentum: {uniform: [0.5, 0.9]}\n    train.epochs: {whole: [1, 4]}\n"
                        "    train.weight_decay: {log: [0.0001, 0.01]}\n");
    double sum = 0, logs = 0;
    int counts[5] = {0};
    for (int t = 0; t < 400; t++) {
        const d9_config *config = experiment->arms[t].config;
        assert_true(config->train.momentum >= 0.5 && config->train.momentum <= 0.9);
        assert_true(config->train.weight_decay >= 0.0001 && config->train.weight_decay <= 0.01);
        sum += config->train.momentum;
        logs += log10(config->train.weight_decay);
        counts[(int)config->train.epochs]++;
    }
    /* at most five standard errors, which are 0.4 / sqrt(12 x 400), 2 / sqrt(12 x 400) and sqrt(400 x 3/16) */
    assert_true(fabs(sum / 400 - 0.7) < 0.029 && fabs(logs / 400 + 3) < 0.145);
    for (int e = 1; e <= 4; e++) assert_true(abs(counts[e] - 100) < 44);
}

/* A narrow range gets more digits: with four significant digits only six numbers would be left here. */
TEST(a_narrow_range_has_many_values) {
    d9_experiment *experiment = experiment_load(
        "config: tiny.yaml\nsearch:\n  trials: 60\n  ranges: {train.momentum: {uniform: [0.9895, 0.98999]}}\n");
    int values = 0;
    for (int t = 0; t < 60; t++) {
        bool repeats = false;
        const char *value = value_of(&experiment->arms[t], "train.momentum");
        assert_true(strlen(value) <= 8);
        for (int s = 0; s < t; s++) repeats |= strcmp(value, value_of(&experiment->arms[s], "train.momentum")) == 0;
        values += !repeats;
    }
    assert_true(values > 45); /* the range has about 490 */
}

/* A rung is finished if all recorded seeds are, so a call with fewer seeds cannot continue the search. */
TEST(a_search_of_epochs_continues_with_its_seeds) {
    static const char yaml[] = SEARCH "9\n  rungs: {train.epochs: [0.5, 2]}\n  ranges:\n" MOMENTUM;
    const char *out = run_path(experiment_folder, "searched");
    d9_experiment *experiment;
    for (int seeds = 2; seeds <= 3; seeds++) {
        OK(experiment_load_with(yaml, &(d9_experiment_options){.seeds = seeds}, &experiment));
        OK(d9_experiment_write(&context, experiment, out));
    }
    assert_rejection(d9_experiment_write(&context, experiment_load(yaml), out), D9_USAGE, "seeds");
}

TEST(rungs_of_epochs_are_arms_of_the_trial) {
    d9_experiment *experiment = experiment_load(SEARCH "9\n  rungs: {train.epochs: [0.5, 2]}\n  ranges:\n" MOMENTUM);
    assert_ints(experiment->arm_count, 18, experiment->seed_count, 1);
    const d9_arm *arm = &experiment->arms[2 * 4 + 1];
    assert_string_equal(arm->name, "trial0005,train.epochs=2");
    assert_true(arm->config->train.epochs == 2 && arm[-1].config->train.epochs == 0.5);
    assert_true(arm->config->train.momentum == arm[-1].config->train.momentum);
}

/* ---- rejected trials and rejected files ---- */

TEST(a_rejected_trial_has_failed) {
    d9_experiment *experiment = experiment_load(
        "config: tiny.yaml\nsearch:\n  trials: 12\n  ranges: {train.momentum: {uniform: [0.5, 1.5]}}\n");
    int rejected = 0;
    for (int t = 0; t < 12; t++) {
        const d9_arm *arm = &experiment->arms[t];
        d9_run_state state;
        OK(d9_run_read_state(&context, experiment, run_path(experiment_folder, "out"), t, &state));
        assert_int_equal(arm->rejected != NULL, strtod(value_of(arm, "train.momentum"), NULL) > 0.999999);
        assert_int_equal(state.kind, arm->rejected ? D9_RUN_FAILED : D9_RUN_WAITING);
        assert_int_equal(d9_experiment_run_is_trained(experiment, t), !arm->rejected);
        if (!arm->rejected) continue;
        assert_words(state.message, "x.yaml:4:28 search.ranges.train.momentum");
        assert_null(strstr(state.message, experiment_folder)); /* records contain no absolute paths */
        rejected++;
    }
    assert_true(rejected > 0 && rejected < 12);
}

static void assert_rejected_with(const char *yaml, const d9_experiment_options *options, const char *words) {
    experiment_rejected(yaml, options, "x.yaml", words);
}
#define NINE(text)   "config: tiny.yaml\nsearch:\n  trials: 9\n" text
#define RANGES(text) NINE("  ranges: {train.momentum: {uniform: [0.5, 0.9]}}\n" text)

TEST(invalid_searches_are_rejected_with_their_place) {
    static const char *const rows[][2] = {
        {"config: tiny.yaml\nsearch: 3\n", ":2:9 search trials ranges"},
        {"config: tiny.yaml\nsearch: {ranges: {}}\n", ":2:9 search trials"},
        {"config: tiny.yaml\nsearch: {trials: 0}\n", ":2:18 search.trials 1 100000"},
        {"config: tiny.yaml\nsearch: {trials: 3, etta: 3}\n", ":2:21 search.etta eta rungs budget ranges"},
        {"search: {trials: 3}\n", ":1:9 search config"},
        {NINE(""), ":3:3 search ranges"},
        {NINE("  ranges: {train.momentum: 0.5}\n"), ":4:28 search.ranges.train.momentum uniform log whole choice"},
        {NINE("  ranges: {train.momentum: {uniform: [0.9, 0.5]}}\n"), ":4:38 search.ranges.train.momentum.uniform"},
        {NINE("  ranges: {train.momentum: {uniform: [0.9]}}\n"), ":4:38 increasing"},
        {NINE("  ranges: {train.momentum: {log: [0, 0.5]}}\n"), ":4:34 above 0"},
        {NINE("  ranges: {train.epochs: {whole: [1.5, 3]}}\n"), ":4:34 whole"},
        {NINE("  ranges: {train.epochs: {whole: [1, 3, 0]}}\n"), ":4:34 step 1"},
        {NINE("  ranges: {train.epochs: {choice: [1]}}\n"), ":4:35 two"},
        {NINE("  ranges: {train.epochs: {choice: [1, {log: [2]}]}}\n"),
         ":4:45 search.ranges.train.epochs.choice[1].log"},
        {NINE("  ranges: {train.epohcs: {uniform: [1, 2]}}\n"), ":4:26 search.ranges.train.epohcs epochs"},
        {NINE("  ranges: {tricks.fliip: {choice: [on, off]}}\n"), ":4:26 search.ranges.tricks.fliip flip"},
        {NINE("  ranges: {seed: {whole: [1, 9]}}\n"), ":4:12 search.ranges.seed"},
        {NINE("  ranges: {data.validation: {whole: [1, 9]}}\n"), ":4:12 search.ranges.data.validation"},
        {NINE("  rungs: {train.epochs: [1, 2]}\n  ranges: {train.epochs: {uniform: [1, 2]}}\n"),
         ":5:12 search.ranges.train.epochs rungs"},
        {RANGES("  rungs: [1, 3, 9]\n"), ":5:10 search.rungs seeds train.epochs"},
        {RANGES("  rungs: {seed: [1, 3]}\n"), ":5:10 search.rungs seeds train.epochs"},
        {RANGES("  rungs: {seeds: [3, 1]}\n"), ":5:22 search.rungs.seeds[1] increasing"},
        {RANGES("  rungs: {seeds: [1, 2.5]}\n"), ":5:22 search.rungs.seeds[1] whole"},
        {RANGES("  rungs: {train.epochs: [0, 2]}\n"), ":5:26 search.rungs.train.epochs[0] above 0"},
        {RANGES("  rungs: {seeds: [1, 2, 3, 4]}\n"), ":3:11 search.trials 27"},
        {RANGES("  rungs: {seeds: [1, 3]}\nseeds: 3\n"), ":6:1 seeds rungs"},
        {RANGES("  budget: {hours: -1}\n"), ":5:19 search.budget.hours 0"},
        {RANGES("  budget: {tflop: 1}\n"), ":5:12 search.budget.tflop teraflop hours"},
        {RANGES("  promote: best\n"), ":5:12 search.promote score frontier"},
        {RANGES("  eta: 1\n"), ":5:8 search.eta 2"},
        {RANGES("arms: {a: {}}\n"), ":5:1 arms"},
        {RANGES("grid: {train.epochs: [1]}\n"), ":5:1 grid"},
        {RANGES("ablate: all\n"), ":5:1 ablate"},
        {RANGES("set: {data.validation: 0}\n"), ":2:1 search data.validation test"},
        {RANGES("set: {train.momentum: 2}\n"), ":5:23 set.train.momentum 2 0 0.999999"}, /* rejected for all trials */
    };
    d9_config_edit edit = {.kind = D9_EDIT_SET, .text = "train.momentum=0.5"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_rejected_with(rows[i][0], &(const d9_experiment_options){0}, rows[i][1]);
    assert_rejected_with(RANGES(""), &(const d9_experiment_options){.edits = {.items = &edit, .count = 1}},
                         ":4:12 search.ranges.train.momentum --set train.momentum=0.5");
    assert_rejected_with(RANGES("  rungs: {seeds: [1, 3]}\n"), &(const d9_experiment_options){.seeds = 2},
                         ":5:18 search.rungs.seeds --seeds");
}

/* ---- which run comes next ---- */

enum { TRIALS = 9, RUNS_MAX = 64 };

/* A search whose arms have no configurations; valid until the next call. `by_seeds`: rungs count seeds, not epochs. */
static d9_experiment bare_search(int trials, bool by_seeds, int rung_count, const double *rungs) {
    static d9_arm arms[RUNS_MAX];
    static const int64_t seeds[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    d9_experiment experiment = {.kind = D9_EXPERIMENT_SEARCH,
                                .arms = arms,
                                .arm_count = by_seeds ? trials : trials * rung_count,
                                .seeds = seeds,
                                .seed_count = by_seeds ? (int)rungs[rung_count - 1] : 1,
                                .search = {.trials = trials, .eta = 3, .by_seeds = by_seeds, .rung_count = rung_count}};
    memcpy(experiment.search.rungs, rungs, (size_t)rung_count * sizeof *rungs);
    for (int a = 0; a < experiment.arm_count; a++) arms[a] = (d9_arm){.runs_of = a};
    return experiment;
}

static int64_t next_run(const d9_experiment *experiment, const d9_run_summary *seen) {
    int64_t index;
    OK(d9_experiment_next(&context, experiment, seen, &index));
    return index;
}

/* One process: each run ends before the next is selected. Nine trials with rungs of 1, 2 and 4 epochs; the score of a
 * trial is that in `scores`, plus 10 for each rung after the first. */
TEST(the_best_third_of_a_rung_is_promoted) {
    static const double rungs[] = {1, 2, 4};
    static const double scores[TRIALS] = {5, 3, 4, 9, 1, 2, 7, 8, 6};
    /* The number of a run is 3 x trial + rung. A third of the trials of a rung is promoted, rounded down:
     *   3 trials at rung 0: trial 0 is the best one and is promoted to rung 1
     *   4 trials at rung 0: trial 3 is the best one
     *   7 trials at rung 0: trials 3 and 6 are the best two. Rung 1 then has trials 0, 3 and 6; 3 is promoted to rung 2
     *   8 trials at rung 0: trial 7 is now among the best two
     *   9 trials at rung 0: the best three, 3, 7 and 6, have been promoted already, so the search ends */
    static const int64_t wanted[] = {0, 3, 6, 1, 9, 10, 12, 15, 18, 19, 11, 21, 22, 24, -1};
    const d9_experiment experiment = bare_search(TRIALS, false, 3, rungs);
    d9_run_summary seen[RUNS_MAX] = {0};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const int64_t index = next_run(&experiment, seen);
        if (index != wanted[i])
            fail_msg("selection %zu is run %lld, must be %lld", i, (long long)index, (long long)wanted[i]);
        if (index >= 0) seen[index] = (d9_run_summary){D9_RUN_DONE, scores[index / 3] + 10 * (double)(index % 3), 1, 1};
    }
}

TEST(runs_of_other_processes_and_failed_runs_are_not_selected) {
    static const double rungs[] = {1, 2};
    const d9_experiment experiment = bare_search(TRIALS, false, 2, rungs);
    d9_run_summary seen[RUNS_MAX] = {0};
    seen[0].kind = D9_RUN_RUNNING; /* trial 0 runs in another process, so this one starts trial 1 */
    assert_int_equal(next_run(&experiment, seen), 2);
    seen[2].kind = D9_RUN_STOPPED; /* an interrupted run comes first */
    assert_int_equal(next_run(&experiment, seen), 2);
    seen[2].kind = D9_RUN_FAILED; /* a failed run is not repeated, and does not count in its rung */
    assert_int_equal(next_run(&experiment, seen), 4);
    seen[0] = (d9_run_summary){D9_RUN_DONE, 1, 1, 1}, seen[4] = (d9_run_summary){D9_RUN_DONE, 2, 1, 1};
    assert_int_equal(next_run(&experiment, seen), 6); /* a third of two trials is less than one: no promotion */
    seen[6] = (d9_run_summary){D9_RUN_DONE, 0, 1, 1};
    assert_int_equal(next_run(&experiment, seen), 5);
    seen[5].kind = D9_RUN_FAILED; /* a promoted run failed: the second best is not promoted instead */
    assert_int_equal(next_run(&experiment, seen), 8);
    for (int trial = 4; trial < TRIALS; trial++) seen[2 * trial].kind = D9_RUN_RUNNING;
    assert_int_equal(next_run(&experiment, seen), -1);
}

/* A promotion to a rung of more seeds starts a run for each added seed. */
TEST(a_rung_of_seeds_has_several_runs) {
    static const double rungs[] = {1, 3};
    const d9_experiment experiment = bare_search(4, true, 2, rungs);
    d9_run_summary seen[RUNS_MAX] = {0};
    static const double first[] = {1, 3, 2};
    for (int t = 0; t < 3; t++) seen[t] = (d9_run_summary){D9_RUN_DONE, first[t], 1, 1};
    assert_int_equal(next_run(&experiment, seen), 4 + 1); /* seed 2 of trial 1 */
    seen[4 + 1].kind = D9_RUN_RUNNING;
    assert_int_equal(next_run(&experiment, seen), 8 + 1); /* seed 3 of trial 1, while seed 2 runs */
    seen[8 + 1].kind = D9_RUN_RUNNING;
    assert_int_equal(next_run(&experiment, seen), 3);
    seen[8 + 1].kind = D9_RUN_WAITING, seen[4 + 1].kind = D9_RUN_FAILED;
    assert_int_equal(next_run(&experiment, seen), 3); /* the failed trial gets no further seeds */
    const d9_rung_runs runs = d9_search_rung(&experiment, 1, 1);
    assert_ints(runs.arm, 1, runs.first, 1, runs.end, 3);
    assert_true(d9_experiment_planned_share(&experiment, 1) == 1 &&
                d9_experiment_planned_share(&experiment, 4 + 1) == 0.25);
}

/* Trial 0 is best and expensive; 1 is nearly as good and cheap; 2 is bad and cheaper still; 3 to 5 are dominated. */
TEST(trials_are_promoted_by_the_frontier) {
    static const double rungs[] = {1, 2};
    static const double gains[] = {9, 8, 1, 8.5, 7, 0}, teraflop[] = {100, 50, 10, 120, 60, 200};
    d9_experiment experiment = bare_search(6, false, 2, rungs);
    d9_run_summary seen[RUNS_MAX] = {0};
    for (int t = 0; t < 6; t++) seen[2 * t] = (d9_run_summary){D9_RUN_DONE, gains[t], teraflop[t], 1};
    assert_int_equal(next_run(&experiment, seen), 1);
    seen[1] = (d9_run_summary){D9_RUN_DONE, 9, 200, 1};
    assert_int_equal(next_run(&experiment, seen), 2 * 3 + 1); /* by score alone: trial 3, 8.5 */
    experiment.search.promote = D9_PROMOTE_FRONTIER;
    assert_int_equal(next_run(&experiment, seen), 2 * 1 + 1); /* trial 3 is worse and more expensive than trial 0 */
}

TEST(a_budget_ends_new_runs) {
    static const double rungs[] = {1, 2};
    d9_experiment experiment = bare_search(TRIALS, false, 2, rungs);
    d9_run_summary seen[RUNS_MAX] = {0};
    d9_search_progress progress;
    seen[0] = (d9_run_summary){D9_RUN_DONE, 1, 60, 1800}, seen[2] = (d9_run_summary){D9_RUN_DONE, 1, 39, 1800};
    experiment.search.teraflop = 100;
    assert_int_equal(next_run(&experiment, seen), 4);
    experiment.search.hours = 1;
    assert_int_equal(next_run(&experiment, seen), -1);
    experiment.search.hours = 0, experiment.search.teraflop = 99;
    assert_int_equal(next_run(&experiment, seen), -1);
    seen[4].kind = D9_RUN_STOPPED; /* an interrupted run may still be finished */
    assert_int_equal(next_run(&experiment, seen), 4);
    d9_search_compute_progress(&experiment, seen, &progress);
    assert_true(progress.over && progress.teraflop == 99 && progress.hours == 1);
    assert_ints(progress.begun, 3, progress.finished[0], 2, progress.planned[1], 3);
}

TEST(a_budget_ends_a_rung_of_seeds) {
    static const double rungs[] = {2};
    d9_experiment experiment = bare_search(4, true, 1, rungs);
    d9_run_summary seen[RUNS_MAX] = {{D9_RUN_DONE, 1, 60, 1800}};
    assert_int_equal(next_run(&experiment, seen), 4);
    experiment.search.teraflop = 60;
    assert_int_equal(next_run(&experiment, seen), -1);
}

/* rank_score is the score with all views, negated if lower is better. */
TEST(rank_score_is_the_score_or_its_negative) {
    d9_run_state run = {.kind = D9_RUN_DONE, .score = 3, .score_tta = 4, .process_seconds = NAN, .teraflop = NAN};
    for (int i = 0; d9_measure_at(i); i++) {
        const double sign = d9_measure_at(i)->higher_is_better ? 1 : -1;
        run.measure = d9_measure_at(i);
        run.views = 1;
        assert_true(d9_run_summarise(&run).rank_score == 3 * sign && d9_run_summarise(&run).teraflop == 0);
        run.views = 2;
        assert_true(d9_run_summarise(&run).rank_score == 4 * sign && d9_run_summarise(&run).seconds == 0);
    }
}

/* The next run of a grid is the first that is not finished, failed, running or shared with an earlier arm. */
TEST(a_grid_takes_its_first_run_that_is_left) {
    d9_experiment *experiment =
        experiment_load("config: tiny.yaml\nseeds: 2\narms: {a: {}, b: {}, c: {without: [flip]}}\n");
    d9_run_summary seen[6] = {{.kind = D9_RUN_DONE}, {.kind = D9_RUN_WAITING}, {.kind = D9_RUN_RUNNING}};
    assert_int_equal(next_run(experiment, seen), 3); /* run 1 is of arm b, whose runs are those of arm a */
    seen[3].kind = D9_RUN_FAILED;
    assert_int_equal(next_run(experiment, seen), 5);
    seen[5].kind = D9_RUN_STOPPED;
    assert_int_equal(next_run(experiment, seen), 5);
    seen[5].kind = D9_RUN_DONE;
    assert_int_equal(next_run(experiment, seen), -1);
    assert_true(d9_experiment_planned_share(experiment, 0) == 1 && d9_experiment_planned_share(experiment, 1) == 0);
}

/* Reads the states of runs from their folders: no folder, a result, a failure. */
TEST(states_are_read_from_disk) {
    d9_experiment *experiment = experiment_load(SEARCH "3\n  rungs: {seeds: [1, 2]}\n  ranges:\n" MOMENTUM);
    d9_run_summary seen[6] = {0};
    const d9_run_options options = {0};
    d9_run_state made;
    bool trained;
    const char *out = run_path(experiment_folder, "out");
    OK(d9_experiment_update_seen(&context, experiment, out, seen));
    assert_int_equal(next_run(experiment, seen), 0);
    OK(d9_run_train(&context, experiment, out, 0, &options, &made, &trained));
    OK(d9_experiment_update_seen(&context, experiment, out, seen));
    assert_ints(seen[0].kind, D9_RUN_DONE, next_run(experiment, seen), 1);
    assert_true(seen[0].rank_score == made.score && seen[0].teraflop > 0 && seen[0].seconds > 0);
    const d9_run_summary after = d9_run_summarise(&made);
    assert_true(fabs(after.teraflop / seen[0].teraflop - 1) < 1e-9 && after.rank_score == seen[0].rank_score);
    run_make_directory(out, "runs/trial0002/seed1");
    OK(d9_file_write(&context, run_path(out, "runs/trial0002/seed1/failure.json"), "{\"message\": \"m\"}", 16));
    OK(d9_experiment_update_seen(&context, experiment, out, seen));
    assert_ints(seen[1].kind, D9_RUN_FAILED, next_run(experiment, seen), 2);
}
