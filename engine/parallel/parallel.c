/* Opens the module with MPI if a launcher started this process together with others, and calls its functions. With one
 * process nothing is opened, and no function communicates. */
#include "core/installed.h"
#include "core/system.h"
#include "parallel/parallel.h"

#include <stdlib.h>
#include <string.h>

static const d9_installed_module mpi = {"several processes", "dawn9-mpi.so", "d9_parallel_module",
                                        "build with libopenmpi-dev, or start one process"};

/* The number in `text`; 0 if `text` is NULL, or if its number is not between 1 and 2^20 - 1. */
static int parse_count(const char *text) {
    const long number = text ? strtol(text, NULL, 10) : 0;
    return number > 0 && number < 1 << 20 ? (int)number : 0;
}

/* Reads the variables of Open MPI's mpirun; then PMI's, of MPICH's mpiexec or of srun; then those of srun with PMIx or
 * without MPI. */
d9_launch d9_launch_of(const char *(*variable)(void *user, const char *name), void *user) {
    const int mpirun = parse_count(variable(user, "OMPI_COMM_WORLD_SIZE")),
              pmi = parse_count(variable(user, "PMI_SIZE")),
              tasks = parse_count(variable(user, "SLURM_STEP_NUM_TASKS"));
    if (mpirun) return (d9_launch){mpirun, true, D9_LAUNCH_MPIRUN};
    if (pmi) return (d9_launch){pmi, true, tasks ? D9_LAUNCH_SRUN : "mpiexec -n"};
    return (d9_launch){tasks, variable(user, "PMIX_RANK") != NULL, tasks ? D9_LAUNCH_SRUN : NULL};
}

static const char *from_environment(void *user, const char *name) {
    (void)user;
    return getenv(name);
}

d9_status d9_parallel_open(d9_context *context, d9_parallel *parallel) {
    d9_status status;
    d9_status (*open)(d9_context *, int, d9_parallel *) = NULL;
    void *symbol;
    const d9_launch launch = d9_launch_of(from_environment, NULL);
    *parallel = (d9_parallel){.ranks = 1, .host_ranks = 1, .sharers = 1};
    if (launch.ranks <= 1) return D9_OK;
    if (!launch.connects)
        return d9_fail(context, D9_DEVICE,
                       "srun started %d tasks that cannot find each other: give srun --mpi=pmix, or one task",
                       launch.ranks);
    D9_TRY(d9_installed_load_module(context, &mpi, &symbol));
    memcpy(&open, &symbol, sizeof symbol); /* ISO C has no cast from an object pointer to a function pointer */
    D9_TRY(open(context, launch.ranks, parallel));
    parallel->launcher = launch.command;
done:
    return status;
}

d9_status d9_parallel_allocate(d9_context *context, d9_parallel *parallel, int64_t bytes, const char *purpose,
                               void **memory) {
    if (d9_parallel_ranks(parallel) > 1 && parallel->kind->allocate)
        return parallel->kind->allocate(context, parallel, bytes, purpose, memory);
    return d9_allocate(context, (size_t)bytes, purpose, memory);
}

void d9_parallel_release(d9_context *context, d9_parallel *parallel, void *memory) {
    if (d9_parallel_ranks(parallel) > 1 && parallel->kind->allocate)
        parallel->kind->release(context, parallel, memory);
    else
        d9_release(context, memory);
}

d9_status d9_parallel_sum(d9_context *context, d9_parallel *parallel, void *values, int64_t count, bool wide) {
    return d9_parallel_ranks(parallel) > 1 && count > 0 ? parallel->kind->sum(context, parallel, values, count, wide)
                                                        : D9_OK;
}

d9_status d9_parallel_broadcast(d9_context *context, d9_parallel *parallel, void *bytes, int64_t size) {
    return d9_parallel_ranks(parallel) > 1 && size > 0 ? parallel->kind->broadcast(context, parallel, bytes, size)
                                                       : D9_OK;
}

d9_status d9_parallel_maximum(d9_context *context, d9_parallel *parallel, int *value) {
    return d9_parallel_ranks(parallel) > 1 ? parallel->kind->maximum(context, parallel, value) : D9_OK;
}

static int line_length(const char *text) { return (int)strcspn(text, "\n"); }

/* Fails with the first line in which the texts of this process, `own`, and of process 0, `first`, differ. */
static d9_status fail_with_difference(d9_context *context, const d9_parallel *parallel, const char *own,
                                      const char *first) {
    const char *line = own, *section = own;
    size_t equal = 0;
    while (own[equal] && own[equal] == first[equal]) {
        if (own[equal++] != '\n') continue;
        line = own + equal;
        if (*line != ' ') section = line;
    }
    const char *there = first + (line - own);
    const int outer = *line == ' ' ? (int)strcspn(section, ":\n") : 0;
    line += strspn(line, " ");
    there += strspn(there, " ");
    return d9_fail(context, D9_USAGE,
                   "process %d has %.*s%s%.*s, process 0 %.*s: start all with the same configuration", parallel->rank,
                   outer, section, outer ? "." : "", line_length(line), line, line_length(there), there);
}

d9_status d9_parallel_compare(d9_context *context, d9_parallel *parallel, const char *text) {
    d9_status status;
    int64_t size = (int64_t)strlen(text) + 1;
    char *first = NULL;
    if (d9_parallel_ranks(parallel) == 1) return D9_OK;
    D9_TRY(d9_parallel_broadcast(context, parallel, &size, sizeof size));
    D9_TRY(D9_ALLOCATE(context, size, "the configuration of process 0", &first));
    if (parallel->rank == 0) memcpy(first, text, (size_t)size);
    D9_TRY(d9_parallel_broadcast(context, parallel, first, size));
    if (strcmp(text, first) != 0) D9_TRY(fail_with_difference(context, parallel, text, first));
done:
    d9_release(context, first);
    return status;
}

void d9_parallel_close(d9_context *context, d9_parallel *parallel, d9_status status) {
    if (!parallel->kind) return;
    if (status != D9_OK && !parallel->together) parallel->kind->abort(parallel, (int)status);
    parallel->kind->close(context, parallel);
    *parallel = (d9_parallel){0};
}
