/* An optional library of convolutions besides our own kernels: a module that is opened if installed. The library has
 * one or more named algorithms ("x16", "winograd"). */
#pragma once

#include "backends/host/host.h"

typedef struct d9_library_conv d9_library_conv; /* a convolution and its algorithm, defined by the library */

enum { D9_LIBRARY_ALGORITHMS = 12 };

typedef struct d9_conv_library {
    const char *name; /* first word of its choices: "onednn" */
    /* Opens the library, limited to an instruction set of level.h. Returns D9_DEVICE if the library already uses a
     * higher one in this process. */
    d9_status (*open)(d9_context *context, const char *isa, void **state);
    void (*close)(d9_context *context, void *state);
    void (*version)(char *text, size_t size); /* "oneDNN 2.6.3" */

    /* Lists the static names of the algorithms that fit, the first choice first; returns their number. */
    int (*algorithms)(const d9_site *site, const char *algorithms[D9_LIBRARY_ALGORITHMS]);
    /* *conv is NULL if the algorithm does not fit or the library has no implementation of it. The first word of
     * `algorithm` is the algorithm's name; the rest is ignored. May enlarge the device's scratch memory. */
    d9_status (*build)(d9_context *context, const d9_site *site, const char *algorithm, d9_library_conv **conv);
    const char *(*choice)(const d9_library_conv *conv); /* "x16 brgconv:avx512_core_amx_bf16" */
    /* `run` converts arguments to and from the library's layout; `run_bare` runs on the arguments converted last. */
    d9_status (*run)(d9_context *context, const d9_site *site, const d9_library_conv *conv);
    d9_status (*run_bare)(d9_context *context, const d9_site *site, const d9_library_conv *conv);
    void (*destroy)(d9_context *context, d9_library_conv *conv); /* NULL is ignored */

    /* Measures the rate of large matrix products of the type; 0: the library has none. */
    d9_status (*matrix_rate)(d9_context *context, void *state, d9_type type, double *operations_per_second);
} d9_conv_library;

/* The module exports `const d9_conv_library *d9_conv_library_module(void)`. Returns D9_DEVICE with the reason if it is
 * missing: not built, built against another version, or oneDNN is not installed. */
D9_MUST_USE d9_status d9_conv_library_find(d9_context *context, const d9_conv_library **library);
