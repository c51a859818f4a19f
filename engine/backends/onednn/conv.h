/* One convolution pass as an oneDNN primitive; private to conv.c (building, running) and conv_choice.c (choosing). */
#ifndef D9_BACKENDS_ONEDNN_CONV_H
#define D9_BACKENDS_ONEDNN_CONV_H

#include "backends/host/shapes.h"
#include "backends/onednn/onednn.h"

/* A way to compute it. A plan's choice reads "WAY IMPLEMENTATION", as in "x16 brgconv:avx512_core_amx_bf16". */
typedef enum d9_conv_layout { D9_CONV_PLAIN, D9_CONV_BLOCKED, D9_CONV_WINOGRAD, D9_CONV_OWN } d9_conv_layout;
typedef struct d9_conv_way {
    /* "x1": (N, H, W, C); "blocked": as oneDNN likes it; "winograd": blocked as well; "own": kernels/cpu/amx, no oneDNN
     */
    d9_conv_layout layout;
    int across;            /* "x16": images side by side, plain layout only; 1: as they lie */
} d9_conv_way;

typedef struct d9_conv {
    d9_conv_geometry g;
    d9_conv_way way;
    d9_cpu_strip strip[D9_CONV_ARGUMENTS];         /* of IMAGE and OUTPUT */
    dnnl_primitive_t primitive, reorder[D9_CONV_ARGUMENTS]; /* reorder NULL: taken as it lies, or as a strip */
    dnnl_memory_t memory[D9_CONV_ARGUMENTS], plain[D9_CONV_ARGUMENTS], workspace;
    int64_t staged_at[D9_CONV_ARGUMENTS], workspace_at, scratch_bytes; /* in the shared scratch */
    char name[64];
} d9_conv;

/* The shape as our own weight gradient takes it. */
d9_cpu_conv d9_conv_own_shape(const d9_conv_geometry *geometry);

/* *built false: oneDNN has no implementation of this way. Grows the backend's scratch. */
D9_MUST_USE d9_status d9_conv_build(d9_context *context, const d9_site *site, d9_conv_way way, d9_conv *conv,
                                    bool *built);
void d9_conv_destroy(d9_conv *conv);

/* Stages, runs, stages back; d9_conv_run_primitive only runs, on what was staged last. */
D9_MUST_USE d9_status d9_conv_run(d9_context *context, const d9_site *site, const d9_conv *conv);
D9_MUST_USE d9_status d9_conv_run_primitive(d9_context *context, const d9_site *site, const d9_conv *conv);

#endif
