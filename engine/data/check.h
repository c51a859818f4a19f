/* Verifies checksums of published files on a background thread; see check.c. */
#pragma once

#include "data/source.h"

typedef struct d9_check d9_check;

/* Takes ownership of `bytes`, the content of `file`; frees them at once if `file` has no published checksum. */
D9_MUST_USE d9_status d9_check_add(d9_context *context, d9_dataset *dataset, const d9_dataset_file *file,
                                   const char *path, uint8_t *bytes, size_t size);
/* Starts the thread; if that fails, computes the checksums before it returns. No file may be added after this. */
void d9_check_start(d9_dataset *dataset);
/* Waits for the thread, discards its result and frees the files. */
void d9_check_free(d9_context *context, d9_dataset *dataset);
