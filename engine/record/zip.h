/* Reader of zip archives whose files are stored without compression, as torch.save writes them. */
#pragma once

#include "core/arena.h"

typedef struct d9_zip_file {
    const char *name;     /* with its folders: "archive/data/0" */
    const uint8_t *bytes; /* points into the archive */
    size_t size;
} d9_zip_file;

typedef struct d9_zip {
    d9_zip_file *files; /* sorted by name */
    int count;
} d9_zip;

/* True if a file begins as a zip archive does. */
bool d9_is_zip(const uint8_t *bytes, size_t size);
/* Lists the files of an archive in memory, which must stay there; the list and names are allocated in `arena`. Checks
 * every checksum. D9_DATA: damaged, compressed, encrypted, of 4 GiB or 65535 files or more, or with a comment. */
D9_MUST_USE d9_status d9_zip_open(d9_context *context, d9_arena *arena, const char *path, const uint8_t *bytes,
                                  size_t size, d9_zip *zip);
const d9_zip_file *d9_zip_find(const d9_zip *zip, const char *name); /* NULL: absent */
