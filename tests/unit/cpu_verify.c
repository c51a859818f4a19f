/* verify on the CPU backend, with our convolutions first and with oneDNN's: every golden case in f32 and in bf16, with
 * oneDNN's where the machine computes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/runs.h"
#include "tests/support/skip.h"

/* The backend and precision are there, or the running test is skipped. */
static void check(const char *backend, const char *precision) {
    d9_context context;
    d9_context_init(&context);
    const char *missing = run_missing(&context, backend, precision);
    if (missing) skip_for(missing, context.message);
    run_check_verify(backend, precision, "", 21);
}

static void test_f32(void **state) {
    (void)state;
    check("cpu", "f32");
}

static void test_bf16(void **state) {
    (void)state;
    check("cpu", "bf16");
}

static void test_onednn_f32(void **state) {
    (void)state;
    check("onednn", "f32");
}

static void test_onednn_bf16(void **state) {
    (void)state;
    check("onednn", "bf16");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_bf16),
                                       cmocka_unit_test(test_onednn_f32), cmocka_unit_test(test_onednn_bf16)};
    return cmocka_run_group_tests_name("cpu_verify", tests, NULL, NULL);
}
