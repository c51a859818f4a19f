/* Convolution and its two gradients as oneDNN primitives on (N, H, W, C) activations.
 *
 * A run converts the arguments for which the primitive needs another layout, runs the primitive, and converts its
 * output back. The weights (O, KH, KW, I) almost always need a conversion. Besides the plain algorithm "x1", and
 * "blocked" in oneDNN's blocked layout, there are
 *
 * "x2" to "x32", 2 to 32 images side by side. A row of 4 pixels fills a quarter of a matrix unit's tile of 16. Several
 * images are therefore placed side by side, separated by the `pad` zero columns of the padding: (N, H, W, C) becomes
 * (N / across, H, across * (W + pad), C). The outputs between images are dropped; their gradients are zero. Measured
 * with "x16" on 2 cores with AMX, batch 512, bf16, 512 -> 512 channels at 4 x 4: forward 45 -> 14 ms, data gradient
 * 61 -> 16, weight gradient 132 -> 21.
 *
 * "winograd", F(4x4, 3x3) in f32: a quarter of the multiplications, on activations in oneDNN's blocked layout. oneDNN 2
 * has this algorithm for AVX-512, oneDNN 3.7 does not. Measured on those cores, batch 512, 128 -> 128 channels at 16 x
 * 16: forward 100 -> 42 ms, data gradient 106 -> 42, weight gradient 102 -> 45, before the reorders. */
#include "backends/onednn/onednn.h"
#include "backends/onednn/dnnl.h"
#include <omp.h>
#include <stdio.h>
#include <string.h>

/* oneDNN's algorithms for a convolution. */
static const d9_onednn_algorithm all_algorithms[] = {
    {"x1", D9_ONEDNN_PLAIN, 1},        {"x2", D9_ONEDNN_PLAIN, 2},         {"x4", D9_ONEDNN_PLAIN, 4},
    {"x8", D9_ONEDNN_PLAIN, 8},        {"x16", D9_ONEDNN_PLAIN, 16},       {"x32", D9_ONEDNN_PLAIN, 32},
    {"blocked", D9_ONEDNN_BLOCKED, 1}, {"winograd", D9_ONEDNN_WINOGRAD, 1}};
enum { ALGORITHMS = sizeof all_algorithms / sizeof *all_algorithms };
_Static_assert((int)ALGORITHMS <= (int)D9_LIBRARY_ALGORITHMS, "room for every algorithm");

/* True if `across` images can lie side by side. 1 always fits. A larger number must divide the batch size; the
 * convolution must have padding, stride 1, and one width of at most 8 pixels for input and output. */
static bool strips_fit(const d9_conv_geometry *g, int across) {
    return across == 1 ||
           (g->stride == 1 && g->pad > 0 && g->x.d[2] == g->y.d[2] && g->x.d[2] <= 8 && g->x.d[0] % across == 0);
}

/* True for f32, 3 x 3, stride 1, and at least 64 input and output channels, so that Winograd's transforms pay off. */
static bool winograd_fits(const d9_conv_geometry *g) {
    return g->type == D9_F32 && g->stride == 1 && g->w.d[1] == 3 && g->w.d[2] == 3 && g->x.d[3] >= 64 &&
           g->y.d[3] >= 64;
}

static bool fits(const d9_conv_geometry *g, const d9_onednn_algorithm *algorithm) {
    if (algorithm->layout == D9_ONEDNN_WINOGRAD) return winograd_fits(g);
    return algorithm->layout == D9_ONEDNN_BLOCKED || strips_fit(g, algorithm->across);
}

/* True for the first choice: Winograd where it fits. Else in bf16 with AMX tiles, 16 images side by side (4 in forward
 * passes at width 8), halved until they fit; these numbers were the fastest in `bench ops` of dawn94. Else one image at
 * a time. */
static bool is_first(const d9_cpu *cpu, const d9_conv_geometry *g, const d9_onednn_algorithm *algorithm) {
    int across = g->pass == D9_CONV_FORWARD && g->x.d[2] == 8 ? 4 : 16;
    if (winograd_fits(g)) return algorithm->layout == D9_ONEDNN_WINOGRAD;
    if (g->type != D9_BF16 || !cpu->amx) across = 1;
    while (across > 1 && !strips_fit(g, across)) across /= 2;
    return algorithm->layout == D9_ONEDNN_PLAIN && algorithm->across == across;
}

int d9_onednn_algorithms(const d9_site *site, const char *algorithms[D9_LIBRARY_ALGORITHMS]) {
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    int count = 0;
    for (int first = 1; first >= 0; first--)
        for (int i = 0; i < ALGORITHMS; i++)
            if (fits(&g, &all_algorithms[i]) && is_first(d9_cpu_of(site), &g, &all_algorithms[i]) == first)
                algorithms[count++] = all_algorithms[i].name;
    return count;
}

const d9_onednn_algorithm *d9_onednn_algorithm_named(const d9_site *site, const char *text) {
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    const size_t length = strcspn(text, " ");
    for (int i = 0; i < ALGORITHMS; i++)
        if (strlen(all_algorithms[i].name) == length && strncmp(text, all_algorithms[i].name, length) == 0)
            return fits(&g, &all_algorithms[i]) ? &all_algorithms[i] : NULL;
    return NULL;
}

enum { ARGUMENTS = D9_CONV_ARGUMENTS };
static const int argument_names[][ARGUMENTS] = {
    [D9_CONV_FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
    [D9_CONV_BACKWARD_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
    [D9_CONV_BACKWARD_WEIGHT] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
};
static const dnnl_query_t argument_queries[][ARGUMENTS] = {
    [D9_CONV_FORWARD] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
    [D9_CONV_BACKWARD_DATA] = {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
    [D9_CONV_BACKWARD_WEIGHT] = {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md},
};
static const dnnl_prop_kind_t pass_kinds[] = {[D9_CONV_FORWARD] = dnnl_forward_training,
                                              [D9_CONV_BACKWARD_DATA] = dnnl_backward_data,
                                              [D9_CONV_BACKWARD_WEIGHT] = dnnl_backward_weights};

/* ---- building ---- */

#define DNNL_TRY(call) D9_TRY(d9_onednn_check(context, site, (call)))

static dnnl_data_type_t data_type(d9_type type) { return type == D9_BF16 ? dnnl_bf16 : dnnl_f32; }

/* (N, H, W, C) in oneDNN's logical order (N, C, H, W), with s->across images side by side. */
static d9_dnnl_array activation_array(const d9_cpu_strip *s, d9_type type, dnnl_format_tag_t tag) {
    const int64_t width = s->across == 1 ? s->width : s->across * (s->width + s->gap);
    return (d9_dnnl_array){4, {s->images / s->across, s->channels, s->height, width}, data_type(type), tag};
}

static d9_dnnl_array weights_array(const d9_conv_geometry *g, d9_conv_pass pass, dnnl_format_tag_t tag) {
    const d9_type type = pass == D9_CONV_BACKWARD_WEIGHT ? D9_F32 : g->type;
    return (d9_dnnl_array){4, {g->w.d[0], g->w.d[3], g->w.d[1], g->w.d[2]}, data_type(type), tag};
}

static d9_dnnl_array plain_array(const d9_onednn_conv *c, int argument) {
    if (argument == D9_CONV_WEIGHTS) return weights_array(&c->g, c->g.pass, dnnl_ohwi);
    return activation_array(&c->strip[argument], c->g.type, dnnl_nhwc);
}

/* Describes the primitive. `hint`: for a backward pass, the description of the forward pass, which is always a direct
 * convolution; NULL for the forward pass. *description NULL: oneDNN has no such primitive. */
static d9_status describe_primitive(d9_context *context, const d9_site *site, const d9_onednn_conv *c,
                                    d9_conv_pass pass, const_dnnl_primitive_desc_t hint,
                                    dnnl_primitive_desc_t *description) {
    d9_status status;
    const d9_conv_geometry *g = &c->g;
    dnnl_primitive_attr_t attributes = NULL;
    const dnnl_format_tag_t tag = c->algorithm->layout == D9_ONEDNN_PLAIN ? dnnl_nhwc : dnnl_format_tag_any;
    const bool winograd = c->algorithm->layout == D9_ONEDNN_WINOGRAD && pass == g->pass; /* hints are direct */
    const d9_dnnl_conv conv = {
        .x = activation_array(&c->strip[D9_CONV_IMAGE], g->type, tag),
        .w = weights_array(g, pass, dnnl_format_tag_any),
        .y = activation_array(&c->strip[D9_CONV_OUTPUT], g->type, tag),
        .strides = {g->stride, g->stride},
        .pads = {g->pad, g->pad},
        .algorithm = winograd ? dnnl_convolution_winograd : dnnl_convolution_direct,
    };
    DNNL_TRY(dnnl_primitive_attr_create(&attributes));
    DNNL_TRY(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
    const dnnl_status_t result =
        d9_dnnl_describe_conv(d9_onednn_of(site)->engine, pass_kinds[pass], &conv, attributes, hint, description);
    if (result == dnnl_unimplemented)
        *description = NULL;
    else
        DNNL_TRY(result);
done:
    if (attributes) dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* Adds `bytes` to the scratch memory that the convolution needs; returns their offset in that memory. */
static int64_t add_scratch(d9_onednn_conv *c, int64_t bytes) {
    const int64_t at = c->scratch_bytes;
    c->scratch_bytes += (bytes + 63) / 64 * 64;
    return at;
}

/* Makes an argument's memory in plain layout and, if the primitive's layout differs, a reorder from the plain layout to
 * the primitive's; for the output, from the primitive's to the plain layout. */
static d9_status make_reorder(d9_context *context, const d9_site *site, d9_onednn_conv *c, int argument) {
    d9_status status;
    const dnnl_engine_t engine = d9_onednn_of(site)->engine;
    const d9_dnnl_array array = plain_array(c, argument);
    const dnnl_memory_t own = c->memory[argument];
    DNNL_TRY(d9_dnnl_memory_make(engine, &array, DNNL_MEMORY_NONE, &c->plain[argument]));
    const dnnl_memory_t plain = c->plain[argument];
    const bool out = argument == d9_conv_written(c->g.pass);
    if (!d9_dnnl_memories_equal(own, plain))
        DNNL_TRY(d9_dnnl_reorder_make(engine, out ? own : plain, out ? plain : own, &c->reorder[argument]));
done:
    return status;
}

static d9_status make_memory(d9_context *context, const d9_site *site, const_dnnl_primitive_desc_t description,
                             dnnl_query_t query, dnnl_memory_t *memory) {
    return d9_onednn_check(context, site,
                           dnnl_memory_create(memory, dnnl_primitive_desc_query_md(description, query, 0),
                                              d9_onednn_of(site)->engine, DNNL_MEMORY_NONE));
}

/* Makes the memories of the arguments and the workspace, and the reorders; reserves scratch memory for all of them. */
static d9_status make_memories(d9_context *context, const d9_site *site, d9_onednn_conv *c,
                               const_dnnl_primitive_desc_t description) {
    d9_status status;
    for (int a = 0; a < ARGUMENTS; a++) {
        const bool strip = a != D9_CONV_WEIGHTS && c->algorithm->across > 1;
        D9_TRY(make_memory(context, site, description, argument_queries[c->g.pass][a], &c->memory[a]));
        if (!strip) D9_TRY(make_reorder(context, site, c, a));
        if (strip || c->reorder[a]) c->staged_at[a] = add_scratch(c, (int64_t)d9_dnnl_memory_bytes(c->memory[a]));
    }
    D9_TRY(make_memory(context, site, description, dnnl_query_scratchpad_md, &c->workspace));
    c->workspace_at = add_scratch(c, (int64_t)d9_dnnl_memory_bytes(c->workspace));
    D9_TRY(d9_cpu_reserve(context, d9_cpu_device_of(site), c->scratch_bytes));
done:
    return status;
}

/* oneDNN 2.6's jit_1x1:avx2 adds stale scratch contents to the weight gradient on two or more threads if the
 * convolution is strided and its image has fewer channels than a vector has lanes: the errors are as large as the sums.
 * Found with 1 to 5 channels. */
static bool has_known_bug(const d9_conv_geometry *g, const char *implementation) {
    return g->pass == D9_CONV_BACKWARD_WEIGHT && g->stride > 1 && g->x.d[3] < 8 &&
           strcmp(implementation, "jit_1x1:avx2") == 0;
}

void d9_onednn_conv_destroy(d9_onednn_conv *c) {
    for (int a = 0; a < ARGUMENTS; a++) {
        if (c->memory[a]) dnnl_memory_destroy(c->memory[a]);
        if (c->plain[a]) dnnl_memory_destroy(c->plain[a]);
        if (c->reorder[a]) dnnl_primitive_destroy(c->reorder[a]);
    }
    if (c->workspace) dnnl_memory_destroy(c->workspace);
    if (c->primitive) dnnl_primitive_destroy(c->primitive);
    memset(c, 0, sizeof *c);
}

/* oneDNN uses the calling thread's OpenMP settings, when building and running; its barriers need the whole team. */
static void set_threads(const d9_site *site) {
    omp_set_dynamic(0);
    omp_set_num_threads(site->threads);
}

d9_status d9_onednn_conv_build(d9_context *context, const d9_site *site, const d9_onednn_algorithm *algorithm,
                               d9_onednn_conv *c, bool *built) {
    d9_status status;
    const char *implementation = "";
    dnnl_primitive_desc_t forward = NULL, backward = NULL;
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    *c = (d9_onednn_conv){.g = g, .algorithm = algorithm};
    *built = false;
    c->strip[D9_CONV_IMAGE] = (d9_cpu_strip){g.x.d[0], g.x.d[1], g.x.d[2], g.x.d[3], algorithm->across, g.pad};
    c->strip[D9_CONV_OUTPUT] = (d9_cpu_strip){g.y.d[0], g.y.d[1], g.y.d[2], g.y.d[3], algorithm->across, g.pad};
    set_threads(site);
    D9_TRY(describe_primitive(context, site, c, D9_CONV_FORWARD, NULL, &forward));
    if (forward && g.pass != D9_CONV_FORWARD) D9_TRY(describe_primitive(context, site, c, g.pass, forward, &backward));
    const_dnnl_primitive_desc_t description = g.pass == D9_CONV_FORWARD ? forward : backward;
    if (!description) goto done;
    DNNL_TRY(dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, (void *)&implementation));
    if (has_known_bug(&g, implementation)) goto done;
    DNNL_TRY(dnnl_primitive_create(&c->primitive, description));
    snprintf(c->choice, sizeof c->choice, "%s %s", algorithm->name, implementation);
    D9_TRY(make_memories(context, site, c, description));
    *built = true;
done:
    if (backward) dnnl_primitive_desc_destroy(backward);
    if (forward) dnnl_primitive_desc_destroy(forward);
    if (status != D9_OK) d9_onednn_conv_destroy(c);
    return status;
}

/* ---- running ---- */

/* True if the primitive accesses a copy of the argument in the scratch memory. */
static bool is_staged(const d9_onednn_conv *c, int argument) {
    return c->reorder[argument] || (argument != D9_CONV_WEIGHTS && c->algorithm->across > 1);
}

/* Address of an argument's data while the primitive runs. */
static void *argument_data(const d9_site *site, const d9_onednn_conv *c, int argument) {
    char *scratch = d9_cpu_device_of(site)->scratch;
    return is_staged(c, argument) ? scratch + c->staged_at[argument] : d9_site_data(site, c->g.value[argument]);
}

static d9_status run_reorder(d9_context *context, const d9_site *site, const d9_onednn_conv *c, int argument) {
    d9_status status;
    const bool out = argument == d9_conv_written(c->g.pass);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, out ? c->memory[argument] : c->plain[argument]},
                                         {DNNL_ARG_TO, out ? c->plain[argument] : c->memory[argument]}};
    DNNL_TRY(dnnl_memory_set_data_handle(c->plain[argument], d9_site_data(site, c->g.value[argument])));
    DNNL_TRY(dnnl_primitive_execute(c->reorder[argument], d9_onednn_of(site)->stream, 2, arguments));
done:
    return status;
}

/* Converts an argument to the primitive's layout, or the output back; does nothing if the layouts are equal. */
static d9_status convert_argument(d9_context *context, const d9_site *site, const d9_onednn_conv *c, int argument) {
    const d9_kernel_store store = c->g.type == D9_BF16 ? D9_KERNEL_BF16 : D9_KERNEL_F32;
    void *plain = d9_site_data(site, c->g.value[argument]), *own = argument_data(site, c, argument);
    if (!is_staged(c, argument)) return D9_OK;
    if (c->reorder[argument]) return run_reorder(context, site, c, argument);
    if (argument == d9_conv_written(c->g.pass))
        d9_cpu_strip_unpack(d9_cpu_of(site), &c->strip[argument], own, store, plain);
    else
        d9_cpu_strip_pack(d9_cpu_of(site), &c->strip[argument], plain, store, own);
    return D9_OK;
}

d9_status d9_onednn_conv_run_primitive(d9_context *context, const d9_site *site, const d9_onednn_conv *c) {
    d9_status status;
    dnnl_exec_arg_t arguments[ARGUMENTS + 1];
    for (int a = 0; a < ARGUMENTS; a++) arguments[a] = (dnnl_exec_arg_t){argument_names[c->g.pass][a], c->memory[a]};
    arguments[ARGUMENTS] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, c->workspace};
    DNNL_TRY(dnnl_primitive_execute(c->primitive, d9_onednn_of(site)->stream, ARGUMENTS + 1, arguments));
    DNNL_TRY(dnnl_stream_wait(d9_onednn_of(site)->stream));
done:
    return status;
}

d9_status d9_onednn_conv_run(d9_context *context, const d9_site *site, const d9_onednn_conv *c) {
    d9_status status;
    const int out = d9_conv_written(c->g.pass);
    set_threads(site);
    for (int a = 0; a < ARGUMENTS; a++) {
        DNNL_TRY(dnnl_memory_set_data_handle(c->memory[a], argument_data(site, c, a)));
        if (a != out) D9_TRY(convert_argument(context, site, c, a));
    }
    DNNL_TRY(dnnl_memory_set_data_handle(c->workspace, (char *)d9_cpu_device_of(site)->scratch + c->workspace_at));
    D9_TRY(d9_onednn_conv_run_primitive(context, site, c));
    D9_TRY(convert_argument(context, site, c, out));
done:
    return status;
}
