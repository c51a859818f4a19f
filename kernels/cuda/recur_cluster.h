/* Recurrent layers by clusters of blocks (recur_cluster.cu), for the launchers in recur.cu. */
#ifndef D9_CUDA_RECUR_CLUSTER_H
#define D9_CUDA_RECUR_CLUSTER_H

#include "kernels/cuda/kernels.h"

/* Samples of a cluster: as few as let all clusters run at the same time, at most 4. 0: the layer has too few or too
 * many units, or the device no clusters of eight blocks. */
int d9_recur_cluster_samples(const d9_cuda_recur *shape);
int d9_recur_cluster_forward(d9_cuda_stream stream, const d9_cuda_recur *shape, int samples, d9_kernel_in gx,
                             d9_kernel_in u, const float *bias, const d9_cuda_recur_state *first,
                             const d9_cuda_recur_result *out);
/* Writes da, before and dgx as the first kernel of d9_cuda_recur_backward does. */
int d9_recur_cluster_backward(d9_cuda_stream stream, const d9_cuda_recur *shape, int samples, d9_kernel_in dy,
                              const d9_cuda_recur_kept *kept, d9_kernel_in u, float *da, float *before,
                              d9_kernel_out dgx);

#endif
