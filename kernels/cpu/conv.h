/* Convolutions on the CPU. Every algorithm is a const record; a backend asks whether it fits a shape, provides the
 * scratch, and runs it. `d9_cpu_conv_kernels` lists them.
 *
 * x (N, H, W, I), y (N, OH, OW, O), w (O, K, K, I). The forward pass writes y. Backward passes read dy from `y` and
 * write dx to `x` or dw to `w`. dw is always f32; all other arrays except `places` have the type `store`.
 *
 * A kernel that `pools` a shape can fuse 2 x 2 max pooling. With maxima (N, OH / 2, OW / 2, O), stored like y, the
 * forward pass writes them and, unless places is NULL, the position of each; y itself is not written if it is NULL. If
 * y is NULL in a backward pass, dy follows from the gradient of the maxima and their places. */
#pragma once

#include "kernels/cpu/kernels.h"

typedef enum d9_cpu_conv_pass {
    D9_CPU_CONV_FORWARD,
    D9_CPU_CONV_BACKWARD_DATA,
    D9_CPU_CONV_BACKWARD_WEIGHT
} d9_cpu_conv_pass;

typedef struct d9_cpu_conv_shape {
    d9_cpu_conv_pass pass;
    d9_kernel_store store;
    int64_t images, height, width, inputs, out_height, out_width, outputs;
    int kernel, stride, pad;
} d9_cpu_conv_shape;

typedef struct d9_cpu_conv_arrays {
    void *x, *w, *y;
    void *maxima;    /* maxima of the fused pooling, or their gradient; NULL: y is not pooled */
    uint8_t *places; /* shaped like the maxima: position in the window, 0 to 3, in row-major order; NULL: not written */
} d9_cpu_conv_arrays;

typedef struct d9_cpu_conv_kernel {
    const char *name; /* as written in a plan, for example "winograd" */
    bool (*fits)(const d9_cpu *cpu, const d9_cpu_conv_shape *shape);
    int64_t (*scratch_bytes)(const d9_cpu *cpu, const d9_cpu_conv_shape *shape); /* `scratch` is aligned to 64 bytes */
    void (*run)(const d9_cpu *cpu, const d9_cpu_conv_shape *shape, const d9_cpu_conv_arrays *arrays, void *scratch);
    bool (*pools)(const d9_cpu_conv_shape *shape); /* NULL: never */
    /* True if the kernel multiplies transformed operands that it rounded to bf16; NULL: never. */
    bool (*rounds_transforms)(const d9_cpu *cpu, const d9_cpu_conv_shape *shape);
} d9_cpu_conv_kernel;

extern const d9_cpu_conv_kernel *const d9_cpu_conv_kernels[]; /* ends with NULL */
