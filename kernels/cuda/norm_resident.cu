/* Batch normalisation over ghost groups, forward, in one pass: x is read once and kept in the shared memory of a
 * cluster while mean and variance are computed, then normalised and written. A pool before the norm and the epilogue
 * after it are part of the pass. */
#include "kernels/cuda/norm_resident.h"

/* Sets the terms mean, factor and bias of the block's channel j; the cluster's first block stores the statistics. */
D9_DEVICE void set_terms(const d9_norm_plan &p, const double *sums, int j, int64_t c, double pivot,
                         const d9_kernel_norm_state &state, float *terms) {
    const d9_norm_pair total = d9_resident_total(p, sums, j);
    double mean;
    const float inv_std = d9_norm_statistics(state, blockIdx.z * p.channels + c, static_cast<double>(p.rows), pivot,
                                             total, blockIdx.y == 0, &mean);
    terms[j] = static_cast<float>(mean);
    terms[D9_RESIDENT_CHANNELS + j] = inv_std * state.scale[c];
    terms[2 * D9_RESIDENT_CHANNELS + j] = state.bias[c];
}

/* Loads R rows (with P, pools them), keeps them, adds them to the thread's sums, and with P writes them to `pooled` if
 * that has data. */
template <int V, int S, bool P, int R>
D9_DEVICE void keep_rows(const d9_resident &plan, const d9_resident_part &part, int r, d9_kernel_in x,
                         d9_kernel_out pooled, d9_kernel_out kept, int *slot, const d9_vector<V> &pivot,
                         d9_vector<V> *first, d9_vector<V> *second) {
    const d9_norm_plan &p = plan.norm;
    d9_resident_row<V, S, P> row[R];
    for (int k = 0; k < R; k++) row[k] = d9_resident_fetch<V, S, P>(plan, x, part, r + k * p.lines);
    D9_UNROLL(R)
    for (int k = 0; k < R; k++, *slot += D9_RESIDENT_STEP) {
        unsigned places;
        const d9_vector<V> t = d9_resident_open<V, S, P>(x.store, row[k], &places);
        d9_store_run<V, S>(kept, *slot, V, t);
        if (P && pooled.data) d9_store_run<V, S>(pooled, d9_resident_at(p, part, r + k * p.lines), V, t);
        d9_norm_add(t, pivot, first, second);
    }
}

/* Normalises R rows, which are kept from `slot` on. */
template <int V, int S, int R>
D9_DEVICE void write_rows(const d9_norm_plan &p, const d9_resident_part &part, int r, d9_kernel_in kept, int *slot,
                          const d9_norm_affine<V> &own, const d9_kernel_epilogue &epilogue, d9_act act,
                          d9_kernel_out y) {
    int64_t at[R];
    d9_raw<V, S> more[R] = {};
    for (int k = 0; k < R; k++) {
        at[k] = d9_resident_at(p, part, r + k * p.lines);
        if (epilogue.addend.data) more[k] = d9_fetch<V, S>(epilogue.addend, at[k]);
    }
    D9_UNROLL(R)
    for (int k = 0; k < R; k++, *slot += D9_RESIDENT_STEP) {
        const d9_vector<V> t = d9_norm_apply_affine(own, d9_load<V, S>(kept, *slot, V));
        d9_norm_apply_epilogue<V, S>(epilogue, act, at[k], y, t, more[k]);
    }
}

template <int V, int S, bool P>
__global__ void __launch_bounds__(D9_BLOCK, 2)
    norm_resident_kernel(d9_resident plan, d9_kernel_in x, d9_kernel_out pooled, d9_kernel_norm_state state,
                         d9_kernel_epilogue epilogue, d9_kernel_out y) {
    D9_DYNAMIC_SHARED(memory);
    D9_SHARED(float, pivots, D9_RESIDENT_CHANNELS);
    D9_SHARED(double, sums, 2 * D9_RESIDENT_CHANNELS);
    D9_SHARED(float, terms, 3 * D9_RESIDENT_CHANNELS);
    const d9_norm_plan &p = plan.norm;
    const d9_resident_part part = d9_resident_part_of(p, V);
    const d9_kernel_out keep = {memory, static_cast<d9_kernel_store>(S)};
    const d9_kernel_in kept = {memory, static_cast<d9_kernel_store>(S)};
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t chunk = d9_norm_chunk(p, V);
    d9_vector<V> first = {}, second = {};
    if (part.works) {
        unsigned places;
        const d9_vector<V> pivot =
            d9_resident_open<V, S, P>(x.store, d9_resident_fetch<V, S, P>(plan, x, part, 0), &places);
        int slot = d9_resident_slot<V>();
        if (thread < p.columns) d9_store_floats<V>(pivots, thread * V, V, pivot);
        D9_RESIDENT_FOR_ROWS((P ? D9_NORM_ROWS(S) / 2 : D9_NORM_ROWS(S)), p, part,
                             (keep_rows<V, S, P, R>(plan, part, r, x, pooled, keep, &slot, pivot, &first, &second)));
    }
    d9_norm_sum_block<V, 2>(p, first, second, D9_RESIDENT_CHANNELS, D9_RESIDENT_CHANNELS, sums);
    D9_CLUSTER_BARRIER();
    if (thread < p.columns * V && chunk + thread < p.channels)
        set_terms(p, sums, thread, chunk + thread, static_cast<double>(pivots[thread]), state, terms);
    D9_CLUSTER_BARRIER();
    if (!part.works) return;
    const d9_act act = d9_act_of(epilogue.act);
    const d9_norm_affine<V> own = d9_norm_load_affine<V>(terms + thread % p.columns * V, D9_RESIDENT_CHANNELS);
    int slot = d9_resident_slot<V>();
    D9_RESIDENT_FOR_ROWS(D9_NORM_ROWS(S) / 2, p, part,
                         (write_rows<V, S, R>(p, part, r, kept, &slot, own, epilogue, act, y)));
}

/* ---- launchers ---- */

int d9_norm_resident_limits(d9_limits *limits) {
    return d9_device_limits(norm_resident_kernel<D9_WIDE, D9_KERNEL_F16, false>, limits);
}

int d9_norm_resident_clusters(d9_kernel_store store, bool pools, const d9_cuda_norm_algorithm *algorithm,
                              const d9_limits &limits) {
    return D9_RESIDENT_CLUSTERS(norm_resident_kernel, pools, store, algorithm, limits);
}

int d9_cuda_norm_resident(d9_cuda_stream stream, const d9_kernel_norm *norm, const d9_cuda_norm_algorithm *algorithm,
                          const d9_kernel_window *window, d9_kernel_in x, d9_kernel_out pooled,
                          const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue, d9_kernel_out y) {
    const d9_resident plan = d9_resident_plan(norm, algorithm, window);
    return D9_LAUNCH_RESIDENT(norm_resident_kernel, plan, x.store, algorithm->block_bytes, stream, x, pooled, *state,
                              *epilogue, y);
}
