/* Training runs in which one system call fails: the k-th allocation, open, read, write and so on. The run must end with
 * a documented status and a message, or as without the failure, without partial files; resumed on a working system, it
 * must end as without the failure. Up to 20 calls of each kind are tried; all, in minutes, by
 * `test_trainer_each_call all`. */
#include "tests/support/each_call.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

static run_report train(run_bench *b, planted *p, bool resume) {
    const d9_system system = planted_system(p, run_system()); /* without syncing */
    return run_train(
        &(d9_train_options){.config = b->config, .seed = 7, .out = b->folder, .checkpoint_every = 1, .resume = resume},
        &system);
}

static void empty_folder(run_bench *b) {
    run_folder_remove(b->folder);
    run_folder_make(b->folder);
}

static bool is_documented(d9_status status) {
    return status == D9_OUTPUT || status == D9_DATA || status == D9_USAGE || status == D9_DEVICE;
}

static void check_failing_call(run_bench *b, const run_report *whole, each_call kind, int64_t k) {
    planted p = {.kind = kind, .victim = k}, none = {.victim = 0};
    char what[64];
    snprintf(what, sizeof what, "%s %lld", each_call_names[kind], (long long)k);
    const run_report report = train(b, &p, false);
    assert_true(p.met);
    run_check_files(b->folder, what);
    if (report.status == D9_OK) { /* the failed call did not matter */
        run_assert_equal(&report, whole, what);
        return;
    }
    if (!is_documented(report.status) || !report.message[0])
        fail_msg("%s: status %d, \"%s\"", what, (int)report.status, report.message);
    const run_report again = train(b, &none, true);
    if (again.status != D9_OK) fail_msg("%s, then resumed: %s", what, again.message);
    run_assert_equal(&again, whole, what);
}

enum { SOME = 20 / TEST_SHARE }; /* most calls tried of each kind */
static bool every;               /* tries all calls */

TEST_WITH(run_bench *b, test_runs_with_a_failing_call, run_bench_set_up, run_bench_tear_down) {
    planted counted = {.victim = 0};
    const run_report whole = train(b, &counted, false);
    if (whole.status != D9_OK) fail_msg("%s", whole.message);
    for (int kind = 0; kind < CALL_COUNT; kind++) {
        const int64_t step = every ? 1 : 1 + counted.calls[kind] / SOME;
        for (int64_t k = 1; k <= counted.calls[kind]; k += step) {
            empty_folder(b);
            check_failing_call(b, &whole, (each_call)kind, k);
        }
        print_message("%s: %lld calls\n", each_call_names[kind], (long long)counted.calls[kind]);
    }
}

int main(int count, char **arguments) {
    every = count == 2 && strcmp(arguments[1], "all") == 0;
    return test_run(NULL);
}
