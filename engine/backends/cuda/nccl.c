/* Sums between GPUs by NCCL. Each process has one GPU. Process 0 makes an ncclUniqueId and broadcasts it by MPI, so
 * that the other processes find process 0. */
#include "backends/cuda/cuda.h"
#include "backends/cuda/library.h"
#include "core/system.h"

#include <nccl.h>
#include <pthread.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#ifndef D9_NCCL_LIBRARY /* a test names a fake library instead */
#define D9_NCCL_LIBRARY "libnccl.so." TEXT(NCCL_MAJOR)
#endif
#ifndef D9_NCCL_SEGMENT_BYTES
#define D9_NCCL_SEGMENT_BYTES (4 << 20) /* so that a sum takes long compared with its start; not measured */
#endif

#define FUNCTIONS(f)                                                                                                   \
    f(GetErrorString) f(GetLastError) f(GetUniqueId) f(CommInitRank) f(CommGetAsyncError) f(CommAbort) f(AllReduce)

typedef struct nccl {
    void *library;
    ncclComm_t processes;
    int device;
    bool lost;         /* another process was lost: nothing but ncclCommAbort may use `processes` */
    bool aborting;     /* `aborter` was started */
    pthread_t aborter; /* calls ncclCommAbort */
#define DECLARE(name) __typeof__(nccl##name) *name;
    FUNCTIONS(DECLARE)
} nccl;

static d9_status check(d9_context *context, const nccl *n, ncclResult_t result, const char *what) {
    if (result == ncclSuccess) return D9_OK;
    return d9_fail(context, D9_DEVICE, "NCCL: %s: %s: %s", what, n->GetErrorString(result),
                   n->GetLastError(n->processes));
}

/* ncclCommAbort waits for no other process, unlike ncclCommDestroy, so a process that fails can leave. At the end of a
 * run no process needs another's buffers: all have read their results and have synchronised since the last sum. */
static void abort_sums(nccl *n) {
    if (n->processes) n->CommAbort(n->processes);
    n->processes = NULL;
}

static void *run_aborter(void *reducer) {
    cudaSetDevice(((nccl *)reducer)->device); /* in a new thread device 0 is current */
    abort_sums(reducer);
    return NULL;
}

static void close_nccl(d9_context *context, void *reducer) {
    nccl *n = reducer;
    if (!n) return;
    if (n->aborting) pthread_join(n->aborter, NULL);
    abort_sums(n);
    if (n->library) dlclose(n->library);
    d9_release(context, n);
}

static d9_status load(d9_context *context, void **reducer, int64_t *pci) {
    d9_status status;
    struct cudaDeviceProp properties;
    nccl *n = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "NCCL", &n));
    const int mode = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE; /* NCCL's own threads may still run after dlclose */
    *n = (nccl){.library = dlopen(D9_NCCL_LIBRARY, mode)};
    if (!n->library) D9_TRY(d9_fail(context, D9_DEVICE, "NCCL cannot be loaded: %s", dlerror()));
#define LOAD(name) D9_TRY(d9_cuda_library_find(context, "NCCL", D9_NCCL_LIBRARY, n->library, "nccl" #name, &n->name));
    FUNCTIONS(LOAD)
    /* the driver has made the device current */
    if (cudaGetDevice(&n->device) != cudaSuccess || cudaGetDeviceProperties(&properties, n->device) != cudaSuccess)
        D9_TRY(d9_fail(context, D9_DEVICE, "CUDA does not say which GPU NCCL is to use"));
    *pci = (((int64_t)properties.pciDomainID << 16) | (properties.pciBusID << 8) | properties.pciDeviceID) + 1;
    *reducer = n;
    n = NULL;
done:
    close_nccl(context, n);
    return status;
}

static d9_status join(d9_context *context, void *reducer, d9_parallel *parallel) {
    d9_status status = D9_OK;
    nccl *n = reducer;
    ncclUniqueId id = {.internal = {0}};
    if (parallel->rank == 0) D9_TRY(check(context, n, n->GetUniqueId(&id), "making an identifier"));
    D9_TRY(d9_parallel_broadcast(context, parallel, &id, sizeof id));
    D9_TRY(check(context, n, n->CommInitRank(&n->processes, parallel->ranks, id, parallel->rank),
                 "joining the GPUs of all processes, one for each"));
done:
    return status;
}

static d9_status report_lost(d9_context *context) {
    return d9_fail(context, D9_DEVICE, "NCCL: another process was lost");
}

static d9_status sum(d9_context *context, void *reducer, float *values, int64_t count, d9_cuda_stream stream) {
    const nccl *n = reducer;
    if (n->lost) return report_lost(context);
    return check(context, n, n->AllReduce(values, values, (size_t)count, ncclFloat, ncclSum, n->processes, stream),
                 "adding gradients");
}

/* ncclCommAbort ends the sums on the GPU at once, but returns only when all recorded graphs with sums are freed
 * (localPersistentRefs in NCCL's init.cc). The calling thread frees them later, so another thread waits. If it cannot
 * be started, the calling thread aborts: it may wait for ever, as it otherwise would for the GPU. */
static void start_abort(nccl *n) {
    n->lost = true;
    n->aborting = pthread_create(&n->aborter, NULL, run_aborter, n) == 0;
    if (!n->aborting) abort_sums(n);
}

/* Fails, and aborts the sums, if NCCL reports that another process was lost; the driver calls it while it waits. A GPU
 * waits for ever in a sum that another process does not join. NCCL notices lost connections in threads of its own, and
 * ncclCommAbort ends the wait. */
static d9_status watch(d9_context *context, void *reducer) {
    nccl *n = reducer;
    ncclResult_t lost = ncclSuccess;
    if (n->lost) return report_lost(context);
    const ncclResult_t asked = n->CommGetAsyncError(n->processes, &lost);
    const d9_status status = check(context, n, asked == ncclSuccess ? lost : asked, "another process was lost");
    if (status != D9_OK) start_abort(n);
    return status;
}

const d9_cuda_reducer d9_cuda_nccl = {.version = "NCCL " TEXT(NCCL_MAJOR) "." TEXT(NCCL_MINOR) "." TEXT(NCCL_PATCH),
                                      .segment_bytes = D9_NCCL_SEGMENT_BYTES,
                                      .load = load,
                                      .join = join,
                                      .sum = sum,
                                      .watch = watch,
                                      .close = close_nccl};
