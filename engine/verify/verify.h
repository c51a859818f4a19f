/* Runs reference cases (reference_case.h: files made by another framework) through the trainer's own step program. */
#pragma once

#include "core/context.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct d9_verify_options {
    const char *cases;   /* a folder of NAME.safetensors files, or one file */
    const char *backend; /* "reference", "cpu", "auto" */
    /* Half precisions are compared with the reference backend in the same precision. tf32 is compared with the files,
     * within the limits of half precision, and rule by rule with the reference backend in f32. */
    const char *precision;
    const char *data; /* folder of the dataset for patch statistics; NULL: searched; if missing, they are skipped */
    int threads;
} d9_verify_options;

typedef struct d9_verify_row {
    char name[96];       /* name of the case; from d9_rules_compare: also the rule */
    char group[64];      /* "loss", "final state", "rule by rule", name of a tensor; from d9_rules_compare: role */
    double error, limit; /* as defined for each group in tests/golden/README.md, for rules in rule_comparison.h; NaN
                          * fails */
    double cosine;       /* in half precision and tf32, of gradients or, rule by rule, of rounded values; else NAN */
    double sensitivity;  /* error of the reference backend itself when its initial weights are perturbed (rule by rule:
                            when its inputs are truncated to tf32); NAN: not needed */
    int64_t compared;    /* number of elements; zero fails */
    bool passed, skipped;
    char note[96]; /* tensor with the worst error, or the reason for skipping the row */
} d9_verify_row;

typedef void (*d9_verify_sink)(void *user, const d9_verify_row *row);

/* Runs every case and reports its rows:
 *
 *   one for each group of tensors
 *   in half precision and tf32, one for the reference backend in f64
 *   for a training case, unless the reference backend is tested, one for steps and one for evaluations, both rule by
 *   rule (rule_comparison.h)
 *   one for each tensor of patch statistics, if the case has them; without the published dataset, one skipped row
 *
 * Several steps of a network with max pooling amplify rounding: if the two largest values of a window nearly tie,
 * rounding decides which one receives the gradient. A row beyond its limit, except of an augmented batch, is therefore
 * compared with the sensitivity of the case. This is the largest error of the reference backend, in the same precision
 * (for tf32 in f32), when its initial weights are perturbed by up to a fraction of their size:
 *
 *   2^-24 (f64), 2^-20 (f32), 2^-14 (bf16), 2^-17 (fp16), 2^-10 (tf32)
 *   2^-8 (bf16), 2^-11 (fp16), a whole rounding, if the backend rounds other tensors than the reference backend
 *   2^-7 if a rule rounds its intermediate operands to half precision
 *
 * Up to eight perturbations are tried, until the error is within twice the sensitivity, and 1 - cosine, if the row has
 * a cosine, within twice its largest change; the row then passes. Rule by rule, only products in tf32 have such a
 * tolerance.
 * Returns D9_CHECK_FAILED if a row failed or there was none, D9_DATA if a file is not a reference case, D9_USAGE if the
 * precision is unknown, or is a half precision of the reference backend. */
D9_MUST_USE d9_status d9_verify(d9_context *context, const d9_verify_options *options, d9_verify_sink sink, void *user);

/* Difference of two tensors, from which verify computes the errors that it reports. */
typedef struct d9_tensor_difference {
    double distance;  /* L2 norm of got - want */
    double want_norm; /* L2 norm of want */
    double largest;   /* largest |got - want|; NaN if any difference is NaN */
    double cosine;    /* of the angle between the tensors; NaN if one is all zeros or holds NaN */
} d9_tensor_difference;

d9_tensor_difference d9_tensor_difference_of(const double *got, const double *want, int64_t count);

/* distance / scale. With a scale of 0: 0 if distance is 0, otherwise infinity. NaN stays NaN. */
double d9_relative_error(double distance, double scale);

/* True if the error is NaN or a larger multiple of its limit than worst_error is of worst_limit; false if the worst
 * error is not finite. With a limit of 0 an error of 0 is not worse; with a worst_limit of 0 no finite error is. */
bool d9_error_is_worse(double error, double limit, double worst_error, double worst_limit);
