/* Data files of the plots, as TSV; the scripts in plots/ only draw them. `rank` is the colour of a series, 1 to
 * D9_REPORT_SERIES, or 0 for grey. A blank line ends a curve. */
#include "report/report_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system.h"

static int colour_of(const d9_report *report, int arm) { return report->series[report->arms[arm].series].colour; }

static void add_numbers(d9_text *text, const double *numbers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        d9_text_add(text, "\t");
        d9_tsv_number(text, numbers[i]);
    }
}
#define ADD_NUMBERS(text, ...)                                                                                         \
    add_numbers((text), (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

void d9_report_plot_field(d9_text *text, const char *bytes) {
    for (; *bytes; bytes++) d9_text_add_blanked(text, *bytes == '"' ? "\xe2\x80\x9d" : (const char[]){*bytes, 0});
}

static void begin_row(d9_text *text, int number, const char *label) {
    d9_text_add(text, "%d\t", number);
    d9_report_plot_field(text, label);
}

static void begin_run_row(d9_text *text, const d9_report *report, const d9_report_run *run) {
    begin_row(text, colour_of(report, run->arm), report->arms[run->arm].label);
    d9_text_add(text, "\t%lld", (long long)run->seed);
}

double d9_report_epochs(const d9_report *report, int arm, double epoch) {
    return fmin(epoch, report->arms[arm].configured_epochs);
}

double d9_report_trained(const d9_report *report, const d9_report_run *run) {
    return d9_report_epochs(report, run->arm, (double)json_array_size(json_object_get(run->result, "epochs")));
}

double d9_report_epoch_score(const d9_report *report, const json_t *row) {
    return report->plain_epochs ? d9_json_real(row, report->measure->name) : d9_json_score(row, report->measure);
}

/* ---- training curves: every run ---- */

d9_status d9_report_curves(const d9_report *report, d9_text *text) {
    size_t index;
    const json_t *row;
    d9_text_add(text, "rank\tarm\tseed\tepoch\ttrain_loss\teval_loss\t%s\n", report->measure->name);
    for (int r = 0; r < report->run_count; r++) {
        const d9_report_run *run = &report->runs[r];
        if (!run->result) continue;
        json_array_foreach(json_object_get(run->result, "epochs"), index, row) {
            begin_run_row(text, report, run);
            ADD_NUMBERS(text, d9_report_epochs(report, run->arm, d9_json_real(row, "epoch")),
                        d9_json_real(row, "train_loss"), d9_json_real(row, "eval_loss"),
                        d9_report_epoch_score(report, row));
            d9_text_add(text, "\n");
        }
        d9_text_add(text, "\n");
    }
    return d9_text_status(text);
}

/* ---- score over epochs: final scores of each length in a sweep, otherwise every evaluation of the runs ---- */

static void add_run(const d9_report *report, const d9_report_run *run, double epoch, double score, d9_text *text) {
    if (isnan(epoch) || isnan(score)) return;
    begin_run_row(text, report, run);
    ADD_NUMBERS(text, epoch, score);
    d9_text_add(text, "\n");
}

d9_status d9_report_score_runs(const d9_report *report, d9_text *text) {
    size_t index;
    const json_t *row;
    d9_text_add(text, "rank\tarm\tseed\tepoch\t%s\n", report->measure->name);
    for (int r = 0; r < report->run_count; r++) {
        const d9_report_run *run = &report->runs[r];
        if (!run->result) continue;
        if (report->sweep) {
            add_run(report, run, d9_report_trained(report, run), run->score, text);
            continue;
        }
        json_array_foreach(json_object_get(run->result, "epochs"), index, row)
            add_run(report, run, d9_report_epochs(report, run->arm, d9_json_real(row, "epoch")),
                    d9_report_epoch_score(report, row), text);
    }
    return d9_text_status(text);
}

/* Adds the mean of `runs` runs, and its interval if there are at least D9_REPORT_BAND_RUNS. With two runs the interval
 * would extend about 13 standard errors to each side. */
static void add_mean(const d9_report *report, int arm, double epoch, const d9_estimate *mean, int runs, d9_text *text) {
    const d9_report_arm *one = &report->arms[arm];
    const bool band = runs >= D9_REPORT_BAND_RUNS;
    begin_row(text, colour_of(report, arm), report->sweep ? report->series[one->series].label : one->label);
    ADD_NUMBERS(text, epoch, mean->estimate, band ? mean->low : NAN, band ? mean->high : NAN);
    d9_text_add(text, "\n");
}

/* Computes the mean score of an arm's runs after epoch number `epoch`. Returns the number of runs that were evaluated
 * after it. `values` has space for every run. */
static int compute_mean_at(const d9_report *report, int arm, int64_t epoch, double *values, d9_estimate *mean) {
    int count = 0;
    for (int r = 0; r < report->run_count; r++) {
        const json_t *epochs = json_object_get(report->runs[r].result, "epochs");
        if (report->runs[r].arm != arm) continue;
        for (size_t i = 0; i < json_array_size(epochs); i++) {
            const json_t *row = json_array_get(epochs, i);
            if (d9_json_real(row, "epoch") != (double)epoch || isnan(d9_report_epoch_score(report, row))) continue;
            values[count++] = d9_report_epoch_score(report, row);
            break;
        }
    }
    d9_report_mean(report, values, count, mean);
    return count;
}

static int64_t longest_run(const d9_report *report) {
    size_t longest = 0;
    for (int r = 0; r < report->run_count; r++) {
        const size_t epochs = json_array_size(json_object_get(report->runs[r].result, "epochs"));
        longest = epochs > longest ? epochs : longest;
    }
    return (int64_t)longest;
}

static double shortness(const d9_report *report, const d9_report_arm *arm, int series) {
    (void)report;
    return arm->series == series ? -arm->trained_epochs : NAN;
}

/* Adds a row for each arm of a series with finished runs, in ascending order of the epochs trained. */
static void add_sweep_means(const d9_report *report, int series, d9_text *text) {
    for (const d9_report_arm *arm = NULL; (arm = d9_report_next(report, shortness, series, arm));)
        add_mean(report, (int)(arm - report->arms), arm->trained_epochs, &arm->mean, arm->count, text);
}

static void add_epoch_means(const d9_report *report, double *values, d9_text *text) {
    const int64_t longest = longest_run(report);
    d9_estimate mean;
    for (int a = 0; a < report->arm_count; a++) {
        for (int64_t epoch = 1; epoch <= longest; epoch++) {
            const int runs = compute_mean_at(report, a, epoch, values, &mean);
            if (runs > 0) add_mean(report, a, d9_report_epochs(report, a, (double)epoch), &mean, runs, text);
        }
        d9_text_add(text, "\n");
    }
}

d9_status d9_report_score_means(const d9_report *report, d9_text *text) {
    d9_status status = D9_OK;
    d9_context *context = text->context;
    double *values = NULL;
    d9_text_add(text, "rank\tarm\tepoch\tmean\tlow\thigh\n");
    for (int s = 0; report->sweep && s < report->series_count; s++) {
        add_sweep_means(report, s, text);
        d9_text_add(text, "\n");
    }
    if (report->sweep) goto done;
    D9_TRY(D9_ALLOCATE(context, report->run_count, "scores", &values));
    add_epoch_means(report, values, text);
done:
    d9_release(context, values);
    return status;
}

d9_status d9_report_score_published(const d9_report *report, d9_text *text) {
    d9_text_add(text, "rank\tarm\tepoch\t%s\n", report->measure->name);
    for (int a = 0; a < report->arm_count; a++) {
        const d9_report_arm *arm = &report->arms[a];
        if (isnan(arm->published_score) || isnan(arm->published_epochs)) continue;
        begin_row(text, colour_of(report, a), arm->label);
        ADD_NUMBERS(text, arm->published_epochs, arm->published_score);
        d9_text_add(text, "\n");
    }
    return d9_text_status(text);
}

/* ---- forest plot: differences from the baselines ---- */

/* Adds a number with its sign, + if it rounds to 0; the minus sign is as wide as a plus. */
static void add_signed(d9_text *text, const d9_report *report, double number) {
    const int digits = report->measure->digits;
    d9_text_add(text, "%s%.*f", number < -0.5 * pow(10, -digits) ? "\xe2\x88\x92" : "+", digits, fabs(number));
}

#define BLANK "\xc2\xa0" /* U+00A0, no-break space */

/* A row of the forest plot: the difference of an arm, or a heading that names the baseline of the rows below it. */
typedef struct forest_row {
    int row;                  /* from the top; skipped numbers are blank rows */
    const d9_report_arm *arm; /* NULL: a heading */
    const char *against;      /* label of the baseline; NULL: a heading above names it */
} forest_row;
typedef void forest_put(const d9_report *report, const forest_row *row, d9_text *text);

/* Adds the label of a row: "without celu, against full". */
static void add_forest_label(const forest_row *row, d9_text *text) {
    if (row->arm) d9_report_plot_field(text, row->arm->label);
    if (row->against) {
        d9_text_add(text, row->arm ? ", against " : "against ");
        d9_report_plot_field(text, row->against);
    }
}

/* Adds "+0.31 [+0.12, +0.50]  p = 0.012", where p is Holm's. All blanks are no-break spaces. */
static void add_forest_numbers(const d9_report *report, const d9_report_arm *arm, d9_text *text) {
    const d9_estimate *e = &arm->difference;
    add_signed(text, report, e->estimate);
    if (!isnan(e->low)) {
        d9_text_add(text, BLANK "[");
        add_signed(text, report, e->low);
        d9_text_add(text, "," BLANK);
        add_signed(text, report, e->high);
        d9_text_add(text, "]");
    }
    if (!isnan(arm->holm))
        d9_text_add(
            text, arm->holm < 0.001 ? BLANK BLANK "p" BLANK "<" BLANK "0.001" : BLANK BLANK "p" BLANK "=" BLANK "%.3f",
            arm->holm);
}

static void put_forest_row(const d9_report *report, const forest_row *row, d9_text *text) {
    const d9_report_arm *arm = row->arm;
    d9_text_add(text, "%d\t", row->row);
    add_forest_label(row, text);
    if (!arm) {
        d9_text_add(text, "\t\t\t\t\t\n");
        return;
    }
    ADD_NUMBERS(text, arm->difference.estimate, arm->difference.low, arm->difference.high);
    d9_text_add(text, "\t%d\t", arm->holm < 1 - D9_REPORT_LEVEL);
    add_forest_numbers(report, arm, text);
    d9_text_add(text, "\n");
}

/* Sort key of the arms compared with `baseline`; NAN for all others. */
static double gain_of(const d9_report *report, const d9_report_arm *arm, int baseline) {
    return arm->baseline == baseline ? d9_report_gain(report, arm->difference.estimate) : NAN;
}

/* True if no two arms have the same baseline, as on a ladder. */
static bool baselines_are_distinct(const d9_report *report) {
    for (int a = 0; a < report->arm_count; a++)
        for (int b = 0; b < a; b++)
            if (report->arms[a].baseline >= 0 && report->arms[a].baseline == report->arms[b].baseline) return false;
    return true;
}

static void put_forest_list(const d9_report *report, forest_put *put, d9_text *text) {
    int row = 0;
    for (int a = 0; a < report->arm_count; a++) {
        const d9_report_arm *arm = &report->arms[a];
        if (arm->baseline >= 0 && !isnan(arm->difference.estimate))
            put(report, &(forest_row){++row, arm, report->arms[arm->baseline].label}, text);
    }
}

/* Adds the differences grouped by baseline, best first in each group. */
static void put_forest_groups(const d9_report *report, forest_put *put, d9_text *text) {
    int row = 0;
    for (int baseline = 0; baseline < report->arm_count; baseline++) {
        const d9_report_arm *arm = d9_report_next(report, gain_of, baseline, NULL);
        if (!arm) continue;
        row += row ? 2 : 1; /* a blank row between groups */
        put(report, &(forest_row){row, NULL, report->arms[baseline].label}, text);
        for (; arm; arm = d9_report_next(report, gain_of, baseline, arm))
            put(report, &(forest_row){++row, arm, NULL}, text);
    }
}

static d9_status put_forest(const d9_report *report, forest_put *put, d9_text *text) {
    (baselines_are_distinct(report) ? put_forest_list : put_forest_groups)(report, put, text);
    return d9_text_status(text);
}

d9_status d9_report_forest(const d9_report *report, d9_text *text) {
    d9_text_add(text, "row\tlabel\tdifference\tlow\thigh\tseen\twords\n");
    return put_forest(report, put_forest_row, text);
}

/* Length in bytes of the first line of `words`: at most D9_REPORT_LABEL_LINE characters, cut behind the last blank
 * among them if there is one. */
static int first_line_bytes(const char *words) {
    const char *at = words, *cut = NULL;
    for (int i = 0; i < D9_REPORT_LABEL_LINE && *at; i++) {
        d9_text_next(&at);
        if (at[-1] == ' ') cut = at;
    }
    return (int)((*at && cut ? cut : at) - words);
}

/* Adds label and numbers of a row as the lines above its bar. */
static void put_forest_row_lines(const d9_report *report, const forest_row *row, d9_text *text) {
    d9_text words;
    d9_text_init(text->context, &words);
    add_forest_label(row, &words);
    if (row->arm) {
        d9_text_add(&words, "  ");
        add_forest_numbers(report, row->arm, &words);
    }
    int left = 0;
    for (const char *at = d9_text_get(&words); *at; at += first_line_bytes(at)) left++;
    for (const char *at = d9_text_get(&words); *at; at += first_line_bytes(at))
        d9_text_add(text, "%d\t%.*s\t%d\n", row->row, first_line_bytes(at), at, --left);
    d9_text_free_part(&words, text);
}

d9_status d9_report_forest_lines(const d9_report *report, d9_text *text) {
    d9_text_add(text, "row\tline\tleft\n");
    return put_forest(report, put_forest_row_lines, text);
}

/* ---- ladder: published and measured, in the experiment's order ---- */

bool d9_report_is_chain(const d9_report *report) {
    for (int a = 1; a < report->arm_count; a++)
        if (report->arms[a].baseline != a - 1) return false;
    return report->arm_count > 2;
}

d9_status d9_report_ladder(const d9_report *report, d9_text *text) {
    d9_measure_expand(report->measure, "row\tlabel\t{name}\tlow\thigh\tpublished_{name}\tseconds\tpublished_seconds\n",
                      text);
    for (int a = 0; a < report->arm_count; a++) {
        const d9_report_arm *arm = &report->arms[a];
        const double mean = arm->sample.mean;
        begin_row(text, a + 1, arm->label);
        ADD_NUMBERS(text, mean, isnan(arm->mean.low) ? mean : arm->mean.low, /* no interval: a dot */
                    isnan(arm->mean.high) ? mean : arm->mean.high, arm->published_score, arm->seconds.mean,
                    arm->published_seconds);
        d9_text_add(text, "\n");
    }
    return d9_text_status(text);
}

/* ---- time of a training step by rule: bench.json, the output of `dawn9 bench step --json` ---- */

enum { STEP_ROWS = 16 };

typedef struct step_row {
    const char *name;
    double seconds, share;
} step_row;

static int by_seconds(const void *a, const void *b) {
    const double x = ((const step_row *)a)->seconds, y = ((const step_row *)b)->seconds;
    return (x < y) - (x > y);
}

/* Makes a row for each rule (node implementation), slowest first; beyond STEP_ROWS the last row sums up the rest. Rules
 * after the first 64 are left out. Returns the number of rows. */
static int make_step_rows(const json_t *nodes, step_row rows[64]) {
    int count = 0, row;
    size_t index;
    const json_t *node;
    json_array_foreach(nodes, index, node) {
        const char *name = json_string_value(json_object_get(node, "rule"));
        for (row = 0; row < count && name && strcmp(rows[row].name, name) != 0;) row++;
        if (!name || row == 64) continue;
        if (row == count) rows[count++] = (step_row){.name = name};
        rows[row].seconds += d9_json_real(node, "seconds");
        rows[row].share += d9_json_real(node, "share");
    }
    qsort(rows, (size_t)count, sizeof *rows, by_seconds);
    for (row = STEP_ROWS; row < count; row++) {
        rows[STEP_ROWS - 1].name = "the rest";
        rows[STEP_ROWS - 1].seconds += rows[row].seconds;
        rows[STEP_ROWS - 1].share += rows[row].share;
    }
    return count < STEP_ROWS ? count : STEP_ROWS;
}

d9_status d9_report_step_times(const d9_report *report, d9_text *text) {
    d9_status status = D9_OK;
    d9_context *context = text->context;
    char path[4096];
    json_t *bench = NULL;
    step_row rows[64];
    snprintf(path, sizeof path, "%s/bench.json", report->folder);
    d9_text_add(text, "row\trule\tmilliseconds\tshare\twords\n");
    if (!d9_file_exists(context, path)) goto done;
    D9_TRY(d9_json_read(context, path, &bench, NULL));
    const int count = make_step_rows(json_object_get(bench, "nodes"), rows);
    for (int i = 0; i < count; i++) {
        begin_row(text, i + 1, rows[i].name);
        ADD_NUMBERS(text, 1e3 * rows[i].seconds, rows[i].share);
        d9_text_add(text, "\t%.3g ms, %.1f%%\n", 1e3 * rows[i].seconds, 1e2 * rows[i].share);
    }
done:
    json_decref(bench);
    return status;
}
