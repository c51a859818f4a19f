/* Confusion matrix: predictions stored by finished runs (predictions.safetensors: top1, confidence, label), summed over
 * the runs of one arm. */
#include "report/report_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/confusion.h"
#include "core/system.h"
#include "record/safetensors.h"

enum {
    MATRIX_MAX = 20 /* classes; a larger matrix would be unreadable */,
    ROWS_MAX = 100,       /* rows of the table of classes */
    PAIRS = 12,           /* mistakes listed in the table */
    DIGITS = 1,           /* decimals of percentages in matrix and tables */
    LEAST_COLOUR_MAX = 10 /* percent: keeps rare mistakes from getting the darkest colour */
};

d9_status d9_run_predictions_read(d9_context *context, const d9_report *report, const d9_report_run *run,
                                  d9_run_predictions *predictions) {
    d9_status status = D9_OK;
    struct column {
        const char *name;
        double **values;
    } columns[] = {
        {"top1", &predictions->top1}, {"label", &predictions->label}, {"confidence", &predictions->confidence}};
    char path[4096];
    d9_safetensors *file = NULL;
    int64_t images = 0;
    d9_context quiet = *context; /* an unreadable file is skipped without an error */
    d9_context_clear(&quiet);
    *predictions = (d9_run_predictions){0};
    snprintf(path, sizeof path, "%.2000s/%.2000s/predictions.safetensors", report->folder, run->folder);
    if (!d9_file_exists(context, path) || d9_safetensors_read(&quiet, path, &file) != D9_OK) goto done;
    for (int i = 0; i < 3; i++) {
        const d9_tensor *tensor = d9_safetensors_find(file, columns[i].name);
        if (!tensor || (i > 0 && d9_shape_count(&tensor->shape) != images)) goto done;
        images = d9_shape_count(&tensor->shape);
        D9_TRY(D9_ALLOCATE(context, images, "the predictions of a run", columns[i].values));
        d9_tensor_to_doubles(tensor, *columns[i].values);
    }
    predictions->count = images;
done:
    d9_safetensors_free(context, file);
    return status;
}

void d9_run_predictions_free(d9_context *context, d9_run_predictions *predictions) {
    d9_release(context, predictions->top1);
    d9_release(context, predictions->label);
    d9_release(context, predictions->confidence);
}

d9_status d9_report_visit_predictions(d9_context *context, const d9_report *report, int arm,
                                      d9_predictions_visit *visit, void *user) {
    d9_status status = D9_OK;
    d9_run_predictions predictions = {0};
    for (int r = 0; r < report->run_count; r++) {
        if (report->runs[r].arm != arm || !report->runs[r].result) continue;
        D9_TRY(d9_run_predictions_read(context, report, &report->runs[r], &predictions));
        D9_TRY(visit(context, &predictions, user));
        d9_run_predictions_free(context, &predictions);
        predictions = (d9_run_predictions){0};
    }
done:
    d9_run_predictions_free(context, &predictions);
    return status;
}

/* ---- the matrix ---- */

/* Enlarges the matrix to `classes` classes. */
static d9_status grow_matrix(d9_context *context, d9_arena *arena, int classes, d9_report_predictions *sum) {
    int64_t *counts;
    const d9_status status = D9_ARENA_ALLOCATE(context, arena, (size_t)classes * (size_t)classes, &counts);
    if (status != D9_OK) return status;
    for (int row = 0; row < sum->classes; row++)
        memcpy(counts + (size_t)row * (size_t)classes, sum->counts + (size_t)row * (size_t)sum->classes,
               (size_t)sum->classes * sizeof *counts);
    sum->counts = counts;
    sum->classes = classes;
    return D9_OK;
}

/* Adds the predictions of a run, unless a class number is outside 0 to D9_REPORT_CLASSES - 1. `user`: the report. */
static d9_status add_predictions(d9_context *context, const d9_run_predictions *predictions, void *user) {
    d9_status status = D9_OK;
    d9_report *report = user;
    d9_report_predictions *sum = &report->predictions;
    const double *top1 = predictions->top1, *label = predictions->label, most = D9_REPORT_CLASSES;
    double largest = -1;
    for (int64_t i = 0; i < predictions->count; i++) {
        if (!(top1[i] >= 0 && top1[i] < most && label[i] >= 0 && label[i] < most)) return D9_OK;
        largest = fmax(largest, fmax(top1[i], label[i]));
    }
    if ((int)largest >= sum->classes) D9_TRY(grow_matrix(context, &report->arena, (int)largest + 1, sum));
    for (int64_t i = 0; i < predictions->count; i++) sum->counts[(int)label[i] * sum->classes + (int)top1[i]]++;
    sum->runs += predictions->count > 0;
done:
    return status;
}

/* Sums the rows of the matrix, and sets class names as recorded by a run; a class without a name gets its number. */
static d9_status describe_classes(d9_context *context, d9_report *report, d9_report_predictions *predictions) {
    d9_status status = D9_OK;
    char *name, number[16];
    const json_t *names = NULL;
    for (int r = 0; r < report->run_count; r++)
        if (report->runs[r].arm == predictions->arm && report->runs[r].result)
            names = json_object_get(report->runs[r].result, "classes");
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, predictions->classes, &predictions->names));
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, predictions->classes, &predictions->images));
    for (int i = 0; i < predictions->classes; i++) {
        for (int c = 0; c < predictions->classes; c++)
            predictions->images[i] += predictions->counts[i * predictions->classes + c];
        const char *named = json_string_value(json_array_get(names, (size_t)i));
        snprintf(number, sizeof number, "%d", i);
        D9_TRY(d9_arena_copy(context, &report->arena, named ? named : number, &name));
        predictions->names[i] = name;
    }
done:
    return status;
}

/* ---- tables of classes and mistakes, data of the plot; `at` is an index into the matrix, row-major ---- */

static double percent_at(const d9_report_predictions *predictions, int at) {
    const int64_t images = predictions->images[at / predictions->classes];
    return images > 0 ? 100 * (double)predictions->counts[at] / (double)images : 0;
}

static const d9_column confusion_columns[] = {
    {"shown", "True class", NULL, D9_COLUMN_TEXT, false},
    {"answer", "Predicted", NULL, D9_COLUMN_TEXT, false},
    {"images", "Number", "per run, mean over the runs", DIGITS, false},
    {"percent", "Share of the class, %", NULL, DIGITS, false},
};

/* Iterates over the mistakes, the most frequent first. Returns the matrix index of the mistake after `before` (-1: of
 * the first), or -1 after the last. */
static int next_mistake(const d9_report_predictions *predictions, int before) {
    int best = -1;
    for (int at = 0; at < predictions->classes * predictions->classes; at++) {
        const int64_t count = predictions->counts[at], limit = before < 0 ? INT64_MAX : predictions->counts[before];
        if (count == 0 || at / predictions->classes == at % predictions->classes) continue;
        if (count > limit || (count == limit && at <= before)) continue;
        if (best < 0 || count > predictions->counts[best]) best = at;
    }
    return best;
}

/* Makes the note of a table: the arm whose predictions it shows, and the reason for that arm. */
static d9_status make_note(d9_context *context, d9_report *report, const char **about) {
    const d9_report_predictions *predictions = &report->predictions;
    d9_text text;
    d9_text_init(context, &text);
    d9_text_add(&text, "Final predictions of %s", report->arms[predictions->arm].label);
    if (report->arm_count > 1)
        d9_text_add(&text, ", the arm with the best mean %s of those whose runs stored predictions",
                    report->measure->word);
    d9_text_add(&text, predictions->runs == 1 ? ", of 1 run." : ", summed over %d runs.", predictions->runs);
    return d9_report_keep(context, report, &text, about);
}

static d9_status tabulate_confusions(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    const d9_report_predictions *predictions = &report->predictions;
    d9_report_table *table;
    int rows = 0;
    for (int at = -1; rows < PAIRS && (at = next_mistake(predictions, at)) >= 0;) rows++;
    D9_TRY(d9_report_add_table(context, report, "confusions", confusion_columns, 4, rows, &table));
    table->title = "Most frequent mistakes";
    D9_TRY(make_note(context, report, &table->note));
    for (int row = 0, at = -1; row < rows; row++) {
        at = next_mistake(predictions, at);
        D9_TABLE_CELLS(table, row, d9_text_cell(predictions->names[at / predictions->classes]),
                       d9_text_cell(predictions->names[at % predictions->classes]),
                       d9_real_cell((double)predictions->counts[at] / predictions->runs),
                       d9_real_cell(percent_at(predictions, at)));
    }
done:
    return status;
}

static const d9_column class_columns[] = {
    {"class", "Class", NULL, D9_COLUMN_TEXT, false},
    {"images", "Number", "of the class in the evaluated part", 0, false},
    {"accuracy", "Recall (accuracy), %", "with the configuration's views, mean over the runs", DIGITS, false},
    {"precision", "Precision, %", "of the images predicted as the class, over all runs", DIGITS, false},
    {"f1", "F1, %", "harmonic mean of accuracy (recall) and precision, over all runs", DIGITS, false},
    {"mistaken_for", "Most often predicted as", NULL, D9_COLUMN_TEXT, false},
    {"mistaken_percent", "Share of the class, %", NULL, DIGITS, false},
};

typedef struct class_accuracy {
    int class;
    double percent;
} class_accuracy;

/* The least accurate class first; ties keep their order. */
static int by_accuracy(const void *a, const void *b) {
    const class_accuracy *one = a, *other = b;
    if (one->percent != other->percent) return one->percent < other->percent ? -1 : 1;
    return one->class - other->class;
}

static d9_status tabulate_classes(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    const d9_report_predictions *predictions = &report->predictions;
    const int classes = predictions->classes, rows = classes < ROWS_MAX ? classes : ROWS_MAX;
    const d9_confusion matrix = {predictions->counts, classes, classes};
    const d9_class_scores macro = d9_confusion_macro(&matrix);
    class_accuracy *sorted;
    d9_report_table *table;
    const char *about;
    char *note, *shown = "";
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, classes, &sorted));
    for (int i = 0; i < classes; i++) sorted[i] = (class_accuracy){i, percent_at(predictions, i * classes + i)};
    qsort(sorted, (size_t)classes, sizeof *sorted, by_accuracy);
    D9_TRY(d9_report_add_table(context, report, "classes", class_columns, 7, rows, &table));
    D9_TRY(make_note(context, report, &about));
    if (rows < classes)
        D9_TRY(
            d9_arena_format(context, &report->arena, &shown, " The %d least accurate of %d classes.", rows, classes));
    D9_TRY(d9_arena_format(context, &report->arena, &note,
                           "%s%s Macro mean: precision %.*f%%, recall %.*f%%, F1 %.*f%%.", about, shown, DIGITS,
                           macro.precision, DIGITS, macro.recall, DIGITS, macro.f1));
    table->title = "By class";
    table->note = note;
    for (int row = 0; row < rows; row++) {
        const int class = sorted[row].class, first = class * classes;
        const d9_class_scores scores = d9_confusion_class(&matrix, class);
        int most = -1;
        for (int i = 0; i < classes; i++)
            if (i != class && predictions->counts[first + i] > (most < 0 ? 0 : predictions->counts[first + most]))
                most = i;
        D9_TABLE_CELLS(table, row, d9_text_cell(predictions->names[class]),
                       d9_real_cell((double)predictions->images[class] / predictions->runs),
                       d9_real_cell(sorted[row].percent), d9_real_cell(scores.precision), d9_real_cell(scores.f1),
                       d9_text_cell(most < 0 ? "" : predictions->names[most]),
                       d9_real_cell(most < 0 ? NAN : percent_at(predictions, first + most)));
    }
done:
    return status;
}

d9_status d9_report_gather_predictions(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    const d9_report_arm *arm = NULL;
    while (report->measure->by_class && report->predictions.classes == 0 &&
           (arm = d9_report_next(report, d9_report_mean_of, 0, arm))) {
        report->predictions.arm = (int)(arm - report->arms);
        D9_TRY(d9_report_visit_predictions(context, report, report->predictions.arm, add_predictions, report));
    }
    if (report->predictions.classes == 0) goto done;
    D9_TRY(describe_classes(context, report, &report->predictions));
    D9_TRY(tabulate_classes(context, report));
    D9_TRY(tabulate_confusions(context, report));
done:
    return status;
}

double d9_report_colour_max(const d9_report *report) {
    const d9_report_predictions *predictions = &report->predictions;
    double worst = LEAST_COLOUR_MAX;
    for (int at = 0; at < predictions->classes * predictions->classes; at++)
        if (at / predictions->classes != at % predictions->classes) worst = fmax(worst, percent_at(predictions, at));
    return worst;
}

/* `ink` is the colour of a cell's number: "right" on the diagonal, "light" on dark cells, "dark" on light cells, "none"
 * without number. */
d9_status d9_report_confusion(const d9_report *report, d9_text *text) {
    const d9_report_predictions *predictions = &report->predictions;
    const int classes = predictions->classes;
    const double worst = d9_report_colour_max(report);
    d9_text_add(text, "row\tlabel\tcolumn\tanswer\timages\tpercent\tink\n");
    if (classes > MATRIX_MAX) return d9_text_status(text);
    for (int at = 0; at < classes * classes; at++) {
        const int row = at / classes, column = at % classes;
        const double percent = percent_at(predictions, at);
        const char *ink = row == column ? "right" : percent > worst / 2 ? "light" : percent > 0 ? "dark" : "none";
        d9_text_add(text, "%d\t", row);
        d9_report_plot_field(text, predictions->names[row]);
        d9_text_add(text, "\t%d\t", column);
        d9_report_plot_field(text, predictions->names[column]);
        d9_text_add(text, "\t%lld\t%.6g\t%s\n", (long long)predictions->counts[at], percent, ink);
    }
    return d9_text_status(text);
}
