/* The kernels of kernels/cuda on the simulated GPU, compared with kernels/cpu and plain loops. At least one check must
 * run each __global__ function; coverage-kernel.tsv in the build folder lists which. With an argument, no check may
 * have a race (race.h), and for each barrier and fence a check must report a race if it is ignored. */
#include "core/system.h"
#include "tests/cuda_model/checks.h"
#include "tests/cuda_model/model.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <ctype.h>
#include <dirent.h>

static void run_check(const char *name, d9_cuda_check_function *run) {
    d9_model_seed(0);
    const d9_check check = d9_cuda_check_run(name, run, D9_CONTRACTED);
    if (check.failures) fail_msg("%lld of %lld: %s", (long long)check.failures, (long long)check.compared, check.first);
    assert_true(check.compared > 0);
}

#define CHECK_TEST(name)                                                                                               \
    TEST(name) { run_check(#name, d9_cuda_check_##name); }
D9_CUDA_CHECKS(CHECK_TEST)

/* With D9_CONTRACTED, kernels are compiled as by nvcc: a product is not rounded before it is added. In the other build
 * it is rounded. */
static void products_are_contracted_as_built(__attribute__((unused)) void **state) {
    enum { COUNT = 1000 };
    const float ratio = 0.3f, *x = d9_random(D9_KERNEL_F32, COUNT, 61);
    float *a = d9_random(D9_KERNEL_F32, COUNT, 62), *rounded = d9_floats(COUNT);
    const int64_t step = 0;
    d9_check check = {.name = "lerp"};
    int differ = 0;
    d9_model_begin_test("lerp");
    for (int i = 0; i < COUNT; i++) {
        volatile const float old = ratio * a[i], new = (1 - ratio) * x[i];
        rounded[i] = old + new;
    }
    d9_check_launch(&check, d9_cuda_lerp(NULL, (d9_cuda_coefficient){&ratio, 0}, &step, x, COUNT, a));
    for (int i = 0; i < COUNT; i++) differ += a[i] != rounded[i];
    assert_int_equal(check.failures, 0);
    assert_int_equal(differ > COUNT / 20, D9_CONTRACTED);
    assert_int_equal(differ > 0, D9_CONTRACTED);
    d9_check_done(&check);
}

static bool list_tests(const char *kernel, char *tests, size_t size) { /* false: no test ran the kernel */
    const char *test, *name;
    tests[0] = 0;
    for (size_t i = 0; (name = d9_model_kernel_at(i, &test)); i++)
        if (strcmp(name, kernel) == 0)
            snprintf(tests + strlen(tests), size - strlen(tests), "%s%s", tests[0] ? " " : "", test);
    return tests[0] != 0;
}

/* Finds the next kernel's name, the word before the first ( after __global__ and its launch bounds. False: none. */
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

static void every_kernel_has_run(__attribute__((unused)) void **state) {
    const char *folder = D9_SOURCE_DIR "/kernels/cuda";
    static char rows[1 << 16];
    int kernels = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".cu") != 0) continue;
        char path[1024], name[128], tests[1024];
        uint8_t *source;
        size_t size;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        OK(d9_file_read(&context, path, &source, &size));
        const char *at = (const char *)source;
        while (next_kernel(&at, name, sizeof name)) {
            if (!list_tests(name, tests, sizeof tests)) fail_msg("%s: %s: no test ran it", entry->d_name, name);
            const size_t used = strlen(rows);
            snprintf(rows + used, sizeof rows - used, "%s\t%s\t%s\n", entry->d_name, name, tests);
            kernels++;
        }
        d9_release(&context, source);
    }
    closedir(listing);
    assert_true(kernels > 20);
    run_write_text(D9_BINARY_DIR, "coverage-kernel.tsv", rows);
}

/* True if the check `name` reports a race when the barrier or fence at `site` is ignored. */
static bool finds_race_without(const char *name, const char *site) {
    d9_check check = {.failures = 0};
    d9_model_ignore(site);
    for (int i = 0; i < d9_cuda_check_count; i++)
        if (strcmp(d9_cuda_checks[i].name, name) == 0) check = d9_cuda_check_run(name, d9_cuda_checks[i].run, false);
    d9_model_ignore(NULL);
    return check.failures > 0 && strstr(check.first, ": race: thread ");
}

/* Returns FILE:LINE of row `index` of a list of barriers or fences with the tests that reached them; NULL past its end.
 * *test: the row's test. */
typedef const char *site_lookup(size_t index, const char **test);

/* There must be at least `least` barriers or fences. If one is ignored, a test that reached it must report a race. */
static void check_sites(site_lookup *site_at, int least) {
    int sites = 0, matter = 0;
    bool noticed = false;
    char last[256] = "";
    const char *site, *test;
    for (size_t i = 0; (site = site_at(i, &test)); i++) {
        if (strcmp(site, last) != 0) {
            snprintf(last, sizeof last, "%s", site);
            sites++;
            noticed = false;
        }
        if (noticed || !finds_race_without(test, site)) continue;
        noticed = true;
        matter++;
    }
    assert_true(sites >= least);
    assert_int_equal(matter, sites);
}

static void every_barrier_prevents_a_race(__attribute__((unused)) void **state) { check_sites(d9_model_barrier_at, 5); }
static void every_fence_prevents_a_race(__attribute__((unused)) void **state) { check_sites(d9_model_fence_at, 2); }

TEST_MAIN(count, arguments) {
    const bool races = count > 1;
    d9_model_set_race_check(races);
    if (races) {
        test_add(every_barrier_prevents_a_race);
        test_add(every_fence_prevents_a_race);
    } else {
        test_add(products_are_contracted_as_built);
        test_add(every_kernel_has_run);
    }
    return test_run(NULL);
}
