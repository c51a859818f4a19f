/* Measures of a trained network: accuracy, area under the curve (AUC), perplexity. A run has one: AUC if samples have
 * several labels, else that of its model (d9_model.measure). Target, best epoch, early stopping, records and reports
 * use it through this table. */
#pragma once

#include "core/text.h"

/* The evaluated samples: `logits` and `labels`; or, only for perplexity, the summed loss, with `logits` NULL. */
typedef struct d9_evaluated {
    const double *logits;  /* (samples, classes), without NaN */
    const int32_t *labels; /* (samples): the class; -1: left out of perplexity; for AUC bit c: the sample has label c */
    int64_t samples, classes;
    double loss, loss_count; /* sum of the cross-entropies (in nats) and their number; read only if logits is NULL */
} d9_evaluated;

typedef struct d9_measure {
    const char *name, *name_tta;      /* keys in files: without, and with test-time augmentation (TTA) */
    bool both_keys;                   /* records contain name_tta even if the evaluation has a single view */
    const char *epochs_heading;       /* column of epochs.tsv */
    const char *word, *plural;        /* noun for the score, within a sentence */
    const char *title, *plural_title; /* the noun at the start of a sentence */
    const char *unit;                 /* "%", or "" */
    const char *points;               /* unit of a difference: "percentage points", or "" */
    const char *brief_points;         /* short form of `points`, with a leading space: " points", or "" */
    bool higher_is_better;
    bool by_class;                     /* each sample has one class, so results can be broken down by class */
    bool by_label;                     /* each label has a score, and the score of the network is their mean */
    bool log_axis;                     /* plots may use a logarithmic axis of 100 - score */
    double minimum, maximum;           /* legal scores */
    const char *illegal_score_message; /* message about a record whose score is not legal */
    double target;                     /* default of the configuration key `target` */
    double detectable_difference; /* difference of scores; reports estimate the number of seeds needed to detect it */
    int digits;                   /* digits after the decimal point in texts for people */
    /* Computes the score; NAN if it is undefined. If the measure has by_label, `by_label` (classes; NULL: not wanted)
     * receives the score of each label: NAN if it is undefined, and the mean leaves that label out. D9_DEVICE: out of
     * memory. */
    d9_status (*compute)(d9_context *context, const d9_evaluated *evaluated, double *score, double *by_label);
} d9_measure;

/* The measure of this name (NULL: accuracy, as in records that name none), or at this index. NULL if there is none. */
const d9_measure *d9_measure_find(const char *name);
const d9_measure *d9_measure_at(int index);
enum { D9_MEASURE_COUNT = 3 };
int d9_measure_index(const d9_measure *measure); /* the index to pass to d9_measure_at */
/* The first measure whose name occurs in the name of a key or column; NULL: none. */
const d9_measure *d9_measure_find_in_key(const char *key);

/* True if score `a` is better than `b`; false if either is NAN. */
bool d9_measure_better(const d9_measure *measure, double a, double b);
/* True if the score is at least as good as the target; false if either is NAN. */
bool d9_measure_reaches(const d9_measure *measure, double score, double target);

/* The index of the largest of `classes` numbers; of equal ones the first. */
int32_t d9_argmax(const double *row, int64_t classes);

/* The score with its unit, as people read it: "94.12%". */
typedef struct d9_score_text {
    char text[48];
} d9_score_text;
d9_score_text d9_measure_format(const d9_measure *measure, double score);
/* Adds `pattern` with "{FIELD}" replaced by this text of the measure: name, word, plural, title, unit, points, effect
 * ("0.1"), "effect points" ("0.1 points") or bound ("at least").
 * "{BEFORE|FIELD|AFTER}" adds nothing if the text is empty: "{title}{, |unit|}" is "Accuracy, %" or "Perplexity". */
void d9_measure_expand(const d9_measure *measure, const char *pattern, d9_text *text);
