/* The table of the engine's file and memory calls, and the functions built on it; also clocks. Libraries, and calls
 * without an entry, bypass the table. Tests replace entries to inject faults. Failures follow POSIX: -1 and errno. */
#pragma once

#include "core/context.h"
#include <sys/stat.h>
#include <sys/types.h>

typedef struct d9_system {
    void *user;
    void *(*allocate)(void *user, size_t alignment, size_t bytes); /* zeroed; NULL if memory runs out */
    void (*release)(void *user, void *pointer);
    int (*open)(void *user, const char *path, int flags, int mode);
    ssize_t (*read)(void *user, int file, void *bytes, size_t size);
    ssize_t (*write)(void *user, int file, const void *bytes, size_t size);
    int (*truncate)(void *user, int file, int64_t size);
    int (*sync)(void *user, int file);
    int (*close)(void *user, int file);
    int (*file_stat)(void *user, int file, struct stat *state);
    int (*stat)(void *user, const char *path, struct stat *state);
    int (*rename)(void *user, const char *from, const char *to);
    int (*remove)(void *user, const char *path);
    int (*make_directory)(void *user, const char *path, int mode);
    /* Takes an exclusive lock without waiting. EWOULDBLOCK: held already; ESTALE: `path` no longer names `file`. */
    int (*lock)(void *user, int file, const char *path);
} d9_system;

const d9_system *d9_system_default(void);

/* Allocates zeroed, 64-byte aligned memory. If memory runs out, returns D9_DEVICE and names the size and `purpose`. */
D9_MUST_USE d9_status d9_allocate(d9_context *context, size_t bytes, const char *purpose, void **pointer);
/* Allocates `count` items of the type that `*pointer` points at: `float *x; D9_TRY(D9_ALLOCATE(context, count, "x",
 * &x));`. A size in bytes that overflows size_t counts as out of memory. */
#define D9_ALLOCATE(context, count, purpose, pointer)                                                                  \
    d9_allocate_items((context), (size_t)(count), sizeof **(pointer), (purpose), (pointer))
D9_MUST_USE d9_status d9_allocate_items(d9_context *context, size_t count, size_t item_bytes, const char *purpose,
                                        void *pointer); /* address of a pointer to any object type */
void d9_release(d9_context *context, void *pointer);    /* NULL is ignored */
/* Ensures space for `more` items after the first `count` of the array `*items`, whose capacity is `*capacity` items (0
 * if it is NULL). If the space is too small, the items move to an array of at least twice the capacity. */
#define D9_GROW(context, count, more, purpose, capacity, items)                                                        \
    d9_grow_items((context), (size_t)(count), (size_t)(more), sizeof **(items), (purpose), (capacity), (items))
D9_MUST_USE d9_status d9_grow_items(d9_context *context, size_t count, size_t more, size_t item_bytes,
                                    const char *purpose, size_t *capacity, void *items);

/* Size limits in bytes for reading a file, by its content: small files, such as texts, plans and logs; records of runs
 * and experiments, which grow with the number of epochs and runs; images, corpora and published data files; tensors. */
#define D9_TEXT_MAX_BYTES    ((size_t)16 << 20)
#define D9_RECORD_MAX_BYTES  ((size_t)1 << 30)
#define D9_IMAGE_MAX_BYTES   ((size_t)1 << 30)
#define D9_TENSORS_MAX_BYTES ((size_t)64 << 30)

/* Reads a whole file and appends one zero byte; free `*bytes` with d9_release. Returns D9_DATA, with the path, if the
 * file is missing, unreadable, not a regular file or larger than `most` bytes. A FIFO does not block it. */
D9_MUST_USE d9_status d9_file_read_limited(d9_context *context, const char *path, size_t most, uint8_t **bytes,
                                           size_t *size);
/* d9_file_read_limited with a limit of D9_TEXT_MAX_BYTES bytes. */
D9_MUST_USE d9_status d9_file_read(d9_context *context, const char *path, uint8_t **bytes, size_t *size);

/* Writes a temporary file beside the target, syncs it and renames it: a reader sees either the old or the new file. An
 * existing file keeps its permissions, and a symbolic link to one stays a link. Returns D9_OUTPUT on failure. */
D9_MUST_USE d9_status d9_file_write(d9_context *context, const char *path, const void *bytes, size_t size);
/* d9_file_write without fsync, for files that are rewritten often: a power failure may lose the content. */
D9_MUST_USE d9_status d9_file_write_unsynced(d9_context *context, const char *path, const void *bytes, size_t size);
/* Checks that a file can be written to `path`, before a long computation whose result goes there. Returns D9_OUTPUT,
 * with the message of d9_file_write, if not. Leaves no file. NULL: D9_OK. */
D9_MUST_USE d9_status d9_file_check_writable(d9_context *context, const char *path);

/* Appends to a file, created if missing. If writing or closing fails: D9_OUTPUT, and the append is undone or a warning
 * logged. */
D9_MUST_USE d9_status d9_file_append(d9_context *context, const char *path, const void *bytes, size_t size);

/* Locks the file `path`, created if missing, for this process and writes the process number into it. `*lock` is its
 * descriptor, or -1, with D9_OK, if the lock is held already. The kernel frees the lock of a process that died. A
 * symbolic link, or a file that contains anything but a number, is left unchanged. Returns D9_OUTPUT on failure. */
D9_MUST_USE d9_status d9_lock_take(d9_context *context, const char *path, int *lock);
/* Number of the process that last took the lock; 0 if unknown. */
int64_t d9_lock_holder(d9_context *context, const char *path);
/* Frees the lock and removes the file; a `lock` of -1 is ignored. In a child of fork, whose parent keeps the lock, it
 * only closes the descriptor. */
void d9_lock_free(d9_context *context, const char *path, int lock);
/* True if any process, this one included, holds the lock. Creates no file; holds a free lock for a moment. */
bool d9_lock_is_held(d9_context *context, const char *path);

/* True if `path` exists, or if stat fails for any other reason than a missing path: opening the file then reports the
 * reason. */
bool d9_file_exists(d9_context *context, const char *path);
/* Sets *found to whether `path` exists. Returns `failure`, with the reason, if that cannot be known, for example
 * without the permission to search a folder. For callers that report that a file exists or is missing and do not open
 * it. */
D9_MUST_USE d9_status d9_file_find(d9_context *context, d9_status failure, const char *path, bool *found);
bool d9_folder_exists(d9_context *context, const char *path); /* true for a folder or a link to one */
/* True if both results of stat describe the same file. */
bool d9_same_file(const struct stat *a, const struct stat *b);

/* Seconds of the monotonic clock. */
double d9_clock_now(void);
/* Seconds since 1970: for time stamps, never for durations. */
double d9_clock_wall(void);

/* Returns D9_OUTPUT if `path` exists and is not a folder, or if that cannot be known. D9_OK if it is missing. Creates
 * nothing. */
D9_MUST_USE d9_status d9_directory_check(d9_context *context, const char *path);
/* Creates a folder and its missing parents, as mkdir -p. Returns D9_OUTPUT on failure. */
D9_MUST_USE d9_status d9_directory_make(d9_context *context, const char *path);
