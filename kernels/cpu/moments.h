/* A convolution with few inputs, its batch norm and its activation, in closed form.
 *
 * The convolution is linear in a short vector: y = W p, with p the patch under a pixel, at most 27 numbers (3 x 3
 * pixels of 3 channels, or one pixel of 27). So the statistics of y over a ghost group follow from the moments of p,
 *
 *   m = mean of p,  Q = mean of p p^T,    mean(y_o) = W_o m,  variance(y_o) = W_o (Q - m m^T) W_o^T
 *
 * and one pass computes act(scale (y - mean) inv_std + bias) as act(W' p + b'), without storing y. In the backward
 * pass, one pass over the images computes S = sum of dz and D = sum of dz p^T, where dz is the gradient before the
 * activation. With xh = (y - mean) inv_std,
 *
 *   sum dz xh = inv_std (W D - mean S)         (row by row)
 *   dbias = S,  dscale = sum dz xh,  dW = scale inv_std (D - S m^T - (sum dz xh) inv_std (W Q - mean m^T))
 *
 * each summed over the groups. The convolution's output is never read, and is written only if `conv` is not NULL; its
 * gradient is neither read nor written. Sums are f32 over D9_MOMENTS_RUN pixels and double beyond, in fixed order: the
 * bits do not depend on the number of threads. The formulas of the moments are evaluated in double. */
#pragma once

#include "kernels/cpu/conv.h"

enum {
    D9_MOMENTS_INPUTS = 27, /* numbers in a patch, at most */
    D9_MOMENTS_PATCH = 32,  /* floats of a row that holds a patch */
    D9_MOMENTS_RUN = 64,    /* pixels of a run, at most: processed together */
};

typedef struct d9_cpu_moments { /* the forward convolution, in f32; images % groups == 0 */
    d9_cpu_conv_shape conv;
    int64_t groups;
} d9_cpu_moments;

/* True for a forward convolution in f32 with patches of at most D9_MOMENTS_INPUTS numbers. */
bool d9_cpu_moments_fits(const d9_cpu_moments *shape);
int64_t
d9_cpu_moments_scratch_bytes(const d9_cpu_moments *shape); /* for each of the three functions; aligned to 64 bytes */

/* y (N, OH, OW, O): output of the activation. conv, of the same size: output of the convolution; NULL: not computed.
 * The statistics are treated as in d9_cpu_norm_forward and d9_cpu_norm_eval. */
void d9_cpu_moments_forward(const d9_cpu *cpu, const d9_cpu_moments *shape, const float *x, const float *w,
                            const d9_kernel_norm_state *state, d9_kernel_act act, void *scratch, float *conv, float *y);
void d9_cpu_moments_eval(const d9_cpu *cpu, const d9_cpu_moments *shape, const float *x, const float *w,
                         const d9_kernel_norm_state *state, d9_kernel_act act, void *scratch, float *conv, float *y);

typedef struct d9_cpu_moments_gradients {
    float *dw, *dscale, *dbias; /* dscale or dbias NULL: not computed */
} d9_cpu_moments_gradients;
/* Computes the gradients from the activation's output y and its gradient dy, for activations whose derivative is a
 * function of the output. mean, inv_std: as d9_cpu_moments_forward wrote them. */
void d9_cpu_moments_backward(const d9_cpu *cpu, const d9_cpu_moments *shape, const float *dy, d9_kernel_act act,
                             const float *y, const float *x, const float *w, const float *mean, const float *inv_std,
                             const float *scale, void *scratch, const d9_cpu_moments_gradients *gradients);
