/* Strict reader and writer of safetensors files.
 *
 *     8 bytes   header length n, little-endian
 *     n bytes   {"__metadata__": {"k": "v"},
 *                "stem.weight": {"dtype": "F32", "shape": [64, 3], "data_offsets": [0, 768]}}
 *     the rest  the tensors' bytes: no gap, no overlap, nothing after the last tensor
 *
 * Files may come from other programs, so every number in the header is checked before use. Tensors are copied out of
 * the file because their offsets may not be aligned for their types. */
#include "record/safetensors.h"
#include "core/hash.h"
#include "core/system.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensor data is copied unchanged: little-endian hosts only");

enum { LENGTH_BYTES = 8, MAX_HEADER_BYTES = 100000000 }; /* size of the length field; the format's limit */

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
bool d9_tensor_type_is_for_weights(d9_tensor_type type) {
    return type == D9_TENSOR_F32 || type == D9_TENSOR_F16 || type == D9_TENSOR_BF16;
}

size_t d9_tensor_type_bytes(d9_tensor_type type) { return types[type].bytes; }

/* ---- reading ---- */

typedef struct reader {
    d9_context *context;
    const char *path;
    const uint8_t *data; /* after the header */
    int64_t data_bytes;
    d9_safetensors *file;
} reader;

static d9_status fail_tensor(const reader *reader, const char *tensor, const char *what) {
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

/* Fills shape and size; D9_DATA if the shape is malformed or the size overflows. */
static d9_status read_shape(const reader *reader, const json_t *entry, d9_tensor *tensor) {
    const json_t *shape = json_object_get(entry, "shape");
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape)) return fail_tensor(reader, tensor->name, "shape is missing or not a list");
    if (rank > 4) return fail_tensor(reader, tensor->name, "shape has more than 4 dimensions");
    tensor->shape = (d9_shape){.rank = rank ? (int)rank : 1, .d = {1, 0, 0, 0}};
    int64_t bytes = (int64_t)types[tensor->type].bytes;
    for (size_t i = 0; i < rank; i++) {
        const json_t *extent = json_array_get(shape, i);
        int64_t d = json_integer_value(extent);
        if (!json_is_integer(extent) || d < 0)
            return fail_tensor(reader, tensor->name, "shape contains an invalid size");
        if (__builtin_mul_overflow(bytes, d, &bytes))
            return fail_tensor(reader, tensor->name, "shape is larger than any file");
        tensor->shape.d[i] = d;
    }
    tensor->size = (size_t)bytes;
    return D9_OK;
}

/* Checks the offsets against the shape and the file, and points `bytes` into the file. */
static d9_status read_offsets(const reader *reader, const json_t *entry, d9_tensor *tensor) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return fail_tensor(reader, tensor->name, "data_offsets must be two integers");
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
    d9_status status;
    const char *key;
    json_t *value;
    char *copy;
    D9_TRY(d9_arena_copy(reader->context, &reader->file->arena, name, &copy));
    tensor->name = copy;
    if (!json_is_object(entry)) D9_TRY(fail_tensor(reader, name, "its header entry is not an object"));
    json_object_foreach((json_t *)entry, key, value) {
        if (strcmp(key, "dtype") == 0 || strcmp(key, "shape") == 0 || strcmp(key, "data_offsets") == 0) continue;
        D9_TRY(d9_fail(reader->context, D9_DATA,
                       "%s: tensor %s: unknown field %s, must be dtype, shape and data_offsets", reader->path, name,
                       key));
    }
    D9_TRY(read_type(reader, entry, tensor));
    D9_TRY(read_shape(reader, entry, tensor));
    D9_TRY(read_offsets(reader, entry, tensor));
done:
    return status;
}

static d9_status read_metadata(const reader *reader, json_t *object) {
    d9_status status;
    d9_safetensors *file = reader->file;
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return d9_fail(reader->context, D9_DATA, "%s: __metadata__ is not an object", reader->path);
    D9_TRY(D9_ARENA_ALLOCATE(reader->context, &file->arena, json_object_size(object), &file->metadata));
    json_object_foreach(object, key, value) {
        char *key_copy, *value_copy;
        if (!json_is_string(value))
            D9_TRY(d9_fail(reader->context, D9_DATA, "%s: __metadata__: %s is not a string", reader->path, key));
        D9_TRY(d9_arena_copy(reader->context, &file->arena, key, &key_copy));
        D9_TRY(d9_arena_copy(reader->context, &file->arena, json_string_value(value), &value_copy));
        file->metadata[file->metadata_count++] = (d9_metadata){key_copy, value_copy};
    }
done:
    return status;
}

static int by_offset(const void *a, const void *b) {
    const d9_tensor *x = *(const d9_tensor *const *)a, *y = *(const d9_tensor *const *)b;
    const uint8_t *p = x->bytes, *q = y->bytes;
    if (p != q) return p < q ? -1 : 1;
    return x->size < y->size ? -1 : x->size > y->size; /* an empty tensor precedes the tensor at the same offset */
}

/* Checks that the tensors cover the data without gap or overlap, then copies each to aligned memory. */
static d9_status copy_data(const reader *reader) {
    d9_status status;
    d9_safetensors *file = reader->file;
    d9_tensor **order = NULL;
    const uint8_t *position = reader->data, *end = reader->data + reader->data_bytes;
    D9_TRY(D9_ALLOCATE(reader->context, file->tensor_count, "a tensor list", &order));
    for (int i = 0; i < file->tensor_count; i++) order[i] = &file->tensors[i];
    qsort(order, (size_t)file->tensor_count, sizeof *order, by_offset);
    for (int i = 0; i < file->tensor_count; i++) {
        if ((const uint8_t *)order[i]->bytes != position)
            D9_TRY(fail_tensor(reader, order[i]->name, "its data do not begin where the previous tensor's end"));
        position += order[i]->size;
    }
    if (position != end)
        D9_TRY(d9_fail(reader->context, D9_DATA, "%s: %lld bytes follow the last tensor", reader->path,
                       (long long)(end - position)));
    for (int i = 0; i < file->tensor_count; i++) {
        d9_tensor *tensor = &file->tensors[i];
        uint8_t *copy;
        D9_TRY(D9_ARENA_ALLOCATE(reader->context, &file->arena, tensor->size, &copy));
        memcpy(copy, tensor->bytes, tensor->size);
        tensor->bytes = copy;
    }
done:
    d9_release(reader->context, order);
    return status;
}

/* Checks the header's length against the file's size, and parses the header. */
static d9_status parse_header(reader *reader, const uint8_t *bytes, size_t size, json_t **root) {
    json_error_t error;
    uint64_t length = 0;
    if (size < LENGTH_BYTES)
        return d9_fail(reader->context, D9_DATA, "%s: %zu bytes are too few for a safetensors file", reader->path,
                       size);
    for (int i = LENGTH_BYTES; i-- > 0;) length = length << 8 | bytes[i];
    if (length > MAX_HEADER_BYTES) return d9_fail(reader->context, D9_DATA, "%s: not a safetensors file", reader->path);
    if (length > size - LENGTH_BYTES)
        return d9_fail(
            reader->context, D9_DATA,
            "%s: truncated, or not a safetensors file: its header alone would need %llu bytes, there are %zu",
            reader->path, (unsigned long long)(length + LENGTH_BYTES), size);
    *root = json_loadb((const char *)bytes + LENGTH_BYTES, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(*root))
        return d9_fail(reader->context, D9_DATA, "%s: header: %s", reader->path, *root ? "no object" : error.text);
    reader->data = bytes + LENGTH_BYTES + length;
    reader->data_bytes = (int64_t)(size - LENGTH_BYTES - (size_t)length);
    return D9_OK;
}

d9_status d9_safetensors_decode(d9_context *context, const char *path, const uint8_t *bytes, size_t size,
                                d9_safetensors **file) {
    d9_status status;
    reader reader = {.context = context, .path = path};
    json_t *root = NULL, *entry;
    d9_safetensors *made = NULL;
    const char *name;
    *file = NULL;
    if (d9_is_pytorch(bytes, size)) return d9_pytorch_decode(context, path, bytes, size, file);
    D9_TRY(parse_header(&reader, bytes, size, &root));
    D9_TRY(D9_ALLOCATE(context, 1, "a safetensors file", &made));
    D9_TRY(D9_ARENA_ALLOCATE(context, &made->arena, json_object_size(root), &made->tensors));
    reader.file = made;
    json_object_foreach(root, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            D9_TRY(read_metadata(&reader, entry));
        else
            D9_TRY(read_tensor(&reader, name, entry, &made->tensors[made->tensor_count++]));
    }
    D9_TRY(copy_data(&reader));
    *file = made;
    made = NULL;
done:
    d9_safetensors_free(context, made);
    json_decref(root);
    return status;
}

/* ---- checksum inside the file; reading a file; finding a tensor or a row of its metadata ---- */

/* Finds the 64 digits of the checksum in an encoded file; NULL if there are none. */
static uint8_t *find_seal(uint8_t *bytes, size_t size) {
    static const char key[] = "\"" D9_SEAL_KEY "\":\"";
    const size_t length = sizeof key - 1, needed = length + D9_SEAL_DIGITS;
    for (size_t at = LENGTH_BYTES; at + needed < size && at < MAX_HEADER_BYTES; at++)
        if (memcmp(bytes + at, key, length) == 0 && bytes[at + needed] == '"') return bytes + at + length;
    return NULL;
}

void d9_safetensors_seal(uint8_t *bytes, size_t size) {
    uint8_t *seal = find_seal(bytes, size);
    char hex[D9_SEAL_DIGITS + 1];
    if (!seal) return;
    memset(seal, '0', D9_SEAL_DIGITS);
    d9_sha256_hex(&(d9_bytes){bytes, size}, 1, hex);
    memcpy(seal, hex, D9_SEAL_DIGITS);
}

bool d9_safetensors_reseal(uint8_t *bytes, size_t size) {
    char said[D9_SEAL_DIGITS];
    const uint8_t *seal = find_seal(bytes, size);
    if (!seal) return false;
    memcpy(said, seal, sizeof said);
    d9_safetensors_seal(bytes, size);
    return memcmp(said, seal, sizeof said) == 0;
}

d9_status d9_safetensors_read(d9_context *context, const char *path, d9_safetensors **file) {
    d9_status status;
    uint8_t *bytes = NULL;
    size_t size = 0;
    *file = NULL;
    D9_TRY(d9_file_read_limited(context, path, D9_TENSORS_MAX_BYTES, &bytes, &size));
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

d9_tensor_type d9_tensor_type_of(d9_type type) {
    static const d9_tensor_type of[D9_TYPE_COUNT] = {
        [D9_F64] = D9_TENSOR_F64, [D9_F32] = D9_TENSOR_F32, [D9_BF16] = D9_TENSOR_BF16,
        [D9_F16] = D9_TENSOR_F16, [D9_I32] = D9_TENSOR_I32, [D9_U8] = D9_TENSOR_U8};
    return of[type];
}

/* A case of d9_tensor_to_doubles. `type`: C type of the tensor's elements; `expression` converts an element, x, to
 * double. */
#define WIDEN(type, expression)                                                                                        \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        const type x = ((const type *)tensor->bytes)[i];                                                               \
        values[i] = expression;                                                                                        \
    }                                                                                                                  \
    break

void d9_tensor_to_doubles(const d9_tensor *tensor, double *values) {
    const int64_t count = d9_shape_count(&tensor->shape);
    switch (tensor->type) {
    case D9_TENSOR_F64:
        WIDEN(double, x);
    case D9_TENSOR_F32:
        WIDEN(float, (double)x);
    case D9_TENSOR_BF16:
        WIDEN(uint16_t, (double)d9_bf16_to_float(x));
    case D9_TENSOR_F16:
        WIDEN(uint16_t, (double)d9_fp16_to_float(x));
    case D9_TENSOR_I64:
        WIDEN(int64_t, (double)x);
    case D9_TENSOR_I32:
        WIDEN(int32_t, x);
    default:
        WIDEN(uint8_t, x);
    }
}

d9_status d9_tensor_from_doubles(d9_context *context, d9_arena *arena, const char *name, const d9_shape *shape,
                                 const double *values, d9_tensor *tensor) {
    const size_t count = (size_t)d9_shape_count(shape);
    float *narrow;
    const d9_status status = D9_ARENA_ALLOCATE(context, arena, count, &narrow);
    for (size_t i = 0; status == D9_OK && i < count; i++) narrow[i] = (float)values[i];
    *tensor = (d9_tensor){name, D9_TENSOR_F32, *shape, narrow, count * sizeof *narrow};
    return status;
}

/* ---- writing: the header, then every tensor's bytes in the order given ---- */

/* False if memory runs out, or if the name occurs twice or is not UTF-8. */
static bool add_entry(json_t *root, const d9_tensor *tensor, size_t offset) {
    json_t *shape = json_array();
    bool fine = shape && !json_object_get(root, tensor->name);
    for (int i = 0; fine && i < tensor->shape.rank; i++)
        fine = json_array_append_new(shape, json_integer(tensor->shape.d[i])) == 0;
    if (fine && tensor->shape.rank == 0) fine = json_array_append_new(shape, json_integer(1)) == 0;
    json_t *entry = fine ? json_pack("{s:s, s:O, s:[I, I]}", "dtype", types[tensor->type].name, "shape", shape,
                                     "data_offsets", (json_int_t)offset, (json_int_t)(offset + tensor->size))
                         : NULL;
    json_decref(shape);
    return entry && json_object_set_new(root, tensor->name, entry) == 0;
}

static d9_status make_header(d9_context *context, const char *path, const d9_tensor *tensors, int count,
                             const d9_metadata *metadata, int metadata_count, char **header, size_t *data_bytes) {
    d9_status status = D9_OK;
    json_t *root = json_object(), *strings = json_object();
    bool fine = root && strings;
    for (int i = 0; fine && i < metadata_count; i++)
        fine = json_object_set_new(strings, metadata[i].key, json_string(metadata[i].value)) == 0;
    if (fine && metadata_count > 0) fine = json_object_set(root, "__metadata__", strings) == 0;
    *data_bytes = 0;
    for (int i = 0; fine && i < count; i++) {
        const d9_tensor *tensor = &tensors[i];
        const int64_t elements = tensor->shape.rank == 0 ? 1 : d9_shape_count(&tensor->shape);
        if ((uint64_t)elements * types[tensor->type].bytes != tensor->size)
            D9_TRY(d9_fail(context, D9_OUTPUT, "%s: tensor %s: %zu bytes do not match its shape", path, tensor->name,
                           tensor->size));
        if (!add_entry(root, tensor, *data_bytes))
            D9_TRY(d9_fail(context, D9_OUTPUT, "%s: tensor %s: invalid or repeated name", path, tensor->name));
        *data_bytes += tensor->size;
    }
    *header = fine ? json_dumps(root, JSON_COMPACT) : NULL;
    if (!*header)
        status = d9_fail(context, D9_DEVICE, "%s: out of memory for the header, or text that is not UTF-8", path);
done:
    json_decref(strings);
    json_decref(root);
    return status;
}

d9_status d9_safetensors_encode(d9_context *context, const char *path, const d9_tensor *tensors, int count,
                                const d9_metadata *metadata, int metadata_count, uint8_t **bytes, size_t *size) {
    d9_status status;
    char *header = NULL;
    size_t data_bytes;
    *bytes = NULL;
    D9_TRY(make_header(context, path, tensors, count, metadata, metadata_count, &header, &data_bytes));
    size_t text_bytes = strlen(header), header_bytes = (text_bytes + 7) / 8 * 8; /* padding aligns the data */
    if (header_bytes > MAX_HEADER_BYTES)
        D9_TRY(d9_fail(context, D9_OUTPUT, "%s: names and metadata need %zu bytes, a safetensors file has room for %d",
                       path, header_bytes, MAX_HEADER_BYTES));
    *size = LENGTH_BYTES + header_bytes + data_bytes;
    D9_TRY(D9_ALLOCATE(context, *size, "a safetensors file", bytes));
    uint8_t *position = *bytes + LENGTH_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++) (*bytes)[i] = (uint8_t)(header_bytes >> 8 * i);
    memset(position, ' ', header_bytes);
    memcpy(position, header, text_bytes);
    position += header_bytes;
    for (int i = 0; i < count; position += tensors[i++].size)
        if (tensors[i].size) memcpy(position, tensors[i].bytes, tensors[i].size);
done:
    free(header);
    return status;
}

d9_status d9_safetensors_write(d9_context *context, const char *path, const d9_tensor *tensors, int count,
                               const d9_metadata *metadata, int metadata_count) {
    d9_status status;
    uint8_t *bytes;
    size_t size;
    D9_TRY(d9_safetensors_encode(context, path, tensors, count, metadata, metadata_count, &bytes, &size));
    D9_TRY(d9_file_write(context, path, bytes, size));
done:
    d9_release(context, bytes);
    return status;
}
