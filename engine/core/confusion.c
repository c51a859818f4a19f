/* Scores of classes from a confusion matrix: see confusion.h. */
#include "core/confusion.h"

static double percent(int64_t part, int64_t whole) { return whole > 0 ? 100 * (double)part / (double)whole : 0; }

/* Counts the samples of a class and those predicted as it. */
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

d9_class_scores d9_confusion_macro(const d9_confusion *matrix) {
    d9_class_scores sum = {0, 0, 0};
    int64_t samples, predicted, occurring = 0;
    for (int64_t class = 0; class < matrix->classes; class ++) {
        const d9_class_scores own = d9_confusion_class(matrix, class);
        count_class(matrix, class, &samples, &predicted);
        occurring += samples + predicted > 0;
        sum.precision += own.precision; /* zeros if the class does not occur */
        sum.recall += own.recall;
        sum.f1 += own.f1;
    }
    const double count = occurring ? (double)occurring : 1;
    return (d9_class_scores){sum.precision / count, sum.recall / count, sum.f1 / count};
}
