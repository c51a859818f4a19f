/* Recurrent layers by clusters of blocks (recur_cluster.cu), for the launchers in recur.cu. */
#pragma once

#include "kernels/cuda/kernels.h"

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
