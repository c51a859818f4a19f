/* Files of tensors: reads and writes safetensors, optionally with a checksum inside; reads files that PyTorch saved. */
#pragma once

#include "graph/graph.h"

/* Element types that dawn9 reads and writes, named as in the format. */
typedef enum d9_tensor_type {
    D9_TENSOR_F64,
    D9_TENSOR_F32,
    D9_TENSOR_BF16,
    D9_TENSOR_F16,
    D9_TENSOR_I64,
    D9_TENSOR_I32,
    D9_TENSOR_U8
} d9_tensor_type;
const char *d9_tensor_type_name(d9_tensor_type type); /* "F32", as in files */
size_t d9_tensor_type_bytes(d9_tensor_type type);     /* of one element */
d9_tensor_type d9_tensor_type_of(d9_type type);
bool d9_tensor_type_is_for_weights(d9_tensor_type type); /* true for F32, F16 and BF16 */

typedef struct d9_tensor {
    const char *name;
    d9_tensor_type type;
    d9_shape shape; /* rank 0 is written and read as one dimension of size 1 */
    const void *bytes;
    size_t size; /* of `bytes` */
} d9_tensor;

typedef struct d9_metadata {
    const char *key, *value;
} d9_metadata; /* a row of __metadata__, which holds strings only */

typedef struct d9_safetensors {
    d9_arena arena;
    d9_tensor *tensors;
    int tensor_count;
    d9_metadata *metadata;
    int metadata_count;
} d9_safetensors;

/* Reads a safetensors file, or one that PyTorch saved (pytorch.c). Unreadable or malformed: D9_DATA, naming the file
 * and any tensor at fault. */
D9_MUST_USE d9_status d9_safetensors_read(d9_context *context, const char *path, d9_safetensors **file);
/* Decodes a file of either format in memory. Its bytes are not needed afterwards. `path` is used in messages only. */
D9_MUST_USE d9_status d9_safetensors_decode(d9_context *context, const char *path, const uint8_t *bytes, size_t size,
                                            d9_safetensors **file);
void d9_safetensors_free(d9_context *context, d9_safetensors *file);
const d9_tensor *d9_safetensors_find(const d9_safetensors *file, const char *name); /* NULL: absent */
const char *d9_safetensors_metadata(const d9_safetensors *file, const char *key);   /* NULL: absent */
/* Converts the tensor to doubles; `values` holds d9_shape_count elements. */
void d9_tensor_to_doubles(const d9_tensor *tensor, double *values);
/* Converts doubles to an f32 tensor whose data are allocated in `arena`. The name is not copied. */
D9_MUST_USE d9_status d9_tensor_from_doubles(d9_context *context, d9_arena *arena, const char *name,
                                             const d9_shape *shape, const double *values, d9_tensor *tensor);

/* Writes a file atomically. D9_OUTPUT: not writable, or a tensor has an invalid or repeated name or a wrong size. */
D9_MUST_USE d9_status d9_safetensors_write(d9_context *context, const char *path, const d9_tensor *tensors, int count,
                                           const d9_metadata *metadata, int metadata_count);
/* Encodes a file in memory, to be freed with d9_release. `path` is used in messages only. */
D9_MUST_USE d9_status d9_safetensors_encode(d9_context *context, const char *path, const d9_tensor *tensors, int count,
                                            const d9_metadata *metadata, int metadata_count, uint8_t **bytes,
                                            size_t *size);

/* Checksum inside a file: the metadata row D9_SEAL_KEY holds D9_SEAL_DIGITS hexadecimal digits, the SHA-256 of the
 * encoded file with zeros as these digits. The two functions below write the correct checksum into the row, if the file
 * has the row. d9_safetensors_reseal returns true if the row held the correct checksum before. */
#define D9_SEAL_KEY "sha256"
enum { D9_SEAL_DIGITS = 64 };
void d9_safetensors_seal(uint8_t *bytes, size_t size);
bool d9_safetensors_reseal(uint8_t *bytes, size_t size);

/* ---- files of weights that PyTorch saved: torch.save(model.state_dict(), FILE) of version 1.6 or later ---- */
/* Decodes a file in memory, whose bytes are no longer needed afterwards. Executes nothing. D9_DATA, with the place, for
 * anything but a dictionary of contiguous tensors of up to 4 dimensions. `path` is used in messages only. */
D9_MUST_USE d9_status d9_pytorch_decode(d9_context *context, const char *path, const uint8_t *bytes, size_t size,
                                        d9_safetensors **file);
/* True if a file begins as a zip archive, the format of PyTorch since version 1.6, or as a file of an older PyTorch. */
bool d9_is_pytorch(const uint8_t *bytes, size_t size);
