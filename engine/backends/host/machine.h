/* What this process may use of the machine, from a tree of the kernel's files; private to this folder. */
#ifndef D9_BACKENDS_HOST_MACHINE_H
#define D9_BACKENDS_HOST_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where it is read: the kernel's own files, or in tests a tree that looks like them. */
typedef struct d9_machine {
    const char *proc, *sys; /* "/proc", "/sys" */
    const bool *allowed;    /* [processors]: this process may run there */
    int processors;
} d9_machine;

/* Physical cores: of `allowed`, hyperthreads not counted, at most the least CPU quota of the cgroups, rounded up. */
int d9_machine_threads(const d9_machine *machine);
/* The least limit of the cgroups, bytes; 0: none. */
double d9_machine_memory_limit(const d9_machine *machine);
/* Bytes of the caches that the first processor uses: first level (data), second, third; 0: not known. */
void d9_machine_caches(const d9_machine *machine, int64_t bytes[3]);
/* The processor's name as people know it; "processor" where the kernel gives none. */
void d9_machine_processor(const d9_machine *machine, char *name, size_t size);

#endif
