/* Batch normalisation over ghost groups, backward, in one pass: dz and, with keeps_x, x are kept in the shared memory
 * of a cluster while their sums are computed; then dx is written, or the gradient of the pool's input if a pool comes
 * before the norm. Every array is read once, except x without keeps_x. Formula: norm_backward.cu.
 *
 * dscale and dbias are sums over the groups, and each group is in another cluster. So each cluster writes its group's
 * share to scratch and takes a ticket; the cluster with the last ticket adds the shares in the order of the groups. */
#include "kernels/cuda/norm_resident.h"

/* Arrays that a block keeps in shared memory; places: positions of the maxima, two bits for each channel. */
struct kept_arrays {
    d9_kernel_out dz, x;
    uint16_t *places;
};

template <int S> D9_DEVICE kept_arrays divide_memory(const d9_resident &plan, unsigned char *memory) {
    const int bytes = plan.elements * (S == D9_KERNEL_F32 ? 4 : 2);
    const d9_kernel_store store = static_cast<d9_kernel_store>(S);
    const kept_arrays k = {{memory, store}, {memory + bytes, store}, reinterpret_cast<uint16_t *>(memory + 2 * bytes)};
    return k;
}

D9_DEVICE d9_kernel_in input_of(d9_kernel_out kept) {
    const d9_kernel_in x = {kept.data, kept.store};
    return x;
}

/* Computes mean, a, b and c of dx = a * (dz - b - (x - mean) * c) for the block's channel j. The cluster's first block
 * writes the group's share of dbias and dscale. */
D9_DEVICE void set_terms(const d9_norm_plan &p, const d9_norm_backward &b, const double *sums, int j, int64_t c,
                         float *terms, double *shares) {
    const d9_norm_pair total = d9_resident_total(p, sums, j);
    const int64_t at = blockIdx.z * p.channels + c;
    const double n = static_cast<double>(p.rows), inv_std = static_cast<double>(b.inv_std[at]);
    terms[j] = b.mean[at];
    terms[D9_RESIDENT_CHANNELS + j] = static_cast<float>(static_cast<double>(b.scale[c]) * inv_std);
    terms[2 * D9_RESIDENT_CHANNELS + j] = static_cast<float>(total.first / n);
    terms[3 * D9_RESIDENT_CHANNELS + j] = static_cast<float>(inv_std * inv_std * total.second / n);
    if (blockIdx.y != 0) return;
    shares[2 * blockIdx.z * p.channels + c] = total.first;
    shares[(2 * blockIdx.z + 1) * p.channels + c] = inv_std * total.second;
}

/* Called by the first block of each cluster, one barrier after it wrote its shares. The fences ensure that the shares
 * are visible before the ticket is taken, and that other clusters' shares are visible before they are read here. The
 * last cluster of a chunk adds all groups' shares into dbias and dscale, and resets the ticket. */
D9_DEVICE void add_shares(const d9_norm_plan &p, int64_t chunk, const double *shares, unsigned *tickets,
                          const d9_kernel_norm_gradients &gradients) {
    D9_SHARED(unsigned, before, 1);
    if (threadIdx.x == 0) {
        D9_FENCE();
        before[0] = atomicAdd(&tickets[blockIdx.x], 1u);
        D9_FENCE();
    }
    D9_BARRIER();
    const int64_t c = chunk + threadIdx.x;
    if (before[0] + 1 != static_cast<unsigned>(p.groups)) return;
    if (threadIdx.x == 0) tickets[blockIdx.x] = 0;
    if (static_cast<int>(threadIdx.x) >= p.columns * D9_WIDE || c >= p.channels) return;
    double bias = 0, scale = 0;
    for (int64_t g = 0; g < p.groups; g++) {
        bias += shares[2 * g * p.channels + c];
        scale += shares[(2 * g + 1) * p.channels + c];
    }
    if (gradients.dscale) gradients.dscale[c] = static_cast<float>(scale);
    if (gradients.dbias) gradients.dbias[c] = static_cast<float>(bias);
}

/* Loads R rows of dz and x, adds them to the thread's sums, and keeps dz, with keeps_x also x, with P also the
 * positions of the maxima. */
template <int V, int S, bool P, int R>
D9_DEVICE void keep_rows(const d9_resident &plan, const d9_resident_part &part, int r, const d9_norm_backward &b,
                         bool keeps_x, const kept_arrays &own, int *slot, const d9_vector<V> &mean, d9_vector<V> *first,
                         d9_vector<V> *second) {
    const d9_norm_plan &p = plan.norm;
    d9_resident_row<V, S, P> row[R];
    d9_norm_fetched<V, S> f[R];
    for (int k = 0; k < R; k++) {
        row[k] = d9_resident_fetch<V, S, P>(plan, b.x, part, r + k * p.lines);
        f[k] = d9_norm_fetch<V, S>(b, d9_resident_at(p, part, r + k * p.lines));
    }
    D9_UNROLL(R)
    for (int k = 0; k < R; k++, *slot += D9_RESIDENT_STEP) {
        unsigned places;
        const d9_vector<V> x = d9_resident_open<V, S, P>(b.x.store, row[k], &places);
        const d9_vector<V> dz = d9_norm_dz<V, S>(b, f[k]);
        d9_store_run<V, S>(own.dz, *slot, V, dz);
        if (keeps_x) d9_store_run<V, S>(own.x, *slot, V, x);
        if (P) own.places[*slot / V] = static_cast<uint16_t>(places);
        d9_norm_add_backward(dz, x, mean, first, second);
    }
}

/* Writes dx of R rows, or with P of their windows, and dz if b.prologue.dz has data. */
template <int V, int S, bool P, int R>
D9_DEVICE void write_rows(const d9_resident &plan, const d9_resident_part &part, int r, const d9_norm_backward &b,
                          bool keeps_x, const kept_arrays &own, int *slot, const d9_norm_factors<V> &terms,
                          d9_kernel_out dx) {
    const d9_norm_plan &p = plan.norm;
    int64_t at[R];
    d9_raw<V, S> dz[R], from[R];
    unsigned places[R] = {};
    for (int k = 0; k < R; k++, *slot += D9_RESIDENT_STEP) {
        at[k] = d9_resident_at(p, part, r + k * p.lines);
        dz[k] = d9_fetch<V, S>(input_of(own.dz), *slot);
        from[k] = P || keeps_x ? d9_fetch<V, S>(input_of(own.x), *slot) : d9_fetch<V, S>(b.x, at[k]);
        if (P) places[k] = own.places[*slot / V];
    }
    D9_UNROLL(R)
    for (int k = 0; k < R; k++) {
        const d9_vector<V> t =
            d9_norm_gradient(terms, d9_open<V, S>(b.dy.store, dz[k]), d9_open<V, S>(b.x.store, from[k]));
        if (b.prologue.dz.data) d9_store_raw<S>(b.prologue.dz, at[k], dz[k]);
        if (P)
            d9_resident_scatter<V, S>(plan.window, d9_resident_corner(plan, part, r + k * p.lines), places[k], t, dx);
        else
            d9_store_run<V, S>(dx, at[k], V, t);
    }
}

/* With half-precision storage, three blocks must fit into the registers of a multiprocessor: loads, sums and stores of
 * one block follow each other, but overlap with those of other blocks. On an H200 three blocks were faster than two
 * here, and slower in the forward pass. */
template <int V, int S, bool P>
__global__ void __launch_bounds__(D9_BLOCK, S == D9_KERNEL_F32 ? 2 : 3)
    norm_resident_backward_kernel(d9_resident plan, d9_norm_backward b, bool keeps_x, double *shares, unsigned *tickets,
                                  d9_kernel_norm_gradients gradients) {
    D9_DYNAMIC_SHARED(memory);
    D9_SHARED(double, sums, 2 * D9_RESIDENT_CHANNELS);
    D9_SHARED(float, terms, 4 * D9_RESIDENT_CHANNELS);
    const d9_norm_plan &p = plan.norm;
    const d9_resident_part part = d9_resident_part_of(p, V);
    const kept_arrays own = divide_memory<S>(plan, memory);
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t chunk = d9_norm_chunk(p, V);
    d9_vector<V> first = {}, second = {};
    if (part.works) {
        const d9_vector<V> mean = d9_load_floats<V>(b.mean, part.group * p.channels + part.c, V);
        int slot = d9_resident_slot<V>();
        D9_RESIDENT_FOR_ROWS((P ? 1 : D9_NORM_ROWS(S) / 2), p, part,
                             (keep_rows<V, S, P, R>(plan, part, r, b, keeps_x, own, &slot, mean, &first, &second)));
    }
    d9_norm_sum_block<V, 2>(p, first, second, D9_RESIDENT_CHANNELS, D9_RESIDENT_CHANNELS, sums);
    D9_CLUSTER_BARRIER();
    if (thread < p.columns * V && chunk + thread < p.channels)
        set_terms(p, b, sums, thread, chunk + thread, terms, shares);
    D9_CLUSTER_BARRIER();
    if (part.works) {
        const d9_norm_factors<V> lane = d9_norm_load_terms<V>(terms + thread % p.columns * V, D9_RESIDENT_CHANNELS);
        int slot = d9_resident_slot<V>();
        D9_RESIDENT_FOR_ROWS(D9_NORM_ROWS(S) / 2, p, part,
                             (write_rows<V, S, P, R>(plan, part, r, b, keeps_x, own, &slot, lane, gradients.dx)));
    }
    if (blockIdx.y == 0) add_shares(p, chunk, shares, tickets, gradients);
}

/* ---- launchers ---- */

int d9_norm_resident_backward_limits(d9_limits *limits) {
    return d9_device_limits(norm_resident_backward_kernel<D9_WIDE, D9_KERNEL_F16, false>, limits);
}

int d9_norm_resident_backward_clusters(d9_kernel_store store, bool pools, const d9_cuda_norm_algorithm *algorithm,
                                       const d9_limits &limits) {
    return D9_RESIDENT_CLUSTERS(norm_resident_backward_kernel, pools, store, algorithm, limits);
}

int d9_cuda_norm_resident_backward(d9_cuda_stream stream, const d9_kernel_norm *norm,
                                   const d9_cuda_norm_algorithm *algorithm, const d9_kernel_window *window,
                                   d9_kernel_in dy, const d9_cuda_prologue *prologue, d9_kernel_in x, const float *mean,
                                   const float *inv_std, const float *scale, void *scratch, uint32_t *tickets,
                                   const d9_kernel_norm_gradients *gradients) {
    const d9_resident plan = d9_resident_plan(norm, algorithm, window);
    d9_norm_backward b = {dy, x, *prologue, mean, inv_std, scale};
    b.prologue.bias = NULL; /* so the kernel reads prologue->reference and does not recompute it */
    return D9_LAUNCH_RESIDENT(norm_resident_backward_kernel, plan, x.store, algorithm->block_bytes, stream, b,
                              algorithm->keeps_x, static_cast<double *>(scratch), tickets, *gradients);
}
