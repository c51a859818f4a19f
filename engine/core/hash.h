/* SHA-1, for published dataset files, and SHA-256, for everything in records; computed by libmd. */
#pragma once

#include <stddef.h>

typedef struct d9_bytes {
    const void *bytes;
    size_t size;
} d9_bytes;

void d9_sha1_hex(const void *bytes, size_t size, char hex[41]);
void d9_sha256_hex(const d9_bytes *parts, int count, char hex[65]); /* hash of the concatenated parts */
