/* What oneDNN 2 (Debian 12) and oneDNN 3 (Debian 13, Ubuntu 24.04) write differently: descriptions of arrays, and of
 * the primitives on them. The rest of their interface is the same and is called as it is. Every function answers as
 * oneDNN's own do; dnnl_unimplemented: this library has no such primitive. */
#ifndef D9_BACKENDS_ONEDNN_DNNL_H
#define D9_BACKENDS_ONEDNN_DNNL_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>

/* Sizes in oneDNN's logical order, (N, C, H, W) or (O, I, KH, KW), and how they lie; dnnl_format_tag_any: as the
 * primitive likes it. */
typedef struct d9_dnnl_array {
    int rank;
    dnnl_dims_t sizes;
    dnnl_data_type_t type;
    dnnl_format_tag_t tag;
} d9_dnnl_array;

/* A convolution without bias: the image, the weights and the output, or their gradients. */
typedef struct d9_dnnl_conv {
    d9_dnnl_array x, w, y;
    dnnl_dims_t strides, pads;
    dnnl_alg_kind_t algorithm;
} d9_dnnl_conv;

/* pass: dnnl_forward_training, dnnl_backward_data or dnnl_backward_weights, which need the forward description. */
dnnl_status_t d9_dnnl_describe_conv(dnnl_engine_t engine, dnnl_prop_kind_t pass, const d9_dnnl_conv *conv,
                                    const_dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t forward,
                                    dnnl_primitive_desc_t *description);
/* A product of two matrices, both and the result described by the same words. */
dnnl_status_t d9_dnnl_describe_product(dnnl_engine_t engine, const d9_dnnl_array *matrix,
                                       dnnl_primitive_desc_t *description);

/* A memory for an array at `data`, or at DNNL_MEMORY_NONE until it is set. */
dnnl_status_t d9_dnnl_memory(dnnl_engine_t engine, const d9_dnnl_array *array, void *data, dnnl_memory_t *memory);
size_t d9_dnnl_memory_bytes(const_dnnl_memory_t memory);
bool d9_dnnl_memories_alike(const_dnnl_memory_t a, const_dnnl_memory_t b); /* the same sizes, type and layout */
dnnl_status_t d9_dnnl_reorder(dnnl_engine_t engine, const_dnnl_memory_t from, const_dnnl_memory_t to,
                              dnnl_primitive_t *reorder);

/* The version whose headers this was built with, beside dnnl_version(), the library that runs. */
dnnl_version_t d9_dnnl_version_built(void);

#endif
