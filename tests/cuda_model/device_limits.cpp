/* Occupancy of the simulated device: see model.h. */
#include "tests/cuda_model/model.h"
#include "tests/cuda_model/cuda_model.h"

namespace {

/* static_bytes: an allowance for the static arrays of the norms, whose sizes are known only when a kernel runs.
 * reserved_bytes: shared memory that the system takes for each block. blocks_by_registers: blocks of 256 threads for
 * which a multiprocessor has registers: as many as norm_resident_backward_kernel requests in half precision, assumed
 * for every kernel. */
constexpr size_t static_bytes = 13 << 9, reserved_bytes = 1 << 10, blocks_by_registers = 3;
constexpr d9_model_device h100 = {D9_MODEL_SHARED_BYTES, D9_MODEL_CLUSTER, 132, 0};
d9_model_device device = h100;

} // namespace

void d9_model_set_device(const d9_model_device *other) { device = other ? *other : h100; }

void d9_model_limits(int64_t *block_bytes, int *cluster_blocks, int *multiprocessors) {
    *block_bytes = device.shared_bytes - static_cast<int64_t>(static_bytes);
    *cluster_blocks = device.cluster_blocks;
    *multiprocessors = device.multiprocessors;
}

int d9_model_clusters(unsigned cluster, size_t bytes) {
    const size_t has = static_cast<size_t>(device.shared_bytes) + reserved_bytes;
    const size_t by_memory = has / (bytes + static_bytes + reserved_bytes);
    const size_t blocks = by_memory < blocks_by_registers ? by_memory : blocks_by_registers;
    if (device.rejects && cluster >= static_cast<unsigned>(device.rejects)) return 0;
    return static_cast<int>(blocks * static_cast<size_t>(device.multiprocessors) / cluster);
}
