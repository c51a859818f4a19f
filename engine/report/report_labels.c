/* Table of labels, if a sample may have several. The score is from result.json; precision, recall and F1 are computed
 * from the predictions that runs stored (predictions.safetensors: bit l of label and top1 is label l). */
#include "report/report_parts.h"

#include "core/confusion.h"

enum { LABELS_MAX = 31 /* bits of a label */ };

static const d9_column label_columns[] = {
    {"arm", "Arm", NULL, D9_COLUMN_TEXT, false},
    {"label", "Label", NULL, D9_COLUMN_TEXT, false},
    {"images", "Images", "evaluated images with the label, mean of the runs", 1, false},
    {"{name}", "{title}{, |unit|}", "mean of the runs, with the configuration's TTA views", D9_REPORT_SCORE, false},
    {"precision", "Precision, %", "of the images predicted to have the label, over all runs", 1, false},
    {"recall", "Recall, %", "of the images that have the label, over all runs", 1, false},
    {"f1", "F1, %", "harmonic mean of precision and recall", 1, false},
    {"runs", "Runs", "in which the score is defined", 0, false},
};

/* The labels of a run with their scores, [{"label", "images", score}, ...]; NULL: it records none. */
static const json_t *labels_of(const d9_report_run *run) {
    const json_t *labels = run->result ? json_object_get(run->result, "labels") : NULL;
    return json_is_array(labels) ? labels : NULL;
}

/* The arm's first run with recorded labels; NULL: none. */
static const d9_report_run *labelled_run(const d9_report *report, int arm) {
    for (int i = 0; i < report->run_count; i++)
        if (report->runs[i].arm == arm && labels_of(&report->runs[i])) return &report->runs[i];
    return NULL;
}

/* Predictions of an arm's runs, summed. */
typedef struct arm_counts {
    int64_t label_count;
    d9_label_counts labels[LABELS_MAX];
    int64_t images; /* 0: no run stored predictions of these labels */
} arm_counts;

/* True if bits beyond those of `labels` labels are zero. */
static bool fits_labels(double bits, int64_t labels) { return bits >= 0 && bits < (double)((int64_t)1 << labels); }

/* Adds the predictions of a run, unless a sample has a bit beyond the labels. `user`: arm_counts. */
static d9_status add_predictions(d9_context *context, const d9_run_predictions *read, void *user) {
    (void)context;
    arm_counts *sum = user;
    const int64_t labels = sum->label_count;
    for (int64_t i = 0; i < read->count; i++)
        if (!fits_labels(read->label[i], labels) || !fits_labels(read->top1[i], labels)) return D9_OK;
    for (int64_t i = 0; i < read->count; i++)
        d9_label_counts_add(sum->labels, labels, (int32_t)read->label[i], (int32_t)read->top1[i]);
    sum->images += read->count;
    return D9_OK;
}

/* Fills the row of label number `index` of the run `first` from `counts` and with means over the arm's runs. */
static void fill_label(const d9_report *report, int arm, const d9_report_run *first, size_t index,
                       const arm_counts *counts, d9_report_table *table, int row) {
    const char *name = json_string_value(json_object_get(json_array_get(labels_of(first), index), "label"));
    const d9_class_scores none = {NAN, NAN, NAN},
                          scores = counts->images ? d9_label_scores(&counts->labels[index]) : none;
    double images = 0, sum = 0;
    int runs = 0, defined = 0;
    for (int i = 0; i < report->run_count; i++) {
        const json_t *labels = report->runs[i].arm == arm ? labels_of(&report->runs[i]) : NULL;
        const json_t *label = json_array_get(labels, index);
        const double score = d9_json_score(label, report->measure);
        if (!label) continue;
        images += d9_json_real(label, "images");
        runs++;
        if (isnan(score)) continue;
        sum += score;
        defined++;
    }
    D9_TABLE_CELLS(table, row, d9_text_cell(report->arms[arm].label), d9_text_cell(name ? name : ""),
                   d9_real_cell(images / runs), d9_real_cell(defined ? sum / defined : NAN),
                   d9_real_cell(scores.precision), d9_real_cell(scores.recall), d9_real_cell(scores.f1),
                   d9_real_cell(defined));
}

/* Adds " Macro mean of base: precision 75.0%, recall 60.0%, F1 66.7%."; nothing without predictions. */
static void add_macro(const d9_report *report, int arm, const arm_counts *counts, d9_text *text) {
    const d9_class_scores macro = d9_label_macro(counts->labels, counts->label_count);
    if (counts->images == 0) return;
    d9_text_add(text, " Macro mean of %s: precision %.1f%%, recall %.1f%%, F1 %.1f%%.", report->arms[arm].label,
                macro.precision, macro.recall, macro.f1);
}

static d9_status fill_arms(d9_context *context, d9_report *report, d9_report_table *table, d9_text *note) {
    d9_status status = D9_OK;
    arm_counts counts;
    int row = 0;
    for (int arm = 0; arm < report->arm_count; arm++) {
        const d9_report_run *first = labelled_run(report, arm);
        const size_t labels = first ? json_array_size(labels_of(first)) : 0;
        counts = (arm_counts){.label_count = (int64_t)labels};
        if (labels > 0 && labels <= LABELS_MAX)
            D9_TRY(d9_report_visit_predictions(context, report, arm, add_predictions, &counts));
        for (size_t i = 0; i < labels; i++) fill_label(report, arm, first, i, &counts, table, row++);
        add_macro(report, arm, &counts, note);
    }
done:
    return status;
}

d9_status d9_report_tabulate_labels(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    d9_report_table *table;
    d9_text note;
    int rows = 0;
    for (int arm = 0; arm < report->arm_count; arm++) {
        const d9_report_run *first = labelled_run(report, arm);
        if (first) rows += (int)json_array_size(labels_of(first));
    }
    if (!report->measure->by_label || rows == 0) return D9_OK;
    d9_text_init(context, &note);
    d9_text_add(&note, "A label is predicted where its probability is above 1/2.");
    D9_TRY(d9_report_add_table(context, report, "labels", label_columns, sizeof label_columns / sizeof *label_columns,
                               rows, &table));
    table->title = "By label";
    D9_TRY(fill_arms(context, report, table, &note));
    D9_TRY(d9_report_keep(context, report, &note, &table->note));
done:
    d9_text_free(&note);
    return status;
}
