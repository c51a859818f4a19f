/* Hashes as lower-case hexadecimal text. */
#include "core/hash.h"

#include <sha1.h>
#include <sha2.h>

static void to_hex(const uint8_t *digest, int size, char *hex) {
    for (int i = 0; i < size; i++) {
        hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    hex[2 * size] = 0;
}

void d9_sha1_hex(const void *bytes, size_t size, char hex[41]) {
    SHA1_CTX state;
    uint8_t digest[SHA1_DIGEST_LENGTH];
    SHA1Init(&state);
    if (size > 0) SHA1Update(&state, bytes, size);
    SHA1Final(digest, &state);
    to_hex(digest, SHA1_DIGEST_LENGTH, hex);
}

void d9_sha256_hex(const d9_bytes *parts, int count, char hex[65]) {
    SHA2_CTX state;
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256Init(&state);
    for (int i = 0; i < count; i++)
        if (parts[i].size > 0) SHA256Update(&state, parts[i].bytes, parts[i].size);
    SHA256Final(digest, &state);
    to_hex(digest, SHA256_DIGEST_LENGTH, hex);
}
