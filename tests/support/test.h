/* Included by every test program: cmocka, common standard headers, tests that register themselves, and checks of
 * messages.
 *
 *     TEST(name) { ... }                       runs in the order of the file
 *     TEST(name, set_up) { ... }               with a fixture in *state
 *     TEST(name, set_up, tear_down) { ... }
 *     TEST_GROUP(set_up, tear_down)            one fixture for all tests of the file; either may be NULL
 *     TEST_MAIN(count, arguments) { ... }      replaces main: calls test_run and returns the exit status
 *
 * If the first argument is the name of a source file of the program, without ".c", only that file runs. Nearly all of
 * tests/unit is one program, because linking one for each file would take minutes: build/tests/test_unit NAME.
 * test_unit --files NAME... fails if a test is in none of these files. */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "core/context.h"
#include "core/text.h"

/* With the address sanitizer, which is several times slower, some tests run only one in TEST_SHARE cases. */
#if defined(__has_feature)
#define D9_HAS_FEATURE(feature) __has_feature(feature)
#else
#define D9_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || D9_HAS_FEATURE(address_sanitizer)
enum { TEST_SHARE = 5 };
#else
enum { TEST_SHARE = 1 };
#endif

#define TEST(...) TEST_OF(__VA_ARGS__, NULL, NULL, NULL)
/* A test whose fixture is a parameter instead of *state: TEST_WITH(fixture *f, name, set_up, tear_down). */
#define TEST_WITH(fixture, name, ...)                                                                                  \
    static void name##_with(fixture);                                                                                  \
    TEST(name, __VA_ARGS__) { name##_with(*state); }                                                                   \
    static void name##_with(fixture)
#define TEST_OF(test_name, set_up, tear_down, ...)                                                                     \
    static void test_name(void **state);                                                                               \
    TEST_REGISTER(test_name, .name = #test_name, .test = test_name, .fixture = {set_up, tear_down})                    \
    static void test_name(__attribute__((unused)) void **state)
#define TEST_GROUP(...) TEST_REGISTER(group, .fixture = {__VA_ARGS__})
#define TEST_MAIN(count, arguments)                                                                                    \
    static int run_file(int count, char **arguments);                                                                  \
    TEST_REGISTER(main, .main = run_file)                                                                              \
    static int run_file(__attribute__((unused)) int count, __attribute__((unused)) char **arguments)

/* A test, the fixture of a file's tests (without name and main), or a file's main. __BASE_FILE__ is the file that is
 * compiled, also in tests that a .def file makes. */
typedef struct test_entry {
    const char *file, *name; /* file NULL: any */
    CMUnitTestFunction test;
    CMFixtureFunction fixture[2]; /* set-up and tear-down; NULL: none */
    int (*main)(int count, char **arguments);
} test_entry;
#define TEST_REGISTER(what, ...)                                                                                       \
    __attribute__((constructor)) static void add_##what(void) {                                                        \
        test_register(&(test_entry){.file = __BASE_FILE__, __VA_ARGS__});                                              \
    }
void test_register(const test_entry *entry);
/* Adds a test in TEST_MAIN; the test runs whichever file was chosen. */
#define test_add(function) test_register(&(test_entry){.name = #function, .test = function})
/* Runs all tests, or those of the file that main has chosen. `state`: *state of tests without a fixture, or NULL.
 * Returns the program's exit status, 0 if no test failed. */
int test_run(void *state);
/* The context of the tests. Each test begins with the value that main and the set-up of TEST_GROUP have given it. */
extern d9_context context;

/* Releases `thing` when the running test ends, before its tear-down; what was kept last goes first. In the set-up of
 * TEST_GROUP: after all tests. Returns `thing`. */
void *test_keep(void *thing, void (*release)(void *thing));
/* Zeroed memory, aligned to 64 bytes, which is freed when the running test ends. */
void *test_memory(size_t bytes);
/* An empty text, which is freed when the running test ends. */
d9_text *test_text(void);

/* assert_int_equal of up to four pairs: assert_ints(got, want, got, want). */
#define assert_ints(...)                        D9_NTH_(__VA_ARGS__, D9_8_, , D9_6_, , D9_4_, , D9_2_, )(__VA_ARGS__)
#define D9_NTH_(a, b, c, d, e, f, g, h, n, ...) n
#define D9_2_(a, b)                             assert_int_equal(a, b)
#define D9_4_(a, b, ...)                        (D9_2_(a, b), D9_2_(__VA_ARGS__))
#define D9_6_(a, b, ...)                        (D9_2_(a, b), D9_4_(__VA_ARGS__))
#define D9_8_(a, b, ...)                        (D9_2_(a, b), D9_6_(__VA_ARGS__))

/* Fails unless `message` is one line that contains each of the words (separated by spaces): keys, values, places and
 * numbers, in any order. Words must match whole words: "3" is not in "13", "0.3" or "layer3". */
void assert_words(const char *message, const char *words);
void assert_holds(const char *text, const char *part); /* the part must occur in the text */
/* Two finite numbers must differ by at most tolerance * (1 + |want|). */
#define assert_within(got, want, tolerance) test_within(#got, got, want, tolerance)
void test_within(const char *what, double got, double want, double tolerance);
/* Two numbers must differ by at most `tolerance`. */
#define assert_near(got, want, tolerance) test_near(#got, got, want, tolerance)
void test_near(const char *what, double got, double want, double tolerance);
/* The larger number, but NaN if either is NaN, which fmax ignores. */
static inline double test_larger(double a, double b) { return isnan(a) || a >= b ? a : b; }
/* The warnings logged in a context since test_catch_warnings: their number, and the last one ("": none). */
typedef struct test_warnings {
    int count;
    char last[1024];
} test_warnings;
test_warnings *test_catch_warnings(d9_context *of); /* returns one object for all contexts, which is reset */
/* The call must return D9_OK; otherwise the test fails with the context's message. */
#define OK(call) test_ok(&context, call)
void test_ok(const d9_context *of, d9_status status);
/* The call must return `status`, and the context's message must have these words. Clears the context's error. */
#define assert_rejection(call, status, words)                                                                          \
    (assert_int_equal(call, status), assert_words(context.message, words), d9_context_clear(&context))
/* Returns NULL if `message` has all words; `words` from the first missing word on; or "(one line)" if `message` is
 * empty or has a line break. */
const char *missing_word(const char *message, const char *words);

/* A test that cannot run prints "skipped: REASON: WHY", which tests/run.sh reads; CI accepts only the reasons listed
 * there. `skipped` prints it and returns the exit status of a program that can run no test; skip_for skips the calling
 * test. */
int skipped(const char *reason, const char *why);
#define skip_for(reason, why) (skipped(reason, why), skip())
