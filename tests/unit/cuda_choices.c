/* The cache of tuned choices (engine/backends/cuda/choices.h): entries are found again, processes keep each other's
 * entries, and damaged files are ignored. */
#include "backends/cuda/choices.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"

static int warnings;

static void count_warnings(void *user, d9_log_level level, const char *line) {
    (void)user, (void)line;
    warnings += level == D9_LOG_WARNING;
}

static d9_cuda_choices *open_folder(const char *folder) {
    d9_cuda_choices *choices;
    OK(d9_cuda_choices_open(&context, folder, &choices));
    return choices;
}

TEST_WITH(const char *folder, added_choices_are_found_again, run_folder_set_up, run_folder_tear_down) {
    char key[32];
    const char *kept = run_path(folder, "kept"); /* made when it is saved */
    d9_cuda_choices *first = open_folder(kept), *second = open_folder(kept);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "key %d", i);
        OK(d9_cuda_choices_add(&context, i % 2 ? first : second, key, "e1"));
    }
    OK(d9_cuda_choices_add(&context, first, "key 1", "e7 k2=23"));
    OK(d9_cuda_choices_add(&context, first, "key 0", "e9")); /* the second cache, saved later, replaces it */
    d9_cuda_choices_save(&context, first);
    d9_cuda_choices_save(&context, second); /* keeps the first one's other keys */
    d9_cuda_choices_close(&context, first), d9_cuda_choices_close(&context, second);
    first = open_folder(kept);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "key %d", i);
        assert_string_equal(d9_cuda_choices_find(first, key, false), i == 1 ? "e7 k2=23" : "e1");
    }
    assert_null(d9_cuda_choices_find(first, "key 100", false));
    assert_null(d9_cuda_choices_find(first, "key 1", true)); /* true: only choices added since opening */
    OK(d9_cuda_choices_add(&context, first, "key 1", "e2"));
    assert_string_equal(d9_cuda_choices_find(first, "key 1", true), "e2");
    d9_cuda_choices_close(&context, first);
    assert_int_equal(warnings, 0);
}

#define HEADER "dawn9 choices 2\n"

TEST_WITH(const char *folder, a_damaged_file_is_ignored, run_folder_set_up, run_folder_tear_down) {
    static const char *const texts[] = {"",
                                        "dawn9 choices 1\n",
                                        "dawn9 choices 2",
                                        HEADER "a\te1\nb\te2",
                                        HEADER "a\te1\nb e2\n",
                                        HEADER "a\te1\n\n",
                                        HEADER "a\te1\nb\t\n",
                                        HEADER "a\te1\n\te2\n",
                                        HEADER "a\te1\na\te2\n",
                                        HEADER "a\te1\nb\te2\te3\n",
                                        HEADER "a\te1\nb\te2\r\n",
                                        HEADER "a\te1\nb\te\x01\n",
                                        HEADER "a\te1\nb\t0123456789012345678901234567890123456789012345678901234567890"
                                               "123456789012345678901234567890123456789\n"};
    const char *path = run_path(folder, "cuda-choices.tsv");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        warnings = 0;
        OK(d9_file_write(&context, path, texts[i], strlen(texts[i])));
        d9_cuda_choices *choices = open_folder(folder);
        if (d9_cuda_choices_find(choices, "a", false)) fail_msg("text %zu was accepted", i);
        assert_int_equal(warnings, 1);
        d9_cuda_choices_close(&context, choices);
    }
    OK(d9_file_write(&context, path, HEADER "a\te1\n", strlen(HEADER "a\te1\n")));
    d9_cuda_choices *choices = open_folder(folder);
    assert_string_equal(d9_cuda_choices_find(choices, "a", false), "e1");
    d9_cuda_choices_close(&context, choices);
}

TEST_WITH(const char *folder, a_folder_that_cannot_be_made_is_no_error, run_folder_set_up, run_folder_tear_down) {
    OK(d9_file_write(&context, run_path(folder, "file"), "", 0));
    d9_cuda_choices *choices = open_folder(run_path(folder, "file/below"));
    OK(d9_cuda_choices_add(&context, choices, "a", "e1"));
    warnings = 0;
    for (int again = 0; again < 2; again++) d9_cuda_choices_save(&context, choices);
    assert_int_equal(warnings, 1); /* only the first time */
    OK(context.status);
    assert_string_equal(d9_cuda_choices_find(choices, "a", false), "e1");
    d9_cuda_choices_close(&context, choices);
}

int main(void) {
    context.log = count_warnings;
    return test_run(NULL);
}
