/* Small kernels that the execution model must run correctly, or reject. Each function returns the launch's error. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { D9_SCENARIO_THREADS = 96 };

/* out (threads): `in` reversed through shared memory, three times. */
int d9_scenario_reverse(const int *in, int *out);
/* exchanged[t] = in[t ^ 5]; shifted: the next lane's value, for the last lane its own. */
int d9_scenario_shuffles(const int *in, int *exchanged, int *shifted);
/* ballots (3): a bit per lane whose value is odd. */
int d9_scenario_ballot(const int *in, unsigned *ballots);
/* order (3 x threads): the order in which the threads of three blocks ran. */
int d9_scenario_orders(int *order);
/* shared (1): uninitialised shared memory, as the last of two blocks read it. */
int d9_scenario_poison(unsigned *shared);
/* out (2 clusters x 4 blocks x threads): values from the shared memory of the cluster's next block. */
int d9_scenario_neighbours(int *out);
/* place (3): addresses of D9_SHARED arrays of 1, 5 and 64 bytes, modulo 32. */
int d9_scenario_alignment(unsigned *place);
/* trace (2 x blocks): blocks of a grid of D9_SCENARIO_BLOCKS, in the order in which they start and pass their
 * barrier. */
enum { D9_SCENARIO_BLOCKS = 6 };
int d9_scenario_trace(unsigned *count, int *trace);
/* A launch with 6160 bytes of static shared memory and `dynamic_bytes` of dynamic. */
int d9_scenario_shared_bytes(int64_t dynamic_bytes);
/* d9_shared_to_ask (kernels/cuda/cluster.h), in KiB. */
int d9_scenario_shared_to_ask(int static_kib, int dynamic_kib, int limit_kib, int most_kib);
int d9_scenario_places(int *seen); /* seen (2 * 3 * 4 * 5): 1 for each thread of a grid (2, 3) of blocks (4, 5) */

/* Kernels that must be rejected. */
int d9_scenario_divergent(void);     /* half of the block waits at another barrier */
int d9_scenario_left_alone(void);    /* one thread ends before the barrier */
int d9_scenario_deadlock(void);      /* half of a warp exchanges, the other half waits at a barrier */
int d9_scenario_missing_lane(void);  /* a lane ends before an exchange of all lanes */
int d9_scenario_outside_mask(void);  /* a lane reads a lane outside the mask */
int d9_scenario_two_exchanges(void); /* lanes of a warp exchange at different places */
int d9_scenario_too_many_threads(void);
int d9_scenario_ended_block(void);    /* a block ends before the other of the cluster reads its shared memory */
int d9_scenario_mixed_barriers(void); /* half a block waits at a cluster barrier, half at a block barrier */
int d9_scenario_broken_cluster(void); /* a grid of 5 rows in clusters of 4 */
int d9_scenario_static_room(void);    /* two arrays of 24 KiB and one of a byte */
int d9_scenario_plain_array(void);    /* reads 16 bytes of an array declared without alignment */
int d9_scenario_odd_place(void);      /* reads 16 bytes of an aligned array from its second element */
int d9_scenario_odd_store(void);      /* stores 16 bytes at an odd multiple of 8 in global memory */
int d9_scenario_odd_double(void);     /* reads a double at an odd multiple of 4 in dynamic shared memory */

#ifdef __cplusplus
}
#endif
