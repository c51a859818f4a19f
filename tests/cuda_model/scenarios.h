/* Small kernels that the simulated GPU must run correctly, or reject. Functions return the launch's error unless their
 * comment says otherwise. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { D9_SCENARIO_THREADS = 96, D9_SCENARIO_BLOCKS = 6 };

/* out (threads): `in` reversed through shared memory, three times. */
int d9_scenario_reverse(const int *in, int *out);
/* exchanged[t] = in[t ^ 5]; shifted: the next lane's value, for the last lane its own. */
int d9_scenario_shuffles(const int *in, int *exchanged, int *shifted);
/* ballots (3): a bit per lane whose value is odd. */
int d9_scenario_ballot(const int *in, unsigned *ballots);
/* order (3 x threads): the order in which the threads of three blocks ran. */
int d9_scenario_orders(int *order);
/* shared (1): uninitialised shared memory, as the later of two blocks reads it. */
int d9_scenario_poison(unsigned *shared);
/* out (2 clusters x 4 blocks x threads): values from the shared memory of the cluster's next block. */
int d9_scenario_neighbours(int *out);
/* place (3): addresses of D9_SHARED arrays of 1, 5 and 64 bytes, modulo 32. */
int d9_scenario_alignment(unsigned *place);
/* trace (2 x blocks): the indices of the blocks, in the order in which they start and pass their barrier. *count: 0
 * before, the number of entries after. */
int d9_scenario_trace(unsigned *count, int *trace);
/* A launch with 6160 bytes of static shared memory and `dynamic_bytes` of dynamic. */
int d9_scenario_launch_with_shared(int64_t dynamic_bytes);
/* Returns d9_shared_limit_to_set (kernels/cuda/cluster.h), in KiB. */
int d9_scenario_shared_limit_to_set(int static_kib, int dynamic_kib, int limit_kib, int most_kib);
int d9_scenario_places(int *seen); /* seen (2 * 3 * 4 * 5): 1 for each thread of a grid (2, 3) of blocks (4, 5) */

typedef struct d9_scenario {
    const char *name; /* NULL: end of the table */
    int (*run)(void);
    const char *begin, *reason; /* the beginning of the failure's message, and a part of it; NULL: any */
} d9_scenario;
/* Kernels that must be rejected: as failed launches; by the limits of a grid; by the limits of shared memory. */
extern const d9_scenario d9_scenario_mistakes[], d9_scenario_illegal_grids[], d9_scenario_large_arrays[];
/* Kernels whose threads are ordered, and kernels with a race, for the race check. */
extern const d9_scenario d9_scenario_ordered[], d9_scenario_races[];

#ifdef __cplusplus
}
#endif
