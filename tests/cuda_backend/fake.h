/* The fake of the CUDA runtime and of cuDNN behind the tests' dawn9-cuda.so: what it has counted, and how it is to
 * behave. The module exports d9_fake_get; fake_find brings it to a test.
 *
 * Work is kept on the one stream and runs when the host waits: so a host that reads too early reads old bytes, and one
 * that writes to the source of a copy before it has run sends the wrong ones. Time is drawn: a kernel takes a
 * microsecond, a convolution what its choice takes. */
#ifndef D9_TESTS_CUDA_FAKE_H
#define D9_TESTS_CUDA_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#define D9_FAKE_DEVICE "CUDA model"

enum { D9_FAKE_WAYS = 7 }; /* of a convolution: fake_cudnn.c */

typedef struct d9_fake_counts {
    int64_t calls; /* of the runtime */
    int64_t allocations, frees, writes, reads, memsets;
    int64_t waits; /* that found work to wait for, other than a copy to the host */
    int64_t captures, instantiations, replays;
    int64_t kernels;                       /* run */
    int64_t convolutions, plans, surveyed; /* run; made; lists of choices asked for */
    int64_t runs[D9_FAKE_WAYS + 1];        /* convolutions, by their choice */
    int64_t on_zeros;                      /* computed with an argument of zeros alone */
    int64_t read_ahead;                    /* cuDNN's libraries, until that was stopped */
    int64_t illegal;                       /* calls that may not be made while capturing */
    int64_t live_graphs, live_events, live_streams, live_handles, live_descriptors, pinned_bytes;
    int64_t used_bytes, most_bytes;
} d9_fake_counts;

typedef struct d9_fake {
    d9_fake_counts counts;
    /* how it behaves; a test sets these */
    int64_t memory_bytes;
    int64_t held_bytes; /* of it, by others */
    int ways;           /* of a convolution that are offered: D9_FAKE_WAYS, or the first so many */
    int64_t fail_at;    /* the call of this number, from 1, fails; 0: none */
    int fail_with;      /* a cudaError_t */
    int devices, major, minor;
    int device_error;                              /* of asking for devices; 0: none */
    int driver_version, runtime_version;           /* of CUDA; driver 0: there is none */
    int unsteady;                                  /* the choice that computes other bits each second time; 0: none */
    bool without_code;                             /* kernels were not compiled for this device */
    bool without_cudnn;                            /* cudnnCreate fails */
    bool tensor_cores;                             /* convolutions that may be computed in tf32 are */
    void (*forbid)(const char *kernel, int error); /* launches of kernels whose name contains this; NULL: none */
    void (*reset)(void);                           /* as it was when the process began; nothing is open */
} d9_fake;

__attribute__((visibility("default"))) d9_fake *d9_fake_get(void);
d9_fake *fake_find(void); /* from a test; NULL: the module beside it is not the fake */

#endif
