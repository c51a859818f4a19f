/* Small kernels that the execution model must run rightly, or refuse. Each returns the launch's error. */
#ifndef D9_TESTS_CUDA_SCENARIOS_H
#define D9_TESTS_CUDA_SCENARIOS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { D9_SCENARIO_THREADS = 96 };

/* out (threads): in reversed through shared memory, three times over. */
int d9_scenario_reverse(const int *in, int *out);
/* out[t] = in[t ^ 5]; then the next lane's, the last keeping its own. */
int d9_scenario_shuffles(const int *in, int *exchanged, int *shifted);
/* ballots (3): one bit per lane whose in is odd. */
int d9_scenario_ballot(const int *in, unsigned *ballots);
/* order (3 x threads): in which order the threads of three blocks ran. */
int d9_scenario_orders(int *order);
/* shared (1): what shared memory holds before anyone writes it, in the second block. */
int d9_scenario_poison(unsigned *shared);
/* out (2 clusters x 4 blocks x threads): what the next block of the cluster has in shared memory. */
int d9_scenario_neighbours(int *out);
/* place (3): where D9_SHARED arrays of 1, 5 and 64 bytes stand, as the remainder by 32. */
int d9_scenario_alignment(unsigned *place);
/* trace (2 x blocks): the blocks of a grid of d9_scenario_blocks, as they come to their begin and behind their barrier.
 */
enum { D9_SCENARIO_BLOCKS = 6 };
int d9_scenario_trace(unsigned *count, int *trace);
/* A launch with 6 KiB of static shared memory, and that much of dynamic. */
int d9_scenario_room(int64_t dynamic_bytes);
int d9_scenario_places(int *seen); /* seen (2 * 3 * 4 * 5): 1 for each place of a grid (2, 3) of blocks (4, 5) */

/* What must be refused. */
int d9_scenario_divergent(void);     /* half of the block waits at another barrier */
int d9_scenario_left_alone(void);    /* one thread ends before the barrier */
int d9_scenario_deadlock(void);      /* half of a warp exchanges, the other half waits at a barrier */
int d9_scenario_missing_lane(void);  /* a lane ends before an exchange of all */
int d9_scenario_outside_mask(void);  /* a lane reads one that takes no part */
int d9_scenario_two_exchanges(void); /* the lanes of one warp exchange at different places */
int d9_scenario_too_many_threads(void);
int d9_scenario_ended_block(void);    /* a block ends while others read its shared memory */
int d9_scenario_mixed_barriers(void); /* half of a block waits for the cluster, the other half for the block */
int d9_scenario_broken_cluster(void); /* a grid of 5 rows in clusters of 4 */
int d9_scenario_static_room(void);    /* two arrays of 24 KiB and one of a byte */
int d9_scenario_plain_array(void);    /* an array that was declared without alignment is read 16 bytes wide */
int d9_scenario_odd_place(void);      /* so is an aligned one from its second element on */
int d9_scenario_odd_store(void);      /* 16 bytes to an odd multiple of 8 in global memory */
int d9_scenario_odd_double(void);     /* a double at an odd multiple of 4 in dynamic shared memory */

#ifdef __cplusplus
}
#endif

#endif
