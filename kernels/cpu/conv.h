/* Convolutions on the CPU. Every way to compute one is a const record; a backend asks each whether it fits, provides
 * the scratch, and runs it. `d9_cpu_conv_kernels` lists them.
 *
 * x (N, H, W, I), y (N, OH, OW, O), weights (O, K, K, I). The forward pass writes y, the others dx in the place of x,
 * or dw in the place of the weights. dw is f32 always; everything else is stored as `store` says.
 *
 * A kernel that `pools` a shape also takes y as the maxima of its 2 x 2 windows (N, OH / 2, OW / 2, O), stored like y,
 * and their places. The forward pass writes the maxima beside y, or alone where y is NULL. The others read them where y
 * is NULL. */
#ifndef D9_KERNELS_CPU_CONV_H
#define D9_KERNELS_CPU_CONV_H

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
    void *maxima;    /* NULL: y is not pooled */
    uint8_t *places; /* as the maxima lie: which pixel of its window each is, 0 to 3, row by row */
} d9_cpu_conv_arrays;

typedef struct d9_cpu_conv_kernel {
    const char *name; /* "winograd": as a plan calls it */
    bool (*fits)(const d9_cpu *cpu, const d9_cpu_conv_shape *shape);
    int64_t (*scratch_bytes)(const d9_cpu *cpu, const d9_cpu_conv_shape *shape); /* aligned to 64 bytes */
    void (*run)(const d9_cpu *cpu, const d9_cpu_conv_shape *shape, const d9_cpu_conv_arrays *arrays, void *scratch);
    bool (*pools)(const d9_cpu_conv_shape *shape); /* NULL: never */
} d9_cpu_conv_kernel;

extern const d9_cpu_conv_kernel *const d9_cpu_conv_kernels[]; /* ends with NULL */

#endif
