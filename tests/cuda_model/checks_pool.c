/* Pooling, compared with the CPU: windows that tile, overlap, leave gaps, and extend beyond the image; ties; NaN. */
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

typedef enum pass { POOL, POOL_BACKWARD, MEAN_POOL, MEAN_POOL_BACKWARD } pass;
static const char *const names[] = {"pool", "pool_backward", "mean_pool", "mean_pool_backward"};

/* The result of `pass` on the CPU, not rounded. x: the pool's input; dy: the gradient, only read by backward passes. */
static void compute_pass(pass pass, const d9_kernel_window *w, const float *x, const float *dy, float *result) {
    const d9_cpu cpu = d9_plain_cpu();
    const d9_kernel_out to = d9_plain_out(result);
    if (pass == POOL) d9_cpu_pool_forward(&cpu, w, d9_plain_in(x), to);
    if (pass == POOL_BACKWARD) d9_cpu_pool_backward(&cpu, w, d9_plain_in(dy), d9_plain_in(x), to);
    if (pass == MEAN_POOL) d9_cpu_mean_pool_forward(&cpu, w, d9_plain_in(x), to);
    if (pass == MEAN_POOL_BACKWARD) d9_cpu_mean_pool_backward(&cpu, w, d9_plain_in(dy), to);
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
    compute_pass(POOL_BACKWARD, &window, values, dy, expected);
    d9_check_array(check, "pool_nan backward", expected, &dx, 0);
    if (expected[HERE] != dy[3] || expected[BEFORE] != 0) d9_check_fail(check, "pool_nan: the CPU's gradient is wrong");
    d9_check_done(check);
}
