/* The closed form of a first layer, compared with its one or two convolutions, normalisation and activation in double.
 * In double, only the weights and the gradient before the activation are rounded to the storage type, as by the
 * kernels. So half-precision outputs differ by their own rounding, f32 outputs by the order of sums. */
#include "tests/cuda_model/checks.h"

#define D9_REAL float
#include "kernels/formulas/activation.h"
#undef D9_REAL
#define D9_REAL double
#include "kernels/formulas/activation.h"
#undef D9_REAL

#include <math.h>
#include <string.h>

static const d9_cuda_moments shapes[] = {
    /* images, height, width, inputs, out_height, out_width, outputs, groups, kernel, stride, pad, between */
    {1, 7, 5, 3, 7, 5, 24, 1, 3, 1, 1, 27}, {4, 7, 5, 1, 3, 2, 8, 4, 3, 2, 0, 0},
    {2, 9, 4, 6, 10, 5, 8, 1, 2, 1, 1, 5},  {7, 5, 7, 3, 5, 7, 65, 1, 3, 1, 1, 0},
    {65, 3, 4, 1, 3, 4, 27, 5, 3, 1, 1, 9}, {2, 3, 7, 27, 3, 7, 64, 2, 1, 1, 0, 0},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, SMALL = 3, WIDE_SHAPE = 5 /* its outputs are a multiple of 8 */ };
/* Large shapes: several spans per image; and more images per group than blocks. */
static const d9_cuda_moments spans = {2, 17, 32, 3, 17, 32, 64, 1, 3, 1, 1, 27};
static const d9_cuda_moments turns = {521, 1, 2, 2, 1, 1, 8, 1, 1, 2, 0, 0};
static const float alpha = 0.3f;
#define SHIFTS(store)                                                                                                  \
    ((store) == D9_KERNEL_BF16 ? D9_COUNT_OF_SHIFTS : 1) /* forward passes test shifts in one storage type */

typedef struct case_arrays { /* a case's arrays, in double and for the simulated GPU */
    d9_cuda_moments s;
    d9_kernel_store store;
    int64_t pixels, patch, x_count, w_count, y_count,
        statistics; /* pixels of an output; inputs of a patch; elements of x, w and y; G * O */
    /* first (s.between, patch): filters of the first of two convolutions; running (2, G, O): means, then variances */
    float *x, *w, *first, *dy, *scale, *bias, *running;
    double *product;                   /* (O, patch): product of both filters, or the only filter */
    double *conv, *y, *mean, *inv_std; /* conv and y: (N, P, O); mean and inv_std: (G, O) */
    d9_array gpu_x, gpu_dy, gpu_y, gpu_mean, gpu_inv_std, gpu_running[2], scratch, moments;
} case_arrays;

static double rounded(const case_arrays *s, float value) { return (double)d9_store_rounded(s->store, value); }

/* Input k of the patch at a pixel of image i. */
static double patch_at(const case_arrays *s, int64_t i, int64_t pixel, int64_t k) {
    const d9_cuda_moments *c = &s->s;
    const int64_t y = pixel / c->out_width * c->stride - c->pad + k / c->inputs / c->kernel;
    const int64_t x = pixel % c->out_width * c->stride - c->pad + k / c->inputs % c->kernel;
    if (y < 0 || x < 0 || y >= c->height || x >= c->width) return 0;
    return (double)s->x[((i * c->height + y) * c->width + x) * c->inputs + k % c->inputs];
}

static void convolve(case_arrays *s) { /* fills `product` and `conv` */
    const d9_cuda_moments *c = &s->s;
    for (int64_t o = 0; o < c->outputs; o++)
        for (int64_t k = 0; k < s->patch; k++) {
            double *to = &s->product[o * s->patch + k];
            if (!c->between) *to = rounded(s, s->w[o * s->patch + k]);
            for (int64_t m = 0; m < c->between; m++)
                *to += rounded(s, s->w[o * c->between + m]) * rounded(s, s->first[m * s->patch + k]);
        }
    for (int64_t at = 0; at < s->y_count; at++)
        for (int64_t k = 0; k < s->patch; k++)
            s->conv[at] += patch_at(s, at / c->outputs / s->pixels, at / c->outputs % s->pixels, k) *
                           s->product[at % c->outputs * s->patch + k];
}

static case_arrays open_case(const d9_cuda_moments *shape, d9_kernel_store store, int shift) {
    case_arrays s = {.s = *shape, .store = store};
    s.pixels = shape->out_height * shape->out_width;
    s.patch = shape->kernel * shape->kernel * shape->inputs;
    s.x_count = shape->images * shape->height * shape->width * shape->inputs;
    s.w_count = shape->outputs * (shape->between ? shape->between : s.patch);
    s.y_count = shape->images * s.pixels * shape->outputs;
    s.statistics = shape->groups * shape->outputs;
    s.x = d9_random(store, s.x_count, 71);
    for (int64_t i = 0; i < s.x_count; i++) s.x[i] = d9_store_rounded(store, s.x[i] + 0.25f);
    s.w = d9_random(D9_KERNEL_F32, s.w_count, 72);
    s.first = d9_random(D9_KERNEL_F32, shape->between ? shape->between * s.patch : 1, 73);
    s.dy = d9_random(store, s.y_count, 74);
    s.scale = d9_random(D9_KERNEL_F32, shape->outputs, 75);
    s.bias = d9_random(D9_KERNEL_F32, shape->outputs, 76);
    s.running = d9_random(D9_KERNEL_F32, 2 * s.statistics, 77);
    for (int64_t k = 0; k < 2 * s.statistics; k++) s.running[k] += 1.5f; /* variances must be positive */
    s.product = d9_doubles(shape->outputs * s.patch);
    s.conv = d9_doubles(s.y_count);
    s.y = d9_doubles(s.y_count);
    s.mean = d9_doubles(s.statistics);
    s.inv_std = d9_doubles(s.statistics);
    s.gpu_x = d9_array_of(store, s.x_count, 0, s.x);
    s.gpu_dy = d9_array_of(store, s.y_count, shift, s.dy);
    s.gpu_y = d9_array_new(store, s.y_count, shift);
    s.gpu_mean = d9_array_new(D9_KERNEL_F32, s.statistics, 0);
    s.gpu_inv_std = d9_array_new(D9_KERNEL_F32, s.statistics, 0);
    for (int i = 0; i < 2; i++)
        s.gpu_running[i] = d9_array_of(D9_KERNEL_F32, s.statistics, 0, s.running + i * s.statistics);
    s.scratch = d9_array_new(D9_KERNEL_F32, d9_cuda_moments_scratch_bytes(shape) / 4, 0);
    s.moments = d9_array_new(D9_KERNEL_F32, d9_cuda_moments_bytes(shape) / 4, 0);
    convolve(&s);
    return s;
}

static d9_cuda_moments_weights weights_of(const case_arrays *s) {
    return (d9_cuda_moments_weights){s->w, s->s.between ? s->first : NULL};
}

static d9_kernel_norm_state state_of(const case_arrays *s) {
    return d9_norm_state_of(s->scale, s->bias, s->gpu_running, &s->gpu_mean, &s->gpu_inv_std);
}

/* Iterates over all pixels p of all images i of group g; at: index in y of output o of pixel p of image i. */
#define FOR_GROUP(s, g, o, at)                                                                                         \
    for (int64_t i = (g); i < (s)->s.images; i += (s)->s.groups)                                                       \
        for (int64_t p = 0, at = i * (s)->pixels * (s)->s.outputs + (o); p < (s)->pixels;                              \
             p++, at = (i * (s)->pixels + p) * (s)->s.outputs + (o))

static void normalise(case_arrays *s) { /* fills `mean`, `inv_std` and `y`; updates `running` */
    const double n = (double)(s->s.images / s->s.groups * s->pixels);
    for (int64_t at = 0; at < s->statistics; at++) {
        const int64_t g = at / s->s.outputs, o = at % s->s.outputs;
        double mean = 0, variance = 0;
        FOR_GROUP(s, g, o, k) mean += s->conv[k] / n;
        FOR_GROUP(s, g, o, k) variance += (s->conv[k] - mean) * (s->conv[k] - mean) / n;
        s->mean[at] = mean;
        s->inv_std[at] = 1 / sqrt(variance + 1e-5);
        s->running[at] = (float)(0.9 * (double)s->running[at] + 0.1 * mean);
        float *of = &s->running[s->statistics + at];
        *of = (float)(0.9 * (double)*of + 0.1 * variance * (n > 1 ? n / (n - 1) : 1));
        FOR_GROUP(s, g, o, k) {
            const double z = (s->conv[k] - mean) * s->inv_std[at] * (double)s->scale[o] + (double)s->bias[o];
            s->y[k] = d9_act_CELU_double(z, (double)alpha);
        }
    }
}

static void forward(d9_check *check, case_arrays *s) { /* in double, and on the simulated GPU */
    const d9_cuda_moments_weights weights = weights_of(s);
    const d9_kernel_norm_state state = state_of(s);
    const d9_kernel_act act = {D9_ACT_CELU, alpha};
    normalise(s);
    LAUNCH(d9_cuda_moments_forward(NULL, &s->s, IN(s->gpu_x), &weights, &state, act, s->scratch.data, s->moments.data,
                                   OUT(s->gpu_y)));
}

static void check_forward(d9_check *check, const d9_cuda_moments *shape, d9_kernel_store store, int shift) {
    case_arrays s = open_case(shape, store, shift);
    forward(check, &s);
    d9_check_array(check, "moments mean", d9_narrowed(s.statistics, s.mean), &s.gpu_mean, 1e-6);
    d9_check_array(check, "moments inv_std", d9_narrowed(s.statistics, s.inv_std), &s.gpu_inv_std, 2e-6);
    d9_check_array(check, "moments running_mean", s.running, &s.gpu_running[0], 1e-6);
    d9_check_array(check, "moments running_var", s.running + s.statistics, &s.gpu_running[1], 1e-6);
    d9_check_array(check, "moments_forward", d9_narrowed(s.y_count, s.y), &s.gpu_y, 3e-6);
    d9_check_done(check);
}

void d9_cuda_check_moments_forward(d9_check *check) {
    for (int i = 0; i < SHAPES; i++) D9_FOR_STORES(store) {
            for (int shift = 0; shift < SHIFTS(store); shift++) check_forward(check, &shapes[i], store, shift);
        }
    check_forward(check, &spans, D9_KERNEL_F32, 0);
}

/* Checks the evaluation with running statistics, and the convolution's own output. */
static void check_eval(d9_check *check, const d9_cuda_moments *shape, d9_kernel_store store) {
    case_arrays s = open_case(shape, store, 0);
    const d9_cuda_moments_weights weights = weights_of(&s);
    const d9_kernel_norm_state state = state_of(&s);
    const d9_kernel_act act = {D9_ACT_RELU, 0};
    d9_array conv = d9_array_new(store, s.y_count, 0);
    for (int64_t at = 0; at < s.y_count; at++) {
        const int64_t o = at % shape->outputs;
        double mean = 0, variance = 0;
        for (int64_t k = o; k < s.statistics; k += shape->outputs) {
            mean += (double)s.running[k] / (double)shape->groups;
            variance += (double)s.running[s.statistics + k] / (double)shape->groups;
        }
        const double z = (s.conv[at] - mean) / sqrt(variance + 1e-5) * (double)s.scale[o] + (double)s.bias[o];
        s.y[at] = z > 0 ? z : 0;
    }
    LAUNCH(d9_cuda_moments_eval(NULL, shape, IN(s.gpu_x), &weights, &state, act, s.scratch.data, OUT(s.gpu_y)));
    LAUNCH(d9_cuda_moments_conv(NULL, shape, IN(s.gpu_x), &weights, s.scratch.data, OUT(conv)));
    d9_check_array(check, "moments_eval", d9_narrowed(s.y_count, s.y), &s.gpu_y, 3e-6);
    d9_check_array(check, "moments_conv", d9_narrowed(s.y_count, s.conv), &conv, 3e-6);
    d9_check_done(check);
}

void d9_cuda_check_moments_eval(d9_check *check) {
    for (int i = 0; i < SHAPES; i++) D9_FOR_STORES(store) check_eval(check, &shapes[i], store);
}

typedef struct gradients {                 /* in double */
    double *product, *dw, *dscale, *dbias; /* product: gradient of the product of the filters */
} gradients;

/* The slope is computed from y as stored, as in the kernel, so the gradient before the activation has the kernel's bits
 * unless the compiler made fused multiply-adds of the kernel's products. */
static gradients differentiate(case_arrays *s) {
    const d9_cuda_moments *c = &s->s;
    const double n = (double)(c->images / c->groups * s->pixels);
    const gradients d = {d9_doubles(c->outputs * s->patch), d9_doubles(s->w_count), d9_doubles(c->outputs),
                         d9_doubles(c->outputs)};
    double *dz = d9_doubles(s->y_count);
    for (int64_t k = 0; k < s->y_count; k++)
        dz[k] = rounded(s, s->dy[k] * d9_act_slope_CELU_float(d9_array_at(&s->gpu_y, k), alpha));
    for (int64_t at = 0; at < s->statistics; at++) {
        const int64_t g = at / c->outputs, o = at % c->outputs;
        double sum = 0, product = 0;
        FOR_GROUP(s, g, o, k) {
            sum += dz[k];
            product += dz[k] * (s->conv[k] - s->mean[at]) * s->inv_std[at];
        }
        d.dbias[o] += sum;
        d.dscale[o] += product;
        FOR_GROUP(s, g, o, k) {
            const double xh = (s->conv[k] - s->mean[at]) * s->inv_std[at];
            const double dx = (double)s->scale[o] * s->inv_std[at] * (dz[k] - sum / n - xh * product / n);
            for (int64_t j = 0; j < s->patch; j++) d.product[o * s->patch + j] += dx * patch_at(s, i, p, j);
        }
    }
    for (int64_t o = 0; o < c->outputs; o++)
        for (int64_t j = 0; j < s->patch; j++) {
            const double of = d.product[o * s->patch + j];
            if (!c->between) d.dw[o * s->patch + j] = of;
            for (int64_t m = 0; m < c->between; m++)
                d.dw[o * c->between + m] += of * rounded(s, s->first[m * s->patch + j]);
        }
    return d;
}

static void check_backward(d9_check *check, const d9_cuda_moments *shape, d9_kernel_store store, int shift,
                           bool all_wanted) {
    case_arrays s = open_case(shape, store, shift);
    const d9_cuda_moments_weights weights = weights_of(&s);
    const d9_kernel_act act = {D9_ACT_CELU, alpha};
    d9_array dw = d9_array_new(D9_KERNEL_F32, s.w_count, 0), dscale = d9_array_new(D9_KERNEL_F32, shape->outputs, 0),
             dbias = d9_array_new(D9_KERNEL_F32, shape->outputs, 0);
    const d9_cuda_moments_gradients to = {dw.data, all_wanted ? dscale.data : NULL, all_wanted ? dbias.data : NULL};
    forward(check, &s);
    const gradients d = differentiate(&s);
    LAUNCH(d9_cuda_moments_backward(NULL, shape, IN(s.gpu_dy), act, IN(s.gpu_y), IN(s.gpu_x), &weights, s.gpu_mean.data,
                                    s.gpu_inv_std.data, s.scale, s.moments.data, s.scratch.data, &to));
    const double most = d9_check_sum_tolerance(check, store, 1e-5);
    d9_check_array(check, "moments dw", d9_narrowed(s.w_count, d.dw), &dw, most);
    if (all_wanted) d9_check_array(check, "moments dscale", d9_narrowed(shape->outputs, d.dscale), &dscale, most);
    if (all_wanted) d9_check_array(check, "moments dbias", d9_narrowed(shape->outputs, d.dbias), &dbias, most);
    d9_check_done(check);
}

void d9_cuda_check_moments_backward(d9_check *check) {
    for (int i = 0; i < SMALL; i++) check_backward(check, &shapes[i], D9_KERNEL_F16, i & 1, i != 1);
    check_backward(check, &spans, D9_KERNEL_F32, 0, true);
    check_backward(check, &spans, D9_KERNEL_F16, 0, true);
}

void d9_cuda_check_moments_stores(d9_check *check) {
    for (int i = SMALL; i < SHAPES; i++) check_backward(check, &shapes[i], D9_KERNEL_F16, i & 1, true);
    D9_FOR_SOME_STORES(store, D9_KERNEL_F16) check_backward(check, &shapes[WIDE_SHAPE], store, 0, true);
    check_backward(check, &shapes[WIDE_SHAPE], D9_KERNEL_BF16, 1, true);
    check_backward(check, &turns, D9_KERNEL_F32, 0, true);
    if (!d9_check_skips(D9_KERNEL_BF16, 0)) check_backward(check, &turns, D9_KERNEL_BF16, 0, true);
}

/* Shapes that fit must be accepted, others rejected. */
void d9_cuda_check_moments_fits(d9_check *check) {
    const struct {
        int kernel;
        int64_t inputs, between, groups;
        bool fits;
    } rows[] = {{3, 3, 27, 2, true}, {3, 3, 28, 2, false}, {1, 28, 0, 2, false},
                {5, 1, 25, 4, true}, {3, 4, 0, 2, false},  {3, 3, 0, 3, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const d9_cuda_moments shape = {.images = 4,
                                       .height = 8,
                                       .width = 8,
                                       .inputs = rows[i].inputs,
                                       .out_height = 8,
                                       .out_width = 8,
                                       .outputs = 8,
                                       .groups = rows[i].groups,
                                       .kernel = rows[i].kernel,
                                       .stride = 1,
                                       .between = rows[i].between};
        check->compared++;
        if (d9_cuda_moments_fits(&shape) != rows[i].fits) d9_check_fail(check, "moments_fits: row %zu", i);
    }
}
