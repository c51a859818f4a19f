/* Compares the CUDA backend, on the simulated GPU or a real one, with another framework's numbers (as the command
 * verify does), and with the reference backend: rule by rule, and the losses of a few epochs. */
#include "tests/cuda_backend/fake.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "verify/rule_comparison.h"

/* Small cases; on a GPU also the last one, which is larger and takes 15 s on the simulated GPU. In stochastic_depth
 * branches of ResNet-18 are dropped independently for each image. */
TEST(another_framework_s_numbers_are_reproduced) {
    static const char *const cases[] = {
        "airbench",         "vgg", "densenet", "resnet18_cifar", "resnet50_imagenet", "adamw", "muon",
        "stochastic_depth", "ema"};
    const size_t count = sizeof cases / sizeof *cases - (fake_find() ? 1 : 0);
    char name[64];
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s.safetensors", cases[i]);
        run_check_verify("cuda", "f32", name, 1);
    }
}

/* On the fake, sets whether convolutions and products in tf32 round their inputs; on a GPU does nothing. */
static void set_tensor_cores(bool on) {
    d9_fake *fake = fake_find();
    if (fake) fake->tensor_cores = on;
}

/* In these networks, of width 2, the first convolutions have so few inputs that the closed form of a first layer
 * (backends/cuda/moments.c) also computes norms of later layers. */
TEST(another_framework_s_numbers_are_reproduced_in_half_precision) {
    run_check_verify("cuda", "bf16", "resnet18_cifar.safetensors", 1);
    run_check_verify("cuda", "fp16", "stochastic_depth.safetensors", 1);
}

TEST(another_framework_s_numbers_are_reproduced_in_tf32) {
    set_tensor_cores(true);
    run_check_verify("cuda", "tf32", "airbench_residual.safetensors", 1);
    set_tensor_cores(false);
}

/* Many tricks are on, so that a step contains many rules. */
TEST(every_rule_agrees_with_the_reference) {
    static const char *const precisions[] = {"f32", "bf16", "fp16", "tf32"};
    set_tensor_cores(true);
    for (int p = 0; p < 4; p++) {
        d9_context context;
        d9_context_init(&context);
        d9_config *config = run_config("cuda", precisions[p], "");
        run_check_rules(&context, config, false, 30);
        if (p == 0) run_check_rules(&context, config, true, 30);
    }
    set_tensor_cores(false);
}

TEST(training_on_growing_images_agrees_with_the_reference) { run_check_smaller_images("cuda"); }

/* Rows compared in tf32. Limits may be wide only where tensor cores round, in this network the convolutions. */
typedef struct limits {
    int convolutions, others; /* number of rows */
    double worst;             /* largest error of a convolution */
} limits;

static void check_tf32_row(void *user, const d9_verify_row *row) {
    limits *l = user;
    const bool convolution =
        strstr(row->name, " conv") && !strchr(row->name, '+'); /* with '+': the fused first layer, computed in f32 */
    assert_true(row->passed);
    if (convolution)
        assert_true(row->limit == 2e-3 && row->cosine >= 0.99999);
    else
        assert_true(row->limit <= 2e-4); /* 1e-4, plus rounding of a state stored in f32 */
    if (convolution && row->error > l->worst) l->worst = row->error;
    *(convolution ? &l->convolutions : &l->others) += 1;
}

TEST(tf32_widens_the_limits_of_its_products_alone) {
    limits l = {0};
    d9_session tested, judge;
    int failed;
    set_tensor_cores(true);
    d9_config *configs[] = {run_config("cuda", "tf32", ""), run_config("reference", "f32", "")};
    run_open_ready(&context, configs[0], &tested);
    run_open_ready(&context, configs[1], &judge);
    OK(d9_rules_compare(&tested, &judge, 0, "tf32", check_tf32_row, &l, &failed));
    assert_int_equal(failed, 0);
    assert_true(l.convolutions >= 20 && l.others >= 20);
    const double least = fake_find() ? 1e-4 : 0; /* a GPU may choose other algorithms */
    if (!(l.worst > least && l.worst <= 1e-3)) fail_msg("convolutions in tf32 are off by %.2e", l.worst);
    d9_session_close(&tested), d9_session_close(&judge);
    set_tensor_cores(false);
}

/* Verifies a small case while the fake cuDNN sums weight gradients by the method `sums`: the row "rule by rule" must
 * pass for D9_FAKE_SUMS_RIGHT and fail for the others. In the step that is repeated with divided weights
 * (rule_comparison.h) gradients are subnormal numbers of fp16. */
static void check_verdict_on_sums(d9_fake *fake, const char *precision, d9_fake_sums sums) {
    static run_verified v;
    bool passed = false;
    fake->sums = sums;
    run_verify(&v, &(d9_verify_options){.cases = D9_SOURCE_DIR "/tests/golden/cases/adam.safetensors",
                                        .backend = "cuda",
                                        .precision = precision,
                                        .threads = 2});
    fake->sums = D9_FAKE_SUMS_RIGHT;
    for (int i = 0; i < v.count; i++)
        if (strcmp(v.rows[i].group, "rule by rule") == 0) passed = v.rows[i].passed;
    if (passed != (sums == D9_FAKE_SUMS_RIGHT)) fail_msg("%s, sums %d: passed %d", precision, (int)sums, passed);
}

TEST(weight_gradients_must_be_rounded_once_and_correctly) {
    static const char *const precisions[] = {"bf16", "fp16"};
    d9_fake *fake = fake_find();
    FAKE_ONLY("faults are planted in the fake cuDNN");
    for (int p = 0; p < 2; p++)
        for (int sums = D9_FAKE_SUMS_RIGHT; sums <= D9_FAKE_SUMS_CUT; sums++)
            check_verdict_on_sums(fake, precisions[p], (d9_fake_sums)sums);
}

/* Comparisons of the rules of a first layer, which keep values between their nodes in f32. */
typedef struct first_layer_rows {
    int forward, backward; /* rows that failed */
    double worst;          /* largest error relative to its limit */
} first_layer_rows;

static void note_first_layer_row(void *user, const d9_verify_row *row) {
    first_layer_rows *rows = user;
    if (!strstr(row->name, "conv+") && !strstr(row->name, "+conv_backward")) return;
    *(strstr(row->name, "backward") ? &rows->backward : &rows->forward) += !row->passed;
    rows->worst = test_larger(rows->worst, row->error / row->limit);
}

static void plant_nothing(d9_node *node) { (void)node; }
static void plant_alpha(d9_node *node) {
    if (node->op == D9_OP_ACT) node->as.act.alpha *= 0.967;
}
static void plant_statistics(d9_node *node) {
    if (node->op == D9_OP_NORM) node->as.norm.momentum *= 0.995;
}
static void plant_slope(d9_node *node) {
    if (node->op == D9_OP_ACT_BACKWARD) node->as.act.alpha *= 0.967;
}

/* Compares the first layer in one step in bf16 after calling `plant` for every node of the tested plan. */
static first_layer_rows compare_first_layer_with(void (*plant)(d9_node *node)) {
    first_layer_rows rows = {0};
    int failed;
    d9_session tested, judge;
    d9_config *configs[] = {run_config("cuda", "bf16", ""), run_config("reference", "bf16", "")};
    run_open_ready(&context, configs[0], &tested);
    run_open_ready(&context, configs[1], &judge);
    d9_graph wrong = tested.program.train;
    OK(D9_ALLOCATE(&context, wrong.node_count, "nodes", &wrong.nodes));
    memcpy(wrong.nodes, tested.program.train.nodes, (size_t)wrong.node_count * sizeof *wrong.nodes);
    for (int n = 0; n < wrong.node_count; n++) plant(&wrong.nodes[n]);
    tested.backend->plan_free(&context, tested.train_plan);
    OK(d9_session_plan(&tested, &wrong, &tested.train_plan));
    OK(d9_rules_compare(&tested, &judge, 0, "first layer", note_first_layer_row, &rows, &failed));
    d9_session_close(&tested), d9_session_close(&judge);
    d9_release(&context, wrong.nodes);
    return rows;
}

TEST(a_first_layer_is_compared_with_sums_in_f32) {
    const first_layer_rows right = compare_first_layer_with(plant_nothing),
                           alpha = compare_first_layer_with(plant_alpha),
                           statistics = compare_first_layer_with(plant_statistics),
                           slope = compare_first_layer_with(plant_slope);
    assert_ints(right.forward, 0, right.backward, 0);
    assert_true(right.worst > 0 && right.worst < 0.5);
    if (!alpha.forward || !statistics.forward || !slope.backward)
        fail_msg("rows that failed: alpha %d, statistics %d, slope %d", alpha.forward, statistics.forward,
                 slope.backward);
}

/* In f32 and fp16: the recorded cases of a classifier with two GRU layers, and of a language model, which carries its
 * states from step to step and clips gradients. In every precision: each rule of a language model's first step,
 * compared with the reference backend. */
TEST(text_networks_agree_with_the_reference) {
    static const char *const precisions[] = {"f32", "fp16", "bf16", "tf32"}, *const cases[] = {"text_gru_layers",
                                                                                               "language_lstm_tied"};
    const char *folder = run_folder_new();
    char name[64];
    for (int p = 0; p < 4; p++) {
        for (int c = 0; c < 2 && p < 2; c++) {
            snprintf(name, sizeof name, "%s.safetensors", cases[c]);
            run_check_verify("cuda", precisions[p], name, 1);
        }
        d9_config *config = run_language_config("cuda", precisions[p], folder, 12);
        run_check_rules(&context, config, false, 30);
    }
}

/* cuBLAS computes the weight gradients of layers with 130 hidden units, in tf32. */
TEST(large_recurrent_layers_agree_with_the_reference_in_tf32) {
    d9_config *config = run_language_config("cuda", "tf32", run_folder_new(), 130);
    config->trick_on[d9_trick_index("clip_norm")] = false; /* it overwrites the gradients */
    set_tensor_cores(true);
    run_check_rules(&context, config, false, 20);
    set_tensor_cores(false);
}

/* Compares only the losses of the epochs, with a limit for reordered sums, because networks amplify rounding from step
 * to step. */
static void compare_losses(const run_report *got, const run_report *expected) {
    assert_int_equal(got->epoch_count, expected->epoch_count);
    for (int64_t e = 0; e < got->epoch_count; e++)
        if (!(fabs(got->train_loss[e] - expected->train_loss[e]) <= 1e-4 * expected->train_loss[e]))
            fail_msg("epoch %lld: loss %.7g, reference %.7g", (long long)e + 1, got->train_loss[e],
                     expected->train_loss[e]);
}

TEST(the_loss_follows_the_reference) {
    run_report reports[3];
    static const char *const backends[] = {"cuda", "reference", "cuda"}, *const precisions[] = {"f32", "f32", "tf32"};
    for (int b = 0; b < 3; b++) {
        d9_config *config = run_config(backends[b], precisions[b], "");
        reports[b] = run_train_ok(&(d9_train_options){.config = config, .seed = 7});
    }
    compare_losses(&reports[0], &reports[1]);
    if (fake_find()) run_assert_equal(&reports[0], &reports[2], "f32 and tf32 without tensor cores");
}

/* Trains a language model, which carries its states from step to step, and compares losses and evaluations. With 130
 * hidden units, clusters of blocks compute the recurrent layers, and cuBLAS their matrix products. */
static void compare_language_models(int hidden, double epochs) {
    run_report reports[2];
    static const char *const backends[] = {"cuda", "reference"};
    const char *folder = run_folder_new();
    for (int b = 0; b < 2; b++) {
        d9_config *config = run_language_config(backends[b], "f32", folder, hidden);
        config->train.epochs = epochs;
        reports[b] = run_train_ok(&(d9_train_options){.config = config, .seed = 7});
    }
    compare_losses(&reports[0], &reports[1]);
    for (int64_t e = 0; e < reports[0].epoch_count; e++)
        assert_true(fabs(reports[0].epoch_score[e] - reports[1].epoch_score[e]) <= 1e-4 * reports[1].epoch_score[e]);
}

TEST(the_loss_of_a_language_model_follows_the_reference) {
    compare_language_models(12, 2);
    compare_language_models(130, 0.5);
}

TEST(no_test_above_wrote_past_an_allocation) {
    FAKE_ONLY("it counts overruns");
    assert_int_equal(fake_find()->counts.overruns, 0);
}
