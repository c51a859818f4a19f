/* Initial values of parameters and statistics. Each has its own Philox stream, given by a hash of its name, so that
 * editing one part of a network does not change the draws of another. */
#include "graph/init.h"

#define TAU 6.283185307179586

d9_status d9_init_uniform(d9_context *context, const d9_initializer *self, const d9_init_site *site, double *values,
                          int64_t count) {
    (void)context;
    for (int64_t i = 0; i < count; i += 4) {
        d9_philox random = d9_philox4x32_10(site->seed, (uint32_t)(i / 4), site->stream, D9_STREAM_INIT, 0);
        for (int64_t k = 0; k < 4 && i + k < count; k++)
            values[i + k] = self->a * (2 * (random.v[k] + 0.5) / 4294967296.0 - 1);
    }
    return D9_OK;
}

/* Box and Muller 1958: two uniform numbers in (0, 1) give two normal ones. */
d9_status d9_init_normal(d9_context *context, const d9_initializer *self, const d9_init_site *site, double *values,
                         int64_t count) {
    (void)context;
    for (int64_t i = 0; i < count; i += 2) {
        const d9_philox random = d9_philox4x32_10(site->seed, (uint32_t)(i / 4), site->stream, D9_STREAM_INIT, 0);
        const uint32_t *words = &random.v[i % 4];
        const double radius = self->a * sqrt(-2 * log((words[0] + 0.5) / 4294967296.0)),
                     angle = TAU * ((words[1] + 0.5) / 4294967296.0);
        values[i] = radius * cos(angle);
        if (i + 1 < count) values[i + 1] = radius * sin(angle);
    }
    return D9_OK;
}

d9_status d9_init_constant(d9_context *context, const d9_initializer *self, const d9_init_site *site, double *values,
                           int64_t count) {
    (void)context, (void)site;
    for (int64_t i = 0; i < count; i++) values[i] = self->a;
    return D9_OK;
}

d9_status d9_init_state(d9_context *context, const d9_graph *graph, d9_type master, const d9_init_site *site,
                        d9_init_phase phase, double *state) {
    const int64_t size = (int64_t)d9_type_bytes(master);
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        if (value->kind != D9_VALUE_PARAMETER && value->kind != D9_VALUE_STATISTIC) continue;
        if (value->init.phase != phase) continue;
        double *values = state + value->offset / size;
        d9_init_site own = *site;
        own.parameter = value;
        own.stream = d9_role_stream(value->name);
        const int64_t count = d9_shape_count(&value->shape);
        d9_status status = value->init.fill(context, &value->init, &own, values, count);
        if (status == D9_OK && value->init.adjust)
            status = value->init.adjust(context, &value->init, &own, values, count);
        if (status != D9_OK) return status;
    }
    return D9_OK;
}
