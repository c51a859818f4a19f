/* How much of a launch the modelled device runs at the same time: an H100's, unless a test says otherwise. */
#ifndef D9_TESTS_CUDA_ROOM_H
#define D9_TESTS_CUDA_ROOM_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct d9_model_device {
    long shared_bytes;  /* that a block may have, static ones included; and about what a multiprocessor has */
    int cluster_blocks; /* 1: no clusters */
    int multiprocessors;
    int refuses; /* clusters of this size and more never run: a partition that is too small; 0: none */
} d9_model_device;

void d9_model_be(const d9_model_device *device); /* NULL: an H100 again */

#ifdef __cplusplus
}
#endif

#endif
