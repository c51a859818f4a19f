/* The CUDA backend over the CPU model of the kernels against other numbers than its own: another framework's through
 * the trainer's own step program (verify), the reference's rule by rule from the same inputs, and a few epochs of
 * training. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/runs.h"

#include <math.h>

static void another_framework_s_numbers(void **state) {
    (void)state;
    run_check_verify("cuda", "f32", "ema.safetensors", 1);
}

/* Every trick on: all rules that a step of ours has. */
static void rule_by_rule(void **state) {
    static const char *const precisions[] = {"f32", "bf16", "fp16"};
    (void)state;
    for (int p = 0; p < 3; p++) {
        d9_context context;
        d9_context_init(&context);
        d9_config *config = run_config(&context, "cuda", precisions[p], "");
        run_check_rules(&context, config, false, 30);
        if (p == 0) run_check_rules(&context, config, true, 30);
        d9_config_free(&context, config);
    }
}

/* 13 steps, replayed from recorded ones. Rounding is amplified by the network from step to step, so the loss is
 * compared, and within what reordered sums make of it. */
static void the_loss_follows_the_reference(void **state) {
    d9_context context;
    run_report reports[2];
    static const char *const backends[] = {"cuda", "reference"};
    (void)state;
    d9_context_init(&context);
    for (int b = 0; b < 2; b++) {
        d9_config *config = run_config(&context, backends[b], "f32", "");
        reports[b] = run_train_ok(&(d9_train_options){.config = config, .seed = 7});
        d9_config_free(&context, config);
    }
    assert_int_equal(reports[0].epoch_count, reports[1].epoch_count);
    for (int64_t e = 0; e < reports[0].epoch_count; e++)
        if (!(fabs(reports[0].train_loss[e] - reports[1].train_loss[e]) <= 1e-4 * reports[1].train_loss[e]))
            fail_msg("epoch %lld: loss %.7g, reference %.7g", (long long)e + 1, reports[0].train_loss[e],
                     reports[1].train_loss[e]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(another_framework_s_numbers), cmocka_unit_test(rule_by_rule),
                                       cmocka_unit_test(the_loss_follows_the_reference)};
    return cmocka_run_group_tests_name("cuda_backend_verify", tests, NULL, NULL);
}
