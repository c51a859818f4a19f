/* The fake CUDA runtime, cuDNN, cuBLAS and NCCL in the tests' dawn9-cuda.so: counters, and settings of its behaviour.
 * The module exports d9_fake_get; a test calls fake_find, which finds it.
 *
 * Work is queued on the first stream. It runs when the host waits or frees; a wait for an event runs the work up to the
 * event. Every second query runs work as a wait does. Host code that reads too early therefore gets old bytes, and host
 * code that overwrites the source of a queued copy corrupts the copy. Work on the second stream is inserted into the
 * first stream's queue, as early or as late as the events allow. Time is simulated: a kernel, copy or memset takes a
 * microsecond, a convolution the time of its choice, a matrix product 5 us, other work no time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define D9_FAKE_DEVICE "CUDA model"

enum { D9_FAKE_PCI_BUS = 0x3b }; /* of device 0; device i has bus 0x3b + i */
enum { D9_FAKE_CHOICES = 7 };    /* number of choices offered per convolution: see fake_cudnn.c */

typedef struct d9_fake_counts {
    int64_t calls;                             /* of the runtime, except a few queries */
    int64_t allocations, frees, writes, reads; /* rejected allocations included */
    int64_t waits;                             /* waits that ran all queued work, not only copies to the host */
    int64_t event_waits;                       /* waits for an event that left later work in the queue */
    int64_t queued_replays, most_queued;       /* graphs launched and not yet run; their maximum so far */
    int64_t captures, instantiations, replays;
    int64_t convolutions, plans, listed;           /* run; built; requests for lists of choices */
    int64_t runs[D9_FAKE_CHOICES + 2];             /* convolutions by choice; [1]: e1; the last: e62, never offered */
    int64_t libraries;                             /* times that cuBLAS was opened */
    int64_t products, matrices, captured_products; /* batches run; matrices in them; batches captured */
    int64_t unsteady_products;                     /* plans of products that would accept sums in any order */
    int64_t nccl_ids, reductions;                  /* identifiers made; sums of NCCL submitted or captured */
    int64_t queries, error_queries, endless_waits; /* of streams and events; of NCCL for errors; see hang_reduction */
    int64_t endless_aborts;                        /* calls of ncclCommAbort that left graphs with sums */
    int64_t on_zeros;                              /* inputs of convolutions that were all zero */
    int64_t read_ahead;                            /* finished calls of d9_cudnn_read_ahead */
    int64_t loaded;   /* different kernels launched, plus convolutions by choice, pass and type */
    int64_t illegal;  /* calls during capture that are illegal then */
    int64_t overruns; /* allocations that were written past their end, found when they are freed */
    int64_t live_graphs, live_events, live_streams, live_handles, live_descriptors, pinned_bytes;
    int64_t used_bytes, most_bytes; /* of device memory in use; their maximum so far */
} d9_fake_counts;

/* Ways in which the fake cuDNN can compute weight gradients. RIGHT adds in double precision and rounds the sum once.
 * Each of the other values makes an error on purpose, which the checks of cuDNN's algorithms must detect. */
typedef enum d9_fake_sums {
    D9_FAKE_SUMS_RIGHT,
    D9_FAKE_SUMS_IN_PARTS,         /* the sum over even output pixels is rounded before odd ones are added */
    D9_FAKE_SUMS_WITHOUT_A_PLACE,  /* the last output pixel of the last image is missing */
    D9_FAKE_SUMS_WITH_TAPS_TURNED, /* filters are turned by 180 degrees: convolution in place of correlation */
    D9_FAKE_SUMS_CUT               /* rounded towards zero in half precision */
} d9_fake_sums;

/* A sum of NCCL as it was submitted. Places are indices in the first stream's queue since the host's last wait, or in
 * the graph that is captured. */
typedef struct d9_fake_reduction {
    const float *values;
    int64_t count;
    bool captured, second; /* in a graph; on the second stream */
    int64_t after, before; /* it runs after all places below `after`, and before places >= `before` (-1: none waits) */
} d9_fake_reduction;
enum { D9_FAKE_REDUCTIONS = 256 };

/* Sizes of a product of matrices, stored column by column as cuBLAS sees them: each of `batch` results has `rows` x
 * `columns` elements, which are sums of `depth` terms. */
typedef struct d9_fake_product {
    int64_t rows, columns, depth, batch;
} d9_fake_product;

typedef struct d9_fake {
    d9_fake_counts counts;
    d9_fake_reduction reduction[D9_FAKE_REDUCTIONS]; /* the first ones */
    d9_fake_product product;                         /* the last one that ran */
    /* settings, changed by tests; memory_bytes: memory of a device; major, minor: compute capability of all devices */
    int64_t memory_bytes;
    int64_t held_bytes; /* part of memory_bytes used by other processes */
    int choices;        /* choices offered per convolution: D9_FAKE_CHOICES, or only the first ones */
    /* Value of counts.allocations at an allocation that fails; later ones of at least its size fail too, as on a device
     * with less free memory than it reports. 0: none. */
    int64_t reject_at;
    int64_t fail_at;     /* value of counts.calls at the call that fails; 0: none */
    int fail_with;       /* its cudaError_t */
    int64_t short_bytes; /* allocations end this many bytes early, so that their last bytes count as past the end */
    int devices, major, minor;
    int device;                          /* the current one; work in streams of another is rejected */
    int device_error;                    /* error of cudaGetDeviceCount; 0: none */
    int driver_version, runtime_version; /* CUDA versions; driver 0: no driver */
    int unsteady;                        /* choice whose result alternates by one bit; 0: none */
    bool without_code;                   /* kernels have no code for this device */
    int64_t spoil_captures_from;         /* value of counts.captures from which on captures fail; 0: never */
    bool without_cudnn;                  /* cudnnCreate fails */
    bool without_cublas;                 /* cublasLtCreate fails */
    int without_products;                /* 1: cublasLt offers no algorithm; 2: it returns NOT_SUPPORTED; 0: neither */
    bool tensor_cores;                   /* tf32 convolutions and products round their inputs */
    d9_fake_sums sums;                   /* of weight gradients */
    bool without_nccl;                   /* processes cannot join */
    int64_t fail_reduction;              /* value of counts.reductions at a sum that fails; 0: none */
    /* Value of counts.reductions at the sum that never completes: the other process does not join it; ncclCommAbort
     * sets this to 0, which ends the wait. 0: none. A blocking wait that lasts two seconds counts in endless_waits. */
    int64_t hang_reduction;
    /* While a sum hangs: the query (counts.error_queries) from which on the other process is reported lost; 0: from the
     * first. */
    int64_t report_lost;
    bool second_late;               /* the second stream's work runs as late as events allow; otherwise as early */
    void (*set_device)(int device); /* selects the current device, as another library in the thread may do */
    /* Launches of kernels whose name contains `kernel` fail with `error`; kernel NULL: none. */
    void (*forbid)(const char *kernel, int error);
    void (*reset)(void); /* restores the initial state; nothing may be open */
} d9_fake;

__attribute__((visibility("default"))) d9_fake *d9_fake_get(void);
d9_fake *fake_find(void); /* NULL: the module is not the fake */
/* Skips the calling test on a real GPU. */
#define FAKE_ONLY(why)                                                                                                 \
    do {                                                                                                               \
        if (!D9_ON_FAKE) skip_for("fake", why);                                                                        \
    } while (0)
