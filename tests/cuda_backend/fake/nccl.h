/* The part of NCCL that engine/backends/cuda/nccl.c uses, declared as documented, for its fake (fake_nccl.c).
 * The functions are exported, because nccl.c finds them with dlsym. */
#pragma once

#include <cuda_runtime_api.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9

typedef enum {
    ncclSuccess = 0,
    ncclSystemError = 2,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6
} ncclResult_t;
typedef enum { ncclSum = 0, ncclProd = 1 } ncclRedOp_t;
typedef enum { ncclHalf = 6, ncclFloat = 7 } ncclDataType_t;
typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;

#pragma GCC visibility push(default)
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t processes);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *processes, int ranks, ncclUniqueId id, int rank);
ncclResult_t ncclCommGetAsyncError(ncclComm_t processes, ncclResult_t *lost);
ncclResult_t ncclCommAbort(ncclComm_t processes);
ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t processes, cudaStream_t stream);
#pragma GCC visibility pop
