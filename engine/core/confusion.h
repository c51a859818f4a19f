/* Precision, recall and F1 from a confusion matrix, as scikit-learn's precision_recall_fscore_support defines them,
 * with zero_division=0.
 *
 *   precision = hits / predicted       hits: samples of the class that are predicted as the class
 *   recall    = hits / samples         predicted: samples predicted as the class; samples: those of the class
 *   F1        = 2 hits / (predicted + samples), the harmonic mean of precision and recall */
#pragma once

#include <stdint.h>

/* counts[true class * stride + predicted class] */
typedef struct d9_confusion {
    const int64_t *counts;
    int64_t classes, stride; /* stride: at least `classes` */
} d9_confusion;

typedef struct d9_class_scores { /* percent; 0 where the denominator is 0 */
    double precision, recall, f1;
} d9_class_scores;

d9_class_scores d9_confusion_class(const d9_confusion *matrix, int64_t class);
/* The macro mean: unweighted, over the classes that occur among the true or the predicted ones; zeros if none does. */
d9_class_scores d9_confusion_macro(const d9_confusion *matrix);

/* Confusion matrix of one label, where a sample may have several labels: numbers of samples with and without the label,
 * predicted to have it or not. */
typedef struct d9_label_counts {
    int64_t counts[2][2]; /* [has the label][predicted] */
} d9_label_counts;

/* Adds one sample to `counts` (labels). Bit l of `has`: the sample has label l; of `predicted`: it is predicted to have
 * it. */
void d9_label_counts_add(d9_label_counts *counts, int64_t labels, int32_t has, int32_t predicted);
d9_class_scores d9_label_scores(const d9_label_counts *counts);
/* The macro mean: unweighted, over the labels that some sample has or is predicted to have; zeros if there is none. */
d9_class_scores d9_label_macro(const d9_label_counts *counts, int64_t labels);
