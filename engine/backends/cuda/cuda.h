/* The CUDA backend from inside: convolutions by a library (cuDNN), everything else by kernels/cuda, behind one table of
 * rules (rules.c). A step is submitted without waiting; from its second time on, each set of active nodes is one
 * recorded CUDA graph (steps.c). What changes from step to step lies on the device: the step's number, the tables of
 * coefficients, the guard. Nothing here includes a vendor's header: runtime.c, cudnn.c and conv_cudnn.c alone do. */
#ifndef D9_BACKENDS_CUDA_H
#define D9_BACKENDS_CUDA_H

#include "backends/cuda/choices.h"
#include "backends/cuda/driver.h"
#include "backends/host/plan.h"
#include "backends/host/shapes.h"

/* Who convolves: conv_cudnn.c, or the model's stand-in in tests. The rule entries are those of d9_rule. */
typedef struct d9_cuda_convolver {
    d9_status (*open)(d9_context *context, const d9_cuda_driver *driver, void *state, void **convolver);
    void (*close)(d9_context *context, void *convolver);
    void (*describe)(const void *convolver, d9_device_info *info); /* adds to version; may be NULL */
    bool (*match)(const d9_site *site);
    d9_status (*prepare)(d9_context *context, d9_site *site);
    d9_status (*run)(d9_context *context, const d9_site *site, int64_t step);
    void (*release)(d9_context *context, d9_site *site);
    d9_status (*benchmark)(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count);
    /* Operations per second of a large product; may be NULL. */
    d9_status (*ceiling)(d9_context *context, void *backend, const d9_precision *precision,
                         double *operations_per_second);
} d9_cuda_convolver;

/* The host's copy of a buffer of indices: they are checked here, once a write, because kernels do not. */
typedef struct d9_cuda_indices {
    int32_t *values;
    int64_t count;
    bool changed; /* since they were last looked through */
    bool checked; /* by the check at hand */
} d9_cuda_indices;
enum { D9_CUDA_ORDER, D9_CUDA_EVAL_ORDER, D9_CUDA_LABELS, D9_CUDA_INDICES };

typedef struct d9_cuda {
    const d9_cuda_driver *driver;
    void *state; /* the driver's */
    d9_cuda_stream stream;
    const d9_cuda_convolver *convolver;
    void *convolver_state;
    d9_cuda_choices *choices;
    char name[D9_CUDA_CHOICE_KEY]; /* everything that a choice depends on besides shape and type */
    /* Shared by all rules, each within its own run; grown while planning: never keep the pointer. `scratch_needed` is
     * the most that a chosen rule asked for. `scratch_moves` counts how often it moved: graphs recorded before are out
     * of date. */
    void *scratch;
    int64_t scratch_bytes, scratch_needed, scratch_moves;
    int64_t own_bytes; /* what rules hold for themselves */
    /* of the program; made by d9_cuda_allocate */
    int64_t *step;               /* on the device: the number of the step that runs next; made when opening */
    int64_t step_there;          /* what it holds when all that was submitted is done; -1: not known */
    float *table[D9_MAX_TABLES]; /* on the device, as the program's */
    d9_cuda_guard *guard;        /* on the device, in D9_BUFFER_GUARD; NULL: not fp16 */
    int64_t *gradient_ends;      /* on the device: (gradient_count), elements of GRADIENT */
    d9_value_id *gradients;      /* (gradient_count): the parameters', in the order of their offsets */
    int32_t gradient_count;
    int64_t skipped; /* steps, as last reported */
    const d9_program *program;
    d9_cuda_indices indices[D9_CUDA_INDICES];
} d9_cuda;

static inline d9_cuda *d9_cuda_of(const d9_site *site) { return site->backend; }
static inline d9_cuda_stream d9_cuda_stream_of(const d9_site *site) { return d9_cuda_of(site)->stream; }

/* ---- the device (backend.c): entries of a d9_host_kind and of a d9_backend ---- */
D9_MUST_USE d9_status d9_cuda_open(d9_context *context, const d9_cuda_driver *driver,
                                   const d9_cuda_convolver *convolver, void **backend);
void d9_cuda_close(d9_context *context, void *backend);
void d9_cuda_describe(const void *backend, d9_device_info *info);
d9_status d9_cuda_peak_rates(d9_context *context, void *backend, const d9_precision *precision,
                             d9_peak_rates *peak_rates);
extern const d9_host_memory d9_cuda_memory;
extern const d9_rule *const d9_cuda_tables[];
extern const d9_rule d9_cuda_moments_rules[]; /* moments.c */
/* Where the program is too large: d9_cuda_check_room. */
d9_status d9_cuda_allocate(d9_context *context, d9_device *device, const d9_program *program);
d9_status d9_cuda_write(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, const void *bytes,
                        int64_t size);
/* The epoch's order, sorted on the device (d9_backend.order). */
d9_status d9_cuda_epoch_order(d9_context *context, d9_device *device, uint64_t seed, int64_t epoch, int64_t samples);
/* Of the scratch, for that. */
D9_MUST_USE d9_status d9_cuda_epoch_order_bytes(d9_context *context, const d9_cuda *cuda, const d9_program *program,
                                                int64_t *bytes);
/* Waits, and logs how many steps the guard skipped since it last said so. */
d9_status d9_cuda_sync(d9_context *context, d9_device *device);

/* ---- what a run needs (room.c) ---- */
/* Of the scratch, by what is known before planning: norms, weight gradients to be widened, the epoch's order. */
D9_MUST_USE d9_status d9_cuda_least_scratch(d9_context *context, d9_cuda *cuda, const d9_program *program,
                                            int64_t *bytes);
/* D9_DEVICE where the program with so much scratch does not fit: what is asked, what is free and which batch would fit.
 * `held`: what it holds already; what rules hold for themselves counts beside it. */
D9_MUST_USE d9_status d9_cuda_check_room(d9_context *context, const d9_cuda *cuda, const d9_program *program,
                                         int64_t scratch_bytes, int64_t held);
int64_t d9_cuda_program_bytes(const d9_program *program); /* without that */

/* Every index that the plan's nodes may read, if it was written since the last check. */
D9_MUST_USE d9_status d9_cuda_check_indices(d9_context *context, const d9_plan *plan);

/* ---- steps (steps.c) ---- */
d9_status d9_cuda_plan(d9_context *context, d9_device *device, const d9_program *program, const d9_graph *graph,
                       d9_plan **plan);
void d9_cuda_plan_free(d9_context *context, d9_plan *plan);
d9_status d9_cuda_run(d9_context *context, d9_plan *plan, int64_t step);
/* After a reset the first few runs of every rule are timed by marks, unrecorded; the others count at their mean. */
int d9_cuda_times(d9_plan *plan, d9_node_time *rows, int capacity, bool reset);

/* ---- measuring (measure.c) ---- */
/* Seconds of one `work`: the least of `runs` measurements after one to warm up, each the mean of several submitted
 * together: what the host does between them does not show as long as the device takes longer. A `work` that takes
 * longer than `give_up` seconds is run once more after its warm-up, and that is its time. */
D9_MUST_USE d9_status d9_cuda_time(d9_context *context, const d9_cuda *cuda, d9_cuda_work work, void *what, int runs,
                                   double give_up, double *seconds);
/* *ran false: the work fails, and the device is well. */
D9_MUST_USE d9_status d9_cuda_try_time(d9_context *context, const d9_cuda *cuda, d9_cuda_work work, void *what,
                                       int runs, double give_up, bool *ran, double *seconds);
/* Random numbers in (-1, 1), the same ones each time. Multiplying zeros costs less power than numbers do, so the clock
 * is higher (10 to 20% are reported of matrix products): what is timed on them is not what will run. */
D9_MUST_USE d9_status d9_cuda_fill(d9_context *context, const d9_cuda *cuda, d9_type type, int64_t bytes, void *to);

/* A d9_host_kind and a d9_backend of this folder. */
#define D9_CUDA_KIND(open_function, describe_function)                                                                 \
    {                                                                                                                  \
        .rules = d9_cuda_tables, .open = open_function, .close = d9_cuda_close, .describe = describe_function,         \
        .peak_rates = d9_cuda_peak_rates, .memory = &d9_cuda_memory                                                    \
    }
#define D9_CUDA_BACKEND(backend_name, backend_doc, probe_function, open_function)                                      \
    {                                                                                                                  \
        .name = backend_name, .doc = backend_doc, .probe = probe_function, .open = open_function, D9_HOST_ENTRIES,     \
        .allocate = d9_cuda_allocate, .plan = d9_cuda_plan, .plan_free = d9_cuda_plan_free, .run = d9_cuda_run,        \
        .times = d9_cuda_times, .order = d9_cuda_epoch_order, .write = d9_cuda_write, .sync = d9_cuda_sync             \
    }

/* ---- for rules ---- */

/* D9_OK, or D9_DEVICE naming the node and what CUDA says of a launcher's answer. */
D9_MUST_USE d9_status d9_cuda_check(d9_context *context, const d9_site *site, int error);
/* Of a pool, or of a pool's gradient: what it reads and what it makes of it (rules.c). */
d9_kernel_window d9_cuda_window_of(const d9_site *site, const d9_node *pool);

/* Of the cache of choices: `text` on this device. Empty where it is too long: nothing is kept under that. */
void d9_cuda_choice_key(const d9_cuda *cuda, const char *text, char key[D9_CUDA_CHOICE_KEY]);

/* Makes the shared scratch at least this large: for as long as plans live (in prepare only; what does not fit is said
 * in the words of d9_cuda_check_room), or until it is trimmed to that again. */
D9_MUST_USE d9_status d9_cuda_reserve(d9_context *context, d9_cuda *cuda, int64_t bytes);
D9_MUST_USE d9_status d9_cuda_borrow(d9_context *context, d9_cuda *cuda, int64_t bytes);
D9_MUST_USE d9_status d9_cuda_trim(d9_context *context, d9_cuda *cuda);
/* A rule's own memory, for as long as its site lives: in prepare only, refused in the same words. */
typedef struct d9_cuda_own {
    void *data;
    int64_t bytes;
} d9_cuda_own;
D9_MUST_USE d9_status d9_cuda_take(d9_context *context, d9_cuda *cuda, int64_t bytes, const char *purpose,
                                   d9_cuda_own *own);
void d9_cuda_give_back(d9_context *context, d9_cuda *cuda, d9_cuda_own *own); /* whatever it holds */
/* Whether the scratch could be so large. */
D9_MUST_USE d9_status d9_cuda_has_room(d9_context *context, const d9_cuda *cuda, int64_t bytes, bool *has);

static inline bool d9_cuda_storable(d9_type type) { return type == D9_F32 || type == D9_BF16 || type == D9_F16; }
static inline d9_kernel_store d9_cuda_store_of(d9_type type) {
    return type == D9_BF16 ? D9_KERNEL_BF16 : type == D9_F16 ? D9_KERNEL_F16 : D9_KERNEL_F32;
}
static inline d9_kernel_in d9_cuda_input(const d9_site *site, d9_value_id id) {
    return (d9_kernel_in){d9_site_data(site, id), d9_cuda_store_of(d9_site_value(site, id)->type)};
}
static inline d9_kernel_out d9_cuda_output(const d9_site *site, d9_value_id id) {
    if (id == D9_NONE) return (d9_kernel_out){NULL, D9_KERNEL_F32};
    return (d9_kernel_out){d9_site_data(site, id), d9_cuda_store_of(d9_site_value(site, id)->type)};
}
static inline d9_cuda_coefficient d9_cuda_coefficient_of(const d9_site *site, const d9_coefficient *coefficient) {
    if (coefficient->table == D9_NONE) return (d9_cuda_coefficient){NULL, (float)coefficient->constant};
    return (d9_cuda_coefficient){d9_cuda_of(site)->table[coefficient->table], 0};
}

/* ---- rules of other files than rules.c: match, prepare, run ---- */
#define D9_CUDA_RUN(name) d9_status d9_cuda_run_##name(d9_context *context, const d9_site *site, int64_t step)
D9_CUDA_RUN(draw_augment);
D9_CUDA_RUN(draw);
D9_CUDA_RUN(augment);
D9_CUDA_RUN(gather);
D9_CUDA_RUN(mix);
D9_CUDA_RUN(rank);
D9_CUDA_RUN(update);
D9_CUDA_RUN(orthogonal_update);
d9_status d9_cuda_prepare_orthogonal_update(d9_context *context, d9_site *site);
D9_CUDA_RUN(lerp);
D9_CUDA_RUN(copy);
D9_CUDA_RUN(norm); /* norm or norm_eval, then act, or act and add in either order; pool, norm, act */
/* What they want of the scratch: the launchers' own, and running statistics of a measurement. */
static inline int64_t d9_cuda_norm_bytes(const d9_kernel_norm *shape) {
    return d9_cuda_norm_scratch_bytes(shape) + 2 * shape->groups * shape->channels * (int64_t)sizeof(float);
}
D9_CUDA_RUN(norm_backward); /* alone, or after act_backward, after add and it; then also before pool_backward */

bool d9_cuda_draw_augment_match(const d9_site *site);
bool d9_cuda_norm_match(const d9_site *site);
bool d9_cuda_norm_backward_match(const d9_site *site);
d9_status d9_cuda_norm_prepare(d9_context *context, d9_site *site);
void d9_cuda_norm_release(d9_context *context, d9_site *site);
d9_status d9_cuda_norm_benchmark(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count);

#endif
