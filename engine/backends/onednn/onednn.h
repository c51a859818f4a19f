/* oneDNN as a library of convolutions (backends/cpu/library.h), from inside. The weights (O, KH, KW, I) are reordered
 * inside a convolution's run into whatever its implementation wants. */
#ifndef D9_BACKENDS_ONEDNN_H
#define D9_BACKENDS_ONEDNN_H

#include "backends/cpu/cpu.h"

#include <oneapi/dnnl/dnnl.h>

typedef struct d9_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
} d9_onednn;

static inline d9_onednn *d9_onednn_of(const d9_site *site) { return d9_cpu_device_of(site)->library_state; }

/* D9_OK, or D9_DEVICE naming the node and oneDNN's complaint. */
D9_MUST_USE d9_status d9_onednn_check(d9_context *context, const d9_site *site, dnnl_status_t result);

/* Holds oneDNN to an instruction set of backends/cpu/level.h. To be called before anything else of oneDNN, which takes
 * one only once a process; where it already runs beyond: D9_DEVICE. */
D9_MUST_USE d9_status d9_onednn_hold(d9_context *context, const char *isa);

/* How fast it multiplies large matrices of the type, operations per second. */
D9_MUST_USE d9_status d9_onednn_matrix_rate(d9_context *context, void *state, d9_type type, double *rate);

#endif
