/* A backend: a const struct of functions over one device. Everything above reaches it only through here.
 *
 * Order of calls: open, allocate, plan (any number), write, run..., read, plan_free, close. Not thread-safe. */
#ifndef D9_BACKENDS_BACKEND_H
#define D9_BACKENDS_BACKEND_H

#include "step/program.h"

typedef struct d9_device d9_device; /* each backend's own */
typedef struct d9_plan d9_plan;

typedef struct d9_device_info {
    char name[128];       /* processor or GPU, as people know it */
    char version[128];    /* of the library underneath */
    char isa[32];         /* "avx512-bf16", "amx", "sm_90" */
    int threads;          /* of the host's part */
    int64_t memory_bytes; /* what a run may use */
    bool precision[D9_PRECISIONS];
    int preferred_precision;   /* what precision: auto takes: the fastest that trains */
    const char *preferred_why; /* and why, for people; "" where there is nothing to choose */
    bool narrow_gradients; /* a convolution's weight gradient is rounded to the compute type on its way to f32 */
    int longest_rule;     /* nodes of the longest rule it may place: d9_program_options */
    bool asynchronous;    /* a step is submitted, not done, when `run` returns: looking at its results waits */
} d9_device_info;

typedef enum d9_tune { D9_TUNE_AUTO, D9_TUNE_ON, D9_TUNE_OFF } d9_tune; /* the order of backend_options.tune */

typedef struct d9_backend_options {
    int threads; /* 0: default */
    bool fuse;   /* false: only rules of one node */
    d9_tune tune; /* off: the first choice; auto: as the backend gains from it */
    const char *cpu_level;  /* instructions not to go beyond, "avx2"; "auto", NULL: the best that runs here */
    const char *force_plan; /* text of a saved plan; NULL: choose */
    double loss_scale;        /* fp16; 0: 1 */
    int64_t loss_scale_every; /* steps without overflow after which it doubles; 0: it stays as it is */
} d9_backend_options;

typedef struct d9_node_time {
    d9_node_id node;          /* the first it covers; the next row's is the first behind them */
    const char *rule, *choice; /* valid as long as the plan */
    const char *why;           /* why this choice, for people: "first choice"; "" where there was none */
    double seconds;
    int64_t runs;
    bool in_f32; /* the rule rounds nothing between its nodes */
} d9_node_time;

/* One of the ways to compute a rule, timed alone: as the rule runs it, and without what it does around the library's
 * own call (reorders). */
/* `node`: which of the rule's nodes is computed so, from 0; the rows of one stand together. */
typedef struct d9_choice_time { char choice[96]; int node; double seconds, bare_seconds; } d9_choice_time;

/* What this device can do at all: reading and writing memory, and multiplying large matrices as convolutions do. */
typedef struct d9_ceilings { double bytes_per_second, operations_per_second; } d9_ceilings;

typedef struct d9_backend {
    const char *name, *doc;
    d9_status (*probe)(
        d9_context *context); /* whether a device answers, cheaply; else D9_DEVICE and why. NULL: one does */
    d9_status (*open)(d9_context *context, const d9_backend_options *options, d9_device **device);
    void (*close)(d9_context *context, d9_device *device);
    void (*describe)(const d9_device *device, d9_device_info *info);

    /* Allocates the program's buffers (zeroed), sizes in program->buffer_bytes. Once per device. */
    d9_status (*allocate)(d9_context *context, d9_device *device, const d9_program *program);

    /* Chooses a rule for every node of program->train or program->eval. A node that no rule covers: D9_DEVICE
     * with its name. Slow; may time candidates, and writes numbers of its own into SCRATCH then, and nowhere else. */
    d9_status (*plan)(d9_context *context, d9_device *device, const d9_program *program, const d9_graph *graph,
                      d9_plan **plan);
    void (*plan_free)(d9_context *context, d9_plan *plan);
    /* One line per rule: "RULE<TAB>ROLE<TAB>CHOICE". Valid as long as the plan. */
    const char *(*plan_text)(const d9_plan *plan);

    /* One step. Nodes whose `when` is not active are passed over. */
    d9_status (*run)(d9_context *context, d9_plan *plan, int64_t step);
    /* Per-rule times since the last call with `reset`. Returns the number of rows; rows may be NULL. */
    int (*times)(d9_plan *plan, d9_node_time *rows, int capacity, bool reset);

    /* Times every way to compute row `row` of `times`; *count 0: there is no choice. Overwrites the rule's outputs. */
    d9_status (*survey)(d9_context *context, d9_plan *plan, int row, d9_choice_time *rows, int capacity, int *count);
    /* Measured when called; zeros: not known. NULL: never known. */
    d9_status (*ceilings)(d9_context *context, d9_device *device, const d9_precision *precision, d9_ceilings *ceilings);

    /* D9_BUFFER_ORDER becomes the head of d9_epoch_order's answer, made on the device. NULL: the caller writes it. */
    d9_status (*order)(d9_context *context, d9_device *device, uint64_t seed, int64_t epoch, int64_t samples);
    d9_status (*write)(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, const void *bytes,
                       int64_t size);
    d9_status (*read)(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, void *bytes,
                      int64_t size);
    d9_status (*sync)(d9_context *context, d9_device *device);
} d9_backend;

/* The table of backends (registry.c), best first: cuda, cpu, onednn, reference. A row whose module cannot be opened is
 * absent: D9_DEVICE, with what would help. `name` "auto": the first that opens and whose device answers. */
D9_MUST_USE d9_status d9_backend_find(d9_context *context, const char *name, const d9_backend **backend);
/* What the backend runs on here: of a device that is opened for the purpose. `threads` as in d9_backend_options. */
D9_MUST_USE d9_status d9_backend_describe(d9_context *context, const char *name, int threads, d9_device_info *info);
const char *d9_backend_name_at(int index); /* NULL: past the end */
/* Whether this build brought it; whether it runs here, opening it tells. */
bool d9_backend_is_built(d9_context *context, int index);

/* "auto": info->preferred_precision. */
D9_MUST_USE d9_status d9_backend_precision(d9_context *context, const d9_backend *backend, const d9_device_info *info,
                                           const char *wanted, const d9_precision **precision);

#endif
