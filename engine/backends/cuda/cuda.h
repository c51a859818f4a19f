/* Internals of the CUDA backend: tables of rules (rules.c, moments.c) that call kernels/cuda; convolutions call cuDNN,
 * and large linear layers, gradients of large recurrent weights and orthogonal updates call cuBLAS. Steps are submitted
 * ahead of the device (D9_CUDA_STEPS_AHEAD); from the second time that the same nodes run in a step, they run as a CUDA
 * graph (steps.c). Data that changes from step to step is on the device: step number, coefficient tables, guard (loss
 * scale, non-finite gradients). Only module.c, runtime.c, cudnn.h, cublas.c and nccl.c include vendor headers. */
#pragma once

#include "backends/cuda/choices.h"
#include "backends/cuda/driver.h"
#include "backends/host/plan.h"
#include "backends/host/shapes.h"

/* An implementation of convolutions: conv_cudnn.c. Rule functions as in d9_rule. */
typedef struct d9_cuda_convolver {
    d9_status (*open)(d9_context *context, const d9_cuda_calls *driver, void *state, void **convolver);
    void (*close)(d9_context *context, void *convolver);
    void (*describe)(const void *convolver, d9_device_info *info); /* appends to version; NULL: nothing to add */
    bool (*match)(const d9_site *site);
    d9_status (*prepare)(d9_context *context, d9_site *site);
    d9_status (*run)(d9_context *context, const d9_site *site, int64_t step);
    void (*release)(d9_context *context, d9_site *site);
    d9_status (*benchmark)(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count);
    /* Measures operations per second of a large matrix product. NULL: unknown. */
    d9_status (*peak_rate)(d9_context *context, void *backend, const d9_precision *precision,
                           double *operations_per_second);
} d9_cuda_convolver;

/* y = alpha op(a) op(b) + beta c + bias for `batch` matrices of one shape, each stored row by row. Products are summed
 * in f32 and rounded once. c may be y; a and b must not overlap y. */
typedef struct d9_cuda_product {
    d9_type type, y_type;                 /* of a and b: f32, bf16 or fp16; of c and y: `type` or f32 */
    bool tf32;                            /* f32 factors may be rounded to tf32 */
    int64_t batch, rows, columns, depth;  /* op(a): (rows, depth); op(b): (depth, columns) */
    bool biased;                          /* a bias (columns) in f32 is added to each row; y must be f32 */
    bool a_transposed, b_transposed;      /* a is stored as (depth, rows); b as (columns, depth) */
    int64_t a_stride, b_stride, y_stride; /* elements from a matrix to the next one; y_stride also holds for c */
    float alpha, beta;
} d9_cuda_product;
typedef struct d9_cuda_matrices { /* aligned to 64 bytes, as is every matrix of the batch */
    const void *a, *b, *c;        /* c: may be NULL if beta is 0 */
    void *y;
    const float *bias; /* NULL if the product has none */
} d9_cuda_matrices;

/* An implementation of matrix products: cublas.c. */
typedef struct d9_cuda_multiplier {
    void (*describe)(d9_device_info *info);               /* appends to version */
    void (*close)(d9_context *context, void *multiplier); /* multiplier NULL is ignored */
    /* Makes a plan, which keeps a copy of `product`, and *multiplier, the state, if that is NULL. *workspace_bytes:
     * memory that each run needs. */
    d9_status (*plan)(d9_context *context, void **multiplier, const d9_cuda_product *product, void **plan,
                      int64_t *workspace_bytes);
    void (*free_plan)(d9_context *context, const void *multiplier, void *plan); /* plan NULL is ignored */
    /* Submits a product. `workspace` is aligned to 256 bytes. Equal arguments give equal bits. */
    d9_status (*run)(d9_context *context, const void *multiplier, const void *plan, const d9_cuda_matrices *matrices,
                     void *workspace, d9_cuda_stream stream);
} d9_cuda_multiplier;

/* Sums over the GPUs of the processes: nccl.c, or NULL in a build without it. */
typedef struct d9_cuda_reducer {
    const char *version;   /* at compile time: "NCCL 2.28.9" */
    int64_t segment_bytes; /* bytes of gradients that one sum adds, while others are still computed */
    /* Loads the library; waits for no other process. *pci: PCI address of this process's GPU on its host, above 0. */
    d9_status (*load)(d9_context *context, void **reducer, int64_t *pci);
    /* Collective: waits for all processes. Each must have loaded the library and have a GPU of its own. */
    d9_status (*join)(d9_context *context, void *reducer, d9_parallel *parallel);
    /* Submits the replacement of `values` by their sums over the processes, which call it in the same order with the
     * same counts. Can be recorded in a CUDA graph after its first run. */
    d9_status (*sum)(d9_context *context, void *reducer, float *values, int64_t count, d9_cuda_stream stream);
    /* Fails if another process or the connection to it is lost; sums that were submitted then end without results, and
     * `sum` and `watch` fail from then on. Does not wait until those sums have ended. */
    d9_status (*watch)(d9_context *context, void *reducer);
    /* Waits for no other process. CUDA graphs with sums must have been freed. reducer NULL is ignored. */
    void (*close)(d9_context *context, void *reducer);
} d9_cuda_reducer;

/* Host copy of a buffer of indices. After the host has written the buffer, the copy is checked before the first step
 * whose plan reads the buffer, because kernels do not check indices. */
typedef struct d9_cuda_indices {
    int32_t *values;
    int64_t count;
    bool changed; /* written since the last check */
    bool checked; /* seen by the check in progress */
} d9_cuda_indices;
enum { D9_CUDA_ORDER, D9_CUDA_EVAL_ORDER, D9_CUDA_LABELS, D9_CUDA_TEXTS, D9_CUDA_EVAL_TEXTS, D9_CUDA_INDICES };

typedef struct d9_cuda {
    const d9_cuda_calls *driver;
    void *state; /* the driver's state */
    d9_cuda_stream stream;
    const d9_cuda_convolver *convolver;
    void *convolver_state;
    const d9_cuda_multiplier *multiplier;
    void *multiplier_state;         /* NULL before the first plan of a product */
    const d9_cuda_reducer *reducer; /* NULL: this build has none, or not every process can use it */
    void *reducer_state;            /* NULL before the processes have joined, with one process, and without a reducer */
    bool joined;                    /* the processes have joined their GPUs, or agreed not to */
    d9_cuda_choices *choices;
    char name[D9_CUDA_CHOICE_KEY]; /* prefix of cache keys: GPU, driver and versions of the libraries */
    /* Scratch memory shared by all rules during their run; may move between steps: do not keep the pointer.
     * `scratch_needed`: largest size asked of d9_cuda_reserve_scratch. `scratch_moves`: number of moves, which outdate
     * recorded graphs. */
    void *scratch;
    int64_t scratch_bytes, scratch_needed, scratch_moves;
    int64_t site_bytes; /* total size of all d9_cuda_site_memory */
    /* data of the program, made by d9_cuda_allocate; but d9_cuda_open makes `step` */
    int64_t *step;               /* on the device: number of the step that runs next */
    int64_t step_on_device;      /* value of `step` after all submitted work; -1: unknown */
    float *table[D9_MAX_TABLES]; /* on the device: the program's tables */
    d9_cuda_guard *guard;        /* on the device, in D9_BUFFER_GUARD; NULL: not fp16, or no training */
    int64_t *gradient_ends;      /* on the device: (gradient_count) end offsets in GRADIENT, in elements */
    d9_value_id *gradients;      /* (gradient_count) gradients of the parameters, sorted by offset */
    int32_t gradient_count;
    int64_t skipped;        /* number of skipped steps already reported */
    bool warned_unrecorded; /* a warning has said that steps are not recorded as graphs */
    const d9_program *program;
    d9_cuda_indices indices[D9_CUDA_INDICES];
} d9_cuda;

static inline d9_cuda *d9_cuda_of(const d9_site *site) { return site->backend; }
static inline d9_cuda_stream d9_cuda_stream_of(const d9_site *site) { return d9_cuda_of(site)->stream; }

/* ---- device (backend.c, order.c): entries of d9_device_kind and d9_backend; tables of rules ---- */
D9_MUST_USE d9_status d9_cuda_open(d9_context *context, const d9_cuda_calls *driver, const d9_cuda_convolver *convolver,
                                   const d9_cuda_multiplier *multiplier, const d9_cuda_reducer *reducer,
                                   const d9_backend_options *options, void **backend);
void d9_cuda_close(d9_context *context, void *backend);
void d9_cuda_describe(const void *backend, d9_device_info *info);
d9_status d9_cuda_peak_rates(d9_context *context, void *backend, const d9_precision *precision,
                             d9_peak_rates *peak_rates);
extern const d9_device_memory d9_cuda_memory;
extern const d9_rule *const d9_cuda_rule_tables[];
extern const d9_rule d9_cuda_moments_rules[]; /* moments.c */
/* Allocates the buffers and the other data of the program; if it is too large, fails as d9_cuda_check_memory does. */
d9_status d9_cuda_allocate(d9_context *context, d9_device *device, const d9_program *program);
d9_status d9_cuda_write(d9_context *context, d9_device *device, d9_buffer buffer, int64_t offset, const void *bytes,
                        int64_t size);
/* Writes the program's tables to the device (d9_backend.upload_tables). */
d9_status d9_cuda_upload_tables(d9_context *context, d9_device *device, const d9_program *program);
/* Computes the epoch's order by sorting on the device (d9_backend.fill_order). */
d9_status d9_cuda_epoch_order(d9_context *context, d9_device *device, uint64_t seed, int64_t epoch, int64_t samples);
/* Scratch bytes that d9_cuda_epoch_order needs for the program's training samples. */
D9_MUST_USE d9_status d9_cuda_epoch_order_bytes(d9_context *context, const d9_cuda *cuda, const d9_program *program,
                                                int64_t *bytes);
/* Waits for submitted work, and warns of steps that the guard skipped since the last call. */
d9_status d9_cuda_sync(d9_context *context, d9_device *device);

/* ---- memory limit (memory_limit.c), checks of indices (backend.c) ---- */
/* Scratch bytes known before planning: the largest need of any norm, bias gradient, convolution with converted
 * arguments, embedding gradient, recurrent gradient, clipping or sort of the epoch's order. */
D9_MUST_USE d9_status d9_cuda_min_scratch(d9_context *context, d9_cuda *cuda, const d9_program *program,
                                          int64_t *bytes);
/* Returns D9_DEVICE if the program, `scratch_bytes` of scratch memory and the rules' own memory do not fit; the message
 * has needed and free memory and the batch size that would fit, if any. `held`: bytes of program and scratch that are
 * already allocated. */
D9_MUST_USE d9_status d9_cuda_check_memory(d9_context *context, const d9_cuda *cuda, const d9_program *program,
                                           int64_t scratch_bytes, int64_t held);
int64_t d9_cuda_program_bytes(const d9_program *program); /* buffers and tables */

/* Checks all indices that the plan's nodes read, if they were written since the last check. */
D9_MUST_USE d9_status d9_cuda_check_indices(d9_context *context, const d9_plan *plan);

/* ---- steps (steps.c) ---- */
d9_status d9_cuda_plan(d9_context *context, d9_device *device, const d9_program *program, const d9_graph *graph,
                       d9_plan **plan);
void d9_cuda_plan_free(d9_context *context, d9_plan *plan);
d9_status d9_cuda_load(d9_context *context, d9_plan *plan);
d9_status d9_cuda_run(d9_context *context, d9_plan *plan, int64_t step);
/* After a call with `reset`, the first few runs of every rule are timed with events, without CUDA graphs; later ones
 * are assumed to take their mean. */
int d9_cuda_times(d9_plan *plan, d9_rule_time *rows, int capacity, bool reset);

/* ---- sums of gradients over the processes (sums.c) ---- */
typedef struct d9_cuda_segment {
    int64_t begin, end; /* elements of GRADIENT */
    d9_node_id ready;   /* last node before the sum that reads or writes one of them; -1: none does */
} d9_cuda_segment;
/* The sums of one step, one for each segment, submitted in the order of `ready`. */
typedef struct d9_cuda_gradient_sums {
    d9_cuda_segment *segment;
    int count;
    bool waits; /* the sums go through host memory and wait for the stream, so the step cannot be recorded */
} d9_cuda_gradient_sums;
/* Finds the sums of a step in which the rules with active[i] != 0 run; `active` has plan->placed_count entries. The
 * first call that finds a sum is collective in a run of several processes: they join their GPUs, or agree to add
 * through host memory, with a warning. Free with d9_cuda_sums_free. */
D9_MUST_USE d9_status d9_cuda_sums_plan(d9_context *context, const d9_plan *plan, const uint8_t *active,
                                        d9_cuda_gradient_sums *sums);
void d9_cuda_sums_free(d9_context *context, d9_cuda_gradient_sums *sums); /* `sums` may be all zero */
/* Submits the sums, from number *next on, whose gradients are complete before `node` runs; moves *next past them. */
D9_MUST_USE d9_status d9_cuda_sums_start(d9_context *context, const d9_plan *plan, const d9_cuda_gradient_sums *sums,
                                         d9_node_id node, int *next);

/* ---- timing (measure.c) ---- */
/* Sets *seconds to the time of a call of `work` after a warm-up: the minimum of one call timed alone and of `runs`
 * means over several calls submitted together, which hide host time unless it exceeds the device's. If the single call
 * takes more than `give_up` seconds, its time is the result. */
D9_MUST_USE d9_status d9_cuda_time(d9_context *context, const d9_cuda *cuda, d9_cuda_work work, void *what, int runs,
                                   double give_up, double *seconds);
/* Returns `status` if the device no longer works; otherwise D9_OK, and a failure's message goes to the debug log. */
D9_MUST_USE d9_status d9_cuda_ignore_failure(d9_context *context, const d9_cuda *cuda, d9_status status);
/* d9_cuda_time for work that may fail; *ran false: it failed, but the device still works. */
D9_MUST_USE d9_status d9_cuda_time_fallible(d9_context *context, const d9_cuda *cuda, d9_cuda_work work, void *what,
                                            int runs, double give_up, bool *ran, double *seconds);
/* Fills memory with random numbers in [-1, 1], the same in each call. Zeros would give wrong times: they need less
 * power, so the clock rate is higher (matrix products are reported to be 10 to 20% faster). */
D9_MUST_USE d9_status d9_cuda_fill_random(d9_context *context, const d9_cuda *cuda, d9_type type, int64_t bytes,
                                          void *to);

/* Initialisers of a d9_device_kind and a d9_backend with this folder's functions. */
#define D9_CUDA_KIND(open_function, describe_function)                                                                 \
    {                                                                                                                  \
        .rules = d9_cuda_rule_tables, .open = open_function, .close = d9_cuda_close, .describe = describe_function,    \
        .peak_rates = d9_cuda_peak_rates, .memory = &d9_cuda_memory                                                    \
    }
#define D9_CUDA_BACKEND(backend_name, backend_doc, libraries_function, probe_function, open_function)                  \
    {                                                                                                                  \
        .name = backend_name, .doc = backend_doc, .libraries = libraries_function, .probe = probe_function,            \
        .open = open_function, D9_HOST_ENTRIES, .allocate = d9_cuda_allocate, .plan = d9_cuda_plan,                    \
        .plan_free = d9_cuda_plan_free, .load = d9_cuda_load, .run = d9_cuda_run, .times = d9_cuda_times,              \
        .upload_tables = d9_cuda_upload_tables, .fill_order = d9_cuda_epoch_order, .write = d9_cuda_write,             \
        .sync = d9_cuda_sync                                                                                           \
    }

/* ---- functions for rules ---- */

/* Converts a launcher's result: D9_OK for 0, otherwise D9_DEVICE with the site's first node and CUDA's error. */
D9_MUST_USE d9_status d9_cuda_check(d9_context *context, const d9_site *site, int error);
/* Window of a pool or a pool's gradient (rules.c). */
d9_kernel_window d9_cuda_window_of(const d9_site *site, const d9_node *pool);

/* Key of the cache of choices for `text` on this device; empty, which is never cached, if it is too long. */
void d9_cuda_choice_key(const d9_cuda *cuda, const char *text, char key[D9_CUDA_CHOICE_KEY]);

/* Enlarge the shared scratch memory to at least `bytes`: d9_cuda_reserve_scratch for good (while planning only; errors
 * as d9_cuda_check_memory), d9_cuda_borrow_scratch until d9_cuda_restore_scratch gives it the reserved size again.
 * After a failure there may be no scratch memory: d9_cuda_restore_scratch must succeed before the next step. */
D9_MUST_USE d9_status d9_cuda_reserve_scratch(d9_context *context, d9_cuda *cuda, int64_t bytes);
D9_MUST_USE d9_status d9_cuda_borrow_scratch(d9_context *context, d9_cuda *cuda, int64_t bytes);
D9_MUST_USE d9_status d9_cuda_restore_scratch(d9_context *context, d9_cuda *cuda);
/* Memory owned by one site, allocated in prepare, with errors as d9_cuda_check_memory, and freed in release. */
typedef struct d9_cuda_site_memory {
    void *data;
    int64_t bytes;
} d9_cuda_site_memory;
D9_MUST_USE d9_status d9_cuda_site_allocate(d9_context *context, d9_cuda *cuda, int64_t bytes, const char *purpose,
                                            d9_cuda_site_memory *own);
void d9_cuda_site_free(d9_context *context, d9_cuda *cuda, d9_cuda_site_memory *own); /* `own` may be empty */
/* Sets *fits: true if the free memory suffices to enlarge the scratch memory to `bytes`. */
D9_MUST_USE d9_status d9_cuda_can_enlarge_scratch(d9_context *context, const d9_cuda *cuda, int64_t bytes, bool *fits);

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

/* ---- functions of rules in other files than rules.c ---- */
#define D9_CUDA_RUN(name) d9_status d9_cuda_run_##name(d9_context *context, const d9_site *site, int64_t step)
D9_CUDA_RUN(draw_augment);
D9_CUDA_RUN(draw);
D9_CUDA_RUN(augment);
D9_CUDA_RUN(gather);
D9_CUDA_RUN(mix);
D9_CUDA_RUN(paste);
D9_CUDA_RUN(rank);
D9_CUDA_RUN(tokens);
D9_CUDA_RUN(stream);
D9_CUDA_RUN(embed);
D9_CUDA_RUN(embed_backward);
D9_CUDA_RUN(recur);
D9_CUDA_RUN(recur_backward);
D9_CUDA_RUN(last);
D9_CUDA_RUN(last_backward);
D9_CUDA_RUN(all_reduce);
d9_status d9_cuda_prepare_all_reduce(d9_context *context, d9_site *site);
void d9_cuda_release_all_reduce(d9_context *context, d9_site *site);
D9_CUDA_RUN(clip);
d9_status d9_cuda_prepare_clip(d9_context *context, d9_site *site);
D9_CUDA_RUN(update);
D9_CUDA_RUN(orthogonal_update); /* of one or several weights of the same shape (orthogonal.c) */
bool d9_cuda_orthogonal_match(const d9_site *site);
d9_status d9_cuda_orthogonal_prepare(d9_context *context, d9_site *site);
void d9_cuda_orthogonal_release(d9_context *context, d9_site *site);
/* Large linear layers, alone or with a bias, as matrix products of d9_cuda.multiplier: cuBLAS (linear.c). */
D9_CUDA_RUN(large_linear);
bool d9_cuda_large_linear_match(const d9_site *site);
bool d9_cuda_large_linear_bias_match(const d9_site *site);
d9_status d9_cuda_large_linear_prepare(d9_context *context, d9_site *site);
void d9_cuda_product_release(d9_context *context, d9_site *site); /* site->data: a plan of a product, or NULL */
d9_kernel_linear d9_cuda_linear_of(const d9_site *site);
/* Describes the matrix product of a linear layer's pass (D9_OP_LINEAR or one of its backward passes), all in f32. */
d9_cuda_product d9_cuda_product_of(const d9_site *site, const d9_kernel_linear *layer, d9_op pass);
/* Our own dot products compute linear layers of up to D9_CUDA_MOST_WEIGHTS weights: 256 KiB of f32 fit into the L1
 * cache of an H100's multiprocessor, so that rereading them for every sample costs little. ResNet-9's classifier has
 * 5,120 weights. cuBLAS computes larger layers, and smaller ones of more than D9_CUDA_MOST_MULTIPLICATIONS
 * multiplications: the GRU on IMDB uses each of its 37,500 weights for 9,600 tokens. */
enum { D9_CUDA_MOST_WEIGHTS = 65536, D9_CUDA_MOST_MULTIPLICATIONS = 1 << 27 };

/* True if cuBLAS computes a layer of `rows` samples and columns * depth weights. */
static inline bool d9_cuda_uses_cublas(int64_t rows, int64_t columns, int64_t depth) {
    return columns * depth > D9_CUDA_MOST_WEIGHTS || rows * columns * depth > D9_CUDA_MOST_MULTIPLICATIONS;
}
D9_CUDA_RUN(lerp);
D9_CUDA_RUN(copy);
/* norm or norm_eval: alone, before act, between pool and act, or before act and add in either order */
D9_CUDA_RUN(norm);
/* Scratch bytes of a norm: those of its launchers, followed by the running statistics of trial runs. */
static inline int64_t d9_cuda_norm_bytes(const d9_kernel_norm *shape) {
    return d9_cuda_norm_scratch_bytes(shape) + 2 * shape->groups * shape->channels * (int64_t)sizeof(float);
}
/* norm_backward alone, after act_backward, or after add and act_backward; if not alone, also before pool_backward */
D9_CUDA_RUN(norm_backward);

d9_status d9_cuda_prepare_embed_backward(d9_context *context, d9_site *site);
d9_status d9_cuda_prepare_recur_backward(d9_context *context, d9_site *site);
/* Sizes of an embedding and of a recurrent layer, forward or backward (texts.c). */
d9_cuda_embedding d9_cuda_embedding_of(const d9_site *site);
d9_cuda_recur d9_cuda_recur_of(const d9_site *site);
bool d9_cuda_recur_match(const d9_site *site);
bool d9_cuda_draw_augment_match(const d9_site *site);
bool d9_cuda_norm_match(const d9_site *site);
bool d9_cuda_norm_backward_match(const d9_site *site);
d9_status d9_cuda_norm_prepare(d9_context *context, d9_site *site);
void d9_cuda_norm_release(d9_context *context, d9_site *site);
d9_status d9_cuda_norm_benchmark(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count);

/* ---- the vendor's libraries, used by module.c ---- */
extern const d9_cuda_convolver d9_cuda_cudnn; /* conv_cudnn.c */
/* cublas.c: the library is large and many networks do not need it, so planning the first product loads it. */
extern const d9_cuda_multiplier d9_cuda_cublas;
/* nccl.c: the library is loaded before the first sum of a run of several processes. D9_CUDA_NCCL is NULL in a build
 * without NCCL's header. */
#if DAWN9_NCCL
extern const d9_cuda_reducer d9_cuda_nccl;
#define D9_CUDA_NCCL &d9_cuda_nccl
#else
#define D9_CUDA_NCCL NULL
#endif
