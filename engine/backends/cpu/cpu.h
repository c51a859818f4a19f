/* The CPU backend from inside: everything by kernels/cpu, behind tables of rules, and a convolution by whichever source
 * is the faster: our own kernels, or a library (library.h) where there is one. Activations stay (N, H, W, C) in the
 * graph's buffers, weights (O, KH, KW, I). */
#ifndef D9_BACKENDS_CPU_H
#define D9_BACKENDS_CPU_H

#include "backends/cpu/library.h"
#include "backends/host/shapes.h"
#include "kernels/cpu/kernels.h"

typedef struct d9_cpu_device {
    d9_cpu cpu;
    const char *isa;                /* as level.h calls it */
    const d9_conv_library *library; /* NULL: there is none here */
    void *library_state;            /* what its open made */
    bool library_first;             /* the backend onednn: our own kernels only where the library has none */
    void *scratch; /* shared by all rules, each within its own run; grown while planning: never keep the pointer */
    int64_t scratch_bytes;
} d9_cpu_device;

static inline d9_cpu_device *d9_cpu_device_of(const d9_site *site) { return site->backend; }
static inline const d9_cpu *d9_cpu_of(const d9_site *site) { return &d9_cpu_device_of(site)->cpu; }

/* Makes the shared scratch at least this large. For prepare only. */
D9_MUST_USE d9_status d9_cpu_reserve(d9_context *context, d9_cpu_device *device, int64_t bytes);

/* ---- values as the kernels take them ---- */
static inline d9_kernel_store d9_cpu_store(const d9_site *site, d9_value_id id) {
    return d9_site_value(site, id)->type == D9_BF16 ? D9_KERNEL_BF16 : D9_KERNEL_F32;
}
static inline d9_kernel_in d9_cpu_in(const d9_site *site, d9_value_id id) {
    return (d9_kernel_in){d9_site_data(site, id), d9_cpu_store(site, id)};
}
static inline d9_kernel_out d9_cpu_out(const d9_site *site, d9_value_id id) {
    if (id == D9_NONE) return (d9_kernel_out){NULL, D9_KERNEL_F32};
    return (d9_kernel_out){d9_site_data(site, id), d9_cpu_store(site, id)};
}

/* Matches: all floating values f32 or bf16; and those the kernels want f32 alone. */
bool d9_cpu_any(const d9_site *site);
bool d9_cpu_f32(const d9_site *site);

/* ---- the tables of rules, each at the foot of its file ---- */
extern const d9_rule d9_cpu_norm_rules[], d9_cpu_conv_rules[], d9_cpu_conv_pool_rules[],
    d9_cpu_moments_rules[], d9_cpu_layer_rules[], d9_cpu_ends_rules[];

/* How fast large matrices of the type are multiplied, and how fast memory is copied (bytes read and written). */
d9_status d9_cpu_ceilings(d9_context *context, void *device, const d9_precision *precision, d9_ceilings *ceilings);

#endif
