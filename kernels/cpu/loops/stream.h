/* Non-temporal stores, for arrays too large to stay in a cache until they are read again: a cache line is not read
 * before it is written, and other data are not evicted. */
#pragma once

#include <stdint.h>
#include <string.h>

enum { D9_LINE = 64 };

#ifdef __SSE2__
#include <immintrin.h>
/* Makes the non-temporal stores visible before later stores. */
static inline void d9_stream_end(void) { _mm_sfence(); }
#else
static inline void d9_stream_end(void) {}
#endif

/* Stores D9_STREAM_BYTES bytes or half of them; `bytes` is a compile-time constant, and `to` is aligned to it. */
#if defined(__AVX512F__)
static inline void d9_stream_vector(const void *from, int bytes, char *to) {
    if (bytes == 64)
        _mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
    else
        _mm256_stream_si256((__m256i *)(void *)to, _mm256_loadu_si256(from));
}
enum { D9_STREAM_BYTES = 64 };
#elif defined(__AVX2__)
static inline void d9_stream_vector(const void *from, int bytes, char *to) {
    if (bytes == 32)
        _mm256_stream_si256((__m256i *)(void *)to, _mm256_loadu_si256(from));
    else
        _mm_stream_si128((__m128i *)(void *)to, _mm_loadu_si128(from));
}
enum { D9_STREAM_BYTES = 32 };
#elif defined(__SSE2__)
static inline void d9_stream_vector(const void *from, int bytes, char *to) {
    if (bytes == 16)
        _mm_stream_si128((__m128i *)(void *)to, _mm_loadu_si128(from));
    else
        memcpy(to, from, (size_t)bytes);
}
enum { D9_STREAM_BYTES = 16 };
#else
static inline void d9_stream_vector(const void *from, int bytes, char *to) { memcpy(to, from, (size_t)bytes); }
enum { D9_STREAM_BYTES = 16 };
#endif

static inline void d9_stream_line(const char *from, char *to) {
    for (int i = 0; i < D9_LINE; i += D9_STREAM_BYTES) d9_stream_vector(from + i, D9_STREAM_BYTES, to + i);
}

/* Uses ordinary stores unless `to` and `bytes` are multiples of a cache line. */
static inline void d9_stream(const void *from, int64_t bytes, char *to) {
    if (((uintptr_t)to | (uintptr_t)bytes) % D9_LINE)
        memcpy(to, from, (size_t)bytes);
    else
        for (int64_t i = 0; i < bytes; i += D9_LINE) d9_stream_line((const char *)from + i, to + i);
}
