/* Computes the statistics of a report: each arm's runs, its difference from the baseline, series and epochs saved. */
#include "report/report_parts.h"

#include <string.h>

const d9_report_arm *d9_report_next(const d9_report *report, d9_report_sort_key *size, int which,
                                    const d9_report_arm *before) {
    const double limit = before ? size(report, before, which) : INFINITY;
    const d9_report_arm *best = NULL;
    for (const d9_report_arm *arm = report->arms; arm < report->arms + report->arm_count; arm++) {
        const double value = size(report, arm, which);
        if (isnan(value) || value > limit || (value == limit && arm <= before)) continue;
        if (!best || value > size(report, best, which)) best = arm;
    }
    return best;
}

double d9_report_gain(const d9_report *report, double score) {
    return report->measure->higher_is_better ? score : -score;
}

double d9_report_mean_of(const d9_report *report, const d9_report_arm *arm, int which) {
    (void)which;
    return d9_report_gain(report, arm->sample.mean);
}

/* ---- the runs of an arm ---- */

/* Finds the first epoch that reached the arm's target in the recorded epochs of a run that was trained for another
 * target. */
static void find_epoch_to_target(const d9_report *report, const d9_report_arm *arm, d9_report_run *run) {
    size_t i;
    const json_t *row;
    const double own = d9_json_real(run->result, "target");
    if (isnan(own) || own == arm->target) return;
    run->epoch_to_target = NAN;
    json_array_foreach(json_object_get(run->result, "epochs"), i, row) {
        if (!d9_measure_reaches(report->measure, d9_json_score(row, report->measure), arm->target)) continue;
        run->epoch_to_target = d9_json_real(row, "epoch");
        return;
    }
}

static d9_status collect_runs(d9_context *context, d9_report *report, int index) {
    d9_status status = D9_OK;
    d9_report_arm *arm = &report->arms[index];
    double *seconds, trained = 0, teraflop = 0;
    int timed = 0;
    bool differ = false;
    const size_t most = (size_t)arm->planned + 1;
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, most, &arm->scores));
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, most, &arm->seeds));
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, most, &seconds));
    arm->configured_epochs = NAN;
    arm->target = NAN;
    for (int r = 0; r < report->run_count; r++) {
        const d9_report_run *run = &report->runs[r];
        if (run->arm != index || !run->result) continue;
        int at = arm->count++; /* insertion sort by seed */
        for (; at > 0 && arm->seeds[at - 1] > run->seed; at--) {
            arm->seeds[at] = arm->seeds[at - 1];
            arm->scores[at] = arm->scores[at - 1];
        }
        arm->seeds[at] = run->seed;
        arm->scores[at] = run->score;
        if (!isnan(run->train_seconds)) seconds[timed++] = run->train_seconds;
        arm->configured_epochs =
            d9_json_real(json_object_get(json_object_get(run->result, "config"), "train"), "epochs");
        trained += d9_report_trained(report, run);
        teraflop += d9_json_real(run->result, "train_teraflop") + d9_json_real(run->result, "evaluation_teraflop");
        const double target = d9_json_real(run->result, "target");
        differ |= !isnan(target) && !isnan(arm->target) && target != arm->target;
        if (!isnan(target)) arm->target = target;
    }
    if (differ || isnan(arm->target)) arm->target = report->target; /* the runs differ or record none */
    for (int r = 0; r < report->run_count; r++)
        if (report->runs[r].arm == index) find_epoch_to_target(report, arm, &report->runs[r]);
    for (int i = 0; i < arm->count; i++) arm->met += d9_measure_reaches(report->measure, arm->scores[i], arm->target);
    arm->trained_epochs = arm->count > 0 ? trained / arm->count : NAN;
    arm->teraflop = arm->count > 0 ? teraflop / arm->count : NAN;
    d9_sample_describe(seconds, timed, &arm->seconds);
done:
    return status;
}

static void clip(d9_estimate *estimate, double low, double high) {
    if (isnan(estimate->low)) return;
    estimate->low = fmax(estimate->low, low);
    estimate->high = fmin(estimate->high, high);
}

void d9_report_clip_difference(const d9_report *report, d9_estimate *difference) {
    const double range = report->measure->maximum - report->measure->minimum;
    clip(difference, -range, range);
}

void d9_report_mean(const d9_report *report, const double *scores, int count, d9_estimate *mean) {
    d9_mean_estimate(scores, count, D9_REPORT_LEVEL, mean);
    clip(mean, report->measure->minimum, report->measure->maximum);
}

static void describe_arm(d9_report *report, d9_report_arm *arm) {
    d9_sample_describe(arm->scores, arm->count, &arm->sample);
    d9_report_mean(report, arm->scores, arm->count, &arm->mean);
    d9_proportion_estimate(arm->met, isnan(arm->target) ? 0 : arm->count, D9_REPORT_LEVEL, &arm->met_share);
    if (arm->count > report->most_seeds) report->most_seeds = arm->count;
}

/* ---- an arm and its baseline ---- */

/* Collects the scores of the seeds that both arms finished, in ascending order of the seeds: pairs[0] of `arm`,
 * pairs[1] of `base`. Returns their number. */
static int pair_scores(const d9_report_arm *arm, const d9_report_arm *base, double *const pairs[2]) {
    int count = 0;
    for (int a = 0, b = 0; a < arm->count && b < base->count;) {
        if (arm->seeds[a] == base->seeds[b]) {
            pairs[0][count] = arm->scores[a];
            pairs[1][count++] = base->scores[b];
        }
        const bool next = arm->seeds[a] <= base->seeds[b];
        b += arm->seeds[a] >= base->seeds[b];
        a += next;
    }
    return count;
}

/* True if all runs of `arm` are also runs of `other`: arms with identical configurations have the same runs. */
static bool runs_are_subset(const d9_report *report, int arm, int other) {
    for (int r = 0; r < report->run_count; r++) {
        bool shared = report->runs[r].arm != arm;
        for (int s = 0; s < report->run_count && !shared; s++)
            shared = report->runs[s].arm == other && strcmp(report->runs[s].folder, report->runs[r].folder) == 0;
        if (!shared) return false;
    }
    return true;
}

/* Index of the first arm that has all runs of the arm with index `arm`. */
static int first_with_runs_of(const d9_report *report, int arm) {
    const d9_report_run *end = report->runs + report->run_count, *own = report->runs;
    int first = arm;
    while (own < end && own->arm != arm) own++;
    if (own == end) return 0; /* it has no runs */
    for (const d9_report_run *run = report->runs; run < end; run++)
        if (run->arm >= 0 && run->arm < first && strcmp(run->folder, own->folder) == 0 &&
            runs_are_subset(report, arm, run->arm))
            first = run->arm;
    return first;
}

/* True if all finished runs of both arms were evaluated on the same images, texts or words. */
static bool is_comparable(const d9_report *report, const d9_report_arm *arm, const d9_report_arm *base) {
    const int a = (int)(arm - report->arms), b = (int)(base - report->arms);
    const d9_report_run *end = report->runs + report->run_count;
    for (const d9_report_run *one = report->runs; one < end; one++)
        for (const d9_report_run *other = report->runs; one->arm == a && one->result && other < end; other++)
            if (other->arm == b && other->result && !d9_report_same_samples(one, other)) return false;
    return true;
}

/* Compares an arm with its baseline, by the seeds that both finished if there are at least two, else by Welch's t. Sets
 * *deviation to the standard deviation from which the number of needed seeds is computed. */
static void compare_runs(const d9_report_arm *base, double *const pairs[2], d9_report_arm *arm, double *deviation) {
    const double own = arm->sample.deviation, its = base->sample.deviation;
    const int shared = pair_scores(arm, base, pairs);
    d9_welch_difference(arm->scores, arm->count, base->scores, base->count, D9_REPORT_LEVEL, &arm->welch);
    arm->difference = arm->welch;
    arm->compared = isnan(arm->welch.estimate) ? 0 : arm->count;
    *deviation = sqrt((own * own + its * its) / 2);
    arm->paired = shared >= 2;
    if (!arm->paired) return;
    d9_paired_difference(pairs[0], pairs[1], shared, D9_REPORT_LEVEL, &arm->difference);
    arm->compared = shared;
    *deviation = arm->difference.error * sqrt((double)shared);
}

static d9_status compare_with_baseline(d9_context *context, d9_report *report, d9_report_arm *arm) {
    d9_status status;
    const d9_estimate nothing = {NAN, NAN, NAN, NAN, NAN, NAN};
    double *scores;
    arm->difference = arm->welch = nothing;
    double deviation = arm->sample.deviation;
    const d9_report_arm *base = arm->baseline >= 0 ? &report->arms[arm->baseline] : NULL;
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, 2 * (size_t)arm->count, &scores));
    arm->comparable = base && is_comparable(report, arm, base);
    if (arm->comparable && base->runs_of != arm->runs_of)
        compare_runs(base, (double *[]){scores, scores + arm->count}, arm, &deviation);
    d9_report_clip_difference(report, &arm->difference);
    d9_report_clip_difference(report, &arm->welch);
    if (deviation == 0 && arm->difference.estimate != 0)
        deviation = NAN; /* no variance was observed, but there may be some */
    arm->seeds_needed =
        d9_seeds_needed(arm->paired ? D9_DESIGN_PAIRED : D9_DESIGN_TWO_SAMPLES, report->measure->detectable_difference,
                        deviation, 1 - D9_REPORT_LEVEL, D9_REPORT_POWER);
done:
    return status;
}

/* True if two arms with baselines compare the same two sets of runs, in either direction. */
static bool is_same_comparison(const d9_report *report, const d9_report_arm *one, const d9_report_arm *other) {
    const d9_report_arm *a = report->arms[one->baseline].runs_of, *b = report->arms[other->baseline].runs_of;
    return (one->runs_of == other->runs_of && a == b) || (one->runs_of == b && a == other->runs_of);
}

/* Adjusts the p of all differences by Holm. A comparison that several arms make counts once. */
static d9_status adjust_p_values(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    double *p = NULL;
    const size_t count = (size_t)report->arm_count;
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, 2 * count, &p));
    double *adjusted = p + count;
    for (size_t i = 0; i < count; i++) {
        d9_report_arm *arm = &report->arms[i], *first = report->arms;
        while (first < arm && (first->baseline < 0 || arm->baseline < 0 || !is_same_comparison(report, first, arm)))
            first++;
        arm->comparison_of = first;
        p[i] = first == arm ? arm->difference.p : (double)NAN;
    }
    d9_holm(p, report->arm_count, adjusted);
    for (size_t i = 0; i < count; i++) report->arms[i].holm = adjusted[report->arms[i].comparison_of - report->arms];
done:
    return status;
}

static void set_run_differences(d9_report *report) {
    for (int r = 0; r < report->run_count; r++) {
        d9_report_run *run = &report->runs[r];
        const int baseline = run->arm >= 0 ? report->arms[run->arm].baseline : -1;
        if (!run->result || baseline < 0 || !report->arms[run->arm].comparable) continue;
        const d9_report_arm *base = &report->arms[baseline];
        double reference = base->sample.mean;
        for (int i = 0; i < base->count; i++)
            if (base->seeds[i] == run->seed) reference = base->scores[i];
        run->difference = run->score - reference;
    }
}

/* ---- series: arms that differ only in the number of epochs ---- */

/* Adds the name of an arm, ARM[,KEY=VALUE...], without train.epochs. */
static void series_name(const char *name, d9_text *text) {
    static const char key[] = ",train.epochs=";
    const char *at = strstr(name, key);
    if (!at) {
        d9_text_add(text, "%s", name);
        return;
    }
    const char *rest = at + sizeof key - 1;
    d9_text_add(text, "%.*s%s", (int)(at - name), name, rest + strcspn(rest, ","));
}

static d9_status set_series(d9_context *context, d9_report *report, d9_report_arm *arm) {
    d9_status status = D9_OK;
    d9_text text;
    char *name;
    d9_text_init(context, &text);
    series_name(arm->name, &text);
    D9_TRY(d9_text_status(&text));
    D9_TRY(d9_arena_copy(context, &report->arena, d9_text_get(&text), &name));
    for (arm->series = 0; arm->series < report->series_count; arm->series++)
        if (strcmp(report->series[arm->series].name, name) == 0) break;
    if (arm->series == report->series_count)
        report->series[report->series_count++] =
            (d9_report_series){.name = name, .label = strcmp(arm->name, name) == 0 ? arm->label : name};
done:
    d9_text_free(&text);
    return status;
}

static void give_colour(d9_report *report, const d9_report_arm *arm, int *coloured) {
    d9_report_series *series = &report->series[arm->series];
    if (*coloured < D9_REPORT_SERIES && !series->colour) series->colour = ++*coloured;
}

static double difference_size(const d9_report *report, const d9_report_arm *arm, int which) {
    (void)report;
    (void)which;
    return isnan(arm->difference.estimate) ? 0 : fabs(arm->difference.estimate);
}

/* Gives up to six series a colour: first those of baselines, then those of other arms, by descending size of the
 * difference; ties in the order of the experiment. */
static void colour_series(d9_report *report) {
    int coloured = 0;
    for (int a = 0; a < report->arm_count; a++)
        for (int b = 0; b < report->arm_count; b++)
            if (report->arms[b].baseline == a) give_colour(report, &report->arms[a], &coloured);
    for (const d9_report_arm *arm = NULL; (arm = d9_report_next(report, difference_size, 0, arm));)
        give_colour(report, arm, &coloured);
}

/* Fills the curve of a series: a point per arm with finished runs, its trained epochs (ascending) and d9_report_gain of
 * its mean score. Returns the number of points. */
static int fill_curve(const d9_report *report, int series, double *epochs, double *means) {
    int count = 0;
    for (int a = 0; a < report->arm_count; a++) {
        const d9_report_arm *arm = &report->arms[a];
        if (arm->series != series || isnan(arm->trained_epochs)) continue;
        int at = count++;
        for (; at > 0 && epochs[at - 1] > arm->trained_epochs; at--) {
            epochs[at] = epochs[at - 1];
            means[at] = means[at - 1];
        }
        epochs[at] = arm->trained_epochs;
        means[at] = d9_report_mean_of(report, arm, 0);
    }
    return count;
}

/* d9_report_gain of an arm's mean score. If its difference covers only part of the runs, uses the baseline's mean plus
 * the difference instead, because the remaining runs have other seeds. */
static double level_of(const d9_report *report, const d9_report_arm *arm) {
    const d9_report_arm *base = arm->baseline >= 0 ? &report->arms[arm->baseline] : NULL;
    if (!base || !arm->paired || (arm->compared == arm->count && arm->compared == base->count))
        return d9_report_mean_of(report, arm, 0);
    return d9_report_gain(report, base->sample.mean + arm->difference.estimate);
}

/* Sets the epochs_saved of every arm and the report's `sweep` (report.h). */
static d9_status set_epochs_saved(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    double *epochs = NULL;
    const size_t count = (size_t)report->arm_count;
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, 2 * count, &epochs));
    double *means = epochs + count;
    for (int a = 0; a < report->arm_count; a++) {
        d9_report_arm *arm = &report->arms[a];
        const int against = report->arms[arm->baseline >= 0 ? arm->baseline : 0].series;
        const int points = fill_curve(report, against, epochs, means);
        arm->epochs_saved = NAN;
        if (points > 1) report->sweep = true;
        if (points > 1 && against != arm->series && (arm->baseline < 0 || arm->comparable))
            arm->epochs_saved = d9_epochs_to_reach(epochs, means, points, level_of(report, arm)) - arm->trained_epochs;
    }
done:
    return status;
}

d9_status d9_report_compute(d9_context *context, d9_report *report) {
    d9_status status = D9_OK;
    D9_TRY(D9_ARENA_ALLOCATE(context, &report->arena, report->arm_count, &report->series));
    for (int a = 0; a < report->arm_count; a++) {
        report->arms[a].runs_of = &report->arms[first_with_runs_of(report, a)];
        D9_TRY(collect_runs(context, report, a));
        describe_arm(report, &report->arms[a]);
        D9_TRY(set_series(context, report, &report->arms[a]));
    }
    if (report->arm_count > 0) report->target = report->arms[0].target;
    for (int a = 0; a < report->arm_count; a++)
        if (report->arms[a].target != report->arms[0].target) report->target = NAN;
    for (int a = 0; a < report->arm_count; a++) D9_TRY(compare_with_baseline(context, report, &report->arms[a]));
    D9_TRY(adjust_p_values(context, report));
    set_run_differences(report);
    colour_series(report);
    D9_TRY(set_epochs_saved(context, report));
    if (report->search) d9_report_find_frontier(report);
done:
    return status;
}
