/* The CUDA runtime behind driver.h. */
#include "backends/cuda/runtime.h"
#include "core/system.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

enum { MARKS = 1024 };

typedef struct runtime {
    cudaStream_t stream;
    struct cudaDeviceProp properties;
    cudaEvent_t mark[MARKS]; /* made when first used */
} runtime;

static d9_status check(d9_context *context, cudaError_t result, const char *what) {
    if (result == cudaSuccess) return D9_OK;
    cudaGetLastError(); /* one failure is reported once */
    return d9_fail(context, D9_DEVICE, "CUDA: %s: %s", what, cudaGetErrorString(result));
}

#define CUDA_TRY(call, what) D9_TRY(check(context, (call), what))

/* ---- the device ---- */

d9_status d9_cuda_runtime_probe(d9_context *context) {
    int count = 0;
    const cudaError_t result = cudaGetDeviceCount(&count);
    if (result == cudaSuccess && count > 0) return D9_OK;
    cudaGetLastError();
    return d9_fail(context, D9_DEVICE, "backend cuda: no GPU answers: %s",
                   result == cudaSuccess ? "none is visible" : cudaGetErrorString(result));
}

static void close_device(d9_context *context, void *driver) {
    runtime *r = driver;
    if (!r) return;
    for (int m = 0; m < MARKS; m++)
        if (r->mark[m]) cudaEventDestroy(r->mark[m]);
    if (r->stream) cudaStreamDestroy(r->stream);
    d9_release(context, r);
}

static d9_status open_device(d9_context *context, void **driver) {
    d9_status status;
    runtime *r = NULL;
    D9_TRY(d9_cuda_runtime_probe(context));
    D9_TRY(D9_ALLOCATE(context, 1, "CUDA", &r));
    CUDA_TRY(cudaSetDevice(0), "opening the device");
    CUDA_TRY(cudaGetDeviceProperties(&r->properties, 0), "asking what the device is");
    CUDA_TRY(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking), "making a stream");
    *driver = r;
    r = NULL;
done:
    close_device(context, r);
    return status;
}

static void describe(const void *driver, d9_device_info *info) {
    const runtime *r = driver;
    int driver_version = 0, runtime_version = 0;
    cudaDriverGetVersion(&driver_version);
    cudaRuntimeGetVersion(&runtime_version);
    snprintf(info->name, sizeof info->name, "%.127s", r->properties.name);
    snprintf(info->version, sizeof info->version, "CUDA %d.%d, driver for %d.%d", runtime_version / 1000,
             runtime_version % 1000 / 10, driver_version / 1000, driver_version % 1000 / 10);
    snprintf(info->isa, sizeof info->isa, "sm_%d%d", r->properties.major, r->properties.minor);
    info->memory_bytes = (int64_t)r->properties.totalGlobalMem;
}

static d9_cuda_stream stream(const void *driver) { return ((const runtime *)driver)->stream; }
static const char *error_text(int code) { return cudaGetErrorString((cudaError_t)code); }

/* ---- memory ---- */

static d9_status memory_left(d9_context *context, void *driver, int64_t *free_bytes, int64_t *total_bytes) {
    d9_status status;
    size_t left, total;
    (void)driver;
    CUDA_TRY(cudaMemGetInfo(&left, &total), "asking for the memory left");
    *free_bytes = (int64_t)left;
    *total_bytes = (int64_t)total;
done:
    return status;
}

static d9_status out_of_memory(d9_context *context, int64_t bytes, const char *purpose) {
    size_t left = 0, total = 0;
    cudaGetLastError();
    cudaMemGetInfo(&left, &total);
    return d9_fail(context, D9_DEVICE, "out of device memory: %s needs %.1f MiB, %.1f of %.1f MiB are free", purpose,
                   (double)bytes / 1048576, (double)left / 1048576, (double)total / 1048576);
}

static void release(d9_context *context, void *driver, void *pointer) {
    (void)context, (void)driver;
    cudaFree(pointer);
}

static d9_status allocate(d9_context *context, void *driver, int64_t bytes, const char *purpose, void **pointer) {
    d9_status status;
    const runtime *r = driver;
    const cudaError_t result = cudaMalloc(pointer, (size_t)bytes);
    if (result != cudaSuccess) *pointer = NULL;
    if (result == cudaErrorMemoryAllocation) return out_of_memory(context, bytes, purpose);
    CUDA_TRY(result, purpose);
    CUDA_TRY(cudaMemsetAsync(*pointer, 0, (size_t)bytes, r->stream), purpose);
done:
    if (status != D9_OK) release(context, driver, *pointer);
    if (status != D9_OK) *pointer = NULL;
    return status;
}

static d9_status write(d9_context *context, void *driver, void *to, const void *bytes, int64_t size) {
    const runtime *r = driver;
    return check(context, cudaMemcpyAsync(to, bytes, (size_t)size, cudaMemcpyHostToDevice, r->stream),
                 "writing to the device");
}

/* Forgets with it what a library left to be asked for: the next launch would be blamed. */
static d9_status synchronize(d9_context *context, void *driver) {
    const runtime *r = driver;
    const d9_status status = check(context, cudaStreamSynchronize(r->stream), "running");
    cudaGetLastError();
    return status;
}

static d9_status read(d9_context *context, void *driver, const void *from, void *bytes, int64_t size) {
    d9_status status;
    const runtime *r = driver;
    CUDA_TRY(cudaMemcpyAsync(bytes, from, (size_t)size, cudaMemcpyDeviceToHost, r->stream), "reading from the device");
    D9_TRY(synchronize(context, driver));
done:
    return status;
}

/* ---- graphs ---- */

static d9_status record(d9_context *context, void *driver, d9_cuda_work work, void *what, void **graph) {
    d9_status status;
    const runtime *r = driver;
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t made = NULL;
    *graph = NULL;
    CUDA_TRY(cudaStreamBeginCapture(r->stream, cudaStreamCaptureModeThreadLocal), "recording a step");
    status = work(context, what);
    const cudaError_t result = cudaStreamEndCapture(r->stream, &recorded); /* whatever happened between */
    if (status != D9_OK) {
        cudaGetLastError();
        goto done;
    }
    CUDA_TRY(result, "recording a step");
    CUDA_TRY(cudaGraphInstantiateWithFlags(&made, recorded, 0), "making a recorded step ready");
    *graph = made;
done:
    if (recorded) cudaGraphDestroy(recorded);
    return status;
}

static d9_status replay(d9_context *context, void *driver, void *graph) {
    const runtime *r = driver;
    return check(context, cudaGraphLaunch(graph, r->stream), "replaying a step");
}

static void forget(d9_context *context, void *driver, void *graph) {
    (void)context, (void)driver;
    if (graph) cudaGraphExecDestroy(graph);
}

/* ---- marks ---- */

static d9_status mark(d9_context *context, void *driver, int slot) {
    d9_status status;
    runtime *r = driver;
    if (slot >= MARKS) return d9_fail(context, D9_DEVICE, "a plan of more than %d rules cannot be timed", MARKS - 1);
    if (!r->mark[slot]) CUDA_TRY(cudaEventCreate(&r->mark[slot]), "making a mark");
    CUDA_TRY(cudaEventRecord(r->mark[slot], r->stream), "marking");
done:
    return status;
}

static d9_status elapsed(d9_context *context, void *driver, int from, int to, double *seconds) {
    d9_status status;
    const runtime *r = driver;
    float milliseconds;
    CUDA_TRY(cudaEventSynchronize(r->mark[to]), "running");
    CUDA_TRY(cudaEventElapsedTime(&milliseconds, r->mark[from], r->mark[to]), "timing");
    *seconds = 1e-3 * (double)milliseconds;
done:
    return status;
}

const d9_cuda_driver d9_cuda_runtime = {
    .name = "cuda",
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .stream = stream,
    .error = error_text,
    .allocate = allocate,
    .release = release,
    .write = write,
    .read = read,
    .sync = synchronize,
    .memory = memory_left,
    .record = record,
    .replay = replay,
    .forget = forget,
    .mark = mark,
    .elapsed = elapsed,
};
