/* Builds graphs of first layers for the tests in ops.c; declared in ops.h. */
#include "tests/cuda_backend/ops.h"
#include <stdio.h>
#include <string.h>

static const d9_norm_attributes rule = {1e-5, 0.1, 2, 0, 0};

/* Adds a convolution's weights, cast to the compute type by a node if needed. */
static d9_value_id add_weights(op_case *c, const char *name, d9_shape shape) {
    const d9_value_id master = op_input(c, name, D9_BUFFER_STATE, c->master, shape, -1, 1);
    if (c->compute == c->master) return master;
    char narrow[32];
    snprintf(narrow, sizeof narrow, "%s.narrow", name);
    const d9_value_id cast = op_output(c, narrow, D9_BUFFER_SCRATCH, c->compute, shape);
    OP_ADD(c, D9_OP_CAST, (master), (cast));
    return cast;
}

static d9_value_id add_conv(op_case *c, const char *name, d9_value_id x, d9_shape weights, int stride, d9_shape y) {
    const d9_value_id w = add_weights(c, name, weights);
    char out[32];
    snprintf(out, sizeof out, "%s.out", name);
    const d9_value_id conv = op_output(c, out, D9_BUFFER_SCRATCH, c->compute, y);
    OP_ADD(c, D9_OP_CONV, (x, w), (conv), .as.conv = {(int)weights.d[1], stride, (int)weights.d[1] / 2});
    return conv;
}

/* Adds the gradients of the last convolution's weights, and of the norm's scale and bias. */
static void add_first_gradient(first_case *f, d9_value_id x, d9_value_id y, d9_value_id mean, d9_value_id inv_std,
                               d9_value_id scale, const d9_conv_attributes *conv) {
    op_case *c = &f->c;
    const d9_shape shape = c->graph->values[y].shape, vector = {1, {shape.d[3]}};
    const d9_buffer s = D9_BUFFER_SCRATCH, g = D9_BUFFER_GRADIENT;
    const d9_shape weights = {4, {shape.d[3], conv->kernel, conv->kernel, c->graph->values[x].shape.d[3]}};
    const d9_value_id dy = op_input(c, "dy", s, c->compute, shape, -2, 2),
                      dz = op_output(c, "dz", s, c->compute, shape),
                      dconv = op_output(c, "dconv", s, c->compute, shape),
                      outputs[] = {op_output(c, "dscale", g, c->master, vector),
                                   op_output(c, "dbias", g, c->master, vector),
                                   op_output(c, "dw", g, c->master, weights)};
    for (int i = 0; i < 3; i++) f->outputs[f->count++] = outputs[i];
    OP_ADD(c, D9_OP_ACT_BACKWARD, (dy, y), (dz), .as.act = {D9_ACT_CELU, 0.3});
    OP_ADD(c, D9_OP_NORM_BACKWARD, (dz, f->conv, mean, inv_std, scale), (dconv, outputs[0], outputs[1]),
           .as.norm = rule);
    OP_ADD(c, D9_OP_CONV_BACKWARD_WEIGHT, (dconv, x), (outputs[2]), .as.conv = *conv);
}

void make_first_layer(first_case *f, d9_context *context, d9_type compute, first_options how) {
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
    const d9_value_id scale = op_input(c, "scale", D9_BUFFER_STATE, master, vector, 0.5, 2),
                      bias = op_input(c, "bias", D9_BUFFER_STATE, master, vector, -1, 1),
                      running[] = {op_input(c, "running_mean", D9_BUFFER_STATE, master, pairs, -1, 1),
                                   op_input(c, "running_var", D9_BUFFER_STATE, master, pairs, 0.5, 2)},
                      normed = op_output(c, "norm.out", s, compute, y), act = op_output(c, "act.out", s, compute, y);
    f->outputs[f->count++] = act;
    if (how.evaluate) {
        OP_ADD(c, D9_OP_NORM_EVAL, (f->conv, scale, bias, running[0], running[1]), (normed), .as.norm = rule);
        OP_ADD(c, D9_OP_ACT, (normed), (act), .as.act = {D9_ACT_CELU, 0.3});
        return;
    }
    const d9_value_id mean = op_output(c, "mean", s, master, pairs),
                      inv_std = op_output(c, "inv_std", s, master, pairs),
                      outputs[] = {mean, running[0], inv_std, running[1]};
    for (int i = 0; i < 4; i++) f->outputs[f->count++] = outputs[i];
    OP_ADD(c, D9_OP_NORM, (f->conv, scale, bias, running[0], running[1]), (normed, mean, inv_std), .as.norm = rule);
    OP_ADD(c, D9_OP_ACT, (normed), (act), .as.act = {D9_ACT_CELU, 0.3});
    add_first_gradient(f, x, act, mean, inv_std, scale, &conv);
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
