/* Edits of a configuration on the command line. Each line of the input is an edit: `+` and an argument of --with, `-`
 * and an argument of --without, otherwise an argument of --set. */
#include "tests/fuzz/support/fuzz.h"

enum { LINES = 32 };

static const char base[] = "data: {dataset: synthetic, synthetic_train: 64, synthetic_test: 32}\n"
                           "model: {channels: [8, 8, 8, 8]}\n"
                           "train: {epochs: 2, batch_size: 16}\n"
                           "tricks: {flip: {}, crop: {pad: 2}, ema: {}}\n"
                           "ablate: {ema: {train.weight_decay: 0.001}}\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_fixture fixture;
    char *text = fuzz_text(data, size);
    const char *lines[LINES];
    d9_arena arena = {0};
    d9_config_edits edits = {0};
    d9_config *config = NULL;
    const int count = d9_text_split(text, '\n', lines, LINES);
    fuzz_begin(&fixture);
    for (int i = 0; i < count; i++) {
        d9_config_edit edit = {.kind = D9_EDIT_SET, .text = lines[i]};
        if (!lines[i][0]) continue;
        if (lines[i][0] == '+') edit = (d9_config_edit){.kind = D9_EDIT_WITH, .text = lines[i] + 1};
        if (lines[i][0] == '-') edit = (d9_config_edit){.kind = D9_EDIT_WITHOUT, .text = lines[i] + 1};
        if (d9_config_edits_add(&fixture.context, &arena, &edits, edit) != D9_OK) abort();
    }
    const d9_status status = d9_config_parse(&fixture.context, "fuzz.yaml", base, &edits, &config);
    d9_arena_free(&fixture.context, &arena);
    fuzz_check_config(&fixture, status, config);
    fuzz_end(&fixture);
    free(text);
    return 0;
}
