/* Pooling, compared with plain loops: windows that tile, overlap, leave gaps, and extend beyond the image; ties;
 * NaN. */
#include "tests/cuda_model/checks.h"
#include <math.h>

/* images, height, width, channels, out_height, out_width, kernel, stride, pad */
static const d9_kernel_window windows[] = {
    {1, 4, 4, 3, 2, 2, 2, 2, 0},    {7, 5, 7, 27, 2, 3, 2, 2, 0},   {2, 6, 6, 65, 2, 2, 3, 2, 0},
    {2, 8, 8, 64, 2, 2, 4, 4, 0},   {3, 5, 5, 8, 3, 3, 3, 1, 0},    {2, 7, 7, 16, 2, 2, 2, 3, 0},
    {65, 2, 2, 264, 1, 1, 2, 2, 0}, {1, 4, 40, 72, 2, 20, 2, 2, 0}, {2, 9, 6, 27, 5, 3, 3, 2, 1},
    {3, 7, 8, 16, 4, 4, 3, 2, 1},   {2, 5, 8, 65, 3, 5, 2, 2, 1},   {1, 6, 11, 24, 3, 4, 4, 3, 2},
    {2, 5, 5, 8, 6, 6, 4, 1, 2},    {2, 1, 2, 8, 1, 1, 3, 4, 1},    {3, 5, 7, 16, 2, 3, 2, 2, 0}};
enum { WINDOWS = sizeof windows / sizeof *windows };

static int64_t input_count(const d9_kernel_window *w) { return w->images * w->height * w->width * w->channels; }
static int64_t output_count(const d9_kernel_window *w) {
    return w->images * w->out_height * w->out_width * w->channels;
}

/* Row and column at which the window of output i begins. */
static int64_t row_of(const d9_kernel_window *w, int64_t i) {
    return i / w->channels / w->out_width % w->out_height * w->stride - w->pad;
}
static int64_t column_of(const d9_kernel_window *w, int64_t i) {
    return i / w->channels % w->out_width * w->stride - w->pad;
}

/* Index of element (y, x) of the image and channel of output i; -1: outside. */
static int64_t element_of(const d9_kernel_window *w, int64_t i, int64_t y, int64_t x) {
    if (y < 0 || x < 0 || y >= w->height || x >= w->width) return -1;
    const int64_t n = i / (w->out_height * w->out_width * w->channels);
    return ((n * w->height + y) * w->width + x) * w->channels + i % w->channels;
}

/* Index of the maximum in the window of output i; the first one, or the last NaN. */
static int64_t maximum_of(const d9_kernel_window *w, const float *x, int64_t i) {
    int64_t best = -1;
    for (int r = 0; r < w->kernel; r++)
        for (int q = 0; q < w->kernel; q++) {
            const int64_t at = element_of(w, i, row_of(w, i) + r, column_of(w, i) + q);
            if (at >= 0 && (best < 0 || x[at] > x[best] || isnan(x[at]))) best = at;
        }
    return best;
}

static void find_maxima(const d9_kernel_window *w, const float *x, float *y) {
    for (int64_t i = 0; i < output_count(w); i++) y[i] = x[maximum_of(w, x, i)];
}

static void add_to_maxima(const d9_kernel_window *w, const float *dy, const float *x, float *dx) {
    for (int64_t i = 0; i < output_count(w); i++) dx[maximum_of(w, x, i)] += dy[i];
}

static void find_means(const d9_kernel_window *w, const float *x, float *y) {
    for (int64_t i = 0; i < output_count(w); i++) {
        double sum = 0;
        for (int k = 0; k < w->kernel * w->kernel; k++)
            sum += (double)x[element_of(w, i, row_of(w, i) + k / w->kernel, column_of(w, i) + k % w->kernel)];
        y[i] = (float)(sum / (w->kernel * w->kernel));
    }
}

static void spread_evenly(const d9_kernel_window *w, const float *dy, float *dx) {
    double *sums = d9_doubles(input_count(w));
    for (int64_t i = 0; i < output_count(w); i++)
        for (int k = 0; k < w->kernel * w->kernel; k++)
            sums[element_of(w, i, row_of(w, i) + k / w->kernel, column_of(w, i) + k % w->kernel)] += (double)dy[i];
    for (int64_t i = 0; i < input_count(w); i++) dx[i] = (float)(sums[i] / (w->kernel * w->kernel));
}

typedef enum pass { POOL, POOL_BACKWARD, MEAN_POOL, MEAN_POOL_BACKWARD } pass;
static const char *const names[] = {"pool", "pool_backward", "mean_pool", "mean_pool_backward"};

/* The result of `pass` by loops. x: the pool's input; dy: the gradient, only read by backward passes. */
static void compute_pass(pass pass, const d9_kernel_window *w, const float *x, const float *dy, float *result) {
    if (pass == POOL) find_maxima(w, x, result);
    if (pass == POOL_BACKWARD) add_to_maxima(w, dy, x, result);
    if (pass == MEAN_POOL) find_means(w, x, result);
    if (pass == MEAN_POOL_BACKWARD) spread_evenly(w, dy, result);
}

static int launch(pass pass, const d9_kernel_window *w, d9_kernel_in x, d9_kernel_in dy, d9_kernel_out result) {
    if (pass == POOL) return d9_cuda_pool_forward(NULL, w, x, result);
    if (pass == POOL_BACKWARD) return d9_cuda_pool_backward(NULL, w, dy, x, result);
    if (pass == MEAN_POOL) return d9_cuda_mean_pool_forward(NULL, w, x, result);
    return d9_cuda_mean_pool_backward(NULL, w, dy, result);
}

/* Every store, shift and window (means: windows without padding). Only means of random numbers need a tolerance,
 * because they depend on the order of their sums. */
static void check_pass(d9_check *check, pass pass) {
    const bool mean = pass >= MEAN_POOL, backward = pass == POOL_BACKWARD || pass == MEAN_POOL_BACKWARD;
    for (int i = 0; i < WINDOWS; i++) D9_FOR_STORES(store) for (int shift = 0; shift < D9_COUNT_OF_SHIFTS; shift++) {
            const d9_kernel_window *w = &windows[i];
            if (mean && w->pad) continue;
            const int64_t inputs = input_count(w), outputs = output_count(w);
            const float *values = d9_values(store, inputs, 21, shift);
            const float *gradient = mean ? d9_values(store, outputs, 23, shift) : d9_random(store, outputs, 22);
            float *expected = d9_floats(backward ? inputs : outputs);
            compute_pass(pass, w, values, gradient, expected);
            d9_array x = d9_array_of(store, inputs, shift, values), dy = d9_array_of(store, outputs, shift, gradient);
            d9_array result = d9_array_new(store, backward ? inputs : outputs, shift);
            LAUNCH(launch(pass, w, IN(x), IN(dy), OUT(result)));
            d9_check_array(check, names[pass], expected, &result, mean && shift ? 1e-6 : 0);
            d9_check_done(check);
        }
}

void d9_cuda_check_pool_forward(d9_check *check) { check_pass(check, POOL); }
void d9_cuda_check_pool_backward(d9_check *check) { check_pass(check, POOL_BACKWARD); }
void d9_cuda_check_mean_pool_forward(d9_check *check) { check_pass(check, MEAN_POOL); }
void d9_cuda_check_mean_pool_backward(d9_check *check) { check_pass(check, MEAN_POOL_BACKWARD); }

/* A NaN is the maximum of its windows and receives their gradient; of several NaNs in a window, the last one. */
void d9_cuda_check_pool_nan(d9_check *check) {
    enum { CHANNELS = 8, COUNT = 4 * 4 * CHANNELS, OUT = COUNT / 4, HERE = 5 * CHANNELS + 3, BEFORE = CHANNELS + 3 };
    const d9_kernel_window window = {1, 4, 4, CHANNELS, 2, 2, 2, 2, 0};
    float *values = d9_random(D9_KERNEL_F32, COUNT, 24), *expected = d9_floats(COUNT);
    const float *dy = d9_random(D9_KERNEL_F32, OUT, 25);
    values[BEFORE] = values[HERE] = NAN;
    d9_array x = d9_array_of(D9_KERNEL_F32, COUNT, 0, values), y = d9_array_new(D9_KERNEL_F32, OUT, 0);
    d9_array g = d9_array_of(D9_KERNEL_F32, OUT, 0, dy), dx = d9_array_new(D9_KERNEL_F32, COUNT, 0);
    LAUNCH(d9_cuda_pool_forward(NULL, &window, IN(x), OUT(y)));
    LAUNCH(d9_cuda_pool_backward(NULL, &window, IN(g), IN(x), OUT(dx)));
    for (int64_t i = 0; i < OUT; i++) {
        check->compared++;
        if ((i == 3) != isnan(d9_array_at(&y, i))) d9_check_fail(check, "pool_nan: element %d", (int)i);
    }
    add_to_maxima(&window, dy, values, expected);
    d9_check_array(check, "pool_nan backward", expected, &dx, 0);
    if (expected[HERE] != dy[3] || expected[BEFORE] != 0) d9_check_fail(check, "pool_nan: the CPU's gradient is wrong");
    d9_check_done(check);
}
