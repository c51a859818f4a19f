/* The list of convolution kernels. Without a preference (engine/backends/cpu/conv_choice.c) and without oneDNN the
 * first one that fits is used, so the general kernel is the first. */
#include "kernels/cpu/conv.h"

extern const d9_cpu_conv_kernel d9_cpu_conv_gemm, d9_cpu_conv_winograd, d9_cpu_conv_amx;

#ifndef D9_AMX /* the compiler does not support AMX: instead of the kernel of amx/, one that fits no shape */
static bool never_fits(const d9_cpu *cpu, const d9_cpu_conv_shape *shape) {
    (void)cpu, (void)shape;
    return false;
}
const d9_cpu_conv_kernel d9_cpu_conv_amx = {.name = "amx", .fits = never_fits};
#endif

const d9_cpu_conv_kernel *const d9_cpu_conv_kernels[] = {&d9_cpu_conv_gemm, &d9_cpu_conv_winograd, &d9_cpu_conv_amx,
                                                         NULL};
