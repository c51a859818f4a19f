/* Sums between GPUs by NCCL. Each process has one GPU. Process 0 makes an ncclUniqueId and broadcasts it by MPI, so
 * that the other processes find process 0. */
#include "backends/cuda/cuda.h"
#include "backends/cuda/library.h"
#include "core/system.h"

#include <nccl.h>

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
static void close_nccl(d9_context *context, void *reducer) {
    nccl *n = reducer;
    if (!n) return;
    if (n->processes) n->CommAbort(n->processes);
    if (n->library) dlclose(n->library);
    d9_release(context, n);
}

static d9_status load(d9_context *context, void **reducer, int64_t *pci) {
    d9_status status;
    struct cudaDeviceProp properties;
    int device; /* the driver has made it current */
    nccl *n = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "NCCL", &n));
    *n = (nccl){.library = dlopen(D9_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    if (!n->library) D9_TRY(d9_fail(context, D9_DEVICE, "NCCL cannot be loaded: %s", dlerror()));
#define LOAD(name) D9_TRY(d9_cuda_library_find(context, "NCCL", D9_NCCL_LIBRARY, n->library, "nccl" #name, &n->name));
    FUNCTIONS(LOAD)
    if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&properties, device) != cudaSuccess)
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

static d9_status sum(d9_context *context, void *reducer, float *values, int64_t count, d9_cuda_stream stream) {
    const nccl *n = reducer;
    return check(context, n, n->AllReduce(values, values, (size_t)count, ncclFloat, ncclSum, n->processes, stream),
                 "adding gradients");
}

/* A GPU waits for ever in a sum that another process does not join. NCCL notices lost connections in threads of its
 * own, and ncclCommAbort ends the wait. */
static d9_status watch(d9_context *context, void *reducer) {
    nccl *n = reducer;
    ncclResult_t lost = ncclSuccess;
    if (!n->processes) return d9_fail(context, D9_DEVICE, "NCCL: another process was lost");
    const ncclResult_t asked = n->CommGetAsyncError(n->processes, &lost);
    const d9_status status = check(context, n, asked == ncclSuccess ? lost : asked, "another process was lost");
    if (status != D9_OK) n->CommAbort(n->processes);
    if (status != D9_OK) n->processes = NULL;
    return status;
}

const d9_cuda_reducer d9_cuda_nccl = {.version = "NCCL " TEXT(NCCL_MAJOR) "." TEXT(NCCL_MINOR) "." TEXT(NCCL_PATCH),
                                      .segment_bytes = D9_NCCL_SEGMENT_BYTES,
                                      .load = load,
                                      .join = join,
                                      .sum = sum,
                                      .watch = watch,
                                      .close = close_nccl};
