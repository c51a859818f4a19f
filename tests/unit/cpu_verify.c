/* verify on the backends cpu and onednn, in f32 and bf16 where available. On cpu in f32: every golden case. On cpu in
 * bf16: one case of every kind of network, or with `test_unit cpu_verify all` every case. On onednn: one case of every
 * kind of network with convolutions, because onednn computes all other operations as cpu does. If DAWN9_CPU_CEILING is
 * set, cpu always has one case of every kind: cpu_kernels.c and cpu_conv.c test every instruction set. */
#include "tests/support/runs.h"
#include "tests/support/test.h"

/* Skips the running test unless backend and precision are available. */
static void skip_unless_available(const char *backend, const char *precision) {
    const char *missing = run_missing(&context, backend, precision, NULL);
    if (missing) skip_for(missing, context.message);
}

static void check_networks(const char *backend, const char *precision, int count) {
    skip_unless_available(backend, precision);
    for (int i = 0; i < count; i++) run_check_verify(backend, precision, run_cases[i], 1);
}

static void check_cpu(const char *precision, bool all) {
    if (!all || getenv("DAWN9_CPU_CEILING")) {
        check_networks("cpu", precision, RUN_IMAGE_CASES + RUN_TEXT_CASES);
        return;
    }
    skip_unless_available("cpu", precision);
    run_check_verify("cpu", precision, "", 32);
}

TEST(golden_cases_pass_on_cpu_in_f32) { check_cpu("f32", true); }

/* *state: not NULL if `test_unit cpu_verify all` asks for every case. */
TEST(golden_cases_pass_on_cpu_in_bf16) { check_cpu("bf16", *state); }

TEST(golden_cases_pass_on_onednn_in_f32) { check_networks("onednn", "f32", RUN_IMAGE_CASES); }

TEST(golden_cases_pass_on_onednn_in_bf16) { check_networks("onednn", "bf16", RUN_IMAGE_CASES); }

/* test_unit cpu_verify [all] */
TEST_MAIN(count, arguments) { return test_run(count == 2 && strcmp(arguments[1], "all") == 0 ? arguments[1] : NULL); }
