/* A backend: a const struct of functions for one kind of device. Other code uses devices only through it. A backend
 * computes nodes by rules: a rule covers one node, or several consecutive nodes that it fuses (host/host.h).
 *
 * Call `open`, then `allocate` once; then `plan`, `write`, `run` and `read` in any order, each plan before it is run;
 * at the end `plan_free` for each plan, and `close`. Not thread-safe. */
#pragma once

#include "parallel/parallel.h"
#include "step/program.h"

typedef struct d9_device d9_device; /* host/plan.h, private to the backends */
typedef struct d9_plan d9_plan;     /* host/plan.h, private to the backends */

typedef struct d9_device_info {
    char name[128];                /* common name of the processor or GPU */
    char version[128];             /* of libraries: "oneDNN 2.6.3"; without any: "own kernels", "dawn9 reference" */
    char isa[32];                  /* instruction set or GPU architecture: "avx512-bf16", "sm_90" */
    int threads;                   /* number of CPU threads */
    int64_t memory_bytes;          /* memory of the GPU, or host memory that this process may use */
    bool precision[D9_PRECISIONS]; /* true: supported */
    int preferred_precision;       /* index used for `precision: auto`: the fastest in which training converges */
    const char *preferred_why;     /* reason for this preference, for users; "": none is given */
    bool preferred_if_accurate; /* `auto` takes it only for networks measured to be accurate in bf16 (models/model.h) */
    bool narrow_gradients; /* convolutions may round weight gradients to the compute type before storing them in f32 */
    int longest_rule;  /* number of nodes of the longest rule that may be used, for d9_program_options.longest_rule */
    bool asynchronous; /* `run` submits a step and returns before it is done; reading results waits */
} d9_device_info;

/* Values of d9_backend_options.tune, which decides if algorithms are timed, in the order of the option's choices. */
typedef enum d9_tune { D9_TUNE_AUTO, D9_TUNE_ON, D9_TUNE_OFF } d9_tune;

typedef struct d9_backend_options {
    int threads;                /* 0: the number of cores, divided by the number of processes that share them */
    d9_parallel *parallel;      /* the processes that add up their gradients; NULL: one process */
    bool fuse;                  /* false: use only rules of one node */
    d9_tune tune;               /* on: time the algorithms of a node; off: use the first; auto: the backend decides */
    const char *choices_folder; /* cuda: folder of the cache of tuning results; NULL: in the user's cache folder */
    const char *cpu_level;      /* highest instruction set to use, "avx2"; "auto" or NULL: the best of this processor */
    const char *force_plan;     /* text of a saved plan (host/plan.c); NULL: choose rules freely */
    double loss_scale;          /* fp16: initial loss scale; 0 means 1 */
    int64_t loss_scale_every;   /* steps without overflow before the scale doubles; overflow halves it; 0: constant */
} d9_backend_options;

typedef struct d9_rule_time {  /* a rule in a plan and its time */
    d9_node_id node;           /* first node of the rule, which covers the nodes before the next row's `node` */
    const char *rule, *choice; /* valid as long as the plan */
    const char *why;           /* reason for the choice, for users: "first choice"; "": none is given */
    double seconds;            /* of all runs since the last reset */
    int64_t runs;
    bool in_f32; /* values between the rule's nodes stay in f32 even if their types are narrower, except cast weights
                  * and outputs of act_backward, which are rounded; the rule does not use tf32 */
    bool rounds_transforms; /* operands made in the rule (Winograd tiles, gradients of gates) are rounded to bf16 */
    unsigned tf32_outputs;  /* bit i: output i of the rule's last node comes from a product whose f32 factors may be
                               rounded to tf32 */
} d9_rule_time;

/* Time of one algorithm for a node of a rule. `seconds`: as the rule runs it; `bare_seconds`: without conversions of
 * the layout. `node`: index of the node within the rule; rows of one node are adjacent. */
typedef struct d9_choice_time {
    char choice[96];
    int node;
    double seconds, bare_seconds;
} d9_choice_time;

/* Measured peak rates: bytes read and written by a copy; multiplications and additions of a large matrix product. */
typedef struct d9_peak_rates {
    double bytes_per_second, operations_per_second;
} d9_peak_rates;

typedef struct d9_backend {
    const char *name, *doc;
    /* Writes to `text` the libraries, with versions, with which the backend was compiled. NULL: not reported. */
    void (*libraries)(char *text, size_t size);
    /* Checks quickly for a device; returns D9_DEVICE, with the reason, if there is none. NULL: one always exists. */
    d9_status (*probe)(d9_context *context);
    d9_status (*open)(d9_context *context, const d9_backend_options *options, d9_device **device);
    void (*close)(d9_context *context, d9_device *device);
    void (*describe)(const d9_device *device, d9_device_info *info);

    /* Allocates the program's buffers, zeroed, of program->buffer_bytes. Called once per device. */
    d9_status (*allocate)(d9_context *context, d9_device *device, const d9_program *program);

    /* Chooses rules for all nodes of `graph`, one of the program's node lists or a part of it. Returns D9_USAGE if
     * options.force_plan does not fit the nodes; D9_DEVICE, with the node, if no rule or algorithm computes it; either
     * of these if the device lacks an algorithm that force_plan names. Slow: may time candidates, and then overwrites
     * activations (SCRATCH) and gradients (GRADIENT). */
    d9_status (*plan)(d9_context *context, d9_device *device, const d9_program *program, const d9_graph *graph,
                      d9_plan **plan);
    void (*plan_free)(d9_context *context, d9_plan *plan);
    /* One line per rule: "RULE<TAB>ROLE<TAB>CHOICE". Valid as long as the plan. */
    const char *(*plan_text)(const d9_plan *plan);
    /* True if an algorithm of this plan text computes other bits with another number of threads. NULL: none does. */
    bool (*threads_matter)(const char *plan_text);

    /* Runs each rule of the plan once, so that no later step loads code. Overwrites what steps write, except GUARD:
     * call it before the state is written. NULL: steps load no code. */
    d9_status (*load)(d9_context *context, d9_plan *plan);
    /* Runs one step. Nodes whose `when` is not active are skipped. */
    d9_status (*run)(d9_context *context, d9_plan *plan, int64_t step);
    /* Writes each rule's time since the last call with `reset`, to at most `capacity` rows (NULL: none). With `reset`,
     * times then start at 0 again. Returns the number of rules. */
    int (*times)(d9_plan *plan, d9_rule_time *rows, int capacity, bool reset);

    /* Times at most `capacity` algorithms of row `row` of `times`; *count 0: none. Overwrites the rule's outputs. */
    d9_status (*benchmark)(d9_context *context, d9_plan *plan, int row, d9_choice_time *rows, int capacity, int *count);
    /* Measures the peak rates; a rate of 0 is unknown. NULL: both rates are unknown. */
    d9_status (*peak_rates)(d9_context *context, d9_device *device, const d9_precision *precision,
                            d9_peak_rates *peak_rates);

    /* Copies the program's tables to the device, after their values have changed. NULL: steps read program->table. */
    d9_status (*upload_tables)(d9_context *context, d9_device *device, const d9_program *program);
    /* Fills D9_BUFFER_ORDER, on the device, with the first entries of d9_epoch_order for `samples` training samples.
     * Only for a run of one process. NULL: the caller writes the buffer. */
    d9_status (*fill_order)(d9_context *context, d9_device *device, uint64_t seed, int64_t epoch, int64_t samples);
    /* Copy `size` bytes to or from a buffer, at byte `offset`. Return D9_DEVICE for a range outside the buffer. */
    d9_status (*write)(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, const void *bytes,
                       int64_t size);
    d9_status (*read)(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, void *bytes,
                      int64_t size);
    d9_status (*sync)(d9_context *context, d9_device *device); /* waits for submitted steps; returns their errors */
} d9_backend;

/* Finds a backend by name: cuda, cpu, onednn or reference; "auto": the first of these whose module opens and which has
 * a device. D9_USAGE: another name; D9_DEVICE, with advice: cuda's module cannot be opened (`open` opens onednn's). */
D9_MUST_USE d9_status d9_backend_find(d9_context *context, const char *name, const d9_backend **backend);
/* Opens the device of the named backend, describes it and closes it. `threads` as in d9_backend_options. */
D9_MUST_USE d9_status d9_backend_describe(d9_context *context, const char *name, int threads, d9_device_info *info);
const char *d9_backend_name_at(int index); /* best first; NULL past the end */
/* True if the backend at `index`, which must not be past the end, is installed; opening it shows if it runs here. */
bool d9_backend_is_installed(d9_context *context, int index);

/* Precision named `wanted`; "auto": info->preferred_precision. D9_USAGE: unknown; D9_DEVICE: not supported. */
D9_MUST_USE d9_status d9_backend_precision(d9_context *context, const d9_backend *backend, const d9_device_info *info,
                                           const char *wanted, const d9_precision **precision);
