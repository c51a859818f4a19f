/* Runs a reference case on a backend and records the tensors that can be compared with those of the case file. */
#pragma once

#include "verify/recorded_tensors.h"
#include "verify/reference_case.h"

typedef struct d9_case_run_options {
    const char *backend, *precision;
    int threads;
    int perturbation;          /* seed of the perturbation of the initial weights; 0: weights as in the file */
    int perturbation_exponent; /* each weight changes by up to 2^perturbation_exponent of its size */
} d9_case_run_options;

/* Runs all steps of a training case, or the batch of an augmentation case. The caller always frees `recorded`. */
D9_MUST_USE d9_status d9_case_run(d9_context *context, const d9_reference_case *reference,
                                  const d9_case_run_options *options, d9_recorded_tensors *recorded);

/* Opens a session ready for the first step of a training case: with its weights, and the same batch in every step.
 * `config` receives the configuration used by the session and must live as long. */
D9_MUST_USE d9_status d9_case_session(d9_context *context, const d9_reference_case *reference,
                                      const d9_case_run_options *options, d9_config *config, d9_session *session);
