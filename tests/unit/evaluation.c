/* Measures of an evaluation: precision, recall and F1, computed by hand; the loss against its definition; logits with
 * test-time augmentation. cli.labelled checks the loss of several labels, cli.language that of a stream of words. */
#include "core/confusion.h"
#include "train/evaluation.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

static void check_scores(d9_class_scores found, double precision, double recall, double f1) {
    assert_true(fabs(found.precision - precision) <= 1e-12);
    assert_true(fabs(found.recall - recall) <= 1e-12);
    assert_true(fabs(found.f1 - f1) <= 1e-12);
}

/* The three classes have 4, 2 and 5 samples, of which 3, 1 and 2 are right, and are predicted 4, 5 and 2 times. The
 * stride is wider than the matrix. */
TEST(rows_are_true_and_columns_predicted) {
    static const int64_t counts[] = {3, 1, 0, 99, 1, 1, 0, 99, 0, 3, 2, 99};
    const d9_confusion matrix = {counts, 3, 4};
    check_scores(d9_confusion_class(&matrix, 0), 75, 75, 75);
    check_scores(d9_confusion_class(&matrix, 1), 20, 50, 200.0 / 7);
    check_scores(d9_confusion_class(&matrix, 2), 100, 40, 400.0 / 7);
    check_scores(d9_confusion_macro(&matrix), 65, 55, (75 + 600.0 / 7) / 3);
}

/* Class 0 is never predicted, class 1 has no sample but is predicted, class 2 does not occur: the mean leaves out only
 * class 2. */
TEST(a_division_by_zero_gives_zero) {
    static const int64_t counts[] = {0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4};
    const d9_confusion matrix = {counts, 4, 4};
    check_scores(d9_confusion_class(&matrix, 0), 0, 0, 0);
    check_scores(d9_confusion_class(&matrix, 1), 0, 0, 0);
    check_scores(d9_confusion_class(&matrix, 2), 0, 0, 0);
    check_scores(d9_confusion_class(&matrix, 3), 80, 100, 800.0 / 9);
    check_scores(d9_confusion_macro(&matrix), 80.0 / 3, 100.0 / 3, 800.0 / 27);
    check_scores(d9_confusion_macro(&(d9_confusion){counts + 4, 1, 1}), 0, 0, 0);
}

static d9_status shift_view(d9_context *unused, const void *options, d9_views *views) {
    (void)unused, (void)options;
    views->view[0].dx = 2;
    return D9_OK;
}
static const d9_trick shifted_view = {.name = "shifted_view", .on_views = shift_view};

enum { IMAGES = 21, CLASSES = 10 };

/* (1 - s) * -log p of the class + s * mean of -log p over the classes */
static double cross_entropy(const double *logits, int32_t label, double smoothing) {
    double sum = 0, own, mean = 0;
    for (int c = 0; c < CLASSES; c++) sum += exp(logits[c]);
    own = log(sum) - logits[label];
    for (int c = 0; c < CLASSES; c++) mean += (log(sum) - logits[c]) / CLASSES;
    return (1 - smoothing) * own + smoothing * mean;
}

/* Evaluates a new network, whose loss must be as defined. `smoothing`, `weighted`: as in the configuration `more`.
 * `tricks`: 1 with shifted_view, else 0. */
static void check_loss(const char *more, double smoothing, bool weighted, int tricks) {
    d9_evaluation evaluation;
    static double logits[IMAGES][CLASSES];
    double weights[CLASSES], expected = 0, unweighted = 0, whole = 0;
    const d9_session_options options = {
        .config = program_yaml("data: {dataset: synthetic, synthetic_train: 45, synthetic_test: 21, image_size: 16}\n"
                               "model: {channels: [4, 4, 6, 6]}\nbackend: reference\nprecision: f32\nthreads: 1\n%s",
                               more),
        .seed = 99,
        .program = {.tricks = (const d9_trick *const[]){&shifted_view}, .trick_count = tricks}};
    d9_session *session = run_session_open(&options);
    OK(d9_session_initialize(session));
    assert_int_equal(session->program.extent.eval_samples, IMAGES);
    OK(d9_session_logits(session, &(d9_views){.count = 1, .view = {{.weight = 1}}}, logits[0]));
    OK(d9_session_evaluate(session, &evaluation));
    d9_dataset_class_weights(session->dataset, weights);
    for (int i = 0; i < IMAGES; i++) {
        const int32_t label = session->dataset->test.labels[i];
        const double loss = cross_entropy(logits[i], label, smoothing);
        expected += weighted ? weights[label] * loss : loss;
        whole += weighted ? weights[label] : 1;
        unweighted += loss / IMAGES;
    }
    expected /= whole;
    assert_true(!weighted || fabs(whole - IMAGES) > 0.1);
    assert_true(fabs(evaluation.loss - expected) <= 1e-12 * expected && expected > 1);
    assert_true(!weighted || fabs(expected - unweighted) > 1e-6);
    d9_evaluation_free(&context, &evaluation);
}

/* The logits with test-time augmentation are those that are scored. If only a share of the images gets all views, the
 * others have the logits of the plain view. */
TEST(logits_with_tta_are_those_that_are_scored) {
    static double plain[IMAGES][CLASSES], scored[IMAGES][CLASSES];
    const d9_session_options options = {
        .config = program_yaml("data: {dataset: synthetic, synthetic_train: 45, synthetic_test: 21, image_size: 16}\n"
                               "model: {channels: [4, 4, 6, 6]}\nbackend: reference\nthreads: 1\n"
                               "train: {batch_size: 8}\ntricks: {multicrop_tta: {shift: 3, share: 0.5}}\n"),
        .seed = 99};
    d9_evaluation evaluation;
    d9_session *session = run_session_open(&options);
    int changed = 0;
    OK(d9_session_initialize(session));
    OK(d9_session_logits(session, &(d9_views){.count = 1, .view = {{.weight = 1}}}, plain[0]));
    OK(d9_session_evaluate(session, &evaluation));
    assert_true(session->seen == 41 && session->to_see == 41); /* 21 images, 10 of them in two more views */
    OK(d9_session_logits_tta(session, scored[0]));
    for (int i = 0; i < IMAGES; i++) {
        changed += memcmp(plain[i], scored[i], sizeof plain[i]) != 0;
        assert_int_equal(d9_argmax(scored[i], CLASSES), evaluation.top1[i]);
    }
    assert_int_equal(changed, 10);
    d9_evaluation_free(&context, &evaluation);
}

/* Dropout that stays on in evaluation draws masks by view and batch: the same in an evaluation, in the logits that
 * `predict` computes and, for the plain view, in an evaluation of it alone. */
TEST(dropout_masks_depend_only_on_view_and_batch) {
    static double scored[IMAGES][CLASSES], predicted[IMAGES][CLASSES];
    const d9_session_options options = {
        .config = program_yaml("data: {dataset: synthetic, synthetic_train: 45, synthetic_test: 21, image_size: 16}\n"
                               "model: {name: vgg, channels: [4, 4], hidden: 8, dropout_in_evaluation: on}\n"
                               "backend: reference\nthreads: 1\ntrain: {batch_size: 8}\ntricks: {flip_tta: {}}\n"),
        .seed = 99};
    d9_evaluation all, alone;
    d9_session *session = run_session_open(&options);
    OK(d9_session_initialize(session));
    OK(d9_session_logits_tta(session, scored[0]));
    OK(d9_session_logits(session, &session->program.views, predicted[0]));
    OK(d9_session_evaluate(session, &all));
    OK(d9_session_evaluate_plain(session, &alone));
    assert_true(all.loss == alone.loss && all.score == alone.score);
    assert_memory_equal(scored, predicted, sizeof scored);
    d9_evaluation_free(&context, &all), d9_evaluation_free(&context, &alone);
}

TEST(the_loss_has_label_smoothing_and_class_weights) {
    check_loss("train: {batch_size: 8}\ntricks: {flip_tta: {}}\n", 0, false, 0);
    check_loss("train: {batch_size: 8}\ntricks: {label_smoothing: {alpha: 0.3}}\n", 0.3, false, 0);
    check_loss("train: {batch_size: 8, class_weights: balanced}\ntricks: {label_smoothing: {alpha: 0.1}}\n", 0.1, true,
               0);
}

TEST(the_loss_is_of_the_unshifted_view_even_if_all_views_are_shifted) {
    check_loss("train: {batch_size: 8}\n", 0, false, 1);
}

/* Neither the losses of a second network (hard_examples) nor evaluating only some images with all views changes the
 * loss. */
TEST(a_second_network_and_partial_tta_leave_the_loss_unchanged) {
    check_loss("train: {batch_size: 8}\ntricks: {label_smoothing: {alpha: 0.3}, hard_examples: {}, "
               "multicrop_tta: {shift: 3, share: 0.25}}\n",
               0.3, false, 0);
}
