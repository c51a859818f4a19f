/* Shared by the two halves of d9_cuda_order: the keys (order_keys.cu, which also runs on the CPU model) and the sort
 * (order.cu, CUB). */
#ifndef D9_CUDA_ORDER_H
#define D9_CUDA_ORDER_H

#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif
/* keys (count): the epoch's sort key of each sample; samples (count): 0, 1, 2 ... */
int d9_cuda_order_keys(d9_cuda_stream stream, uint64_t seed, uint32_t epoch, int64_t count, uint64_t *keys,
                       int32_t *samples);
#ifdef __cplusplus
}
#endif

#endif
