/* The trainer on the reference backend: runs repeated, stopped and resumed; checkpoints, evaluations, interrupts,
 * observers, non-finite losses, saved models. trainer_faults.c tests failures of the disk. */
#include "exchange/model.h"
#include "graph/op.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "train/evaluation.h"

#define RUN_TEST(name) TEST_WITH(run_fixture *b, name, run_fixture_set_up)

/* Repeats a seed in every precision, and resumes in f64 and bf16; test_a_run_resumes_from_every_step resumes in f32. */
TEST(seeds_repeat_in_every_precision) {
    static const char *const precisions[] = {"f64", "f32", "bf16", "fp16"};
    for (int p = 0; p < 4; p++) {
        const d9_config *config = run_config("reference", precisions[p], "");
        run_check_seeds(config);
        if (p % 2 == 0) run_check_resume(config, (const int64_t[]){RUN_STEPS_PER_EPOCH, 7, 0});
    }
}

/* Stops after each step except the last. */
RUN_TEST(test_a_run_resumes_from_every_step) {
    int64_t stops[RUN_STEPS];
    for (int64_t s = 1; s <= RUN_STEPS; s++) stops[s - 1] = s % RUN_STEPS;
    run_check_resume(b->config, stops);
}

RUN_TEST(test_a_run_resumes_three_times) {
    static const int64_t stops[] = {2, 6, 12, 0};
    for (int i = 0; i < 4; i++) {
        char words[64];
        const d9_train_options options = RUN_OPTIONS(b, .resume = true, .stop_after_steps = stops[i]);
        const run_report part = run_train(&options, NULL);
        assert_int_equal(part.status, stops[i] ? D9_SIGINT : D9_OK);
        snprintf(words, sizeof words, "%lld 13 --resume", (long long)stops[i] + 1);
        if (stops[i])
            assert_words(part.message, words);
        else
            run_assert_equal(&part, run_fixture_report(b), "stopped three times");
    }
    assert_false(run_has(b->folder, "checkpoint.safetensors")); /* keep: model removes it at the end */
}

/* --resume without an earlier run starts a run. A finished run and a checkpoint are deleted only with --overwrite,
 * which is rejected together with --resume; a finished run is not resumed. A run that ended between its last checkpoint
 * and its result is resumed without training, with the same numbers. */
RUN_TEST(test_finished_runs_and_checkpoints_need_overwrite) {
    static const struct {
        bool other, resume, overwrite, unlink_result;
        int64_t stop;
        d9_status status;
        bool resumed;
    } rows[] = {
        {.resume = true},
        {.resume = true, .status = D9_USAGE},
        {.status = D9_USAGE},
        {.other = true, .status = D9_USAGE},
        {.other = true, .resume = true, .overwrite = true, .status = D9_USAGE},
        {.overwrite = true, .stop = 4, .status = D9_SIGINT},
        {.status = D9_USAGE},
        {.other = true, .status = D9_USAGE},
        {.overwrite = true},
        {.overwrite = true, .stop = 4, .status = D9_SIGINT},
        {.resume = true, .resumed = true},
        {.unlink_result = true, .resume = true, .resumed = true},
    };
    d9_config *config = run_config("reference", "f32", "keep: all\n"),
              *other = run_config("reference", "f32", "keep: all\n");
    other->seed = 8;
    for (int r = 0; r < (int)(sizeof rows / sizeof *rows); r++) {
        const bool checkpoint = run_has(b->folder, "checkpoint.safetensors"),
                   result = run_has(b->folder, "result.json");
        if (rows[r].unlink_result) unlink(run_path(b->folder, "result.json"));
        const d9_train_options options = {.config = rows[r].other ? other : config,
                                          .seed = 7,
                                          .out = b->folder,
                                          .resume = rows[r].resume,
                                          .overwrite = rows[r].overwrite,
                                          .stop_after_steps = rows[r].stop};
        const run_report report = run_train(&options, NULL);
        if (report.status != rows[r].status) fail_msg("row %d: status %d: %s", r, (int)report.status, report.message);
        assert_false(run_has(b->folder, "lock"));
        if (report.status == D9_USAGE) {
            assert_ints(run_has(b->folder, "checkpoint.safetensors"), checkpoint, run_has(b->folder, "result.json"),
                        result);
            if (!rows[r].other && !rows[r].resume) assert_words(report.message, "--resume --overwrite");
        }
        if (report.status != D9_OK) continue;
        assert_int_equal(report.resumed, rows[r].resumed);
        run_assert_equal(&report, run_fixture_report(b), "resumed or overwritten");
        assert_true(run_has(b->folder, "checkpoint.safetensors") && run_has(b->folder, "model.safetensors"));
    }
}

/* One process per folder. A lock file without a holder, as left by a killed process, does not matter. */
RUN_TEST(test_one_process_per_folder) {
    char words[64];
    int lock;
    OK(d9_lock_take(&context, run_path(b->folder, "lock"), &lock));
    snprintf(words, sizeof words, "%ld", (long)getpid());
    const run_report rejected = run_train(&RUN_OPTIONS(b), NULL);
    assert_int_equal(rejected.status, D9_USAGE);
    assert_words(rejected.message, words);
    assert_int_equal(run_folder_count(b->folder, ""), 1); /* the lock */
    close(lock);
    assert_true(run_has(b->folder, "lock"));
    run_train_ok(&RUN_OPTIONS(b));
    assert_false(run_has(b->folder, "lock"));
}

typedef struct watched {
    const char *folder;
    int epochs, with_checkpoint;     /* reported epochs; those reported while an earlier one's checkpoint existed */
    volatile sig_atomic_t interrupt; /* set after step `interrupt_after` */
    volatile sig_atomic_t unsaved;   /* steps since the last checkpoint */
    int64_t interrupt_after, most_unsaved;
} watched;

static void watch_step(void *user, const d9_program *program, int64_t step, double loss, double seconds) {
    watched *w = user;
    (void)program, (void)loss, (void)seconds;
    if (step == w->interrupt_after) w->interrupt = SIGHUP;
    if (w->unsaved > w->most_unsaved) w->most_unsaved = w->unsaved;
}

static void watch_epoch(void *user, const d9_program *program, const d9_epoch_row *row) {
    watched *w = user;
    (void)program, (void)row;
    w->epochs++;
    w->with_checkpoint += run_has(w->folder, "checkpoint.safetensors");
}

static d9_train_options watched_options(const run_fixture *b, watched *w) {
    w->folder = b->folder;
    context.interrupt = &w->interrupt;
    return RUN_OPTIONS(b, .unsaved_steps = &w->unsaved,
                       .observer = {.user = w, .step = watch_step, .epoch = watch_epoch});
}

/* A checkpoint is written at the end of each epoch except the last, if the previous one is old enough (30 s by default,
 * longer than this run), or if the epoch's number is a multiple of checkpoint_every. */
RUN_TEST(test_checkpoints_are_written_by_time_and_by_epoch) {
    static const struct {
        double seconds;
        int64_t every;
        int with_checkpoint;
        int64_t most_unsaved;
    } rows[] = {{0, 0, 0, RUN_STEPS}, {1e-9, 0, 2, RUN_STEPS_PER_EPOCH}, {0, 2, 1, 2 * RUN_STEPS_PER_EPOCH}};
    for (int r = 0; r < 3; r++) {
        watched w = {0};
        d9_train_options options = watched_options(b, &w);
        options.overwrite = r > 0;
        options.checkpoint_seconds = rows[r].seconds, options.checkpoint_every = rows[r].every;
        const run_report report = run_train_ok(&options);
        assert_ints(w.epochs, 3, w.with_checkpoint, rows[r].with_checkpoint, w.most_unsaved, rows[r].most_unsaved,
                    w.unsaved, 0);
        run_assert_equal(&report, run_fixture_report(b), "checkpoints change nothing");
        assert_false(run_has(b->folder, "checkpoint.safetensors"));
    }
}

static int slow_sync(void *user, int file) {
    (void)user, (void)file;
    return usleep(20000);
}

/* The time for a checkpoint is a segment `save` of its epoch: in process_seconds, not in train_seconds. */
RUN_TEST(test_checkpoints_are_timed) {
    d9_system system = *d9_system_default();
    d9_result result;
    system.sync = slow_sync;
    context.system = &system;
    OK(d9_train(&context, &RUN_OPTIONS(b, .checkpoint_seconds = 1e-9), &result));
    double saved = 0, trained = 0;
    for (int i = 0; i < result.timeline->count; i++) {
        const d9_segment *segment = &result.timeline->segments[i];
        if (segment->kind == D9_SEGMENT_SAVE && segment->epoch > 0) saved += segment->seconds;
        if (segment->kind == D9_SEGMENT_UPLOAD || segment->kind == D9_SEGMENT_WHITEN ||
            segment->kind == D9_SEGMENT_TRAIN)
            trained += segment->seconds;
    }
    assert_true(saved >= 0.04); /* two checkpoints, each synced once */
    assert_true(fabs(d9_timeline_sum(result.timeline, d9_clock_find("train_seconds"), 0) - trained) < 1e-9);
    assert_true(d9_timeline_sum(result.timeline, d9_clock_find("process_seconds"), 0) >= trained + saved);
    d9_result_free(&context, &result);
}

/* Evaluating less often changes only the scores in the rows of epochs. */
RUN_TEST(test_evaluations_change_only_the_scores_of_epochs) {
    const d9_config *config = run_config("reference", "f32", "eval: {every: 0}\n");
    const run_report *often = run_fixture_report(b),
                     once = run_train_ok(&(d9_train_options){.config = config, .seed = 7});
    assert_string_equal(often->params_sha256, once.params_sha256);
    assert_int_equal(once.epoch_count, 3);
    assert_true(isnan(once.epoch_score[0]) && isnan(once.epoch_score[1]) &&
                once.epoch_score[2] == often->epoch_score[2]);
}

static int64_t lines_in(const run_fixture *b, const char *name) {
    FILE *file = fopen(run_path(b->folder, name), "r");
    int64_t lines = 0;
    assert_non_null(file);
    for (int c; (c = fgetc(file)) != EOF;) lines += c == '\n';
    fclose(file);
    return lines;
}

/* With a fractional eval.every, an evaluation follows the epoch in which it is due; one always follows the last. */
TEST(evaluations_are_due_by_eval_every) {
    static const struct {
        double every;
        const char *due; /* for epochs 1 to 8, when another epoch follows */
    } rows[] = {{1, "11111111"}, {0.5, "11111111"}, {1.5, "01101101"},
                {2, "01010101"}, {2.5, "00101001"}, {0, "00000000"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int epoch = 1; epoch <= 8; epoch++) {
            const d9_config config = {.eval.every = rows[r].every};
            assert_int_equal(d9_evaluation_due(&config, epoch, false), rows[r].due[epoch - 1] == '1');
            assert_true(d9_evaluation_due(&config, epoch, true));
        }
}

/* An interrupt in the last step of an epoch omits the evaluation; the resumed run does it, and its rows are those of an
 * uninterrupted run. */
RUN_TEST(test_an_evaluation_omitted_by_an_interrupt_is_repeated) {
    static const int64_t ends[] = {5, 10, 13};
    static const char *const words[] = {"6 13 --resume", "11 13 --resume", "13 --resume"};
    for (int i = 0; i < 3; i++) {
        watched w = {.interrupt_after = ends[i]};
        d9_train_options options = watched_options(b, &w);
        options.overwrite = i > 0;
        const run_report left = run_train(&options, NULL);
        assert_int_equal(left.status, D9_SIGHUP);
        assert_words(left.message, words[i]);
        assert_ints(w.epochs, i, lines_in(b, "events.jsonl"), i);
        w = (watched){0};
        options.resume = true, options.overwrite = false;
        const run_report rest = run_train_ok(&options);
        run_assert_equal(&rest, run_fixture_report(b), "an evaluation was left");
        assert_ints(w.epochs, 3 - i, rest.final_evaluations, 1); /* the omitted evaluation is not recorded */
        assert_ints(lines_in(b, "events.jsonl"), 3, lines_in(b, "epochs.tsv"), 4);
    }
}

RUN_TEST(test_a_run_interrupted_before_the_first_step_resumes) {
    volatile sig_atomic_t signal_number = SIGTERM;
    const d9_train_options options = RUN_OPTIONS(b, .resume = true);
    context.interrupt = &signal_number;
    assert_int_equal(run_train(&options, NULL).status, D9_SIGTERM);
    assert_true(run_has(b->folder, "checkpoint.safetensors"));
    signal_number = SIGINT;
    assert_int_equal(run_train(&options, NULL).status, D9_SIGINT);
    assert_words(run_train(&(d9_train_options){.config = b->config, .seed = 7}, NULL).message, "1 13");
    signal_number = 0;
    const run_report rest = run_train_ok(&options);
    run_assert_equal(&rest, run_fixture_report(b), "interrupted before the first step");
}

typedef struct step_log {
    int planned, epochs;
    int64_t steps;
    double last_loss;
} step_log;

static void on_planned(void *user, const d9_program *program, const d9_device_info *device, const char *precision_why) {
    ((step_log *)user)->planned++;
    assert_ints(program->steps, RUN_STEPS, device->threads, 1);
    assert_string_equal(program->precision->name, "f32");
    assert_string_equal(precision_why, "");
}

static void on_step(void *user, const d9_program *program, int64_t step, double loss, double epoch_seconds) {
    step_log *w = user;
    (void)program;
    assert_int_equal(step, ++w->steps); /* number of completed steps */
    assert_true(isfinite(loss) && loss > 0 && epoch_seconds >= 0);
    w->last_loss = loss;
}

static void on_epoch(void *user, const d9_program *program, const d9_epoch_row *row) {
    step_log *w = user;
    (void)program;
    assert_int_equal(row->epoch, ++w->epochs);
    assert_true(row->train_loss == w->last_loss); /* the running mean at the end of the epoch is the epoch's loss */
    assert_true(row->images_per_second > 0 && row->seconds > 0 && row->learning_rate >= 0);
    const double right = row->train_accuracy / 100 * (row->epoch < 3 ? 40 : 24); /* of the images trained on */
    assert_true(right > 0 && fabs(right - round(right)) < 1e-9);
}

RUN_TEST(test_observers_see_every_step_and_epoch) {
    step_log w = {0};
    const d9_observer observer = {.user = &w, .planned = on_planned, .step = on_step, .epoch = on_epoch};
    const run_report watched = run_train_ok(&(d9_train_options){.config = b->config, .seed = 8, .observer = observer}),
                     unwatched = run_train_ok(&(d9_train_options){.config = b->config, .seed = 8});
    assert_ints(w.planned, 1, w.steps, RUN_STEPS, w.epochs, 3);
    run_assert_equal(&watched, &unwatched, "watched");
}

/* Each epoch has its own order, also if it is resumed in the middle. */
RUN_TEST(test_each_epoch_has_its_order) {
    static const int64_t steps[] = {0, RUN_STEPS_PER_EPOCH, 2 * RUN_STEPS_PER_EPOCH + 2};
    int32_t wanted[42], got[42];
    d9_session *session = run_session(b->config, 99);
    for (int epoch = 0; epoch < 3; epoch++) {
        const int64_t bytes = session->program.buffer_bytes[D9_BUFFER_ORDER]; /* of the images trained on */
        assert_true(bytes > 0 && bytes <= (int64_t)sizeof got);
        OK(d9_epoch_order(&context, 99, epoch, 42, wanted));
        OK(d9_session_begin_epoch(session, steps[epoch]));
        OK(d9_session_read(session, D9_BUFFER_ORDER, got));
        assert_memory_equal(got, wanted, (size_t)bytes);
    }
}

/* The time of an evaluation is predicted from its operations and the seconds of a step. The time left always includes
 * the final evaluation, with all views. */
RUN_TEST(test_seconds_left_include_evaluations) {
    const d9_program *program = &run_session(b->config, 99)->program;
    const int64_t batches = (program->extent.eval_samples + program->extent.batch - 1) / program->extent.batch;
    const double share = d9_graph_operations(&program->eval, 0, program->eval.node_count) /
                         d9_graph_operations(&program->train, 0, program->train.node_count);
    const double plain = share * (double)batches, evaluation = 2 * plain;
    const struct {
        double every;
        int tta;
        int64_t step;
        double seconds, left; /* of a step; of the run */
    } rows[] = {{1, D9_EVAL_TTA_LAST, 0, 1, RUN_STEPS + 2 * plain + evaluation},
                {1, D9_EVAL_TTA_LAST, 7, 2, 2 * (RUN_STEPS - 7 + plain + evaluation)},
                {1, D9_EVAL_TTA_LAST, RUN_STEPS, 1, evaluation},
                {0, D9_EVAL_TTA_LAST, 0, 1, RUN_STEPS + evaluation},
                {1, D9_EVAL_TTA_EVERY, 0, 1, RUN_STEPS + 3 * evaluation}};
    assert_int_equal(program->views.count, 2);
    assert_true(share > 1.0 / 3 && share < 0.6); /* much of such a small network needs no gradient */
    for (int r = 0; r < 5; r++) {
        b->config->eval.every = rows[r].every, b->config->eval.tta = rows[r].tta;
        assert_true(fabs(d9_seconds_left(program, b->config, rows[r].step, rows[r].seconds) - rows[r].left) < 1e-9);
    }
}

static d9_status add_shifted_view(d9_context *unused, const void *options, d9_views *views) {
    (void)unused, (void)options;
    views->view[views->count++] = (d9_view){.dx = 2};
    return D9_OK;
}
static const d9_trick shifted_view = {.name = "shifted_view", .on_views = add_shifted_view}; /* weight 0 */

/* Rotating the test set by a batch (the last is partial) changes no image's logits, which determine all scores. */
RUN_TEST(test_every_test_image_is_evaluated) {
    enum { IMAGES = 21, BYTES = 16 * 16 * 3, CLASSES = 10 };
    static uint8_t turned[IMAGES * BYTES];
    static double logits[IMAGES][CLASSES], again[IMAGES][CLASSES];
    d9_evaluation evaluation;
    int hits = 0, plain_hits = 0, shifted_hits = 0;
    const d9_session_options options = {
        .config = b->config,
        .seed = 99,
        .program = {.tricks = (const d9_trick *const[]){&shifted_view}, .trick_count = 1}};
    d9_session *session = run_session_open(&options);
    OK(d9_session_initialize(session));
    const int batch = (int)session->program.extent.batch;
    const d9_split *test = &session->dataset->test;
    assert_true(test->count == IMAGES && batch < IMAGES && IMAGES % batch);
    for (int i = 0; i < IMAGES; i++) memcpy(turned + i * BYTES, test->images + (i + batch) % IMAGES * BYTES, BYTES);
    OK(d9_session_logits(session, &session->program.views, logits[0]));
    OK(d9_session_write(session, D9_BUFFER_EVAL_IMAGES, turned));
    OK(d9_session_logits(session, &session->program.views, again[0]));
    for (int i = 0; i < IMAGES; i++) {
        assert_memory_equal(again[i], logits[(i + batch) % IMAGES], sizeof *logits);
        for (int other = 0; other < i; other++) assert_memory_not_equal(logits[i], logits[other], sizeof *logits);
    }
    /* predictions are the weighted mean of the views: a view of weight 0 does not count */
    OK(d9_session_evaluate(session, &evaluation));
    assert_true(session->program.views.count > 1);
    for (int i = 0; i < IMAGES; i++) {
        const int32_t best = d9_argmax(again[i], CLASSES);
        double sum = 0;
        for (int c = 0; c < CLASSES; c++) sum += exp(again[i][c] - again[i][best]);
        assert_int_equal(evaluation.top1[i], best);
        assert_true(fabs(evaluation.confidence[i] - 1 / sum) < 1e-6);
        hits += best == test->labels[i];
    }
    OK(d9_session_logits(session, &(d9_views){.count = 1, .view = {{.weight = 1}}}, logits[0]));
    for (int i = 0; i < IMAGES; i++) plain_hits += d9_argmax(logits[i], CLASSES) == test->labels[i];
    OK(d9_session_logits(session, &(d9_views){.count = 1, .view = {{.dx = 2, .weight = 1}}}, logits[0]));
    for (int i = 0; i < IMAGES; i++) shifted_hits += d9_argmax(logits[i], CLASSES) == test->labels[i];
    assert_int_not_equal(plain_hits, shifted_hits);
    assert_true(evaluation.score_tta == 100.0 * hits / IMAGES && evaluation.score == 100.0 * plain_hits / IMAGES);
    assert_true(hits > 0);
    d9_evaluation_free(&context, &evaluation);
}

/* Images for which the first view is least confident use the mean of all views, the others only the first view; no
 * image of the first kind is more confident than one of the second. */
TEST(the_least_confident_images_get_all_views) {
    enum { IMAGES = 21, CLASSES = 10, AGAIN = 5 };
    d9_evaluation evaluation;
    static double first[IMAGES][CLASSES], mean[IMAGES][CLASSES];
    double surest_again = 0, least_sure_alone = 1;
    int again = 0;
    d9_session *session = run_session(
        program_yaml("data: {dataset: synthetic, synthetic_test: 21, image_size: 16}\nmodel: {channels: [4, 4, 6, 6]}\n"
                     "backend: reference\ntricks: {multicrop_tta: {shift: 3, share: 0.25}, flip_tta: {}}\n"),
        99);
    OK(d9_session_logits(session, &(d9_views){.count = 1, .view = {{.weight = 1}}}, first[0]));
    OK(d9_session_logits(session, &session->program.views, mean[0]));
    OK(d9_session_evaluate(session, &evaluation));
    for (int i = 0; i < IMAGES; i++) {
        double sums[2] = {0};
        for (int c = 0; c < CLASSES; c++) {
            sums[0] += exp(first[i][c] - first[i][d9_argmax(first[i], CLASSES)]);
            sums[1] += exp(mean[i][c] - mean[i][d9_argmax(mean[i], CLASSES)]);
        }
        const bool alone = fabs(evaluation.confidence[i] - 1 / sums[0]) < 1e-7;
        assert_true(alone != (fabs(evaluation.confidence[i] - 1 / sums[1]) < 1e-7));
        assert_int_equal(evaluation.top1[i], d9_argmax(alone ? first[i] : mean[i], CLASSES));
        if (alone) least_sure_alone = fmin(least_sure_alone, 1 / sums[0]);
        if (!alone) surest_again = fmax(surest_again, 1 / sums[0]), again++;
    }
    assert_int_equal(again, AGAIN); /* a quarter of 21 */
    assert_true(surest_again <= least_sure_alone);
    d9_evaluation_free(&context, &evaluation);
}

static void ignore_step(void *user, const d9_program *program, int64_t step, double loss, double seconds) {
    (void)user, (void)program, (void)step, (void)loss, (void)seconds;
}

RUN_TEST(test_a_loss_that_is_not_finite_ends_the_run) {
    const d9_config *config =
        program_yaml("data: {dataset: synthetic, synthetic_train: 40, synthetic_test: 8, image_size: 16}\n"
                     "backend: reference\nprecision: f32\nthreads: 1\nmodel: {name: resnet9, channels: [4, 4, 4, 4]}\n"
                     "train: {epochs: 40, batch_size: 8, lr: {knots: [0], values: [1.0e6]}}\n");
    d9_train_options options = {.config = config, .seed = 7, .out = b->folder};
    const run_report end = run_train(&options, NULL); /* detected at the end of an epoch */
    assert_int_equal(end.status, D9_NONFINITE);
    int numbers[2] = {0}, found = 0; /* step, epoch */
    for (const char *at = end.message; found < 2 && *(at += strcspn(at, "0123456789")); found++)
        numbers[found] = (int)strtol(at, (char **)&at, 10);
    assert_in_range(numbers[0], 2, 200);
    assert_int_equal(numbers[1], (numbers[0] + 4) / 5);
    options.observer.step = ignore_step;
    const run_report now = run_train(&options, NULL); /* detected right after the step, which is the one named above */
    assert_int_equal(now.status, D9_NONFINITE);
    assert_string_equal(now.message, end.message);
    assert_false(run_has(b->folder, "result.json") || run_has(b->folder, "model.safetensors"));
    assert_int_equal(run_folder_count(b->folder, ".partial"), 0);
}

/* A file of logits, for other frameworks, has each image as planes (C, H, W), its label and its logits. */
static void check_logits_file(run_fixture *b, d9_session *session) {
    double logits[21 * 10], written[21 * 10];
    const d9_split *test = &session->dataset->test;
    const char *path = run_path(b->folder, "logits.safetensors");
    OK(d9_logits_write(session, path));
    const d9_safetensors *file = run_tensors(path);
    const uint8_t *planes = d9_safetensors_find(file, "images")->bytes;
    for (int i = 0; i < 21; i++)
        for (int c = 0; c < 3; c++)
            for (int p = 0; p < 256; p++)
                assert_int_equal(planes[(i * 3 + c) * 256 + p], test->images[(i * 256 + p) * 3 + c]);
    assert_memory_equal(d9_safetensors_find(file, "labels")->bytes, test->labels, 21 * sizeof(int32_t));
    OK(d9_session_logits_tta(session, logits));
    d9_tensor_to_doubles(d9_safetensors_find(file, "logits_tta"), written);
    for (int i = 0; i < 21 * 10; i++) assert_true(written[i] == (double)(float)logits[i]);
}

/* A model written and loaded predicts what the run predicted, image by image. A network of another shape rejects it. */
RUN_TEST(test_a_saved_model_predicts_as_the_run) {
    d9_evaluation evaluation;
    double top1[21];
    const run_report report = run_train_ok(&RUN_OPTIONS(b));
    const char *path = run_path(b->folder, "model.safetensors");
    d9_session *session = run_session(b->config, 99);
    OK(d9_model_read(session, path));
    OK(d9_session_evaluate(session, &evaluation));
    assert_true(evaluation.score == report.score && evaluation.score_tta == report.score_tta);
    const d9_tensor *tensor = d9_safetensors_find(run_tensors(run_path(b->folder, "predictions.safetensors")), "top1");
    assert_non_null(tensor);
    assert_int_equal(d9_shape_count(&tensor->shape), 21);
    d9_tensor_to_doubles(tensor, top1);
    for (int i = 0; i < 21; i++) assert_true(top1[i] == evaluation.top1[i]);
    check_logits_file(b, session);
    d9_evaluation_free(&context, &evaluation);
    session =
        run_session(program_yaml("data: {dataset: synthetic, synthetic_train: 40, synthetic_test: 8, image_size: 16}\n"
                                 "backend: reference\nthreads: 1\ntrain: {batch_size: 8}\n"
                                 "model: {name: resnet9, channels: [5, 6, 8, 8]}\n"),
                    99);
    assert_int_equal(d9_model_read(session, path), D9_USAGE);
    assert_words(context.message, path), assert_words(context.message, "stem.conv.weight 4 27 1 5 3");
}
