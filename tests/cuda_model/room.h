/* The number of blocks and clusters that the modelled device runs at once: an H100, unless a test sets other limits. */
#ifndef D9_TESTS_CUDA_ROOM_H
#define D9_TESTS_CUDA_ROOM_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct d9_model_device {
    long shared_bytes;  /* limit per block, including static arrays; about that of a multiprocessor */
    int cluster_blocks; /* maximum cluster size; 1: no clusters */
    int multiprocessors;
    int refuses; /* clusters of this size or larger never run, as on a small partition; 0: none */
} d9_model_device;

void d9_model_be(const d9_model_device *device); /* NULL: an H100 again */

#ifdef __cplusplus
}
#endif

#endif
