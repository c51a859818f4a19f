/* Common to the fuzz targets: a context whose system keeps files in memory and counts allocations, and checks of errors
 * and of round trips.
 *
 *   fuzz_begin(&fixture); fuzz_write_file(&fixture, "run/result.json", bytes, size); ... fuzz_end(&fixture);
 *
 * A violated property aborts the process, so that libFuzzer keeps the input. */
#pragma once

#include "core/system.h"
#include "record/effective.h"
#include "record/safetensors.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* the target */

enum { FUZZ_FILES = 128, FUZZ_PATH = 128, FUZZ_MEMORY = 64 << 20 }; /* files; bytes of a path; bytes allocated */

typedef struct fuzz_file {
    char path[FUZZ_PATH]; /* empty: unused */
    bool folder, open;
    uint8_t *bytes;  /* from malloc */
    size_t size, at; /* at: position of the next read or write */
} fuzz_file;

typedef struct fuzz_fixture {
    d9_context context;
    d9_system system;
    fuzz_file files[FUZZ_FILES]; /* [1] is standard output */
    int64_t blocks, bytes;       /* currently allocated; at most FUZZ_MEMORY bytes */
} fuzz_fixture;

void fuzz_begin(fuzz_fixture *fixture);
/* Frees the files; aborts the process if memory is still allocated or a file open. */
void fuzz_end(fuzz_fixture *fixture);

void fuzz_write_file(fuzz_fixture *fixture, const char *path, const void *bytes, size_t size);
fuzz_file *fuzz_find(fuzz_fixture *fixture, const char *path); /* NULL: no such file */

/* Splits off the next part of an input. A part ends at a byte 255 (texts never contain one) or at the end of the input.
 * False: nothing is left. */
bool fuzz_next_part(const uint8_t **data, size_t *size, const uint8_t **part, size_t *part_size);
char *fuzz_text(const uint8_t *bytes, size_t size); /* zero-terminated copy, to be freed with free */

/* True if the status is D9_OK. Otherwise the error must have a documented status and a message of one printable line,
 * and is cleared. */
bool fuzz_check_status(fuzz_fixture *fixture, d9_status status);

/* Makes a safetensors file of an input: bytes before the first byte 255 are the header, whose length is prepended, and
 * the rest is data. An input without a byte 255 is the file. Free the result with free. */
uint8_t *fuzz_make_tensors_file(const uint8_t *data, size_t size, size_t *file_size);
/* Writes to `data` the input from which fuzz_make_tensors_file makes this file. Returns the input's size, 7 bytes less
 * than the file's. */
size_t fuzz_input_of_tensors(const uint8_t *file, size_t file_size, uint8_t *data);

/* Encodes the tensors of `file`, which a fuzz target has decoded, and decodes the result: it must have the same tensors
 * and metadata. Encoding may also fail with `other_status`; D9_OK: it must not fail. */
void fuzz_round_trip(fuzz_fixture *fixture, const d9_safetensors *file, d9_status other_status);
/* Checks the result of parsing a configuration, and frees it. `config` NULL: it was rejected. An accepted one, printed
 * with or without origins, must parse to the same configuration and hash; it must convert to JSON; its program must be
 * built, or rejected with a message. */
void fuzz_check_config(fuzz_fixture *fixture, d9_status status, d9_config *config);

/* Prints `what`, the property that was checked, and aborts the process unless `holds`. */
void fuzz_require(bool holds, const char *what);
void *fuzz_allocate(size_t size); /* zeroed, to be freed with free, never NULL; not counted in `blocks` and `bytes` */
