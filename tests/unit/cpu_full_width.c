/* One step of dawn94 at its full width and batch 16, first choices and fused rules, rule by rule against the
 * reference backend: the golden cases are narrow, and wide layers take other code. */
#include "tests/support/runs.h"
#include "tests/support/test.h"

static void check(const char *backend, const char *precision, bool poisoned) {
    d9_context context;
    d9_context_init(&context);
    char set_precision[32], set_backend[32];
    const char *missing = run_missing(&context, backend, precision);
    if (missing) skip_for(missing, context.message);
    snprintf(set_backend, sizeof set_backend, "backend=%s", backend);
    snprintf(set_precision, sizeof set_precision, "precision=%s", precision);
    const char *sets[] = {set_precision,
                          set_backend,
                          "train.batch_size=16",
                          "data.dataset=synthetic",
                          "data.synthetic_train=64",
                          "data.synthetic_test=16",
                          "tricks.ghost_batchnorm.group_size=8"};
    d9_config_edits edits = {.set = sets, .set_count = sizeof sets / sizeof *sets};
    d9_config *config;
    if (d9_config_load(&context, D9_SOURCE_DIR "/configs/dawn94.yaml", &edits, &config) != D9_OK)
        fail_msg("%s", context.message);
    run_check_rules(&context, config, poisoned, 30);
    d9_config_free(&context, config);
}

TEST(test_f32) { check("cpu", "f32", false); }

TEST(test_bf16) { check("cpu", "bf16", false); }

TEST(test_onednn_f32) { check("onednn", "f32", false); }

TEST(test_onednn_bf16) { check("onednn", "bf16", false); }

TEST(test_nan_on_both_sides_fails) { check("cpu", "f32", true); }
