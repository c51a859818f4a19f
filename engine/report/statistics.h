/* The statistics behind every interval and verdict of a report. Pure functions of their arguments: no state, no memory,
 * no failure. A figure for which there are too few values is NAN, and is shown as such.
 *
 * Agrees with R 4 to 1e-9 (tests/golden/statistics.R): t.test, binom.test, p.adjust, power.t.test, pbeta, pt, qt,
 * approx. Sources: the incomplete beta function by its continued fraction (NIST DLMF 8.17.22), Welch's degrees of
 * freedom (Welch 1947, Biometrika 34), Holm 1979 (Scand. J. Statist. 6), Clopper and Pearson 1934 (Biometrika 26). */
#ifndef D9_REPORT_STATISTICS_H
#define D9_REPORT_STATISTICS_H

#include <stdint.h>

/* ---- distributions ---- */

/* I_x(a, b), the regularised incomplete beta function: a, b > 0, x in [0, 1]. */
double d9_incomplete_beta(double x, double a, double b);
/* The x at which I_x(a, b) is p. */
double d9_incomplete_beta_inverse(double p, double a, double b);
/* P(|T| >= |t|) of Student's t; `freedom` > 0 need not be whole. */
double d9_student_two_sided(double t, double freedom);
/* The t > 0 with P(|T| >= t) = p, p in (0, 1). */
double d9_student_quantile(double p, double freedom);
/* P(T > t) of the noncentral t with noncentrality `shift`; t >= 0. */
double d9_student_shifted_above(double t, double freedom, double shift);

/* ---- one sample ---- */

typedef struct d9_sample {
    int64_t count;
    double mean;             /* NAN: no value */
    double deviation;        /* of a sample (n - 1); NAN below two values */
    double minimum, maximum; /* NAN: no value */
} d9_sample;
void d9_sample_describe(const double *values, int64_t count, d9_sample *sample);

/* An estimate and what is known about it. Below two values (or two each) all but the estimate is NAN. Where every value
 * is the same the error is 0 and the rest NAN: values without variance say nothing of how far the next one may lie.
 * Where that value is 0, the interval is that point and p is 1. */
typedef struct d9_estimate {
    double estimate;
    double low, high; /* of the interval */
    double error;     /* standard error */
    double freedom;   /* degrees of freedom */
    double p;         /* two-sided, of the estimate being zero */
} d9_estimate;

/* `level` is the confidence, 0.95 say. */
void d9_mean_estimate(const double *values, int64_t count, double level, d9_estimate *result);
/* mean(a) - mean(b), variances unequal. */
void d9_welch_difference(const double *a, int64_t a_count, const double *b, int64_t b_count, double level,
                         d9_estimate *result);
/* mean(a[i] - b[i]): the pairs share a seed. */
void d9_paired_difference(const double *a, const double *b, int64_t count, double level, d9_estimate *result);

/* ---- reaching the target ---- */

/* `met` of `count` runs: the share, with the exact interval of Clopper and Pearson. */
typedef struct d9_chance {
    double share, low, high;
} d9_chance;
void d9_chance_counted(int64_t met, int64_t count, double level, d9_chance *chance);

/* ---- many comparisons, and how many runs to make ---- */

/* Holm's adjusted p of each of `count`; NAN stays NAN and is not counted among the comparisons. */
void d9_holm(const double *p, int64_t count, double *adjusted);

typedef enum d9_design { D9_DESIGN_TWO_SAMPLES, D9_DESIGN_PAIRED } d9_design;
/* The chance that `seeds` runs in each arm show a true `difference` at `alpha`. `deviation`: of one run, or, paired, of
 * one pair's difference. */
double d9_power(d9_design design, double seeds, double difference, double deviation, double alpha);
/* The fewest seeds an arm whose power is at least `power`; 2 at the least. 0: deviation unknown, or over a million. */
int64_t d9_seeds_needed(d9_design design, double difference, double deviation, double alpha, double power);

/* ---- the time axis ---- */

/* The epochs at which the curve through (epochs[i], accuracy[i]), epochs increasing, first reaches `level`, straight
 * lines between its points. NAN: above all of the curve, or below its first point. */
double d9_epochs_to_reach(const double *epochs, const double *accuracy, int64_t count, double level);

#endif
