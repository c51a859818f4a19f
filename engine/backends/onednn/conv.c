/* Convolution and its two gradients as oneDNN primitives on (N, H, W, C) activations.
 *
 * Each rule: reorder the weights (O, KH, KW, I) into the primitive's own layout, run, and for the weights' gradient
 * reorder back. Small images waste a matrix unit: a row of 4 pixels fills a quarter of a tile of 16. So images may be
 * laid side by side with `pad` zero columns between them, where the convolution pads anyway: (N, H, W, C) becomes
 * (N / across, H, across * (W + pad), C), the outputs between images are dropped, and as gradients they are zero.
 * Measured on 2 cores with AMX, batch 512, bf16, 512 -> 512 channels at 4 x 4: forward 45 -> 14 ms, data gradient
 * 61 -> 16, weight gradient 132 -> 21. A choice reads "x16 brgconv:avx512_core_amx_bf16": 16 across. */
#include "backends/onednn/onednn.h"
#include "core/system.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The arguments of a pass: what lies on the image's side, on the output's side, and the weights between. */
typedef enum pass { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHT } pass;
enum { IMAGE, WEIGHTS, OUTPUT, ARGUMENTS };
static const int argument_names[][ARGUMENTS] = {
    [FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
    [BACKWARD_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
    [BACKWARD_WEIGHT] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
};
static const dnnl_query_t argument_queries[][ARGUMENTS] = {
    [FORWARD] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
    [BACKWARD_DATA] = {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
    [BACKWARD_WEIGHT] = {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md},
};
/* Which argument a pass writes. */
static const int written[] = {[FORWARD] = OUTPUT, [BACKWARD_DATA] = IMAGE, [BACKWARD_WEIGHT] = WEIGHTS};

typedef struct geometry {
    pass pass;
    d9_value_id value[ARGUMENTS];
    d9_shape x, w, y; /* x and y (N, H, W, C), w (O, KH, KW, I) */
    d9_type type;     /* of x and y, and of w but for its gradient, which is f32 */
    int stride, pad;
} geometry;

typedef struct conv {
    geometry g;
    int across; /* images side by side; 1: as they lie */
    d9_cpu_strip strip[ARGUMENTS]; /* of IMAGE and OUTPUT */
    dnnl_primitive_t primitive, reorder; /* reorder NULL: the weights are taken as they lie */
    dnnl_memory_t memory[ARGUMENTS], plain_weights, workspace;
    int64_t weights_at, workspace_at, strip_at[ARGUMENTS], scratch_bytes; /* in the shared scratch */
    char name[64];
} conv;

static geometry geometry_of(const d9_site *site) {
    const d9_node *node = site->nodes[0];
    geometry g = {.stride = node->as.conv.stride, .pad = node->as.conv.pad};
    const d9_value_id a = node->inputs[0], b = node->inputs[1], out = node->outputs[0];
    if (node->op == D9_OP_CONV) g = (geometry){FORWARD, {a, b, out}, .stride = g.stride, .pad = g.pad};
    if (node->op == D9_OP_CONV_BACKWARD_DATA) g = (geometry){BACKWARD_DATA, {out, b, a}, .stride = g.stride, .pad = g.pad};
    if (node->op == D9_OP_CONV_BACKWARD_WEIGHT) g = (geometry){BACKWARD_WEIGHT, {b, out, a}, .stride = g.stride, .pad = g.pad};
    g.x = d9_onednn_value(site, g.value[IMAGE])->shape;
    g.w = d9_onednn_value(site, g.value[WEIGHTS])->shape;
    g.y = d9_onednn_value(site, g.value[OUTPUT])->shape;
    g.type = d9_onednn_value(site, g.value[IMAGE])->type;
    return g;
}

bool d9_onednn_conv_match(const d9_site *site) {
    const geometry g = geometry_of(site);
    const d9_type w = d9_onednn_value(site, g.value[WEIGHTS])->type;
    if (g.type != D9_F32 && !(g.type == D9_BF16 && d9_cpu_has_bf16())) return false;
    return d9_onednn_value(site, g.value[OUTPUT])->type == g.type && w == (g.pass == BACKWARD_WEIGHT ? D9_F32 : g.type);
}

/* ---- building one candidate ---- */

#define DNNL_TRY(call) D9_TRY(d9_onednn_check(context, site, (call)))

static dnnl_data_type_t data_type(d9_type type) { return type == D9_BF16 ? dnnl_bf16 : dnnl_f32; }

/* (N, H, W, C) as oneDNN's logical (N, C, H, W), images side by side where there is a strip. */
static dnnl_status_t activation_layout(const d9_cpu_strip *s, d9_type type, dnnl_memory_desc_t *layout) {
    const int64_t width = s->across == 1 ? s->width : s->across * (s->width + s->gap);
    const dnnl_dims_t dims = {s->images / s->across, s->channels, s->height, width};
    return dnnl_memory_desc_init_by_tag(layout, 4, dims, data_type(type), dnnl_nhwc);
}

static dnnl_status_t weight_layout(const geometry *g, dnnl_format_tag_t tag, dnnl_memory_desc_t *layout) {
    const dnnl_dims_t dims = {g->w.d[0], g->w.d[3], g->w.d[1], g->w.d[2]};
    return dnnl_memory_desc_init_by_tag(layout, 4, dims, data_type(g->pass == BACKWARD_WEIGHT ? D9_F32 : g->type), tag);
}

/* The primitive's description; a backward pass needs the forward one as a hint. */
static d9_status describe(d9_context *context, const d9_site *site, const conv *c, pass pass,
                          const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *description) {
    d9_status status;
    const geometry *g = &c->g;
    dnnl_memory_desc_t x, w, y;
    dnnl_convolution_desc_t desc;
    dnnl_primitive_attr_t attributes = NULL;
    const dnnl_dims_t strides = {g->stride, g->stride}, pads = {g->pad, g->pad};
    geometry weights = *g;
    weights.pass = pass;
    DNNL_TRY(activation_layout(&c->strip[IMAGE], g->type, &x));
    DNNL_TRY(activation_layout(&c->strip[OUTPUT], g->type, &y));
    DNNL_TRY(weight_layout(&weights, dnnl_format_tag_any, &w));
    if (pass == FORWARD)
        DNNL_TRY(dnnl_convolution_forward_desc_init(&desc, dnnl_forward_training, dnnl_convolution_direct, &x, &w, NULL,
                                                    &y, strides, pads, pads));
    if (pass == BACKWARD_DATA)
        DNNL_TRY(dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &x, &w, &y, strides, pads, pads));
    if (pass == BACKWARD_WEIGHT)
        DNNL_TRY(dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &x, &w, NULL, &y, strides,
                                                             pads, pads));
    DNNL_TRY(dnnl_primitive_attr_create(&attributes));
    DNNL_TRY(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
    DNNL_TRY(dnnl_primitive_desc_create(description, &desc, attributes, d9_onednn_of(site)->engine, hint));
done:
    if (attributes) dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* Places `bytes` in the shared scratch, after what is there. */
static int64_t place(conv *c, int64_t bytes) {
    const int64_t at = c->scratch_bytes;
    c->scratch_bytes += (bytes + 63) / 64 * 64;
    return at;
}

static d9_status make_memory(d9_context *context, const d9_site *site, const dnnl_memory_desc_t *layout,
                             dnnl_memory_t *memory) {
    return d9_onednn_check(context, site,
                           dnnl_memory_create(memory, layout, d9_onednn_of(site)->engine, DNNL_MEMORY_NONE));
}

static d9_status make_reorder(d9_context *context, const d9_site *site, conv *c, const dnnl_memory_desc_t *plain,
                              const dnnl_memory_desc_t *own) {
    d9_status status;
    const dnnl_engine_t engine = d9_onednn_of(site)->engine;
    dnnl_primitive_desc_t description = NULL;
    const bool out = c->g.pass == BACKWARD_WEIGHT;
    D9_TRY(make_memory(context, site, plain, &c->plain_weights));
    DNNL_TRY(dnnl_reorder_primitive_desc_create(&description, out ? own : plain, engine, out ? plain : own, engine, NULL));
    DNNL_TRY(dnnl_primitive_create(&c->reorder, description));
    c->weights_at = place(c, (int64_t)dnnl_memory_desc_get_size(own));
done:
    if (description) dnnl_primitive_desc_destroy(description);
    return status;
}

/* Memories of the arguments, the weights' reorder, and room for all in the shared scratch. */
static d9_status lay_out(d9_context *context, const d9_site *site, conv *c, const_dnnl_primitive_desc_t description) {
    d9_status status;
    dnnl_memory_desc_t plain;
    const dnnl_memory_desc_t *workspace = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    for (int a = 0; a < ARGUMENTS; a++) {
        const dnnl_memory_desc_t *own = dnnl_primitive_desc_query_md(description, argument_queries[c->g.pass][a], 0);
        D9_TRY(make_memory(context, site, own, &c->memory[a]));
        if (a != WEIGHTS && c->across > 1) c->strip_at[a] = place(c, (int64_t)dnnl_memory_desc_get_size(own));
        if (a != WEIGHTS) continue;
        DNNL_TRY(weight_layout(&c->g, dnnl_ohwi, &plain));
        if (!dnnl_memory_desc_equal(own, &plain)) D9_TRY(make_reorder(context, site, c, &plain, own));
    }
    D9_TRY(make_memory(context, site, workspace, &c->workspace));
    c->workspace_at = place(c, (int64_t)dnnl_memory_desc_get_size(workspace));
    D9_TRY(d9_onednn_reserve(context, d9_onednn_of(site), c->scratch_bytes));
done:
    return status;
}

static void destroy(conv *c) {
    for (int a = 0; a < ARGUMENTS; a++)
        if (c->memory[a]) dnnl_memory_destroy(c->memory[a]);
    if (c->plain_weights) dnnl_memory_destroy(c->plain_weights);
    if (c->workspace) dnnl_memory_destroy(c->workspace);
    if (c->reorder) dnnl_primitive_destroy(c->reorder);
    if (c->primitive) dnnl_primitive_destroy(c->primitive);
    memset(c, 0, sizeof *c);
}

static d9_status build(d9_context *context, const d9_site *site, int across, conv *c) {
    d9_status status;
    const char *name = "";
    dnnl_primitive_desc_t forward = NULL, backward = NULL;
    const geometry g = geometry_of(site);
    *c = (conv){.g = g, .across = across};
    c->strip[IMAGE] = (d9_cpu_strip){g.x.d[0], g.x.d[1], g.x.d[2], g.x.d[3], across, g.pad};
    c->strip[OUTPUT] = (d9_cpu_strip){g.y.d[0], g.y.d[1], g.y.d[2], g.y.d[3], across, g.pad};
    omp_set_num_threads(site->threads); /* oneDNN asks OpenMP, here and when it runs */
    D9_TRY(describe(context, site, c, FORWARD, NULL, &forward));
    if (g.pass != FORWARD) D9_TRY(describe(context, site, c, g.pass, forward, &backward));
    const_dnnl_primitive_desc_t description = backward ? backward : forward;
    DNNL_TRY(dnnl_primitive_create(&c->primitive, description));
    DNNL_TRY(dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, (void *)&name));
    snprintf(c->name, sizeof c->name, "x%d %s", across, name);
    D9_TRY(lay_out(context, site, c, description));
done:
    if (backward) dnnl_primitive_desc_destroy(backward);
    if (forward) dnnl_primitive_desc_destroy(forward);
    if (status != D9_OK) destroy(c);
    return status;
}

/* ---- running ---- */

/* Where an argument's bytes are while the primitive runs. */
static void *argument_data(const d9_site *site, const conv *c, int a) {
    char *scratch = d9_onednn_of(site)->scratch;
    if (a == WEIGHTS && c->reorder) return scratch + c->weights_at;
    if (a != WEIGHTS && c->across > 1) return scratch + c->strip_at[a];
    return d9_site_data(site, c->g.value[a]);
}

static d9_status run_reorder(d9_context *context, const d9_site *site, const conv *c) {
    d9_status status;
    const bool out = c->g.pass == BACKWARD_WEIGHT;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, out ? c->memory[WEIGHTS] : c->plain_weights},
                                         {DNNL_ARG_TO, out ? c->plain_weights : c->memory[WEIGHTS]}};
    DNNL_TRY(dnnl_memory_set_data_handle(c->plain_weights, d9_site_data(site, c->g.value[WEIGHTS])));
    DNNL_TRY(dnnl_primitive_execute(c->reorder, d9_onednn_of(site)->stream, 2, arguments));
done:
    return status;
}

static d9_status run_primitive(d9_context *context, const d9_site *site, const conv *c) {
    d9_status status;
    dnnl_exec_arg_t arguments[ARGUMENTS + 1];
    for (int a = 0; a < ARGUMENTS; a++) arguments[a] = (dnnl_exec_arg_t){argument_names[c->g.pass][a], c->memory[a]};
    arguments[ARGUMENTS] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, c->workspace};
    DNNL_TRY(dnnl_primitive_execute(c->primitive, d9_onednn_of(site)->stream, ARGUMENTS + 1, arguments));
done:
    return status;
}

static d9_status run(d9_context *context, const d9_site *site, const conv *c) {
    d9_status status;
    const d9_cpu *cpu = d9_onednn_cpu(site);
    const d9_cpu_store store = c->g.type == D9_BF16 ? D9_CPU_BF16 : D9_CPU_F32;
    const int out = written[c->g.pass];
    omp_set_num_threads(site->threads);
    for (int a = 0; a < ARGUMENTS; a++) {
        DNNL_TRY(dnnl_memory_set_data_handle(c->memory[a], argument_data(site, c, a)));
        if (a != WEIGHTS && a != out && c->across > 1)
            d9_cpu_strip_pack(cpu, &c->strip[a], d9_site_data(site, c->g.value[a]), store, argument_data(site, c, a));
    }
    DNNL_TRY(dnnl_memory_set_data_handle(c->workspace, (char *)d9_onednn_of(site)->scratch + c->workspace_at));
    if (c->reorder && out != WEIGHTS) D9_TRY(run_reorder(context, site, c));
    D9_TRY(run_primitive(context, site, c));
    if (c->reorder && out == WEIGHTS) D9_TRY(run_reorder(context, site, c));
    if (out != WEIGHTS && c->across > 1)
        d9_cpu_strip_unpack(cpu, &c->strip[out], argument_data(site, c, out), store, d9_site_data(site, c->g.value[out]));
    DNNL_TRY(dnnl_stream_wait(d9_onednn_of(site)->stream));
done:
    return status;
}

d9_status d9_onednn_conv(d9_context *context, const d9_site *site, int64_t step) {
    (void)step;
    return run(context, site, site->data);
}

/* ---- choosing ---- */

/* Whether images may stand side by side: every output row is as wide as its input row. */
static bool strips_fit(const geometry *g, int across) {
    return across == 1 || (g->stride == 1 && g->pad > 0 && g->x.d[2] == g->y.d[2] && g->x.d[0] % across == 0);
}

/* The first choice: with a matrix unit, small images 16 across, or as many as divide the batch. */
static int first_across(const geometry *g) {
    int across = 16;
    if (g->type != D9_BF16 || !d9_cpu_has_amx_bf16() || g->x.d[2] > 8) return 1;
    while (across > 1 && !strips_fit(g, across)) across /= 2;
    return across;
}

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The best of three runs after one to warm up. */
static d9_status time_candidate(d9_context *context, const d9_site *site, const conv *c, double *seconds) {
    d9_status status;
    *seconds = 1e30;
    D9_TRY(run(context, site, c));
    for (int i = 0; i < 3; i++) {
        const double before = now_seconds();
        D9_TRY(run(context, site, c));
        const double spent = now_seconds() - before;
        if (spent < *seconds) *seconds = spent;
    }
done:
    return status;
}

static d9_status time_across(d9_context *context, const d9_site *site, int across, double *seconds) {
    d9_status status;
    conv c;
    *seconds = 1e30;
    D9_TRY(build(context, site, across, &c));
    status = time_candidate(context, site, &c, seconds);
    destroy(&c);
done:
    return status;
}

static double operations(const geometry *g) {
    return 2 * (double)d9_shape_count(&g->y) * (double)(g->w.d[1] * g->w.d[2] * g->w.d[3]);
}

/* Tries 1, 4, 8, 16 and 32 images across, for a convolution of some milliseconds on small images. Another than the
 * first choice must save a quarter of the first's time, measured before and after: noise must not decide, for another
 * choice may mean other bits. */
static d9_status tune(d9_context *context, const d9_site *site, const geometry *g, int *across) {
    static const int candidates[] = {1, 4, 8, 16, 32};
    d9_status status = D9_OK;
    const int first = *across;
    int best = first;
    double before, after, seconds, least = 1e30;
    if (operations(g) < 4e9 || g->x.d[2] > 8) return D9_OK;
    D9_TRY(time_across(context, site, first, &before));
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        if (candidates[i] == first || !strips_fit(g, candidates[i])) continue;
        D9_TRY(time_across(context, site, candidates[i], &seconds));
        if (seconds < least) best = candidates[i];
        if (seconds < least) least = seconds;
    }
    D9_TRY(time_across(context, site, first, &after));
    if (least < 0.75 * (before < after ? before : after)) *across = best;
done:
    return status;
}

/* "x16 ..." of a plan to follow; 0: something that does not fit here. */
static int forced_across(const geometry *g, const char *choice) {
    char *end;
    const long across = *choice == 'x' ? strtol(choice + 1, &end, 10) : 0;
    return across > 0 && across <= g->x.d[0] && strips_fit(g, (int)across) ? (int)across : 0;
}

d9_status d9_onednn_conv_prepare(d9_context *context, d9_site *site) {
    d9_status status;
    void *memory;
    const geometry g = geometry_of(site);
    int across = first_across(&g);
    D9_TRY(d9_allocate(context, sizeof(conv), "a convolution", &memory));
    site->data = memory;
    if (site->choice[0]) across = forced_across(&g, site->choice);
    else if (site->options->tune) D9_TRY(tune(context, site, &g, &across));
    if (across == 0) across = 1; /* the plan then finds that the choice is another */
    D9_TRY(build(context, site, across, site->data));
    snprintf(site->choice, sizeof site->choice, "%s", ((conv *)site->data)->name);
done:
    return status;
}

void d9_onednn_conv_release(d9_context *context, d9_site *site) {
    if (!site->data) return;
    destroy(site->data);
    d9_release(context, site->data);
    site->data = NULL;
}
