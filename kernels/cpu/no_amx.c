/* Where the compiler has no AMX: the kernels of amx/ can be used nowhere. */
#include "kernels/cpu/kernels.h"

bool d9_cpu_conv_weight_fits(const d9_cpu *cpu, const d9_cpu_conv *shape) {
    (void)cpu, (void)shape;
    return false;
}

int64_t d9_cpu_conv_weight_scratch_bytes(const d9_cpu *cpu, const d9_cpu_conv *shape) {
    (void)cpu, (void)shape;
    return 0;
}

void d9_cpu_conv_weight(const d9_cpu *cpu, const d9_cpu_conv *shape, const uint16_t *x, const uint16_t *dy,
                        void *scratch, float *dw) {
    (void)cpu, (void)shape, (void)x, (void)dy, (void)scratch, (void)dw;
}
