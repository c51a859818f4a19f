/* The CUDA execution model on the CPU, as the tests see it (C); what a kernel sees is cuda_model.h.
 *
 * A launch runs block after block, and the blocks of a cluster together. Their threads are fibers: each runs until it
 * ends or waits at a barrier or in a warp's exchange, which completes when all have come. A warp runs as far as it can
 * before the next one does. In which order warps (of all blocks of a cluster) and lanes run changes from cluster to
 * cluster (ascending, descending, a shuffle), the same in every run of the program. Shared memory is new for each block
 * and starts as 0xff bytes: NaN.
 *
 * A launch fails, with cudaErrorLaunchFailure and a message, where threads wait that nothing can wake, where they wait
 * at different barriers, where a barrier or an exchange misses threads that have ended, where a lane is read that takes
 * no part, and where the shared memory of another block is read that has ended. Sizes no GPU takes:
 * cudaErrorInvalidConfiguration. */
#ifndef D9_TESTS_CUDA_MODEL_H
#define D9_TESTS_CUDA_MODEL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { D9_MODEL_INVALID_CONFIGURATION = 9, D9_MODEL_LAUNCH_FAILURE = 719 }; /* cudaError_t's numbers */

const char *d9_model_failure(void);   /* of the last launch that failed; "": none since d9_model_test */
void d9_model_test(const char *name); /* launches from here on count for this test; forgets the failure */

/* One row per kernel that has run and test that ran it. NULL: past the end. */
const char *d9_model_kernel_at(size_t index, const char **test);

/* One row per barrier that threads have waited at, as FILE:LINE, and test in which they did; barriers in order. NULL:
 * past the end. */
const char *d9_model_barrier_at(size_t index, const char **test);
void d9_model_drop_barrier(const char *site); /* from here on nobody waits there; NULL: all barriers hold */

#ifdef __cplusplus
}
#endif

#endif
