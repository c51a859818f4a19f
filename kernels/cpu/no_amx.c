/* Replaces the kernel of amx/ if the compiler does not support AMX: it fits no shape. */
#include "kernels/cpu/conv.h"

static bool fits(const d9_cpu *cpu, const d9_cpu_conv_shape *shape) {
    (void)cpu, (void)shape;
    return false;
}

const d9_cpu_conv_kernel d9_cpu_conv_amx = {.name = "amx", .fits = fits};
