/* Finds the loops of an instruction-set level, or of the best one that processor and operating system support; lists
 * the convolution kernels. */
#include "kernels/cpu/conv.h"
#include "kernels/cpu/kernels.h"

#include <stdlib.h>
#include <string.h>

typedef struct level_row {
    const d9_cpu_loops *loops;
    bool (*runs)(void);
} level_row;

static bool always(void) { return true; }
extern const d9_cpu_loops d9_cpu_loops_plain;

#ifdef D9_X86_LEVELS
extern const d9_cpu_loops d9_cpu_loops_v3, d9_cpu_loops_v4, d9_cpu_loops_v4bf16;

/* False if DAWN9_CPU_CEILING=avx2, with which tests treat this processor as one without AVX-512 and AMX. */
static bool allows_avx512(void) {
    const char *ceiling = getenv("DAWN9_CPU_CEILING");
    return !ceiling || strcmp(ceiling, "avx2") != 0;
}

static bool has_v3(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
static bool has_v4(void) {
    return allows_avx512() && has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512cd");
}
static bool has_v4bf16(void) { return has_v4() && __builtin_cpu_supports("avx512bf16"); }

#include <cpuid.h>
/* CPUID 7.0 EDX bits 22 (AMX-BF16) and 24 (AMX-TILE); XCR0 bits 17 and 18: the system saves the tiles. */
bool d9_cpu_has_amx_bf16(void) {
    unsigned a, b, c, d, low, high;
    const unsigned wanted = 1u << 22 | 1u << 24, saved = 3u << 17, osxsave = 1u << 27;
    if (!allows_avx512()) return false;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & wanted) != wanted) return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & saved) == saved;
}

static const level_row levels[] = {
    {&d9_cpu_loops_plain, always}, /* the levels below only if they were built (cmake/isa.cmake) */
#ifdef D9_LEVEL_v3
    {&d9_cpu_loops_v3, has_v3},
#endif
#ifdef D9_LEVEL_v4
    {&d9_cpu_loops_v4, has_v4},
#endif
#ifdef D9_LEVEL_v4bf16
    {&d9_cpu_loops_v4bf16, has_v4bf16},
#endif
};
#else
bool d9_cpu_has_amx_bf16(void) { return false; }
static const level_row levels[] = {{&d9_cpu_loops_plain, always}};
#endif

enum { LEVEL_COUNT = sizeof levels / sizeof *levels };

const char *d9_cpu_level_at(int index) { return index >= 0 && index < LEVEL_COUNT ? levels[index].loops->level : NULL; }

const d9_cpu_loops *d9_cpu_loops_find(const char *level) {
    for (int i = LEVEL_COUNT - 1; i >= 0; i--)
        if ((!level || strcmp(level, levels[i].loops->level) == 0) && levels[i].runs()) return levels[i].loops;
    return NULL;
}

/* Without a preference (engine/backends/cpu/conv_choice.c) and without oneDNN the first kernel that fits is used, so
 * the general one is the first. */
extern const d9_cpu_conv_kernel d9_cpu_conv_gemm, d9_cpu_conv_winograd, d9_cpu_conv_amx;

#ifndef D9_AMX /* the compiler does not support AMX: this kernel, which fits no shape, replaces that of amx/ */
static bool never_fits(const d9_cpu *cpu, const d9_cpu_conv_shape *shape) {
    (void)cpu, (void)shape;
    return false;
}
const d9_cpu_conv_kernel d9_cpu_conv_amx = {.name = "amx", .fits = never_fits};
#endif

const d9_cpu_conv_kernel *const d9_cpu_conv_kernels[] = {&d9_cpu_conv_gemm, &d9_cpu_conv_winograd, &d9_cpu_conv_amx,
                                                         NULL};
