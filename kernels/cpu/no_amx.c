/* Where the compiler has no AMX: the kernels of amx/ can be used nowhere. */
#include "kernels/cpu/conv.h"

static bool fits(const d9_cpu *cpu, const d9_cpu_conv_shape *shape) {
    (void)cpu, (void)shape;
    return false;
}

const d9_cpu_conv_kernel d9_cpu_conv_amx = {.name = "amx", .fits = fits};
