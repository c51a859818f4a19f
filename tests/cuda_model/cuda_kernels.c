/* Every launcher of kernels/cuda on the CPU's execution model, compared with kernels/cpu and the formulas; and the
 * table of every __global__ function with the checks that ran it, none of which may be empty. */
#include "tests/cuda_model/checks.h"
#include "tests/cuda_model/coverage.h"
#include "tests/cuda_model/model.h"
#include "tests/support/share.h"
#include "tests/support/test.h"
#include <ctype.h>
#include <dirent.h>

static void run_check(void **state) {
    const d9_cuda_check *row = *state;
    d9_check check = {.failures = 0};
    d9_model_test(row->name);
    row->run(&check);
    d9_check_done(&check);
    if (check.failures) fail_msg("%lld of %lld: %s", (long long)check.failures, (long long)check.compared, check.first);
    assert_true(check.compared > 0);
}

static bool has_run(const char *kernel, char *tests, size_t size) {
    const char *test, *name;
    tests[0] = 0;
    for (size_t i = 0; (name = d9_model_kernel_at(i, &test)); i++)
        if (strcmp(name, kernel) == 0)
            snprintf(tests + strlen(tests), size - strlen(tests), "%s%s", tests[0] ? " " : "", test);
    return tests[0] != 0;
}

/* The kernel's name: the word before the first ( after __global__ and its launch bounds. */
static bool next_kernel(const char **text, char *name, size_t size) {
    const char *at = strstr(*text, "__global__");
    if (!at) return false;
    at += strlen("__global__");
    const char *open = at + strcspn(at, "({;"), *bounds = strstr(at, "__launch_bounds__(");
    if (bounds && bounds < open) {
        open += strcspn(open, ")");
        open += strcspn(open, "({;");
    }
    const char *end = open;
    while (end > at && (end[-1] == ' ' || end[-1] == '\n')) end--;
    const char *begin = end;
    while (begin > at && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')) begin--;
    assert_true(*open == '(' && begin < end && (size_t)(end - begin) < size);
    memcpy(name, begin, (size_t)(end - begin));
    name[end - begin] = 0;
    *text = open;
    return true;
}

static char *read_source(const char *folder, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void every_kernel_has_run(void **state) {
    (void)state;
    const char *folder = D9_SOURCE_DIR "/kernels/cuda";
    static char rows[1 << 16];
    int kernels = 0, blanks = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".cu") != 0) continue;
        char *source = read_source(folder, entry->d_name), name[128], tests[1024];
        const char *at = source;
        while (next_kernel(&at, name, sizeof name)) {
            const bool ran = has_run(name, tests, sizeof tests);
            if (!ran) print_message("%s: %s: no test ran it\n", entry->d_name, name);
            const size_t used = strlen(rows);
            snprintf(rows + used, sizeof rows - used, "kernel\t%s\t%s\t%s\n", entry->d_name, name, tests);
            kernels++;
            blanks += !ran;
        }
        free(source);
    }
    closedir(listing);
    assert_true(kernels > 20);
    assert_int_equal(blanks, 0);
    coverage_check("kernel", rows);
}

/* True if the check `name` fails without the barrier at `site`. */
static bool notices(const char *name, const char *site) {
    d9_check check = {.failures = 0};
    d9_model_drop(site);
    for (int i = 0; i < d9_cuda_check_count; i++) {
        if (strcmp(d9_cuda_checks[i].name, name) != 0) continue;
        d9_model_test(name);
        d9_cuda_checks[i].run(&check);
        d9_check_done(&check);
    }
    d9_model_drop(NULL);
    return check.failures > 0;
}

/* Removes each barrier in turn: one of the checks that waited there must fail. Skipped with sanitizers. */
static void every_barrier_matters(void **state) {
    (void)state;
    if (TEST_SHARE > 1) return;
    int barriers = 0, matter = 0;
    bool noticed = false;
    char last[256] = "";
    const char *site, *test;
    for (size_t i = 0; (site = d9_model_barrier_at(i, &test)); i++) {
        if (strcmp(site, last) != 0) {
            snprintf(last, sizeof last, "%s", site);
            barriers++;
            noticed = false;
        }
        if (noticed || !notices(test, site)) continue;
        noticed = true;
        matter++;
    }
    assert_true(barriers > 4);
    assert_int_equal(matter, barriers);
}

int main(void) {
    enum { MOST = 64, OWN = 2 };
    struct CMUnitTest tests[MOST];
    memset(tests, 0, sizeof tests);
    if (d9_cuda_check_count + OWN > MOST) return 1;
    for (int i = 0; i < d9_cuda_check_count; i++) {
        tests[i].name = d9_cuda_checks[i].name;
        tests[i].test_func = run_check;
        tests[i].initial_state = (void *)(uintptr_t)&d9_cuda_checks[i];
    }
    tests[d9_cuda_check_count] = (struct CMUnitTest)cmocka_unit_test(every_kernel_has_run);
    tests[d9_cuda_check_count + 1] = (struct CMUnitTest)cmocka_unit_test(every_barrier_matters);
    return _cmocka_run_group_tests("cuda_kernels", tests, (size_t)d9_cuda_check_count + OWN, NULL, NULL);
}
