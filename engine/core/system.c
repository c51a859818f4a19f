/* The default entries of the system table; the memory, file, lock and folder functions built on it; the clocks. */
#define _GNU_SOURCE /* gettid */
#include "core/system.h"
#include "core/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- the default table ---- */

enum { HUGE_PAGE = 2 << 20, ADDRESS = sizeof(void *) };

/* Stores the address of the block right before the pointer that is handed out, so that system_release finds it. */
static void *store_address(void *block, char *pointer) {
    memcpy(pointer - sizeof block, &block, sizeof block);
    return pointer;
}

/* The allocation ends where the block ends, so that a sanitizer detects any access beyond it. */
static void *allocate_small(size_t alignment, size_t bytes) {
    void *block;
    if (posix_memalign(&block, alignment, alignment + bytes) != 0) return NULL;
    memset(block, 0, alignment + bytes);
    return store_address(block, (char *)block + alignment);
}

/* The kernel zeroes each page when it is first touched: pages that are never touched cost nothing, and each page is
 * placed near the thread that touches it. Huge pages reduce TLB misses. */
static void *allocate_large(size_t bytes) {
    char *block = calloc(1, HUGE_PAGE + ADDRESS + bytes);
    if (!block) return NULL;
    char *pointer = block + ADDRESS + HUGE_PAGE - (uintptr_t)(block + ADDRESS) % HUGE_PAGE;
    (void)madvise(pointer, bytes, MADV_HUGEPAGE); /* optional: if it fails, only speed is lost */
    return store_address(block, pointer);
}

static void *system_allocate(void *user, size_t alignment, size_t bytes) {
    (void)user;
    return bytes < 2 * HUGE_PAGE ? allocate_small(alignment, bytes) : allocate_large(bytes);
}
static void system_release(void *user, void *pointer) {
    (void)user;
    void *block = NULL;
    if (pointer) memcpy(&block, (char *)pointer - sizeof block, sizeof block);
    free(block);
}
static int system_open(void *user, const char *path, int flags, int mode) {
    (void)user;
    return open(path, flags, mode);
}
static ssize_t system_read(void *user, int file, void *bytes, size_t size) {
    (void)user;
    return read(file, bytes, size);
}
static ssize_t system_write(void *user, int file, const void *bytes, size_t size) {
    (void)user;
    return write(file, bytes, size);
}
static int system_truncate(void *user, int file, int64_t size) {
    (void)user;
    return ftruncate(file, size);
}
static int system_sync(void *user, int file) {
    (void)user;
    return fsync(file);
}
static int system_close(void *user, int file) {
    (void)user;
    return close(file);
}
static int system_file_stat(void *user, int file, struct stat *state) {
    (void)user;
    return fstat(file, state);
}
static int system_stat(void *user, const char *path, struct stat *state) {
    (void)user;
    return stat(path, state);
}
static int system_rename(void *user, const char *from, const char *to) {
    (void)user;
    return rename(from, to);
}
static int system_remove(void *user, const char *path) {
    (void)user;
    return unlink(path);
}
static int system_make_directory(void *user, const char *path, int mode) {
    (void)user;
    return mkdir(path, (mode_t)mode);
}
bool d9_same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Fails with ESTALE if the last holder removed the file before it was locked here. */
static int system_lock(void *user, int file, const char *path) {
    struct stat held, named;
    if (flock(file, LOCK_EX | LOCK_NB) != 0) return -1;
    if (fstat(file, &held) == 0 && system_stat(user, path, &named) == 0 && d9_same_file(&held, &named)) return 0;
    errno = ESTALE;
    return -1;
}

const d9_system *d9_system_default(void) {
    static const d9_system table = {
        .allocate = system_allocate,
        .release = system_release,
        .open = system_open,
        .read = system_read,
        .write = system_write,
        .truncate = system_truncate,
        .sync = system_sync,
        .close = system_close,
        .file_stat = system_file_stat,
        .stat = system_stat,
        .rename = system_rename,
        .remove = system_remove,
        .make_directory = system_make_directory,
        .lock = system_lock,
    };
    return &table;
}

/* ---- memory ---- */

enum { MEMORY_ALIGNMENT = 64 };

d9_status d9_allocate(d9_context *context, size_t bytes, const char *purpose, void **pointer) {
    const d9_system *system = context->system;
    *pointer = bytes > SIZE_MAX / 2 ? NULL : system->allocate(system->user, MEMORY_ALIGNMENT, bytes ? bytes : 1);
    if (!*pointer) return d9_fail(context, D9_DEVICE, "out of memory: %zu bytes for %s", bytes, purpose);
    return D9_OK;
}

d9_status d9_allocate_items(d9_context *context, size_t count, size_t item_bytes, const char *purpose, void *pointer) {
    void *items = NULL;
    const size_t bytes = count > SIZE_MAX / item_bytes ? SIZE_MAX : count * item_bytes;
    const d9_status status = d9_allocate(context, bytes, purpose, &items);
    memcpy(pointer, &items, sizeof items); /* on Linux, all object pointers have the same representation */
    return status;
}

void d9_release(d9_context *context, void *pointer) {
    if (pointer) context->system->release(context->system->user, pointer);
}

d9_status d9_grow_items(d9_context *context, size_t count, size_t more, size_t item_bytes, const char *purpose,
                        size_t *capacity, void *items) {
    void *before, *larger;
    size_t wanted = *capacity ? *capacity : 64;
    if (more <= *capacity - count) return D9_OK;
    while (wanted - count < more) wanted *= 2;
    d9_status status = d9_allocate_items(context, wanted, item_bytes, purpose, &larger);
    if (status != D9_OK) return status;
    memcpy(&before, items, sizeof before);
    if (count) memcpy(larger, before, count * item_bytes);
    d9_release(context, before);
    memcpy(items, &larger, sizeof larger);
    *capacity = wanted;
    return D9_OK;
}

/* ---- files ---- */

static int open_file(const d9_system *system, const char *path, int flags) {
    int file;
    do file = system->open(system->user, path, flags | O_CLOEXEC, 0666);
    while (file < 0 && errno == EINTR);
    return file;
}

static int sync_file(const d9_system *system, int file) {
    int failed;
    do failed = system->sync(system->user, file);
    while (failed && errno == EINTR);
    return failed;
}

static int truncate_file(const d9_system *system, int file, int64_t size) {
    int failed;
    do failed = system->truncate(system->user, file, size);
    while (failed && errno == EINTR);
    return failed;
}

static d9_status fail_too_large(d9_context *context, const char *path, size_t most) {
    return d9_fail(context, D9_DATA, "%s: larger than %zu MiB, the limit for such a file", path, most >> 20);
}

/* Reads to the end of the file into a buffer that doubles when it is full. `hint`: expected size in bytes. */
static d9_status read_all(d9_context *context, const char *path, int file, size_t hint, size_t most, uint8_t **bytes,
                          size_t *size) {
    const d9_system *system = context->system;
    d9_status status = D9_OK;
    size_t capacity = hint + 2, used = 0; /* one byte to detect the end, one for the terminating zero */
    uint8_t *buffer = NULL, *larger;
    D9_TRY(D9_ALLOCATE(context, capacity, path, &buffer));
    for (;;) {
        ssize_t got = system->read(system->user, file, buffer + used, capacity - used - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) D9_TRY(d9_fail(context, D9_DATA, "%s: cannot read: %s", path, strerror(errno)));
        if (got == 0) break;
        used += (size_t)got;
        if (used > most) D9_TRY(fail_too_large(context, path, most));
        if (used + 1 < capacity) continue;
        D9_TRY(D9_ALLOCATE(context, capacity * 2, path, &larger));
        memcpy(larger, buffer, used);
        d9_release(context, buffer);
        buffer = larger;
        capacity *= 2;
    }
    buffer[used] = 0;
    *bytes = buffer;
    *size = used;
    buffer = NULL;
done:
    d9_release(context, buffer);
    return status;
}

d9_status d9_file_read_limited(d9_context *context, const char *path, size_t most, uint8_t **bytes, size_t *size) {
    const d9_system *system = context->system;
    d9_status status = D9_OK;
    struct stat state;
    *bytes = NULL;
    *size = 0;
    /* Without O_NONBLOCK, opening a FIFO that has no writer would block. */
    int file = open_file(system, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (file < 0) return d9_fail(context, D9_DATA, "%s: cannot open: %s", path, strerror(errno));
    if (system->file_stat(system->user, file, &state) != 0)
        D9_TRY(d9_fail(context, D9_DATA, "%s: cannot read: %s", path, strerror(errno)));
    if (!S_ISREG(state.st_mode) && !S_ISDIR(state.st_mode)) /* reading a folder fails with a clear message */
        D9_TRY(d9_fail(context, D9_DATA, "%s: cannot read: it is a pipe or a device, not a file", path));
    if ((uint64_t)state.st_size > most) D9_TRY(fail_too_large(context, path, most));
    /* Files in /proc report a size of 0. */
    status = read_all(context, path, file, state.st_size ? (size_t)state.st_size : 4096, most, bytes, size);
done:
    system->close(system->user, file);
    return status;
}

d9_status d9_file_read(d9_context *context, const char *path, uint8_t **bytes, size_t *size) {
    return d9_file_read_limited(context, path, D9_TEXT_MAX_BYTES, bytes, size);
}

/* Returns D9_OK if the call succeeded, else D9_OUTPUT with the reason from errno. */
static d9_status check_write(d9_context *context, const char *path, bool succeeded) {
    return succeeded ? D9_OK : d9_fail(context, D9_OUTPUT, "%s: cannot write: %s", path, strerror(errno));
}

static d9_status write_all(d9_context *context, const char *path, int file, const void *bytes, size_t size) {
    const d9_system *system = context->system;
    for (size_t done = 0; done < size;) {
        ssize_t put = system->write(system->user, file, (const uint8_t *)bytes + done, size - done);
        if (put < 0 && errno == EINTR) continue;
        if (put == 0) errno = ENOSPC;
        if (put <= 0) return check_write(context, path, false);
        done += (size_t)put;
    }
    return D9_OK;
}

static d9_status close_file(d9_context *context, const char *path, int file) {
    /* Linux closes the file even if close returns EINTR. */
    return check_write(context, path, context->system->close(context->system->user, file) == 0 || errno == EINTR);
}

/* Rejects targets that are not regular files before anything is written: renaming onto a folder would fail late, and
 * renaming onto a device would replace it. *mode (may be NULL) receives the target's permissions, -1: missing. */
static d9_status check_target(d9_context *context, const char *path, int *mode) {
    struct stat state;
    const bool found = context->system->stat(context->system->user, path, &state) == 0;
    if (mode) *mode = found ? (int)(state.st_mode & 0777) : -1;
    if (!found || S_ISREG(state.st_mode)) return D9_OK;
    return d9_fail(context, D9_OUTPUT, "%s: cannot write: %s", path,
                   S_ISDIR(state.st_mode) ? "it is a folder" : "it is a pipe or a device, not a file");
}

/* If `path` is a symbolic link to an existing file: the path of that file, to be freed with `free`. Otherwise NULL. */
static char *find_linked(const char *path) {
    struct stat state;
    return lstat(path, &state) == 0 && S_ISLNK(state.st_mode) ? realpath(path, NULL) : NULL;
}

/* Adds the path of a temporary file beside `path`: PATH.NUMBER.partial, because threads and processes may write to one
 * path at the same time. NUMBER is that of the thread, which containers that share the folder may have in common,
 * followed by nanoseconds. The file name of PATH is cut short if the new name would be longer than file systems
 * allow. */
static void add_partial_path(d9_text *text, const char *path) {
    char ending[40];
    struct timespec now;
    const char *name = d9_text_file_name(path);
    clock_gettime(CLOCK_REALTIME, &now);
    const int ending_length = snprintf(ending, sizeof ending, ".%ld%09ld.partial", (long)gettid(), (long)now.tv_nsec);
    const size_t most = NAME_MAX - (size_t)ending_length;
    size_t length = strlen(name);
    if (length > most && length <= NAME_MAX) /* a longer name is rejected by the system */
        for (length = most; length > 0 && (name[length] & 0xC0) == 0x80;) length--; /* not within a character */
    d9_text_add(text, "%.*s%s", (int)((size_t)(name - path) + length), path, ending);
}

/* Creates a temporary file beside `path`, whose path is added to `beside`, an empty text. Tries other numbers while
 * another process has a file of that name. */
static d9_status create_partial(d9_context *context, const char *path, d9_text *beside, int *file) {
    d9_status status;
    do {
        d9_text_free(beside);
        add_partial_path(beside, path);
        D9_TRY(d9_text_status(beside));
        *file = open_file(context->system, d9_text_get(beside), O_WRONLY | O_CREAT | O_EXCL);
    } while (*file < 0 && errno == EEXIST);
done:
    return status;
}

typedef enum write_mode { WRITE_SYNCED, WRITE_UNSYNCED, WRITE_TRIAL } write_mode;

/* Writes a temporary file beside the target (`path`, or the file that `path` links to), with the permissions of an
 * existing target, and renames it to the target; WRITE_TRIAL removes it instead. */
static d9_status write_and_rename(d9_context *context, const char *path, const void *bytes, size_t size,
                                  write_mode mode) {
    const d9_system *system = context->system;
    d9_status status = D9_OK;
    int file = -1, permissions;
    bool made = false;
    char *const linked = find_linked(path);
    const char *target = linked ? linked : path;
    d9_text beside;
    d9_text_init(context, &beside);
    D9_TRY(check_target(context, path, &permissions));
    D9_TRY(create_partial(context, target, &beside, &file));
    D9_TRY(check_write(context, path, file >= 0));
    made = true;
    if (permissions >= 0) (void)!fchmod(file, (mode_t)permissions); /* some file systems have no permissions */
    D9_TRY(write_all(context, path, file, bytes, size));
    if (mode != WRITE_UNSYNCED) D9_TRY(check_write(context, path, sync_file(system, file) == 0 || errno == EINVAL));
    int open = file;
    file = -1;
    D9_TRY(close_file(context, path, open));
    if (mode != WRITE_TRIAL)
        D9_TRY(check_write(context, path, system->rename(system->user, d9_text_get(&beside), target) == 0));
    made = mode == WRITE_TRIAL;
done:
    if (file >= 0) system->close(system->user, file);
    if (made) system->remove(system->user, d9_text_get(&beside));
    d9_text_free(&beside);
    free(linked);
    return status;
}

d9_status d9_file_write(d9_context *context, const char *path, const void *bytes, size_t size) {
    return write_and_rename(context, path, bytes, size, WRITE_SYNCED);
}

d9_status d9_file_write_unsynced(d9_context *context, const char *path, const void *bytes, size_t size) {
    return write_and_rename(context, path, bytes, size, WRITE_UNSYNCED);
}

d9_status d9_file_check_writable(d9_context *context, const char *path) {
    return path ? write_and_rename(context, path, "", 0, WRITE_TRIAL) : D9_OK;
}

/* Removes the file, if `size` is -1, or cuts it off after `size` bytes; warns if that fails. */
static void undo_append(d9_context *context, const char *path, int64_t size) {
    const d9_system *system = context->system;
    int failed;
    if (size < 0) {
        failed = system->remove(system->user, path);
    } else {
        const int file = open_file(system, path, O_WRONLY);
        failed = file < 0 || truncate_file(system, file, size) != 0;
        if (file >= 0) system->close(system->user, file);
    }
    if (failed) d9_log(context, D9_LOG_WARNING, "%s: its last record may be incomplete", path);
}

d9_status d9_file_append(d9_context *context, const char *path, const void *bytes, size_t size) {
    const d9_system *system = context->system;
    d9_status status = D9_OK;
    struct stat state = {0};
    const bool existed = system->stat(system->user, path, &state) == 0, is_new = !existed && errno == ENOENT;
    D9_TRY(check_target(context, path, NULL));
    int file = open_file(system, path, O_WRONLY | O_CREAT | O_APPEND);
    D9_TRY(check_write(context, path, file >= 0));
    status = write_all(context, path, file, bytes, size);
    d9_status closed = close_file(context, path, file);
    if (status == D9_OK) status = closed; /* it may be the first to report that the disk is full */
    if (status != D9_OK && (existed || is_new)) undo_append(context, path, existed ? state.st_size : -1);
done:
    return status;
}

bool d9_file_exists(d9_context *context, const char *path) {
    struct stat state;
    return context->system->stat(context->system->user, path, &state) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

d9_status d9_file_find(d9_context *context, d9_status failure, const char *path, bool *found) {
    struct stat state;
    *found = context->system->stat(context->system->user, path, &state) == 0;
    if (*found || errno == ENOENT || errno == ENOTDIR) return D9_OK;
    return d9_fail(context, failure, "%s: %s", path, strerror(errno));
}

bool d9_folder_exists(d9_context *context, const char *path) {
    struct stat state;
    return context->system->stat(context->system->user, path, &state) == 0 && S_ISDIR(state.st_mode);
}

/* ---- locks ---- */

/* Writes the process number for error messages. If there is no disk space for it, the file stays empty. */
static void write_holder(const d9_system *system, int file) {
    char number[24];
    const int length = snprintf(number, sizeof number, "%ld\n", (long)getpid());
    ssize_t put;
    if (truncate_file(system, file, 0) != 0) return;
    do put = system->write(system->user, file, number, (size_t)length);
    while (put < 0 && errno == EINTR);
    if (put != length) (void)!truncate_file(system, file, 0);
}

/* Fails if the file contains anything but a process number (it may be empty): it then has another purpose and must be
 * neither emptied nor removed. Content longer than any number is not read completely. */
static d9_status check_lock(d9_context *context, const char *path, int file) {
    const d9_system *system = context->system;
    char bytes[32];
    ssize_t got;
    do got = system->read(system->user, file, bytes, sizeof bytes - 1);
    while (got < 0 && errno == EINTR);
    if (got < 0) return d9_fail(context, D9_OUTPUT, "%s: cannot read: %s", path, strerror(errno));
    bytes[got] = 0;
    if (got < (ssize_t)sizeof bytes - 1 && strspn(bytes, "0123456789\n") == (size_t)got) return D9_OK;
    return d9_fail(context, D9_OUTPUT, "%s: cannot lock: it contains something other than a process number", path);
}

static int lock_file(const d9_system *system, int file, const char *path) {
    int failed;
    do failed = system->lock(system->user, file, path);
    while (failed && errno == EINTR);
    return failed;
}

/* Fails by the error that system->lock gave. */
static d9_status fail_to_lock(d9_context *context, const char *path, int error) {
    const bool absent = error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK;
    return d9_fail(context, D9_OUTPUT, "%s: cannot lock: %s%s", path, strerror(error),
                   absent ? ": this file system has no locks; give a folder on another one, or mount Lustre with "
                            "-o flock"
                          : "");
}

d9_status d9_lock_take(d9_context *context, const char *path, int *lock) {
    const d9_system *system = context->system;
    *lock = -1;
    for (;;) {
        /* With O_APPEND, the number is written at the start after the file is emptied. */
        int file = open_file(system, path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW);
        if (file < 0) return check_write(context, path, false);
        if (lock_file(system, file, path) == 0) {
            const d9_status status = check_lock(context, path, file);
            if (status != D9_OK) {
                system->close(system->user, file);
                return status;
            }
            write_holder(system, file);
            *lock = file;
            return D9_OK;
        }
        int error = errno;
        system->close(system->user, file);
        if (error == EWOULDBLOCK) return D9_OK;
        if (error != ESTALE) return fail_to_lock(context, path, error);
    }
}

int64_t d9_lock_holder(d9_context *context, const char *path) {
    d9_context quiet = *context; /* a lock file that has been removed in the meantime has no holder */
    uint8_t *bytes = NULL;
    size_t size;
    int64_t holder = 0;
    if (d9_file_read(&quiet, path, &bytes, &size) == D9_OK) holder = strtoll((const char *)bytes, NULL, 10);
    d9_release(&quiet, bytes);
    return holder;
}

void d9_lock_free(d9_context *context, const char *path, int lock) {
    if (lock < 0) return;
    const int64_t holder = d9_lock_holder(context, path);
    if (holder == 0 || holder == getpid()) context->system->remove(context->system->user, path);
    context->system->close(context->system->user, lock);
}

bool d9_lock_is_held(d9_context *context, const char *path) {
    const d9_system *system = context->system;
    int file = open_file(system, path, O_RDWR | O_NOFOLLOW); /* NFS locks only a file that is open for writing */
    if (file < 0) file = open_file(system, path, O_RDONLY | O_NOFOLLOW);
    if (file < 0) return false;
    bool held = lock_file(system, file, path) != 0 && errno == EWOULDBLOCK;
    system->close(system->user, file);
    return held;
}

/* ---- folders ---- */

d9_status d9_directory_check(d9_context *context, const char *path) {
    bool found;
    const d9_status status = d9_file_find(context, D9_OUTPUT, path, &found);
    if (status != D9_OK || !found || d9_folder_exists(context, path)) return status;
    return d9_fail(context, D9_OUTPUT, "%s: cannot make this folder: there is a file of that name", path);
}

static d9_status make_folder(d9_context *context, const char *path) {
    if (!d9_file_exists(context, path)) {
        if (context->system->make_directory(context->system->user, path, 0777) == 0) return D9_OK;
        const int error = errno; /* EEXIST: another process may have created it in the meantime */
        if (error != EEXIST || !d9_file_exists(context, path))
            return d9_fail(context, D9_OUTPUT, "%s: cannot make this folder: %s", path, strerror(error));
    }
    return d9_directory_check(context, path);
}

d9_status d9_directory_make(d9_context *context, const char *path) {
    d9_status status = D9_OK;
    d9_text copy;
    d9_text_init(context, &copy);
    d9_text_add(&copy, "%s", path);
    D9_TRY(d9_text_status(&copy));
    if (!*path) D9_TRY(d9_fail(context, D9_OUTPUT, "a folder with an empty name cannot be made"));
    for (char *at = copy.bytes + 1; *at; at++) {
        if (*at != '/' || at[-1] == '/') continue;
        *at = 0;
        D9_TRY(make_folder(context, copy.bytes));
        *at = '/';
    }
    D9_TRY(make_folder(context, copy.bytes));
done:
    d9_text_free(&copy);
    return status;
}

/* ---- time ---- */

static double read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double d9_clock_now(void) { return read_clock(CLOCK_MONOTONIC); }

double d9_clock_wall(void) { return read_clock(CLOCK_REALTIME); }
