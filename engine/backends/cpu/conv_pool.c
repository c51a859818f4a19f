/* Rules that fuse a convolution and 2 x 2 max pooling, for kernels that support it (kernels/cpu/conv.h), and the
 * gradients of both. The convolution's output is written only if another rule reads it or the program keeps all values.
 * The backward rules do not read that output, but the position of each maximum in its window, a byte that the forward
 * rule stores. The results are identical to those of the single rules. The backend onednn never uses these rules,
 * because its first choice is always an algorithm of oneDNN. */
#include "backends/cpu/conv.h"
#include "core/system.h"

#include <stdio.h>

typedef struct conv_pool {
    const d9_cpu_conv_kernel *kernel;
    uint8_t *places;    /* positions of the maxima; NULL: no backward rule needs them */
    bool writes_output; /* the convolution's output must be written */
} conv_pool;            /* data of the forward rule, also read by the backward rules */

/* True if the pool, or the pool's gradient, has adjacent windows of 2 x 2 pixels without padding, and its input and
 * output have one type. pooling_kernel_of checks the convolution's types. */
static bool pools_by_two(const d9_site *site, const d9_node *pool) {
    return pool->as.pool.kernel == 2 && pool->as.pool.stride == 2 && pool->as.pool.pad == 0 &&
           d9_site_value(site, pool->inputs[0])->type == d9_site_value(site, pool->outputs[0])->type;
}

static const d9_cpu_conv_kernel *pooling_kernel_of(const d9_site *site, int conv) {
    const d9_site part = d9_site_part(site, conv, 1);
    return d9_conv_pooling_kernel(&part);
}

static d9_status reserve_scratch(d9_context *context, const d9_site *site, int conv, const d9_cpu_conv_kernel *kernel) {
    const d9_site part = d9_site_part(site, conv, 1);
    const d9_cpu_conv_shape shape = d9_conv_shape_of(&part);
    return d9_cpu_reserve(context, d9_cpu_device_of(site), kernel->scratch_bytes(d9_cpu_of(site), &shape));
}

/* Runs a convolution or its gradient. `y` NULL: not written or read; `pooled`: the maxima, backward their gradient. */
static void run_conv(const d9_site *site, int conv, const conv_pool *made, void *y, d9_value_id pooled) {
    const d9_site part = d9_site_part(site, conv, 1);
    const d9_conv_geometry g = d9_conv_geometry_of(&part);
    const d9_cpu_conv_shape shape = d9_conv_shape_of(&part);
    const d9_cpu_conv_arrays arrays = {d9_site_data(site, g.value[D9_CONV_IMAGE]),
                                       d9_site_data(site, g.value[D9_CONV_WEIGHTS]), y, d9_site_data(site, pooled),
                                       made->places};
    made->kernel->run(d9_cpu_of(site), &shape, &arrays, d9_cpu_device_of(site)->scratch);
}

/* Stores the kernel of the site's convolutions as the plan's choice; `conv`: index of the first of these nodes. */
static void set_choice(const d9_cpu_conv_kernel *kernel, int conv, d9_site *site) {
    d9_conv_name_own(kernel, site->choice, sizeof site->choice);
    site->rounds_transforms = d9_conv_rounds_transforms(site, conv, kernel);
    snprintf(site->why, sizeof site->why, "first choice; includes the pool");
}

/* ---- forward ---- */

static bool forward_match(const d9_site *site) {
    const d9_node *conv = site->nodes[0], *pool = site->nodes[1];
    return pool->inputs[0] == conv->outputs[0] && pools_by_two(site, pool) && pooling_kernel_of(site, 0);
}

static d9_status forward_prepare(d9_context *context, d9_site *site) {
    d9_status status;
    const d9_value_id y = site->nodes[0]->outputs[0];
    conv_pool *made;
    D9_TRY(D9_ALLOCATE(context, 1, "a convolution", &made));
    site->data = made;
    *made = (conv_pool){.kernel = pooling_kernel_of(site, 0), .writes_output = d9_site_must_write(site, y)};
    if (!d9_site_internal(site, y))
        D9_TRY(
            D9_ALLOCATE(context, d9_site_count(site, site->nodes[1]->outputs[0]), "places of maxima", &made->places));
    set_choice(made->kernel, 0, site);
    D9_TRY(reserve_scratch(context, site, 0, made->kernel));
done:
    return status;
}

static void forward_release(d9_context *context, d9_site *site) {
    conv_pool *made = site->data;
    if (made) d9_release(context, made->places);
    d9_release(context, made);
    site->data = NULL;
}

static d9_status run_forward(d9_context *context, const d9_site *site, int64_t step) {
    const conv_pool *made = site->data;
    (void)context, (void)step;
    run_conv(site, 0, made, made->writes_output ? d9_site_data(site, site->nodes[0]->outputs[0]) : NULL,
             site->nodes[1]->outputs[0]);
    return D9_OK;
}

/* ---- backward ---- */

/* The site of the convolution that was pooled, if this file's forward rule computes it; otherwise NULL. */
static const d9_site *forward_site(const d9_site *site) {
    const d9_site *producer = d9_site_producer(site, site->nodes[0]->inputs[1]);
    return producer && producer->node_count == 2 && producer->nodes[1]->op == D9_OP_POOL ? producer : NULL;
}

static bool backward_match(const d9_site *site) {
    const d9_node *pool = site->nodes[0];
    if (!pools_by_two(site, pool) || !d9_site_internal(site, pool->outputs[0]) || !forward_site(site)) return false;
    const d9_cpu_conv_kernel *kernel = pooling_kernel_of(forward_site(site), 0); /* the kernel that writes `places` */
    for (int i = 1; i < site->node_count; i++)
        if (site->nodes[i]->inputs[0] != pool->outputs[0] || pooling_kernel_of(site, i) != kernel) return false;
    return true;
}

static bool recomputes(const d9_site *site, d9_value_id value) { return value == site->nodes[0]->inputs[1]; }

static d9_status backward_prepare(d9_context *context, d9_site *site) {
    d9_status status = D9_OK;
    const conv_pool *made = site->data = forward_site(site)->data;
    for (int i = 1; i < site->node_count; i++) D9_TRY(reserve_scratch(context, site, i, made->kernel));
    set_choice(made->kernel, 1, site);
done:
    return status;
}

static d9_status run_backward(d9_context *context, const d9_site *site, int64_t step) {
    (void)context, (void)step;
    for (int i = 1; i < site->node_count; i++) run_conv(site, i, site->data, NULL, site->nodes[0]->inputs[0]);
    return D9_OK;
}

/* ---- the table ---- */

#define BACKWARD(rule_name, count, ...)                                                                                \
    {                                                                                                                  \
        .name = rule_name, .node_count = count, .ops = {D9_OP_POOL_BACKWARD, __VA_ARGS__}, .match = backward_match,    \
        .recomputes = recomputes, .prepare = backward_prepare, .run = run_backward,                                    \
        .benchmark = d9_conv_benchmark_parts                                                                           \
    }

const d9_rule d9_cpu_conv_pool_rules[] = {
    {.name = "conv+pool",
     .node_count = 2,
     .ops = {D9_OP_CONV, D9_OP_POOL},
     .match = forward_match,
     .prepare = forward_prepare,
     .run = run_forward,
     .release = forward_release,
     .benchmark = d9_conv_benchmark_parts},
    BACKWARD("pool_backward+conv_backward_weight", 2, D9_OP_CONV_BACKWARD_WEIGHT),
    BACKWARD("pool_backward+conv_backward_weight+conv_backward_data", 3, D9_OP_CONV_BACKWARD_WEIGHT,
             D9_OP_CONV_BACKWARD_DATA),
    {.name = NULL},
};
