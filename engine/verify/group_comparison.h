/* Comparing the tensors that a backend made of a reference case with the expected ones, group by group. */
#ifndef D9_VERIFY_GROUP_COMPARISON_H
#define D9_VERIFY_GROUP_COMPARISON_H

#include "verify/case_run.h"
#include "verify/verify.h"

enum { D9_PERTURBATIONS = 8 };

/* One verification: what was asked, and the case at hand. */
typedef struct d9_verification {
    d9_context *context;
    const d9_verify_options *options;
    const d9_precision *precision;
    d9_verify_sink sink;
    void *user;
    int failed, rows;

    d9_reference_case reference;  /* the case at hand */
    d9_recorded_tensors expected; /* what its file holds */
    /* What the reference backend makes of it, from the file's weights and from perturbed ones; count 0: it has not run
     * yet. */
    d9_recorded_tensors unperturbed, perturbed[D9_PERTURBATIONS];
} d9_verification;

/* Half precision: values are rounded on their way, so they are not compared with the file's. */
bool d9_verification_is_half(const d9_verification *self);
/* The precision in which the reference backend is compared with this one: f32 for tf32, else the same. */
const char *d9_verification_reference_precision(const d9_verification *self);

/* Runs the case on the backend under test, and reports a row for each group of tensors. */
D9_MUST_USE d9_status d9_verification_compare_groups(d9_verification *self);
/* Reports a row for one tensor of the file, held to `limit` in every precision. */
D9_MUST_USE d9_status d9_verification_compare_tensor(d9_verification *self, const char *name, double *values,
                                                     int64_t count, double limit);
/* A row in which nothing was compared fails, unless it was skipped. */
void d9_verification_report(d9_verification *self, d9_verify_row *row);
/* A sink that sums up rows in `user`, at first a row that passed and compared nothing: the one furthest beyond its
 * limit, one that failed before all that passed. Elements add up. */
void d9_verification_keep_worst(void *user, const d9_verify_row *row);
/* A row about the case at hand in which nothing was compared yet. */
d9_verify_row d9_verification_row(const d9_verification *self, const char *group, double limit);

#endif
