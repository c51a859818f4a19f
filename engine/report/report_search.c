/* The report of a search: the table of trials, the frontier of score against operations, and the verdict.
 *
 * A configuration is on the frontier if no other has at least as good a mean score with at most as many operations. Of
 * equal configurations only the first is on it. Operations: of training and of one evaluation, mean over the runs. An
 * arm of experiment.json is a trial, or a trial trained for the epochs of a rung, TRIAL,train.epochs=N; the arms of a
 * trial follow each other. */
#include "report/report_parts.h"

#include <string.h>

/* ---- trials and arms ---- */

static double cheapness(const d9_report *report, const d9_report_arm *arm, int which) {
    (void)report;
    (void)which;
    return -arm->teraflop;
}

static bool is_on_frontier(const d9_report *report, const d9_report_arm *arm) {
    const double own = arm->teraflop, gain = d9_report_mean_of(report, arm, 0);
    if (isnan(own)) return false;
    for (const d9_report_arm *other = report->arms; other < report->arms + report->arm_count; other++) {
        const double its = other->teraflop, its_gain = d9_report_mean_of(report, other, 0);
        const bool equal = its == own && its_gain == gain;
        if (other != arm && its <= own && its_gain >= gain && !(equal && other > arm)) return false;
    }
    return true;
}

void d9_report_find_frontier(d9_report *report) {
    for (int a = 0; a < report->arm_count; a++) report->arms[a].frontier = is_on_frontier(report, &report->arms[a]);
}

static bool same_trial(const d9_report_arm *one, const d9_report_arm *other) {
    const size_t length = strcspn(one->name, ",");
    return length == strcspn(other->name, ",") && strncmp(one->name, other->name, length) == 0;
}

/* The first arm of the trial that follows the trial of `arm` (NULL: of the first trial); NULL: there is none. */
static const d9_report_arm *next_trial(const d9_report *report, const d9_report_arm *arm) {
    const d9_report_arm *next = arm ? arm + 1 : report->arms;
    while (arm && next < report->arms + report->arm_count && same_trial(arm, next)) next++;
    return next < report->arms + report->arm_count ? next : NULL;
}

static const json_t *arm_record(const d9_report *report, const d9_report_arm *arm) {
    return json_array_get(json_object_get(report->record, "arms"), (size_t)(arm - report->arms));
}

static const json_t *search_record(const d9_report *report) { return json_object_get(report->record, "search"); }

/* Number of rungs that a trial has finished. *last: the arm of the last finished rung, or the trial's first arm. */
static int rungs_finished(const d9_report *report, const d9_report_arm *trial, const d9_report_arm **last) {
    const json_t *rungs = json_object_get(search_record(report), "rungs");
    const char *of = json_string_value(json_object_get(search_record(report), "rungs_of"));
    const size_t seeds = json_array_size(json_object_get(report->record, "seeds"));
    int finished = 0;
    *last = trial;
    if (of && strcmp(of, "seeds") == 0) {
        while (finished < (int)json_array_size(rungs) &&
               trial->count >= json_number_value(json_array_get(rungs, (size_t)finished)))
            finished++;
        return finished;
    }
    for (const d9_report_arm *arm = trial; arm < report->arms + report->arm_count && same_trial(arm, trial); arm++) {
        if (arm->count < (int)seeds) break;
        *last = arm;
        finished++;
    }
    return finished;
}

/* The reason for which a trial's values were rejected, or the message of its first failed run; NULL: it has not
 * failed. */
static const char *failure_of(const d9_report *report, const d9_report_arm *trial) {
    const char *message = json_string_value(json_object_get(arm_record(report, trial), "rejected"));
    for (const d9_report_run *run = report->runs; !message && run < report->runs + report->run_count; run++)
        if (run->arm >= 0 && same_trial(&report->arms[run->arm], trial)) message = run->failure;
    return message;
}

/* ---- tables ---- */

static const d9_column head_columns[] = {
    {"trial", "Trial", NULL, D9_COLUMN_TEXT, false},
    {"{name}", "{title}{, |unit|}", "mean over the seeds, with the configuration's TTA views", D9_REPORT_SCORE, false},
    {"{name}_low", "95% interval", "of the mean (Student's t)", D9_REPORT_SCORE, false},
    {"{name}_high", NULL, NULL, D9_REPORT_SCORE, false},
    {"teraflop", "TFLOP", "operations of a run: training and one evaluation", D9_COLUMN_PLAIN, false},
    {"runs", "Finished runs", "of the configuration", 0, false},
    {"rung", "Rung", "rungs that the trial has finished", 0, false},
    {"frontier", "Frontier", "no other configuration has this {word} or a better one with as few operations",
     D9_COLUMN_TEXT, false},
};
enum { HEAD = sizeof head_columns / sizeof *head_columns };

/* Makes a table of head_columns, a column for each sampled key, and one for the failure. */
static d9_status make_table(d9_context *context, d9_report *report, const char *name, int rows,
                            d9_report_table **table) {
    d9_status status;
    d9_column *columns;
    int count = HEAD;
    const char *key;
    json_t *value, *values = json_object_get(arm_record(report, report->arms), "grid");
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, HEAD + json_object_size(values) + 1, &columns));
    memcpy(columns, head_columns, sizeof head_columns);
    json_object_foreach(values, key, value) {
        bool number = true;
        for (const d9_report_arm *arm = report->arms; arm < report->arms + report->arm_count; arm++)
            number = number && !json_is_string(json_object_get(json_object_get(arm_record(report, arm), "grid"), key));
        columns[count++] = (d9_column){key, key, NULL, number ? D9_COLUMN_EXACT : D9_COLUMN_TEXT, false};
    }
    columns[count++] = (d9_column){"failure", "Failure", NULL, D9_COLUMN_TEXT, false};
    D9_TRY(d9_report_add_table(context, report, name, columns, (size_t)count, rows, table));
done:
    return status;
}

static d9_status fill_row(d9_context *context, d9_report *report, const d9_report_arm *arm, int rung,
                          const char *failure, d9_report_table *table, int row) {
    d9_status status = D9_OK;
    const int last = table->column_count - 1;
    const json_t *values = json_object_get(arm_record(report, arm), "grid");
    char *text;
    D9_TABLE_CELLS(table, row, d9_text_cell(arm->label), d9_real_cell(arm->sample.mean), d9_real_cell(arm->mean.low),
                   d9_real_cell(arm->mean.high), d9_real_cell(arm->teraflop), d9_real_cell(arm->count),
                   d9_real_cell(rung), d9_text_cell(arm->frontier ? "yes" : ""));
    for (int column = HEAD; column < last; column++) {
        const json_t *value = json_object_get(values, table->columns[column].key);
        if (table->columns[column].digits != D9_COLUMN_TEXT) {
            d9_report_table_set_number(table, row, column, value ? json_number_value(value) : NAN);
            continue;
        }
        D9_TRY(
            json_is_number(value)
                ? d9_arena_format(context, &report->arena, &text, "%.10g", json_number_value(value))
                : d9_arena_copy(context, &report->arena, json_is_string(value) ? json_string_value(value) : "", &text));
        d9_report_table_set_text(table, row, column, text);
    }
    d9_report_table_set_text(table, row, last, failure ? failure : "");
done:
    return status;
}

static d9_status make_frontier_table(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    const d9_report_arm *arm = NULL, *last;
    d9_report_table *table;
    int rows = 0, row = 0;
    for (int i = 0; i < report->arm_count; i++) rows += report->arms[i].frontier;
    D9_TRY(make_table(context, report, "frontier", rows, &table));
    table->title = "Frontier";
    D9_TRY(d9_report_expand(context, report,
                            "The configurations for which no other has this {word} or a better one with as few "
                            "operations. A mean of few runs is more likely to be here by chance.",
                            &table->note));
    while ((arm = d9_report_next(report, cheapness, 0, arm))) {
        const d9_report_arm *trial = arm;
        if (!arm->frontier) continue;
        while (trial > report->arms && same_trial(trial - 1, arm)) trial--;
        const bool alone = trial + 1 == report->arms + report->arm_count || !same_trial(trial, trial + 1);
        const int rung = alone ? rungs_finished(report, trial, &last) : (int)(arm - trial) + 1;
        D9_TRY(fill_row(context, report, arm, rung, NULL, table, row++));
    }
done:
    return status;
}

static d9_status make_trials_table(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    d9_report_table *table;
    int rows = 0, row = 0;
    for (const d9_report_arm *trial = NULL; (trial = next_trial(report, trial));) rows++;
    D9_TRY(make_table(context, report, "trials", rows, &table));
    table->title = "Trials";
    for (const d9_report_arm *trial = NULL; (trial = next_trial(report, trial));) {
        const d9_report_arm *last;
        const int rung = rungs_finished(report, trial, &last);
        D9_TRY(fill_row(context, report, last, rung, failure_of(report, trial), table, row++));
    }
done:
    return status;
}

d9_status d9_report_tabulate_search(d9_context *context, d9_report *report) {
    const d9_status status = make_frontier_table(context, report);
    return status == D9_OK ? make_trials_table(context, report) : status;
}

/* ---- the verdict ---- */

static void add_arm(const d9_report *report, const d9_report_arm *arm, d9_text *text) {
    d9_text_add(text, "%s with %.4g TFLOP", d9_measure_format(report->measure, arm->sample.mean).text, arm->teraflop);
}

void d9_report_judge_search(const d9_report *report, d9_text *text) {
    const d9_report_arm *best = NULL, *first = NULL, *last = NULL, *arm;
    int trials = 0, failed = 0, finished = 0, highest = 0, on = 0;
    for (const d9_report_arm *trial = NULL; (trial = next_trial(report, trial)); trials++) {
        const int rung = rungs_finished(report, trial, &arm);
        failed += failure_of(report, trial) != NULL;
        if (rung == 0 || rung < highest) continue;
        if (rung > highest) finished = 0, best = NULL;
        highest = rung;
        finished++;
        if (!best || d9_report_mean_of(report, arm, 0) > d9_report_mean_of(report, best, 0)) best = arm;
    }
    for (arm = NULL; (arm = d9_report_next(report, cheapness, 0, arm));) {
        if (!arm->frontier) continue;
        if (!first) first = arm;
        last = arm;
        on++;
    }
    if (highest > 0)
        d9_text_add(text, "%d of %d trials finished rung %d, the highest that was reached; %d failed.", finished,
                    trials, highest, failed);
    else
        d9_text_add(text, "None of %d trials has finished rung 1; %d failed.", trials, failed);
    if (best) {
        d9_text_add(text, " Of these %s is best: ", best->label);
        add_arm(report, best, text);
        d9_text_add(text, ", the mean of %d run%s.", best->count, d9_text_plural(best->count));
    }
    if (!first) return;
    d9_text_add(text, " The frontier has %d configuration%s, from ", on, d9_text_plural(on));
    add_arm(report, first, text);
    d9_text_add(text, " to ");
    add_arm(report, last, text);
    d9_text_add(text, ". The runs that selected a configuration overestimate it.");
}
