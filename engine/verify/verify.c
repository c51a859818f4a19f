/* verify: what a backend made of the reference cases, compared tensor group by tensor group.
 *
 * f64, f32 and tf32 are compared with the files; half precisions with the reference backend that rounds at the same
 * edges. Relative error is L2; a state's error is taken relative to how far training moved it, so that an
 * optimizer that does nothing scores 1. */
#include "verify/verify.h"
#include "core/system.h"
#include "step/patches.h"
#include "verify/reference_case.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum measure { RELATIVE, MOVEMENT, ABSOLUTE } measure;

typedef struct group {                  /* one row of the table: the tensors whose names begin so */
    const char *name, *prefix, *suffix; /* suffix: NULL, or what the name ends in */
    measure measure;
    double f64, f32, half; /* limits */
    bool cosine;           /* half precision: at least 0.999 as well */
} group;

/* tests/golden/README.md, "Tolerance". The files were computed in f64 but hold their initial weights in f32, so
 * f64 cannot come closer than what that rounding does to a gradient: PyTorch in f64, started from the files'
 * weights, differs from them by up to 1.7e-6 in gradients, the same as this engine does. */
static const group groups[] = {
    {"loss", "step", "/loss", RELATIVE, 1e-6, 1e-5, 2e-3, false},
    {"logits", "step", "/logits", RELATIVE, 1e-6, 1e-5, 2e-3, false},
    {"gradients", "grad/", NULL, RELATIVE, 3e-6, 1e-4, 2e-2, true},
    {"final state", "final/", NULL, MOVEMENT, 3e-6, 1e-2, 5e-2, false},
    {"average", "ema/", NULL, MOVEMENT, 3e-6, 1e-2, 5e-2, false},
    {"evaluation", "eval/", NULL, RELATIVE, 1e-6, 1e-4, 5e-3, false},
    {"pipeline", "output", NULL, ABSOLUTE, 1e-6, 1e-6, 0, false},
};
enum { GROUPS = sizeof groups / sizeof *groups };

typedef struct verification {
    d9_context *context;
    const d9_verify_options *options;
    const d9_precision *precision;
    d9_verify_sink sink;
    void *user;
    int failed, rows;
    d9_observations *jittered; /* [JITTERS] of the case at hand, made when first asked for; count 0: not yet */
    d9_observations unmoved;   /* the reference in this precision, for tf32 in f32, without jitter */
} verification;
enum { JITTERS = 8 };

static bool half(const verification *self) { return self->precision->compute != self->precision->master; }
static bool coarse(const verification *self) { return half(self) || self->precision->tf32; }

static bool belongs(const group *g, const char *name) {
    size_t length = strlen(name), tail = g->suffix ? strlen(g->suffix) : 0;
    return strncmp(name, g->prefix, strlen(g->prefix)) == 0 &&
           (!g->suffix || (length > tail && strcmp(name + length - tail, g->suffix) == 0));
}

static void report(verification *self, d9_verify_row *row) {
    self->rows++;
    if (!row->passed && !row->skipped) self->failed++;
    self->sink(self->user, row);
}

static double norm_of_difference(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (a[i] - (b ? b[i] : 0)) * (a[i] - (b ? b[i] : 0));
    return sqrt(sum);
}

static double cosine(const double *a, const double *b, int64_t count) {
    double dot = 0;
    for (int64_t i = 0; i < count; i++) dot += a[i] * b[i];
    return dot / (norm_of_difference(a, NULL, count) * norm_of_difference(b, NULL, count));
}

/* Where a state tensor started: the file's init, or 0 and 1 for running statistics. */
static d9_status initial(verification *self, const d9_case *c, const char *name, int64_t count, double *values) {
    char key[160];
    const char *parameter = strchr(name, '/') + 1;
    size_t length = strlen(parameter);
    snprintf(key, sizeof key, "init/%s", parameter);
    bool variance = length > 11 && strcmp(parameter + length - 11, "running_var") == 0;
    const d9_tensor *tensor = d9_safetensors_find(c->file, strstr(parameter, ".whiten.") ? "whiten.filters" : key);
    for (int64_t i = 0; i < count; i++) values[i] = variance;
    if (!tensor) return D9_OK;
    if (d9_shape_count(&tensor->shape) != count)
        return d9_fail(self->context, D9_DATA, "case %s: %s has another size", c->name, key);
    d9_tensor_to_doubles(tensor, values);
    return D9_OK;
}

/* The error of one tensor by the group's measure. `limit` gains what storing the file in float32 alone costs. */
static d9_status tensor_error(verification *self, const d9_case *c, const group *g, const d9_observation *got,
                              const double *want, double *error, double *storage) {
    d9_status status = D9_OK;
    double scale = norm_of_difference(want, NULL, got->count);
    void *start = NULL;
    *storage = 0;
    if (g->measure == ABSOLUTE) {
        *error = 0;
        for (int64_t i = 0; i < got->count; i++)
            if (!(fabs(got->values[i] - want[i]) <= *error)) *error = fabs(got->values[i] - want[i]);
        return D9_OK;
    }
    if (g->measure == MOVEMENT) {
        D9_TRY(d9_allocate(self->context, (size_t)got->count * sizeof(double), "initial state", &start));
        D9_TRY(initial(self, c, got->name, got->count, start));
        double moved = norm_of_difference(want, start, got->count);
        *storage = moved > 0 ? 6e-8 * scale / moved : 0;
        scale = moved;
    }
    *error = norm_of_difference(got->values, want, got->count);
    if (scale > 0)
        *error /= scale;
    else if (*error > 0)
        *error = INFINITY; /* what must not move has moved */
done:
    d9_release(self->context, start);
    return status;
}

/* tf32 has half's limits but for what is compared absolutely: pipelines, which convolve nothing. */
static double limit_of(const verification *self, const group *g) {
    if (half(self) || (self->precision->tf32 && g->measure != ABSOLUTE)) return g->half;
    return self->precision->compute == D9_F64 ? g->f64 : g->f32;
}

/* The tensors to compare with: the file's, or in half precision the reference run's. */
typedef struct expected {
    const d9_safetensors *file;
    const d9_observations *run;
} expected;

static int expected_count(const expected *e) { return e->run ? e->run->count : e->file->tensor_count; }
static const char *expected_name(const expected *e, int i) {
    return e->run ? e->run->rows[i].name : e->file->tensors[i].name;
}

static d9_status expected_values(verification *self, const expected *e, int i, int64_t *count, double **values) {
    void *memory;
    *count = e->run ? e->run->rows[i].count : d9_shape_count(&e->file->tensors[i].shape);
    d9_status status = d9_allocate(self->context, (size_t)*count * sizeof(double), "expected values", &memory);
    if (status != D9_OK) return status;
    *values = memory;
    if (e->run)
        memcpy(memory, e->run->rows[i].values, (size_t)*count * sizeof(double));
    else
        d9_tensor_to_doubles(&e->file->tensors[i], memory);
    return D9_OK;
}

/* Whether this error stands for the row in place of the one it has: NaN is the worst there is. */
static bool is_worse(const d9_verify_row *row, double error, double limit) {
    if (!row->note[0]) return true; /* the first */
    return !isnan(row->error) && !(error / limit <= row->error / row->limit);
}

static d9_status compare_tensor(verification *self, const d9_case *c, const group *g, const expected *e, int i,
                                const d9_observations *got, d9_verify_row *row) {
    d9_status status;
    const char *name = expected_name(e, i);
    const d9_observation *mine = d9_observations_find(got, name);
    double *want = NULL, error = INFINITY, storage = 0;
    int64_t count;
    D9_TRY(expected_values(self, e, i, &count, &want));
    bool present = mine && mine->count == count;
    if (present) D9_TRY(tensor_error(self, c, g, mine, want, &error, &storage));
    bool angled = present && g->cosine && coarse(self);
    double angle = angled ? cosine(mine->values, want, count) : NAN;
    if (angled && isnan(angle)) angle = -1; /* nothing, or NaN, points nowhere */
    double limit = limit_of(self, g) + (self->precision->compute == D9_F64 ? storage : 0);
    if (!(error <= limit) || (!isnan(angle) && !(angle >= 0.999)) || !present) row->passed = false;
    if (is_worse(row, error, limit)) {
        row->error = error;
        row->limit = limit;
        snprintf(row->note, sizeof row->note, "%s%s", name, present ? "" : " is missing");
    }
    if (!isnan(angle) && !(angle >= row->cosine)) row->cosine = angle;
    row->compared += present ? count : 0;
done:
    d9_release(self->context, want);
    return status;
}

/* f32: its last bit. Half precisions: a thirty-second of their rounding, so that three weights in a hundred round
 * otherwise. tf32: all of its rounding, which the reference in f32 does not do. */
static int jitter_exponent(const d9_precision *precision) {
    if (precision->tf32) return -11;
    return precision->compute == D9_BF16 ? -14 : precision->compute == D9_F16 ? -17 : -23;
}

/* The precision in which the reference stands for this one. */
static const char *reference_precision(const verification *self) {
    return self->precision->tf32 ? "f32" : self->precision->name;
}

static d9_status observe(verification *self, const d9_case *c, const char *backend, const char *precision, int jitter,
                         d9_observations *all) {
    d9_case_run how = {backend, precision, self->options->threads, jitter, jitter_exponent(self->precision)};
    if (d9_case_is_pipeline(c->file)) return d9_pipeline_observe(self->context, c->file, &how, all);
    return d9_case_observe(self->context, c, &how, all);
}

/* The worst of the group's tensors over all jitters. */
static d9_status group_sensitivity(verification *self, const d9_case *c, const group *g, double *error, double *angle) {
    d9_status status = D9_OK;
    const char *precision = reference_precision(self);
    *error = 0;
    *angle = 1;
    if (self->unmoved.count == 0) D9_TRY(observe(self, c, "reference", precision, 0, &self->unmoved));
    for (int j = 0; j < JITTERS; j++) {
        if (self->jittered[j].count == 0) D9_TRY(observe(self, c, "reference", precision, j + 1, &self->jittered[j]));
        for (int i = 0; i < self->unmoved.count; i++) {
            const d9_observation *want = &self->unmoved.rows[i],
                                 *got = d9_observations_find(&self->jittered[j], want->name);
            double one, storage;
            if (!belongs(g, want->name) || !got) continue;
            D9_TRY(tensor_error(self, c, g, got, want->values, &one, &storage));
            if (isfinite(one) && one > *error) *error = one; /* infinite: frozen, and only the jitter moved it */
            if (g->cosine) *angle = fmin(*angle, cosine(got->values, want->values, got->count));
        }
    }
done:
    return status;
}

/* A row beyond its limit: is the case itself that sensitive? */
static d9_status excuse(verification *self, const d9_case *c, const group *g, d9_verify_row *row) {
    d9_status status = D9_OK;
    double angle;
    bool excusable =
        self->precision->compute != D9_F64 && g->measure != ABSOLUTE && isfinite(row->error) && row->compared > 0;
    if (row->passed || !excusable) return D9_OK;
    D9_TRY(group_sensitivity(self, c, g, &row->sensitivity, &angle));
    row->passed = row->error <= 2 * row->sensitivity && (isnan(row->cosine) || 1 - row->cosine <= 2 * (1 - angle));
done:
    return status;
}

/* Tensors that the run made and the file does not hold: a file is no smaller than its case. The filters of a whitened
 * stem alone are under another name, and never move. Returns their number. */
static int find_unexpected(const group *g, const expected *e, const d9_observations *got, d9_verify_row *row) {
    int count = 0;
    for (int i = 0; !e->run && i < got->count; i++) {
        const char *name = got->rows[i].name;
        if (!belongs(g, name) || strstr(name, ".whiten.") || d9_safetensors_find(e->file, name)) continue;
        row->passed = false;
        row->error = INFINITY;
        snprintf(row->note, sizeof row->note, "%.70s is not in the file", name);
        count++;
    }
    return count;
}

static d9_status compare_group(verification *self, const d9_case *c, const group *g, const expected *e,
                               const d9_observations *got) {
    d9_status status = D9_OK;
    d9_verify_row row = {.passed = true, .error = 0, .limit = limit_of(self, g), .cosine = NAN, .sensitivity = NAN};
    int tensors = 0;
    snprintf(row.name, sizeof row.name, "%s", c->name);
    snprintf(row.group, sizeof row.group, "%s", g->name);
    for (int i = 0; i < expected_count(e); i++) {
        if (!belongs(g, expected_name(e, i))) continue;
        D9_TRY(compare_tensor(self, c, g, e, i, got, &row));
        tensors++;
    }
    tensors += find_unexpected(g, e, got, &row);
    if (tensors == 0) return D9_OK; /* the case has none of these */
    if (row.compared == 0) row.passed = false;
    D9_TRY(excuse(self, c, g, &row));
    report(self, &row);
done:
    return status;
}

/* ---- patch statistics, where CIFAR-10 is present ---- */

static d9_status compare_named(verification *self, const d9_case *c, const char *name, double *got, int64_t count) {
    d9_status status;
    d9_observation mine = {name, got, count};
    d9_observations all = {.rows = &mine, .count = 1};
    expected e = {.file = c->file};
    group g = {name, name, NULL, RELATIVE, 1e-6, 1e-6, 1e-6, false};
    D9_TRY(compare_group(self, c, &g, &e, &all));
done:
    return status;
}

static d9_status compare_whitening(verification *self, const d9_case *c) {
    enum { D = 27, IMAGES = 2000 };
    d9_status status = D9_OK;
    d9_dataset *data = NULL;
    double table[3 * 256], covariance[D * D], matrix[D * D], eigenvalues[D], vectors[D * D];
    static const double mean[3] = {125.31, 122.95, 113.87}, deviation[3] = {62.99, 62.09, 66.70};
    if (!d9_safetensors_find(c->file, "whiten.covariance")) return D9_OK;
    d9_context quiet = *self->context;
    quiet.status = D9_OK;
    d9_dataset_options wanted = {.name = "cifar10", .path = self->options->data};
    if (d9_dataset_load(&quiet, &wanted, &data) != D9_OK) {
        d9_verify_row row = {.skipped = true,
                             .error = NAN,
                             .limit = 1e-6,
                             .cosine = NAN,
                             .sensitivity = NAN,
                             .note = "CIFAR-10 is not here"};
        snprintf(row.name, sizeof row.name, "%s", c->name);
        snprintf(row.group, sizeof row.group, "whiten.covariance");
        report(self, &row);
        return D9_OK;
    }
    for (int i = 0; i < 3 * 256; i++) table[i] = (i % 256 - mean[i / 256]) / deviation[i / 256];
    d9_init_site site = {.images = data->train.images,
                         .image_count = data->train.count,
                         .height = 32,
                         .width = 32,
                         .channels = 3,
                         .table = table};
    D9_TRY(d9_patch_covariance(self->context, &site, IMAGES, 3, covariance));
    memcpy(matrix, covariance, sizeof matrix);
    D9_TRY(d9_symmetric_eigen(self->context, matrix, D, eigenvalues, vectors));
    D9_TRY(compare_named(self, c, "whiten.covariance", covariance, D * D));
    D9_TRY(compare_named(self, c, "whiten.eigenvalues", eigenvalues, D));
done:
    d9_dataset_free(self->context, data);
    return status;
}

/* ---- cases ---- */

static double against_limit(const d9_verify_row *row) {
    return row->limit > 0 ? row->error / row->limit : row->error > 0 ? INFINITY : -1;
}

static void keep_worst(void *user, const d9_verify_row *row) {
    d9_verify_row *kept = user;
    int64_t compared = kept->compared + row->compared;
    bool passed = kept->passed && row->passed;
    if (kept->compared == 0 || (kept->passed && !row->passed) ||
        (kept->passed == row->passed && against_limit(row) > against_limit(kept))) {
        *kept = *row;
        snprintf(kept->note, sizeof kept->note, "%.40s, %.50s", row->name, row->note);
    }
    kept->compared = compared;
    kept->passed = passed;
}

/* The first step, rule by rule, summed up in one row. */
static d9_status verify_rules(verification *self, const d9_case *c) {
    d9_status status = D9_OK;
    d9_session tested = {0}, judge = {0};
    d9_config tested_config, judge_config;
    d9_case_run how = {self->options->backend, self->options->precision, self->options->threads, 0, 0},
                by_reference = how;
    d9_verify_row worst = {.passed = true};
    int failed;
    by_reference.backend = "reference";
    by_reference.precision = reference_precision(self);
    if (strcmp(how.backend, "reference") == 0 || d9_case_is_pipeline(c->file)) return D9_OK;
    D9_TRY(d9_case_session(self->context, c, &how, &tested_config, &tested));
    D9_TRY(d9_case_session(self->context, c, &by_reference, &judge_config, &judge));
    D9_TRY(d9_rules_compare(&tested, &judge, 0, c->name, keep_worst, &worst, &failed));
    snprintf(worst.name, sizeof worst.name, "%s", c->name);
    snprintf(worst.group, sizeof worst.group, "rule by rule");
    if (worst.compared == 0) worst.passed = false;
    report(self, &worst);
done:
    d9_session_close(&tested);
    d9_session_close(&judge);
    return status;
}

static d9_status compare_case(verification *self, const d9_case *c) {
    d9_status status;
    d9_observations got = {0};
    expected e = {.file = c->file};
    D9_TRY(observe(self, c, self->options->backend, self->precision->name, 0, &got));
    if (half(self)) {
        D9_TRY(observe(self, c, "reference", self->precision->name, 0, &self->unmoved));
        e.run = &self->unmoved;
    }
    for (int g = 0; g < GROUPS; g++) D9_TRY(compare_group(self, c, &groups[g], &e, &got));
    D9_TRY(verify_rules(self, c));
    D9_TRY(compare_whitening(self, c));
done:
    d9_observations_free(self->context, &got);
    return status;
}

static d9_status verify_file(verification *self, const char *path) {
    d9_status status;
    d9_case c = {0};
    d9_observations jittered[JITTERS] = {{.count = 0}};
    self->jittered = jittered;
    D9_TRY(d9_case_open(self->context, path, &c));
    D9_TRY(compare_case(self, &c));
done:
    for (int j = 0; j < JITTERS; j++) d9_observations_free(self->context, &jittered[j]);
    d9_observations_free(self->context, &self->unmoved);
    self->jittered = NULL;
    d9_case_close(self->context, &c);
    return status;
}

static int is_case(const struct dirent *entry) {
    size_t length = strlen(entry->d_name);
    return length > 12 && strcmp(entry->d_name + length - 12, ".safetensors") == 0;
}

static d9_status verify_folder(verification *self, const char *folder) {
    d9_status status = D9_OK;
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_case, alphasort);
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
    verification self = {.context = context,
                         .options = options,
                         .precision = d9_precision_find(options->precision),
                         .sink = sink,
                         .user = user};
    if (!self.precision)
        return d9_fail(context, D9_USAGE, "precision %s is unknown; f64, f32, tf32, bf16 and fp16 are known",
                       options->precision);
    if (half(&self) && strcmp(options->backend, "reference") == 0)
        return d9_fail(context, D9_USAGE,
                       "the reference backend in %s is what others are compared with: verify it in f64 or f32",
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
