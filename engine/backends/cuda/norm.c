/* The rules of batch normalisation: norm and norm_eval with the pool before and what follows, norm_backward with what
 * precedes it and the pool's gradient behind. What is not wanted outside the site is not written: norm's y always,
 * act's y where no backward node takes its slope there.
 *
 * There are two ways: in several passes, and in one that keeps on chip what it has read (kernels/cuda/norm_resident.h).
 * One pass is taken where it fits; `tune: on` times both, and a saved plan names either. With a pool there is one pass
 * or no such rule: the nodes are then run by the rules of their own. */
#include "backends/cuda/cuda.h"
#include "core/system.h"

#include <stdio.h>
#include <string.h>

typedef struct norm_site {
    d9_cuda_residence residence;
    bool fits, once; /* one pass would do; is taken */
    bool trial;      /* a measurement: running statistics go to scratch */
    void *tickets;   /* backward in one pass */
} norm_site;

static const char *const two_passes = "two passes";

/* ---- what is where in a site ---- */

typedef struct parts { /* NULL: not there */
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

/* The site without its pool, and backward without its addition: what host/shapes.h knows. */
static d9_site inner_of(const d9_site *site) {
    const parts p = parts_of(site);
    d9_site inner = *site;
    inner.node_count = 0;
    for (int n = 0; n < site->node_count; n++) {
        if (site->nodes[n] == p.pool || (is_backward(&p) && site->nodes[n] == p.add)) continue;
        inner.nodes[inner.node_count++] = site->nodes[n];
    }
    return inner;
}

static d9_kernel_norm shape_of(const d9_site *site) {
    const d9_site inner = inner_of(site);
    return d9_chain_extent(&inner);
}

static d9_value_id x_of(const parts *p) { return p->norm->inputs[is_backward(p) ? 1 : 0]; }

/* The pool's input. */
static d9_value_id whole_of(const parts *p) { return p->pool->inputs[is_backward(p) ? 1 : 0]; }

/* ---- one pass ---- */

/* Of x's type and at a multiple of 16 bytes. */
static bool is_even(const d9_site *site, const parts *p, d9_value_id id) {
    return d9_site_value(site, id)->type == d9_site_value(site, x_of(p))->type &&
           ((uintptr_t)d9_site_data(site, id) & 15) == 0;
}

/* All activations of the site, and the means that a gradient reads. */
static bool are_even(const d9_site *site, const parts *p) {
    if (is_backward(p) && ((uintptr_t)d9_site_data(site, p->norm->inputs[2]) & 15) != 0) return false;
    for (int n = 0; n < site->node_count; n++) {
        const d9_node *node = site->nodes[n];
        const bool one = node->op == D9_OP_NORM || node->op == D9_OP_POOL || node->op == D9_OP_ACT;
        for (int i = 0; i < (one ? 1 : 2); i++)
            if (!is_even(site, p, node->inputs[i])) return false;
        if (node->outputs[0] == D9_NONE || !is_even(site, p, node->outputs[0])) return false;
    }
    return true;
}

static bool fits(const d9_site *site, d9_cuda_residence *residence) {
    const parts p = parts_of(site);
    const d9_kernel_norm shape = shape_of(site);
    d9_cuda_room room;
    *residence = (d9_cuda_residence){.runs = 0};
    return p.norm->op != D9_OP_NORM_EVAL && are_even(site, &p) && d9_cuda_norm_room(&room) == 0 &&
           d9_cuda_norm_fits(&shape, d9_cuda_store_of(d9_site_value(site, x_of(&p))->type), is_backward(&p), &room,
                             residence);
}

/* 2 x 2 windows that tile the pool's input, whose output is the norm's x. */
static bool pool_fits(const d9_site *site) {
    const parts p = parts_of(site);
    const d9_kernel_window w = d9_cuda_window_of(site, p.pool);
    d9_cuda_residence residence;
    if (w.kernel != 2 || w.stride != 2 || w.height != 2 * w.out_height || w.width != 2 * w.out_width) return false;
    if (!is_backward(&p)) return p.pool->outputs[0] == x_of(&p) && fits(site, &residence);
    const d9_node_id producer = d9_site_value(site, x_of(&p))->producer;
    if (producer == D9_NONE || p.pool->inputs[0] != p.norm->outputs[0]) return false;
    const d9_node *forward = &site->graph->nodes[producer];
    return forward->op == D9_OP_POOL && forward->inputs[0] == whole_of(&p) && forward->as.pool.kernel == w.kernel &&
           forward->as.pool.stride == w.stride && d9_site_internal(site, p.norm->outputs[0]) &&
           fits(site, &residence) && residence.keeps_x;
}

/* ---- matching ---- */

bool d9_cuda_norm_match(const d9_site *site) {
    const parts p = parts_of(site);
    const d9_site inner = inner_of(site);
    return d9_chain_norm_fits(&inner, d9_cuda_storable) && (!p.pool || pool_fits(site));
}

/* The sum of two gradients that nobody else wants. */
static bool add_fits(const d9_site *site, const parts *p) {
    const d9_value_id sum = p->add->outputs[0];
    const d9_type type = d9_site_value(site, sum)->type;
    for (int i = 0; i < 2; i++)
        if (d9_site_value(site, p->add->inputs[i])->type != type) return false;
    return p->act->inputs[0] == sum && d9_site_internal(site, sum);
}

bool d9_cuda_norm_backward_match(const d9_site *site) {
    const parts p = parts_of(site);
    const d9_site inner = inner_of(site);
    return d9_chain_norm_backward_fits(&inner, d9_cuda_storable) && (!p.add || add_fits(site, &p)) &&
           (!p.pool || pool_fits(site));
}

/* ---- running ---- */

/* What follows the norm, and where the value before the addition goes. */
static d9_kernel_epilogue epilogue_of(const d9_site *site, const parts *p, d9_kernel_out *y) {
    const d9_site inner = inner_of(site);
    d9_kernel_epilogue after = {.act = d9_node_act(p->act)};
    *y = d9_cuda_output(site, (p->act ? p->act : p->norm)->outputs[0]);
    if (!p->add) return after;
    after.addend = d9_cuda_input(site, d9_chain_addend(&inner));
    after.sum = d9_cuda_output(site, p->add->outputs[0]);
    if (d9_site_internal(site, p->act->outputs[0])) y->data = NULL;
    return after;
}

/* Scratch: what the launchers want, then running statistics of a measurement. */
static d9_kernel_norm_state state_of(const d9_site *site, const d9_node *norm, const d9_kernel_norm *shape) {
    const norm_site *own = site->data;
    d9_kernel_norm_state state = d9_site_norm_state(site, norm);
    if (own->trial) {
        uint8_t *behind = (uint8_t *)d9_cuda_of(site)->scratch + d9_cuda_norm_scratch_bytes(shape);
        state.running_mean = (float *)(void *)behind;
        state.running_var = state.running_mean + shape->groups * shape->channels;
    }
    return state;
}

static int run_forward_once(const d9_site *site, const parts *p, const d9_kernel_norm *shape,
                            const d9_kernel_norm_state *state, const d9_kernel_epilogue *after, d9_kernel_out y) {
    const norm_site *own = site->data;
    const d9_kernel_out none = {NULL, D9_KERNEL_F32};
    if (!p->pool)
        return d9_cuda_norm_resident(d9_cuda_stream_of(site), shape, &own->residence, NULL,
                                     d9_cuda_input(site, x_of(p)), none, state, after, y);
    const d9_kernel_window window = d9_cuda_window_of(site, p->pool);
    const d9_kernel_out pooled = d9_site_internal(site, x_of(p)) ? none : d9_cuda_output(site, x_of(p));
    return d9_cuda_norm_resident(d9_cuda_stream_of(site), shape, &own->residence, &window,
                                 d9_cuda_input(site, whole_of(p)), pooled, state, after, y);
}

D9_CUDA_RUN(norm) {
    const parts p = parts_of(site);
    const norm_site *own = site->data;
    const d9_kernel_norm shape = shape_of(site);
    const d9_kernel_norm_state state = state_of(site, p.norm, &shape);
    d9_kernel_out y;
    const d9_kernel_epilogue after = epilogue_of(site, &p, &y);
    (void)step;
    if (own->once) return d9_cuda_check(context, site, run_forward_once(site, &p, &shape, &state, &after, y));
    return d9_cuda_check(context, site,
                         (p.norm->op == D9_OP_NORM ? d9_cuda_norm_forward : d9_cuda_norm_eval)(
                             d9_cuda_stream_of(site), &shape, d9_cuda_input(site, x_of(&p)), &state, &after,
                             d9_cuda_of(site)->scratch, y));
}

D9_CUDA_RUN(norm_backward) {
    const parts p = parts_of(site);
    const norm_site *own = site->data;
    const d9_kernel_norm shape = shape_of(site);
    d9_cuda_prologue before = {.act = d9_node_act(p.act)};
    d9_kernel_in dy = d9_cuda_input(site, (p.act ? p.act : p.norm)->inputs[0]);
    const float *mean = d9_site_data(site, p.norm->inputs[2]), *inv_std = d9_site_data(site, p.norm->inputs[3]);
    const float *scale = d9_site_data(site, p.norm->inputs[4]);
    const d9_kernel_norm_gradients gradients = {d9_cuda_output(site, (p.pool ? p.pool : p.norm)->outputs[0]),
                                                d9_site_data(site, p.norm->outputs[1]),
                                                d9_site_data(site, p.norm->outputs[2])};
    const d9_kernel_window window = p.pool ? d9_cuda_window_of(site, p.pool) : (d9_kernel_window){.kernel = 0};
    void *scratch = d9_cuda_of(site)->scratch;
    (void)step;
    if (p.act) before.reference = d9_cuda_input(site, p.act->inputs[1]);
    if (p.add) {
        dy = d9_cuda_input(site, p.add->inputs[0]);
        before.addend = d9_cuda_input(site, p.add->inputs[1]);
    }
    const d9_kernel_in x = d9_cuda_input(site, p.pool ? whole_of(&p) : x_of(&p));
    return d9_cuda_check(context, site,
                         own->once ? d9_cuda_norm_resident_backward(d9_cuda_stream_of(site), &shape, &own->residence,
                                                                    p.pool ? &window : NULL, dy, &before, x, mean,
                                                                    inv_std, scale, scratch, own->tickets, &gradients)
                                   : d9_cuda_norm_backward(d9_cuda_stream_of(site), &shape, dy, &before, x, mean,
                                                           inv_std, scale, scratch, &gradients));
}

/* ---- choosing ---- */

static d9_status run_trial(d9_context *context, void *what) {
    const d9_site *site = what;
    const parts p = parts_of(site);
    return is_backward(&p) ? d9_cuda_run_norm_backward(context, site, 0) : d9_cuda_run_norm(context, site, 0);
}

static void name_way(const d9_site *site, bool once, char *name, size_t size) {
    const norm_site *own = site->data;
    const d9_cuda_residence *r = &own->residence;
    if (!once)
        snprintf(name, size, "%s", two_passes);
    else
        snprintf(name, size, "one pass, %d blocks of %lld KiB for %d channels%s", r->blocks,
                 (long long)(r->block_bytes >> 10), 8 * r->runs, r->keeps_x ? "" : ", x twice");
}

/* Seconds in two passes, and in one. */
static d9_status time_ways(d9_context *context, d9_site *site, double *seconds) {
    enum { TIMED_RUNS = 3 };
    d9_status status = D9_OK;
    norm_site *own = site->data;
    const bool once = own->once;
    own->trial = true;
    for (int way = 0; way < 2; way++) {
        own->once = way == 1;
        D9_TRY(d9_cuda_time(context, d9_cuda_of(site), run_trial, site, TIMED_RUNS, &seconds[way]));
    }
done:
    own->once = once;
    own->trial = false;
    return status;
}

static d9_status choose(d9_context *context, d9_site *site) {
    d9_status status = D9_OK;
    norm_site *own = site->data;
    own->once = own->fits && strcmp(site->choice, two_passes) != 0;
    if (own->once && !parts_of(site).pool && !site->choice[0] && site->options->tune == D9_TUNE_ON) {
        double seconds[2];
        D9_TRY(time_ways(context, site, seconds));
        own->once = seconds[1] < seconds[0];
    }
    if (parts_of(site).norm->op != D9_OP_NORM_EVAL) name_way(site, own->once, site->choice, sizeof site->choice);
done:
    return status;
}

d9_status d9_cuda_norm_prepare(d9_context *context, d9_site *site) {
    d9_status status;
    norm_site *own = NULL;
    const parts p = parts_of(site);
    const d9_kernel_norm shape = shape_of(site);
    d9_cuda *cuda = d9_cuda_of(site);
    const int64_t statistics = 2 * shape.groups * shape.channels * (int64_t)sizeof(float);
    D9_TRY(d9_cuda_reserve(context, cuda, d9_cuda_norm_scratch_bytes(&shape) + statistics));
    D9_TRY(D9_ALLOCATE(context, 1, "a norm", &own));
    site->data = own;
    *own = (norm_site){.once = false};
    own->fits = fits(site, &own->residence);
    if (own->fits && is_backward(&p))
        D9_TRY(cuda->driver->allocate(context, cuda->state, shape.channels / 8 * (int64_t)sizeof(uint32_t), "tickets",
                                      &own->tickets));
    D9_TRY(choose(context, site));
done:
    return status;
}

void d9_cuda_norm_release(d9_context *context, d9_site *site) {
    const d9_cuda *cuda = d9_cuda_of(site);
    norm_site *own = site->data;
    if (!own) return;
    if (own->tickets) cuda->driver->release(context, cuda->state, own->tickets);
    d9_release(context, own);
    site->data = NULL;
}

/* Both ways, where there are two. */
d9_status d9_cuda_norm_survey(d9_context *context, d9_site *site, d9_choice_time *rows, int capacity, int *count) {
    d9_status status = D9_OK;
    const norm_site *own = site->data;
    double seconds[2];
    *count = 0;
    if (!own->fits || parts_of(site).pool || capacity < 2) return D9_OK;
    D9_TRY(time_ways(context, site, seconds));
    for (int way = 0; way < 2; way++) {
        rows[way].seconds = rows[way].bare_seconds = seconds[way];
        name_way(site, way == 1, rows[way].choice, sizeof rows[way].choice);
    }
    *count = 2;
done:
    return status;
}
