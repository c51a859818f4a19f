/* Max pooling: windows that tile, overlap, leave gaps and borders; ties; NaN. */
#include "tests/cuda_model/checks.h"

#include <math.h>

/* images, height, width, channels, out_height, out_width, kernel, stride */
static const d9_kernel_window windows[] = {
    {1, 4, 4, 3, 2, 2, 2, 2}, {7, 5, 7, 27, 2, 3, 2, 2}, {2, 6, 6, 65, 2, 2, 3, 2},   {2, 8, 8, 64, 2, 2, 4, 4},
    {3, 5, 5, 8, 3, 3, 3, 1}, {2, 7, 7, 16, 2, 2, 2, 3}, {65, 2, 2, 264, 1, 1, 2, 2}, {1, 4, 40, 72, 2, 20, 2, 2}};
enum { WINDOWS = sizeof windows / sizeof *windows };

static int64_t input_count(const d9_kernel_window *w) { return w->images * w->height * w->width * w->channels; }
static int64_t output_count(const d9_kernel_window *w) {
    return w->images * w->out_height * w->out_width * w->channels;
}

static d9_kernel_window on_gpu(const d9_kernel_window *w) {
    return (d9_kernel_window){w->images,     w->height,    w->width,  w->channels,
                              w->out_height, w->out_width, w->kernel, w->stride};
}

/* Integers first: ties; then random numbers. */
static float *fill(d9_pool *pool, d9_kernel_store store, int64_t count, uint32_t seed, int shift) {
    return shift ? d9_pool_random(pool, store, count, seed) : d9_pool_integers(pool, count, seed);
}

void d9_cuda_check_pool_forward(d9_check *check) {
    const d9_cpu cpu = d9_plain_cpu();
    for (int i = 0; i < WINDOWS; i++) D9_FOR_STORES(store) for (int shift = 0; shift < D9_COUNT_OF_SHIFTS; shift++) {
            const d9_kernel_window window = on_gpu(&windows[i]);
            d9_pool pool = {.count = 0};
            const float *values = fill(&pool, store, input_count(&windows[i]), 21, shift);
            float *expected = d9_pool_floats(&pool, output_count(&windows[i]));
            d9_cpu_pool_forward(&cpu, &windows[i], d9_plain_in(values), d9_plain_out(expected));
            d9_array x = d9_array_of(store, input_count(&windows[i]), shift, values);
            d9_array y = d9_array_new(store, output_count(&windows[i]), shift);
            d9_check_launch(check, "pool", d9_cuda_pool_forward(NULL, &window, d9_array_in(&x), d9_array_out(&y)));
            d9_check_array(check, "pool", expected, &y, 0);
            d9_array_free(check, &x);
            d9_array_free(check, &y);
            d9_pool_free(&pool);
        }
}

void d9_cuda_check_pool_backward(d9_check *check) {
    const d9_cpu cpu = d9_plain_cpu();
    for (int i = 0; i < WINDOWS; i++) D9_FOR_STORES(store) for (int shift = 0; shift < D9_COUNT_OF_SHIFTS; shift++) {
            const d9_kernel_window window = on_gpu(&windows[i]);
            d9_pool pool = {.count = 0};
            const float *values = fill(&pool, store, input_count(&windows[i]), 22, shift);
            const float *dy = d9_pool_random(&pool, store, output_count(&windows[i]), 23);
            float *expected = d9_pool_floats(&pool, input_count(&windows[i]));
            d9_cpu_pool_backward(&cpu, &windows[i], d9_plain_in(dy), d9_plain_in(values), d9_plain_out(expected));
            d9_array x = d9_array_of(store, input_count(&windows[i]), shift, values);
            d9_array g = d9_array_of(store, output_count(&windows[i]), shift, dy);
            d9_array dx = d9_array_new(store, input_count(&windows[i]), shift);
            d9_check_launch(check, "pool_backward",
                            d9_cuda_pool_backward(NULL, &window, d9_array_in(&g), d9_array_in(&x), d9_array_out(&dx)));
            d9_check_array(check, "pool_backward", expected, &dx, 0);
            d9_array_free(check, &x);
            d9_array_free(check, &g);
            d9_array_free(check, &dx);
            d9_pool_free(&pool);
        }
}

/* A NaN wins its windows and takes their gradient; the last of a window's NaNs does. */
void d9_cuda_check_pool_nan(d9_check *check) {
    enum { CHANNELS = 8, COUNT = 4 * 4 * CHANNELS, OUT = COUNT / 4, HERE = 5 * CHANNELS + 3, BEFORE = CHANNELS + 3 };
    const d9_cpu cpu = d9_plain_cpu();
    const d9_kernel_window shape = {1, 4, 4, CHANNELS, 2, 2, 2, 2};
    const d9_kernel_window window = on_gpu(&shape);
    d9_pool pool = {.count = 0};
    float *values = d9_pool_random(&pool, D9_KERNEL_F32, COUNT, 24), *expected = d9_pool_floats(&pool, COUNT);
    const float *dy = d9_pool_random(&pool, D9_KERNEL_F32, OUT, 25);
    values[BEFORE] = values[HERE] = NAN;
    d9_array x = d9_array_of(D9_KERNEL_F32, COUNT, 0, values), y = d9_array_new(D9_KERNEL_F32, OUT, 0);
    d9_array g = d9_array_of(D9_KERNEL_F32, OUT, 0, dy), dx = d9_array_new(D9_KERNEL_F32, COUNT, 0);
    d9_check_launch(check, "pool_nan", d9_cuda_pool_forward(NULL, &window, d9_array_in(&x), d9_array_out(&y)));
    d9_check_launch(check, "pool_nan",
                    d9_cuda_pool_backward(NULL, &window, d9_array_in(&g), d9_array_in(&x), d9_array_out(&dx)));
    for (int64_t i = 0; i < OUT; i++) {
        check->compared++;
        if ((i == 3) != isnan(d9_array_at(&y, i))) d9_check_fail(check, "pool_nan: element %d", (int)i);
    }
    d9_cpu_pool_backward(&cpu, &shape, d9_plain_in(dy), d9_plain_in(values), d9_plain_out(expected));
    d9_check_array(check, "pool_nan backward", expected, &dx, 0);
    if (expected[HERE] != dy[3] || expected[BEFORE] != 0) d9_check_fail(check, "pool_nan: the CPU chose another");
    d9_array_free(check, &x);
    d9_array_free(check, &y);
    d9_array_free(check, &g);
    d9_array_free(check, &dx);
    d9_pool_free(&pool);
}
