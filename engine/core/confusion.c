/* Scores of classes from a confusion matrix: see confusion.h. */
#include "core/confusion.h"

#include <stdbool.h>

static double percent(int64_t part, int64_t whole) { return whole > 0 ? 100 * (double)part / (double)whole : 0; }

/* Counts the samples of a class, and the samples that are predicted as this class. */
static void count_class(const d9_confusion *matrix, int64_t class, int64_t *samples, int64_t *predicted) {
    *samples = *predicted = 0;
    for (int64_t c = 0; c < matrix->classes; c++) {
        *samples += matrix->counts[class * matrix->stride + c];
        *predicted += matrix->counts[c * matrix->stride + class];
    }
}

d9_class_scores d9_confusion_class(const d9_confusion *matrix, int64_t class) {
    const int64_t hits = matrix->counts[class * matrix->stride + class];
    int64_t samples, predicted;
    count_class(matrix, class, &samples, &predicted);
    return (d9_class_scores){percent(hits, predicted), percent(hits, samples), percent(2 * hits, predicted + samples)};
}

typedef struct score_sums {
    d9_class_scores sum;
    int64_t occurring;
} score_sums;

static void add_scores(score_sums *sums, d9_class_scores own, bool occurs) {
    sums->sum.precision += own.precision; /* zeros if the class or label does not occur */
    sums->sum.recall += own.recall;
    sums->sum.f1 += own.f1;
    sums->occurring += occurs;
}

static d9_class_scores mean_scores(const score_sums *sums) {
    const double count = sums->occurring ? (double)sums->occurring : 1;
    return (d9_class_scores){sums->sum.precision / count, sums->sum.recall / count, sums->sum.f1 / count};
}

d9_class_scores d9_confusion_macro(const d9_confusion *matrix) {
    score_sums macro = {0};
    int64_t samples, predicted;
    for (int64_t class = 0; class < matrix->classes; class ++) {
        count_class(matrix, class, &samples, &predicted);
        add_scores(&macro, d9_confusion_class(matrix, class), samples + predicted > 0);
    }
    return mean_scores(&macro);
}

void d9_label_counts_add(d9_label_counts *counts, int64_t labels, int32_t has, int32_t predicted) {
    for (int64_t label = 0; label < labels; label++) counts[label].counts[has >> label & 1][predicted >> label & 1]++;
}

d9_class_scores d9_label_scores(const d9_label_counts *counts) {
    return d9_confusion_class(&(d9_confusion){counts->counts[0], 2, 2}, 1);
}

d9_class_scores d9_label_macro(const d9_label_counts *counts, int64_t labels) {
    score_sums macro = {0};
    for (int64_t label = 0; label < labels; label++) {
        const int64_t(*own)[2] = counts[label].counts;
        add_scores(&macro, d9_label_scores(&counts[label]), own[0][1] + own[1][0] + own[1][1] > 0);
    }
    return mean_scores(&macro);
}
