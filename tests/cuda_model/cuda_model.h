/* CUDA as a kernel sees it when kernels/cuda is compiled as C++ for the CPU: the subset that kernels/cuda uses. model.h
 * describes semantics and checks. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1) : x(width), y(height), z(depth) {}
};
/* Copies field by field, because clang's -fsanitize=alignment does not check the copy of a whole struct. */
template <typename T> struct alignas(16) d9_model_four {
    T x, y, z, w;
    d9_model_four() = default;
    d9_model_four(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
    d9_model_four(const d9_model_four &from) : x(from.x), y(from.y), z(from.z), w(from.w) {}
    d9_model_four &operator=(const d9_model_four &from) {
        x = from.x, y = from.y, z = from.z, w = from.w;
        return *this;
    }
};
typedef d9_model_four<uint32_t> uint4;
typedef d9_model_four<float> float4;
struct alignas(8) uint2 {
    uint32_t x, y;
};
static inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct d9_model_place { /* position of the running thread */
    dim3 thread, block, block_size, grid_size;
};
extern d9_model_place d9_model_here;
#define threadIdx d9_model_here.thread
#define blockIdx  d9_model_here.block
#define blockDim  d9_model_here.block_size
#define gridDim   d9_model_here.grid_size

/* Limits of an H100: blocks of a cluster; a block's static shared memory; static and dynamic together, 227 KiB. */
enum { D9_MODEL_CLUSTER = 8, D9_MODEL_STATIC_BYTES = 48 << 10, D9_MODEL_SHARED_BYTES = 232448 };

typedef void d9_model_body(const void *arguments);
/* Launches a kernel that calls body(arguments) in each thread. Copies `bytes` of arguments, as CUDA does, because the
 * kernel may run later. Returns 0 or a cudaError_t. */
int d9_model_launch(const char *kernel, dim3 grid, dim3 block, unsigned cluster, size_t dynamic_bytes,
                    d9_model_body *body, const void *arguments, size_t bytes);
void d9_model_set_stream(const void *stream); /* sets the stream of the next launch */

/* For functions that only pass arguments on: the race check (race.h) ignores their accesses. */
#define D9_UNWATCHED __attribute__((no_sanitize("thread")))

template <typename F> D9_UNWATCHED void d9_model_call_body(const void *call) { (*static_cast<const F *>(call))(); }
template <typename F>
int d9_model_call(const void *stream, const char *name, dim3 grid, dim3 block, unsigned cluster, int64_t dynamic_bytes,
                  const F &call) {
    static_assert(__is_trivially_copyable(F), "arguments of kernels are copied as bytes");
    d9_model_set_stream(stream);
    return d9_model_launch(name, grid, block, cluster, static_cast<size_t>(dynamic_bytes), d9_model_call_body<F>, &call,
                           sizeof call);
}
template <typename K, typename... A> auto d9_model_bind(K kernel, A... arguments) {
    return [=]() D9_UNWATCHED { kernel(arguments...); };
}
#define D9_LAUNCH_CLUSTER(kernel, grid, block, cluster, bytes, stream, ...)                                            \
    d9_model_call(stream, #kernel, grid, block, cluster, bytes,                                                        \
                  d9_model_bind([](auto... arguments) D9_UNWATCHED { kernel(arguments...); }, ##__VA_ARGS__))
#define D9_LAUNCH(kernel, grid, block, stream, ...) D9_LAUNCH_CLUSTER(kernel, grid, block, 1, 0, stream, ##__VA_ARGS__)

/* A block's array: one per declaration; aligned to `alignment`, never to more. */
void *d9_model_shared(const void *tag, const char *name, size_t bytes, size_t alignment);
#define D9_MODEL_SHARED(type, name, count, alignment)                                                                  \
    static const char name##_tag = 0;                                                                                  \
    type *const name = static_cast<type *>(d9_model_shared(&name##_tag, #name, sizeof(type) * (count), alignment))
#define D9_SHARED(type, name, count) D9_MODEL_SHARED(type, name, count, 16)

/* The dynamic shared memory of the running thread's block; the launch sets its size. */
void *d9_model_dynamic_shared();
#define D9_DYNAMIC_SHARED(name) unsigned char *const name = static_cast<unsigned char *>(d9_model_dynamic_shared())

void d9_model_barrier(const char *file, int line);
#define __syncthreads() d9_model_barrier(__FILE__, __LINE__)

/* ---- clusters: consecutive blocks along y ---- */
void d9_model_cluster_barrier(const char *file, int line);
const void *d9_model_cluster_shared(const void *own, unsigned rank); /* place of `own` in the cluster's block `rank` */
#define D9_HAS_CLUSTERS      1
#define D9_CLUSTER_BARRIER() d9_model_cluster_barrier(__FILE__, __LINE__)
#define D9_CLUSTER_ARRIVE()  static_cast<void>(0)
#define D9_CLUSTER_WAIT()    D9_CLUSTER_BARRIER()
template <typename T> const T *d9_cluster_shared(const T *own, unsigned rank) {
    return static_cast<const T *>(d9_model_cluster_shared(own, rank));
}
template <typename T> T *d9_cluster_place(T *own, unsigned rank) {
    return const_cast<T *>(d9_cluster_shared<T>(own, rank));
}
/* Limits of the simulated device (model.h): dynamic shared memory of a block, blocks of a cluster, number of
 * multiprocessors. */
void d9_model_limits(int64_t *block_bytes, int *cluster_blocks, int *multiprocessors);
/* Number of clusters of `cluster` blocks, each with `bytes` of dynamic shared memory, that run at the same time. */
int d9_model_clusters(unsigned cluster, size_t bytes);
template <typename kernel_type, typename limits_type> int d9_device_limits(kernel_type, limits_type *limits) {
    d9_model_limits(&limits->block_bytes, &limits->cluster_blocks, &limits->multiprocessors);
    return 0;
}
template <typename kernel_type, typename limits_type>
int d9_device_clusters(kernel_type, unsigned, unsigned cluster, int64_t bytes, const limits_type &) {
    return d9_model_clusters(cluster, static_cast<size_t>(bytes));
}

/* ---- exchanges within a warp: all lanes of `mask` must reach the same call. source: lane that a shuffle reads ---- */
enum d9_model_exchange { D9_MODEL_SHUFFLE, D9_MODEL_BALLOT, D9_MODEL_SYNC };
uint64_t d9_model_exchange_lanes(const char *file, int line, d9_model_exchange kind, unsigned mask, uint64_t value,
                                 int source);
int d9_model_lane();

template <typename T> uint64_t d9_model_bits(T value) {
    uint64_t bits = 0;
    static_assert(sizeof(T) <= sizeof bits, "a shuffle moves at most eight bytes");
    memcpy(&bits, &value, sizeof value);
    return bits;
}
template <typename T> T d9_model_shuffle(const char *file, int line, unsigned mask, T value, int source) {
    const uint64_t bits = d9_model_exchange_lanes(file, line, D9_MODEL_SHUFFLE, mask, d9_model_bits(value), source);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The lane to read: a lane beyond the warp means the calling lane itself. */
static inline int d9_model_source(int lane) { return lane < 32 ? lane : d9_model_lane(); }

#define __shfl_sync(mask, value, lane)      d9_model_shuffle(__FILE__, __LINE__, mask, value, (lane)&31)
#define __shfl_xor_sync(mask, value, lanes) d9_model_shuffle(__FILE__, __LINE__, mask, value, d9_model_lane() ^ (lanes))
#define __shfl_down_sync(mask, value, offset)                                                                          \
    d9_model_shuffle(__FILE__, __LINE__, mask, value, d9_model_source(d9_model_lane() + static_cast<int>(offset)))
#define __ballot_sync(mask, predicate)                                                                                 \
    static_cast<unsigned>(d9_model_exchange_lanes(__FILE__, __LINE__, D9_MODEL_BALLOT, mask, (predicate) ? 1 : 0, 0))
#define __any_sync(mask, predicate) (__ballot_sync(mask, predicate) != 0)
#define __all_sync(mask, predicate) (__ballot_sync(mask, !(predicate)) == 0)
#define __syncwarp()                                                                                                   \
    static_cast<void>(d9_model_exchange_lanes(__FILE__, __LINE__, D9_MODEL_SYNC, 0xffffffffu, 0, d9_model_lane()))

/* Relaxed atomics. Writes are visible at once; only the race check notices a missing fence. d9_model_atomic is called
 * before each. */
void d9_model_atomic(const char *name, const void *at, size_t bytes);
D9_UNWATCHED static inline unsigned atomicAdd(unsigned *at, unsigned value) {
    d9_model_atomic("atomicAdd", at, sizeof *at);
    const unsigned old = *at;
    *at += value;
    return old;
}
D9_UNWATCHED static inline int atomicMin(int *at, int value) {
    d9_model_atomic("atomicMin", at, sizeof *at);
    const int old = *at;
    if (value < old) *at = value;
    return old;
}
void d9_model_fence(const char *file, int line);
#define __threadfence() d9_model_fence(__FILE__, __LINE__)
