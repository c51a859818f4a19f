/* A library of convolutions beside our own kernels: a module, opened where it is there. It computes a convolution in
 * one or more *ways*, which have names ("x16", "winograd"). */
#ifndef D9_BACKENDS_CPU_LIBRARY_H
#define D9_BACKENDS_CPU_LIBRARY_H

#include "backends/host/host.h"

typedef struct d9_library_conv d9_library_conv; /* a convolution in one way: the library's own */

enum { D9_LIBRARY_WAYS = 12 };

typedef struct d9_conv_library {
    const char *name; /* "onednn": how its choices begin */
    /* Held to an instruction set of level.h. A library that cannot be held to it any more: D9_DEVICE. */
    d9_status (*open)(d9_context *context, const char *isa, void **state);
    void (*close)(d9_context *context, void *state);
    void (*version)(char *text, size_t size); /* "oneDNN 2.6.3" */

    /* The names of the ways that fit, the first choice first; valid for ever. Returns how many. */
    int (*ways)(const d9_site *site, const char *ways[D9_LIBRARY_WAYS]);
    /* *conv NULL: the library has no implementation of this way, or the way does not fit. Of `way` the first word
     * counts. Grows the device's scratch. */
    d9_status (*build)(d9_context *context, const d9_site *site, const char *way, d9_library_conv **conv);
    const char *(*choice)(const d9_library_conv *conv); /* "x16 brgconv:avx512_core_amx_bf16" */
    /* Run also brings the arguments into the library's layout and back; run_bare only runs, on what lies there. */
    d9_status (*run)(d9_context *context, const d9_site *site, const d9_library_conv *conv);
    d9_status (*run_bare)(d9_context *context, const d9_site *site, const d9_library_conv *conv);
    void (*destroy)(d9_context *context, d9_library_conv *conv); /* NULL is fine */

    /* How fast it multiplies large matrices of the type. */
    d9_status (*matrix_rate)(d9_context *context, void *state, d9_type type, double *operations_per_second);
} d9_conv_library;

/* The module exports `const d9_conv_library *d9_conv_library_module(void)`. D9_DEVICE: it is not here, with the reason:
 * not built, built against another version, or no such library. */
D9_MUST_USE d9_status d9_conv_library_find(d9_context *context, const d9_conv_library **library);

#endif
