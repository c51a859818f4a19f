/* Memory that the processes of one host share. Each process makes its own area as a file without a name (memfd). At the
 * first all-reduce the other processes map it through /proc, which needs neither space in /dev/shm nor extra
 * permissions. */
#pragma once

#include "parallel/parallel.h"

typedef struct d9_shared_area d9_shared_area; /* a list of areas; NULL: empty */

/* Adds an area of zeroed memory to the list and sets *memory to its start. If memfd or mmap fails, the area is ordinary
 * memory, which is not shared. */
D9_MUST_USE d9_status d9_shared_allocate(d9_context *context, d9_shared_area **list, int64_t bytes, const char *purpose,
                                         void **memory);
/* Frees the area that starts at `memory`; the mappings of it in other processes stay valid. Returns false if no area
 * starts there. */
bool d9_shared_release(d9_context *context, d9_shared_area **list, void *memory);
/* Finds the array `values` of every process: sets *parts (ranks) to their addresses in this process. `bytes` is the
 * size of an array, and all have the same offset in their areas. Sets *parts to NULL if `values` is in no area, or if
 * any process cannot map the areas of all others. Collective: the first call for an area maps it in all processes. */
D9_MUST_USE d9_status d9_shared_find(d9_context *context, d9_parallel *parallel, d9_shared_area *list,
                                     const void *values, int64_t bytes, uint8_t *const **parts);
