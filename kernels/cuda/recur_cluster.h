/* Recurrent layers by clusters of blocks (recur_cluster.cu), for the launchers in recur.cu; and the loads that the
 * kernels of both files have in common. */
#pragma once

#include "kernels/cuda/vector.h" /* sets D9_REAL to float */
#include "kernels/formulas/cells.h"

/* Gate inputs gx of a unit in their storage type. */
struct d9_recur_gates {
    uint32_t bits[D9_CELL_GATES];
};
/* row: step * samples + sample. Zeros unless the unit and the row `exist`. */
D9_DEVICE d9_recur_gates d9_recur_gates_at(bool exist, int units, int gates, d9_kernel_in gx, int64_t row, int unit) {
    d9_recur_gates r = {};
    D9_UNROLL(D9_CELL_GATES)
    for (int g = 0; g < D9_CELL_GATES; g++)
        if (exist && g < gates) r.bits[g] = d9_fetch_bits(gx, row * gates * units + (g * units + unit));
    return r;
}

/* Values of a unit and step that the backward pass reads, besides U; dy and `before`, the previous h, are in their
 * storage types. */
struct d9_recur_step {
    uint32_t dy, before;
    float c_before, saved[D9_CELL_SAVED];
};
/* Zeros for t < 0 and unless the unit and the sample n `exist`. */
D9_DEVICE d9_recur_step d9_recur_step_at(bool exist, const d9_cuda_recur &s, const d9_cuda_recur_kept &kept,
                                         d9_kernel_in dy, int64_t t, int64_t n, int unit) {
    const int count = d9_cell_size_of(s.cell).saved, units = static_cast<int>(s.units);
    const int64_t row = t * s.samples + n, row_before = row - s.samples, state = n * units + unit;
    d9_recur_step r = {};
    if (!exist || t < 0) return r;
    r.dy = d9_fetch_bits(dy, row * units + unit);
    if (t > 0) {
        r.before = d9_fetch_bits(kept.y, row_before * units + unit);
        /* c of cells with memory; others ignore it */
        r.c_before = kept.saved[row_before * count * units + ((count - 1) * units + unit)];
    } else {
        r.before = kept.first.h.data ? d9_fetch_bits(kept.first.h, state) : 0;
        r.c_before = kept.first.c ? kept.first.c[state] : 0.0f;
    }
    D9_UNROLL(D9_CELL_SAVED)
    for (int i = 0; i < D9_CELL_SAVED; i++)
        if (i < count) r.saved[i] = kept.saved[row * count * units + (i * units + unit)];
    return r;
}

struct d9_recur_clusters {
    int blocks, samples; /* of a cluster */
};
/* Plans clusters of 4 blocks, or of 8 if 4 cannot hold all units. A cluster gets the fewest samples (1, 2 or 4) for
 * which all clusters run at the same time, or 4 if none is enough. Returns false with fewer than 65 or more than 256
 * units, if the device has no clusters of eight blocks, or if it cannot run these clusters. */
bool d9_recur_cluster_plan(const d9_cuda_recur *shape, d9_recur_clusters *plan);
int d9_recur_cluster_forward(d9_cuda_stream stream, const d9_cuda_recur *shape, const d9_recur_clusters &plan,
                             d9_kernel_in gx, d9_kernel_in u, const float *bias, const d9_cuda_recur_state *first,
                             const d9_cuda_recur_result *out);
/* Writes da, before and dgx (d9_cuda_recur_backward), in place of recur_backward_kernel. */
int d9_recur_cluster_backward(d9_cuda_stream stream, const d9_cuda_recur *shape, const d9_recur_clusters &plan,
                              d9_kernel_in dy, const d9_cuda_recur_kept *kept, d9_kernel_in u, float *da, float *before,
                              d9_kernel_out dgx);
