/* The instruction set that oneDNN is held to: the same as that of our own kernels. */
#include "backends/onednn/onednn.h"

#include <string.h>

typedef struct level_row {
    const char *name;
    dnnl_cpu_isa_t isa; /* a set of bits: each holds those before it */
} level_row;

static const level_row rows[] = {{"plain", dnnl_cpu_isa_sse41},
                                 {"sse4.2", dnnl_cpu_isa_sse41},
                                 {"avx2", dnnl_cpu_isa_avx2},
                                 {"avx512", dnnl_cpu_isa_avx512_core},
                                 {"avx512-bf16", dnnl_cpu_isa_avx512_core_bf16},
                                 {"amx", dnnl_cpu_isa_avx512_core_amx}};

/* Refused once oneDNN has made up its mind; then it matters what that was. */
static d9_status hold_library(d9_context *context, const level_row *row) {
    if (dnnl_set_max_cpu_isa(row->isa) == dnnl_success) return D9_OK;
    if (((unsigned)dnnl_get_effective_cpu_isa() & ~(unsigned)row->isa) == 0) return D9_OK;
    return d9_fail(context, D9_DEVICE, "cpu_level %s: oneDNN already runs beyond it in this process", row->name);
}

d9_status d9_onednn_hold(d9_context *context, const char *isa) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(isa, rows[i].name) == 0) return hold_library(context, &rows[i]);
    return d9_fail(context, D9_DEVICE, "cpu_level %s: oneDNN knows none like it", isa);
}
