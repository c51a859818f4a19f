/* The record of a run: clocks, and the files of the run folder, which must not contain absolute paths. */
#include "record/record.h"
#include "core/system.h"
#include "record/effective.h"
#include "record/safetensors.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <jansson.h>

static const char yaml[] = "target: 94.0\n"
                           "model: {name: resnet9, channels: [4, 4, 8, 8]}\n"
                           "data: {dataset: synthetic, path: /home/someone/images}\n"
                           "backend_options: {choices: /home/someone/choices}\n"
                           "train: {epochs: 3, batch_size: 64, lr: {knots: [0, 20%, end-2], values: [0, 1.0, 0.1]}}\n"
                           "tricks: {crop: {pad: 4}, flip_tta: {}}\n";

typedef struct fixture {
    d9_config *config;
    const char *folder;
    d9_timeline timeline; /* has the segments of the table `run` below */
    d9_epoch_row rows[2];
    d9_result result; /* of a run of these two epochs */
} fixture;

static d9_config *parse(const char *set) { /* lives until the test ends */
    d9_config *config;
    const d9_config_edits edits = {.items = &(d9_config_edit){.kind = D9_EDIT_SET, .text = set}, .count = set != NULL};
    OK(d9_config_parse(&context, "test", yaml, &edits, &config));
    return program_keep_config(config);
}

static const char *path_in(const fixture *b, const char *name) { return run_path(b->folder, name); }

static void assert_file(fixture *b, const char *name, const char *expected) {
    assert_string_equal((char *)run_read_file(path_in(b, name), NULL), expected);
}

/* Opens a record with two views. `count`: epochs of the checkpoint, whose rows are the first of b->rows. */
static void open_record(fixture *b, d9_record *record, bool resume, int64_t count) {
    const d9_record_mode mode = resume ? D9_RECORD_RESUME : D9_RECORD_OVERWRITE;
    OK(d9_record_open(&context, record, b->folder, b->config, mode, b->rows, count, 2));
}

/* Each segment lasts a power of two, so a sum shows which segments it includes: 1 to 8 seconds in the first line, 16 to
 * 128, 256 to 2048, 4096 to 16384. */
static const struct {
    d9_segment_kind kind;
    int64_t epoch;
} run[] = {{D9_SEGMENT_PROCESS, 0},  {D9_SEGMENT_LOAD, 0},           {D9_SEGMENT_CONTEXT, 0}, {D9_SEGMENT_PLAN, 0},
           {D9_SEGMENT_UPLOAD, 0},   {D9_SEGMENT_INIT, 0},           {D9_SEGMENT_WHITEN, 0},  {D9_SEGMENT_TRAIN, 1},
           {D9_SEGMENT_EVALUATE, 1}, {D9_SEGMENT_SAVE, 1},           {D9_SEGMENT_TRAIN, 2},   {D9_SEGMENT_EVALUATE, 2},
           {D9_SEGMENT_TRAIN, 3},    {D9_SEGMENT_FINAL_EVALUATE, 3}, {D9_SEGMENT_SAVE, 0}};
enum { RUN_SEGMENTS = sizeof run / sizeof run[0] };

static void make_timeline(d9_timeline *timeline) {
    d9_timeline_init(&context, timeline, 1000);
    double now = 1000;
    for (int i = 0; i < RUN_SEGMENTS; i++) {
        OK(d9_timeline_add(timeline, run[i].kind, run[i].epoch, now, now + ldexp(1, i)));
        now += ldexp(1, i);
    }
}

static d9_epoch_row row_of(int64_t epoch, double accuracy) {
    return (d9_epoch_row){.epoch = epoch,
                          .train_loss = 1.5,
                          .train_accuracy = 50,
                          .score = accuracy,
                          .score_tta = accuracy + 0.25,
                          .eval_loss = isnan(accuracy) ? accuracy : 0.75,
                          .images_per_second = 100,
                          .seconds = 2,
                          .hours = 0.5,
                          .learning_rate = 0.25};
}

static d9_result result_of(fixture *b) {
    return (d9_result){.seed = 7,
                       .config = b->config,
                       .config_hash = "c0",
                       .plan_sha256 = "p0",
                       .params_sha256 = "w0",
                       .data_digest = "d0",
                       .backend = "reference",
                       .precision = "f32",
                       .device = {.name = "A processor", .version = "1.2", .isa = "plain", .threads = 2},
                       .batch = 64,
                       .steps = 12,
                       .train_images = 256,
                       .eval_images = 64,
                       .parameters = 99,
                       .epochs = b->rows,
                       .epoch_count = 2,
                       .score = 94.0,
                       .score_tta = 94.25,
                       .epoch_to_target = 2,
                       .plan_text = "conv\tstem.conv\tjit:avx512\nsgd\tupdate.weights\t\n",
                       .timeline = &b->timeline};
}

/* Removes the record's files; fails if others are left. */
static void close_fixture(void *closed) {
    static const char *const names[] = {"config.yaml",       "events.jsonl",          "epochs.tsv",
                                        "result.json",       "submission.json",       "predictions.safetensors",
                                        "model.safetensors", "checkpoint.safetensors"};
    fixture *b = closed;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unlink(path_in(b, names[i]));
    d9_timeline_free(&b->timeline);
    assert_int_equal(run_folder_count(b->folder, ""), 0);
}

static int open_fixture(void **state) {
    static fixture b;
    run_folder_set_up(state);
    b = (fixture){.config = parse(NULL), .folder = *state, .rows = {row_of(1, 93.5), row_of(2, 94.0)}};
    make_timeline(&b.timeline);
    b.result = result_of(&b);
    *state = test_keep(&b, close_fixture);
    return 0;
}

TEST_WITH(fixture *b, clocks_sum_their_segments, open_fixture) {
    const d9_timeline *timeline = &b->timeline;
    const double train = 128 + 1024 + 4096;
    assert_true(d9_timeline_sum(timeline, d9_clock_find("train_seconds"), 2) == 16 + 64 + train);
    assert_true(d9_timeline_sum(timeline, d9_clock_find("airbench_seconds"), 2) == 64 + train + 8192);
    /* target reached in epoch 2: all segments before that evaluation, except process start and evaluations */
    assert_true(d9_timeline_sum(timeline, d9_clock_find("dawnbench_seconds"), 2) ==
                2 + 4 + 8 + 16 + 32 + 64 + 128 + 512 + 1024);
    assert_true(d9_timeline_sum(timeline, d9_clock_find("dawnbench_seconds"), 1) == 2 + 4 + 8 + 16 + 32 + 64 + 128);
    assert_true(isnan(d9_timeline_sum(timeline, d9_clock_find("dawnbench_seconds"), 0)));
    assert_true(d9_timeline_sum(timeline, d9_clock_find("process_seconds"), 2) == 16383); /* without the last save */
    assert_null(d9_clock_at(4));
    assert_null(d9_clock_at(-1));
    assert_null(d9_clock_find("seconds"));
}

/* A resumed run has the segments of its earlier epochs, with start 0. Segments of epochs after that of the target do
 * not count. */
TEST(a_clock_includes_earlier_epochs_of_a_resumed_run, open_fixture) {
    d9_timeline timeline;
    d9_timeline_init(&context, &timeline, 1000);
    for (int epoch = 1; epoch <= 3; epoch++) OK(d9_timeline_add(&timeline, D9_SEGMENT_TRAIN, epoch, 0, 1 << epoch));
    OK(d9_timeline_add(&timeline, D9_SEGMENT_TRAIN, 4, 1001, 1017));
    assert_true(d9_timeline_sum(&timeline, d9_clock_find("dawnbench_seconds"), 2) == 2 + 4);
    assert_true(d9_timeline_sum(&timeline, d9_clock_find("dawnbench_seconds"), 4) == 2 + 4 + 8 + 16);
    d9_timeline_free(&timeline);
}

/* An interrupted epoch has two training segments: the target is reached at the end of the second one. */
TEST(a_clock_includes_all_parts_of_an_epoch, open_fixture) {
    d9_timeline timeline;
    d9_timeline_init(&context, &timeline, 0);
    OK(d9_timeline_add(&timeline, D9_SEGMENT_TRAIN, 1, 0, 4));
    OK(d9_timeline_add(&timeline, D9_SEGMENT_SAVE, 0, 4, 5));
    OK(d9_timeline_add(&timeline, D9_SEGMENT_TRAIN, 1, 5, 13));
    OK(d9_timeline_add(&timeline, D9_SEGMENT_SAVE, 1, 13, 29));
    assert_true(d9_timeline_sum(&timeline, d9_clock_find("dawnbench_seconds"), 1) == 4 + 1 + 8);
    d9_timeline_free(&timeline);
}

TEST(process_clock_counts_gaps, open_fixture) {
    d9_timeline timeline;
    d9_timeline_init(&context, &timeline, 10);
    OK(d9_timeline_add(&timeline, D9_SEGMENT_TRAIN, 1, 12, 20));
    assert_true(isnan(d9_timeline_sum(&timeline, d9_clock_find("process_seconds"), 0))); /* no final accuracy yet */
    OK(d9_timeline_add(&timeline, D9_SEGMENT_FINAL_EVALUATE, 1, 25, 26));
    assert_true(d9_timeline_sum(&timeline, d9_clock_find("process_seconds"), 0) == 16);
    for (int i = 0; i < 1000; i++) assert_int_equal(d9_timeline_add(&timeline, D9_SEGMENT_SAVE, 0, 30, 30), D9_OK);
    assert_int_equal(timeline.count, 1002);
    d9_timeline_free(&timeline);
}

TEST_WITH(fixture *b, rows_of_epochs_are_kept_only_when_resuming, open_fixture) {
    d9_record record;
    open_record(b, &record, false, 0);
    assert_file(b, "events.jsonl", "");
    assert_file(b, "epochs.tsv", "epoch\thours\ttop1Accuracy\n");
    for (int64_t epoch = 1; epoch <= 3; epoch++) {
        d9_epoch_row row = row_of(epoch, epoch == 2 ? (double)NAN : 90);
        if (epoch <= 2) b->rows[epoch - 1] = row;
        OK(d9_record_epoch(&record, &row, b->config->measure, 2));
    }
    assert_file(b, "epochs.tsv", "epoch\thours\ttop1Accuracy\n1\t0.500000000\t90.25\n3\t0.500000000\t90.25\n");
    open_record(b, &record, true, 2); /* resumed after epoch 2: the third row is removed */
    assert_file(b, "epochs.tsv", "epoch\thours\ttop1Accuracy\n1\t0.500000000\t90.25\n");
    assert_file(b, "events.jsonl",
                "{\"epoch\":1,\"train_loss\":1.5,\"train_accuracy\":50.0,\"accuracy\":90.0,\"accuracy_tta\":90.25,"
                "\"eval_loss\":0.75,"
                "\"images_per_second\":100.0,\"seconds\":2.0,\"hours\":0.5,\"learning_rate\":0.25}\n"
                "{\"epoch\":2,\"train_loss\":1.5,\"train_accuracy\":50.0,\"accuracy\":null,\"accuracy_tta\":null,"
                "\"eval_loss\":null,"
                "\"images_per_second\":100.0,\"seconds\":2.0,\"hours\":0.5,\"learning_rate\":0.25}\n");
    d9_epoch_row plain = row_of(3, 91);
    OK(d9_record_epoch(&record, &plain, b->config->measure, 1));
    assert_file(b, "epochs.tsv", "epoch\thours\ttop1Accuracy\n1\t0.500000000\t90.25\n3\t0.500000000\t91.00\n");
    open_record(b, &record, false, 0); /* a new run of the same configuration starts anew */
    assert_file(b, "epochs.tsv", "epoch\thours\ttop1Accuracy\n");
}

/* Rows and result have the keys of the run's measure; those with TTA only if there are several views. */
TEST_WITH(fixture *b, rows_and_result_have_the_keys_of_the_measure, open_fixture) {
    d9_record record;
    b->config->measure = d9_measure_find("perplexity");
    open_record(b, &record, false, 0);
    d9_epoch_row row = row_of(1, 90);
    OK(d9_record_epoch(&record, &row, b->config->measure, 1));
    assert_file(b, "epochs.tsv", "epoch\thours\tperplexity\n1\t0.500000000\t90.00\n");
    assert_file(b, "events.jsonl",
                "{\"epoch\":1,\"train_loss\":1.5,\"train_accuracy\":50.0,\"perplexity\":90.0,\"eval_loss\":0.75,"
                "\"images_per_second\":100.0,\"seconds\":2.0,\"hours\":0.5,\"learning_rate\":0.25}\n");
    for (int views = 1; views <= 2; views++) {
        d9_text *text = test_text();
        b->result.views = views;
        OK(d9_result_add_json(&context, &b->result, text));
        json_t *root = run_json(json_loads(d9_text_get(text), 0, NULL));
        const json_t *last = json_array_get(json_object_get(root, "epochs"), 1);
        assert_string_equal(json_string_value(json_object_get(root, "measure")), "perplexity");
        assert_ptr_equal(d9_result_measure(root), b->config->measure);
        assert_true(d9_json_real(root, "perplexity") == 94 && d9_json_real(last, "perplexity") == 94);
        assert_int_equal(json_object_get(root, "perplexity_tta") != NULL, views == 2);
        assert_true(d9_json_score(last, b->config->measure) == (views == 2 ? 94.25 : 94));
        assert_null(json_object_get(root, "accuracy"));
        assert_null(d9_result_fault(root));
        json_object_set_new(root, "measure", json_string("bleu"));
        assert_non_null(d9_result_fault(root));
    }
}

/* A power cut may remove whole lines or half of one. Resuming replaces what is left by the rows of the checkpoint. */
TEST_WITH(fixture *b, resume_restores_lost_rows, open_fixture) {
    d9_record record;
    open_record(b, &record, false, 0);
    for (int i = 0; i < 2; i++) OK(d9_record_epoch(&record, &b->rows[i], b->config->measure, 2));
    const char *lines = (char *)run_read_file(path_in(b, "events.jsonl"), NULL);
    for (int half = 0; half < 2; half++) {
        OK(d9_file_write(&context, path_in(b, "events.jsonl"), "{\"epoch\":1", half ? 10 : 0));
        OK(d9_file_write(&context, path_in(b, "epochs.tsv"), "epoch\thours\ttop1Accuracy\n1\t0.5", half ? 30 : 25));
        open_record(b, &record, true, 2);
        assert_file(b, "events.jsonl", lines);
        assert_file(b, "epochs.tsv", "epoch\thours\ttop1Accuracy\n1\t0.500000000\t93.75\n2\t0.500000000\t94.25\n");
    }
}

TEST_WITH(fixture *b, another_configuration_is_rejected, open_fixture) {
    d9_record record;
    open_record(b, &record, false, 0);
    d9_epoch_row row = row_of(1, 90);
    OK(d9_record_epoch(&record, &row, b->config->measure, 2));
    static const struct {
        const char *edit, *words;
    } others[] = {{"train.epochs=4", "config.yaml train.epochs 3 4"},
                  {"tricks.flip_tta=off", "config.yaml tricks.flip_tta"},
                  {"tricks.flip=on", "config.yaml tricks.flip"},
                  {"seed=77", "1 77"}};
    for (size_t i = 0; i < 2 * sizeof others / sizeof *others; i++) {
        d9_config *other = parse(others[i / 2].edit);
        const d9_record_mode mode = i % 2 ? D9_RECORD_RESUME : D9_RECORD_NEW;
        assert_int_equal(d9_record_open(&context, &record, b->folder, other, mode, NULL, 0, 1), D9_USAGE);
        assert_words(context.message, others[i / 2].words);
        assert_words(context.message, "--overwrite"), d9_context_clear(&context);
    }
    assert_file(b, "epochs.tsv", "epoch\thours\ttop1Accuracy\n1\t0.500000000\t90.25\n"); /* unchanged */
    b->config = parse("target=90"); /* does not affect results: the same run */
    open_record(b, &record, true, 1);
}

TEST_WITH(fixture *b, a_folder_that_cannot_be_written_is_an_error, open_fixture) {
    d9_record record;
    char below[600], longest[700];
    const char *path = path_in(b, "config.yaml");
    OK(d9_file_write(&context, path, "x", 1));
    snprintf(below, sizeof below, "%s/run", path);
    assert_rejection(d9_record_open(&context, &record, below, b->config, D9_RECORD_NEW, NULL, 0, 1), D9_OUTPUT, path);
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(d9_record_open(&context, &record, longest, b->config, D9_RECORD_NEW, NULL, 0, 1), D9_OUTPUT);
}

static json_t *read_json(fixture *b, const char *name) {
    const char *text = (char *)run_read_file(path_in(b, name), NULL);
    assert_null(strstr(text, "/home/")); /* no absolute path in a record */
    assert_null(strstr(text, b->folder));
    return run_json(json_loads(text, JSON_REJECT_DUPLICATES, NULL));
}

static double real_at(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    if (!json_is_number(value)) fail_msg("%s is no number", key);
    return json_number_value(value);
}
static const char *text_at(const json_t *root, const char *key) {
    const char *text = json_string_value(json_object_get(root, key));
    if (!text) fail_msg("%s is no text", key);
    return text;
}

TEST_WITH(fixture *b, the_result_describes_the_run, open_fixture) {
    d9_record record;
    open_record(b, &record, false, 0);
    OK(d9_record_result(&record, &b->result));
    json_t *root = read_json(b, "result.json");
    assert_string_equal(text_at(root, "commit"), d9_build_commit());
    assert_string_equal(text_at(root, "params_sha256"), "w0");
    assert_string_equal(text_at(root, "data_digest"), "d0");
    assert_string_equal(text_at(root, "device"), "A processor");
    assert_true(real_at(root, "seed") == 7 && real_at(root, "threads") == 2 && real_at(root, "epoch_to_target") == 2);
    assert_true(real_at(root, "accuracy") == 94 && real_at(root, "accuracy_tta") == 94.25);
    assert_true(real_at(root, "train_seconds") == 16 + 64 + 128 + 1024 + 4096);
    assert_true(real_at(root, "process_seconds") == 16383 && json_is_false(json_object_get(root, "resumed")));
    const json_t *config = json_object_get(root, "config"), *train = json_object_get(config, "train");
    assert_true(real_at(train, "epochs") == 3 && real_at(train, "batch_size") == 64);
    assert_string_equal(json_string_value(json_array_get(json_object_get(json_object_get(train, "lr"), "knots"), 2)),
                        "end-2");
    assert_true(json_is_object(json_object_get(json_object_get(config, "tricks"), "flip_tta")));
    assert_null(json_object_get(json_object_get(config, "data"), "path"));
    const json_t *rules = json_object_get(root, "rules"), *segments = json_object_get(root, "timeline");
    assert_int_equal(json_array_size(rules), 2);
    assert_string_equal(text_at(json_array_get(rules, 0), "choice"), "jit:avx512");
    assert_string_equal(text_at(json_array_get(rules, 1), "role"), "update.weights");
    assert_int_equal(json_array_size(segments), RUN_SEGMENTS);
    double clock = 0;
    for (size_t i = 0; i < RUN_SEGMENTS; i++) {
        const json_t *segment = json_array_get(segments, i);
        assert_true(real_at(segment, "start") == clock); /* no gap, no overlap */
        assert_string_equal(text_at(segment, "name"), d9_segment_name(run[i].kind));
        clock += real_at(segment, "seconds");
    }
}

TEST_WITH(fixture *b, a_resumed_run_has_no_process_clock, open_fixture) {
    b->result.resumed = true;
    b->result.epoch_to_target = 0;
    d9_text *text = test_text();
    OK(d9_result_add_json(&context, &b->result, text));
    const json_t *root = run_json(json_loads(d9_text_get(text), 0, NULL));
    assert_true(json_is_true(json_object_get(root, "resumed")));
    assert_null(json_object_get(root, "process_seconds"));
    assert_true(json_is_null(json_object_get(root, "dawnbench_seconds")));
    assert_true(json_is_null(json_object_get(root, "epoch_to_target")));
}

/* The submission has all fields that DAWNBench's README requires. */
TEST(a_submission_has_all_fields, open_fixture) {
    static const char *const fields[] = {"version", "author",   "authorEmail", "framework", "codeURL",
                                         "model",   "hardware", "costPerHour", "timestamp", "misc"};
    fixture *b = *state;
    d9_record record;
    open_record(b, &record, false, 0);
    OK(d9_record_result(&record, &b->result));
    json_t *root = read_json(b, "submission.json");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) assert_non_null(json_object_get(root, fields[i]));
    assert_string_equal(text_at(root, "framework"), "dawn9");
    assert_string_equal(text_at(root, "hardware"), "A processor, 2 threads");
    assert_int_equal(strlen(text_at(root, "timestamp")), 10);
    for (int threads = 0; threads < 2; threads++) { /* 0: a GPU */
        b->result.device.threads = threads;
        OK(d9_record_result(&record, &b->result));
        assert_string_equal(text_at(read_json(b, "submission.json"), "hardware"),
                            threads ? "A processor, 1 thread" : "A processor");
    }
}

TEST(files_of_an_earlier_run_are_removed, open_fixture) {
    static const char *const names[] = {"result.json", "submission.json", "predictions.safetensors",
                                        "model.safetensors"};
    fixture *b = *state;
    d9_record record;
    for (int resume = 0; resume < 2; resume++) {
        for (size_t i = (size_t)resume; i < 4; i++) /* a run with a result is not resumed */
            OK(d9_file_write(&context, path_in(b, names[i]), "x", 1));
        OK(d9_file_write(&context, path_in(b, "checkpoint.safetensors"), "x", 1));
        open_record(b, &record, resume, 0);
        for (size_t i = 0; i < 4; i++) assert_false(d9_file_exists(&context, path_in(b, names[i])));
        assert_int_equal(d9_file_exists(&context, path_in(b, "checkpoint.safetensors")), resume);
    }
}

/* Without a config.yaml a folder is no run: files named like those of a record are someone's own, and only --overwrite
 * replaces them. To resume, a checkpoint is enough. */
TEST_WITH(fixture *b, only_overwrite_takes_a_folder_with_foreign_files, open_fixture) {
    static const char *const names[] = {
        "result.json",           "submission.json", "live.html",    "events.jsonl",    "predictions.safetensors",
        "model.safetensors",     "epochs.tsv",      "failure.json", "experiment.json", "report.html",
        "checkpoint.safetensors" /* a run resumes from it */};
    d9_record record;
    OK(d9_file_write(&context, path_in(b, "lock"), "12", 2)); /* of a run that was killed before its config.yaml */
    for (int resume = 0; resume < 2; resume++)
        OK(d9_record_check(&context, b->folder, b->config, resume ? D9_RECORD_RESUME : D9_RECORD_NEW));
    unlink(path_in(b, "lock"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        OK(d9_file_write(&context, path_in(b, names[i]), "mine", 4));
        for (int resume = 0; resume < 1 + (i + 1 < sizeof names / sizeof *names); resume++) {
            const d9_record_mode mode = resume ? D9_RECORD_RESUME : D9_RECORD_NEW;
            assert_int_equal(d9_record_open(&context, &record, b->folder, b->config, mode, NULL, 0, 1), D9_USAGE);
            assert_words(context.message, names[i]), assert_words(context.message, "--overwrite --out");
            d9_context_clear(&context);
        }
        assert_file(b, names[i], "mine");
        OK(d9_record_check(&context, b->folder, b->config, D9_RECORD_OVERWRITE));
        unlink(path_in(b, names[i]));
    }
    open_record(b, &record, false, 0); /* as a run that is killed before its first checkpoint leaves it */
    open_record(b, &record, true, 0);
}

TEST_WITH(fixture *b, predictions_are_saved, open_fixture) {
    const int32_t top1[3] = {1, 2, 9}, labels[3] = {1, 0, 9};
    const float confidence[3] = {0.5f, 0.25f, 1};
    d9_record record;
    open_record(b, &record, false, 0);
    OK(d9_record_predictions(&record, top1, confidence, labels, 3, "5a", 7));
    const d9_safetensors *file = run_tensors(path_in(b, "predictions.safetensors"));
    assert_memory_equal(d9_safetensors_find(file, "top1")->bytes, top1, sizeof top1);
    assert_memory_equal(d9_safetensors_find(file, "confidence")->bytes, confidence, sizeof confidence);
    assert_memory_equal(d9_safetensors_find(file, "label")->bytes, labels, sizeof labels);
    assert_string_equal(d9_safetensors_metadata(file, "params_sha256"), "5a");
    char hash[65];
    int64_t epoch;
    OK(d9_record_read_kept(&context, b->folder, hash, &epoch));
    assert_string_equal(hash, "5a");
    assert_int_equal(epoch, 7);
    OK(d9_record_read_kept(&context, "no such folder", hash, &epoch));
    assert_ints(hash[0], 0, epoch, 0);
}

/* A configuration file whose name is not UTF-8 still gets its record. */
TEST_WITH(fixture *b, a_title_that_is_not_utf8_is_recorded, open_fixture) {
    d9_record record;
    const char *title = b->config->title;
    b->config->title = "na\xefve";
    open_record(b, &record, false, 0);
    OK(d9_record_result(&record, &b->result));
    bool finished = false; /* d9_record_find_finished loads config.yaml */
    OK(d9_record_find_finished(&context, b->folder, b->config, &finished));
    assert_true(finished);
    b->config->title = title;
}

TEST(json_numbers_are_null_unless_finite) {
    const json_t *null = run_json(d9_json_number(INFINITY)), *real = run_json(d9_json_number(-2.5));
    assert_true(json_is_null(null) && json_real_value(real) == -2.5);
}
