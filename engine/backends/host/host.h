/* The host's half of every backend (reference, cpu, cuda): buffers, matching rules to nodes, walking the list,
 * times.
 *
 * A backend is then a table of rules. A rule covers one node or a chain of consecutive nodes of the list; the
 * plan takes the longest rule that matches at each position. A chain is only ever offered to a rule when
 *   - its nodes have the same `when`, and
 *   - no scratch value that crosses the site's edge shares bytes with another: a fused rule may write any of its
 *     outputs before it has read all of its inputs; and
 *   - every value between its nodes is internal (d9_site_internal), unless the rule has a `match` of its own, which
 *     then answers for those values: the rule writes each that is not internal. */
#ifndef D9_BACKENDS_HOST_H
#define D9_BACKENDS_HOST_H

#include "backends/backend.h"

/* Where a rule sits in a plan: its nodes, and its private data. */
typedef struct d9_site {
    const d9_program *program;
    const d9_graph *graph;
    const d9_node *nodes[D9_MAX_RULE_NODES];
    int node_count;
    uint8_t *const *buffers; /* [D9_BUFFER_COUNT] */
    int threads;
    const d9_backend_options *options;
    void *backend;     /* what the backend's `open` made (d9_cpu_device) */
    const d9_plan *plan; /* where it sits, behind the rules that were placed before it */
    void *data;        /* the rule's own; made by prepare, released by release */
    char choice[96];   /* what prepare chose, for the plan's text ("own winograd") */
    char why[64];      /* and why, for people: it may hold times, so it is no part of the plan */
} d9_site;

typedef struct d9_rule {
    const char *name;
    int node_count;
    d9_op ops[D9_MAX_RULE_NODES];
    bool in_f32; /* nothing is rounded between its nodes, nor tf32 multiplied, whatever the types between them */
    bool (*match)(const d9_site *site); /* NULL: the ops suffice */
    /* Whether the rule does without a value that its nodes read; NULL: it reads them all. */
    bool (*spares)(const d9_site *site, d9_value_id value);
    d9_status (*prepare)(d9_context *context, d9_site *site); /* may be NULL */
    d9_status (*run)(d9_context *context, const d9_site *site, int64_t step);
    void (*release)(d9_context *context, d9_site *site); /* may be NULL; called whatever happened in prepare */
    /* Times the ways it could be computed; may be NULL. */
    d9_status (*survey)(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count);
} d9_rule;

/* A row for one operation that needs no plan. `matches` NULL: the operation suffices. */
#define D9_PLAIN_RULE(rule_op, rule_name, matches, runs)                                                               \
    { .name = rule_name, .node_count = 1, .ops = {rule_op}, .match = matches, .run = runs }

/* The bytes of a value; NULL for D9_NONE. */
static inline void *d9_site_data(const d9_site *site, d9_value_id id) {
    if (id == D9_NONE) return NULL;
    const d9_value *value = &site->graph->values[id];
    return site->buffers[value->buffer] + value->offset;
}

/* Whether a value made inside the site is wanted by nobody else, so that a fused rule need not write it: scratch, and
 * every reader is a node of the site. */
bool d9_site_internal(const d9_site *site, d9_value_id value);

/* Whether two values share bytes. */
bool d9_values_overlap(const d9_value *a, const d9_value *b);

/* The nodes from `first` on as a site of their own. */
d9_site d9_site_part(const d9_site *site, int first, int count);

/* The site, placed before this one in the plan, that makes a value; NULL: none does. Prepared before this one, too. */
const d9_site *d9_site_maker(const d9_site *site, d9_value_id value);

/* Whether a rule of the plan reads a value that this site makes, so that it must be written. From prepare on. Of a
 * program that keeps all values, all are wanted. */
bool d9_site_wanted(const d9_site *site, d9_value_id value);

/* Memory that the host cannot reach. Its pointers stand in the site's buffers all the same: rules hand them on. Writing
 * may return before the bytes have arrived, never before they were taken; reading waits for all that was submitted. */
typedef struct d9_host_memory {
    d9_status (*allocate)(d9_context *context, void *backend, int64_t bytes, const char *purpose, void **pointer);
    void (*release)(d9_context *context, void *backend, void *pointer); /* NULL is fine */
    d9_status (*write)(d9_context *context, void *backend, void *to, const void *bytes, int64_t size);
    d9_status (*read)(d9_context *context, void *backend, const void *from, void *bytes, int64_t size);
    d9_status (*sync)(d9_context *context, void *backend); /* waits, and reports what went wrong meanwhile */
} d9_host_memory;

typedef struct d9_host_kind { /* what distinguishes one backend from another */
    const d9_rule *const *rules; /* tables; the list ends with NULL, each table with a row without a name */
    d9_status (*open)(d9_context *context, const d9_backend_options *options, void **backend); /* may be NULL */
    void (*close)(d9_context *context, void *backend);
    /* Fills precision, version and isa; name, threads and memory hold the host's, and f32 is preferred. */
    void (*describe)(const void *backend, d9_device_info *info);
    /* may be NULL */
    d9_status (*ceilings)(d9_context *context, void *backend, const d9_precision *precision, d9_ceilings *ceilings);
    const d9_host_memory *memory; /* NULL: the host's own */
} d9_host_kind;

/* The d9_backend entries that a backend has from here; its `open` calls d9_host_open. */
#define D9_HOST_ENTRIES                                                                                                \
    .close = d9_host_close, .describe = d9_host_describe, .plan_text = d9_host_plan_text, .survey = d9_host_survey,    \
    .ceilings = d9_host_ceilings, .read = d9_host_read
/* And those that one without a device of its own has from here, too. */
#define D9_HOST_ENTRIES_ALL                                                                                            \
    D9_HOST_ENTRIES, .allocate = d9_host_allocate, .plan = d9_host_plan, .plan_free = d9_host_plan_free,               \
        .run = d9_host_run, .times = d9_host_times, .write = d9_host_write, .sync = d9_host_sync
D9_MUST_USE d9_status d9_host_open(d9_context *context, const d9_host_kind *kind, const d9_backend_options *options,
                                   d9_device **device);
void d9_host_close(d9_context *context, d9_device *device);
void d9_host_describe(const d9_device *device, d9_device_info *info);
d9_status d9_host_allocate(d9_context *context, d9_device *device, const d9_program *program);
d9_status d9_host_plan(d9_context *context, d9_device *device, const d9_program *program, const d9_graph *graph,
                       d9_plan **plan);
void d9_host_plan_free(d9_context *context, d9_plan *plan);
const char *d9_host_plan_text(const d9_plan *plan);
d9_status d9_host_run(d9_context *context, d9_plan *plan, int64_t step);
d9_status d9_host_survey(d9_context *context, d9_plan *plan, int row, d9_choice_time *rows, int capacity, int *count);
int d9_host_times(d9_plan *plan, d9_node_time *rows, int capacity, bool reset);
d9_status d9_host_write(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, const void *bytes,
                        int64_t size);
d9_status d9_host_read(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, void *bytes,
                       int64_t size);
d9_status d9_host_ceilings(d9_context *context, d9_device *device, const d9_precision *precision,
                           d9_ceilings *ceilings);
d9_status d9_host_sync(d9_context *context, d9_device *device);

/* Physical cores this process may use: affinity mask and cgroup quota (rounded up) respected, hyperthreads not counted.
 */
int d9_host_default_threads(void);

/* Bytes of the caches of the first processor: a core's first level (data) and second, and the third that cores share. 0
 * where the system does not say. */
void d9_host_caches(int64_t bytes[3]);

#endif
