/* Progress of a run on standard output.
 *
 *     speed94 in bf16: 245 steps of 1536 images, 1972792 parameters, Xeon, 2 threads
 *     precision  bf16 cost airbench at most 0.08 points of accuracy on CIFAR-10 (95%, 10 pairs of runs)
 *     page       runs/speed94/live.html: open it in a browser; it reloads itself
 *     about 27 minutes (25 to 31) with evaluations, by the first steps
 *     epoch  train loss  accuracy  with TTA  images/s  seconds
 *         1      1.7688     16.05     16.10       310   160.20
 *       2/8 [##..................]  loss 1.2345  eval loss 1.1034  accuracy 16.05%  310 images/s  22:10 left
 *
 * The precision line is printed if `precision: auto` depends on the network, the page line if live.html is written, the
 * line with the time if a minute or more is left. The live line, the last one, is drawn only on a terminal; on a narrow
 * terminal it drops its least important parts, and the rows drop their last columns. */
#include "cli/progress.h"
#include "core/system.h"
#include <stdio.h>
#include <string.h>

enum { BAR_COLUMNS = 20, BAR_LEAST = 6, REDRAWS_PER_SECOND = 10, ROW_COLUMNS = 58, PEAK_COLUMNS = 8 };

void d9_duration_format(double seconds, char *text, size_t size) {
    long long all = isfinite(seconds) && seconds > 0 ? (long long)(seconds + 0.5) : 0;
    if (all >= 3600)
        snprintf(text, size, "%lld:%02lld:%02lld", all / 3600, all / 60 % 60, all % 60);
    else
        snprintf(text, size, "%lld:%02lld", all / 60, all % 60);
}

void d9_time_range_format(d9_time_range range, char *text, size_t size) {
    char low[24], median[24], high[24];
    d9_duration_format(range.low, low, sizeof low);
    d9_duration_format(range.median, median, sizeof median);
    d9_duration_format(range.high, high, sizeof high);
    snprintf(text, size, strcmp(low, high) == 0 ? "%s" : "%s (%s to %s)", median, low, high);
}

/* ---- the line of a run, redrawn in place ---- */

int d9_live_line_padding(const d9_live_line *line, int width) {
    const int most = d9_cli_columns(line->cli) - 1, old = line->width < most ? line->width : most;
    return old > width ? old - width : 0;
}

void d9_live_line_show(d9_live_line *line, const char *text) {
    const int most = d9_cli_columns(line->cli) - 1;
    int width = (int)strlen(text);
    if (width > most) width = most;
    d9_cli_print(line->cli, "\r%.*s%*s", width, text, d9_live_line_padding(line, width), "");
    line->width = width;
}

void d9_live_line_clear(d9_live_line *line) {
    if (line->width) d9_cli_print(line->cli, "\r%*s\r", d9_live_line_padding(line, 0), "");
    line->width = 0;
}

/* Parts of a live line from left to right; `expendable`: the order in which parts are dropped if space is short. */
typedef enum part {
    PART_EPOCH,
    PART_BAR,
    PART_LOSS,
    PART_EVAL_LOSS,
    PART_SCORE,
    PART_RATE,
    PART_LEFT,
    PART_COUNT
} part;
static const part expendable[] = {PART_RATE, PART_EVAL_LOSS, PART_SCORE, PART_BAR, PART_LOSS, PART_LEFT};

typedef struct line_parts {
    char parts[PART_COUNT][72];
} line_parts;

static int line_width(const line_parts *line) {
    int width = 0;
    for (int p = 0; p < PART_COUNT; p++) width += (int)strlen(line->parts[p]);
    return width;
}

static void set_bar(line_parts *line, int columns, int64_t done, int64_t all) {
    char bar[BAR_COLUMNS + 1];
    const int64_t filled = done * columns / all;
    memset(bar, '.', sizeof bar);
    memset(bar, '#', (size_t)(filled < columns ? filled : columns));
    bar[columns] = 0;
    snprintf(line->parts[PART_BAR], sizeof line->parts[0], " [%s]", bar);
}

/* Shortens the bar, then drops parts, until the last column is free, because some terminals wrap there. */
static void fit_line(line_parts *line, int columns, int64_t done, int64_t all) {
    for (int bar = BAR_COLUMNS - 1; line_width(line) >= columns && bar >= BAR_LEAST; bar--)
        set_bar(line, bar, done, all);
    for (size_t i = 0; line_width(line) >= columns && i < sizeof expendable / sizeof *expendable; i++)
        line->parts[expendable[i]][0] = 0;
}

static void show_line(d9_progress *progress, const line_parts *line) {
    const int width = line_width(line);
    d9_cli_print(progress->cli, progress->cli->colour ? "\r\033[36m%s%s%s%s%s%s%s\033[0m%*s" : "\r%s%s%s%s%s%s%s%*s",
                 line->parts[PART_EPOCH], line->parts[PART_BAR], line->parts[PART_LOSS], line->parts[PART_EVAL_LOSS],
                 line->parts[PART_SCORE], line->parts[PART_RATE], line->parts[PART_LEFT],
                 d9_live_line_padding(&progress->live, width), "");
    progress->live.width = width;
}

static bool has_views(const d9_program *program) { return program->views.count > 1; }

/* Draws the live line after progress->steps steps. `evaluated`: percent of an evaluation done; -1: none is running. */
static void draw_step(d9_progress *progress, const d9_program *program, int evaluated) {
    const int64_t steps = progress->steps;
    const double loss = progress->loss, seconds_per_step = progress->step_seconds;
    const d9_measure *measure = program->measure;
    const d9_epoch_row *shown = &progress->evaluated;
    line_parts line = {0};
    char left[24];
    d9_duration_format(d9_seconds_left(program, progress->config, steps, seconds_per_step), left, sizeof left);
    snprintf(line.parts[PART_EPOCH], sizeof line.parts[0], "%3lld/%lld",
             (long long)d9_program_epochs_begun(program, steps),
             (long long)d9_program_epochs_begun(program, program->steps));
    set_bar(&line, BAR_COLUMNS, steps, program->steps);
    if (isfinite(loss)) snprintf(line.parts[PART_LOSS], sizeof line.parts[0], "  loss %.4f", loss);
    if (isfinite(shown->eval_loss))
        snprintf(line.parts[PART_EVAL_LOSS], sizeof line.parts[0], "  eval loss %.4f", shown->eval_loss);
    if (isfinite(shown->score))
        snprintf(line.parts[PART_SCORE], sizeof line.parts[0], "  %s %s%s", measure->word,
                 d9_measure_format(measure, d9_epoch_score(shown)).text,
                 !has_views(program)          ? ""
                 : isfinite(shown->score_tta) ? " with TTA"
                                              : " plain");
    snprintf(line.parts[PART_RATE], sizeof line.parts[0], "  %.0f %ss/s",
             (double)program->extent.batch / seconds_per_step, d9_model_sample(progress->config->model));
    if (evaluated >= 0)
        snprintf(line.parts[PART_LEFT], sizeof line.parts[0], "  evaluating %d%%", evaluated);
    else
        snprintf(line.parts[PART_LEFT], sizeof line.parts[0], "  %s left", left);
    fit_line(&line, d9_cli_columns(progress->cli), steps, program->steps);
    show_line(progress, &line);
}

/* ---- the rows, and the observer ---- */

static bool shows_rate(const d9_progress *progress) { return d9_cli_columns(progress->cli) >= ROW_COLUMNS; }

/* True if a column shows the rate divided by that of a large matrix product (--verbose, unless the terminal is narrow).
 * The ratio may exceed 1, because Winograd convolutions need fewer multiplications than are counted. */
static bool shows_peak_ratio(const d9_progress *progress) {
    return progress->peak_rate > 0 && d9_cli_columns(progress->cli) >= ROW_COLUMNS + PEAK_COLUMNS;
}

static double peak_ratio(const d9_progress *progress, const d9_program *program, const d9_epoch_row *row) {
    const int64_t first = (row->epoch - 1) * program->steps_per_epoch,
                  end = first + program->steps_per_epoch < program->steps ? first + program->steps_per_epoch
                                                                          : program->steps;
    const double operations = d9_train_operations(program, first) - d9_train_operations(program, end),
                 images = (double)((end - first) * program->extent.batch);
    return operations / images * row->images_per_second / progress->peak_rate;
}

static int score_columns(const d9_program *program) {
    const int width = (int)strlen(program->measure->word);
    return width > 8 ? width : 8;
}

static int rate_columns(const d9_progress *progress) {
    const int width = (int)strlen(d9_model_sample(progress->config->model)) + 3;
    return width > 8 ? width : 8;
}

static void print_header(d9_progress *progress, const d9_program *program) {
    char rate[24];
    if (progress->header_printed) return;
    progress->header_printed = true;
    snprintf(rate, sizeof rate, "%ss/s", d9_model_sample(progress->config->model));
    d9_cli_print(progress->cli, "epoch  train loss  %*s%s", score_columns(program), program->measure->word,
                 has_views(program) ? "  with TTA" : "");
    if (shows_rate(progress)) d9_cli_print(progress->cli, "  %*s  seconds", rate_columns(progress), rate);
    d9_cli_print(progress->cli, "%s\n", shows_peak_ratio(progress) ? "  x peak" : "");
}

/* Prints "about 27 minutes (25 to 31)", or "about 3.5 hours (3.2 to 4.0)" from three hours on. */
static void print_about(d9_cli *cli, d9_time_range left) {
    const bool hours = left.median >= 3 * 3600;
    const d9_time_range units = d9_time_range_scale(left, 1 / (hours ? 3600.0 : 60.0));
    char low[24], median[24], high[24];
    snprintf(low, sizeof low, "%.*f", hours, units.low);
    snprintf(median, sizeof median, "%.*f", hours, units.median);
    snprintf(high, sizeof high, "%.*f", hours, units.high);
    d9_cli_print(cli, "about %s %s", median, hours ? "hours" : strcmp(median, "1") == 0 ? "minute" : "minutes");
    if (strcmp(low, high) != 0) d9_cli_print(cli, " (%s to %s)", low, high);
    d9_cli_print(cli, " with evaluations, by the first steps\n");
}

/* Times the steps of an epoch until the header of the rows is printed. After 1 + D9_TIMED_STEPS steps, or at the end of
 * an epoch of two or more, prints the predicted time left, if a minute or more, and the header. The first step does not
 * count, because it touches all memory for the first time. */
static void predict_duration(d9_progress *progress, const d9_program *program, int64_t steps, double epoch_seconds,
                             bool last) {
    const int64_t timed = progress->epoch_steps++; /* number of timed steps, this one included */
    if (progress->header_printed || timed > D9_TIMED_STEPS) return;
    if (timed > 0)
        progress->timed[timed - 1] = (epoch_seconds - progress->timed_seconds) / (double)(steps - progress->timed_end);
    progress->timed_end = steps;
    progress->timed_seconds = epoch_seconds;
    if (timed == 0 || (timed < D9_TIMED_STEPS && !last)) return;
    const d9_time_range left = d9_time_range_scale(d9_time_range_of(progress->timed, timed),
                                                   d9_seconds_left(program, progress->config, steps, 1));
    d9_live_line_clear(&progress->live);
    if (left.median >= 60) print_about(progress->cli, left);
    print_header(progress, program);
}

static void on_planned(void *user, const d9_program *program, const d9_device_info *device, const char *precision_why) {
    d9_progress *progress = user;
    d9_live_page_planned(&progress->page, program);
    if (progress->quiet) return;
    d9_live_line_clear(&progress->live);
    d9_cli_print(progress->cli, "%s in %s: %lld steps of %lld %ss, %lld parameters, %s", progress->config->title,
                 program->precision->name, (long long)program->steps, (long long)program->extent.batch,
                 d9_model_sample(progress->config->model),
                 (long long)(program->trainable_count + program->frozen_count), device->name);
    if (program->accumulate > 1)
        d9_cli_print(progress->cli, ", an update every %lld steps", (long long)program->accumulate);
    if (device->threads > 0)
        d9_cli_print(progress->cli, ", %d thread%s", device->threads, d9_text_plural(device->threads));
    d9_cli_print(progress->cli, "\n");
    if (precision_why[0]) d9_cli_print(progress->cli, "precision  %s\n", precision_why);
    if (progress->page.path)
        d9_cli_print(progress->cli, "page       %s: open it in a browser; it reloads itself\n", progress->page.path);
    if (progress->cli->terminal) show_line(progress, &(line_parts){.parts = {[PART_EPOCH] = "first step ..."}});
}

static void on_resumed(void *user, int64_t steps, const d9_epoch_row *rows, int64_t count) {
    d9_progress *progress = user;
    d9_live_page_resumed(&progress->page, steps, rows, count);
}

/* Called after `steps` steps of the run. A resumed run may start in the middle of an epoch, so the seconds per step are
 * those of the steps that this process ran in the epoch. */
static void on_step(void *user, const d9_program *program, int64_t steps, double loss, double epoch_seconds) {
    d9_progress *progress = user;
    const double now = d9_clock_now();
    const int64_t epoch = d9_program_epochs_begun(program, steps);
    const bool last = steps % program->steps_per_epoch == 0 || steps == program->steps;
    if (epoch != progress->epoch) {
        progress->epoch = epoch;
        progress->epoch_first_step = d9_program_step_before(program, steps);
        progress->epoch_steps = 0;
    }
    if (!(epoch_seconds > 0)) return;
    progress->steps = steps;
    progress->loss = loss;
    progress->step_seconds = epoch_seconds / (double)(steps - progress->epoch_first_step);
    d9_live_page_step(&progress->page, program, steps, loss, progress->step_seconds);
    if (progress->quiet) return;
    /* not if asynchronous (loss NAN): the time of a step that is only queued says nothing */
    if (isfinite(loss)) predict_duration(progress, program, steps, epoch_seconds, last);
    if (!progress->cli->terminal) return;
    if (!last && now - progress->live.drawn_at < 1.0 / REDRAWS_PER_SECOND) return;
    progress->live.drawn_at = now;
    draw_step(progress, program, -1);
}

static void on_evaluated(void *user, const d9_program *program, int64_t seen, int64_t all) {
    d9_progress *progress = user;
    const double now = d9_clock_now();
    if (!progress->cli->terminal || progress->quiet || progress->steps == 0) return;
    if (now - progress->live.drawn_at < 1.0 / REDRAWS_PER_SECOND) return;
    progress->live.drawn_at = now;
    draw_step(progress, program, seen < all ? (int)(100 * seen / all) : 100);
}

/* Before the first step, shows the activity that follows the timeline's segment `kind`, which has ended. */
static void on_lap(void *user, d9_segment_kind kind) {
    static const char *const next[D9_SEGMENT_COUNT] = {
        [D9_SEGMENT_LOAD] = "choosing kernels ...", [D9_SEGMENT_PLAN] = "initial weights ..."};
    d9_progress *progress = user;
    if (!progress->cli->terminal || progress->quiet || progress->steps > 0 || !next[kind]) return;
    line_parts line = {0};
    snprintf(line.parts[PART_EPOCH], sizeof line.parts[0], "%s", next[kind]);
    show_line(progress, &line);
}

static void print_score(const d9_progress *progress, const d9_program *program, double score) {
    const int width = score_columns(program);
    if (isfinite(score))
        d9_cli_print(progress->cli, "  %*.*f", width, program->measure->digits, score);
    else
        d9_cli_print(progress->cli, "  %*s", width, "-");
}

static void on_epoch(void *user, const d9_program *program, const d9_epoch_row *row) {
    d9_progress *progress = user;
    if (isfinite(row->score)) progress->evaluated = *row;
    d9_live_page_epoch(&progress->page, program, row);
    if (progress->quiet) return;
    d9_live_line_clear(&progress->live);
    print_header(progress, program);
    d9_cli_print(progress->cli, "%5lld  %10.4f", (long long)row->epoch, row->train_loss);
    print_score(progress, program, row->score);
    if (has_views(program)) print_score(progress, program, row->score_tta);
    if (shows_rate(progress))
        d9_cli_print(progress->cli, "  %*.0f  %7.2f", rate_columns(progress), row->images_per_second, row->seconds);
    if (shows_peak_ratio(progress)) d9_cli_print(progress->cli, "  %5.2fx", peak_ratio(progress, program, row));
    d9_cli_print(progress->cli, "\n");
}

/* On a terminal, shows a line at once, because reading data and choosing kernels may take seconds. */
d9_observer d9_progress_observer(d9_progress *progress, d9_cli *cli, const d9_config *config, const char *page,
                                 bool quiet) {
    *progress = (d9_progress){.cli = cli,
                              .config = config,
                              .live = {.cli = cli},
                              .evaluated = {.score = NAN, .eval_loss = NAN},
                              .quiet = quiet};
    d9_live_page_begin(&progress->page, &cli->context, config, page);
    if (quiet && !page) return (d9_observer){0};
    if (cli->terminal && !quiet) show_line(progress, &(line_parts){.parts = {[PART_EPOCH] = "reading data ..."}});
    return (d9_observer){.user = progress,
                         .lap = on_lap,
                         .planned = on_planned,
                         .resumed = on_resumed,
                         .step = on_step,
                         .evaluation_progress = on_evaluated,
                         .epoch = on_epoch};
}

void d9_progress_end(d9_progress *progress, bool finished, const char *state) {
    d9_live_line_clear(&progress->live);
    d9_live_page_end(&progress->page, finished, state);
}
