/* The kernels of scenarios.h. */
#define D9_CUDA_MODEL
#include "kernels/cuda/cluster.h"
#include "tests/cuda_model/scenarios.h"

enum { THREADS = D9_SCENARIO_THREADS };

__global__ void reverse_kernel(const int *in, int *out) {
    D9_SHARED(int, turn, THREADS);
    const unsigned t = threadIdx.x;
    int value = in[t];
    for (int i = 0; i < 3; i++) {
        turn[t] = value;
        __syncthreads();
        value = turn[THREADS - 1 - t];
        __syncthreads();
    }
    out[t] = value;
}

__global__ void shuffles_kernel(const int *in, int *exchanged, int *shifted) {
    const unsigned t = threadIdx.x;
    exchanged[t] = __shfl_xor_sync(0xffffffffu, in[t], 5);
    shifted[t] = __shfl_down_sync(0xffffffffu, in[t], 1);
}

__global__ void ballot_kernel(const int *in, unsigned *ballots) {
    const unsigned bits = __ballot_sync(0xffffffffu, in[threadIdx.x] & 1);
    if (threadIdx.x % 32 == 0) ballots[threadIdx.x / 32] = bits;
}

__global__ void orders_kernel(int *order) {
    D9_SHARED(int, place, 1);
    if (place[0] < 0) place[0] = 0;
    order[blockIdx.x * THREADS + static_cast<unsigned>(place[0]++)] = static_cast<int>(threadIdx.x);
}

__global__ void poison_kernel(unsigned *seen) {
    D9_SHARED(unsigned, array, 4);
    *seen = array[3];
    array[3] = 1;
}

__global__ void places_kernel(int *seen) {
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x, size = blockDim.x * blockDim.y;
    seen[block * size + threadIdx.y * blockDim.x + threadIdx.x]++;
}

__global__ void neighbours_kernel(int *out) {
    D9_SHARED(int, turn, THREADS);
    D9_DYNAMIC_SHARED(kept);
    const unsigned t = threadIdx.x, rank = blockIdx.y % 4;
    turn[t] = static_cast<int>(blockIdx.y * 1000 + t);
    kept[t] = static_cast<unsigned char>(t);
    D9_CLUSTER_BARRIER();
    out[blockIdx.y * THREADS + t] = d9_cluster_shared(turn, (rank + 1) % 4)[t] + (kept[t] == t ? 0 : 1);
    D9_CLUSTER_BARRIER();
}

__global__ void ended_block_kernel() {
    D9_SHARED(int, turn, 1);
    D9_CLUSTER_BARRIER();
    static_cast<void>(d9_cluster_shared(turn, 1 - blockIdx.y));
}

__global__ void mixed_barriers_kernel() {
    if (threadIdx.x < THREADS / 2)
        __syncthreads();
    else
        D9_CLUSTER_BARRIER();
}

__global__ void alignment_kernel(unsigned *place) {
    D9_SHARED(unsigned char, one, 1);
    D9_SHARED(unsigned char, five, 5);
    D9_SHARED(float, sixteen, 16);
    const void *const arrays[] = {one, five, sixteen};
    for (int i = 0; i < 3; i++) place[i] = reinterpret_cast<uintptr_t>(arrays[i]) % 32;
}

__global__ void trace_kernel(unsigned *count, int *trace) {
    if (threadIdx.x == 0) trace[atomicAdd(count, 1u)] = static_cast<int>(blockIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) trace[atomicAdd(count, 1u)] = static_cast<int>(blockIdx.x);
}

__global__ void room_kernel() {
    D9_SHARED(double, some, 511);
    D9_SHARED(float, more, 514); /* 2056 bytes use 2064 */
    D9_DYNAMIC_SHARED(rest);
    some[0] = 1, more[0] = 1, rest[0] = 1;
}

__global__ void static_room_kernel() {
    D9_SHARED(float, half, 6 << 10);
    D9_SHARED(float, other, 6 << 10);
    D9_SHARED(unsigned char, one, 1);
    half[0] = 1, other[0] = 1, one[0] = 1;
}

/* Reads 16 bytes from the array at once. */
D9_DEVICE float wide(const float *from) {
    const float4 all = *reinterpret_cast<const float4 *>(from);
    return all.x + all.y + all.z + all.w;
}

__global__ void plain_array_kernel(float *out) {
    D9_MODEL_SHARED(float, plain, 64, alignof(float));
    *out = wide(plain);
}

__global__ void odd_place_kernel(float *out) {
    D9_SHARED(float, aligned, 64);
    *out = wide(aligned) + wide(aligned + 4) + wide(aligned + 1);
}

__global__ void odd_store_kernel(uint32_t *out) { *reinterpret_cast<uint4 *>(out + 2) = make_uint4(1, 2, 3, 4); }

__global__ void odd_double_kernel(double *out) {
    D9_DYNAMIC_SHARED(memory);
    *out = *reinterpret_cast<const double *>(memory + 4);
}

__global__ void divergent_kernel() {
    if (threadIdx.x < THREADS / 2)
        __syncthreads();
    else
        __syncthreads();
}

__global__ void left_alone_kernel() {
    if (threadIdx.x == 7) return;
    __syncthreads();
}

__global__ void deadlock_kernel() {
    if (threadIdx.x % 32 < 16) static_cast<void>(__ballot_sync(0xffffffffu, 1));
    __syncthreads();
}

__global__ void missing_lane_kernel() {
    if (threadIdx.x == 40) return;
    __syncwarp();
}

__global__ void outside_mask_kernel() {
    if (threadIdx.x < 16) static_cast<void>(__shfl_sync(0xffffu, 1, 20));
}

__global__ void two_exchanges_kernel() {
    if (threadIdx.x % 2)
        static_cast<void>(__ballot_sync(0xffffffffu, 1));
    else
        static_cast<void>(__ballot_sync(0xffffffffu, 1));
}

int d9_scenario_reverse(const int *in, int *out) { return D9_LAUNCH(reverse_kernel, 1u, THREADS, nullptr, in, out); }
int d9_scenario_shuffles(const int *in, int *exchanged, int *shifted) {
    return D9_LAUNCH(shuffles_kernel, 1u, THREADS, nullptr, in, exchanged, shifted);
}
int d9_scenario_ballot(const int *in, unsigned *ballots) {
    return D9_LAUNCH(ballot_kernel, 1u, THREADS, nullptr, in, ballots);
}
int d9_scenario_orders(int *order) { return D9_LAUNCH(orders_kernel, 3u, THREADS, nullptr, order); }
int d9_scenario_poison(unsigned *shared) { return D9_LAUNCH(poison_kernel, 2u, 1u, nullptr, shared); }
int d9_scenario_places(int *seen) { return D9_LAUNCH(places_kernel, dim3(2, 3), dim3(4, 5), nullptr, seen); }

int d9_scenario_alignment(unsigned *place) { return D9_LAUNCH(alignment_kernel, 1u, 1u, nullptr, place); }

int d9_scenario_trace(unsigned *count, int *trace) {
    return D9_LAUNCH(trace_kernel, D9_SCENARIO_BLOCKS, THREADS, nullptr, count, trace);
}

int d9_scenario_shared_to_ask(int static_kib, int dynamic_kib, int limit_kib, int most_kib) {
    const int64_t asked = d9_shared_to_ask(static_kib << 10, dynamic_kib << 10, limit_kib << 10, most_kib << 10);
    return static_cast<int>(asked >> 10);
}
int d9_scenario_shared_bytes(int64_t dynamic_bytes) {
    return D9_LAUNCH_CLUSTER(room_kernel, 2u, 1u, 1, dynamic_bytes, nullptr);
}

int d9_scenario_neighbours(int *out) {
    return D9_LAUNCH_CLUSTER(neighbours_kernel, dim3(1, 8), THREADS, 4, THREADS, nullptr, out);
}

int d9_scenario_divergent(void) { return D9_LAUNCH(divergent_kernel, 1u, THREADS, nullptr); }
int d9_scenario_left_alone(void) { return D9_LAUNCH(left_alone_kernel, 1u, THREADS, nullptr); }
int d9_scenario_deadlock(void) { return D9_LAUNCH(deadlock_kernel, 1u, THREADS, nullptr); }
int d9_scenario_missing_lane(void) { return D9_LAUNCH(missing_lane_kernel, 1u, THREADS, nullptr); }
int d9_scenario_outside_mask(void) { return D9_LAUNCH(outside_mask_kernel, 1u, 32u, nullptr); }
int d9_scenario_two_exchanges(void) { return D9_LAUNCH(two_exchanges_kernel, 1u, THREADS, nullptr); }
int d9_scenario_ended_block(void) { return D9_LAUNCH_CLUSTER(ended_block_kernel, dim3(1, 2), 32u, 2, 0, nullptr); }
int d9_scenario_mixed_barriers(void) {
    return D9_LAUNCH_CLUSTER(mixed_barriers_kernel, dim3(1, 2), THREADS, 2, 0, nullptr);
}
int d9_scenario_broken_cluster(void) { return D9_LAUNCH_CLUSTER(ended_block_kernel, dim3(1, 5), 32u, 4, 0, nullptr); }
int d9_scenario_static_room(void) { return D9_LAUNCH(static_room_kernel, 1u, 1u, nullptr); }
int d9_scenario_plain_array(void) {
    static float out;
    return D9_LAUNCH(plain_array_kernel, 1u, 1u, nullptr, &out);
}
int d9_scenario_odd_place(void) {
    static float out;
    return D9_LAUNCH(odd_place_kernel, 1u, 1u, nullptr, &out);
}
int d9_scenario_odd_store(void) {
    alignas(16) static uint32_t out[8];
    return D9_LAUNCH(odd_store_kernel, 1u, 1u, nullptr, out);
}
int d9_scenario_odd_double(void) {
    static double out;
    return D9_LAUNCH_CLUSTER(odd_double_kernel, 1u, 1u, 1, 64, nullptr, &out);
}
int d9_scenario_too_many_threads(void) { return D9_LAUNCH(left_alone_kernel, 1u, 1025u, nullptr); }
