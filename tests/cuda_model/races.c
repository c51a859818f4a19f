/* The kernels with the race check (race.h): every check of checks.h runs without a race, and removing a barrier or
 * fence causes one. The race check itself is tested first, on small kernels. */
#include "tests/cuda_model/checks.h"
#include "tests/cuda_model/model.h"
#include "tests/cuda_model/race_scenarios.h"
#include "tests/support/test.h"

enum { SEEDS = 16 };

static void assert_clean(const char *name, int (*scenario)(void)) {
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        d9_model_seed(seed);
        d9_model_test(name);
        if (scenario()) fail_msg("%s, seed %u: %s", name, seed, d9_model_failure());
    }
}

/* The race must be found in any order of the threads. */
static void assert_race(const char *name, int (*scenario)(void), const char *kernel, const char *reason) {
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        d9_model_seed(seed);
        d9_model_test(name);
        if (scenario() != D9_MODEL_LAUNCH_FAILURE) fail_msg("%s, seed %u: no race", name, seed);
        const char *said = d9_model_failure();
        if (strncmp(said, kernel, strlen(kernel)) != 0 || !strstr(said, ": race: thread ") || !strstr(said, reason))
            fail_msg("%s, seed %u: \"%s\" does not say \"%s\"", name, seed, said, reason);
    }
}

#define CLEAN(name)                assert_clean(#name, d9_race_##name);
#define RACE(name, kernel, reason) assert_race(#name, d9_race_##name, kernel, reason);
TEST(what_is_ordered_is_clean) { D9_ORDERED(CLEAN); }
TEST(what_is_not_is_a_race) { D9_RACES(RACE); }

static void run_check(const char *name, d9_cuda_check_function *run) {
    d9_model_seed(0);
    const d9_check check = d9_cuda_check_run(name, run, false);
    if (check.failures) fail_msg("%lld failed: %s", (long long)check.failures, check.first);
    assert_true(check.compared > 0);
}

#define CHECK_TEST(name)                                                                                               \
    TEST(name) { run_check(#name, d9_cuda_check_##name); }
D9_CUDA_CHECKS(CHECK_TEST)

/* True if the check `name` reports a race without the barrier or fence at `site`. */
static bool notices(const char *name, const char *site) {
    d9_check check = {.failures = 0};
    d9_model_drop(site);
    for (int i = 0; i < d9_cuda_check_count; i++)
        if (strcmp(d9_cuda_checks[i].name, name) == 0) check = d9_cuda_check_run(name, d9_cuda_checks[i].run, false);
    d9_model_drop(NULL);
    return check.failures > 0 && strstr(check.first, ": race: thread ");
}

/* FILE:LINE of barrier or fence `index`; *test: a test that reached it; NULL past the end */
typedef const char *site_lookup(size_t index, const char **test);

/* There must be at least `least` barriers or fences. Without one of them, a test that reached it must report a race. */
static void check_sites(site_lookup *site_at, int least) {
    int sites = 0, matter = 0;
    bool noticed = false;
    char last[256] = "";
    const char *site, *test;
    for (size_t i = 0; (site = site_at(i, &test)); i++) {
        if (strstr(site, "race_scenarios.cpp")) continue;
        if (strcmp(site, last) != 0) {
            snprintf(last, sizeof last, "%s", site);
            sites++;
            noticed = false;
        }
        if (noticed || !notices(test, site)) continue;
        noticed = true;
        matter++;
    }
    assert_true(sites >= least);
    assert_int_equal(matter, sites);
}

TEST(every_barrier_prevents_a_race) { check_sites(d9_model_barrier_at, 5); }
TEST(every_fence_prevents_a_race) { check_sites(d9_model_fence_at, 2); }
