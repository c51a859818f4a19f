/* Batch normalisation over ghost groups, forward, in one pass: x is read once and kept in the shared memory of a
 * cluster while mean and variance are computed, then normalised and written. The pool before the norm and what follows
 * the norm are part of the pass. Also here: how much a cluster keeps, forward and backward. */
#include "kernels/cuda/norm_resident.h"

/* Mean, 1 / deviation, scale and bias of the block's channel j; the cluster's first block notes them. */
D9_DEVICE void set_terms(const d9_norm_plan &p, const double *sums, int j, int64_t c, double pivot,
                         const d9_kernel_norm_state &state, float *terms) {
    const d9_norm_pair total = d9_resident_total(p, sums, j);
    double mean;
    terms[D9_RESIDENT_CHANNELS + j] = d9_norm_note(state, blockIdx.z * p.channels + c, static_cast<double>(p.rows),
                                                   pivot, total, blockIdx.y == 0, &mean);
    terms[j] = static_cast<float>(mean);
    terms[2 * D9_RESIDENT_CHANNELS + j] = state.scale[c];
    terms[3 * D9_RESIDENT_CHANNELS + j] = state.bias[c];
}

/* R rows into the thread's own place, and into its sums. */
template <int V, int S, bool P, int R>
D9_DEVICE void keep_rows(const d9_resident &plan, const d9_norm_part &part, int64_t r, d9_kernel_in x,
                         d9_kernel_out pooled, d9_kernel_out kept, int64_t *slot, const d9_vector<V> &pivot,
                         d9_vector<V> *first, d9_vector<V> *second) {
    const d9_norm_plan &p = plan.norm;
    d9_resident_row<V, S, P> row[R];
    for (int k = 0; k < R; k++) row[k] = d9_resident_fetch<V, S, P>(plan, x, part.group, r + k * p.lines, part.c);
    D9_UNROLL(R)
    for (int k = 0; k < R; k++, *slot += D9_RESIDENT_STEP) {
        unsigned places;
        const d9_vector<V> t = d9_resident_open<V, S, P>(x.store, row[k], &places);
        d9_put<V, S>(kept, *slot, V, t);
        if (P && pooled.data) d9_put<V, S>(pooled, d9_norm_at(p, part.group, r + k * p.lines, part.c), V, t);
        d9_norm_add(t, pivot, first, second);
    }
}

template <int V, int S, bool P>
__global__ void __launch_bounds__(D9_BLOCK, 2)
    norm_resident_kernel(d9_resident plan, d9_kernel_in x, d9_kernel_out pooled, d9_kernel_norm_state state,
                         d9_kernel_epilogue epilogue, d9_kernel_out y) {
    D9_DYNAMIC_SHARED(memory);
    D9_SHARED(float, pivots, D9_RESIDENT_CHANNELS);
    D9_SHARED(double, sums, 2 * D9_RESIDENT_CHANNELS);
    D9_SHARED(float, terms, 4 * D9_RESIDENT_CHANNELS);
    const d9_norm_plan &p = plan.norm;
    const d9_norm_part part = d9_norm_share(p, V);
    const d9_kernel_out keep = {memory, static_cast<d9_kernel_store>(S)};
    const d9_kernel_in kept = {memory, static_cast<d9_kernel_store>(S)};
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t chunk = d9_norm_chunk(p, V);
    d9_vector<V> first = {}, second = {};
    if (part.works) {
        unsigned places;
        const d9_vector<V> pivot =
            d9_resident_open<V, S, P>(x.store, d9_resident_fetch<V, S, P>(plan, x, part.group, 0, part.c), &places);
        int64_t slot = d9_resident_slot<V>();
        if (thread < p.columns) d9_put_floats<V>(pivots, thread * V, V, pivot);
        D9_NORM_TRIPS((P ? D9_NORM_ROWS / 2 : D9_NORM_ROWS), p, part,
                      (keep_rows<V, S, P, R>(plan, part, r, x, pooled, keep, &slot, pivot, &first, &second)));
    }
    d9_norm_fold<V>(p, first, second, D9_RESIDENT_CHANNELS, D9_RESIDENT_CHANNELS, sums);
    D9_CLUSTER_BARRIER();
    if (thread < p.columns * V && chunk + thread < p.channels)
        set_terms(p, sums, thread, chunk + thread, static_cast<double>(pivots[thread]), state, terms);
    D9_CLUSTER_BARRIER();
    if (!part.works) return;
    const d9_act act = d9_act_of(epilogue.act);
    const d9_norm_factors<V> own = d9_norm_load_terms<V>(terms + (part.c - chunk), D9_RESIDENT_CHANNELS);
    int64_t slot = d9_resident_slot<V>();
    D9_NORM_TRIPS(D9_NORM_ROWS, p, part,
                  (d9_norm_apply_rows<V, S, R, true>(p, part, r, kept, slot, D9_RESIDENT_STEP, own, epilogue, act, y),
                   slot += R * D9_RESIDENT_STEP));
}

/* ---- launchers ---- */

int d9_cuda_norm_room(d9_cuda_room *room) {
    return d9_device_room(norm_resident_kernel<D9_WIDE, D9_KERNEL_F16, false>, &room->block_bytes,
                          &room->cluster_blocks);
}

/* FIXED: what both kernels have in static shared memory, and the system's part. EASY: three blocks of this size fit
 * together into an SM of 228 KiB. BLOCKS: three for each SM of a large GPU. */
enum { FIXED_BYTES = 20 << 10, EASY_BYTES = 72 << 10, BLOCKS = 396 };

static int64_t kept_bytes(const d9_kernel_norm *norm, int runs, int blocks, int64_t run_bytes) {
    const int64_t rows = d9_ceiling(norm->images / norm->groups * norm->pixels, blocks);
    return d9_ceiling(rows, D9_BLOCK / runs) * D9_BLOCK * run_bytes;
}

/* The widest slice of channels that fits, in the fewest blocks; more blocks where the grid would leave SMs idle. */
static bool divide(const d9_kernel_norm *norm, int64_t run_bytes, int64_t most_bytes, int most_blocks,
                   d9_cuda_residence *r) {
    const int64_t all = norm->channels / D9_WIDE, rows = norm->images / norm->groups * norm->pixels;
    for (int runs = D9_RESIDENT_RUNS; runs >= (all == 1 ? 1 : 2); runs /= 2) {
        int blocks = 1;
        while (blocks < most_blocks && kept_bytes(norm, runs, blocks, run_bytes) > most_bytes) blocks *= 2;
        if (runs >= 2 * all || kept_bytes(norm, runs, blocks, run_bytes) > most_bytes) continue;
        while (blocks < most_blocks && norm->groups * d9_ceiling(all, runs) * blocks < BLOCKS &&
               rows / (2 * blocks) >= 2 * D9_BLOCK / runs)
            blocks *= 2;
        r->runs = runs, r->blocks = blocks, r->block_bytes = kept_bytes(norm, runs, blocks, run_bytes);
        return true;
    }
    return false;
}

/* For a run of 8 lanes: forward x; backward dz, x and two bytes for the places of the maximum. The two bytes count even
 * where there is no pool, so that the work is divided in the same way with and without one. */
bool d9_cuda_norm_fits(const d9_kernel_norm *norm, d9_kernel_store store, bool backward, const d9_cuda_room *room,
                       d9_cuda_residence *residence) {
    const int64_t run = store == D9_KERNEL_F32 ? 4 * D9_WIDE : 2 * D9_WIDE, both = 2 * run + 2;
    const int64_t hard = room->block_bytes - FIXED_BYTES, easy = EASY_BYTES;
    const int blocks = room->cluster_blocks;
    *residence = {};
    if (norm->images <= 0 || norm->pixels <= 0 || norm->channels <= 0 || norm->channels % D9_WIDE != 0) return false;
    residence->keeps_x = true;
    if (divide(norm, backward ? both : run, easy < hard ? easy : hard, blocks, residence)) return true;
    if (divide(norm, backward ? both : run, hard, blocks, residence)) return true;
    residence->keeps_x = false;
    return backward && divide(norm, run, hard, blocks, residence);
}

int d9_cuda_norm_resident(d9_cuda_stream stream, const d9_kernel_norm *norm, const d9_cuda_residence *residence,
                          const d9_kernel_window *window, d9_kernel_in x, d9_kernel_out pooled,
                          const d9_kernel_norm_state *state, const d9_kernel_epilogue *epilogue, d9_kernel_out y) {
    const d9_resident plan = d9_resident_plan(norm, residence, window);
    return D9_LAUNCH_RESIDENT(norm_resident_kernel, plan, x.store, residence->block_bytes, stream, x, pooled, *state,
                              *epilogue, y);
}
