/* First layers as graphs: first_layer.h. */
#include "tests/cuda_backend/first_layer.h"
#include <stdio.h>
#include <string.h>

/* Adds a convolution's weights, cast to the compute type by a node if needed. */
static d9_value_id add_weights(op_case *c, const char *name, d9_shape shape) {
    const d9_value_id master = op_input(c, name, D9_BUFFER_STATE, c->master, shape, -1, 1);
    if (c->compute == c->master) return master;
    d9_node cast = {.op = D9_OP_CAST, .inputs = {master}, .input_count = 1, .output_count = 1};
    char narrow[32];
    snprintf(narrow, sizeof narrow, "%s.narrow", name);
    cast.outputs[0] = op_output(c, narrow, D9_BUFFER_SCRATCH, c->compute, shape);
    op_node(c, &cast);
    return cast.outputs[0];
}

static d9_value_id add_conv(op_case *c, const char *name, d9_value_id x, d9_shape weights, int stride, d9_shape y) {
    d9_node conv = {.op = D9_OP_CONV, .inputs = {x}, .input_count = 2, .output_count = 1};
    conv.as.conv = (d9_conv_attributes){(int)weights.d[1], stride, (int)weights.d[1] / 2};
    conv.inputs[1] = add_weights(c, name, weights);
    char out[32];
    snprintf(out, sizeof out, "%s.out", name);
    conv.outputs[0] = op_output(c, out, D9_BUFFER_SCRATCH, c->compute, y);
    op_node(c, &conv);
    return conv.outputs[0];
}

static void add_first_gradient(first_case *f, d9_value_id x, d9_value_id y, d9_value_id mean, d9_value_id inv_std,
                               d9_value_id scale, const d9_conv_attributes *conv) {
    op_case *c = &f->c;
    const d9_shape shape = c->graph->values[y].shape, vector = {1, {shape.d[3]}};
    const d9_buffer s = D9_BUFFER_SCRATCH, g = D9_BUFFER_GRADIENT;
    d9_node act = {.op = D9_OP_ACT_BACKWARD, .input_count = 2, .output_count = 1, .as.act = {D9_ACT_CELU, 0.3}};
    act.inputs[0] = op_input(c, "dy", s, c->compute, shape, -2, 2);
    act.inputs[1] = y;
    act.outputs[0] = op_output(c, "dz", s, c->compute, shape);
    d9_node norm = {.op = D9_OP_NORM_BACKWARD, .inputs = {act.outputs[0], f->conv, mean, inv_std, scale}};
    norm.input_count = 5, norm.output_count = 3, norm.as.norm = (d9_norm_attributes){1e-5, 0.1, 2, 0, 0};
    norm.outputs[0] = op_output(c, "dconv", s, c->compute, shape);
    norm.outputs[1] = f->outputs[f->count++] = op_output(c, "dscale", g, c->master, vector);
    norm.outputs[2] = f->outputs[f->count++] = op_output(c, "dbias", g, c->master, vector);
    d9_node weight = {.op = D9_OP_CONV_BACKWARD_WEIGHT, .inputs = {norm.outputs[0], x}, .input_count = 2};
    weight.output_count = 1, weight.as.conv = *conv;
    weight.outputs[0] = f->outputs[f->count++] = op_output(
        c, "dw", g, c->master, (d9_shape){4, {shape.d[3], conv->kernel, conv->kernel, c->graph->values[x].shape.d[3]}});
    op_node(c, &act);
    op_node(c, &norm);
    op_node(c, &weight);
}

void make_first(first_case *f, d9_context *context, d9_type compute, first_how how) {
    static const d9_shape image = {4, {6, 9, 7, 3}}, vector = {1, {24}}, pairs = {2, {3, 24}};
    const d9_shape y = how.strided ? (d9_shape){4, {6, 5, 4, 24}} : (d9_shape){4, {6, 9, 7, 24}};
    op_case *c = &f->c;
    const d9_buffer s = D9_BUFFER_SCRATCH;
    const d9_type master = compute == D9_F64 ? D9_F64 : D9_F32;
    *f = (first_case){.whitened = D9_NONE};
    op_case_begin(c, context, "first", compute, master, OP_FILL_RANDOM);
    d9_value_id x = op_input(c, "image", s, compute, image, -1, 2);
    const int kernel = how.kernel, stride = how.strided ? 2 : 1;
    const d9_conv_attributes conv = {kernel, stride, kernel / 2};
    if (how.whiten) {
        x = f->whitened = add_conv(c, "filters", x, (d9_shape){4, {27, 3, 3, 3}}, 1, (d9_shape){4, {6, 9, 7, 27}});
        for (int v = 0; v < c->graph->value_count; v++)
            if (strcmp(c->graph->values[v].name, "filters") == 0) c->graph->values[v].trainable = how.trains_filters;
    }
    f->conv = add_conv(c, "weight", x, (d9_shape){4, {24, kernel, kernel, how.whiten ? 27 : 3}}, stride, y);
    d9_node norm = {.op = how.evaluate ? D9_OP_NORM_EVAL : D9_OP_NORM, .inputs = {f->conv}, .input_count = 5};
    norm.output_count = how.evaluate ? 1 : 3, norm.as.norm = (d9_norm_attributes){1e-5, 0.1, 2, 0, 0};
    norm.inputs[1] = op_input(c, "scale", D9_BUFFER_STATE, master, vector, 0.5, 2);
    norm.inputs[2] = op_input(c, "bias", D9_BUFFER_STATE, master, vector, -1, 1);
    norm.inputs[3] = op_input(c, "running_mean", D9_BUFFER_STATE, master, pairs, -1, 1);
    norm.inputs[4] = op_input(c, "running_var", D9_BUFFER_STATE, master, pairs, 0.5, 2);
    norm.outputs[0] = op_output(c, "norm.out", s, compute, y);
    d9_node act = {.op = D9_OP_ACT, .inputs = {norm.outputs[0]}, .input_count = 1, .output_count = 1};
    act.as.act = (d9_act_attributes){D9_ACT_CELU, 0.3};
    act.outputs[0] = f->outputs[f->count++] = op_output(c, "act.out", s, compute, y);
    for (int i = 1; i < 3 && !how.evaluate; i++) {
        norm.outputs[i] = f->outputs[f->count++] = op_output(c, i == 1 ? "mean" : "inv_std", s, master, pairs);
        f->outputs[f->count++] = norm.inputs[2 + i];
    }
    op_node(c, &norm);
    op_node(c, &act);
    if (!how.evaluate)
        add_first_gradient(f, x, act.outputs[0], norm.outputs[1], norm.outputs[2], norm.inputs[1], &conv);
}

void copy_inputs(first_case *to, const first_case *from) {
    for (int v = 0; v < to->c.graph->value_count; v++)
        for (int w = 0; w < from->c.graph->value_count && to->c.content[v]; w++) {
            const d9_value *value = &from->c.graph->values[w];
            if (!from->c.content[w] || strcmp(to->c.graph->values[v].name, value->name) != 0) continue;
            const bool weight = value->shape.rank == 4 && value->buffer == D9_BUFFER_STATE;
            for (int64_t i = 0; i < op_count(&from->c, w); i++)
                to->c.content[v][i] = op_round(weight ? from->c.compute : value->type, from->c.content[w][i]);
        }
}
