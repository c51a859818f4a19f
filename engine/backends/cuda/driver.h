/* The functions of CUDA that the backend needs besides kernels, as a table, so that the rules include no vendor header.
 * runtime.c implements it with the CUDA runtime. */
#pragma once

#include "backends/backend.h"
#include "kernels/cuda/kernels.h"

typedef d9_status (*d9_cuda_work)(d9_context *context, void *what); /* submits work to the stream */

/* The host is at most this many steps ahead of the device: enough to keep the device busy, and few enough that
 * interrupts and lost processes are noticed soon and CUDA's queue does not fill. */
enum { D9_CUDA_STEPS_AHEAD = 16 };

typedef struct d9_cuda_calls {
    const char *name; /* "cuda" */

    /* Opens a device and one stream on it. Returns D9_DEVICE with the reason if there is none. `parallel` selects among
     * several devices: process i of a host opens device i. NULL, one process on the host, or one device: the first. */
    d9_status (*open)(d9_context *context, const d9_parallel *parallel, void **driver);
    void (*close)(d9_context *context, void *driver);
    /* Makes the device current in this thread; the program that uses libdawn9 may have selected another one. Kernels,
     * libraries and the functions below may need it, except allocate, release, write, read, sync, pace, memory and
     * free_graph, which select the device themselves. */
    d9_status (*select)(d9_context *context, const void *driver);
    void (*describe)(const void *driver, d9_device_info *info); /* sets fields up to `preferred_why` except `threads` */
    d9_cuda_stream (*stream)(const void *driver);
    const char *(*error)(int code); /* text of an error code returned by a launcher */

    /* The functions of d9_device_memory. `allocate` zeroes; `write` and `read` are ordered with the stream's work. */
    d9_status (*allocate)(d9_context *context, void *driver, int64_t bytes, const char *purpose, void **pointer);
    void (*release)(d9_context *context, void *driver, void *pointer);
    d9_status (*write)(d9_context *context, void *driver, void *to, const void *bytes, int64_t size);
    d9_status (*read)(d9_context *context, void *driver, const void *from, void *bytes, int64_t size);
    d9_status (*sync)(d9_context *context, void *driver);
    /* To be called before each step is submitted: waits until fewer than D9_CUDA_STEPS_AHEAD others are unfinished. */
    d9_status (*pace)(d9_context *context, void *driver);
    /* From now on, whenever the host waits for the stream, the driver calls watch(context, what) repeatedly; if that
     * fails, the function that waits fails too. NULL: nothing is called. */
    void (*watch)(void *driver, d9_status (*watch)(d9_context *context, void *what), void *what);
    d9_status (*memory)(d9_context *context, void *driver, int64_t *free_bytes, int64_t *total_bytes);

    /* `fork` returns a second stream, made at the first call, which then waits for the work submitted to the first
     * stream so far. `join` makes the first stream wait for the work submitted to the second. Both may be recorded. */
    d9_status (*fork)(d9_context *context, void *driver, d9_cuda_stream *second);
    d9_status (*join)(d9_context *context, void *driver);

    /* Makes a CUDA graph of the work that `work` submits, without running it. `work` must not wait; `what` must outlive
     * the graph. */
    d9_status (*record)(d9_context *context, void *driver, d9_cuda_work work, void *what, void **graph);
    d9_status (*replay)(d9_context *context, void *driver, void *graph);
    void (*free_graph)(d9_context *context, void *driver, void *graph); /* NULL is ignored */

    /* `mark` records a time stamp in the stream; slots count from 0. `elapsed` waits for `to`. */
    d9_status (*mark)(d9_context *context, void *driver, int slot);
    d9_status (*elapsed)(d9_context *context, void *driver, int from, int to, double *seconds);
} d9_cuda_calls;

/* The table for the CUDA runtime. Its devices are those that CUDA_VISIBLE_DEVICES shows. */
extern const d9_cuda_calls d9_cuda_runtime;

/* Checks for a device without creating a context; returns D9_DEVICE with the reason if there is none. */
D9_MUST_USE d9_status d9_cuda_runtime_probe(d9_context *context);
