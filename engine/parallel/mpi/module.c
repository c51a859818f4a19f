/* The module dawn9-mpi.so: the processes of one run over MPI.
 *
 * In a sum over R processes, process r adds piece r of every process's array, in the order of the ranks, so the bits
 * depend neither on the MPI library nor on the sizes of its messages. If the arrays are in memory that all processes
 * share, process r reads the others' arrays and writes the sums into them. Otherwise it receives piece r of every array
 * and sends the sums to all: 2 (R - 1) / R times the size of the array each way, as in a ring all-reduce. */
#include "core/hash.h"
#include "core/process.h"
#include "core/system.h"
#include "parallel/mpi/shared.h"

#include <limits.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct world {
    void *pieces;        /* this process's piece of every process's array, in the order of the ranks */
    int64_t piece_bytes; /* size of `pieces`, all together */
    /* (2 * ranks): size and offset of each process's piece, in elements; first in the array, then in `pieces` */
    int *counts, *places;
    d9_shared_area *shared; /* memory from d9_parallel_allocate, if all processes are on one host */
} world;

static d9_status check_mpi(d9_context *context, const d9_parallel *parallel, int result, const char *work) {
    char why[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (result == MPI_SUCCESS) return D9_OK;
    MPI_Error_string(result, why, &length);
    return d9_fail(context, D9_DEVICE, "process %d of %d: MPI: %s: %s", parallel->rank, parallel->ranks, work, why);
}

/* ---- the sum ---- */

/* Cuts `count` elements of `element` bytes into a piece for each process, and makes `pieces` large enough. The pieces
 * have the same size, except that the last ones may be smaller or empty. */
static d9_status cut_into_pieces(d9_context *context, const d9_parallel *parallel, int64_t count, size_t element) {
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

/* sum += values; both are f64 if `wide`, else f32. */
static void add(const void *values, int64_t count, bool wide, void *sum) {
    const double *restrict d = values;
    const float *restrict f = values;
    double *restrict wide_sum = sum;
    float *restrict narrow_sum = sum;
    for (int64_t i = 0; wide && i < count; i++) wide_sum[i] += d[i];
    for (int64_t i = 0; !wide && i < count; i++) narrow_sum[i] += f[i];
}

/* Sums `count` elements, f64 if `wide`, else f32, by messages. `count` is at most INT_MAX / 2, because MPI counts
 * elements in an int. */
static d9_status sum_by_messages(d9_context *context, d9_parallel *parallel, void *values, int64_t count, bool wide) {
    d9_status status;
    world *self = parallel->state;
    const size_t element = wide ? sizeof(double) : sizeof(float);
    const MPI_Datatype type = wide ? MPI_DOUBLE : MPI_FLOAT;
    const int ranks = parallel->ranks;
    D9_TRY(cut_into_pieces(context, parallel, count, element));
    const int own = self->counts[parallel->rank];
    int *sizes = self->counts + ranks, *begins = self->places + ranks; /* of the received pieces, all of size `own` */
    for (int r = 0; r < ranks; r++) sizes[r] = own, begins[r] = r * own;
    char *at = (char *)values + (size_t)self->places[parallel->rank] * element;
    D9_TRY(check_mpi(
        context, parallel,
        MPI_Alltoallv(values, self->counts, self->places, type, self->pieces, sizes, begins, type, MPI_COMM_WORLD),
        "exchanging the pieces of a sum"));
    memcpy(at, self->pieces, (size_t)own * element);
    for (int64_t r = 1; r < ranks; r++) add((char *)self->pieces + (size_t)(r * own) * element, own, wide, at);
    D9_TRY(check_mpi(context, parallel,
                     MPI_Allgatherv(MPI_IN_PLACE, 0, type, values, self->counts, self->places, type, MPI_COMM_WORLD),
                     "collecting the pieces of a sum"));
done:
    return status;
}

/* Waits for all processes. Afterwards every process sees all earlier writes to shared memory. */
static d9_status wait_for_all(d9_context *context, const d9_parallel *parallel) {
    atomic_thread_fence(memory_order_seq_cst);
    const d9_status status =
        check_mpi(context, parallel, MPI_Barrier(MPI_COMM_WORLD), "waiting for the other processes");
    atomic_thread_fence(memory_order_seq_cst);
    return status;
}

/* Adds this process's piece of the arrays `parts` (ranks) of `count` elements, which are in shared memory, and writes
 * the sums into all of them. `wide`: f64, otherwise f32. Works in blocks that stay in the L1 cache. */
static d9_status sum_in_place(d9_context *context, const d9_parallel *parallel, uint8_t *const *parts, int64_t count,
                              bool wide) {
    enum { BLOCK = 4096 };
    d9_status status;
    union {
        _Alignas(64) uint8_t bytes[BLOCK];
        float narrow[BLOCK / sizeof(float)];
        double wide[BLOCK / sizeof(double)];
    } block; /* `add` reads and writes it in the type of the values */
    const int64_t element = wide ? sizeof(double) : sizeof(float), lines = (count * element + 63) / 64,
                  begin = lines * parallel->rank / parallel->ranks * 64,
                  next = lines * (parallel->rank + 1) / parallel->ranks * 64,
                  end = next < count * element ? next : count * element;
    D9_TRY(wait_for_all(context, parallel));
    for (int64_t at = begin; at < end; at += BLOCK) {
        const size_t bytes = end - at < BLOCK ? (size_t)(end - at) : BLOCK;
        memcpy(block.bytes, parts[0] + at, bytes);
        for (int r = 1; r < parallel->ranks; r++) add(parts[r] + at, (int64_t)bytes / element, wide, &block);
        for (int r = 0; r < parallel->ranks; r++) memcpy(parts[r] + at, block.bytes, bytes);
    }
    D9_TRY(wait_for_all(context, parallel));
done:
    return status;
}

static d9_status sum(d9_context *context, d9_parallel *parallel, void *values, int64_t count, bool wide) {
    d9_status status;
    const world *self = parallel->state;
    const int64_t most = INT_MAX / 2, element = wide ? sizeof(double) : sizeof(float);
    uint8_t *const *parts;
    D9_TRY(d9_shared_find(context, parallel, self->shared, values, count * element, &parts));
    if (parts) return sum_in_place(context, parallel, parts, count, wide);
    for (int64_t begin = 0; begin < count; begin += most)
        D9_TRY(sum_by_messages(context, parallel, (char *)values + begin * element,
                               count - begin < most ? count - begin : most, wide));
done:
    return status;
}

/* ---- memory ---- */

static d9_status allocate(d9_context *context, d9_parallel *parallel, int64_t bytes, const char *purpose,
                          void **memory) {
    world *self = parallel->state;
    if (bytes > 0 && parallel->host_ranks == parallel->ranks)
        return d9_shared_allocate(context, &self->shared, bytes, purpose, memory);
    return d9_allocate(context, (size_t)bytes, purpose, memory);
}

static void release_memory(d9_context *context, d9_parallel *parallel, void *memory) {
    world *self = parallel->state;
    if (!d9_shared_release(context, &self->shared, memory)) d9_release(context, memory);
}

/* ---- broadcast, maximum, end ---- */

static d9_status broadcast(d9_context *context, d9_parallel *parallel, void *bytes, int64_t size) {
    d9_status status = D9_OK;
    for (int64_t begin = 0; begin < size && status == D9_OK; begin += INT_MAX)
        status = check_mpi(context, parallel,
                           MPI_Bcast((char *)bytes + begin, size - begin < INT_MAX ? (int)(size - begin) : INT_MAX,
                                     MPI_BYTE, 0, MPI_COMM_WORLD),
                           "sending the bytes of process 0");
    return status;
}

static d9_status maximum(d9_context *context, d9_parallel *parallel, int *value) {
    return check_mpi(context, parallel, MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD),
                     "agreeing with the other processes");
}

/* Ends all processes, after 0.2 s in which the launcher forwards their last output. */
static void end_all(d9_parallel *parallel, int status) {
    const struct timespec forwarded = {.tv_nsec = 200000000};
    (void)parallel;
    nanosleep(&forwarded, NULL);
    MPI_Abort(MPI_COMM_WORLD, status);
}

static void free_world(d9_context *context, world *self) {
    if (!self) return;
    d9_release(context, self->pieces);
    d9_release(context, self->counts);
    d9_release(context, self->places);
    d9_release(context, self);
}

/* Ends the use of MPI. The barrier lets every process print its last line before the launcher sees an exit status. */
static void disconnect(d9_context *context, d9_parallel *parallel) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    free_world(context, parallel->state);
    parallel->state = NULL;
}

/* ---- connecting ---- */

/* Finds the processes on this host, and how many of them, this one included, have this process's affinity mask. */
static d9_status find_host_processes(d9_context *context, d9_parallel *parallel) {
    d9_status status;
    MPI_Comm host = MPI_COMM_NULL;
    bool *allowed = NULL;
    char own[65], (*all)[65] = NULL;
    D9_TRY(D9_ALLOCATE(context, D9_PROCESSORS_MAX, "the processors of this process", &allowed));
    (void)d9_processors(allowed);
    d9_sha256_hex(&(d9_bytes){allowed, D9_PROCESSORS_MAX * sizeof *allowed}, 1, own);
    D9_TRY(check_mpi(context, parallel,
                     MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, parallel->rank, MPI_INFO_NULL, &host),
                     "finding the processes of this host"));
    MPI_Comm_rank(host, &parallel->host_rank);
    MPI_Comm_size(host, &parallel->host_ranks);
    parallel->host = parallel->rank;
    D9_TRY(check_mpi(context, parallel, MPI_Bcast(&parallel->host, 1, MPI_INT, 0, host), "numbering the hosts"));
    D9_TRY(D9_ALLOCATE(context, parallel->host_ranks, "the processors of the other processes", &all));
    D9_TRY(check_mpi(context, parallel, MPI_Allgather(own, sizeof own, MPI_CHAR, all, sizeof own, MPI_CHAR, host),
                     "comparing the processors of this host's processes"));
    parallel->sharers = 0;
    for (int r = 0; r < parallel->host_ranks; r++) parallel->sharers += memcmp(all[r], own, sizeof own) == 0;
done:
    if (host != MPI_COMM_NULL) MPI_Comm_free(&host);
    d9_release(context, allowed);
    d9_release(context, all);
    return status;
}

static const d9_parallel_kind kind = {.allocate = allocate,
                                      .release = release_memory,
                                      .sum = sum,
                                      .broadcast = broadcast,
                                      .maximum = maximum,
                                      .abort = end_all,
                                      .close = disconnect};

/* Fails unless as many processes met as were launched: under the launcher of another MPI each process is alone. */
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

/* The module's only public function. `launched`: number of processes that the launcher started. Fills `parallel`. */
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
    D9_TRY(find_host_processes(context, parallel));
done:
    free_world(context, self);
    return status;
}
