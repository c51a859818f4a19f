/* verify: compares each reference case by tensor group, rule by rule, and by patch statistics. See verify.h. */
#include "verify/verify.h"
#include "core/system.h"
#include "verify/group_comparison.h"
#include "verify/rule_comparison.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

d9_tensor_difference d9_tensor_difference_of(const double *got, const double *want, int64_t count) {
    double squares = 0, got_square = 0, want_square = 0, dot = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const double difference = got[i] - want[i];
        squares += difference * difference;
        got_square += got[i] * got[i];
        want_square += want[i] * want[i];
        dot += got[i] * want[i];
        if (!(fabs(difference) <= largest) && !isnan(largest)) largest = fabs(difference);
    }
    return (d9_tensor_difference){.distance = sqrt(squares),
                                  .want_norm = sqrt(want_square),
                                  .largest = largest,
                                  .cosine = dot / (sqrt(got_square) * sqrt(want_square))};
}

double d9_relative_error(double distance, double scale) {
    if (isnan(scale)) return scale;
    if (scale > 0) return distance / scale;
    return distance > 0 ? INFINITY : distance;
}

bool d9_error_is_worse(double error, double limit, double worst_error, double worst_limit) {
    if (!isfinite(worst_error)) return false;
    return !(error * worst_limit <= worst_error * limit); /* not error / limit, because a limit may be 0 */
}

static void free_tensors(d9_verification *self) {
    for (int p = 0; p < D9_PERTURBATIONS; p++) d9_recorded_tensors_free(self->context, &self->perturbed[p]);
    d9_recorded_tensors_free(self->context, &self->unperturbed);
    d9_recorded_tensors_free(self->context, &self->expected);
}

/* ---- the reference backend in f64 (half precision, tf32); training steps and evaluations, rule by rule ---- */

static void report_worst(d9_verification *self, const char *group, d9_verify_row *worst) {
    snprintf(worst->name, sizeof worst->name, "%s", self->reference.name);
    snprintf(worst->group, sizeof worst->group, "%s", group);
    d9_verification_report(self, worst);
}

/* Half precision is compared with the reference backend instead of the file, and tf32 has wide limits, so in these
 * precisions the reference backend is compared with the file, too, in f64. */
static d9_status verify_reference(d9_verification *self) {
    d9_status status = D9_OK;
    d9_verify_options options = *self->options;
    d9_verify_row worst = {.passed = true};
    d9_verification by_reference = {.context = self->context,
                                    .options = &options,
                                    .precision = d9_precision_find("f64"),
                                    .sink = d9_verification_keep_worst,
                                    .user = &worst,
                                    .reference = self->reference};
    if (!d9_verification_is_half(self) && !self->precision->tf32) return D9_OK;
    options.backend = "reference";
    D9_TRY(d9_verification_compare_groups(&by_reference));
    report_worst(self, "the reference backend, in f64", &worst);
done:
    free_tensors(&by_reference);
    return status;
}

static d9_status verify_rules(d9_verification *self) {
    d9_status status = D9_OK;
    d9_config tested_config, expected_config;
    d9_session tested = {0}, expected = {0};
    const d9_reference_case *reference = &self->reference;
    const int threads = self->options->threads;
    const d9_case_run_options options = {self->options->backend, self->options->precision, threads, 0, 0},
                              by_reference = {"reference", d9_verification_reference_precision(self), threads, 0, 0};
    d9_verify_row steps = {.passed = true}, evaluations = {.passed = true};
    if (strcmp(options.backend, "reference") == 0 || reference->augmentation) return D9_OK;
    D9_TRY(d9_case_session_open(self->context, reference, &options, &tested_config, &tested));
    D9_TRY(d9_case_session_open(self->context, reference, &by_reference, &expected_config, &expected));
    D9_TRY(d9_rules_compare_steps(&tested, &expected, reference->steps, reference->name, d9_verification_keep_worst,
                                  &steps));
    D9_TRY(d9_rules_compare_views(&tested, &expected, reference->name, d9_verification_keep_worst, &evaluations));
    report_worst(self, "rule by rule", &steps);
    report_worst(self, "evaluation by rule", &evaluations);
done:
    d9_session_close(&tested);
    d9_session_close(&expected);
    return status;
}

/* ---- files and folders ---- */

static void close_case(d9_verification *self) {
    free_tensors(self);
    d9_reference_case_close(self->context, &self->reference);
}

static d9_status verify_file(d9_verification *self, const char *path) {
    d9_status status;
    D9_TRY(d9_reference_case_open(self->context, path, &self->reference));
    D9_TRY(d9_verification_compare_groups(self));
    D9_TRY(verify_reference(self));
    D9_TRY(verify_rules(self));
    D9_TRY(d9_patch_statistics_compare(self));
done:
    close_case(self);
    return status;
}

static int is_safetensors(const struct dirent *entry) { return d9_text_ends_in(entry->d_name, ".safetensors"); }

static d9_status verify_folder(d9_verification *self, const char *folder) {
    d9_status status = D9_OK;
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_safetensors, alphasort);
    if (count <= 0) D9_TRY(d9_fail(self->context, D9_DATA, "%s: no reference cases (*.safetensors) there", folder));
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        D9_TRY(verify_file(self, path));
    }
done:
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
    return status;
}

d9_status d9_verify(d9_context *context, const d9_verify_options *options, d9_verify_sink sink, void *user) {
    d9_status status;
    struct stat state;
    d9_verification self = {.context = context,
                            .options = options,
                            .precision = d9_precision_find(options->precision),
                            .sink = sink,
                            .user = user};
    if (!self.precision)
        return d9_fail(context, D9_USAGE, "precision %s is unknown; f64, f32, tf32, bf16 and fp16 are known",
                       options->precision);
    if (d9_verification_is_half(&self) && strcmp(options->backend, "reference") == 0)
        return d9_fail(context, D9_USAGE,
                       "the reference backend in %s is the reference itself: verify it in f64 or f32",
                       options->precision);
    if (context->system->stat(context->system->user, options->cases, &state) == 0 && S_ISDIR(state.st_mode))
        D9_TRY(verify_folder(&self, options->cases));
    else
        D9_TRY(verify_file(&self, options->cases));
    if (self.rows == 0) D9_TRY(d9_fail(context, D9_CHECK_FAILED, "%s: nothing was compared", options->cases));
    if (self.failed) D9_TRY(d9_fail(context, D9_CHECK_FAILED, "%d of %d comparisons failed", self.failed, self.rows));
done:
    return status;
}
