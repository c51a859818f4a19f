/* The kernel of the weight gradient on AMX, compared with sums in double: narrow and wide rows, more threads than
 * images, a partial group of the images that are packed together. Inputs are small integers: sums are exact and must be
 * equal. Without AMX the kernel must reject two shapes that it accepts with AMX. */
#include "kernels/cpu/conv.h"
#include "kernels/formulas/half.h"
#include "kernels/formulas/philox.h"
#include "tests/support/test.h"

enum { GUARD = 64 };

extern const d9_cpu_conv_kernel d9_cpu_conv_amx;

static d9_cpu best_cpu(int threads) {
    return (d9_cpu){.loops = d9_cpu_loops_find(NULL), .amx = d9_cpu_has_amx_bf16(), .threads = threads};
}

static d9_cpu_conv_shape shape_of(int64_t images, int64_t height, int64_t width, int64_t inputs, int64_t outputs) {
    d9_cpu_conv_shape s = {.pass = D9_CPU_CONV_BACKWARD_WEIGHT, .store = D9_KERNEL_BF16, .inputs = inputs};
    s.images = images, s.height = s.out_height = height, s.width = s.out_width = width, s.outputs = outputs;
    s.kernel = 3, s.stride = s.pad = 1;
    return s;
}

static bool fits(const d9_cpu *cpu, d9_cpu_conv_shape shape) { return d9_cpu_conv_amx.fits(cpu, &shape); }

static uint16_t *integers(int64_t count, uint32_t seed) { /* random integers from -3 to 3, as bf16 */
    uint16_t *values = test_memory((size_t)(count + 31) / 32 * 64);
    for (int64_t i = 0; i < count; i++)
        values[i] =
            d9_bf16_from_float((float)d9_philox_below(d9_philox4x32_10(seed, (uint32_t)i, 0, 0, 0).v[0], 7) - 3);
    return values;
}

/* The element of the gradient for output channel o, input channel i and the filter's tap 3 * row + column. */
static double plain_sum(const d9_cpu_conv_shape *s, const uint16_t *x, const uint16_t *dy, int64_t o, int64_t tap,
                        int64_t i) {
    double sum = 0;
    for (int64_t n = 0; n < s->images; n++)
        for (int64_t r = 0; r < s->height; r++)
            for (int64_t c = 0; c < s->width; c++) {
                const int64_t y0 = r + tap / 3 - 1, x0 = c + tap % 3 - 1;
                if (y0 < 0 || x0 < 0 || y0 >= s->height || x0 >= s->width) continue;
                sum += (double)d9_bf16_to_float(dy[((n * s->height + r) * s->width + c) * s->outputs + o]) *
                       (double)d9_bf16_to_float(x[((n * s->height + y0) * s->width + x0) * s->inputs + i]);
            }
    return sum;
}

/* Compares every element, or every 37th of a gradient of more than 50000 elements. */
static void check(const d9_cpu_conv_shape *s, int threads) {
    const d9_cpu cpu = best_cpu(threads);
    const int64_t pixels = s->images * s->height * s->width, count = s->outputs * 9 * s->inputs;
    uint16_t *x = integers(pixels * s->inputs, 1), *dy = integers(pixels * s->outputs, 2);
    assert_true(fits(&cpu, *s));
    const int64_t bytes = d9_cpu_conv_amx.scratch_bytes(&cpu, s);
    char *scratch = test_memory((size_t)bytes + GUARD);
    float *dw = test_memory((size_t)(count + GUARD) * sizeof *dw);
    memset(scratch, 0xff, (size_t)bytes + GUARD); /* NaN shows reads of unwritten memory */
    memset(dw, 0xff, (size_t)(count + GUARD) * sizeof *dw);
    d9_cpu_conv_amx.run(&cpu, s, &(d9_cpu_conv_arrays){.x = x, .w = dw, .y = dy}, scratch);
    for (int64_t k = 0; k<count; k += count> 50000 ? 37 : 1) {
        const double want = plain_sum(s, x, dy, k / 9 / s->inputs, k / s->inputs % 9, k % s->inputs);
        if (!((double)dw[k] == want))
            fail_msg("%d x %d, %d images, %d -> %d channels, %d threads: element %d is %g, must be %g", (int)s->height,
                     (int)s->width, (int)s->images, (int)s->inputs, (int)s->outputs, threads, (int)k, (double)dw[k],
                     want);
    }
    for (int i = 0; i < GUARD; i++)
        assert_true(scratch[bytes + i] == (char)0xff && d9_float_bits(dw[count + i]) == UINT32_C(0xffffffff));
}

static bool fits_here(void) {
    const d9_cpu cpu = best_cpu(1);
    return fits(&cpu, shape_of(1, 8, 8, 32, 32));
}

TEST(sums_are_exact) {
    if (!fits_here()) skip_for("amx", "no tiles of bf16 on this processor");
    static const int sizes[][5] = {
        {1, 4, 4, 32, 32},   {7, 4, 4, 64, 32},   {3, 8, 8, 32, 96},   {65, 4, 8, 32, 32},
        {2, 6, 8, 64, 64},   {5, 16, 16, 32, 64}, {1, 32, 32, 32, 32}, {3, 3, 48, 32, 32},
        {130, 4, 4, 32, 32}, {40, 16, 16, 32, 32} /* last: with one thread, two groups of images */
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int *n = sizes[i];
        const d9_cpu_conv_shape shape = shape_of(n[0], n[1], n[2], n[3], n[4]);
        for (int threads = 1; threads <= 3; threads++) check(&shape, threads);
    }
}

TEST(other_shapes_do_not_fit) {
    if (!fits_here()) skip_for("amx", "nothing fits on this processor");
    d9_cpu cpu = best_cpu(1);
    assert_false(fits(&cpu, shape_of(1, 8, 12, 32, 32)) || fits(&cpu, shape_of(1, 8, 8, 33, 32)));
    assert_false(fits(&cpu, shape_of(1, 8, 8, 32, 16)) || fits(&cpu, shape_of(1, 3, 4, 32, 32)));
    d9_cpu_conv_shape other[6];
    for (int i = 0; i < 6; i++) other[i] = shape_of(1, 8, 8, 32, 32);
    other[0].pass = D9_CPU_CONV_FORWARD;
    other[1].pass = D9_CPU_CONV_BACKWARD_DATA;
    other[2].store = D9_KERNEL_F32;
    other[3].kernel = 1;
    other[4].stride = 2;
    other[5].pad = 0;
    for (int i = 0; i < 6; i++) assert_false(fits(&cpu, other[i]));
    cpu.amx = false;
    assert_false(fits(&cpu, shape_of(1, 8, 8, 32, 32)));
}

TEST(the_kernel_fits_exactly_where_there_is_amx) {
    const d9_cpu cpu = best_cpu(1);
    assert_ints(fits_here(), d9_cpu_has_amx_bf16(), fits(&cpu, shape_of(1, 16, 16, 64, 64)), fits_here());
}
