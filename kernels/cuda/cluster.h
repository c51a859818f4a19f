/* Clusters: blocks that run at the same time and read each other's shared memory (compute capability 9.0). In the code
 * for older devices a cluster is one block.
 *
 *   D9_LAUNCH_CLUSTER((sum<8>), grid, D9_BLOCK, 4, bytes, stream, x)   clusters of 4 blocks along y; gridDim.y % 4 == 0
 *
 * and in the kernel
 *
 *   D9_DYNAMIC_SHARED(kept);           `bytes` bytes of the block, aligned to 16
 *   D9_CLUSTER_BARRIER();              waits for all threads of all blocks of the cluster
 *   d9_cluster_shared(part, rank)[i]   what block `rank` has in its D9_SHARED part
 *
 * A block may not end while another may still read its shared memory. */
#ifndef D9_CUDA_CLUSTER_H
#define D9_CUDA_CLUSTER_H

#include "kernels/cuda/launch.h"

#ifndef D9_CUDA_MODEL
#include <cooperative_groups.h>

#define D9_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define D9_CLUSTER_BARRIER() cooperative_groups::this_cluster().sync()
template <typename T> D9_DEVICE const T *d9_cluster_shared(T *own, unsigned rank) {
    return cooperative_groups::this_cluster().map_shared_rank(own, rank);
}
#else
#define D9_CLUSTER_BARRIER() __syncthreads()
template <typename T> D9_DEVICE const T *d9_cluster_shared(T *own, unsigned) { return own; }
#endif

template <typename... P, typename... A>
static inline int d9_launch_cluster(void (*kernel)(P...), dim3 grid, unsigned block, unsigned cluster, int64_t bytes,
                                    d9_cuda_stream stream, const A &...arguments) {
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = attribute.val.clusterDim.z = 1;
    attribute.val.clusterDim.y = cluster;
    config.gridDim = grid;
    config.blockDim = dim3(block);
    config.dynamicSmemBytes = static_cast<size_t>(bytes);
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = &attribute;
    config.numAttrs = cluster > 1 ? 1 : 0;
    D9_CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
    return static_cast<int>(cudaLaunchKernelEx(&config, kernel, arguments...));
}
#define D9_LAUNCH_CLUSTER(kernel, grid, block, cluster, bytes, stream, ...)                                            \
    d9_launch_cluster(kernel, grid, block, cluster, bytes, stream, __VA_ARGS__)

/* On the host: bytes of shared memory that a block of the current device may have, and blocks of a cluster. That is 8,
 * which every device with clusters allows, or 1 where the kernel's code was made for devices without them. */
template <typename... P> static inline int d9_device_room(void (*kernel)(P...), int64_t *block_bytes, int *cluster) {
    int device, bytes, clusters;
    cudaFuncAttributes code;
    D9_CUDA_TRY(cudaGetDevice(&device));
    D9_CUDA_TRY(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    D9_CUDA_TRY(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, device));
    D9_CUDA_TRY(cudaFuncGetAttributes(&code, kernel));
    *block_bytes = bytes;
    *cluster = clusters && code.ptxVersion >= 90 ? 8 : 1;
    return 0;
}
#endif

#endif
