/* Names of one level's loops: every .c file here is compiled once per level with D9_LEVEL set (cmake/isa.cmake). A loop
 * is defined as `void D9_LOOP_NAME(cast)(...)`. */
#pragma once

#include "kernels/cpu/kernels.h"

#define D9_LEVEL_JOIN_(name, level) name##_##level
#define D9_LEVEL_JOIN(name, level)  D9_LEVEL_JOIN_(name, level)
#define D9_ISA(name)                D9_LEVEL_JOIN(name, D9_LEVEL)
#define D9_LOOP_NAME(name)          D9_ISA(d9_loop_##name)

#define D9_LOOP(name, arguments) void D9_LOOP_NAME(name) arguments;
#include "kernels/cpu/loops.def"
#undef D9_LOOP
