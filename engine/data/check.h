/* Published files whose checksums are verified while something else goes on: see check.c. */
#ifndef D9_DATA_CHECK_H
#define D9_DATA_CHECK_H

#include "data/source.h"

typedef struct d9_check d9_check;

/* Takes over the bytes of a file that was read; one without a published sum is released at once. */
D9_MUST_USE d9_status d9_check_add(d9_context *context, d9_dataset *dataset, const d9_dataset_file *file,
                                   const char *path, uint8_t *bytes, size_t size);
/* Begins to sum what was added; nothing may be added any more. d9_dataset_settle ends it. */
void d9_check_start(d9_dataset *dataset);
/* Ends it unheard. */
void d9_check_free(d9_context *context, d9_dataset *dataset);

#endif
