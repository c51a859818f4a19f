/* The simulated GPU (CUDA's execution model on the CPU) as seen by tests, in C; cuda_model.h is the kernels' view.
 *
 * A launch runs its clusters (most consist of one block) in random order, three at a time. Threads are fibers: each
 * runs until it ends or waits at a barrier, in a warp's exchange until all lanes have arrived, or at atomics and fences
 * to let others run first. A warp runs as far as it can; then the next warp of a random running cluster runs. The order
 * of the warps of a cluster and of their lanes changes from cluster to cluster (ascending, descending, shuffled). These
 * orders follow from the seed and the launches so far. Shared memory of each block starts as 0xff bytes: NaN.
 *
 * A launch fails with cudaErrorLaunchFailure and a message that begins with the kernel's name
 *   - if threads wait forever, or at different barriers, or lanes of a warp at different exchanges; if threads have
 *     ended without reaching a barrier or an exchange at which others wait; if a lane reads a lane that does not take
 *     part;
 *   - if a block asks for the address of shared memory of a block that has ended or is not in its cluster;
 *   - if an address is not aligned to the type accessed. A D9_SHARED array lies at an odd multiple of 16, so that it is
 *     not aligned to more than declared;
 *   - if two accesses race, while the race check is on (d9_model_set_race_check).
 * It fails with cudaErrorInvalidConfiguration if the grid, or the cluster on this device, is not allowed; and with
 * cudaErrorInvalidValue if a block has more shared memory than on an H100: 48 KiB of D9_SHARED arrays, or 227 KiB with
 * the dynamic part.
 *
 * Not checked: array bounds (AddressSanitizer checks them), registers, code that is not executed (an array in a branch
 * that is not taken does not count), concurrent blocks per device, bank conflicts, shared memory of smaller GPUs.
 * Memory is sequentially consistent here; only the race check models a GPU's weaker order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Values of cudaError_t. */
enum {
    D9_MODEL_INVALID_VALUE = 1,
    D9_MODEL_INVALID_CONFIGURATION = 9,
    D9_MODEL_LAUNCH_FAILURE = 719,
    D9_MODEL_CAPTURING = 900
};

/* Message of the first launch since d9_model_begin_test that failed with one; "": none. Later launches fail too, and
 * put their kernel's name in front of the message, until d9_model_begin_test. */
const char *d9_model_failure(void);
void d9_model_begin_test(const char *name); /* names the test of the next launches; clears the failure */

/* Row `index` of the list of kernels and tests that ran them: returns the kernel, sets *test. NULL: past the end. */
const char *d9_model_kernel_at(size_t index, const char **test);

/* Likewise for the barriers at which threads waited, as FILE:LINE, and the tests; sorted by barrier. */
const char *d9_model_barrier_at(size_t index, const char **test);
const char *d9_model_fence_at(size_t index, const char **test); /* likewise for fences */
void d9_model_ignore(const char *site); /* ignores the barrier or fence FILE:LINE from now on; NULL: none */

/* Turns the race check (race.h) on or off for later launches; initially off. Kernels must be compiled for it. */
void d9_model_set_race_check(bool on);
bool d9_model_race_check_is_on(void);
void d9_model_seed(unsigned seed); /* seed of the order of clusters, warps and lanes; initially 0 */

/* Limits of the simulated device, on which the algorithms of norms and recurrent layers depend: an H100's, unless a
 * test sets others. */
typedef struct d9_model_device {
    long shared_bytes;  /* limit per block, including static arrays; a multiprocessor has 1 KiB more */
    int cluster_blocks; /* maximum cluster size; 1: no clusters */
    int multiprocessors;
    int rejects; /* clusters of this many or more blocks never run, as on a small MIG partition; 0: all run */
} d9_model_device;

void d9_model_set_device(const d9_model_device *device); /* NULL: an H100 again */

#ifdef __cplusplus
}
#endif
