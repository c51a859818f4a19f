/* d9_cuda_order where CUB does not run: the same keys, sorted by the standard library. */
#include "kernels/cuda/order.h"

#include <algorithm>

int d9_cuda_order_scratch_bytes(int64_t count, size_t *bytes) {
    *bytes = count <= 0 ? 0 : static_cast<size_t>(count) * sizeof(uint64_t);
    return 0;
}

int d9_cuda_order(d9_cuda_stream stream, uint64_t seed, uint32_t epoch, int64_t count, void *scratch, int32_t *order) {
    const uint64_t *keys = static_cast<const uint64_t *>(scratch);
    const int error = d9_cuda_order_keys(stream, seed, epoch, count, static_cast<uint64_t *>(scratch), order);
    if (error || count <= 0) return error;
    std::stable_sort(order, order + count, [keys](int32_t a, int32_t b) { return keys[a] < keys[b]; });
    return 0;
}
