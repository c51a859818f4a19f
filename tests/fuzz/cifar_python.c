/* The Python version of CIFAR: a pickle of two records. The input's first two bytes are the number of bytes before the
 * two rows of pixels, which are inserted there. An accepted pickle converts twice to the same records, whose pixels are
 * parts of the pickle. */
#define _GNU_SOURCE /* memmem */
#include "data/cifar.h"
#include "tests/fuzz/support/fuzz.h"

enum { RECORDS = 2, ROW = 3072, ROWS = RECORDS * ROW };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const keys[2][2] = {{"labels", NULL}, {"coarse_labels", "fine_labels"}};
    fuzz_fixture fixture;
    if (size < 2) return 0;
    const size_t told = (size_t)(data[0] | data[1] << 8), head = told < size - 2 ? told : size - 2;
    uint8_t *pickle = fuzz_allocate(size - 2 + ROWS); /* of exact size, for the address sanitizer */
    memcpy(pickle, data + 2, head);
    for (int i = 0; i < ROWS; i++) pickle[head + (size_t)i] = (uint8_t)(i % 251);
    memcpy(pickle + head + ROWS, data + 2 + head, size - 2 - head);
    fuzz_begin(&fixture);
    for (int set = 0; set < 2; set++) {
        uint8_t *binary = NULL, *again = NULL;
        const size_t bytes = (size_t)RECORDS * (ROW + 1 + (size_t)set);
        const d9_status status =
            d9_cifar_convert(&fixture.context, "fuzz", keys[set], RECORDS, pickle, size - 2 + ROWS, &binary);
        if (!fuzz_check_status(&fixture, status)) continue;
        fuzz_require(d9_cifar_convert(&fixture.context, "fuzz", keys[set], RECORDS, pickle, size - 2 + ROWS, &again) ==
                             D9_OK &&
                         memcmp(binary, again, bytes) == 0,
                     "it converts to the same records again");
        for (int r = 0; r < RECORDS; r++) {
            const uint8_t *row = binary + (size_t)r * (ROW + 1 + (size_t)set) + 1 + set;
            fuzz_require(memmem(pickle, size - 2 + ROWS, row, ROW) != NULL, "a row is one of the pickle");
        }
        d9_release(&fixture.context, binary), d9_release(&fixture.context, again);
    }
    fuzz_end(&fixture);
    free(pickle);
    return 0;
}
