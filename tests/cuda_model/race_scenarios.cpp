/* The kernels of race_scenarios.h. */
#include "kernels/cuda/cluster.h"
#include "tests/cuda_model/race_scenarios.h"

namespace {

enum { THREADS = 96, BLOCKS = 5 };

int words[BLOCKS * THREADS];
unsigned tickets;

template <bool FIRST, bool SECOND> __global__ void barrier_kernel(int *out) {
    D9_SHARED(int, turn, THREADS);
    const unsigned t = threadIdx.x;
    int value = static_cast<int>(t);
    for (int i = 0; i < 2; i++) {
        turn[t] = value;
        if (FIRST) D9_BARRIER();
        value = turn[THREADS - 1 - t];
        if (SECOND) D9_BARRIER();
    }
    out[blockIdx.x * THREADS + t] = value;
}

__global__ void bytes_kernel(unsigned char *out) {
    D9_SHARED(unsigned char, kept, THREADS);
    kept[threadIdx.x] = static_cast<unsigned char>(threadIdx.x);
    out[blockIdx.x * THREADS + threadIdx.x] = kept[threadIdx.x];
}

__global__ void copy_kernel(const int *in, bool all, int *out) {
    const unsigned t = blockIdx.x * THREADS + threadIdx.x;
    out[t] = all ? in[0] : in[t];
}

template <typename ORDER> __global__ void lanes_kernel(bool over, int *out, ORDER order) {
    D9_SHARED(int, turn, THREADS);
    const unsigned t = threadIdx.x;
    turn[t] = static_cast<int>(t);
    order();
    out[t] = turn[over ? (t + 32) % THREADS : t ^ 1u];
}

__global__ void same_kernel(int mask, int *word) {
    if (threadIdx.x % 32 == 0) *word = static_cast<int>(threadIdx.x) & mask;
}

__global__ void halves_kernel(uint32_t *word) {
    if (threadIdx.x == 0) *reinterpret_cast<uint16_t *>(word) = 1;
    if (threadIdx.x == 40) *word = 2;
}

__global__ void read_first_kernel(const int *in, int *out, int *change) {
    const unsigned t = blockIdx.x * THREADS + threadIdx.x;
    if (blockIdx.x < BLOCKS - 1 || threadIdx.x > 0) out[t] = in[0];
    D9_BARRIER();
    if (blockIdx.x == BLOCKS - 1 && threadIdx.x == 0) *change = 1;
}

template <bool CLUSTER, bool STAYS> __global__ void cluster_kernel(int *out) {
    D9_SHARED(int, turn, THREADS);
    const unsigned t = threadIdx.x;
    const int *there = d9_cluster_shared(turn, 1 - blockIdx.y % 2);
    turn[t] = static_cast<int>(t);
    if (CLUSTER)
        D9_CLUSTER_BARRIER();
    else
        D9_BARRIER();
    out[blockIdx.y * THREADS + t] = there[t];
    if (STAYS) D9_CLUSTER_BARRIER();
}

template <bool BEFORE, bool BEHIND> __global__ void ticket_kernel(int *shares, unsigned *ticket, int *sum) {
    D9_SHARED(unsigned, before, 1);
    shares[blockIdx.x * THREADS + threadIdx.x] = 1;
    D9_BARRIER();
    if (threadIdx.x == 0) {
        if (BEFORE) D9_FENCE();
        before[0] = atomicAdd(ticket, 1u);
        if (BEHIND) D9_FENCE();
    }
    D9_BARRIER();
    if (before[0] + 1 != BLOCKS) return;
    if (threadIdx.x == 0) *ticket = 0;
    int all = 0;
    for (int block = 0; block < BLOCKS; block++) all += shares[block * THREADS + static_cast<int>(threadIdx.x)];
    sum[threadIdx.x] = all;
}

__global__ void atomics_kernel(bool reads, int *smallest, int *out) {
    atomicMin(smallest, static_cast<int>(threadIdx.x));
    if (reads && threadIdx.x == 7) out[blockIdx.x] = *smallest;
}

} // namespace

int d9_race_barrier(void) { return D9_LAUNCH((barrier_kernel<true, true>), BLOCKS, THREADS, nullptr, words); }
int d9_race_no_barrier(void) { return D9_LAUNCH((barrier_kernel<false, true>), 1, THREADS, nullptr, words); }
int d9_race_no_second(void) { return D9_LAUNCH((barrier_kernel<true, false>), 1, THREADS, nullptr, words); }

int d9_race_neighbour_bytes(void) {
    return D9_LAUNCH(bytes_kernel, BLOCKS, THREADS, nullptr, reinterpret_cast<unsigned char *>(words));
}

int d9_race_all_read(void) {
    static const int one = 1;
    return D9_LAUNCH(copy_kernel, BLOCKS, THREADS, nullptr, &one, true, words);
}
int d9_race_launches(void) {
    static int copy[BLOCKS * THREADS];
    D9_CUDA_TRY(D9_LAUNCH(copy_kernel, BLOCKS, THREADS, nullptr, words, false, copy));
    return D9_LAUNCH(copy_kernel, BLOCKS, THREADS, nullptr, copy, true, words);
}

int d9_race_syncwarp(void) {
    return D9_LAUNCH(lanes_kernel, 1, THREADS, nullptr, false, words, [] { __syncwarp(); });
}
int d9_race_some_lanes(void) {
    return D9_LAUNCH(lanes_kernel, 1, THREADS, nullptr, true, words, [] { __syncwarp(); });
}
int d9_race_shuffle(void) {
    return D9_LAUNCH(lanes_kernel, 1, THREADS, nullptr, false, words,
                     [] { static_cast<void>(__shfl_xor_sync(0xffffffffu, 1, 1)); });
}

int d9_race_same_word(void) { return D9_LAUNCH(same_kernel, 1, THREADS, nullptr, -1, words); }
int d9_race_same_value(void) { return D9_LAUNCH(same_kernel, 2, 1, nullptr, 0, words); }
int d9_race_half_words(void) {
    return D9_LAUNCH(halves_kernel, 1, THREADS, nullptr, reinterpret_cast<uint32_t *>(words));
}
int d9_race_read_first(void) {
    static int word;
    return D9_LAUNCH(read_first_kernel, BLOCKS, THREADS, nullptr, &word, words, &word);
}

int d9_race_cluster(void) {
    return D9_LAUNCH_CLUSTER((cluster_kernel<true, true>), dim3(1, 4), THREADS, 2, 0, nullptr, words);
}
int d9_race_no_cluster(void) {
    return D9_LAUNCH_CLUSTER((cluster_kernel<false, true>), dim3(1, 4), THREADS, 2, 0, nullptr, words);
}
int d9_race_early_end(void) {
    return D9_LAUNCH_CLUSTER((cluster_kernel<true, false>), dim3(1, 4), THREADS, 2, 0, nullptr, words);
}

int d9_race_ticket(void) {
    static int sums[THREADS];
    D9_CUDA_TRY(D9_LAUNCH((ticket_kernel<true, true>), BLOCKS, THREADS, nullptr, words, &tickets, sums));
    for (int i = 0; i < THREADS; i++)
        if (sums[i] != BLOCKS) return -1;
    return 0;
}
int d9_race_ticket_unwritten(void) {
    tickets = 0;
    return D9_LAUNCH((ticket_kernel<false, true>), BLOCKS, THREADS, nullptr, words, &tickets, words);
}
int d9_race_ticket_unread(void) {
    tickets = 0;
    return D9_LAUNCH((ticket_kernel<true, false>), BLOCKS, THREADS, nullptr, words, &tickets, words);
}

int d9_race_atomics(void) { return D9_LAUNCH(atomics_kernel, BLOCKS, THREADS, nullptr, false, words, words); }
int d9_race_plain_atomic(void) {
    return D9_LAUNCH(atomics_kernel, BLOCKS, THREADS, nullptr, true, words, words + THREADS);
}
