/* verify on the oneDNN backend: every golden case in f32, and in bf16 where the machine computes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/programs.h"
#include "train/verify.h"

#include <string.h>

#define CASES D9_SOURCE_DIR "/tests/golden/cases"

typedef struct tally {
    int rows, failed, rules;
} tally;

static void note(void *user, const d9_verify_row *row) {
    tally *t = user;
    t->rows++;
    t->rules += strcmp(row->group, "rule by rule") == 0;
    if (row->passed || row->skipped) return;
    t->failed++;
    print_error("%s, %s: error %.2e, limit %.2e, sensitivity %.2e (%s)\n", row->name, row->group, row->error, row->limit,
                row->sensitivity, row->note);
}

static void verify(const char *precision) {
    d9_context context;
    tally t = {0};
    d9_context_init(&context);
    d9_verify_options options = {.cases = CASES, .backend = "onednn", .precision = precision};
    d9_status status = d9_verify(&context, &options, note, &t);
    if (status != D9_OK) fail_msg("%s", context.message);
    assert_int_equal(t.failed, 0);
    assert_int_equal(t.rules, 10); /* one for each training case */
    assert_true(t.rows >= 60);
}

static void test_f32(void **state) {
    (void)state;
    verify("f32");
}

static void test_bf16(void **state) {
    (void)state;
    verify("bf16");
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
