/* The one table through which every file and memory call of the engine goes. Tests replace entries to
 * plant faults: a full disk, a short read, an allocation that fails. Semantics are POSIX's: -1 and errno. */
#ifndef D9_CORE_SYSTEM_H
#define D9_CORE_SYSTEM_H

#include "core/context.h"
#include <sys/stat.h>
#include <sys/types.h>

typedef struct d9_system {
    void *user;
    void *(*allocate)(void *user, size_t alignment, size_t bytes); /* zeroed; NULL when there is no more */
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
    int (*lock)(void *user, int file, const char *path); /* for this process alone, at once or never: EWOULDBLOCK where
                                            another holds it; ESTALE where `path` no longer names `file` */
} d9_system;

const d9_system *d9_system_default(void);

/* Memory: zeroed, 64-byte aligned. A failure says how much was asked for and what for. */
D9_MUST_USE d9_status d9_allocate(d9_context *context, size_t bytes, const char *purpose, void **pointer);
/* `count` items of the type that `*pointer` points at: `float *x; D9_TRY(D9_ALLOCATE(context, count, "x", &x));`. A
 * count that no memory can hold fails as any other that is too large. */
#define D9_ALLOCATE(context, count, purpose, pointer)                                                                  \
    d9_allocate_items((context), (size_t)(count), sizeof **(pointer), (purpose), (pointer))
D9_MUST_USE d9_status d9_allocate_items(d9_context *context, size_t count, size_t item_bytes, const char *purpose,
                                        void *pointer); /* the address of a pointer to any object */
void d9_release(d9_context *context, void *pointer);    /* NULL is fine */

/* The most bytes that are read of a file, by what it holds: what people write and records; a picture, an archive or a
 * published data file; tensors. */
#define D9_TEXT_MOST    ((size_t)16 << 20)
#define D9_PICTURE_MOST ((size_t)1 << 30)
#define D9_TENSORS_MOST ((size_t)64 << 30)

/* Reads a whole file (one zero byte follows the contents). Missing, unreadable, not a regular file (a FIFO, a device)
 * or larger than `most`: D9_DATA, naming the path, and at once. */
D9_MUST_USE d9_status d9_file_read_most(d9_context *context, const char *path, size_t most, uint8_t **bytes,
                                        size_t *size);
/* The same of at most D9_TEXT_MOST bytes. */
D9_MUST_USE d9_status d9_file_read(d9_context *context, const char *path, uint8_t **bytes, size_t *size);

/* Writes beside the target and renames: a reader sees the old file or the whole new one. Failure: D9_OUTPUT. */
D9_MUST_USE d9_status d9_file_write(d9_context *context, const char *path, const void *bytes, size_t size);
/* The same of what will soon be written again: nobody waits for the disk, and a power failure may lose it. */
D9_MUST_USE d9_status d9_file_show(d9_context *context, const char *path, const void *bytes, size_t size);
/* Whether a file can be written there, before hours are spent on what it will hold: D9_OUTPUT, as d9_file_write would
 * say it. Leaves nothing. NULL: D9_OK. */
D9_MUST_USE d9_status d9_file_check_place(d9_context *context, const char *path);

/* Appends one record to a file, created when missing. Failure: D9_OUTPUT, and the file is as it was. */
D9_MUST_USE d9_status d9_file_append(d9_context *context, const char *path, const void *bytes, size_t size);

/* Takes `path`, a file made for the purpose, for this process alone, and writes this process's number into it. `*lock`
 * is -1, and the status D9_OK, where another process holds it. The kernel frees what a dead process held. A link,
 * or a file that holds anything but a process's number, stays as it is. Failure: D9_OUTPUT. */
D9_MUST_USE d9_status d9_lock_take(d9_context *context, const char *path, int *lock);
/* The number that the last one who took it has written; 0: none. */
int64_t d9_lock_holder(d9_context *context, const char *path);
/* Frees it and removes the file; -1 is fine. */
void d9_lock_free(d9_context *context, const char *path, int lock);
/* Whether another process holds it; nothing is made. For a moment this process holds it itself. */
bool d9_lock_is_held(d9_context *context, const char *path);

/* Or a folder of that name. Also where the system does not tell: whoever opens the file then learns why. */
bool d9_file_exists(d9_context *context, const char *path);
bool d9_folder_exists(d9_context *context, const char *path); /* a folder, or a link to one */
/* Of what a system says of two names: whether they are one file. */
bool d9_same_file(const struct stat *a, const struct stat *b);

/* Monotonic seconds. */
double d9_clock_now(void);
/* Seconds since 1970: for what says when it was written, never for a duration. */
double d9_clock_wall(void);

/* Whether a folder is there, or nothing that is in its way: a file of that name is D9_OUTPUT. Makes nothing. */
D9_MUST_USE d9_status d9_directory_check(d9_context *context, const char *path);
/* mkdir -p. Failure: D9_OUTPUT. */
D9_MUST_USE d9_status d9_directory_make(d9_context *context, const char *path);

#endif
