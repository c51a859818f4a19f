/* YAML configurations: a file and, after a byte 255, the file base.yaml that it may inherit from. */
#include "tests/fuzz/support/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_fixture fixture;
    const uint8_t *part;
    size_t part_size;
    d9_config *config = NULL;
    fuzz_begin(&fixture);
    fuzz_write_file(&fixture, "fuzz.yaml", NULL, 0);
    if (fuzz_next_part(&data, &size, &part, &part_size)) fuzz_write_file(&fixture, "fuzz.yaml", part, part_size);
    if (fuzz_next_part(&data, &size, &part, &part_size)) fuzz_write_file(&fixture, "base.yaml", part, part_size);
    const d9_status status = d9_config_load(&fixture.context, "fuzz.yaml", NULL, &config);
    fuzz_check_config(&fixture, status, config);
    fuzz_end(&fixture);
    return 0;
}
