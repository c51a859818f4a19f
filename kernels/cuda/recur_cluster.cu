/* Recurrent layers of 65 to 256 units on devices with clusters: kernels.h has the contract, kernels/formulas/cells.h
 * the equations.
 *
 * A cluster of 4 or 8 blocks computes S samples over all steps. A block owns a part of the units, up to four for each
 * warp, and keeps their part of U in registers for the whole sequence: forward the units' rows, of which lane l has the
 * columns l, l + 32, ...; backward their columns, of which lane l has the rows l, l + 32, ... of each gate. In every
 * step a warp multiplies its part with a vector in shared memory: the state h, or backward the gradients of the gates.
 * The lanes' sums are added so that each lane gets one unit and sample; two to eight lanes get the same pair. Each of
 * them computes the cell, and together they write the result into a vector of every block. A block has two vectors and
 * reads one while the other is written, so a step has one barrier of the cluster, the last step none. Between its
 * arrival at the barrier and the wait, a thread stores the step's results and loads the next step's inputs; no thread
 * loads there what another one stores. */
#include "kernels/cuda/recur_cluster.h"
#include "kernels/cuda/cluster.h"
#include "kernels/cuda/vector.h" /* sets D9_REAL to float */
#include "kernels/formulas/cells.h"

enum { UNITS = 4, /* of a warp */ MOST_OWN = D9_BLOCK / D9_WARP * UNITS /* of a block */ };

/* The unit and sample of a lane. */
struct lane_place {
    int lane, copy, copies; /* copies: number of lanes with this unit and sample; copy: index among them */
    int first, unit, local; /* the warp's first unit; the lane's unit; its sample, in the cluster */
    int64_t sample;         /* its sample, in the batch */
    bool works, first_copy; /* the unit and the sample exist; they exist and this is the first of the copies */
};

template <int S> D9_DEVICE lane_place place_of(const d9_cuda_recur &s) {
    const int units = static_cast<int>(s.units), blocks = static_cast<int>(gridDim.y),
              own = (units + blocks - 1) / blocks, warp = static_cast<int>(threadIdx.x) / D9_WARP;
    lane_place p;
    p.lane = static_cast<int>(threadIdx.x) % D9_WARP;
    p.copies = D9_WARP / (UNITS * S);
    p.copy = p.lane % p.copies;
    const int index = p.lane / p.copies, of_block = warp * UNITS + index / S;
    p.first = static_cast<int>(blockIdx.y) * own + warp * UNITS;
    p.unit = p.first + index / S;
    p.local = index % S;
    p.sample = static_cast<int64_t>(blockIdx.x) * S + p.local;
    p.works = of_block < own && p.unit < units && p.sample < s.samples;
    p.first_copy = p.works && p.copy == 0;
    return p;
}

/* Sums each v[i] over the lanes; returns to lane l the sum of i = l / (32 / K). */
template <int K> D9_DEVICE float sum_of_lanes(float (&v)[K], int lane) {
    D9_UNROLL(5)
    for (int level = 0; level < 5; level++) {
        const int offset = D9_REDUCED_LANES >> (level + 1), left = K >> level;
        const bool upper = lane & offset;
        if (left <= 1) v[0] += __shfl_xor_sync(0xffffffffu, v[0], offset);
        D9_UNROLL(K)
        for (int i = 0; i < left / 2; i++) {
            const float gives = upper ? v[i] : v[i + left / 2], keeps = upper ? v[i + left / 2] : v[i];
            v[i] = keeps + __shfl_xor_sync(0xffffffffu, gives, offset);
        }
    }
    return v[0];
}

/* Bits of element (g * H + row, column) of U; 0 outside of U. */
D9_DEVICE uint32_t weight_at(int units, int gates, d9_kernel_in u, int g, int row, int column) {
    if (g >= gates || row >= units || column >= units) return 0;
    return d9_fetch_bits(u, (g * units + row) * units + column);
}

D9_DEVICE void clear_vectors(float *vectors, int count) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += D9_BLOCK) vectors[i] = 0;
}

/* Multiplies the warp's part of U with vectors (S, depth); returns the product for the lane's unit and sample. */
template <int S, int N>
D9_DEVICE float multiply(const float (&w)[UNITS][N], const float *vectors, int depth, int lane) {
    float sum[UNITS * S] = {};
    D9_UNROLL(N)
    for (int d = 0; d < N; d++) {
        D9_UNROLL(S)
        for (int s = 0; s < S; s++) {
            const float x = vectors[s * depth + d * D9_WARP + lane];
            D9_UNROLL(UNITS)
            for (int r = 0; r < UNITS; r++) sum[r * S + s] += w[r][d] * x;
        }
    }
    return sum_of_lanes(sum, lane);
}

/* ---- forward ---- */

struct cluster_input { /* gate inputs gx of the lane's unit, in their storage type */
    uint32_t bits[D9_CELL_GATES];
};
D9_DEVICE cluster_input input_at(const d9_cuda_recur &s, const lane_place &p, int gates, d9_kernel_in gx, int64_t t) {
    cluster_input r = {};
    D9_UNROLL(D9_CELL_GATES)
    for (int g = 0; g < D9_CELL_GATES; g++)
        if (p.works && g < gates && t < s.time)
            r.bits[g] = d9_fetch_bits(gx, (t * s.samples + p.sample) * gates * s.units + (g * s.units + p.unit));
    return r;
}

/* A row of U has at most D * 32 columns. */
template <int D, int S>
__global__ void __launch_bounds__(D9_BLOCK, 1)
    recur_cluster_kernel(d9_cuda_recur s, d9_kernel_in gx, d9_kernel_in u, const float *bias, d9_cuda_recur_state first,
                         d9_cuda_recur_result out) {
    if (!D9_HAS_CLUSTERS) return; /* never launched */
    enum { DEPTH = D * D9_WARP, VECTORS = S * DEPTH };
    D9_SHARED(float, vectors, 2 * VECTORS);
    const d9_cell_counts size = d9_cell_counts_of(s.cell);
    const int units = static_cast<int>(s.units);
    const lane_place p = place_of<S>(s);
    uint32_t bits[D9_CELL_GATES][UNITS][D];
    float w[D9_CELL_GATES][UNITS][D], own_bias[D9_CELL_GATES] = {}, h = 0, c = 0;
    D9_UNROLL(D9_CELL_GATES)
    for (int g = 0; g < D9_CELL_GATES; g++) {
        for (int r = 0; r < UNITS; r++)
            for (int d = 0; d < D; d++)
                bits[g][r][d] = weight_at(units, size.gates, u, g, p.first + r, d * D9_WARP + p.lane);
        if (p.works && g < size.gates) own_bias[g] = bias[g * units + p.unit];
    }
    D9_UNROLL(D9_CELL_GATES)
    for (int g = 0; g < D9_CELL_GATES; g++)
        for (int r = 0; r < UNITS; r++)
            for (int d = 0; d < D; d++) w[g][r][d] = d9_open_bits(u.store, bits[g][r][d]);
    if (p.works && first.h.data) h = d9_load_one<D9_ANY>(first.h, p.sample * units + p.unit);
    if (p.works && first.c) c = first.c[p.sample * units + p.unit];
    clear_vectors(vectors, 2 * VECTORS);
    D9_BARRIER();
    for (int i = static_cast<int>(threadIdx.x); i < S * units; i += D9_BLOCK) {
        const int64_t sample = static_cast<int64_t>(blockIdx.x) * S + i / units;
        if (first.h.data && sample < s.samples)
            vectors[i / units * DEPTH + i % units] = d9_load_one<D9_ANY>(first.h, sample * units + i % units);
    }
    cluster_input input = input_at(s, p, size.gates, gx, 0);
    D9_CLUSTER_BARRIER();
    D9_UNROLL(1)
    for (int64_t t = 0; t < s.time; t++) {
        const float *now = vectors + (t % 2 ? VECTORS : 0);
        float *next = vectors + (t % 2 ? 0 : VECTORS);
        float own[D9_CELL_GATES], from_x[D9_CELL_GATES], saved[D9_CELL_SAVED] = {};
        D9_UNROLL(D9_CELL_GATES)
        for (int g = 0; g < D9_CELL_GATES; g++) own[g] = multiply<S>(w[g], now, DEPTH, p.lane) + own_bias[g];
        D9_UNROLL(D9_CELL_GATES)
        for (int g = 0; g < D9_CELL_GATES; g++) from_x[g] = d9_open_bits(gx.store, input.bits[g]);
        h = d9_rounded(out.y.store, d9_cell_forward_float(s.cell, from_x, own, h, &c, saved));
        const bool last = t == s.time - 1;
        for (int rank = p.copy; rank < static_cast<int>(gridDim.y) && p.works && !last; rank += p.copies)
            d9_cluster_place(next, static_cast<unsigned>(rank))[p.local * DEPTH + p.unit] = h;
        if (!last) D9_CLUSTER_ARRIVE();
        const int64_t row = t * s.samples + p.sample;
        if (p.first_copy) d9_store_one<D9_ANY>(out.y, row * units + p.unit, h);
        D9_UNROLL(D9_CELL_SAVED)
        for (int i = 0; i < D9_CELL_SAVED; i++)
            if (p.first_copy && out.saved && i < size.saved)
                out.saved[row * size.saved * units + (i * units + p.unit)] = saved[i];
        input = input_at(s, p, size.gates, gx, t + 1);
        if (!last) D9_CLUSTER_WAIT();
    }
    if (p.first_copy && out.last_h.data) d9_store_one<D9_ANY>(out.last_h, p.sample * units + p.unit, h);
    if (p.first_copy && out.last_c) out.last_c[p.sample * units + p.unit] = c;
}

/* ---- backward ---- */

struct cluster_step { /* values of the lane's unit in a step; dy and `before` (the previous h) in their storage types */
    uint32_t dy, before;
    float c_before, saved[D9_CELL_SAVED];
};
D9_DEVICE cluster_step kept_at(const d9_cuda_recur &s, const lane_place &p, const d9_cuda_recur_kept &kept,
                               d9_kernel_in dy, int64_t t) {
    const int count = d9_cell_counts_of(s.cell).saved, units = static_cast<int>(s.units);
    const int64_t row = t * s.samples + p.sample, row_before = row - s.samples, state = p.sample * units + p.unit;
    cluster_step r = {};
    if (!p.works || t < 0) return r;
    r.dy = d9_fetch_bits(dy, row * units + p.unit);
    if (t > 0) {
        r.before = d9_fetch_bits(kept.y, row_before * units + p.unit);
        r.c_before = kept.saved[row_before * count * units + ((count - 1) * units + p.unit)]; /* c, if any */
    } else {
        r.before = kept.first.h.data ? d9_fetch_bits(kept.first.h, state) : 0;
        r.c_before = kept.first.c ? kept.first.c[state] : 0.0f;
    }
    D9_UNROLL(D9_CELL_SAVED)
    for (int i = 0; i < D9_CELL_SAVED; i++)
        if (i < count) r.saved[i] = kept.saved[row * count * units + (i * units + p.unit)];
    return r;
}

/* A vector has D * 32 elements for each gate. */
template <int D, int S>
__global__ void __launch_bounds__(D9_BLOCK, 1)
    recur_cluster_backward_kernel(d9_cuda_recur s, d9_kernel_in dy, d9_cuda_recur_kept kept, d9_kernel_in u,
                                  float *all_da, float *all_before, d9_kernel_out dgx) {
    if (!D9_HAS_CLUSTERS) return; /* never launched */
    enum { GATE = D * D9_WARP, DEPTH = D9_CELL_GATES * GATE, VECTORS = S * DEPTH };
    D9_SHARED(float, vectors, 2 * VECTORS);
    const int gates = d9_cell_counts_of(s.cell).gates, units = static_cast<int>(s.units);
    const lane_place p = place_of<S>(s);
    uint32_t bits[UNITS][D9_CELL_GATES * D];
    float w[UNITS][D9_CELL_GATES * D], dh = 0, dc = 0;
    D9_UNROLL(D9_CELL_GATES)
    for (int g = 0; g < D9_CELL_GATES; g++)
        for (int d = 0; d < D; d++)
            for (int r = 0; r < UNITS; r++)
                bits[r][g * D + d] = weight_at(units, gates, u, g, d * D9_WARP + p.lane, p.first + r);
    D9_UNROLL(D9_CELL_GATES)
    for (int g = 0; g < D9_CELL_GATES; g++)
        for (int d = 0; d < D; d++)
            for (int r = 0; r < UNITS; r++) w[r][g * D + d] = d9_open_bits(u.store, bits[r][g * D + d]);
    cluster_step now = kept_at(s, p, kept, dy, s.time - 1);
    clear_vectors(vectors, 2 * VECTORS);
    D9_CLUSTER_BARRIER();
    D9_UNROLL(1)
    for (int64_t t = s.time - 1; t >= 0; t--) {
        float *const next = vectors + (t % 2 ? VECTORS : 0);
        float dgates[D9_CELL_GATES] = {}, own[D9_CELL_GATES] = {};
        const float dy_now = d9_open_bits(dy.store, now.dy),
                    h_before = d9_open_bits(t > 0 ? kept.y.store : kept.first.h.store, now.before);
        dh = d9_cell_backward_float(s.cell, dh + dy_now, now.saved, h_before, now.c_before, &dc, dgates, own);
        for (int rank = p.copy; rank < static_cast<int>(gridDim.y) && p.works && t > 0; rank += p.copies) {
            float *there = d9_cluster_place(next, static_cast<unsigned>(rank)) + p.local * DEPTH + p.unit;
            D9_UNROLL(D9_CELL_GATES)
            for (int g = 0; g < D9_CELL_GATES; g++)
                if (g < gates) there[g * GATE] = own[g];
        }
        if (t > 0) D9_CLUSTER_ARRIVE();
        const int64_t row = t * s.samples + p.sample;
        if (p.first_copy) all_before[row * units + p.unit] = h_before;
        D9_UNROLL(D9_CELL_GATES)
        for (int g = 0; g < D9_CELL_GATES; g++) {
            const int64_t at = row * gates * units + (g * units + p.unit);
            if (p.first_copy && g < gates) all_da[at] = own[g];
            if (p.first_copy && g < gates && dgx.data) d9_store_one<D9_ANY>(dgx, at, dgates[g]);
        }
        if (t == 0) return;
        now = kept_at(s, p, kept, dy, t - 1);
        D9_CLUSTER_WAIT();
        dh += multiply<S>(w, next, DEPTH, p.lane);
    }
}

/* ---- launchers ---- */

enum { FEWEST_UNITS = 65, MOST_UNITS = D9_CLUSTER_BLOCKS * MOST_OWN, MOST_SAMPLES = 4 };

/* Returns CALL(D, S) with the smallest D of 4, 7 and 8 for which D * 32 columns hold the units, and S = samples. */
#define FOR_SAMPLES(CALL, d, samples) return (samples) == 1 ? CALL(d, 1) : (samples) == 2 ? CALL(d, 2) : CALL(d, 4)
#define FOR_SIZE(CALL, units, samples)                                                                                 \
    do {                                                                                                               \
        if ((units) <= 4 * D9_WARP) FOR_SAMPLES(CALL, 4, samples);                                                     \
        if ((units) <= 7 * D9_WARP) FOR_SAMPLES(CALL, 7, samples);                                                     \
        FOR_SAMPLES(CALL, 8, samples);                                                                                 \
    } while (0)

bool d9_recur_cluster_plan(const d9_cuda_recur *shape, d9_recur_clusters *plan) {
    d9_limits limits;
    plan->blocks = shape->units > D9_CLUSTER_BLOCKS / 2 * MOST_OWN ? D9_CLUSTER_BLOCKS : D9_CLUSTER_BLOCKS / 2;
    plan->samples = 1;
    if (shape->units < FEWEST_UNITS || shape->units > MOST_UNITS) return false;
    if (d9_device_limits(recur_cluster_backward_kernel<8, 4>, &limits) || limits.cluster_blocks < D9_CLUSTER_BLOCKS)
        return false;
    const int clusters = d9_device_clusters(recur_cluster_backward_kernel<8, 4>, D9_BLOCK,
                                            static_cast<unsigned>(plan->blocks), 0, limits);
    while (plan->samples < MOST_SAMPLES && d9_parts_of(shape->samples, plan->samples) > clusters) plan->samples *= 2;
    return clusters > 0;
}

static dim3 grid_of(const d9_cuda_recur *shape, const d9_recur_clusters &plan) {
    return dim3(static_cast<unsigned>(d9_parts_of(shape->samples, plan.samples)), static_cast<unsigned>(plan.blocks));
}

int d9_recur_cluster_forward(d9_cuda_stream stream, const d9_cuda_recur *shape, const d9_recur_clusters &plan,
                             d9_kernel_in gx, d9_kernel_in u, const float *bias, const d9_cuda_recur_state *first,
                             const d9_cuda_recur_result *out) {
    const dim3 grid = grid_of(shape, plan);
    const unsigned blocks = grid.y;
#define FORWARD(d, n)                                                                                                  \
    D9_LAUNCH_CLUSTER((recur_cluster_kernel<d, n>), grid, D9_BLOCK, blocks, 0, stream, *shape, gx, u, bias, *first,    \
                      *out)
    FOR_SIZE(FORWARD, shape->units, plan.samples);
}

int d9_recur_cluster_backward(d9_cuda_stream stream, const d9_cuda_recur *shape, const d9_recur_clusters &plan,
                              d9_kernel_in dy, const d9_cuda_recur_kept *kept, d9_kernel_in u, float *da, float *before,
                              d9_kernel_out dgx) {
    const dim3 grid = grid_of(shape, plan);
    const unsigned blocks = grid.y;
#define BACKWARD(d, n)                                                                                                 \
    D9_LAUNCH_CLUSTER((recur_cluster_backward_kernel<d, n>), grid, D9_BLOCK, blocks, 0, stream, *shape, dy, *kept, u,  \
                      da, before, dgx)
    FOR_SIZE(BACKWARD, shape->units, plan.samples);
}
