/* Batch normalisation over ghost groups: partial sums for each slice of a group, combined in order, then a second pass.
 *
 * The images are split into about SLICES slices, whatever the number of threads, so results do not depend on it. The
 * second pass reads the arrays of the first and should find them in the shared cache. If that cache holds one group for
 * each thread, and there are enough groups for all threads, a thread processes whole groups, without barriers between
 * the passes. Otherwise the threads share the slices of a few groups at a time, with barriers between the passes.
 *
 * Scratch: doubles (G, slices, 2, C), then floats (G, TERMS, C) of per-group terms, then floats (G, C) of pivots. */
#include "kernels/cpu/items.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/statistics.h"

enum {
    SLICES = 64, /* about so many in all groups together; each group has at least one, at most one per image */
    TERMS = 5    /* rows of terms: mean, factor and bias of the norm; b and c of its gradient */
};

typedef struct layout {
    int64_t members, slices; /* images and slices in each group */
    double *sums;
    float *terms, *pivots;
} layout;

static int64_t slices_of(const d9_kernel_norm *norm) {
    return d9_min(d9_parts_of(SLICES, norm->groups), norm->images / norm->groups);
}

int64_t d9_cpu_norm_scratch_bytes(const d9_kernel_norm *norm) {
    const int64_t sums = norm->groups * slices_of(norm) * 2 * norm->channels;
    return sums * 8 + norm->groups * (TERMS + 1) * norm->channels * 4;
}

static layout lay_out(const d9_kernel_norm *norm, void *scratch) {
    layout l = {.members = norm->images / norm->groups, .slices = slices_of(norm), .sums = scratch};
    l.terms = (float *)(void *)(l.sums + norm->groups * l.slices * 2 * norm->channels);
    l.pivots = l.terms + norm->groups * TERMS * norm->channels;
    return l;
}

/* member_at: index of the first element of image m of group g. slice_from: first image of slice s of a group; the slice
 * ends before slice_from(s + 1). */
static int64_t member_at(const d9_kernel_norm *norm, int64_t g, int64_t m) {
    return (g + norm->groups * m) * norm->pixels * norm->channels;
}
static int64_t slice_from(const layout *l, int64_t s) { return l->members * s / l->slices; }

static double *slice_sums(const d9_kernel_norm *norm, const layout *l, int64_t g, int64_t s) {
    return l->sums + (g * l->slices + s) * 2 * norm->channels;
}

static float *group_terms(const d9_kernel_norm *norm, const layout *l, int64_t g) {
    return l->terms + g * TERMS * norm->channels;
}

static void clear_sums(double *sums, int64_t count) {
    for (int64_t i = 0; i < count; i++) sums[i] = 0;
}

typedef struct range { /* [from, until) */
    int64_t from, until;
} range;

/* Adds the sums of group g's slices into those of its first slice, in order, and returns the latter. */
static const double *add_slices(const d9_kernel_norm *norm, const layout *l, int64_t g, range channels) {
    double *total = slice_sums(norm, l, g, 0);
    for (int64_t s = 1; s < l->slices; s++) {
        const double *part = slice_sums(norm, l, g, s);
        for (int64_t c = channels.from; c < channels.until; c++) {
            total[c] += part[c];
            total[norm->channels + c] += part[norm->channels + c];
        }
    }
    return total;
}

/* ---- the two passes over groups ---- */

/* A norm, forward or backward; `arguments` points to a struct forward or a struct backward. */
typedef struct job {
    const d9_cpu *cpu;
    const d9_kernel_norm *norm;
    layout l;
    d9_kernel_in x;
    bool stream;
    int64_t arrays; /* number of arrays that the first pass reads */
    void (*sums)(const struct job *job, int64_t g, const d9_cpu_run *run, double *sums);
    void (*terms)(const struct job *job, int64_t g, range channels);
    void (*apply)(const struct job *job, int64_t g, const d9_cpu_run *run); /* NULL: no second pass */
    const void *arguments;
} job;

/* The calling thread's part of `count` channels. */
static range range_of_thread(int64_t count) {
    const int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
    return (range){count * thread / threads, count * (thread + 1) / threads};
}

/* The images of slice i, counted over all groups; `backwards`: from the last to the first. */
static d9_cpu_run slice_run(const job *j, int64_t i, bool backwards) {
    const int64_t g = i / j->l.slices, s = i % j->l.slices, from = slice_from(&j->l, s),
                  until = slice_from(&j->l, s + 1), image = j->norm->pixels * j->norm->channels;
    return (d9_cpu_run){member_at(j->norm, g, backwards ? until - 1 : from),
                        (backwards ? -1 : 1) * j->norm->groups * image, until - from, j->norm->pixels};
}

static void run_sums(const job *j, int64_t i) {
    const d9_cpu_run run = slice_run(j, i, false);
    double *sums = j->l.sums + i * 2 * j->norm->channels;
    clear_sums(sums, 2 * j->norm->channels);
    j->sums(j, i / j->l.slices, &run, sums);
}

static void run_apply(const job *j, int64_t i) {
    const d9_cpu_run run = slice_run(j, i, true);
    if (j->apply) j->apply(j, i / j->l.slices, &run);
}

/* Runs both passes over one group. The second pass goes backwards, because the last data are still in the cache. */
static void run_group(const job *j, int64_t g) {
    for (int64_t s = 0; s < j->l.slices; s++) run_sums(j, g * j->l.slices + s);
    j->terms(j, g, (range){0, j->norm->channels});
    for (int64_t s = j->l.slices - 1; s >= 0; s--) run_apply(j, g * j->l.slices + s);
}

typedef struct rounds { /* rounds of `together` groups; the last one may have fewer */
    int64_t together;
    d9_cpu_items first, second; /* slices of the first and of the second pass */
} rounds;

/* Shares out the slices of a pass over the groups from `from` on. */
static void share_round(const job *j, const rounds *r, d9_cpu_items *pass, int64_t from, bool backwards) {
    const int64_t count = d9_max(0, d9_min(r->together, j->norm->groups - from));
    d9_cpu_items_share(pass, from * j->l.slices, count * j->l.slices, j->cpu->threads, backwards);
}

/* Runs both passes over all groups, some groups at a time; each thread computes the terms of some channels. All threads
 * of the team must call it. Between the barriers no thread takes slices; thread 0 shares out the next two passes. */
static void run_rounds(const job *j, rounds *r) {
    const range channels = range_of_thread(j->norm->channels);
    for (int64_t from = 0; from < j->norm->groups; from += r->together) {
        for (int64_t i, done = 0; (i = d9_cpu_items_take(&r->first, &done)) >= 0;) run_sums(j, i);
#pragma omp barrier
        for (int64_t g = from; g < d9_min(from + r->together, j->norm->groups); g++) j->terms(j, g, channels);
        if (omp_get_thread_num() == 0) {
            share_round(j, r, &r->second, from, true);
            share_round(j, r, &r->first, from + r->together, false);
        }
#pragma omp barrier
        for (int64_t i, done = 0; (i = d9_cpu_items_take(&r->second, &done)) >= 0;) run_apply(j, i);
    }
}

/* Runs both passes over all groups. */
static void walk_groups(const job *j) {
    const int64_t groups = j->norm->groups, slices = j->l.slices, threads = j->cpu->threads;
    const int64_t group_bytes =
        j->l.members * j->norm->pixels * j->norm->channels * d9_kernel_store_bytes(j->x.store) * j->arrays;
    const int64_t fitting = d9_cpu_cache_bytes(j->cpu, 2) / group_bytes, busy = (threads + slices - 1) / slices;
    if (fitting >= threads && (groups % threads == 0 || groups > 8 * threads)) {
        D9_CPU_EACH (g, groups, j->cpu->threads) run_group(j, g);
        return;
    }
    rounds r = {.together = d9_max(fitting / 2, busy)};
    share_round(j, &r, &r.first, 0, false);
#pragma omp parallel num_threads(j->cpu->threads)
    run_rounds(j, &r);
}

/* ---- forward ---- */

/* The first pixel of a group is the pivot subtracted before the sums, so that a large mean costs no precision. */
static void find_pivots(const d9_cpu *cpu, const d9_kernel_norm *norm, const layout *l, d9_kernel_in x) {
    for (int64_t g = 0; g < norm->groups; g++) {
        const d9_kernel_in first = {(const char *)x.data + member_at(norm, g, 0) * d9_kernel_store_bytes(x.store),
                                    x.store};
        cpu->loops->cast(first, (d9_kernel_out){l->pivots + g * norm->channels, D9_KERNEL_F32}, 0, norm->channels);
    }
}

typedef struct forward {
    const d9_kernel_norm_state *state;
    const d9_kernel_epilogue *epilogue;
    d9_kernel_out y;
} forward;

static void sum_forward(const job *j, int64_t g, const d9_cpu_run *run, double *sums) {
    j->cpu->loops->norm_sums(j->x, run, j->norm->channels, j->l.pivots + g * j->norm->channels, sums);
}

static void set_forward_terms(float *terms, int64_t channels, int64_t c, d9_cpu_statistics statistics,
                              const d9_kernel_norm_state *state) {
    terms[c] = (float)statistics.mean;
    terms[channels + c] = (float)(statistics.inv_std * (double)state->scale[c]);
    terms[2 * channels + c] = state->bias[c];
}

static void compute_forward_terms(const job *j, int64_t g, range channels) {
    const d9_kernel_norm *norm = j->norm;
    const d9_kernel_norm_state *state = ((const forward *)j->arguments)->state;
    const double *sums = add_slices(norm, &j->l, g, channels);
    const double n = (double)(j->l.members * norm->pixels);
    for (int64_t c = channels.from; c < channels.until; c++) {
        const int64_t at = g * norm->channels + c;
        const double shift = sums[c] / n, mean = (double)j->l.pivots[at] + shift;
        const d9_cpu_statistics kept =
            d9_cpu_statistics_store(state, at, mean, sums[norm->channels + c] / n - shift * shift, n);
        set_forward_terms(group_terms(norm, &j->l, g), norm->channels, c, kept, state);
    }
}

static void apply_forward(const job *j, int64_t g, const d9_cpu_run *run) {
    const forward *f = j->arguments;
    j->cpu->loops->norm_apply(j->x, run, j->norm->channels, group_terms(j->norm, &j->l, g), f->epilogue, j->stream,
                              f->y);
}

static bool should_stream(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_out y) {
    return d9_cpu_streams(cpu, norm->images * norm->pixels * norm->channels * d9_kernel_store_bytes(y.store));
}

void d9_cpu_norm_forward(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_in x,
                         const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue, void *scratch,
                         d9_kernel_out y) {
    const forward arguments = {state, epilogue, y};
    const job j = {cpu,
                   norm,
                   lay_out(norm, scratch),
                   x,
                   should_stream(cpu, norm, y),
                   1,
                   sum_forward,
                   compute_forward_terms,
                   apply_forward,
                   &arguments};
    find_pivots(cpu, norm, &j.l, x);
    walk_groups(&j);
}

void d9_cpu_norm_eval(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_in x, const d9_kernel_norm_state *state,
                      const d9_kernel_epilogue *epilogue, void *scratch, d9_kernel_out y) {
    float *terms = lay_out(norm, scratch).terms;
    for (int64_t c = 0; c < norm->channels; c++)
        set_forward_terms(terms, norm->channels, c, d9_cpu_statistics_average(state, norm->groups, norm->channels, c),
                          state);
    const bool stream = should_stream(cpu, norm, y);
    D9_CPU_EACH (image, norm->images, cpu->threads) {
        const d9_cpu_run run = {image * norm->pixels * norm->channels, 0, 1, norm->pixels};
        cpu->loops->norm_apply(x, &run, norm->channels, terms, epilogue, stream, y);
    }
}

/* ---- backward ---- */

typedef struct backward {
    d9_kernel_in dy, dz;             /* dz: read by the second pass: dy, or dz if the first pass writes it */
    const d9_cpu_prologue *prologue; /* of the first pass */
    const d9_cpu_prologue *second;   /* of the second pass: without stages if it reads dz */
    const float *mean, *inv_std, *scale;
    const d9_cpu_rows *summand;
    d9_kernel_out dx;
} backward;

static void sum_backward(const job *j, int64_t g, const d9_cpu_run *run, double *sums) {
    const backward *b = j->arguments;
    j->cpu->loops->norm_backward_sums(b->dy, b->prologue, j->x, run, j->norm->channels, group_terms(j->norm, &j->l, g),
                                      sums);
}

/* dx = scale inv_std (dz - S1 / n - (x - mean) inv_std^2 S2 / n), with S1 = sum dz, S2 = sum dz (x - mean). Sets the
 * terms that need no sums: mean, factor and, if any, bias. compute_backward_terms: b = S1 / n, c = inv_std^2 S2 / n. */
static void set_norm_terms(const d9_kernel_norm *norm, const layout *l, const backward *b) {
    const int64_t channels = norm->channels;
    for (int64_t at = 0; at < norm->groups * channels; at++) {
        const int64_t c = at % channels;
        float *terms = group_terms(norm, l, at / channels);
        terms[c] = b->mean[at];
        terms[channels + c] = (float)((double)b->inv_std[at] * (double)b->scale[c]);
        terms[2 * channels + c] = b->prologue->bias ? b->prologue->bias[c] : 0;
    }
}

static void compute_backward_terms(const job *j, int64_t g, range channels) {
    const int64_t count = j->norm->channels;
    const backward *b = j->arguments;
    const double *sums = add_slices(j->norm, &j->l, g, channels);
    const double n = (double)(j->l.members * j->norm->pixels);
    float *terms = group_terms(j->norm, &j->l, g);
    for (int64_t c = channels.from; c < channels.until; c++) {
        const double inv_std = (double)b->inv_std[g * count + c], product = sums[count + c];
        terms[3 * count + c] = (float)(sums[c] / n);
        terms[4 * count + c] = (float)(inv_std * inv_std * product / n);
    }
}

static void apply_backward(const job *j, int64_t g, const d9_cpu_run *run) {
    const backward *b = j->arguments;
    j->cpu->loops->norm_backward_apply(b->dz, b->second, j->x, run, j->norm->channels, group_terms(j->norm, &j->l, g),
                                       b->summand, j->stream, b->dx);
}

/* Runs after compute_backward_terms, when each group's sums are in its first slice. */
static void compute_parameter_gradients(const d9_kernel_norm *norm, const layout *l, const float *inv_std,
                                        range channels, float *dscale, float *dbias) {
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

enum { CHANNELS_TOGETHER = 512 };

void d9_cpu_norm_backward(const d9_cpu *cpu, const d9_kernel_norm *norm, d9_kernel_in dy,
                          const d9_cpu_prologue *prologue, d9_kernel_in x, const float *mean, const float *inv_std,
                          const float *scale, void *scratch, const d9_cpu_rows *summand,
                          const d9_kernel_norm_gradients *gradients) {
    static const d9_cpu_prologue nothing = {.act = {D9_KERNEL_NO_ACT, 0}};
    const d9_kernel_out dz = prologue->dz;
    const backward arguments = {dy,           dz.data ? (d9_kernel_in){dz.data, dz.store} : dy,
                                prologue,     dz.data ? &nothing : prologue,
                                mean,         inv_std,
                                scale,        summand,
                                gradients->dx};
    const job j = {cpu,
                   norm,
                   lay_out(norm, scratch),
                   x,
                   should_stream(cpu, norm, gradients->dx),
                   2 + (prologue->act.activation != D9_KERNEL_NO_ACT && !prologue->bias) +
                       (prologue->addend.data != NULL),
                   sum_backward,
                   compute_backward_terms,
                   gradients->dx.data ? apply_backward : NULL,
                   &arguments};
    set_norm_terms(norm, &j.l, &arguments);
    walk_groups(&j);
    D9_CPU_EACH (block, d9_parts_of(norm->channels, CHANNELS_TOGETHER), cpu->threads) {
        const int64_t from = block * CHANNELS_TOGETHER;
        compute_parameter_gradients(norm, &j.l, inv_std,
                                    (range){from, d9_min(from + CHANNELS_TOGETHER, norm->channels)}, gradients->dscale,
                                    gradients->dbias);
    }
}
