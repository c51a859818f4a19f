/* The backend "cuda-model": the CUDA backend's own rules, steps and memory over host memory and the CPU model of the
 * kernels (tests/cuda_model), built as dawn9-cuda.so beside the tests of tests/unit/cuda_backend*.c. For tests alone:
 * it is slow.
 *
 * Two stand-ins: the driver below for the CUDA runtime, and for cuDNN the reference backend's loops, which know nothing
 * of engines and knobs. A recorded step is played as the same work done again: what rules would read on the host while
 * recording is not noticed, but that they do not know the step's number is. */
#include "backends/cuda/cuda.h"
#include "backends/reference/reference.h"
#include "core/system.h"
#include "tests/cuda_model/model.h"

#include <stdio.h>
#include <string.h>

extern const d9_backend d9_backend_reference;

enum { MEMORY_BYTES = 512 << 20, MARKS = 1024 };

/* ---- the driver ---- */

typedef struct model {
    double mark[MARKS];
    int64_t recorded, replayed; /* graphs; times */
} model;

typedef struct recording {
    d9_cuda_work work;
    void *what;
} recording;

static d9_status open_model(d9_context *context, void **driver) {
    return d9_allocate(context, sizeof(model), "the model of a GPU", driver);
}

static void close_model(d9_context *context, void *driver) { d9_release(context, driver); }

static void describe_model(const void *driver, d9_device_info *info) {
    (void)driver;
    snprintf(info->name, sizeof info->name, "cuda-model");
    snprintf(info->version, sizeof info->version, "fibers on the CPU");
    snprintf(info->isa, sizeof info->isa, "model");
    info->memory_bytes = MEMORY_BYTES;
}

static d9_cuda_stream stream_of(const void *driver) {
    (void)driver;
    return NULL;
}

static const char *error_text(int code) {
    (void)code;
    return d9_model_failure();
}

static d9_status allocate(d9_context *context, void *driver, int64_t bytes, const char *purpose, void **pointer) {
    (void)driver;
    return d9_allocate(context, (size_t)bytes, purpose, pointer);
}

static void release(d9_context *context, void *driver, void *pointer) {
    (void)driver;
    d9_release(context, pointer);
}

static d9_status write(d9_context *context, void *driver, void *to, const void *bytes, int64_t size) {
    (void)context, (void)driver;
    memcpy(to, bytes, (size_t)size);
    return D9_OK;
}

static d9_status read(d9_context *context, void *driver, const void *from, void *bytes, int64_t size) {
    return write(context, driver, bytes, from, size);
}

static d9_status synchronize(d9_context *context, void *driver) {
    (void)context, (void)driver;
    return D9_OK;
}

static d9_status memory_left(d9_context *context, void *driver, int64_t *free_bytes, int64_t *total_bytes) {
    (void)context, (void)driver;
    *free_bytes = *total_bytes = MEMORY_BYTES;
    return D9_OK;
}

static d9_status record(d9_context *context, void *driver, d9_cuda_work work, void *what, void **graph) {
    d9_status status;
    D9_TRY(d9_allocate(context, sizeof(recording), "a recorded step", graph));
    *(recording *)*graph = (recording){work, what};
    ((model *)driver)->recorded++;
done:
    return status;
}

static d9_status replay(d9_context *context, void *driver, void *graph) {
    const recording *r = graph;
    ((model *)driver)->replayed++;
    return r->work(context, r->what);
}

static void forget(d9_context *context, void *driver, void *graph) { release(context, driver, graph); }

static d9_status mark(d9_context *context, void *driver, int slot) {
    (void)context;
    ((model *)driver)->mark[slot] = d9_clock_now();
    return D9_OK;
}

static d9_status elapsed(d9_context *context, void *driver, int from, int to, double *seconds) {
    const model *m = driver;
    (void)context;
    *seconds = m->mark[to] - m->mark[from];
    return D9_OK;
}

static const d9_cuda_driver driver = {
    .name = "cuda-model",
    .open = open_model,
    .close = close_model,
    .describe = describe_model,
    .stream = stream_of,
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

/* ---- the stand-in for cuDNN ---- */

static d9_status open_convolver(d9_context *context, const d9_cuda_driver *its_driver, void *state, void **convolver) {
    static const d9_backend_options serial = {.threads = 1};
    d9_status status;
    d9_device *device = NULL;
    (void)its_driver, (void)state;
    D9_TRY(d9_backend_reference.open(context, &serial, &device));
    *convolver = device;
done:
    return status;
}

static void close_convolver(d9_context *context, void *convolver) { d9_backend_reference.close(context, convolver); }

static bool match(const d9_site *site) {
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    return d9_cuda_storable(g.type) && d9_conv_typed(site, &g);
}

static d9_status prepare(d9_context *context, d9_site *site) {
    (void)context;
    snprintf(site->choice, sizeof site->choice, "reference loops");
    return D9_OK;
}

static d9_status run(d9_context *context, const d9_site *site, int64_t step) {
    d9_site there = *site;
    const d9_device *device = d9_cuda_of(site)->convolver_state;
    there.backend = device->backend;
    there.threads = 1;
    if (site->nodes[0]->op == D9_OP_CONV) return d9_reference_CONV(context, &there, step);
    if (site->nodes[0]->op == D9_OP_CONV_BACKWARD_DATA) return d9_reference_CONV_BACKWARD_DATA(context, &there, step);
    return d9_reference_CONV_BACKWARD_WEIGHT(context, &there, step);
}

static void release_site(d9_context *context, d9_site *site) { (void)context, (void)site; }

static d9_status survey(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count) {
    (void)context, (void)site, (void)rows, (void)capacity;
    *count = 0;
    return D9_OK;
}

static const d9_cuda_convolver convolver = {
    .open = open_convolver,
    .close = close_convolver,
    .match = match,
    .prepare = prepare,
    .run = run,
    .release = release_site,
    .survey = survey,
};

/* ---- the module ---- */

static d9_status open_backend(d9_context *context, const d9_backend_options *options, void **backend) {
    (void)options;
    return d9_cuda_open(context, &driver, &convolver, backend);
}

static void describe(const void *backend, d9_device_info *info) {
    d9_cuda_describe(backend, info);
    info->precision[D9_F32] = info->precision[D9_BF16] = info->precision[D9_F16] = true;
}

static const d9_host_kind kind = D9_CUDA_KIND(open_backend, describe);

static d9_status open_device(d9_context *context, const d9_backend_options *options, d9_device **device) {
    return d9_host_open(context, &kind, options, device);
}

static const d9_backend backend =
    D9_CUDA_BACKEND("cuda-model", "the CUDA backend on the CPU: for tests", NULL, open_device);

__attribute__((visibility("default"))) const d9_backend *d9_backend_module(void);
const d9_backend *d9_backend_module(void) { return &backend; }
