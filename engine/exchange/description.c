/* Writes and reads the metadata of a model; see description.h. */
#include "exchange/description.h"

#include <stdlib.h>
#include <string.h>

#include "config/tree.h"
#include "core/system.h"
#include "exchange/exchange.h"
#include "record/effective.h"

enum { BYTE_MAX = 255, CHANNELS_MAX = 4, SIDE_MAX = 4096 };

/* ---- writing ---- */

static d9_status dump_json(d9_session *session, d9_arena *arena, json_t *json, const char **text) {
    char *dumped = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    char *copy = NULL;
    d9_status status = dumped ? d9_arena_copy(session->context, arena, dumped, &copy)
                              : d9_fail(session->context, D9_DEVICE, "out of memory for a model's metadata");
    *text = copy;
    free(dumped);
    json_decref(json);
    return status;
}

static json_t *hexadecimal_json(uint64_t number) { return json_sprintf("%016llx", (unsigned long long)number); }

static json_t *provenance_json(const d9_provenance *data) {
    json_t *root = json_pack("{s:i}", "split", data->rule), *trained = json_array();
    for (int i = 0; i < data->trained_count; i++)
        json_array_append_new(trained, hexadecimal_json(data->trained_digests[i]));
    if (data->trained_count > 0) json_object_set_new(root, "test", hexadecimal_json(data->test_digest));
    if (data->validation > 0)
        json_object_set_new(
            root, "validation",
            json_pack("[I, o]", (json_int_t)data->validation, hexadecimal_json(data->validation_limit)));
    json_object_set_new(root, "trained", trained);
    return root;
}

typedef struct maker {
    d9_session *session;
    d9_arena *arena;
    d9_metadata *rows;
    int count;
} maker;

static void add_row(maker *self, const char *key, const char *text) {
    self->rows[self->count++] = (d9_metadata){key, text};
}

static d9_status add_json_row(maker *self, const char *key, json_t *json) {
    const char *text;
    const d9_status status = dump_json(self->session, self->arena, json, &text);
    if (status == D9_OK) add_row(self, key, text);
    return status;
}

static d9_status add_samples(maker *self, const d9_dataset *data) {
    d9_status status;
    if (data->tokens) {
        D9_TRY(add_json_row(self, "dawn9.words", d9_json_texts(data->vocabulary.words, data->vocabulary.count)));
        D9_TRY(add_json_row(self, "dawn9.length", json_integer((json_int_t)data->width)));
        goto done;
    }
    D9_TRY(
        add_json_row(self, "dawn9.image_size", json_pack("[I, I]", (json_int_t)data->height, (json_int_t)data->width)));
    D9_TRY(add_json_row(self, "dawn9.mean", d9_json_pixels(data->mean, data->channels)));
    D9_TRY(add_json_row(self, "dawn9.std", d9_json_pixels(data->std, data->channels)));
done:
    return status;
}

d9_status d9_description_make(d9_session *session, d9_arena *arena, d9_metadata metadata[D9_DESCRIPTION_ROWS],
                              int *count) {
    d9_status status;
    const d9_dataset *data = session->dataset;
    maker self = {session, arena, metadata, 0};
    const char *graph;
    char *config = NULL;
    d9_text yaml;
    d9_text_init(session->context, &yaml);
    D9_TRY(d9_effective_yaml(session->config, &yaml));
    D9_TRY(d9_arena_copy(session->context, arena, d9_text_get(&yaml), &config));
    add_row(&self, "format", "pt");
    add_row(&self, "dawn9.config", config);
    D9_TRY(add_json_row(&self, "dawn9.classes", d9_json_texts(data->class_names, data->classes)));
    D9_TRY(add_samples(&self, data));
    D9_TRY(add_json_row(&self, "dawn9.data", provenance_json(&data->provenance)));
    add_row(&self, "dawn9.version", d9_build_version());
    add_row(&self, "dawn9.commit", d9_build_commit());
    D9_TRY(d9_network_describe(session->context, session->config, &session->program.extent, arena, &graph));
    if (graph) add_row(&self, "dawn9.graph", graph);
    *count = self.count;
done:
    d9_text_free(&yaml);
    return status;
}

/* ---- reading ---- */

typedef struct reader {
    d9_context *context;
    const char *path;
    const d9_safetensors *file;
    d9_description *made;
} reader;

static d9_status fail_row(const reader *reader, const char *key, const char *what) {
    return d9_fail(reader->context, D9_DATA, "%s: %s %s", reader->path, key, what);
}

static d9_status find_row(const reader *reader, const char *key, const char **text) {
    *text = d9_safetensors_metadata(reader->file, key);
    if (*text) return D9_OK;
    return fail_row(
        reader, key,
        "is missing from its metadata: not a model that dawn9 wrote; a configuration beside it says what it is "
        "(predict --config CONFIG, eval CONFIG MODEL, train.from)");
}

static d9_status read_list(const reader *reader, const char *key, json_t **list) {
    d9_status status;
    const char *text;
    json_error_t error;
    D9_TRY(find_row(reader, key, &text));
    *list = json_loads(text, 0, &error);
    if (!json_is_array(*list)) D9_TRY(fail_row(reader, key, "is not a JSON list"));
done:
    return status;
}

static d9_status read_size(const reader *reader) {
    d9_status status;
    json_t *list = NULL;
    json_int_t side[2] = {0, 0};
    D9_TRY(read_list(reader, "dawn9.image_size", &list));
    for (size_t i = 0; i < 2; i++) side[i] = json_integer_value(json_array_get(list, i));
    if (json_array_size(list) != 2 || side[0] < 1 || side[1] < 1 || side[0] > SIDE_MAX || side[1] > SIDE_MAX)
        D9_TRY(fail_row(reader, "dawn9.image_size", "must be a height and a width"));
    reader->made->height = side[0];
    reader->made->width = side[1];
done:
    json_decref(list);
    return status;
}

static d9_status read_channels(const reader *reader, const char *key, double least, double *values) {
    d9_status status;
    json_t *list = NULL;
    D9_TRY(read_list(reader, key, &list));
    const int64_t count = (int64_t)json_array_size(list);
    if (count < 1 || count > CHANNELS_MAX || (reader->made->channels && count != reader->made->channels))
        D9_TRY(fail_row(reader, key, "has a wrong number of channels"));
    reader->made->channels = count;
    for (int64_t c = 0; c < count; c++) {
        const json_t *entry = json_array_get(list, (size_t)c);
        values[c] = json_is_number(entry) ? json_number_value(entry) * BYTE_MAX : NAN;
        if (!isfinite(values[c]) || !(values[c] >= least)) D9_TRY(fail_row(reader, key, "holds an invalid number"));
    }
done:
    json_decref(list);
    return status;
}

/* Reads a list of at least `least` texts. */
static d9_status read_texts(const reader *reader, const char *key, size_t least, int64_t *count,
                            const char *const **texts) {
    d9_status status;
    json_t *list = NULL;
    char **made;
    D9_TRY(read_list(reader, key, &list));
    const size_t size = json_array_size(list);
    if (size < least) D9_TRY(fail_row(reader, key, "is too short"));
    D9_TRY(D9_ARENA_ALLOCATE(reader->context, &reader->made->arena, size, &made));
    for (size_t i = 0; i < size; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text) D9_TRY(fail_row(reader, key, "holds something other than texts"));
        D9_TRY(d9_arena_copy(reader->context, &reader->made->arena, text, &made[i]));
    }
    *count = (int64_t)size;
    *texts = (const char *const *)made;
done:
    json_decref(list);
    return status;
}

static d9_status read_length(const reader *reader) {
    d9_status status;
    const char *text;
    D9_TRY(find_row(reader, "dawn9.length", &text));
    json_t *number = json_loads(text, JSON_DECODE_ANY, NULL);
    reader->made->width = json_integer_value(number);
    json_decref(number);
    if (reader->made->width < 1 || reader->made->width > D9_LENGTH_MAX)
        D9_TRY(
            d9_fail(reader->context, D9_DATA, "%s: dawn9.length must be 1 to %d tokens", reader->path, D9_LENGTH_MAX));
done:
    return status;
}

static d9_status read_samples(const reader *reader) {
    d9_status status;
    d9_description *made = reader->made;
    if (d9_description_is_of_texts(reader->file)) {
        D9_TRY(read_texts(reader, "dawn9.words", D9_TOKEN_WORDS + 1, &made->vocabulary.count, &made->vocabulary.words));
        D9_TRY(read_length(reader));
        made->height = made->channels = 1;
        made->std[0] = 1;
        goto done;
    }
    D9_TRY(read_size(reader));
    D9_TRY(read_channels(reader, "dawn9.mean", -INFINITY, made->mean));
    D9_TRY(read_channels(reader, "dawn9.std", 1e-6, made->std));
done:
    return status;
}

bool d9_description_is_of_texts(const d9_safetensors *file) {
    return d9_safetensors_metadata(file, "dawn9.words") != NULL;
}

bool d9_description_classes_differ(const d9_safetensors *file, const d9_dataset *dataset) {
    const char *text = d9_safetensors_metadata(file, "dawn9.classes");
    json_t *there = text ? json_loads(text, 0, NULL) : NULL;
    json_t *here = d9_json_texts(dataset->class_names, dataset->classes);
    const bool others = there && here && !json_equal(there, here);
    json_decref(there);
    json_decref(here);
    return others;
}

d9_status d9_description_check_words(d9_context *context, const char *path, const d9_safetensors *file,
                                     const d9_dataset *dataset) {
    d9_status status = D9_OK;
    const char *text = d9_safetensors_metadata(file, "dawn9.words");
    json_t *list = text ? json_loads(text, 0, NULL) : NULL;
    const int64_t count = dataset->vocabulary.count, least = (int64_t)json_array_size(list);
    for (int64_t i = 0; list && i < count && i < least; i++) {
        const char *there = json_string_value(json_array_get(list, (size_t)i)), *here = dataset->vocabulary.words[i];
        if (!there || strcmp(there, here) != 0)
            D9_TRY(d9_fail(context, D9_USAGE,
                           "%s: has another vocabulary than the training texts here: token %lld is '%s', here '%s'",
                           path, (long long)i, there ? there : "", here));
    }
done:
    json_decref(list);
    return status;
}

/* Parses a JSON string of 16 hexadecimal digits. False: `text` is something else. */
static bool read_hexadecimal(const json_t *text, uint64_t *number) {
    const char *digits = json_string_value(text);
    if (!digits || strlen(digits) != 16 || strspn(digits, "0123456789abcdef") != 16) return false;
    *number = strtoull(digits, NULL, 16);
    return true;
}

static bool read_provenance(const json_t *root, d9_provenance *data) {
    const json_t *trained = json_object_get(root, "trained"), *validation = json_object_get(root, "validation");
    const size_t count = json_array_size(trained);
    *data =
        (d9_provenance){.rule = (int)json_integer_value(json_object_get(root, "split")), .trained_count = (int)count};
    bool fine = json_is_array(trained) && count <= D9_TRAINED_MAX;
    for (size_t i = 0; fine && i < count; i++)
        fine = read_hexadecimal(json_array_get(trained, i), &data->trained_digests[i]) &&
               (i == 0 || data->trained_digests[i - 1] < data->trained_digests[i]);
    if (count > 0) fine = fine && read_hexadecimal(json_object_get(root, "test"), &data->test_digest);
    if (!validation) return fine;
    data->validation = json_integer_value(json_array_get(validation, 0));
    return fine && data->validation > 0 && read_hexadecimal(json_array_get(validation, 1), &data->validation_limit);
}

static d9_status read_file_provenance(d9_context *context, const char *path, const d9_safetensors *file,
                                      d9_provenance *data) {
    const char *text = d9_safetensors_metadata(file, "dawn9.data");
    json_t *root = text ? json_loads(text, 0, NULL) : NULL;
    const bool fine = !text || read_provenance(root, data);
    json_decref(root);
    if (!text) *data = (d9_provenance){.rule = 1};
    if (!fine) return d9_fail(context, D9_DATA, "%s: dawn9.data holds something invalid", path);
    if (data->rule < 1 || data->rule > D9_SPLIT_RULE)
        return d9_fail(context, D9_DATA,
                       "%s: dawn9.data: version %d of the rule that draws the test images, must be 1 to %d", path,
                       data->rule, D9_SPLIT_RULE);
    return D9_OK;
}

static d9_status read_text(const reader *reader, const char *key, const char **kept) {
    d9_status status;
    const char *text;
    char *copy;
    D9_TRY(find_row(reader, key, &text));
    D9_TRY(d9_arena_copy(reader->context, &reader->made->arena, text, &copy));
    *kept = copy;
done:
    return status;
}

/* Adds to the message of a failed reading that another version wrote the file. Returns `status`. */
static d9_status add_version(d9_context *context, d9_status status, const char *version) {
    char message[sizeof context->message];
    if (status != D9_DATA || !version || strcmp(version, d9_build_version()) == 0) return status;
    memcpy(message, context->message, sizeof message);
    d9_context_clear(context);
    return d9_fail(context, status, "%s (dawn9 %.40s wrote this file, this is %s)", message, version,
                   d9_build_version());
}

/* Rejects `base:` and a path in `train.from`: a model is one file and must not make its reader open other files. */
static d9_status check_config(const reader *reader) {
    d9_status status;
    d9_arena arena = {0};
    d9_tree *root;
    const d9_place place = {.source = reader->path, .edit = "dawn9.config", .line = 1};
    const char *yaml = reader->made->config;
    D9_TRY(d9_tree_parse(reader->context, &arena, &place, yaml, strlen(yaml), &root));
    if (d9_tree_find(root, "base"))
        D9_TRY(fail_row(reader, "dawn9.config", "names a base: the configuration of a model inherits nothing"));
    const d9_tree *from = d9_tree_find(d9_tree_find(root, "train"), "from");
    if (from && (from->kind != D9_TREE_SCALAR || strncmp(from->text, D9_FROM_RECORD, strlen(D9_FROM_RECORD)) != 0))
        D9_TRY(fail_row(reader, "dawn9.config",
                        "names a file in train.from: the configuration of a model names it by its checksum"));
done:
    d9_arena_free(reader->context, &arena);
    /* the error is in the file, not in the command line */
    if (status == D9_USAGE) status = reader->context->status = D9_DATA;
    return status;
}

d9_status d9_description_decode(d9_context *context, const char *path, const d9_safetensors *file,
                                d9_description **description) {
    d9_status status;
    d9_description *made = NULL;
    const char *version = d9_safetensors_metadata(file, "dawn9.version");
    *description = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "a model's metadata", &made));
    const reader reader = {context, path, file, made};
    D9_TRY(read_text(&reader, "dawn9.config", &reader.made->config));
    if (version) D9_TRY(read_text(&reader, "dawn9.version", &reader.made->version));
    D9_TRY(check_config(&reader));
    D9_TRY(read_texts(&reader, "dawn9.classes", 1, &made->classes, &made->class_names));
    D9_TRY(read_samples(&reader));
    D9_TRY(read_file_provenance(context, path, file, &made->data));
    made->data.classes = made->classes;
    made->data.class_names = made->class_names;
    *description = made;
    made = NULL;
done:
    d9_description_free(context, made);
    return add_version(context, status, version);
}

d9_status d9_description_config(d9_context *context, const d9_description *description, const char *path,
                                const d9_config_edits *edits, d9_config **config) {
    d9_status status;
    d9_arena arena = {0};
    char *name;
    *config = NULL;
    D9_TRY(d9_arena_format(context, &arena, &name, "%s dawn9.config", path));
    status = d9_config_parse(context, name, description->config, edits, config);
    if (status == D9_USAGE) { /* is it the file that is invalid, or an edit? */
        d9_context quiet = *context;
        d9_config *own;
        const d9_config_edits none = {.eval_only = edits && edits->eval_only};
        d9_context_clear(&quiet);
        if (d9_config_parse(&quiet, name, description->config, &none, &own) == D9_USAGE) {
            d9_context_clear(context);
            status = d9_fail(context, D9_DATA, "%s", quiet.message);
        }
        d9_config_free(&quiet, own);
    }
done:
    d9_arena_free(context, &arena);
    return add_version(context, status, description->version);
}

d9_status d9_description_provenance(d9_context *context, const d9_description *description, const char *path,
                                    const d9_config *config, d9_provenance *data) {
    d9_status status;
    d9_config *own = NULL;
    D9_TRY(d9_description_config(context, description, path, NULL, &own));
    *data = description->data;
    data->trained_validation = own->data.validation;
    data->prepared_otherwise = own->data.image_size != config->data.image_size || own->data.fit != config->data.fit ||
                               own->data.grey != config->data.grey;
done:
    d9_config_free(context, own);
    return status;
}

static d9_status read_file(d9_context *context, const char *path, bool needed, d9_description **description) {
    d9_status status;
    d9_safetensors *file = NULL;
    *description = NULL;
    D9_TRY(d9_safetensors_read(context, path, &file));
    if (needed || d9_safetensors_metadata(file, "dawn9.config"))
        D9_TRY(d9_description_decode(context, path, file, description));
done:
    d9_safetensors_free(context, file);
    return status;
}

d9_status d9_description_read(d9_context *context, const char *path, d9_description **description) {
    return read_file(context, path, true, description);
}

d9_status d9_description_find(d9_context *context, const char *path, d9_description **description) {
    return read_file(context, path, false, description);
}

/* ---- files without metadata ---- */

/* Reports a missing classifier weight, with its size and a matrix that the file has instead. */
static d9_status report_missing_head(d9_context *context, const char *path, const d9_safetensors *file,
                                     const d9_value *wanted) {
    char there[D9_NAME_SIZE + D9_SHAPE_TEXT + 16] = "", shape[D9_SHAPE_TEXT];
    for (int i = 0; i < file->tensor_count; i++) {
        const d9_tensor *tensor = &file->tensors[i];
        if (tensor->shape.rank == 2)
            snprintf(there, sizeof there, "; it has %.*s, %s", D9_NAME_SIZE - 1, tensor->name,
                     d9_exchange_shape_text(&tensor->shape, shape));
    }
    return d9_fail(context, D9_USAGE, "%s: has no %s of (classes, %lld), in which this configuration's network ends%s",
                   path, wanted->name, (long long)d9_shape_count(&wanted->shape) / (long long)wanted->shape.d[0],
                   there);
}

/* Sets the number of classes to the number of rows of the classifier's weight in the file. */
static d9_status count_classes(d9_context *context, const char *path, const d9_safetensors *file,
                               const d9_config *config, d9_description *made) {
    d9_status status;
    d9_program program = {0};
    made->classes = 2; /* the weight's name does not depend on the number of classes */
    D9_TRY(d9_description_program(context, made, config, config->train.batch_size, &program));
    const d9_graph *graph = &program.eval;
    const d9_node_id classifier = d9_graph_classifier(graph);
    if (classifier == D9_NONE) D9_TRY(d9_fail(context, D9_USAGE, "%s: no linear layer computes the logits", path));
    const d9_value *wanted = &graph->values[graph->nodes[classifier].inputs[1]];
    const d9_tensor *weight = d9_safetensors_find(file, wanted->name);
    if (weight && weight->shape.rank == 2 && weight->shape.d[0] > 0)
        made->classes = weight->shape.d[0];
    else
        D9_TRY(report_missing_head(context, path, file, wanted));
done:
    d9_program_free(context, &program);
    return status;
}

d9_status d9_description_assume(d9_context *context, const char *path, const d9_safetensors *file,
                                const d9_config *config, d9_description **description) {
    d9_status status;
    d9_description *made = NULL;
    d9_dataset promised;
    *description = NULL;
    D9_TRY(d9_config_describe_dataset(context, config, &promised));
    if (promised.tokens)
        D9_TRY(d9_fail(context, D9_USAGE,
                       "%s: has no vocabulary, without which no text becomes tokens: only a model that dawn9 wrote "
                       "predicts texts",
                       path));
    if (!(promised.std[0] > 0))
        D9_TRY(d9_fail(
            context, D9_USAGE,
            "%s: does not say how pixels are normalised, and the configuration leaves it to the training images: "
            "data.normalize: imagenet is what torchvision's weights expect",
            path));
    D9_TRY(D9_ALLOCATE(context, 1, "a model's metadata", &made));
    made->height = promised.height, made->width = promised.width, made->channels = promised.channels;
    memcpy(made->mean, promised.mean, sizeof made->mean);
    memcpy(made->std, promised.std, sizeof made->std);
    made->config = "";
    D9_TRY(count_classes(context, path, file, config, made));
    made->class_names = promised.class_names;
    if (made->classes != promised.classes)
        D9_TRY(d9_dataset_number_classes(context, &made->arena, made->classes, &made->class_names));
    *description = made;
    made = NULL;
done:
    d9_description_free(context, made);
    return status;
}

/* ---- using a description ---- */

enum { SAMPLES_TEXT = 64 };
static void format_samples(bool texts, int64_t height, int64_t width, int64_t channels, char text[SAMPLES_TEXT]) {
    if (texts)
        snprintf(text, SAMPLES_TEXT, "texts of %lld tokens", (long long)width);
    else
        snprintf(text, SAMPLES_TEXT, "images of %lldx%lld with %lld channel%s", (long long)height, (long long)width,
                 (long long)channels, d9_text_plural(channels));
}

d9_status d9_description_check(d9_context *context, const d9_description *description, const char *path,
                               const d9_dataset *dataset) {
    const bool texts = description->vocabulary.count > 0;
    char wanted[SAMPLES_TEXT], found[SAMPLES_TEXT];
    if (dataset->tokens == texts && dataset->height == description->height && dataset->width == description->width &&
        dataset->channels == description->channels)
        return D9_OK;
    format_samples(texts, description->height, description->width, description->channels, wanted);
    format_samples(dataset->tokens, dataset->height, dataset->width, dataset->channels, found);
    return d9_fail(context, D9_DATA, "%s: made for %s, these are %s", path, wanted, found);
}

static d9_status check_classes(d9_context *context, const d9_description *description, const char *path,
                               const d9_dataset *dataset) {
    if (dataset->classes != description->classes)
        return d9_fail(context, D9_DATA, "%s: knows %lld classes, this dataset has %lld", path,
                       (long long)description->classes, (long long)dataset->classes);
    for (int64_t c = 0; c < dataset->classes; c++)
        if (strcmp(dataset->class_names[c], description->class_names[c]) != 0)
            return d9_fail(context, D9_DATA, "%s: class %lld is %s, in this dataset %s", path, (long long)c,
                           description->class_names[c], dataset->class_names[c]);
    return D9_OK;
}

void d9_description_warn_classes(d9_context *context, const d9_description *description, const char *path,
                                 const d9_dataset *dataset) {
    d9_context quiet = *context;
    if (dataset->classes == description->classes && check_classes(&quiet, description, path, dataset) != D9_OK)
        d9_log(context, D9_LOG_WARNING, "%s", quiet.message);
}

d9_status d9_description_apply(d9_context *context, const d9_description *description, const char *path,
                               d9_dataset *dataset) {
    const d9_status status = d9_description_check(context, description, path, dataset);
    if (status != D9_OK) return status;
    if (check_classes(context, description, path, dataset) != D9_OK) return context->status;
    memcpy(dataset->mean, description->mean, sizeof dataset->mean);
    memcpy(dataset->std, description->std, sizeof dataset->std);
    return D9_OK;
}

d9_status d9_description_check_normalize(d9_context *context, const d9_description *description, const char *path,
                                         const d9_config *config) {
    d9_status status;
    d9_config *own = NULL;
    D9_TRY(d9_description_config(context, description, path, NULL, &own));
    if (config->data.normalize != own->data.normalize)
        status = d9_fail(context, D9_USAGE,
                         "data.normalize: a model keeps the normalisation of its training; only `dawn9 eval CONFIG "
                         "MODEL` changes it");
done:
    d9_config_free(context, own);
    return status;
}

d9_status d9_description_warn_validation(d9_context *context, const d9_description *description, const char *path,
                                         const d9_config *config, const d9_dataset *dataset) {
    d9_status status;
    d9_config *own = NULL;
    D9_TRY(d9_description_config(context, description, path, NULL, &own));
    const int64_t wanted = config->data.validation, trained = own->data.validation;
    const bool own_part = dataset->stream || dataset->valid.count > 0;
    const char *sample = d9_model_sample(config->model);
    if (!dataset->unseen && !own_part && wanted > trained)
        d9_log(context, D9_LOG_WARNING,
               "data.validation %lld: %lld of these %ss are training %ss of the model, whose data.validation was %lld",
               (long long)wanted, (long long)(wanted - trained), sample, sample, (long long)trained);
done:
    d9_config_free(context, own);
    return status;
}

d9_status d9_description_reject_stream(d9_context *context, const char *path, const d9_config *config) {
    if (!config->model->stream) return D9_OK;
    return d9_fail(context, D9_USAGE,
                   "%s: model.name %s reads a text as a stream: only networks that classify images or texts "
                   "predict and have logits written",
                   path, config->model->name);
}

d9_extent d9_description_extent(const d9_description *description, const d9_config *config, int64_t batch) {
    d9_extent extent = {.train_samples = batch,
                        .eval_samples = batch,
                        .height = description->height,
                        .width = description->width,
                        .channels = description->channels,
                        .classes = description->classes,
                        .vocabulary = description->vocabulary.count,
                        .batch = batch,
                        .epochs = config->train.epochs};
    if (config->model->stream) {
        extent.train_tokens = extent.eval_tokens = batch * (description->width + 1);
        extent.eval_batch = batch;
    }
    memcpy(extent.mean, description->mean, sizeof extent.mean);
    memcpy(extent.std, description->std, sizeof extent.std);
    return extent;
}

d9_status d9_description_program(d9_context *context, const d9_description *description, const d9_config *config,
                                 int64_t batch, d9_program *program) {
    const d9_program_options options = {.eval_only = true, .logits = true};
    const d9_extent extent = d9_description_extent(description, config, batch);
    return d9_program_build(context, config, &extent, d9_precision_find("f32"), &options, program);
}

d9_status d9_description_dataset(d9_context *context, const d9_description *description, const char *name,
                                 int64_t count, d9_dataset **dataset) {
    d9_status status;
    d9_dataset *made = NULL;
    d9_split split = {.count = count};
    *dataset = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "a dataset", &made));
    *made = (d9_dataset){.name = name,
                         .height = description->height,
                         .width = description->width,
                         .channels = description->channels,
                         .classes = description->classes,
                         .tokens = description->vocabulary.count > 0,
                         .vocabulary = description->vocabulary,
                         .class_names = description->class_names};
    memcpy(made->mean, description->mean, sizeof made->mean);
    memcpy(made->std, description->std, sizeof made->std);
    D9_TRY(D9_ARENA_ALLOCATE(context, &made->arena, count * (int64_t)d9_sample_bytes(made), &split.images));
    D9_TRY(D9_ARENA_ALLOCATE(context, &made->arena, count, &split.labels));
    made->train = made->test = split;
    *dataset = made;
    made = NULL;
done:
    d9_dataset_free(context, made);
    return status;
}

void d9_description_free(d9_context *context, d9_description *description) {
    if (!description) return;
    d9_arena_free(context, &description->arena);
    d9_release(context, description);
}
