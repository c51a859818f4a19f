/* Confusion matrix: predictions stored by finished runs (predictions.safetensors: top1, confidence, label), summed over
 * the runs of one arm. */
#include "report/report_parts.h"

#include <stdio.h>

#include "core/confusion.h"
#include "core/system.h"
#include "record/safetensors.h"

enum {
    MATRIX_MAX = 20 /* classes; a larger matrix would be unreadable */,
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

/* ---- the matrix ---- */

/* Adds the predictions of a run, unless a class number is outside 0 to D9_REPORT_CLASSES - 1. */
static void add_predictions(const d9_run_predictions *predictions, d9_report_predictions *sum) {
    const double *top1 = predictions->top1, *label = predictions->label, most = D9_REPORT_CLASSES;
    for (int64_t i = 0; i < predictions->count; i++)
        if (!(top1[i] >= 0 && top1[i] < most && label[i] >= 0 && label[i] < most)) return;
    for (int64_t i = 0; i < predictions->count; i++) {
        const int row = (int)label[i], column = (int)top1[i], larger = row > column ? row : column;
        sum->counts[row][column]++;
        if (larger >= sum->classes) sum->classes = larger + 1;
    }
    sum->runs += predictions->count > 0;
}

static d9_status add_arm_predictions(d9_context *context, d9_report *report, int arm) {
    d9_status status = D9_OK;
    d9_run_predictions predictions = {0};
    report->predictions.arm = arm;
    for (int r = 0; r < report->run_count; r++) {
        if (report->runs[r].arm != arm || !report->runs[r].result) continue;
        D9_TRY(d9_run_predictions_read(context, report, &report->runs[r], &predictions));
        add_predictions(&predictions, &report->predictions);
        d9_run_predictions_free(context, &predictions);
        predictions = (d9_run_predictions){0};
    }
done:
    d9_run_predictions_free(context, &predictions);
    return status;
}

/* Sets class names as recorded by a run; a class without a name gets its number. */
static d9_status name_classes(d9_context *context, d9_report *report, d9_report_predictions *predictions) {
    d9_status status = D9_OK;
    char *name, number[16];
    const json_t *names = NULL;
    for (int r = 0; r < report->run_count; r++)
        if (report->runs[r].arm == predictions->arm && report->runs[r].result)
            names = json_object_get(report->runs[r].result, "classes");
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, predictions->classes, &predictions->names));
    for (int i = 0; i < predictions->classes; i++) {
        const char *named = json_string_value(json_array_get(names, (size_t)i));
        snprintf(number, sizeof number, "%d", i);
        D9_TRY(d9_arena_copy(context, &report->arena, named ? named : number, &name));
        predictions->names[i] = name;
    }
done:
    return status;
}

/* ---- tables of classes and mistakes, data of the plot; `at` is an index into the matrix, row-major ---- */

static int64_t count_at(const d9_report_predictions *predictions, int at) {
    return predictions->counts[at / predictions->classes][at % predictions->classes];
}

static double percent_at(const d9_report_predictions *predictions, int at) {
    int64_t images = 0;
    for (int i = 0; i < predictions->classes; i++) images += predictions->counts[at / predictions->classes][i];
    return images > 0 ? 100 * (double)count_at(predictions, at) / (double)images : 0;
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
        const int64_t count = count_at(predictions, at), limit = before < 0 ? INT64_MAX : count_at(predictions, before);
        if (count == 0 || at / predictions->classes == at % predictions->classes) continue;
        if (count > limit || (count == limit && at <= before)) continue;
        if (best < 0 || count > count_at(predictions, best)) best = at;
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
                       d9_real_cell((double)count_at(predictions, at) / predictions->runs),
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

/* Returns the class at `place`, from 0, when classes are sorted by accuracy, the least accurate first; ties keep their
 * order. */
static int class_at(const d9_report_predictions *predictions, int place) {
    for (int class = 0; class < predictions->classes; class ++) {
        int before = 0;
        const double own = percent_at(predictions, class * predictions->classes + class);
        for (int other = 0; other < predictions->classes; other++) {
            const double its = percent_at(predictions, other * predictions->classes + other);
            before += its < own || (its == own && other < class);
        }
        if (before == place) return class;
    }
    return 0;
}

static d9_status tabulate_classes(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    const d9_report_predictions *predictions = &report->predictions;
    const d9_confusion matrix = {predictions->counts[0], predictions->classes, D9_REPORT_CLASSES};
    const d9_class_scores macro = d9_confusion_macro(&matrix);
    d9_report_table *table;
    const char *about;
    char *note;
    D9_TRY(d9_report_add_table(context, report, "classes", class_columns, 7, predictions->classes, &table));
    D9_TRY(make_note(context, report, &about));
    D9_TRY(d9_arena_format(context, &report->arena, &note, "%s Macro mean: precision %.*f%%, recall %.*f%%, F1 %.*f%%.",
                           about, DIGITS, macro.precision, DIGITS, macro.recall, DIGITS, macro.f1));
    table->title = "By class";
    table->note = note;
    for (int row = 0; row < predictions->classes; row++) {
        const int class = class_at(predictions, row), first = class * predictions->classes;
        const d9_class_scores scores = d9_confusion_class(&matrix, class);
        int64_t images = 0;
        int most = -1;
        for (int i = 0; i < predictions->classes; i++) {
            images += count_at(predictions, first + i);
            if (i != class && count_at(predictions, first + i) > (most < 0 ? 0 : count_at(predictions, first + most)))
                most = i;
        }
        D9_TABLE_CELLS(table, row, d9_text_cell(predictions->names[class]),
                       d9_real_cell((double)images / predictions->runs),
                       d9_real_cell(percent_at(predictions, first + class)), d9_real_cell(scores.precision),
                       d9_real_cell(scores.f1), d9_text_cell(most < 0 ? "" : predictions->names[most]),
                       d9_real_cell(most < 0 ? NAN : percent_at(predictions, first + most)));
    }
done:
    return status;
}

d9_status d9_report_gather_predictions(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    const d9_report_arm *arm = NULL;
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, D9_REPORT_CLASSES, &report->predictions.counts));
    while (report->measure->by_class && report->predictions.classes == 0 &&
           (arm = d9_report_next(report, d9_report_mean_of, 0, arm)))
        D9_TRY(add_arm_predictions(context, report, (int)(arm - report->arms)));
    if (report->predictions.classes == 0) goto done;
    D9_TRY(name_classes(context, report, &report->predictions));
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
        d9_text_add(text, "\t%lld\t%.6g\t%s\n", (long long)count_at(predictions, at), percent, ink);
    }
    return d9_text_status(text);
}
