/* Memory that the processes of one host share. Each process makes its own area as a file without a name (memfd); at the
 * first sum the others map it through /proc, which needs neither room in /dev/shm nor a further permission. */
#ifndef D9_PARALLEL_MPI_SHARED_H
#define D9_PARALLEL_MPI_SHARED_H

#include "parallel/parallel.h"

typedef struct d9_shared d9_shared; /* a list of areas; NULL: empty */

/* Adds an area of zeroed memory to the list. Where none can be shared it is ordinary memory. */
D9_MUST_USE d9_status d9_shared_allocate(d9_context *context, d9_shared **list, int64_t bytes, const char *purpose,
                                         void **memory);
/* Frees an area, of which the other processes keep their mappings. False: `memory` is none. */
bool d9_shared_release(d9_context *context, d9_shared **list, void *memory);
/* Sets *parts to where all processes (ranks) have the `bytes` that this one has at `values`; NULL: this process cannot
 * reach all of them, or they are in no area. Collective: the first call for an area maps those of the others. */
D9_MUST_USE d9_status d9_shared_find(d9_context *context, d9_parallel *parallel, d9_shared *list, const void *values,
                                     int64_t bytes, uint8_t *const **parts);

#endif
