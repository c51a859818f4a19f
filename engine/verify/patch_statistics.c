/* Compares covariance and eigenvalues of image patches of a dataset; see group_comparison.h. */
#include "step/patches.h"
#include "core/system.h"
#include "verify/group_comparison.h"

#include <stdio.h>
#include <string.h>

enum { BYTES = 256 };
static const double limit = 1e-6;

static void report_skipped(d9_verification *self, const char *dataset, const char *reason) {
    d9_verify_row row = d9_verification_row(self, self->reference.patches.covariance, limit);
    row.skipped = true;
    row.error = NAN;
    snprintf(row.note, sizeof row.note, "%.60s %s", dataset, reason);
    d9_verification_report(self, &row);
}

static d9_status compare_with_dataset(d9_verification *self, const d9_dataset *data) {
    d9_status status;
    const d9_patch_settings *patches = &self->reference.patches;
    const int d = (int)data->channels * patches->size * patches->size;
    const int64_t table_entries = data->channels * BYTES;
    double *table = NULL;
    D9_TRY(D9_ALLOCATE(self->context, table_entries + 3 * d * d + d, "patch statistics", &table));
    double *covariance = table + table_entries, *matrix = covariance + d * d, *vectors = matrix + d * d,
           *eigenvalues = vectors + d * d;
    d9_normalization_table(data->mean, data->std, data->channels, table);
    const d9_init_site site = {.images = data->train.images,
                               .image_count = data->train.count,
                               .height = d9_train_height(data),
                               .width = d9_train_width(data),
                               .grey = data->grey,
                               .channels = data->channels,
                               .table = table};
    D9_TRY(d9_patch_covariance(self->context, &site, patches->images, patches->size, covariance));
    memcpy(matrix, covariance, (size_t)(d * d) * sizeof(double));
    D9_TRY(d9_symmetric_eigen(self->context, matrix, d, eigenvalues, vectors));
    D9_TRY(d9_verification_compare_tensor(self, patches->covariance, covariance, d * d, limit));
    D9_TRY(d9_verification_compare_tensor(self, patches->eigenvalues, eigenvalues, d, limit));
done:
    d9_release(self->context, table);
    return status;
}

d9_status d9_patch_statistics_compare(d9_verification *self) {
    d9_status status = D9_OK;
    const d9_config *config = self->reference.config;
    const d9_dataset_options wanted = {
        .name = config->data.dataset,
        .path = self->options->data,
        .image_size = self->reference.description->height,
        .check = true};
    d9_dataset *data = NULL;
    d9_context quiet = *self->context; /* a dataset that is missing or changed is not an error */
    quiet.status = D9_OK;
    if (!self->reference.patches.covariance) return D9_OK;
    if (d9_dataset_load(&quiet, &wanted, &data) != D9_OK)
        report_skipped(self, config->data.dataset, "is not here");
    else if (d9_dataset_verify(&quiet, data) != D9_OK)
        report_skipped(self, config->data.dataset, "is not the published one");
    else
        D9_TRY(compare_with_dataset(self, data));
done:
    d9_dataset_free(self->context, data);
    return status;
}
