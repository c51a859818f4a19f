/* A thin layer over cuDNN's graph API: makes an operation graph from a description, lists its choices, and makes an
 * execution plan from a choice. Leaves out nondeterministic and less precise choices, and those that compile code or
 * need cuBLASLt. Everything up to the plan works without a GPU, given JSON of a device instead of a handle (from cuDNN
 * 9.11 on). */
#pragma once

#include "backends/cuda/conv_description.h"

#include <cudnn.h>
#include <stdatomic.h>

/* Reads the files of the libraries that planning will open, to load them into the page cache, until all are read or
 * `stop` is set. Opens no library, so it may run on any thread. Returns the number of bytes read. */
int64_t d9_cudnn_read_ahead(const atomic_bool *stop);

/* Device to plan for: a handle or, if NULL, the properties of a device that need not be present. */
typedef struct d9_cudnn_target {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t properties;
} d9_cudnn_target;

/* Parses cuDNN's JSON of device properties. Free with cudnnBackendDestroyDescriptor. */
D9_MUST_USE d9_status d9_cudnn_parse_properties(d9_context *context, const char *json,
                                                cudnnBackendDescriptor_t *properties);

typedef struct d9_cudnn_graph {
    d9_cudnn_description description;
    cudnnBackendDescriptor_t tensor[D9_CONV_ARGUMENTS], convolution, operation, graph;
} d9_cudnn_graph;
D9_MUST_USE d9_status d9_cudnn_graph_make(d9_context *context, const d9_cudnn_target *target,
                                          const d9_cudnn_description *description, d9_cudnn_graph *graph);
void d9_cudnn_graph_free(d9_cudnn_graph *graph); /* may be partially built */

/* An engine and its knobs; its name is like "e47 k2=23 k24=1". */
enum { D9_CUDNN_KNOBS = 16, D9_CUDNN_NAME = 96 };
typedef struct d9_cudnn_choice {
    int64_t engine;
    int knob_count;
    int64_t knob[D9_CUDNN_KNOBS], value[D9_CUDNN_KNOBS];
} d9_cudnn_choice;
/* Writes the choice's name. False: it is too long, and may be cut off; d9_cudnn_choices omits choices of such names. */
bool d9_cudnn_choice_name(const d9_cudnn_choice *choice, char name[D9_CUDNN_NAME]);
/* Inverse of d9_cudnn_choice_name; false if `name` is not the name of a choice. */
bool d9_cudnn_choice_parse(const char *name, d9_cudnn_choice *choice);

/* True for an engine that rounds partial sums to the precision of the product, although its notes do not say so. It is
 * never listed; choices from elsewhere, cached or of a saved plan, must be checked. Engine 62 does so for weight
 * gradients: `dawn9 verify` on an H200 with cuDNN 9.19 found errors of 2.1e-3 in bf16, and less than 1e-4 for every
 * other engine. In tf32 it found 2.5e-3, where truncated inputs explain 1.0e-3. cuDNN lists this engine only if a GPU
 * is present, so only `verify` on a GPU can test this. */
static inline bool d9_cudnn_rounds_partial_sums(const d9_cudnn_choice *choice,
                                                const d9_cudnn_description *description) {
    return description->pass == D9_CONV_BACKWARD_WEIGHT && choice->engine == 62;
}

/* Lists the choices that cuDNN's heuristics offer, best first: mode A, then fallback, without repetitions and excluded
 * engines. Engines without tensor cores come later if those are allowed; engines that propagate NaN strictly, last. */
D9_MUST_USE d9_status d9_cudnn_choices(d9_context *context, const d9_cudnn_target *target, const d9_cudnn_graph *graph,
                                       d9_cudnn_choice *choices, int capacity, int *count);

typedef struct d9_cudnn_plan {
    cudnnBackendDescriptor_t engine, config, plan, pack; /* pack: addresses of the last run's arguments */
    int64_t workspace_bytes;
} d9_cudnn_plan;
/* *built is false if the choice cannot compute the graph on the target. */
D9_MUST_USE d9_status d9_cudnn_plan_make(d9_context *context, const d9_cudnn_target *target,
                                         const d9_cudnn_graph *graph, const d9_cudnn_choice *choice,
                                         d9_cudnn_plan *plan, bool *built);
void d9_cudnn_plan_free(d9_cudnn_plan *plan);

/* Submits the pass to the handle's stream. `data`: addresses by argument. */
D9_MUST_USE d9_status d9_cudnn_run(d9_context *context, cudnnHandle_t handle, const d9_cudnn_graph *graph,
                                   d9_cudnn_plan *plan, void *const data[D9_CONV_ARGUMENTS], void *workspace);
