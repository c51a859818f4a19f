/* Trained models as safetensors files; see model.h, exchange.h and description.h. */
#include "core/system.h"
#include "exchange/description.h"
#include "exchange/exchange.h"
#include "exchange/model.h"

#include <string.h>

/* Reads a parameter or statistic from the device, as an f32 tensor in the arena. */
static d9_status read_tensor(d9_session *session, d9_arena *arena, const d9_value *value, d9_tensor *tensor) {
    d9_status status;
    const d9_shape shape = d9_exchange_shape(value);
    double *wide = NULL;
    D9_TRY(D9_ALLOCATE(session->context, d9_shape_count(&shape), "a tensor", &wide));
    D9_TRY(d9_exchange_read(session, value, session->program.tail.evaluate, wide));
    D9_TRY(d9_tensor_from_doubles(session->context, arena, value->name, &shape, wide, tensor));
done:
    d9_release(session->context, wide);
    return status;
}

d9_status d9_model_encode(d9_session *session, const char *path, uint8_t **bytes, size_t *size) {
    d9_status status;
    const d9_graph *graph = &session->program.eval; /* holds the values that evaluation reads */
    d9_arena arena = {0};
    d9_metadata metadata[D9_DESCRIPTION_ROWS];
    d9_tensor *tensors;
    int count = 0, rows;
    *bytes = NULL;
    D9_TRY(D9_ARENA_ALLOCATE(session->context, &arena, graph->value_count, &tensors));
    for (int v = 0; v < graph->value_count; v++)
        if (d9_exchange_is_state(&graph->values[v]))
            D9_TRY(read_tensor(session, &arena, &graph->values[v], &tensors[count++]));
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

typedef struct source { /* a file being loaded */
    d9_session *session;
    const char *path;
    const d9_safetensors *file;
    bool keeps_head;       /* keep the initialised last layer if the classes differ */
    int64_t other_classes; /* number of classes in the file if its last layer is skipped; 0: it is loaded */
    double *state;
} source;

/* True if the parameter belongs to the last linear layer or to a node after it. */
static bool is_of_head(const d9_graph *graph, const d9_value *value) {
    const d9_node_id classifier = d9_graph_classifier(graph);
    for (d9_node_id n = classifier; n != D9_NONE && n <= graph->values[graph->logits].producer; n++)
        for (int i = 1; i < graph->nodes[n].input_count; i++)
            if (value == &graph->values[d9_graph_parameter(graph, graph->nodes[n].inputs[i])]) return true;
    return false;
}

/* The number of classes in the file if its last layer is to be skipped: they differ from the session's by name, or by
 * number (rows of the last layer's weight). Otherwise 0. */
static int64_t count_other_classes(const source *self) {
    const d9_graph *graph = &self->session->program.eval;
    const d9_node_id classifier = d9_graph_classifier(graph);
    if (!self->keeps_head || classifier == D9_NONE) return 0;
    const d9_value *weight = &graph->values[d9_graph_parameter(graph, graph->nodes[classifier].inputs[1])];
    const d9_tensor *tensor = d9_safetensors_find(self->file, weight->name);
    d9_shape shape = d9_exchange_shape(weight);
    if (!tensor) return 0;
    if (tensor->shape.d[0] == shape.d[0] && !d9_description_classes_differ(self->file, self->session->dataset))
        return 0;
    shape.d[0] = tensor->shape.d[0];
    return d9_shape_equal(&shape, &tensor->shape) ? shape.d[0] : 0;
}

/* The file's first tensor named PREFIX.NAME, such as DataParallel's "module.conv1.weight"; NULL: none. */
static const char *find_prefixed(const d9_safetensors *file, const char *name) {
    for (int i = 0; i < file->tensor_count; i++) {
        const char *theirs = file->tensors[i].name;
        const size_t length = strlen(theirs), end = strlen(name);
        if (length > end && theirs[length - end - 1] == '.' && strcmp(theirs + length - end, name) == 0) return theirs;
    }
    return NULL;
}

/* Finds the tensor of a value. `wanted`: the shape that it must have; `where`: the source of this shape, for messages.
 */
static d9_status find_tensor(d9_context *context, const char *path, const d9_safetensors *file, const d9_value *value,
                             const d9_shape *wanted, const char *where, const d9_tensor **tensor) {
    char here[D9_SHAPE_TEXT], there[D9_SHAPE_TEXT];
    const d9_tensor *found = *tensor = d9_safetensors_find(file, value->name);
    if (found && d9_shape_equal(&found->shape, wanted)) return D9_OK;
    d9_exchange_shape_text(wanted, here);
    if (found)
        return d9_fail(context, D9_USAGE, "%s: %s is %s, %s %s", path, value->name,
                       d9_exchange_shape_text(&found->shape, there), where, here);
    const char *prefixed = find_prefixed(file, value->name);
    return d9_fail(context, D9_USAGE, "%s: has no %s, which this configuration's network has as %s%s%s", path,
                   value->name, here, prefixed ? "; it has " : "", prefixed ? prefixed : "");
}

/* Returns D9_DATA unless all numbers are finite and variances are not negative. */
static d9_status check_values(d9_context *context, const char *path, const d9_value *value, const double *values,
                              int64_t count) {
    const bool variance = d9_text_ends_in(value->name, ".running_var");
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i]))
            return d9_fail(context, D9_DATA, "%s: damaged: %s holds %g, which is not finite", path, value->name,
                           values[i]);
        if (variance && values[i] < 0)
            return d9_fail(context, D9_DATA, "%s: damaged: %s holds %g, but a variance must not be negative", path,
                           value->name, values[i]);
    }
    return D9_OK;
}

d9_status d9_exchange_load(d9_context *context, const char *path, const d9_safetensors *file, const d9_value *value,
                           double **file_values) {
    d9_status status;
    const d9_shape shape = d9_exchange_shape(value);
    const int64_t count = d9_shape_count(&shape);
    const d9_tensor *tensor;
    *file_values = NULL;
    D9_TRY(find_tensor(context, path, file, value, &shape, "in this configuration's network", &tensor));
    if (!d9_tensor_type_is_for_weights(tensor->type))
        D9_TRY(d9_fail(context, D9_DATA, "%s: %s is %s, must be F32, F16 or BF16", path, value->name,
                       d9_tensor_type_name(tensor->type)));
    D9_TRY(D9_ALLOCATE(context, count, "a model's tensor", file_values));
    d9_tensor_to_doubles(tensor, *file_values);
    D9_TRY(check_values(context, path, value, *file_values, count));
done:
    return status;
}

static d9_status import_value(source *self, const d9_value *value) {
    d9_status status;
    d9_context *context = self->session->context;
    const d9_graph *graph = &self->session->program.eval;
    double *wide = NULL;
    if (self->other_classes && is_of_head(graph, value)) { /* not loaded, but must be of the file's classes */
        const d9_tensor *tensor;
        d9_shape shape = d9_exchange_shape(value);
        shape.d[0] = self->other_classes;
        return find_tensor(context, self->path, self->file, value, &shape, "beside its last layer's weight", &tensor);
    }
    D9_TRY(d9_exchange_load(context, self->path, self->file, value, &wide));
    d9_exchange_put_state(graph, value, wide, self->state);
done:
    d9_release(context, wide);
    return status;
}

/* Rejects tensors that the network does not have, except PyTorch's num_batches_tracked, which dawn9 does not use. */
static d9_status reject_unknown_tensors(const source *self) {
    const d9_graph *graph = &self->session->program.eval;
    char text[D9_SHAPE_TEXT];
    for (int i = 0; i < self->file->tensor_count; i++) {
        const d9_tensor *tensor = &self->file->tensors[i];
        const d9_value_id id = d9_graph_find_value(graph, tensor->name);
        if ((id != D9_NONE && d9_exchange_is_state(&graph->values[id])) ||
            d9_text_ends_in(tensor->name, ".num_batches_tracked"))
            continue;
        return d9_fail(self->session->context, D9_USAGE,
                       "%s: has %s, %s, which this configuration's network does not have", self->path, tensor->name,
                       d9_exchange_shape_text(&tensor->shape, text));
    }
    return D9_OK;
}

static d9_status load_weights(source *self) {
    d9_status status;
    d9_session *session = self->session;
    const d9_graph *graph = &session->program.eval;
    D9_TRY(d9_description_check_words(session->context, self->path, self->file, session->dataset));
    self->other_classes = count_other_classes(self);
    D9_TRY(D9_ALLOCATE(session->context, session->program.state_elements, "state", &self->state));
    if (self->keeps_head) D9_TRY(d9_session_read_state(session, D9_BUFFER_STATE, self->state));
    for (int v = 0; v < graph->value_count; v++)
        if (d9_exchange_is_state(&graph->values[v])) D9_TRY(import_value(self, &graph->values[v]));
    D9_TRY(reject_unknown_tensors(self));
    if (self->other_classes)
        d9_log(session->context, D9_LOG_WARNING,
               "%s: knows %lld %sclasses, here are %lld: the last layer is initialised anew", self->path,
               (long long)self->other_classes, self->other_classes == graph->classes ? "other " : "",
               (long long)graph->classes);
    D9_TRY(d9_session_set_state(session, self->state));
done:
    d9_release(session->context, self->state);
    return status;
}

d9_status d9_model_read_decoded(d9_session *session, const char *path, const d9_safetensors *file) {
    return load_weights(&(source){.session = session, .path = path, .file = file});
}

d9_status d9_model_read(d9_session *session, const char *path) {
    d9_status status;
    d9_safetensors *file = NULL;
    D9_TRY(d9_safetensors_read(session->context, path, &file));
    D9_TRY(d9_model_read_decoded(session, path, file));
done:
    d9_safetensors_free(session->context, file);
    return status;
}

/* Fails if the SHA-256 of the file's bytes is not that in the configuration (train.from). */
static d9_status check_sha256(const d9_session *session, const char *path, const uint8_t *bytes, size_t size) {
    char sum[65];
    const char *wanted = session->config->train.from_sha256 + strlen(D9_FROM_RECORD);
    d9_sha256_hex(&(d9_bytes){bytes, size}, 1, sum);
    if (strcmp(sum, wanted) == 0) return D9_OK;
    return d9_fail(session->context, D9_DATA,
                   "%s: not the file that train.from names: SHA-256 %.12s..., must be %.12s...", path, sum, wanted);
}

d9_status d9_model_load_initial_weights(d9_session *session, const char *from) {
    d9_status status;
    d9_context *context = session->context;
    d9_arena arena = {0};
    d9_safetensors *file = NULL;
    uint8_t *bytes = NULL;
    size_t size;
    const char *path;
    D9_TRY(d9_weights_find(context, &arena, from, &path));
    D9_TRY(d9_file_read_limited(context, path, D9_TENSORS_MAX_BYTES, &bytes, &size));
    D9_TRY(check_sha256(session, path, bytes, size));
    D9_TRY(d9_safetensors_decode(context, path, bytes, size, &file));
    D9_TRY(load_weights(&(source){.session = session, .path = path, .file = file, .keeps_head = true}));
done:
    d9_release(context, bytes);
    d9_safetensors_free(context, file);
    d9_arena_free(context, &arena);
    return status;
}
