/* The sorts of order.cu for the simulated GPU, on which CUB cannot run: the standard library sorts the same keys. */
#include "kernels/cuda/order.h"
#include "tests/cuda_model/stream.h"
#include <algorithm>

namespace {

struct sorting {
    const uint64_t *keys;
    int32_t *order;
    int64_t count;
};

int sort_samples(const void *what) {
    const sorting *s = static_cast<const sorting *>(what);
    const uint64_t *keys = s->keys;
    std::stable_sort(s->order, s->order + s->count, [keys](int32_t a, int32_t b) { return keys[a] < keys[b]; });
    return 0;
}

struct key_sorting {
    const uint64_t *keys;
    uint64_t *sorted;
    int64_t count;
    int bits;
};

int sort_keys(const void *what) {
    const key_sorting *s = static_cast<const key_sorting *>(what);
    const uint64_t mask = (uint64_t{1} << s->bits) - 1;
    std::copy(s->keys, s->keys + s->count, s->sorted);
    std::stable_sort(s->sorted, s->sorted + s->count,
                     [mask](uint64_t a, uint64_t b) { return (a >> 32 & mask) < (b >> 32 & mask); });
    return 0;
}

} // namespace

int d9_cuda_order_scratch_bytes(int64_t count, size_t *bytes) {
    *bytes = count <= 0 ? 0 : static_cast<size_t>(count) * sizeof(uint64_t);
    return 0;
}

int d9_cuda_order(d9_cuda_stream stream, uint64_t seed, uint32_t epoch, int64_t count, void *scratch, int32_t *order) {
    const sorting s = {static_cast<const uint64_t *>(scratch), order, count};
    int error = d9_cuda_order_keys(stream, seed, epoch, count, static_cast<uint64_t *>(scratch), order);
    if (error || count <= 0) return error;
    error = d9_model_load_kernel("CUB's sort of pairs");
    return error ? error : d9_model_submit(stream, sort_samples, &s, sizeof s);
}

int d9_cuda_sort_scratch_bytes(int64_t, int, size_t *bytes) {
    *bytes = 0;
    return 0;
}

int d9_cuda_sort(d9_cuda_stream stream, const uint64_t *keys, int64_t count, int bits, void *, uint64_t *sorted) {
    const key_sorting s = {keys, sorted, count, bits};
    const int error = count <= 0 ? 0 : d9_model_load_kernel("CUB's sort of keys");
    return error || count <= 0 ? error : d9_model_submit(stream, sort_keys, &s, sizeof s);
}
