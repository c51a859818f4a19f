/* The plots: their data, settings and scripts go into report/, gnuplot draws each as SVG and PNG, and the SVG comes
 * back for the page. Without gnuplot the report has one note more and no plot. */
#include "report/report_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system.h"
#include "core/process.h"

enum { PATH_BYTES = 4096, LABEL_MAX = 56 /* characters: half of a plot's width */ };

typedef struct drawing {
    d9_context *context;
    d9_report *report;
    d9_text *settings;
    int lines; /* of the data file written last, its heading included, blank ones not */
    int label; /* characters of the longest second column there */
    int last;  /* its last row's first column */
} drawing;

static d9_status write_named(const drawing *drawing, const char *name, const char *ending, const char *bytes,
                             size_t size) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/report/%s%s", drawing->report->folder, name, ending);
    return d9_file_write(drawing->context, path, bytes, size);
}

/* ---- settings.gp ---- */

/* Single quotes: gnuplot takes everything in them as it is, but for the quote itself. */
static void quote(d9_text *text, const char *words) {
    d9_text_add(text, "'");
    for (; *words; words++) d9_text_add(text, *words == '\'' ? "''" : "%c", (unsigned char)*words < ' ' ? ' ' : *words);
    d9_text_add(text, "'");
}

/* A legend below a plot of 828 units: an entry is its sample, 75, and 8 for each character. gnuplot takes a label for a
 * quarter wider than it is, hence the trim. */
static void set_legend(const drawing *drawing, int entries) {
    const d9_report *report = drawing->report;
    int longest = 0;
    for (int s = 0; s < report->series_count; s++)
        if (report->series[s].rank > 0 && (int)strlen(report->series[s].label) > longest)
            longest = (int)strlen(report->series[s].label);
    const int fit = 828 / (75 + 8 * longest), columns = fit < 1 ? 1 : fit > 3 ? 3 : fit;
    const int rows = (entries + columns - 1) / columns;
    d9_text_add(drawing->settings, "legend_columns = %d\nlegend_rows = %d\nlegend_trim = %d\nheight_curves = %d\n",
                columns, rows, longest / 5, 398 + 22 * rows);
}

static void set_names(const drawing *drawing) {
    const d9_report *report = drawing->report;
    int ranked = 0;
    for (int s = 0; s < report->series_count; s++) ranked += report->series[s].rank > 0;
    set_legend(drawing, ranked + (ranked < report->series_count));
    d9_text_add(drawing->settings, "series = %d\nothers = %d\narray name[%d] = [", ranked,
                report->series_count - ranked, ranked);
    for (int rank = 1; rank <= ranked; rank++) {
        int s = 0;
        while (report->series[s].rank != rank) s++;
        d9_text_add(drawing->settings, rank > 1 ? ", " : "");
        quote(drawing->settings, report->series[s].label);
    }
    d9_text_add(drawing->settings, "]\n");
    if (!isnan(report->target)) d9_text_add(drawing->settings, "target = %.10g\n", report->target);
    d9_text_add(drawing->settings, "sweep = %d\n", report->sweep);
}

/* ---- which plots there are ---- */

/* Whether some run was evaluated after more than one of its epochs. */
static bool has_epochs(const d9_report *report) {
    size_t index;
    const json_t *row;
    for (int r = 0; r < report->run_count; r++) {
        int evaluated = 0;
        json_array_foreach(json_object_get(report->runs[r].result, "epochs"), index, row) evaluated +=
            !isnan(d9_json_real(row, "accuracy"));
        if (evaluated > 1) return true;
    }
    return false;
}

/* The accuracies worth a closer look: from the lowest of the last two thirds of the epochs up. */
static void set_accuracy_range(const drawing *drawing) {
    const d9_report *report = drawing->report;
    double low = INFINITY;
    size_t index;
    const json_t *row;
    for (int r = 0; r < report->run_count; r++) {
        const json_t *epochs = json_object_get(report->runs[r].result, "epochs");
        const size_t first = json_array_size(epochs) / 3;
        json_array_foreach(epochs, index, row) {
            const double accuracy = d9_json_real(row, "accuracy");
            if (index >= first && !isnan(accuracy)) low = fmin(low, accuracy);
        }
        if (report->sweep && report->runs[r].result) low = fmin(low, report->runs[r].accuracy);
    }
    if (report->sweep) { /* final accuracies alone */
        low = INFINITY;
        for (int r = 0; r < report->run_count; r++) low = fmin(low, report->runs[r].accuracy);
    }
    for (int a = 0; a < report->arm_count; a++) low = fmin(low, report->arms[a].published_accuracy);
    if (!isfinite(low)) low = 0;
    d9_text_add(drawing->settings, "accuracy_low = %.10g\n", floor(low));
    if (report->target > floor(low)) d9_text_add(drawing->settings, "accuracy_target = %.10g\n", report->target);
}

/* The losses, with the accuracies beside them where runs were evaluated more than once. */
static bool has_curves(const drawing *drawing) {
    d9_text_add(drawing->settings, "accuracies = %d\n", has_epochs(drawing->report));
    return drawing->lines > 2;
}

static bool has_accuracy(const drawing *drawing) {
    const bool has = drawing->lines > 2 && (drawing->report->sweep || has_epochs(drawing->report));
    if (has) set_accuracy_range(drawing);
    return has;
}

/* 1, 2 or 5 times a power of ten, at most five of them in the range. */
static double tick(double range) {
    const double power = pow(10, floor(log10(range / 5))), part = range / 5 / power;
    return (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * power;
}

static bool has_forest(const drawing *drawing) {
    double low = 0, high = 0;
    for (int a = 0; a < drawing->report->arm_count; a++) {
        const d9_estimate *e = &drawing->report->arms[a].difference;
        low = fmin(low, fmin(e->estimate, e->low)); /* fmin passes over NAN */
        high = fmax(high, fmax(e->estimate, e->high));
    }
    const double margin = 0.04 * (high - low);
    d9_text_add(drawing->settings, "height_forest = %d\nforest_rows = %d\nforest_label = %d\n", 90 + 27 * drawing->last,
                drawing->last, drawing->label);
    d9_text_add(drawing->settings, "forest_low = %.10g\nforest_high = %.10g\nforest_tick = %.10g\n", low - margin,
                high + margin, high > low ? tick(high - low) : 1);
    return drawing->lines > 1 && high > low;
}

/* A ladder is drawn where there are published figures, or where each arm is compared with the one before it. */
static bool has_ladder(const drawing *drawing) {
    int published = 0;
    double low = INFINITY, high = -INFINITY;
    for (int a = 0; a < drawing->report->arm_count; a++) {
        const d9_report_arm *arm = &drawing->report->arms[a];
        published += !isnan(arm->published_accuracy);
        low = fmin(low, fmin(arm->published_accuracy, fmin(arm->sample.mean, arm->mean.low)));
        high = fmax(high, fmax(arm->published_accuracy, fmax(arm->sample.mean, arm->mean.high)));
    }
    d9_text_add(drawing->settings, "height_ladder = %d\nladder_rows = %d\nladder_label = %d\nladder_tick = %.10g\n",
                135 + 28 * drawing->last, drawing->last, drawing->label, high > low ? tick(high - low) : 1);
    if (published) d9_text_add(drawing->settings, "published = 1\n");
    return published > 1 || (d9_report_is_chain(drawing->report) && high > low);
}

static bool has_step(const drawing *drawing) {
    d9_text_add(drawing->settings, "height_step = %d\nstep_rows = %d\nstep_label = %d\n", 80 + 25 * drawing->last,
                drawing->last, drawing->label);
    return drawing->lines > 1;
}

static bool has_confusion(const drawing *drawing) {
    d9_text_add(drawing->settings, "height_confusion = %d\n", 110 + 34 * (drawing->last + 1));
    return drawing->lines > 1;
}

/* ---- the data files ---- */

typedef d9_status (*maker)(const d9_report *report, d9_text *text);
static const struct {
    const char *name, *title, *note;
    struct {
        const char *name;
        maker make;
    } data[3]; /* `wanted` looks at the last */
    bool (*wanted)(const drawing *drawing);
} plots[] = {
    {"forest",
     "What each change is worth",
     "Difference in accuracy, percentage points, with 95% intervals. Filled: told from zero (Holm's p below 0.05).",
     {{"forest", d9_report_forest}},
     has_forest},
    {"ladder",
     "Step by step",
     "Filled: measured, with the 95% interval of the mean. Hollow, where there are any: published, on their author's "
     "machine.",
     {{"ladder", d9_report_ladder}},
     has_ladder},
    {"accuracy",
     "Accuracy over epochs",
     "Each run is a dot; line and band are the mean and its 95% interval. Diamonds: published.",
     {{"accuracy_published", d9_report_lengths_published},
      {"accuracy_means", d9_report_lengths_means},
      {"accuracy", d9_report_lengths_runs}},
     has_accuracy},
    {"curves", "Training curves", "One line for each run.", {{"curves", d9_report_curves}}, has_curves},
    {"step",
     "Where a training step's time goes",
     "By rule, from bench.json (dawn9 bench step --json).",
     {{"step", d9_report_step}},
     has_step},
    {"confusion",
     "Confusion matrix",
     "Rows: what the image shows. Columns: the answer. Percent of the row's images.",
     {{"confusion", d9_report_confusion}},
     has_confusion},
};
enum { PLOTS = sizeof plots / sizeof *plots };

static void survey(drawing *drawing, const char *text) {
    drawing->lines = drawing->label = drawing->last = 0;
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *label = memchr(line, '\t', (size_t)(end - line));
        int width = 0;
        if (end == line || !label) continue;
        for (label++; *label != '\t' && label < end; label++) width += (*label & 0xc0) != 0x80; /* UTF-8 */
        if (drawing->lines++ == 0) continue;                                                    /* the heading */
        if (width > drawing->label) drawing->label = width < LABEL_MAX ? width : LABEL_MAX;
        drawing->last = (int)strtol(line, NULL, 10);
    }
}

static d9_status write_data(drawing *drawing, int which) {
    d9_status status = D9_OK;
    d9_text text;
    d9_text_init(drawing->context, &text);
    for (int i = 0; i < 3 && plots[which].data[i].name; i++) {
        D9_TRY(plots[which].data[i].make(drawing->report, &text));
        D9_TRY(d9_text_status(&text));
        D9_TRY(write_named(drawing, plots[which].data[i].name, ".tsv", d9_text_get(&text), text.size));
        survey(drawing, d9_text_get(&text));
        d9_text_free(&text);
    }
done:
    d9_text_free(&text);
    return status;
}

/* ---- SVG for the page ---- */

/* "rgb(  0, 114, 178)" at `at` as the page's variable --c0072b2, with itself where the page says nothing. Returns its
 * end, or NULL when there is no such colour. */
static const char *put_colour(d9_text *text, const char *at) {
    int red, green, blue, length = 0;
    if (strncmp(at, "rgb(", 4) != 0 || sscanf(at, "rgb( %d , %d , %d )%n", &red, &green, &blue, &length) != 3 ||
        !length)
        return NULL;
    const unsigned colour = (unsigned)(red & 255) << 16 | (unsigned)(green & 255) << 8 | (unsigned)(blue & 255);
    d9_text_add(text, "var(--c%06x,#%06x)", colour, colour);
    return at + length;
}

/* gnuplot's SVG made fit to stand beside others: without its XML heading and tool tips, its names its own, its colours
 * the page's to change. */
void d9_report_adopt_svg(const char *svg, const char *name, d9_text *text) {
    static const char *const names[] = {"id='", "id=\"", "href='#", "url(#"};
    const char *at = strstr(svg, "<svg");
    if (!at) return;
    d9_text_add(text, "<svg role=img aria-label=\"%s\"", name);
    for (at += 4; *at;) {
        const char *end = put_colour(text, at);
        if (!end && strncmp(at, "<title>", 7) == 0 && (end = strstr(at, "</title>"))) end += 8;
        for (size_t i = 0; !end && i < sizeof names / sizeof *names; i++) {
            if (strncmp(at, names[i], strlen(names[i])) != 0) continue;
            d9_text_add(text, "%s%s-", names[i], name);
            end = at + strlen(names[i]);
        }
        if (!end) {
            const size_t plain = 1 + strcspn(at + 1, "<rihu"); /* where one of these may begin */
            d9_text_add(text, "%.*s", (int)plain, at);
            end = at + plain;
        }
        at = end;
    }
}

/* ---- gnuplot ---- */

static d9_status write_scripts(const drawing *drawing) {
    d9_status status = D9_OK;
    const d9_template *template;
    for (int i = 0; (template = d9_template_at(i)); i++)
        if (strstr(template->name, ".gp"))
            D9_TRY(write_named(drawing, template->name, "", template->bytes, template->size));
done:
    return status;
}

/* The pictures of an earlier page. */
static void remove_pictures(const drawing *drawing, const char *name) {
    static const char *const endings[] = {"svg", "png"};
    const d9_system *system = drawing->context->system;
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        snprintf(path, sizeof path, "%s/report/%s.%s", drawing->report->folder, name, endings[i]);
        system->remove(system->user, path);
    }
}

/* Draws a plot; `name` NULL: asks for its version, to see whether it is there. Where it fails the report has a note
 * instead; an interrupt of a drawing ends the report. */
static d9_status run_gnuplot(const drawing *drawing, const char *name, bool *done) {
    d9_status status = D9_OK;
    d9_report *report = drawing->report;
    char folder[PATH_BYTES], log[PATH_BYTES + 8];
    const char *const draw[] = {"gnuplot", "-c", "draw.gp", name, NULL};
    const char *const version[] = {"gnuplot", "--version", NULL};
    d9_context quiet = *drawing->context;
    d9_signal_guard guard;
    d9_context_clear(&quiet);
    snprintf(folder, sizeof folder, "%s/report", report->folder);
    snprintf(log, sizeof log, "%s/log", folder);
    d9_signal_guard_begin(&guard);
    const d9_status ran = d9_process_run(&quiet, &guard, name ? draw : version, folder);
    quiet.system->remove(quiet.system->user, log);
    d9_signal_guard_end(&guard);
    *done = ran == D9_OK;
    if (name && d9_status_is_interrupt(ran)) D9_TRY(d9_fail(drawing->context, ran, "%s", quiet.message));
    if (ran != D9_OK)
        D9_TRY(name ? d9_report_say(drawing->context, report, &report->notes, "No plot %s: %s.", name, quiet.message)
                    : d9_report_say(drawing->context, report, &report->notes,
                                    "There are no plots: %s (Debian: gnuplot-nox).", quiet.message));
done:
    return status;
}

d9_status d9_report_draw(d9_context *context, d9_report *report, d9_report_plot *drawn_plots, int *count) {
    d9_status status = D9_OK;
    d9_text settings;
    bool wanted[PLOTS], drawn = false;
    drawing drawing = {.context = context, .report = report, .settings = &settings};
    d9_text_init(context, &settings);
    *count = 0;
    set_names(&drawing);
    for (int i = 0; i < PLOTS; i++) {
        D9_TRY(write_data(&drawing, i));
        remove_pictures(&drawing, plots[i].name);
        wanted[i] = plots[i].wanted(&drawing);
    }
    D9_TRY(d9_text_status(&settings));
    D9_TRY(write_named(&drawing, "settings", ".gp", d9_text_get(&settings), settings.size));
    D9_TRY(write_scripts(&drawing));
    D9_TRY(run_gnuplot(&drawing, NULL, &drawn));
    for (int i = 0; drawn && i < PLOTS; i++) {
        char svg[64];
        bool plotted;
        if (!wanted[i]) continue;
        D9_TRY(run_gnuplot(&drawing, plots[i].name, &plotted));
        if (!plotted) continue;
        d9_report_plot *plot = &drawn_plots[*count];
        *plot = (d9_report_plot){plots[i].name, plots[i].title, plots[i].note, NULL, NULL};
        snprintf(svg, sizeof svg, "report/%s.svg", plot->name);
        D9_TRY(d9_report_embed(context, report, svg, plot));
        ++*count;
    }
done:
    d9_text_free(&settings);
    return status;
}
