/* A reference case: settings, one batch, initial weights and what must come of them (reference/README.md says
 * how the files are made), and the same numbers observed on a backend. Private to train/. */
#ifndef D9_VERIFY_REFERENCE_CASE_H
#define D9_VERIFY_REFERENCE_CASE_H

#include "record/safetensors.h"
#include "train/trainer.h"

typedef struct d9_case {
    char name[64];
    d9_safetensors *file;
    d9_config *config; /* made from the case's settings: a network and tricks like any other */
    const double *rates;
    int64_t batch, steps;
    d9_arena arena;
} d9_case;

D9_MUST_USE d9_status d9_case_open(d9_context *context, const char *path, d9_case *self);
void d9_case_close(d9_context *context, d9_case *self);

/* True for the file of the data pipeline, which has no network. */
bool d9_case_is_pipeline(const d9_safetensors *file);

/* Named tensors, in the files' names and layout: "step2/loss", "grad/layer1.conv.weight", "eval/logits_tta". */
typedef struct d9_observation { const char *name; double *values; int64_t count; } d9_observation;
typedef struct d9_observations {
    d9_arena arena;
    d9_observation *rows;
    int count, capacity;
} d9_observations;

typedef struct d9_case_run { /* where and how a case is run */
    const char *backend, *precision;
    int threads;
    int jitter; /* above 0: initial weights are moved by up to 2^jitter_exponent of themselves, by this seed */
    int jitter_exponent;
} d9_case_run;

/* Runs the case's steps through a session, and notes everything a case file may hold. */
D9_MUST_USE d9_status d9_case_observe(d9_context *context, const d9_case *self, const d9_case_run *how,
                                      d9_observations *observations);
/* A session ready for the case's first step. */
D9_MUST_USE d9_status d9_case_session(d9_context *context, const d9_case *self, const d9_case_run *how, d9_config *config,
                                      d9_session *session);
/* The same for the pipeline file: "output". */
D9_MUST_USE d9_status d9_pipeline_observe(d9_context *context, const d9_safetensors *file, const d9_case_run *how,
                                          d9_observations *observations);
const d9_observation *d9_observations_find(const d9_observations *observations, const char *name);
void d9_observations_free(d9_context *context, d9_observations *observations);

#endif
