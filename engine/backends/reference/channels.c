/* Operations that depend on an element's channel or index: bias, concatenation, dropout. */
#include "backends/reference/reference.h"
#include "kernels/formulas/dropout.h"

#include <string.h>

static int64_t count_of(const d9_value *value) { return d9_shape_count(&value->shape); }
static int64_t channels_of(const d9_value *value) { return d9_shape_channels(&value->shape); }

d9_status d9_reference_BIAS(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const int64_t channels = channels_of(d9_reference_in(site, 0));
    const double *x, *bias;
    double *y;
    (void)step;
    D9_TRY(d9_reference_input(context, site, 0, &x));
    D9_TRY(d9_reference_input(context, site, 1, &bias));
    D9_TRY(d9_reference_output(context, site, 0, &y));
#pragma omp parallel for num_threads(site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(d9_reference_in(site, 0)); i++) y[i] = x[i] + bias[i % channels];
    d9_reference_store(site, 0);
done:
    return status;
}

d9_status d9_reference_BIAS_BACKWARD(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const int64_t count = count_of(d9_reference_in(site, 0)), channels = channels_of(d9_reference_in(site, 0));
    const double *dy;
    double *dbias;
    (void)step;
    D9_TRY(d9_reference_input(context, site, 0, &dy));
    D9_TRY(d9_reference_output(context, site, 0, &dbias));
#pragma omp parallel for num_threads(site->threads) schedule(static)
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t i = c; i < count; i += channels) sum += dy[i];
        dbias[c] = sum;
    }
    d9_reference_store(site, 0);
done:
    return status;
}

d9_status d9_reference_DROPOUT(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const d9_dropout_attributes *as = &site->nodes[0]->as.dropout;
    const d9_dropout dropout = d9_dropout_of(site->program->seed, step, as->stream, as->p);
    const int64_t count = count_of(d9_reference_in(site, 0));
    const double *x;
    double *y;
    D9_TRY(d9_reference_input(context, site, 0, &x));
    D9_TRY(d9_reference_output(context, site, 0, &y));
#pragma omp parallel for num_threads(site->threads) schedule(static)
    for (int64_t block = 0; block < (count + 3) / 4; block++) {
        const d9_philox words = d9_dropout_words(&dropout, block);
        for (int64_t i = 4 * block; i < 4 * block + 4 && i < count; i++)
            y[i] = words.v[i % 4] >= dropout.least ? x[i] / (1 - as->p) : 0;
    }
    d9_reference_store(site, 0);
done:
    return status;
}

d9_status d9_reference_CONCAT(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const int64_t first = channels_of(d9_reference_in(site, 0)), second = channels_of(d9_reference_in(site, 1));
    const double *a, *b;
    double *y;
    (void)step;
    D9_TRY(d9_reference_input(context, site, 0, &a));
    D9_TRY(d9_reference_input(context, site, 1, &b));
    D9_TRY(d9_reference_output(context, site, 0, &y));
#pragma omp parallel for num_threads(site->threads) schedule(static)
    for (int64_t row = 0; row < count_of(d9_reference_in(site, 0)) / first; row++) {
        memcpy(y + row * (first + second), a + row * first, (size_t)first * sizeof *y);
        memcpy(y + row * (first + second) + first, b + row * second, (size_t)second * sizeof *y);
    }
    d9_reference_store(site, 0);
done:
    return status;
}

d9_status d9_reference_SLICE(d9_context *context, const d9_site *site, int64_t step) {
    d9_status status;
    const int64_t channels = channels_of(d9_reference_in(site, 0)), taken = channels_of(d9_reference_out(site, 0));
    const int64_t offset = site->nodes[0]->as.slice.offset;
    const double *x;
    double *y;
    (void)step;
    D9_TRY(d9_reference_input(context, site, 0, &x));
    D9_TRY(d9_reference_output(context, site, 0, &y));
#pragma omp parallel for num_threads(site->threads) schedule(static)
    for (int64_t row = 0; row < count_of(d9_reference_out(site, 0)) / taken; row++)
        memcpy(y + row * taken, x + row * channels + offset, (size_t)taken * sizeof *y);
    d9_reference_store(site, 0);
done:
    return status;
}
