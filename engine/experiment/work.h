/* Does what is left of an experiment, in this process or in several worker processes. */
#ifndef D9_EXPERIMENT_WORK_H
#define D9_EXPERIMENT_WORK_H

#include "experiment/experiment.h"

/* What a user may watch, in the process that trains; `waiting` in the parent of several. Each may be NULL. Called
 * often; must return soon. */
typedef struct d9_work_observer {
    void *user;
    void (*step)(void *user, int64_t index, const d9_program *program, int64_t step, double loss); /* of d9_observer */
    void (*run)(void *user, int64_t index, const d9_run_state *state, double seconds); /* trained just now, or failed */
    void (*waiting)(void *user);
} d9_work_observer;

typedef struct d9_work_options {
    int64_t shard, shards; /* only the packs p of runs with p % shards == shard */
    int64_t pack;          /* runs in a row that stay together */
    int worker_count;      /* processes at a time; 1: this one */
    const char *devices; /* "0,2": a worker for each of these GPUs, as many as worker_count; NULL: no choice of them */
    d9_run_options run;  /* its `observer` and `threads_default` are set here */
    d9_work_observer observer;
} d9_work_options;

static inline bool d9_work_has(const d9_work_options *options, int64_t index) {
    return index / options->pack % options->shards == options->shard;
}

/* The first failure ends the work; an interrupt (d9_status_is_interrupt) does so too, and everything done is kept.
 *
 * Worker processes are forked here. In each, this function returns as well, with `*is_worker` true: its caller ends the
 * process with the status, and prints no error, because the parent returns the first one. */
D9_MUST_USE d9_status d9_experiment_work(d9_context *context, const d9_experiment *experiment, const char *out,
                                         const d9_work_options *options, bool *is_worker);

#endif
