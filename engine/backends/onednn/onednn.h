/* The oneDNN backend from inside: convolutions by oneDNN primitives, everything else by kernels/cpu, behind tables
 * of rules. Activations stay (N, H, W, C) in the graph's buffers; weights (O, KH, KW, I) are reordered inside
 * a convolution's rule into whatever its implementation wants. */
#ifndef D9_BACKENDS_ONEDNN_H
#define D9_BACKENDS_ONEDNN_H

#include "backends/host/host.h"
#include "kernels/cpu/kernels.h"

#include <oneapi/dnnl/dnnl.h>

typedef struct d9_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    d9_cpu cpu;
    void *scratch; /* shared by all rules, each within its own run; grown while planning: never keep the pointer */
    int64_t scratch_bytes;
} d9_onednn;

static inline d9_onednn *d9_onednn_of(const d9_site *site) { return site->backend; }
static inline const d9_cpu *d9_onednn_cpu(const d9_site *site) { return &d9_onednn_of(site)->cpu; }

/* Makes the shared scratch at least this large. For prepare only. */
D9_MUST_USE d9_status d9_onednn_reserve(d9_context *context, d9_onednn *backend, int64_t bytes);

/* D9_OK, or D9_DEVICE naming the node and oneDNN's complaint. */
D9_MUST_USE d9_status d9_onednn_check(d9_context *context, const d9_site *site, dnnl_status_t result);

/* ---- values as the kernels take them ---- */
static inline const d9_value *d9_onednn_value(const d9_site *site, d9_value_id id) { return &site->graph->values[id]; }
static inline d9_kernel_store d9_onednn_store(const d9_site *site, d9_value_id id) {
    return d9_onednn_value(site, id)->type == D9_BF16 ? D9_KERNEL_BF16 : D9_KERNEL_F32;
}
static inline d9_kernel_in d9_onednn_in(const d9_site *site, d9_value_id id) {
    return (d9_kernel_in){d9_site_data(site, id), d9_onednn_store(site, id)};
}
static inline d9_kernel_out d9_onednn_out(const d9_site *site, d9_value_id id) {
    if (id == D9_NONE) return (d9_kernel_out){NULL, D9_KERNEL_F32};
    return (d9_kernel_out){d9_site_data(site, id), d9_onednn_store(site, id)};
}
static inline int64_t d9_onednn_count(const d9_site *site, d9_value_id id) {
    return d9_shape_count(&d9_onednn_value(site, id)->shape);
}

/* Matches: all floating values f32 or bf16; and those the kernels want f32 alone. */
bool d9_onednn_any(const d9_site *site);
bool d9_onednn_f32(const d9_site *site);

/* ---- the tables of rules, each at the foot of its file ---- */
extern const d9_rule d9_onednn_norm_rules[], d9_onednn_conv_rules[], d9_onednn_layer_rules[], d9_onednn_ends_rules[];

/* How fast oneDNN multiplies large matrices of the type, and how fast memory is copied (bytes read and written). */
d9_status d9_onednn_ceilings(d9_context *context, void *backend, const d9_precision *precision, d9_ceilings *ceilings);

#endif
