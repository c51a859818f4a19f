/* Trained models as safetensors for other tools: see model.h, exchange.h and description.h. */
#include "core/system.h"
#include "exchange/description.h"
#include "exchange/exchange.h"
#include "exchange/model.h"

d9_status d9_model_encode(d9_session *session, const char *path, uint8_t **bytes, size_t *size) {
    d9_status status;
    const d9_graph *graph = &session->program.train;
    d9_arena arena = {0};
    d9_metadata metadata[D9_DESCRIPTION_ROWS];
    d9_tensor *tensors;
    int count = 0, rows;
    *bytes = NULL;
    D9_TRY(D9_ARENA_ALLOCATE(session->context, &arena, graph->value_count, &tensors));
    for (int v = 0; v < graph->value_count; v++) {
        const d9_value *value = &graph->values[v];
        const d9_shape shape = d9_exchange_shape(value);
        double *wide;
        if (!d9_exchange_has(value)) continue;
        D9_TRY(D9_ARENA_ALLOCATE(session->context, &arena, d9_shape_count(&shape), &wide));
        D9_TRY(d9_exchange_read(session, value, session->program.tail.evaluate, wide));
        D9_TRY(d9_tensor_from_doubles(session->context, &arena, value->name, &shape, wide, &tensors[count++]));
    }
    D9_TRY(d9_description_make(session, &arena, metadata, &rows));
    D9_TRY(d9_safetensors_encode(session->context, path, tensors, count, metadata, rows, bytes, size));
done:
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
    double *wide = NULL;
    const d9_tensor *tensor = d9_safetensors_find(file, value->name);
    if (!tensor)
        return d9_fail(session->context, D9_USAGE, "%s: has no %s: it is a model of another configuration", path,
                       value->name);
    if (!d9_shape_equal(&tensor->shape, &shape))
        return d9_fail(session->context, D9_USAGE, "%s: %s has another shape than this configuration's", path,
                       value->name);
    if (tensor->type != D9_TENSOR_F32)
        return d9_fail(session->context, D9_DATA, "%s: %s is %s, must be F32", path, value->name,
                       d9_tensor_type_name(tensor->type));
    D9_TRY(D9_ALLOCATE(session->context, d9_shape_count(&shape), "a model's tensor", &wide));
    d9_tensor_to_doubles(tensor, wide);
    D9_TRY(d9_exchange_check(session->context, path, value, wide));
    d9_exchange_in(&session->program.train, value, wide, state);
done:
    d9_release(session->context, wide);
    return status;
}

d9_status d9_model_load(d9_session *session, const char *path, const d9_safetensors *file) {
    d9_status status;
    const d9_graph *graph = &session->program.train;
    double *state = NULL;
    D9_TRY(D9_ALLOCATE(session->context, session->program.state_elements, "state", &state));
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
