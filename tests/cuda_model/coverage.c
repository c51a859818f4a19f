/* Sorts the lines of coverage, and compares them with the table: see model.h. */
#include "core/system.h"
#include "core/text.h"
#include "tests/cuda_model/model.h"
#include "tests/support/test.h"

enum { MOST = 256 };

static int compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Writes the lines of `text` that have this kind to *sorted, in order. Modifies `text`. */
static void collect(char *text, const char *kind, d9_text *sorted) {
    char *lines[MOST], *rest = text;
    int count = 0;
    const size_t size = strlen(kind);
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, kind, size) != 0 || line[size] != '\t') continue;
        assert_true(count < MOST);
        lines[count++] = line;
    }
    qsort(lines, (size_t)count, sizeof *lines, compare);
    d9_text_init(&context, sorted);
    for (int i = 0; i < count; i++) d9_text_add(sorted, "%s\n", lines[i]);
    OK(d9_text_status(sorted));
}

void coverage_check(const char *kind, const char *rows) {
    d9_text made, kept;
    uint8_t *table;
    char *copy = strdup(rows), path[1024];
    size_t size;
    assert_non_null(copy);
    OK(d9_file_read(&context, D9_SOURCE_DIR "/tests/cuda_model/coverage.tsv", &table, &size));
    collect(copy, kind, &made);
    collect((char *)table, kind, &kept);
    const bool equal = strcmp(d9_text_get(&made), d9_text_get(&kept)) == 0;
    snprintf(path, sizeof path, "%s/coverage-%s.tsv", D9_BINARY_DIR, kind);
    OK(d9_file_write(&context, path, d9_text_get(&made), made.size));
    d9_text_free(&made), d9_text_free(&kept), d9_release(&context, table), free(copy);
    if (!equal)
        fail_msg("tests/cuda_model/coverage.tsv is out of date: tests/cuda_model/coverage.sh BUILD replaces it by %s",
                 path);
}
