/* Common part of all backends: buffers, matching rules to nodes, running a plan, timing.
 *
 * A backend consists of tables of rules. A rule computes one node or a chain of consecutive nodes; from the first
 * uncovered node on, the plan takes the longest rule that matches. A chain is offered to a rule only if
 *   - its nodes have the same `when`, and
 *   - no two scratch values that enter or leave the chain share bytes, because a fused rule may write an output before
 *     it has read all inputs; except an output and the input that its node may overwrite
 *     (d9_op_info.may_overwrite_input).
 * A rule for a chain has `match`, which decides. If it accepts a chain in which an output of a node before the last one
 * is not internal (d9_site_internal), the rule must write that output if another rule reads it. */
#pragma once

#include "backends/backend.h"

/* The nodes that a rule covers in a plan, and the rule's private data for them. */
typedef struct d9_site {
    const d9_program *program;
    const d9_graph *graph;
    const d9_node *nodes[D9_MAX_RULE_NODES];
    int node_count;
    uint8_t *const *buffers; /* [D9_BUFFER_COUNT] */
    int threads;
    const d9_backend_options *options;
    void *backend;       /* the backend's own state, made by d9_device_kind.open, for example a d9_cpu_device */
    const d9_plan *plan; /* plan of the site; during `match` it holds only the earlier sites */
    void *data;          /* the rule's own data; set by prepare, freed by release if the site owns it */
    char wanted[96];     /* choice of the forced plan; "": the rule chooses freely */
    /* set by prepare: the choice made ("own winograd"); "": the rule has no choices. A forced plan that wants another
     * choice is rejected (host/plan.c) */
    char choice[96];
    char why[64];           /* reason for the choice, for users; may contain times, so the plan's text leaves it out */
    bool rounds_transforms; /* set by prepare: operands made inside of the rule are rounded to bf16 before a product */
    unsigned tf32_outputs;  /* set by prepare; bit i: output i of the last node comes from a product whose f32 factors
                               tensor cores may round to tf32 */
} d9_site;

typedef struct d9_rule {
    const char *name;
    int node_count;
    d9_op ops[D9_MAX_RULE_NODES];
    bool in_f32;                        /* as in d9_rule_time */
    bool (*match)(const d9_site *site); /* NULL: equal operations suffice; only for rules of one node */
    /* True if the rule does not read its input `value`, because it recomputes that value or does not need it. NULL: the
     * rule reads all inputs. */
    bool (*recomputes)(const d9_site *site, d9_value_id value);
    d9_status (*prepare)(d9_context *context, d9_site *site); /* may be NULL */
    d9_status (*run)(d9_context *context, const d9_site *site, int64_t step);
    void (*release)(d9_context *context, d9_site *site); /* may be NULL; called even if prepare failed */
    /* Times the algorithms of this rule, like d9_backend.benchmark; NULL: the rule has none. */
    d9_status (*benchmark)(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count);
} d9_rule;

/* A rule of one operation without a prepare function. `matches` NULL: equal ops suffice. */
#define D9_PLAIN_RULE(rule_op, rule_name, matches, runs)                                                               \
    { .name = rule_name, .node_count = 1, .ops = {rule_op}, .match = matches, .run = runs }
/* A rule of one operation with a prepare function. */
#define D9_PREPARED_RULE(rule_op, rule_name, matches, prepares, runs)                                                  \
    { .name = rule_name, .node_count = 1, .ops = {rule_op}, .match = matches, .prepare = prepares, .run = runs }

/* Address of a value; NULL for D9_NONE. */
static inline void *d9_site_data(const d9_site *site, d9_value_id id) {
    if (id == D9_NONE) return NULL;
    const d9_value *value = &site->graph->values[id];
    return site->buffers[value->buffer] + value->offset;
}

/* True for a scratch value that is written and read only by nodes of the site: a fused rule need not write it. */
bool d9_site_internal(const d9_site *site, d9_value_id value);

bool d9_values_overlap(const d9_value *a, const d9_value *b); /* true if they share bytes */

/* The site of `count` nodes of `site`, from index `first` on; its other fields are copied. */
d9_site d9_site_part(const d9_site *site, int first, int count);

/* The site before `site` in the plan that writes a value; it is also prepared before `site`. NULL: none. */
const d9_site *d9_site_producer(const d9_site *site, d9_value_id value);

/* True if another rule of the plan reads the value, so that this site must write it; always true if the program keeps
 * all values. May be called from prepare on. */
bool d9_site_must_write(const d9_site *site, d9_value_id value);

/* Device memory that the host cannot access. d9_site.buffers then has device pointers, which rules pass to kernels but
 * never dereference. `allocate` zeroes. `write` may return before the copy has finished, but `bytes` may be reused at
 * once; `read` waits for all submitted work. */
typedef struct d9_device_memory {
    d9_status (*allocate)(d9_context *context, void *backend, int64_t bytes, const char *purpose, void **pointer);
    void (*release)(d9_context *context, void *backend, void *pointer); /* NULL is ignored */
    d9_status (*write)(d9_context *context, void *backend, void *to, const void *bytes, int64_t size);
    d9_status (*read)(d9_context *context, void *backend, const void *from, void *bytes, int64_t size);
    d9_status (*sync)(d9_context *context, void *backend); /* waits for submitted work and returns its errors */
} d9_device_memory;

typedef struct d9_device_kind {  /* a backend's rules, and functions that the common part calls */
    const d9_rule *const *rules; /* tables of rules; the list ends with NULL, each table with a row without a name */
    d9_status (*open)(d9_context *context, const d9_backend_options *options, void **backend); /* may be NULL */
    void (*close)(d9_context *context, void *backend);
    /* Sets precision, version and isa; may replace the other fields, which are preset for a host that prefers f32. */
    void (*describe)(const void *backend, d9_device_info *info);
    /* NULL: all rates are 0, unknown */
    d9_status (*peak_rates)(d9_context *context, void *backend, const d9_precision *precision,
                            d9_peak_rates *peak_rates);
    const d9_device_memory *memory; /* NULL: host memory */
} d9_device_kind;

/* Entries of d9_backend that are the same for all backends; a backend's own `open` calls d9_host_open. */
#define D9_HOST_ENTRIES                                                                                                \
    .close = d9_host_close, .describe = d9_host_describe, .plan_text = d9_host_plan_text,                              \
    .benchmark = d9_host_benchmark, .peak_rates = d9_host_peak_rates, .read = d9_host_read
/* The entries above, and more for a backend whose device is the host. */
#define D9_HOST_ENTRIES_ALL                                                                                            \
    D9_HOST_ENTRIES, .allocate = d9_host_allocate, .plan = d9_host_plan, .plan_free = d9_host_plan_free,               \
                     .run = d9_host_run, .times = d9_host_times, .write = d9_host_write, .sync = d9_host_sync
D9_MUST_USE d9_status d9_host_open(d9_context *context, const d9_device_kind *kind, const d9_backend_options *options,
                                   d9_device **device);
void d9_host_close(d9_context *context, d9_device *device);
void d9_host_describe(const d9_device *device, d9_device_info *info);
d9_status d9_host_allocate(d9_context *context, d9_device *device, const d9_program *program);
d9_status d9_host_plan(d9_context *context, d9_device *device, const d9_program *program, const d9_graph *graph,
                       d9_plan **plan);
void d9_host_plan_free(d9_context *context, d9_plan *plan);
const char *d9_host_plan_text(const d9_plan *plan);
d9_status d9_host_run(d9_context *context, d9_plan *plan, int64_t step);
d9_status d9_host_benchmark(d9_context *context, d9_plan *plan, int row, d9_choice_time *rows, int capacity,
                            int *count);
int d9_host_times(d9_plan *plan, d9_rule_time *rows, int capacity, bool reset);
d9_status d9_host_write(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, const void *bytes,
                        int64_t size);
d9_status d9_host_read(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, void *bytes,
                       int64_t size);
d9_status d9_host_peak_rates(d9_context *context, d9_device *device, const d9_precision *precision,
                             d9_peak_rates *peak_rates);
d9_status d9_host_sync(d9_context *context, d9_device *device);

/* ---- the integers of a batch, for backends whose buffers lie in the host's memory ---- */

/* Sets *order to the address of the step's first sample index in the epoch's order, input `input` of the site's first
 * node. Returns D9_DEVICE if an index of the step is outside [0, samples). */
D9_MUST_USE d9_status d9_host_order(d9_context *context, const d9_site *site, int input, int64_t step, int64_t samples,
                                    const int32_t **order);
/* Run functions for the operations draw, gather, tokens and stream. */
D9_MUST_USE d9_status d9_host_draw(d9_context *context, const d9_site *site, int64_t step);
D9_MUST_USE d9_status d9_host_gather_labels(d9_context *context, const d9_site *site, int64_t step);
D9_MUST_USE d9_status d9_host_tokens(d9_context *context, const d9_site *site, int64_t step);
D9_MUST_USE d9_status d9_host_stream(d9_context *context, const d9_site *site, int64_t step);
/* Returns D9_DEVICE if one of the `samples` labels of a loss node is neither valid for its loss nor -1. */
D9_MUST_USE d9_status d9_host_check_labels(d9_context *context, const d9_site *site, const int32_t *labels,
                                           int64_t samples, int64_t classes);
/* Returns D9_DEVICE if a token, in input 1 of an embedding's node, is outside [0, vocabulary). */
D9_MUST_USE d9_status d9_host_check_tokens(d9_context *context, const d9_site *site, int64_t vocabulary);
