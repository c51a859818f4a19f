/* Writes features of samples to a file; see predict.h. */
#include "exchange/predict.h"
#include "core/system.h"
#include "record/effective.h"
#include "record/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NPY_HEADER = 128 /* a multiple of 64, as the format requires */ };

d9_status d9_features_check(d9_context *context, const char *path) {
    if (d9_text_ends_in(path, ".npy") || d9_text_ends_in(path, ".safetensors")) return D9_OK;
    return d9_fail(context, D9_USAGE, "--features %s: must end in .npy or .safetensors", path);
}

/* Format: numpy/lib/format.py, version 1.0: magic, length of the header, a Python dictionary, a newline. */
static d9_status write_npy(d9_context *context, const char *path, const d9_features *features) {
    d9_status status;
    static const char magic[] = "\x93NUMPY\x01\x00\x76\x00"; /* 0x76: 128 - 10 */
    enum { MAGIC = sizeof magic - 1 };
    const size_t data = (size_t)(features->count * features->width) * sizeof *features->rows;
    uint8_t *bytes = NULL;
    D9_TRY(D9_ALLOCATE(context, NPY_HEADER + data, "a file of features", &bytes));
    memset(bytes, ' ', NPY_HEADER);
    memcpy(bytes, magic, MAGIC);
    const int length = snprintf((char *)bytes + MAGIC, NPY_HEADER - MAGIC,
                                "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                                (long long)features->count, (long long)features->width);
    bytes[MAGIC + length] = ' ';
    bytes[NPY_HEADER - 1] = '\n';
    memcpy(bytes + NPY_HEADER, features->rows, data);
    D9_TRY(d9_file_write(context, path, bytes, NPY_HEADER + data));
done:
    d9_release(context, bytes);
    return status;
}

static d9_status write_safetensors(d9_context *context, const char *path, const d9_features *features) {
    d9_status status;
    const d9_tensor tensor = {"features",
                              D9_TENSOR_F32,
                              {2, {features->count, features->width}},
                              features->rows,
                              (size_t)(features->count * features->width) * sizeof *features->rows};
    d9_arena arena = {0};
    json_t *list = json_array();
    int64_t named = 0;
    while (named < features->count &&
           json_array_append_new(list, d9_json_path(context, &arena, features->files[named])) == 0)
        named++;
    char *files = named == features->count ? json_dumps(list, JSON_COMPACT) : NULL;
    if (!files) D9_TRY(d9_fail(context, D9_DEVICE, "out of memory for the names of pictures"));
    D9_TRY(d9_safetensors_write(context, path, &tensor, 1, &(d9_metadata){"dawn9.files", files}, 1));
done:
    free(files);
    json_decref(list);
    d9_arena_free(context, &arena);
    return status;
}

d9_status d9_features_write(d9_context *context, const char *path, const d9_features *features) {
    return (d9_text_ends_in(path, ".npy") ? write_npy : write_safetensors)(context, path, features);
}
