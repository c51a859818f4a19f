/* The parallel part of moments.h: distributes images over threads, adds their sums in order, evaluates the formulas. */
#include "kernels/cpu/moments.h"
#include "kernels/cpu/items.h"
#include "kernels/cpu/statistics.h"

#include <string.h>

enum { WIDEST = 32 }; /* largest panel width of any level */

typedef struct layout { /* layout of the scratch, in this order */
    int64_t inputs, outputs, pixels,
        padded;             /* inputs: numbers in a patch; pixels: of an output image; padded: outputs, rounded up */
    double *moments;        /* (G, inputs + 1, D9_MOMENTS_PATCH): sums of p p^T; in the last row sums of p */
    double *sums;           /* (G, inputs + 1, padded): D^T; in the last row S */
    double *parts;          /* (N, inputs + 1, D9_MOMENTS_PATCH): each image's moments */
    double *gradient_parts; /* (N, inputs + 1, padded): each image's sums */
    float *packed;          /* (G, (inputs + 1) * padded): W' and b' as moments_forward reads them */
    float *bias, *factor;   /* (G, padded) each */
    int64_t bytes;
} layout;

static void *take_scratch(layout *l, char *scratch, int64_t bytes) {
    void *at = scratch ? scratch + l->bytes : NULL; /* NULL only in d9_cpu_moments_scratch_bytes */
    l->bytes += d9_round_up(bytes, 64);
    return at;
}

static layout lay_out(const d9_cpu_moments *s, void *scratch) {
    const d9_cpu_conv_shape *c = &s->conv;
    layout l = {.inputs = c->kernel * c->kernel * c->inputs,
                .outputs = c->outputs,
                .pixels = c->out_height * c->out_width,
                .padded = d9_round_up(c->outputs, WIDEST)};
    l.moments = take_scratch(&l, scratch, s->groups * (l.inputs + 1) * D9_MOMENTS_PATCH * 8);
    l.sums = take_scratch(&l, scratch, s->groups * (l.inputs + 1) * l.padded * 8);
    l.parts = take_scratch(&l, scratch, c->images * (l.inputs + 1) * D9_MOMENTS_PATCH * 8);
    l.gradient_parts = take_scratch(&l, scratch, c->images * (l.inputs + 1) * l.padded * 8);
    l.packed = take_scratch(&l, scratch, s->groups * l.padded * (l.inputs + 1) * 4);
    l.bias = take_scratch(&l, scratch, s->groups * l.padded * 4);
    l.factor = take_scratch(&l, scratch, s->groups * l.padded * 4);
    return l;
}

bool d9_cpu_moments_fits(const d9_cpu_moments *s) {
    return s->conv.store == D9_KERNEL_F32 && s->conv.pass == D9_CPU_CONV_FORWARD &&
           s->conv.kernel * s->conv.kernel * s->conv.inputs <= D9_MOMENTS_INPUTS;
}

int64_t d9_cpu_moments_scratch_bytes(const d9_cpu_moments *shape) { return lay_out(shape, NULL).bytes; }

/* ---- sums ---- */

/* Loops over an image's pixels in runs [from, from + n) of D9_MOMENTS_RUN pixels; the last run may be shorter. */
#define FOR_RUNS(l, from, n)                                                                                           \
    for (int64_t from = 0, n;                                                                                          \
         from < (l)->pixels && (n = (l)->pixels - from < D9_MOMENTS_RUN ? (l)->pixels - from : D9_MOMENTS_RUN);        \
         from += n)

typedef float patch_tile[(D9_MOMENTS_RUN + 16) * D9_MOMENTS_PATCH] __attribute__((aligned(64)));

static const float *image_at(const d9_cpu_moments *s, const float *x, int64_t i) {
    return x + i * s->conv.height * s->conv.width * s->conv.inputs;
}

/* sums: the parts of group g's images, added in order; each part has inputs + 1 rows of `row` numbers. */
static void add_parts(const d9_cpu_moments *s, const layout *l, int64_t g, const double *parts, int64_t row,
                      double *sums) {
    const int64_t count = (l->inputs + 1) * row;
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int64_t i = g; i < s->conv.images; i += s->groups)
        for (int64_t k = 0; k < count; k++) sums[k] += parts[i * count + k];
}

/* Sets the part of image i to zero and returns it. */
static double *clear_part(const layout *l, double *parts, int64_t row, int64_t i) {
    double *part = parts + i * (l->inputs + 1) * row;
    memset(part, 0, (size_t)((l->inputs + 1) * row) * sizeof *part); /* NOLINT(clang-analyzer-core.*): not NULL here */
    return part;
}

static double *moments_of(const layout *l, int64_t g) { return l->moments + g * (l->inputs + 1) * D9_MOMENTS_PATCH; }
static float *packed_of(const layout *l, int64_t g) { return l->packed + g * l->padded * (l->inputs + 1); }
static double *sums_of(const layout *l, int64_t g) { return l->sums + g * (l->inputs + 1) * l->padded; }

/* Dot product of W_o and a vector whose elements are `step` apart. */
static double row_dot(const layout *l, const float *w, int64_t o, const double *vector, int64_t step) {
    double sum = 0;
    for (int64_t i = 0; i < l->inputs; i++) sum += (double)w[o * l->inputs + i] * vector[i * step];
    return sum;
}

/* ---- forward ---- */

/* Sets factor and bias of output o in group g, so that the output of the norm is factor (W p)_o + bias. */
static void set_terms(const layout *l, int64_t g, int64_t o, d9_cpu_statistics all, const d9_kernel_norm_state *state) {
    const double factor = all.inv_std * (double)state->scale[o];
    l->factor[g * l->padded + o] = (float)factor; /* NOLINT(clang-analyzer-core.*): l->factor is not NULL here */
    l->bias[g * l->padded + o] = (float)((double)state->bias[o] - all.mean * factor);
}

static void pack_weights_and_bias(const d9_cpu *cpu, const layout *l, int64_t g, const float *w) {
    cpu->loops->moments_pack(w, l->factor + g * l->padded, l->bias + g * l->padded, l->inputs, l->outputs,
                             packed_of(l, g));
}

/* Number of values of a channel in a group. */
static double values_per_group(const d9_cpu_moments *s, const layout *l) {
    const int64_t images = s->conv.images / s->groups;
    return (double)(images * l->pixels);
}

static void compute_terms(const d9_cpu *cpu, const d9_cpu_moments *s, const layout *l, int64_t g, const float *w,
                          const d9_kernel_norm_state *state) {
    const double n = values_per_group(s, l);
    const double *q = moments_of(l, g), *m = q + l->inputs * D9_MOMENTS_PATCH;
    double centred[D9_MOMENTS_INPUTS][D9_MOMENTS_INPUTS], product[D9_MOMENTS_INPUTS];
    for (int64_t i = 0; i < l->inputs; i++)
        for (int64_t j = 0; j < l->inputs; j++) centred[i][j] = q[i * D9_MOMENTS_PATCH + j] / n - m[i] / n * (m[j] / n);
    for (int64_t o = 0; o < l->outputs; o++) {
        for (int64_t i = 0; i < l->inputs; i++) product[i] = row_dot(l, w, o, centred[i], 1);
        const d9_cpu_statistics kept = d9_cpu_statistics_store(state, g * l->outputs + o, row_dot(l, w, o, m, 1) / n,
                                                               row_dot(l, w, o, product, 1), n);
        set_terms(l, g, o, kept, state);
    }
    pack_weights_and_bias(cpu, l, g, w);
}

static void sum_moments(const d9_cpu *cpu, const d9_cpu_moments *s, const layout *l, const float *x, int64_t i) {
    patch_tile patches;
    double *sums = clear_part(l, l->parts, D9_MOMENTS_PATCH, i);
    FOR_RUNS(l, from, n) {
        cpu->loops->moments_patches(image_at(s, x, i), &s->conv, from, n, patches);
        cpu->loops->moments_sums(patches, n, l->inputs, sums);
    }
}

static void apply_packed(const d9_cpu *cpu, const d9_cpu_moments *s, const layout *l, const float *x,
                         int64_t term_groups, d9_kernel_act act, float *y) {
    const bool stream = d9_cpu_streams(cpu, s->conv.images * l->pixels * l->outputs * 4);
    D9_CPU_EACH (i, s->conv.images, cpu->threads) {
        patch_tile patches = {0};
        const int64_t g = i % term_groups;
        FOR_RUNS(l, from, n) {
            cpu->loops->moments_patches(image_at(s, x, i), &s->conv, from, n, patches);
            cpu->loops->moments_forward(patches, n, l->inputs, packed_of(l, g), act, l->outputs, stream,
                                        y + (i * l->pixels + from) * l->outputs);
        }
    }
}

/* Writes the plain convolution. Overwrites the terms of group 0, and therefore runs after the main pass. */
static void convolve(const d9_cpu *cpu, const d9_cpu_moments *s, const layout *l, const float *x, const float *w,
                     float *conv) {
    for (int64_t o = 0; o < l->outputs; o++) {
        l->factor[o] = 1; /* NOLINT(clang-analyzer-core.*): l->factor is not NULL here */
        l->bias[o] = 0;
    }
    pack_weights_and_bias(cpu, l, 0, w);
    apply_packed(cpu, s, l, x, 1, (d9_kernel_act){D9_KERNEL_NO_ACT, 0}, conv);
}

void d9_cpu_moments_forward(const d9_cpu *cpu, const d9_cpu_moments *s, const float *x, const float *w,
                            const d9_kernel_norm_state *state, d9_kernel_act act, void *scratch, float *conv,
                            float *y) {
    const layout l = lay_out(s, scratch);
    D9_CPU_EACH (i, s->conv.images, cpu->threads) sum_moments(cpu, s, &l, x, i);
    D9_CPU_EACH (g, s->groups, cpu->threads) {
        add_parts(s, &l, g, l.parts, D9_MOMENTS_PATCH, moments_of(&l, g));
        compute_terms(cpu, s, &l, g, w, state);
    }
    apply_packed(cpu, s, &l, x, s->groups, act, y);
    if (conv) convolve(cpu, s, &l, x, w, conv);
}

void d9_cpu_moments_eval(const d9_cpu *cpu, const d9_cpu_moments *s, const float *x, const float *w,
                         const d9_kernel_norm_state *state, d9_kernel_act act, void *scratch, float *conv, float *y) {
    const layout l = lay_out(s, scratch);
    for (int64_t o = 0; o < l.outputs; o++)
        set_terms(&l, 0, o, d9_cpu_statistics_average(state, s->groups, l.outputs, o), state);
    pack_weights_and_bias(cpu, &l, 0, w);
    apply_packed(cpu, s, &l, x, 1, act, y);
    if (conv) convolve(cpu, s, &l, x, w, conv);
}

/* ---- backward ---- */

typedef struct backward {
    const float *dy, *y, *x, *w, *mean, *inv_std, *scale;
    d9_kernel_act act;
} backward;

static void sum_gradients(const d9_cpu *cpu, const d9_cpu_moments *s, const layout *l, const backward *b, int64_t i) {
    patch_tile patches;
    double *sums = clear_part(l, l->gradient_parts, l->padded, i),
           *moments = clear_part(l, l->parts, D9_MOMENTS_PATCH, i);
    FOR_RUNS(l, from, n) {
        const int64_t at = (i * l->pixels + from) * l->outputs;
        cpu->loops->moments_patches(image_at(s, b->x, i), &s->conv, from, n, patches);
        cpu->loops->moments_sums(patches, n, l->inputs, moments);
        cpu->loops->moments_backward(patches, n, l->inputs, b->dy + at, b->y + at, b->act, l->outputs, sums, l->padded);
    }
}

/* Adds group g's contribution to row o of dW, and to dscale and dbias of channel o. */
static void add_group(const d9_cpu_moments *s, const layout *l, const backward *b, int64_t g, int64_t o, double *row,
                      double *dscale, double *dbias) {
    const double n = values_per_group(s, l);
    const double *d = sums_of(l, g) + o, *q = moments_of(l, g), *m = q + l->inputs * D9_MOMENTS_PATCH;
    const double total = d[l->inputs * l->padded], mean = (double)b->mean[g * l->outputs + o],
                 inv_std = (double)b->inv_std[g * l->outputs + o];
    const double product = inv_std * (row_dot(l, b->w, o, d, l->padded) - mean * total);
    for (int64_t i = 0; i < l->inputs; i++) {
        const double spread =
            row_dot(l, b->w, o, q + i * D9_MOMENTS_PATCH, 1) - mean * m[i]; /* sum of p_i (y_o - mean) */
        row[i] +=
            (double)b->scale[o] * inv_std * (d[i * l->padded] - total * m[i] / n - product / n * inv_std * spread);
    }
    *dscale += product;
    *dbias += total;
}

void d9_cpu_moments_backward(const d9_cpu *cpu, const d9_cpu_moments *s, const float *dy, d9_kernel_act act,
                             const float *y, const float *x, const float *w, const float *mean, const float *inv_std,
                             const float *scale, void *scratch, const d9_cpu_moments_gradients *gradients) {
    const layout l = lay_out(s, scratch);
    const backward b = {dy, y, x, w, mean, inv_std, scale, act};
    D9_CPU_EACH (i, s->conv.images, cpu->threads) sum_gradients(cpu, s, &l, &b, i);
    D9_CPU_EACH (g, s->groups, cpu->threads) {
        add_parts(s, &l, g, l.parts, D9_MOMENTS_PATCH, moments_of(&l, g));
        add_parts(s, &l, g, l.gradient_parts, l.padded, sums_of(&l, g));
    }
    D9_CPU_EACH (o, l.outputs, cpu->threads) {
        double row[D9_MOMENTS_INPUTS] = {0}, dscale = 0, dbias = 0;
        for (int64_t g = 0; g < s->groups; g++) add_group(s, &l, &b, g, o, row, &dscale, &dbias);
        for (int64_t i = 0; i < l.inputs; i++) gradients->dw[o * l.inputs + i] = (float)row[i];
        if (gradients->dscale) gradients->dscale[o] = (float)dscale;
        if (gradients->dbias) gradients->dbias[o] = (float)dbias;
    }
}
