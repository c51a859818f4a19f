/* What the network takes for what: the answers that finished runs have kept (predictions.safetensors: top1, confidence,
 * label), added up over the runs of one arm. */
#include "report/report_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/system.h"
#include "record/safetensors.h"

enum {
    MATRIX_MAX = 20 /* a larger one could not be read */,
    PAIRS = 12,
    LEAST_WORST = 10 /* percent: one mistake of fifty is no dark cell */
};

d9_status d9_run_answers_read(d9_context *context, const d9_report *report, const d9_report_run *run,
                              d9_run_answers *answers) {
    d9_status status = D9_OK;
    struct column {
        const char *name;
        double **values;
    } columns[] = {{"top1", &answers->top1}, {"label", &answers->label}, {"confidence", &answers->confidence}};
    char path[4096];
    d9_safetensors *file = NULL;
    int64_t images = 0;
    d9_context quiet = *context; /* a file that cannot be read costs a picture, no more */
    d9_context_clear(&quiet);
    *answers = (d9_run_answers){0};
    snprintf(path, sizeof path, "%.2000s/%.2000s/predictions.safetensors", report->folder, run->folder);
    if (!d9_file_exists(context, path) || d9_safetensors_read(&quiet, path, &file) != D9_OK) goto done;
    for (int i = 0; i < 3; i++) {
        const d9_tensor *tensor = d9_safetensors_find(file, columns[i].name);
        if (!tensor || (i > 0 && d9_shape_count(&tensor->shape) != images)) goto done;
        images = d9_shape_count(&tensor->shape);
        D9_TRY(D9_ALLOCATE(context, images, "the answers of a run", columns[i].values));
        d9_tensor_to_doubles(tensor, *columns[i].values);
    }
    answers->count = images;
done:
    d9_safetensors_free(context, file);
    return status;
}

void d9_run_answers_free(d9_context *context, d9_run_answers *answers) {
    d9_release(context, answers->top1);
    d9_release(context, answers->label);
    d9_release(context, answers->confidence);
}

/* ---- the matrix ---- */

/* A run with a class that the matrix has no room for is left out. */
static void add_answers(const d9_run_answers *answers, d9_report_answers *sum) {
    const double *top1 = answers->top1, *label = answers->label, most = D9_REPORT_CLASSES;
    for (int64_t i = 0; i < answers->count; i++)
        if (!(top1[i] >= 0 && top1[i] < most && label[i] >= 0 && label[i] < most)) return;
    for (int64_t i = 0; i < answers->count; i++) {
        const int row = (int)label[i], column = (int)top1[i], larger = row > column ? row : column;
        sum->counts[row][column]++;
        if (larger >= sum->classes) sum->classes = larger + 1;
    }
    sum->runs += answers->count > 0;
}

static d9_status add_arm(d9_context *context, d9_report *report, int arm) {
    d9_status status = D9_OK;
    d9_run_answers answers = {0};
    report->answers.arm = arm;
    for (int r = 0; r < report->run_count; r++) {
        if (report->runs[r].arm != arm || !report->runs[r].result) continue;
        D9_TRY(d9_run_answers_read(context, report, &report->runs[r], &answers));
        add_answers(&answers, &report->answers);
        d9_run_answers_free(context, &answers);
        answers = (d9_run_answers){0};
    }
done:
    d9_run_answers_free(context, &answers);
    return status;
}

/* The names of the record; a class that it does not name goes by its number. */
static d9_status name_classes(d9_context *context, d9_report *report, d9_report_answers *answers) {
    d9_status status = D9_OK;
    char *name, number[16];
    const json_t *names = NULL;
    for (int r = 0; r < report->run_count; r++)
        if (report->runs[r].arm == answers->arm && report->runs[r].result)
            names = json_object_get(report->runs[r].result, "classes");
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, answers->classes, &answers->names));
    for (int i = 0; i < answers->classes; i++) {
        const char *named = json_string_value(json_array_get(names, (size_t)i));
        snprintf(number, sizeof number, "%d", i);
        D9_TRY(d9_arena_copy(context, &report->arena, named ? named : number, &name));
        answers->names[i] = name;
    }
done:
    return status;
}

/* ---- what is mistaken for what: `at` counts the cells of the matrix, rows first ---- */

static int64_t count_at(const d9_report_answers *answers, int at) {
    return answers->counts[at / answers->classes][at % answers->classes];
}

static double percent_at(const d9_report_answers *answers, int at) {
    int64_t images = 0;
    for (int i = 0; i < answers->classes; i++) images += answers->counts[at / answers->classes][i];
    return images > 0 ? 100 * (double)count_at(answers, at) / (double)images : 0;
}

static const d9_column pair_columns[] = {
    {"shown", "Shown", NULL, D9_COLUMN_TEXT, false},
    {"answer", "Answer", NULL, D9_COLUMN_TEXT, false},
    {"images", "Images a run", "mean over the runs", 1, false},
    {"percent", "% of the class", NULL, 2, false},
};

/* The next most frequent mistake after `before` (-1: the first); -1: no more. */
static int next_mistake(const d9_report_answers *answers, int before) {
    int best = -1;
    for (int at = 0; at < answers->classes * answers->classes; at++) {
        const int64_t count = count_at(answers, at), limit = before < 0 ? INT64_MAX : count_at(answers, before);
        if (count == 0 || at / answers->classes == at % answers->classes) continue;
        if (count > limit || (count == limit && at <= before)) continue;
        if (best < 0 || count > count_at(answers, best)) best = at;
    }
    return best;
}

static d9_status tabulate_pairs(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    const d9_report_answers *answers = &report->answers;
    d9_figures *table;
    char *note;
    int rows = 0;
    for (int at = -1; rows < PAIRS && (at = next_mistake(answers, at)) >= 0;) rows++;
    D9_TRY(d9_report_add_table(context, report, "confusions", pair_columns, 4, rows, &table));
    D9_TRY(d9_arena_format(context, &report->arena, &note, "The final answers of %s, over %d of its runs.",
                           report->arms[answers->arm].label, answers->runs));
    table->title = "What is most often taken for what";
    table->note = note;
    for (int row = 0, at = -1; row < rows; row++) {
        at = next_mistake(answers, at);
        D9_FIGURES_ROW(table, row, d9_words(answers->names[at / answers->classes]),
                       d9_words(answers->names[at % answers->classes]),
                       d9_number((double)count_at(answers, at) / answers->runs), d9_number(percent_at(answers, at)));
    }
done:
    return status;
}

static const d9_column class_columns[] = {
    {"class", "Class", NULL, D9_COLUMN_TEXT, false},
    {"images", "Images", "of the class in the test set", 0, false},
    {"accuracy", "Accuracy %", "with the configuration's views, mean over the runs", 2, false},
    {"mistaken_for", "most often taken for", NULL, D9_COLUMN_TEXT, false},
    {"mistaken_percent", "%", "of the class", 2, false},
};

/* The worst class first; of equal ones in their order. `place`: how many come before. */
static int class_at(const d9_report_answers *answers, int place) {
    for (int class = 0; class < answers->classes; class ++) {
        int before = 0;
        const double own = percent_at(answers, class * answers->classes + class);
        for (int other = 0; other < answers->classes; other++) {
            const double its = percent_at(answers, other * answers->classes + other);
            before += its < own || (its == own && other < class);
        }
        if (before == place) return class;
    }
    return 0;
}

static d9_status tabulate_classes(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    const d9_report_answers *answers = &report->answers;
    d9_figures *table;
    char *note;
    D9_TRY(d9_report_add_table(context, report, "classes", class_columns, 5, answers->classes, &table));
    D9_TRY(d9_arena_format(context, &report->arena, &note, "The final answers of %s, over %d of its runs.",
                           report->arms[answers->arm].label, answers->runs));
    table->title = "By class";
    table->note = note;
    for (int row = 0; row < answers->classes; row++) {
        const int class = class_at(answers, row), first = class * answers->classes;
        int64_t images = 0;
        int most = -1;
        for (int i = 0; i < answers->classes; i++) {
            images += count_at(answers, first + i);
            if (i != class && count_at(answers, first + i) > (most < 0 ? 0 : count_at(answers, first + most))) most = i;
        }
        D9_FIGURES_ROW(table, row, d9_words(answers->names[class]), d9_number((double)images / answers->runs),
                       d9_number(percent_at(answers, first + class)), d9_words(most < 0 ? "" : answers->names[most]),
                       d9_number(most < 0 ? NAN : percent_at(answers, first + most)));
    }
done:
    return status;
}

d9_status d9_report_gather_answers(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    const d9_report_arm *arm = NULL;
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, D9_REPORT_CLASSES, &report->answers.counts));
    while (report->answers.classes == 0 && (arm = d9_report_next(report, d9_report_mean_of, 0, arm)))
        D9_TRY(add_arm(context, report, (int)(arm - report->arms)));
    if (report->answers.classes == 0) goto done;
    D9_TRY(name_classes(context, report, &report->answers));
    D9_TRY(tabulate_classes(context, report));
    D9_TRY(tabulate_pairs(context, report));
done:
    return status;
}

double d9_report_worst(const d9_report *report) {
    const d9_report_answers *answers = &report->answers;
    double worst = LEAST_WORST;
    for (int at = 0; at < answers->classes * answers->classes; at++)
        if (at / answers->classes != at % answers->classes) worst = fmax(worst, percent_at(answers, at));
    return worst;
}

/* `ink`: on which ground a figure stands: no colour (right answers), light or dark; none: there is no figure. */
d9_status d9_report_confusion(const d9_report *report, d9_text *text) {
    const d9_report_answers *answers = &report->answers;
    const int classes = answers->classes;
    const double worst = d9_report_worst(report);
    d9_text_add(text, "row\tlabel\tcolumn\tanswer\timages\tpercent\tink\n");
    if (classes > MATRIX_MAX) return d9_text_status(text);
    for (int at = 0; at < classes * classes; at++) {
        const int row = at / classes, column = at % classes;
        const double percent = percent_at(answers, at);
        const char *ink = row == column ? "right" : percent > worst / 2 ? "light" : percent > 0 ? "dark" : "none";
        d9_text_add(text, "%d\t", row);
        d9_report_plot_field(text, answers->names[row]);
        d9_text_add(text, "\t%d\t", column);
        d9_report_plot_field(text, answers->names[column]);
        d9_text_add(text, "\t%lld\t%.6g\t%s\n", (long long)count_at(answers, at), percent, ink);
    }
    return d9_text_status(text);
}
