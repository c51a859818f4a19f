/* Batch normalisation over ghost groups, forward, in one pass: x is read once and kept in the shared memory of a
 * cluster while mean and variance are computed, then normalised and written. The pool before the norm and what follows
 * the norm are part of the pass. Also here: how much a cluster keeps, forward and backward. */
#include "kernels/cuda/norm_resident.h"

template <int V, int S, bool P>
D9_DEVICE d9_vector<V> read(const d9_resident &plan, d9_kernel_in x, int64_t group, int64_t r, int64_t c) {
    unsigned places;
    if (P) return d9_resident_largest<V, S>(plan.window, x, d9_resident_corner(plan, group, r, c), &places);
    return d9_load<V, S>(x, d9_norm_at(plan.norm, group, r, c), V);
}

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
        const d9_vector<V> pivot = read<V, S, P>(plan, x, part.group, 0, part.c);
        int64_t slot = d9_resident_slot<V>();
        if (thread < p.columns) d9_put_floats<V>(pivots, thread * V, V, pivot);
        D9_UNROLL(4)
        for (int64_t r = part.row; r < part.end; r += p.lines, slot += D9_RESIDENT_STEP) {
            const d9_vector<V> t = read<V, S, P>(plan, x, part.group, r, part.c);
            d9_put<V, S>(keep, slot, V, t);
            if (P && pooled.data) d9_put<V, S>(pooled, d9_norm_at(p, part.group, r, part.c), V, t);
            for (int i = 0; i < V; i++) {
                const float d = t.v[i] - pivot.v[i];
                first.v[i] += d;
                second.v[i] += d * d;
            }
        }
    }
    d9_norm_fold<V>(p, first, second, D9_RESIDENT_CHANNELS, D9_RESIDENT_CHANNELS, sums);
    D9_CLUSTER_BARRIER();
    if (thread < p.columns * V && chunk + thread < p.channels)
        set_terms(p, sums, thread, chunk + thread, static_cast<double>(pivots[thread]), state, terms);
    D9_CLUSTER_BARRIER();
    if (!part.works) return;
    const int64_t own = part.c - chunk;
    const d9_vector<V> mean = d9_load_floats<V>(terms, own, V);
    const d9_vector<V> inv_std = d9_load_floats<V>(terms, D9_RESIDENT_CHANNELS + own, V);
    const d9_vector<V> scale = d9_load_floats<V>(terms, 2 * D9_RESIDENT_CHANNELS + own, V);
    const d9_vector<V> bias = d9_load_floats<V>(terms, 3 * D9_RESIDENT_CHANNELS + own, V);
    int64_t slot = d9_resident_slot<V>();
    D9_UNROLL(2)
    for (int64_t r = part.row; r < part.end; r += p.lines, slot += D9_RESIDENT_STEP) {
        d9_vector<V> t = d9_load<V, S>(kept, slot, V);
        for (int i = 0; i < V; i++)
            t.v[i] = d9_norm_apply_float(t.v[i], mean.v[i], inv_std.v[i], scale.v[i], bias.v[i]);
        d9_norm_finish<V, S>(epilogue, d9_norm_at(p, part.group, r, part.c), y, &t);
    }
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
