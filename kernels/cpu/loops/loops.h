/* Names of one level's loops: every file here is compiled once per level with D9_LEVEL set (cmake/isa.cmake). */
#ifndef D9_CPU_LOOPS_H
#define D9_CPU_LOOPS_H

#include "kernels/cpu/kernels.h"

#define D9_LEVEL_JOIN_(name, level) name##_##level
#define D9_LEVEL_JOIN(name, level)  D9_LEVEL_JOIN_(name, level)
#define D9_ISA(name)                D9_LEVEL_JOIN(name, D9_LEVEL)

#define d9_loop_cast                   D9_ISA(d9_loop_cast)
#define d9_loop_add                    D9_ISA(d9_loop_add)
#define d9_loop_scale                  D9_ISA(d9_loop_scale)
#define d9_loop_act                    D9_ISA(d9_loop_act)
#define d9_loop_act_backward           D9_ISA(d9_loop_act_backward)
#define d9_loop_norm_sums              D9_ISA(d9_loop_norm_sums)
#define d9_loop_norm_apply             D9_ISA(d9_loop_norm_apply)
#define d9_loop_norm_backward_sums     D9_ISA(d9_loop_norm_backward_sums)
#define d9_loop_norm_backward_apply    D9_ISA(d9_loop_norm_backward_apply)
#define d9_loop_pool                   D9_ISA(d9_loop_pool)
#define d9_loop_pool_backward          D9_ISA(d9_loop_pool_backward)
#define d9_loop_linear                 D9_ISA(d9_loop_linear)
#define d9_loop_linear_backward_data   D9_ISA(d9_loop_linear_backward_data)
#define d9_loop_linear_backward_weight D9_ISA(d9_loop_linear_backward_weight)
#define d9_loop_update                 D9_ISA(d9_loop_update)
#define d9_loop_lerp                   D9_ISA(d9_loop_lerp)
#define d9_loop_augment                D9_ISA(d9_loop_augment)

void d9_loop_cast(d9_kernel_in x, d9_kernel_out y, int64_t begin, int64_t end);
void d9_loop_add(d9_kernel_in a, d9_kernel_in b, d9_kernel_out y, int64_t begin, int64_t end);
void d9_loop_scale(d9_kernel_in x, float factor, d9_kernel_out y, int64_t begin, int64_t end);
void d9_loop_act(d9_kernel_in x, d9_kernel_act act, d9_kernel_out y, int64_t begin, int64_t end);
void d9_loop_act_backward(d9_kernel_in dy, d9_kernel_in reference, d9_kernel_act act, d9_kernel_out dx, int64_t begin, int64_t end);
void d9_loop_norm_sums(d9_kernel_in x, int64_t at, int64_t pixels, int64_t channels, const float *pivot, double *sums);
void d9_loop_norm_apply(d9_kernel_in x, int64_t at, int64_t pixels, int64_t channels, const float *terms,
                        const d9_kernel_epilogue *epilogue, d9_kernel_out y);
void d9_loop_norm_backward_sums(d9_kernel_in dy, const d9_cpu_prologue *prologue, d9_kernel_in x, int64_t at, int64_t pixels,
                                int64_t channels, const float *mean, double *sums);
void d9_loop_norm_backward_apply(d9_kernel_in dy, const d9_cpu_prologue *prologue, d9_kernel_in x, int64_t at,
                                 int64_t pixels, int64_t channels, const float *terms, d9_kernel_out dx);
void d9_loop_pool(d9_kernel_in x, const d9_kernel_window *window, int64_t n, int64_t oy, d9_kernel_out y);
void d9_loop_pool_backward(d9_kernel_in dy, d9_kernel_in x, const d9_kernel_window *window, int64_t n, int64_t iy,
                           d9_kernel_out dx);
void d9_loop_linear(d9_kernel_in x, d9_kernel_in w, int64_t n, int64_t inputs, int64_t outputs, d9_kernel_out y);
void d9_loop_linear_backward_data(d9_kernel_in dy, d9_kernel_in w, int64_t n, int64_t inputs, int64_t outputs,
                                  d9_kernel_out dx);
void d9_loop_linear_backward_weight(d9_kernel_in dy, d9_kernel_in x, int64_t o, int64_t samples, int64_t inputs,
                                    int64_t outputs, d9_kernel_out dw);
void d9_loop_update(const d9_cpu_update *rule, const float *g, float *w, float *const *state, int64_t begin,
                    int64_t end);
void d9_loop_lerp(float ratio, const float *x, float *a, int64_t begin, int64_t end);
void d9_loop_augment(const d9_cpu_batch *batch, int64_t n, d9_kernel_out y);

#endif
