/* Converts values between the layouts of the engine and of files; see exchange.h. */
#include "exchange/exchange.h"
#include "core/system.h"

#include <stdio.h>
#include <string.h>

d9_shape d9_exchange_shape(const d9_value *value) {
    const int64_t *d = value->shape.d;
    if (value->kind == D9_VALUE_STATISTIC) return (d9_shape){1, {d[1]}};
    if (value->shape.rank == 4) return (d9_shape){4, {d[0], d[3], d[1], d[2]}};
    return value->shape;
}

const char *d9_exchange_shape_text(const d9_shape *shape, char text[D9_SHAPE_TEXT]) {
    int length = 0;
    for (int i = 0; i < shape->rank; i++)
        length +=
            snprintf(text + length, (size_t)(D9_SHAPE_TEXT - length), "%s%lld", i ? ", " : "(", (long long)shape->d[i]);
    snprintf(text + length, (size_t)(D9_SHAPE_TEXT - length), ")");
    return text;
}

/* Shape of the value in the engine: (O, H, W, I) also for the weight of a linear layer that reads feature maps. */
static d9_shape engine_shape(const d9_graph *graph, const d9_value *value) {
    for (int n = 0; value->kind == D9_VALUE_PARAMETER && n < graph->node_count; n++) {
        const d9_node *node = &graph->nodes[n];
        if (node->op != D9_OP_LINEAR) continue;
        const d9_value *weight = &graph->values[d9_graph_parameter(graph, node->inputs[1])];
        const d9_shape *x = &graph->values[node->inputs[0]].shape;
        if (x->rank == 4 && strcmp(weight->name, value->name) == 0)
            return (d9_shape){4, {value->shape.d[0], x->d[1], x->d[2], x->d[3]}};
    }
    return value->shape;
}

/* Index in the engine's layout of element k of the file's layout: (o, i, h, w) is at (o, h, w, i). */
static int64_t engine_index(const d9_shape *shape, int64_t k) {
    const int64_t *d = shape->d;
    if (shape->rank != 4) return k;
    const int64_t w = k % d[2], h = k / d[2] % d[1], i = k / (d[2] * d[1]) % d[3], o = k / (d[3] * d[2] * d[1]);
    return ((o * d[1] + h) * d[2] + w) * d[3] + i;
}

static void average_groups(const int64_t *d, const double *engine_values, double *file_values) {
    for (int64_t c = 0; c < d[1]; c++) {
        double sum = 0;
        for (int64_t g = 0; g < d[0]; g++) sum += engine_values[g * d[1] + c];
        file_values[c] = sum / (double)d[0];
    }
}

d9_status d9_exchange_read(d9_session *session, const d9_value *value, d9_buffer buffer, double *file_values) {
    d9_status status;
    const int64_t count = d9_shape_count(&value->shape);
    double *engine_values = NULL;
    d9_value place = *value;
    place.buffer = buffer;
    const d9_shape shape = engine_shape(&session->program.train, value);
    D9_TRY(D9_ALLOCATE(session->context, count, value->name, &engine_values));
    D9_TRY(d9_session_read_value(session, &place, engine_values));
    if (value->kind == D9_VALUE_STATISTIC)
        average_groups(value->shape.d, engine_values, file_values);
    else
        for (int64_t k = 0; k < count; k++) file_values[k] = engine_values[engine_index(&shape, k)];
done:
    d9_release(session->context, engine_values);
    return status;
}

void d9_exchange_put_state(const d9_graph *graph, const d9_value *value, const double *file_values, double *state) {
    const d9_shape shape = engine_shape(graph, value);
    double *engine_values = state + value->offset / (int64_t)d9_type_bytes(value->type);
    const bool statistic = value->kind == D9_VALUE_STATISTIC;
    for (int64_t k = 0; k < d9_shape_count(&value->shape); k++)
        engine_values[engine_index(&shape, k)] = file_values[statistic ? k % value->shape.d[1] : k];
}
