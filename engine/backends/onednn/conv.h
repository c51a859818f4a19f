/* One convolution pass as an oneDNN primitive; private to conv.c (building, running) and conv_choice.c (choosing). */
#ifndef D9_BACKENDS_ONEDNN_CONV_H
#define D9_BACKENDS_ONEDNN_CONV_H

#include "backends/onednn/onednn.h"

/* The arguments of a pass: what lies on the image's side, on the output's side, and the weights between. */
typedef enum d9_conv_pass { D9_CONV_FORWARD, D9_CONV_BACKWARD_DATA, D9_CONV_BACKWARD_WEIGHT } d9_conv_pass;
enum { D9_CONV_IMAGE, D9_CONV_WEIGHTS, D9_CONV_OUTPUT, D9_CONV_ARGUMENTS };

typedef struct d9_conv_geometry {
    d9_conv_pass pass;
    d9_value_id value[D9_CONV_ARGUMENTS];
    d9_shape x, w, y; /* x and y (N, H, W, C), w (O, KH, KW, I) */
    d9_type type;     /* of x and y, and of w but for its gradient, which is f32 */
    int stride, pad;
} d9_conv_geometry;

d9_conv_geometry d9_conv_geometry_of(const d9_site *site);

/* A way to compute it. A plan's choice reads "WAY IMPLEMENTATION", as in "x16 brgconv:avx512_core_amx_bf16". */
typedef enum d9_conv_layout { D9_CONV_PLAIN, D9_CONV_BLOCKED, D9_CONV_WINOGRAD } d9_conv_layout;
typedef struct d9_conv_way {
    d9_conv_layout layout; /* "x1": (N, H, W, C); "blocked": as oneDNN likes it; "winograd": blocked as well */
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

/* *built false: oneDNN has no implementation of this way. Grows the backend's scratch. */
D9_MUST_USE d9_status d9_conv_build(d9_context *context, const d9_site *site, d9_conv_way way, d9_conv *conv,
                                    bool *built);
void d9_conv_destroy(d9_conv *conv);

/* Stages, runs, stages back; d9_conv_run_primitive only runs, on what was staged last. */
D9_MUST_USE d9_status d9_conv_run(d9_context *context, const d9_site *site, const d9_conv *conv);
D9_MUST_USE d9_status d9_conv_run_primitive(d9_context *context, const d9_site *site, const d9_conv *conv);

#endif
