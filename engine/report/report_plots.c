/* Plots: data, settings and scripts are written to report/, gnuplot draws each plot as SVG and PNG, and the SVG is
 * embedded in the page. Without gnuplot the report has a note instead of plots. */
#include "report/report_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system.h"
#include "core/process.h"
#include "report/report_table.h"

enum {
    PATH_BYTES = 4096,
    /* characters of a label on a vertical axis; longer ones are cut, except in the forest plot, which moves them above
     * the bars */
    LABEL_MAX = 50,
    CLASS_MAX = 24 /* characters of a class name in the confusion matrix */
};

typedef struct drawing {
    d9_context *context;
    d9_report *report;
    d9_text *settings;
    int lines;       /* number of lines of the last data file, including its heading, without blank lines */
    int label_width; /* characters of the longest entry in that file's second column */
    int last;        /* number in the first column of that file's last row */
    int row_lines;   /* of the plot's data files so far: the most lines in succession with the same first column */
    bool cut;        /* some interval of this plot is wider than the axis */
} drawing;

static d9_status write_named(const drawing *drawing, const char *name, const char *ending, const char *bytes,
                             size_t size) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/report/%s%s", drawing->report->folder, name, ending);
    return d9_file_write(drawing->context, path, bytes, size);
}

/* ---- settings.gp ---- */

/* Adds a string for gnuplot in single quotes, in which only the quote itself needs escaping. Control characters become
 * spaces. */
static void add_quoted(d9_text *text, const char *words) {
    d9_text_add(text, "'");
    for (; *words; words++) d9_text_add(text, *words == '\'' ? "''" : "%c", (unsigned char)*words < ' ' ? ' ' : *words);
    d9_text_add(text, "'");
}

/* True if some run was evaluated after more than one epoch. */
static bool has_epochs(const d9_report *report) {
    size_t index;
    const json_t *row;
    for (int r = 0; r < report->run_count; r++) {
        int evaluated = 0;
        json_array_foreach(json_object_get(report->runs[r].result, "epochs"), index, row) evaluated +=
            !isnan(d9_json_real(row, report->measure->name));
        if (evaluated > 1) return true;
    }
    return false;
}

/* True if an evaluation of any run has a loss. Records of version 0.3.0 have none. */
static bool has_eval_loss(const d9_report *report) {
    size_t index;
    const json_t *row;
    for (int r = 0; r < report->run_count; r++)
        json_array_foreach(json_object_get(report->runs[r].result, "epochs"), index,
                           row) if (!isnan(d9_json_real(row, "eval_loss"))) return true;
    return false;
}

/* Lays out a legend below a plot 828 units wide: an entry takes 75 for its line sample and 8 per byte of its label.
 * gnuplot estimates labels a quarter too wide, which legend_trim corrects. A single curve needs no legend. */
static void set_legend(const drawing *drawing, int curves) {
    const d9_report *report = drawing->report;
    int longest = 0;
    for (int s = 0; s < report->series_count; s++)
        if (report->series[s].colour > 0 && (int)strlen(report->series[s].label) > longest)
            longest = (int)strlen(report->series[s].label);
    const int fit = 828 / (75 + 8 * longest), columns = fit < 1 ? 1 : fit > 3 ? 3 : fit;
    const int entries = curves > 1 ? curves : 0, rows = (entries + columns - 1) / columns;
    d9_text_add(drawing->settings,
                "legend_columns = %d\nlegend_rows = %d\nlegend_entries = %d\nlegend_trim = %d\nheight_curves = %d\n"
                "height_curves_narrow = %d\nheight_%s = %d\nheight_%s_narrow = %d\n",
                columns, rows, entries, longest / 5, 398 + 22 * rows, 330 + 22 * entries, report->measure->name,
                426 + 22 * rows, report->measure->name, 316 + 22 * entries);
}

static void add_common_settings(const drawing *drawing) {
    const d9_report *report = drawing->report;
    int coloured = 0;
    for (int s = 0; s < report->series_count; s++) coloured += report->series[s].colour > 0;
    set_legend(drawing, coloured + (coloured < report->series_count));
    d9_text_add(drawing->settings, "label_max = %d\nseries = %d\nothers = %d\narray name[%d] = [", LABEL_MAX, coloured,
                report->series_count - coloured, coloured);
    for (int colour = 1; colour <= coloured; colour++) {
        int s = 0;
        while (report->series[s].colour != colour) s++;
        d9_text_add(drawing->settings, colour > 1 ? ", " : "");
        add_quoted(drawing->settings, report->series[s].label);
    }
    d9_text_add(drawing->settings, "]\n");
    if (!isnan(report->target)) d9_text_add(drawing->settings, "target = %.10g\n", report->target);
    d9_text_add(drawing->settings, "sweep = %d\n", report->sweep);
    d9_measure_expand(report->measure,
                      "measure = '{name}'\nmeasure_axis = '{word}{, |unit|}'\n"
                      "epoch_axis = measure_axis\n"
                      "difference_axis = 'difference in {word}{, |points|}'\ndifference_axis_narrow = '{points}'\n",
                      drawing->settings);
    if (report->plain_epochs && !report->sweep)
        d9_text_add(drawing->settings, "epoch_axis = measure_axis . '; without TTA'\n");
}

/* ---- axes: each plan_* function adds the settings of a plot and returns true if it is to be drawn ---- */

typedef struct range {
    double low, high;
} range;

static void widen(range *range, double value) { /* fmin and fmax ignore NAN */
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

static const range nothing = {INFINITY, -INFINITY};

/* Sets NAME_low, NAME_high and NAME_bent. If the error rates differ by more than a factor of three, the axis of
 * accuracies is logarithmic in the error rate (see style.gp), so that 93% and 94% stay distinguishable beside 40%. */
static void set_score_axis(const drawing *drawing, const char *name, range range) {
    static const double beyond = 100.1; /* 100.1 instead of 100 keeps 100% at a finite position */
    if (!(range.low <= range.high)) range.low = range.high = 0;
    const double wrong = beyond - range.low, least = beyond - range.high, ratio = wrong / least;
    const d9_measure *measure = drawing->report->measure;
    const bool bent = measure->log_axis && ratio > 3;
    const double margin = 0.06 * fmax(range.high - range.low, 5 * measure->detectable_difference),
                 factor = pow(ratio, 0.06);
    const double low = bent ? beyond - wrong * factor : range.low - margin,
                 high = bent ? beyond - least / factor : range.high + margin;
    d9_text_add(drawing->settings, "%s_low = %.10g\n%s_high = %.10g\n%s_bent = %d\n", name, fmax(low, -1), name, high,
                name, bent);
}

static void set_x_axis(const drawing *drawing, const char *name, range range) {
    const double margin = 0.02 * range.high;
    d9_text_add(drawing->settings, "%s_first = %.10g\n%s_last = %.10g\n", name,
                range.low - (range.low > 0 ? margin : 0), name, range.high + margin);
}

/* Clips the axis to the points plus a margin, so that wide intervals do not squeeze the points together. The margin is
 * twice the points' range or `width` (NAN: no intervals), whichever is larger. Returns true if it clipped. */
static bool clip_axis(range *all, range points, double width) {
    const double span = points.high - points.low, beyond = fmax(2 * span, width);
    const double low = points.low - beyond, high = points.high + beyond;
    if (!(span > 0) || (all->low >= low && all->high <= high)) return false;
    *all = (range){fmax(all->low, low), fmin(all->high, high)};
    return true;
}

typedef range interval_of(const d9_report_arm *arm);
static range difference_of(const d9_report_arm *arm) { return (range){arm->difference.low, arm->difference.high}; }
static range mean_of(const d9_report_arm *arm) { return (range){arm->mean.low, arm->mean.high}; }

/* Median width of the arms' finite intervals; the lower median of an even number; NAN without intervals. */
static double median_width(const d9_report *report, interval_of *interval) {
    double found = NAN;
    int intervals = 0;
    for (int a = 0; a < report->arm_count; a++)
        intervals += isfinite(interval(&report->arms[a]).high - interval(&report->arms[a]).low);
    for (int a = 0; a < report->arm_count; a++) {
        const double width = interval(&report->arms[a]).high - interval(&report->arms[a]).low;
        int narrower = 0, alike = 0;
        for (int other = 0; other < report->arm_count; other++) {
            const double its = interval(&report->arms[other]).high - interval(&report->arms[other]).low;
            narrower += its < width;
            alike += its == width;
        }
        if (narrower <= (intervals - 1) / 2 && narrower + alike > (intervals - 1) / 2) found = width;
    }
    return found;
}

/* Losses over epochs. */
static bool plan_curves(drawing *drawing) {
    const d9_report *report = drawing->report;
    range epochs = {0, 0};
    size_t index;
    const json_t *row;
    for (int r = 0; r < report->run_count; r++)
        json_array_foreach(json_object_get(report->runs[r].result, "epochs"), index, row)
            widen(&epochs, d9_report_epochs(report, report->runs[r].arm, d9_json_real(row, "epoch")));
    d9_text_add(drawing->settings, "eval_losses = %d\n", has_eval_loss(report));
    set_x_axis(drawing, "curves", epochs);
    return drawing->lines > 2;
}

/* Score over epochs; in a sweep (arms that differ in train.epochs), final score over the length of training. */
static bool plan_score(drawing *drawing) {
    const d9_report *report = drawing->report;
    range scores = nothing, epochs = report->sweep ? nothing : (range){0, 0};
    size_t index;
    const json_t *row;
    if (drawing->lines <= 2 || !(report->sweep || has_epochs(report))) return false;
    for (int r = 0; r < report->run_count; r++) {
        const d9_report_run *run = &report->runs[r];
        if (!run->result) continue;
        widen(&scores, run->score);
        widen(&epochs, d9_report_trained(report, run));
        json_array_foreach(json_object_get(run->result, "epochs"), index, row) if (!report->sweep)
            widen(&scores, d9_report_epoch_score(report, row));
    }
    for (int a = 0; a < report->arm_count; a++) {
        if (isnan(report->arms[a].published_epochs)) continue;
        widen(&scores, report->arms[a].published_score);
        widen(&epochs, report->arms[a].published_epochs);
    }
    widen(&scores, report->target);
    set_score_axis(drawing, "score", scores);
    set_x_axis(drawing, "score", epochs);
    return true;
}

/* Trials and frontier of a search; the tables are the data. */
static bool plan_frontier(drawing *drawing) {
    const d9_report *report = drawing->report;
    range scores = nothing, teraflop = nothing;
    const d9_report_table *trials = NULL;
    for (int t = 0; t < report->table_count; t++)
        if (strcmp(report->tables[t].name, "trials") == 0) trials = &report->tables[t];
    if (!trials) return false;
    const json_t *rungs = json_object_get(json_object_get(report->record, "search"), "rungs");
    for (int a = 0; a < report->arm_count; a++) widen(&scores, report->arms[a].sample.mean);
    for (int row = 0; row < trials->row_count; row++)
        widen(&teraflop, trials->cells[row * trials->column_count + D9_REPORT_TERAFLOP].number);
    set_score_axis(drawing, "frontier", scores);
    set_x_axis(drawing, "frontier", teraflop);
    d9_text_add(drawing->settings, "frontier_rungs = %zu\nheight_frontier = 440\nheight_frontier_narrow = 400\n",
                json_array_size(rungs));
    return true;
}

static bool plan_forest(drawing *drawing) {
    range all = {0, 0}, points = {0, 0};
    for (int a = 0; a < drawing->report->arm_count; a++) {
        const d9_estimate *e = &drawing->report->arms[a].difference;
        widen(&points, e->estimate);
        widen(&all, e->estimate);
        widen(&all, e->low);
        widen(&all, e->high);
    }
    drawing->cut = clip_axis(&all, points, median_width(drawing->report, difference_of));
    const double span = all.high - all.low, margin = drawing->cut ? 0 : 0.04 * span;
    const bool above = drawing->label_width > LABEL_MAX;
    const int tall_row = 27 + 17 * drawing->row_lines, tall = 74 + tall_row * drawing->last;
    d9_text_add(drawing->settings,
                "height_forest = %d\nheight_forest_narrow = %d\nforest_above = %d\nforest_row = %d\nforest_rows = %d\n"
                "forest_label = %d\n",
                above ? tall : 90 + 27 * drawing->last, tall, above, tall_row, drawing->last, drawing->label_width);
    d9_text_add(drawing->settings, "forest_low = %.10g\nforest_high = %.10g\nforest_tick = %.10g\n", all.low - margin,
                all.high + margin, span > 0 ? d9_axis_step(span, 5) : 1);
    return drawing->lines > 1 && span > 0;
}

static int label_up_to(const drawing *drawing, int most) {
    return drawing->label_width < most ? drawing->label_width : most;
}

/* The ladder is drawn if two published scores are known, or if the arms are a chain (d9_report_is_chain) with different
 * means or intervals. */
static bool plan_ladder(drawing *drawing) {
    int published = 0;
    range all = nothing, points = nothing;
    for (int a = 0; a < drawing->report->arm_count; a++) {
        const d9_report_arm *arm = &drawing->report->arms[a];
        published += !isnan(arm->published_score);
        widen(&points, arm->published_score);
        widen(&points, arm->sample.mean);
        widen(&all, arm->mean.low);
        widen(&all, arm->mean.high);
    }
    widen(&all, points.low);
    widen(&all, points.high);
    drawing->cut = clip_axis(&all, points, median_width(drawing->report, mean_of));
    const double span = all.high - all.low, margin = 0.05 * span;
    d9_text_add(drawing->settings,
                "height_ladder = %d\nheight_ladder_narrow = %d\nladder_rows = %d\nladder_label = %d\n"
                "ladder_low = %.10g\nladder_high = %.10g\nladder_tick = %.10g\n",
                135 + 28 * drawing->last, 130 + 44 * drawing->last, drawing->last, label_up_to(drawing, LABEL_MAX),
                all.low - margin, all.high + margin, span > 0 ? d9_axis_step(span, 5) : 1);
    if (published) d9_text_add(drawing->settings, "published = 1\n");
    return published > 1 || (d9_report_is_chain(drawing->report) && span > 0);
}

static bool plan_step(drawing *drawing) {
    d9_text_add(drawing->settings, "height_step = %d\nheight_step_narrow = %d\nstep_rows = %d\nstep_label = %d\n",
                80 + 25 * drawing->last, 70 + 40 * drawing->last, drawing->last, label_up_to(drawing, LABEL_MAX));
    return drawing->lines > 1;
}

/* Class names below the matrix are turned if they are wider than a cell. gnuplot's unit of margins is a line of text,
 * 17 high; a character is about 8 wide. */
static bool plan_confusion(drawing *drawing) {
    const int label = label_up_to(drawing, CLASS_MAX);
    const int classes = drawing->last + 1, cell = (828 - 8 * label) / classes;
    const int turned = 8 * label > cell ? 4 + 8 * label * 6 / 10 / 17 : 0;
    d9_text_add(drawing->settings,
                "height_confusion = %d\nconfusion_last = %d\nconfusion_most = %.10g\nconfusion_turned = %d\n"
                "class_max = %d\n",
                (turned ? 40 + 17 * turned : 110) + 34 * classes, drawing->last, d9_report_colour_max(drawing->report),
                turned, CLASS_MAX);
    return drawing->lines > 1;
}

/* ---- captions: they mention only what the plot shows ---- */

static bool has_interval(const d9_report *report, bool differences) {
    for (int a = 0; a < report->arm_count; a++)
        if (!isnan(differences ? report->arms[a].difference.low : report->arms[a].mean.low)) return true;
    return false;
}

static bool has_published(const d9_report *report) {
    for (int a = 0; a < report->arm_count; a++)
        if (!isnan(report->arms[a].published_score)) return true;
    return false;
}

static const char *about_cuts(const drawing *drawing) {
    return drawing->cut ? " Intervals wider than the axis are cut off at its edge." : "";
}

static void note_forest(const drawing *drawing, d9_text *text) {
    bool clear = false;
    for (int a = 0; a < drawing->report->arm_count; a++)
        clear = clear || drawing->report->arms[a].holm < 1 - D9_REPORT_LEVEL;
    d9_measure_expand(drawing->report->measure, "Difference in {word}{, |points|}.", text);
    if (has_interval(drawing->report, true))
        d9_text_add(text,
                    " Bars and brackets: 95%% interval of each difference alone. p: adjusted by Holm for the number of "
                    "differences. %s, even if its bar does not reach zero.",
                    clear ? "Filled: a clear effect (p below 0.05); hollow: none"
                          : "Hollow: no clear effect (p is not below 0.05)");
    d9_text_add(text, "%s", about_cuts(drawing));
}

static void note_ladder(const drawing *drawing, d9_text *text) {
    d9_text_add(text, "Filled: measured%s.%s%s",
                has_interval(drawing->report, false) ? ", with the 95% interval of the mean" : "",
                has_published(drawing->report) ? " Hollow: published, measured on the author's machine." : "",
                about_cuts(drawing));
}

static void note_score(const drawing *drawing, d9_text *text) {
    const d9_report *report = drawing->report;
    const char *shown = report->most_seeds >= D9_REPORT_BAND_RUNS
                            ? "; line and band are the mean and its 95% interval, the band from three runs on"
                        : report->most_seeds > 1 ? "; the line is the mean"
                                                 : "";
    d9_text_add(text, "Each run is a dot%s.%s", shown, has_published(report) ? " Diamonds: published." : "");
}

static void note_curves(const drawing *drawing, d9_text *text) {
    d9_text_add(text, "One line per run.%s", has_eval_loss(drawing->report) ? " Dotted: loss of the evaluation." : "");
}

static void note_frontier(const drawing *drawing, d9_text *text) {
    (void)drawing;
    d9_text_add(text, "Each trial is a point, at the last rung that it has finished. Numbers: trials on the frontier, "
                      "where they fit.");
}

static void note_step(const drawing *drawing, d9_text *text) {
    (void)drawing;
    d9_text_add(text, "By rule, from bench.json (dawn9 bench step --json).");
}

static void note_confusion(const drawing *drawing, d9_text *text) {
    (void)drawing;
    d9_text_add(
        text,
        "Rows: true class. Columns: predicted class. Percent of the row; the diagonal holds the correct answers.");
}

/* ---- the plots and their data files ---- */

typedef d9_status (*maker)(const d9_report *report, d9_text *text);
static const struct {
    const char *name, *title; /* patterns of d9_measure_expand, like the names in `data` */
    struct {
        const char *name;
        maker make;
    } data[3]; /* `lines`, `label_width` and `last` of the drawing describe the last file */
    bool (*plan)(drawing *drawing);
    void (*note)(const drawing *drawing, d9_text *text);
    bool narrow; /* also drawn for narrow screens */
} plots[] = {
    {"frontier", "{title} against operations", {{NULL, NULL}}, plan_frontier, note_frontier, true},
    {"forest",
     "Effect of each change",
     {{"forest_lines", d9_report_forest_lines}, {"forest", d9_report_forest}},
     plan_forest,
     note_forest,
     true},
    {"ladder", "Step by step", {{"ladder", d9_report_ladder}}, plan_ladder, note_ladder, true},
    {"{name}",
     "{title} over epochs",
     {{"{name}_published", d9_report_score_published},
      {"{name}_means", d9_report_score_means},
      {"{name}", d9_report_score_runs}},
     plan_score,
     note_score,
     true},
    {"curves", "Training curves", {{"curves", d9_report_curves}}, plan_curves, note_curves, true},
    {"step", "Time of a training step by rule", {{"step", d9_report_step_times}}, plan_step, note_step, true},
    {"confusion", "Confusion matrix", {{"confusion", d9_report_confusion}}, plan_confusion, note_confusion, false},
};
enum { PLOTS = sizeof plots / sizeof *plots };

/* Sets lines, label_width and last from the text of a data file; raises row_lines if the file has more. */
static void scan_data(drawing *drawing, const char *text) {
    int alike = 0;
    drawing->lines = drawing->label_width = drawing->last = 0;
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *label = memchr(line, '\t', (size_t)(end - line));
        int width = 0;
        if (end == line || !label) continue;
        for (label++; *label != '\t' && label < end; width++) d9_text_next(&label);
        if (drawing->lines++ == 0) continue; /* the heading */
        if (width > drawing->label_width) drawing->label_width = width;
        const int row = (int)strtol(line, NULL, 10);
        alike = row == drawing->last ? alike + 1 : 1;
        if (alike > drawing->row_lines) drawing->row_lines = alike;
        drawing->last = row;
    }
}

static d9_status write_data(drawing *drawing, int which) {
    d9_status status = D9_OK;
    d9_text text;
    const char *name;
    d9_text_init(drawing->context, &text);
    for (int i = 0; i < 3 && plots[which].data[i].name; i++) {
        D9_TRY(plots[which].data[i].make(drawing->report, &text));
        D9_TRY(d9_text_status(&text));
        D9_TRY(d9_report_expand(drawing->context, drawing->report, plots[which].data[i].name, &name));
        D9_TRY(write_named(drawing, name, ".tsv", d9_text_get(&text), text.size));
        scan_data(drawing, d9_text_get(&text));
        d9_text_free(&text);
    }
done:
    d9_text_free(&text);
    return status;
}

/* ---- SVG for the page ---- */

/* Adds var(--c0072b2,#0072b2) for "rgb(  0, 114, 178)" at `at`, so that the page can redefine the colour. Returns the
 * position after it, or NULL if there is no colour at `at`. */
static const char *put_colour(d9_text *text, const char *at) {
    int red, green, blue, length = 0;
    if (strncmp(at, "rgb(", 4) != 0 || sscanf(at, "rgb( %d , %d , %d )%n", &red, &green, &blue, &length) != 3 ||
        !length)
        return NULL;
    const unsigned colour = (unsigned)(red & 255) << 16 | (unsigned)(green & 255) << 8 | (unsigned)(blue & 255);
    d9_text_add(text, "var(--c%06x,#%06x)", colour, colour);
    return at + length;
}

/* Adds the bytes [at, end); control characters beyond ASCII are written as by d9_html_escape. */
static void put_plain(d9_text *text, const char *at, const char *end) {
    for (const char *plain = at; at < end; plain = at) {
        while (at < end && d9_control_bytes(at) < 2) at++;
        d9_text_add(text, "%.*s", (int)(at - plain), plain);
        if (at == end) break;
        d9_text_add_control(text, at);
        d9_text_next(&at);
    }
}

/* Makes gnuplot's SVG embeddable: removes the XML header and tool tips, makes its ids unique, and turns its colours
 * into variables of the page. */
void d9_report_convert_svg(const char *svg, const char *name, d9_text *text) {
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
            end = at + 1 + strcspn(at + 1, "<rihu"); /* first letters of <title>, rgb( and `names` */
            put_plain(text, at, end);
        }
        at = end;
    }
}

/* ---- gnuplot, and all plots ---- */

static d9_status write_scripts(const drawing *drawing) {
    d9_status status = D9_OK;
    const d9_template *template;
    for (int i = 0; (template = d9_template_at(i)); i++) {
        if (!strstr(template->name, ".gp")) continue;
        const bool score = strcmp(template->name, "score.gp") == 0; /* the script of the plot {name} */
        D9_TRY(write_named(drawing, score ? drawing->report->measure->name : template->name, score ? ".gp" : "",
                           template->bytes, template->size));
    }
done:
    return status;
}

/* Removes a plot's pictures of an earlier report. */
static void remove_pictures(const drawing *drawing, const char *name) {
    static const char *const endings[] = {".svg", ".png", "-narrow.svg"};
    const d9_system *system = drawing->context->system;
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        snprintf(path, sizeof path, "%s/report/%s%s", drawing->report->folder, name, endings[i]);
        system->remove(system->user, path);
    }
}

/* Draws a plot. `name` NULL: runs `gnuplot --version` to see if it is installed. If gnuplot fails, *done is false and
 * the report gets a note; an interrupt while drawing ends the report. */
static d9_status run_gnuplot(const drawing *drawing, const char *name, bool *done) {
    d9_status status = D9_OK;
    d9_report *report = drawing->report;
    char folder[PATH_BYTES], log[PATH_BYTES + 8];
    const char *const draw[] = {"gnuplot", "-d", "-c", "draw.gp", name, NULL}; /* -d: without the user's settings */
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
        D9_TRY(
            name ? d9_report_add_line(drawing->context, report, &report->notes, "No plot %s: %s.", name, quiet.message)
                 : d9_report_add_line(drawing->context, report, &report->notes,
                                      "There are no plots: %s (Debian: gnuplot-nox).", quiet.message));
done:
    return status;
}

/* Writes the data of a plot, adds its settings and makes its name, title and caption. Sets *wanted to true if the plot
 * is to be drawn. */
static d9_status prepare_plot(drawing *drawing, int which, d9_report_plot *plot, bool *wanted) {
    d9_status status = D9_OK;
    d9_text text;
    *plot = (d9_report_plot){0};
    d9_text_init(drawing->context, &text);
    drawing->cut = false;
    drawing->row_lines = 0;
    D9_TRY(write_data(drawing, which));
    D9_TRY(d9_report_expand(drawing->context, drawing->report, plots[which].name, &plot->name));
    D9_TRY(d9_report_expand(drawing->context, drawing->report, plots[which].title, &plot->title));
    remove_pictures(drawing, plot->name);
    *wanted = plots[which].plan(drawing);
    plots[which].note(drawing, &text);
    D9_TRY(d9_report_keep(drawing->context, drawing->report, &text, &plot->note));
done:
    d9_text_free(&text);
    return status;
}

static d9_status embed_pictures(const drawing *drawing, d9_report_plot *plot, bool narrow) {
    d9_status status;
    char path[64], narrow_name[64];
    snprintf(path, sizeof path, "report/%s.svg", plot->name);
    D9_TRY(d9_report_embed(drawing->context, drawing->report, path, plot->name, &plot->html));
    if (!narrow) return D9_OK;
    snprintf(path, sizeof path, "report/%s-narrow.svg", plot->name);
    snprintf(narrow_name, sizeof narrow_name, "%s-narrow", plot->name);
    D9_TRY(d9_report_embed(drawing->context, drawing->report, path, narrow_name, &plot->narrow));
done:
    return status;
}

d9_status d9_report_draw(d9_context *context, d9_report *report, d9_report_plot *drawn_plots, int *count) {
    d9_status status = D9_OK;
    d9_text settings;
    d9_report_plot all[PLOTS];
    bool wanted[PLOTS], drawn = false;
    drawing drawing = {.context = context, .report = report, .settings = &settings};
    d9_text_init(context, &settings);
    *count = 0;
    add_common_settings(&drawing);
    for (int i = 0; i < PLOTS; i++) D9_TRY(prepare_plot(&drawing, i, &all[i], &wanted[i]));
    D9_TRY(d9_text_status(&settings));
    D9_TRY(write_named(&drawing, "settings", ".gp", d9_text_get(&settings), settings.size));
    D9_TRY(write_scripts(&drawing));
    D9_TRY(run_gnuplot(&drawing, NULL, &drawn));
    for (int i = 0; drawn && i < PLOTS; i++) {
        bool plotted;
        if (!wanted[i]) continue;
        D9_TRY(run_gnuplot(&drawing, all[i].name, &plotted));
        if (!plotted) continue;
        d9_report_plot *plot = &drawn_plots[*count];
        *plot = all[i];
        D9_TRY(embed_pictures(&drawing, plot, plots[i].narrow));
        ++*count;
    }
done:
    d9_text_free(&settings);
    return status;
}
