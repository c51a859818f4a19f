/* Recurrent layers: kernels.h has the contract, kernels/formulas/cells.h the equations.
 *
 * In layers that recur_cluster.cu does not compute, a block computes one sample over all steps, so that no step waits
 * for another block. Each step multiplies the state by the weights U, which all blocks read from the L1 and L2 caches:
 * 117 KiB of f32 for 100 units of GRU. */
#include "kernels/cuda/cluster.h"
#include "kernels/cuda/recur_cluster.h"
#include "kernels/cuda/vector.h" /* sets D9_REAL to float */
#include "kernels/formulas/cells.h"

/* Units, rows and elements of U are counted in int, which needs fewer registers; d9_cuda_recur_fits limits their
 * number. */
enum {
    LANES = 8,                    /* threads that multiply one unit's rows of U with the state */
    TEAMS = D9_BLOCK / LANES,     /* groups of LANES threads in a block, each with its own unit */
    MOST_LINES = 8,               /* most lines of threads in a block of recur_backward_kernel */
    MOST_SHARED_BYTES = 48 * 1024 /* of a block, on every device */
};

/* Gate inputs gx of a unit in their storage type; zeros past the last unit. */
struct recur_gates {
    uint32_t bits[D9_CELL_GATES];
};
D9_DEVICE recur_gates gates_at(int units, int gates, d9_kernel_in gx, int64_t row, int k) {
    recur_gates r = {};
    D9_UNROLL(D9_CELL_GATES)
    for (int g = 0; g < D9_CELL_GATES; g++)
        if (g < gates && k < units) r.bits[g] = d9_fetch_bits(gx, row * gates * units + (g * units + k));
    return r;
}

/* a (gates * H) = U h + b, h and a in shared memory. A team takes a unit's row of each gate. */
template <int V>
D9_DEVICE void multiply_state(int units, int gates, d9_kernel_in u, const float *bias, const float *h, float *a) {
    const int lane = static_cast<int>(threadIdx.x) % LANES, team = static_cast<int>(threadIdx.x) / LANES;
    for (int from = 0; from < units; from += TEAMS) { /* equally often in all lanes of a warp, which shuffle */
        const int k = from + team;
        float sum[D9_CELL_GATES] = {};
        for (int i = lane * V; i < units && k < units; i += LANES * V) {
            const d9_vector<V> state = d9_load_floats<V>(h, i, V);
            D9_UNROLL(D9_CELL_GATES)
            for (int g = 0; g < D9_CELL_GATES; g++) {
                if (g >= gates) continue;
                const d9_vector<V> w = d9_load<V, D9_ANY>(u, (g * units + k) * units + i, V);
                for (int v = 0; v < V; v++) sum[g] += w.v[v] * state.v[v];
            }
        }
        D9_UNROLL(D9_CELL_GATES)
        for (int g = 0; g < D9_CELL_GATES; g++) {
            for (int offset = LANES / 2; offset > 0; offset /= 2)
                sum[g] += __shfl_xor_sync(0xffffffffu, sum[g], offset);
            if (lane == 0 && g < gates && k < units) a[g * units + k] = sum[g] + bias[g * units + k];
        }
    }
}

template <int V>
__global__ void __launch_bounds__(D9_BLOCK, 2)
    recur_kernel(d9_cuda_recur s, d9_kernel_in gx, d9_kernel_in u, const float *bias, d9_cuda_recur_state first,
                 d9_cuda_recur_result out) {
    D9_DYNAMIC_SHARED(memory);
    const d9_cell_counts size = d9_cell_counts_of(s.cell);
    const int64_t n = blockIdx.x;
    const int units = static_cast<int>(s.units), thread = static_cast<int>(threadIdx.x);
    float *h = reinterpret_cast<float *>(memory), *c = h + units, *a = c + units;
    for (int k = thread; k < units; k += D9_BLOCK) {
        h[k] = first.h.data ? d9_load_one<D9_ANY>(first.h, n * units + k) : 0.0f;
        c[k] = first.c ? first.c[n * units + k] : 0.0f;
    }
    for (int64_t t = 0; t < s.time; t++) {
        const int64_t row = t * s.samples + n;
        recur_gates input = gates_at(units, size.gates, gx, row, thread); /* arrives during the product */
        D9_BARRIER();                                                     /* h of the step before is complete */
        multiply_state<V>(units, size.gates, u, bias, h, a);
        D9_BARRIER(); /* a is complete, and h has been read */
        for (int k = thread; k < D9_END(units); k += D9_BLOCK) {
            if (k >= D9_BLOCK) input = gates_at(units, size.gates, gx, row, k);
            float own[D9_CELL_GATES] = {}, from_x[D9_CELL_GATES], saved[D9_CELL_SAVED] = {};
            D9_UNROLL(D9_CELL_GATES)
            for (int g = 0; g < D9_CELL_GATES; g++) {
                from_x[g] = d9_open_bits(gx.store, input.bits[g]);
                if (g < size.gates) own[g] = a[g * units + k];
            }
            float memory_cell = c[k];
            h[k] = d9_rounded(out.y.store, d9_cell_forward_float(s.cell, from_x, own, h[k], &memory_cell, saved));
            c[k] = memory_cell;
            d9_store_one<D9_ANY>(out.y, row * units + k, h[k]);
            D9_UNROLL(D9_CELL_SAVED)
            for (int i = 0; i < D9_CELL_SAVED; i++)
                if (out.saved && i < size.saved) out.saved[row * size.saved * units + (i * units + k)] = saved[i];
        }
    }
    for (int k = thread; k < units; k += D9_BLOCK) { /* each thread reads the units that it wrote */
        if (out.last_h.data) d9_store_one<D9_ANY>(out.last_h, n * units + k, h[k]);
        if (out.last_c) out.last_c[n * units + k] = c[k];
    }
}

/* ---- backward ---- */

/* Values of a unit and step that the backward pass reads, besides U; dy and `before`, the previous h, are in their
 * storage types. */
struct recur_step {
    uint32_t dy, before;
    float c_before, saved[D9_CELL_SAVED];
};
D9_DEVICE recur_step step_at(const d9_cuda_recur &s, const d9_cuda_recur_kept &kept, d9_kernel_in dy, int64_t t,
                             int k) {
    const int count = d9_cell_counts_of(s.cell).saved, units = static_cast<int>(s.units);
    const int64_t n = blockIdx.x, row = t * s.samples + n, row_before = row - s.samples;
    recur_step r = {};
    if (k >= units || t < 0) return r;
    r.dy = d9_fetch_bits(dy, row * units + k);
    if (t > 0) {
        r.before = d9_fetch_bits(kept.y, row_before * units + k);
        /* c of cells with memory; others ignore it */
        r.c_before = kept.saved[row_before * count * units + ((count - 1) * units + k)];
    } else {
        r.before = kept.first.h.data ? d9_fetch_bits(kept.first.h, n * units + k) : 0;
        r.c_before = kept.first.c ? kept.first.c[n * units + k] : 0.0f;
    }
    D9_UNROLL(D9_CELL_SAVED)
    for (int i = 0; i < D9_CELL_SAVED; i++)
        if (i < count) r.saved[i] = kept.saved[row * count * units + (i * units + k)];
    return r;
}

/* part (lines, H): each line's share of da U, over the rows line, line + lines, ... of U. */
template <int V>
D9_DEVICE void multiply_gradient(int rows, int units, int lines, d9_kernel_in u, const float *da, float *part) {
    const int width = D9_BLOCK / lines, line = static_cast<int>(threadIdx.x) / width,
              column = static_cast<int>(threadIdx.x) % width;
    for (int i = column * V; i < units; i += width * V) {
        d9_vector<V> sum = {};
        D9_UNROLL(4)
        for (int j = line; j < rows; j += lines) {
            const d9_vector<V> w = d9_load<V, D9_ANY>(u, j * units + i, V);
            for (int v = 0; v < V; v++) sum.v[v] += da[j] * w.v[v];
        }
        for (int v = 0; v < V; v++) part[line * units + i + v] = sum.v[v];
    }
}

/* Writes dgx and, for the products after this kernel, all_da (T, N, gates * H) and all_before (T, N, H), the h before
 * each step. */
template <int V>
__global__ void __launch_bounds__(D9_BLOCK, 2)
    recur_backward_kernel(d9_cuda_recur s, int lines, d9_kernel_in dy, d9_cuda_recur_kept kept, d9_kernel_in u,
                          float *all_da, float *all_before, d9_kernel_out dgx) {
    D9_DYNAMIC_SHARED(memory);
    const int gates = d9_cell_counts_of(s.cell).gates, units = static_cast<int>(s.units),
              thread = static_cast<int>(threadIdx.x);
    const int64_t n = blockIdx.x;
    float *dh = reinterpret_cast<float *>(memory), *dc = dh + units, *da = dc + units, *part = da + gates * units;
    for (int k = thread; k < units; k += D9_BLOCK) {
        dh[k] = dc[k] = 0;
        for (int line = 0; line < lines; line++) part[line * units + k] = 0;
    }
    recur_step first = step_at(s, kept, dy, s.time - 1, thread);
    for (int64_t t = s.time - 1; t >= 0; t--) {
        const int64_t row = t * s.samples + n;
        for (int k = thread; k < D9_END(units); k += D9_BLOCK) {
            const recur_step now = k < D9_BLOCK ? first : step_at(s, kept, dy, t, k);
            float dgates[D9_CELL_GATES] = {}, own[D9_CELL_GATES] = {}, d = dh[k], dmemory = dc[k];
            for (int line = 0; line < lines; line++) d += part[line * units + k];
            const float dy_now = d9_open_bits(dy.store, now.dy),
                        h_before = d9_open_bits(t > 0 ? kept.y.store : kept.first.h.store, now.before);
            dh[k] =
                d9_cell_backward_float(s.cell, d + dy_now, now.saved, h_before, now.c_before, &dmemory, dgates, own);
            dc[k] = dmemory;
            all_before[row * units + k] = h_before;
            D9_UNROLL(D9_CELL_GATES)
            for (int g = 0; g < D9_CELL_GATES; g++) {
                if (g >= gates) continue;
                const int64_t at = row * gates * units + (g * units + k);
                da[g * units + k] = all_da[at] = own[g];
                if (dgx.data) d9_store_one<D9_ANY>(dgx, at, dgates[g]);
            }
        }
        if (t == 0) return;
        first = step_at(s, kept, dy, t - 1, thread); /* arrives during the product */
        D9_BARRIER();                                /* da is complete, and `part` has been read */
        multiply_gradient<V>(gates * units, units, lines, u, da, part);
        D9_BARRIER(); /* `part` is complete, and da has been read */
    }
}

/* x (count) -> dx (time * count): x at the last step, 0 at the others. */
template <int V>
__global__ void __launch_bounds__(D9_BLOCK)
    last_backward_kernel(d9_kernel_in x, int64_t time, int64_t count, d9_kernel_out dx) {
    const int64_t last = (time - 1) * count;
    D9_FOR_RUNS(time * count) {
        d9_vector<V> t = {};
        if (at >= last) t = d9_load<V, D9_ANY>(x, at - last, V);
        d9_store_run<V, D9_ANY>(dx, at, V, t);
    }
}

/* ---- launchers ---- */

/* Bytes of `floats` floats, rounded up to a multiple of 256. */
static int64_t padded_bytes(int64_t floats) {
    return d9_parts_of(floats, 64) * 64 * static_cast<int64_t>(sizeof(float));
}
static bool is_empty(const d9_cuda_recur *s) { return s->time <= 0 || s->samples <= 0 || s->units <= 0; }
static int64_t gates_of(const d9_cuda_recur *s) { return d9_cell_counts_of(s->cell).gates * s->units; }

/* True if rows of U can be read four elements at a time. */
static bool can_read_fours(const d9_cuda_recur *s, d9_kernel_in u) {
    return s->units % D9_FOUR == 0 && d9_aligned(u.data);
}

/* Number of lines of threads among which the rows of U are divided: at most MOST_LINES, and so few that each line has
 * enough threads for all columns, but at least 1. `run`: columns of a thread. */
static int lines_of(const d9_cuda_recur *s, int run) {
    int lines = MOST_LINES;
    while (lines > 1 && D9_BLOCK / lines * run < s->units) lines /= 2;
    return lines;
}

static int64_t forward_bytes(const d9_cuda_recur *s) {
    return (2 * s->units + gates_of(s)) * static_cast<int64_t>(sizeof(float));
}
static int64_t backward_bytes(const d9_cuda_recur *s, int lines) {
    return forward_bytes(s) + lines * s->units * static_cast<int64_t>(sizeof(float));
}

bool d9_cuda_recur_fits(const d9_cuda_recur *s) { return backward_bytes(s, lines_of(s, 1)) <= MOST_SHARED_BYTES; }

int d9_cuda_recur_forward(d9_cuda_stream stream, const d9_cuda_recur *shape, d9_kernel_in gx, d9_kernel_in u,
                          const float *bias, const d9_cuda_recur_state *first, const d9_cuda_recur_result *out) {
    const unsigned blocks = static_cast<unsigned>(shape->samples);
    const int64_t bytes = forward_bytes(shape);
    if (is_empty(shape)) return 0;
    d9_recur_clusters clusters;
    if (d9_recur_cluster_plan(shape, &clusters))
        return d9_recur_cluster_forward(stream, shape, clusters, gx, u, bias, first, out);
    if (can_read_fours(shape, u))
        return D9_LAUNCH_CLUSTER(recur_kernel<D9_FOUR>, blocks, D9_BLOCK, 1, bytes, stream, *shape, gx, u, bias, *first,
                                 *out);
    return D9_LAUNCH_CLUSTER(recur_kernel<1>, blocks, D9_BLOCK, 1, bytes, stream, *shape, gx, u, bias, *first, *out);
}

int64_t d9_cuda_recur_scratch_bytes(const d9_cuda_recur *s) {
    const int64_t rows = s->time * s->samples;
    return padded_bytes(rows * gates_of(s)) + padded_bytes(rows * s->units) +
           d9_cuda_bias_scratch_bytes(rows, gates_of(s));
}

void d9_cuda_recur_product_operands(const d9_cuda_recur *shape, void *scratch, float **da, float **before) {
    *da = static_cast<float *>(scratch);
    *before = reinterpret_cast<float *>(static_cast<char *>(scratch) +
                                        padded_bytes(shape->time * shape->samples * gates_of(shape)));
}

int d9_cuda_recur_backward(d9_cuda_stream stream, const d9_cuda_recur *shape, d9_kernel_in dy,
                           const d9_cuda_recur_kept *kept, d9_kernel_in u, void *scratch, d9_kernel_out dgx, float *du,
                           float *dbias) {
    const d9_cuda_recur s = *shape;
    const unsigned blocks = static_cast<unsigned>(s.samples);
    const int64_t rows = s.time * s.samples, gates = gates_of(shape);
    const bool fours = can_read_fours(shape, u);
    const int lines = lines_of(shape, fours ? D9_FOUR : 1);
    const int64_t bytes = backward_bytes(shape, lines);
    float *da, *before;
    d9_cuda_recur_product_operands(shape, scratch, &da, &before);
    if (is_empty(shape)) return 0;
    d9_recur_clusters clusters;
    if (d9_recur_cluster_plan(shape, &clusters))
        D9_CUDA_TRY(d9_recur_cluster_backward(stream, shape, clusters, dy, kept, u, da, before, dgx));
    else if (fours)
        D9_CUDA_TRY(D9_LAUNCH_CLUSTER(recur_backward_kernel<D9_FOUR>, blocks, D9_BLOCK, 1, bytes, stream, s, lines, dy,
                                      *kept, u, da, before, dgx));
    else
        D9_CUDA_TRY(D9_LAUNCH_CLUSTER(recur_backward_kernel<1>, blocks, D9_BLOCK, 1, bytes, stream, s, lines, dy, *kept,
                                      u, da, before, dgx));
    const d9_kernel_linear product = {rows, s.units, gates};
    const d9_kernel_in all_da = {da, D9_KERNEL_F32}, all_before = {before, D9_KERNEL_F32};
    const d9_cuda_prologue nothing = {
        {D9_KERNEL_NO_ACT, 0}, all_da, {NULL, D9_KERNEL_F32}, {NULL, D9_KERNEL_F32}, NULL};
    if (du)
        D9_CUDA_TRY(
            d9_cuda_linear_backward_weight(stream, &product, all_da, all_before, d9_kernel_out{du, D9_KERNEL_F32}));
    if (!dbias) return 0;
    return d9_cuda_bias_backward(stream, all_da, &nothing, rows, gates,
                                 reinterpret_cast<char *>(before) + padded_bytes(rows * s.units), dbias);
}

int d9_cuda_last_backward(d9_cuda_stream stream, d9_kernel_in x, int64_t time, int64_t count, d9_kernel_out dx) {
    const bool aligned = count % D9_WIDE == 0 && d9_aligned(x.data) && d9_aligned(dx.data);
    return D9_LAUNCH_RUNS(last_backward_kernel, aligned, x.store != D9_KERNEL_F32 && dx.store != D9_KERNEL_F32,
                          time * count, stream, x, time, count, dx);
}
