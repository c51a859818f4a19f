/* The instruction set of a device. A lower one than the processor's best shows what older processors compute. */
#pragma once

#include "core/context.h"
#include "kernels/cpu/kernels.h"

/* Sets cpu->loops and cpu->tiles for `level`, a value of backend_options.cpu_level; "auto" and NULL: the best of this
 * processor. *isa: "amx", "avx512-bf16", "avx512", "avx2", "sse4.2" or "plain". Returns D9_DEVICE if the level is
 * unknown or this processor does not support it. */
D9_MUST_USE d9_status d9_cpu_level_choose(d9_context *context, const char *level, d9_cpu *cpu, const char **isa);
