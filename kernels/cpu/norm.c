/* Batch normalisation over ghost groups: partial sums per slice of a group, combined in order, then one pass.
 *
 * A group's images are cut into at most SLICES slices, however many threads there are: the bits are the same for any
 * number. Groups are independent, so a few go through both passes before the next few begin: then the second pass finds
 * in the shared cache what the first has read. Each thread has the same slices in both.
 *
 * Scratch: doubles (G, slices, 2, C), then floats (G, 4, C) of per-group terms, then floats (G, C) of pivots. */
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/statistics.h"

#include <omp.h>

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

static d9_cpu_run slice_run(const d9_kernel_norm *norm, const layout *l, int64_t g, int64_t s) {
    const int64_t from = slice_from(l, s);
    return (d9_cpu_run){member_at(norm, g, from), norm->groups * norm->pixels * norm->channels,
                        slice_from(l, s + 1) - from, norm->pixels};
}

static double *slice_sums(const d9_kernel_norm *norm, const layout *l, int64_t g, int64_t s) {
    return l->sums + (g * l->slices + s) * 2 * norm->channels;
}

/* How many groups go through both passes together, when a pass reads `bytes` of each pixel and channel: half the shared
 * cache full, but a slice for each thread. */
static int64_t groups_together(const d9_cpu *cpu, const d9_kernel_norm *norm, const layout *l, int64_t bytes) {
    const int64_t group_bytes = l->members * norm->pixels * norm->channels * bytes;
    const int64_t fitting = cpu->cache_bytes[2] / 2 / group_bytes, busy = (cpu->threads + l->slices - 1) / l->slices;
    const int64_t together = fitting > busy ? fitting : busy;
    return cpu->cache_bytes[2] > 0 && together < norm->groups ? together : norm->groups;
}

/* What of `count` things is this thread's. */
typedef struct share {
    int64_t from, until;
} share;
static share share_of(int64_t count) {
    const int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
    return (share){count * thread / threads, count * (thread + 1) / threads};
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

/* A group's first pixel is its pivot. */
static void find_pivots(const d9_cpu *cpu, const d9_kernel_norm *norm, const layout *l, d9_kernel_in x) {
    for (int64_t g = 0; g < norm->groups; g++) {
        const d9_kernel_in first = {(const char *)x.data + member_at(norm, g, 0) * d9_kernel_store_bytes(x.store),
                                    x.store};
        cpu->loops->cast(first, (d9_kernel_out){l->pivots + g * norm->channels, D9_KERNEL_F32}, 0, norm->channels);
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
    const double n = (double)(l->members * norm->pixels);
    for (int64_t c = 0; c < norm->channels; c++) {
        const int64_t at = g * norm->channels + c;
        const double shift = sums[c] / n, mean = (double)l->pivots[at] + shift;
        const d9_cpu_statistics kept =
            d9_cpu_statistics_keep(state, at, mean, sums[norm->channels + c] / n - shift * shift, n);
        set_terms(l->terms + g * 4 * norm->channels, norm->channels, c, (float)kept.mean, (float)kept.inv_std,
                  state->scale[c], state->bias[c]);
    }
}

static bool streams(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_out y) {
    return d9_cpu_streams(cpu, norm->images * norm->pixels * norm->channels * d9_kernel_store_bytes(y.store));
}

void d9_cpu_norm_forward(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_in x,
                         const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue, void *scratch,
                         d9_kernel_out y) {
    const layout l = lay_out(norm, scratch);
    const int64_t together = groups_together(cpu, norm, &l, d9_kernel_store_bytes(x.store));
    const bool stream = streams(cpu, norm, y);
    find_pivots(cpu, norm, &l, x);
#pragma omp parallel num_threads(cpu->threads)
    for (int64_t first = 0; first < norm->groups; first += together) {
        const int64_t groups = norm->groups - first < together ? norm->groups - first : together;
        const share slices = share_of(groups * l.slices), terms = share_of(groups);
        for (int64_t i = slices.from; i < slices.until; i++) {
            const int64_t g = first + i / l.slices, s = i % l.slices;
            const d9_cpu_run run = slice_run(norm, &l, g, s);
            double *sums = slice_sums(norm, &l, g, s);
            clear_sums(sums, 2 * norm->channels);
            cpu->loops->norm_sums(x, &run, norm->channels, l.pivots + g * norm->channels, sums);
        }
#pragma omp barrier
        for (int64_t g = first + terms.from; g < first + terms.until; g++) forward_terms(norm, &l, g, state);
#pragma omp barrier
        for (int64_t i = slices.until - 1; i >= slices.from; i--) { /* backwards: the last read is cached best */
            const int64_t g = first + i / l.slices;
            const d9_cpu_run run = slice_run(norm, &l, g, i % l.slices);
            for (int64_t m = run.images - 1; m >= 0; m--)
                cpu->loops->norm_apply(x, run.at + m * run.stride, norm->pixels, norm->channels,
                                       l.terms + g * 4 * norm->channels, epilogue, stream, y);
        }
    }
}

void d9_cpu_norm_eval(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_in x, const d9_kernel_norm_state *state,
                      const d9_kernel_epilogue *epilogue, void *scratch, d9_kernel_out y) {
    float *terms = lay_out(norm, scratch).terms;
    for (int64_t c = 0; c < norm->channels; c++) {
        const d9_cpu_statistics all = d9_cpu_statistics_average(state, norm->groups, norm->channels, c);
        set_terms(terms, norm->channels, c, (float)all.mean, (float)all.inv_std, state->scale[c], state->bias[c]);
    }
    const bool stream = streams(cpu, norm, y);
#pragma omp parallel for num_threads(cpu->threads) schedule(static)
    for (int64_t i = 0; i < norm->images; i++)
        cpu->loops->norm_apply(x, i * norm->pixels * norm->channels, norm->pixels, norm->channels, terms, epilogue,
                               stream, y);
}

/* ---- backward ---- */

typedef struct backward {
    d9_kernel_in dy, x;
    const d9_cpu_prologue *prologue;
    const float *mean, *inv_std, *scale;
} backward;

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
static void parameter_gradients(const d9_kernel_norm *norm, const layout *l, const float *inv_std, share channels,
                                float *dscale, float *dbias) {
    for (int64_t c = channels.from; c < channels.until; c++) {
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
    const int64_t arrays = prologue->act.activation == D9_KERNEL_NO_ACT ? 2 : 3;
    const int64_t together = groups_together(cpu, norm, &l, arrays * d9_kernel_store_bytes(x.store));
    const bool stream = streams(cpu, norm, gradients->dx);
#pragma omp parallel num_threads(cpu->threads)
    {
        for (int64_t first = 0; first < norm->groups; first += together) {
            const int64_t groups = norm->groups - first < together ? norm->groups - first : together;
            const share slices = share_of(groups * l.slices), terms = share_of(groups);
            for (int64_t i = slices.from; i < slices.until; i++) {
                const int64_t g = first + i / l.slices, s = i % l.slices;
                const d9_cpu_run run = slice_run(norm, &l, g, s);
                double *sums = slice_sums(norm, &l, g, s);
                clear_sums(sums, 2 * norm->channels);
                cpu->loops->norm_backward_sums(dy, prologue, x, &run, norm->channels, mean + g * norm->channels, sums);
            }
#pragma omp barrier
            for (int64_t g = first + terms.from; g < first + terms.until; g++) backward_terms(norm, &l, g, &b);
#pragma omp barrier
            for (int64_t i = slices.until - 1; i >= slices.from && gradients->dx.data; i--) {
                const int64_t g = first + i / l.slices;
                const d9_cpu_run run = slice_run(norm, &l, g, i % l.slices);
                for (int64_t m = run.images - 1; m >= 0; m--)
                    cpu->loops->norm_backward_apply(dy, prologue, x, run.at + m * run.stride, norm->pixels,
                                                    norm->channels, l.terms + g * 4 * norm->channels, stream,
                                                    gradients->dx);
            }
        }
        parameter_gradients(norm, &l, inv_std, share_of(norm->channels), gradients->dscale, gradients->dbias);
    }
}
