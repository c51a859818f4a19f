/* Limits of the simulated device, on which the algorithms of norms and recurrent layers depend: an H100's, unless a
 * test sets others. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

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
