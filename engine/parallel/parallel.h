/* The processes that train one network together, started by mpirun or srun. Each holds all parameters and a part of
 * each batch; gradients are added over the processes.
 *
 * The functions are collective: every process calls them in the same order with the same sizes. With one process they
 * do nothing. Not thread-safe. */
#ifndef D9_PARALLEL_PARALLEL_H
#define D9_PARALLEL_PARALLEL_H

#include "core/context.h"

typedef struct d9_parallel d9_parallel;

typedef struct d9_parallel_kind { /* an implementation; the functions are those below */
    const char *name;
    /* NULL: d9_allocate is used, as with one process */
    d9_status (*allocate)(d9_context *context, d9_parallel *parallel, int64_t bytes, const char *purpose,
                          void **memory);
    void (*release)(d9_context *context, d9_parallel *parallel, void *memory); /* NULL if `allocate` is NULL */
    d9_status (*sum)(d9_context *context, d9_parallel *parallel, void *values, int64_t count, bool wide);
    d9_status (*broadcast)(d9_context *context, d9_parallel *parallel, void *bytes, int64_t size);
    d9_status (*agree)(d9_context *context, d9_parallel *parallel, int *value);
    void (*abort)(d9_parallel *parallel, int status);
    void (*close)(d9_context *context, d9_parallel *parallel);
} d9_parallel_kind;

struct d9_parallel {
    int rank, ranks;              /* this process's number, and how many there are; all zero: one process */
    int host_rank, host_ranks;    /* the same among the processes of this host */
    int host;                     /* number of the first of them among all processes */
    int sharers;                  /* processes of this host with the same affinity mask, this one included */
    bool together;                /* all processes end with this one, for a reason on which they agreed */
    const char *launcher;         /* its command, before the number of processes; NULL: none */
    const d9_parallel_kind *kind; /* NULL: one process */
    void *state;
};

static inline int d9_parallel_ranks(const d9_parallel *parallel) {
    return parallel && parallel->ranks > 1 ? parallel->ranks : 1;
}
static inline int d9_parallel_sharers(const d9_parallel *parallel) {
    return parallel && parallel->sharers > 1 ? parallel->sharers : 1;
}
static inline int d9_parallel_rank(const d9_parallel *parallel) { return parallel ? parallel->rank : 0; }

/* Joins the processes of the launcher whose environment variables are set, if it started more than one. Returns
 * D9_DEVICE if MPI is not installed, or if the processes cannot find each other. */
D9_MUST_USE d9_status d9_parallel_open(d9_context *context, d9_parallel *parallel);
/* Allocates as d9_allocate does, if possible memory that the processes of one host share, in which d9_parallel_sum
 * needs no copies. Not collective, but all must allocate what they sum with the same sizes, or none. Free the memory by
 * d9_parallel_release, before d9_parallel_close. `parallel` NULL: one process. */
D9_MUST_USE d9_status d9_parallel_allocate(d9_context *context, d9_parallel *parallel, int64_t bytes,
                                           const char *purpose, void **memory);
void d9_parallel_release(d9_context *context, d9_parallel *parallel, void *memory); /* NULL is ignored */
/* Replaces `values` (count), f64 if `wide`, else f32, by their sums over the processes, added in the order of the
 * ranks: every process gets the same bits. */
D9_MUST_USE d9_status d9_parallel_sum(d9_context *context, d9_parallel *parallel, void *values, int64_t count,
                                      bool wide);
/* Copies `bytes` of rank 0 to every process. */
D9_MUST_USE d9_status d9_parallel_broadcast(d9_context *context, d9_parallel *parallel, void *bytes, int64_t size);
/* Sets *value to the greatest one of all processes. */
D9_MUST_USE d9_status d9_parallel_agree(d9_context *context, d9_parallel *parallel, int *value);
/* Fails with D9_USAGE on a process whose `text` differs from that of rank 0, and names the first line that differs. The
 * text lists, as YAML, the settings on which the order of the collective calls depends; "b: 1" below "a:" is named
 * a.b. */
D9_MUST_USE d9_status d9_parallel_compare(d9_context *context, d9_parallel *parallel, const char *text);
/* Leaves the other processes. With a `status` that they do not share (`together` is false) it ends them, and this
 * process, with that exit status. */
void d9_parallel_close(d9_context *context, d9_parallel *parallel, d9_status status);

/* Launchers, before the number of processes. Without --kill-on-bad-exit srun may leave the others waiting for one that
 * was killed. */
#define D9_LAUNCH_MPIRUN "mpirun --bind-to none -np"
#define D9_LAUNCH_SRUN   "srun --mpi=pmix --kill-on-bad-exit=1 --ntasks"

/* The processes that a launcher says it started, and whether it provides PMI or PMIx, by which they find each other;
 * from the environment. */
typedef struct d9_launch {
    int ranks;           /* 0: no launcher */
    bool meets;          /* it provides PMI or PMIx; false: srun without --mpi */
    const char *command; /* command of the launcher, before the number of processes; NULL: no launcher */
} d9_launch;
d9_launch d9_launch_of(const char *(*variable)(void *user, const char *name), void *user);

#endif
