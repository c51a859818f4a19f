/* Counts calls and lets one fail; see each_call.h. */
#include "tests/support/each_call.h"
#include <errno.h>

const char *const each_call_names[CALL_COUNT] = {
#define NAME_(name) #name,
    EACH_CALL(NAME_)
#undef NAME_
};

static const d9_system *base_of(const planted *p) { return p->base; }

/* Counts a call. True, with errno set to EIO: the call must fail. */
static bool count_call(planted *p, each_call kind) {
    const bool here = ++p->calls[kind] == p->victim && p->kind == kind;
    p->reached |= here;
    if (here) errno = EIO;
    return here;
}

static void *allocate(void *user, size_t alignment, size_t bytes) {
    if (count_call(user, CALL_allocate)) return NULL;
    ((planted *)user)->live++;
    return base_of(user)->allocate(NULL, alignment, bytes);
}
static void release(void *user, void *pointer) {
    ((planted *)user)->live--;
    base_of(user)->release(NULL, pointer);
}
#define FAILING(name, parameters, ...)                                                                                 \
    static int fail_##name parameters {                                                                                \
        return count_call(user, CALL_##name) ? -1 : base_of(user)->name(NULL, __VA_ARGS__);                            \
    }
FAILING(open, (void *user, const char *path, int flags, int mode), path, flags, mode)
FAILING(truncate, (void *user, int file, int64_t size), file, size)
FAILING(sync, (void *user, int file), file)
FAILING(file_stat, (void *user, int file, struct stat *state), file, state)
FAILING(stat, (void *user, const char *path, struct stat *state), path, state)
FAILING(rename, (void *user, const char *from, const char *to), from, to)
FAILING(remove, (void *user, const char *path), path)
FAILING(make_directory, (void *user, const char *path, int mode), path, mode)
FAILING(lock, (void *user, int file, const char *path), file, path)
static ssize_t fail_read(void *user, int file, void *bytes, size_t size) {
    return count_call(user, CALL_read) ? -1 : base_of(user)->read(NULL, file, bytes, size);
}
static ssize_t fail_write(void *user, int file, const void *bytes, size_t size) {
    return count_call(user, CALL_write) ? -1 : base_of(user)->write(NULL, file, bytes, size);
}

bool planted_next_allocation(planted *p) {
    if (p->victim && !p->reached) return false;
    p->kind = CALL_allocate, p->calls[CALL_allocate] = 0, p->victim++, p->reached = false;
    return true;
}

void planted_check(const planted *p, d9_status status) {
    assert_ints(status, p->reached ? D9_DEVICE : D9_OK, p->live, 0);
}

d9_system planted_system(planted *p, const d9_system *base) {
    d9_system system = *base;
    p->base = base;
    system.user = p;
    system.allocate = allocate;
    system.release = release;
    system.open = fail_open;
    system.read = fail_read;
    system.write = fail_write;
    system.truncate = fail_truncate;
    system.sync = fail_sync;
    system.file_stat = fail_file_stat;
    system.stat = fail_stat;
    system.rename = fail_rename;
    system.remove = fail_remove;
    system.make_directory = fail_make_directory;
    system.lock = fail_lock;
    return system;
}
