/* Batch normalisation over ghost groups: partial sums per slice of a group, combined in order, then one pass.
 *
 * A group's images are cut into at most SLICES slices, however many threads there are: the bits are the same for any
 * number. Scratch: doubles (G, slices, 2, C), then floats (G, 4, C) of per-group terms, then floats (G, C) of
 * pivots. */
#include "kernels/cpu/kernels.h"

#include <math.h>

enum { SLICES = 64 }; /* over all groups, at least one each */

typedef struct layout {
    int64_t members, slices; /* images of a group, slices of a group */
    double *sums;
    float *terms, *pivots;
} layout;

static int64_t slices_of(const d9_kernel_norm *norm) {
    const int64_t members = norm->images / norm->groups, wanted = (SLICES + norm->groups - 1) / norm->groups;
    return wanted < members ? wanted : members;
}

int64_t d9_cpu_norm_scratch_bytes(const d9_kernel_norm *norm) {
    const int64_t sums = norm->groups * slices_of(norm) * 2 * norm->channels;
    return sums * 8 + norm->groups * 5 * norm->channels * 4;
}

static layout lay_out(const d9_kernel_norm *norm, void *scratch) {
    layout l = {.members = norm->images / norm->groups, .slices = slices_of(norm), .sums = scratch};
    l.terms = (float *)(void *)(l.sums + norm->groups * l.slices * 2 * norm->channels);
    l.pivots = l.terms + norm->groups * 4 * norm->channels;
    return l;
}

/* Element offset of member `m` of group g. The members of slice s are [from, until). */
static int64_t member_at(const d9_kernel_norm *norm, int64_t g, int64_t m) {
    return (g + norm->groups * m) * norm->pixels * norm->channels;
}
static int64_t slice_from(const layout *l, int64_t s) { return l->members * s / l->slices; }

static double *slice_sums(const d9_kernel_norm *norm, const layout *l, int64_t g, int64_t s) {
    return l->sums + (g * l->slices + s) * 2 * norm->channels;
}

static void clear_sums(double *sums, int64_t count) {
    for (int64_t i = 0; i < count; i++) sums[i] = 0;
}

/* Adds the slices of group g into its first. */
static const double *combine(const d9_kernel_norm *norm, const layout *l, int64_t g) {
    double *total = slice_sums(norm, l, g, 0);
    for (int64_t s = 1; s < l->slices; s++) {
        const double *part = slice_sums(norm, l, g, s);
        for (int64_t i = 0; i < 2 * norm->channels; i++) total[i] += part[i];
    }
    return total;
}

/* ---- forward ---- */

static void forward_sums(const d9_cpu *cpu, const d9_kernel_norm *norm, const layout *l, d9_kernel_in x) {
    const d9_cpu_loops *loops = cpu->loops;
    const int64_t c = norm->channels;
    for (int64_t g = 0; g < norm->groups; g++) { /* the group's first pixel is its pivot */
        const d9_kernel_in first = {(const char *)x.data + member_at(norm, g, 0) * d9_kernel_store_bytes(x.store),
                                    x.store};
        loops->cast(first, (d9_kernel_out){l->pivots + g * c, D9_KERNEL_F32}, 0, c);
    }
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < norm->groups * l->slices; i++) {
        const int64_t g = i / l->slices, s = i % l->slices;
        double *sums = slice_sums(norm, l, g, s);
        clear_sums(sums, 2 * c);
        for (int64_t m = slice_from(l, s); m < slice_from(l, s + 1); m++)
            loops->norm_sums(x, member_at(norm, g, m), norm->pixels, c, l->pivots + g * c, sums);
    }
}

static void set_terms(float *terms, int64_t channels, int64_t c, float mean, float inv_std, float scale, float bias) {
    terms[c] = mean;
    terms[channels + c] = inv_std;
    terms[2 * channels + c] = scale;
    terms[3 * channels + c] = bias;
}

static void forward_terms(const d9_kernel_norm *norm, const layout *l, int64_t g, const d9_kernel_norm_state *state) {
    const double *sums = combine(norm, l, g);
    const double n = (double)(l->members * norm->pixels), momentum = state->momentum;
    for (int64_t c = 0; c < norm->channels; c++) {
        const int64_t at = g * norm->channels + c;
        const double shift = sums[c] / n, mean = (double)l->pivots[at] + shift;
        const double spread = sums[norm->channels + c] / n - shift * shift, variance = spread < 0 ? 0 : spread;
        const double inv_std = 1 / sqrt(variance + state->epsilon),
                     unbiased = n > 1 ? variance * (n / (n - 1)) : variance;
        state->mean[at] = (float)mean;
        state->inv_std[at] = (float)inv_std;
        state->running_mean[at] = (float)((1 - momentum) * (double)state->running_mean[at] + momentum * mean);
        state->running_var[at] = (float)((1 - momentum) * (double)state->running_var[at] + momentum * unbiased);
        set_terms(l->terms + g * 4 * norm->channels, norm->channels, c, (float)mean, (float)inv_std, state->scale[c],
                  state->bias[c]);
    }
}

static void apply(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_in x, const float *terms,
                  int64_t term_groups, const d9_kernel_epilogue *epilogue, d9_kernel_out y) {
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < norm->images; i++)
        cpu->loops->norm_apply(x, i * norm->pixels * norm->channels, norm->pixels, norm->channels,
                               terms + i % term_groups * 4 * norm->channels, epilogue, y);
}

void d9_cpu_norm_forward(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_in x,
                         const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue, void *scratch,
                         d9_kernel_out y) {
    const layout l = lay_out(norm, scratch);
    forward_sums(cpu, norm, &l, x);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t g = 0; g < norm->groups; g++) forward_terms(norm, &l, g, state);
    apply(cpu, norm, x, l.terms, norm->groups, epilogue, y);
}

void d9_cpu_norm_eval(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_in x, const d9_kernel_norm_state *state,
                      const d9_kernel_epilogue *epilogue, void *scratch, d9_kernel_out y) {
    float *terms = lay_out(norm, scratch).terms;
    for (int64_t c = 0; c < norm->channels; c++) {
        double mean = 0, variance = 0;
        for (int64_t g = 0; g < norm->groups; g++) {
            mean += (double)state->running_mean[g * norm->channels + c];
            variance += (double)state->running_var[g * norm->channels + c];
        }
        const double inv_std = 1 / sqrt(variance / (double)norm->groups + state->epsilon);
        set_terms(terms, norm->channels, c, (float)(mean / (double)norm->groups), (float)inv_std, state->scale[c],
                  state->bias[c]);
    }
    apply(cpu, norm, x, terms, 1, epilogue, y);
}

/* ---- backward ---- */

typedef struct backward {
    d9_kernel_in dy, x;
    const d9_cpu_prologue *prologue;
    const float *mean, *inv_std, *scale;
} backward;

static void backward_sums(const d9_cpu *cpu, const d9_kernel_norm *norm, const layout *l, const backward *b) {
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < norm->groups * l->slices; i++) {
        const int64_t g = i / l->slices, s = i % l->slices;
        double *sums = slice_sums(norm, l, g, s);
        clear_sums(sums, 2 * norm->channels);
        for (int64_t m = slice_from(l, s); m < slice_from(l, s + 1); m++)
            cpu->loops->norm_backward_sums(b->dy, b->prologue, b->x, member_at(norm, g, m), norm->pixels,
                                           norm->channels, b->mean + g * norm->channels, sums);
    }
}

/* dx = scale inv_std (dz - S1 / n - (x - mean) inv_std^2 S2 / n), with S1 = sum dz, S2 = sum dz (x - mean). */
static void backward_terms(const d9_kernel_norm *norm, const layout *l, int64_t g, const backward *b) {
    const double *sums = combine(norm, l, g);
    const double n = (double)(l->members * norm->pixels);
    for (int64_t c = 0; c < norm->channels; c++) {
        const int64_t at = g * norm->channels + c;
        const double inv_std = (double)b->inv_std[at], product = sums[norm->channels + c];
        set_terms(l->terms + g * 4 * norm->channels, norm->channels, c, b->mean[at],
                  (float)((double)b->scale[c] * inv_std), (float)(sums[c] / n),
                  (float)(inv_std * inv_std * product / n));
    }
}

/* After backward_terms: each group's sums lie in its first slice. */
static void parameter_gradients(const d9_kernel_norm *norm, const layout *l, const float *inv_std, float *dscale,
                                float *dbias) {
    for (int64_t c = 0; c < norm->channels; c++) {
        double scale = 0, bias = 0;
        for (int64_t g = 0; g < norm->groups; g++) {
            const double *sums = slice_sums(norm, l, g, 0);
            bias += sums[c];
            scale += (double)inv_std[g * norm->channels + c] * sums[norm->channels + c];
        }
        if (dscale) dscale[c] = (float)scale;
        if (dbias) dbias[c] = (float)bias;
    }
}

void d9_cpu_norm_backward(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_in dy,
                          const d9_cpu_prologue *prologue, d9_kernel_in x, const float *mean, const float *inv_std,
                          const float *scale, void *scratch, const d9_kernel_norm_gradients *gradients) {
    const layout l = lay_out(norm, scratch);
    const backward b = {dy, x, prologue, mean, inv_std, scale};
    backward_sums(cpu, norm, &l, &b);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t g = 0; g < norm->groups; g++) backward_terms(norm, &l, g, &b);
    parameter_gradients(norm, &l, inv_std, gradients->dscale, gradients->dbias);
    if (!gradients->dx.data) return;
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < norm->images; i++)
        cpu->loops->norm_backward_apply(dy, prologue, x, i * norm->pixels * norm->channels, norm->pixels,
                                        norm->channels, l.terms + i % norm->groups * 4 * norm->channels, gradients->dx);
}
