/* One step of dawn94 at its full width and batch 16, first choices and fused rules, rule by rule against the
 * reference backend: the golden cases are narrow, and wide layers take other code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/support/runs.h"

#include <stdio.h>

static void check(const char *precision, bool poisoned) {
    d9_context context;
    d9_context_init(&context);
    char set_precision[32];
    snprintf(set_precision, sizeof set_precision, "precision=%s", precision);
    const char *sets[] = {set_precision,
                          "backend=onednn",
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

static void test_f32(void **state) {
    (void)state;
    check("f32", false);
}

static void test_nan_on_both_sides_fails(void **state) {
    (void)state;
    check("f32", true);
}

static void test_bf16(void **state) {
    (void)state;
    check("bf16", false);
}

/* Whether this machine has the backend at all, and in bf16. */
static int available(bool *bf16) {
    d9_context context;
    const d9_backend *backend;
    d9_device *device;
    d9_device_info info;
    d9_backend_options options = {0};
    d9_context_init(&context);
    if (d9_backend_find(&context, "onednn", &backend) != D9_OK || backend->open(&context, &options, &device) != D9_OK) {
        print_message("skipped: %s\n", context.message);
        return 0;
    }
    backend->describe(device, &info);
    backend->close(&context, device);
    *bf16 = info.precision[2];
    return 1;
}

int main(void) {
    bool bf16;
    const struct CMUnitTest both[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_nan_on_both_sides_fails),
                                      cmocka_unit_test(test_bf16)},
                            narrow[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_nan_on_both_sides_fails)};
    if (!available(&bf16)) return 77;
    if (bf16) return cmocka_run_group_tests(both, NULL, NULL);
    print_message("no bf16 on this machine: f32 alone\n");
    return cmocka_run_group_tests(narrow, NULL, NULL);
}
