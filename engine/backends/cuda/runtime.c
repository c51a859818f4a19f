/* The driver table implemented with the CUDA runtime.
 *
 * Copies to and from the device use a ring of pinned slots: a write waits only if all slots are in use, and the
 * caller's memory is not accessed after a call returns, even if it failed. CUDA may stage copies of pageable memory
 * before it returns, but does not guarantee it. */
#include "backends/cuda/driver.h"
#include "core/system.h"
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- why no GPU is available ---- */

typedef struct diagnosis {
    int driver_version;  /* latest CUDA version that the driver supports, 12040 is 12.4; 0: no driver */
    int runtime_version; /* CUDA version of this build */
    bool too_old;        /* the runtime rejects the driver as too old, or finds none */
    bool none;           /* the driver works but shows no device to this process */
    const char *error;   /* error text of the runtime */
    const char *visible; /* CUDA_VISIBLE_DEVICES; NULL: not set */
    char installed[32];  /* version of the kernel driver, "550.54.15"; "": unknown */
} diagnosis;

/* Copies the first word that begins with a digit: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...",
 * or, with the open module, "... Kernel Module for x86_64  580.65.06  Release Build". */
static void find_version(const char *text, char *version, size_t size) {
    for (const char *at = text; *at; at += strcspn(at, " \n"), at += strspn(at, " \n"))
        if (*at >= '0' && *at <= '9') {
            snprintf(version, size, "%.*s", (int)strcspn(at, " \n"), at);
            return;
        }
}

/* Reads the driver's version from /proc/driver/nvidia/version; "" if it is not there. */
static void read_driver_version(const d9_context *context, char *version, size_t size) {
    char text[512];
    const d9_system *system = context->system;
    version[0] = 0;
    const int file = system->open(system->user, "/proc/driver/nvidia/version", O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return;
    const ssize_t got = system->read(system->user, file, text, sizeof text - 1);
    system->close(system->user, file);
    text[got > 0 ? got : 0] = 0;
    find_version(text, version, size);
}

/* Lowest driver version for CUDA 12 and for 13 (CUDA's release notes, "Minimum Required Driver Version"). */
static int lowest_driver(int major) { return major >= 13 ? 580 : 525; }

static d9_status report_driver(d9_context *context, const diagnosis *a) {
    const int wanted = a->runtime_version / 1000;
    char own[48] = "the NVIDIA driver";
    if (a->driver_version == 0 && *a->installed)
        return d9_fail(
            context, D9_DEVICE,
            "backend cuda: the NVIDIA driver %s is loaded, but libcuda.so.1 is missing (in a container: it has "
            "no access to the GPU)",
            a->installed);
    if (a->driver_version == 0) return d9_fail(context, D9_DEVICE, "backend cuda: no NVIDIA driver installed");
    if (*a->installed) snprintf(own, sizeof own, "driver %s", a->installed);
    return d9_fail(context, D9_DEVICE, "backend cuda: %s (for CUDA %d.%d) is older than CUDA %d needs (%d)", own,
                   a->driver_version / 1000, a->driver_version % 1000 / 10, wanted, lowest_driver(wanted));
}

static d9_status report_diagnosis(d9_context *context, const diagnosis *a) {
    if (a->too_old || a->driver_version == 0) return report_driver(context, a);
    if (a->none && a->visible)
        return d9_fail(context, D9_DEVICE, "backend cuda: no GPU is visible: CUDA_VISIBLE_DEVICES is \"%s\"",
                       a->visible);
    if (a->none)
        return d9_fail(context, D9_DEVICE, "backend cuda: the NVIDIA driver%s%s finds no GPU", *a->installed ? " " : "",
                       a->installed);
    return d9_fail(context, D9_DEVICE, "backend cuda: no GPU available: %s", a->error);
}

enum { SLOTS = 8, SLOT_BYTES = 256 << 10, PACES = D9_CUDA_STEPS_AHEAD - 1 };

typedef struct runtime {
    int device;                  /* CUDA's number of the device, among those visible to this process */
    cudaStream_t stream, second; /* second: NULL before the first fork */
    cudaEvent_t forked, joined;  /* events of the last fork and join of the second stream */
    struct cudaDeviceProp properties;
    cudaEvent_t *mark; /* (mark_count), of mark_capacity; created at first use */
    size_t mark_count, mark_capacity;
    uint8_t *ring;            /* pinned: (SLOTS, SLOT_BYTES) */
    cudaEvent_t sent[SLOTS];  /* events after each slot's last copy; created at first use */
    int64_t writes;           /* number of writes so far; a write uses slot writes % SLOTS */
    cudaEvent_t begun[PACES]; /* events before each of the last steps; created at first use */
    int64_t steps;            /* number of steps so far; a step uses begun[steps % PACES] */
    d9_status (*watch)(d9_context *context, void *watched); /* called while the host waits; NULL: nothing is called */
    void *watched;
} runtime;

static d9_status check(d9_context *context, cudaError_t result, const char *what) {
    if (result == cudaSuccess) return D9_OK;
    cudaGetLastError(); /* clears the error, so that it is reported once */
    return d9_fail(context, D9_DEVICE, "CUDA: %s: %s", what, cudaGetErrorString(result));
}

#define CUDA_TRY(call, what) D9_TRY(check(context, (call), what))

/* ---- the device ---- */

d9_status d9_cuda_runtime_probe(d9_context *context) {
    int count = 0;
    diagnosis diagnosis = {.visible = getenv("CUDA_VISIBLE_DEVICES")};
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0); /* numbers devices as nvidia-smi does */
    const cudaError_t result = cudaGetDeviceCount(&count);
    if (result == cudaSuccess && count > 0) return D9_OK;
    cudaGetLastError();
    diagnosis.too_old = result == cudaErrorInsufficientDriver;
    diagnosis.none = result == cudaSuccess || result == cudaErrorNoDevice;
    diagnosis.error = cudaGetErrorString(result);
    cudaDriverGetVersion(&diagnosis.driver_version);
    cudaRuntimeGetVersion(&diagnosis.runtime_version);
    read_driver_version(context, diagnosis.installed, sizeof diagnosis.installed);
    return report_diagnosis(context, &diagnosis);
}

static d9_status select_device(d9_context *context, const void *driver) {
    return check(context, cudaSetDevice(((const runtime *)driver)->device), "selecting the device");
}

static void close_device(d9_context *context, void *driver) {
    runtime *r = driver;
    if (!r) return;
    cudaSetDevice(r->device);
    for (size_t m = 0; m < r->mark_count; m++)
        if (r->mark[m]) cudaEventDestroy(r->mark[m]);
    for (int s = 0; s < SLOTS; s++)
        if (r->sent[s]) cudaEventDestroy(r->sent[s]);
    for (int p = 0; p < PACES; p++)
        if (r->begun[p]) cudaEventDestroy(r->begun[p]);
    if (r->forked) cudaEventDestroy(r->forked);
    if (r->joined) cudaEventDestroy(r->joined);
    if (r->second) cudaStreamDestroy(r->second);
    if (r->stream) cudaStreamDestroy(r->stream);
    if (r->ring) cudaFreeHost(r->ring);
    d9_release(context, r->mark);
    d9_release(context, r);
}

/* Process i of several on this host takes GPU i. If only one GPU is visible, the launcher has chosen it, or
 * cli/this_process.c by setting CUDA_VISIBLE_DEVICES. The variable has no effect if an MPI built with CUDA has already
 * started the driver: then this function chooses. */
static d9_status choose_device(d9_context *context, const d9_parallel *parallel, int *device) {
    d9_status status;
    int count = 0;
    *device = 0;
    CUDA_TRY(cudaGetDeviceCount(&count), "counting the devices");
    if (!parallel || parallel->host_ranks <= 1 || count <= 1) return D9_OK;
    if (parallel->host_rank >= count)
        return d9_fail(context, D9_DEVICE,
                       "backend cuda: this host has %d processes, but only %d GPUs are visible: start one process for "
                       "each GPU",
                       parallel->host_ranks, count);
    *device = parallel->host_rank;
done:
    return status;
}

static d9_status open_device(d9_context *context, const d9_parallel *parallel, void **driver) {
    d9_status status;
    int device;
    runtime *r = NULL;
    void *ring = NULL;
    D9_TRY(d9_cuda_runtime_probe(context));
    D9_TRY(choose_device(context, parallel, &device));
    D9_TRY(D9_ALLOCATE(context, 1, "CUDA", &r));
    r->device = device;
    CUDA_TRY(cudaSetDevice(device), "opening the device");
    CUDA_TRY(cudaGetDeviceProperties(&r->properties, device), "asking what the device is");
    CUDA_TRY(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking), "making a stream");
    CUDA_TRY(cudaHostAlloc(&ring, SLOTS * SLOT_BYTES, cudaHostAllocDefault), "pinning memory");
    r->ring = ring;
    *driver = r;
    r = NULL;
done:
    close_device(context, r);
    return status;
}

/* Sets precisions by compute capability: tensor cores multiply fp16 from 7.0 on, bf16 and tf32 from 8.0 on. On 7.x fp16
 * is the fastest precision in which training converges: the summed loss scales gradients by the batch size
 * (docs/numerics.md), and steps whose gradients overflow nevertheless are skipped. */
static void describe_precision(int major, d9_device_info *info) {
    info->precision[D9_PRECISION_F32] = info->precision[D9_PRECISION_FP16] = true;
    info->precision[D9_PRECISION_TF32] = info->precision[D9_PRECISION_BF16] = major >= 8;
    if (major < 7) return; /* f32 */
    info->preferred_precision = major >= 8 ? D9_PRECISION_BF16 : D9_PRECISION_FP16;
    info->preferred_why = major >= 8 ? "its tensor cores multiply bf16"
                                     : "its tensor cores multiply fp16 and not bf16; the summed loss scales gradients";
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
    describe_precision(r->properties.major, info);
}

static d9_cuda_stream stream(const void *driver) { return ((const runtime *)driver)->stream; }

static const char *error_text(int code) {
    if (code == cudaErrorNoKernelImageForDevice) return "this build has no code for it (DAWN9_CUDA_ARCHITECTURES)";
    if (code == cudaErrorUnsupportedPtxVersion) return "this build's code for it is newer than the driver";
    return cudaGetErrorString((cudaError_t)code);
}

/* ---- waiting ---- */

static void set_watch(void *driver, d9_status (*watch)(d9_context *context, void *what), void *what) {
    runtime *r = driver;
    r->watch = watch;
    r->watched = what;
}

/* Waits for the event, or for the stream if it is NULL. */
static d9_status wait_for(d9_context *context, const runtime *r, cudaEvent_t event) {
    static const struct timespec pause = {.tv_nsec = 50000};
    d9_status status;
    cudaError_t result;
    if (!r->watch)
        return check(context, event ? cudaEventSynchronize(event) : cudaStreamSynchronize(r->stream), "running");
    while ((result = event ? cudaEventQuery(event) : cudaStreamQuery(r->stream)) == cudaErrorNotReady) {
        cudaGetLastError(); /* otherwise the next launch would report "not ready" */
        D9_TRY(r->watch(context, r->watched));
        nanosleep(&pause, NULL);
    }
    CUDA_TRY(result, "running");
done:
    return status;
}

/* Before step s, waits for the event recorded before step s - PACES: all steps before that step have then finished. */
static d9_status pace(d9_context *context, void *driver) {
    d9_status status;
    runtime *r = driver;
    D9_TRY(select_device(context, r));
    cudaEvent_t *begun = &r->begun[r->steps % PACES];
    if (*begun)
        D9_TRY(wait_for(context, r, *begun));
    else
        CUDA_TRY(cudaEventCreateWithFlags(begun, cudaEventDisableTiming), "pacing steps");
    CUDA_TRY(cudaEventRecord(*begun, r->stream), "pacing steps");
    r->steps++;
done:
    return status;
}

/* ---- memory ---- */

static d9_status memory_left(d9_context *context, void *driver, int64_t *free_bytes, int64_t *total_bytes) {
    d9_status status;
    size_t left, total;
    D9_TRY(select_device(context, driver));
    CUDA_TRY(cudaMemGetInfo(&left, &total), "asking for the memory left");
    *free_bytes = (int64_t)left;
    *total_bytes = (int64_t)total;
done:
    return status;
}

static d9_status report_out_of_memory(d9_context *context, int64_t bytes, const char *purpose) {
    size_t left = 0, total = 0;
    cudaGetLastError();
    cudaMemGetInfo(&left, &total);
    return d9_fail(context, D9_DEVICE, "out of device memory: %s needs %.1f MiB, %.1f of %.1f MiB are free", purpose,
                   (double)bytes / 1048576, (double)left / 1048576, (double)total / 1048576);
}

static void release(d9_context *context, void *driver, void *pointer) {
    const runtime *r = driver;
    cudaSetDevice(r->device);
    if (r->watch) (void)!wait_for(context, r, NULL); /* cudaFree waits, too, but does not call `watch` */
    cudaFree(pointer);
}

static d9_status allocate(d9_context *context, void *driver, int64_t bytes, const char *purpose, void **pointer) {
    d9_status status;
    const runtime *r = driver;
    *pointer = NULL;
    D9_TRY(select_device(context, r));
    const cudaError_t result = cudaMalloc(pointer, (size_t)bytes);
    if (result != cudaSuccess) *pointer = NULL;
    if (result == cudaErrorMemoryAllocation) return report_out_of_memory(context, bytes, purpose);
    CUDA_TRY(result, purpose);
    CUDA_TRY(cudaMemsetAsync(*pointer, 0, (size_t)bytes, r->stream), purpose);
done:
    if (status != D9_OK) release(context, driver, *pointer);
    if (status != D9_OK) *pointer = NULL;
    return status;
}

/* Waits for the stream; clears an error left by a library, which would be reported at the next launch. */
static d9_status synchronize(d9_context *context, void *driver) {
    d9_status status;
    const runtime *r = driver;
    D9_TRY(select_device(context, r));
    status = wait_for(context, r, NULL);
    cudaGetLastError();
done:
    return status;
}

/* Copies through the ring's next slot, once the slot's previous copy, SLOTS writes ago, has finished. */
static d9_status write_slot(d9_context *context, runtime *r, void *to, const void *bytes, size_t size) {
    d9_status status;
    const int s = (int)(r->writes % SLOTS);
    uint8_t *slot = r->ring + (size_t)s * SLOT_BYTES;
    if (!r->sent[s])
        CUDA_TRY(cudaEventCreateWithFlags(&r->sent[s], cudaEventDisableTiming), "writing to the device");
    else
        D9_TRY(wait_for(context, r, r->sent[s]));
    memcpy(slot, bytes, size);
    CUDA_TRY(cudaMemcpyAsync(to, slot, size, cudaMemcpyHostToDevice, r->stream), "writing to the device");
    r->writes++;
    CUDA_TRY(cudaEventRecord(r->sent[s], r->stream), "writing to the device");
done:
    return status;
}

static d9_status write(d9_context *context, void *driver, void *to, const void *bytes, int64_t size) {
    d9_status status;
    D9_TRY(select_device(context, driver));
    for (int64_t at = 0; at < size; at += SLOT_BYTES) {
        const int64_t piece = size - at < SLOT_BYTES ? size - at : SLOT_BYTES;
        D9_TRY(write_slot(context, driver, (uint8_t *)to + at, (const uint8_t *)bytes + at, (size_t)piece));
    }
done:
    return status;
}

/* Uses the whole ring as one slot: the stream runs this copy after pending writes have left the ring. */
static d9_status read(d9_context *context, void *driver, const void *from, void *bytes, int64_t size) {
    enum { RING_BYTES = SLOTS * SLOT_BYTES };
    d9_status status;
    const runtime *r = driver;
    D9_TRY(select_device(context, r));
    for (int64_t at = 0; at < size; at += RING_BYTES) {
        const size_t piece = (size_t)(size - at < RING_BYTES ? size - at : RING_BYTES);
        CUDA_TRY(cudaMemcpyAsync(r->ring, (const uint8_t *)from + at, piece, cudaMemcpyDeviceToHost, r->stream),
                 "reading from the device");
        D9_TRY(synchronize(context, driver));
        memcpy((uint8_t *)bytes + at, r->ring, piece);
    }
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
    const cudaError_t result = cudaStreamEndCapture(r->stream, &recorded); /* must be called even if `work` failed */
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

static void free_graph(d9_context *context, void *driver, void *graph) {
    (void)context;
    cudaSetDevice(((const runtime *)driver)->device);
    if (graph) cudaGraphExecDestroy(graph);
}

/* ---- the second stream ---- */

static d9_status fork_stream(d9_context *context, void *driver, d9_cuda_stream *second) {
    d9_status status;
    runtime *r = driver;
    static const char what[] = "forking a stream";
    if (!r->second) CUDA_TRY(cudaStreamCreateWithFlags(&r->second, cudaStreamNonBlocking), what);
    if (!r->forked) CUDA_TRY(cudaEventCreateWithFlags(&r->forked, cudaEventDisableTiming), what);
    if (!r->joined) CUDA_TRY(cudaEventCreateWithFlags(&r->joined, cudaEventDisableTiming), what);
    CUDA_TRY(cudaEventRecord(r->forked, r->stream), what);
    CUDA_TRY(cudaStreamWaitEvent(r->second, r->forked, 0), what);
    *second = r->second;
done:
    return status;
}

static d9_status join_stream(d9_context *context, void *driver) {
    d9_status status;
    const runtime *r = driver;
    CUDA_TRY(cudaEventRecord(r->joined, r->second), "joining a stream");
    CUDA_TRY(cudaStreamWaitEvent(r->stream, r->joined, 0), "joining a stream");
done:
    return status;
}

/* ---- marks ---- */

static d9_status mark(d9_context *context, void *driver, int slot) {
    d9_status status;
    runtime *r = driver;
    const size_t wanted = (size_t)slot + 1;
    if (wanted > r->mark_count) {
        D9_TRY(D9_GROW(context, r->mark_count, wanted - r->mark_count, "marks", &r->mark_capacity, &r->mark));
        r->mark_count = wanted; /* the new ones are NULL */
    }
    if (!r->mark[slot]) CUDA_TRY(cudaEventCreate(&r->mark[slot]), "making a mark");
    CUDA_TRY(cudaEventRecord(r->mark[slot], r->stream), "marking");
done:
    return status;
}

static d9_status elapsed(d9_context *context, void *driver, int from, int to, double *seconds) {
    d9_status status;
    const runtime *r = driver;
    float milliseconds;
    D9_TRY(wait_for(context, r, r->mark[to]));
    CUDA_TRY(cudaEventElapsedTime(&milliseconds, r->mark[from], r->mark[to]), "timing");
    *seconds = 1e-3 * (double)milliseconds;
done:
    return status;
}

const d9_cuda_calls d9_cuda_runtime = {
    .name = "cuda",
    .open = open_device,
    .close = close_device,
    .select = select_device,
    .describe = describe,
    .stream = stream,
    .error = error_text,
    .allocate = allocate,
    .release = release,
    .write = write,
    .read = read,
    .sync = synchronize,
    .pace = pace,
    .watch = set_watch,
    .memory = memory_left,
    .fork = fork_stream,
    .join = join_stream,
    .record = record,
    .replay = replay,
    .free_graph = free_graph,
    .mark = mark,
    .elapsed = elapsed,
};
