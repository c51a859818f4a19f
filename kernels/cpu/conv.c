/* The list of convolution kernels. Without a preference (engine/backends/cpu/conv_choice.c) and without oneDNN the
 * first one that fits is used, so the general kernel is the first. */
#include "kernels/cpu/conv.h"

extern const d9_cpu_conv_kernel d9_cpu_conv_gemm, d9_cpu_conv_winograd, d9_cpu_conv_amx;

const d9_cpu_conv_kernel *const d9_cpu_conv_kernels[] = {&d9_cpu_conv_gemm, &d9_cpu_conv_winograd, &d9_cpu_conv_amx,
                                                         NULL};
