/* The x86-64 level of a device. Forced below what the processor has, it shows on one machine what others compute:
 * backend_options.cpu_level: v2 runs no instruction beyond x86-64-v2 in the loops and in oneDNN. */
#include "backends/onednn/level.h"

#include <oneapi/dnnl/dnnl.h>
#include <string.h>

typedef struct level_row {
    const char *level;
    dnnl_cpu_isa_t isa; /* a set of bits: each holds those before it */
} level_row;

static const level_row rows[] = {{"plain", dnnl_cpu_isa_sse41},
                                 {"v2", dnnl_cpu_isa_sse41},
                                 {"v3", dnnl_cpu_isa_avx2},
                                 {"v4", dnnl_cpu_isa_avx512_core},
                                 {"v4bf16", dnnl_cpu_isa_avx512_core_bf16}};

/* Refused once oneDNN has made up its mind; then it matters what that was. */
static d9_status hold_library(d9_context *context, const level_row *row) {
    if (dnnl_set_max_cpu_isa(row->isa) == dnnl_success) return D9_OK;
    if (((unsigned)dnnl_get_effective_cpu_isa() & ~(unsigned)row->isa) == 0) return D9_OK;
    return d9_fail(context, D9_DEVICE, "cpu_level %s: oneDNN already runs beyond it in this process", row->level);
}

d9_status d9_onednn_level(d9_context *context, const char *level, const d9_cpu_loops **loops) {
    const bool best = !level || strcmp(level, "auto") == 0;
    *loops = d9_cpu_loops_find(best ? NULL : level);
    if (best) return D9_OK;
    if (!*loops)
        return d9_fail(context, D9_DEVICE, "cpu_level %s: this processor does not run it (the best it runs is %s)",
                       level, d9_cpu_loops_find(NULL)->level);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(level, rows[i].level) == 0) return hold_library(context, &rows[i]);
    return d9_fail(context, D9_DEVICE, "cpu_level %s: oneDNN knows none like it", level);
}

bool d9_onednn_has_bf16(const d9_cpu_loops *loops) { return d9_cpu_has_bf16() && strcmp(loops->level, "v4bf16") == 0; }

const char *d9_onednn_isa(const d9_cpu_loops *loops) {
    const unsigned beyond = (unsigned)dnnl_get_effective_cpu_isa() & ~(unsigned)dnnl_cpu_isa_avx512_core_bf16;
    if (!d9_onednn_has_bf16(loops)) return loops->level;
    return beyond && d9_cpu_has_amx_bf16() ? "amx" : "avx512-bf16";
}
