/* A fake of engine/backends/cuda/cudnn.h with plain loops: see fake.h. Every convolution has seven choices, each for a
 * case that the selection must handle. All choices that run compute the same result in doubles, after overwriting their
 * workspace.
 *
 *   e1  the first, 512 KiB          50 us
 *   e2  cannot be planned
 *   e3  the fastest, 1 MiB          20 us
 *   e4  768 KiB, fails when run, and leaves a pending error
 *   e5  needs 1 GiB                 5 us
 *   e6  6 MiB                       30 us
 *   e7  slow, no workspace          90 us
 *   e62 never offered, no workspace 10 us; the backend must not use it for weight gradients
 *
 * A test can make the result of one choice alternate by one bit.
 *
 * tf32 is computed as f32, unless a test sets tensor_cores: then inputs are rounded first. */
#include "engine/backends/cuda/cudnn.h"
#include "tests/cuda_backend/fake_state.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct fake_choice { /* row_of gives its index in fake_choices */
    int64_t workspace_bytes;
    double seconds;
} fake_choice;
static const fake_choice fake_choices[] = {
    {0},        {512 << 10, 50e-6}, {0}, {1 << 20, 20e-6}, {768 << 10, 1e-6}, {1 << 30, 5e-6}, {6 << 20, 30e-6},
    {0, 90e-6}, {0, 10e-6}};
enum { ROWS = sizeof fake_choices / sizeof *fake_choices, REJECTED = 2, FAILING = 4, ROUNDING = 62 };
_Static_assert(ROWS == (int)D9_FAKE_CHOICES + 2, "they are counted there");

/* Index of an engine in `fake_choices` and in the counters: its number, or the last row for e62; 0: no such engine. */
static int row_of(int64_t engine) {
    if (engine == ROUNDING) return ROWS - 1;
    return engine > 0 && engine <= D9_FAKE_CHOICES ? (int)engine : 0;
}

struct cudnnContext {
    cudaStream_t stream;
};

enum { PASSES = 3, TYPES = 8 };
static bool loaded[ROWS][PASSES][TYPES]; /* submitted since the last reset */

void d9_fake_unload_convolutions(void) { memset(loaded, 0, sizeof loaded); }

int64_t d9_fake_convolutions_loaded(void) {
    int64_t count = 0;
    for (size_t i = 0; i < sizeof loaded; i++) count += (&loaded[0][0][0])[i];
    return count;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    *handle = NULL;
    if (d9_fake_get()->without_cudnn) return CUDNN_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    d9_fake_get()->counts.live_handles++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    d9_fake_get()->counts.live_handles--;
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void) { return 91100; }
const char *cudnnGetErrorString(cudnnStatus_t status) { return status ? "NOT_INITIALIZED" : "SUCCESS"; }

/* Runs until `stop` is set, so a caller that waited without setting it would wait for ever. */
int64_t d9_cudnn_read_ahead(const atomic_bool *stop) {
    while (!atomic_load(stop)) usleep(50);
    d9_fake_get()->counts.read_ahead++;
    return 0;
}

/* Makes and counts a descriptor: one byte, in which a plan has the row of its engine. */
static cudnnBackendDescriptor_t make_descriptor(void) {
    d9_fake_get()->counts.live_descriptors++;
    return malloc(1);
}

static void destroy_descriptor(cudnnBackendDescriptor_t *descriptor) {
    if (*descriptor) d9_fake_get()->counts.live_descriptors--;
    free(*descriptor);
    *descriptor = NULL;
}

d9_status d9_cudnn_graph_make(d9_context *context, const d9_cudnn_target *target,
                              const d9_cudnn_description *description, d9_cudnn_graph *graph) {
    *graph = (d9_cudnn_graph){.description = *description};
    if (!target->handle) return d9_fail(context, D9_DEVICE, "cuDNN: no handle");
    graph->graph = make_descriptor();
    return D9_OK;
}

void d9_cudnn_graph_free(d9_cudnn_graph *graph) { destroy_descriptor(&graph->graph); }

bool d9_cudnn_choice_name(const d9_cudnn_choice *choice, char name[D9_CUDNN_NAME]) {
    return snprintf(name, D9_CUDNN_NAME, "e%d", (int)choice->engine) < D9_CUDNN_NAME;
}

bool d9_cudnn_choice_parse(const char *name, d9_cudnn_choice *choice) {
    int engine;
    char again[D9_CUDNN_NAME];
    *choice = (d9_cudnn_choice){0};
    if (sscanf(name, "e%d", &engine) != 1) return false;
    choice->engine = engine;
    return d9_cudnn_choice_name(choice, again) && strcmp(name, again) == 0;
}

d9_status d9_cudnn_choices(d9_context *context, const d9_cudnn_target *target, const d9_cudnn_graph *graph,
                           d9_cudnn_choice *choices, int capacity, int *count) {
    (void)context, (void)target, (void)graph;
    for (*count = 0; *count < d9_fake_get()->choices && *count < capacity; ++*count)
        choices[*count] = (d9_cudnn_choice){.engine = *count + 1};
    d9_fake_get()->counts.listed++;
    return D9_OK;
}

d9_status d9_cudnn_plan_make(d9_context *context, const d9_cudnn_target *target, const d9_cudnn_graph *graph,
                             const d9_cudnn_choice *choice, d9_cudnn_plan *plan, bool *built) {
    (void)context, (void)target, (void)graph;
    *plan = (d9_cudnn_plan){0};
    const int row = row_of(choice->engine);
    *built = row > 0 && row != REJECTED;
    if (!*built) return D9_OK;
    plan->plan = make_descriptor();
    memcpy(plan->plan, &(char){(char)row}, 1);
    plan->workspace_bytes = fake_choices[row].workspace_bytes;
    d9_fake_get()->counts.plans++;
    return D9_OK;
}

void d9_cudnn_plan_free(d9_cudnn_plan *plan) { destroy_descriptor(&plan->pack), destroy_descriptor(&plan->plan); }

typedef struct work { /* a queued convolution */
    d9_cudnn_description description;
    void *data[D9_CONV_ARGUMENTS], *workspace;
    int64_t workspace_bytes;
    int64_t row; /* of the engine */
    double seconds;
} work;

static int64_t element_count(const d9_conv_tensor *t) { return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3]; }

/* Plain convolution: adds each product to the array that the pass computes: output, image gradient or weight gradient.
 * Only every `every`-th output pixel from `first` on takes part. */
static void add_products(const d9_cudnn_description *d, double *const t[D9_CONV_ARGUMENTS], int64_t first,
                         int64_t every) {
    const int64_t *x = d->tensor[D9_CONV_IMAGE].dims, *w = d->tensor[D9_CONV_WEIGHTS].dims,
                  *y = d->tensor[D9_CONV_OUTPUT].dims; /* (N, C, H, W), (O, C, KH, KW), (N, O, OH, OW) */
    double *image = t[D9_CONV_IMAGE], *weights = t[D9_CONV_WEIGHTS], *output = t[D9_CONV_OUTPUT];
    const d9_fake_sums sums = d->pass == D9_CONV_BACKWARD_WEIGHT ? d9_fake_get()->sums : D9_FAKE_SUMS_RIGHT;
    const int64_t c = x[1], o = w[0], places = y[0] * y[2] * y[3] - (sums == D9_FAKE_SUMS_WITHOUT_A_PLACE);
    for (int64_t p = first; p < places; p += every)
        for (int64_t tap = 0; tap < w[2] * w[3]; tap++) {
            const int64_t row = p / y[3] % y[2] * d->stride[0] + tap / w[3] - d->pad[0];
            const int64_t column = p % y[3] * d->stride[1] + tap % w[3] - d->pad[1];
            if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
            double *xs = image + ((p / (y[2] * y[3]) * x[2] + row) * x[3] + column) * c, *ys = output + p * o;
            const int64_t to = sums == D9_FAKE_SUMS_WITH_TAPS_TURNED ? w[2] * w[3] - 1 - tap : tap;
            for (int64_t k = 0; k < o; k++) {
                double *ws = weights + (k * w[2] * w[3] + to) * c, y_k = ys[k];
                if (d->pass == D9_CONV_FORWARD)
                    for (int64_t i = 0; i < c; i++) y_k += xs[i] * ws[i];
                if (d->pass == D9_CONV_BACKWARD_DATA)
                    for (int64_t i = 0; i < c; i++) xs[i] += y_k * ws[i];
                if (d->pass == D9_CONV_BACKWARD_WEIGHT)
                    for (int64_t i = 0; i < c; i++) ws[i] += y_k * xs[i];
                if (d->pass == D9_CONV_FORWARD) ys[k] = y_k;
            }
        }
}

/* Stores x; a half precision rounds it towards zero. */
static void store_truncated(d9_type type, void *data, int64_t i, double x) {
    d9_fake_store(type, data, i, x);
    if (type != D9_F32 && fabs(d9_fake_load(type, data, i)) > fabs(x)) ((uint16_t *)data)[i]--;
}

/* Computes the pass and stores its result. */
static void compute_pass(const work *job, double *const t[D9_CONV_ARGUMENTS]) {
    const d9_cudnn_description *d = &job->description;
    const int written = d->written;
    const d9_type type = d->tensor[written].type;
    const int64_t count = element_count(&d->tensor[written]);
    const d9_fake_sums sums = d->pass == D9_CONV_BACKWARD_WEIGHT ? d9_fake_get()->sums : D9_FAKE_SUMS_RIGHT;
    const int64_t parts = sums == D9_FAKE_SUMS_IN_PARTS ? 2 : 1;
    for (int64_t part = 0; part < parts; part++) {
        add_products(d, t, part, parts);
        for (int64_t i = 0; i < count; i++) {
            (sums == D9_FAKE_SUMS_CUT ? store_truncated : d9_fake_store)(type, job->data[written], i, t[written][i]);
            t[written][i] = d9_fake_load(type, job->data[written], i);
        }
    }
}

/* True if the job equals that of the previous call and nothing was written in between, as in tuning: its output is
 * still there. Remembers the job for the next call. */
static bool repeats_last_job(const work *job) {
    static work last;
    static int64_t changes;
    const bool same = changes == d9_fake_change_count() && memcmp(&last, job, sizeof last) == 0;
    last = *job;
    changes = d9_fake_change_count();
    return same;
}

static bool is_zero(const double *t, const d9_conv_tensor *tensor) {
    for (int64_t i = 0; t && i < element_count(tensor); i++)
        if (t[i] != 0) return false;
    return true;
}

/* For the unsteady choice: sets the lowest bit of the first element to the parity of the number of convolutions. */
static void make_unsteady(const work *job) {
    uint8_t *written = job->data[job->description.written];
    const d9_fake *fake = d9_fake_get();
    if (job->row == fake->unsteady) written[0] = (uint8_t)((written[0] & ~1) | (fake->counts.convolutions & 1));
}

static int run_convolution(const void *what) {
    const work *job = what;
    const d9_cudnn_description *d = &job->description;
    d9_fake_counts *counts = &d9_fake_get()->counts;
    counts->convolutions++;
    counts->runs[job->row]++;
    d9_fake_advance_time(job->seconds);
    if (element_count(&d->tensor[D9_CONV_IMAGE]) > 1 << 25) return 0; /* the product of the peak rate: only timed */
    if (repeats_last_job(job)) {
        make_unsteady(job);
        return 0;
    }
    double *t[D9_CONV_ARGUMENTS];
    const bool rounds = d->tf32 && d9_fake_get()->tensor_cores;
    if (job->workspace_bytes > 0) memset(job->workspace, 0xff, (size_t)job->workspace_bytes);
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) {
        const int64_t count = element_count(&d->tensor[a]);
        t[a] = calloc((size_t)count, sizeof(double));
        for (int64_t i = 0; t[a] && i < count && a != d->written; i++)
            t[a][i] = d9_fake_load(d->tensor[a].type, job->data[a], i);
        for (int64_t i = 0; rounds && t[a] && i < count; i++) t[a][i] = d9_fake_tf32(t[a][i]);
    }
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) counts->on_zeros += a != d->written && is_zero(t[a], &d->tensor[a]);
    if (t[0] && t[1] && t[2]) compute_pass(job, t);
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) free(t[a]);
    make_unsteady(job);
    return 0;
}

/* True if all arguments are given and aligned as described, and the workspace is aligned to 256 bytes. */
static bool are_aligned(const d9_cudnn_graph *graph, void *const data[D9_CONV_ARGUMENTS], const void *workspace) {
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++)
        if (!data[a] || (uintptr_t)data[a] % (uintptr_t)graph->description.tensor[a].alignment) return false;
    return (uintptr_t)workspace % 256 == 0;
}

d9_status d9_cudnn_run(d9_context *context, cudnnHandle_t handle, const d9_cudnn_graph *graph, d9_cudnn_plan *plan,
                       void *const data[D9_CONV_ARGUMENTS], void *workspace) {
    const char row = *(const char *)plan->plan;
    const fake_choice *choice = &fake_choices[(int)row];
    work job = {.description = graph->description,
                .workspace = workspace,
                .workspace_bytes = choice->workspace_bytes,
                .row = row,
                .seconds = choice->seconds};
    memcpy(job.data, data, sizeof job.data);
    if (row == FAILING) {
        cudaFree(&job); /* leaves a pending error, as a launch with an invalid grid does */
        return d9_fail(context, D9_DEVICE, "cuDNN: a convolution: EXECUTION_FAILED");
    }
    if (!are_aligned(graph, data, workspace))
        return d9_fail(context, D9_DEVICE, "cuDNN: a convolution: BAD_PARAM: alignment");
    if (!d9_fake_holds(workspace, choice->workspace_bytes))
        return d9_fail(context, D9_DEVICE, "cuDNN: a convolution: BAD_PARAM: the workspace is too small");
    loaded[(int)row][graph->description.pass][graph->description.tensor[0].type] = true;
    char name[64];
    snprintf(name, sizeof name, "cuDNN's row %d, pass %d, type %d", row, (int)graph->description.pass,
             (int)graph->description.tensor[0].type);
    destroy_descriptor(&plan->pack);
    plan->pack = make_descriptor();
    int error = d9_model_load_kernel(name);
    if (!error) error = d9_model_submit(handle->stream, run_convolution, &job, sizeof job);
    return error ? d9_fail(context, D9_DEVICE, "cuDNN: a convolution: %d", error) : D9_OK;
}
