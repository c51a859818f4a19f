/* Compares a backend's tensors for a reference case with the expected ones, group by group. */
#pragma once

#include "verify/case_run.h"
#include "verify/verify.h"

enum { D9_PERTURBATIONS = 8 };

/* State of a verification: its options and the current case. */
typedef struct d9_verification {
    d9_context *context;
    const d9_verify_options *options;
    const d9_precision *precision;
    d9_verify_sink sink;
    void *user;
    int failed, rows; /* rows reported as failed; all reported rows */

    d9_reference_case reference;  /* the current case */
    d9_recorded_tensors expected; /* tensors of its file */
    bool rounds_transforms;       /* a rule of the tested backend rounded its intermediate operands (Winograd tiles,
                                   * gradients of gates) to half precision */
    bool rounds_elsewhere;        /* the tested backend rounded other tensors than the reference backend */
    /* Results of the reference backend with the file's weights and with perturbed ones; count 0: not run yet. */
    d9_recorded_tensors unperturbed, perturbed[D9_PERTURBATIONS];
} d9_verification;

/* True for half precisions. They round intermediate values, so results are compared with the reference backend in the
 * same precision, not with the file. */
bool d9_verification_is_half(const d9_verification *self);
/* Precision of the reference backend for the comparison: f32 for tf32, otherwise the same. */
const char *d9_verification_reference_precision(const d9_verification *self);

/* Runs the case on the tested backend and reports a row for each group of tensors. */
D9_MUST_USE d9_status d9_verification_compare_groups(d9_verification *self);
/* Compares `values` with tensor `name` of `expected` and reports a row; `limit` applies to every precision. */
D9_MUST_USE d9_status d9_verification_compare_tensor(d9_verification *self, const char *name, double *values,
                                                     int64_t count, double limit);
/* Reports a row. A row without compared elements fails unless it was skipped. */
void d9_verification_report(d9_verification *self, d9_verify_row *row);
/* A sink that keeps the worst row in `user`, a d9_verify_row, initially {.passed = true}. Failed rows are worse than
 * passed ones; of two failed or two passed rows, the one with the larger ratio of error to limit is worse. The kept row
 * sums the numbers of compared elements. */
void d9_verification_keep_worst(void *user, const d9_verify_row *row);
/* Returns a new row for the current case: passed, with nothing compared yet. */
d9_verify_row d9_verification_row(const d9_verification *self, const char *group, double limit);

/* Reports a row each for covariance and eigenvalues, if the file has them; one skipped row if the published dataset is
 * not there. */
D9_MUST_USE d9_status d9_patch_statistics_compare(d9_verification *self);
