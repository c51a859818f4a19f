/* eval.tta: the evaluations that compute all views, and the scores that decide the best epoch, early stopping, a
 * plateau of the learning rate and the target. Scores of trained runs are perplexities, which differ in every epoch and
 * view; lower is better. */
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "train/trainer.h"

typedef struct fixture {
    d9_config *config;   /* eight epochs, two views, 10 validation images */
    d9_result all_views; /* of a run that computes all views in every evaluation */
    const char *folder;
} fixture;

static void free_result(void *result) { d9_result_free(&context, result); }

static int set_up(void **state) {
    static fixture b;
    b.config = run_config("reference", "f32", "");
    b.config->measure = d9_measure_find("perplexity");
    b.config->data.validation = 10, b.config->train.epochs = 8, b.config->target = 0;
    b.config->eval.tta = D9_EVAL_TTA_EVERY;
    OK(d9_train(&context, &(d9_train_options){.config = b.config, .seed = 5}, &b.all_views));
    test_keep(&b.all_views, free_result);
    b.config->eval.tta = D9_EVAL_TTA_LAST;
    b.folder = run_folder_new();
    *state = &b;
    return 0;
}

/* A run's result, which lives until the test ends. */
static const d9_result *train(const fixture *b) {
    d9_result *result = test_memory(sizeof *result);
    OK(d9_train(&context, &(d9_train_options){.config = b->config, .seed = 5, .out = b->folder, .overwrite = true},
                result));
    return test_keep(result, free_result);
}

static double plain(const d9_result *result, int64_t row) { return result->epochs[row].score; }
static double with_views(const d9_result *result, int64_t row) { return result->epochs[row].score_tta; }
typedef double (*score_function)(const d9_result *result, int64_t row);
/* Returns the scores that decide the best epoch, early stopping and the plateau under this eval.tta. */
static score_function deciding_scores(int tta) { return tta == D9_EVAL_TTA_EVERY ? with_views : plain; }

static int64_t lowest_row(const d9_result *result, score_function score, int64_t rows) {
    int64_t best = 0;
    for (int64_t e = 1; e < rows; e++)
        if (score(result, e) < score(result, best)) best = e;
    return best;
}

/* The number of epochs after which early stopping ends the run. */
static int64_t early_stop_epochs(const d9_result *result, score_function score, int64_t patience) {
    int64_t rows = 1;
    while (rows < result->epoch_count && rows - 1 - lowest_row(result, score, rows) < patience) rows++;
    return rows;
}

static bool has_views(const d9_result *result, int64_t row) { return !isnan(with_views(result, row)); }

/* The scores in each row must equal those of the run that computes all views. */
static void check_rows(const fixture *b, const d9_result *result) {
    for (int64_t e = 0; e < result->epoch_count; e++) {
        assert_true(plain(result, e) == plain(&b->all_views, e));
        assert_true(result->epochs[e].eval_loss == b->all_views.epochs[e].eval_loss);
        if (has_views(result, e)) assert_true(with_views(result, e) == with_views(&b->all_views, e));
    }
}

static int count_segments(const d9_result *result, d9_segment_kind kind) {
    int count = 0;
    for (int i = 0; i < result->timeline->count; i++) count += result->timeline->segments[i].kind == kind;
    return count;
}

/* The expected values were worked out by hand. A score of 0 means: not evaluated after that epoch. */
TEST(best_row_target_and_patience_equal_those_by_hand) {
    static const struct {
        double plain[4], views[4];
        int tta;
        int64_t best, first; /* row, -1: none; epoch that reaches a target of 5, 0: none */
        bool stops;          /* by a patience of 2 */
        const char *measure; /* NULL: perplexity */
    } rows[] = {
        {{7, 6, 8, 9}, {7, 8, 6, 6.5}, D9_EVAL_TTA_LAST, 1, 0, true, NULL},
        {{7, 6, 8, 9}, {7, 8, 6, 6.5}, D9_EVAL_TTA_EVERY, 2, 0, false, NULL},
        {{7, 6, 6, 6}, {7, 6, 6, 6}, D9_EVAL_TTA_EVERY, 1, 0, true, NULL},
        {{9, 8, 7, 6}, {0, 0, 0, 5}, D9_EVAL_TTA_LAST, 3, 4, false, NULL},
        {{9, 5, 4, 6}, {0, 0, 0, 6}, D9_EVAL_TTA_LAST, 2, 2, false, NULL},
        {{9, 5, 4, 4}, {9, 6, 6, 3}, D9_EVAL_TTA_EVERY, 3, 4, false, NULL},
        {{0, 5, 0, 6}, {0, 5, 0, 6}, D9_EVAL_TTA_LAST, 1, 2, true, NULL},
        {{0, 0, 0, 0}, {0, 0, 0, 0}, D9_EVAL_TTA_LAST, -1, 0, false, NULL},
        {{1, 6, 7, 2}, {1, 4, 5, 5}, D9_EVAL_TTA_EVERY, 2, 3, false, "accuracy"},
        {{1, 6, 4, 5}, {0, 0, 0, 9}, D9_EVAL_TTA_LAST, 1, 2, true, "accuracy"},
    };
    for (int r = 0; r < (int)(sizeof rows / sizeof *rows); r++) {
        d9_epoch_row epochs[4] = {0};
        const d9_config config = {.eval = {.tta = rows[r].tta, .patience = 2},
                                  .measure = d9_measure_find(rows[r].measure ? rows[r].measure : "perplexity"),
                                  .target = 5};
        const d9_result result = {.config = &config, .epochs = epochs, .epoch_count = 4};
        for (int e = 0; e < 4; e++)
            epochs[e] = (d9_epoch_row){.epoch = e + 1,
                                       .score = rows[r].plain[e] > 0 ? rows[r].plain[e] : NAN,
                                       .score_tta = rows[r].views[e] > 0 ? rows[r].views[e] : NAN};
        if (d9_best_row(&result) != rows[r].best || d9_epoch_to_target(&result) != rows[r].first ||
            d9_out_of_patience(&result) != rows[r].stops)
            fail_msg("row %d: best %lld, target %lld, stops %d", r, (long long)d9_best_row(&result),
                     (long long)d9_epoch_to_target(&result), d9_out_of_patience(&result));
    }
}

/* eval.tta `last` changes neither the parameters nor the final scores; only the last row has a score with all views. */
TEST_WITH(fixture *b, only_the_last_evaluation_has_all_views, set_up) {
    const d9_result *last = train(b);
    assert_string_equal(last->params_sha256, b->all_views.params_sha256);
    assert_true(last->score == b->all_views.score && last->score_tta == b->all_views.score_tta &&
                last->score != last->score_tta);
    assert_int_equal(last->epoch_count, 8);
    check_rows(b, last);
    for (int64_t e = 0; e < 8; e++) assert_int_equal(has_views(last, e), e == 7);
    assert_ints(count_segments(last, D9_SEGMENT_EVALUATE), 7, count_segments(last, D9_SEGMENT_FINAL_EVALUATE), 1);
}

/* The score with all views decides if the target is met, or the plain score in epochs evaluated without all views. */
TEST_WITH(fixture *b, target_is_met_by_the_scores_of_eval_tta, set_up) {
    for (int tta = D9_EVAL_TTA_LAST; tta <= D9_EVAL_TTA_EVERY; tta++) {
        const int64_t best = lowest_row(&b->all_views, deciding_scores(tta), 7);
        b->config->eval.tta = tta;
        b->config->target = deciding_scores(tta)(&b->all_views, best);
        assert_int_equal(train(b)->epoch_to_target, best + 1);
    }
}

/* keep: best follows the plain scores or, with `every`, those with all views; each model that is kept is evaluated with
 * all views. */
TEST_WITH(fixture *b, best_follows_the_scores_of_eval_tta, set_up) {
    b->config->keep = D9_KEEP_BEST;
    for (int tta = D9_EVAL_TTA_LAST; tta <= D9_EVAL_TTA_EVERY; tta++) {
        const int64_t best = lowest_row(&b->all_views, deciding_scores(tta), 8);
        b->config->eval.tta = tta;
        const d9_result *result = train(b);
        assert_int_equal(result->best_epoch, best + 1);
        assert_true(result->score == plain(&b->all_views, best) &&
                    result->score_tta == with_views(&b->all_views, best));
        check_rows(b, result);
        for (int64_t e = 0; e < 8 && tta == D9_EVAL_TTA_LAST; e++)
            assert_int_equal(has_views(result, e), e == 7 || lowest_row(result, plain, e + 1) == e);
    }
    b->config->eval.tta = D9_EVAL_TTA_LAST;
    b->config->eval.patience = 3;
    run_check_resume(b->config, (const int64_t[]){7, 12, 0});
}

/* The last of the evaluations in the timeline must be the final one. */
static void assert_last_evaluation_is_final(const d9_result *result) {
    const d9_segment *last = result->timeline->segments + result->timeline->count - 1;
    while (last->kind != D9_SEGMENT_EVALUATE && last->kind != D9_SEGMENT_FINAL_EVALUATE) last--;
    assert_int_equal(last->kind, D9_SEGMENT_FINAL_EVALUATE);
}

/* Early stopping follows the plain scores or, with `every`, those with all views; the last model is evaluated with all
 * views. */
TEST_WITH(fixture *b, patience_follows_the_scores_of_eval_tta, set_up) {
    b->config->eval.patience = 1;
    for (int tta = D9_EVAL_TTA_EVERY; tta >= D9_EVAL_TTA_LAST; tta--) {
        const int64_t rows = early_stop_epochs(&b->all_views, deciding_scores(tta), 1);
        b->config->eval.tta = tta;
        assert_true(rows > 1 && rows < 8);
        const d9_result *result = train(b);
        assert_int_equal(result->epoch_count, rows);
        check_rows(b, result);
        assert_true(result->score_tta == with_views(&b->all_views, rows - 1));
        if (tta == D9_EVAL_TTA_EVERY) continue;
        for (int64_t e = 0; e < rows; e++) assert_int_equal(has_views(result, e), e == rows - 1);
        assert_ints(count_segments(result, D9_SEGMENT_EVALUATE), rows,
                    count_segments(result, D9_SEGMENT_FINAL_EVALUATE), 1);
        assert_last_evaluation_is_final(result);
    }
}

/* Starts or resumes the run with seed 10, and stops it in the epoch after `epochs`. False: resuming was rejected. */
static bool resumes(const fixture *b, int tta, int64_t epochs) {
    b->config->eval.tta = tta;
    const d9_train_options options = {.config = b->config,
                                      .seed = 10, /* the best of three epochs is 3 by the plain view, 1 by all */
                                      .out = b->folder,
                                      .resume = true,
                                      .stop_after_steps = epochs * b->all_views.steps / 8 + 1};
    const run_report part = run_train(&options, NULL);
    if (part.status == D9_SIGINT) return true;
    assert_int_equal(part.status, D9_USAGE);
    assert_words(part.message, "best 3 not kept eval.tta");
    return false;
}

/* With another eval.tta, another epoch may be the best. Resuming with it must be rejected if the kept model is of the
 * previously best epoch, unless the checkpoint is older than the new best epoch, which is then trained again. */
TEST_WITH(fixture *b, a_kept_model_of_another_epoch_is_rejected, set_up) {
    const char *path = run_path(b->folder, "checkpoint.safetensors");
    size_t size;
    b->config->keep = D9_KEEP_BEST;
    assert_true(resumes(b, D9_EVAL_TTA_EVERY, 1));
    const uint8_t *bytes = run_read_file(path, &size);
    assert_true(resumes(b, D9_EVAL_TTA_EVERY, 3));
    assert_false(resumes(b, D9_EVAL_TTA_LAST, 3));
    for (int killed = 0; killed < 2; killed++) { /* the second time, epoch 3 was already kept */
        OK(d9_file_write(&context, path, bytes, size));
        assert_true(resumes(b, D9_EVAL_TTA_LAST, 3));
    }
}

/* train.plateau follows the plain scores or, with `every`, those with all views. */
TEST_WITH(fixture *b, plateau_follows_the_scores_of_eval_tta, set_up) {
    b->config->train.plateau = 0.5;
    for (int tta = D9_EVAL_TTA_LAST; tta <= D9_EVAL_TTA_EVERY; tta++) {
        double factor = 1;
        b->config->eval.tta = tta;
        const d9_result *result = train(b);
        for (int64_t e = 0; e < 8; e++) {
            assert_true(fabs(result->epochs[e].learning_rate - factor * b->all_views.epochs[e].learning_rate) < 1e-12);
            if (lowest_row(result, deciding_scores(tta), e + 1) != e) factor /= 2;
        }
        assert_true(factor < 1);
    }
}

typedef struct watched {
    volatile sig_atomic_t interrupt;
    int64_t evaluations, stop_in, last_seen; /* evaluations: finished ones; last_seen: inferences of this one */
} watched;

/* Interrupts evaluation number `stop_in`, from 0; -1: none. An evaluation has 10 inferences, with both views 20. */
static void on_evaluated(void *user, const d9_program *program, int64_t seen, int64_t all) {
    watched *w = user;
    (void)program;
    assert_true(seen > w->last_seen && seen <= all && (all == 10 || all == 20));
    w->last_seen = seen < all ? seen : 0;
    if (w->evaluations == w->stop_in) w->interrupt = SIGTERM;
    w->evaluations += seen == all;
}

/* With early stopping, the final evaluation of the timeline is the repeated one, not the one that was interrupted. */
TEST_WITH(fixture *b, an_interrupted_last_evaluation_is_not_final, set_up) {
    d9_result result;
    b->config->eval.patience = 1, b->config->eval.tta = D9_EVAL_TTA_EVERY;
    const int64_t rows = early_stop_epochs(&b->all_views, with_views, 1);
    watched w = {.stop_in = rows - 1};
    d9_train_options options = {.config = b->config,
                                .seed = 5,
                                .out = b->folder,
                                .overwrite = true,
                                .observer = {.user = &w, .evaluation_progress = on_evaluated}};
    assert_true(rows > 1 && rows < 8);
    context.interrupt = &w.interrupt;
    assert_int_equal(run_train(&options, NULL).status, D9_SIGTERM);
    w = (watched){.stop_in = -1};
    options.overwrite = false, options.resume = true;
    OK(d9_train(&context, &options, &result));
    assert_ints(result.epoch_count, rows, count_segments(&result, D9_SEGMENT_FINAL_EVALUATE), 1);
    assert_last_evaluation_is_final(&result);
    d9_result_free(&context, &result);
}

/* An interrupt in either of an epoch's two evaluations leaves no half of its row: the resumed run repeats both. */
TEST_WITH(fixture *b, an_interrupted_evaluation_is_repeated, set_up) {
    b->config->keep = D9_KEEP_BEST;
    const run_report whole = run_train_ok(&(d9_train_options){.config = b->config, .seed = 5});
    for (int stop = 0; stop < 2; stop++) {
        watched w = {.stop_in = stop};
        context.interrupt = &w.interrupt;
        d9_train_options options = {.config = b->config,
                                    .seed = 5,
                                    .out = b->folder,
                                    .overwrite = true,
                                    .observer = {.user = &w, .evaluation_progress = on_evaluated}};
        assert_int_equal(run_train(&options, NULL).status, D9_SIGTERM);
        assert_int_equal(w.evaluations, stop);
        w = (watched){.stop_in = -1};
        options.overwrite = false, options.resume = true;
        const run_report rest = run_train_ok(&options);
        run_assert_equal(&rest, &whole, "interrupted in an evaluation");
        assert_true(w.evaluations > 8);
    }
}
