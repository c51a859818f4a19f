/* Bias and its gradient, concatenation, slices and dropout against plain loops: whole runs, tails, channels that divide
 * a run and that do not, arrays off their alignment. */
#include "tests/cuda_model/checks.h"
#include "tests/cuda_model/model.h"

#include <string.h>

static const struct {
    int64_t rows, channels;
} sizes[] = {{1, 1}, {7, 3}, {105, 27}, {4, 64}, {65, 50}, {5000, 8}, {300, 264}};
enum { SIZES = sizeof sizes / sizeof *sizes };

#define FOR_ALL(i, store, shift)                                                                                       \
    for (int i = 0; i < SIZES; i++)                                                                                    \
        for (d9_kernel_store store = D9_KERNEL_F32; store <= D9_KERNEL_F16; store++)                                   \
            for (int shift = 0; shift < D9_COUNT_OF_SHIFTS; shift++)

void d9_cuda_check_bias(d9_check *check) {
    FOR_ALL(i, store, shift) {
        const int64_t rows = sizes[i].rows, channels = sizes[i].channels, count = rows * channels;
        d9_pool pool = {.count = 0};
        const float *x = d9_pool_random(&pool, store, count, 71), *b = d9_pool_random(&pool, D9_KERNEL_F32, channels, 72);
        float *expected = d9_pool_floats(&pool, count);
        for (int64_t k = 0; k < count; k++) expected[k] = x[k] + b[k % channels];
        d9_array in = d9_array_of(store, count, shift, x), bias = d9_array_of(D9_KERNEL_F32, channels, 0, b);
        d9_array out = d9_array_new(store, count, shift);
        d9_check_launch(check, "bias",
                        d9_cuda_bias(NULL, d9_array_in(&in), bias.data, rows, channels, d9_array_out(&out)));
        d9_check_array(check, "bias", expected, &out, 0);
        d9_array_free(check, &in);
        d9_array_free(check, &bias);
        d9_array_free(check, &out);
        d9_pool_free(&pool);
    }
}

/* Integers, so that the sums are exact, then random numbers; each under two seeds, whose bits must be the same. */
static void check_bias_backward(d9_check *check, int64_t rows, int64_t channels, d9_kernel_store store, int shift) {
    d9_pool pool = {.count = 0};
    const int64_t count = rows * channels;
    const float *dy = shift ? d9_pool_random(&pool, store, count, 73) : d9_pool_integers(&pool, count, 73);
    float *expected = d9_pool_floats(&pool, channels), *first = d9_pool_floats(&pool, channels);
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += (double)dy[r * channels + c];
        expected[c] = (float)sum;
    }
    d9_array in = d9_array_of(store, count, shift, dy);
    for (unsigned seed = 0; seed < 2; seed++) {
        d9_array scratch = d9_array_new(D9_KERNEL_F32, d9_cuda_bias_scratch_bytes(rows, channels) / 4, 0);
        d9_array out = d9_array_new(D9_KERNEL_F32, channels, 0);
        d9_model_seed(seed);
        d9_check_launch(check, "bias_backward",
                        d9_cuda_bias_backward(NULL, d9_array_in(&in), rows, channels, scratch.data, out.data));
        d9_check_array(check, "bias_backward", expected, &out, shift ? 1e-6 : 0);
        if (seed && memcmp(first, out.data, (size_t)out.bytes) != 0)
            d9_check_fail(check, "bias_backward: other bits in another order");
        memcpy(first, out.data, (size_t)out.bytes);
        d9_array_free(check, &scratch);
        d9_array_free(check, &out);
    }
    d9_model_seed(0);
    d9_array_free(check, &in);
    d9_pool_free(&pool);
}

void d9_cuda_check_bias_backward(d9_check *check) {
    FOR_ALL(i, store, shift) check_bias_backward(check, sizes[i].rows, sizes[i].channels, store, shift);
}

/* ---- concatenation ---- */

static const struct {
    int64_t rows, first, second;
} pairs[] = {{1, 1, 2}, {7, 27, 3}, {33, 64, 32}, {5, 8, 12}, {700, 8, 8}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* A concatenation, and of its output either side again. */
static void check_concat(d9_check *check, int i, d9_kernel_store store, int shift) {
    const int64_t rows = pairs[i].rows, first = pairs[i].first, second = pairs[i].second, wide = first + second;
    d9_pool pool = {.count = 0};
    const float *a = d9_pool_random(&pool, store, rows * first, 74), *b = d9_pool_random(&pool, store, rows * second, 75);
    float *expected = d9_pool_floats(&pool, rows * wide);
    for (int64_t k = 0; k < rows * wide; k++)
        expected[k] = k % wide < first ? a[k / wide * first + k % wide] : b[k / wide * second + k % wide - first];
    d9_array left = d9_array_of(store, rows * first, shift, a), right = d9_array_of(store, rows * second, 0, b);
    d9_array whole = d9_array_new(store, rows * wide, shift);
    d9_array sides[] = {d9_array_new(store, rows * first, 0), d9_array_new(store, rows * second, shift)};
    d9_check_launch(
        check, "concat",
        d9_cuda_concat(NULL, d9_array_in(&left), d9_array_in(&right), rows, first, second, d9_array_out(&whole)));
    d9_check_array(check, "concat", expected, &whole, 0);
    for (int s = 0; s < 2; s++) {
        d9_check_launch(check, "slice",
                        d9_cuda_slice_channels(NULL, d9_array_in(&whole), rows, wide, s ? first : 0, s ? second : first,
                                               d9_array_out(&sides[s])));
        d9_check_array(check, "slice", s ? b : a, &sides[s], 0);
        d9_array_free(check, &sides[s]);
    }
    d9_array_free(check, &left);
    d9_array_free(check, &right);
    d9_array_free(check, &whole);
    d9_pool_free(&pool);
}

void d9_cuda_check_concat(d9_check *check) {
    for (int i = 0; i < PAIRS; i++) D9_FOR_STORES(store) {
            for (int shift = 0; shift < D9_COUNT_OF_SHIFTS; shift++) check_concat(check, i, store, shift);
        }
}

/* ---- dropout ---- */

/* The words of every element by themselves, as kernels/formulas/dropout.h counts them. */
static void drop(const d9_dropout *dropout, int64_t step, int64_t count, const float *x, float *y) {
    for (int64_t i = 0; i < count; i++) {
        const d9_philox words =
            d9_philox4x32_10(dropout->seed, (uint32_t)(i / 4), (uint32_t)step, D9_STREAM_DROPOUT, dropout->stream);
        y[i] = words.v[i % 4] < dropout->least ? 0 : x[i] * dropout->scale;
    }
}

void d9_cuda_check_dropout(d9_check *check) {
    static const double shares[] = {0.25, 0.5, 0};
    static const int64_t steps[] = {0, 1, 977};
    FOR_ALL(i, store, shift) {
        const int64_t count = sizes[i].rows * sizes[i].channels, *step = &steps[i % 3];
        const d9_dropout dropout = d9_dropout_of(7 + ((uint64_t)i << 40), 977, 12345, shares[i % 3]);
        d9_pool pool = {.count = 0};
        const float *x = d9_pool_random(&pool, store, count, 76);
        float *expected = d9_pool_floats(&pool, count);
        drop(&dropout, *step, count, x, expected);
        d9_array in = d9_array_of(store, count, shift, x), out = d9_array_new(store, count, shift);
        d9_check_launch(check, "dropout",
                        d9_cuda_dropout(NULL, d9_array_in(&in), &dropout, *step == 977 ? NULL : step, count,
                                        d9_array_out(&out)));
        d9_check_array(check, "dropout", expected, &out, 0);
        d9_array_free(check, &in);
        d9_array_free(check, &out);
        d9_pool_free(&pool);
    }
}
