/* Internals of the CPU backend: tables of rules that call kernels/cpu; convolutions by our own kernels or a library
 * (library.h), as conv_choice.c decides. Activations in the graph's buffers are (N, H, W, C), weights (O, KH, KW, I).
 */
#pragma once

#include "backends/cpu/library.h"
#include "backends/host/shapes.h"
#include "kernels/cpu/kernels.h"

typedef struct d9_cpu_device {
    d9_cpu cpu;
    const char *isa;                /* instruction set, as named in level.h */
    const d9_conv_library *library; /* NULL: not available */
    void *library_state;            /* made by the library's open */
    bool library_first; /* true in the backend onednn: our own convolutions are used only if the library has none */
    void *scratch;      /* shared by all rules during their run; may move while planning: do not keep the pointer */
    int64_t scratch_bytes;
} d9_cpu_device;

static inline d9_cpu_device *d9_cpu_device_of(const d9_site *site) { return site->backend; }
static inline const d9_cpu *d9_cpu_of(const d9_site *site) { return &d9_cpu_device_of(site)->cpu; }

/* Enlarges the shared scratch memory to at least `bytes`; its content is lost. Not for run functions. */
D9_MUST_USE d9_status d9_cpu_reserve(d9_context *context, d9_cpu_device *device, int64_t bytes);

/* ---- values in the kernels' format ---- */
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

/* Match functions. True if inputs and outputs of the first node are f32 or integers or, with d9_cpu_any, bf16. */
bool d9_cpu_any(const d9_site *site);
bool d9_cpu_f32(const d9_site *site);

/* ---- tables of rules (at the end of their files), peak rates ---- */
extern const d9_rule d9_cpu_norm_rules[], d9_cpu_conv_rules[], d9_cpu_conv_pool_rules[], d9_cpu_moments_rules[],
    d9_cpu_layer_rules[], d9_cpu_recur_rules[], d9_cpu_batch_and_update_rules[];

/* Measures the rates of a product of large matrices in the precision's compute type and of a large copy. */
d9_status d9_cpu_peak_rates(d9_context *context, void *device, const d9_precision *precision,
                            d9_peak_rates *peak_rates);
