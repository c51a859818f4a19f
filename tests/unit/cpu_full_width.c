/* The first step of dawn94 at full width and batch 16, with default algorithms and fused rules, compared with the
 * reference backend rule by rule: golden cases are narrow, and wide layers use other code. `poisoned`: all NaN. */
#include "tests/support/programs.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

static void check(const char *backend, const char *precision, bool poisoned) {
    char yaml[1024];
    const char *missing = run_missing(&context, backend, precision, NULL);
    if (missing) skip_for(missing, context.message);
    snprintf(yaml, sizeof yaml,
             "base: %s/configs/dawn94.yaml\nbackend: %s\nprecision: %s\ntrain: {batch_size: 16}\n"
             "data: {dataset: synthetic, synthetic_train: 64, synthetic_test: 16}\n"
             "tricks: {ghost_batchnorm: {group_size: 8}}\n",
             D9_SOURCE_DIR, backend, precision);
    d9_config *config = program_config(&context, yaml);
    run_check_rules(&context, config, poisoned, 30);
    d9_config_free(&context, config);
}

TEST(test_f32) { check("cpu", "f32", false); }

TEST(test_bf16) { check("cpu", "bf16", false); }

TEST(test_onednn_f32) { check("onednn", "f32", false); }

TEST(test_onednn_bf16) { check("onednn", "bf16", false); }

TEST(test_nan_on_both_sides_fails) { check("cpu", "f32", true); }
