/* Tables of a report: arms, effects, runs, machines. report_predictions.c adds those of classes and mistakes,
 * report_labels.c that of labels, report_search.c those of a search. */
#include "report/report_parts.h"

#include <string.h>

#define TEXT  D9_COLUMN_TEXT
#define SCORE D9_REPORT_SCORE

d9_status d9_report_expand(d9_context *context, d9_report *report, const char *pattern, const char **words) {
    d9_text text;
    d9_text_init(context, &text);
    d9_measure_expand(report->measure, pattern, &text);
    return d9_report_keep(context, report, &text, words);
}

/* Copies the columns. Their texts are completed by d9_measure_expand, and D9_REPORT_SCORE becomes the measure's
 * decimals. */
static d9_status fit_columns(d9_context *context, d9_report *report, const d9_column *columns, size_t count,
                             d9_column **fitted) {
    d9_status status;
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, count, fitted));
    for (size_t i = 0; i < count; i++) {
        d9_column *column = &(*fitted)[i];
        *column = columns[i];
        D9_TRY(d9_report_expand(context, report, column->key, &column->key));
        if (column->heading) D9_TRY(d9_report_expand(context, report, column->heading, &column->heading));
        if (column->hint) D9_TRY(d9_report_expand(context, report, column->hint, &column->hint));
        if (column->digits == D9_REPORT_SCORE) column->digits = report->measure->digits;
    }
done:
    return status;
}

d9_status d9_report_add_table(d9_context *context, d9_report *report, const char *name, const d9_column *columns,
                              size_t column_count, int row_count, d9_report_table **table) {
    d9_status status;
    d9_column *fitted;
    *table = &report->tables[report->table_count];
    D9_TRY(fit_columns(context, report, columns, column_count, &fitted));
    D9_TRY(d9_report_table_make(context, &report->arena, name, fitted, (int)column_count, row_count, *table));
    report->table_count++;
done:
    return status;
}
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- arms ---- */

static const d9_column arm_columns[] = {
    {"arm", "Arm", NULL, TEXT, false},
    {"{name}", "{title}{, |unit|}", "mean of the final {plural}, with the configuration's TTA views", SCORE, false},
    {"{name}_low", "95% interval", "of the mean (Student's t)", SCORE, false},
    {"{name}_high", NULL, NULL, SCORE, false},
    {"deviation", "Standard deviation", "from run to run", SCORE, false},
    {"minimum", "Range", "lowest and highest run", SCORE, false},
    {"maximum", NULL, NULL, SCORE, false},
    {"runs", "Finished runs", "of the planned ones", 0, false},
    {"asked", NULL, " of ", 0, false},
    {"published_{name}", "Published{, |unit|}", "what the step's author reports", SCORE, false},
    {"met", "Reached the target", "runs whose final {word} is {bound} the target", 0, false},
    {"chance", "Share of these, 95% interval", "of the finished runs; exact interval (Clopper and Pearson)", 2, false},
    {"chance_low", NULL, ", ", 2, false},
    {"chance_high", NULL, NULL, 2, false},
    {"epochs", "Epochs", "epochs trained, mean over the runs", D9_COLUMN_PLAIN, false},
    {"seconds", "Training seconds", "mean of train_seconds, Page's timer", 2, false},
    {"published_seconds", "Published seconds", "on the author's machine", 2, false},
    {"published_hardware", NULL, NULL, TEXT, false},
    {"edits", "Changes", NULL, TEXT, false},
};

static d9_status make_arms_table(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    d9_report_table *table;
    D9_TRY(d9_report_add_table(context, report, "arms", arm_columns, COUNT(arm_columns), report->arm_count, &table));
    table->title = "Arms";
    for (int i = 0; i < report->arm_count; i++) {
        const d9_report_arm *arm = &report->arms[i];
        const bool aimed = !isnan(arm->target) && arm->count > 0, ranges = arm->count > 1;
        D9_TABLE_CELLS(
            table, i, d9_text_cell(arm->label), d9_real_cell(arm->sample.mean), d9_real_cell(arm->mean.low),
            d9_real_cell(arm->mean.high), d9_real_cell(arm->sample.deviation),
            d9_real_cell(ranges ? arm->sample.minimum : NAN), d9_real_cell(ranges ? arm->sample.maximum : NAN),
            d9_real_cell(arm->count), d9_real_cell(arm->planned), d9_real_cell(arm->published_score),
            d9_real_cell(aimed ? (double)arm->met : NAN), d9_real_cell(arm->met_share.share),
            d9_real_cell(arm->met_share.low), d9_real_cell(arm->met_share.high), d9_real_cell(arm->trained_epochs),
            d9_real_cell(arm->seconds.mean), d9_real_cell(arm->published_seconds),
            d9_text_cell(arm->published_hardware), d9_text_cell(arm->edits));
    }
done:
    return status;
}

/* ---- effects ---- */

static const d9_column effect_columns[] = {
    {"arm", "Arm", NULL, TEXT, false},
    {"baseline", "Compared with", NULL, TEXT, false},
    {"runs", "Runs compared",
     "finished runs of the arm; if paired, the seeds that both arms finished; 0 if there is no comparison", 0, false},
    {"difference", "Difference", "{|points|, }arm minus baseline", SCORE, true},
    {"low", "95% interval", NULL, SCORE, true},
    {"high", NULL, NULL, SCORE, true},
    {"p", "p", "two-sided, for the hypothesis of no difference", 4, false},
    {"p_holm", "p adjusted by Holm",
     "p adjusted by Holm over all comparisons; rows that compare the same runs count once", 4, false},
    {"by", "Test", "paired by seed if both arms finished at least two of the same seeds; else Welch's t, of all runs",
     TEXT, false},
    {"welch_low", "95% interval by Welch", "without pairing, of all runs", SCORE, true},
    {"welch_high", NULL, NULL, SCORE, true},
    {"welch_p", "p by Welch", NULL, 4, false},
    {"seeds_needed", "Seeds needed to see {effect}",
     "per arm, to detect {effect points} at 5% significance with 80% power", 0, false},
    {"epochs_saved", "Epochs saved", "more epochs that the baseline's curve needs for this {word}", 1, true},
};

static void fill_effect(const d9_report *report, const d9_report_arm *arm, d9_report_table *table, int row) {
    const d9_estimate *e = &arm->difference, *welch = &arm->welch;
    const char *by = isnan(e->low) ? "" : arm->paired ? "paired" : "Welch";
    D9_TABLE_CELLS(table, row, d9_text_cell(arm->label), d9_text_cell(report->arms[arm->baseline].label),
                   d9_real_cell(arm->compared), d9_real_cell(e->estimate), d9_real_cell(e->low), d9_real_cell(e->high),
                   d9_real_cell(e->p), d9_real_cell(arm->holm), d9_text_cell(by), d9_real_cell(welch->low),
                   d9_real_cell(welch->high), d9_real_cell(welch->p),
                   d9_real_cell(arm->seeds_needed ? (double)arm->seeds_needed : NAN), d9_real_cell(arm->epochs_saved));
}

static d9_status make_effects_table(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    d9_report_table *table;
    int rows = 0, row = 0;
    for (int i = 0; i < report->arm_count; i++) rows += report->arms[i].baseline >= 0;
    if (rows == 0) goto done;
    D9_TRY(d9_report_add_table(context, report, "effects", effect_columns, COUNT(effect_columns), rows, &table));
    table->title = "Differences";
    D9_TRY(d9_report_expand(context, report,
                            "{title}{ in |points|}, arm minus baseline, with 95% intervals. An effect is clear if "
                            "Holm's p is below 0.05.",
                            &table->note));
    for (int i = 0; i < report->arm_count; i++)
        if (report->arms[i].baseline >= 0) fill_effect(report, &report->arms[i], table, row++);
done:
    return status;
}

/* ---- runs ---- */

static const d9_column run_columns[] = {
    {"arm", "Arm", NULL, TEXT, false},
    {"seed", "Seed", NULL, 0, false},
    {"{name}", "{title}{, |unit|}", "final, with the configuration's TTA views", SCORE, false},
    {"{name}_plain", "Without TTA{, |unit|}", "final, without TTA", SCORE, false},
    {"difference", "Difference from the baseline",
     "minus the baseline's run of the same seed if there is one, else its mean{; |points|}", SCORE, true},
    {"epoch_to_target", "Epoch that reached the target", NULL, 0, false},
    {"train_seconds", "Training seconds", "Page's timer", 2, false},
    {"process_seconds", "Process seconds", "everything, from the start of the process", 2, false},
    {"folder", "Record", NULL, TEXT, false},
    {"result", "Files", "epochs.tsv and submission.json are DAWNBench's formats", TEXT, false},
    {"config", NULL, NULL, TEXT, false},
    {"epochs_tsv", NULL, NULL, TEXT, false},
    {"submission", NULL, NULL, TEXT, false},
    {"plan_sha256", "Plan", "hash of the chosen kernels", TEXT, false},
};

static d9_status link_file(d9_context *context, d9_report *report, d9_report_table *table, int row, int column,
                           const char *folder, const char *name) {
    char *path;
    const char *prefix = strcmp(folder, ".") == 0 ? "" : folder;
    d9_status status = d9_arena_format(context, &report->arena, &path, "%s%s%s", prefix, *prefix ? "/" : "", name);
    if (status == D9_OK) d9_report_table_set_link(table, row, column, *name ? name : *prefix ? folder : "here", path);
    return status;
}

/* False if every run was evaluated without TTA, so that its scores with and without TTA are the same. */
static bool uses_tta(const d9_report *report) {
    for (int i = 0; i < report->run_count; i++)
        if (report->runs[i].result && d9_json_real(report->runs[i].result, "views") != 1) return true;
    return false;
}

static d9_status fill_run(d9_context *context, d9_report *report, const d9_report_run *run, bool views,
                          d9_report_table *table, int row) {
    static const char *const files[] = {"", "result.json", "config.yaml", "epochs.tsv", "submission.json"};
    d9_status status = D9_OK;
    const char *plan = json_string_value(json_object_get(run->result, "plan_sha256"));
    char *brief;
    D9_TABLE_CELLS(table, row, d9_text_cell(report->arms[run->arm].label), d9_integer_cell(run->seed),
                   d9_real_cell(run->score),
                   d9_real_cell(views ? d9_json_real(run->result, report->measure->name) : NAN),
                   d9_real_cell(run->difference), d9_real_cell(run->epoch_to_target), d9_real_cell(run->train_seconds),
                   d9_real_cell(run->process_seconds));
    for (int n = 0; n < 5; n++) D9_TRY(link_file(context, report, table, row, 8 + n, run->folder, files[n]));
    D9_TRY(d9_arena_format(context, &report->arena, &brief, "%.12s", plan ? plan : ""));
    d9_report_table_set_text(table, row, 13, brief);
done:
    return status;
}

static d9_status make_runs_table(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    d9_report_table *table;
    const bool views = uses_tta(report);
    int row = 0;
    D9_TRY(d9_report_add_table(context, report, "runs", run_columns, COUNT(run_columns), report->finished, &table));
    table->title = "Every run";
    for (int i = 0; i < report->run_count; i++)
        if (report->runs[i].result) D9_TRY(fill_run(context, report, &report->runs[i], views, table, row++));
done:
    return status;
}

/* ---- machines, and all tables ---- */

static const d9_column machine_columns[] = {
    {"device", "Device", NULL, TEXT, false},     {"isa", "Instructions", NULL, TEXT, false},
    {"threads", "Threads", NULL, 0, false},      {"backend", "Backend", NULL, TEXT, false},
    {"library", "Library", NULL, TEXT, false},   {"precision", "Precision", NULL, TEXT, false},
    {"dawn9", "dawn9", NULL, TEXT, false},       {"commit", "Commit", NULL, TEXT, false},
    {"compiler", "Compiler", NULL, TEXT, false}, {"runs", "Runs", NULL, 0, false},
};
enum { MACHINE_RUNS = COUNT(machine_columns) - 1, MACHINE_THREADS = 2 };

/* Returns the entry of a result for a text column of the table. */
static const char *machine_field(const json_t *result, int column) {
    static const struct {
        const char *group, *key;
    } places[] = {{NULL, "device"},      {NULL, "isa"},           {NULL, NULL},
                  {NULL, "backend"},     {"versions", "backend"}, {NULL, "precision"},
                  {"versions", "dawn9"}, {NULL, "commit"},        {"versions", "compiler"}};
    const json_t *object = places[column].group ? json_object_get(result, places[column].group) : result;
    const char *text = places[column].key ? json_string_value(json_object_get(object, places[column].key)) : NULL;
    return text ? text : "";
}

static bool same_machine(const json_t *a, const json_t *b) {
    const json_t *x = json_object_get(a, "threads"), *y = json_object_get(b, "threads");
    if (!json_equal(x, y)) return false;
    for (int column = 0; column < MACHINE_RUNS; column++)
        if (strcmp(machine_field(a, column), machine_field(b, column)) != 0) return false;
    return true;
}

/* Index of the first run on the same machine and build as run `index`; `index` itself if there is no earlier one. */
static int first_on_machine(const d9_report *report, int index) {
    int first = 0;
    while (first < index &&
           !(report->runs[first].result && same_machine(report->runs[first].result, report->runs[index].result)))
        first++;
    return first;
}

static d9_status make_machines_table(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    d9_report_table *table;
    int rows = 0, row = 0;
    for (int i = 0; i < report->run_count; i++) rows += report->runs[i].result && first_on_machine(report, i) == i;
    D9_TRY(d9_report_add_table(context, report, "machines", machine_columns, COUNT(machine_columns), rows, &table));
    table->title = "Machine and versions";
    for (int i = 0; i < report->run_count; i++) {
        const json_t *result = report->runs[i].result;
        int runs = 0;
        if (!result || first_on_machine(report, i) != i) continue;
        for (int j = i; j < report->run_count; j++) runs += report->runs[j].result && first_on_machine(report, j) == i;
        for (int column = 0; column < MACHINE_RUNS; column++)
            if (column != MACHINE_THREADS) d9_report_table_set_text(table, row, column, machine_field(result, column));
        d9_report_table_set_number(table, row, MACHINE_THREADS, d9_json_real(result, "threads"));
        d9_report_table_set_number(table, row++, MACHINE_RUNS, runs);
    }
    if (rows > 1)
        D9_TRY(d9_report_add_line(context, report, &report->notes,
                                  "The runs come from %d machines or builds: times are not comparable across them.",
                                  rows));
done:
    return status;
}

d9_status d9_report_tabulate(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    D9_TRY(report->search ? d9_report_tabulate_search(context, report) : make_arms_table(context, report));
    D9_TRY(make_effects_table(context, report));
    D9_TRY(make_runs_table(context, report));
    D9_TRY(make_machines_table(context, report));
done:
    return status;
}
