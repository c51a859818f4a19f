/* The CPU backend: the list of its tables of rules, its device and its description. The backend `cpu` uses our own
 * convolutions or oneDNN's (conv_choice.c); `onednn` uses oneDNN's wherever they exist, and does not fuse them. */
#include "backends/cpu/cpu.h"
#include "core/machine.h"
#include "core/system.h"
#include <stdio.h>
#include <string.h>

/* The instruction sets: their names, their kernel loops, and whether they use AMX tiles. */
typedef struct level_row {
    const char *isa, *loops; /* loops: level of the kernel loops (d9_cpu_loops.level), also accepted as a name */
    bool amx;
} level_row;

static const level_row rows[] = {{"plain", "plain", false},
                                 {"avx2", "v3", false},
                                 {"avx512", "v4", false},
                                 {"avx512-bf16", "v4bf16", false},
                                 {"amx", "v4bf16", true}};
enum { ROWS = sizeof rows / sizeof *rows };

static bool runs_here(const level_row *row) {
    return d9_cpu_loops_find(row->loops) && (!row->amx || d9_cpu_has_amx_bf16());
}

/* Sets cpu->loops and cpu->amx for `level`, a value of backend_options.cpu_level; "auto" and NULL: the best of this
 * processor. *isa: "amx", "avx512-bf16", "avx512", "avx2" or "plain". Returns D9_DEVICE if the level is
 * unknown or this processor does not support it. */
static d9_status choose_level(d9_context *context, const char *level, d9_cpu *cpu, const char **isa) {
    const level_row *best = &rows[0], *row = NULL; /* every processor runs the first row */
    for (int i = 1; i < ROWS; i++)
        if (runs_here(&rows[i])) best = &rows[i];
    for (int i = ROWS - 1; i >= 0 && level; i--) /* the first matching row wins: "v4bf16" is without AMX */
        if (strcmp(level, rows[i].isa) == 0 || strcmp(level, rows[i].loops) == 0) row = &rows[i];
    if (!level || strcmp(level, "auto") == 0) row = best;
    if (!row || !runs_here(row))
        return d9_fail(context, D9_DEVICE, "cpu_level %s: this processor does not support it (its best level is %s)",
                       level, best->isa);
    cpu->loops = d9_cpu_loops_find(row->loops);
    cpu->amx = row->amx;
    *isa = row->isa;
    return D9_OK;
}

/* ---- matching by type ---- */

static bool f32_bf16_or_integer(d9_type type) { return type != D9_F64 && type != D9_F16; }
bool d9_cpu_types_fit(const d9_site *site) { return d9_site_types_fit(site, f32_bf16_or_integer); }

/* ---- the device ---- */

d9_status d9_cpu_reserve(d9_context *context, d9_cpu_device *device, int64_t bytes) {
    d9_status status = D9_OK;
    if (bytes <= device->scratch_bytes) return D9_OK;
    d9_release(context, device->scratch);
    device->scratch = NULL;
    device->scratch_bytes = 0;
    D9_TRY(d9_allocate(context, (size_t)bytes, "the scratch of the CPU backend", &device->scratch));
    device->scratch_bytes = bytes;
done:
    return status;
}

static void close_backend(d9_context *context, void *data) {
    d9_cpu_device *device = data;
    if (!device) return;
    if (device->library_state) device->library->close(context, device->library_state);
    d9_release(context, device->scratch);
    d9_release(context, device);
}

/* Opens the library if possible; the backend cpu works without it, the backend onednn requires it. */
static d9_status open_library(d9_context *context, d9_cpu_device *device) {
    d9_status status = d9_conv_library_find(context, &device->library);
    if (status == D9_OK) status = device->library->open(context, device->isa, &device->library_state);
    if (status != D9_DEVICE || device->library_first) return status;
    d9_log(context, D9_LOG_DEBUG, "%s", context->message);
    d9_context_clear(context);
    device->library = NULL;
    return D9_OK;
}

static d9_status make_device(d9_context *context, const d9_backend_options *options, bool library_first, void **data) {
    d9_status status;
    d9_cpu_device *device = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "the CPU backend", &device));
    device->cpu.threads = options->threads;
    device->library_first = library_first;
    d9_cache_sizes(device->cpu.cache_bytes);
    D9_TRY(choose_level(context, options->cpu_level, &device->cpu, &device->isa));
    D9_TRY(open_library(context, device));
    *data = device;
    device = NULL;
done:
    close_backend(context, device);
    return status;
}

static d9_status open_cpu(d9_context *context, const d9_backend_options *options, void **data) {
    return make_device(context, options, false, data);
}

static d9_status open_onednn(d9_context *context, const d9_backend_options *options, void **data) {
    return make_device(context, options, true, data);
}

/* Sets the preferred precision and the reason: bf16 if the instruction set in use has bf16 products that are faster,
 * otherwise f32. oneDNN's bf16 products are not faster without AMX (docs/performance.md). */
static void choose_precision(const d9_cpu_device *device, bool native, d9_device_info *info) {
    const bool faster = native && (device->cpu.amx || !device->library_first);
    info->preferred_precision = faster ? D9_PRECISION_BF16 : D9_PRECISION_F32;
    info->preferred_if_accurate = faster;
    if (!native)
        info->preferred_why = "no instructions for bf16";
    else if (!faster)
        info->preferred_why = "without AMX oneDNN is not faster in bf16";
    else if (device->cpu.amx)
        info->preferred_why = "AMX multiplies bf16";
    else
        info->preferred_why = "AVX512_BF16 multiplies bf16 at twice the rate of f32";
}

/* The backend cpu always supports bf16, onednn only if the instruction set in use has bf16 products. */
static void describe(const void *data, d9_device_info *info) {
    const d9_cpu_device *device = data;
    const bool native = strcmp(device->cpu.loops->level, "v4bf16") == 0;
    snprintf(info->version, sizeof info->version, "own kernels");
    if (device->library) device->library->version(info->version, sizeof info->version);
    snprintf(info->isa, sizeof info->isa, "%s", device->isa);
    info->precision[D9_PRECISION_F32] = true;
    info->precision[D9_PRECISION_BF16] = native || !device->library_first;
    choose_precision(device, native, info);
}

/* ---- the two backends ---- */

static const d9_rule *const tables[] = {
    d9_cpu_moments_rules, d9_cpu_norm_rules,  d9_cpu_conv_pool_rules,        d9_cpu_conv_rules,
    d9_cpu_layer_rules,   d9_cpu_recur_rules, d9_cpu_batch_and_update_rules, NULL};
static const d9_device_kind kind_cpu = {tables, open_cpu, close_backend, describe, d9_cpu_peak_rates, NULL};
static const d9_device_kind kind_onednn = {tables, open_onednn, close_backend, describe, d9_cpu_peak_rates, NULL};

/* True if the bits depend on the number of threads, by which oneDNN and our AMX kernel split convolutions and sums. */
static bool threads_matter(const char *plan_text) {
    return strstr(plan_text, "\tonednn ") || strstr(plan_text, "\town amx");
}

static d9_status open_device_cpu(d9_context *context, const d9_backend_options *options, d9_device **device) {
    return d9_host_open(context, &kind_cpu, options, device);
}

static d9_status open_device_onednn(d9_context *context, const d9_backend_options *options, d9_device **device) {
    return d9_host_open(context, &kind_onednn, options, device);
}

const d9_backend d9_backend_cpu = {
    .name = "cpu",
    .doc = "own vectorised loops and convolutions; with AMX oneDNN's convolutions in bf16: f32 and bf16",
    .open = open_device_cpu,
    .threads_matter = threads_matter,
    D9_HOST_ENTRIES_ALL,
};

const d9_backend d9_backend_onednn = {
    .name = "onednn",
    .doc = "like cpu, but with oneDNN's convolutions wherever it has them, for comparison: f32, and bf16 if the "
           "processor supports it",
    .open = open_device_onednn,
    .threads_matter = threads_matter,
    D9_HOST_ENTRIES_ALL,
};
