/* SHA-1 and SHA-256, computed by libmd. Published checksums of files may be either; records have SHA-256. */
#pragma once

#include <stddef.h>

typedef struct d9_bytes {
    const void *bytes;
    size_t size;
} d9_bytes;

void d9_sha1_hex(const void *bytes, size_t size, char hex[41]);
void d9_sha256_hex(const d9_bytes *parts, int count, char hex[65]); /* hash of the concatenated parts */
