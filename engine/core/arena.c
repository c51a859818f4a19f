/* The arena: a list of blocks, each filled from its start. */
#include "core/arena.h"
#include "core/system.h"

#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 16, BLOCK_BYTES = 16 * 1024 };

struct d9_arena_block {
    struct d9_arena_block *next;
    size_t used, capacity; /* bytes after the header */
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

static d9_status add_block(d9_context *context, d9_arena *arena, size_t bytes) {
    size_t capacity = bytes > BLOCK_BYTES / 2 ? bytes : BLOCK_BYTES - sizeof(struct d9_arena_block);
    struct d9_arena_block *block; /* the header followed by `capacity` bytes */
    d9_status status = d9_allocate_items(context, 1, sizeof *block + capacity, "an arena", &block);
    if (status != D9_OK) return status;
    block->capacity = capacity;
    block->next = arena->blocks;
    arena->blocks = block;
    return D9_OK;
}

d9_status d9_arena_allocate(d9_context *context, d9_arena *arena, size_t bytes, void **pointer) {
    *pointer = NULL;
    if (bytes > SIZE_MAX / 2) return d9_fail(context, D9_DEVICE, "out of memory: %zu bytes for an arena", bytes);
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (bytes == 0) bytes = ALIGNMENT;
    struct d9_arena_block *block = arena->blocks;
    if (!block || block->capacity - block->used < bytes) {
        d9_status status = add_block(context, arena, bytes);
        if (status != D9_OK) return status;
        block = arena->blocks;
    }
    *pointer = block->bytes + block->used;
    block->used += bytes;
    return D9_OK;
}

d9_status d9_arena_allocate_items(d9_context *context, d9_arena *arena, size_t count, size_t item_bytes,
                                  void *pointer) {
    void *items = NULL;
    const size_t bytes = count > SIZE_MAX / item_bytes ? SIZE_MAX : count * item_bytes;
    const d9_status status = d9_arena_allocate(context, arena, bytes, &items);
    memcpy(pointer, &items, sizeof items); /* on Linux, all object pointers have the same representation */
    return status;
}

d9_status d9_arena_grow(d9_context *context, d9_arena *arena, size_t count, size_t item_bytes, int *capacity,
                        void *items) {
    void *before, *larger;
    const int wanted = *capacity ? 2 * *capacity : 16;
    if (count < (size_t)*capacity) return D9_OK;
    d9_status status = d9_arena_allocate(context, arena, (size_t)wanted * item_bytes, &larger);
    if (status != D9_OK) return status;
    memcpy(&before, items, sizeof before);
    if (count) memcpy(larger, before, count * item_bytes);
    memcpy(items, &larger, sizeof larger);
    *capacity = wanted;
    return D9_OK;
}

d9_status d9_arena_copy(d9_context *context, d9_arena *arena, const char *text, char **copy) {
    const size_t size = strlen(text) + 1;
    d9_status status = D9_ARENA_ALLOCATE(context, arena, size, copy);
    if (status == D9_OK) memcpy(*copy, text, size);
    return status;
}

d9_status d9_arena_copy_all(d9_context *context, d9_arena *arena, const char *const *texts, int64_t count,
                            const char *const **copies) {
    char **made;
    d9_status status = D9_ARENA_ALLOCATE(context, arena, count, &made);
    for (int64_t i = 0; i < count && status == D9_OK; i++) status = d9_arena_copy(context, arena, texts[i], &made[i]);
    if (status == D9_OK) *copies = (const char *const *)made;
    return status;
}

d9_status d9_arena_format(d9_context *context, d9_arena *arena, char **text, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    d9_status status = D9_OK;
    *text = NULL;
    if (length < 0) status = d9_fail(context, D9_DEVICE, "a text could not be formatted");
    if (status == D9_OK) status = D9_ARENA_ALLOCATE(context, arena, length + 1, text);
    if (status == D9_OK) vsnprintf(*text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    return status;
}

void d9_arena_free(d9_context *context, d9_arena *arena) {
    while (arena->blocks) {
        struct d9_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        d9_release(context, block);
    }
}
