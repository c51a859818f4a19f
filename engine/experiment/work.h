/* Trains the remaining runs of an experiment, in this process or in several worker processes. */
#pragma once

#include "experiment/experiment.h"

/* Callbacks; each may be NULL. They must return quickly. `index`: the run. */
typedef struct d9_work_observer {
    void *user;
    /* After a step, in the process that trains; see d9_observer. */
    void (*step)(void *user, int64_t index, const d9_program *program, int64_t step, double loss);
    /* After a run was trained or has failed, in the process that trained it. `seconds`: time that it took there. */
    void (*run)(void *user, int64_t index, const d9_run_state *state, double seconds);
    void (*waiting)(void *user); /* in the parent of workers, while it waits for them */
} d9_work_observer;

typedef struct d9_work_options {
    int64_t shard, shards;      /* trains only the packs p of runs with p % shards == shard */
    int64_t pack;               /* number of consecutive runs per pack */
    int worker_count;           /* number of processes; 1 without `devices`: this process trains */
    const char *const *devices; /* (worker_count): the GPU of each worker, for d9_gpu_choose; NULL: not selected */
    d9_run_options run; /* d9_experiment_work itself sets run.observer, and for several workers run.threads_default */
    d9_work_observer observer;
} d9_work_options;

/* True if the run belongs to the shard. */
static inline bool d9_work_has(const d9_work_options *options, int64_t index) {
    return index / options->pack % options->shards == options->shard;
}

/* Trains the shard's runs. A process whose d9_run_train fails or is interrupted trains no further run. Returns its
 * status; of several workers, that of the first to fail. Workers are forked: the function also returns in each of them,
 * with `*is_worker` true. The caller then exits with the status and prints no error, because the parent prints the
 * first one. */
D9_MUST_USE d9_status d9_experiment_work(d9_context *context, const d9_experiment *experiment, const char *out,
                                         const d9_work_options *options, bool *is_worker);
