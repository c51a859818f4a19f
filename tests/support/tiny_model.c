/* The tests' own network: see tiny_model.h. */
#include "tests/support/tiny_model.h"
#include <stdio.h>

static const d9_option options[] = {
    {"widths", D9_OPTION_INTS, offsetof(tiny_model, widths), "[4, 6]", 1, 64, NULL, "output channels of each stage"},
    {"norm", D9_OPTION_BOOL, offsetof(tiny_model, norm), "on", 0, 0, NULL, "batch norm after each convolution"},
    {"act", D9_OPTION_BOOL, offsetof(tiny_model, act), "on", 0, 0, NULL, "activation in each stage"},
    {"pool", D9_OPTION_BOOL, offsetof(tiny_model, pool), "on", 0, 0, NULL, "pool of 2 after each stage"},
    {"stem", D9_OPTION_CHOICE, offsetof(tiny_model, stem), "conv", 0, 0, "conv|strided|pool|shared", "first layer"},
    {0}};

static const char *role(char name[D9_NAME_SIZE], int stage, const char *part) {
    snprintf(name, D9_NAME_SIZE, "features.%d.%s", stage, part);
    return name;
}

static d9_status add_stage(d9_context *context, d9_graph *graph, const tiny_model *self, int index, d9_value_id *x) {
    d9_status status;
    char name[D9_NAME_SIZE];
    int stride = index == 0 && self->stem == TINY_STEM_STRIDED ? 2 : 1;
    D9_TRY(d9_graph_conv(context, graph, role(name, index, "filter"), *x, self->widths.values[index], 3, stride, x));
    if (self->norm) D9_TRY(d9_graph_batch_norm(context, graph, role(name, index, "batch"), *x, x));
    if (self->act) D9_TRY(d9_graph_act(context, graph, role(name, index, "bend"), *x, x));
    if (self->pool)
        D9_TRY(d9_graph_pool(context, graph, role(name, index, "shrink"), *x, (d9_pool_attributes){2, 2, 0}, x));
done:
    return status;
}

/* Replaces the image by the sum of itself and its half, so that two nodes read the image. */
static d9_status add_second_consumer(d9_context *context, d9_graph *graph, d9_value_id *x) {
    d9_status status;
    d9_value_id faint;
    D9_TRY(d9_graph_scale(context, graph, "features.faint", *x, 0.5, &faint));
    D9_TRY(d9_graph_add(context, graph, "features.sum", *x, faint, x));
done:
    return status;
}

static d9_status build(d9_context *context, const void *opaque, int64_t classes, d9_graph *graph, d9_value_id x,
                       d9_value_id *logits) {
    d9_status status = D9_OK;
    const tiny_model *self = opaque;
    d9_value_id y = x;
    if (self->stem == TINY_STEM_POOL)
        D9_TRY(d9_graph_pool(context, graph, "features.shrink", y, (d9_pool_attributes){2, 2, 0}, &y));
    if (self->stem == TINY_STEM_SHARED) D9_TRY(add_second_consumer(context, graph, &y));
    for (int i = 0; i < self->widths.count; i++) D9_TRY(add_stage(context, graph, self, i, &y));
    D9_TRY(d9_graph_linear(context, graph, "classifier", y, classes, logits));
done:
    return status;
}

const d9_model d9_model_tiny = {
    .name = "tiny",
    .doc = "a stack of conv, norm, act, pool; for tests",
    .source = "written for the tests",
    .options = options,
    .options_size = sizeof(tiny_model),
    .build = build,
};

tiny_model tiny_model_default(void) {
    return (tiny_model){.widths = {2, {4, 6}}, .norm = true, .act = true, .pool = true, .stem = TINY_STEM_CONV};
}

void tiny_model_use(d9_config *config, tiny_model *chosen) {
    config->model = &d9_model_tiny;
    config->model_options = chosen;
}
