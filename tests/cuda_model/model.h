/* The CUDA execution model on the CPU, as the tests see it (C); what a kernel sees is cuda_model.h.
 *
 * A launch runs its clusters (most are of one block) in random order, three of them at a time. Their threads are
 * fibers: each runs until it ends or waits: at a barrier, in a warp's exchange, which completes when all have come, or
 * for others to go first, at atomics and fences. A warp runs as far as it can, then one of the clusters under way is
 * drawn for the next warp. In which order the warps of a cluster and their lanes run changes from cluster to cluster
 * (ascending, descending, a shuffle). All of this is the same in every run of the program, and another under another
 * seed. Shared memory is new for each block and starts as 0xff bytes: NaN.
 *
 * A launch fails, with cudaErrorLaunchFailure and a message that begins with the kernel's name,
 *   - where threads wait that nothing can wake, or wait at different barriers; where a barrier or an exchange misses
 *     threads that have ended; where a lane is read that takes no part;
 *   - where the shared memory of another block is read that has ended;
 *   - where an address is not aligned to the type that is read or written there. A D9_SHARED array stands at an odd
 *     multiple of 16, aligned to what it was declared with and never to more;
 *   - where two accesses race (race.h), if the kernels were compiled for that: unit.cuda_races.
 * Sizes no GPU takes: cudaErrorInvalidConfiguration. More shared memory than an H100 gives a block: 48 KiB of D9_SHARED
 * arrays, or 227 KiB with the dynamic part: cudaErrorInvalidValue.
 *
 * Not checked: an array's end (AddressSanitizer does that), registers, what is not executed (an array in a branch that
 * nobody takes counts nothing), how many blocks fit the device at once, bank conflicts, sizes of smaller GPUs. Memory
 * is sequentially consistent here; that a GPU's is not, only the race check knows. */
#ifndef D9_TESTS_CUDA_MODEL_H
#define D9_TESTS_CUDA_MODEL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* cudaError_t's numbers */
enum { D9_MODEL_INVALID_VALUE = 1, D9_MODEL_INVALID_CONFIGURATION = 9, D9_MODEL_LAUNCH_FAILURE = 719 };

const char *d9_model_failure(void);   /* of the last launch that failed; "": none since d9_model_test */
void d9_model_test(const char *name); /* launches from here on count for this test; forgets the failure */

/* One row per kernel that has run and test that ran it. NULL: past the end. */
const char *d9_model_kernel_at(size_t index, const char **test);

/* One row per barrier that threads have waited at, as FILE:LINE, and test in which they did; barriers in order. NULL:
 * past the end. */
const char *d9_model_barrier_at(size_t index, const char **test);
const char *d9_model_fence_at(size_t index, const char **test); /* the same of fences */
void d9_model_drop(const char *site); /* from here on that barrier or fence is not there; NULL: all are */

void d9_model_seed(unsigned seed); /* of the orders in which clusters, warps and lanes run; 0 at first */

#ifdef __cplusplus
}
#endif

#endif
