/* What the network takes for what: the answers that finished runs have kept (predictions.safetensors: top1, confidence,
 * label), added up over the runs of one arm. */
#include "report/report_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/system.h"
#include "record/safetensors.h"

enum { CLASSES_MAX = 100, MATRIX_MAX = 20 /* a larger one could not be read */, PAIRS = 12 };

typedef struct matrix {
    int classes, runs;
    int64_t counts[CLASSES_MAX][CLASSES_MAX]; /* [shown][answered] */
} matrix;

/* Adds the answers of one file; one that is absent, broken or has too many classes adds none. */
static d9_status add_answers(d9_context *context, const char *path, matrix *sum) {
    d9_status status = D9_OK;
    d9_safetensors *file = NULL;
    void *memory = NULL;
    d9_context quiet = *context;
    d9_context_clear(&quiet);
    if (!d9_file_exists(context, path) || d9_safetensors_read(&quiet, path, &file) != D9_OK) goto done;
    const d9_tensor *top1 = d9_safetensors_find(file, "top1"), *label = d9_safetensors_find(file, "label");
    if (!top1 || !label || d9_shape_count(&top1->shape) != d9_shape_count(&label->shape)) goto done;
    const size_t count = (size_t)d9_shape_count(&label->shape);
    D9_TRY(d9_allocate(context, 2 * count * sizeof(double), "the answers of a run", &memory));
    double *answers = memory, *labels = answers + count;
    d9_tensor_to_doubles(top1, answers);
    d9_tensor_to_doubles(label, labels);
    for (size_t i = 0; i < count; i++)
        if (!(answers[i] >= 0 && answers[i] < CLASSES_MAX && labels[i] >= 0 && labels[i] < CLASSES_MAX)) goto done;
    for (size_t i = 0; i < count; i++) {
        const int row = (int)labels[i], column = (int)answers[i], larger = row > column ? row : column;
        sum->counts[row][column]++;
        if (larger >= sum->classes) sum->classes = larger + 1;
    }
    sum->runs++;
done:
    d9_release(context, memory);
    d9_safetensors_free(context, file);
    return status;
}

static d9_status add_arm(d9_context *context, const d9_report *report, int arm, matrix *sum) {
    d9_status status = D9_OK;
    char path[4096];
    memset(sum, 0, sizeof *sum);
    for (int r = 0; r < report->run_count; r++) {
        const d9_report_run *run = &report->runs[r];
        if (run->arm != arm || !run->result) continue;
        snprintf(path, sizeof path, "%.2000s/%.2000s/predictions.safetensors", report->folder, run->folder);
        D9_TRY(add_answers(context, path, sum));
    }
done:
    return status;
}

/* The classes of CIFAR-10 go by name, others by number: the data set itself need not be at hand. */
static d9_status name_classes(d9_context *context, d9_report *report, d9_report_answers *answers) {
    static const char *const cifar10[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                          "dog",      "frog",       "horse", "ship", "truck"};
    d9_status status = D9_OK;
    void *memory;
    char *number;
    const json_t *config = NULL;
    for (int r = 0; r < report->run_count; r++)
        if (report->runs[r].arm == answers->arm && report->runs[r].result)
            config = json_object_get(report->runs[r].result, "config");
    const char *dataset = json_string_value(json_object_get(json_object_get(config, "data"), "dataset"));
    D9_TRY(d9_arena_allocate(context, &report->arena, (size_t)answers->classes * sizeof(char *), &memory));
    answers->names = memory;
    for (int i = 0; i < answers->classes; i++) {
        D9_TRY(d9_arena_format(context, &report->arena, &number, "%d", i));
        answers->names[i] = dataset && strcmp(dataset, "cifar10") == 0 && i < 10 ? cifar10[i] : number;
    }
done:
    return status;
}

static d9_status keep_matrix(d9_context *context, d9_report *report, const matrix *sum, int arm) {
    d9_status status = D9_OK;
    d9_report_answers *answers = &report->answers;
    void *memory;
    const size_t classes = (size_t)sum->classes;
    D9_TRY(d9_arena_allocate(context, &report->arena, classes * classes * sizeof(int64_t), &memory));
    *answers = (d9_report_answers){.arm = arm, .runs = sum->runs, .classes = sum->classes, .counts = memory};
    for (size_t row = 0; row < classes; row++)
        memcpy(answers->counts + row * classes, sum->counts[row], classes * sizeof(int64_t));
    D9_TRY(name_classes(context, report, answers));
done:
    return status;
}

/* ---- what is mistaken for what ---- */

static int64_t count_at(const d9_report_answers *answers, int row, int column) {
    return answers->counts[row * answers->classes + column];
}

static double percent_at(const d9_report_answers *answers, int row, int column) {
    int64_t images = 0;
    for (int i = 0; i < answers->classes; i++) images += count_at(answers, row, i);
    return images > 0 ? 100 * (double)count_at(answers, row, column) / (double)images : 0;
}

static const d9_column pair_columns[] = {
    {"shown", "Shown", NULL, D9_COLUMN_TEXT, false},
    {"answer", "Answer", NULL, D9_COLUMN_TEXT, false},
    {"images", "Images a run", "mean over the runs", 1, false},
    {"percent", "% of the class", NULL, 2, false},
};

/* The next most frequent mistake after place `before` (-1: the first); -1: no more. Places count rows first. */
static int next_mistake(const d9_report_answers *answers, int before) {
    int best = -1;
    for (int at = 0; at < answers->classes * answers->classes; at++) {
        const int64_t count = answers->counts[at];
        if (count == 0 || at / answers->classes == at % answers->classes) continue;
        if (before >= 0 && (count > answers->counts[before] || (count == answers->counts[before] && at <= before)))
            continue;
        if (best < 0 || count > answers->counts[best]) best = at;
    }
    return best;
}

static d9_status tabulate_pairs(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    const d9_report_answers *answers = &report->answers;
    d9_figures *table = &report->tables[report->table_count];
    char *note;
    int rows = 0;
    for (int at = -1; rows < PAIRS && (at = next_mistake(answers, at)) >= 0;) rows++;
    D9_TRY(d9_figures_make(context, &report->arena, "confusions", pair_columns, 4, rows, table));
    D9_TRY(d9_arena_format(context, &report->arena, &note, "The final answers of %s, over %d of its runs.",
                           report->arms[answers->arm].label, answers->runs));
    table->title = "What is most often taken for what";
    table->note = note;
    for (int row = 0, at = -1; row < rows; row++) {
        at = next_mistake(answers, at);
        const int shown = at / answers->classes, answer = at % answers->classes;
        d9_figures_text(table, row, 0, answers->names[shown]);
        d9_figures_text(table, row, 1, answers->names[answer]);
        d9_figures_number(table, row, 2, (double)answers->counts[at] / answers->runs);
        d9_figures_number(table, row, 3, percent_at(answers, shown, answer));
    }
    report->table_count++;
done:
    return status;
}

d9_status d9_report_gather_answers(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    void *memory = NULL;
    double best = -INFINITY;
    D9_TRY(d9_allocate(context, sizeof(matrix), "a confusion matrix", &memory));
    matrix *sum = memory;
    for (int a = 0; a < report->arm_count; a++) {
        if (!(report->arms[a].sample.mean > best)) continue;
        D9_TRY(add_arm(context, report, a, sum));
        if (sum->classes == 0) continue;
        best = report->arms[a].sample.mean;
        D9_TRY(keep_matrix(context, report, sum, a));
    }
    if (report->answers.classes > 0) D9_TRY(tabulate_pairs(context, report));
done:
    d9_release(context, memory);
    return status;
}

/* `ink`: on which ground a figure stands: no colour (right answers), light or dark; none: there is no figure. */
d9_status d9_report_confusion(const d9_report *report, d9_text *text) {
    const d9_report_answers *answers = &report->answers;
    double worst = 0;
    d9_text_add(text, "row\tlabel\tcolumn\tanswer\timages\tpercent\tink\n");
    if (answers->classes > MATRIX_MAX) return d9_text_status(text);
    for (int row = 0; row < answers->classes; row++)
        for (int column = 0; column < answers->classes; column++)
            if (row != column) worst = fmax(worst, percent_at(answers, row, column));
    for (int row = 0; row < answers->classes; row++) {
        for (int column = 0; column < answers->classes; column++) {
            const double percent = percent_at(answers, row, column);
            const char *ink = row == column ? "right" : percent > worst / 2 ? "light" : percent > 0 ? "dark" : "none";
            d9_text_add(text, "%d\t%s\t%d\t%s\t%lld\t%.6g\t%s\n", row, answers->names[row], column,
                        answers->names[column], (long long)count_at(answers, row, column), percent, ink);
        }
    }
    return d9_text_status(text);
}
