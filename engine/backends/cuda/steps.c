/* Runs the steps of a plan. The first time that a set of rules is active in a step (by their nodes' `when`), the rules
 * are launched one by one: kernels are loaded at their first launch, which cannot be recorded. The second time they are
 * recorded as a CUDA graph, which is replayed from then on. A run that updates a moving average every few steps has two
 * sets: with and without this update.
 *
 * Gradients are added over the processes on a second stream, which is part of the graph (sums.c). Sums through host
 * memory wait for the stream, so steps with such a sum are always launched one by one. Steps that CUDA refuses to
 * record are launched one by one, too.
 *
 * A recorded launch repeats identical arguments, so rules read the step number on the device and get step 0 here. */
#include "backends/cuda/cuda.h"
#include "core/system.h"
#include "graph/op.h"

#include <string.h>

enum { MAX_SETS = 8, MEASURED_RUNS = 3 };

typedef struct active_set { /* rules active in a step; `graph` refers to this struct, so it must not move */
    d9_plan *plan;
    uint8_t *active;       /* (placed_count): 1: the rule is active */
    void *graph;           /* NULL: not recorded */
    int64_t scratch_moves; /* cuda->scratch_moves when the graph was recorded */
    int64_t runs;
    d9_cuda_gradient_sums sums;
    bool unrecorded; /* launched one by one in every step: its sums wait for the stream, or the recording failed */
} active_set;

typedef struct steps { /* d9_plan.data */
    active_set set[MAX_SETS];
    int64_t set_count; /* sets ever seen; beyond MAX_SETS the oldest is replaced */
    uint8_t *active;   /* (MAX_SETS + 1, placed_count): for the sets, then for the current step */
    double *seconds;   /* (placed_count): total of the timed runs */
    int64_t *measured; /* (placed_count): number of timed runs */
    bool measuring;
} steps;

static d9_cuda *cuda_of(const d9_plan *plan) { return plan->device->backend; }

/* ---- launching the active rules ---- */

static bool is_update(const d9_placed_rule *placed) { return d9_op_info_of(placed->site.nodes[0]->op)->update; }

static d9_status check_gradient_range(d9_context *context, const d9_plan *plan, int64_t begin, int64_t end) {
    const d9_cuda *cuda = cuda_of(plan);
    const d9_kernel_in gradients = {(const float *)plan->device->buffers[D9_BUFFER_GRADIENT] + begin, D9_KERNEL_F32};
    return d9_cuda_check(context, &plan->placed[0].site,
                         d9_cuda_guard_check(cuda->stream, gradients, end - begin, begin, cuda->gradient_ends,
                                             cuda->gradient_count, cuda->guard));
}

/* Checks that the gradients which this step's updates read are finite, with one launch per range of neighbours. */
static d9_status check_gradients(d9_context *context, const active_set *set) {
    enum { GAP = 16 }; /* no gap between parameters is larger, in elements (step/layout.c) */
    d9_status status = D9_OK;
    const d9_plan *plan = set->plan;
    int64_t begin = 0, end = 0;
    for (int i = 0; i < plan->placed_count; i++) {
        const d9_site *site = &plan->placed[i].site;
        for (int n = 0; n < site->node_count && set->active[i] && is_update(&plan->placed[i]); n++) {
            const d9_value *gradient = &plan->graph->values[site->nodes[n]->inputs[1]];
            const int64_t first = gradient->offset / (int64_t)sizeof(float);
            if (end > 0 && (first < end || first > end + GAP)) D9_TRY(check_gradient_range(context, plan, begin, end));
            if (end == 0 || first < end || first > end + GAP) begin = first;
            end = first + d9_shape_count(&gradient->shape);
        }
    }
    if (end > 0) D9_TRY(check_gradient_range(context, plan, begin, end));
done:
    return status;
}

static d9_status update_guard(d9_context *context, const d9_plan *plan, const d9_site *site) {
    const int64_t every = plan->device->options.loss_scale_every;
    const d9_cuda_guard_rule fixed = {1, 1, 0}, moving = {2, 0.5f, (int32_t)every};
    const d9_cuda *cuda = cuda_of(plan);
    return d9_cuda_check(context, site,
                         d9_cuda_guard_end_step(cuda->stream, every ? &moving : &fixed, cuda->step, cuda->guard));
}

typedef struct progress {   /* progress of the step that is being launched */
    bool gradients_checked; /* the gradients were checked; only in fp16 */
    int sums;               /* number of sums submitted */
} progress;

/* Submits the sums of the gradients that earlier rules have completed, then runs one rule. In fp16 (cuda->guard),
 * checks the gradients before the step's first update. */
static d9_status run_rule(d9_context *context, const active_set *set, int i, progress *at) {
    d9_status status;
    const d9_placed_rule *placed = &set->plan->placed[i];
    D9_TRY(d9_cuda_sums_start(context, set->plan, &set->sums, placed->first, &at->sums));
    if (is_update(placed) && cuda_of(set->plan)->guard && !at->gradients_checked) {
        D9_TRY(check_gradients(context, set));
        at->gradients_checked = true;
    }
    D9_TRY(placed->rule->run(context, &placed->site, 0));
done:
    return status;
}

static d9_status end_step(d9_context *context, const d9_plan *plan, bool updated) {
    d9_status status = D9_OK;
    const d9_cuda *cuda = cuda_of(plan);
    const d9_site *site = &plan->placed[0].site;
    if (updated) D9_TRY(update_guard(context, plan, site));
    D9_TRY(d9_cuda_check(context, site, d9_cuda_advance(cuda->stream, plan->batches, cuda->step)));
done:
    return status;
}

static d9_status launch_step(d9_context *context, void *what) {
    d9_status status = D9_OK;
    const active_set *set = what;
    progress at = {.gradients_checked = false};
    for (int i = 0; i < set->plan->placed_count; i++)
        if (set->active[i]) D9_TRY(run_rule(context, set, i, &at));
    D9_TRY(end_step(context, set->plan, at.gradients_checked));
done:
    return status;
}

/* launch_step, with a time stamp after each rule. */
static d9_status launch_step_timed(d9_context *context, steps *s, const active_set *set) {
    d9_status status;
    const d9_plan *plan = set->plan;
    const d9_cuda *cuda = cuda_of(plan);
    progress at = {.gradients_checked = false};
    int last = 0;
    D9_TRY(cuda->driver->mark(context, cuda->state, 0));
    for (int i = 0; i < plan->placed_count; i++) {
        if (!set->active[i]) continue;
        D9_TRY(run_rule(context, set, i, &at));
        D9_TRY(cuda->driver->mark(context, cuda->state, i + 1));
    }
    D9_TRY(end_step(context, plan, at.gradients_checked));
    for (int i = 0; i < plan->placed_count; i++) {
        double seconds;
        if (!set->active[i]) continue;
        D9_TRY(cuda->driver->elapsed(context, cuda->state, last, i + 1, &seconds));
        s->seconds[i] += seconds;
        s->measured[i]++;
        last = i + 1;
    }
done:
    return status;
}

/* ---- sets of active rules ---- */

static active_set *find_set(steps *s, d9_plan *plan, int64_t step) {
    const size_t count = (size_t)plan->placed_count;
    uint8_t *active = s->active + MAX_SETS * count;
    for (int i = 0; i < plan->placed_count; i++) active[i] = d9_plan_active(plan, i, step);
    for (int64_t k = 0; k < s->set_count && k < MAX_SETS; k++)
        if (memcmp(s->set[k].active, active, count) == 0) return &s->set[k];
    return NULL;
}

static void free_set(d9_context *context, active_set *set) {
    if (!set->plan) return;
    const d9_cuda *cuda = cuda_of(set->plan);
    if (set->graph) cuda->driver->free_graph(context, cuda->state, set->graph);
    d9_cuda_sums_free(context, &set->sums);
}

/* Adds the set of rules active in the current step; if there are MAX_SETS already, it replaces the oldest one. */
static d9_status add_set(d9_context *context, steps *s, d9_plan *plan, active_set **made) {
    d9_status status;
    const size_t count = (size_t)plan->placed_count;
    const int64_t k = s->set_count++ % MAX_SETS;
    active_set *set = &s->set[k];
    free_set(context, set);
    *set = (active_set){.plan = plan, .active = s->active + (size_t)k * count};
    memcpy(set->active, s->active + MAX_SETS * count, count);
    D9_TRY(d9_cuda_sums_plan(context, plan, set->active, &set->sums));
    set->unrecorded = set->sums.waits;
    *made = set;
done:
    return status;
}

/* Records a step. If that fails although the device works, warns once, and the set stays unrecorded for ever. */
static d9_status record(d9_context *context, active_set *set) {
    d9_cuda *cuda = cuda_of(set->plan);
    const d9_status status = cuda->driver->record(context, cuda->state, launch_step, set, &set->graph);
    if (status == D9_OK || cuda->driver->sync(context, cuda->state) != D9_OK) return status;
    if (!cuda->warned_unrecorded)
        d9_log(context, D9_LOG_WARNING, "%s: kernels are launched one by one instead of as a CUDA graph, more slowly",
               context->message);
    cuda->warned_unrecorded = set->unrecorded = true;
    d9_context_clear(context);
    return D9_OK;
}

/* Runs a step as a CUDA graph. Records the graph first if there is none, or if the scratch memory has moved. */
static d9_status replay(d9_context *context, active_set *set) {
    d9_status status = D9_OK;
    const d9_cuda *cuda = cuda_of(set->plan);
    if (set->graph && set->scratch_moves != cuda->scratch_moves) {
        cuda->driver->free_graph(context, cuda->state, set->graph);
        set->graph = NULL;
    }
    if (!set->graph) {
        D9_TRY(record(context, set));
        set->scratch_moves = cuda->scratch_moves;
    }
    if (set->unrecorded)
        D9_TRY(launch_step(context, set));
    else
        D9_TRY(cuda->driver->replay(context, cuda->state, set->graph));
done:
    return status;
}

/* ---- running ---- */

static bool needs_timing(const steps *s, const active_set *set) {
    for (int i = 0; s->measuring && i < set->plan->placed_count; i++)
        if (set->active[i] && s->measured[i] < MEASURED_RUNS) return true;
    return false;
}

/* Writes the step number unless the device has it already: the last launch of a step advances it. */
static d9_status set_step(d9_context *context, d9_cuda *cuda, int64_t step) {
    d9_status status = D9_OK;
    if (cuda->step_on_device != step) D9_TRY(cuda->driver->write(context, cuda->state, cuda->step, &step, sizeof step));
    cuda->step_on_device = step;
done:
    return status;
}

d9_status d9_cuda_run(d9_context *context, d9_plan *plan, int64_t step) {
    d9_status status;
    d9_cuda *cuda = cuda_of(plan);
    steps *s = plan->data;
    D9_TRY(cuda->driver->pace(context, cuda->state));
    active_set *set = find_set(s, plan, step);
    if (!set) D9_TRY(add_set(context, s, plan, &set));
    D9_TRY(d9_cuda_restore_scratch(context, cuda)); /* after a benchmark, or a plan that failed */
    D9_TRY(d9_cuda_check_indices(context, plan));
    D9_TRY(set_step(context, cuda, step));
    cuda->step_on_device = -1; /* unknown if the step fails */
    if (needs_timing(s, set))
        D9_TRY(launch_step_timed(context, s, set));
    else if (set->runs == 0 || set->unrecorded)
        D9_TRY(launch_step(context, set));
    else
        D9_TRY(replay(context, set));
    cuda->step_on_device = step + plan->batches;
    set->runs++;
    for (int i = 0; i < plan->placed_count; i++) plan->placed[i].runs += set->active[i];
done:
    return status;
}

/* Launches all rules, even those not due in step 0: CUDA loads a kernel at its first launch. Restores the guard. */
d9_status d9_cuda_load(d9_context *context, d9_plan *plan) {
    d9_status status;
    d9_cuda *cuda = cuda_of(plan);
    d9_cuda_guard guard;
    uint8_t *all = NULL;
    active_set set = {.plan = plan};
    D9_TRY(D9_ALLOCATE(context, plan->placed_count, "a plan", &all));
    memset(all, 1, (size_t)plan->placed_count);
    set.active = all;
    D9_TRY(cuda->driver->select(context, cuda->state));
    if (cuda->guard) D9_TRY(cuda->driver->read(context, cuda->state, cuda->guard, &guard, sizeof guard));
    D9_TRY(d9_cuda_check_indices(context, plan));
    D9_TRY(d9_cuda_sums_plan(context, plan, all, &set.sums));
    D9_TRY(set_step(context, cuda, 0));
    cuda->step_on_device = -1;
    D9_TRY(launch_step(context, &set));
    if (cuda->guard) D9_TRY(cuda->driver->write(context, cuda->state, cuda->guard, &guard, sizeof guard));
    D9_TRY(cuda->driver->sync(context, cuda->state));
done:
    d9_cuda_sums_free(context, &set.sums);
    d9_release(context, all);
    return status;
}

/* ---- plans ---- */

static d9_status finish_planning(d9_context *context, d9_cuda *cuda, const d9_program *program) {
    d9_status status;
    int64_t bytes;
    D9_TRY(d9_cuda_epoch_order_bytes(context, cuda, program, &bytes));
    D9_TRY(d9_cuda_reserve_scratch(context, cuda, bytes));
    D9_TRY(d9_cuda_restore_scratch(context, cuda));
    d9_cuda_choices_save(context, cuda->choices);
done:
    return status;
}

d9_status d9_cuda_plan(d9_context *context, d9_device *device, const d9_program *program, const d9_graph *graph,
                       d9_plan **plan) {
    d9_status status;
    void *memory = NULL;
    d9_plan *made = NULL;
    d9_cuda *cuda = device->backend;
    *plan = NULL;
    D9_TRY(cuda->driver->select(context, cuda->state));
    D9_TRY(d9_host_plan(context, device, program, graph, &made));
    D9_TRY(finish_planning(context, cuda, program));
    const size_t count = (size_t)made->placed_count;
    const size_t bytes = sizeof(steps) + count * (sizeof(double) + sizeof(int64_t) + MAX_SETS + 1);
    D9_TRY(d9_allocate(context, bytes, "a plan", &memory));
    steps *s = made->data = memory;
    s->seconds = (double *)(s + 1);
    s->measured = (int64_t *)(s->seconds + count);
    s->active = (uint8_t *)(s->measured + count);
    *plan = made;
    made = NULL;
done:
    d9_cuda_plan_free(context, made);
    return status;
}

void d9_cuda_plan_free(d9_context *context, d9_plan *plan) {
    if (!plan) return;
    steps *s = plan->data;
    for (int k = 0; s && k < MAX_SETS; k++) free_set(context, &s->set[k]);
    d9_release(context, s);
    d9_host_plan_free(context, plan);
}

/* ---- times ---- */

int d9_cuda_times(d9_plan *plan, d9_rule_time *rows, int capacity, bool reset) {
    steps *s = plan->data;
    for (int i = 0; i < plan->placed_count; i++) {
        d9_placed_rule *placed = &plan->placed[i];
        const double mean = s->measured[i] > 0 ? s->seconds[i] / (double)s->measured[i] : 0;
        placed->seconds = mean * (double)placed->runs;
        if (reset) s->seconds[i] = 0;
        if (reset) s->measured[i] = 0;
    }
    s->measuring = reset;
    return d9_host_times(plan, rows, capacity, reset);
}
