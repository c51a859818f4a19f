/* Chooses the algorithm of a convolution: a saved plan's, the fastest by timing, or the first choice by a table. */
#include "backends/cpu/conv.h"
#include "core/system.h"
#include "graph/op.h"

#include <stdio.h>
#include <string.h>

static bool match(const d9_site *site) {
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    if (g.type != D9_F32 && g.type != D9_BF16) return false;
    return d9_conv_types_fit(site, &g);
}

/* ---- first choices ---- */

/* In the backend cpu, the first choice is the algorithm of the first row that applies and whose algorithm fits. Without
 * such a row it is the library's first choice, or our first kernel that fits. Comments say where rows were measured. */
typedef struct preference {
    d9_kernel_store store;
    unsigned passes;                     /* one bit per pass */
    int stride;                          /* 0: any */
    int64_t least_width, least_channels; /* minimum width of the image; minimum channels of input and of output */
    bool even_with_tiles;                /* false: the row does not hold if the library can use AMX tiles */
    const char *algorithm;
} preference;

enum { EVERY_PASS = 7, WEIGHT = 1 << D9_CPU_CONV_BACKWARD_WEIGHT };

static const preference preferences[] = {
    /* Synthetic network, batch 64, 2 cores with AVX-512: 0.3 to 0.9 of oneDNN's time from 16 channels on. At 3 x 3
     * pixels (speed94): 0.6 of the time of "own gemm". */
    {D9_KERNEL_F32, EVERY_PASS, 1, 3, 16, true, "own winograd"},
    /* ResNet-18, batch 128, 2 cores of a Zen 5: 0.7 to 1.05 of oneDNN's time from 32 channels on; with 16 channels up
     * to twice its time. */
    {D9_KERNEL_F32, EVERY_PASS, 2, 4, 32, true, "own winograd"},
    /* dawn94, batch 512, 2 cores with AMX: the fastest from 8 x 8 pixels on; at 4 x 4 oneDNN's x16 is faster. */
    {D9_KERNEL_BF16, WEIGHT, 0, 8, 1, true, "own amx"},
    /* dawn94, batch 512, 2 cores of a Zen 4 with AVX512_BF16: 0.3 to 0.5 of the time of "own gemm". */
    {D9_KERNEL_BF16, EVERY_PASS, 1, 3, 16, false, "own winograd"},
    {D9_KERNEL_BF16, EVERY_PASS, 2, 4, 32, false, "own winograd"},
    /* The layers of ResNet-50 to which no row above applies, batch 8, 2 cores of a Zen 4: their total time is 0.99 of
     * oneDNN's in f32, 0.95 if both are limited to AVX2, and 0.99 in bf16. Unlike oneDNN's, the bits do not depend on
     * the number of threads. */
    {D9_KERNEL_F32, EVERY_PASS, 0, 1, 1, true, "own gemm"},
    {D9_KERNEL_BF16, EVERY_PASS, 0, 1, 1, false, "own gemm"},
};

static bool applies(const d9_cpu_device *device, const d9_cpu_conv_shape *s, const preference *p) {
    const int64_t channels = s->inputs < s->outputs ? s->inputs : s->outputs;
    if (!p->even_with_tiles && device->library && device->cpu.amx) return false;
    return s->store == p->store && p->passes >> s->pass & 1 && (p->stride == 0 || p->stride == s->stride) &&
           s->width >= p->least_width && channels >= p->least_channels;
}

/* Moves the algorithm that `choice` names to the front; false if the list has none of this name. */
static bool prefer_named(d9_conv_algorithm *algorithms, int count, const char *choice) {
    for (int i = 0; i < count; i++) {
        const d9_conv_algorithm preferred = algorithms[i];
        if (!d9_conv_algorithm_is(&preferred, choice)) continue;
        memmove(algorithms + 1, algorithms, (size_t)i * sizeof *algorithms);
        algorithms[0] = preferred;
        return true;
    }
    return false;
}

/* Lists the algorithms that fit, the first choice first. */
static int list_algorithms(const d9_site *site, d9_conv_algorithm algorithms[D9_CONV_ALGORITHMS]) {
    const d9_cpu_conv_shape shape = d9_conv_shape_of(site);
    const int count = d9_conv_list_algorithms(site, algorithms);
    const d9_cpu_device *device = d9_cpu_device_of(site);
    if (device->library_first) return count;
    for (size_t p = 0; p < sizeof preferences / sizeof *preferences; p++)
        if (applies(device, &shape, &preferences[p]) && prefer_named(algorithms, count, preferences[p].algorithm))
            break;
    return count;
}

const d9_cpu_conv_kernel *d9_conv_pooling_kernel(const d9_site *site) {
    d9_conv_algorithm algorithms[D9_CONV_ALGORITHMS];
    if (!match(site) || list_algorithms(site, algorithms) == 0) return NULL;
    const d9_cpu_conv_kernel *kernel = d9_conv_own_kernel(algorithms[0].text);
    const d9_cpu_conv_shape shape = d9_conv_shape_of(site);
    return kernel && kernel->pools && kernel->pools(&shape) ? kernel : NULL;
}

/* ---- timing ---- */

/* Sets the times of a row to the shortest of three runs each, after a warm-up: seconds of whole runs, bare_seconds of
 * `bare` runs (d9_conv_run). */
static d9_status time_algorithm(d9_context *context, const d9_site *site, const d9_conv *c, d9_choice_time *row) {
    d9_status status;
    row->seconds = row->bare_seconds = 1e30;
    D9_TRY(d9_conv_run(context, site, c, false));
    for (int i = 0; i < 3; i++) {
        const double start = d9_clock_now();
        D9_TRY(d9_conv_run(context, site, c, false));
        const double middle = d9_clock_now();
        D9_TRY(d9_conv_run(context, site, c, true));
        const double end = d9_clock_now();
        if (middle - start < row->seconds) row->seconds = middle - start;
        if (end - middle < row->bare_seconds) row->bare_seconds = end - middle;
    }
done:
    return status;
}

/* Times the algorithms that can be built, in the order of list_algorithms; at most `capacity` rows. */
static d9_status benchmark(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count) {
    d9_status status = D9_OK;
    d9_conv_algorithm algorithms[D9_CONV_ALGORITHMS];
    const int algorithm_count = list_algorithms(site, algorithms);
    *count = 0;
    for (int i = 0; i < algorithm_count && *count < capacity; i++) {
        d9_conv c;
        bool built;
        D9_TRY(d9_conv_build(context, site, &algorithms[i], &c, &built));
        if (!built) continue;
        d9_choice_time *row = &rows[(*count)++];
        *row = (d9_choice_time){.node = 0};
        snprintf(row->choice, sizeof row->choice, "%s", c.choice);
        status = time_algorithm(context, site, &c, row);
        d9_conv_destroy(context, site, &c);
        if (status != D9_OK) goto done;
    }
done:
    return status;
}

d9_status d9_conv_benchmark_parts(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count) {
    d9_status status = D9_OK;
    *count = 0;
    for (int n = 0; n < site->node_count; n++) {
        int found = 0;
        d9_site part = d9_site_part(site, n, 1);
        if (d9_op_info_of(part.nodes[0]->op)->conv_or_linear)
            D9_TRY(benchmark(context, &part, rows + *count, capacity - *count, &found));
        for (int i = *count; i < *count + found; i++) rows[i].node = n;
        *count += found;
    }
done:
    return status;
}

/* ---- choosing and running ---- */

/* With `tune: on`, moves the fastest algorithm to the front if it saves over a quarter of the first choice's time:
 * noise must not decide, because other algorithms may give other bits. `auto` does not time: 24 convolutions took some
 * 10 s and gained nothing measurable on AMX (docs/performance.md). Convolutions of less than 4e9 operations are not
 * timed. In the backend onednn, our kernels never replace oneDNN's algorithms. */
static d9_status tune(d9_context *context, d9_site *site, d9_conv_algorithm *algorithms, int algorithm_count) {
    d9_status status = D9_OK;
    d9_choice_time rows[D9_CONV_ALGORITHMS];
    int count, best = 0;
    if (d9_op_info_of(site->nodes[0]->op)->operations(site->graph, site->nodes[0]) < 4e9) return D9_OK;
    D9_TRY(benchmark(context, site, rows, D9_CONV_ALGORITHMS, &count));
    if (count == 0) return D9_OK;
    const bool library_only = d9_cpu_device_of(site)->library_first && !d9_conv_own_kernel(rows[0].choice);
    for (int i = 1; i < count; i++)
        if (rows[i].seconds < rows[best].seconds && !(library_only && d9_conv_own_kernel(rows[i].choice))) best = i;
    const double first = 1e3 * rows[0].seconds, least = 1e3 * rows[best].seconds;
    if (least < 0.75 * first) {
        prefer_named(algorithms, algorithm_count, rows[best].choice);
        snprintf(site->why, sizeof site->why, "timed: %.1f ms, the first choice %.1f ms", least, first);
    } else
        snprintf(site->why, sizeof site->why, "first choice; timed: %.1f ms, the fastest %.1f ms", first, least);
done:
    return status;
}

static d9_status prepare(d9_context *context, d9_site *site) {
    d9_status status;
    d9_conv *made;
    d9_conv_algorithm algorithms[D9_CONV_ALGORITHMS];
    bool built = false;
    const int count = list_algorithms(site, algorithms);
    D9_TRY(D9_ALLOCATE(context, 1, "a convolution", &made));
    site->data = made;
    snprintf(site->why, sizeof site->why, count > 1 ? "first choice" : "the only algorithm");
    if (site->wanted[0]) {
        prefer_named(algorithms, count, site->wanted); /* host/plan.c reports an unknown name */
        snprintf(site->why, sizeof site->why, "from the plan");
    } else if (site->options->tune == D9_TUNE_ON)
        D9_TRY(tune(context, site, algorithms, count));
    for (int i = 0; i < count && !built; i++) D9_TRY(d9_conv_build(context, site, &algorithms[i], made, &built));
    if (!built) D9_TRY(d9_fail(context, D9_DEVICE, "%s: no kernel for this convolution", site->nodes[0]->role));
    snprintf(site->choice, sizeof site->choice, "%s", made->choice);
    site->rounds_transforms = d9_conv_rounds_transforms(site, 0, made->kernel);
done:
    return status;
}

static void release(d9_context *context, d9_site *site) {
    if (!site->data) return;
    d9_conv_destroy(context, site, site->data);
    d9_release(context, site->data);
    site->data = NULL;
}

static d9_status run(d9_context *context, const d9_site *site, int64_t step) {
    (void)step;
    return d9_conv_run(context, site, site->data, false);
}

/* ---- the table ---- */

#define CONV(rule_op, rule_name)                                                                                       \
    {                                                                                                                  \
        .name = rule_name, .node_count = 1, .ops = {rule_op}, .match = match, .prepare = prepare, .run = run,          \
        .release = release, .benchmark = benchmark                                                                     \
    }

const d9_rule d9_cpu_conv_rules[] = {
    CONV(D9_OP_CONV, "conv"),
    CONV(D9_OP_CONV_BACKWARD_DATA, "conv_backward_data"),
    CONV(D9_OP_CONV_BACKWARD_WEIGHT, "conv_backward_weight"),
    {.name = NULL},
};
