/* Runs a reference case on a backend and records the tensors that can be compared with those of the case file. */
#pragma once

#include "verify/reference_case.h"
#include "core/arena.h"

/* Tensors recorded by the run of a reference case, in the names and layout of a case file: "step2/loss",
 * "grad/layer1.conv.weight", "eval/logits". */
typedef struct d9_recorded_tensor {
    const char *name;
    double *values;
    int64_t count;
} d9_recorded_tensor;

typedef struct d9_recorded_tensors { /* all zero: empty */
    d9_arena arena;
    d9_recorded_tensor *rows;
    int count, capacity;
    bool rounds_transforms; /* a rule of the run rounded its intermediate operands (Winograd tiles, gradients of gates)
                             * to half precision */
    bool rounds_elsewhere;  /* the run kept values between some nodes in f32, or may have rounded weight gradients */
} d9_recorded_tensors;

/* Adds a row named `prefix` followed by `name`; the caller fills its `count` values. */
D9_MUST_USE d9_status d9_recorded_tensors_add(d9_context *context, d9_recorded_tensors *self, const char *prefix,
                                              const char *name, int64_t count, double **values);
/* The row of this name; NULL if there is none. */
const d9_recorded_tensor *d9_recorded_tensors_find(const d9_recorded_tensors *self, const char *name);
void d9_recorded_tensors_free(d9_context *context, d9_recorded_tensors *self);

typedef struct d9_case_run_options {
    const char *backend, *precision;
    int threads;
    int perturbation;          /* seed of the perturbation of the initial weights; 0: weights as in the file */
    int perturbation_exponent; /* each weight changes by up to 2^perturbation_exponent of its size */
} d9_case_run_options;

/* Runs all steps of a training case, or the batch of an augmentation case. The caller always frees `recorded`. */
D9_MUST_USE d9_status d9_case_run(d9_context *context, const d9_reference_case *reference,
                                  const d9_case_run_options *options, d9_recorded_tensors *recorded);

/* Opens a session ready for the first step of a training case: with its weights, and its batch in every step (of a
 * stream, the next tokens). `config` receives the configuration used by the session and must live as long. */
D9_MUST_USE d9_status d9_case_session_open(d9_context *context, const d9_reference_case *reference,
                                           const d9_case_run_options *options, d9_config *config, d9_session *session);
