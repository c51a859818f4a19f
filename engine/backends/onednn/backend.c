/* The oneDNN backend: its table of rules, what it opens, and what it says of the machine. */
#include "backends/onednn/onednn.h"
#include "backends/onednn/level.h"
#include "backends/host/shapes.h"
#include "core/system.h"

#include <stdio.h>
#include <string.h>

/* ---- matching by type ---- */

static bool not_wide(d9_type type) { return type != D9_F64 && type != D9_F16; }
static bool not_half(d9_type type) { return type != D9_F64 && type != D9_F16 && type != D9_BF16; }

bool d9_onednn_any(const d9_site *site) { return d9_site_types(site, not_wide); }
bool d9_onednn_f32(const d9_site *site) { return d9_site_types(site, not_half); }

/* ---- the device ---- */

d9_status d9_onednn_check(d9_context *context, const d9_site *site, dnnl_status_t result) {
    static const char *const names[] = {"success", "out of memory", "invalid arguments", "unimplemented",
                                        "iterator ends", "runtime error", "not required"};
    if (result == dnnl_success) return D9_OK;
    const char *why = (size_t)result < sizeof names / sizeof *names ? names[result] : "unknown error";
    return d9_fail(context, D9_DEVICE, "%s: oneDNN: %s", site ? site->nodes[0]->role : "backend onednn", why);
}

d9_status d9_onednn_reserve(d9_context *context, d9_onednn *backend, int64_t bytes) {
    d9_status status = D9_OK;
    if (bytes <= backend->scratch_bytes) return D9_OK;
    d9_release(context, backend->scratch);
    backend->scratch = NULL;
    backend->scratch_bytes = 0;
    D9_TRY(d9_allocate(context, (size_t)bytes, "the scratch of the oneDNN backend", &backend->scratch));
    backend->scratch_bytes = bytes;
done:
    return status;
}

static void close_backend(d9_context *context, void *data) {
    d9_onednn *backend = data;
    if (!backend) return;
    if (backend->stream) dnnl_stream_destroy(backend->stream);
    if (backend->engine) dnnl_engine_destroy(backend->engine);
    d9_release(context, backend->scratch);
    d9_release(context, backend);
}

static d9_status open_backend(d9_context *context, const d9_backend_options *options, void **data) {
    d9_status status;
    d9_onednn *backend = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "the oneDNN backend", &backend));
    backend->cpu.threads = options->threads;
    D9_TRY(d9_onednn_level(context, options->cpu_level, &backend->cpu.loops));
    D9_TRY(d9_onednn_check(context, NULL, dnnl_engine_create(&backend->engine, dnnl_cpu, 0)));
    D9_TRY(d9_onednn_check(context, NULL, dnnl_stream_create(&backend->stream, backend->engine, dnnl_stream_in_order)));
    *data = backend;
    backend = NULL;
done:
    close_backend(context, backend);
    return status;
}

/* bf16 only where the processor multiplies it: oneDNN would emulate it elsewhere, slower than f32. */
static void describe(const void *data, d9_device_info *info) {
    const d9_onednn *backend = data;
    const dnnl_version_t *version = dnnl_version();
    const bool bf16 = d9_onednn_has_bf16(backend->cpu.loops);
    snprintf(info->version, sizeof info->version, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
    snprintf(info->isa, sizeof info->isa, "%s", d9_onednn_isa(backend->cpu.loops));
    info->precision[D9_PRECISION_F32] = true;
    info->precision[D9_PRECISION_BF16] = bf16;
}

static const d9_rule *const tables[] = {d9_onednn_norm_rules, d9_onednn_conv_rules, d9_onednn_layer_rules,
                                       d9_onednn_ends_rules, NULL};
static const d9_host_kind kind = {tables, open_backend, close_backend, describe, d9_onednn_ceilings, NULL};

static d9_status open_device(d9_context *context, const d9_backend_options *options, d9_device **device) {
    return d9_host_open(context, &kind, options, device);
}

static const d9_backend backend_onednn = {
    .name = "onednn",
    .doc = "oneDNN convolutions and vectorised loops for the rest: f32, and bf16 where the processor computes it",
    .open = open_device,
    D9_HOST_ENTRIES_ALL,
};

__attribute__((visibility("default"))) const d9_backend *d9_backend_module(void);
const d9_backend *d9_backend_module(void) { return &backend_onednn; }
