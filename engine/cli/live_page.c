/* Writes live.html, the page that reloads itself: plots/live.html with its {{placeholders}} filled. */

#include <string.h>

#include "cli/progress.h"
#include "core/system.h"
#include "report/report.h"

enum {
    WRITE_SECONDS = 2,
    RELOAD_SECONDS = 3,
    WIDTH = 640,
    HEIGHT = 226,
    LEFT = 68, /* like TOP, large enough for the larger font on narrow screens */
    RIGHT = 12,
    TOP = 14,
    BOTTOM = 52
};

/* ---- curves ---- */

typedef double (*row_value)(const d9_epoch_row *row);
static double loss_of(const d9_epoch_row *row) { return row->train_loss; }
static double eval_loss_of(const d9_epoch_row *row) { return row->eval_loss; }
static double score_of(const d9_epoch_row *row) { return row->score; }
static double score_tta_of(const d9_epoch_row *row) { return row->score_tta; }

static void widen(const d9_live_page *page, row_value value_of, double *low, double *high) {
    for (int i = 0; i < page->count; i++) { /* fmin and fmax ignore NAN */
        *low = fmin(*low, value_of(&page->rows[i]));
        *high = fmax(*high, value_of(&page->rows[i]));
    }
}

/* Epochs on the horizontal axis: the configured ones or, when the run has finished, those that were trained. */
static double epochs_of(const d9_live_page *page) {
    return page->finished ? fmin(page->count, page->config->train.epochs) : page->config->train.epochs;
}

/* x coordinate of the end of a row's epoch; the last epoch may be a fraction. */
static double x_of(const d9_live_page *page, int row) {
    const double epochs = epochs_of(page);
    return LEFT + (WIDTH - LEFT - RIGHT) * fmin((double)page->rows[row].epoch, epochs) / epochs;
}

static double y_of(double value, double low, double high) {
    return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low);
}

/* Draws a curve. Draws its points as well, because a line through a single point is invisible. */
static void put_line(const d9_live_page *page, row_value value_of, const char *class, double low, double high,
                     d9_text *text) {
    d9_text_add(text, "<polyline class=%s points=\"", class);
    for (int i = 0; i < page->count; i++)
        if (isfinite(value_of(&page->rows[i])))
            d9_text_add(text, "%.1f,%.1f ", x_of(page, i), y_of(value_of(&page->rows[i]), low, high));
    d9_text_add(text, "\"/>\n");
    for (int i = 0; i < page->count; i++)
        if (isfinite(value_of(&page->rows[i])))
            d9_text_add(text, "<circle class=%s cx=%.1f cy=%.1f r=2 />\n", class, x_of(page, i),
                        y_of(value_of(&page->rows[i]), low, high));
}

/* Draws both axes, with ticks at round values, and the word "epoch" below. */
static void put_axes(const d9_live_page *page, double low, double high, double step, d9_text *text) {
    const double epochs = epochs_of(page), each = epochs > 1 ? fmax(1, d9_axis_step(epochs, 8)) : epochs;
    const int bottom = HEIGHT - BOTTOM, right = WIDTH - RIGHT;
    d9_text_add(text, "<path class=axis d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, bottom, right);
    for (int64_t tick = llround(ceil(low / step - 1e-9)); (double)tick * step <= high + 1e-9 * step; tick++)
        d9_text_add(text, "<text class=y x=%d y=%.1f dy=.32em text-anchor=end>%.*f</text>\n", LEFT - 6,
                    y_of((double)tick * step, low, high), d9_axis_digits(step), (double)tick * step);
    for (int tick = 0; tick * each <= epochs; tick++)
        d9_text_add(text, "<text class=x x=%.1f y=%d dy=1.1em text-anchor=middle>%g</text>\n",
                    LEFT + (right - LEFT) * tick * each / epochs, bottom + 2, tick * each);
    d9_text_add(text, "<text x=%d y=%d text-anchor=middle>epoch</text>\n", (LEFT + right) / 2, HEIGHT - 5);
}

/* Draws one curve, or two (`second` NULL: one). The vertical axis ends at round values or at `most`. Draws nothing if
 * no epoch has a value. */
static void put_curve(const d9_live_page *page, const char *title, row_value first, row_value second, double most,
                      d9_text *text) {
    double low = INFINITY, high = -INFINITY;
    widen(page, first, &low, &high);
    if (second) widen(page, second, &low, &high);
    if (!(low <= high)) return;
    const double step = d9_axis_step(high > low ? high - low : fmax(0.1 * fabs(high), 0.1), 4);
    low = fmax(floor(low / step) * step, 0);
    high = fmin(ceil(high / step) * step, most);
    if (high == low && high + step <= most)
        high += step;
    else if (high == low)
        low -= step;
    d9_text_add(text, "<h2>%s</h2>\n<svg viewBox=\"0 0 %d %d\" role=img aria-label=\"%s\">\n", title, WIDTH, HEIGHT,
                title);
    put_axes(page, low, high, step, text);
    put_line(page, first, "first", low, high, text);
    if (second) put_line(page, second, "second", low, high, text);
    d9_text_add(text, "</svg>\n");
}

/* ---- placeholders ---- */

typedef struct filling {
    const d9_live_page *page;
    const d9_program *program; /* tells the time left; NULL: it is not known */
    const char *state;         /* how the run ended; NULL: it continues */
    d9_text *text;
} filling;

static void put_state(const filling *self) {
    const d9_live_page *page = self->page;
    const int64_t all = page->all_steps, per_epoch = page->steps_per_epoch;
    const double seconds =
        self->program ? d9_seconds_left(self->program, page->config, page->steps, page->step_seconds) : NAN;
    char left[24];
    if (self->state) {
        d9_html_escape(self->text, self->state);
        return;
    }
    d9_text_add(self->text, "step %lld of %lld, epoch %lld of %lld", (long long)page->steps, (long long)all,
                (long long)((page->steps + per_epoch - 1) / per_epoch), (long long)((all + per_epoch - 1) / per_epoch));
    d9_duration_format(seconds, left, sizeof left);
    if (isfinite(seconds)) d9_text_add(self->text, ", %s left", left);
}

static void put_figures(const filling *self) {
    const d9_live_page *page = self->page;
    const d9_extent *extent = &page->extent;
    const char *sample = d9_model_sample(page->config->model);
    d9_text_add(self->text, "%lld training %ss, batches of %lld", (long long)extent->train_samples, sample,
                (long long)extent->batch);
    if (isfinite(page->step_seconds))
        d9_text_add(self->text, ", %.0f %ss/s", (double)extent->batch / page->step_seconds, sample);
    if (isfinite(page->loss)) d9_text_add(self->text, ", loss of this epoch %.4f", page->loss);
}

static void put_curves(const filling *self) {
    const bool views = self->page->views > 1;
    const d9_measure *measure = self->page->config->measure;
    d9_text title;
    d9_text_init(self->text->context, &title);
    d9_measure_expand(measure, views ? "{title}{, |unit|}; dashed: with TTA" : "{title}{, |unit|}", &title);
    put_curve(self->page, "Training loss; dashed: loss of the evaluation", loss_of, eval_loss_of, INFINITY, self->text);
    put_curve(self->page, d9_text_get(&title), score_of, views ? score_tta_of : NULL, measure->maximum, self->text);
    d9_text_free_part(&title, self->text);
}

static void put_cell(double value, int digits, d9_text *text) {
    if (isfinite(value))
        d9_text_add(text, "<td>%.*f</td>", digits, value);
    else
        d9_text_add(text, "<td>\xe2\x80\x93</td>");
}

static void put_rows(const filling *self) {
    const bool views = self->page->views > 1;
    const d9_measure *measure = self->page->config->measure;
    d9_text_add(self->text,
                "<div class=scroll><table>\n<tr><th>epoch</th><th>train loss</th><th>eval "
                "loss</th><th>%s</th>%s<th>%ss/s</th></tr>\n",
                measure->word, views ? "<th>with TTA</th>" : "", d9_model_sample(self->page->config->model));
    for (int i = self->page->count; i-- > 0;) {
        const d9_epoch_row *row = &self->page->rows[i];
        d9_text_add(self->text, "<tr><td>%lld</td>", (long long)row->epoch);
        put_cell(row->train_loss, 4, self->text);
        put_cell(row->eval_loss, 4, self->text);
        put_cell(row->score, measure->digits, self->text);
        if (views) put_cell(row->score_tta, measure->digits, self->text);
        put_cell(row->images_per_second, 0, self->text);
        d9_text_add(self->text, "</tr>\n");
    }
    d9_text_add(self->text, "</table></div>\n");
}

static void put_reload(const filling *self) {
    if (!self->state) d9_text_add(self->text, "<meta http-equiv=refresh content=%d>\n", RELOAD_SECONDS);
}
static void put_title(const filling *self) { d9_html_escape(self->text, self->page->config->title); }
static void put_steps(const filling *self) { d9_text_add(self->text, "%lld", (long long)self->page->all_steps); }
static void put_step(const filling *self) { d9_text_add(self->text, "%lld", (long long)self->page->steps); }

static void put_placeholder(void *user, const char *name, size_t length) {
    static const struct {
        const char *name;
        void (*put)(const filling *self);
    } places[] = {{"renew", put_reload}, {"title", put_title},     {"state", put_state},   {"steps", put_steps},
                  {"step", put_step},    {"figures", put_figures}, {"curves", put_curves}, {"rows", put_rows}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strlen(places[i].name) == length && strncmp(places[i].name, name, length) == 0) places[i].put(user);
}

/* ---- the file ---- */

static void write_page(d9_live_page *page, const d9_program *program, const char *state) {
    d9_text text;
    filling self = {page, program, state, &text};
    if (!page->path || page->all_steps == 0) return;
    page->written_at = d9_clock_now();
    d9_text_init(&page->context, &text);
    d9_template_fill("live.html", put_placeholder, &self, &text);
    d9_status status = d9_text_status(&text);
    if (status == D9_OK) status = d9_file_write_unsynced(&page->context, page->path, d9_text_get(&text), text.size);
    if (status != D9_OK && !page->warned) d9_log(&page->context, D9_LOG_WARNING, "no page: %s", page->context.message);
    page->warned = page->warned || status != D9_OK;
    d9_context_clear(&page->context);
    d9_text_free(&text);
}

void d9_live_page_begin(d9_live_page *page, const d9_context *context, const d9_config *config, const char *path) {
    *page = (d9_live_page){.context = *context, .config = config, .path = path, .loss = NAN, .step_seconds = NAN};
    d9_context_clear(&page->context);
}

void d9_live_page_planned(d9_live_page *page, const d9_program *program) {
    page->extent = program->extent;
    page->all_steps = program->steps;
    page->steps_per_epoch = program->steps_per_epoch;
    page->views = program->views.count;
    write_page(page, program, NULL);
}

void d9_live_page_step(d9_live_page *page, const d9_program *program, int64_t steps, double loss, double step_seconds) {
    page->steps = steps;
    page->loss = loss;
    page->step_seconds = step_seconds;
    if (d9_clock_now() - page->written_at >= WRITE_SECONDS) write_page(page, program, NULL);
}

static void add_row(d9_live_page *page, const d9_epoch_row *row) {
    if (D9_ARENA_GROW(&page->context, &page->arena, page->count, &page->capacity, &page->rows) == D9_OK)
        page->rows[page->count++] = *row;
}

void d9_live_page_resumed(d9_live_page *page, int64_t steps, const d9_epoch_row *rows, int64_t count) {
    if (!page->path) return;
    page->steps = steps;
    for (int64_t i = 0; i < count; i++) add_row(page, &rows[i]);
    write_page(page, NULL, NULL);
}

void d9_live_page_epoch(d9_live_page *page, const d9_program *program, const d9_epoch_row *row) {
    if (!page->path) return;
    add_row(page, row);
    write_page(page, program, NULL);
}

void d9_live_page_end(d9_live_page *page, bool finished, const char *state) {
    page->finished = finished;
    if (finished) page->steps = page->all_steps;
    write_page(page, NULL, state);
    d9_arena_free(&page->context, &page->arena);
}
