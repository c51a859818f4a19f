/* The processes that train one network together, started by mpirun, mpiexec or srun. Each holds all parameters and a
 * part of each batch; gradients are added over the processes.
 *
 * Functions that communicate are collective: all processes call them in the same order with equal sizes. With one
 * process they do nothing. Not thread-safe. */
#pragma once

#include "core/context.h"

typedef struct d9_parallel d9_parallel;

typedef struct d9_parallel_kind { /* implements d9_parallel_NAME, below, among several processes */
    /* NULL: d9_parallel_allocate calls d9_allocate, as with one process */
    d9_status (*allocate)(d9_context *context, d9_parallel *parallel, int64_t bytes, const char *purpose,
                          void **memory);
    void (*release)(d9_context *context, d9_parallel *parallel, void *memory); /* NULL if `allocate` is NULL */
    d9_status (*sum)(d9_context *context, d9_parallel *parallel, void *values, int64_t count, bool wide);
    d9_status (*broadcast)(d9_context *context, d9_parallel *parallel, void *bytes, int64_t size);
    d9_status (*maximum)(d9_context *context, d9_parallel *parallel, int *value);
    void (*abort)(d9_parallel *parallel, int status);          /* ends all processes with this exit status */
    void (*close)(d9_context *context, d9_parallel *parallel); /* called after `abort` too, if that returns */
} d9_parallel_kind;

struct d9_parallel {
    int rank, ranks;              /* number of this process, from 0, and number of processes; 0 or 1: one process */
    int host_rank, host_ranks;    /* number of this process on its host, from 0, and number of processes there */
    int host;                     /* rank of the first process on this host */
    int sharers;                  /* processes of this host with this process's affinity mask, itself included */
    bool together;                /* all processes agreed to end, for example after a signal to one of them */
    const char *launcher;         /* the launcher's command up to the number of processes; NULL: one process */
    const d9_parallel_kind *kind; /* NULL: one process */
    void *state;                  /* private to `kind` */
};

static inline int d9_parallel_ranks(const d9_parallel *parallel) {
    return parallel && parallel->ranks > 1 ? parallel->ranks : 1;
}
static inline int d9_parallel_sharers(const d9_parallel *parallel) {
    return parallel && parallel->sharers > 1 ? parallel->sharers : 1;
}
static inline int d9_parallel_rank(const d9_parallel *parallel) { return parallel ? parallel->rank : 0; }

/* Connects this process to the others that a launcher started with it, according to environment variables. Without a
 * launcher, or with one process, sets `ranks` to 1. Returns D9_DEVICE if MPI is not installed or cannot be started, or
 * if the processes cannot find each other. */
D9_MUST_USE d9_status d9_parallel_open(d9_context *context, d9_parallel *parallel);
/* Allocates zeroed memory like d9_allocate; `parallel` NULL: one process. If all processes are on one host, they share
 * the memory where possible, so that d9_parallel_sum needs no copies. Not collective, but an array that d9_parallel_sum
 * adds must be allocated here in all processes, with equal sizes, or in none. Free it by d9_parallel_release, before
 * d9_parallel_close. */
D9_MUST_USE d9_status d9_parallel_allocate(d9_context *context, d9_parallel *parallel, int64_t bytes,
                                           const char *purpose, void **memory);
void d9_parallel_release(d9_context *context, d9_parallel *parallel, void *memory); /* NULL is ignored */
/* Replaces `values` (count), f64 if `wide`, else f32, by their sums over the processes, added in the order of the
 * ranks: every process gets the same bits. */
D9_MUST_USE d9_status d9_parallel_sum(d9_context *context, d9_parallel *parallel, void *values, int64_t count,
                                      bool wide);
/* Copies `bytes` of rank 0 to every process. */
D9_MUST_USE d9_status d9_parallel_broadcast(d9_context *context, d9_parallel *parallel, void *bytes, int64_t size);
/* Sets *value to its maximum over the processes. */
D9_MUST_USE d9_status d9_parallel_maximum(d9_context *context, d9_parallel *parallel, int *value);
/* Compares `text` with the text of rank 0. If they differ, returns D9_USAGE and names the first differing line. `text`
 * lists, as YAML, the settings on which the order of the collective calls depends; "b: 1" below "a:" is named a.b. */
D9_MUST_USE d9_status d9_parallel_compare(d9_context *context, d9_parallel *parallel, const char *text);
/* Disconnects from the other processes. If this process failed alone (`status` is not D9_OK and `together` is false),
 * ends all processes, this one included, with `status` as the exit status. */
void d9_parallel_close(d9_context *context, d9_parallel *parallel, d9_status status);

/* Commands of launchers; the number of processes follows. Without --kill-on-bad-exit, if a process is killed, srun may
 * leave the others waiting for it. */
#define D9_LAUNCH_MPIRUN "mpirun --bind-to none -np"
#define D9_LAUNCH_SRUN   "srun --mpi=pmix --kill-on-bad-exit=1 --ntasks"

/* The launcher that started this process, as its environment variables tell. */
typedef struct d9_launch {
    int ranks;           /* number of processes that it started; 0: no launcher */
    bool connects;       /* the processes can find each other; false: srun without --mpi; unused without a launcher */
    const char *command; /* command of the launcher up to the number of processes; NULL: no launcher */
} d9_launch;
/* `variable` returns the value of the environment variable `name`, or NULL if it is not set (a test gives its own). */
d9_launch d9_launch_of(const char *(*variable)(void *user, const char *name), void *user);
