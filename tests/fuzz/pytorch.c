/* Files of torch.save: the checksums of the archive's files are corrected first. A decoded file, encoded as
 * safetensors, decodes to the same tensors, which together are no larger than the file. */
#include "tests/fuzz/support/fuzz.h"
#include <zlib.h>

enum { LOCAL = 30, ENTRY = 46, END = 22 };

static size_t little_endian(const uint8_t *bytes, int size) {
    size_t value = 0;
    while (size-- > 0) value = value << 8 | bytes[size];
    return value;
}

/* Writes the right checksum into each entry of the directory whose file is in bounds. */
static void correct_checksums(uint8_t *bytes, size_t size) {
    if (size < END) return;
    const uint8_t *end = bytes + size - END;
    size_t at = little_endian(end + 16, 4), count = little_endian(end + 10, 2);
    while (count-- > 0 && at <= size && size - at >= ENTRY) {
        uint8_t *entry = bytes + at;
        const size_t local = little_endian(entry + 42, 4), length = little_endian(entry + 24, 4);
        at += ENTRY + little_endian(entry + 28, 2) + little_endian(entry + 30, 2) + little_endian(entry + 32, 2);
        if (local > size || size - local < LOCAL) continue;
        const size_t begin =
            local + LOCAL + little_endian(bytes + local + 26, 2) + little_endian(bytes + local + 28, 2);
        if (begin > size || size - begin < length) continue;
        const uint32_t sum = (uint32_t)crc32_z(0, bytes + begin, length);
        for (int i = 0; i < 4; i++) entry[16 + i] = (uint8_t)(sum >> 8 * i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_fixture fixture;
    d9_safetensors *file = NULL;
    uint8_t *bytes = fuzz_allocate(size); /* of exact size, for the address sanitizer */
    if (size) memcpy(bytes, data, size);
    correct_checksums(bytes, size);
    fuzz_begin(&fixture);
    const d9_status status = d9_pytorch_decode(&fixture.context, "fuzz", bytes, size, &file);
    if (fuzz_check_status(&fixture, status)) {
        size_t total = 0;
        for (int t = 0; t < file->tensor_count; t++) total += file->tensors[t].size;
        fuzz_require(total <= size, "the tensors are no larger than the file");
        fuzz_round_trip(&fixture, file, D9_DEVICE); /* the other legal status: memory ran out */
    }
    d9_safetensors_free(&fixture.context, file);
    fuzz_end(&fixture);
    free(bytes);
    return 0;
}
