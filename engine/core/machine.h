/* Resources that this process may use: physical cores, memory, caches; the name of the processor. */
#pragma once

#include "core/context.h"

/* Number of physical cores that this process may use by affinity mask and cgroup quota (rounded up); at least 1. */
int d9_default_threads(void);

/* Brand name of the processor, with family and model if the brand has no digit; "processor" if unknown. */
void d9_processor_name(char *name, size_t size);
/* Memory in bytes that this process may use: all of the machine's, or the cgroup limit if that is lower. */
int64_t d9_memory_bytes(void);

/* Cache sizes of the first processor in bytes: level 1 data, level 2, and the shared level 3; 0: unknown. */
void d9_cache_sizes(int64_t bytes[3]);

/* ---- these resources, read from a tree of kernel files ---- */
/* Root folders of the kernel's files, and the allowed processors; tests give their own. */
typedef struct d9_machine {
    const char *proc, *sys; /* "/proc", "/sys" */
    const bool *allowed;    /* (processors): true if this process may run there; read only by d9_machine_threads */
    int processors;
} d9_machine;

/* Number of physical cores among `allowed`, at most the lowest CPU quota of the cgroups, rounded up; at least 1. */
int d9_machine_threads(const d9_machine *machine);
/* Lowest memory limit of the cgroups in bytes; 0: none. */
double d9_machine_memory_limit(const d9_machine *machine);
/* Cache sizes of the first processor in bytes: level 1 data, level 2, level 3; 0: unknown. */
void d9_machine_caches(const d9_machine *machine, int64_t bytes[3]);
/* Name of the processor, as d9_processor_name. */
void d9_machine_processor(const d9_machine *machine, char *name, size_t size);
