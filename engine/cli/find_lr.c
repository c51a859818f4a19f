/* Learning rate range test: see find_lr.h. */
#include "cli/find_lr.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/progress.h"
#include "core/system.h"
#include "exchange/model.h"

/* Range of learning rates, as multiples of the configured peak. */
static const double range_low = 1e-3, range_high = 1e2;
static const double decay = 0.9;       /* of the exponential moving average of the loss */
static const double divergence = 3;    /* the test ends when the average exceeds this multiple of its minimum */
static const double peak_divisor = 10; /* suggested peak: the learning rate of the minimum, divided by this */
/* A change of the loss counts only above both noise * its scatter and slight * the mean of the first losses. */
static const double noise = 1, slight = 0.01;
enum { STEPS = 120, FIRST = 12, SHOWN = 12, BAR = 40, REDRAWS_PER_SECOND = 10 };

typedef struct point {
    double rate, loss, mean; /* mean: bias-corrected moving average of the loss */
} point;

typedef struct range_test {
    d9_cli *cli;
    d9_session session;
    d9_live_line live; /* `cli` NULL: no progress is shown */
    double peak;       /* as configured */
    double rates[STEPS];
    point points[STEPS];
    int count, least; /* least: index of the smallest mean from index FIRST - 1 on; 0: no such point */
} range_test;

/* ---- measuring ---- */

/* Sets geometrically growing values of train.lr. Learning rates with another peak (muon) keep their ratio to it. */
static void set_rates(range_test *self) {
    for (int s = 0; s < STEPS; s++)
        self->rates[s] = self->peak * range_low * pow(range_high / range_low, (double)s / (STEPS - 1));
}

static d9_status open_session(range_test *self, d9_config *config) {
    d9_status status;
    d9_context *context = &self->cli->context;
    d9_session_options options = {.config = config,
                                  .seed = (uint64_t)config->seed,
                                  .no_eval = true,
                                  .interrupt = self->cli->interrupt,
                                  .program = {.rates = self->rates, .rate_count = STEPS}};
    self->peak = d9_schedule_peak(&config->train.lr);
    if (self->peak <= 0) return d9_fail(context, D9_USAGE, "--find-lr: needs train.lr above 0");
    if (self->live.cli) d9_live_line_show(&self->live, "reading data, choosing kernels ...");
    D9_TRY(d9_config_dataset(context, config, NULL, NULL, &options.dataset));
    const int64_t per_epoch = options.dataset->train.count / config->train.batch_size;
    config->train.epochs = (double)STEPS / (double)(per_epoch > 0 ? per_epoch : 1);
    set_rates(self);
    D9_TRY(d9_session_open(context, &options, &self->session));
    D9_TRY(d9_session_initialize(&self->session));
    if (config->train.from) D9_TRY(d9_model_initialize(&self->session, config->train.from));
done:
    return status;
}

/* Runs a step. `loss`: mean over its images; NAN: not finite. `sums`: the epoch's loss sum and image count so far. */
static d9_status run_step(range_test *self, int64_t step, double sums[2], double *loss) {
    d9_status status;
    double metrics[4];
    if (step % self->session.program.steps_per_epoch == 0) {
        D9_TRY(d9_session_begin_epoch(&self->session, step));
        sums[0] = sums[1] = 0;
    }
    D9_TRY(d9_session_step(&self->session, step));
    D9_TRY(self->session.backend->sync(self->session.context, self->session.device));
    D9_TRY(d9_session_read(&self->session, D9_BUFFER_METRICS, metrics));
    *loss = metrics[3] == 0 ? (metrics[0] - sums[0]) / (metrics[1] - sums[1]) : NAN;
    memcpy(sums, metrics, 2 * sizeof *sums);
done:
    return status;
}

static void show_step(range_test *self, const point *at, int64_t steps, double seconds) {
    char text[96], left[24];
    const double now = d9_clock_now();
    if (!self->live.cli || now - self->live.shown_seconds < 1.0 / REDRAWS_PER_SECOND) return;
    self->live.shown_seconds = now;
    d9_duration_format(seconds / (double)steps * (double)(STEPS - steps), left, sizeof left);
    snprintf(text, sizeof text, "%3lld/%d  lr %.4g  loss %.4f  %s left", (long long)steps, STEPS, at->rate, at->mean,
             left);
    d9_live_line_show(&self->live, text);
}

static d9_status run_steps(range_test *self) {
    d9_status status = D9_OK;
    const d9_program *program = &self->session.program;
    const double began = d9_clock_now();
    double sums[2] = {0}, mean = 0, loss, lowest = INFINITY;
    for (int64_t step = 0; step < program->steps && step < STEPS; step++) {
        D9_TRY(d9_session_check_interrupt(&self->session, "the range test"));
        D9_TRY(run_step(self, step, sums, &loss));
        mean = decay * mean + (1 - decay) * loss;
        const double weights = 1 - pow(decay, (double)step + 1); /* sum of the weights in the mean */
        self->points[self->count] = (point){self->rates[step], loss, mean / weights};
        if (!isfinite(loss)) break;
        show_step(self, &self->points[self->count], step + 1, d9_clock_now() - began);
        const double now = self->points[self->count].mean;
        if (self->count == FIRST - 1 || (self->count >= FIRST && now < self->points[self->least].mean))
            self->least = self->count;
        lowest = fmin(lowest, now);
        self->count++;
        if (now > divergence * lowest) break;
    }
done:
    return status;
}

/* ---- result, and the whole test ---- */

/* The moving average at a point minus the mean of the first losses; 0 if the difference is within the noise. */
static double loss_change(const range_test *self, const point *at) {
    const int first = self->count < FIRST ? self->count : FIRST, end = self->least < first ? first : self->least + 1;
    double before = 0, squares = 0;
    for (int i = 0; i < first; i++) before += self->points[i].loss / first;
    for (int i = 1; i < end; i++) squares += pow(self->points[i].loss - self->points[i - 1].loss, 2);
    const double difference = at->mean - before, none = fmax(noise * sqrt(squares / (2 * (end - 1))), slight * before);
    return fabs(difference) > none ? difference : 0;
}

static void print_table(const range_test *self) {
    const int rows = self->count < SHOWN ? self->count : SHOWN;
    const point *least = &self->points[self->least];
    const double most = fmax(self->points[0].mean, divergence * least->mean);
    d9_cli_print(self->cli, "%12s  %10s\n", "rate", "loss");
    for (int row = 0; row < rows; row++) {
        const point *shown = &self->points[row * (self->count - 1) / (rows - 1)];
        const int bar = (int)(BAR * fmin(shown->mean / most, 1));
        d9_cli_print(self->cli, "%12.4g  %10.4f  %.*s\n", shown->rate, shown->mean, bar,
                     "########################################");
    }
}

/* Peak learning rate that a trick has besides train.lr; 0: none, or the trick is off. */
static double own_peak(const range_test *self, int index) {
    const d9_config *config = self->session.config;
    const d9_trick *trick = d9_trick_at(index);
    if (!config->trick_on[index] || !trick->peak) return 0;
    for (const d9_option *option = trick->options; option->type != D9_OPTION_NONE; option++)
        if (strcmp(option->key, trick->peak) == 0)
            return *(const double *)((const char *)config->trick_options[index] + option->offset);
    return 0;
}

static void print_advice(const range_test *self) {
    const point *points = self->points, *least = &points[self->least], *last = &points[self->count - 1];
    const double rate = least->rate / peak_divisor;
    const bool falls = self->least > 0 && loss_change(self, least) < 0;
    if (!falls && self->count == STEPS && loss_change(self, last) == 0) {
        d9_cli_print(self->cli, "no learning rate up to %.3g lowers the loss; try a larger --lr\n", last->rate);
    } else if (!falls) {
        d9_cli_print(self->cli, "no learning rate from %.4g on lowers the loss; try a smaller --lr\n", points->rate);
    } else if (self->least == STEPS - 1) {
        d9_cli_print(self->cli, "the loss still falls at the largest learning rate tried, %.4g\n", least->rate);
    } else {
        d9_cli_print(self->cli, "lowest loss at learning rate %.3g; a usual peak is a tenth of it: --lr %.2g",
                     least->rate, rate);
        for (int t = 0; t < D9_TRICK_COUNT; t++)
            if (own_peak(self, t) > 0)
                d9_cli_print(self->cli, " --set tricks.%s.%s=%.2g", d9_trick_at(t)->name, d9_trick_at(t)->peak,
                             rate / self->peak * own_peak(self, t));
        d9_cli_print(self->cli, "\n");
    }
    for (int t = 0; t < D9_TRICK_COUNT; t++)
        if (own_peak(self, t) > 0)
            d9_cli_print(self->cli, "tricks.%s.%s is another peak; here its ratio to train.lr stayed %.3g to %.3g\n",
                         d9_trick_at(t)->name, d9_trick_at(t)->peak, own_peak(self, t), self->peak);
}

static void put_svg(const range_test *self, d9_text *text) {
    enum { WIDTH = 720, HEIGHT = 320, LEFT = 60, RIGHT = 20, TOP = 20, BOTTOM = 46 };
    const point *points = self->points, *least = &points[self->least];
    const double first = log10(points[0].rate), last = log10(points[self->count - 1].rate), low = 0.9 * least->mean,
                 high = fmax(points[0].mean, 1.5 * least->mean);
    d9_text_add(text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
                "font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                "<path d=\"M%d %dV%dH%d\" stroke=\"#5c5c5c\" fill=\"none\"/>\n",
                WIDTH, HEIGHT, LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
    for (int power = (int)ceil(first); power <= (int)floor(last); power++) {
        const double x = LEFT + (WIDTH - LEFT - RIGHT) * (power - first) / (last - first);
        d9_text_add(
            text,
            "<path d=\"M%.1f %dV%d\" stroke=\"#e2e2df\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
            x, TOP, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 18, pow(10, power));
    }
    for (int tick = 0; tick <= 4; tick++) {
        const double value = low + tick * (high - low) / 4;
        d9_text_add(text, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n", LEFT - 6,
                    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * tick / 4.0 + 4, value);
    }
    d9_text_add(text,
                "<text x=\"%d\" y=\"%d\">learning rate</text><text x=\"%d\" y=\"14\">training loss, mean of the last "
                "steps</text>\n"
                "<polyline fill=\"none\" stroke=\"#0072b2\" stroke-width=\"2\" points=\"",
                LEFT, HEIGHT - 8, LEFT);
    for (int i = 0; i < self->count; i++) {
        const double x = LEFT + (WIDTH - LEFT - RIGHT) * (log10(points[i].rate) - first) / (last - first);
        const double y = TOP + (HEIGHT - TOP - BOTTOM) * (high - fmin(points[i].mean, high)) / (high - low);
        d9_text_add(text, "%.1f,%.1f ", x, y);
    }
    d9_text_add(text, "\"/>\n</svg>\n");
}

static void put_tsv(const range_test *self, d9_text *text) {
    d9_text_add(text, "rate\tloss\tmean\n");
    for (int i = 0; i < self->count; i++)
        d9_text_add(text, "%.10g\t%.10g\t%.10g\n", self->points[i].rate, self->points[i].loss, self->points[i].mean);
}

static d9_status write_file(range_test *self, const char *out, const char *name,
                            void (*put)(const range_test *self, d9_text *text)) {
    d9_status status;
    d9_text text;
    char *path;
    d9_text_init(&self->cli->context, &text);
    put(self, &text);
    D9_TRY(d9_text_status(&text));
    D9_TRY(d9_arena_format(&self->cli->context, &self->cli->arena, &path, "%s/%s", out, name));
    D9_TRY(d9_file_write(&self->cli->context, path, d9_text_get(&text), text.size));
done:
    d9_text_free(&text);
    return status;
}

static d9_status reject_run_folder(d9_cli *cli, const char *out) {
    static const char *const files[] = {"config.yaml", "result.json", "experiment.json", "lock"};
    d9_status status = D9_OK;
    char *path;
    bool held;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, &path, "%s/%s", out, files[i]));
        D9_TRY(d9_file_find(&cli->context, D9_OUTPUT, path, &held));
        if (held)
            D9_TRY(d9_fail(&cli->context, D9_USAGE, "%s: holds a run or an experiment (%s); give another --out", out,
                           files[i]));
    }
done:
    return status;
}

d9_status d9_find_lr(d9_cli *cli, d9_config *config, const char *out, bool quiet) {
    d9_status status, measured;
    range_test self = {.cli = cli, .live = {.cli = cli->terminal && !quiet ? cli : NULL}};
    D9_TRY(reject_run_folder(cli, out));
    D9_TRY(open_session(&self, config));
    D9_TRY(d9_directory_make(&cli->context, out)); /* fails before the steps, not after */
    d9_live_line_clear(&self.live);
    if (!quiet)
        d9_cli_print(cli, "%s: %d steps of %lld %ss, learning rates from %.3g to %.3g\n", config->title, STEPS,
                     (long long)self.session.program.extent.batch, d9_model_sample(config->model),
                     self.peak * range_low, self.peak * range_high);
    measured = run_steps(&self);
    d9_live_line_clear(&self.live);
    if (measured == D9_OK && self.count < 2)
        D9_TRY(d9_fail(&cli->context, D9_NONFINITE, "--find-lr: the loss is not finite at the first step"));
    if (self.count >= 2) { /* also after an interrupt or an error */
        D9_TRY(write_file(&self, out, "rates.tsv", put_tsv));
        D9_TRY(write_file(&self, out, "rates.svg", put_svg));
        print_table(&self);
        if (measured == D9_OK) print_advice(&self);
        d9_cli_print(cli, "record     %s/rates.tsv\nplot       %s/rates.svg\n", out, out);
    }
    status = measured;
done:
    d9_live_line_clear(&self.live);
    if (self.session.context) d9_session_close(&self.session);
    return status;
}
