/* Compares groups of tensors with the case file or, in half precision, with the reference backend. Relative errors are
 * ratios of L2 norms. The error of a state (MOVEMENT) is relative to the change that training made to it, so that an
 * optimizer that does nothing has error 1. See verify.h for rows beyond their limit. */
#include "verify/group_comparison.h"
#include "core/system.h"
#include "verify/verify.h"

#include <stdio.h>
#include <string.h>

typedef enum measure { RELATIVE, MOVEMENT, ABSOLUTE } measure; /* of a tensor's error; ABSOLUTE: largest |got - want| */

typedef struct group {                  /* a row of the table: tensors whose names have this prefix and suffix */
    const char *name, *prefix, *suffix; /* suffix NULL: any */
    measure measure;
    double f64, f32, half; /* limits of the error */
    bool cosine;           /* in half precision and tf32, also require a cosine of at least 0.999 */
} group;

/* Limits of tests/golden/README.md, "Tolerance". The files were computed in f64 but store their initial weights in f32;
 * the effect of that rounding on a case is its sensitivity in f64. */
static const group groups[] = {
    {"loss", "step", "/loss", RELATIVE, 1e-6, 1e-5, 2e-3, false},
    {"logits", "step", "/logits", RELATIVE, 1e-6, 1e-5, 2e-3, false},
    {"gradients", "grad/", NULL, RELATIVE, 1e-6, 1e-4, 2e-2, true},
    {"final state", "final/", NULL, MOVEMENT, 1e-6, 1e-2, 5e-2, false},
    {"average", "ema/", NULL, MOVEMENT, 1e-6, 1e-2, 5e-2, false},
    {"evaluation", "eval/", NULL, RELATIVE, 1e-6, 1e-4, 5e-3, false},
    {"augmented batch", "output", NULL, ABSOLUTE, 1e-6, 1e-6, 0, false},
};
enum { GROUPS = sizeof groups / sizeof *groups };

static const double least_cosine = 0.999;

/* ---- the verification and its rows ---- */

bool d9_verification_is_half(const d9_verification *self) {
    return self->precision->compute != self->precision->master;
}

const char *d9_verification_reference_precision(const d9_verification *self) {
    return self->precision->tf32 ? "f32" : self->precision->name;
}

void d9_verification_report(d9_verification *self, d9_verify_row *row) {
    if (row->compared == 0) row->passed = false;
    self->rows++;
    if (!row->passed && !row->skipped) self->failed++;
    self->sink(self->user, row);
}

static double ratio_to_limit(const d9_verify_row *row) {
    return row->limit > 0 ? row->error / row->limit : row->error > 0 ? INFINITY : -1;
}

void d9_verification_keep_worst(void *user, const d9_verify_row *row) {
    d9_verify_row *kept = user;
    int64_t compared = kept->compared + row->compared;
    bool passed = kept->passed && row->passed;
    if (!kept->name[0] || (kept->passed && !row->passed) ||
        (kept->passed == row->passed && ratio_to_limit(row) > ratio_to_limit(kept))) {
        *kept = *row;
        snprintf(kept->note, sizeof kept->note, "%.40s, %.50s", row->name, row->note);
    }
    kept->compared = compared;
    kept->passed = passed;
}

d9_verify_row d9_verification_row(const d9_verification *self, const char *group, double limit) {
    d9_verify_row row = {.passed = true, .limit = limit, .cosine = NAN, .sensitivity = NAN};
    snprintf(row.name, sizeof row.name, "%s", self->reference.name);
    snprintf(row.group, sizeof row.group, "%s", group);
    return row;
}

static bool in_group(const group *g, const char *name) {
    return strncmp(name, g->prefix, strlen(g->prefix)) == 0 && (!g->suffix || d9_text_ends_in(name, g->suffix));
}

/* tf32 has the limits of half precision, except for an augmented batch (ABSOLUTE), which involves no convolution. */
static double limit_of(const d9_verification *self, const group *g) {
    if (d9_verification_is_half(self) || (self->precision->tf32 && g->measure != ABSOLUTE)) return g->half;
    return self->precision->compute == D9_F64 ? g->f64 : g->f32;
}

/* ---- the error of one tensor ---- */

/* Initial values of a tensor of the final state or of the average: from the file; if it lacks them, 1 for a running
 * variance, else 0. */
static d9_status read_initial(d9_verification *self, const char *name, int64_t count, double *values) {
    const char *parameter = strchr(name, '/') + 1;
    const bool variance = d9_text_ends_in(parameter, "running_var");
    const d9_tensor *tensor = d9_reference_case_initial(&self->reference, parameter);
    for (int64_t i = 0; i < count; i++) values[i] = variance;
    if (!tensor) return D9_OK;
    if (d9_shape_count(&tensor->shape) != count)
        return d9_fail(self->context, D9_DATA, "case %s: init/%s has another size", self->reference.name, parameter);
    d9_tensor_to_doubles(tensor, values);
    return D9_OK;
}

typedef struct tensor_error {
    double error;   /* as defined by the group's measure */
    double cosine;  /* NaN if the group has no cosine, or a tensor is all zeros or holds NaN */
    double storage; /* largest part of the error that rounding the file's values to f32 can cause */
} tensor_error;

static d9_status measure_error(d9_verification *self, const group *g, const d9_recorded_tensor *got, const double *want,
                               tensor_error *measured) {
    d9_status status = D9_OK;
    double *start = NULL;
    const d9_tensor_difference difference = d9_tensor_difference_of(got->values, want, got->count);
    double scale = difference.want_norm;
    *measured = (tensor_error){.cosine = g->cosine ? difference.cosine : NAN};
    if (g->measure == MOVEMENT) {
        D9_TRY(D9_ALLOCATE(self->context, got->count, "initial state", &start));
        D9_TRY(read_initial(self, got->name, got->count, start));
        scale = d9_tensor_difference_of(want, start, got->count).distance;
        measured->storage = scale > 0 ? 6e-8 * difference.want_norm / scale : 0;
    }
    measured->error = g->measure == ABSOLUTE ? difference.largest : d9_relative_error(difference.distance, scale);
done:
    d9_release(self->context, start);
    return status;
}

/* ---- comparison ---- */

static d9_status compare_tensor(d9_verification *self, const group *g, const d9_recorded_tensor *want,
                                const d9_recorded_tensors *recorded, d9_verify_row *row) {
    d9_status status = D9_OK;
    const d9_recorded_tensor *got = d9_recorded_tensors_find(recorded, want->name);
    const bool present = got && got->count == want->count;
    const bool coarse = d9_verification_is_half(self) || self->precision->tf32;
    tensor_error measured = {.error = INFINITY};
    if (present) D9_TRY(measure_error(self, g, got, want->values, &measured));
    const double limit = limit_of(self, g) + (self->precision->compute == D9_F64 ? measured.storage : 0);
    if (!present || !(measured.error <= limit)) row->passed = false;
    if (present && g->cosine && coarse) {
        const double cosine = isnan(measured.cosine) ? -1 : measured.cosine;
        if (!(cosine >= least_cosine)) row->passed = false;
        if (!(cosine >= row->cosine)) row->cosine = cosine;
    }
    if (!row->note[0] || d9_error_is_worse(measured.error, limit, row->error, row->limit)) {
        row->error = measured.error;
        row->limit = limit;
        snprintf(row->note, sizeof row->note, "%s%s", want->name, present ? "" : " is missing");
    }
    row->compared += present ? want->count : 0;
done:
    return status;
}

/* True if the tensor belongs to the group but is not expected (half precision: by the reference backend, else by the
 * file). For MOVEMENT, a value that no step changes may be expected under its name without the prefix. */
static bool is_unexpected(const group *g, const char *name, const d9_recorded_tensors *expected) {
    const char *slash = strchr(name, '/');
    if (!in_group(g, name) || d9_recorded_tensors_find(expected, name)) return false;
    return !(g->measure == MOVEMENT && slash && d9_recorded_tensors_find(expected, slash + 1));
}

/* ---- the case's own sensitivity ---- */

/* Exponent of the weights' perturbation (case_run.h). It is the size of
 *
 *   f64          the rounding of the file's weights
 *   f32          the error of sums of products in f32, whose rms is 0.4e-6 to 2.3e-6 for the convolutions of the cases
 *   half         1/64 of the rounding, so that about six in a thousand weights round differently; the whole rounding
 *                for a backend that rounds other tensors than the reference backend
 *   tf32         the error of a convolution that rounds two operands, and two more pairs in its backward pass, each by
 *                up to 2^-11: the mean squares of the six errors add up to less than that of the perturbation
 *   transforms   changes with an rms of 0.5%, half the error of convolutions with rounded transforms */
static int perturbation_exponent(const d9_verification *self) {
    static const int of_type[] = {[D9_F64] = -24, [D9_F32] = -20, [D9_BF16] = -14, [D9_F16] = -17};
    const bool whole = self->rounds_elsewhere && d9_verification_is_half(self);
    if (self->rounds_transforms) return -7;
    return self->precision->tf32 ? -10 : of_type[self->precision->compute] + (whole ? 6 : 0);
}

/* Runs the case on the reference backend unless `recorded` already has its tensors. `perturbation` 0: with the weights
 * in the file. */
static d9_status run_reference(d9_verification *self, int perturbation, d9_recorded_tensors *recorded) {
    const d9_case_run_options options = {"reference", d9_verification_reference_precision(self), self->options->threads,
                                         perturbation, perturbation_exponent(self)};
    return recorded->count ? D9_OK : d9_case_run(self->context, &self->reference, &options, recorded);
}

/* Updates the largest error and the smallest cosine that a perturbation causes in the group's tensors. */
static d9_status add_sensitivity(d9_verification *self, const group *g, const d9_recorded_tensors *perturbed,
                                 double *error, double *cosine) {
    d9_status status = D9_OK;
    for (int i = 0; i < self->unperturbed.count; i++) {
        const d9_recorded_tensor *want = &self->unperturbed.rows[i],
                                 *got = d9_recorded_tensors_find(perturbed, want->name);
        tensor_error measured;
        if (!in_group(g, want->name) || !got) continue;
        D9_TRY(measure_error(self, g, got, want->values, &measured));
        /* Infinite: the wanted tensor is zero or, for MOVEMENT, no step changes it. NaN: a tensor holds NaN. */
        if (isfinite(measured.error)) *error = fmax(*error, measured.error);
        *cosine = fmin(*cosine, measured.cosine); /* fmin ignores NaN */
    }
done:
    return status;
}

/* Lets a row beyond its limit pass within twice the sensitivity. Runs only as many perturbations as needed. */
static d9_status compare_with_sensitivity(d9_verification *self, const group *g, d9_verify_row *row) {
    d9_status status = D9_OK;
    double error = 0, cosine = 1;
    const bool comparable = g->measure != ABSOLUTE && isfinite(row->error) && row->compared > 0;
    if (row->passed || !comparable) return D9_OK;
    D9_TRY(run_reference(self, 0, &self->unperturbed));
    for (int p = 0; p < D9_PERTURBATIONS && !row->passed; p++) {
        D9_TRY(run_reference(self, p + 1, &self->perturbed[p]));
        D9_TRY(add_sensitivity(self, g, &self->perturbed[p], &error, &cosine));
        row->passed = row->error <= 2 * error && (isnan(row->cosine) || 1 - row->cosine <= 2 * (1 - cosine));
    }
    row->sensitivity = error;
done:
    return status;
}

/* ---- rows ---- */

static d9_status compare_group(d9_verification *self, const group *g, const d9_recorded_tensors *expected,
                               const d9_recorded_tensors *recorded) {
    d9_status status = D9_OK;
    d9_verify_row row = d9_verification_row(self, g->name, limit_of(self, g));
    int tensors = 0;
    for (int i = 0; i < expected->count; i++) {
        if (!in_group(g, expected->rows[i].name)) continue;
        D9_TRY(compare_tensor(self, g, &expected->rows[i], recorded, &row));
        tensors++;
    }
    for (int i = 0; i < recorded->count; i++) {
        if (!is_unexpected(g, recorded->rows[i].name, expected)) continue;
        row.passed = false;
        row.error = INFINITY;
        snprintf(row.note, sizeof row.note, "%.70s is not in the reference", recorded->rows[i].name);
        tensors++;
    }
    if (tensors == 0) return D9_OK; /* the case has no tensor of this group */
    D9_TRY(compare_with_sensitivity(self, g, &row));
    d9_verification_report(self, &row);
done:
    return status;
}

static d9_status read_expected(d9_verification *self) {
    d9_status status = D9_OK;
    const d9_safetensors *file = self->reference.file;
    double *values;
    for (int i = 0; i < file->tensor_count; i++) {
        const d9_tensor *tensor = &file->tensors[i];
        D9_TRY(d9_recorded_tensors_add(self->context, &self->expected, "", tensor->name, d9_shape_count(&tensor->shape),
                                       &values));
        d9_tensor_to_doubles(tensor, values);
    }
done:
    return status;
}

d9_status d9_verification_compare_groups(d9_verification *self) {
    d9_status status;
    const d9_case_run_options options = {self->options->backend, self->precision->name, self->options->threads, 0, 0};
    const bool half = d9_verification_is_half(self), by_reference = strcmp(options.backend, "reference") == 0;
    d9_recorded_tensors other = {0}, *recorded = by_reference ? &self->unperturbed : &other;
    D9_TRY(read_expected(self));
    D9_TRY(d9_case_run(self->context, &self->reference, &options, recorded));
    self->rounds_transforms = recorded->rounds_transforms;
    self->rounds_elsewhere = recorded->rounds_elsewhere;
    if (half) D9_TRY(run_reference(self, 0, &self->unperturbed));
    for (int g = 0; g < GROUPS; g++)
        D9_TRY(compare_group(self, &groups[g], half ? &self->unperturbed : &self->expected, recorded));
done:
    d9_recorded_tensors_free(self->context, &other);
    return status;
}

d9_status d9_verification_compare_tensor(d9_verification *self, const char *name, double *values, int64_t count,
                                         double limit) {
    d9_recorded_tensor row = {name, values, count};
    const d9_recorded_tensors recorded = {.rows = &row, .count = 1};
    const group g = {name, name, NULL, RELATIVE, limit, limit, limit, false};
    return compare_group(self, &g, &self->expected, &recorded);
}
