/* Measures: accuracy, area under the curve and perplexity, compared with their definitions; comparison of scores;
 * texts with the words of a measure. */
#include "core/measure.h"
#include "tests/support/test.h"

static double score_of(const char *name, const d9_evaluated *all, double *by_label) {
    double score;
    OK(d9_measure_find(name)->compute(&context, all, &score, by_label));
    return score;
}

/* If several logits are largest, the first is the prediction. */
TEST(accuracy_takes_the_first_of_equal_logits) {
    static const double logits[] = {1, 1, 0, 0, 2, 1, -1, -2, -1, 5, 6, 7};
    static const int32_t labels[] = {0, 2, 2, 2};
    const d9_evaluated all = {.logits = logits, .labels = labels, .samples = 4, .classes = 3};
    assert_true(score_of("accuracy", &all, NULL) == 50);
}

enum { SAMPLES = 60, LABELS = 4 };

/* Share of the pairs of a positive and a negative sample that the logits of label c order correctly; ties: half. */
static double share_of_ordered_pairs(const double *logits, const int32_t *labels, int c) {
    double right = 0, pairs = 0;
    for (int i = 0; i < SAMPLES; i++)
        for (int j = 0; j < SAMPLES; j++) {
            if (!(labels[i] >> c & 1) || labels[j] >> c & 1) continue;
            const double positive = logits[i * LABELS + c], negative = logits[j * LABELS + c];
            right += positive > negative ? 1 : positive == negative ? 0.5 : 0;
            pairs++;
        }
    return right / pairs;
}

/* Logits of few values have many ties. A label that all samples or none have has no area: its score is NaN, and the
 * mean leaves it out. */
TEST(area_under_the_curve_is_the_share_of_ordered_pairs) {
    double logits[SAMPLES * LABELS];
    int32_t labels[SAMPLES];
    double by_label[LABELS];
    const d9_evaluated all = {.logits = logits, .labels = labels, .samples = SAMPLES, .classes = LABELS};
    for (int i = 0; i < SAMPLES * LABELS; i++) logits[i] = i * 37 % 101 % 7 - 3;
    for (int i = 0; i < SAMPLES; i++) labels[i] = 2 | (i * 29 % 53 < 9) | (i * 13 % 31 < 16) << 3;
    const double first = share_of_ordered_pairs(logits, labels, 0), last = share_of_ordered_pairs(logits, labels, 3);
    assert_true(fabs(first - 0.5) > 0.01 && fabs(last - first) > 0.01);
    assert_true(fabs(score_of("auc", &all, by_label) - (first + last) / 2) <= 1e-12);
    assert_true(fabs(by_label[0] - first) <= 1e-12 && fabs(by_label[3] - last) <= 1e-12);
    assert_true(isnan(by_label[1]) && isnan(by_label[2]));
    assert_true(fabs(score_of("auc", &all, NULL) - (first + last) / 2) <= 1e-12);
    for (int i = 0; i < SAMPLES; i++) labels[i] = 2;
    assert_true(isnan(score_of("auc", &all, by_label)) && isnan(by_label[0]) && isnan(by_label[3]));
}

/* Areas that another program computed, in the file that DAWN9_AREAS names. A case is a line with a count and an area,
 * followed by `count` lines with a label and a logit. */
TEST(areas_equal_those_of_another_program) {
    enum { MOST = 256 };
    const char *path = getenv("DAWN9_AREAS");
    double logits[MOST], area;
    int32_t labels[MOST];
    int count, cases = 0;
    if (!path) skip_for("areas", "DAWN9_AREAS names no file");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (; fscanf(file, "%d %lf", &count, &area) == 2; cases++) {
        assert_true(count <= MOST);
        for (int i = 0; i < count; i++) assert_int_equal(fscanf(file, "%d %lf", &labels[i], &logits[i]), 2);
        const d9_evaluated all = {.logits = logits, .labels = labels, .samples = count, .classes = 1};
        if (!(fabs(score_of("auc", &all, NULL) - area) <= 1e-12)) fail_msg("case %d: not %.17g", cases, area);
    }
    fclose(file);
    print_message("compared %d areas\n", cases);
}

/* If all logits are equal, even if large, the perplexity is the number of classes. Label -1 does not count. */
TEST(perplexity_of_equal_logits_is_the_number_of_classes) {
    double logits[3 * 5];
    static const int32_t labels[] = {4, -1, 0};
    const d9_evaluated all = {.logits = logits, .labels = labels, .samples = 3, .classes = 5};
    for (int i = 0; i < 15; i++) logits[i] = 1000;
    assert_true(fabs(score_of("perplexity", &all, NULL) - 5) <= 1e-12);
    for (int i = 0; i < 5; i++) logits[5 + i] = 100 * i; /* of the sample that does not count */
    assert_true(fabs(score_of("perplexity", &all, NULL) - 5) <= 1e-12);
    logits[4] += log(4); /* the label now has the probability 4/8, that of the other sample 1/5: sqrt(2 * 5) */
    assert_true(fabs(score_of("perplexity", &all, NULL) - sqrt(10)) <= 1e-12);
    const d9_evaluated summed = {.loss = 700 * log(33), .loss_count = 700};
    assert_true(fabs(score_of("perplexity", &summed, NULL) - 33) <= 1e-9);
}

TEST(measures_tell_better_and_reached_scores) {
    const d9_measure *accuracy = d9_measure_find("accuracy"), *perplexity = d9_measure_find("perplexity");
    assert_true(d9_measure_better(accuracy, 2, 1) && !d9_measure_better(accuracy, 1, 1));
    assert_true(d9_measure_better(perplexity, 1, 2) && !d9_measure_better(perplexity, 1, 1));
    assert_true(d9_measure_reaches(accuracy, 94, 94) && !d9_measure_reaches(accuracy, 93.9, 94));
    assert_true(d9_measure_reaches(perplexity, 94, 94) && !d9_measure_reaches(perplexity, 94.1, 94));
    for (int i = 0; d9_measure_at(i); i++) {
        const d9_measure *measure = d9_measure_at(i);
        assert_false(d9_measure_better(measure, NAN, 1) || d9_measure_better(measure, 1, NAN));
        assert_false(d9_measure_reaches(measure, NAN, 1));
        assert_ptr_equal(d9_measure_find(measure->name), measure);
        assert_ptr_equal(d9_measure_find_in_key(measure->name_tta), measure);
        assert_int_equal(d9_measure_index(measure), i);
    }
    assert_ptr_equal(d9_measure_find(NULL), accuracy);
    assert_null(d9_measure_find("accuracy_tta"));
    assert_null(d9_measure_find_in_key("train_loss"));
}

static void check_words(const char *measure, const char *pattern, const char *want) {
    d9_text *text = test_text();
    d9_measure_expand(d9_measure_find(measure), pattern, text);
    assert_string_equal(d9_text_get(text), want);
}

TEST(texts_are_worded_for_a_measure) {
    check_words("accuracy", "{title}{, |unit|}; {name}_low", "Accuracy, %; accuracy_low");
    check_words("perplexity", "{title}{, |unit|}; {name}_low", "Perplexity; perplexity_low");
    check_words("accuracy", "{|points|, }to detect {effect points}, {effect}",
                "percentage points, to detect 0.1 points, 0.1");
    check_words("perplexity", "{|points|, }{bound} {effect points}.", "at most 1.");
    assert_string_equal(d9_measure_format(d9_measure_find("accuracy"), 94.123).text, "94.12%");
    assert_string_equal(d9_measure_format(d9_measure_find("auc"), 0.81561).text, "0.8156");
}
