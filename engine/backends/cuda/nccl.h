/* Sums of gradients between GPUs by NCCL, whose library is loaded before the first sum of a run of several processes.
 * D9_CUDA_NCCL is NULL in a build without NCCL's header. */
#pragma once

#include "backends/cuda/cuda.h"

#if DAWN9_NCCL
extern const d9_cuda_reducer d9_cuda_nccl;
#define D9_CUDA_NCCL &d9_cuda_nccl
#else
#define D9_CUDA_NCCL NULL
#endif
