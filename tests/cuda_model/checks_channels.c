/* Bias and its gradient, concatenation, slices and dropout, compared with plain loops: whole runs of 8 elements, tails,
 * numbers of channels that are multiples of 8 or not, unaligned arrays. */
#include "tests/cuda_model/checks.h"
#include "tests/cuda_model/model.h"
#include <string.h>

static const struct {
    int64_t rows, channels;
} sizes[] = {{1, 1}, {7, 3}, {105, 27}, {4, 64}, {65, 50}, {5000, 8}, {300, 264}};
enum { SIZES = sizeof sizes / sizeof *sizes };

#define FOR_ALL(i, store, shift)                                                                                       \
    for (int i = 0; i < SIZES; i++) D9_FOR_STORES(store)                                                               \
    for (int shift = 0; shift < D9_COUNT_OF_SHIFTS; shift++)

/* Bias alone, and followed by an activation, which reads the sum rounded to the storage type. */
void d9_cuda_check_bias(d9_check *check) {
    const d9_cpu cpu = d9_plain_cpu();
    FOR_ALL(i, store, shift) {
        const d9_kernel_act act = {i % 2 ? D9_ACT_CELU : D9_KERNEL_NO_ACT, 0.3f};
        const int64_t rows = sizes[i].rows, channels = sizes[i].channels, count = rows * channels;
        const float *x = d9_random(store, count, 71), *b = d9_random(D9_KERNEL_F32, channels, 72);
        float *expected = d9_floats(count);
        for (int64_t k = 0; k < count; k++) expected[k] = d9_store_rounded(store, x[k] + b[k % channels]);
        if (i % 2) d9_cpu_act_forward(&cpu, d9_plain_in(expected), act, count, d9_plain_out(expected));
        d9_array in = d9_array_of(store, count, shift, x), bias = d9_array_of(D9_KERNEL_F32, channels, 0, b);
        d9_array out = d9_array_new(store, count, shift);
        LAUNCH(d9_cuda_bias_forward(NULL, IN(in), bias.data, act, rows, channels, OUT(out)));
        d9_check_array(check, "bias", expected, &out, i % 2 ? 1e-6 : 0);
        d9_check_done(check);
    }
}

/* dbias: the sum of dz over the rows, for each channel. */
static void add_columns(const float *dz, int64_t rows, int64_t channels, float *dbias) {
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += (double)dz[r * channels + c];
        dbias[c] = (float)sum;
    }
}

/* Runs with two seeds, which must give the same bits. With an activation, the second run also writes dz. */
static void run_bias_backward(d9_check *check, const d9_array *dy, d9_cuda_prologue before, int64_t rows,
                              int64_t channels, const float *expected, double tolerance, d9_array *dz) {
    d9_array out[2], scratch = d9_array_new(D9_KERNEL_F32, d9_cuda_bias_scratch_bytes(rows, channels) / 4, 0);
    for (unsigned seed = 0; seed < 2; seed++) {
        out[seed] = d9_array_new(D9_KERNEL_F32, channels, 0);
        if (seed && before.reference.data) before.dz = OUT(*dz);
        d9_model_seed(seed);
        LAUNCH(d9_cuda_bias_backward(NULL, IN(*dy), &before, rows, channels, scratch.data, out[seed].data));
        d9_check_array(check, "bias_backward", expected, &out[seed], tolerance);
    }
    d9_model_seed(0);
    if (memcmp(out[0].data, out[1].data, (size_t)out[0].bytes) != 0)
        d9_check_fail(check, "bias_backward: other bits in another thread order");
}

/* Integers, whose sums are exact, or random numbers multiplied by an activation's slope. */
void d9_cuda_check_bias_backward(d9_check *check) {
    const d9_cpu cpu = d9_plain_cpu();
    FOR_ALL(i, store, shift) {
        const int64_t rows = sizes[i].rows, channels = sizes[i].channels, count = rows * channels;
        const bool slope = (i + shift) % 2;
        const d9_kernel_act act = {slope ? D9_ACT_CELU : D9_KERNEL_NO_ACT, 0.3f};
        const float *given = slope ? d9_random(store, count, 73) : d9_integers(count, 73);
        const float *y = d9_random(store, count, 77);
        float *dz = d9_floats(count), *expected = d9_floats(channels);
        memcpy(dz, given, (size_t)count * sizeof *dz);
        if (slope) d9_cpu_act_backward(&cpu, d9_plain_in(given), d9_plain_in(y), act, count, d9_plain_out(dz));
        d9_store_round(store, count, dz);
        add_columns(dz, rows, channels, expected);
        d9_array dy = d9_array_of(store, count, shift, given), reference = d9_array_of(store, count, shift, y);
        d9_array wanted = d9_array_new(store, count, shift);
        d9_cuda_prologue before = {.act = act};
        if (slope) before.reference = IN(reference);
        const double most = d9_check_sum_tolerance(check, store, 1e-6);
        run_bias_backward(check, &dy, before, rows, channels, expected, slope ? most : 0, &wanted);
        if (slope) d9_check_array(check, "bias_backward dz", dz, &wanted, 1e-6);
        d9_check_done(check);
    }
}

static const struct {
    int64_t rows, first, second;
} pairs[] = {{1, 1, 2}, {7, 27, 3}, {33, 64, 32}, {5, 8, 12}, {700, 8, 8}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

/* Checks a concatenation, and slices of its output. */
static void check_concat(d9_check *check, int i, d9_kernel_store store, int shift) {
    const int64_t rows = pairs[i].rows, first = pairs[i].first, second = pairs[i].second, wide = first + second;
    const float *a = d9_random(store, rows * first, 74), *b = d9_random(store, rows * second, 75);
    float *expected = d9_floats(rows * wide);
    for (int64_t k = 0; k < rows * wide; k++)
        expected[k] = k % wide < first ? a[k / wide * first + k % wide] : b[k / wide * second + k % wide - first];
    d9_array left = d9_array_of(store, rows * first, shift, a), right = d9_array_of(store, rows * second, 0, b);
    d9_array whole = d9_array_new(store, rows * wide, shift);
    d9_array sides[] = {d9_array_new(store, rows * first, 0), d9_array_new(store, rows * second, shift)};
    LAUNCH(d9_cuda_concat(NULL, IN(left), IN(right), rows, first, second, OUT(whole)));
    d9_check_array(check, "concat", expected, &whole, 0);
    for (int s = 0; s < 2; s++) {
        LAUNCH(d9_cuda_slice_channels(NULL, IN(whole), rows, wide, s ? first : 0, s ? second : first, OUT(sides[s])));
        d9_check_array(check, "slice", s ? b : a, &sides[s], 0);
    }
    d9_check_done(check);
}

void d9_cuda_check_concat(d9_check *check) {
    for (int i = 0; i < PAIRS; i++) D9_FOR_STORES(store) {
            for (int shift = 0; shift < D9_COUNT_OF_SHIFTS; shift++) check_concat(check, i, store, shift);
        }
}

/* Dropout: `dropout->unit` consecutive elements share a random word, numbered as in kernels/formulas/dropout.h. */
static void apply_dropout(const d9_dropout *dropout, int64_t step, int64_t count, const float *x, float *y) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = i / dropout->unit;
        const d9_philox words =
            d9_philox4x32_10(dropout->seed, (uint32_t)(k / 4), (uint32_t)step, D9_STREAM_DROPOUT, dropout->stream);
        y[i] = words.v[k % 4] < dropout->least_kept_word ? 0 : x[i] * dropout->scale;
    }
}

static void check_dropout(d9_check *check, int64_t together) {
    static const double shares[] = {0.25, 0.5, 0};
    static const int64_t steps[] = {0, 1, 977};
    FOR_ALL(i, store, shift) {
        const int64_t count = sizes[i].rows * sizes[i].channels, *step = &steps[i % 3];
        d9_dropout dropout = d9_dropout_of(7 + ((uint64_t)i << 40), 977, 12345, shares[i % 3]);
        dropout.unit = together;
        const float *x = d9_random(store, count, 76);
        float *expected = d9_floats(count);
        apply_dropout(&dropout, *step, count, x, expected);
        d9_array in = d9_array_of(store, count, shift, x), out = d9_array_new(store, count, shift);
        LAUNCH(d9_cuda_dropout(NULL, IN(in), &dropout, *step == 977 ? NULL : step, count, OUT(out)));
        d9_check_array(check, "dropout", expected, &out, 0);
        d9_check_done(check);
    }
}

/* Numbers of elements that are dropped together: one; fewer than a thread's run of 8; several runs; the whole array. */
void d9_cuda_check_dropout(d9_check *check) {
    static const int64_t units[] = {1, 3, 40, INT64_MAX};
    for (int u = 0; u < 4; u++) check_dropout(check, units[u]);
}
