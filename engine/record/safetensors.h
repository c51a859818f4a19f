/* safetensors: 8-byte little-endian header length, JSON header (jansson), raw little-endian data. */
#ifndef D9_RECORD_SAFETENSORS_H
#define D9_RECORD_SAFETENSORS_H

#include "core/arena.h"
#include "graph/graph.h"

/* Types as the format names them; everything dawn9 reads or writes. */
typedef enum d9_tensor_type {
    D9_TENSOR_F64,
    D9_TENSOR_F32,
    D9_TENSOR_BF16,
    D9_TENSOR_F16,
    D9_TENSOR_I64,
    D9_TENSOR_I32,
    D9_TENSOR_U8
} d9_tensor_type;
const char *d9_tensor_type_name(d9_tensor_type type); /* "F32", as the format writes it */
size_t d9_tensor_type_bytes(d9_tensor_type type);     /* of one element */
d9_tensor_type d9_tensor_type_of(d9_type type);

typedef struct d9_tensor {
    const char *name;
    d9_tensor_type type;
    d9_shape shape; /* rank 0 is written and read as rank 1, one element */
    const void *bytes;
    size_t size;
} d9_tensor;

typedef struct d9_metadata {
    const char *key, *value;
} d9_metadata; /* __metadata__: strings only */

typedef struct d9_safetensors {
    d9_arena arena;
    d9_tensor *tensors;
    int tensor_count;
    d9_metadata *metadata;
    int metadata_count;
} d9_safetensors;

/* Every header field is checked against the file's size. Failures: D9_DATA naming file and tensor. */
D9_MUST_USE d9_status d9_safetensors_read(d9_context *context, const char *path, d9_safetensors **file);
/* The same of a file in memory, whose bytes are not needed afterwards; `path` is for messages. */
D9_MUST_USE d9_status d9_safetensors_decode(d9_context *context, const char *path, const uint8_t *bytes, size_t size,
                                            d9_safetensors **file);
void d9_safetensors_free(d9_context *context, d9_safetensors *file);
const d9_tensor *d9_safetensors_find(const d9_safetensors *file, const char *name); /* NULL: absent */
const char *d9_safetensors_metadata(const d9_safetensors *file, const char *key);   /* NULL: absent */
/* The tensor as doubles; the caller's array holds d9_shape_count of them. */
void d9_tensor_to_doubles(const d9_tensor *tensor, double *values);
/* The other way, as f32 in `arena`; the name is not copied. */
D9_MUST_USE d9_status d9_tensor_from_doubles(d9_context *context, d9_arena *arena, const char *name,
                                             const d9_shape *shape, const double *values, d9_tensor *tensor);

/* Atomic; failure D9_OUTPUT. */
D9_MUST_USE d9_status d9_safetensors_write(d9_context *context, const char *path, const d9_tensor *tensors, int count,
                                           const d9_metadata *metadata, int metadata_count);
/* The same into memory, which the caller frees with d9_release; `path` is for messages. */
D9_MUST_USE d9_status d9_safetensors_encode(d9_context *context, const char *path, const d9_tensor *tensors, int count,
                                            const d9_metadata *metadata, int metadata_count, uint8_t **bytes,
                                            size_t *size);

/* A file may say its own SHA-256: a row D9_SEAL_KEY in its metadata, whose D9_SEAL_DIGITS characters are replaced by
 * the sum of the encoded file with zeros in their place. is_sealed: false where there is none, or another; `bytes` are
 * as they were, or with the right sum. */
#define D9_SEAL_KEY "sha256"
enum { D9_SEAL_DIGITS = 64 };
void d9_safetensors_seal(uint8_t *bytes, size_t size);
bool d9_safetensors_is_sealed(uint8_t *bytes, size_t size);

#endif
