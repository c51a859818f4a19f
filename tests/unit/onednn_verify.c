/* verify on the oneDNN backend: every golden case in f32, and in bf16 where the machine computes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/runs.h"
#include "tests/support/skip.h"

static void test_f32(void **state) {
    (void)state;
    run_check_verify("onednn", "f32", "", 10);
}

static void test_bf16(void **state) {
    d9_context *context = *state;
    if (run_missing(context, "onednn", "bf16")) skip_for("bf16", context->message);
    run_check_verify("onednn", "bf16", "", 10);
}

int main(void) {
    d9_context context;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test_prestate(test_bf16, &context)};
    d9_context_init(&context);
    if (run_missing(&context, "onednn", "f32")) return skipped("onednn", context.message);
    return cmocka_run_group_tests_name("onednn_verify", tests, NULL, NULL);
}
