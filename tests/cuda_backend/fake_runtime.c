/* A fake CUDA runtime over host memory, whose kernels run on the simulated GPU (tests/cuda_model): see fake.h. It is as
 * strict as CUDA's: memory is not zeroed, a copy must be within one allocation, waiting, allocating and loading code
 * are illegal during capture, and a kernel's error is reported at the next wait and stays. Writes past an allocation
 * are counted. */
#include "tests/cuda_backend/fake.h"
#include "tests/cuda_backend/fake_state.h"
#include "tests/cuda_model/model.h"
#include "tests/cuda_model/stream.h"
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 512, GUARD = 4096, GUARD_BYTE = 0xa5 }; /* GUARD bytes of value GUARD_BYTE follow each allocation */

typedef struct block { /* an allocation of device memory */
    uint8_t *data;
    size_t bytes, guarded; /* the guard begins at `guarded` */
} block;

static struct CUstream_st {
    d9_model_list *pending, *captured; /* captured: NULL outside a capture */
    bool spoilt, sums;                 /* the capture will fail; it contains sums of NCCL */
    size_t reads;                      /* queued copies to the host */
    /* of the second stream: the lowest index in the first stream's list for its next work; the number of items so far;
     * the number of those for which the first stream waits */
    size_t first_place, submitted, joined;
    bool forked; /* the second stream belongs to the capture */
    int device;
} the_stream, second_stream;
struct CUevent_st {
    double seconds;
    int pending; /* records not yet reached by the stream */
    bool timed;
    cudaStream_t stream; /* stream that recorded the event last */
    size_t place;        /* number of items in that stream's list when the event was recorded */
    size_t submitted;    /* `submitted` of that stream when the event was recorded */
};
struct CUgraph_st {
    d9_model_list *list;
    bool sums;
};
struct CUgraphExec_st {
    d9_model_list *list;
    bool sums;
};

static void reset(void);
static void set_device(int device);
#define FRESH                                                                                                          \
    {                                                                                                                  \
        .memory_bytes = 512 << 20, .devices = 1, .major = 9, .driver_version = 13000, .runtime_version = 13000,        \
        .choices = D9_FAKE_CHOICES, .forbid = d9_model_forbid, .set_device = set_device, .reset = reset                \
    }
static const d9_fake fresh = FRESH;
static d9_fake fake = FRESH;
static block blocks[BLOCKS];
static cudaError_t last, sticky;
static double now;
static size_t rejected_bytes = SIZE_MAX; /* size of the smallest allocation that fails */
static atomic_int recorded_sums;         /* graphs with sums; ncclCommAbort reads it in another thread */
static int64_t changes;                  /* completed copies and memsets to device memory, products and sums */

d9_fake *d9_fake_get(void) { return &fake; }
void d9_fake_advance_time(double seconds) { now += seconds; }
int64_t d9_fake_change_count(void) { return changes + (int64_t)d9_model_launches(); }
void d9_fake_note_change(void) { changes++; }
bool d9_fake_capturing(void) { return the_stream.captured != NULL; }

/* Returns `error`, and stores it: cudaGetLastError and the next launch report it. */
static cudaError_t store_error(cudaError_t error) {
    if (error == cudaSuccess) return error;
    last = error;
    d9_model_set_pending_error((int)error);
    return error;
}

/* Called first by nearly every function: returns the planted failure or the sticky error, if any. */
static cudaError_t begin(void) {
    fake.counts.loaded = (int64_t)d9_model_loaded() + d9_fake_convolutions_loaded();
    if (++fake.counts.calls == fake.fail_at) return store_error((cudaError_t)fake.fail_with);
    return store_error(sticky);
}

/* Called first by functions that are illegal during capture. */
static cudaError_t begin_uncaptured(void) {
    const cudaError_t error = begin();
    if (error != cudaSuccess || !the_stream.captured) return error;
    fake.counts.illegal++;
    the_stream.spoilt = true;
    return store_error(cudaErrorStreamCaptureUnsupported);
}

#define BEGIN(how)                                                                                                     \
    do {                                                                                                               \
        const cudaError_t begun = how();                                                                               \
        if (begun != cudaSuccess) return begun;                                                                        \
    } while (0)

cudaError_t cudaGetLastError(void) {
    const cudaError_t error = last;
    last = sticky;
    d9_model_set_pending_error((int)sticky);
    return error;
}

const char *cudaGetErrorString(cudaError_t error) {
    if (error == cudaErrorInsufficientDriver) return "CUDA driver version is insufficient for CUDA runtime version";
    if (error == cudaErrorNoDevice) return "no CUDA-capable device is detected";
    if (error == cudaErrorMemoryAllocation) return "out of memory";
    if (error == cudaErrorNoKernelImageForDevice) return "no kernel image is available for execution on the device";
    return *d9_model_failure() ? d9_model_failure() : "planted failure";
}

cudaError_t cudaGetDeviceCount(int *count) {
    BEGIN(begin);
    *count = 0;
    if (fake.driver_version / 1000 < fake.runtime_version / 1000) return store_error(cudaErrorInsufficientDriver);
    if (fake.device_error) return store_error((cudaError_t)fake.device_error);
    *count = fake.devices;
    return fake.devices > 0 ? cudaSuccess : store_error(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
    BEGIN(begin);
    if (device < 0 || device >= fake.devices) return store_error(cudaErrorInvalidDevice);
    set_device(device);
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    BEGIN(begin);
    *device = fake.device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    BEGIN(begin);
    if (device < 0 || device >= fake.devices) return store_error(cudaErrorInvalidDevice);
    *properties = (struct cudaDeviceProp){.name = D9_FAKE_DEVICE,
                                          .totalGlobalMem = (size_t)fake.memory_bytes,
                                          .major = fake.major,
                                          .minor = fake.minor,
                                          .multiProcessorCount = 132,
                                          .pciBusID = D9_FAKE_PCI_BUS + device};
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = fake.driver_version;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = fake.runtime_version;
    return cudaSuccess;
}

static d9_model_list *first_list(void) { return the_stream.captured ? the_stream.captured : the_stream.pending; }

/* Atomic, because another thread may end the hang. */
bool d9_fake_hangs(void) {
    const int64_t hang = __atomic_load_n(&fake.hang_reduction, __ATOMIC_ACQUIRE);
    return hang && fake.counts.reductions >= hang;
}
void d9_fake_end_hang(void) { __atomic_store_n(&fake.hang_reduction, 0, __ATOMIC_RELEASE); }

void d9_fake_note_recorded_sum(void) { the_stream.sums = true; }
int d9_fake_recorded_sums(void) { return atomic_load(&recorded_sums); }

/* Waits at most two seconds for another thread to end the hang; otherwise counts an endless wait. */
static void wait_for_abort(void) {
    static const struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; i < 2000 && d9_fake_hangs(); i++) nanosleep(&pause, NULL);
    fake.counts.endless_waits += d9_fake_hangs();
}

/* Empties the queue after it has run or failed; an error becomes sticky. */
static cudaError_t end_run(cudaError_t error) {
    d9_model_list_clear(the_stream.pending);
    the_stream.reads = 0;
    fake.counts.queued_replays = 0;
    sticky = error;
    return store_error(error);
}

/* Runs the queued work, with the rest of the second stream's work at the end; its first error becomes sticky. */
static cudaError_t drain(void) {
    cudaError_t error = sticky;
    wait_for_abort();
    if (second_stream.pending)
        d9_model_list_move(second_stream.pending, d9_model_list_size(second_stream.pending), the_stream.pending,
                           d9_model_list_size(the_stream.pending));
    second_stream.first_place = 0;
    if (d9_model_list_size(the_stream.pending) == 0) return error;
    fake.counts.waits += d9_model_list_size(the_stream.pending) > the_stream.reads;
    if (error == cudaSuccess) error = (cudaError_t)d9_model_list_run(the_stream.pending);
    return end_run(error);
}

static bool is_reached(const void *what) { return ((const struct CUevent_st *)what)->pending == 0; }

/* Runs the queued work up to the event. */
static cudaError_t run_until(cudaEvent_t event) {
    const size_t queued = d9_model_list_size(the_stream.pending), reads = the_stream.reads;
    if (is_reached(event)) return sticky;
    wait_for_abort();
    const cudaError_t error = (cudaError_t)d9_model_list_run_until(the_stream.pending, is_reached, event);
    const size_t left = d9_model_list_size(the_stream.pending), ran = queued - left;
    second_stream.first_place -= ran < second_stream.first_place ? ran : second_stream.first_place;
    fake.counts.waits += left == 0 && queued > reads;
    fake.counts.event_waits += left > 0;
    return error == cudaSuccess ? cudaSuccess : end_run(error);
}

/* The allocation that contains these bytes; NULL: none. */
static block *block_of(const void *pointer, size_t bytes) {
    const uint8_t *at = pointer;
    for (int b = 0; b < BLOCKS; b++)
        if (blocks[b].data && at >= blocks[b].data && at + bytes <= blocks[b].data + blocks[b].bytes) return &blocks[b];
    return NULL;
}

bool d9_fake_holds(const void *pointer, int64_t bytes) { return bytes == 0 || block_of(pointer, (size_t)bytes); }

static int64_t bytes_left(void) { return fake.memory_bytes - fake.held_bytes - fake.counts.used_bytes; }

cudaError_t cudaMemGetInfo(size_t *left, size_t *total) {
    BEGIN(begin_uncaptured);
    *left = (size_t)bytes_left();
    *total = (size_t)fake.memory_bytes;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    int b = 0;
    BEGIN(begin_uncaptured);
    while (b < BLOCKS && blocks[b].data) b++;
    if (bytes == 0 || b == BLOCKS) return store_error(cudaErrorInvalidValue);
    if (++fake.counts.allocations == fake.reject_at) rejected_bytes = bytes;
    if (bytes >= rejected_bytes || (int64_t)bytes > bytes_left()) return store_error(cudaErrorMemoryAllocation);
    const size_t room = (bytes + 255) / 256 * 256;
    *pointer = aligned_alloc(256, room + GUARD);
    if (!*pointer) return store_error(cudaErrorMemoryAllocation);
    const size_t guarded = bytes > (size_t)fake.short_bytes ? bytes - (size_t)fake.short_bytes : 0;
    memset(*pointer, 0xff, guarded);
    memset((uint8_t *)*pointer + guarded, GUARD_BYTE, room + GUARD - guarded);
    blocks[b] = (block){*pointer, bytes, guarded};
    fake.counts.used_bytes += (int64_t)bytes;
    if (fake.counts.used_bytes > fake.counts.most_bytes) fake.counts.most_bytes = fake.counts.used_bytes;
    return cudaSuccess;
}

static bool is_overrun(const block *b) {
    for (size_t i = 0; i < GUARD; i++)
        if (b->data[b->guarded + i] != GUARD_BYTE) return true;
    return false;
}

/* Frees the memory even if an earlier failure is reported, as CUDA does. */
cudaError_t cudaFree(void *pointer) {
    const cudaError_t error = begin_uncaptured();
    if (!pointer) return error;
    block *b = block_of(pointer, 1);
    if (!b || b->data != pointer) return store_error(cudaErrorInvalidValue);
    if (the_stream.pending) drain();
    fake.counts.frees++;
    fake.counts.used_bytes -= (int64_t)b->bytes;
    fake.counts.overruns += is_overrun(b);
    free(b->data);
    *b = (block){NULL, 0, 0};
    return error;
}

typedef struct move { /* a queued copy or memset */
    uint8_t *to;
    const uint8_t *from; /* NULL: memset to `value` */
    size_t bytes;
    int value;
    bool read; /* to the host */
} move;

static int do_move(const void *what) {
    const move *m = what;
    if (m->from)
        memcpy(m->to, m->from, m->bytes);
    else
        memset(m->to, m->value, m->bytes);
    changes += block_of(m->to, m->bytes) != NULL;
    the_stream.reads -= m->read;
    now += 1e-6;
    return 0;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    const move m = {to, NULL, bytes, value, false};
    BEGIN(begin);
    if (!block_of(to, bytes)) return store_error(cudaErrorInvalidValue);
    return store_error((cudaError_t)d9_model_submit(stream, do_move, &m, sizeof m));
}

/* The copy reads its source when the stream reaches it, so it copies wrong bytes if the host has overwritten or freed
 * the source by then. CUDA may do so, and does for pinned memory. Copies must not be captured. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    const move m = {to, from, bytes, 0, kind == cudaMemcpyDeviceToHost};
    BEGIN(begin_uncaptured);
    if (!block_of(kind == cudaMemcpyHostToDevice ? to : from, bytes)) return store_error(cudaErrorInvalidValue);
    if (kind == cudaMemcpyHostToDevice) fake.counts.writes++;
    if (kind == cudaMemcpyDeviceToHost) fake.counts.reads++;
    if (kind == cudaMemcpyDeviceToHost) the_stream.reads++;
    return store_error((cudaError_t)d9_model_submit(stream, do_move, &m, sizeof m));
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    BEGIN(begin_uncaptured);
    if (flags != cudaHostAllocDefault) return store_error(cudaErrorInvalidValue);
    size_t *made = aligned_alloc(64, 64 + (bytes + 63) / 64 * 64);
    if (!made) return store_error(cudaErrorMemoryAllocation);
    *made = bytes;
    *pointer = (uint8_t *)made + 64;
    fake.counts.pinned_bytes += (int64_t)bytes;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *pointer) {
    size_t *made = (size_t *)(void *)((uint8_t *)pointer - 64);
    if (the_stream.pending) drain();
    fake.counts.pinned_bytes -= (int64_t)*made;
    free(made);
    return begin_uncaptured();
}

/* ---- the stream, graphs and events ---- */

/* Sends launches to the capture, if there is one, otherwise to the queue; rejects them if another device is current. */
static void route_launches(void) {
    const bool capturing = the_stream.captured, accepts = the_stream.pending && the_stream.device == fake.device;
    d9_model_queue_to(capturing ? the_stream.captured : the_stream.pending, accepts ? &the_stream : NULL, capturing);
}

static void set_device(int device) {
    fake.device = device;
    route_launches();
}

static cudaError_t check_device(cudaStream_t stream) {
    return stream->device == fake.device ? cudaSuccess : store_error(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    BEGIN(begin);
    if (flags != cudaStreamNonBlocking || second_stream.pending) return store_error(cudaErrorInvalidValue);
    if (the_stream.pending) {
        second_stream = (struct CUstream_st){.pending = d9_model_list_new(), .device = fake.device};
        fake.counts.live_streams++;
        *stream = &second_stream;
        return cudaSuccess;
    }
    the_stream = (struct CUstream_st){.pending = d9_model_list_new(), .device = fake.device};
    fake.counts.live_streams++;
    *stream = &the_stream;
    route_launches();
    if (fake.without_code)
        d9_model_set_pending_error(cudaErrorNoKernelImageForDevice); /* reported at the first launch */
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const cudaError_t error = begin_uncaptured();
    drain();
    d9_model_list_free(stream->pending);
    *stream = (struct CUstream_st){.pending = NULL};
    fake.counts.live_streams--;
    route_launches();
    sticky = cudaSuccess;
    return error;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    (void)stream;
    BEGIN(begin_uncaptured);
    return drain();
}

/* Every second query reports that work is left; while a sum hangs, all but every 10,000th do, so that a caller without
 * a time limit ends, too. event NULL: all work. */
static cudaError_t query(cudaEvent_t event) {
    enum { ENDLESS = 10000 };
    BEGIN(begin_uncaptured);
    const bool asks = ++fake.counts.queries % ENDLESS != 0;
    if (asks && (d9_fake_hangs() || fake.counts.queries % 2)) return store_error(cudaErrorNotReady);
    return event ? run_until(event) : drain();
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    (void)stream;
    return query(NULL);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    BEGIN(begin_uncaptured);
    (void)mode;
    if (check_device(stream) != cudaSuccess) return cudaErrorInvalidResourceHandle;
    stream->captured = d9_model_list_new();
    stream->spoilt = stream->sums = false;
    fake.counts.captures++;
    second_stream.first_place = 0;
    route_launches();
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    const cudaError_t error = begin();
    struct CUgraph_st *made = calloc(1, sizeof *made);
    *graph = NULL;
    if (second_stream.forked && second_stream.submitted != second_stream.joined) {
        fake.counts.illegal++;
        stream->spoilt = true;
    }
    second_stream.forked = false;
    second_stream.first_place = 0;
    if (fake.spoil_captures_from && fake.counts.captures >= fake.spoil_captures_from) stream->spoilt = true;
    if (error != cudaSuccess || stream->spoilt || !made) {
        d9_model_list_free(stream->captured), free(made);
    } else {
        made->list = stream->captured;
        made->sums = stream->sums;
        atomic_fetch_add(&recorded_sums, made->sums);
        *graph = made;
        fake.counts.live_graphs++;
    }
    stream->captured = NULL;
    route_launches();
    return error != cudaSuccess ? error : *graph ? cudaSuccess : store_error(cudaErrorStreamCaptureInvalidated);
}

/* The executable graph takes the list of work from the graph, which can therefore be instantiated only once. */
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long flags) {
    BEGIN(begin_uncaptured);
    if (flags != 0) return store_error(cudaErrorInvalidValue);
    *made = calloc(1, sizeof **made);
    if (!*made) return store_error(cudaErrorMemoryAllocation);
    (*made)->list = graph->list;
    graph->list = NULL;
    (*made)->sums = graph->sums;
    atomic_fetch_add(&recorded_sums, graph->sums);
    fake.counts.instantiations++;
    fake.counts.live_graphs++;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    atomic_fetch_sub(&recorded_sums, graph->sums);
    d9_model_list_free(graph->list), free(graph);
    fake.counts.live_graphs--;
    return begin();
}

static int do_replay(const void *what) { /* runs a launched graph */
    const d9_model_list *list;
    memcpy(&list, what, sizeof list);
    fake.counts.queued_replays--;
    return d9_model_list_run(list);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    BEGIN(begin_uncaptured);
    fake.counts.replays++;
    if (++fake.counts.queued_replays > fake.counts.most_queued) fake.counts.most_queued = fake.counts.queued_replays;
    return store_error((cudaError_t)d9_model_submit(stream, do_replay, &graph->list, sizeof graph->list));
}

/* A graph that is still queued is freed after it has run. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    if (the_stream.pending) drain();
    atomic_fetch_sub(&recorded_sums, graph->sums);
    d9_model_list_free(graph->list), free(graph);
    fake.counts.live_graphs--;
    return begin();
}

static cudaError_t create_event(cudaEvent_t *event, bool timed) {
    BEGIN(begin);
    *event = calloc(1, sizeof **event);
    if (!*event) return store_error(cudaErrorMemoryAllocation);
    (*event)->timed = timed;
    fake.counts.live_events++;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return create_event(event, true); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    return flags == cudaEventDisableTiming ? create_event(event, false) : store_error(cudaErrorInvalidValue);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) { /* an event that is still queued is freed after it was reached */
    if (event->pending > 0) drain();
    free(event);
    fake.counts.live_events--;
    return begin();
}

static int do_mark(const void *what) { /* the stream has reached an event */
    cudaEvent_t event;
    memcpy(&event, what, sizeof event);
    event->seconds = now + 1e-6 * (double)d9_model_launches();
    event->pending--;
    return 0;
}

/* A timed event must not be captured, because its time could not be read. */
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (event->timed) BEGIN(begin_uncaptured);
    if (!event->timed) BEGIN(begin);
    if (check_device(stream) != cudaSuccess) return cudaErrorInvalidResourceHandle;
    event->stream = stream;
    event->submitted = stream->submitted;
    event->place = d9_model_list_size(stream == &the_stream ? first_list() : stream->pending);
    if (the_stream.captured || stream != &the_stream) return cudaSuccess;
    event->pending++;
    return store_error((cudaError_t)d9_model_submit(stream, do_mark, &event, sizeof event));
}

/* If the second stream waits, its next work is placed after the work that the first stream had when the event was
 * recorded. If the first stream waits, the second stream's work up to the event is moved to the end of the first
 * stream's list. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    BEGIN(begin);
    if (flags != 0 || !event->stream || event->stream == stream) return store_error(cudaErrorInvalidValue);
    if (stream == &second_stream) {
        if (event->place > stream->first_place) stream->first_place = event->place;
        stream->forked = the_stream.captured;
        return cudaSuccess;
    }
    second_stream.joined = event->submitted;
    d9_model_list_move(second_stream.pending, event->place, first_list(), d9_model_list_size(first_list()));
    for (int64_t r = 0; r < fake.counts.reductions && r < D9_FAKE_REDUCTIONS; r++)
        if (fake.reduction[r].second && fake.reduction[r].before < 0)
            fake.reduction[r].before = (int64_t)d9_model_list_size(first_list());
    return cudaSuccess;
}

int d9_fake_submit(const void *stream, d9_model_work work, const void *what, size_t bytes) {
    struct CUstream_st *second = &second_stream;
    if (stream != second) return d9_model_submit(stream, work, what, bytes);
    if (check_device(second) != cudaSuccess) return cudaErrorInvalidResourceHandle;
    if (the_stream.captured && !second->forked) {
        fake.counts.illegal++;
        return (int)store_error(cudaErrorStreamCaptureUnsupported);
    }
    d9_model_list_add(second->pending, work, what, bytes);
    second->submitted++;
    if (fake.second_late) return 0;
    d9_model_list_move(second->pending, 1, first_list(), second->first_place++);
    return 0;
}

d9_fake_reduction d9_fake_describe_reduction(const void *stream, const float *values, int64_t count) {
    const bool second = stream == &second_stream;
    const size_t place = second ? second_stream.first_place : d9_model_list_size(first_list());
    return (d9_fake_reduction){values, count, the_stream.captured, second, (int64_t)place, -1};
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    BEGIN(begin_uncaptured);
    return run_until(event);
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return event->pending > 0 ? query(event) : cudaSuccess; }

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to) {
    BEGIN(begin_uncaptured);
    *milliseconds = (float)(1e3 * (to->seconds - from->seconds));
    return cudaSuccess;
}

static void reset(void) {
    fake = fresh;
    rejected_bytes = SIZE_MAX;
    last = sticky = cudaSuccess;
    d9_model_set_pending_error(0);
    d9_model_forbid(NULL, 0);
    d9_model_unload();
    d9_fake_unload_convolutions();
    d9_model_begin_test("");
}
