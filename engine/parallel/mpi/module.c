/* The module dawn9-mpi.so: the processes of one run over MPI.
 *
 * A sum exchanges pieces: each process gets its piece of every process's array, adds them in the order of the ranks,
 * and sends the result to all. The bits therefore depend neither on the MPI library nor on the sizes of its messages.
 * As with a ring, a process sends and receives 2 (R - 1) / R times the array. */
#include "core/hash.h"
#include "core/process.h"
#include "core/system.h"
#include "parallel/parallel.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct world {
    void *pieces; /* this process's piece of every process's array, in the order of the ranks */
    int64_t piece_bytes;
    int *counts, *places; /* (ranks) elements of each process's piece, and where it begins */
} world;

static d9_status check(d9_context *context, const d9_parallel *parallel, int result, const char *work) {
    char why[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (result == MPI_SUCCESS) return D9_OK;
    MPI_Error_string(result, why, &length);
    return d9_fail(context, D9_DEVICE, "process %d of %d: MPI: %s: %s", parallel->rank, parallel->ranks, work, why);
}

/* ---- the sum ---- */

/* Cuts `count` elements into a piece for each process; all but the last ones have the same size. */
static d9_status cut(d9_context *context, const d9_parallel *parallel, int64_t count, size_t element) {
    d9_status status = D9_OK;
    world *self = parallel->state;
    const int64_t piece = (count + parallel->ranks - 1) / parallel->ranks,
                  bytes = piece * parallel->ranks * (int64_t)element;
    for (int r = 0; r < parallel->ranks; r++) {
        const int64_t begin = piece * r < count ? piece * r : count, left = count - begin;
        self->places[r] = (int)begin;
        self->counts[r] = (int)(left < piece ? left : piece);
    }
    if (bytes <= self->piece_bytes) goto done;
    d9_release(context, self->pieces);
    self->pieces = NULL;
    self->piece_bytes = 0;
    D9_TRY(d9_allocate(context, (size_t)bytes, "the pieces of a sum over the processes", &self->pieces));
    self->piece_bytes = bytes;
done:
    return status;
}

static void add_f32(const float *pieces, int ranks, int64_t count, float *sum) {
    memcpy(sum, pieces, (size_t)count * sizeof *sum);
    for (int r = 1; r < ranks; r++)
        for (int64_t i = 0; i < count; i++) sum[i] += pieces[r * count + i];
}

static void add_f64(const double *pieces, int ranks, int64_t count, double *sum) {
    memcpy(sum, pieces, (size_t)count * sizeof *sum);
    for (int r = 1; r < ranks; r++)
        for (int64_t i = 0; i < count; i++) sum[i] += pieces[r * count + i];
}

/* Sums at most INT_MAX elements, which MPI counts in an int. */
static d9_status sum_part(d9_context *context, d9_parallel *parallel, void *values, int64_t count, bool wide) {
    d9_status status;
    world *self = parallel->state;
    const size_t element = wide ? sizeof(double) : sizeof(float);
    const MPI_Datatype type = wide ? MPI_DOUBLE : MPI_FLOAT;
    const int ranks = parallel->ranks;
    D9_TRY(cut(context, parallel, count, element));
    const int own = self->counts[parallel->rank];
    int *sizes = self->counts + ranks, *begins = self->places + ranks; /* of the arriving pieces, all equally long */
    for (int r = 0; r < ranks; r++) sizes[r] = own, begins[r] = r * own;
    char *at = (char *)values + (size_t)self->places[parallel->rank] * element;
    D9_TRY(check(
        context, parallel,
        MPI_Alltoallv(values, self->counts, self->places, type, self->pieces, sizes, begins, type, MPI_COMM_WORLD),
        "exchanging the pieces of a sum"));
    if (wide)
        add_f64(self->pieces, ranks, own, (double *)(void *)at);
    else
        add_f32(self->pieces, ranks, own, (float *)(void *)at);
    D9_TRY(check(context, parallel,
                 MPI_Allgatherv(MPI_IN_PLACE, 0, type, values, self->counts, self->places, type, MPI_COMM_WORLD),
                 "collecting the pieces of a sum"));
done:
    return status;
}

static d9_status sum(d9_context *context, d9_parallel *parallel, void *values, int64_t count, bool wide) {
    d9_status status = D9_OK;
    const int64_t most = INT_MAX / 2;
    for (int64_t begin = 0; begin < count && status == D9_OK; begin += most)
        status = sum_part(context, parallel, (char *)values + begin * (wide ? 8 : 4),
                          count - begin < most ? count - begin : most, wide);
    return status;
}

/* ---- broadcast, agreement, end ---- */

static d9_status broadcast(d9_context *context, d9_parallel *parallel, void *bytes, int64_t size) {
    d9_status status = D9_OK;
    for (int64_t begin = 0; begin < size && status == D9_OK; begin += INT_MAX)
        status = check(context, parallel,
                       MPI_Bcast((char *)bytes + begin, size - begin < INT_MAX ? (int)(size - begin) : INT_MAX,
                                 MPI_BYTE, 0, MPI_COMM_WORLD),
                       "sending the bytes of process 0");
    return status;
}

static d9_status agree(d9_context *context, d9_parallel *parallel, int *value) {
    return check(context, parallel, MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD),
                 "agreeing with the other processes");
}

/* Waits 0.2 s before it ends all processes, so that the launcher forwards the output that it would otherwise lose. */
static void end_all(d9_parallel *parallel, int status) {
    const struct timespec forwarded = {.tv_nsec = 200000000};
    (void)parallel;
    nanosleep(&forwarded, NULL);
    MPI_Abort(MPI_COMM_WORLD, status);
}

static void release(d9_context *context, world *self) {
    if (!self) return;
    d9_release(context, self->pieces);
    d9_release(context, self->counts);
    d9_release(context, self->places);
    d9_release(context, self);
}

/* The barrier lets every process print its last line before the launcher sees the first exit status. */
static void leave(d9_context *context, d9_parallel *parallel) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    release(context, parallel->state);
    parallel->state = NULL;
}

/* ---- meeting ---- */

/* Finds the processes on this host, and how many of them may use the same processors. */
static d9_status meet_on_host(d9_context *context, d9_parallel *parallel) {
    d9_status status;
    MPI_Comm host = MPI_COMM_NULL;
    bool *allowed = NULL;
    char own[65], (*all)[65] = NULL;
    D9_TRY(D9_ALLOCATE(context, D9_PROCESSORS_MAX, "the processors of this process", &allowed));
    (void)d9_processors(allowed);
    d9_sha256_hex(&(d9_bytes){allowed, D9_PROCESSORS_MAX * sizeof *allowed}, 1, own);
    D9_TRY(check(context, parallel,
                 MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, parallel->rank, MPI_INFO_NULL, &host),
                 "finding the processes of this host"));
    MPI_Comm_rank(host, &parallel->host_rank);
    MPI_Comm_size(host, &parallel->host_ranks);
    parallel->host = parallel->rank;
    D9_TRY(check(context, parallel, MPI_Bcast(&parallel->host, 1, MPI_INT, 0, host), "numbering the hosts"));
    D9_TRY(D9_ALLOCATE(context, parallel->host_ranks, "the processors of the other processes", &all));
    D9_TRY(check(context, parallel, MPI_Allgather(own, sizeof own, MPI_CHAR, all, sizeof own, MPI_CHAR, host),
                 "comparing the processors of this host's processes"));
    parallel->sharers = 0;
    for (int r = 0; r < parallel->host_ranks; r++) parallel->sharers += memcmp(all[r], own, sizeof own) == 0;
done:
    if (host != MPI_COMM_NULL) MPI_Comm_free(&host);
    d9_release(context, allowed);
    d9_release(context, all);
    return status;
}

static const d9_parallel_kind kind = {
    .name = "MPI", .sum = sum, .broadcast = broadcast, .agree = agree, .abort = end_all, .close = leave};

/* Fails if fewer processes met than were launched: under the launcher of another MPI each process meets only itself. */
static d9_status check_launcher(d9_context *context, int launched, int met) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (met == launched) return D9_OK;
    MPI_Get_library_version(version, &length);
    MPI_Finalize();
    version[strcspn(version, ",\n")] = 0;
    return d9_fail(context, D9_DEVICE,
                   "%d processes were started, but %d met: the launcher is not that of %s; use its mpirun, or srun "
                   "--mpi=pmix",
                   launched, met, version);
}

__attribute__((visibility("default"))) d9_status d9_parallel_module(d9_context *context, int launched,
                                                                    d9_parallel *parallel);
d9_status d9_parallel_module(d9_context *context, int launched, d9_parallel *parallel) {
    d9_status status;
    world *self = NULL;
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS) return d9_fail(context, D9_DEVICE, "MPI cannot be started");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &parallel->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &parallel->ranks);
    D9_TRY(check_launcher(context, launched, parallel->ranks));
    parallel->kind = &kind;
    D9_TRY(D9_ALLOCATE(context, 1, "the processes", &self));
    D9_TRY(D9_ALLOCATE(context, 2 * parallel->ranks, "the processes", &self->counts));
    D9_TRY(D9_ALLOCATE(context, 2 * parallel->ranks, "the processes", &self->places));
    parallel->state = self;
    self = NULL;
    D9_TRY(meet_on_host(context, parallel));
done:
    release(context, self);
    return status;
}
