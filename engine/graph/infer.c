/* Shapes: each output's from its inputs', in node order. Every misfit names the node and what would fit. */
#include "graph/graph.h"

static const d9_shape *input(const d9_graph *graph, const d9_node *node, int slot) {
    return &graph->values[node->inputs[slot]].shape;
}

static void set(d9_graph *graph, d9_value_id id, d9_shape shape) {
    if (id != D9_NONE) graph->values[id].shape = shape;
}

static d9_status infer_conv(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape *x = input(graph, node, 0), *w = input(graph, node, 1);
    const d9_conv_attributes *conv = &node->as.conv;
    if (x->rank != 4 || w->rank != 4 || x->d[3] != w->d[3] || w->d[1] != conv->kernel || w->d[2] != conv->kernel)
        return d9_fail(context, D9_USAGE, "%s: a %dx%d convolution of %lld channels does not fit %lld input channels",
                       node->role, conv->kernel, conv->kernel, (long long)w->d[3], (long long)x->d[3]);
    int64_t height = (x->d[1] + 2 * conv->pad - conv->kernel) / conv->stride + 1;
    int64_t width = (x->d[2] + 2 * conv->pad - conv->kernel) / conv->stride + 1;
    if (height < 1 || width < 1)
        return d9_fail(context, D9_USAGE, "%s: a %lldx%lld image is too small for a %dx%d convolution", node->role,
                       (long long)x->d[1], (long long)x->d[2], conv->kernel, conv->kernel);
    set(graph, node->outputs[0], (d9_shape){4, {x->d[0], height, width, w->d[0]}});
    return D9_OK;
}

static d9_status infer_norm(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape x = *input(graph, node, 0);
    int64_t size = node->as.norm.group_size;
    if (input(graph, node, 1)->d[0] != x.d[3])
        return d9_fail(context, D9_USAGE, "%s: %lld scales do not fit %lld channels", node->role,
                       (long long)input(graph, node, 1)->d[0], (long long)x.d[3]);
    if (size > 0 && x.d[0] % size != 0)
        return d9_fail(context, D9_USAGE, "%s: a batch of %lld images does not divide into groups of %lld", node->role,
                       (long long)x.d[0], (long long)size);
    d9_shape statistics = {2, {d9_node_groups(graph, node), x.d[3]}};
    set(graph, node->outputs[0], x);
    set(graph, node->inputs[3], statistics);
    set(graph, node->inputs[4], statistics);
    for (int i = 1; i < node->output_count; i++) set(graph, node->outputs[i], statistics);
    return D9_OK;
}

static d9_status infer_pool(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape *x = input(graph, node, 0);
    const d9_pool_attributes *pool = &node->as.pool;
    if (x->rank != 4 || x->d[1] < pool->kernel || x->d[2] < pool->kernel)
        return d9_fail(context, D9_USAGE,
                       "%s: %lldx%lld is too small for a %dx%d pool: the images are too small for this model",
                       node->role, (long long)x->d[1], (long long)x->d[2], pool->kernel, pool->kernel);
    int64_t height = (x->d[1] - pool->kernel) / pool->stride + 1, width = (x->d[2] - pool->kernel) / pool->stride + 1;
    set(graph, node->outputs[0], (d9_shape){4, {x->d[0], height, width, x->d[3]}});
    return D9_OK;
}

static d9_status infer_linear(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape *x = input(graph, node, 0), *w = input(graph, node, 1);
    if (d9_shape_count(x) / x->d[0] != w->d[1])
        return d9_fail(context, D9_USAGE, "%s: %lld features do not fit a weight of %lld", node->role,
                       (long long)(d9_shape_count(x) / x->d[0]), (long long)w->d[1]);
    set(graph, node->outputs[0], (d9_shape){2, {x->d[0], w->d[0]}});
    return D9_OK;
}

static d9_status infer_node(d9_context *context, d9_graph *graph, const d9_node *node) {
    switch (node->op) {
    case D9_OP_CONV:
        return infer_conv(context, graph, node);
    case D9_OP_NORM:
    case D9_OP_NORM_EVAL:
        return infer_norm(context, graph, node);
    case D9_OP_POOL:
        return infer_pool(context, graph, node);
    case D9_OP_LINEAR:
        return infer_linear(context, graph, node);
    case D9_OP_ADD:
        if (!d9_shape_equal(input(graph, node, 0), input(graph, node, 1)))
            return d9_fail(context, D9_USAGE, "%s: the two sides of the addition differ in shape", node->role);
        set(graph, node->outputs[0], *input(graph, node, 0));
        return D9_OK;
    case D9_OP_CAST:
    case D9_OP_ACT:
    case D9_OP_SCALE:
        set(graph, node->outputs[0], *input(graph, node, 0));
        return D9_OK;
    case D9_OP_LOSS:
        set(graph, node->outputs[0], (d9_shape){1, {input(graph, node, 0)->d[0]}});
        return D9_OK;
    default:
        return D9_OK; /* backward and tail nodes are made with their shapes */
    }
}

d9_status d9_graph_infer(d9_context *context, d9_graph *graph) {
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        d9_status status = infer_node(context, graph, &graph->nodes[n]);
        if (status != D9_OK) return status;
    }
    return D9_OK;
}
