/* Describes convolutions in the terms of cuDNN; see conv_description.h. */
#include "backends/cuda/conv_description.h"

#include <stdio.h>
#include <string.h>

/* A tensor stored as (A, H, W, C), A images or output channels, with cuDNN's dimension order (A, C, H, W). */
static d9_conv_tensor tensor(int argument, d9_type type, const d9_shape *shape) {
    const int64_t a = shape->d[0], h = shape->d[1], w = shape->d[2], c = shape->d[3];
    return (d9_conv_tensor){.id = argument + 1,
                            .type = type,
                            .dims = {a, c, h, w},
                            .strides = {h * w * c, 1, w * c, c},
                            .alignment = D9_CONV_ALIGNMENT,
                            .bytes = a * h * w * c * (int64_t)d9_type_bytes(type)};
}

int64_t d9_conv_staged_bytes(const d9_site *site, const d9_cudnn_description *description,
                             int64_t bytes[D9_CONV_ARGUMENTS]) {
    enum { ALIGNMENT = 256 };
    const d9_conv_geometry g = d9_conv_geometry_of(site);
    int64_t sum = 0;
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) {
        const d9_conv_tensor *tensor = &description->tensor[a];
        const bool staged = d9_site_value(site, g.value[a])->type != tensor->type;
        bytes[a] = staged ? (tensor->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : 0;
        sum += bytes[a];
    }
    return sum;
}

d9_cudnn_description d9_cudnn_describe(const d9_conv_geometry *g) {
    return (d9_cudnn_description){.pass = g->pass,
                                  .tensor = {tensor(D9_CONV_IMAGE, g->type, &g->x),
                                             tensor(D9_CONV_WEIGHTS, g->type, &g->w),
                                             tensor(D9_CONV_OUTPUT, g->type, &g->y)},
                                  .written = d9_conv_written(g->pass),
                                  .pad = {g->pad, g->pad},
                                  .stride = {g->stride, g->stride},
                                  .dilation = {1, 1},
                                  .accumulate = D9_F32,
                                  .tf32 = g->tf32};
}

static void add_dims(const char *name, const d9_conv_tensor *t, char text[D9_CONV_TEXT]) {
    const size_t used = strlen(text);
    snprintf(text + used, D9_CONV_TEXT - used, " %s %lldx%lldx%lldx%lld", name, (long long)t->dims[0],
             (long long)t->dims[1], (long long)t->dims[2], (long long)t->dims[3]);
}

void d9_conv_text(const d9_cudnn_description *d, char text[D9_CONV_TEXT]) {
    static const char *const passes[] = {[D9_CONV_FORWARD] = "forward",
                                         [D9_CONV_BACKWARD_DATA] = "backward_data",
                                         [D9_CONV_BACKWARD_WEIGHT] = "backward_weight"};
    static const char *const names[] = {"x", "w", "y"};
    snprintf(text, D9_CONV_TEXT, "%s %s", passes[d->pass],
             d->tf32 ? "tf32" : d9_type_name(d->tensor[D9_CONV_IMAGE].type));
    for (int a = 0; a < D9_CONV_ARGUMENTS; a++) add_dims(names[a], &d->tensor[a], text);
    const size_t used = strlen(text);
    snprintf(text + used, D9_CONV_TEXT - used, " pad %lld stride %lld", (long long)d->pad[0], (long long)d->stride[0]);
}

double d9_conv_operations(const d9_cudnn_description *d) {
    const int64_t *y = d->tensor[D9_CONV_OUTPUT].dims, *w = d->tensor[D9_CONV_WEIGHTS].dims;
    return 2 * (double)(y[0] * y[1] * y[2] * y[3]) * (double)(w[1] * w[2] * w[3]);
}
