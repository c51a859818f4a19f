/* Definitions of a device and of a plan; private to the backends. */
#pragma once

#include "backends/host/host.h"

struct d9_device {
    const d9_device_kind *kind;
    void *backend; /* made by kind->open; NULL if kind->open is NULL */
    d9_backend_options options;
    char *force_plan; /* copy that options.force_plan points to; NULL: none */
    int threads;
    uint8_t *buffers[D9_BUFFER_COUNT];
    int64_t bytes[D9_BUFFER_COUNT];
};

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
    d9_placed_rule *placed; /* (graph->node_count), of which placed_count are used */
    int placed_count, prepared_count;
    d9_text text;
    void *data; /* the backend's own data, NULL at first; the backend frees it before it calls d9_host_plan_free */
};

/* True if rule `i` runs in this step. */
static inline bool d9_plan_active(const d9_plan *plan, int i, int64_t step) {
    return d9_when_active(&plan->placed[i].site.nodes[0]->when, step, plan->batches, plan->program->steps_per_epoch);
}
