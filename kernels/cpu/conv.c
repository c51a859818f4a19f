/* The list of convolution kernels. Where two fit, the one that stands before the other is the first choice of the two. */
#include "kernels/cpu/conv.h"

extern const d9_cpu_conv_kernel d9_cpu_conv_amx, d9_cpu_conv_winograd, d9_cpu_conv_gemm;

const d9_cpu_conv_kernel *const d9_cpu_conv_kernels[] = {&d9_cpu_conv_amx, &d9_cpu_conv_winograd, &d9_cpu_conv_gemm,
                                                         NULL};
