/* cast, add, scale, copy, activations: whole runs of 8 elements, tails, and unaligned arrays. */
#include "tests/cuda_model/checks.h"
#include <math.h>
#include <string.h>

static const int64_t counts[] = {1, 7, 8, 65, 2051}; /* the last: more than a block computes, 256 runs of 8 */
enum { COUNTS = sizeof counts / sizeof *counts };

/* A loop over every combination of count, storage type and shift. */
#define FOR_ALL(count, store, shift)                                                                                   \
    for (int which = 0; which < COUNTS; which++)                                                                       \
        for (int64_t count = counts[which], once = 1; once; once = 0)                                                  \
            for (d9_kernel_store store = D9_KERNEL_F32; store <= D9_KERNEL_F16; store++)                               \
                for (int shift = 0; shift < D9_COUNT_OF_SHIFTS; shift++)

void d9_cuda_check_cast(d9_check *check) {
    FOR_ALL(count, store, shift) D9_FOR_STORES(to) {
        const float *values = d9_random(store, count, 1);
        d9_array x = d9_array_of(store, count, shift, values), y = d9_array_new(to, count, shift);
        LAUNCH(d9_cuda_cast(NULL, IN(x), count, OUT(y)));
        d9_check_array(check, "cast", values, &y, 0);
        d9_check_done(check);
    }
}

void d9_cuda_check_add(d9_check *check) {
    const d9_cpu cpu = d9_plain_cpu();
    FOR_ALL(count, store, shift) {
        const float *a = d9_random(store, count, 1), *b = d9_random(D9_KERNEL_F32, count, 2);
        float *expected = d9_floats(count);
        d9_cpu_add(&cpu, d9_plain_in(a), d9_plain_in(b), count, d9_plain_out(expected));
        d9_array x = d9_array_of(store, count, shift, a), y = d9_array_of(D9_KERNEL_F32, count, 0, b);
        /* in place: the sum goes where a was */
        LAUNCH(d9_cuda_add(NULL, IN(x), IN(y), count, OUT(x)));
        d9_check_array(check, "add", expected, &x, 0);
        d9_check_done(check);
    }
}

void d9_cuda_check_scale(d9_check *check) {
    const d9_cpu cpu = d9_plain_cpu();
    FOR_ALL(count, store, shift) {
        const float *values = d9_random(store, count, 3);
        float *expected = d9_floats(count);
        d9_cpu_scale(&cpu, d9_plain_in(values), 0.0625f, count, d9_plain_out(expected));
        d9_array x = d9_array_of(store, count, shift, values), y = d9_array_new(D9_KERNEL_F32, count, 0);
        LAUNCH(d9_cuda_scale(NULL, IN(x), 0.0625f, count, OUT(y)));
        d9_check_array(check, "scale", expected, &y, 0);
        d9_check_done(check);
    }
}

void d9_cuda_check_copy(d9_check *check) {
    FOR_ALL(count, store, shift) {
        const float *values = d9_random(store, count, 4);
        d9_array x = d9_array_of(store, count, 0, values), y = d9_array_new(store, count, shift);
        LAUNCH(d9_cuda_copy(NULL, x.data, x.bytes, y.data));
        d9_check_array(check, "copy", values, &y, 0);
        d9_check_done(check);
    }
}

void d9_cuda_check_act_forward(d9_check *check) {
    const d9_cpu cpu = d9_plain_cpu();
    for (int activation = 0; activation < D9_ACT_COUNT; activation++) FOR_ALL(count, store, shift) {
            float *values = d9_random(store, count, 5), *expected = d9_floats(count);
            for (int64_t k = 0; k < count; k++) values[k] *= 4;
            const d9_kernel_act act = {activation, 0.3f};
            d9_cpu_act_forward(&cpu, d9_plain_in(values), act, count, d9_plain_out(expected));
            d9_array x = d9_array_of(store, count, shift, values), y = d9_array_new(store, count, shift);
            LAUNCH(d9_cuda_act_forward(NULL, IN(x), act, count, OUT(y)));
            d9_check_array(check, "act", expected, &y, 1e-6);
            d9_check_done(check);
        }
}

/* Values and derivatives at infinities, NaN and large numbers must agree with the CPU's; where those are NaN, any NaN
 * agrees. */
void d9_cuda_check_act_extremes(d9_check *check) {
    static const float extremes[] = {INFINITY, -INFINITY, NAN, 65504, -65504, 130, -130, 41, -41, 17, -17, 6, -6, 0};
    enum { COUNT = sizeof extremes / sizeof *extremes };
    const d9_cpu cpu = d9_plain_cpu();
    for (int activation = 0; activation < D9_ACT_COUNT; activation++) D9_FOR_STORES(store) {
            float ones[COUNT], values[COUNT], expected[2][COUNT];
            for (int i = 0; i < COUNT; i++) ones[i] = 1, values[i] = d9_store_rounded(store, extremes[i]);
            const d9_kernel_act act = {activation, 0.3f};
            d9_cpu_act_forward(&cpu, d9_plain_in(values), act, COUNT, d9_plain_out(expected[0]));
            d9_cpu_act_backward(&cpu, d9_plain_in(ones), d9_plain_in(values), act, COUNT, d9_plain_out(expected[1]));
            d9_array x = d9_array_of(store, COUNT, 0, values), dy = d9_array_of(store, COUNT, 0, ones);
            d9_array got[2] = {d9_array_new(store, COUNT, 0), d9_array_new(store, COUNT, 0)};
            LAUNCH(d9_cuda_act_forward(NULL, IN(x), act, COUNT, OUT(got[0])));
            LAUNCH(d9_cuda_act_backward(NULL, IN(dy), IN(x), act, COUNT, OUT(got[1])));
            for (int k = 0; k < 2 * COUNT; k++) {
                const float wanted = d9_store_rounded(store, expected[k / COUNT][k % COUNT]);
                const float value = d9_array_at(&got[k / COUNT], k % COUNT);
                check->compared++;
                if (isnan(wanted) ? !isnan(value)
                                  : !(value == wanted || fabsf(value - wanted) <= 0x1p-7f * fabsf(wanted) + 1e-7f))
                    d9_check_fail(check, "activation %d, store %d, %s at %g: %g, not %g", activation, (int)store,
                                  k < COUNT ? "value" : "derivative", (double)values[k % COUNT], (double)value,
                                  (double)wanted);
            }
            d9_check_done(check);
        }
}

/* The output replaces the reference, or is an array of its own; in that case only the reference may be unaligned. */
void d9_cuda_check_act_backward(d9_check *check) {
    const d9_cpu cpu = d9_plain_cpu();
    for (int activation = 0; activation < D9_ACT_COUNT; activation++) FOR_ALL(count, store, shift) {
            const float *dy = d9_random(store, count, 6), *reference = d9_random(store, count, 7);
            const d9_kernel_act act = {activation, 0.3f};
            float *expected = d9_floats(count);
            d9_cpu_act_backward(&cpu, d9_plain_in(dy), d9_plain_in(reference), act, count, d9_plain_out(expected));
            d9_array by = d9_array_of(store, count, shift, reference), to = d9_array_new(store, count, 0);
            for (int in_place = 0; in_place < 2; in_place++) {
                d9_array from = d9_array_of(store, count, in_place ? shift : 0, dy), *out = in_place ? &by : &to;
                LAUNCH(d9_cuda_act_backward(NULL, IN(from), IN(by), act, count, OUT(*out)));
                d9_check_array(check, "act_backward", expected, out, 1e-6);
            }
            d9_check_done(check);
        }
}
