/* Memory that the processes of one host share; see shared.h. */
#define _GNU_SOURCE /* memfd_create */
#include "parallel/mpi/shared.h"
#include "core/system.h"

#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

struct d9_shared_area {
    d9_shared_area *next;
    uint8_t *own;
    int64_t bytes;
    int file;           /* descriptor of the memfd; -1: ordinary memory, or closed after all tried to map it */
    bool mapped, tried; /* `own` is a mapping; the processes have tried to share the area */
    int ranks;          /* length of `base` and `part` */
    uint8_t **base;     /* (ranks) starts of all processes' areas; NULL: not shared */
    uint8_t **part;     /* (ranks) results of d9_shared_find */
};

/* Identifies a shared memory file to the other processes, which open it as /proc/PROCESS/fd/FILE. They compare device,
 * inode and size, in bytes, to see that it is the right file. `file` is -1 if the memory cannot be shared. */
typedef struct file_identity {
    int64_t process, file, device, inode, bytes;
} file_identity;

static uint8_t *map_file(int file, int64_t bytes) {
    void *memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) return NULL;
    (void)madvise(memory, (size_t)bytes, MADV_HUGEPAGE); /* optional: if it fails, only speed is lost */
    return memory;
}

static void close_file(d9_shared_area *area) {
    if (area->file >= 0) close(area->file);
    area->file = -1;
}

d9_status d9_shared_allocate(d9_context *context, d9_shared_area **list, int64_t bytes, const char *purpose,
                             void **memory) {
    d9_status status;
    d9_shared_area *area;
    void *ordinary = NULL;
    *memory = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, purpose, &area));
    *area = (d9_shared_area){.next = *list, .bytes = bytes, .file = memfd_create("dawn9", MFD_CLOEXEC)};
    if (area->file >= 0 && ftruncate(area->file, bytes) == 0) area->own = map_file(area->file, bytes);
    area->mapped = area->own != NULL;
    if (!area->mapped) {
        close_file(area);
        status = d9_allocate(context, (size_t)bytes, purpose, &ordinary);
        area->own = ordinary;
    }
    if (status != D9_OK) {
        d9_release(context, area);
        goto done;
    }
    *memory = area->own;
    *list = area;
done:
    return status;
}

/* Unmaps the areas of the other processes. */
static void unmap_others(d9_context *context, d9_shared_area *area) {
    for (int r = 0; area->base && r < area->ranks; r++)
        if (area->base[r] && area->base[r] != area->own) munmap(area->base[r], (size_t)area->bytes);
    d9_release(context, area->base);
    d9_release(context, area->part);
    area->base = area->part = NULL;
}

bool d9_shared_release(d9_context *context, d9_shared_area **list, void *memory) {
    while (*list && (*list)->own != memory) list = &(*list)->next;
    d9_shared_area *area = *list;
    if (!area) return false;
    *list = area->next;
    unmap_others(context, area);
    close_file(area);
    if (area->mapped)
        munmap(area->own, (size_t)area->bytes);
    else
        d9_release(context, area->own);
    d9_release(context, area);
    return true;
}

/* Maps the area of another process. Returns NULL on failure, also if the descriptor is now one of another file. */
static uint8_t *map_other(const file_identity *other) {
    char path[64];
    struct stat state;
    uint8_t *mapped = NULL;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)other->process, (long long)other->file);
    const int file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return NULL;
    if (fstat(file, &state) == 0 && (int64_t)state.st_dev == other->device && (int64_t)state.st_ino == other->inode &&
        state.st_size == other->bytes)
        mapped = map_file(file, other->bytes);
    close(file);
    return mapped;
}

/* Maps the areas of all processes in each process; if any process fails to, unmaps them in every process. */
static d9_status map_all(d9_context *context, d9_parallel *parallel, d9_shared_area *area) {
    d9_status status;
    file_identity own = {.file = -1}, *all = NULL;
    struct stat state;
    int fails = 0;
    area->tried = true;
    area->ranks = parallel->ranks;
    D9_TRY(D9_ALLOCATE(context, parallel->ranks, "the shared memory", &all));
    D9_TRY(D9_ALLOCATE(context, parallel->ranks, "the shared memory", &area->base));
    D9_TRY(D9_ALLOCATE(context, parallel->ranks, "the shared memory", &area->part));
    if (area->file >= 0 && fstat(area->file, &state) == 0)
        own = (file_identity){getpid(), area->file, (int64_t)state.st_dev, (int64_t)state.st_ino, area->bytes};
    if (MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD) != MPI_SUCCESS)
        D9_TRY(d9_fail(context, D9_DEVICE, "process %d of %d: MPI: sharing memory", parallel->rank, parallel->ranks));
    for (int r = 0; r < parallel->ranks; r++) {
        const bool can_map = all[r].file >= 0 && all[r].bytes == area->bytes;
        area->base[r] = r == parallel->rank ? area->own : can_map ? map_other(&all[r]) : NULL;
        fails |= !can_map || !area->base[r];
    }
    D9_TRY(d9_parallel_maximum(context, parallel, &fails));
    close_file(area); /* every process has tried to open it by now */
    if (fails) unmap_others(context, area);
done:
    d9_release(context, all);
    return status;
}

d9_status d9_shared_find(d9_context *context, d9_parallel *parallel, d9_shared_area *list, const void *values,
                         int64_t bytes, uint8_t *const **parts) {
    d9_status status = D9_OK;
    const uint8_t *at = values;
    *parts = NULL;
    while (list && (at < list->own || at + bytes > list->own + list->bytes)) list = list->next;
    if (!list) return D9_OK;
    if (!list->tried) D9_TRY(map_all(context, parallel, list));
    for (int r = 0; list->base && r < list->ranks; r++) list->part[r] = list->base[r] + (at - list->own);
    *parts = list->part;
done:
    return status;
}
