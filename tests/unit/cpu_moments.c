/* A convolution with few inputs, its batch norm and activation in closed form (kernels/cpu/moments.h), compared with
 * the three operations in double: every instruction set that runs here, patches of 9 to 27 inputs, odd sizes. */
#define D9_REAL double
#include "kernels/cpu/moments.h"
#include "kernels/formulas/activation.h"
#include "kernels/formulas/philox.h"
#include "tests/support/kernel_arrays.h"

enum { GUARD = 16 };

typedef struct layer_case { /* inputs, results and expected results (want_) of a shape; xh: normalized values */
    d9_cpu_moments shape;
    int64_t x_count, w_count, y_count, gc; /* elements; gc: groups * channels */
    float *x, *w, *dy, *scale, *bias, *running, *statistics, *y, *conv, *dw, *dscale, *dbias;
    double *want_conv, *want_y, *xh, *want_dw, *want_dscale, *want_dbias, *want_statistics, *want_running;
    void *scratch;
    uint32_t seed;
} layer_case;

static void fill_nan(float *a, int64_t count) { /* marks elements that are not written yet, and the guards */
    memset(a, 0xff, (size_t)(count + GUARD) * sizeof *a);
}

static float *nan_floats(int64_t count) {
    float *made = test_memory((size_t)((count + 2 * GUARD + 15) / 16 * 16) * sizeof *made);
    fill_nan(made, count);
    return made;
}

static void assert_guarded(const float *a, int64_t count) { /* fails if anything was written after `count` elements */
    for (int64_t i = count; i < count + GUARD; i++) assert_true(isnan(a[i]));
}

static double *zero_doubles(int64_t count) { return test_memory((size_t)count * sizeof(double)); }

static float *random_floats(layer_case *b, int64_t count, float low, float high) {
    float *made = nan_floats(count);
    for (int64_t i = 0; i < count; i++)
        made[i] = low + (high - low) * (float)d9_philox_unit(d9_philox4x32_10(11, b->seed++, 0, 0, 0).v[0]);
    return made;
}

static void make_case(layer_case *b, d9_cpu_moments shape) { /* with random inputs */
    const d9_cpu_conv_shape *c = &shape.conv;
    *b = (layer_case){.shape = shape};
    b->x_count = c->images * c->height * c->width * c->inputs;
    b->w_count = c->outputs * c->kernel * c->kernel * c->inputs;
    b->y_count = c->images * c->out_height * c->out_width * c->outputs;
    b->gc = shape.groups * c->outputs;
    b->x = random_floats(b, b->x_count, -1, 1.5f);
    b->w = random_floats(b, b->w_count, -1, 1);
    b->dy = random_floats(b, b->y_count, -1, 1);
    b->scale = random_floats(b, c->outputs, 0.5f, 1.5f);
    b->bias = random_floats(b, c->outputs, -1, 1);
    b->running = random_floats(b, 2 * b->gc, 0.5f, 1.5f);
    b->statistics = nan_floats(2 * b->gc);
    b->y = nan_floats(b->y_count);
    b->conv = nan_floats(b->y_count);
    b->dw = nan_floats(b->w_count);
    b->dscale = nan_floats(c->outputs);
    b->dbias = nan_floats(c->outputs);
    b->want_y = zero_doubles(b->y_count);
    b->want_conv = zero_doubles(b->y_count);
    b->xh = zero_doubles(b->y_count);
    b->want_dw = zero_doubles(b->w_count);
    b->want_dscale = zero_doubles(c->outputs);
    b->want_dbias = zero_doubles(c->outputs);
    b->want_statistics = zero_doubles(2 * b->gc);
    b->want_running = zero_doubles(2 * b->gc);
    b->scratch = nan_floats(d9_cpu_moments_scratch_bytes(&b->shape) / 4);
}

/* Iterates over the products summed in output o of pixel p of image i; at_x and at_w: indices into x and w. */
#define FOR_TAPS(c, i, p, o, at_x, at_w)                                                                               \
    for (int64_t t = 0; t < (c)->kernel * (c)->kernel; t++)                                                            \
        for (int64_t h = (p) / (c)->out_width * (c)->stride + t / (c)->kernel - (c)->pad,                              \
                     v = (p) % (c)->out_width * (c)->stride + t % (c)->kernel - (c)->pad, ch = 0;                      \
             h >= 0 && v >= 0 && h < (c)->height && v < (c)->width && ch < (c)->inputs; ch++)                          \
            for (int64_t at_x = (((i) * (c)->height + h) * (c)->width + v) * (c)->inputs + ch,                         \
                         at_w = ((o) * (c)->kernel * (c)->kernel + t) * (c)->inputs + ch, once = 1;                    \
                 once; once = 0)

/* Expected statistics, activations and gradients of output channel o in group g, from the convolution's result y. */
static void expect_channel(layer_case *b, const double *y, int64_t g, int64_t o, d9_kernel_act act) {
    const d9_cpu_conv_shape *c = &b->shape.conv;
    const int64_t pixels = c->out_height * c->out_width, at = g * c->outputs + o;
    const double n = (double)(c->images / b->shape.groups * pixels);
    double mean = 0, variance = 0;
    for (int64_t i = g; i < c->images; i += b->shape.groups)
        for (int64_t p = 0; p < pixels; p++) mean += y[(i * pixels + p) * c->outputs + o] / n;
    for (int64_t i = g; i < c->images; i += b->shape.groups)
        for (int64_t p = 0; p < pixels; p++) variance += pow(y[(i * pixels + p) * c->outputs + o] - mean, 2) / n;
    const double inv_std = 1 / sqrt(variance + 1e-5);
    b->want_statistics[at] = mean;
    b->want_statistics[b->gc + at] = inv_std;
    b->want_running[at] = 0.75 * (double)b->running[at] + 0.25 * mean;
    b->want_running[b->gc + at] = 0.75 * (double)b->running[b->gc + at] + 0.25 * variance * (n > 1 ? n / (n - 1) : 1);
    double s1 = 0, s2 = 0;
    for (int64_t i = g; i < c->images; i += b->shape.groups)
        for (int64_t p = 0; p < pixels; p++) {
            const int64_t k = (i * pixels + p) * c->outputs + o;
            b->xh[k] = (y[k] - mean) * inv_std;
            b->want_y[k] = d9_act_CELU_double(b->xh[k] * (double)b->scale[o] + (double)b->bias[o], (double)act.alpha);
            const double dz = (double)b->dy[k] * d9_act_slope_CELU_double(b->want_y[k], (double)act.alpha);
            s1 += dz;
            s2 += dz * b->xh[k];
        }
    b->want_dbias[o] += s1;
    b->want_dscale[o] += s2;
    for (int64_t i = g; i < c->images; i += b->shape.groups)
        for (int64_t p = 0; p < pixels; p++) {
            const int64_t k = (i * pixels + p) * c->outputs + o;
            const double dz = (double)b->dy[k] * d9_act_slope_CELU_double(b->want_y[k], (double)act.alpha);
            const double dx = (double)b->scale[o] * inv_std * (dz - s1 / n - b->xh[k] * s2 / n);
            FOR_TAPS(c, i, p, o, at_x, at_w) b->want_dw[at_w] += dx * (double)b->x[at_x];
        }
}

static void expect_all(layer_case *b, d9_kernel_act act) {
    const d9_cpu_conv_shape *c = &b->shape.conv;
    const int64_t pixels = c->out_height * c->out_width;
    double *y = b->want_conv;
    for (int64_t i = 0; i < c->images; i++)
        for (int64_t p = 0; p < pixels; p++)
            for (int64_t o = 0; o < c->outputs; o++) FOR_TAPS(c, i, p, o, at_x, at_w)
    y[(i * pixels + p) * c->outputs + o] += (double)b->x[at_x] * (double)b->w[at_w];
    for (int64_t g = 0; g < b->shape.groups; g++)
        for (int64_t o = 0; o < c->outputs; o++) expect_channel(b, y, g, o, act);
}

static void assert_close(const float *got, const double *want, int64_t count, double limit, const char *what,
                         const char *level) {
    double error = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        error += pow((double)got[i] - want[i], 2);
        norm += want[i] * want[i];
    }
    if (!(sqrt(error / norm) <= limit) || !(norm > 0))
        fail_msg("%s at level %s: error %.3g, limit %.3g", what, level, sqrt(error / norm), limit);
}

static void check(layer_case *b, const d9_cpu *cpu, const float *running) { /* both passes with one instruction set */
    const d9_cpu_conv_shape *c = &b->shape.conv;
    const d9_kernel_act act = {D9_ACT_CELU, 0.3f};
    const char *level = cpu->loops->level;
    const struct {
        float *got;
        const double *want;
        int64_t count;
        double limit;
        const char *what;
    } results[] = {{b->running, b->want_running, 2 * b->gc, 1e-6, "running statistics"},
                   {b->conv, b->want_conv, b->y_count, 3e-6, "the convolution"},
                   {b->y, b->want_y, b->y_count, 3e-6, "y"},
                   {b->statistics, b->want_statistics, 2 * b->gc, 1e-6, "statistics"},
                   {b->dw, b->want_dw, b->w_count, 1e-5, "dw"},
                   {b->dscale, b->want_dscale, c->outputs, 1e-5, "dscale"},
                   {b->dbias, b->want_dbias, c->outputs, 1e-5, "dbias"}};
    enum { RESULTS = sizeof results / sizeof *results };
    for (int i = 0; i < RESULTS; i++) fill_nan(results[i].got, results[i].count);
    memcpy(b->running, running, (size_t)(2 * b->gc) * sizeof *running);
    const d9_kernel_norm_state state = {
        b->scale, b->bias, b->running, b->running + b->gc, b->statistics, b->statistics + b->gc, 1e-5, 0.25, 0, 0};
    d9_cpu_moments_forward(cpu, &b->shape, b->x, b->w, &state, act, b->scratch, b->conv, b->y);
    d9_cpu_moments_backward(cpu, &b->shape, b->dy, act, b->y, b->x, b->w, state.mean, state.inv_std, b->scale,
                            b->scratch, &(d9_cpu_moments_gradients){b->dw, b->dscale, b->dbias});
    for (int i = 0; i < RESULTS; i++) {
        assert_close(results[i].got, results[i].want, results[i].count, results[i].limit, results[i].what, level);
        assert_guarded(results[i].got, results[i].count);
    }
    assert_guarded(b->scratch, d9_cpu_moments_scratch_bytes(&b->shape) / 4);
}

enum { SHAPES = 4 };
static d9_cpu_moments shape_at(int row) {
    static const struct {
        int64_t images, height, width, inputs, outputs;
        int kernel, stride, pad;
        int64_t groups;
    } rows[SHAPES] = {{6, 9, 9, 3, 64, 3, 1, 1, 2},
                      {7, 8, 11, 27, 65, 1, 1, 0, 1},
                      {4, 7, 5, 1, 5, 3, 2, 0, 4},
                      {2, 4, 4, 6, 16, 2, 1, 1, 1}};
    d9_cpu_moments m = {.groups = rows[row].groups};
    m.conv.images = rows[row].images, m.conv.height = rows[row].height, m.conv.width = rows[row].width;
    m.conv.inputs = rows[row].inputs, m.conv.outputs = rows[row].outputs;
    m.conv.kernel = rows[row].kernel, m.conv.stride = rows[row].stride, m.conv.pad = rows[row].pad;
    m.conv.out_height = (m.conv.height + 2 * m.conv.pad - m.conv.kernel) / m.conv.stride + 1;
    m.conv.out_width = (m.conv.width + 2 * m.conv.pad - m.conv.kernel) / m.conv.stride + 1;
    return m;
}

TEST(moments_equal_three_operations) {
    int levels = 0;
    for (int i = 0; i < SHAPES; i++) {
        layer_case b;
        make_case(&b, shape_at(i));
        assert_true(d9_cpu_moments_fits(&b.shape));
        expect_all(&b, (d9_kernel_act){D9_ACT_CELU, 0.3f});
        float *running = nan_floats(2 * b.gc);
        memcpy(running, b.running, (size_t)(2 * b.gc) * sizeof *running);
        EACH_LEVEL(loops) check(&b, &(d9_cpu){.loops = loops, .threads = 1 + levels++ % 3}, running);
    }
    assert_true(levels > 0);
}

/* Evaluation uses the running statistics averaged over the groups. */
TEST(evaluation_averages_the_statistics_of_groups) {
    layer_case b;
    make_case(&b, shape_at(0));
    const d9_cpu cpu = {.loops = d9_cpu_loops_find(NULL), .threads = 2};
    const d9_kernel_act act = {D9_ACT_RELU, 0};
    const d9_kernel_norm_state norm = {
        .scale = b.scale, .bias = b.bias, .running_mean = b.running, .running_var = b.running + b.gc, .epsilon = 1e-5};
    d9_cpu_moments_eval(&cpu, &b.shape, b.x, b.w, &norm, act, b.scratch, NULL, b.y);
    const d9_cpu_conv_shape *s = &b.shape.conv;
    const int64_t pixels = s->out_height * s->out_width;
    for (int64_t i = 0; i < s->images; i++)
        for (int64_t p = 0; p < pixels; p++)
            for (int64_t o = 0; o < s->outputs; o++) {
                double y = 0;
                FOR_TAPS(s, i, p, o, at_x, at_w) y += (double)b.x[at_x] * (double)b.w[at_w];
                const double mean = ((double)b.running[o] + (double)b.running[s->outputs + o]) / 2,
                             variance = ((double)b.running[b.gc + o] + (double)b.running[b.gc + s->outputs + o]) / 2;
                const double z = (y - mean) / sqrt(variance + 1e-5) * (double)b.scale[o] + (double)b.bias[o];
                b.want_y[(i * pixels + p) * s->outputs + o] = z > 0 ? z : 0;
            }
    assert_close(b.y, b.want_y, b.y_count, 3e-6, "y", cpu.loops->level);
}

TEST(threads_change_no_bit) {
    const d9_kernel_act act = {D9_ACT_CELU, 0.3f};
    layer_case one = {0}, b;
    for (int threads = 1; threads <= 3; threads++) {
        make_case(&b, shape_at(1));
        if (threads == 1) one = b;
        const d9_cpu cpu = {.loops = d9_cpu_loops_find(NULL), .threads = threads};
        const d9_kernel_norm_state state = {
            b.scale, b.bias, b.running, b.running + b.gc, b.statistics, b.statistics + b.gc, 1e-5, 0.25, 0, 0};
        d9_cpu_moments_forward(&cpu, &b.shape, b.x, b.w, &state, act, b.scratch, NULL, b.y);
        d9_cpu_moments_backward(&cpu, &b.shape, b.dy, act, b.y, b.x, b.w, state.mean, state.inv_std, b.scale, b.scratch,
                                &(d9_cpu_moments_gradients){b.dw, NULL, NULL});
        assert_memory_equal(one.y, b.y, (size_t)b.y_count * sizeof *b.y);
        assert_memory_equal(one.dw, b.dw, (size_t)b.w_count * sizeof *b.dw);
    }
}
