/* Marks memory for AddressSanitizer; does nothing without it. */
#pragma once

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define D9_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define D9_ASAN 1
#endif
#endif

#ifdef D9_ASAN
#include <sanitizer/asan_interface.h>
static inline void d9_memory_forbid(const void *from, size_t bytes) { __asan_poison_memory_region(from, bytes); }
static inline void d9_memory_allow(const void *from, size_t bytes) { __asan_unpoison_memory_region(from, bytes); }
#else
static inline void d9_memory_forbid(const void *from, size_t bytes) { (void)from, (void)bytes; }
static inline void d9_memory_allow(const void *from, size_t bytes) { (void)from, (void)bytes; }
#endif
