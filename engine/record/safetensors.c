/* safetensors, read strictly.
 *
 *     8 bytes   header length n, little-endian
 *     n bytes   {"__metadata__": {"k": "v"},
 *                "stem.weight": {"dtype": "F32", "shape": [64, 3], "data_offsets": [0, 768]}}
 *     the rest  every tensor's bytes: no gap, no overlap, nothing after the last
 *
 * Files come from other programs, so every number of the header is checked against the file before it is
 * used. Tensors are copied out of the file, because their offsets need not suit their types. */
#include "record/safetensors.h"
#include "core/system.h"
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensor data is copied as it lies: little-endian hosts only");

enum { LENGTH_BYTES = 8, MAX_HEADER_BYTES = 100000000 }; /* of the header's length; the format's own limit */

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
    [D9_TENSOR_F64] = {"F64", 8}, [D9_TENSOR_F32] = {"F32", 4}, [D9_TENSOR_BF16] = {"BF16", 2},
    [D9_TENSOR_F16] = {"F16", 2}, [D9_TENSOR_I64] = {"I64", 8}, [D9_TENSOR_I32] = {"I32", 4},
    [D9_TENSOR_U8] = {"U8", 1},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

const char *d9_tensor_type_name(d9_tensor_type type) { return types[type].name; }
size_t d9_tensor_type_bytes(d9_tensor_type type) { return types[type].bytes; }

/* ---- reading ---- */

typedef struct reader {
    d9_context *context;
    const char *path;
    const uint8_t *data; /* after the header */
    int64_t data_bytes;
    d9_safetensors *file;
} reader;

static d9_status bad(const reader *reader, const char *tensor, const char *what) {
    return d9_fail(reader->context, D9_DATA, "%s: tensor %s: %s", reader->path, tensor, what);
}

static d9_status read_type(const reader *reader, const json_t *entry, d9_tensor *tensor) {
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    for (int i = 0; name && i < TYPE_COUNT; i++) {
        if (strcmp(name, types[i].name) != 0) continue;
        tensor->type = (d9_tensor_type)i;
        return D9_OK;
    }
    return d9_fail(reader->context, D9_DATA, "%s: tensor %s: dtype is %s, must be F64, F32, BF16, F16, I64, I32 or U8",
                   reader->path, tensor->name, name ? name : "missing");
}

/* Fills shape and size. Products are checked before they are made. */
static d9_status read_shape(const reader *reader, const json_t *entry, d9_tensor *tensor) {
    const json_t *shape = json_object_get(entry, "shape");
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape)) return bad(reader, tensor->name, "shape is missing or no list");
    if (rank > 4) return bad(reader, tensor->name, "shape has more than 4 dimensions");
    tensor->shape = (d9_shape){.rank = rank ? (int)rank : 1, .d = {1, 0, 0, 0}};
    int64_t bytes = (int64_t)types[tensor->type].bytes;
    for (size_t i = 0; i < rank; i++) {
        const json_t *extent = json_array_get(shape, i);
        int64_t d = json_integer_value(extent);
        if (!json_is_integer(extent) || d < 0) return bad(reader, tensor->name, "shape holds what is no size");
        if (__builtin_mul_overflow(bytes, d, &bytes)) return bad(reader, tensor->name, "shape is larger than any file");
        tensor->shape.d[i] = d;
    }
    tensor->size = (size_t)bytes;
    return D9_OK;
}

/* Checks the offsets against shape and file, and leaves `bytes` inside the file. */
static d9_status read_offsets(const reader *reader, const json_t *entry, d9_tensor *tensor) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return bad(reader, tensor->name, "data_offsets must be two integers");
    int64_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin || end > reader->data_bytes)
        return d9_fail(reader->context, D9_DATA,
                       "%s: tensor %s: bytes %lld to %lld, but the file holds %lld after its header (truncated?)",
                       reader->path, tensor->name, (long long)begin, (long long)end, (long long)reader->data_bytes);
    if ((uint64_t)(end - begin) != tensor->size)
        return d9_fail(reader->context, D9_DATA, "%s: tensor %s: %lld bytes, but its shape needs %zu", reader->path,
                       tensor->name, (long long)(end - begin), tensor->size);
    tensor->bytes = reader->data + begin;
    return D9_OK;
}

static d9_status read_tensor(const reader *reader, const char *name, const json_t *entry, d9_tensor *tensor) {
    d9_status status = D9_OK;
    const char *key;
    json_t *value;
    char *copy = NULL;
    D9_TRY(d9_arena_copy(reader->context, &reader->file->arena, name, &copy));
    tensor->name = copy;
    if (!json_is_object(entry)) {
        status = bad(reader, name, "its header entry is no object");
        goto done;
    }
    json_object_foreach((json_t *)entry, key, value) {
        if (strcmp(key, "dtype") == 0 || strcmp(key, "shape") == 0 || strcmp(key, "data_offsets") == 0) continue;
        status =
            d9_fail(reader->context, D9_DATA, "%s: tensor %s: unknown field %s, must be dtype, shape and data_offsets",
                    reader->path, name, key);
        goto done;
    }
    D9_TRY(read_type(reader, entry, tensor));
    D9_TRY(read_shape(reader, entry, tensor));
    D9_TRY(read_offsets(reader, entry, tensor));
done:
    return status;
}

static d9_status read_metadata(const reader *reader, json_t *object) {
    d9_status status = D9_OK;
    const char *key;
    json_t *value;
    void *rows = NULL;
    if (!json_is_object(object)) {
        status = d9_fail(reader->context, D9_DATA, "%s: __metadata__ is no object", reader->path);
        goto done;
    }
    if (json_object_size(object) == 0) goto done;
    D9_TRY(d9_arena_allocate(reader->context, &reader->file->arena, json_object_size(object) * sizeof(d9_metadata),
                             &rows));
    reader->file->metadata = rows;
    json_object_foreach(object, key, value) {
        char *key_copy = NULL, *value_copy = NULL;
        if (!json_is_string(value)) {
            status = d9_fail(reader->context, D9_DATA, "%s: __metadata__: %s is no string", reader->path, key);
            goto done;
        }
        D9_TRY(d9_arena_copy(reader->context, &reader->file->arena, key, &key_copy));
        D9_TRY(d9_arena_copy(reader->context, &reader->file->arena, json_string_value(value), &value_copy));
        reader->file->metadata[reader->file->metadata_count++] = (d9_metadata){key_copy, value_copy};
    }
done:
    return status;
}

static int by_offset(const void *a, const void *b) {
    const d9_tensor *x = *(const d9_tensor *const *)a, *y = *(const d9_tensor *const *)b;
    const uint8_t *p = x->bytes, *q = y->bytes;
    if (p != q) return p < q ? -1 : 1;
    return x->size < y->size ? -1 : x->size > y->size; /* an empty tensor before the one at its place */
}

/* Tensors must tile the data; then each is copied to memory aligned for its type. */
static d9_status settle(const reader *reader) {
    d9_status status = D9_OK;
    d9_safetensors *file = reader->file;
    void *order_bytes = NULL;
    const uint8_t *position = reader->data;
    D9_TRY(d9_allocate(reader->context, ((size_t)file->tensor_count + 1) * sizeof(d9_tensor *), "a tensor list",
                       &order_bytes));
    d9_tensor **order = order_bytes;
    for (int i = 0; i < file->tensor_count; i++) order[i] = &file->tensors[i];
    qsort(order, (size_t)file->tensor_count, sizeof *order, by_offset);
    for (int i = 0; i < file->tensor_count; i++) {
        if ((const uint8_t *)order[i]->bytes != position) {
            status = bad(reader, order[i]->name, "a gap or an overlap lies before its data");
            goto done;
        }
        position += order[i]->size;
    }
    if (position != reader->data + reader->data_bytes) {
        status = d9_fail(reader->context, D9_DATA, "%s: %lld bytes follow the last tensor", reader->path,
                         (long long)(reader->data + reader->data_bytes - position));
        goto done;
    }
    for (int i = 0; i < file->tensor_count; i++) {
        void *copy = NULL;
        d9_tensor *tensor = &file->tensors[i];
        D9_TRY(d9_arena_allocate(reader->context, &file->arena, tensor->size ? tensor->size : 1, &copy));
        if (tensor->size) memcpy(copy, tensor->bytes, tensor->size);
        tensor->bytes = copy;
    }
done:
    d9_release(reader->context, order_bytes);
    return status;
}

/* The header's JSON, after checking its length against the file's. */
static d9_status parse_header(reader *reader, const uint8_t *bytes, size_t size, json_t **root) {
    json_error_t error;
    uint64_t length = 0;
    if (size < LENGTH_BYTES)
        return d9_fail(reader->context, D9_DATA, "%s: %zu bytes are too few for a safetensors file", reader->path,
                       size);
    for (int i = LENGTH_BYTES; i-- > 0;) length = length << 8 | bytes[i];
    if (length > MAX_HEADER_BYTES || length > size - LENGTH_BYTES)
        return d9_fail(reader->context, D9_DATA,
                       "%s: the header claims %llu bytes, the file has %zu: no safetensors file, or truncated",
                       reader->path, (unsigned long long)length, size);
    *root = json_loadb((const char *)bytes + LENGTH_BYTES, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(*root))
        return d9_fail(reader->context, D9_DATA, "%s: header: %s", reader->path, *root ? "no object" : error.text);
    reader->data = bytes + LENGTH_BYTES + length;
    reader->data_bytes = (int64_t)(size - LENGTH_BYTES - (size_t)length);
    return D9_OK;
}

d9_status d9_safetensors_decode(d9_context *context, const char *path, const uint8_t *bytes, size_t size,
                                d9_safetensors **file) {
    d9_status status = D9_OK;
    reader reader = {.context = context, .path = path};
    json_t *root = NULL, *entry;
    void *memory = NULL;
    const char *name;
    *file = NULL;
    D9_TRY(parse_header(&reader, bytes, size, &root));
    D9_TRY(d9_allocate(context, sizeof *reader.file, "a safetensors file", &memory));
    reader.file = memory;
    D9_TRY(d9_arena_allocate(context, &reader.file->arena, (json_object_size(root) + 1) * sizeof(d9_tensor), &memory));
    reader.file->tensors = memory;
    json_object_foreach(root, name, entry) {
        if (strcmp(name, "__metadata__") == 0) {
            D9_TRY(read_metadata(&reader, entry));
        } else {
            D9_TRY(read_tensor(&reader, name, entry, &reader.file->tensors[reader.file->tensor_count]));
            reader.file->tensor_count++;
        }
    }
    D9_TRY(settle(&reader));
    *file = reader.file;
    reader.file = NULL;
done:
    d9_safetensors_free(context, reader.file);
    json_decref(root);
    return status;
}

d9_status d9_safetensors_read(d9_context *context, const char *path, d9_safetensors **file) {
    d9_status status;
    uint8_t *bytes = NULL;
    size_t size = 0;
    *file = NULL;
    D9_TRY(d9_file_read(context, path, &bytes, &size));
    D9_TRY(d9_safetensors_decode(context, path, bytes, size, file));
done:
    d9_release(context, bytes);
    return status;
}

void d9_safetensors_free(d9_context *context, d9_safetensors *file) {
    if (!file) return;
    d9_arena_free(context, &file->arena);
    d9_release(context, file);
}

const d9_tensor *d9_safetensors_find(const d9_safetensors *file, const char *name) {
    for (int i = 0; i < file->tensor_count; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
    return NULL;
}

const char *d9_safetensors_metadata(const d9_safetensors *file, const char *key) {
    for (int i = 0; i < file->metadata_count; i++)
        if (strcmp(file->metadata[i].key, key) == 0) return file->metadata[i].value;
    return NULL;
}

/* ---- values ---- */

static double from_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

/* 1 sign, 5 exponent, 10 mantissa bits; exponent 0 is subnormal, 31 infinity or NaN. */
static double from_f16(uint16_t bits) {
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double value = exponent == 0    ? ldexp(mantissa, -24)
                   : exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
                                    : ldexp(1024 + mantissa, exponent - 25);
    return bits >> 15 ? -value : value;
}

void d9_tensor_to_doubles(const d9_tensor *tensor, double *values) {
    int64_t count = d9_shape_count(&tensor->shape);
    for (int64_t i = 0; i < count; i++) {
        switch (tensor->type) {
        case D9_TENSOR_F64:
            values[i] = ((const double *)tensor->bytes)[i];
            break;
        case D9_TENSOR_F32:
            values[i] = (double)((const float *)tensor->bytes)[i];
            break;
        case D9_TENSOR_BF16:
            values[i] = from_bf16(((const uint16_t *)tensor->bytes)[i]);
            break;
        case D9_TENSOR_F16:
            values[i] = from_f16(((const uint16_t *)tensor->bytes)[i]);
            break;
        case D9_TENSOR_I64:
            values[i] = (double)((const int64_t *)tensor->bytes)[i];
            break;
        case D9_TENSOR_I32:
            values[i] = ((const int32_t *)tensor->bytes)[i];
            break;
        case D9_TENSOR_U8:
            values[i] = ((const uint8_t *)tensor->bytes)[i];
            break;
        }
    }
}
