/* Trained models as safetensors for other tools: see model.h, exchange.h and description.h. */
#include "core/system.h"
#include "exchange/description.h"
#include "exchange/exchange.h"
#include "exchange/model.h"

/* One f32 tensor in the outside layout. */
static d9_status export_value(d9_session *session, d9_arena *arena, const d9_value *value, const double *state,
                              d9_tensor *tensor) {
    d9_status status;
    d9_shape shape = d9_exchange_shape(value);
    int64_t count = d9_shape_count(&shape), size = (int64_t)d9_type_bytes(session->program.precision->master);
    void *wide, *narrow;
    D9_TRY(d9_arena_allocate(session->context, arena, (size_t)count * sizeof(double), &wide));
    D9_TRY(d9_arena_allocate(session->context, arena, (size_t)count * sizeof(float), &narrow));
    d9_exchange_out(value, state + value->offset / size, wide);
    for (int64_t i = 0; i < count; i++) ((float *)narrow)[i] = (float)((double *)wide)[i];
    *tensor = (d9_tensor){value->name, D9_TENSOR_F32, shape, narrow, (size_t)count * sizeof(float)};
done:
    return status;
}

d9_status d9_model_encode(d9_session *session, const char *path, uint8_t **bytes, size_t *size) {
    d9_status status;
    const d9_graph *graph = &session->program.train;
    d9_arena arena = {0};
    d9_metadata metadata[D9_DESCRIPTION_ROWS];
    void *state = NULL, *tensors = NULL;
    int count = 0;
    *bytes = NULL;
    D9_TRY(d9_allocate(session->context, (size_t)session->program.state_elements * sizeof(double), "state", &state));
    D9_TRY(d9_allocate(session->context, (size_t)graph->value_count * sizeof(d9_tensor), "tensors", &tensors));
    D9_TRY(d9_session_read_state(session, session->program.tail.evaluate, state));
    for (int v = 0; v < graph->value_count; v++)
        if (d9_exchange_has(&graph->values[v]))
            D9_TRY(export_value(session, &arena, &graph->values[v], state, (d9_tensor *)tensors + count++));
    D9_TRY(d9_description_make(session, &arena, metadata));
    D9_TRY(d9_safetensors_encode(session->context, path, tensors, count, metadata, D9_DESCRIPTION_ROWS, bytes, size));
done:
    d9_release(session->context, tensors);
    d9_release(session->context, state);
    d9_arena_free(session->context, &arena);
    return status;
}

d9_status d9_model_write(d9_session *session, const char *path) {
    d9_status status;
    uint8_t *bytes;
    size_t size;
    D9_TRY(d9_model_encode(session, path, &bytes, &size));
    D9_TRY(d9_file_write(session->context, path, bytes, size));
done:
    d9_release(session->context, bytes);
    return status;
}

static d9_status import_value(d9_session *session, const char *path, const d9_safetensors *file, const d9_value *value,
                              double *state) {
    d9_status status;
    d9_shape shape = d9_exchange_shape(value);
    void *wide = NULL;
    const d9_tensor *tensor = d9_safetensors_find(file, value->name);
    if (!tensor)
        return d9_fail(session->context, D9_USAGE, "%s: has no %s: it is a model of another configuration", path,
                       value->name);
    if (!d9_shape_equal(&tensor->shape, &shape))
        return d9_fail(session->context, D9_USAGE, "%s: %s has another shape than this configuration's", path,
                       value->name);
    D9_TRY(d9_allocate(session->context, (size_t)d9_shape_count(&shape) * sizeof(double), "a model's tensor", &wide));
    d9_tensor_to_doubles(tensor, wide);
    d9_exchange_in(value, wide, state + value->offset / (int64_t)d9_type_bytes(session->program.precision->master));
done:
    d9_release(session->context, wide);
    return status;
}

d9_status d9_model_load(d9_session *session, const char *path, const d9_safetensors *file) {
    d9_status status;
    const d9_graph *graph = &session->program.train;
    void *state = NULL;
    D9_TRY(d9_allocate(session->context, (size_t)session->program.state_elements * sizeof(double), "state", &state));
    for (int v = 0; v < graph->value_count; v++)
        if (d9_exchange_has(&graph->values[v])) D9_TRY(import_value(session, path, file, &graph->values[v], state));
    D9_TRY(d9_session_set_state(session, state));
done:
    d9_release(session->context, state);
    return status;
}

d9_status d9_model_read(d9_session *session, const char *path) {
    d9_status status;
    d9_safetensors *file = NULL;
    D9_TRY(d9_safetensors_read(session->context, path, &file));
    D9_TRY(d9_model_load(session, path, file));
done:
    d9_safetensors_free(session->context, file);
    return status;
}
