/* Convolution: y[n,oy,ox,o] = sum over ky, kx, i of x[n, oy*stride + ky - pad, ox*stride + kx - pad, i] w[o,ky,kx,i],
 * where x is zero outside the image. */
#include "graph/onnx.h"
#include "graph/op.h"

static d9_status shape(d9_context *context, d9_graph *graph, const d9_node *node) {
    const d9_shape *x = d9_input_shape(graph, node, 0), *w = d9_input_shape(graph, node, 1);
    const d9_conv_attributes *conv = &node->as.conv;
    if (x->rank != 4 || w->rank != 4 || x->d[3] != w->d[3] || w->d[1] != conv->kernel || w->d[2] != conv->kernel)
        return d9_fail(context, D9_USAGE, "%s: a %dx%d convolution of %lld channels does not fit %lld input channels",
                       node->role, conv->kernel, conv->kernel, (long long)w->d[3], (long long)x->d[3]);
    int64_t height = (x->d[1] + 2 * conv->pad - conv->kernel) / conv->stride + 1;
    int64_t width = (x->d[2] + 2 * conv->pad - conv->kernel) / conv->stride + 1;
    if (height < 1 || width < 1)
        return d9_fail(context, D9_USAGE, "%s: a %lldx%lld image is too small for a %dx%d convolution", node->role,
                       (long long)x->d[1], (long long)x->d[2], conv->kernel, conv->kernel);
    d9_set_shape(graph, node->outputs[0], (d9_shape){4, {x->d[0], height, width, w->d[0]}});
    return D9_OK;
}

static d9_status gradient(d9_gradients *gradients, const d9_node *forward, d9_value_id dy) {
    return d9_gradient_weighted(gradients, forward, dy, D9_OP_CONV_BACKWARD_WEIGHT, D9_OP_CONV_BACKWARD_DATA);
}

static d9_status to_onnx(d9_context *context, d9_onnx_writer *writer, const d9_node *node) {
    const d9_conv_attributes *conv = &node->as.conv;
    (void)context;
    writer->begin(writer, "Conv", node->role,
                  (const char *[]){d9_onnx_input(writer, node, 0), d9_onnx_input(writer, node, 1), NULL},
                  d9_onnx_output(writer, node));
    writer->integers(writer, "kernel_shape", (int64_t[]){conv->kernel, conv->kernel}, 2);
    writer->integers(writer, "strides", (int64_t[]){conv->stride, conv->stride}, 2);
    writer->integers(writer, "pads", (int64_t[]){conv->pad, conv->pad, conv->pad, conv->pad}, 4);
    writer->end(writer);
    return D9_OK;
}

const d9_op_info d9_op_CONV = {
    .doc = "x (N,H,W,I), weight (O,K,K,I) -> y (N,OH,OW,O)",
    .inputs = 2,
    .outputs = 1,
    .weighted = true,
    .conv_or_linear = true,
    .shape = shape,
    .type = d9_type_compute,
    .gradient = gradient,
    .operations = d9_operations_forward,
    .onnx = to_onnx,
};

const d9_op_info d9_op_CONV_BACKWARD_DATA = {
    .doc = "dy, weight -> dx",
    .inputs = 2,
    .outputs = 1,
    .conv_or_linear = true,
    D9_PRESET_OUTPUTS,
    .operations = d9_operations_backward_data,
};

const d9_op_info d9_op_CONV_BACKWARD_WEIGHT = {
    .doc = "dy, x -> dweight",
    .inputs = 2,
    .outputs = 1,
    .conv_or_linear = true,
    D9_PRESET_OUTPUTS,
    .operations = d9_operations_backward_weight,
};
