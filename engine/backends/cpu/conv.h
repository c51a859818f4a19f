/* One convolution pass in one way, from either source; private to conv.c (building, running) and conv_choice.c.
 *
 * A way is a text, as in a plan's choice: "own NAME" is a kernel of kernels/cpu/conv.h, "LIBRARY WAY" one of the
 * library's. Behind it a choice may say more ("onednn x16 brgconv:avx512_core_amx_bf16"), which does not count. */
#ifndef D9_BACKENDS_CPU_CONV_H
#define D9_BACKENDS_CPU_CONV_H

#include "backends/cpu/cpu.h"
#include "kernels/cpu/conv.h"

typedef struct d9_conv_way { char text[32]; } d9_conv_way;
enum { D9_CONV_WAYS = 24 };

typedef struct d9_conv {
    d9_cpu_conv_shape shape;
    d9_value_id value[D9_CONV_ARGUMENTS];
    const d9_cpu_conv_kernel *kernel; /* ours; NULL: */
    d9_library_conv *library;         /* the library's */
    char choice[96];
} d9_conv;

d9_cpu_conv_shape d9_conv_shape_of(const d9_site *site);

/* The ways that fit: the library's, its first choice first, then ours in the order of their list. Returns how many. */
int d9_conv_ways(const d9_site *site, d9_conv_way ways[D9_CONV_WAYS]);
/* The kernel that takes the maxima of the output with it, if it is the first choice; NULL: none, or another is. */
const d9_cpu_conv_kernel *d9_conv_pooling_kernel(const d9_site *site);
/* Whether a choice's text names this way. */
bool d9_conv_way_is(const d9_conv_way *way, const char *choice);
/* The kernel of ours that a choice or a way names; NULL: it is the library's. And the other way round. */
const d9_cpu_conv_kernel *d9_conv_own_kernel(const char *choice);
void d9_conv_name_own(const d9_cpu_conv_kernel *kernel, char *choice, size_t size);

/* *built false: the library has no implementation. Grows the device's scratch. */
D9_MUST_USE d9_status d9_conv_build(d9_context *context, const d9_site *site, const d9_conv_way *way, d9_conv *conv,
                                    bool *built);
void d9_conv_destroy(d9_context *context, const d9_site *site, d9_conv *conv);

/* As a rule's survey: the ways of every convolution among its nodes. */
D9_MUST_USE d9_status d9_conv_survey_parts(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity,
                                           int *count);

/* `bare`: of the library's only its own call, without bringing arguments into its layout and back. */
D9_MUST_USE d9_status d9_conv_run(d9_context *context, const d9_site *site, const d9_conv *conv, bool bare);

#endif
