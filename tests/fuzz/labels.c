/* CSV tables of labels. The input's first byte chooses the options: bit 0 several labels, bit 1 groups, bit 2 a column
 * for the split; the rest is the table. Every row that is read has a file, existing labels and a part of the split. */
#include "data/labels.h"
#include "tests/fuzz/support/fuzz.h"

static void check_rows(const d9_label_table *table, bool several) {
    for (int64_t i = 0; i < table->count; i++) {
        const d9_label_row *row = &table->rows[i];
        fuzz_require(row->file[0] && row->line > 1, "a row has a file and a line");
        fuzz_require(row->part >= 0 && row->part < D9_PARTS, "a row has a part");
        fuzz_require(several ? row->label >= 0 && (int64_t)row->label >> table->classes == 0
                             : row->label >= 0 && row->label < table->classes,
                     "a row's labels exist");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_fixture fixture;
    d9_arena arena = {0};
    d9_label_table table = {0};
    if (size < 1) return 0;
    const bool several = data[0] & 1;
    const d9_dataset_options options = {.multi_label = several,
                                        .file_column = "f",
                                        .label_column = "l",
                                        .group_column = data[0] & 2 ? "g" : NULL,
                                        .split_column = data[0] & 4 ? "s" : NULL,
                                        .separator = "|",
                                        .no_label = "none",
                                        .shares = {0.5, 0.25, 0.25}};
    char *text = fuzz_allocate(size);
    memcpy(text, data + 1, size - 1);
    fuzz_begin(&fixture);
    d9_faults faults = {.context = &fixture.context, .arena = &arena, .file = "l.csv"};
    d9_status status = d9_labels_read(&faults, &options, text, size - 1, &table);
    if (status == D9_OK) check_rows(&table, several);
    if (status == D9_OK) status = d9_faults_report(&faults, false);
    fuzz_require((status == D9_OK) == (faults.count == 0 && fixture.context.status == D9_OK), "a fault is an error");
    fuzz_check_status(&fixture, status);
    d9_arena_free(&fixture.context, &arena);
    free(text);
    fuzz_end(&fixture);
    return 0;
}
