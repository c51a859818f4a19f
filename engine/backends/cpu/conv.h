/* A convolution pass and the algorithm that computes it; private to this folder's files on convolutions.
 *
 * The text of an algorithm is "own NAME" for a kernel of kernels/cpu/conv.h, "LIBRARY NAME" for an algorithm of the
 * library. A plan's choice is this text; for the library, the implementation follows ("onednn x16
 * brgconv:avx512_core_amx_bf16"). */
#pragma once

#include "backends/cpu/cpu.h"
#include "kernels/cpu/conv.h"

typedef struct d9_conv_algorithm {
    char text[32];
} d9_conv_algorithm;
enum { D9_CONV_ALGORITHMS = 24 };

typedef struct d9_conv {
    d9_cpu_conv_shape shape;
    d9_value_id value[D9_CONV_ARGUMENTS];
    const d9_cpu_conv_kernel *kernel; /* our kernel; NULL: the library computes the pass */
    d9_library_conv *library;         /* NULL: our kernel computes the pass */
    char choice[96];
} d9_conv;

d9_cpu_conv_shape d9_conv_shape_of(const d9_site *site);

/* Lists the algorithms that fit: the library's, its first choice first, then our kernels. Returns their number. */
int d9_conv_list_algorithms(const d9_site *site, d9_conv_algorithm algorithms[D9_CONV_ALGORITHMS]);
/* The first choice for the site, a convolution pass, if this choice is a kernel of ours that fuses 2 x 2 max pooling;
 * otherwise NULL. */
const d9_cpu_conv_kernel *d9_conv_pooling_kernel(const d9_site *site);
/* True if a choice's text names this algorithm. */
bool d9_conv_algorithm_is(const d9_conv_algorithm *algorithm, const char *choice);
/* Our kernel that a choice or an algorithm's text names; NULL: none. d9_conv_name_own writes a kernel's text. */
const d9_cpu_conv_kernel *d9_conv_own_kernel(const char *choice);
void d9_conv_name_own(const d9_cpu_conv_kernel *kernel, char *choice, size_t size);
/* True if the kernel rounds transformed operands of node `node` of the site to bf16; false if `kernel` is NULL. */
bool d9_conv_rounds_transforms(const d9_site *site, int node, const d9_cpu_conv_kernel *kernel);

/* Prepares a convolution; *built false: the library has no implementation. May enlarge the device's scratch memory. */
D9_MUST_USE d9_status d9_conv_build(d9_context *context, const d9_site *site, const d9_conv_algorithm *algorithm,
                                    d9_conv *conv, bool *built);
void d9_conv_destroy(d9_context *context, const d9_site *site, d9_conv *conv);

/* Implements d9_rule.benchmark for rules that contain convolutions: times the algorithms of each convolution. */
D9_MUST_USE d9_status d9_conv_benchmark_parts(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity,
                                              int *count);

/* Runs the pass. `bare`: runs only the library's call, on the arguments converted last; our kernels ignore `bare`. */
D9_MUST_USE d9_status d9_conv_run(d9_context *context, const d9_site *site, const d9_conv *conv, bool bare);
