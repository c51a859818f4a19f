/* verify on the oneDNN backend: every golden case in f32, and in bf16 where the machine computes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/runs.h"

static void test_f32(void **state) {
    (void)state;
    run_check_verify("onednn", "f32", "", 10);
}

static void test_bf16(void **state) {
    (void)state;
    run_check_verify("onednn", "bf16", "", 10);
}

int main(void) {
    d9_context context;
    const d9_backend *backend;
    d9_device *device = NULL;
    d9_device_info info;
    d9_backend_options options = {0};
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16)};
    const struct CMUnitTest narrow[] = {cmocka_unit_test(test_f32)};
    d9_context_init(&context);
    if (d9_backend_find(&context, "onednn", &backend) != D9_OK ||
        backend->open(&context, &options, &device) != D9_OK) {
        print_message("skipped: %s\n", context.message);
        return 77;
    }
    backend->describe(device, &info);
    backend->close(&context, device);
    if (info.precision[2]) return cmocka_run_group_tests(tests, NULL, NULL);
    print_message("no bf16 on this machine: f32 alone\n");
    return cmocka_run_group_tests(narrow, NULL, NULL);
}
