/* Precision, recall, F1 and their macro mean on matrices that were computed by hand. */
#include "core/confusion.h"
#include "tests/support/test.h"

static void check(d9_class_scores found, double precision, double recall, double f1) {
    assert_true(fabs(found.precision - precision) <= 1e-12);
    assert_true(fabs(found.recall - recall) <= 1e-12);
    assert_true(fabs(found.f1 - f1) <= 1e-12);
}

/* The three classes have 4, 2 and 5 samples, of which 3, 1 and 2 are right, and are predicted 4, 5 and 2 times. The
 * stride is wider than the matrix. */
TEST(rows_are_true_and_columns_predicted) {
    static const int64_t counts[] = {3, 1, 0, 99, 1, 1, 0, 99, 0, 3, 2, 99};
    const d9_confusion matrix = {counts, 3, 4};
    check(d9_confusion_class(&matrix, 0), 75, 75, 75);
    check(d9_confusion_class(&matrix, 1), 20, 50, 200.0 / 7);
    check(d9_confusion_class(&matrix, 2), 100, 40, 400.0 / 7);
    check(d9_confusion_macro(&matrix), 65, 55, (75 + 600.0 / 7) / 3);
}

/* Class 0 is never predicted, class 1 has no sample but is predicted, class 2 does not occur: the mean leaves out only
 * class 2. */
TEST(a_division_by_zero_gives_zero) {
    static const int64_t counts[] = {0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4};
    const d9_confusion matrix = {counts, 4, 4};
    check(d9_confusion_class(&matrix, 0), 0, 0, 0);
    check(d9_confusion_class(&matrix, 1), 0, 0, 0);
    check(d9_confusion_class(&matrix, 2), 0, 0, 0);
    check(d9_confusion_class(&matrix, 3), 80, 100, 800.0 / 9);
    check(d9_confusion_macro(&matrix), 80.0 / 3, 100.0 / 3, 800.0 / 27);
    check(d9_confusion_macro(&(d9_confusion){counts + 4, 1, 1}), 0, 0, 0);
}
