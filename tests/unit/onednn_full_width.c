/* One step of dawn94 at its full width and batch 16, first choices and fused rules, rule by rule against the
 * reference backend: the golden cases are narrow, and wide layers take other code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "core/system.h"
#include "tests/support/programs.h"
#include "train/verify.h"

#include <math.h>
#include <stdio.h>

static void print_failure(void *user, const d9_verify_row *row) {
    int *rows = user;
    ++*rows;
    if (!row->passed)
        print_error("%s at %s: error %.2e, limit %.2e, cosine %.7f (%s)\n", row->name, row->group, row->error,
                    row->limit, row->cosine, row->note);
}

static void open_ready(d9_context *context, const d9_config *config, d9_session *session) {
    d9_session_options options = {.config = config, .seed = 1, .no_eval = true, .program.keep_all = true};
    if (d9_session_open(context, &options, session) != D9_OK) fail_msg("%s", context->message);
    assert_int_equal(d9_session_initialize(session), D9_OK);
    assert_int_equal(d9_session_begin_epoch(session, 0), D9_OK);
}

static void poison(d9_session *session) {
    void *state = NULL;
    int64_t count = session->program.state_elements;
    assert_int_equal(d9_allocate(session->context, (size_t)count * sizeof(double), "a poisoned state", &state), D9_OK);
    for (int64_t i = 0; i < count; i++) ((double *)state)[i] = NAN;
    assert_int_equal(d9_session_write_state(session, D9_BUFFER_STATE, state), D9_OK);
    d9_release(session->context, state);
}

/* `poisoned`: the state is NaN, so that both sides compute NaN; then rules must fail and not agree. */
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
    d9_config judge_config = *config;
    judge_config.backend = "reference";
    d9_session tested, judge;
    open_ready(&context, config, &tested);
    open_ready(&context, &judge_config, &judge);
    if (poisoned) poison(&tested);
    int failed = -1, rows = 0;
    if (d9_rules_compare(&tested, &judge, 0, precision, print_failure, &rows, &failed) != D9_OK)
        fail_msg("%s", context.message);
    if (poisoned)
        assert_true(failed > 10);
    else
        assert_int_equal(failed, 0);
    assert_true(rows > 30);
    d9_session_close(&tested);
    d9_session_close(&judge);
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
