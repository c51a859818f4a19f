/* The oneDNN backend from inside: convolutions by oneDNN primitives, everything else by kernels/cpu, behind one table
 * of rules (rules.c). Activations stay (N, H, W, C) in the graph's buffers; weights (O, KH, KW, I) are reordered inside
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
static inline d9_cpu_store d9_onednn_store(const d9_site *site, d9_value_id id) {
    return d9_onednn_value(site, id)->type == D9_BF16 ? D9_CPU_BF16 : D9_CPU_F32;
}
static inline d9_cpu_in d9_onednn_in(const d9_site *site, d9_value_id id) {
    return (d9_cpu_in){d9_site_data(site, id), d9_onednn_store(site, id)};
}
static inline d9_cpu_out d9_onednn_out(const d9_site *site, d9_value_id id) {
    if (id == D9_NONE) return (d9_cpu_out){NULL, D9_CPU_F32};
    return (d9_cpu_out){d9_site_data(site, id), d9_onednn_store(site, id)};
}
static inline int64_t d9_onednn_count(const d9_site *site, d9_value_id id) {
    return d9_shape_count(&d9_onednn_value(site, id)->shape);
}

/* Matches: all floating values f32 or bf16; and those the kernels want f32 alone. */
bool d9_onednn_any(const d9_site *site);
bool d9_onednn_f32(const d9_site *site);

/* ---- rules: match, prepare, run, release ---- */
#define D9_ONEDNN_RUN(name) d9_status d9_onednn_##name(d9_context *context, const d9_site *site, int64_t step)
D9_ONEDNN_RUN(draw);
D9_ONEDNN_RUN(augment);
D9_ONEDNN_RUN(gather);
D9_ONEDNN_RUN(cast);
D9_ONEDNN_RUN(act);
D9_ONEDNN_RUN(act_backward);
D9_ONEDNN_RUN(pool);
D9_ONEDNN_RUN(pool_backward);
D9_ONEDNN_RUN(add);
D9_ONEDNN_RUN(linear);
D9_ONEDNN_RUN(linear_backward_data);
D9_ONEDNN_RUN(linear_backward_weight);
D9_ONEDNN_RUN(scale);
D9_ONEDNN_RUN(loss);
D9_ONEDNN_RUN(loss_backward);
D9_ONEDNN_RUN(metrics);
D9_ONEDNN_RUN(sgd);
D9_ONEDNN_RUN(lerp);
D9_ONEDNN_RUN(copy);
D9_ONEDNN_RUN(norm);          /* norm or norm_eval, alone or followed by act, by act and add */
D9_ONEDNN_RUN(norm_backward); /* alone, or after act_backward */
D9_ONEDNN_RUN(conv);          /* all three passes */
#undef D9_ONEDNN_RUN

bool d9_onednn_norm_match(const d9_site *site);
bool d9_onednn_norm_backward_match(const d9_site *site);
d9_status d9_onednn_norm_prepare(d9_context *context, d9_site *site);

bool d9_onednn_conv_match(const d9_site *site);
d9_status d9_onednn_conv_prepare(d9_context *context, d9_site *site);
void d9_onednn_conv_release(d9_context *context, d9_site *site);
d9_status d9_onednn_conv_survey(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count);

/* How fast oneDNN multiplies large matrices of the type, and how fast memory is copied (bytes read and written). */
d9_status d9_onednn_ceilings(d9_context *context, void *backend, const d9_precision *precision, d9_ceilings *ceilings);

#endif
