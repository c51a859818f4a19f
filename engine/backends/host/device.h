/* Definition of a device; private to the backends. */
#pragma once

#include "backends/host/host.h"

struct d9_device {
    const d9_host_kind *kind;
    void *backend; /* made by kind->open; NULL if kind->open is NULL */
    d9_backend_options options;
    char *force_plan; /* copy that options.force_plan points to */
    int threads;
    uint8_t *buffers[D9_BUFFER_COUNT];
    int64_t bytes[D9_BUFFER_COUNT];
};

/* Common name of the processor, and the memory in bytes that this process may use (within cgroup limits). */
void d9_host_processor(char *name, size_t size);
int64_t d9_host_memory_bytes(void);
