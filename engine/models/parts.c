/* Parts shared by networks; see parts.h. */
#include "models/parts.h"
#include "graph/init.h"

#include <stdio.h>

const char *d9_parts_role(char name[D9_NAME_SIZE], const char *base, const char *part) {
    snprintf(name, D9_NAME_SIZE, "%s.%s", base, part);
    return name;
}

d9_status d9_parts_conv_norm(d9_context *context, d9_graph *graph, const char *conv, const char *norm, d9_value_id x,
                             int64_t channels, int kernel, int stride, d9_value_id *y) {
    d9_status status;
    D9_TRY(d9_graph_conv(context, graph, conv, x, channels, kernel, stride, y));
    D9_TRY(d9_graph_batch_norm(context, graph, norm, *y, y));
done:
    return status;
}

d9_status d9_parts_norm_act(d9_context *context, d9_graph *graph, const char *norm, const char *act, d9_value_id x,
                            d9_value_id *y) {
    d9_status status;
    D9_TRY(d9_graph_batch_norm(context, graph, norm, x, y));
    D9_TRY(d9_graph_act(context, graph, act, *y, y));
done:
    return status;
}

/* Side of the smallest image whose stem output has side `least`: the imagenet stem divides by 4, rounded up. */
static int64_t smallest_image(d9_stem stem, int64_t least) { return stem == D9_STEM_CIFAR ? least : 4 * least - 3; }

static d9_status check_size(d9_context *context, const d9_shape *image, d9_stem stem, int64_t least) {
    const int64_t side = image->d[1] < image->d[2] ? image->d[1] : image->d[2], needed = smallest_image(stem, least);
    char other[64] = "";
    if (side >= needed) return D9_OK;
    if (stem == D9_STEM_IMAGENET)
        snprintf(other, sizeof other, "; with model.stem: cifar %lld", (long long)smallest_image(D9_STEM_CIFAR, least));
    return d9_fail(context, D9_USAGE,
                   "images of %lldx%lld are too small for model.stem %s: it needs %lld pixels a side%s",
                   (long long)image->d[1], (long long)image->d[2], stem == D9_STEM_CIFAR ? "cifar" : "imagenet",
                   (long long)needed, other);
}

d9_status d9_parts_stem(d9_context *context, d9_graph *graph, const d9_stem_roles *roles, d9_stem stem, int64_t least,
                        d9_value_id x, int64_t channels, d9_value_id *y) {
    d9_status status;
    const d9_shape image = graph->values[x].shape;
    if (stem == D9_STEM_AUTO) stem = image.d[1] <= 64 && image.d[2] <= 64 ? D9_STEM_CIFAR : D9_STEM_IMAGENET;
    D9_TRY(check_size(context, &image, stem, least));
    if (stem == D9_STEM_CIFAR)
        D9_TRY(d9_graph_conv(context, graph, roles->conv, x, channels, 3, 1, y));
    else
        D9_TRY(d9_graph_conv(context, graph, roles->conv, x, channels, 7, 2, y));
    D9_TRY(d9_parts_norm_act(context, graph, roles->norm, roles->act, *y, y));
    if (stem == D9_STEM_IMAGENET)
        D9_TRY(d9_graph_pool(context, graph, roles->pool, *y, (d9_pool_attributes){3, 2, 1}, y));
done:
    return status;
}

static d9_status add_bias(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, d9_value_id *y) {
    d9_status status;
    const d9_value *weight = &graph->values[graph->nodes[graph->values[x].producer].inputs[1]];
    const d9_initializer init = weight->init;
    D9_TRY(d9_graph_bias(context, graph, role, x, y));
    graph->values[graph->nodes[graph->values[*y].producer].inputs[1]].init = init;
done:
    return status;
}

d9_status d9_parts_conv_bias(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, int64_t channels,
                             int kernel, d9_value_id *y) {
    d9_status status;
    D9_TRY(d9_graph_conv(context, graph, role, x, channels, kernel, 1, y));
    D9_TRY(add_bias(context, graph, role, *y, y));
done:
    return status;
}

d9_status d9_parts_linear_bias(d9_context *context, d9_graph *graph, const char *role, d9_value_id x, int64_t outputs,
                               d9_value_id *y) {
    d9_status status;
    D9_TRY(d9_graph_linear(context, graph, role, x, outputs, y));
    D9_TRY(add_bias(context, graph, role, *y, y));
done:
    return status;
}

d9_status d9_parts_mean_head(d9_context *context, d9_graph *graph, const char *linear, d9_value_id x, int64_t classes,
                             d9_value_id *logits) {
    d9_status status;
    d9_value_id y;
    const d9_shape shape = graph->values[x].shape;
    const int side = (int)shape.d[1];
    if (shape.d[1] != shape.d[2])
        return d9_fail(context, D9_USAGE, "avgpool: the images must be square; here %lldx%lld pixels remain",
                       (long long)shape.d[1], (long long)shape.d[2]);
    D9_TRY(d9_graph_mean_pool(context, graph, "avgpool", x, (d9_pool_attributes){side, side, 0}, &y));
    D9_TRY(d9_parts_linear_bias(context, graph, linear, y, classes, logits));
done:
    return status;
}

d9_fans d9_parts_fans(const d9_shape *weight) {
    const double in = (double)d9_shape_count(weight) / (double)weight->d[0];
    return (d9_fans){in, in / (double)weight->d[weight->rank - 1] * (double)weight->d[0]};
}

void d9_parts_init_convolutions(d9_graph *graph, bool fan_out) {
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        if (graph->nodes[n].op != D9_OP_CONV) continue;
        d9_value *weight = &graph->values[graph->nodes[n].inputs[1]];
        const d9_fans fans = d9_parts_fans(&weight->shape);
        weight->init =
            (d9_initializer){.name = "normal", .fill = d9_init_normal, .a = sqrt(2 / (fan_out ? fans.out : fans.in))};
    }
}
