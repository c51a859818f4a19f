/* The module's exported interface: oneDNN's convolutions as a library for backends/cpu. */
#include "backends/onednn/onednn.h"
#include "core/system.h"
#include <stdio.h>
#include <string.h>

/* An instruction set of our own kernels, and the limit of oneDNN that corresponds to it. */
typedef struct level_row {
    const char *name;
    dnnl_cpu_isa_t isa; /* bit set that includes the lower levels */
} level_row;

static const level_row rows[] = {{"plain", dnnl_cpu_isa_sse41},
                                 {"avx2", dnnl_cpu_isa_avx2},
                                 {"avx512", dnnl_cpu_isa_avx512_core},
                                 {"avx512-bf16", dnnl_cpu_isa_avx512_core_bf16},
                                 {"amx", dnnl_cpu_isa_avx512_core_amx}};

/* Sets oneDNN's limit. oneDNN rejects it once it has chosen an instruction set. That is an error unless the chosen set
 * is of this level: within the limit of `row`, but not within that of the next lower level, row[-1]. */
static d9_status set_limit(d9_context *context, const level_row *row) {
    if (dnnl_set_max_cpu_isa(row->isa) == dnnl_success) return D9_OK;
    const unsigned used = (unsigned)dnnl_get_effective_cpu_isa();
    const bool higher = used & ~(unsigned)row->isa, lower = row > rows && !(used & ~(unsigned)row[-1].isa);
    if (!higher && !lower) return D9_OK;
    return d9_fail(context, D9_DEVICE, "cpu_level %s: oneDNN already uses a %s level in this process", row->name,
                   higher ? "higher" : "lower");
}

/* Limits oneDNN to an instruction set of d9_cpu_device. oneDNN accepts one limit per process, before any other call.
 * Returns D9_DEVICE if oneDNN already uses another level, or if `isa` is unknown. */
static d9_status limit_isa(d9_context *context, const char *isa) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(isa, rows[i].name) == 0) return set_limit(context, &rows[i]);
    return d9_fail(context, D9_DEVICE, "cpu_level %s: oneDNN has no such level", isa);
}

d9_status d9_onednn_check(d9_context *context, const d9_site *site, dnnl_status_t result) {
    static const char *const names[] = {"success",       "out of memory", "invalid arguments", "unimplemented",
                                        "iterator ends", "runtime error", "not required"};
    if (result == dnnl_success) return D9_OK;
    const char *why = (size_t)result < sizeof names / sizeof *names ? names[result] : "unknown error";
    return d9_fail(context, D9_DEVICE, "%s: oneDNN: %s", site ? site->nodes[0]->role : "backend onednn", why);
}

static void close_library(d9_context *context, void *state) {
    d9_onednn *library = state;
    if (!library) return;
    if (library->stream) dnnl_stream_destroy(library->stream);
    if (library->engine) dnnl_engine_destroy(library->engine);
    d9_release(context, library);
}

static d9_status open_library(d9_context *context, const char *isa, void **state) {
    d9_status status;
    d9_onednn *library = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "oneDNN", &library));
    D9_TRY(limit_isa(context, isa));
    D9_TRY(d9_onednn_check(context, NULL, dnnl_engine_create(&library->engine, dnnl_cpu, 0)));
    D9_TRY(d9_onednn_check(context, NULL, dnnl_stream_create(&library->stream, library->engine, dnnl_stream_in_order)));
    *state = library;
    library = NULL;
done:
    close_library(context, library);
    return status;
}

static void version(char *text, size_t size) {
    const dnnl_version_t *here = dnnl_version();
    snprintf(text, size, "oneDNN %d.%d.%d", here->major, here->minor, here->patch);
}

static void destroy(d9_context *context, d9_library_conv *conv) {
    if (conv) d9_onednn_conv_destroy(conv);
    d9_release(context, conv);
}

static d9_status build(d9_context *context, const d9_site *site, const char *text, d9_library_conv **conv) {
    d9_status status = D9_OK;
    const d9_onednn_algorithm *algorithm = d9_onednn_algorithm_named(site, text);
    d9_library_conv *made = NULL;
    bool built;
    *conv = NULL;
    if (!algorithm) return D9_OK;
    D9_TRY(D9_ALLOCATE(context, 1, "a convolution", &made));
    D9_TRY(d9_onednn_conv_build(context, site, algorithm, made, &built));
    if (!built) goto done;
    *conv = made;
    made = NULL;
done:
    destroy(context, made);
    return status;
}

static const char *choice(const d9_library_conv *conv) { return conv->choice; }

static const d9_conv_library library = {.name = "onednn",
                                        .open = open_library,
                                        .close = close_library,
                                        .version = version,
                                        .algorithms = d9_onednn_algorithms,
                                        .build = build,
                                        .choice = choice,
                                        .run = d9_onednn_conv_run,
                                        .run_bare = d9_onednn_conv_run_primitive,
                                        .destroy = destroy,
                                        .matrix_rate = d9_onednn_matrix_rate};

__attribute__((visibility("default"))) const d9_conv_library *d9_conv_library_module(void);
const d9_conv_library *d9_conv_library_module(void) { return &library; }
