/* Distributions, estimates, Holm's correction, numbers of seeds, and epochs to reach a score; see statistics.h. */
#include "report/statistics.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- the incomplete beta function ---- */

/* Continued fraction by Lentz's method; converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b) {
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1), value;
    d = 1 / (fabs(d) < tiny ? tiny : d);
    value = d;
    for (int m = 1; m < 100000; m++) {
        for (int odd = 0; odd < 2; odd++) {
            const double term = odd ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
                                    : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            value *= c * d;
        }
        if (fabs(c * d - 1) < 1e-16) break;
    }
    return value;
}

/* Regularised incomplete beta function. `y` is 1 - x, passed because the subtraction would lose digits for x near 1. */
static double beta_of(double x, double y, double a, double b) {
    if (isnan(x) || !(a > 0) || !(b > 0)) return NAN;
    if (x <= 0) return 0;
    if (y <= 0) return 1;
    const double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(x, a, b) / a;
    return 1 - front * beta_fraction(y, b, a) / b;
}

double d9_incomplete_beta(double x, double a, double b) { return beta_of(x, 1 - x, a, b); }

double d9_incomplete_beta_inverse(double p, double a, double b) {
    if (!(p >= 0 && p <= 1)) return NAN;
    if (p == 0 || p == 1) return p;
    double low = 0, high = 1;
    for (;;) {
        const double middle = low + (high - low) / 2;
        if (!(middle > low && middle < high)) return middle;
        if (d9_incomplete_beta(middle, a, b) < p)
            low = middle;
        else
            high = middle;
    }
}

/* ---- Student's t ---- */

double d9_student_two_sided(double t, double freedom) {
    if (isnan(t) || !(freedom > 0)) return NAN;
    if (isinf(t)) return 0;
    const double square = t * t;
    return beta_of(freedom / (freedom + square), square / (freedom + square), freedom / 2, 0.5);
}

double d9_student_two_sided_quantile(double p, double freedom) {
    if (!(p > 0 && p < 1) || !(freedom > 0)) return NAN;
    double low = 0, high = 1;
    while (d9_student_two_sided(high, freedom) > p) {
        high *= 2;
        if (isinf(high)) return INFINITY;
    }
    for (;;) {
        const double middle = low + (high - low) / 2;
        if (!(middle > low && middle < high)) return middle;
        if (d9_student_two_sided(middle, freedom) > p)
            low = middle;
        else
            high = middle;
    }
}

/* P(T <= t) = Phi(-shift) + 1/2 sum_j (p_j I_x(j + 1/2, f/2) + q_j I_x(j + 1, f/2)), x = t^2 / (f + t^2), with f
 * degrees of freedom. p_j and q_j are Poisson weights of shift^2 / 2 at j and j + 1/2, q_j with the sign of shift
 * (Lenth 1989, Applied Statistics 38, AS 243). */
double d9_noncentral_t_above(double t, double freedom, double shift) {
    if (!(t >= 0) || !(freedom > 0) || isnan(shift)) return NAN;
    const double half = shift * shift / 2, x = t * t / (freedom + t * t), y = freedom / (freedom + t * t);
    double below = 0.5 * erfc(shift / sqrt(2.0)), remaining = 1;
    if (shift == 0) return 0.5 * d9_student_two_sided(t, freedom);
    for (int j = 0; j < 100000; j++) {
        const double p = exp(-half + j * log(half) - lgamma(j + 1.0));
        const double q = shift / sqrt(2.0) * exp(-half + j * log(half) - lgamma(j + 1.5));
        below += 0.5 * (p * beta_of(x, y, j + 0.5, freedom / 2) + q * beta_of(x, y, j + 1.0, freedom / 2));
        remaining -= p;
        if (j > half && remaining < 1e-15 && p < 1e-17) break;
    }
    return below < 1 ? 1 - below : 0;
}

/* ---- samples, their means, and differences of means ---- */

/* Element i of `a`, or of a - b if `b` is not NULL. */
static double value_at(const double *a, const double *b, int64_t i) { return b ? a[i] - b[i] : a[i]; }

static const double rounding = 1e-12; /* relative; below the last digit of any score, above rounding error */

static void describe(const double *a, const double *b, int64_t count, d9_sample *sample) {
    double sum = 0, squares = 0, largest = 0;
    *sample = (d9_sample){.count = count, .mean = NAN, .deviation = NAN, .minimum = NAN, .maximum = NAN};
    if (count < 1) return;
    sample->minimum = sample->maximum = value_at(a, b, 0);
    for (int64_t i = 0; i < count; i++) {
        const double value = value_at(a, b, i);
        sum += value;
        largest = fmax(largest, fabs(a[i]) + (b ? fabs(b[i]) : 0));
        sample->minimum = fmin(sample->minimum, value);
        sample->maximum = fmax(sample->maximum, value);
    }
    sample->mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++) {
        const double centred = value_at(a, b, i) - sample->mean;
        squares += centred * centred;
    }
    if (count > 1) sample->deviation = sqrt(squares / (double)(count - 1));
    if (sample->deviation <= rounding * largest)
        sample->deviation = 0; /* 94.2 - 94 equals 93.2 - 93 but for rounding */
}

void d9_sample_describe(const double *values, int64_t count, d9_sample *sample) {
    describe(values, NULL, count, sample);
}

static d9_estimate without_interval(double estimate) {
    return (d9_estimate){estimate, .low = NAN, .high = NAN, .error = NAN, .freedom = NAN, .p = NAN};
}

static void fill_interval_and_p(d9_estimate *result, double level) {
    if (!(result->freedom > 0)) { /* NAN: no variance was observed */
        if (result->estimate == 0) result->low = result->high = 0, result->p = 1;
        return;
    }
    const double reach = d9_student_two_sided_quantile(1 - level, result->freedom) * result->error;
    result->low = result->estimate - reach;
    result->high = result->estimate + reach;
    result->p = d9_student_two_sided(result->estimate / result->error, result->freedom);
}

static void estimate_mean_difference(const double *a, const double *b, int64_t count, double level,
                                     d9_estimate *result) {
    d9_sample sample;
    describe(a, b, count, &sample);
    *result = without_interval(sample.mean);
    if (count < 2) return;
    result->error = sample.deviation / sqrt((double)count);
    result->freedom = result->error > 0 ? (double)(count - 1) : NAN;
    fill_interval_and_p(result, level);
}

void d9_mean_estimate(const double *values, int64_t count, double level, d9_estimate *result) {
    estimate_mean_difference(values, NULL, count, level, result);
}

void d9_paired_difference(const double *a, const double *b, int64_t count, double level, d9_estimate *result) {
    estimate_mean_difference(a, b, count, level, result);
}

void d9_welch_difference(const double *a, int64_t a_count, const double *b, int64_t b_count, double level,
                         d9_estimate *result) {
    d9_sample first, second;
    d9_sample_describe(a, a_count, &first);
    d9_sample_describe(b, b_count, &second);
    *result = without_interval(first.mean - second.mean);
    if (a_count < 2 || b_count < 2) return;
    const double u = first.deviation * first.deviation / (double)a_count;
    const double v = second.deviation * second.deviation / (double)b_count;
    result->error = sqrt(u + v);
    result->freedom = (u + v) * (u + v) / (u * u / (double)(a_count - 1) + v * v / (double)(b_count - 1));
    fill_interval_and_p(result, level);
}

/* ---- reaching the target ---- */

void d9_proportion_estimate(int64_t met, int64_t count, double level, d9_proportion *proportion) {
    const double k = (double)met, n = (double)count, tail = (1 - level) / 2;
    *proportion = (d9_proportion){.share = NAN, .low = NAN, .high = NAN};
    if (count < 1) return;
    proportion->share = k / n;
    proportion->low = met == 0 ? 0 : d9_incomplete_beta_inverse(tail, k, n - k + 1);
    proportion->high = met == count ? 1 : d9_incomplete_beta_inverse(1 - tail, k + 1, n - k);
}

/* ---- many comparisons ---- */

/* True if comparison `i` precedes `j` when sorted by p. */
static bool precedes(const double *p, int64_t i, int64_t j) { return p[i] < p[j] || (p[i] == p[j] && i < j); }

/* adjusted_i = max over all j up to i in sorted order of (comparisons - rank of j) * p_j, at most 1; ranks from 0. */
void d9_holm(const double *p, int64_t count, double *adjusted) {
    int64_t comparisons = 0;
    for (int64_t i = 0; i < count; i++) comparisons += !isnan(p[i]);
    for (int64_t j = 0; j < count; j++) {
        int64_t rank = 0;
        for (int64_t i = 0; i < count; i++) rank += !isnan(p[i]) && precedes(p, i, j);
        adjusted[j] = isnan(p[j]) ? NAN : fmin(1, (double)(comparisons - rank) * p[j]);
    }
    for (;;) { /* raises each value to the largest before it in sorted order, until nothing changes */
        bool changed = false;
        for (int64_t j = 0; j < count; j++) {
            for (int64_t i = 0; i < count; i++) {
                if (isnan(p[i]) || isnan(p[j]) || !precedes(p, i, j) || !(adjusted[i] > adjusted[j])) continue;
                adjusted[j] = adjusted[i];
                changed = true;
            }
        }
        if (!changed) return;
    }
}

/* ---- sample size ---- */

double d9_power(d9_design design, double seeds, double difference, double deviation, double alpha) {
    const double samples = design == D9_DESIGN_TWO_SAMPLES ? 2 : 1, freedom = (seeds - 1) * samples;
    if (!(seeds > 1) || !(deviation > 0)) return NAN;
    return d9_noncentral_t_above(d9_student_two_sided_quantile(alpha, freedom), freedom,
                                 sqrt(seeds / samples) * difference / deviation);
}

int64_t d9_seeds_needed(d9_design design, double difference, double deviation, double alpha, double power) {
    const int64_t most = 1000000;
    int64_t low = 1, high = 2; /* too few, enough seeds */
    if (isnan(deviation) || !(difference > 0)) return 0;
    if (deviation == 0) return 2;
    while (!(d9_power(design, (double)high, difference, deviation, alpha) >= power)) {
        low = high;
        high *= 2;
        if (low > most) return 0;
    }
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (d9_power(design, (double)middle, difference, deviation, alpha) >= power)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* ---- epochs to reach a score ---- */

double d9_epochs_to_reach(const double *epochs, const double *scores, int64_t count, double level) {
    if (count < 1 || isnan(level) || level < scores[0]) return NAN;
    if (level == scores[0]) return epochs[0];
    for (int64_t i = 1; i < count; i++) {
        if (!(scores[i] >= level)) continue;
        const double part = (level - scores[i - 1]) / (scores[i] - scores[i - 1]);
        return epochs[i - 1] + part * (epochs[i] - epochs[i - 1]);
    }
    return NAN;
}
