/* The sort keys of an epoch's order: kernels/formulas/philox.h at counter (sample, epoch, D9_STREAM_ORDER, 0). */
#include "kernels/cuda/launch.h"
#include "kernels/cuda/order.h"

__global__ void __launch_bounds__(D9_BLOCK)
    order_keys_kernel(uint64_t seed, uint32_t epoch, int64_t count, uint64_t *keys, int32_t *samples) {
    for (int64_t i = d9_thread(); i < D9_END(count); i += d9_threads()) {
        keys[i] = d9_philox_pair(d9_philox4x32_10(seed, static_cast<uint32_t>(i), epoch, D9_STREAM_ORDER, 0));
        samples[i] = static_cast<int32_t>(i);
    }
}

int d9_cuda_order_keys(d9_cuda_stream stream, uint64_t seed, uint32_t epoch, int64_t count, uint64_t *keys,
                       int32_t *samples) {
    if (count <= 0) return 0;
    return D9_LAUNCH(order_keys_kernel, d9_blocks(count), D9_BLOCK, stream, seed, epoch, count, keys, samples);
}
