/* The line that predicts how long a run takes, by the median and the quartiles of its first steps' times; the page that
 * reloads itself. */
#include "cli/progress.h"
#include "core/system.h"
#include "tests/support/programs.h"
#include "tests/support/runs.h"
#include "tests/support/test.h"
#include <time.h>

enum { TIMED = D9_TIMED_STEPS };
static char printed[1000];

static ssize_t keep_printed(void *user, int file, const void *bytes, size_t size) {
    (void)user;
    assert_int_equal(file, STDOUT_FILENO);
    strncat(printed, bytes, size);
    return (ssize_t)size;
}

/* Reports a first step of 500 s, and then steps so long that all steps after the timed ones, with evaluations, would
 * take these minutes. The line about the run's length must be `wanted`; "": no line. */
static void check_prediction(const double minutes[TIMED], const char *wanted) {
    const d9_config *config =
        program_yaml("model: {name: resnet9, channels: [4, 4, 8, 8]}\ntrain: {epochs: 10, batch_size: 8}\n");
    const d9_program *program = program_of(config, 128, 16, "f32");
    d9_system system = *d9_system_default();
    d9_cli cli = {.context = context};
    d9_progress progress;
    const d9_observer observer = d9_progress_observer(&progress, &cli, config, NULL, false);
    const double steps_left = d9_seconds_left(program, config, 1 + TIMED, 1); /* with evaluations; unit: a step */
    double now = 500;
    system.write = keep_printed, cli.context.system = &system, printed[0] = 0;
    observer.step(observer.user, program, 1, 2, now);
    for (int s = 0; s < TIMED; s++) {
        now += minutes[s] * 60 / steps_left;
        assert_string_equal(printed, "");
        observer.step(observer.user, program, s + 2, 2, now);
    }
    printed[strcspn(printed, "\n")] = 0;
    assert_string_equal(strncmp(printed, "about", 5) == 0 ? printed : "", wanted);
    d9_progress_end(&progress, true, "");
}

TEST(the_length_of_a_run_is_predicted_by_its_median_step) {
    check_prediction((double[]){25, 31, 27, 900, 26, 24, 29},
                     "about 27 minutes (25 to 31) with evaluations, by the first steps");
    check_prediction((double[]){1, 1, 90, 1.1, 1, 0.1, 1}, "about 1 minute with evaluations, by the first steps");
    check_prediction((double[]){190, 300, 210, 192, 180, 216, 240},
                     "about 3.5 hours (3.2 to 4.0) with evaluations, by the first steps");
    check_prediction((double[]){0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9}, "");
}

/* Writes the page of a run whose epochs all have this score. Returns the largest tick of the score's axis, and sets
 * *ticks to their number. */
static double largest_tick(double score, int *ticks) {
    const d9_config *config =
        program_yaml("model: {name: resnet9, channels: [4, 4, 8, 8]}\ntrain: {epochs: 2, batch_size: 8}\n");
    const char *path = run_path(run_folder_new(), "live.html");
    double largest = -INFINITY;
    d9_live_page page;
    d9_live_page_begin(&page, &context, config, path);
    const d9_program *program = program_of(config, 128, 16, "f32");
    d9_live_page_planned(&page, program);
    for (int epoch = 1; epoch <= 2; epoch++)
        d9_live_page_epoch(&page, program,
                           &(d9_epoch_row){.epoch = epoch, .train_loss = 1, .eval_loss = 1, .score = score});
    d9_live_page_end(&page, true, "finished");
    const char *at = strstr((const char *)run_read_file(path, NULL), "aria-label=\"Accuracy");
    assert_non_null(at);
    for (*ticks = 0; (at = strstr(at, "<text class=y ")); ++*ticks)
        largest = fmax(largest, strtod(at = strchr(at, '>') + 1, NULL));
    return largest;
}

/* If all scores are equal, the axis still has several ticks; if they are 100, no tick is larger. */
TEST(the_axis_of_the_page_has_no_impossible_score) {
    int ticks;
    assert_true(largest_tick(100, &ticks) == 100 && ticks >= 2);
    assert_true(largest_tick(0, &ticks) > 0 && ticks >= 2);
    assert_true(largest_tick(50, &ticks) > 50 && ticks >= 2);
}

/* The page is at most two seconds old, but an estimate for a million steps must not cost a visit to each of them. */
TEST(the_page_costs_no_time_that_grows_with_the_run) {
    const d9_config *config =
        program_yaml("model: {name: resnet9, channels: [4, 4, 8, 8]}\ntrain: {epochs: 1, batch_size: 1}\n");
    const d9_program *program = program_of(config, 1000000, 16, "f32");
    const char *path = run_path(run_folder_new(), "live.html");
    d9_cli cli = {.context = context};
    d9_progress progress;
    const d9_observer observer = d9_progress_observer(&progress, &cli, config, path, true);
    observer.planned(observer.user, program, &(d9_device_info){0}, "");
    const clock_t before = clock();
    for (int step = 1; step <= 1000; step++) {
        observer.step(observer.user, program, step, 2, step);
        assert_true(d9_seconds_left(program, config, step, 1) > 999999 - step);
    }
    assert_true(clock() - before < CLOCKS_PER_SEC);
    observer.epoch(observer.user, program, &(d9_epoch_row){.epoch = 1, .train_loss = 1, .score = 1});
    const char *page = (const char *)run_read_file(path, NULL);
    assert_true(strstr(page, "step 1000 of 1000000, ") && strstr(page, " left") && strstr(page, ", 1 images/s"));
    d9_progress_end(&progress, true, "");
}
