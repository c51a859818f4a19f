/* Operations that depend on an element's channel or index: bias, dropout, concatenation, slices. */
#include "backends/reference/reference.h"
#include "backends/host/shapes.h"

#include <string.h>

static int64_t count_of(const d9_value *value) { return d9_shape_count(&value->shape); }
static int64_t channels_of(const d9_value *value) { return d9_shape_channels(&value->shape); }

d9_status d9_reference_BIAS(const d9_reference_op *op) {
    const int64_t channels = channels_of(d9_reference_in(op, 0));
    const double *x = op->in[0], *bias = op->in[1];
    double *y = op->out[0];
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t i = 0; i < count_of(d9_reference_in(op, 0)); i++) y[i] = x[i] + bias[i % channels];
    return D9_OK;
}

d9_status d9_reference_BIAS_BACKWARD(const d9_reference_op *op) {
    const int64_t count = count_of(d9_reference_in(op, 0)), channels = channels_of(d9_reference_in(op, 0));
    const double *dy = op->in[0];
    double *dbias = op->out[0];
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t i = c; i < count; i += channels) sum += dy[i];
        dbias[c] = sum;
    }
    return D9_OK;
}

d9_status d9_reference_DROPOUT(const d9_reference_op *op) {
    const d9_dropout dropout = d9_site_dropout(op->site, op->step);
    const double kept = 1 - op->node->as.dropout.p;
    const int64_t rows = count_of(d9_reference_in(op, 0)) / dropout.row;
    const double *x = op->in[0];
    double *y = op->out[0];
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        d9_philox words;
        for (int64_t i = row * dropout.row; i < (row + 1) * dropout.row; i++) {
            const int64_t word = d9_dropout_word(&dropout, i);
            if (i % dropout.row == 0 || word % 4 == 0) words = d9_dropout_words(&dropout, word / 4);
            y[i] = words.v[word % 4] >= dropout.least_kept_word ? x[i] / kept : 0;
        }
    }
    return D9_OK;
}

d9_status d9_reference_CONCAT(const d9_reference_op *op) {
    const int64_t first = channels_of(d9_reference_in(op, 0)), second = channels_of(d9_reference_in(op, 1));
    const double *a = op->in[0], *b = op->in[1];
    double *y = op->out[0];
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t row = 0; row < count_of(d9_reference_in(op, 0)) / first; row++) {
        memcpy(y + row * (first + second), a + row * first, (size_t)first * sizeof *y);
        memcpy(y + row * (first + second) + first, b + row * second, (size_t)second * sizeof *y);
    }
    return D9_OK;
}

d9_status d9_reference_SLICE(const d9_reference_op *op) {
    const int64_t channels = channels_of(d9_reference_in(op, 0)), taken = channels_of(d9_reference_out(op));
    const int64_t offset = op->node->as.slice.offset;
    const double *x = op->in[0];
    double *y = op->out[0];
#pragma omp parallel for num_threads(op->site->threads) schedule(static)
    for (int64_t row = 0; row < count_of(d9_reference_out(op)) / taken; row++)
        memcpy(y + row * taken, x + row * channels + offset, (size_t)taken * sizeof *y);
    return D9_OK;
}
