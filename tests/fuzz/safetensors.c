/* safetensors: a decoded file is encoded again and decodes to the same tensors and metadata. */
#include "record/safetensors.h"
#include "tests/fuzz/support/fuzz.h"

static void require_same(const d9_safetensors *a, const d9_safetensors *b) {
    fuzz_require(a->tensor_count == b->tensor_count && a->metadata_count == b->metadata_count, "as many come back");
    for (int m = 0; m < a->metadata_count; m++) {
        const char *back = d9_safetensors_metadata(b, a->metadata[m].key);
        fuzz_require(back && strcmp(back, a->metadata[m].value) == 0, "metadata comes back");
    }
    for (int t = 0; t < a->tensor_count; t++) {
        const d9_tensor *tensor = &a->tensors[t], *back = d9_safetensors_find(b, tensor->name);
        fuzz_require(back && back->type == tensor->type && d9_shape_equal(&back->shape, &tensor->shape) &&
                         back->size == tensor->size && memcmp(back->bytes, tensor->bytes, tensor->size) == 0,
                     "a tensor comes back");
        fuzz_require(tensor->size == (size_t)d9_shape_count(&tensor->shape) * d9_tensor_type_bytes(tensor->type),
                     "a tensor has the size of its shape");
    }
}

static void round_trip(fuzz_bench *bench, const d9_safetensors *file) {
    d9_safetensors *again = NULL;
    uint8_t *bytes = NULL;
    size_t size;
    const d9_status status = d9_safetensors_encode(&bench->context, "fuzz", file->tensors, file->tensor_count,
                                                   file->metadata, file->metadata_count, &bytes, &size);
    fuzz_require(status == D9_OK, "what was decoded can be encoded");
    fuzz_require(d9_safetensors_decode(&bench->context, "fuzz", bytes, size, &again) == D9_OK,
                 "what was encoded can be decoded");
    require_same(file, again);
    d9_safetensors_free(&bench->context, again), d9_release(&bench->context, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bench bench;
    d9_safetensors *file = NULL;
    size_t file_size;
    uint8_t *bytes = fuzz_tensors(data, size, &file_size);
    fuzz_begin(&bench);
    const d9_status status = d9_safetensors_decode(&bench.context, "fuzz", bytes, file_size, &file);
    if (fuzz_accepted(&bench, status)) round_trip(&bench, file);
    d9_safetensors_is_sealed(bytes, file_size);
    d9_safetensors_free(&bench.context, file);
    fuzz_end(&bench);
    free(bytes);
    return 0;
}
