/* Sorting by CUB's radix sort. The sort is stable: in d9_cuda_order, samples with equal keys stay in ascending order.
 * Scratch of d9_cuda_order: keys, sorted keys, samples (count each, aligned to 256 bytes), then CUB's scratch. */
#include "kernels/cuda/order.h"

#include <cub/device/device_radix_sort.cuh>

static size_t padded(size_t bytes) { return (bytes + 255) / 256 * 256; }

static cudaError_t sort_pairs(void *scratch, size_t *bytes, const uint64_t *keys, uint64_t *sorted,
                              const int32_t *samples, int32_t *order, int64_t count, cudaStream_t stream) {
    return cub::DeviceRadixSort::SortPairs(scratch, *bytes, keys, sorted, samples, order, static_cast<int>(count), 0,
                                           64, stream);
}

int d9_cuda_order_scratch_bytes(int64_t count, size_t *bytes) {
    size_t own = 0;
    *bytes = 0;
    if (count <= 0) return 0;
    if (count > INT32_MAX) return static_cast<int>(cudaErrorInvalidValue);
    const cudaError_t error = sort_pairs(nullptr, &own, nullptr, nullptr, nullptr, nullptr, count, nullptr);
    const size_t samples = static_cast<size_t>(count);
    *bytes = 2 * padded(samples * sizeof(uint64_t)) + padded(samples * sizeof(int32_t)) + own;
    return static_cast<int>(error);
}

int d9_cuda_order(d9_cuda_stream stream, uint64_t seed, uint32_t epoch, int64_t count, void *scratch, int32_t *order) {
    size_t bytes = 0;
    int error = d9_cuda_order_scratch_bytes(count, &bytes);
    if (error || count <= 0) return error;
    const size_t keys_bytes = padded(static_cast<size_t>(count) * sizeof(uint64_t));
    const size_t samples_bytes = padded(static_cast<size_t>(count) * sizeof(int32_t));
    char *at = static_cast<char *>(scratch);
    uint64_t *keys = reinterpret_cast<uint64_t *>(at), *sorted = reinterpret_cast<uint64_t *>(at + keys_bytes);
    int32_t *samples = reinterpret_cast<int32_t *>(at + 2 * keys_bytes);
    error = d9_cuda_order_keys(stream, seed, epoch, count, keys, samples);
    if (error) return error;
    bytes -= 2 * keys_bytes + samples_bytes;
    return static_cast<int>(sort_pairs(at + 2 * keys_bytes + samples_bytes, &bytes, keys, sorted, samples, order, count,
                                       static_cast<cudaStream_t>(stream)));
}

/* ---- keys alone ---- */

static cudaError_t sort_keys(void *scratch, size_t *bytes, const uint64_t *keys, uint64_t *sorted, int64_t count,
                             int bits, cudaStream_t stream) {
    return cub::DeviceRadixSort::SortKeys(scratch, *bytes, keys, sorted, static_cast<int>(count), 32, 32 + bits,
                                          stream);
}

int d9_cuda_sort_scratch_bytes(int64_t count, int bits, size_t *bytes) {
    *bytes = 0;
    if (count <= 0) return 0;
    if (count > INT32_MAX) return static_cast<int>(cudaErrorInvalidValue);
    return static_cast<int>(sort_keys(nullptr, bytes, nullptr, nullptr, count, bits, nullptr));
}

int d9_cuda_sort(d9_cuda_stream stream, const uint64_t *keys, int64_t count, int bits, void *scratch,
                 uint64_t *sorted) {
    size_t bytes = 0;
    const int error = d9_cuda_sort_scratch_bytes(count, bits, &bytes);
    if (error || count <= 0) return error;
    return static_cast<int>(sort_keys(scratch, &bytes, keys, sorted, count, bits, static_cast<cudaStream_t>(stream)));
}
