/* Sums of gradients over the processes.
 *
 * Between GPUs (nccl.c) a step's gradients are added in segments on a second stream, each as soon as the last node that
 * touches it has been submitted, while the first stream goes on with the backward pass; the rule all_reduce makes the
 * first stream wait for them. Segments and their order follow from the nodes alone, so they are the same in every
 * process, whatever rules it has chosen. Without NCCL the rule itself adds, through host memory. */
#include "backends/cuda/cuda.h"
#include "core/system.h"

#include <stdio.h>
#include <stdlib.h>

enum { CUT = 16 }; /* segments begin at multiples of this many elements, as gradients do (step/layout.c) */

/* ---- joining the GPUs ---- */

/* Makes the process add gradients through host memory from now on. Warns with the reason: that this build has no NCCL,
 * otherwise the error in `context`, otherwise `found`. */
static void switch_to_host_sums(d9_context *context, d9_cuda *cuda, const char *found) {
    const char *reason = cuda->reducer ? context->message : "this build has no NCCL, whose header nccl.h was not found";
    d9_log(context, D9_LOG_WARNING, "gradients are added through host memory, which is slow: %s",
           *reason ? reason : found);
    d9_context_clear(context);
    if (cuda->reducer) cuda->reducer->close(context, cuda->reducer_state);
    cuda->reducer = NULL;
    cuda->reducer_state = NULL;
}

typedef struct gpu {  /* the GPU of a process, as all processes exchange it */
    double host, pci; /* d9_parallel.host; PCI address on that host, 0: the process cannot load NCCL */
} gpu;

/* Writes the reason for which the processes cannot join their GPUs, or "" if they can. NCCL rejects two processes on
 * one GPU. */
static void find_obstacle(const gpu *gpus, int ranks, char *reason, size_t size) {
    *reason = 0;
    for (int a = 0; a < ranks && !*reason; a++) {
        if (gpus[a].pci == 0) snprintf(reason, size, "process %d cannot load NCCL", a);
        for (int b = 0; b < a && !*reason; b++)
            if (gpus[a].host == gpus[b].host && gpus[a].pci == gpus[b].pci)
                snprintf(reason, size, "processes %d and %d have one GPU, and NCCL needs one for each", b, a);
    }
}

/* Joins the GPUs or switches to host sums. The processes exchange their GPUs' addresses, so that all decide alike. */
static d9_status join_gpus(d9_context *context, d9_cuda *cuda, d9_parallel *parallel) {
    d9_status status;
    gpu *gpus = NULL;
    char reason[96];
    int64_t pci = 0;
    D9_TRY(D9_ALLOCATE(context, parallel->ranks, "the processes' GPUs", &gpus));
    if (cuda->reducer && cuda->reducer->load(context, &cuda->reducer_state, &pci) != D9_OK) pci = 0;
    gpus[parallel->rank] = (gpu){parallel->host, (double)pci};
    D9_TRY(d9_parallel_sum(context, parallel, gpus, 2 * (int64_t)parallel->ranks, true));
    find_obstacle(gpus, parallel->ranks, reason, sizeof reason);
    if (*reason) {
        switch_to_host_sums(context, cuda, reason);
    } else {
        D9_TRY(cuda->reducer->join(context, cuda->reducer_state, parallel));
        cuda->driver->watch(cuda->state, cuda->reducer->watch, cuda->reducer_state);
    }
done:
    d9_release(context, gpus);
    return status;
}

/* ---- segments ---- */

static bool is_sum(const d9_plan *plan, const uint8_t *active, int rule) {
    return active[rule] && plan->placed[rule].site.nodes[0]->op == D9_OP_ALL_REDUCE;
}

/* Range of a value's elements in GRADIENT; empty if it is in another buffer. */
static d9_cuda_segment range_of(const d9_plan *plan, d9_value_id id) {
    const d9_value *value = id == D9_NONE ? NULL : &plan->graph->values[id];
    if (!value || value->buffer != D9_BUFFER_GRADIENT) return (d9_cuda_segment){0, 0, D9_NONE};
    const int64_t begin = value->offset / (int64_t)sizeof(float);
    return (d9_cuda_segment){begin, begin + d9_shape_count(&value->shape), D9_NONE};
}

static bool touches(const d9_plan *plan, const d9_node *node, const d9_cuda_segment *segment) {
    for (int v = 0; v < node->input_count + node->output_count; v++) {
        const d9_cuda_segment range =
            range_of(plan, v < node->input_count ? node->inputs[v] : node->outputs[v - node->input_count]);
        if (range.begin < segment->end && range.end > segment->begin) return true;
    }
    return false;
}

/* Last node of the active rules before rule `sum` that reads or writes the segment; D9_NONE: none. */
static d9_node_id find_ready(const d9_plan *plan, const uint8_t *active, int sum, const d9_cuda_segment *segment) {
    for (int i = sum - 1; i >= 0; i--)
        for (int n = plan->placed[i].site.node_count - 1; n >= 0 && active[i]; n--)
            if (touches(plan, plan->placed[i].site.nodes[n], segment)) return plan->placed[i].first + n;
    return D9_NONE;
}

/* Cuts the range of rule `sum` into segments of `elements` elements, beginning at its end. The backward pass computes
 * the beginning of the range last, so the segment that is ready last is the short one. Returns the number of segments;
 * `made` NULL: only counts them. */
static int cut_range(const d9_plan *plan, const uint8_t *active, int sum, int64_t elements, d9_cuda_segment *made) {
    const d9_cuda_segment all = range_of(plan, plan->placed[sum].site.nodes[0]->inputs[0]);
    int count = 0;
    for (int64_t end = all.end, begin = (end + CUT - 1) / CUT * CUT; end > all.begin; end = begin, count++) {
        begin = begin - elements > all.begin ? begin - elements : all.begin;
        if (!made) continue;
        made[count] = (d9_cuda_segment){begin, end, D9_NONE};
        made[count].ready = find_ready(plan, active, sum, &made[count]);
    }
    return count;
}

static int by_ready(const void *left, const void *right) {
    const d9_cuda_segment *a = left, *b = right;
    if (a->ready != b->ready) return a->ready < b->ready ? -1 : 1;
    return a->begin > b->begin ? -1 : a->begin < b->begin;
}

d9_status d9_cuda_sums_plan(d9_context *context, const d9_plan *plan, const uint8_t *active,
                            d9_cuda_gradient_sums *sums) {
    d9_status status = D9_OK;
    d9_cuda *cuda = plan->device->backend;
    d9_parallel *parallel = plan->device->options.parallel;
    int count = 0;
    *sums = (d9_cuda_gradient_sums){0};
    for (int i = 0; i < plan->placed_count; i++) sums->waits |= is_sum(plan, active, i);
    if (!sums->waits) return D9_OK;
    if (d9_parallel_ranks(parallel) > 1 && !cuda->reducer_state && !cuda->joined)
        D9_TRY(join_gpus(context, cuda, parallel));
    cuda->joined = true;
    if (!cuda->reducer_state) goto done;
    sums->waits = false;
    const int64_t elements = cuda->reducer->segment_bytes / (int64_t)sizeof(float) / CUT * CUT;
    for (int i = 0; i < plan->placed_count; i++)
        if (is_sum(plan, active, i)) count += cut_range(plan, active, i, elements, NULL);
    D9_TRY(D9_ALLOCATE(context, count, "the sums of a step", &sums->segment));
    for (int i = 0; i < plan->placed_count; i++)
        if (is_sum(plan, active, i)) sums->count += cut_range(plan, active, i, elements, sums->segment + sums->count);
    qsort(sums->segment, (size_t)count, sizeof *sums->segment, by_ready);
done:
    return status;
}

void d9_cuda_sums_free(d9_context *context, d9_cuda_gradient_sums *sums) {
    d9_release(context, sums->segment);
    *sums = (d9_cuda_gradient_sums){0};
}

/* ---- adding ---- */

d9_status d9_cuda_sums_start(d9_context *context, const d9_plan *plan, const d9_cuda_gradient_sums *sums,
                             d9_node_id node, int *next) {
    d9_status status = D9_OK;
    const d9_cuda *cuda = plan->device->backend;
    float *gradient = (float *)(void *)plan->device->buffers[D9_BUFFER_GRADIENT];
    for (; *next < sums->count && sums->segment[*next].ready < node; ++*next) {
        const d9_cuda_segment *segment = &sums->segment[*next];
        d9_cuda_stream beside;
        D9_TRY(cuda->driver->fork(context, cuda->state, &beside));
        D9_TRY(cuda->reducer->sum(context, cuda->reducer_state, gradient + segment->begin,
                                  segment->end - segment->begin, beside));
    }
done:
    return status;
}

/* The site's data are a pointer to the gradient in host memory; NULL until the first sum without NCCL allocates it. */
d9_status d9_cuda_prepare_all_reduce(d9_context *context, d9_site *site) {
    return d9_allocate(context, sizeof(void *), "a pointer to a gradient on the host", &site->data);
}

void d9_cuda_release_all_reduce(d9_context *context, d9_site *site) {
    if (site->data) d9_release(context, *(void **)site->data);
    d9_release(context, site->data);
}

/* Adds the gradient over the processes through host memory, without NCCL. */
static d9_status sum_gradient_on_host(d9_context *context, const d9_site *site) {
    d9_status status;
    const d9_value_id gradient = site->nodes[0]->outputs[0];
    const d9_cuda *cuda = d9_cuda_of(site);
    const int64_t bytes = d9_site_bytes(site, gradient);
    void **sum = site->data;
    if (!*sum) D9_TRY(d9_allocate(context, (size_t)bytes, "the gradient on the host", sum));
    D9_TRY(cuda->driver->read(context, cuda->state, d9_site_data(site, gradient), *sum, bytes));
    D9_TRY(d9_parallel_sum(context, site->options->parallel, *sum, d9_site_count(site, gradient), false));
    D9_TRY(cuda->driver->write(context, cuda->state, d9_site_data(site, gradient), *sum, bytes));
done:
    return status;
}

D9_CUDA_RUN(all_reduce) {
    const d9_cuda *cuda = d9_cuda_of(site);
    (void)step;
    return cuda->reducer_state ? cuda->driver->join(context, cuda->state) : sum_gradient_on_host(context, site);
}
