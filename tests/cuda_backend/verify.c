/* Compares the CUDA backend, on the CPU model of the kernels or on a GPU, with another framework's numbers (as the
 * command verify does), rule by rule with the reference backend, and the reference's loss over a few epochs. */
#include "tests/cuda_backend/fake.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include "verify/rule_comparison.h"

TEST(another_framework_s_numbers) { run_check_verify("cuda", "f32", "ema.safetensors", 1); }

/* On the fake, tf32 convolutions round their inputs if this is on. */
static void set_tensor_cores(bool on) {
    d9_fake *fake = fake_find();
    if (fake) fake->tensor_cores = on;
}

TEST(another_framework_s_numbers_in_tf32) {
    set_tensor_cores(true);
    run_check_verify("cuda", "tf32", "patch_whitening.safetensors", 1);
    set_tensor_cores(false);
}

/* Many tricks are on, so that a step contains many rules. */
TEST(rule_by_rule) {
    static const char *const precisions[] = {"f32", "bf16", "fp16", "tf32"};
    set_tensor_cores(true);
    for (int p = 0; p < 4; p++) {
        d9_context context;
        d9_context_init(&context);
        d9_config *config = run_config(&context, "cuda", precisions[p], "");
        run_check_rules(&context, config, false, 30);
        if (p == 0) run_check_rules(&context, config, true, 30);
        d9_config_free(&context, config);
    }
    set_tensor_cores(false);
}

/* Rows compared in tf32. Limits may be wide only where tensor cores round: convolutions. */
typedef struct limits {
    int convolutions, others; /* number of rows */
    double worst;             /* largest error of a convolution */
} limits;

static void check_row(void *user, const d9_verify_row *row) {
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

TEST(tf32_widens_the_limits_of_convolutions_alone) {
    limits l = {0};
    d9_session tested, judge;
    int failed;
    set_tensor_cores(true);
    d9_config *configs[] = {run_config(&context, "cuda", "tf32", ""), run_config(&context, "reference", "f32", "")};
    run_open_ready(&context, configs[0], &tested);
    run_open_ready(&context, configs[1], &judge);
    OK(d9_rules_compare(&tested, &judge, 0, "tf32", check_row, &l, &failed));
    assert_int_equal(failed, 0);
    assert_true(l.convolutions >= 20 && l.others >= 20);
    const double least = fake_find() ? 1e-4 : 0; /* a GPU may choose other algorithms */
    if (!(l.worst > least && l.worst <= 1e-3)) fail_msg("convolutions in tf32 are off by %.2e", l.worst);
    d9_session_close(&tested), d9_session_close(&judge);
    for (int c = 0; c < 2; c++) d9_config_free(&context, configs[c]);
    set_tensor_cores(false);
}

/* Texts: a network of two recurrent layers, and one whose states go on to the next step and whose gradients are
 * clipped, in f32 and fp16; a whole step, rule by rule, in every precision. */
TEST(texts) {
    static const char *const precisions[] = {"f32", "fp16", "bf16", "tf32"}, *const cases[] = {"text_gru_layers",
                                                                                               "language_lstm_tied"};
    char folder[RUN_PATH_BYTES], name[64];
    run_folder_make(folder);
    for (int p = 0; p < 4; p++) {
        for (int c = 0; c < 2 && p < 2; c++) {
            snprintf(name, sizeof name, "%s.safetensors", cases[c]);
            run_check_verify("cuda", precisions[p], name, 1);
        }
        d9_config *config = run_language_config(&context, "cuda", precisions[p], folder);
        run_check_rules(&context, config, false, 30);
        d9_config_free(&context, config);
    }
    run_folder_remove(folder);
}

/* 13 steps, on cuda replayed from captured graphs. The network amplifies rounding from step to step, so only the loss
 * is compared, with a limit for reordered sums. */
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
        d9_config *config = run_config(&context, backends[b], precisions[b], "");
        reports[b] = run_train_ok(&(d9_train_options){.config = config, .seed = 7});
        d9_config_free(&context, config);
    }
    compare_losses(&reports[0], &reports[1]);
    if (fake_find()) run_assert_equal(&reports[0], &reports[2], "f32 and tf32 without tensor cores");
}

/* Two epochs of carried states, also in evaluation. */
TEST(the_loss_of_a_language_model_follows_the_reference) {
    run_report reports[2];
    static const char *const backends[] = {"cuda", "reference"};
    char folder[RUN_PATH_BYTES];
    run_folder_make(folder);
    for (int b = 0; b < 2; b++) {
        d9_config *config = run_language_config(&context, backends[b], "f32", folder);
        reports[b] = run_train_ok(&(d9_train_options){.config = config, .seed = 7});
        d9_config_free(&context, config);
    }
    run_folder_remove(folder);
    compare_losses(&reports[0], &reports[1]);
    for (int e = 0; e < 2; e++)
        assert_true(fabs(reports[0].epoch_score[e] - reports[1].epoch_score[e]) <= 1e-4 * reports[1].epoch_score[e]);
}
