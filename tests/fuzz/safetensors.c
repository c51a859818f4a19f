/* safetensors: a decoded file is encoded again and decodes to the same tensors and metadata. */
#include "tests/fuzz/support/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_fixture fixture;
    d9_safetensors *file = NULL;
    size_t file_size;
    uint8_t *bytes = fuzz_make_tensors_file(data, size, &file_size);
    fuzz_begin(&fixture);
    const d9_status status = d9_safetensors_decode(&fixture.context, "fuzz", bytes, file_size, &file);
    if (fuzz_check_status(&fixture, status)) fuzz_round_trip(&fixture, file, D9_OK);
    d9_safetensors_reseal(bytes, file_size);
    d9_safetensors_free(&fixture.context, file);
    fuzz_end(&fixture);
    free(bytes);
    return 0;
}
