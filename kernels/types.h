/* What the kernels of the CPU and of CUDA are given: arrays with a storage type, shapes, and what is fused. The names
 * and meanings are the same for both. Activations are (N, H, W, C). The ghost group of image i is i mod G. */
#ifndef D9_KERNELS_TYPES_H
#define D9_KERNELS_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum d9_kernel_store { D9_KERNEL_F32, D9_KERNEL_BF16, D9_KERNEL_F16 } d9_kernel_store; /* f16: CUDA alone */
static inline int64_t d9_kernel_store_bytes(d9_kernel_store store) { return store == D9_KERNEL_F32 ? 4 : 2; }

typedef struct d9_kernel_in {
    const void *data;
    d9_kernel_store store;
} d9_kernel_in;
typedef struct d9_kernel_out {
    void *data;
    d9_kernel_store store;
} d9_kernel_out;

/* An activation by its row in kernels/formulas/activations.def; D9_KERNEL_NO_ACT: the identity. */
enum { D9_KERNEL_NO_ACT = -1 };
typedef struct d9_kernel_act {
    int activation;
    float alpha;
} d9_kernel_act;

typedef struct d9_kernel_norm {
    int64_t images, pixels, channels, groups;
} d9_kernel_norm; /* images % groups == 0 */

typedef struct d9_kernel_norm_state {  /* all f32 */
    const float *scale, *bias;         /* (C) */
    float *running_mean, *running_var; /* (G, C): moved by `momentum` */
    float *mean, *inv_std;             /* (G, C): written */
    double epsilon, momentum;
} d9_kernel_norm_state;

/* NULL, of dx its data: not wanted. */
typedef struct d9_kernel_norm_gradients {
    d9_kernel_out dx;
    float *dscale, *dbias;
} d9_kernel_norm_gradients;

/* What follows a normalisation in the same pass, in this order. Each stage reads the value before it rounded as if it
 * had been stored, so fused and unfused bits are equal. */
typedef struct d9_kernel_epilogue {
    d9_kernel_act act;
    d9_kernel_in addend; /* data NULL: no addition; else act(norm(x)) + addend, or as the next line says */
    bool adds_first;     /* act(norm(x) + addend) */
    d9_kernel_out last;  /* with an addition, what the second stage makes; the first's goes to the norm's `y`, data NULL
                            there: nothing else reads it */
} d9_kernel_epilogue;

typedef struct d9_kernel_window { /* one pool: (N, H, W, C) -> (N, OH, OW, C) */
    int64_t images, height, width, channels, out_height, out_width;
    int kernel, stride, pad;
} d9_kernel_window;

typedef struct d9_kernel_linear {
    int64_t samples, inputs, outputs;
} d9_kernel_linear; /* x (N, I), w (O, I), y (N, O) */

typedef struct d9_kernel_loss { /* by its row in kernels/formulas/losses.def */
    int64_t samples, classes;
    double smoothing;
    int loss;
    double share; /* of image n's label in its target; image samples - 1 - n's has the rest. 1: it alone */
} d9_kernel_loss;

#endif
