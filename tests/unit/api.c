/* Tests libdawn9 through dawn9.h. Functions inside the engine are called only to make images and labels; one test reads
 * the batch size of a predictor from its struct. */
#include "dawn9.h"
#include "api/handles.h"
#include "data/dataset.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <omp.h>
#include <pthread.h>

static const char yaml[] =
    "target: 5\n"
    "seed: 3\n" /* a seed whose score and score_tta differ at the end */
    "backend: reference\n"
    "precision: f32\n"
    "threads: 1\n"
    "model: {name: resnet9, channels: [4, 4, 8, 8]}\n"
    "data: {dataset: synthetic, synthetic_train: 96, synthetic_test: 60, image_size: 16}\n"
    "train: {epochs: 2, batch_size: 24, lr: {knots: [0, 1, end], values: [0, 0.4, 0]}}\n"
    "tricks: {crop: {pad: 4}, flip: {}, ghost_batchnorm: {group_size: 12}, ema: {every: 2}, flip_tta: {}}\n";
enum { STEPS = 8, TRAIN = 96, TEST = 60, CLASSES = 10, PIXELS = 16 * 16 * 3 };

static const char *folder; /* temporary, of the running test */

static void close_context(void *context) { dawn9_close(context); }
static int set_up(void **state) {
    dawn9_context *context;
    assert_int_equal(dawn9_open(&context), DAWN9_OK);
    folder = run_folder_new();
    *state = test_keep(context, close_context);
    return 0;
}

static void assert_ok(const dawn9_context *context, dawn9_status status) {
    if (status != DAWN9_OK) fail_msg("status %d: %s", (int)status, dawn9_message(context));
    assert_string_equal(dawn9_message(context), "");
}
static void assert_rejected(const dawn9_context *context, dawn9_status status, dawn9_status wanted, const char *words) {
    assert_int_equal(status, wanted);
    assert_words(dawn9_message(context), words);
}

static dawn9_config *parse(dawn9_context *context, const char *const *set) {
    dawn9_config *config;
    assert_ok(context, dawn9_config_parse(context, "tiny", yaml, set, &config));
    return config;
}

typedef struct watched { /* reports of progress; `stop_at`: step at which training is asked to stop, 0: never */
    int64_t calls, epochs, last_step, steps, stop_at;
    double last_loss;
    dawn9_epoch last;
} watched;

static int watch(void *user, const dawn9_progress *progress) { /* the progress callback; nonzero: stop */
    watched *w = user;
    w->calls++;
    w->last_step = progress->step;
    w->steps = progress->steps;
    w->last_loss = progress->loss;
    if (progress->epoch) {
        w->epochs++;
        w->last = *progress->epoch;
    }
    return w->stop_at > 0 && progress->step >= w->stop_at;
}

TEST(versions_agree, set_up) {
    assert_string_equal(dawn9_version(), DAWN9_VERSION);
    assert_true(strlen(dawn9_commit()) > 0);
}

TEST_WITH(dawn9_context *context, configurations_are_parsed_loaded_and_rejected, set_up) {
    dawn9_config *config = parse(context, (const char *const[]){"train.epochs=3", "tricks.ema=off", NULL});
    assert_non_null(strstr(dawn9_config_text(config), "epochs: 3"));
    assert_null(strstr(dawn9_config_text(config), "ema"));
    dawn9_config_free(config);
    config = parse(context, NULL);
    assert_non_null(strstr(dawn9_config_text(config), "ema"));
    dawn9_config_free(config), dawn9_config_free(NULL);
    assert_rejected(context, dawn9_config_parse(context, "tiny", "train: {epoch: 1}", NULL, &config), DAWN9_USAGE,
                    "tiny:1:9 train.epoch");
    assert_null(config);
    assert_rejected(context, dawn9_config_load(context, "no-such.yaml", NULL, &config), DAWN9_USAGE, "no-such.yaml");
    const char *const wrong[] = {"train.lr.knot=3", NULL};
    assert_rejected(context, dawn9_config_load(context, D9_SOURCE_DIR "/configs/synthetic.yaml", wrong, &config),
                    DAWN9_USAGE, "knots");
    /* success clears the message of the error */
    assert_ok(context, dawn9_config_load(context, D9_SOURCE_DIR "/configs/synthetic.yaml", NULL, &config));
    dawn9_config_free(config);
}

/* Initializes `context` and loads the synthetic data set, whose test images the models are evaluated on. */
static d9_dataset *load_synthetic(d9_context *context) {
    d9_dataset *dataset;
    const d9_dataset_options options = {
        .name = "synthetic", .synthetic_train = TRAIN, .synthetic_test = TEST, .image_size = 16};
    d9_context_init(context);
    test_ok(context, d9_dataset_load(context, &options, &dataset));
    return dataset;
}

static double percent_right(const int32_t *labels, const int32_t *truth) {
    int right = 0;
    for (int i = 0; i < TEST; i++) right += labels[i] == truth[i];
    return 100.0 * right / TEST;
}

/* Checks predictions of all test images in one call: `accuracy_tta` percent are right; the probabilities of an image
 * sum to 1 and are largest for its label. Single images get equal results, outputs may be NULL, 0 images are accepted,
 * -1 is rejected. `labels` gets the predictions (TEST). */
static void check_predictions(dawn9_context *context, dawn9_model *model, double accuracy_tta, int32_t *labels) {
    d9_context inner;
    d9_dataset *dataset = load_synthetic(&inner);
    float all[TEST][CLASSES], one[CLASSES];
    int32_t label;
    assert_ok(context, dawn9_predict(model, dataset->test.images, TEST, labels, all[0]));
    assert_true(fabs(percent_right(labels, dataset->test.labels) - accuracy_tta) <= 1e-9);
    for (int i = 0; i < TEST; i++) {
        double sum = 0;
        for (int c = 0; c < CLASSES; c++) {
            sum += all[i][c];
            assert_true(all[i][c] >= 0 && all[i][c] <= all[i][labels[i]]);
        }
        assert_true(fabs(sum - 1) <= 1e-6);
    }
    for (int i = 0; i < TEST; i += 29) {
        assert_ok(context, dawn9_predict(model, dataset->test.images + i * PIXELS, 1, &label, one));
        assert_int_equal(label, labels[i]);
        assert_memory_equal(one, all[i], sizeof one);
    }
    assert_ok(context, dawn9_predict(model, dataset->test.images, TEST, NULL, NULL));
    assert_ok(context, dawn9_predict(model, NULL, 0, NULL, NULL));
    assert_rejected(context, dawn9_predict(model, dataset->test.images, -1, NULL, NULL), DAWN9_USAGE, "-1");
    d9_dataset_free(&inner, dataset);
}

TEST_WITH(dawn9_context *context, trains_saves_opens_evaluates_predicts, set_up) {
    watched seen = {0};
    dawn9_result result;
    dawn9_evaluation evaluation;
    dawn9_model *model, *opened;
    int32_t first[TEST], second[TEST];
    dawn9_config *config = parse(context, NULL);
    const char *path = run_path(folder, "saved.safetensors");
    const dawn9_train_options options = {.progress = watch, .user = &seen};
    assert_ok(context, dawn9_train(context, config, &options, &result, &model));
    dawn9_config_free(config); /* the model has its own copy */
    assert_ints(seen.calls, STEPS + 2, seen.epochs, 2, seen.last_step, STEPS, seen.steps, STEPS);
    assert_int_equal(seen.last.epoch, 2);
    assert_true(isfinite(seen.last_loss) && seen.last.train_loss > 0 && seen.last.images_per_second > 0);
    assert_ints(result.steps, STEPS, result.epochs, 2, result.best_epoch, 0, result.train_images, TRAIN);
    assert_int_equal(result.test_images, TEST);
    assert_true(result.parameters > 1000 && result.train_seconds > 0 && result.total_seconds > result.train_seconds);
    assert_true(result.airbench_seconds > 0);
    assert_true(result.epoch_to_target > 0 ? result.dawnbench_seconds > 0 : isnan(result.dawnbench_seconds));
    assert_true(result.score_tta > 0 && result.score_tta != result.score);
    assert_true(seen.last.score_tta == result.score_tta && seen.last.score == result.score);
    assert_string_equal(result.backend, "reference");
    assert_string_equal(result.precision, "f32");
    assert_int_equal(strlen(result.params_sha256), 64);
    assert_ok(context, dawn9_model_save(model, path));
    assert_rejected(context, dawn9_model_save(model, folder), DAWN9_OUTPUT, folder);
    assert_ok(context, dawn9_model_open(context, path, NULL, &opened));
    assert_ints(dawn9_model_height(opened), 16, dawn9_model_width(opened), 16, dawn9_model_classes(opened), CLASSES);
    assert_non_null(dawn9_model_class_name(opened, 0));
    assert_null(dawn9_model_class_name(opened, -1));
    assert_null(dawn9_model_class_name(opened, CLASSES));
    assert_string_equal(dawn9_model_config(opened), dawn9_model_config(model));
    assert_ok(context, dawn9_evaluate(opened, &evaluation));
    assert_true(fabs(evaluation.score - result.score) <= 1e-9);
    assert_true(fabs(evaluation.score_tta - result.score_tta) <= 1e-9);
    assert_ints(evaluation.images, TEST, evaluation.views, 2);
    check_predictions(context, model, result.score_tta, first);
    d9_context inner;
    d9_dataset *dataset = load_synthetic(&inner);
    /* One image first, so that check_predictions then needs a larger batch. */
    assert_ok(context, dawn9_predict(opened, dataset->test.images, 1, second, NULL));
    assert_int_equal(second[0], first[0]);
    d9_dataset_free(&inner, dataset);
    check_predictions(context, opened, result.score_tta, second);
    assert_memory_equal(first, second, sizeof first);
    assert_int_equal(opened->predictor.session.program.extent.batch, 24); /* the batch of training, no longer 1 */
    dawn9_model_free(opened), dawn9_model_free(model), dawn9_model_free(NULL);
}

static void keep_warning(void *user, const char *line) { snprintf(user, 200, "%s", line); }

/* Like `dawn9 eval`, an evaluation warns of images that were trained on, and rejects a changed data.normalize. */
TEST_WITH(dawn9_context *context, evaluation_of_training_images_is_warned_of, set_up) {
    char line[200] = "";
    const char *path = run_path(folder, "saved.safetensors");
    dawn9_model *model;
    dawn9_evaluation evaluation;
    dawn9_config *config = parse(context, (const char *const[]){"train.epochs=0.3", "data.validation=8", NULL});
    assert_ok(context, dawn9_train(context, config, NULL, NULL, &model));
    dawn9_on_warning(context, keep_warning, line);
    assert_ok(context, dawn9_evaluate(model, &evaluation));
    assert_string_equal(line, "");
    assert_ok(context, dawn9_model_save(model, path));
    dawn9_model_free(model), dawn9_config_free(config);
    assert_ok(context, dawn9_model_open(context, path, (const char *const[]){"data.validation=20", NULL}, &model));
    assert_ok(context, dawn9_evaluate(model, &evaluation));
    assert_words(line, "data.validation 20: 12 training 8");
    dawn9_model_free(model);
    assert_ok(context, dawn9_model_open(context, path, (const char *const[]){"data.normalize=unit", NULL}, &model));
    assert_rejected(context, dawn9_evaluate(model, &evaluation), DAWN9_USAGE, "data.normalize");
    dawn9_model_free(model);
}

TEST_WITH(dawn9_context *context, stops_and_resumes, set_up) {
    watched seen = {.stop_at = 5};
    dawn9_result whole, resumed;
    dawn9_model *model;
    dawn9_config *config = parse(context, NULL);
    assert_ok(context, dawn9_train(context, config, NULL, &whole, NULL));
    dawn9_train_options options = {.folder = folder, .progress = watch, .user = &seen};
    assert_rejected(context, dawn9_train(context, config, &options, &resumed, &model), DAWN9_STOPPED, "6 8");
    assert_null(model);
    assert_int_equal(seen.last_step, 5);
    options = (dawn9_train_options){.folder = folder, .resume = 1};
    assert_ok(context, dawn9_train(context, config, &options, &resumed, NULL));
    assert_string_equal(resumed.params_sha256, whole.params_sha256);
    assert_true(isnan(resumed.total_seconds) && run_has(folder, "result.json") && run_has(folder, "model.safetensors"));
    seen = (watched){.stop_at = 1};
    options = (dawn9_train_options){.progress = watch, .user = &seen};
    assert_rejected(context, dawn9_train(context, config, &options, NULL, NULL), DAWN9_STOPPED, "2 8");
    dawn9_config_free(config);
}

typedef struct batch_calls {
    int calls, stop_at; /* calls so far; the call that stops, 0: none */
} batch_calls;

static int count_batch(void *user) { /* the callback of dawn9_on_batch; nonzero: stop */
    batch_calls *b = user;
    return ++b->calls == b->stop_at;
}

/* The callback of dawn9_on_batch stops an evaluation, a prediction, and a training run in its evaluation; later calls
 * work. */
TEST_WITH(dawn9_context *context, the_batch_callback_stops_evaluations, set_up) {
    batch_calls seen = {0};
    dawn9_model *model;
    dawn9_evaluation evaluation;
    int32_t labels[TEST];
    d9_context inner;
    d9_dataset *dataset = load_synthetic(&inner);
    dawn9_config *config = parse(context, NULL);
    assert_ok(context, dawn9_train(context, config, NULL, NULL, &model));
    dawn9_on_batch(context, count_batch, &seen);
    assert_ok(context, dawn9_evaluate(model, &evaluation));
    const int calls = seen.calls;
    assert_true(calls >= 2);
    seen = (batch_calls){.stop_at = calls};
    assert_rejected(context, dawn9_evaluate(model, &evaluation), DAWN9_STOPPED, "interrupted evaluation");
    assert_int_equal(seen.calls, calls);
    seen = (batch_calls){.stop_at = 2};
    assert_rejected(context, dawn9_predict(model, dataset->test.images, TEST, labels, NULL), DAWN9_STOPPED,
                    "interrupted");
    assert_int_equal(seen.calls, 2);
    seen = (batch_calls){.stop_at = 1};
    assert_rejected(context, dawn9_train(context, config, NULL, NULL, NULL), DAWN9_STOPPED, "interrupted 5 8");
    dawn9_on_batch(context, NULL, NULL);
    assert_ok(context, dawn9_predict(model, dataset->test.images, TEST, labels, NULL));
    d9_dataset_free(&inner, dataset);
    dawn9_config_free(config), dawn9_model_free(model);
}

typedef struct nested { /* user of the callbacks of calls_in_callbacks: `stop`: what they return */
    dawn9_context *context;
    int stop, calls, warnings;
} nested;

/* A callback that makes a failing call of its own and checks that it runs with the program's OpenMP settings. */
static int fail_within(nested *n) {
    dawn9_model *model;
    n->calls++;
    assert_ints(omp_get_max_threads(), 3, omp_get_dynamic(), 1);
    assert_rejected(n->context, dawn9_model_open(n->context, "inner.safetensors", NULL, &model), DAWN9_DATA, "inner");
    return n->stop;
}
static int fail_in_batch(void *user) { return fail_within(user); }
static int fail_in_progress(void *user, const dawn9_progress *progress) {
    (void)progress;
    return fail_within(user);
}
static void fail_in_warning(void *user, const char *line) {
    nested *n = user;
    n->warnings += strstr(line, "threads") != NULL;
    fail_within(n);
}

/* A call that fails within a callback changes neither status nor message of the outer call. The outer call leaves the
 * program's OpenMP settings unchanged. */
TEST_WITH(dawn9_context *context, calls_in_callbacks, set_up) {
    nested n = {.context = context};
    dawn9_model *model;
    dawn9_evaluation evaluation;
    const int threads = omp_get_max_threads();
    dawn9_config *config = parse(context, (const char *const[]){"threads=1000", "backend=cpu", NULL});
    const dawn9_train_options options = {.progress = fail_in_progress, .user = &n};
    omp_set_num_threads(3), omp_set_dynamic(1);
    dawn9_on_batch(context, fail_in_batch, &n);
    dawn9_on_warning(context, fail_in_warning, &n);
    assert_ok(context, dawn9_train(context, config, &options, NULL, &model));
    assert_ok(context, dawn9_evaluate(model, &evaluation));
    assert_true(n.warnings > 0 && n.calls > n.warnings + STEPS);
    n.stop = 1;
    assert_rejected(context, dawn9_evaluate(model, &evaluation), DAWN9_STOPPED, "interrupted");
    assert_rejected(context, dawn9_train(context, config, &options, NULL, NULL), DAWN9_STOPPED, "interrupted");
    assert_ints(omp_get_max_threads(), 3, omp_get_dynamic(), 1);
    omp_set_num_threads(threads), omp_set_dynamic(0);
    dawn9_config_free(config), dawn9_model_free(model);
}

typedef struct own_calls { /* user of use_computing_model: it calls `model`, which computes, and `other` */
    dawn9_context *context;
    dawn9_model *model, *other;
    const uint8_t *images;
    bool within; /* a call of the callback is running */
    int batches;
} own_calls;

static int use_computing_model(void *user) {
    own_calls *o = user;
    dawn9_context *c = o->context;
    dawn9_evaluation evaluation;
    int64_t width;
    int32_t label;
    if (o->within) return 0;
    o->within = true;
    o->batches++;
    dawn9_model_free(o->model); /* does nothing */
    assert_rejected(c, dawn9_predict(o->model, o->images, 1, &label, NULL), DAWN9_USAGE, "computing");
    assert_rejected(c, dawn9_predict_texts(o->model, NULL, 0, NULL, NULL), DAWN9_USAGE, "computing");
    assert_rejected(c, dawn9_features(o->model, o->images, 1, &width, NULL), DAWN9_USAGE, "computing");
    assert_rejected(c, dawn9_evaluate(o->model, &evaluation), DAWN9_USAGE, "computing");
    assert_ok(c, dawn9_model_save(o->model, run_path(folder, "within.safetensors")));
    assert_ok(c, dawn9_predict(o->other, o->images, 1, &label, NULL));
    o->within = false;
    return 0;
}

/* A callback cannot use the model that computes, whose results stay the same; it may save it, and use another model. */
TEST_WITH(dawn9_context *context, a_model_that_computes_is_not_used_by_its_callbacks, set_up) {
    own_calls calls = {.context = context};
    float before[TEST * CLASSES], after[TEST * CLASSES];
    dawn9_evaluation first, second;
    d9_context inner;
    d9_dataset *dataset = load_synthetic(&inner);
    dawn9_config *config = parse(context, (const char *const[]){"train.epochs=0.3", NULL});
    assert_ok(context, dawn9_train(context, config, NULL, NULL, &calls.model));
    assert_ok(context, dawn9_train(context, config, NULL, NULL, &calls.other));
    assert_ok(context, dawn9_predict(calls.model, dataset->test.images, TEST, NULL, before));
    assert_ok(context, dawn9_evaluate(calls.model, &first));
    calls.images = dataset->train.images;
    dawn9_on_batch(context, use_computing_model, &calls);
    assert_ok(context, dawn9_predict(calls.model, dataset->test.images, TEST, NULL, after));
    assert_ok(context, dawn9_evaluate(calls.model, &second));
    assert_true(calls.batches > 4 && first.score == second.score && first.score_tta == second.score_tta);
    assert_memory_equal(before, after, sizeof before);
    dawn9_on_batch(context, NULL, NULL);
    dawn9_model_free(calls.model), dawn9_model_free(calls.other), dawn9_config_free(config);
    d9_dataset_free(&inner, dataset);
}

/* With keep: best, the model is that of the best epoch, both without a folder and if a run was stopped in a later epoch
 * and resumed. */
TEST_WITH(dawn9_context *context, keeps_the_model_of_the_best_epoch, set_up) {
    watched seen = {.stop_at = 22}; /* of 24 steps, 3 per epoch */
    dawn9_result result, again;
    dawn9_evaluation best, resumed;
    dawn9_model *model;
    dawn9_config *config = parse(context, (const char *const[]){"keep=best", "data.validation=24", "train.epochs=8",
                                                                "train.lr={knots: [0, end], values: [0.4, 2]}", NULL});
    assert_ok(context, dawn9_train(context, config, NULL, &result, &model));
    assert_ok(context, dawn9_evaluate(model, &best));
    assert_true(0 < result.best_epoch && result.best_epoch < result.epochs);
    assert_true(best.score == result.score && best.score_tta == result.score_tta);
    const char *saved = run_path(folder, "saved.safetensors");
    assert_ok(context, dawn9_model_save(model, saved));
    dawn9_model_free(model);
    dawn9_train_options options = {.folder = folder, .progress = watch, .user = &seen};
    assert_rejected(context, dawn9_train(context, config, &options, NULL, &model), DAWN9_STOPPED, "23 24");
    options = (dawn9_train_options){.folder = folder, .resume = 1};
    assert_ok(context, dawn9_train(context, config, &options, &again, &model));
    assert_ok(context, dawn9_evaluate(model, &resumed));
    assert_true(resumed.score_tta == best.score_tta && again.score_tta == best.score_tta);
    assert_string_equal(again.params_sha256, result.params_sha256);
    dawn9_model_free(model);
    /* on the test images: a model that is opened trains nothing, so that keep: best needs no validation images */
    assert_ok(context, dawn9_model_open(context, saved, (const char *const[]){"data.validation=0", NULL}, &model));
    assert_ok(context, dawn9_evaluate(model, &best));
    assert_int_equal(best.images, TEST);
    assert_ok(context, dawn9_predict(model, NULL, 0, NULL, NULL));
    dawn9_model_free(model);
    size_t size, other_size;
    const uint8_t *bytes = run_read_file(saved, &size),
                  *others = run_read_file(run_path(folder, "model.safetensors"), &other_size);
    assert_int_equal(size, other_size);
    assert_memory_equal(bytes, others, size);
    dawn9_config_free(config);
}

TEST_WITH(dawn9_context *context, wrong_model_files_and_settings_are_rejected, set_up) {
    dawn9_model *model;
    dawn9_evaluation evaluation;
    dawn9_config *config;
    assert_rejected(context, dawn9_model_open(context, D9_SOURCE_DIR "/configs/base.yaml", NULL, &model), DAWN9_DATA,
                    "base.yaml");
    assert_null(model);
    assert_rejected(context, dawn9_model_open(context, "no-such.safetensors", NULL, &model), DAWN9_DATA,
                    "no-such.safetensors");
    config = parse(context, (const char *const[]){"train.epochs=0.3", NULL});
    assert_ok(context, dawn9_train(context, config, NULL, NULL, &model));
    dawn9_config_free(config);
    const char *path = run_path(folder, "m.safetensors");
    assert_ok(context, dawn9_model_save(model, path));
    dawn9_model_free(model);
    assert_rejected(context, dawn9_model_open(context, path, (const char *const[]){"data.dataset=cifar", NULL}, &model),
                    DAWN9_USAGE, "cifar10");
    assert_ok(context,
              dawn9_model_open(context, path, (const char *const[]){"model.channels=[8, 8, 8, 8]", NULL}, &model));
    assert_rejected(context, dawn9_evaluate(model, &evaluation), DAWN9_USAGE, "");
    assert_rejected(context, dawn9_predict(model, NULL, 0, NULL, NULL), DAWN9_USAGE, "");
    dawn9_model_free(model);
    assert_ok(context, dawn9_model_open(context, path, (const char *const[]){"data.image_size=48", NULL}, &model));
    assert_rejected(context, dawn9_evaluate(model, &evaluation), DAWN9_DATA, "16x16");
    dawn9_model_free(model);
}

/* Most images have all three labels, so several sigmoids exceed 1/2. The prediction must be the index of the most
 * likely label. */
TEST_WITH(dawn9_context *context, predicts_the_most_likely_of_several_labels, set_up) {
    enum { IMAGES = 24, LABELS = 3 };
    static const char *const cells[] = {"a|b|c", "a|b|c", "a|b|c", "c", "a|b|c", "", "b|c", "a|b|c"};
    uint8_t images[IMAGES][PIXELS];
    int32_t labels[IMAGES];
    float probabilities[IMAGES][LABELS];
    char path[RUN_PATH_BYTES + 16];
    double sum = 0;
    d9_context inner;
    dawn9_model *model;
    FILE *table = fopen(run_path(folder, "labels.csv"), "w");
    d9_context_init(&inner);
    fprintf(table, "file,label,split\n");
    for (int i = 0; i < IMAGES; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.png", i);
        memset(images[i], 10 * i, PIXELS);
        test_ok(&inner, d9_png_write(&inner, run_path(folder, name), images[i], 16, 16));
        fprintf(table, "%s,%s,%s\n", name, cells[i % 8], i < 16 ? "train" : "test");
    }
    fclose(table);
    snprintf(path, sizeof path, "data.path=%s", folder);
    dawn9_config *config =
        parse(context, (const char *const[]){path, "data.dataset=labelled", "data.split_column=split", "target=0.5",
                                             "train.loss=sigmoid", "train.batch_size=12", NULL});
    assert_ok(context, dawn9_train(context, config, NULL, NULL, &model));
    dawn9_config_free(config);
    assert_ok(context, dawn9_predict(model, images[0], IMAGES, labels, probabilities[0]));
    for (int i = 0; i < IMAGES; i++) {
        assert_non_null(dawn9_model_class_name(model, labels[i]));
        for (int c = 0; c < LABELS; c++) assert_true(probabilities[i][c] <= probabilities[i][labels[i]]);
        for (int c = 0; c < LABELS; c++) sum += probabilities[i][c];
    }
    assert_true(sum > 1.5 * IMAGES); /* the probabilities of an image do not sum to 1 */
    dawn9_model_free(model);
}

typedef struct caller { /* a thread's images, and the predictions of one call for all of them */
    dawn9_model *model;
    uint8_t images[TEST * PIXELS];
    int32_t labels[TEST];
    float probabilities[TEST * CLASSES];
} caller;

static void *count_wrong_predictions(void *user) { /* of calls with various numbers of images; NULL: none is wrong */
    const caller *c = user;
    intptr_t failures = 0;
    for (int i = 0; i < 15; i++) {
        int32_t labels[TEST];
        float probabilities[TEST * CLASSES];
        const size_t count = 1 + 17 * (size_t)i % TEST;
        failures += dawn9_predict(c->model, c->images, (int64_t)count, labels, probabilities) != DAWN9_OK ||
                    memcmp(labels, c->labels, count * sizeof *labels) != 0 ||
                    memcmp(probabilities, c->probabilities, count * CLASSES * sizeof *probabilities) != 0;
    }
    return (void *)failures;
}

TEST_WITH(dawn9_context *context, threads_take_turns_with_a_model, set_up) {
    enum { THREADS = 4 };
    static caller callers[THREADS];
    dawn9_model *model;
    pthread_t threads[THREADS];
    void *failures;
    dawn9_config *config = parse(context, (const char *const[]){"train.epochs=0.3", NULL});
    assert_ok(context, dawn9_train(context, config, NULL, NULL, &model));
    for (int i = 0; i < THREADS; i++) {
        caller *c = &callers[i];
        c->model = model;
        for (int k = 0; k < TEST * PIXELS; k++) c->images[k] = (uint8_t)(k * (2 * i + 3) + k / PIXELS * 31);
        assert_ok(context, dawn9_predict(model, c->images, TEST, c->labels, c->probabilities));
        if (i) assert_memory_not_equal(c->probabilities, callers[0].probabilities, sizeof c->probabilities);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_wrong_predictions, &callers[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &failures), 0);
        assert_null(failures);
    }
    dawn9_model_free(model), dawn9_config_free(config);
}

TEST(each_context_has_its_own_message, set_up) {
    dawn9_context *context = *state, *other;
    dawn9_config *config;
    assert_int_equal(dawn9_open(&other), DAWN9_OK);
    assert_rejected(context, dawn9_config_load(context, "first.yaml", NULL, &config), DAWN9_USAGE, "first.yaml");
    assert_rejected(other, dawn9_config_load(other, "second.yaml", NULL, &config), DAWN9_USAGE, "second.yaml");
    assert_words(dawn9_message(context), "first.yaml");
    dawn9_close(other), dawn9_close(NULL);
}
