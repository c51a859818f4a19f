/* The report's computations on fabricated records, such as pairs, intervals, Holm's correction, epochs saved, verdicts,
 * a search's frontier. statistics.c tests the statistics and the tables. */
#include "core/system.h"
#include "record/safetensors.h"
#include "report/report_parts.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

static const char *folder;
static const char *measured = "accuracy"; /* measure of the runs of the next arms */
static double target = 94;
static const char *kind = "grid"; /* of the next experiment.json */
static double teraflop = 1;       /* TFLOP of training of each run of the next arms */
static json_t *arms, *runs;       /* of the next experiment.json */
static int stops_after = 1000;    /* epochs after which the runs of the next arms stop early */
static double growth;             /* score of epoch N of the next arms, divided by N; 0: epochs were not evaluated */
/* Written to the records of the next arms: data.validation, eval.streams, model.name, digests (NULL: null). */
static int validation, streams;
static const char *network, *data_digest, *test_digest;
static d9_report *report; /* the report that was read last; NULL: none */

static int set_up(void **state) {
    (void)state;
    folder = run_folder_new();
    arms = json_array(), runs = json_array();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    d9_report_free(&context, report), json_decref(arms), json_decref(runs);
    report = NULL, measured = "accuracy", target = 94, kind = "grid", teraflop = 1, growth = 0;
    data_digest = test_digest = network = NULL, streams = validation = 0;
    return 0;
}

#define REPORT_TEST(name) TEST(name, set_up, tear_down)
#define MINUS             "\xe2\x88\x92"
#define NEAR(got, want)   assert_near(got, want, 1e-9)

static void write_json(const char *path, json_t *object) {
    char *dump = json_dumps(object, 0);
    OK(d9_file_write(&context, path, dump, strlen(dump)));
    free(dump), json_decref(object);
}

static void list_arm(const char *name, const char *baseline, const char *config_hash) {
    json_array_append_new(arms, json_pack("{s:s, s:s, s:s?, s:[], s:{}, s:s}", "name", name, "label", name, "baseline",
                                          baseline, "edits", "grid", "config_hash", config_hash));
}

/* Appends to `runs` a run of `arm` that is stored in the folder of the run of arm `of`; `at`: that folder's path. */
static void list_run(const char *arm, int64_t seed, const char *of, char at[256]) {
    snprintf(at, 256, "runs/%s/seed%lld", of, (long long)seed);
    json_array_append_new(runs, json_pack("{s:s, s:I, s:s}", "arm", arm, "seed", (json_int_t)seed, "folder", at));
}

/* Adds an arm with `count` finished runs with seeds from `first_seed` on. Their scores with TTA are `scores`; those
 * without are 1 less. The arm "NAME,train.epochs=N" trains for N epochs, others for 10. */
static void add_arm(const char *name, const char *baseline, int64_t first_seed, int count, const double *scores) {
    char at[256];
    const char *epochs = strstr(name, "train.epochs=");
    const double configured = epochs ? strtod(epochs + 13, NULL) : 10;
    list_arm(name, baseline, name);
    for (int i = 0; i < count; i++) {
        json_t *rows = json_array();
        for (int row = 1; row < configured + 1 && row <= stops_after; row++)
            json_array_append_new(rows, json_pack("{s:i, s:o}", "epoch", row, measured,
                                                  growth > 0 ? json_real(growth * row) : json_null()));
        list_run(name, first_seed + i, name, at);
        run_make_directory(folder, at);
        strcat(at, "/result.json");
        write_json(run_path(folder, at),
                   json_pack("{s:s, s:f, s:f, s:s, s:I, s:o, s:f, s:f, s:f, s:o, s:s?, s:s?, s:{s:{s:f}, s:{s:i}, "
                             "s:{s:s?}, s:{s:i}}}",
                             "measure", measured, measured, scores[i] - 1, d9_measure_find(measured)->name_tta,
                             scores[i], "config_hash", name, "seed", (json_int_t)first_seed + i, "epochs", rows,
                             "train_teraflop", teraflop, "evaluation_teraflop", 0.5, "target", target,
                             "epoch_to_target",
                             growth > 0 ? json_integer((json_int_t)ceil(target / growth)) : json_null(), "data_digest",
                             data_digest, "test_digest", test_digest, "config", "train", "epochs", configured, "data",
                             "validation", validation, "model", "name", network, "eval", "streams", streams));
    }
}

/* Lists a run that was started and has failed (`failed`) or not ended. `at`: receives the path of its failure.json. */
static void list_failure(const char *arm, int seed, bool failed, char at[256]) {
    list_run(arm, seed, arm, at);
    run_make_directory(folder, at);
    strcat(at, "/failure.json");
    if (failed) write_json(run_path(folder, at), json_pack("{s:s}", "message", "not-finite"));
}

/* Adds an arm with the same configuration as another, whose runs with seeds 1 to `count` it shares. */
static void add_twin(const char *name, const char *baseline, const char *other, int count) {
    char at[256];
    list_arm(name, baseline, other);
    for (int seed = 1; seed <= count; seed++) list_run(name, seed, other, at);
}

/* Writes experiment.json with the arms and runs added since the previous call, and frees the report. */
static void write_experiment(void) {
    write_json(run_path(folder, "experiment.json"),
               json_pack("{s:s, s:s, s:s, s:f, s:[i], s:{s:s, s:[i, i]}, s:o, s:o}", "title", "t", "question", "q",
                         "kind", kind, "target", target, "seeds", 1, "search", "rungs_of", "train.epochs", "rungs", 1,
                         4, "arms", arms, "runs", runs));
    arms = json_array(), runs = json_array();
    d9_report_free(&context, report);
    report = NULL;
}

static void read_report(void) {
    write_experiment();
    OK(d9_report_read(&context, folder, &report));
}

static const double low[] = {93.9, 94.0, 94.1, 93.95}, high[] = {94.4, 94.5, 94.55, 94.45},
                    near[] = {93.95, 93.9, 94.2, 94.0};

REPORT_TEST(test_differences_are_paired_by_seed) {
    d9_estimate want;
    double p[2], adjusted[2];
    add_arm("base", NULL, 1, 4, low);
    add_arm("better", "base", 1, 4, high);
    add_arm("same", "base", 4, 4, near); /* one seed is shared: no pairs */
    read_report();
    const d9_report_arm *base = &report->arms[0], *better = &report->arms[1], *same = &report->arms[2];
    d9_paired_difference(high, low, 4, 0.95, &want);
    assert_true(better->paired);
    NEAR(better->difference.low, want.low);
    NEAR(better->difference.p, p[0] = want.p);
    d9_welch_difference(near, 4, low, 4, 0.95, &want);
    assert_false(same->paired);
    NEAR(same->difference.high, want.high);
    p[1] = want.p;
    d9_holm(p, 2, adjusted);
    NEAR(better->holm, adjusted[0]);
    NEAR(same->holm, adjusted[1]);
    assert_true(isnan(base->holm) && isnan(base->difference.estimate));
    assert_int_equal(base->met, 2);
    NEAR(base->met_share.share, 0.5);
    assert_int_equal(better->met, 4);
    NEAR(report->runs[4].difference, high[0] - low[0]); /* compared with the run of the same seed */
    assert_int_equal(report->runs[11].seed, 7);
    NEAR(report->runs[11].difference, near[3] - base->sample.mean); /* base has no seed 7: compared with its mean */
    assert_holds(report->verdict, "1 of 2 changes has a clear effect: better +0.4");
    assert_holds(report->verdict, "The other shows none with 4 seeds");
}

/* An arm's runs are sorted by seed, in whatever order experiment.json lists them. */
REPORT_TEST(test_runs_are_sorted_by_seed) {
    add_arm("base", NULL, 1, 4, low);
    add_arm("better", "base", 1, 4, high);
    json_t *first = json_incref(json_array_get(runs, 4));
    json_array_remove(runs, 4);
    json_array_append_new(runs, first);
    read_report();
    const d9_report_arm *better = &report->arms[1];
    assert_true(better->paired);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(better->seeds[i], i + 1);
        NEAR(better->scores[i], high[i]);
    }
}

/* Four comparisons, each significant alone, are not after Holm's correction. */
REPORT_TEST(test_differences_are_corrected_by_holm) {
    double with[4];
    for (int i = 0; i < 4; i++) with[i] = low[i] + (double[]){0.05, 0.15, 0.1, 0.12}[i];
    add_arm("base", NULL, 1, 4, low);
    for (int i = 0; i < 4; i++) add_arm((const char *[]){"a", "b", "c", "d"}[i], "base", 1, 4, with);
    read_report();
    assert_true(report->arms[1].difference.p < 0.05 && report->arms[1].holm > 0.05);
    assert_holds(report->verdict,
                 "None of 4 changes has a clear effect with 4 seeds (Holm's p above 0.05); the largest: ");
}

/* Two seeds give wide intervals, but no accuracy is below 0 or above 100%. */
REPORT_TEST(test_intervals_stay_within_0_and_100) {
    static const double apart[] = {10, 90};
    add_arm("alone", NULL, 1, 2, apart);
    read_report();
    NEAR(report->arms[0].mean.low, 0);
    NEAR(report->arms[0].mean.high, 100);
}

static void write_predictions(const char *arm, int seed, const int32_t *top1, const int32_t *label, int64_t count) {
    static const float confidence[] = {0.5f, 0.75f, 1};
    char at[256];
    const d9_shape shape = {1, {count}};
    const size_t size = (size_t)count * 4;
    const d9_tensor tensors[] = {{"top1", D9_TENSOR_I32, shape, top1, size},
                                 {"confidence", D9_TENSOR_F32, shape, confidence, size},
                                 {"label", D9_TENSOR_I32, shape, label, size}};
    snprintf(at, sizeof at, "runs/%s/seed%d/predictions.safetensors", arm, seed);
    OK(d9_safetensors_write(&context, run_path(folder, at), tensors, 3, NULL, 0));
}

static const d9_report_table *find_table(const char *name) {
    for (int t = 0; t < report->table_count; t++)
        if (strcmp(report->tables[t].name, name) == 0) return &report->tables[t];
    fail_msg("there is no table %s", name);
    return NULL;
}

/* The first of three images, of class 1, was predicted as class 0. */
REPORT_TEST(test_a_confusion_matrix_counts_predictions) {
    static const int32_t top1[] = {0, 0, 1}, label[] = {1, 0, 1};
    add_arm("alone", NULL, 1, 1, high);
    write_predictions("alone", 1, top1, label, 3);
    read_report();
    const d9_report_predictions *predictions = &report->predictions;
    assert_ints(predictions->classes, 2, predictions->counts[2], 1, predictions->counts[1], 0);
    assert_int_equal(predictions->counts[0] + predictions->counts[3], 2);
    const d9_report_table *classes = find_table("classes");
    const d9_report_table_cell *rows = classes->cells; /* the least accurate class first */
    assert_string_equal(classes->columns[3].key, "precision");
    NEAR(rows[3].number, 100);
    NEAR(rows[classes->column_count + 3].number, 50);
    NEAR(rows[classes->column_count + 4].number, 200.0 / 3);
    assert_holds(classes->note, "precision 75.0%, recall 75.0%, F1 66.7%");
    for (int c = 0; c < classes->column_count; c++) /* no more decimals than in the matrix */
        assert_true(classes->columns[c].digits <= 1);
    assert_null(strstr(classes->note, "best"));
}

/* The page shows the predictions of the arm with the best mean, and its note says so. */
REPORT_TEST(test_predictions_are_those_of_the_best_arm) {
    static const int32_t top1[] = {0, 1};
    add_arm("base", NULL, 1, 1, low);
    add_arm("better", "base", 1, 1, high);
    write_predictions("base", 1, top1, top1, 2), write_predictions("better", 1, top1, top1, 2);
    read_report();
    assert_int_equal(report->predictions.arm, 1);
    assert_holds(report->tables[report->table_count - 2].note, "better, the arm with the best mean accuracy");
}

/* Reads column `name` of row `row` (0: the first below the heading) of a data file. */
static const char *field_of(const char *tsv, const char *name, int row) {
    static char field[256];
    int column = 0;
    const size_t length = strlen(name);
    for (const char *at = tsv; strncmp(at, name, length) != 0 || !strchr("\t\n", at[length]); column++, at++)
        assert_non_null(at = strpbrk(at, "\t\n"));
    for (; row >= 0; row--, tsv++) assert_non_null(tsv = strchr(tsv, '\n'));
    for (; column > 0; column--, tsv++) assert_non_null(tsv = strchr(tsv, '\t'));
    snprintf(field, sizeof field, "%.*s", (int)strcspn(tsv, "\t\n"), tsv);
    return field;
}

/* Checks a column. `wanted`: its rows separated by spaces, with "-" for an empty text or a missing number. */
static void assert_column(const char *table_name, const char *key, const char *wanted) {
    const d9_report_table *table = find_table(table_name);
    char got[1024] = "";
    int column = 0;
    while (column < table->column_count && strcmp(table->columns[column].key, key) != 0) column++;
    assert_true(column < table->column_count);
    for (int row = 0; row < table->row_count; row++) {
        const d9_report_table_cell *cell = &table->cells[row * table->column_count + column];
        char text[64] = "-";
        if (cell->text && *cell->text) snprintf(text, sizeof text, "%s", cell->text);
        if (!cell->text && !isnan(cell->number)) snprintf(text, sizeof text, "%.10g", cell->number);
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", row ? " " : "", text);
    }
    assert_string_equal(got, wanted);
}

/* Seeds are 64-bit; 2^53 + 1 is no double. */
REPORT_TEST(test_seeds_are_exact) {
    d9_text *tsv = test_text(), *html = test_text();
    add_arm("alone", NULL, 9007199254740993, 2, low);
    read_report();
    const d9_report_table *table = find_table("runs");
    d9_report_table_tsv(table, tsv), d9_report_table_html(table, html);
    assert_string_equal(field_of(d9_text_get(tsv), "seed", 0), "9007199254740993");
    assert_string_equal(field_of(d9_text_get(tsv), "seed", 1), "9007199254740994");
    assert_holds(d9_text_get(html), "data-value=\"9007199254740993\">9007199254740993</td>");
    json_t *rows = run_json(d9_report_table_json(&context, &report->arena, table));
    assert_true(json_integer_value(json_object_get(json_array_get(rows, 0), "seed")) == 9007199254740993);
    assert_true(json_is_real(json_object_get(json_array_get(rows, 0), "accuracy")));
}

/* If the target changed between runs, all are judged by the newest one. */
REPORT_TEST(test_epochs_reach_a_changed_target) {
    growth = 10;
    for (int seed = 1; seed <= 3; seed++) target = 25 + 20 * seed, add_arm("alone", NULL, seed, 1, low);
    json_array_remove(arms, 2), json_array_remove(arms, 1);
    read_report();
    assert_true(report->arms[0].target == 85);
    assert_column("runs", "epoch_to_target", "9 9 9");
}

/* If there are many classes, the table lists those that are predicted worst. The runs need not have predicted the same
 * classes. */
REPORT_TEST(test_many_classes_have_a_table) {
    static const int32_t top1[] = {0, 119, 1}, label[] = {1, 0, 1}, fewer[] = {1, 0, 1};
    add_arm("alone", NULL, 1, 2, high);
    write_predictions("alone", 2, top1, label, 3), write_predictions("alone", 1, fewer, fewer, 3);
    read_report();
    const d9_report_predictions *predictions = &report->predictions;
    assert_ints(predictions->classes, 120, predictions->runs, 2, predictions->counts[119], 1, predictions->counts[120],
                1);
    assert_ints(predictions->counts[0], 1, predictions->counts[121], 3);
    assert_int_equal(find_table("classes")->row_count, 100);
    assert_holds(find_table("classes")->note, " The 100 least accurate of 120 classes. ");
    assert_column("confusions", "answer", "119 0");
}

/* Arms of which some runs are missing are compared by the seeds that both finished. */
REPORT_TEST(test_partly_finished_arms_are_paired_by_their_common_seeds) {
    add_arm("base", NULL, 1, 4, (const double[]){20, 50, 60, 95});
    add_arm("ahead", "base", 1, 3, (const double[]){20.5, 50.7, 60.6});
    add_arm("equal", "base", 2, 2, (const double[]){50, 60});
    read_report();
    NEAR(report->arms[1].difference.estimate, 0.6);
    NEAR(report->arms[1].welch.estimate, 131.8 / 3 - 56.25); /* of all runs */
    NEAR(report->arms[2].difference.estimate, 0);
    assert_column("effects", "runs", "3 2");
    assert_column("effects", "by", "paired paired");
    assert_holds(report->verdict, "none with 2 seeds");
    add_arm("plain,train.epochs=10", NULL, 1, 3, (const double[]){20, 50, 20});
    add_arm("plain,train.epochs=20", NULL, 1, 2, (const double[]){40, 70});
    add_arm("tricks,train.epochs=10", "plain,train.epochs=10", 1, 2, (const double[]){30, 60});
    read_report();
    NEAR(report->arms[2].epochs_saved, 4); /* +10 points, which the curve gains from 10 to 14 epochs */
}

/* The number of compared runs is 0 if the baseline has no finished run or shares all its runs with the arm. */
REPORT_TEST(test_a_comparison_counts_its_runs) {
    add_arm("never ran", NULL, 1, 0, NULL);
    add_arm("alone", "never ran", 1, 1, low);
    add_arm("base", NULL, 1, 4, low);
    add_arm("better", "base", 1, 3, high);
    add_twin("twin", "base", "base", 4);
    read_report();
    assert_column("effects", "runs", "0 3 0");
}

/* The mean of three runs has a band, that of two has none. */
REPORT_TEST(test_bands_need_three_runs) {
    for (int count = 2; count <= 3; count++) {
        d9_text *tsv = test_text();
        add_arm("a,train.epochs=10", NULL, 1, count, low);
        add_arm("a,train.epochs=20", NULL, 1, 4, high);
        read_report();
        OK(d9_report_score_means(report, tsv));
        assert_int_equal(strlen(field_of(d9_text_get(tsv), "low", 0)) > 0, count == 3);
        assert_int_equal(strlen(field_of(d9_text_get(tsv), "high", 0)) > 0, count == 3);
        assert_true(strlen(field_of(d9_text_get(tsv), "low", 1)) > 0);
    }
}

/* The lines above the bar of a row hold its whole name, and fit a narrow screen. */
REPORT_TEST(test_lines_of_the_forest_plot_fit_a_narrow_screen) {
    static const char *const name = "an arm whose \u00fcber-long name has more characters than fit into one line of a "
                                    "narrow-screen-with-an-unbreakable-word-that-is-itself-longer-than-the-line";
    d9_text *tsv = test_text(), *whole = test_text();
    add_arm("base", NULL, 1, 4, low);
    add_arm("short", "base", 1, 4, near);
    add_twin(name, "base", "short", 4);
    read_report();
    OK(d9_report_forest_lines(report, tsv));
    assert_holds(d9_text_get(tsv), "\tagainst base\t0\n"); /* the heading of the group */
    for (const char *line = strchr(d9_text_get(tsv), '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        const char *words = strchr(line, '\t') + 1, *character = words;
        int characters = 0;
        for (; *character != '\t'; characters++) d9_text_next(&character);
        assert_true(characters > 0 && characters <= D9_REPORT_LABEL_LINE);
        d9_text_add(whole, "%.*s", (int)(character - words), words);
    }
    assert_holds(d9_text_get(whole), name);
    assert_holds(d9_text_get(whole), "p\u00a0");
}

/* Epochs saved by an arm: those after which the curve of its baseline reaches its accuracy, minus its own epochs. */
REPORT_TEST(test_epochs_saved_follow_the_curve_of_the_baseline) {
    const double at10[] = {93, 93.2}, at20[] = {94, 94.2}, at40[] = {95, 95.2}, best[] = {94.49, 94.71};
    add_arm("plain,train.epochs=20", NULL, 1, 2, at20);
    add_arm("plain,train.epochs=10", NULL, 1, 2, at10);
    add_arm("plain,train.epochs=40", NULL, 1, 2, at40);
    add_arm("tricks,train.epochs=10", "plain,train.epochs=10", 1, 2, best);
    read_report();
    assert_true(report->sweep);
    assert_int_equal(report->series_count, 2);
    assert_string_equal(report->series[0].label, "plain");
    assert_int_equal(report->arms[0].series, report->arms[2].series);
    NEAR(report->arms[3].epochs_saved, 20); /* 94.6 is halfway between 20 and 40 epochs: 30 - 10 */
    assert_true(isnan(report->arms[0].epochs_saved));
    assert_holds(report->verdict, "this equals 20.0 epochs.");
}

/* Labels are only for display: arms with equal labels do not form a series. */
REPORT_TEST(test_equal_labels_make_no_series) {
    for (int i = 0; i < 2; i++) {
        add_arm(i ? "a" : "b", NULL, 1, 2, low);
        json_object_set_new(json_array_get(arms, (size_t)i), "label", json_string("X"));
    }
    read_report();
    assert_int_equal(report->series_count, 2);
    assert_string_equal(report->series[1].label, "X");
    assert_false(report->sweep);
}

static const double confused[] = {120, 121, 119, 120.5}, sure[] = {110, 111.5, 109, 110};

/* The lowest perplexity is the best, in the verdict, in the order of differences and against the target of each arm.
 */
REPORT_TEST(test_lower_is_better) {
    d9_text *scores = test_text(), *differences = test_text();
    measured = "perplexity", target = 119;
    add_arm("base", NULL, 1, 4, confused);
    target = 110;
    add_arm("better", "base", 1, 4, sure);
    read_report();
    assert_int_equal(report->arms[0].met, 1); /* 119 is not above the target */
    assert_int_equal(report->arms[1].met, 3);
    assert_true(isnan(report->target)); /* the arms have none in common */
    assert_true(report->arms[1].target == 110);
    assert_holds(report->verdict, "better is better than base: " MINUS "10.00 [");
    assert_string_equal(report->tables[0].columns[1].key, "perplexity");
    assert_string_equal(report->tables[0].columns[1].heading, "Perplexity");
    OK(d9_report_score_runs(report, scores));
    assert_holds(d9_text_get(scores), "rank\tarm\tseed\tepoch\tperplexity\n");
    add_arm("base", NULL, 1, 4, confused);
    add_arm("better", "base", 1, 4, sure);
    add_arm("worse", "base", 1, 4, (const double[]){140, 141, 142, 139.5});
    read_report();
    OK(d9_report_forest(report, differences));
    assert_true(strstr(d9_text_get(differences), "better") < strstr(d9_text_get(differences), "worse"));
    add_arm("base", NULL, 1, 4, confused);
    add_arm("better", NULL, 1, 4, sure);
    read_report();
    assert_holds(report->verdict, "better has the lowest mean perplexity, 110.12 [");
    assert_holds(report->verdict, "base follows, +10.00 [");
}

/* A curve of perplexities falls; intervals do not end at 100. */
REPORT_TEST(test_epochs_saved_follow_a_falling_curve) {
    const double at10[] = {200, 202}, at20[] = {150, 152}, best[] = {175, 177};
    measured = "perplexity";
    add_arm("plain,train.epochs=10", NULL, 1, 2, at10);
    add_arm("plain,train.epochs=20", NULL, 1, 2, at20);
    add_arm("tricks,train.epochs=10", "plain,train.epochs=10", 1, 2, best);
    read_report();
    NEAR(report->arms[2].epochs_saved, 5); /* 176 is halfway between 10 and 20 epochs: 15 - 10 */
    assert_true(report->arms[0].mean.high > 205);
}

REPORT_TEST(test_runs_of_two_measures_are_rejected) {
    add_arm("base", NULL, 1, 4, low);
    measured = "perplexity";
    add_arm("other", NULL, 1, 4, confused);
    write_experiment();
    assert_int_equal(d9_report_read(&context, folder, &report), D9_DATA);
    assert_holds(context.message, "perplexity");
    assert_holds(context.message, "accuracy");
    d9_context_clear(&context);
}

/* Runs that stopped early count, in curves too, with the epochs that they trained, also if two arms of a series then
 * have the same number. */
REPORT_TEST(test_runs_that_stopped_early_count_their_own_epochs) {
    const double at10[] = {93, 93.2}, at40[] = {94, 94.2}, at80[] = {94.1, 94.3}, best[] = {93.49, 93.71};
    d9_text *text = test_text();
    add_arm("plain,train.epochs=10", NULL, 1, 2, at10);
    stops_after = 30;
    add_arm("plain,train.epochs=80", NULL, 1, 2, at80);
    add_arm("plain,train.epochs=40", NULL, 1, 2, at40);
    stops_after = 5;
    add_arm("tricks,train.epochs=10", "plain,train.epochs=10", 1, 2, best);
    stops_after = 1000;
    read_report();
    /* the curve has 93.1 after 10 epochs, 94.1 and 94.2 after 30, so 93.6 after about 20; the arm trained 5 */
    assert_true(report->arms[3].epochs_saved > 10 && report->arms[3].epochs_saved < 20);
    OK(d9_report_score_runs(report, text));
    assert_holds(d9_text_get(text), "\t1\t30\t94.1\n");
    assert_holds(d9_text_get(text), "\t1\t5\t93.49\n");
    assert_null(strstr(d9_text_get(text), "\t80\t"));
    text = test_text();
    OK(d9_report_score_means(report, text));
    assert_holds(d9_text_get(text), "\tplain\t30\t94.2\t");
    assert_holds(d9_text_get(text), "\tplain\t30\t94.1\t");
    assert_holds(d9_text_get(text), "\ttricks\t5\t93.6\t");
}

/* Each row: arms (`of`: the arm whose runs it shares, or NULL), parts of the verdict, and a part that it must lack. */
REPORT_TEST(test_verdicts_follow_from_the_runs) {
    static const double with[] = {94.21, 94.5}, without[] = {94.01, 94.3}, same[] = {94.3, 94.3},
                        rest[] = {93.0, 93.1, 93.2, 93.1}, apart[] = {10, 90}, below[] = {60, 20},
                        first[] = {94.3, 94.5, 94.4, 94.6}, second[] = {94.1, 94.2, 94.3, 94.2};
    static const struct {
        struct {
            const char *name, *baseline, *of;
            int count;
            const double *scores;
        } arms[5];
        const char *holds[3], *lacks;
    } rows[] = {
        {{{"base", NULL, NULL, 4, low}, {"same", "base", NULL, 4, near}},
         {"same and base cannot be told apart with 4 seeds: +0.0",
          "an interval that spans zero. Detecting 0.1 points would take about "},
         NULL},
        /* two seeds with the same difference: an estimate without a verdict */
        {{{"base", NULL, NULL, 2, without}, {"trick", "base", NULL, 2, with}},
         {"trick against base: +0.20 points, the runs show no variance"},
         NULL},
        {{{"alone", NULL, NULL, 2, same}}, {"not distinguished from the target: the runs show no variance"}, NULL},
        {{{"alone", NULL, NULL, 4, high}},
         {"4 runs: mean 94.47% [94.37, 94.58]", "4 of 4 reach 94%; the mean is above the target."},
         NULL},
        {{{"a", NULL, NULL, 4, low}, {"b", NULL, NULL, 4, near}},
         {"b has the highest mean accuracy, 94.01%", "the interval spans zero, so these runs do not distinguish them"},
         NULL},
        /* the best of five is picked from ten pairs, so an interval for two arms is too narrow */
        {{{"a", NULL, NULL, 4, first}, {"b", NULL, NULL, 4, second}},
         {"b follows, " MINUS "0.25 points [" MINUS "0.4"},
         "spans zero"},
        {{{"a", NULL, NULL, 4, first},
          {"b", NULL, NULL, 4, second},
          {"c", NULL, NULL, 4, rest},
          {"d", NULL, NULL, 4, rest},
          {"e", NULL, NULL, 4, rest}},
         {"(99.5% interval, corrected for 10 pairs): the interval spans zero"},
         NULL},
        /* the best two arms share their runs, so a is compared with b, a single pair */
        {{{"a", NULL, NULL, 4, high}, {"b", NULL, NULL, 4, low}, {"twin", NULL, "a", 4, NULL}},
         {"a has the highest mean accuracy, 94.47%", "; b follows, " MINUS "0.49 points"},
         "pairs"},
        {{{"a", NULL, NULL, 4, high}, {"twin", "a", "a", 4, NULL}},
         {"The 2 arms have identical configurations and share their runs", " 4 runs: mean 94.47%"},
         NULL},
        {{{"a", NULL, NULL, 4, high},
          {"late", NULL, NULL, 0, NULL},
          {"b", "late", NULL, 4, low},
          {"twin", "late", "a", 4, NULL}},
         {"; b follows, "}, /* the baseline has no run yet */
         NULL},
        /* no difference is beyond 100 points */
        {{{"wide", NULL, NULL, 2, apart}, {"other", NULL, NULL, 2, below}},
         {"[" MINUS "100.00, 100.00]: the interval spans zero"},
         NULL},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int a = 0; a < 5 && rows[r].arms[a].name; a++)
            if (rows[r].arms[a].of)
                add_twin(rows[r].arms[a].name, rows[r].arms[a].baseline, rows[r].arms[a].of, rows[r].arms[a].count);
            else
                add_arm(rows[r].arms[a].name, rows[r].arms[a].baseline, 1, rows[r].arms[a].count,
                        rows[r].arms[a].scores);
        read_report();
        for (int h = 0; h < 3 && rows[r].holds[h]; h++) assert_holds(report->verdict, rows[r].holds[h]);
        if (rows[r].lacks && strstr(report->verdict, rows[r].lacks)) fail_msg("%s", report->verdict);
        if (r == 0) assert_true(report->arms[1].seeds_needed > 4);
        if (r == 1) assert_true(isnan(report->arms[1].holm) && isnan(report->arms[1].difference.p));
        if (r == 7)
            assert_true(report->arms[2].runs_of == &report->arms[0] && report->arms[1].runs_of == &report->arms[1]);
    }
}

/* Two arms that compare the same two sets of runs, in opposite directions, are one comparison. */
REPORT_TEST(test_a_comparison_counts_once) {
    add_arm("full", NULL, 1, 4, high);
    add_arm("without", "full", 1, 4, low);
    add_twin("plain", NULL, "without", 4);
    add_twin("with", "plain", "full", 4);
    read_report();
    NEAR(report->arms[1].holm, report->arms[1].difference.p);
    NEAR(report->arms[3].holm, report->arms[1].difference.p);
    NEAR(report->arms[3].difference.estimate, -report->arms[1].difference.estimate);
    assert_holds(report->verdict, "without is worse than full: ");
}

/* Runs with equal test_digest are compared; those with data.validation or no test_digest only if all data is equal. */
REPORT_TEST(test_equal_test_images_are_compared) {
    static const struct {
        const char *data[2], *test[2];
        int validation[2];
        bool compared;
    } rows[] = {{{"a", "b"}, {"t", "t"}, {0}, true},       {{"a", "b"}, {"t", "u"}, {0}, false},
                {{"a", "b"}, {NULL, "t"}, {0}, false},     {{"a", "a"}, {NULL, "t"}, {0}, true},
                {{"a", "b"}, {"t", "t"}, {64, 64}, false}, {{"a", "a"}, {"t", "t"}, {64, 64}, true},
                {{NULL}, {NULL}, {0, 64}, false}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int a = 0; a < 2; a++) {
            data_digest = rows[r].data[a], test_digest = rows[r].test[a], validation = rows[r].validation[a];
            add_arm(a ? "cleaned" : "raw", a ? "raw" : NULL, 1, 4, a ? high : low);
        }
        read_report();
        assert_int_equal(isnan(report->arms[1].holm) || isnan(report->runs[4].difference), !rows[r].compared);
        assert_int_equal(report->problems.count, rows[r].compared || !data_digest ? 0 : 4);
        assert_int_equal(strstr(report->notes.items[0], "trained on other ") != NULL, r == 0);
        assert_int_equal(strstr(report->verdict, "not all evaluated on the same") == NULL, rows[r].compared);
    }
    data_digest = "a", test_digest = "t", validation = 0, add_arm("raw", NULL, 1, 1, low);
    data_digest = "b", add_arm("raw", NULL, 2, 1, low); /* runs of one arm must be trained on equal images */
    json_array_remove(arms, 1), read_report();
    assert_holds(report->problems.items[0], "trained on other ");
}

/* With other columns of the evaluated text, other words are scored. For images, eval.streams has no effect. */
REPORT_TEST(test_other_columns_are_other_words) {
    for (int words = 0; words < 2; words++) {
        network = words ? "language" : "resnet9", data_digest = "a";
        for (streams = 2; streams <= 4; streams += 2)
            add_arm(streams > 2 ? "columns" : "base", streams > 2 ? "base" : NULL, 1, 2, low);
        read_report();
        assert_int_equal(report->arms[1].comparable, !words);
        assert_int_equal(report->problems.count, words);
    }
    assert_holds(report->problems.items[0], "eval.streams is 4, not 2");
    assert_holds(report->verdict, "evaluated on the same windows");
}

/* The verdict names the arms whose runs failed, each once; runs that were not finished are missing. */
REPORT_TEST(test_failed_arms_are_named) {
    char at[256];
    add_arm("base", NULL, 1, 3, low);
    list_arm("bad", "base", "bad");
    for (int seed = 1; seed <= 3; seed++) list_failure("bad", seed, seed < 3, at);
    read_report();
    assert_holds(report->verdict, " 2 of 6 runs failed: bad. 1 of 6 runs is missing.");
}

/* ---- a search ---- */

static void add_trial(const char *name, double cost, double score) {
    teraflop = cost;
    add_arm(name, NULL, 1, 1, &score);
    json_object_set_new(json_array_get(arms, json_array_size(arms) - 1), "grid",
                        json_pack("{s:f, s:s}", "train.momentum", cost / 100, "tricks.flip", "on"));
}

/* Trial a is promoted; b is cheaper and worse; c costs as much as b and is worse; d's values were rejected; e's run
 * failed; f equals b. A run without a folder was never started, and is not missing. */
REPORT_TEST(test_a_search_has_trials_and_a_frontier) {
    char at[256];
    kind = "search";
    add_trial("a,train.epochs=1", 10, 80), add_trial("a,train.epochs=4", 40, 90);
    add_trial("b,train.epochs=1", 8, 70);
    list_arm("b,train.epochs=4", NULL, "b4"), list_run("b,train.epochs=4", 1, "b,train.epochs=4", at);
    add_trial("c,train.epochs=1", 8, 60);
    list_arm("d,train.epochs=1", NULL, "");
    json_object_set_new(json_array_get(arms, 5), "rejected", json_string("too-large"));
    list_arm("e,train.epochs=1", NULL, "e1"), list_failure("e,train.epochs=1", 1, true, at);
    add_trial("f,train.epochs=1", 8, 70);
    read_report();
    assert_column("trials", "trial",
                  "a,train.epochs=4 b,train.epochs=1 c,train.epochs=1 d,train.epochs=1 e,train.epochs=1 "
                  "f,train.epochs=1");
    assert_column("trials", "rung", "2 1 1 0 0 1");
    assert_column("trials", "frontier", "yes yes - - - -");
    assert_column("trials", "failure", "- - - too-large not-finite -");
    assert_column("trials", "teraflop", "40.5 8.5 8.5 - - 8.5");
    assert_column("trials", "tricks.flip", "on on on - - on");
    assert_column("frontier", "trial", "b,train.epochs=1 a,train.epochs=1 a,train.epochs=4");
    assert_column("frontier", "accuracy", "70 80 90");
    assert_column("frontier", "rung", "1 1 2");
    assert_column("frontier", "train.momentum", "0.08 0.1 0.4");
    assert_ints(report->problems.count, 0, report->run_count - report->finished, 1);
    assert_holds(report->verdict, "1 of 6 trials finished rung 2, the highest that was reached; 2 failed. Of these "
                                  "a,train.epochs=4 is best: 90.00% with 40.5 TFLOP");
    assert_holds(report->verdict, "3 configurations, from 70.00% with 8.5 TFLOP to 90.00% with 40.5 TFLOP");
}

/* If no trial has finished the first rung, there is no highest rung that was reached. */
REPORT_TEST(test_a_search_may_end_in_its_first_rung) {
    kind = "search";
    list_arm("a,train.epochs=1", NULL, "a1"), add_trial("a,train.epochs=4", 40, 90);
    read_report();
    assert_column("trials", "rung", "0");
    assert_holds(report->verdict, "None of 1 trials has finished rung 1");
}

/* A lower perplexity is better. */
REPORT_TEST(test_the_frontier_follows_the_measure) {
    kind = "search", measured = "perplexity";
    add_trial("a,train.epochs=1", 12.3456, 120), add_trial("b,train.epochs=1", 20, 130),
        add_trial("c,train.epochs=1", 30, 100);
    read_report();
    assert_column("frontier", "perplexity", "120 100");
    d9_text *html = test_text();
    d9_report_table_html(find_table("frontier"), html);
    assert_holds(d9_text_get(html), ">0.123456</td>"); /* the drawn value, all its digits */
}
