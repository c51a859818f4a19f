/* d9_cuda_order for the model, where CUB cannot run: sorts the same keys with the standard library. */
#include "kernels/cuda/order.h"
#include "tests/cuda_model/stream.h"
#include <algorithm>

namespace {

struct sorting {
    const uint64_t *keys;
    int32_t *order;
    int64_t count;
};

int sort(const void *what) {
    const sorting *s = static_cast<const sorting *>(what);
    const uint64_t *keys = s->keys;
    std::stable_sort(s->order, s->order + s->count, [keys](int32_t a, int32_t b) { return keys[a] < keys[b]; });
    return 0;
}

} // namespace

int d9_cuda_order_scratch_bytes(int64_t count, size_t *bytes) {
    *bytes = count <= 0 ? 0 : static_cast<size_t>(count) * sizeof(uint64_t);
    return 0;
}

int d9_cuda_order(d9_cuda_stream stream, uint64_t seed, uint32_t epoch, int64_t count, void *scratch, int32_t *order) {
    const sorting s = {static_cast<const uint64_t *>(scratch), order, count};
    const int error = d9_cuda_order_keys(stream, seed, epoch, count, static_cast<uint64_t *>(scratch), order);
    if (error || count <= 0) return error;
    return d9_model_submit(stream, sort, &s, sizeof s);
}
