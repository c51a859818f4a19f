/* One convolution pass as an oneDNN primitive; private to conv.c (building, running), ways.c (what fits) and
 * module.c. */
#ifndef D9_BACKENDS_ONEDNN_CONV_H
#define D9_BACKENDS_ONEDNN_CONV_H

#include "backends/onednn/onednn.h"

typedef enum d9_onednn_layout { D9_ONEDNN_PLAIN, D9_ONEDNN_BLOCKED, D9_ONEDNN_WINOGRAD } d9_onednn_layout;
typedef struct d9_onednn_way {
    const char *name;
    d9_onednn_layout layout; /* "x1": (N, H, W, C); "blocked": as oneDNN likes it; "winograd": blocked as well */
    int across;              /* "x16": images side by side, plain layout only; 1: as they lie */
} d9_onednn_way;

typedef struct d9_library_conv {
    d9_conv_geometry g;
    const d9_onednn_way *way;
    d9_cpu_strip strip[D9_CONV_ARGUMENTS];         /* of IMAGE and OUTPUT */
    dnnl_primitive_t primitive, reorder[D9_CONV_ARGUMENTS]; /* reorder NULL: taken as it lies, or as a strip */
    dnnl_memory_t memory[D9_CONV_ARGUMENTS], plain[D9_CONV_ARGUMENTS], workspace;
    int64_t staged_at[D9_CONV_ARGUMENTS], workspace_at, scratch_bytes; /* in the shared scratch */
    char choice[64];
} d9_onednn_conv;

/* The ways that fit a convolution, the first choice first. */
int d9_onednn_ways(const d9_site *site, const char *ways[D9_LIBRARY_WAYS]);
/* The way that the first word of `text` names; NULL: none that fits. */
const d9_onednn_way *d9_onednn_way_named(const d9_site *site, const char *text);

/* *built false: oneDNN has no implementation of this way. Grows the device's scratch. */
D9_MUST_USE d9_status d9_onednn_conv_build(d9_context *context, const d9_site *site, const d9_onednn_way *way,
                                           d9_onednn_conv *conv, bool *built);
void d9_onednn_conv_destroy(d9_onednn_conv *conv);

/* Stages, runs, stages back; d9_onednn_conv_run_primitive only runs, on what was staged last. */
D9_MUST_USE d9_status d9_onednn_conv_run(d9_context *context, const d9_site *site, const d9_onednn_conv *conv);
D9_MUST_USE d9_status d9_onednn_conv_run_primitive(d9_context *context, const d9_site *site,
                                                   const d9_onednn_conv *conv);

#endif
