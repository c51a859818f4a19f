/* What the CUDA backend needs of CUDA besides kernels, as a table of functions: so that tests run the same rules over
 * host memory and the CPU model of the kernels. runtime.c is the one over the CUDA runtime. Includes no vendor header.
 */
#ifndef D9_BACKENDS_CUDA_DRIVER_H
#define D9_BACKENDS_CUDA_DRIVER_H

#include "backends/backend.h"
#include "kernels/cuda/kernels.h"

typedef d9_status (*d9_cuda_work)(d9_context *context, void *what); /* submits to the stream, waits for nothing */

typedef struct d9_cuda_driver {
    const char *name; /* "cuda", "cuda-model" */

    /* A device and one stream on it. No device: D9_DEVICE, and why. */
    d9_status (*open)(d9_context *context, void **driver);
    void (*close)(d9_context *context, void *driver);
    void (*describe)(const void *driver, d9_device_info *info); /* name, version, isa, memory_bytes */
    d9_cuda_stream (*stream)(const void *driver);
    const char *(*error)(int code); /* what a launcher returned, in words */

    /* As d9_host_memory: zeroed; write and read are ordered with the stream's work. */
    d9_status (*allocate)(d9_context *context, void *driver, int64_t bytes, const char *purpose, void **pointer);
    void (*release)(d9_context *context, void *driver, void *pointer);
    d9_status (*write)(d9_context *context, void *driver, void *to, const void *bytes, int64_t size);
    d9_status (*read)(d9_context *context, void *driver, const void *from, void *bytes, int64_t size);
    d9_status (*sync)(d9_context *context, void *driver);
    d9_status (*memory)(d9_context *context, void *driver, int64_t *free_bytes, int64_t *total_bytes);

    /* What `work` submits becomes a graph and does not run; `what` outlives the graph. */
    d9_status (*record)(d9_context *context, void *driver, d9_cuda_work work, void *what, void **graph);
    d9_status (*replay)(d9_context *context, void *driver, void *graph);
    void (*forget)(d9_context *context, void *driver, void *graph); /* NULL is fine */

    /* Notes when the stream reaches this place; slots from 0. elapsed waits for `to`. */
    d9_status (*mark)(d9_context *context, void *driver, int slot);
    d9_status (*elapsed)(d9_context *context, void *driver, int from, int to, double *seconds);
} d9_cuda_driver;

#endif
