/* Internals of the oneDNN module, a library of convolutions (backends/cpu/cpu.h). A convolution's run reorders the
 * weights (O, KH, KW, I) as its implementation requires. */
#pragma once

#include "backends/cpu/cpu.h"

#include <oneapi/dnnl/dnnl.h>

typedef struct d9_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
} d9_onednn;

static inline d9_onednn *d9_onednn_of(const d9_site *site) { return d9_cpu_device_of(site)->library_state; }

/* Returns D9_DEVICE with oneDNN's error and the node (`site` NULL: none), unless `result` is success. */
D9_MUST_USE d9_status d9_onednn_check(d9_context *context, const d9_site *site, dnnl_status_t result);

/* Measures the rate of large matrix products of the type, in operations per second; 0: not supported. */
D9_MUST_USE d9_status d9_onednn_matrix_rate(d9_context *context, void *state, d9_type type, double *rate);
