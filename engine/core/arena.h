/* An arena: many small allocations that are freed together. Its memory is zeroed and 16-byte aligned. A zeroed d9_arena
 * is empty. A function that fails returns D9_DEVICE: memory ran out, or a text could not be formatted. */
#pragma once

#include "core/context.h"

typedef struct d9_arena {
    struct d9_arena_block *blocks; /* newest first */
} d9_arena;

D9_MUST_USE d9_status d9_arena_allocate(d9_context *context, d9_arena *arena, size_t bytes, void **pointer);
/* Allocates `count` items of the type that `*pointer` points at, as D9_ALLOCATE in core/system.h does. */
#define D9_ARENA_ALLOCATE(context, arena, count, pointer)                                                              \
    d9_arena_allocate_items((context), (arena), (size_t)(count), sizeof **(pointer), (pointer))
D9_MUST_USE d9_status d9_arena_allocate_items(d9_context *context, d9_arena *arena, size_t count, size_t item_bytes,
                                              void *pointer); /* address of a pointer to any object type */
/* Ensures space for one more item in the array `*items`, which has `count` items in an arena. A full array is copied to
 * an array of twice the capacity (16 items if `*capacity` is 0), and `*items` and `*capacity` are updated. */
#define D9_ARENA_GROW(context, arena, count, capacity, items)                                                          \
    d9_arena_grow((context), (arena), (size_t)(count), sizeof **(items), (capacity), (items))
D9_MUST_USE d9_status d9_arena_grow(d9_context *context, d9_arena *arena, size_t count, size_t item_bytes,
                                    int *capacity, void *items);
D9_MUST_USE d9_status d9_arena_copy(d9_context *context, d9_arena *arena, const char *text, char **copy);
/* Copies an array of `count` texts, and the texts themselves. */
D9_MUST_USE d9_status d9_arena_copy_all(d9_context *context, d9_arena *arena, const char *const *texts, int64_t count,
                                        const char *const **copies);
D9_MUST_USE d9_status d9_arena_format(d9_context *context, d9_arena *arena, char **text, const char *format, ...)
    D9_PRINTF(4, 5);
void d9_arena_free(d9_context *context, d9_arena *arena);
