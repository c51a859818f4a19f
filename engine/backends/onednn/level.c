/* Limits oneDNN to the instruction set of our own kernels. */
#include "backends/onednn/onednn.h"

#include <string.h>

typedef struct level_row {
    const char *name;
    dnnl_cpu_isa_t isa; /* bit set that includes the lower levels */
} level_row;

static const level_row rows[] = {{"plain", dnnl_cpu_isa_sse41},
                                 {"avx2", dnnl_cpu_isa_avx2},
                                 {"avx512", dnnl_cpu_isa_avx512_core},
                                 {"avx512-bf16", dnnl_cpu_isa_avx512_core_bf16},
                                 {"amx", dnnl_cpu_isa_avx512_core_amx}};

/* oneDNN rejects a limit once it has chosen an instruction set; that is an error only if the set exceeds the limit. */
static d9_status set_limit(d9_context *context, const level_row *row) {
    if (dnnl_set_max_cpu_isa(row->isa) == dnnl_success) return D9_OK;
    if (((unsigned)dnnl_get_effective_cpu_isa() & ~(unsigned)row->isa) == 0) return D9_OK;
    return d9_fail(context, D9_DEVICE, "cpu_level %s: oneDNN already uses a higher level in this process", row->name);
}

d9_status d9_onednn_limit_isa(d9_context *context, const char *isa) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(isa, rows[i].name) == 0) return set_limit(context, &rows[i]);
    return d9_fail(context, D9_DEVICE, "cpu_level %s: oneDNN has no such level", isa);
}
