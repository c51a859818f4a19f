/* Internals of the CPU backend: tables of rules that call kernels/cpu; convolutions by our own kernels or a library,
 * as conv_choice.c decides. Feature maps in the graph's buffers are (N, H, W, C), weights (O, KH, KW, I). */
#pragma once

#include "backends/host/shapes.h"
#include "kernels/cpu/kernels.h"

typedef struct d9_library_conv d9_library_conv; /* a convolution and its algorithm, defined by the library */

enum { D9_LIBRARY_ALGORITHMS = 12 };

/* An optional library of convolutions besides our own kernels: a module that is opened if installed. The library has
 * one or more named algorithms ("x16", "winograd"). */
typedef struct d9_conv_library {
    const char *name; /* first word of its choices: "onednn" */
    /* Opens the library, limited to the instruction set `isa` of d9_cpu_device. Returns D9_DEVICE if the library
     * already uses another one in this process. */
    d9_status (*open)(d9_context *context, const char *isa, void **state);
    void (*close)(d9_context *context, void *state);
    void (*version)(char *text, size_t size); /* "oneDNN 2.6.3" */

    /* Lists the names (static strings) of the algorithms that fit, the first choice first; returns their number. */
    int (*algorithms)(const d9_site *site, const char *algorithms[D9_LIBRARY_ALGORITHMS]);
    /* *conv is NULL if the algorithm does not fit or the library has no implementation of it. The first word of
     * `algorithm` is the algorithm's name; the rest is ignored. May enlarge the device's scratch memory. */
    d9_status (*build)(d9_context *context, const d9_site *site, const char *algorithm, d9_library_conv **conv);
    const char *(*choice)(const d9_library_conv *conv); /* "x16 brgconv:avx512_core_amx_bf16" */
    /* `run` converts arguments to and from the library's layout; `run_bare` runs on the arguments converted last. */
    d9_status (*run)(d9_context *context, const d9_site *site, const d9_library_conv *conv);
    d9_status (*run_bare)(d9_context *context, const d9_site *site, const d9_library_conv *conv);
    void (*destroy)(d9_context *context, d9_library_conv *conv); /* NULL is ignored */

    /* Measures the rate of large matrix products of the type; 0: the library cannot multiply the type here. */
    d9_status (*matrix_rate)(d9_context *context, void *state, d9_type type, double *operations_per_second);
} d9_conv_library;

/* Loads the library's module, which exports `const d9_conv_library *d9_conv_library_module(void)`. Returns D9_DEVICE
 * with the reason if it was not built or built against another version, or if oneDNN is not installed. */
D9_MUST_USE d9_status d9_conv_library_find(d9_context *context, const d9_conv_library **library);

typedef struct d9_cpu_device {
    d9_cpu cpu;
    const char *isa;                /* instruction set, as named in backend.c */
    const d9_conv_library *library; /* NULL: not available */
    void *library_state;            /* made by the library's open */
    bool library_first; /* true in the backend onednn: the library's algorithms are preferred to our own kernels */
    void *scratch;      /* shared by all rules during their run; may move while planning: do not keep the pointer */
    int64_t scratch_bytes;
} d9_cpu_device;

static inline d9_cpu_device *d9_cpu_device_of(const d9_site *site) { return site->backend; }
static inline const d9_cpu *d9_cpu_of(const d9_site *site) { return &d9_cpu_device_of(site)->cpu; }

/* Enlarges the shared scratch memory to at least `bytes`; its content is lost. Not for run functions. */
D9_MUST_USE d9_status d9_cpu_reserve(d9_context *context, d9_cpu_device *device, int64_t bytes);

/* ---- values in the kernels' format; only d9_cpu_out accepts D9_NONE: its data are then NULL ---- */
static inline d9_kernel_store d9_cpu_store(const d9_site *site, d9_value_id id) {
    return d9_site_value(site, id)->type == D9_BF16 ? D9_KERNEL_BF16 : D9_KERNEL_F32;
}
static inline d9_kernel_in d9_cpu_in(const d9_site *site, d9_value_id id) {
    return (d9_kernel_in){d9_site_data(site, id), d9_cpu_store(site, id)};
}
static inline d9_kernel_out d9_cpu_out(const d9_site *site, d9_value_id id) {
    if (id == D9_NONE) return (d9_kernel_out){NULL, D9_KERNEL_F32};
    return (d9_kernel_out){d9_site_data(site, id), d9_cpu_store(site, id)};
}

/* Match function: true if inputs and outputs of the first node are f32, bf16 or integers. */
bool d9_cpu_types_fit(const d9_site *site);

/* ---- tables of rules (at the end of their files), peak rates ---- */
extern const d9_rule d9_cpu_norm_rules[], d9_cpu_conv_rules[], d9_cpu_conv_pool_rules[], d9_cpu_moments_rules[],
    d9_cpu_layer_rules[], d9_cpu_recur_rules[], d9_cpu_batch_and_update_rules[];

/* Measures the rates of a product of large matrices in the precision's compute type and of a large copy. `device`: a
 * d9_cpu_device. */
d9_status d9_cpu_peak_rates(d9_context *context, void *device, const d9_precision *precision,
                            d9_peak_rates *peak_rates);
