/* Progress of a run on standard output.
 *
 *     dawn94 on onednn bf16: 970 steps of 512 images, 6573130 parameters, Xeon, 2 threads
 *     epoch  train loss  accuracy  with TTA  images/s  seconds
 *         1      1.7688     16.05     16.10       310   160.20
 *      2/10 [#####...............]  loss 1.2345  accuracy 16.05%  310 images/s  22:10 left       (terminal
 * only) */
#include "cli/progress.h"
#include "core/system.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BAR_COLUMNS = 20, REDRAWS_PER_SECOND = 10 };

void d9_duration_format(double seconds, char *text, size_t size) {
    long long all = isfinite(seconds) && seconds > 0 ? (long long)(seconds + 0.5) : 0;
    if (all >= 3600)
        snprintf(text, size, "%lld:%02lld:%02lld", all / 3600, all / 60 % 60, all % 60);
    else
        snprintf(text, size, "%lld:%02lld", all / 60, all % 60);
}

void d9_progress_clear(d9_progress *progress) {
    if (progress->live_width == 0) return;
    d9_cli_print(progress->cli, "\r%*s\r", progress->live_width, "");
    progress->live_width = 0;
}

static void planned(void *user, const d9_program *program, const d9_device_info *device,
                    const char *precision) {
    d9_progress *progress = user;
    d9_cli_print(progress->cli, "%s in %s: %lld steps of %lld images, %lld parameters, %s",
                 progress->config->title, precision, (long long)program->steps,
                 (long long)program->extent.batch,
                 (long long)(program->trainable_count + program->frozen_count), device->name);
    if (device->threads > 0)
        d9_cli_print(progress->cli, ", %d thread%s", device->threads, device->threads == 1 ? "" : "s");
    d9_cli_print(progress->cli, "\nepoch  train loss  accuracy  with TTA  images/s  seconds\n");
}

/* The live line after `steps` of the run. */
static void draw(d9_progress *progress, const d9_program *program, int64_t steps, double loss,
                 double seconds_per_step) {
    const int64_t per_epoch = program->steps_per_epoch;
    const int filled = (int)(steps * BAR_COLUMNS / program->steps);
    char bar[BAR_COLUMNS + 1], left[24], loss_text[32] = "", accuracy[32] = "", line[192];
    memset(bar, '.', BAR_COLUMNS);
    memset(bar, '#', (size_t)(filled > BAR_COLUMNS ? BAR_COLUMNS : filled));
    bar[BAR_COLUMNS] = 0;
    d9_duration_format(seconds_per_step * (double)(program->steps - steps), left, sizeof left);
    if (isfinite(loss)) snprintf(loss_text, sizeof loss_text, "  loss %.4f", loss);
    if (isfinite(progress->accuracy))
        snprintf(accuracy, sizeof accuracy, "  accuracy %.2f%%", progress->accuracy);
    int width = snprintf(line, sizeof line, "%3lld/%lld [%s]%s%s  %.0f images/s  %s left",
                         (long long)((steps + per_epoch - 1) / per_epoch),
                         (long long)((program->steps + per_epoch - 1) / per_epoch), bar, loss_text, accuracy,
                         (double)program->extent.batch / seconds_per_step, left);
    int padding = progress->live_width > width ? progress->live_width - width : 0;
    d9_cli_print(progress->cli, progress->cli->colour ? "\r\033[36m%s\033[0m%*s" : "\r%s%*s", line, padding,
                 "");
    progress->live_width = width;
}

/* `steps` are done. A resumed run enters its first epoch half way, so the epoch's own steps are counted here.
 */
static void on_step(void *user, const d9_program *program, int64_t steps, double loss, double epoch_seconds) {
    d9_progress *progress = user;
    const double now = d9_clock_now();
    const int64_t epoch = (steps - 1) / program->steps_per_epoch + 1;
    if (epoch != progress->epoch) {
        progress->epoch = epoch;
        progress->epoch_first_step = steps - 1;
    }
    if (!(epoch_seconds > 0) || now - progress->shown_seconds < 1.0 / REDRAWS_PER_SECOND) return;
    progress->shown_seconds = now;
    draw(progress, program, steps, loss, epoch_seconds / (double)(steps - progress->epoch_first_step));
}

static void print_percent(d9_cli *cli, double value) {
    if (isfinite(value))
        d9_cli_print(cli, "  %8.2f", value);
    else
        d9_cli_print(cli, "  %8s", "-");
}

static void on_epoch(void *user, const d9_program *program, const d9_epoch_row *row) {
    d9_progress *progress = user;
    (void)program;
    d9_progress_clear(progress);
    if (isfinite(row->accuracy_tta)) progress->accuracy = row->accuracy_tta;
    d9_cli_print(progress->cli, "%5lld  %10.4f", (long long)row->epoch, row->train_loss);
    print_percent(progress->cli, row->accuracy);
    print_percent(progress->cli, row->accuracy_tta);
    d9_cli_print(progress->cli, "  %8.0f  %7.2f\n", row->images_per_second, row->seconds);
}

d9_observer d9_progress_observer(d9_progress *progress, d9_cli *cli, const d9_config *config, bool quiet) {
    *progress = (d9_progress){.cli = cli, .config = config, .accuracy = NAN};
    if (quiet) return (d9_observer){0};
    return (d9_observer){
        .user = progress, .planned = planned, .step = cli->terminal ? on_step : NULL, .epoch = on_epoch};
}
