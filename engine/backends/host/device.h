/* What a device is made of; private to the backends. */
#ifndef D9_BACKENDS_HOST_DEVICE_H
#define D9_BACKENDS_HOST_DEVICE_H

#include "backends/host/host.h"

struct d9_device {
    const d9_host_kind *kind;
    void *backend; /* what kind->open made */
    d9_backend_options options;
    char *force_plan; /* our copy, behind options.force_plan */
    int threads;
    uint8_t *buffers[D9_BUFFER_COUNT];
    int64_t bytes[D9_BUFFER_COUNT];
};

/* The processor's name as people know it, and the memory that a run may use (cgroup limits respected). */
void d9_host_processor(char *name, size_t size);
int64_t d9_host_memory_bytes(void);

#endif
