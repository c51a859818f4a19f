/* What the fuzz targets share: a context over a system that holds its files in memory and counts what it handed out,
 * and the properties that every refusal has.
 *
 *   fuzz_begin(&bench); fuzz_put(&bench, "run/result.json", bytes, size); ... fuzz_end(&bench);
 *
 * A property that does not hold ends the process, so that libFuzzer keeps the input. */
#ifndef D9_TESTS_FUZZ_H
#define D9_TESTS_FUZZ_H

#include "core/system.h"

enum { FUZZ_FILES = 128, FUZZ_PATH = 128, FUZZ_MEMORY = 64 << 20 };

typedef struct fuzz_file {
    char path[FUZZ_PATH]; /* empty: none */
    bool folder, open;
    uint8_t *bytes; /* by malloc */
    size_t size, at;
} fuzz_file;

typedef struct fuzz_bench {
    d9_context context;
    d9_system system;
    fuzz_file files[FUZZ_FILES]; /* [1] is standard output */
    int64_t blocks, bytes;       /* allocated and not released; beyond FUZZ_MEMORY there is no more */
} fuzz_bench;

void fuzz_begin(fuzz_bench *bench);
/* Nothing is left of what was allocated or opened. */
void fuzz_end(fuzz_bench *bench);

void fuzz_put(fuzz_bench *bench, const char *path, const void *bytes, size_t size);
fuzz_file *fuzz_find(fuzz_bench *bench, const char *path); /* NULL: there is none */

/* The next part of an input whose parts end at a byte 255, which no text has: the rest where there is none. False:
 * there was nothing left. */
bool fuzz_part(const uint8_t **data, size_t *size, const uint8_t **part, size_t *part_size);
char *fuzz_text(const uint8_t *bytes, size_t size); /* with a zero behind it, by malloc */

/* A refusal: its status is one of those that the interface promises, its message one printable line. It is cleared. */
void fuzz_check_refusal(fuzz_bench *bench, d9_status status);

/* A safetensors file: what stands before the byte 255 as its header, with the length put before it, and the data; an
 * input without such a byte as it is. By malloc. */
uint8_t *fuzz_tensors(const uint8_t *data, size_t size, size_t *file_size);
/* The input that gives this file; returns its size, which is not above the file's. */
size_t fuzz_split(const uint8_t *file, size_t file_size, uint8_t *data);

void fuzz_require(bool holds, const char *what);

#endif
