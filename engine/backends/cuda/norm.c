/* Rules of batch norm: norm and norm_eval, fused with the pool before and the nodes after; norm_backward, fused with
 * the nodes before and the pool's gradient after. The norm's y, the value between act and add, the output of
 * act_backward, and the pool's output are written only if a node outside of the rule reads them, except that training
 * with passes over memory always writes the pool's output.
 *
 * Algorithms: passes over memory, or, except for norm_eval, one pass that keeps its input on chip, in one of the
 * divisions of the work that the device supports (kernels/cuda/norm_algorithms.cu). Tuning times the passes and the
 * most promising divisions, and caches the choice like those of convolutions (choices.h). `tune: off` uses the first
 * division; a saved plan names the passes or a division. If a division's first launch fails, the passes are used. */
#include "backends/cuda/cuda.h"
#include "core/system.h"
#include "cuda_kernels.h" /* generated: D9_CUDA_KERNELS */

#include <stdio.h>
#include <string.h>

enum { MAX_ALGORITHMS = 8, TIMED_RUNS = 2 }; /* most one-pass algorithms that are timed; `runs` of d9_cuda_time */

typedef struct norm_site {
    d9_cuda_norm_algorithm algorithm; /* runs 0: passes over memory */
    bool trial;                       /* trial run: running statistics are kept in scratch memory */
    d9_cuda_site_memory tickets;      /* counters of the one-pass backward kernel (kernels/cuda/kernels.h) */
} norm_site;

static const d9_cuda_norm_algorithm passes = {.runs = 0};

/* ---- nodes of a site ---- */

typedef struct parts { /* NULL: absent */
    const d9_node *pool, *norm, *act, *add;
} parts;

static parts parts_of(const d9_site *site) {
    parts p = {0};
    for (int n = 0; n < site->node_count; n++) {
        const d9_node *node = site->nodes[n];
        switch (node->op) {
        case D9_OP_POOL:
        case D9_OP_POOL_BACKWARD:
            p.pool = node;
            break;
        case D9_OP_ACT:
        case D9_OP_ACT_BACKWARD:
            p.act = node;
            break;
        case D9_OP_ADD:
            p.add = node;
            break;
        default:
            p.norm = node;
        }
    }
    return p;
}

static bool is_backward(const parts *p) { return p->norm->op == D9_OP_NORM_BACKWARD; }

/* The site without its pool, for the functions of host/shapes.h. */
static d9_site without_pool(const d9_site *site) {
    const parts p = parts_of(site);
    d9_site inner = *site;
    inner.node_count = 0;
    for (int n = 0; n < site->node_count; n++) {
        if (site->nodes[n] == p.pool) continue;
        inner.nodes[inner.node_count++] = site->nodes[n];
    }
    return inner;
}

static d9_kernel_norm shape_of(const d9_site *site) {
    const d9_site inner = without_pool(site);
    return d9_chain_extent(&inner);
}

static d9_value_id x_of(const parts *p) { return p->norm->inputs[is_backward(p) ? 1 : 0]; }

static d9_value_id pool_input_of(const parts *p) { return p->pool->inputs[is_backward(p) ? 1 : 0]; }

/* ---- requirements of the one-pass kernels, and of a pool in the kernel ---- */

/* True if the value has x's type and is aligned to 16 bytes. */
static bool fits_vectors(const d9_site *site, const parts *p, d9_value_id id) {
    return d9_site_value(site, id)->type == d9_site_value(site, x_of(p))->type &&
           ((uintptr_t)d9_site_data(site, id) & 15) == 0;
}

/* True if fits_vectors holds for all activations of the site, none of which may be absent, and the means that a
 * gradient reads are aligned to 16 bytes. */
static bool all_fit_vectors(const d9_site *site, const parts *p) {
    if (is_backward(p) && ((uintptr_t)d9_site_data(site, p->norm->inputs[2]) & 15) != 0) return false;
    for (int n = 0; n < site->node_count; n++) {
        const d9_node *node = site->nodes[n];
        const bool one =
            node->op == D9_OP_NORM || node->op == D9_OP_NORM_EVAL || node->op == D9_OP_POOL || node->op == D9_OP_ACT;
        for (int i = 0; i < (one ? 1 : 2); i++)
            if (!fits_vectors(site, p, node->inputs[i])) return false;
        if (node->outputs[0] == D9_NONE || !fits_vectors(site, p, node->outputs[0])) return false;
    }
    return true;
}

/* True if the pool's windows of 2 x 2 pixels cover its whole input. */
static bool covers_input(const d9_kernel_window *w) {
    return w->height == 2 * w->out_height && w->width == 2 * w->out_width;
}

/* Lists the one-pass algorithms, fastest first by estimate; none if the site or the device supports none, or if the
 * query fails. */
static void list_algorithms(d9_context *context, const d9_site *site,
                            d9_cuda_norm_algorithm algorithms[D9_CUDA_NORM_ALGORITHMS], int *count) {
    const parts p = parts_of(site);
    const d9_kernel_norm shape = shape_of(site);
    const d9_kernel_store store = d9_cuda_store_of(d9_site_value(site, x_of(&p))->type);
    *count = 0;
    if (p.norm->op == D9_OP_NORM_EVAL || !all_fit_vectors(site, &p)) return;
    if (p.pool && is_backward(&p)) {
        const d9_kernel_window window = d9_cuda_window_of(site, p.pool);
        if (!covers_input(&window)) return;
    }
    const int error = d9_cuda_norm_algorithms(&shape, store, is_backward(&p), p.pool != NULL, algorithms,
                                              D9_CUDA_NORM_ALGORITHMS, count);
    if (error)
        d9_log(context, D9_LOG_WARNING, "%s: querying the device: %s", site->nodes[0]->role,
               d9_cuda_of(site)->driver->error(error));
}

/* True if no other input or output of the site shares bytes with the value, so that the kernels may write the value
 * before they have read all inputs. */
static bool has_own_bytes(const d9_site *site, d9_value_id id) {
    for (int n = 0; n < site->node_count; n++) {
        const d9_node *node = site->nodes[n];
        for (int i = 0; i < node->input_count + node->output_count; i++) {
            const d9_value_id other = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
            if (other == D9_NONE || other == id || d9_site_internal(site, other)) continue;
            if (d9_values_overlap(d9_site_value(site, id), d9_site_value(site, other))) return false;
        }
    }
    return true;
}

/* Value between pool and norm: the pool's output; backward, the norm's dx. */
static d9_value_id value_between(const parts *p) { return is_backward(p) ? p->norm->outputs[0] : x_of(p); }

/* True if the norm's kernels can include the pool. Its windows must have 2 x 2 pixels, without overlap or padding; all
 * arrays must be aligned; and the value between pool and norm, unless unwritten, must have its own bytes. The norm must
 * read the pool's output; for a backward rule, it must have done so in the forward pass, and only the pool's gradient
 * may read the norm's dx. */
static bool pool_fits(const d9_site *site) {
    const parts p = parts_of(site);
    const d9_kernel_window w = d9_cuda_window_of(site, p.pool);
    if (w.kernel != 2 || w.stride != 2 || w.pad != 0) return false;
    const bool unwritten = p.norm->op == D9_OP_NORM_EVAL && d9_site_internal(site, x_of(&p));
    if (!all_fit_vectors(site, &p) || (!unwritten && !has_own_bytes(site, value_between(&p)))) return false;
    if (!is_backward(&p)) return p.pool->outputs[0] == x_of(&p);
    const d9_node_id producer = d9_site_value(site, x_of(&p))->producer;
    if (producer == D9_NONE || p.pool->inputs[0] != p.norm->outputs[0]) return false;
    const d9_node *forward = &site->graph->nodes[producer];
    return forward->op == D9_OP_POOL && forward->inputs[0] == pool_input_of(&p) &&
           forward->as.pool.kernel == w.kernel && forward->as.pool.stride == w.stride &&
           d9_site_internal(site, p.norm->outputs[0]);
}

/* ---- matching ---- */

/* True if x is (N, H, W, C), and the chain and its pool fit. Without an add node, other rules may read the norm's own
 * output, which the rule then writes; with one they may not. */
bool d9_cuda_norm_match(const d9_site *site) {
    const parts p = parts_of(site);
    const d9_site inner = without_pool(site);
    const bool image = d9_site_value(site, x_of(&p))->shape.rank == 4;
    return image && (p.add ? d9_chain_fits : d9_chain_is_linked)(&inner, d9_cuda_storable) &&
           (!p.pool || pool_fits(site));
}

bool d9_cuda_norm_backward_match(const d9_site *site) {
    const parts p = parts_of(site);
    const d9_site inner = without_pool(site);
    return d9_chain_norm_backward_fits(&inner, d9_cuda_storable) && (!p.pool || pool_fits(site));
}

/* ---- running ---- */

/* Forward: true if the addition comes before the activation. */
static bool adds_first(const d9_site *site, const parts *p) { return p->add && site->nodes[1] == p->add; }

/* Collects the operations after the norm. `y`: the output of the first of them, or of the norm alone; y->data NULL: it
 * is not written. */
static d9_kernel_epilogue epilogue_of(const d9_site *site, const parts *p, d9_kernel_out *y) {
    const d9_site inner = without_pool(site);
    d9_kernel_epilogue after = {.act = d9_node_act(p->act)};
    *y = d9_cuda_output(site, (p->act ? p->act : p->norm)->outputs[0]);
    if (!p->add && p->act && !d9_site_internal(site, p->norm->outputs[0]))
        after.normed = d9_cuda_output(site, p->norm->outputs[0]);
    if (!p->add) return after;
    const d9_value_id first = site->nodes[1]->outputs[0];
    after.addend = d9_cuda_input(site, d9_chain_addend(&inner));
    after.adds_first = adds_first(site, p);
    after.last = d9_cuda_output(site, site->nodes[2]->outputs[0]);
    *y = d9_cuda_output(site, first);
    if (d9_site_internal(site, first)) y->data = NULL;
    return after;
}

/* Arrays of the norm. A trial run keeps running statistics in the scratch memory, after the launchers' part. */
static d9_kernel_norm_state state_of(const d9_site *site, const d9_node *norm, const d9_kernel_norm *shape) {
    const norm_site *own = site->data;
    d9_kernel_norm_state state = d9_site_norm_state(site, norm);
    if (own->trial) {
        uint8_t *behind = (uint8_t *)d9_cuda_of(site)->scratch + d9_cuda_norm_scratch_bytes(shape);
        state.running_mean = (float *)(void *)behind;
        state.running_var = state.running_mean + shape->groups * shape->channels;
        state.row_gap = 0;
    }
    return state;
}

/* Returns true if the passes over memory must run: they were chosen, or another algorithm failed to launch outside of a
 * trial; the site then keeps to the passes. An unsupported launch fails in the site's first run, which is not recorded
 * in a graph. */
static bool fall_back_to_passes(d9_context *context, const d9_site *site, int error) {
    norm_site *own = site->data;
    if (!own->algorithm.runs) return true;
    if (own->trial) return false;
    d9_log(context, D9_LOG_WARNING, "%s: '%s' fails on this device (%s): using two passes", site->nodes[0]->role,
           site->choice, d9_cuda_of(site)->driver->error(error));
    own->algorithm = passes;
    return true;
}

static int run_forward_one_pass(const d9_site *site, const parts *p, const d9_kernel_norm *shape,
                                const d9_kernel_norm_state *state, const d9_kernel_epilogue *after, d9_kernel_out y) {
    const norm_site *own = site->data;
    const d9_kernel_out none = {NULL, D9_KERNEL_F32};
    if (!p->pool)
        return d9_cuda_norm_resident(d9_cuda_stream_of(site), shape, &own->algorithm, NULL,
                                     d9_cuda_input(site, x_of(p)), none, state, after, y);
    const d9_kernel_window window = d9_cuda_window_of(site, p->pool);
    const d9_kernel_out pooled = d9_site_internal(site, x_of(p)) ? none : d9_cuda_output(site, x_of(p));
    return d9_cuda_norm_resident(d9_cuda_stream_of(site), shape, &own->algorithm, &window,
                                 d9_cuda_input(site, pool_input_of(p)), pooled, state, after, y);
}

static int run_forward_passes(const d9_site *site, const parts *p, const d9_kernel_norm *shape,
                              const d9_kernel_norm_state *state, const d9_kernel_epilogue *after, d9_kernel_out y) {
    const bool trains = p->norm->op == D9_OP_NORM;
    d9_cuda_pool_before pool;
    if (p->pool) {
        pool = (d9_cuda_pool_before){d9_cuda_window_of(site, p->pool), d9_cuda_input(site, pool_input_of(p)),
                                     d9_cuda_output(site, x_of(p))};
        if (!trains && d9_site_internal(site, x_of(p))) pool.out.data = NULL;
    }
    return (trains ? d9_cuda_norm_forward : d9_cuda_norm_eval)(d9_cuda_stream_of(site), shape, p->pool ? &pool : NULL,
                                                               d9_cuda_input(site, x_of(p)), state, after,
                                                               d9_cuda_of(site)->scratch, y);
}

D9_CUDA_RUN(norm) {
    const parts p = parts_of(site);
    const norm_site *own = site->data;
    const d9_kernel_norm shape = shape_of(site);
    const d9_kernel_norm_state state = state_of(site, p.norm, &shape);
    d9_kernel_out y;
    const d9_kernel_epilogue after = epilogue_of(site, &p, &y);
    (void)step;
    int error = 1;
    if (own->algorithm.runs) error = run_forward_one_pass(site, &p, &shape, &state, &after, y);
    if (error && fall_back_to_passes(context, site, error))
        error = run_forward_passes(site, &p, &shape, &state, &after, y);
    return d9_cuda_check(context, site, error);
}

typedef struct gradient { /* arguments of the backward kernels */
    d9_kernel_in dy;
    d9_cuda_prologue before;
    const float *mean, *inv_std, *scale;
    d9_kernel_norm_gradients out; /* dx is the gradient of the norm's input, also with a pool */
} gradient;

/* The bias of the norm, if the kernel can recompute the activation's derivative from the norm's x instead of reading an
 * array. NULL: the kernel cannot, or the pass adds a second gradient. Recomputing is then slower: 185 us instead of 170
 * (an H200, the first such norm of dawn94). If the norm's rule begins with a convolution, its activation used an x that
 * was not rounded; one recomputed from the stored x can have another sign. */
static const float *bias_to_recompute(const d9_site *site, const parts *p) {
    const d9_site *forward = d9_site_producer(site, p->norm->inputs[2]);
    if (p->add || !forward || forward->nodes[0]->op == D9_OP_CONV) return NULL;
    return d9_site_data(site, d9_chain_norm_bias(site, p->act, p->norm));
}

static gradient gradient_of(const d9_site *site, const parts *p) {
    gradient g = {.dy = d9_cuda_input(site, (p->act ? p->act : p->norm)->inputs[0]),
                  .before = {.act = d9_node_act(p->act)},
                  .mean = d9_site_data(site, p->norm->inputs[2]),
                  .inv_std = d9_site_data(site, p->norm->inputs[3]),
                  .scale = d9_site_data(site, p->norm->inputs[4]),
                  .out = {d9_cuda_output(site, p->norm->outputs[0]), d9_site_data(site, p->norm->outputs[1]),
                          d9_site_data(site, p->norm->outputs[2])}};
    if (p->act) g.before.reference = d9_cuda_input(site, p->act->inputs[1]), g.before.bias = bias_to_recompute(site, p);
    if (p->act && !d9_site_internal(site, p->act->outputs[0])) g.before.dz = d9_cuda_output(site, p->act->outputs[0]);
    if (!p->add) return g;
    g.dy = d9_cuda_input(site, p->add->inputs[0]);
    g.before.addend = d9_cuda_input(site, p->add->inputs[1]);
    return g;
}

static int run_backward_one_pass(const d9_site *site, const parts *p, const d9_kernel_norm *shape, gradient g) {
    const norm_site *own = site->data;
    d9_kernel_window window = {.kernel = 0};
    if (p->pool) window = d9_cuda_window_of(site, p->pool);
    if (p->pool) g.out.dx = d9_cuda_output(site, p->pool->outputs[0]);
    return d9_cuda_norm_resident_backward(d9_cuda_stream_of(site), shape, &own->algorithm, p->pool ? &window : NULL,
                                          g.dy, &g.before, d9_cuda_input(site, p->pool ? pool_input_of(p) : x_of(p)),
                                          g.mean, g.inv_std, g.scale, d9_cuda_of(site)->scratch, own->tickets.data,
                                          &g.out);
}

static int run_backward_passes(const d9_site *site, const parts *p, const d9_kernel_norm *shape, const gradient *g) {
    d9_cuda_pool_before pool;
    if (p->pool)
        pool = (d9_cuda_pool_before){d9_cuda_window_of(site, p->pool), d9_cuda_input(site, pool_input_of(p)),
                                     d9_cuda_output(site, p->pool->outputs[0])};
    return d9_cuda_norm_backward(d9_cuda_stream_of(site), shape, g->dy, &g->before, d9_cuda_input(site, x_of(p)),
                                 g->mean, g->inv_std, g->scale, p->pool ? &pool : NULL, d9_cuda_of(site)->scratch,
                                 &g->out);
}

D9_CUDA_RUN(norm_backward) {
    const parts p = parts_of(site);
    const norm_site *own = site->data;
    const d9_kernel_norm shape = shape_of(site);
    const gradient g = gradient_of(site, &p);
    (void)step;
    int error = 1;
    if (own->algorithm.runs) error = run_backward_one_pass(site, &p, &shape, g);
    if (error && fall_back_to_passes(context, site, error)) error = run_backward_passes(site, &p, &shape, &g);
    return d9_cuda_check(context, site, error);
}

/* ---- choosing, preparing, benchmark ---- */

static d9_status run_trial(d9_context *context, void *what) {
    const d9_site *site = what;
    const parts p = parts_of(site);
    return is_backward(&p) ? d9_cuda_run_norm_backward(context, site, 0) : d9_cuda_run_norm(context, site, 0);
}

static void name_algorithm(const d9_cuda_norm_algorithm *algorithm, char *name, size_t size) {
    if (!algorithm->runs)
        snprintf(name, size, "two passes");
    else
        snprintf(name, size, "one pass, %d blocks of %lld KiB for %d channels%s", algorithm->blocks,
                 (long long)(algorithm->block_bytes >> 10), 8 * algorithm->runs, algorithm->keeps_x ? "" : ", x twice");
}

static bool find_algorithm(const char *name, const d9_cuda_norm_algorithm *algorithms, int count,
                           d9_cuda_norm_algorithm *found) {
    char text[sizeof((d9_site *)NULL)->choice];
    for (int w = -1; w < count; w++) {
        const d9_cuda_norm_algorithm *algorithm = w < 0 ? &passes : &algorithms[w];
        name_algorithm(algorithm, text, sizeof text);
        if (strcmp(text, name) != 0) continue;
        *found = *algorithm;
        return true;
    }
    return false;
}

/* Times an algorithm. *ran false: it failed to launch, but the device still works. */
static d9_status time_algorithm(d9_context *context, d9_site *site, const d9_cuda_norm_algorithm *algorithm,
                                double give_up, bool *ran, double *seconds) {
    norm_site *own = site->data;
    const d9_cuda_norm_algorithm kept = own->algorithm;
    own->trial = true;
    own->algorithm = *algorithm;
    const d9_status status =
        d9_cuda_time_fallible(context, d9_cuda_of(site), run_trial, site, TIMED_RUNS, give_up, ran, seconds);
    own->trial = false;
    own->algorithm = kept;
    return status;
}

static d9_status find_fastest(d9_context *context, d9_site *site, const d9_cuda_norm_algorithm *algorithms, int count,
                              d9_cuda_norm_algorithm *best) {
    d9_status status = D9_OK;
    double least = INFINITY;
    *best = passes;
    for (int w = -1; w < count && w < MAX_ALGORITHMS; w++) {
        bool ran;
        double seconds;
        const d9_cuda_norm_algorithm *algorithm = w < 0 ? &passes : &algorithms[w];
        D9_TRY(time_algorithm(context, site, algorithm, 2 * least, &ran, &seconds));
        if (!ran || !(seconds < least)) continue;
        least = seconds;
        *best = *algorithm;
    }
done:
    return status;
}

/* The key includes a hash of our kernels' sources, because a change of them can change the fastest choice. */
static void make_key(const d9_site *site, char key[D9_CUDA_CHOICE_KEY]) {
    char text[192];
    const parts p = parts_of(site);
    const d9_kernel_norm s = shape_of(site);
    const bool reversed = !is_backward(&p) && adds_first(site, &p);
    const bool dz = is_backward(&p) && p.act && !d9_site_internal(site, p.act->outputs[0]);
    const bool kept = !is_backward(&p) && p.act && !d9_site_internal(site, p.norm->outputs[0]);
    snprintf(text, sizeof text, "norm%s%s%s%s%s%s%s %s %lldx%lldx%lld groups %lld, kernels " D9_CUDA_KERNELS,
             is_backward(&p) ? " backward" : "", p.pool ? " pool" : "", reversed ? " add" : "", p.act ? " act" : "",
             p.add && !reversed ? " add" : "", dz ? " dz" : "", kept ? " kept" : "",
             d9_type_name(d9_site_value(site, x_of(&p))->type), (long long)s.images, (long long)s.pixels,
             (long long)s.channels, (long long)s.groups);
    d9_cuda_choice_key(d9_cuda_of(site), text, key);
}

static d9_status choose(d9_context *context, d9_site *site, const d9_cuda_norm_algorithm *algorithms, int count,
                        d9_cuda_norm_algorithm *chosen) {
    d9_status status = D9_OK;
    char key[D9_CUDA_CHOICE_KEY], name[sizeof site->choice];
    d9_cuda_choices *choices = d9_cuda_of(site)->choices;
    const d9_tune tune = site->options->tune;
    if (site->wanted[0]) {
        if (!find_algorithm(site->wanted, algorithms, count, chosen))
            return d9_fail(context, D9_DEVICE, "%s: this device has no algorithm '%s'", site->nodes[0]->role,
                           site->wanted);
        return D9_OK;
    }
    *chosen = count > 0 ? algorithms[0] : passes;
    if (count == 0 || tune == D9_TUNE_OFF) return D9_OK;
    make_key(site, key);
    const char *kept = d9_cuda_choices_find(choices, key, tune == D9_TUNE_ON);
    if (kept && find_algorithm(kept, algorithms, count, chosen)) return D9_OK;
    D9_TRY(find_fastest(context, site, algorithms, count, chosen));
    name_algorithm(chosen, name, sizeof name);
    D9_TRY(d9_cuda_choices_add(context, choices, key, name));
done:
    return status;
}

d9_status d9_cuda_norm_prepare(d9_context *context, d9_site *site) {
    d9_status status;
    norm_site *own = NULL;
    const parts p = parts_of(site);
    const d9_kernel_norm shape = shape_of(site);
    d9_cuda *cuda = d9_cuda_of(site);
    d9_cuda_norm_algorithm algorithms[D9_CUDA_NORM_ALGORITHMS];
    int count;
    D9_TRY(d9_cuda_reserve_scratch(context, cuda, d9_cuda_norm_bytes(&shape)));
    D9_TRY(D9_ALLOCATE(context, 1, "a norm", &own));
    site->data = own;
    *own = (norm_site){.algorithm = passes};
    list_algorithms(context, site, algorithms, &count);
    if (count > 0 && is_backward(&p))
        D9_TRY(d9_cuda_site_allocate(context, cuda, shape.channels / 8 * (int64_t)sizeof(uint32_t), "tickets",
                                     &own->tickets));
    D9_TRY(choose(context, site, algorithms, count, &own->algorithm));
    if (p.norm->op != D9_OP_NORM_EVAL) name_algorithm(&own->algorithm, site->choice, sizeof site->choice);
done:
    return status;
}

void d9_cuda_norm_release(d9_context *context, d9_site *site) {
    d9_cuda *cuda = d9_cuda_of(site);
    norm_site *own = site->data;
    if (!own) return;
    d9_cuda_site_free(context, cuda, &own->tickets);
    d9_release(context, own);
    site->data = NULL;
}

/* Times the algorithms that tuning tries, if there is more than one. */
d9_status d9_cuda_norm_benchmark(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count) {
    d9_status status = D9_OK;
    d9_cuda_norm_algorithm algorithms[D9_CUDA_NORM_ALGORITHMS];
    int found;
    *count = 0;
    list_algorithms(context, site, algorithms, &found);
    for (int w = -1; found > 0 && w < found && w < MAX_ALGORITHMS && *count < capacity; w++) {
        bool ran;
        d9_choice_time *row = &rows[*count];
        const d9_cuda_norm_algorithm *algorithm = w < 0 ? &passes : &algorithms[w];
        D9_TRY(time_algorithm(context, site, algorithm, INFINITY, &ran, &row->seconds));
        row->bare_seconds = row->seconds;
        name_algorithm(algorithm, row->choice, sizeof row->choice);
        *count += ran;
    }
done:
    return status;
}
