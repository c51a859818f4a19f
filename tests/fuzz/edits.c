/* What the command line adds to a configuration: each line of the input is an edit, `+` and what stands behind --with,
 * `-` and what stands behind --without, anything else what stands behind --set. */
#include "tests/fuzz/support/configuration.h"

#include <stdlib.h>
#include <string.h>

enum { LINES = 32 };

static const char base[] = "data: {dataset: synthetic, synthetic_train: 64, synthetic_test: 32}\n"
                           "model: {channels: [8, 8, 8, 8]}\n"
                           "train: {epochs: 2, batch_size: 16}\n"
                           "tricks: {flip: {}, crop: {pad: 2}, ema: {}}\n"
                           "ablate: {ema: {train.weight_decay: 0.001}}\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bench bench;
    char *text = fuzz_text(data, size);
    const char *lines[LINES], *with[LINES], *without[LINES], *set[LINES];
    d9_config_edits edits = {.with = with, .without = without, .set = set};
    d9_config *config = NULL;
    const int count = d9_text_split(text, '\n', lines, LINES);
    for (int i = 0; i < count; i++) {
        if (lines[i][0] == '+')
            with[edits.with_count++] = lines[i] + 1;
        else if (lines[i][0] == '-')
            without[edits.without_count++] = lines[i] + 1;
        else if (lines[i][0])
            set[edits.set_count++] = lines[i];
    }
    fuzz_begin(&bench);
    const d9_status status = d9_config_parse(&bench.context, "fuzz.yaml", base, &edits, &config);
    fuzz_judge_config(&bench, status, config);
    fuzz_end(&bench);
    free(text);
    return 0;
}
