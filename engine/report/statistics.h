/* Statistics for the intervals and verdicts of a report: pure functions of their arguments. A result for which there
 * are too few values is NAN.
 *
 * The results agree with R 4 to 1e-9 (tests/golden/statistics.R): t.test, binom.test, p.adjust, power.t.test, pbeta,
 * pt, qt, approx. Sources: continued fraction of the incomplete beta function (NIST DLMF 8.17.22), Welch's degrees of
 * freedom (Welch 1947, Biometrika 34), Holm 1979 (Scand. J. Statist. 6), Clopper and Pearson 1934 (Biometrika 26). */
#pragma once

#include <stdint.h>

/* ---- distributions ---- */

/* I_x(a, b), the regularised incomplete beta function: a, b > 0, x in [0, 1]. */
double d9_incomplete_beta(double x, double a, double b);
/* The x at which I_x(a, b) is p. */
double d9_incomplete_beta_inverse(double p, double a, double b);
/* P(|T| >= |t|) of Student's t; `freedom` > 0 (degrees of freedom) may be fractional. */
double d9_student_two_sided(double t, double freedom);
/* The t > 0 with P(|T| >= t) = p, p in (0, 1). */
double d9_student_two_sided_quantile(double p, double freedom);
/* P(T > t) of the noncentral t with noncentrality `shift`; t >= 0. */
double d9_noncentral_t_above(double t, double freedom, double shift);

/* ---- samples, their means, and differences of means ---- */

typedef struct d9_sample {
    int64_t count;
    double mean;             /* NAN without values */
    double deviation;        /* sample standard deviation (n - 1); NAN for fewer than two values */
    double minimum, maximum; /* NAN without values */
} d9_sample;
void d9_sample_describe(const double *values, int64_t count, d9_sample *sample);

/* An estimate with its interval. With fewer than two values (per sample), all fields but `estimate` are NAN. If all
 * values (of each sample) are equal, no variance was observed: `error` is 0, and low, high, freedom and p are NAN,
 * except that an estimate of 0 has the interval [0, 0] and p 1. */
typedef struct d9_estimate {
    double estimate;
    double low, high; /* ends of the confidence interval */
    double error;     /* standard error */
    double freedom;   /* degrees of freedom */
    double p;         /* two-sided, for the hypothesis that the value is zero */
} d9_estimate;

/* Mean of the values. `level`: confidence level, for example 0.95. */
void d9_mean_estimate(const double *values, int64_t count, double level, d9_estimate *result);
/* mean(a) - mean(b) with unequal variances (Welch). */
void d9_welch_difference(const double *a, int64_t a_count, const double *b, int64_t b_count, double level,
                         d9_estimate *result);
/* mean(a[i] - b[i]), where a[i] and b[i] share a seed. */
void d9_paired_difference(const double *a, const double *b, int64_t count, double level, d9_estimate *result);

/* ---- share of runs that reach the target ---- */

/* Share `met` / `count` with the exact interval of Clopper and Pearson; NAN if `count` is 0. */
typedef struct d9_proportion {
    double share, low, high;
} d9_proportion;
void d9_proportion_estimate(int64_t met, int64_t count, double level, d9_proportion *proportion);

/* ---- multiple comparisons and sample size ---- */

/* Computes Holm's adjusted p of `count` comparisons; NAN stays NAN and does not count as a comparison. */
void d9_holm(const double *p, int64_t count, double *adjusted);

typedef enum d9_design { D9_DESIGN_TWO_SAMPLES, D9_DESIGN_PAIRED } d9_design;
/* Power: probability that `seeds` runs per arm detect a true `difference` at significance `alpha`. `deviation`:
 * standard deviation of a run or, if paired, of a pair's difference. NAN unless `seeds` > 1 and `deviation` > 0. */
double d9_power(d9_design design, double seeds, double difference, double deviation, double alpha);
/* Smallest number of seeds per arm, at least 2, that reaches `power`. Returns 0 if the deviation is NAN, `difference`
 * is not positive, or about a million seeds do not suffice. */
int64_t d9_seeds_needed(d9_design design, double difference, double deviation, double alpha, double power);

/* ---- epochs to reach a score ---- */

/* Epochs at which the piecewise linear curve through (epochs[i], scores[i]), epochs increasing, first reaches
 * `level`. NAN: the level is above the curve or below its first point. */
double d9_epochs_to_reach(const double *epochs, const double *scores, int64_t count, double level);
