/* Measures of a trained network: see measure.h. */
#include "core/measure.h"
#include "core/system.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- computing ---- */

int32_t d9_argmax(const double *row, int64_t classes) {
    int32_t best = 0;
    for (int32_t c = 1; c < classes; c++)
        if (row[c] > row[best]) best = c;
    return best;
}

/* Percentage of the samples whose class has the largest logit; of equal logits that of the first class counts. */
static d9_status accuracy(d9_context *context, const d9_evaluated *all, double *score, double *by_label) {
    int64_t correct = 0;
    (void)context;
    (void)by_label;
    for (int64_t i = 0; i < all->samples; i++)
        correct += d9_argmax(all->logits + i * all->classes, all->classes) == all->labels[i];
    *score = 100.0 * (double)correct / (double)all->samples;
    return D9_OK;
}

typedef struct labelled_logit {
    double logit;
    bool positive;
} labelled_logit;

static int by_logit(const void *a, const void *b) {
    const double x = ((const labelled_logit *)a)->logit, y = ((const labelled_logit *)b)->logit;
    return (x > y) - (x < y);
}

/* The share of pairs of a positive and a negative sample in which the positive sample has the larger logit; a pair of
 * equal logits counts half. Computed by the rank statistic (R - p (p + 1) / 2) / (p n): R is the sum of the ranks, from
 * 1, of the p positive samples, n the number of negative ones, and equal logits share their mean rank (Hanley and
 * McNeil 1982, Radiology 143). NAN: p or n is 0. */
static double area_under_curve(labelled_logit *samples, int64_t count) {
    double positives = 0, ranks = 0;
    qsort(samples, (size_t)count, sizeof *samples, by_logit);
    for (int64_t begin = 0, end; begin < count; begin = end) {
        double tied = 0;
        for (end = begin; end < count && samples[end].logit == samples[begin].logit; end++)
            tied += samples[end].positive;
        positives += tied;
        ranks += tied * 0.5 * (double)(begin + 1 + end);
    }
    return (ranks - positives * (positives + 1) / 2) / (positives * ((double)count - positives));
}

/* The unweighted mean of the labels' areas under the curve; labels whose area is undefined are left out. */
static d9_status auc(d9_context *context, const d9_evaluated *all, double *score, double *by_label) {
    d9_status status;
    labelled_logit *samples = NULL;
    double sum = 0;
    int defined = 0;
    D9_TRY(D9_ALLOCATE(context, all->samples, "samples by logit", &samples));
    for (int64_t c = 0; c < all->classes; c++) {
        for (int64_t i = 0; i < all->samples; i++)
            samples[i] = (labelled_logit){all->logits[i * all->classes + c], (uint32_t)all->labels[i] >> c & 1};
        const double found = area_under_curve(samples, all->samples);
        if (by_label) by_label[c] = found;
        if (isnan(found)) continue;
        sum += found;
        defined++;
    }
    *score = sum / defined;
done:
    d9_release(context, samples);
    return status;
}

/* The cross-entropy of a class under the softmax of its logits. */
static double cross_entropy(const double *row, int64_t classes, int32_t label) {
    double most = row[0], sum = 0;
    for (int64_t c = 1; c < classes; c++) most = fmax(most, row[c]);
    for (int64_t c = 0; c < classes; c++) sum += exp(row[c] - most);
    return most + log(sum) - row[label];
}

/* exp of the mean cross-entropy. Samples with label -1 do not count. */
static d9_status perplexity(d9_context *context, const d9_evaluated *all, double *score, double *by_label) {
    double loss = all->logits ? 0 : all->loss, counted = all->logits ? 0 : all->loss_count;
    (void)context;
    (void)by_label;
    for (int64_t i = 0; all->logits && i < all->samples; i++) {
        if (all->labels[i] < 0) continue;
        loss += cross_entropy(all->logits + i * all->classes, all->classes, all->labels[i]);
        counted++;
    }
    *score = exp(loss / counted);
    return D9_OK;
}

/* ---- comparing, and text ---- */

bool d9_measure_better(const d9_measure *measure, double a, double b) {
    return measure->higher_is_better ? a > b : a < b;
}

bool d9_measure_reaches(const d9_measure *measure, double score, double target) {
    return measure->higher_is_better ? score >= target : score <= target;
}

d9_score_text d9_measure_format(const d9_measure *measure, double score) {
    d9_score_text text;
    snprintf(text.text, sizeof text.text, "%.*f%s", measure->digits, score, measure->unit);
    return text;
}

enum { FIELD_BYTES = 48 };

/* The text of field `name` (`length` bytes) in a pattern of d9_measure_expand; "" if there is no such field. A number
 * is formatted into `own`. */
static const char *field_text(const d9_measure *measure, const char *name, size_t length, char own[FIELD_BYTES]) {
    const struct {
        const char *name, *text;
    } fields[] = {{"name", measure->name},
                  {"word", measure->word},
                  {"title", measure->title},
                  {"plural", measure->plural},
                  {"unit", measure->unit},
                  {"points", measure->points},
                  {"effect", ""},
                  {"effect points", measure->brief_points},
                  {"bound", measure->higher_is_better ? "at least" : "at most"}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (strlen(fields[i].name) != length || memcmp(fields[i].name, name, length) != 0) continue;
        if (strncmp(name, "effect", 6) != 0) return fields[i].text;
        snprintf(own, FIELD_BYTES, "%g%s", measure->detectable_difference, fields[i].text);
        return own;
    }
    return "";
}

void d9_measure_expand(const d9_measure *measure, const char *pattern, d9_text *text) {
    char own[FIELD_BYTES];
    while (*pattern) {
        const char *open = pattern + strcspn(pattern, "{");
        d9_text_add(text, "%.*s", (int)(open - pattern), pattern);
        if (!*open) return;
        const char *close = strchr(open, '}'), *before = open + 1;
        const size_t prefix = strcspn(before, "|}");
        const bool parts = before[prefix] == '|';
        const char *name = parts ? before + prefix + 1 : before;
        const size_t length = strcspn(name, "|}");
        const char *found = field_text(measure, name, length, own), *after = parts ? name + length + 1 : close;
        if (*found)
            d9_text_add(text, "%.*s%s%.*s", parts ? (int)prefix : 0, before, found, (int)(close - after), after);
        pattern = close + 1;
    }
}

/* ---- the table ---- */

static const d9_measure measures[D9_MEASURE_COUNT] = {
    {.name = "accuracy",
     .name_tta = "accuracy_tta",
     .both_keys = true,
     .epochs_heading = "top1Accuracy",
     .word = "accuracy",
     .plural = "accuracies",
     .title = "Accuracy",
     .plural_title = "Accuracies",
     .unit = "%",
     .points = "percentage points",
     .brief_points = " points",
     .higher_is_better = true,
     .by_class = true,
     .log_axis = true,
     .maximum = 100,
     .illegal_score_message = "has an accuracy outside 0 to 100",
     .target = 94,
     .detectable_difference = 0.1,
     .digits = 2,
     .compute = accuracy},
    {.name = "auc",
     .name_tta = "auc_tta",
     .epochs_heading = "auc",
     .word = "AUC",
     .plural = "AUCs",
     .title = "AUC",
     .plural_title = "AUCs",
     .unit = "",
     .points = "",
     .brief_points = "",
     .higher_is_better = true,
     .by_label = true,
     .maximum = 1,
     .illegal_score_message = "has an AUC outside 0 to 1",
     .target = 0.8,
     .detectable_difference = 0.001,
     .digits = 4,
     .compute = auc},
    {.name = "perplexity",
     .name_tta = "perplexity_tta",
     .epochs_heading = "perplexity",
     .word = "perplexity",
     .plural = "perplexities",
     .title = "Perplexity",
     .plural_title = "Perplexities",
     .unit = "",
     .points = "",
     .brief_points = "",
     .maximum = INFINITY,
     .illegal_score_message = "has a negative perplexity",
     .target = 100,
     .detectable_difference = 1,
     .digits = 2,
     .compute = perplexity},
};

const d9_measure *d9_measure_at(int index) { return index >= 0 && index < D9_MEASURE_COUNT ? &measures[index] : NULL; }

int d9_measure_index(const d9_measure *measure) { return (int)(measure - measures); }

const d9_measure *d9_measure_find(const char *name) {
    for (int i = 0; i < D9_MEASURE_COUNT; i++)
        if (!name || strcmp(measures[i].name, name) == 0) return &measures[i];
    return NULL;
}

const d9_measure *d9_measure_find_in_key(const char *key) {
    for (int i = 0; i < D9_MEASURE_COUNT; i++)
        if (strstr(key, measures[i].name)) return &measures[i];
    return NULL;
}
