/* The verdict of a report: a few sentences that summarise the statistics. A difference counts as clear if Holm's p is
 * below 1 - D9_REPORT_LEVEL. */
#include "report/report_parts.h"

#define ALPHA (1 - D9_REPORT_LEVEL)
#define MINUS "\xe2\x88\x92"

enum { MANY_SEEDS = 1000 }; /* above this the number of seeds is not reported: the estimate is too uncertain */
enum { NAMED = 4 };         /* largest number of clear differences, and of arms with failed runs, that are named */

static const char *sign_of(double value) { return value < 0 ? MINUS : value > 0 ? "+" : ""; }
static const char *minus_of(double value) { return value < 0 ? MINUS : ""; }

static void add_interval(const d9_report *report, d9_text *text, const d9_estimate *e) {
    const int digits = report->measure->digits;
    if (isnan(e->low)) return;
    d9_text_add(text, " [%s%.*f, %s%.*f]", minus_of(e->low), digits, fabs(e->low), minus_of(e->high), digits,
                fabs(e->high));
}

/* Adds "−0.31 points [−0.45, −0.17]"; without the brackets if there is no interval. */
static void add_difference(const d9_report *report, d9_text *text, const d9_estimate *e) {
    d9_text_add(text, "%s%.*f%s", sign_of(e->estimate), report->measure->digits, fabs(e->estimate),
                report->measure->brief_points);
    add_interval(report, text, e);
}

static void add_mean(const d9_report *report, d9_text *text, const d9_report_arm *arm) {
    d9_text_add(text, "%s", d9_measure_format(report->measure, arm->sample.mean).text);
    add_interval(report, text, &arm->mean);
}

static void add_seeds(d9_text *text, int count) { d9_text_add(text, "%d %s", count, count == 1 ? "seed" : "seeds"); }

/* True for an arm that is compared with a baseline; of several arms that make the same comparison only for the
 * first. */
static bool is_compared(const d9_report_arm *arm) {
    return arm->baseline >= 0 && arm->comparison_of == arm && !isnan(arm->difference.estimate);
}
static bool is_clear(const d9_report_arm *arm) { return arm->holm < ALPHA; }

/* Size of the difference of a compared arm for which is_clear equals `clear`; NAN for all other arms. */
static double size_of(const d9_report *report, const d9_report_arm *arm, int clear) {
    (void)report;
    return is_compared(arm) && is_clear(arm) == clear ? fabs(arm->difference.estimate) : NAN;
}

/* Returns the reason why there is no interval. */
static const char *reason_without_interval(const d9_estimate *e) {
    return e->error == 0 ? "the runs show no variance, so there is no interval" : "too few runs for an interval";
}

/* ---- one comparison ---- */

static void judge_pair(const d9_report *report, const d9_report_arm *arm, d9_text *text) {
    const char *base = report->arms[arm->baseline].label;
    const d9_estimate *e = &arm->difference;
    if (isnan(e->low)) {
        d9_text_add(text, "%s against %s: ", arm->label, base);
        add_difference(report, text, e);
        d9_text_add(text, ", %s. This is not evidence of a difference.", reason_without_interval(e));
        return;
    }
    if (is_clear(arm)) {
        d9_text_add(text, "%s is %s than %s: ", arm->label,
                    d9_report_gain(report, e->estimate) < 0 ? "worse" : "better", base);
        add_difference(report, text, e);
        d9_text_add(text, " (p = %.2g).", e->p);
        return;
    }
    d9_text_add(text, "%s and %s cannot be told apart with ", arm->label, base);
    add_seeds(text, arm->compared);
    d9_text_add(text, ": ");
    add_difference(report, text, e);
    d9_text_add(text, ", an interval that spans zero.");
    if (arm->seeds_needed > MANY_SEEDS)
        d9_text_add(text, " These seeds are too few to estimate how many would be needed.");
    else if (arm->seeds_needed > arm->compared)
        d9_text_add(text, " Detecting %.4g%s would take about %lld seeds in each arm.",
                    report->measure->detectable_difference, report->measure->brief_points,
                    (long long)arm->seeds_needed);
}

/* ---- many comparisons ---- */

static void add_largest_differences(const d9_report *report, bool clear, int most, d9_text *text) {
    const d9_report_arm *arm = NULL;
    for (int i = 0; i < most && (arm = d9_report_next(report, size_of, clear, arm)); i++) {
        d9_text_add(text, "%s%s ", i ? "; " : "", arm->label);
        add_difference(report, text, &arm->difference);
    }
}

/* Adds the numbers of seeds of the differences that are not clear, and the limit of p: " with 2 to 4 seeds (...)". */
static void add_unclear(const d9_report *report, d9_text *text) {
    int fewest = 0, most = 0;
    for (const d9_report_arm *arm = report->arms; arm < report->arms + report->arm_count; arm++) {
        if (!is_compared(arm) || is_clear(arm) || isnan(arm->difference.low)) continue;
        if (fewest == 0 || arm->compared < fewest) fewest = arm->compared;
        if (arm->compared > most) most = arm->compared;
    }
    if (most == 0) return;
    d9_text_add(text, " with ");
    if (fewest < most) d9_text_add(text, "%d to ", fewest);
    add_seeds(text, most);
    d9_text_add(text, " (Holm's p above %.2g)", ALPHA);
}

static void judge_many(const d9_report *report, int comparisons, int clear, int with_interval, d9_text *text) {
    const int rest = comparisons - clear;
    if (with_interval == 0) {
        d9_text_add(text,
                    "%d comparisons have too few runs, or no variance, for an interval: none is evidence "
                    "of a difference.",
                    comparisons);
        return;
    }
    if (clear == 0) {
        d9_text_add(text, "None of %d changes has a clear effect", comparisons);
        add_unclear(report, text);
        d9_text_add(text, "; the largest: ");
        add_largest_differences(report, false, 1, text);
        d9_text_add(text, ".");
        return;
    }
    d9_text_add(text, "%d of %d changes %s a clear effect: ", clear, comparisons, clear == 1 ? "has" : "have");
    add_largest_differences(report, true, NAMED, text);
    if (clear > NAMED) d9_text_add(text, "; and %d smaller", clear - NAMED);
    d9_text_add(text, ".");
    if (rest > 0) {
        if (rest == 1)
            d9_text_add(text, " The other shows none");
        else
            d9_text_add(text, " The other %d show none", rest);
        add_unclear(report, text);
        d9_text_add(text, ".");
    }
}

/* ---- without comparisons ---- */

/* Sort key: gain of the mean score. Arms with identical configurations have the same runs; only the first of them
 * counts. */
static double own_gain(const d9_report *report, const d9_report_arm *arm, int which) {
    return arm->runs_of == arm ? d9_report_mean_of(report, arm, which) : NAN;
}

/* Best and second were picked from all pairs of arms after the fact, so their difference's interval has the confidence
 * level 1 - alpha / pairs (Dunn 1961, J. Amer. Statist. Assoc. 56: Bonferroni's inequality). */
static void judge_best(const d9_report *report, int arms, d9_text *text) {
    const d9_report_arm *best = d9_report_next(report, own_gain, 0, NULL);
    const d9_report_arm *second = d9_report_next(report, own_gain, 0, best);
    d9_estimate e;
    d9_text_add(text, "%s has the %s mean %s, ", best->label, report->measure->higher_is_better ? "highest" : "lowest",
                report->measure->word);
    add_mean(report, text, best);
    if (!second) {
        d9_text_add(text, "; no run of another configuration has finished.");
        return;
    }
    const int pairs = arms * (arms - 1) / 2;
    d9_welch_difference(best->scores, best->count, second->scores, second->count, 1 - ALPHA / pairs, &e);
    d9_report_clip_difference(report, &e);
    d9_text_add(text, "; %s follows, ", second->label);
    add_difference(report, text, &(d9_estimate){.estimate = -e.estimate, .low = -e.high, .high = -e.low});
    if (isnan(e.low)) {
        d9_text_add(text, ": %s.", reason_without_interval(&e));
        return;
    }
    if (pairs > 1) d9_text_add(text, " (%.4g%% interval, corrected for %d pairs)", 100 * (1 - ALPHA / pairs), pairs);
    d9_text_add(text,
                e.low > 0 || e.high < 0 ? "." : ": the interval spans zero, so these runs do not distinguish them.");
}

static void judge_target(const d9_report *report, const d9_report_arm *arm, d9_text *text) {
    if (arm->count == 1) {
        d9_text_add(text, "One run: %s", d9_measure_format(report->measure, arm->sample.mean).text);
        if (!isnan(arm->target))
            d9_text_add(text, ", the target of %g%s %s", arm->target, report->measure->unit,
                        arm->met ? "met" : "not met");
        d9_text_add(text, ". A single run has no interval.");
        return;
    }
    d9_text_add(text, "%d runs: mean ", arm->count);
    add_mean(report, text, arm);
    d9_text_add(text, ", standard deviation %.*f. ", report->measure->digits, arm->sample.deviation);
    if (isnan(arm->target)) return;
    d9_text_add(text, "%lld of %d reach %g%s; ", (long long)arm->met, arm->count, arm->target, report->measure->unit);
    d9_text_add(text, "the mean is %s.",
                isnan(arm->mean.low)           ? "not distinguished from the target: the runs show no variance"
                : arm->mean.low > arm->target  ? "above the target"
                : arm->mean.high < arm->target ? "below the target"
                                               : "not distinguished from the target: its interval includes it");
}

static bool all_of_same_images(const d9_report *report) {
    const d9_report_run *first = NULL;
    for (const d9_report_run *run = report->runs; run < report->runs + report->run_count; run++) {
        if (!run->result) continue;
        if (!first) first = run;
        if (!d9_report_same_samples(first, run)) return false;
    }
    return true;
}

static void judge_uncompared(const d9_report *report, d9_text *text) {
    int own = 0, finished = 0; /* arms with runs of their own; those of them with finished runs */
    for (const d9_report_arm *arm = report->arms; arm < report->arms + report->arm_count; arm++) {
        own += arm->runs_of == arm;
        finished += !isnan(own_gain(report, arm, 0));
    }
    if (own == 1 && report->arm_count > 1)
        d9_text_add(text, "The %d arms have identical configurations and share their runs, so there is no comparison. ",
                    report->arm_count);
    if (own == 1)
        judge_target(report, report->arms, text);
    else if (all_of_same_images(report))
        judge_best(report, finished, text);
    else
        d9_text_add(text, "These runs were not all evaluated on the same %ss: their %s are not compared.",
                    report->sample, report->measure->plural);
}

/* ---- epochs saved, failed, excluded and missing runs, and the whole verdict ---- */

/* Only clear differences are converted, because the curve turns any difference into epochs. */
static void judge_epochs(const d9_report *report, d9_text *text) {
    double least = NAN, most = NAN;
    for (int i = 0; i < report->arm_count; i++) {
        if (!is_compared(&report->arms[i]) || !is_clear(&report->arms[i])) continue;
        least = fmin(least, report->arms[i].epochs_saved); /* fmin and fmax ignore NAN */
        most = fmax(most, report->arms[i].epochs_saved);
    }
    if (isnan(least)) return;
    d9_text_add(text, " By the baseline's curve this equals %s%.1f", minus_of(least), fabs(least));
    if (most - least >= 0.05) d9_text_add(text, " to %s%.1f", minus_of(most), fabs(most));
    d9_text_add(text, " epochs.");
}

/* Adds the arms of failed runs, each once, at most NAMED. */
static void name_failed(const d9_report *report, d9_text *text) {
    int named = 0, arms = 0;
    for (const d9_report_run *run = report->runs; run < report->runs + report->run_count; run++) {
        const d9_report_run *first = report->runs;
        while (first < run && !(first->failure && first->arm == run->arm)) first++;
        if (!run->failure || (run->arm >= 0 && first < run)) continue;
        if (arms++ < NAMED)
            d9_text_add(text, "%s%s", named++ ? ", " : "", run->arm >= 0 ? report->arms[run->arm].label : run->folder);
    }
    if (arms > named) d9_text_add(text, " and %d more", arms - named);
}

static void judge_missing(const d9_report *report, d9_text *text) {
    int failed = 0, excluded = 0;
    for (const d9_report_run *run = report->runs; run < report->runs + report->run_count; run++) {
        failed += run->failure != NULL;
        excluded += run->excluded;
    }
    const int missing = report->run_count - report->finished - failed - excluded;
    if (failed > 0 && !report->search) { /* the verdict of a search counts failed trials */
        d9_text_add(text, " %d of %d runs failed: ", failed, report->run_count);
        name_failed(report, text);
        d9_text_add(text, ".");
    }
    if (excluded > 0)
        d9_text_add(text, " %d of %d runs %s not count.", excluded, report->run_count, excluded == 1 ? "does" : "do");
    if (missing > 0)
        d9_text_add(text, " %d of %d runs %s missing.", missing, report->run_count, missing == 1 ? "is" : "are");
}

d9_status d9_report_judge(d9_context *context, d9_report *report) {
    d9_text text;
    int comparisons = 0, clear = 0, with_interval = 0;
    const d9_report_arm *only = NULL;
    d9_text_init(context, &text);
    for (int i = 0; i < report->arm_count; i++) {
        const d9_report_arm *arm = &report->arms[i];
        if (!is_compared(arm)) continue;
        only = arm;
        comparisons++;
        clear += is_clear(arm);
        with_interval += !isnan(arm->difference.low);
    }
    if (report->search)
        d9_report_judge_search(report, &text);
    else if (comparisons > 1)
        judge_many(report, comparisons, clear, with_interval, &text);
    else if (comparisons == 1)
        judge_pair(report, only, &text);
    else
        judge_uncompared(report, &text);
    judge_epochs(report, &text);
    judge_missing(report, &text);
    return d9_report_keep(context, report, &text, &report->verdict);
}
