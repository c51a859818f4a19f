/* Strict reader of zip archives of stored files.
 *
 *     for each file: a local header of 30 bytes, name, extra field, the bytes
 *     the directory: for each file 46 bytes (checksum, size, offset of its local header), name, extra field
 *     22 bytes: offset, size and number of entries of the directory
 *
 * Sizes and offsets have 32 bits; the records for larger archives, which torch.save adds before the last 22 bytes, are
 * skipped. Source: PKWARE's APPNOTE.TXT, section 4.3. */
#include "record/zip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL = 30, ENTRY = 46, END = 22, ENCRYPTED = 1 };
static const uint8_t local_mark[4] = "PK\3\4", entry_mark[4] = "PK\1\2", end_mark[4] = "PK\5\6";

static size_t read_2(const uint8_t *bytes) { return (size_t)(bytes[0] | bytes[1] << 8); }
static size_t read_4(const uint8_t *bytes) { return read_2(bytes) | read_2(bytes + 2) << 16; }

bool d9_is_zip(const uint8_t *bytes, size_t size) {
    return size >= sizeof local_mark && memcmp(bytes, local_mark, sizeof local_mark) == 0;
}

typedef struct reader {
    d9_context *context;
    d9_arena *arena;
    const char *path;
    const uint8_t *bytes;
    size_t size; /* of the archive up to its directory */
} reader;

static d9_status fail_zip(const reader *reader, const char *what) {
    return d9_fail(reader->context, D9_DATA, "%s: %s", reader->path, what);
}

/* Finds the bytes of a directory entry's file. The caller has checked that the entry's 46 bytes and name are in
 * bounds. */
static d9_status locate_file(const reader *reader, const uint8_t *entry, d9_zip_file *file) {
    d9_status status;
    char *name;
    const size_t flags = read_2(entry + 8), method = read_2(entry + 10), packed = read_4(entry + 20),
                 size = read_4(entry + 24), length = read_2(entry + 28), at = read_4(entry + 42);
    D9_TRY(D9_ARENA_ALLOCATE(reader->context, reader->arena, length + 1, &name));
    memcpy(name, entry + ENTRY, length);
    if (method != 0 || packed != size || flags & ENCRYPTED)
        D9_TRY(
            d9_fail(reader->context, D9_DATA, "%s: %s is compressed or encrypted, must be stored", reader->path, name));
    if (at > reader->size || reader->size - at < LOCAL || memcmp(reader->bytes + at, local_mark, 4) != 0)
        D9_TRY(d9_fail(reader->context, D9_DATA, "%s: %s has no local header", reader->path, name));
    const size_t begin = at + LOCAL + read_2(reader->bytes + at + 26) + read_2(reader->bytes + at + 28);
    if (begin > reader->size || reader->size - begin < size)
        D9_TRY(d9_fail(reader->context, D9_DATA, "%s: %s ends behind the archive's files", reader->path, name));
    *file = (d9_zip_file){name, reader->bytes + begin, size};
done:
    return status;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const d9_zip_file *)a)->name, ((const d9_zip_file *)b)->name);
}

/* Reads the directory of `size` bytes. The files' sizes may not add up to more than the archive, which bounds the time
 * for checksums of files that overlap. */
static d9_status read_directory(const reader *reader, const uint8_t *directory, size_t size, d9_zip *zip) {
    d9_status status = D9_OK;
    size_t at = 0, total = 0;
    for (int i = 0; i < zip->count; i++) {
        if (size - at < ENTRY || memcmp(directory + at, entry_mark, 4) != 0)
            D9_TRY(fail_zip(reader, "damaged directory of a zip archive"));
        const uint8_t *entry = directory + at;
        const size_t length = ENTRY + read_2(entry + 28) + read_2(entry + 30) + read_2(entry + 32);
        if (size - at < length) D9_TRY(fail_zip(reader, "damaged directory of a zip archive"));
        D9_TRY(locate_file(reader, entry, &zip->files[i]));
        const d9_zip_file *file = &zip->files[i];
        total += file->size;
        if (total > reader->size) D9_TRY(fail_zip(reader, "files of the zip archive overlap"));
        if (crc32_z(0, file->bytes, file->size) != read_4(entry + 16))
            D9_TRY(d9_fail(reader->context, D9_DATA, "%s: damaged: %s has another checksum", reader->path, file->name));
        at += length;
    }
    qsort(zip->files, (size_t)zip->count, sizeof *zip->files, by_name);
    for (int i = 1; i < zip->count; i++)
        if (by_name(&zip->files[i - 1], &zip->files[i]) == 0)
            D9_TRY(d9_fail(reader->context, D9_DATA, "%s: %s occurs twice", reader->path, zip->files[i].name));
done:
    return status;
}

d9_status d9_zip_open(d9_context *context, d9_arena *arena, const char *path, const uint8_t *bytes, size_t size,
                      d9_zip *zip) {
    d9_status status;
    reader reader = {context, arena, path, bytes, size};
    const uint8_t *end = size < END ? NULL : bytes + size - END;
    *zip = (d9_zip){0};
    if (!d9_is_zip(bytes, size) || !end || memcmp(end, end_mark, sizeof end_mark) != 0)
        return fail_zip(&reader, "truncated, or not a zip archive without a comment");
    const size_t count = read_2(end + 10), length = read_4(end + 12), at = read_4(end + 16);
    if (count == 0xffff || at == 0xffffffff) return fail_zip(&reader, "a zip archive of 4 GiB or 65535 files, or more");
    if (at > size - END || size - END - at < length || read_2(end + 8) != count)
        return fail_zip(&reader, "damaged end of a zip archive");
    reader.size = at;
    zip->count = (int)count;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, count + 1, &zip->files));
    D9_TRY(read_directory(&reader, bytes + at, length, zip));
done:
    return status;
}

const d9_zip_file *d9_zip_find(const d9_zip *zip, const char *name) {
    const d9_zip_file key = {.name = name};
    return bsearch(&key, zip->files, (size_t)zip->count, sizeof key, by_name);
}
