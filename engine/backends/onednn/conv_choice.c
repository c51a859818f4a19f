/* Which way a convolution is computed: a first choice by rule, every way timed, or what a plan says. */
#include "backends/onednn/conv.h"
#include "backends/onednn/level.h"
#include "core/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool match(const d9_site *site) {
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    if (g.type != D9_F32 && !(g.type == D9_BF16 && d9_cpu_has_bf16())) return false;
    return d9_conv_typed(site, &g);
}

/* ---- what fits ---- */

/* Whether images may stand side by side: every output row is as wide as its input row. */
static bool strips_fit(const d9_conv_geometry *g, int across) {
    return across == 1 || (g->stride == 1 && g->pad > 0 && g->x.d[2] == g->y.d[2] && g->x.d[0] % across == 0);
}

/* Whether Winograd's transforms are worth their passes over the activations: many channels on both sides. */
static bool winograd_fits(const d9_conv_geometry *g) {
    return g->type == D9_F32 && g->stride == 1 && g->w.d[1] == 3 && g->w.d[2] == 3 && g->x.d[3] >= 64 &&
           g->y.d[3] >= 64;
}

/* Tiles are used: the processor has them, and no lower level was asked for. */
static bool has_tiles(const d9_cpu *cpu) { return strcmp(d9_onednn_isa(cpu->loops), "amx") == 0; }

static bool own_fits(const d9_cpu *cpu, const d9_conv_geometry *g) {
    const d9_cpu_conv shape = d9_conv_own_shape(g);
    return g->pass == D9_CONV_BACKWARD_WEIGHT && g->type == D9_BF16 && g->stride == 1 && g->pad == 1 &&
           g->w.d[1] == 3 && g->w.d[2] == 3 && has_tiles(cpu) && d9_cpu_conv_weight_fits(cpu, &shape);
}

static bool fits(const d9_cpu *cpu, const d9_conv_geometry *g, d9_conv_way way) {
    if (way.layout == D9_CONV_WINOGRAD) return winograd_fits(g);
    if (way.layout == D9_CONV_OWN) return own_fits(cpu, g);
    return way.layout == D9_CONV_BLOCKED || strips_fit(g, way.across);
}

/* The first choice. In f32 Winograd; with a matrix unit our own weight gradient from 8 x 8 on, and else small images 16
 * across (forward at 8 x 8: 4), or as many as divide the batch: the fastest of each in `bench ops` of dawn94 at batch
 * 512 with AMX. */
static d9_conv_way first_way(const d9_cpu *cpu, const d9_conv_geometry *g) {
    int across = g->pass == D9_CONV_FORWARD && g->x.d[2] == 8 ? 4 : 16;
    if (winograd_fits(g)) return (d9_conv_way){D9_CONV_WINOGRAD, 1};
    if (g->x.d[2] >= 8 && own_fits(cpu, g)) return (d9_conv_way){D9_CONV_OWN, 1};
    if (g->type != D9_BF16 || !has_tiles(cpu) || g->x.d[2] > 8) return (d9_conv_way){D9_CONV_PLAIN, 1};
    while (across > 1 && !strips_fit(g, across)) across /= 2;
    return (d9_conv_way){D9_CONV_PLAIN, across};
}

/* ---- timing ---- */

/* The best of three runs after one to warm up, with staging and of the primitive alone. */
static d9_status time_way(d9_context *context, const d9_site *site, const d9_conv *c, d9_choice_time *row) {
    d9_status status;
    row->seconds = row->bare_seconds = 1e30;
    D9_TRY(d9_conv_run(context, site, c));
    for (int i = 0; i < 3; i++) {
        const double start = d9_clock_now();
        D9_TRY(d9_conv_run(context, site, c));
        const double middle = d9_clock_now();
        D9_TRY(d9_conv_run_primitive(context, site, c));
        const double end = d9_clock_now();
        if (middle - start < row->seconds) row->seconds = middle - start;
        if (end - middle < row->bare_seconds) row->bare_seconds = end - middle;
    }
done:
    return status;
}

/* Every way that fits, timed; at most `capacity` rows. */
static d9_status survey(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count) {
    static const d9_conv_way ways[] = {{D9_CONV_PLAIN, 1},    {D9_CONV_PLAIN, 4},  {D9_CONV_PLAIN, 8},
                                       {D9_CONV_PLAIN, 16},   {D9_CONV_PLAIN, 32}, {D9_CONV_BLOCKED, 1},
                                       {D9_CONV_WINOGRAD, 1}, {D9_CONV_OWN, 1}};
    d9_status status = D9_OK;
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    *count = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && *count < capacity; i++) {
        d9_conv c;
        bool built;
        if (!fits(d9_onednn_cpu(site), &g, ways[i]) || (ways[i].across > 1 && g.x.d[2] > 8)) continue;
        D9_TRY(d9_conv_build(context, site, ways[i], &c, &built));
        if (!built) continue;
        d9_choice_time *row = &rows[(*count)++];
        snprintf(row->choice, sizeof row->choice, "%s", c.name);
        status = time_way(context, site, &c, row);
        d9_conv_destroy(&c);
        if (status != D9_OK) goto done;
    }
done:
    return status;
}

/* ---- choosing ---- */

static double operations(const d9_conv_geometry *g) {
    return 2 * (double)d9_shape_count(&g->y) * (double)(g->w.d[1] * g->w.d[2] * g->w.d[3]);
}

/* The way that a choice's text names; across 0: none that fits here. */
static d9_conv_way way_named(const d9_cpu *cpu, const d9_conv_geometry *g, const char *choice) {
    d9_conv_way way = {D9_CONV_PLAIN, 0};
    if (strncmp(choice, "winograd ", 9) == 0) way = (d9_conv_way){D9_CONV_WINOGRAD, 1};
    if (strncmp(choice, "own ", 4) == 0) way = (d9_conv_way){D9_CONV_OWN, 1};
    if (strncmp(choice, "blocked ", 8) == 0) way = (d9_conv_way){D9_CONV_BLOCKED, 1};
    if (*choice == 'x') {
        const long across = strtol(choice + 1, NULL, 10);
        way.across = across > 0 && across <= g->x.d[0] ? (int)across : 0;
    }
    return way.across > 0 && fits(cpu, g, way) ? way : (d9_conv_way){D9_CONV_PLAIN, 0};
}

/* With tune: on. `auto` takes the first choice: timing 24 convolutions costs some 10 s and has gained nothing
 * measurable over it on AMX (docs/performance.md).
 *
 * For a convolution of some milliseconds. Another way than the first must save a quarter of its time: noise must not
 * decide, for another way may mean other bits. */
static d9_status tune(d9_context *context, d9_site *site, const d9_conv_geometry *g, d9_conv_way *way) {
    enum { WAYS = 8 };
    d9_status status = D9_OK;
    d9_choice_time rows[WAYS];
    double first = 1e30, least = 1e30;
    int count, best = 0;
    const d9_conv_way was = *way;
    if (operations(g) < 4e9) return D9_OK;
    D9_TRY(survey(context, site, rows, WAYS, &count));
    for (int i = 0; i < count; i++) {
        const d9_conv_way here = way_named(d9_onednn_cpu(site), g, rows[i].choice);
        if (here.layout == was.layout && here.across == was.across) first = rows[i].seconds;
        if (rows[i].seconds < least) best = i;
        if (rows[i].seconds < least) least = rows[i].seconds;
    }
    if (least < 0.75 * first) *way = way_named(d9_onednn_cpu(site), g, rows[best].choice);
done:
    return status;
}

static d9_status prepare(d9_context *context, d9_site *site) {
    d9_status status;
    d9_conv *made;
    bool built;
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    d9_conv_way way = first_way(d9_onednn_cpu(site), &g);
    D9_TRY(D9_ALLOCATE(context, 1, "a convolution", &made));
    site->data = made;
    if (site->choice[0])
        way = way_named(d9_onednn_cpu(site), &g, site->choice);
    else if (site->options->tune == D9_TUNE_ON)
        D9_TRY(tune(context, site, &g, &way));
    if (way.across == 0) way = (d9_conv_way){D9_CONV_PLAIN, 1}; /* the plan then finds that the choice is another */
    D9_TRY(d9_conv_build(context, site, way, made, &built));
    if (!built && way.layout != D9_CONV_PLAIN)
        D9_TRY(d9_conv_build(context, site, (d9_conv_way){D9_CONV_PLAIN, 1}, made, &built));
    if (!built) D9_TRY(d9_onednn_check(context, site, dnnl_unimplemented));
    snprintf(site->choice, sizeof site->choice, "%s", made->name);
done:
    return status;
}

static void release(d9_context *context, d9_site *site) {
    if (!site->data) return;
    d9_conv_destroy(site->data);
    d9_release(context, site->data);
    site->data = NULL;
}

static d9_status run(d9_context *context, const d9_site *site, int64_t step) {
    (void)step;
    return d9_conv_run(context, site, site->data);
}

/* ---- the table ---- */

#define CONV(rule_op, rule_name)                                                                                       \
    {                                                                                                                  \
        .name = rule_name, .node_count = 1, .ops = {rule_op}, .match = match, .prepare = prepare, .run = run,          \
        .release = release, .survey = survey                                                                           \
    }

const d9_rule d9_onednn_conv_rules[] = {
    CONV(D9_OP_CONV, "conv"),
    CONV(D9_OP_CONV_BACKWARD_DATA, "conv_backward_data"),
    CONV(D9_OP_CONV_BACKWARD_WEIGHT, "conv_backward_weight"),
    {.name = NULL},
};
