/* The list of convolution kernels. Where no preference says otherwise (engine/backends/cpu) the first that fits
 * is taken: so the one for everything leads. */
#include "kernels/cpu/conv.h"

extern const d9_cpu_conv_kernel d9_cpu_conv_gemm, d9_cpu_conv_winograd, d9_cpu_conv_amx;

const d9_cpu_conv_kernel *const d9_cpu_conv_kernels[] = {&d9_cpu_conv_gemm, &d9_cpu_conv_winograd, &d9_cpu_conv_amx,
                                                         NULL};
