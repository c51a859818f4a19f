/* Learning rate range test: see progress.h. */
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>

#include "core/system.h"
#include "exchange/model.h"
#include "experiment/experiment.h"
#include "report/report_table.h"

/* Range of learning rates, as multiples of the configured peak. */
static const double range_low = 1e-3, range_high = 1e2;
static const double decay = 0.9;       /* decay of the exponential moving average of the loss */
static const double divergence = 3;    /* the test ends when the average exceeds this multiple of its minimum */
static const double peak_divisor = 10; /* suggested peak: the learning rate of the minimum, divided by this */
/* A change of the loss counts only if it exceeds `noise` times the losses' scatter from step to step and `slight` times
 * the mean of the first FIRST losses. */
static const double noise = 1, slight = 0.01;
enum { STEPS = 120, FIRST = 12, SHOWN = 12, BAR = 40, REDRAWS_PER_SECOND = 10 }; /* SHOWN: rows printed */

typedef struct point {
    double rate, loss, mean; /* mean: bias-corrected moving average of the loss */
} point;

typedef struct range_test {
    d9_cli *cli;
    d9_session session;
    d9_live_line live; /* `cli` NULL: no progress is shown */
    double peak;       /* the configured peak */
    double rates[STEPS];
    point points[STEPS];
    int count, least; /* least: index of the smallest mean from index FIRST - 1 on; 0: no such point */
} range_test;

/* ---- measuring ---- */

/* Sets geometrically growing values of train.lr. Other learning rates (of muon) keep their ratio to train.lr. */
static void set_rates(range_test *self) {
    for (int s = 0; s < STEPS; s++)
        self->rates[s] = self->peak * range_low * pow(range_high / range_low, (double)s / (STEPS - 1));
}

static d9_status open_session(range_test *self, const d9_config *config) {
    d9_status status;
    d9_context *context = &self->cli->context;
    d9_session_options options = {.config = config,
                                  .seed = (uint64_t)config->seed,
                                  .no_eval = true,
                                  .program = {.rates = self->rates, .rate_count = STEPS}};
    self->peak = d9_schedule_peak(&config->train.lr);
    if (self->peak <= 0) return d9_fail(context, D9_USAGE, "--find-lr: needs train.lr above 0");
    if (self->live.cli) d9_live_line_show(&self->live, "reading data, choosing kernels ...");
    D9_TRY(d9_config_dataset(context, config, NULL, NULL, &options.dataset));
    set_rates(self);
    D9_TRY(d9_session_open(context, &options, &self->session));
    D9_TRY(d9_session_initialize(&self->session));
    if (config->train.from) D9_TRY(d9_model_load_initial_weights(&self->session, config->train.from));
done:
    return status;
}

/* Runs a step. `loss`: mean of its losses; NAN: not finite. `sums`: sum and number of the epoch's losses so far. */
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
    if (!self->live.cli || now - self->live.drawn_at < 1.0 / REDRAWS_PER_SECOND) return;
    self->live.drawn_at = now;
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

/* The moving average at a point minus the mean of the first losses; 0 if the difference is too small to count. */
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

/* True if some learning rate lowered the loss. */
static bool loss_falls(const range_test *self) {
    return self->least > 0 && loss_change(self, &self->points[self->least]) < 0;
}

/* The peak that the test suggests; NAN: none, because the loss does not fall, or falls to the end. */
static double suggested_peak(const range_test *self) {
    return loss_falls(self) && self->least < STEPS - 1 ? self->points[self->least].rate / peak_divisor : NAN;
}

static void print_advice(const range_test *self) {
    const point *points = self->points, *least = &points[self->least], *last = &points[self->count - 1];
    const double rate = least->rate / peak_divisor;
    const bool falls = loss_falls(self);
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

/* ---- rates.svg: the moving average over the learning rate, and the suggested peak ---- */

enum { WIDTH = 720, HEIGHT = 340, LEFT = 64, RIGHT = 20, TOP = 30, BOTTOM = 50 };

/* An axis: values from low to high lie at coordinates from start to end of the picture. */
typedef struct axis {
    double low, high, start, end;
    bool logarithmic;
} axis;

static double coordinate_of(const axis *axis, double value) {
    const double part = axis->logarithmic ? log(value / axis->low) / log(axis->high / axis->low)
                                          : (value - axis->low) / (axis->high - axis->low);
    return axis->start + part * (axis->end - axis->start);
}

/* The axis of the loss covers the whole curve. It is logarithmic if all values are above 0 and the highest
 * is above 10 times the lowest: on a linear axis the curve would look flat before a loss that explodes. */
static axis loss_axis(const range_test *self) {
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < self->count; i++) {
        low = fmin(low, self->points[i].mean);
        high = fmax(high, self->points[i].mean);
    }
    axis axis = {low, high, HEIGHT - BOTTOM, TOP, low > 0 && high > 10 * low};
    const double margin = 0.04 * (high > low ? high - low : fmax(fabs(low), 1));
    if (axis.logarithmic) {
        axis.low /= 1.1, axis.high *= 1.1;
    } else {
        axis.low -= margin, axis.high += margin;
    }
    return axis;
}

static void put_loss_tick(const axis *loss, double value, int digits, d9_text *text) {
    const double y = coordinate_of(loss, value);
    d9_text_add(text,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"y\" x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%.*f</text>\n",
                LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 4, digits, value);
}

static void put_loss_ticks(const axis *loss, d9_text *text) {
    const double step = d9_axis_step(loss->high - loss->low, 5);
    if (!loss->logarithmic) {
        for (int64_t tick = llround(ceil(loss->low / step)); (double)tick * step <= loss->high; tick++)
            put_loss_tick(loss, (double)tick * step, d9_axis_digits(step), text);
        return;
    }
    for (int power = (int)floor(log10(loss->low)); power <= log10(loss->high); power++)
        for (int i = 0; i < 3; i++) {
            const double value = (double[]){1, 2, 5}[i] * pow(10, power);
            if (value >= loss->low && value <= loss->high)
                put_loss_tick(loss, value, d9_axis_digits(pow(10, power)), text);
        }
}

static void put_rate_ticks(const axis *rate, d9_text *text) {
    for (int power = (int)ceil(log10(rate->low)); power <= log10(rate->high); power++)
        d9_text_add(text,
                    "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text class=\"x\" x=\"%.1f\" y=\"%d\" "
                    "text-anchor=\"middle\">%g</text>\n",
                    coordinate_of(rate, pow(10, power)), TOP, HEIGHT - BOTTOM, coordinate_of(rate, pow(10, power)),
                    HEIGHT - BOTTOM + 18, pow(10, power));
}

static void put_suggestion(const range_test *self, const axis *rate, d9_text *text) {
    const double peak = suggested_peak(self), x = coordinate_of(rate, peak);
    if (!(peak >= rate->low && peak <= rate->high)) return; /* also for NAN */
    const bool left = x > 0.6 * WIDTH;
    d9_text_add(text,
                "<path class=\"suggestion\" d=\"M%.1f %dV%d\"/>"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">suggested peak %.2g</text>\n",
                x, TOP, HEIGHT - BOTTOM, x + (left ? -6 : 6), TOP + 12, left ? "end" : "start", peak);
}

static void put_svg(const range_test *self, d9_text *text) {
    const point *points = self->points;
    const axis rate = {points[0].rate, points[self->count - 1].rate, LEFT, WIDTH - RIGHT, true}, loss = loss_axis(self);
    d9_text_add(text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
                "font-size=\"13\">\n<style>rect{fill:#fff} text{fill:#1a1a1a} path,polyline{fill:none} "
                ".grid{stroke:#e2e2df} .axis{stroke:#5c5c5c} .curve{stroke:#0072b2;stroke-width:2} "
                ".suggestion{stroke:#d55e00;stroke-width:1.5;stroke-dasharray:5 4} "
                "@media (max-width:500px){text{font-size:18px}}\n" /* legible on a narrow screen */
                "@media (prefers-color-scheme:dark){rect{fill:#16181b} text{fill:#ececea} .grid{stroke:#2e3135} "
                ".axis{stroke:#a6a8ab} .curve{stroke:#6fb8ea} .suggestion{stroke:#ff9b5e}}</style>\n"
                "<rect width=\"100%%\" height=\"100%%\"/>\n",
                WIDTH, HEIGHT);
    put_rate_ticks(&rate, text);
    put_loss_ticks(&loss, text);
    d9_text_add(text,
                "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">learning "
                "rate</text><text x=\"4\" y=\"16\">training loss, moving average</text>\n",
                LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10);
    put_suggestion(self, &rate, text);
    d9_text_add(text, "<polyline class=\"curve\" points=\"");
    for (int i = 0; i < self->count; i++)
        d9_text_add(text, "%.1f,%.1f ", coordinate_of(&rate, points[i].rate), coordinate_of(&loss, points[i].mean));
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

d9_status d9_find_lr(d9_cli *cli, const d9_config *config, const char *out, bool quiet) {
    d9_status status, measured;
    range_test self = {.cli = cli, .live = {.cli = cli->terminal && !quiet ? cli : NULL}};
    D9_TRY(d9_experiment_reject_folder(&cli->context, &cli->arena, out, true));
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
        if (!quiet) print_table(&self);
        if (measured == D9_OK) print_advice(&self);
        d9_cli_print(cli, "record     %s/rates.tsv\nplot       %s/rates.svg\n", out, out);
    }
    status = measured;
done:
    d9_live_line_clear(&self.live);
    if (self.session.context) d9_session_close(&self.session);
    return status;
}
