/* Clusters: blocks that run at the same time and access each other's shared memory (from compute capability 9.0 on).
 * Code for older devices has clusters of one block.
 *
 *   D9_LAUNCH_CLUSTER((sum<8>), grid, D9_BLOCK, 4, bytes, stream, x)   clusters of 4 blocks along y; gridDim.y % 4 == 0
 *
 * and in the kernel
 *
 *   D9_DYNAMIC_SHARED(kept);           `bytes` bytes of shared memory, aligned to 16
 *   D9_CLUSTER_BARRIER();              waits for all threads of all blocks of the cluster
 *   D9_HAS_CLUSTERS                    0 in code for devices without clusters, else 1
 *   D9_CLUSTER_ARRIVE();               D9_CLUSTER_BARRIER in two parts; between them a thread may access only memory
 *   D9_CLUSTER_WAIT();                 that no other thread accesses (not checked by the simulated GPU)
 *   d9_cluster_shared(part, rank)[i]   element of block `rank`'s D9_SHARED array `part`
 *   d9_cluster_place(part, rank)[i]    the same element, writable
 *
 * A block may not end while another may still read its shared memory. */
#pragma once

#include "kernels/cuda/launch.h"

enum { D9_CLUSTER_BLOCKS = 8 }; /* largest cluster that every device with clusters supports */

struct d9_limits {                       /* limits of a device for one kernel */
    int64_t block_bytes;                 /* dynamic shared memory of a block */
    int cluster_blocks, multiprocessors; /* most blocks of a cluster; multiprocessors of the device */
};

/* Bytes of shared memory that a block may have without cudaFuncSetAttribute. */
enum { D9_DEFAULT_SHARED_LIMIT = 48 << 10 };

/* The limit of dynamic shared memory to set for a kernel before it is launched with `dynamic_bytes` besides its static
 * arrays; 0: the present limit, `limit`, suffices. `most`: the largest shared memory of a block on this device, static
 * arrays included. The limit is raised to all of it at once, so that a captured launch never meets a lower limit. */
static inline int64_t d9_shared_limit_to_set(int64_t static_bytes, int64_t dynamic_bytes, int64_t limit, int64_t most) {
    if (static_bytes + dynamic_bytes <= D9_DEFAULT_SHARED_LIMIT || limit == most - static_bytes) return 0;
    return most - static_bytes;
}

#ifndef D9_CUDA_MODEL
#include <cooperative_groups.h>

#define D9_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define D9_HAS_CLUSTERS      1
#define D9_CLUSTER_BARRIER() cooperative_groups::this_cluster().sync()
#define D9_CLUSTER_ARRIVE()  cooperative_groups::this_cluster().barrier_arrive()
#define D9_CLUSTER_WAIT()    cooperative_groups::this_cluster().barrier_wait()
template <typename T> D9_DEVICE const T *d9_cluster_shared(T *own, unsigned rank) {
    return cooperative_groups::this_cluster().map_shared_rank(own, rank);
}
template <typename T> D9_DEVICE T *d9_cluster_place(T *own, unsigned rank) {
    return cooperative_groups::this_cluster().map_shared_rank(own, rank);
}
#else
#define D9_HAS_CLUSTERS      0
#define D9_CLUSTER_BARRIER() __syncthreads()
#define D9_CLUSTER_ARRIVE()  static_cast<void>(0)
#define D9_CLUSTER_WAIT()    __syncthreads()
template <typename T> D9_DEVICE const T *d9_cluster_shared(T *own, unsigned) { return own; }
template <typename T> D9_DEVICE T *d9_cluster_place(T *own, unsigned) { return own; }
#endif

/* Returns `error`. Unless it is cudaSuccess, clears CUDA's last error, so that the next launch does not report it. */
static inline int d9_clear_error(cudaError_t error) {
    if (error != cudaSuccess) cudaGetLastError();
    return static_cast<int>(error);
}

/* Raises the kernel's limit of dynamic shared memory if a launch with `bytes` bytes exceeds it. */
template <typename... P> static inline int d9_raise_shared_limit(void (*kernel)(P...), int64_t bytes) {
    int device, most;
    cudaFuncAttributes code;
    D9_CUDA_TRY(d9_clear_error(cudaFuncGetAttributes(&code, kernel)));
    D9_CUDA_TRY(d9_clear_error(cudaGetDevice(&device)));
    D9_CUDA_TRY(d9_clear_error(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device)));
    const int64_t limit =
        d9_shared_limit_to_set(static_cast<int64_t>(code.sharedSizeBytes), bytes, code.maxDynamicSharedSizeBytes, most);
    if (!limit) return 0;
    return d9_clear_error(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(limit)));
}

/* Fills a launch configuration, except its stream, and raises the kernel's limit of dynamic shared memory if `bytes`
 * exceeds it. It leaves the division between shared memory and L1 cache to the driver: with the largest share of shared
 * memory, loads in flight had too little cache, and one-pass norms took up to 40% longer on an H200. */
template <typename... P>
static inline int d9_cluster_config(void (*kernel)(P...), dim3 grid, unsigned block, unsigned cluster, int64_t bytes,
                                    cudaLaunchAttribute *attribute, cudaLaunchConfig_t *config) {
    *attribute = {};
    *config = {};
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim.x = attribute->val.clusterDim.z = 1;
    attribute->val.clusterDim.y = cluster;
    config->gridDim = grid;
    config->blockDim = dim3(block);
    config->dynamicSmemBytes = static_cast<size_t>(bytes);
    config->attrs = attribute;
    config->numAttrs = cluster > 1 ? 1 : 0;
    return d9_raise_shared_limit(kernel, bytes);
}

template <typename... P, typename... A>
static inline int d9_launch_cluster(void (*kernel)(P...), dim3 grid, unsigned block, unsigned cluster, int64_t bytes,
                                    d9_cuda_stream stream, const A &...arguments) {
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config;
    D9_CUDA_TRY(d9_cluster_config(kernel, grid, block, cluster, bytes, &attribute, &config));
    config.stream = static_cast<cudaStream_t>(stream);
    return d9_clear_error(cudaLaunchKernelEx(&config, kernel, arguments...));
}
#define D9_LAUNCH_CLUSTER(kernel, grid, block, cluster, bytes, stream, ...)                                            \
    d9_launch_cluster(kernel, grid, block, cluster, bytes, stream, __VA_ARGS__)

/* Sets the limits of the current device for this kernel. cluster_blocks: D9_CLUSTER_BLOCKS, or 1 if the device or the
 * kernel's code has no clusters. Returns 0 or a cudaError_t. */
template <typename... P> static inline int d9_device_limits(void (*kernel)(P...), d9_limits *limits) {
    int device, bytes, clusters;
    cudaFuncAttributes code;
    D9_CUDA_TRY(d9_clear_error(cudaGetDevice(&device)));
    D9_CUDA_TRY(d9_clear_error(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device)));
    D9_CUDA_TRY(d9_clear_error(cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, device)));
    D9_CUDA_TRY(
        d9_clear_error(cudaDeviceGetAttribute(&limits->multiprocessors, cudaDevAttrMultiProcessorCount, device)));
    D9_CUDA_TRY(d9_clear_error(cudaFuncGetAttributes(&code, kernel)));
    limits->block_bytes = bytes - static_cast<int64_t>(code.sharedSizeBytes);
    limits->cluster_blocks = clusters && code.ptxVersion >= 90 ? D9_CLUSTER_BLOCKS : 1;
    return 0;
}

/* Number of clusters that the device can run at the same time; 0 if it cannot run this kernel or the query fails. */
template <typename... P>
static inline int d9_device_clusters(void (*kernel)(P...), unsigned block, unsigned cluster, int64_t bytes,
                                     const d9_limits &limits) {
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config;
    int fit = 0;
    int error = d9_cluster_config(kernel, dim3(1, cluster), block, cluster, bytes, &attribute, &config);
    if (!error && cluster > 1) error = d9_clear_error(cudaOccupancyMaxActiveClusters(&fit, kernel, &config));
    if (!error && cluster == 1) {
        error = d9_clear_error(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, kernel, static_cast<int>(block),
                                                                             config.dynamicSmemBytes));
        fit *= limits.multiprocessors;
    }
    return error ? 0 : fit;
}
#endif
