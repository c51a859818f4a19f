/* The x86-64 level of a device: the loops of kernels/cpu and the instruction set of oneDNN, together. */
#ifndef D9_BACKENDS_ONEDNN_LEVEL_H
#define D9_BACKENDS_ONEDNN_LEVEL_H

#include "core/context.h"
#include "kernels/cpu/kernels.h"

/* The loops of `level`, oneDNN held to the same; "auto" and NULL: the best that runs here. To be called before anything
 * else of oneDNN, which takes an instruction set only once a process. A level that does not run here, or comes after
 * another: D9_DEVICE. */
D9_MUST_USE d9_status d9_onednn_level(d9_context *context, const char *level, const d9_cpu_loops **loops);

/* Whether loops and library multiply bf16 in hardware; how the instruction set is called: "amx", "avx512-bf16", "v3".
 */
bool d9_onednn_has_bf16(const d9_cpu_loops *loops);
const char *d9_onednn_isa(const d9_cpu_loops *loops);

#endif
