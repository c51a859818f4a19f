/* Reads a reference case; see reference_case.h. */
#include "verify/reference_case.h"
#include "core/system.h"
#include "exchange/exchange.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { LARGEST_PATCH = 16 }; /* side in pixels */

/* ---- metadata ---- */

static d9_status fail_case(d9_context *context, const d9_reference_case *self, const char *what) {
    return d9_fail(context, D9_DATA, "case %s: %s", self->name, what);
}

/* Parses a metadata row that holds a JSON object. *object is NULL if there is no such row. */
static d9_status read_object(d9_context *context, const d9_reference_case *self, const char *key, json_t **object) {
    const char *text = d9_safetensors_metadata(self->file, key);
    json_error_t error;
    *object = text ? json_loads(text, 0, &error) : NULL;
    return !text || json_is_object(*object)
               ? D9_OK
               : d9_fail(context, D9_DATA, "case %s: %s in its metadata is not a JSON object", self->name, key);
}

static d9_status read_names(d9_context *context, d9_reference_case *self) {
    d9_status status;
    const char *key;
    json_t *name;
    D9_TRY(read_object(context, self, "dawn9.names", &self->names));
    json_object_foreach(self->names, key, name) {
        if (!json_is_string(name))
            D9_TRY(fail_case(context, self, "dawn9.names in its metadata holds something other than names"));
    }
done:
    return status;
}

static d9_status read_patches(d9_context *context, d9_reference_case *self) {
    d9_status status;
    json_t *object = NULL;
    d9_patch_settings *patches = &self->patches;
    D9_TRY(read_object(context, self, "dawn9.patches", &object));
    if (!object) goto done;
    const char *covariance = json_string_value(json_object_get(object, "covariance"));
    const char *eigenvalues = json_string_value(json_object_get(object, "eigenvalues"));
    patches->images = json_integer_value(json_object_get(object, "images"));
    patches->size = (int)json_integer_value(json_object_get(object, "size"));
    if (!covariance || !eigenvalues || patches->images < 1 || patches->size < 1 || patches->size > LARGEST_PATCH ||
        patches->size > self->description->height || patches->size > self->description->width)
        D9_TRY(
            fail_case(context, self, "dawn9.patches in its metadata needs images, size, covariance and eigenvalues"));
    D9_TRY(d9_arena_copy(context, &self->arena, covariance, &patches->covariance));
    D9_TRY(d9_arena_copy(context, &self->arena, eigenvalues, &patches->eigenvalues));
done:
    json_decref(object);
    return status;
}

/* Reads an optional number; `value` is unchanged if it is missing. */
static d9_status read_number(d9_context *context, const d9_reference_case *self, const json_t *settings,
                             const char *key, double *value) {
    const json_t *found = json_object_get(settings, key);
    if (found && !json_is_number(found))
        return d9_fail(context, D9_DATA, "case %s: %s is not a number", self->name, key);
    if (found) *value = json_number_value(found);
    return D9_OK;
}

static d9_status read_rates(d9_context *context, d9_reference_case *self, const json_t *settings) {
    d9_status status;
    const json_t *list = json_object_get(settings, "lr");
    double steps = 0;
    if (!list) D9_TRY(fail_case(context, self, "its settings lack lr"));
    D9_TRY(read_number(context, self, settings, "steps", &steps));
    if (steps < 1 || (double)json_array_size(list) != steps)
        D9_TRY(d9_fail(context, D9_DATA, "case %s: %g steps but %zu learning rates", self->name, steps,
                       json_array_size(list)));
    self->steps = (int64_t)steps;
    D9_TRY(D9_ARENA_ALLOCATE(context, &self->arena, self->steps, &self->rates));
    for (int64_t k = 0; k < self->steps; k++) {
        const json_t *rate = json_array_get(list, (size_t)k);
        if (!json_is_number(rate)) D9_TRY(fail_case(context, self, "lr holds something other than numbers"));
        self->rates[k] = json_number_value(rate);
    }
done:
    return status;
}

static d9_status read_settings(d9_context *context, d9_reference_case *self) {
    d9_status status;
    json_t *settings = NULL;
    D9_TRY(read_object(context, self, "case", &settings));
    if (!settings && !self->augmentation) D9_TRY(fail_case(context, self, "its metadata has no settings (case)"));
    if (!self->augmentation) D9_TRY(read_rates(context, self, settings));
    self->norm_epsilon = 1e-5; /* defaults of d9_graph_batch_norm */
    self->norm_momentum = 0.1;
    D9_TRY(read_number(context, self, settings, "bn_eps", &self->norm_epsilon));
    D9_TRY(read_number(context, self, settings, "bn_momentum", &self->norm_momentum));
done:
    json_decref(settings);
    return status;
}

/* ---- configuration ---- */

/* Builds the program once, so that a network or trick that rejects the batch does so before anything runs. */
static d9_status check_program(d9_context *context, const d9_reference_case *self) {
    d9_program program;
    d9_status status =
        d9_description_program(context, self->description, self->config, self->config->train.batch_size, &program);
    if (status == D9_OK) d9_program_free(context, &program);
    return status;
}

static d9_status read_config(d9_context *context, const char *path, d9_reference_case *self) {
    d9_status status;
    D9_TRY(d9_description_config(context, self->description, path, NULL, &self->config));
    D9_TRY(check_program(context, self));
done:
    if (status == D9_USAGE) status = context->status = D9_DATA; /* the error is in the file, not in the command line */
    return status;
}

/* ---- opening ---- */

static void set_name(const char *path, char *name, size_t size) {
    const char *begin = d9_text_file_name(path), *dot = strrchr(begin, '.');
    snprintf(name, size, "%.*s", dot ? (int)(dot - begin) : (int)strlen(begin), begin);
}

d9_status d9_reference_case_open(d9_context *context, const char *path, d9_reference_case *self) {
    d9_status status;
    memset(self, 0, sizeof *self);
    set_name(path, self->name, sizeof self->name);
    D9_TRY(d9_safetensors_read(context, path, &self->file));
    if (!d9_safetensors_metadata(self->file, "dawn9.config"))
        D9_TRY(d9_fail(context, D9_DATA,
                       "%s: its metadata has no dawn9.config: not a reference case, or one from before cases had their "
                       "configuration (tests/golden/generate.py writes it)",
                       path));
    self->augmentation = d9_safetensors_find(self->file, "crop_y") != NULL;
    D9_TRY(d9_description_decode(context, path, self->file, &self->description));
    D9_TRY(read_settings(context, self));
    D9_TRY(read_names(context, self));
    D9_TRY(read_patches(context, self));
    D9_TRY(read_config(context, path, self));
done:
    if (status != D9_OK) d9_reference_case_close(context, self);
    return status;
}

void d9_reference_case_close(d9_context *context, d9_reference_case *self) {
    json_decref(self->names);
    d9_config_free(context, self->config);
    d9_description_free(context, self->description);
    d9_safetensors_free(context, self->file);
    d9_arena_free(context, &self->arena);
    memset(self, 0, sizeof *self);
}

/* ---- names and tensors ---- */

const char *d9_reference_case_name_in_file(const d9_reference_case *self, const char *in_engine) {
    const char *in_file;
    json_t *name;
    json_object_foreach(self->names, in_file, name) {
        if (strcmp(json_string_value(name), in_engine) == 0) return in_file;
    }
    return in_engine;
}

const d9_tensor *d9_reference_case_initial(const d9_reference_case *self, const char *in_file) {
    char key[160];
    snprintf(key, sizeof key, "init/%s", in_file);
    const d9_tensor *initial = d9_safetensors_find(self->file, key);
    return initial ? initial : d9_safetensors_find(self->file, in_file);
}

/* ---- the batch, and a check of the norms ---- */

/* Converts (N, C, H, W) to (N, H, W, C). */
static void copy_pixels(const d9_tensor *images, uint8_t *pixels) {
    const int64_t *d = images->shape.d, plane = d[2] * d[3];
    const uint8_t *bytes = images->bytes;
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t c = 0; c < d[1]; c++)
            for (int64_t p = 0; p < plane; p++) pixels[(n * plane + p) * d[1] + c] = *bytes++;
}

static d9_status copy_labels(d9_context *context, const d9_reference_case *self, const d9_tensor *labels, int64_t count,
                             int32_t *classes) {
    d9_status status;
    double *wide = NULL;
    D9_TRY(D9_ALLOCATE(context, count, "labels", &wide));
    d9_tensor_to_doubles(labels, wide);
    for (int64_t i = 0; i < count; i++) {
        if (!(wide[i] >= 0 && wide[i] < (double)self->description->classes))
            D9_TRY(d9_fail(context, D9_DATA, "case %s: label %g of image %lld, must be 0 to %lld", self->name, wide[i],
                           (long long)i, (long long)self->description->classes - 1));
        classes[i] = (int32_t)wide[i];
    }
done:
    d9_release(context, wide);
    return status;
}

/* Copies tokens (N, T), or (count) of a stream, to i32. */
static d9_status copy_tokens(d9_context *context, const d9_reference_case *self, const d9_tensor *tokens,
                             int32_t *samples) {
    d9_status status;
    const int64_t count = d9_shape_count(&tokens->shape), length = self->description->width;
    double *wide = NULL;
    D9_TRY(D9_ALLOCATE(context, count, "tokens", &wide));
    d9_tensor_to_doubles(tokens, wide);
    for (int64_t i = 0; i < count; i++) {
        if (!(wide[i] >= 0 && wide[i] < (double)self->description->vocabulary.count))
            D9_TRY(d9_fail(context, D9_DATA, "case %s: token %g of text %lld, must be 0 to %lld", self->name, wide[i],
                           (long long)(i / length), (long long)self->description->vocabulary.count - 1));
        samples[i] = (int32_t)wide[i];
    }
done:
    d9_release(context, wide);
    return status;
}

/* A stream needs no labels in the file: the label of each token is the next token. */
static d9_status make_stream(d9_context *context, const d9_reference_case *self, d9_dataset **dataset) {
    d9_status status;
    const d9_tensor *tokens = d9_safetensors_find(self->file, "tokens");
    if (!tokens || tokens->type != D9_TENSOR_I64 || tokens->shape.rank != 1)
        D9_TRY(fail_case(context, self, "needs tokens i64 (count)"));
    D9_TRY(d9_description_dataset(context, self->description, "reference case", tokens->shape.d[0], dataset));
    (*dataset)->stream = true;
    D9_TRY(copy_tokens(context, self, tokens, (int32_t *)(void *)(*dataset)->train.images));
done:
    return status;
}

static d9_status make_samples(d9_context *context, const d9_reference_case *self, d9_dataset **dataset) {
    d9_status status;
    const d9_description *about = self->description;
    const bool texts = about->vocabulary.count > 0;
    const d9_tensor *samples = d9_safetensors_find(self->file, texts ? "tokens" : "images");
    const d9_tensor *labels = d9_safetensors_find(self->file, "labels"); /* NULL only in an augmentation case */
    const int64_t n = self->config->train.batch_size;
    const d9_shape image = {4, {n, about->channels, about->height, about->width}}, text = {2, {n, about->width}};
    const d9_shape *wanted = texts ? &text : &image;
    char size[D9_SHAPE_TEXT];
    if (!samples || samples->type != (texts ? D9_TENSOR_I64 : D9_TENSOR_U8) || samples->shape.rank != wanted->rank)
        D9_TRY(fail_case(context, self, texts ? "needs tokens i64 (N, T)" : "needs images u8 (N, C, H, W)"));
    if (!labels && !self->augmentation) D9_TRY(fail_case(context, self, "needs labels (N)"));
    if (samples->shape.d[0] != n || (labels && d9_shape_count(&labels->shape) != n))
        D9_TRY(d9_fail(context, D9_DATA, "case %s: %lld %s, must be %lld with as many labels", self->name,
                       (long long)samples->shape.d[0], texts ? "texts" : "images", (long long)n));
    if (!d9_shape_equal(&samples->shape, wanted))
        D9_TRY(d9_fail(context, D9_DATA, "case %s: its %s must have the shape %s", self->name,
                       texts ? "tokens" : "images", d9_exchange_shape_text(wanted, size)));
    D9_TRY(d9_description_dataset(context, about, "reference case", n, dataset));
    if (texts)
        D9_TRY(copy_tokens(context, self, samples, (int32_t *)(void *)(*dataset)->train.images));
    else
        copy_pixels(samples, (*dataset)->train.images);
    if (labels) D9_TRY(copy_labels(context, self, labels, n, (*dataset)->train.labels));
done:
    return status;
}

d9_status d9_reference_case_dataset(d9_context *context, const d9_reference_case *self, d9_dataset **dataset) {
    *dataset = NULL;
    const d9_status status = (self->config->model->stream ? make_stream : make_samples)(context, self, dataset);
    if (status != D9_OK) {
        d9_dataset_free(context, *dataset);
        *dataset = NULL;
    }
    return status;
}

d9_status d9_reference_case_check_norms(d9_context *context, const d9_reference_case *self, const d9_graph *graph) {
    for (d9_node_id n = 0; n < graph->node_count; n++) {
        const d9_norm_attributes *norm = &graph->nodes[n].as.norm;
        if (graph->nodes[n].op != D9_OP_NORM) continue;
        if (norm->epsilon != self->norm_epsilon || norm->momentum != self->norm_momentum)
            return d9_fail(context, D9_DATA, "case %s: batch norm epsilon %g and momentum %g; %s has %g and %g",
                           self->name, self->norm_epsilon, self->norm_momentum, graph->nodes[n].role, norm->epsilon,
                           norm->momentum);
    }
    return D9_OK;
}
