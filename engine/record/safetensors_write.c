/* Writing safetensors: the header, then every tensor's bytes in the order given. safetensors.c shows the format. */
#include "core/system.h"
#include "record/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 }; /* of the header's length */

/* False when jansson is out of memory or a name is given twice. */
static bool add_entry(json_t *root, const d9_tensor *tensor, size_t offset) {
    json_t *shape = json_array();
    bool fine = shape && !json_object_get(root, tensor->name);
    for (int i = 0; fine && i < tensor->shape.rank; i++)
        fine = json_array_append_new(shape, json_integer(tensor->shape.d[i])) == 0;
    if (fine && tensor->shape.rank == 0) fine = json_array_append_new(shape, json_integer(1)) == 0;
    json_t *entry = fine ? json_pack("{s:s, s:O, s:[I, I]}", "dtype", d9_tensor_type_name(tensor->type), "shape", shape,
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
        d9_shape shape = tensors[i].shape;
        int64_t elements = shape.rank == 0 ? 1 : d9_shape_count(&shape);
        if ((uint64_t)elements * d9_tensor_type_bytes(tensors[i].type) != tensors[i].size) {
            status = d9_fail(context, D9_OUTPUT, "%s: tensor %s: %zu bytes do not fit its shape", path, tensors[i].name,
                             tensors[i].size);
            goto done;
        }
        fine = add_entry(root, &tensors[i], *data_bytes);
        if (!fine) {
            status = d9_fail(context, D9_OUTPUT, "%s: tensor %s: no valid name, or given twice", path, tensors[i].name);
            goto done;
        }
        *data_bytes += tensors[i].size;
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
    d9_status status = D9_OK;
    char *header = NULL;
    void *memory = NULL;
    size_t data_bytes = 0;
    *bytes = NULL;
    D9_TRY(make_header(context, path, tensors, count, metadata, metadata_count, &header, &data_bytes));
    size_t text_bytes = strlen(header), header_bytes = (text_bytes + 7) / 8 * 8; /* padded: data starts aligned */
    *size = LENGTH_BYTES + header_bytes + data_bytes;
    D9_TRY(d9_allocate(context, *size, "a safetensors file", &memory));
    *bytes = memory;
    uint8_t *position = *bytes + LENGTH_BYTES + header_bytes;
    for (int i = 0; i < LENGTH_BYTES; i++) (*bytes)[i] = (uint8_t)(header_bytes >> 8 * i);
    memset(*bytes + LENGTH_BYTES, ' ', header_bytes);
    memcpy(*bytes + LENGTH_BYTES, header, text_bytes);
    for (int i = 0; i < count; i++) {
        if (tensors[i].size) memcpy(position, tensors[i].bytes, tensors[i].size);
        position += tensors[i].size;
    }
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
