/* Running a reference case on a backend, and recording every tensor that a case file may hold. */
#ifndef D9_VERIFY_CASE_RUN_H
#define D9_VERIFY_CASE_RUN_H

#include "train/trainer.h"
#include "verify/recorded_tensors.h"
#include "verify/reference_case.h"

typedef struct d9_case_run_options {
    const char *backend, *precision;
    int threads;
    int perturbation;          /* above 0: seed by which the initial weights are moved; 0: they are as in the file */
    int perturbation_exponent; /* they are moved by up to 2^this of themselves */
} d9_case_run_options;

/* All steps of a training case, or the one batch of an augmentation case. On failure, too, `recorded` is the caller's
 * to free. */
D9_MUST_USE d9_status d9_case_run(d9_context *context, const d9_reference_case *reference,
                                  const d9_case_run_options *options, d9_recorded_tensors *recorded);

/* A session ready for the first step of a training case: its weights, and the same batch in every step. `config`
 * receives the configuration that the session uses, and must live as long. */
D9_MUST_USE d9_status d9_case_session(d9_context *context, const d9_reference_case *reference,
                                      const d9_case_run_options *options, d9_config *config, d9_session *session);

#endif
