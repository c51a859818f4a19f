/* Sorting by CUB (order.cu), and the keys of d9_cuda_order (order_keys.cu, which also runs on the simulated GPU). */
#pragma once

#include "kernels/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif
/* keys (count): the epoch's sort key of each sample; samples (count): 0, 1, 2 ... */
int d9_cuda_order_keys(d9_cuda_stream stream, uint64_t seed, uint32_t epoch, int64_t count, uint64_t *keys,
                       int32_t *samples);
/* sorted (count): the keys in ascending order of bits 32 to 32 + bits - 1; keys with equal bits keep their order.
 * scratch: of the size that d9_cuda_sort_scratch_bytes sets, aligned to 256 bytes. */
int d9_cuda_sort_scratch_bytes(int64_t count, int bits, size_t *bytes);
int d9_cuda_sort(d9_cuda_stream stream, const uint64_t *keys, int64_t count, int bits, void *scratch, uint64_t *sorted);
#ifdef __cplusplus
}
#endif
