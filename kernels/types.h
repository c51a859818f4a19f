/* Arguments of the CPU and CUDA kernels: arrays with a storage type, shapes, and fused stages. Feature maps are
 * (N, H, W, C); image i belongs to ghost group i mod G. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum d9_kernel_store { D9_KERNEL_F32, D9_KERNEL_BF16, D9_KERNEL_F16 } d9_kernel_store; /* f16: only CUDA */
static inline int64_t d9_kernel_store_bytes(d9_kernel_store store) { return store == D9_KERNEL_F32 ? 4 : 2; }

typedef struct d9_kernel_in {
    const void *data;
    d9_kernel_store store;
} d9_kernel_in;
typedef struct d9_kernel_out {
    void *data;
    d9_kernel_store store;
} d9_kernel_out;

/* An activation function is numbered by its row in kernels/formulas/activations.def; D9_KERNEL_NO_ACT: the identity. */
enum { D9_KERNEL_NO_ACT = -1 };
typedef struct d9_kernel_act {
    int activation;
    float alpha; /* parameter of CELU */
} d9_kernel_act;

typedef struct d9_kernel_norm {
    int64_t images, pixels, channels, groups;
} d9_kernel_norm; /* x (images, pixels, channels) in ghost groups; images % groups == 0, except in evaluation */

typedef struct d9_kernel_norm_state {  /* arrays: f32 */
    const float *scale, *bias;         /* (C) */
    float *running_mean, *running_var; /* (G, C): updated in training; the new value has the weight `momentum` */
    float *mean, *inv_std;             /* (G, C): written in training; not used in evaluation, may be NULL there */
    double epsilon, momentum;
    int64_t channels, row_gap; /* C; elements of other processes between two rows of running_*, 0 in evaluation */
} d9_kernel_norm_state;

/* Outputs of a batch norm's backward pass. dx.data, dscale or dbias NULL: not computed. */
typedef struct d9_kernel_norm_gradients {
    d9_kernel_out dx;
    float *dscale, *dbias;
} d9_kernel_norm_gradients;

/* Stages fused after a batch norm or a bias: the activation, then the addition, or with adds_first the other way round.
 * Each stage reads its input rounded to the storage type, as if it had been stored, so fused and unfused results are
 * equal bit for bit. */
typedef struct d9_kernel_epilogue {
    d9_kernel_act act;
    d9_kernel_in addend;  /* data NULL: no addition; otherwise act(norm(x)) + addend */
    bool adds_first;      /* act(norm(x) + addend) instead */
    d9_kernel_out last;   /* with an addition: output of the second stage. The kernel's `y` is then the output of the
                             first stage; y.data NULL: not written */
    d9_kernel_out normed; /* CUDA only, without an addition: norm(x) before the activation; data NULL: not written */
} d9_kernel_epilogue;

typedef struct d9_kernel_window { /* pooling: (N, H, W, C) -> (N, OH, OW, C) */
    int64_t images, height, width, channels, out_height, out_width;
    int kernel, stride, pad;
} d9_kernel_window;

typedef struct d9_kernel_linear {
    int64_t samples, inputs, outputs;
} d9_kernel_linear; /* x (N, I), w (O, I), y (N, O) */

typedef struct d9_kernel_loss {
    int64_t samples, classes;
    double smoothing;
    int loss;     /* d9_loss: its row of D9_LOSS_ROWS in kernels/formulas/rows.h */
    double share; /* weight of sample n's own label in its target; 1: samples are not mixed. The label of sample
                     samples - 1 - n has weight 1 - share; if that label is -1, the own label has this weight too */
} d9_kernel_loss;
