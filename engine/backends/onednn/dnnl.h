/* Hides the differences between oneDNN 2 (Debian 12) and oneDNN 3 (Debian 13, Ubuntu 24.04): descriptions of arrays and
 * of primitives. The other functions in use are equal in both. Functions that can fail return oneDNN's
 * status; dnnl_unimplemented: the library has no such primitive. The caller destroys the objects that they make. */
#pragma once

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>

/* `sizes` are in oneDNN's logical order: (N, C, H, W), (O, I, KH, KW) or (rows, columns). `tag` is the layout in
 * memory; dnnl_format_tag_any: oneDNN chooses it. */
typedef struct d9_dnnl_array {
    int rank;
    dnnl_dims_t sizes;
    dnnl_data_type_t type;
    dnnl_format_tag_t tag;
} d9_dnnl_array;

/* A convolution without bias: its image, weights and output, or their gradients. */
typedef struct d9_dnnl_conv {
    d9_dnnl_array x, w, y;
    dnnl_dims_t strides, pads;
    dnnl_alg_kind_t algorithm;
} d9_dnnl_conv;

/* pass: dnnl_forward_training; or dnnl_backward_data or dnnl_backward_weights, which need the forward description. */
dnnl_status_t d9_dnnl_describe_conv(dnnl_engine_t engine, dnnl_prop_kind_t pass, const d9_dnnl_conv *conv,
                                    const_dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t forward,
                                    dnnl_primitive_desc_t *description);
/* Describes a product of two matrices. Both factors and the result have the same description, `matrix`. */
dnnl_status_t d9_dnnl_describe_product(dnnl_engine_t engine, const d9_dnnl_array *matrix,
                                       dnnl_primitive_desc_t *description);

/* Makes a memory object for an array at `data`; DNNL_MEMORY_NONE: the address is set later. */
dnnl_status_t d9_dnnl_memory_make(dnnl_engine_t engine, const d9_dnnl_array *array, void *data, dnnl_memory_t *memory);
size_t d9_dnnl_memory_bytes(const_dnnl_memory_t memory);
bool d9_dnnl_memories_equal(const_dnnl_memory_t a, const_dnnl_memory_t b); /* equal sizes, type and layout */
/* Makes the primitive that copies an array from the layout of `from` to that of `to`. */
dnnl_status_t d9_dnnl_reorder_make(dnnl_engine_t engine, const_dnnl_memory_t from, const_dnnl_memory_t to,
                                   dnnl_primitive_t *reorder);
