/* Marks memory for AddressSanitizer, and tells it of changes of stacks; does nothing without it. D9_ASAN: defined if
 * the program has AddressSanitizer, also in a file that is compiled without it. */
#pragma once

#include <stddef.h>

#if defined(D9_ASAN)
#elif defined(__SANITIZE_ADDRESS__)
#define D9_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define D9_ASAN 1
#endif
#endif

#ifdef D9_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
static inline void d9_memory_forbid(const void *from, size_t bytes) { __asan_poison_memory_region(from, bytes); }
static inline void d9_memory_allow(const void *from, size_t bytes) { __asan_unpoison_memory_region(from, bytes); }
/* The program is about to continue on the stack that begins at `bottom`; *fake keeps the state of the present one. */
static inline void d9_memory_leave(void **fake, const void *bottom, size_t bytes) {
    __sanitizer_start_switch_fiber(fake, bottom, bytes);
}
/* The program has arrived on a stack. fake: its kept state, NULL at first. *bottom, *bytes: the stack that it left. */
static inline void d9_memory_arrive(void *fake, const void **bottom, size_t *bytes) {
    __sanitizer_finish_switch_fiber(fake, bottom, bytes);
}
#else
static inline void d9_memory_forbid(const void *from, size_t bytes) { (void)from, (void)bytes; }
static inline void d9_memory_allow(const void *from, size_t bytes) { (void)from, (void)bytes; }
static inline void d9_memory_leave(void **fake, const void *bottom, size_t bytes) {
    (void)fake, (void)bottom, (void)bytes;
}
static inline void d9_memory_arrive(void *fake, const void **bottom, size_t *bytes) {
    (void)fake, (void)bottom, (void)bytes;
}
#endif
