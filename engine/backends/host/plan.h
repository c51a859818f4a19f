/* Definitions of a device and of a plan, and the resources of the machine; private to the backends. */
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

/* ---- resources that this process may use, read from a tree of kernel files (machine.c) ---- */
/* Root folders of the kernel's files; tests use a tree that imitates them. */
typedef struct d9_machine {
    const char *proc, *sys; /* "/proc", "/sys" */
    const bool *allowed;    /* [processors]: processors on which this process may run */
    int processors;
} d9_machine;

/* Number of physical cores among `allowed`, at most the lowest CPU quota of the cgroups, rounded up; at least 1. */
int d9_machine_threads(const d9_machine *machine);
/* Lowest memory limit of the cgroups in bytes; 0: none. */
double d9_machine_memory_limit(const d9_machine *machine);
/* Cache sizes of the first processor in bytes: level 1 data, level 2, level 3; 0: unknown. */
void d9_machine_caches(const d9_machine *machine, int64_t bytes[3]);
/* Common name of the processor; "processor" if unknown. */
void d9_machine_processor(const d9_machine *machine, char *name, size_t size);

/* ---- a plan ---- */
typedef struct d9_placed_rule { /* a rule and the nodes that it covers in the plan */
    const d9_rule *rule;
    d9_site site;
    d9_node_id first; /* first node of the site */
    double seconds;   /* since the last reset */
    int64_t runs;
} d9_placed_rule;

struct d9_plan {
    d9_device *device;
    const d9_program *program;
    const d9_graph *graph;
    int64_t batches;        /* batches per step */
    d9_placed_rule *placed; /* (placed_count) of at most graph->node_count */
    int placed_count, prepared_count;
    d9_text text;
    void *data; /* the backend's own data, NULL at first; the backend frees it before it calls d9_host_plan_free */
};

/* True if rule `i` runs in this step. */
static inline bool d9_plan_active(const d9_plan *plan, int i, int64_t step) {
    return d9_when_active(&plan->placed[i].site.nodes[0]->when, step, plan->batches, plan->program->steps_per_epoch);
}
