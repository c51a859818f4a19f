/* A fake of NCCL with one process: see fake.h. A sum is computed as if the other processes had this process's values.
 * As in NCCL, values must be in device memory, and the first sum cannot be captured: it connects the processes. */
#include <nccl.h>

#include "tests/cuda_backend/fake_state.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct ncclComm {
    int ranks;
    bool connected;
    atomic_bool aborted; /* must not be used any more */
    pthread_t user;      /* the thread that joined, which also frees graphs */
};

const char *ncclGetErrorString(ncclResult_t result) {
    return result == ncclInvalidUsage ? "invalid usage" : result == ncclRemoteError ? "remote error" : "planted";
}
const char *ncclGetLastError(ncclComm_t processes) { return processes ? "while adding" : "while joining"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    memset(id->internal, 'i', sizeof id->internal);
    d9_fake_get()->counts.nccl_ids++;
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *processes, int ranks, ncclUniqueId id, int rank) {
    d9_fake *fake = d9_fake_get();
    for (size_t i = 0; i < sizeof id.internal; i++)
        if (id.internal[i] != 'i') return ncclInvalidArgument;
    if (fake->without_nccl || rank < 0 || rank >= ranks || d9_fake_capturing()) return ncclInvalidUsage;
    *processes = calloc(1, sizeof **processes);
    (*processes)->ranks = ranks;
    (*processes)->user = pthread_self();
    fake->counts.live_handles++;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t processes, ncclResult_t *lost) {
    d9_fake *fake = d9_fake_get();
    if (!processes || processes->aborted) return ncclInvalidArgument;
    *lost = ++fake->counts.error_queries >= fake->report_lost && d9_fake_hangs() ? ncclRemoteError : ncclSuccess;
    return ncclSuccess;
}

/* Ends sums that hang, then waits until no graph contains sums, as NCCL does, but at most ten seconds, and not at all
 * in the thread that would have to free the graphs. */
ncclResult_t ncclCommAbort(ncclComm_t processes) {
    static const struct timespec pause = {.tv_nsec = 1000000};
    const bool helpless = pthread_equal(processes->user, pthread_self());
    processes->aborted = true;
    d9_fake_end_hang();
    for (int i = 0; i < 10000 && !helpless && d9_fake_recorded_sums() > 0; i++) nanosleep(&pause, NULL);
    d9_fake_get()->counts.endless_aborts += d9_fake_recorded_sums() > 0;
    d9_fake_get()->counts.live_handles--;
    free(processes);
    return ncclSuccess;
}

typedef struct work {
    float *values;
    int64_t count;
    int ranks;
} work;

static int run_sum(const void *what) {
    const work *w = what;
    for (int64_t i = 0; i < w->count; i++) w->values[i] *= (float)w->ranks;
    d9_fake_note_change();
    return 0;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t processes, cudaStream_t stream) {
    const work w = {to, (int64_t)count, processes->ranks};
    d9_fake *fake = d9_fake_get();
    const bool capturing = d9_fake_capturing();
    if (from != to || type != ncclFloat || operation != ncclSum || count == 0 || (uintptr_t)to % 64 != 0 ||
        !d9_fake_holds(to, w.count * 4) || (capturing && !processes->connected) || processes->aborted)
        return ncclInvalidArgument;
    if (++fake->counts.reductions == fake->fail_reduction) return ncclSystemError;
    processes->connected = true;
    if (capturing) d9_fake_note_recorded_sum();
    if (fake->counts.reductions <= D9_FAKE_REDUCTIONS)
        fake->reduction[fake->counts.reductions - 1] = d9_fake_describe_reduction(stream, to, w.count);
    return d9_fake_submit(stream, run_sum, &w, sizeof w) ? ncclInvalidUsage : ncclSuccess;
}
