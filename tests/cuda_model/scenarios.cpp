/* The kernels of scenarios.h. */
#include "kernels/cuda/cluster.h"
#include "tests/cuda_model/scenarios.h"

namespace {

enum { THREADS = D9_SCENARIO_THREADS, BLOCKS = D9_SCENARIO_BLOCKS };

int words[8 * THREADS]; /* for up to eight blocks */
const int zeros[THREADS] = {0};
unsigned tickets;
#ifdef D9_MODEL_ALIGNMENT
alignas(16) uint32_t aligned_words[8];
#endif

template <bool FIRST, bool SECOND> __global__ void reverse_kernel(const int *in, int *out) {
    D9_SHARED(int, turn, THREADS);
    const unsigned t = threadIdx.x;
    int value = in[t];
    for (int i = 0; i < 3; i++) {
        turn[t] = value;
        if (FIRST) D9_BARRIER();
        value = turn[THREADS - 1 - t];
        if (SECOND) D9_BARRIER();
    }
    out[blockIdx.x * THREADS + t] = value;
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

template <bool CLUSTER, bool STAYS> __global__ void neighbours_kernel(int *out) {
    D9_SHARED(int, turn, THREADS);
    D9_DYNAMIC_SHARED(kept);
    const unsigned t = threadIdx.x;
    const int *there = d9_cluster_shared(turn, (blockIdx.y + 1) % 4);
    turn[t] = static_cast<int>(blockIdx.y * 1000 + t);
    kept[t] = static_cast<unsigned char>(t);
    if (CLUSTER)
        D9_CLUSTER_BARRIER();
    else
        D9_BARRIER();
    out[blockIdx.y * THREADS + t] = there[t] + (kept[t] == t ? 0 : 1);
    if (STAYS) D9_CLUSTER_BARRIER();
}

template <bool CLUSTER, bool STAYS> int run_neighbours(int *out) {
    return D9_LAUNCH_CLUSTER((neighbours_kernel<CLUSTER, STAYS>), dim3(1, 8), THREADS, 4, THREADS, nullptr, out);
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

/* ---- mistakes ---- */

__global__ void ended_block_kernel() {
    D9_SHARED(int, turn, 1);
    D9_CLUSTER_BARRIER();
    static_cast<void>(d9_cluster_shared(turn, 1 - blockIdx.y));
}

__global__ void mixed_barriers_kernel() { /* half a block waits at a block barrier, half at a cluster barrier */
    if (threadIdx.x < THREADS / 2)
        __syncthreads();
    else
        D9_CLUSTER_BARRIER();
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

__global__ void deadlock_kernel() { /* half of a warp exchanges, the other half waits at a barrier */
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

#ifdef D9_MODEL_ALIGNMENT
/* Reads 16 bytes from the array at once. */
D9_DEVICE float wide(const float *from) {
    const float4 all = *reinterpret_cast<const float4 *>(from);
    return all.x + all.y + all.z + all.w;
}

__global__ void plain_array_kernel(float *out) { /* the array is declared without alignment */
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
#endif

/* ---- ordered threads and races ---- */

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

__global__ void halves_kernel(int *word) {
    if (threadIdx.x == 0) *reinterpret_cast<uint16_t *>(word) = 1;
    if (threadIdx.x == 40) *word = 2;
}

__global__ void read_first_kernel(const int *in, int *out, int *change) {
    const unsigned t = blockIdx.x * THREADS + threadIdx.x;
    if (blockIdx.x < BLOCKS - 1 || threadIdx.x > 0) out[t] = in[0];
    D9_BARRIER();
    if (blockIdx.x == BLOCKS - 1 && threadIdx.x == 0) *change = 1;
}

__global__ void read_by_warp_kernel(const int *in, int *out, int *change) {
    out[threadIdx.x] = in[0];
    static_cast<void>(__ballot_sync(0xffffffffu, 1)); /* all have read, but nothing orders them */
    if (threadIdx.x == 0) *change = 1;
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

template <bool BEFORE, bool BEHIND> int run_ticket(int *sum) {
    tickets = 0;
    return D9_LAUNCH((ticket_kernel<BEFORE, BEHIND>), BLOCKS, THREADS, nullptr, words, &tickets, sum);
}

__global__ void atomics_kernel(bool reads, int *smallest, int *out) {
    atomicMin(smallest, static_cast<int>(threadIdx.x));
    if (reads && threadIdx.x == 7) out[blockIdx.x] = *smallest;
}

} // namespace

#define RUN(...) [] { return D9_LAUNCH(__VA_ARGS__); }

int d9_scenario_reverse(const int *in, int *out) {
    return D9_LAUNCH((reverse_kernel<true, true>), 1u, THREADS, nullptr, in, out);
}
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
    return D9_LAUNCH(trace_kernel, BLOCKS, THREADS, nullptr, count, trace);
}
int d9_scenario_shared_limit_to_set(int static_kib, int dynamic_kib, int limit_kib, int most_kib) {
    const int64_t asked = d9_shared_limit_to_set(static_kib << 10, dynamic_kib << 10, limit_kib << 10, most_kib << 10);
    return static_cast<int>(asked >> 10);
}
int d9_scenario_launch_with_shared(int64_t dynamic_bytes) {
    return D9_LAUNCH_CLUSTER(room_kernel, 2u, 1u, 1, dynamic_bytes, nullptr);
}
int d9_scenario_neighbours(int *out) { return run_neighbours<true, true>(out); }

const d9_scenario d9_scenario_mistakes[] = {
    {"divergent", RUN(divergent_kernel, 1u, THREADS, nullptr), nullptr, "divergent barrier: threads wait at"},
    {"left alone", RUN(left_alone_kernel, 1u, THREADS, nullptr), nullptr, "which others have not reached"},
    {"deadlock", RUN(deadlock_kernel, 1u, THREADS, nullptr), nullptr, "deadlock"},
    {"missing lane", RUN(missing_lane_kernel, 1u, THREADS, nullptr), nullptr, "misses a lane that has ended"},
    {"outside of the mask", RUN(outside_mask_kernel, 1u, 32u, nullptr), nullptr, "lane 0 reads lane 20"},
    {"two exchanges", RUN(two_exchanges_kernel, 1u, THREADS, nullptr), nullptr, "lanes of one warp exchange at"},
    {"ended block", [] { return D9_LAUNCH_CLUSTER(ended_block_kernel, dim3(1, 2), 32u, 2, 0, nullptr); }, nullptr,
     "shared memory of a block that has ended"},
    {"mixed barriers", [] { return D9_LAUNCH_CLUSTER(mixed_barriers_kernel, dim3(1, 2), THREADS, 2, 0, nullptr); },
     nullptr, "divergent barrier: threads wait at"},
#ifdef D9_MODEL_ALIGNMENT /* without it, UBSan's own library would end the program */
    {"plain array", RUN(plain_array_kernel, 1u, 1u, nullptr, reinterpret_cast<float *>(aligned_words)), nullptr,
     "at byte 0 of plain: an address that is no multiple of 16, "},
    {"odd place", RUN(odd_place_kernel, 1u, 1u, nullptr, reinterpret_cast<float *>(aligned_words)), nullptr,
     "at byte 4 of aligned: an address that is no multiple of 16, "},
    {"odd store", RUN(odd_store_kernel, 1u, 1u, nullptr, aligned_words), nullptr,
     "in global memory: an address that is no multiple of 16, "},
    {"odd double",
     [] {
         return D9_LAUNCH_CLUSTER(odd_double_kernel, 1u, 1u, 1, 64, nullptr, reinterpret_cast<double *>(aligned_words));
     },
     nullptr, "at byte 4 of dynamic shared memory: an address that is no multiple of 8, "},
#endif
    {nullptr, nullptr, nullptr, nullptr}};

const d9_scenario d9_scenario_illegal_grids[] = {
    {"too many threads", RUN(left_alone_kernel, 1u, 1025u, nullptr), nullptr, nullptr},
    {"5 rows in clusters of 4", [] { return D9_LAUNCH_CLUSTER(ended_block_kernel, dim3(1, 5), 32u, 4, 0, nullptr); },
     nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr}};

const d9_scenario d9_scenario_large_arrays[] = {
    {"static", RUN(static_room_kernel, 1u, 1u, nullptr), "static_room_kernel", ": 49168 bytes of static shared memory"},
    {"both", [] { return d9_scenario_launch_with_shared(226289); }, "room_kernel",
     ": 6160 bytes of static and 226289 of dynamic shared memory"},
    {nullptr, nullptr, nullptr, nullptr}};

const d9_scenario d9_scenario_ordered[] = {
    {"barriers", RUN((reverse_kernel<true, true>), BLOCKS, THREADS, nullptr, zeros, words), nullptr, nullptr},
    {"bytes of a word", RUN(bytes_kernel, BLOCKS, THREADS, nullptr, reinterpret_cast<unsigned char *>(words)), nullptr,
     nullptr},
    {"all read a word", RUN(copy_kernel, BLOCKS, THREADS, nullptr, zeros, true, words), nullptr, nullptr},
    {"launches",
     [] {
         static int copy[BLOCKS * THREADS];
         D9_CUDA_TRY(D9_LAUNCH(copy_kernel, BLOCKS, THREADS, nullptr, words, false, copy));
         return D9_LAUNCH(copy_kernel, BLOCKS, THREADS, nullptr, copy, true, words);
     },
     nullptr, nullptr},
    {"syncwarp", RUN(lanes_kernel, 1, THREADS, nullptr, false, words, [] { __syncwarp(); }), nullptr, nullptr},
    {"cluster barriers", [] { return run_neighbours<true, true>(words); }, nullptr, nullptr},
    {"ticket", /* the last of several blocks adds the results: write, fence, ticket, fence */
     [] {
         static int sums[THREADS];
         D9_CUDA_TRY((run_ticket<true, true>(sums)));
         for (int i = 0; i < THREADS; i++)
             if (sums[i] != BLOCKS) return -1;
         return 0;
     },
     nullptr, nullptr},
    {"atomics", RUN(atomics_kernel, BLOCKS, THREADS, nullptr, false, words, words), nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr}};

const d9_scenario d9_scenario_races[] = {
    {"no first barrier", RUN((reverse_kernel<false, true>), 1, THREADS, nullptr, zeros, words),
     "reverse_kernel: race: thread ", " of turn, and nothing orders them"},
    {"no second barrier", RUN((reverse_kernel<true, false>), 1, THREADS, nullptr, zeros, words),
     "reverse_kernel: race: thread ", " of turn, "},
    {"only a shuffle",
     RUN(lanes_kernel, 1, THREADS, nullptr, false, words,
         [] { static_cast<void>(__shfl_xor_sync(0xffffffffu, 1, 1)); }),
     "lanes_kernel: race: thread ", " of turn, "},
    {"syncwarp of another warp", RUN(lanes_kernel, 1, THREADS, nullptr, true, words, [] { __syncwarp(); }),
     "lanes_kernel: race: thread ", " of turn, "},
    {"warps write a word", RUN(same_kernel, 1, THREADS, nullptr, -1, words), "same_kernel: race: thread ",
     " writes what thread "},
    {"blocks write the same value", RUN(same_kernel, 2, 1, nullptr, 0, words), "same_kernel: race: thread ",
     " has written, in global memory, "},
    {"a word and half of it", RUN(halves_kernel, 1, THREADS, nullptr, words), "halves_kernel: race: thread ",
     " has written, "},
    {"one writes what all read",
     [] {
         static int word;
         return D9_LAUNCH(read_first_kernel, BLOCKS, THREADS, nullptr, &word, words, &word);
     },
     "read_first_kernel: race: thread ", "in global memory"},
    {"a lane writes what its warp reads",
     [] {
         static int word;
         return D9_LAUNCH(read_by_warp_kernel, 1u, 32u, nullptr, &word, words, &word);
     },
     "read_by_warp_kernel: race: thread 0 of block (0, 0, 0) writes what thread ", " has read, in global memory"},
    {"block barrier in a cluster", [] { return run_neighbours<false, true>(words); },
     "neighbours_kernel: race: thread ", " of turn, "},
    {"early end in a cluster", [] { return run_neighbours<true, false>(words); }, "neighbours_kernel: race: thread ",
     " of turn, "},
    {"no fence before the ticket", [] { return run_ticket<false, true>(words); }, "ticket_kernel: race: thread ",
     "in global memory"},
    {"no fence after the ticket", [] { return run_ticket<true, false>(words); }, "ticket_kernel: race: thread ",
     "in global memory"},
    {"plain read of an atomic", RUN(atomics_kernel, BLOCKS, THREADS, nullptr, true, words, words + THREADS),
     "atomics_kernel: race: thread ", " by an atomic"},
    {nullptr, nullptr, nullptr, nullptr}};
