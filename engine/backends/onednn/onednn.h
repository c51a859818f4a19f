/* Internals of the oneDNN module, a library of convolutions (backends/cpu/cpu.h). */
#pragma once

#include "backends/cpu/cpu.h"

#include <oneapi/dnnl/dnnl.h>

typedef struct d9_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
} d9_onednn;

static inline d9_onednn *d9_onednn_of(const d9_site *site) { return d9_cpu_device_of(site)->library_state; }

/* Returns D9_OK if `result` is success, otherwise D9_DEVICE; the message names oneDNN's error and the node of `site`
 * (NULL: no node). */
D9_MUST_USE d9_status d9_onednn_check(d9_context *context, const d9_site *site, dnnl_status_t result);

/* Measures the rate of large matrix products of the type, in operations per second; 0: not supported. */
D9_MUST_USE d9_status d9_onednn_matrix_rate(d9_context *context, void *state, d9_type type, double *rate);

/* ---- a convolution pass as an oneDNN primitive (conv.c) ---- */
typedef enum d9_onednn_layout { D9_ONEDNN_PLAIN, D9_ONEDNN_BLOCKED, D9_ONEDNN_WINOGRAD } d9_onednn_layout;
typedef struct d9_onednn_algorithm {
    const char *name;
    d9_onednn_layout layout; /* of activations; PLAIN: (N, H, W, C); otherwise oneDNN chooses it */
    int across;              /* "x16": number of images side by side, plain layout only; 1: unchanged */
} d9_onednn_algorithm;

typedef struct d9_library_conv {
    d9_conv_geometry g;
    const d9_onednn_algorithm *algorithm;
    /* sizes of IMAGE and OUTPUT, and number of images side by side, algorithm->across */
    d9_cpu_strip strip[D9_CONV_ARGUMENTS];
    dnnl_primitive_t primitive;
    /* NULL: the layouts are equal, or d9_cpu_strip_pack and d9_cpu_strip_unpack convert */
    dnnl_primitive_t reorder[D9_CONV_ARGUMENTS];
    /* memory: arguments in the primitive's layout; plain: in the layout of the graph's buffers, NULL if images are side
     * by side */
    dnnl_memory_t memory[D9_CONV_ARGUMENTS], plain[D9_CONV_ARGUMENTS], workspace;
    int64_t staged_at[D9_CONV_ARGUMENTS], workspace_at; /* byte offsets in the scratch memory */
    int64_t scratch_bytes;                              /* size of the scratch memory */
    char choice[64];
} d9_onednn_conv;

/* Lists the algorithms that fit a convolution, the first choice first; returns their number. */
int d9_onednn_algorithms(const d9_site *site, const char *algorithms[D9_LIBRARY_ALGORITHMS]);
/* The fitting algorithm that the first word of `text` names; NULL: none. */
const d9_onednn_algorithm *d9_onednn_algorithm_named(const d9_site *site, const char *text);

/* *built is false if oneDNN has no correct implementation of the algorithm. May enlarge the device's scratch memory. */
D9_MUST_USE d9_status d9_onednn_conv_build(d9_context *context, const d9_site *site,
                                           const d9_onednn_algorithm *algorithm, d9_onednn_conv *conv, bool *built);
void d9_onednn_conv_destroy(d9_onednn_conv *conv);

/* Converts arguments, runs, converts back; d9_onednn_conv_run_primitive only runs, on the arguments converted last. */
D9_MUST_USE d9_status d9_onednn_conv_run(d9_context *context, const d9_site *site, const d9_onednn_conv *conv);
D9_MUST_USE d9_status d9_onednn_conv_run_primitive(d9_context *context, const d9_site *site,
                                                   const d9_onednn_conv *conv);
