/* SHA-1 and SHA-256, computed by libmd, and FNV-1a. Published checksums of files may be either SHA; records have
 * SHA-256. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct d9_bytes {
    const void *bytes;
    size_t size;
} d9_bytes;

void d9_sha1_hex(const void *bytes, size_t size, char hex[41]);
void d9_sha256_hex(const d9_bytes *parts, int count, char hex[65]); /* hash of the concatenated parts */

static inline uint32_t d9_fnv1a(const char *text) { /* the 32-bit FNV-1a hash */
    uint32_t hash = 0x811c9dc5;
    for (; *text; text++) hash = (hash ^ (uint8_t)*text) * 0x01000193;
    return hash;
}
