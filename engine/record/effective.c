/* The effective configuration for records, and values of a result.json. The JSON of a configuration is converted from
 * its YAML, so both hold the same keys. */
#include "record/effective.h"
#include "core/system.h"
#include <string.h>
#include <yaml.h>

d9_status d9_json_read(d9_context *context, const char *path, json_t **value, json_error_t *error) {
    uint8_t *bytes;
    size_t size;
    const d9_status status = d9_file_read_limited(context, path, D9_RECORD_MAX_BYTES, &bytes, &size);
    *value = status == D9_OK ? json_loadb((const char *)bytes, size, 0, error) : NULL;
    d9_release(context, bytes);
    return status;
}

json_t *d9_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *d9_json_texts(const char *const *texts, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) json_array_append_new(list, json_string(texts[i]));
    return list;
}

json_t *d9_json_text(const char *text) {
    json_t *string = json_string(text);
    return string ? string : json_null();
}

json_t *d9_json_path(d9_context *context, d9_arena *arena, const char *path) {
    json_t *string = json_string(path);
    char *plain = NULL;
    if (string || d9_arena_copy(context, arena, path, &plain) != D9_OK) return string;
    for (char *c = plain; *c; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    return json_string(plain);
}

json_t *d9_json_pixels(const double *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++) json_array_append_new(list, json_real(values[i] / 255));
    return list;
}

double d9_json_real(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

d9_status d9_effective_yaml(const d9_config *config, d9_text *text) {
    d9_config shown = *config;
    if (shown.data.path && shown.data.path[0] == '/') shown.data.path = NULL;
    if (shown.backend_options.tuning_folder && shown.backend_options.tuning_folder[0] == '/')
        shown.backend_options.tuning_folder = NULL;
    shown.train.from = shown.train.from_sha256;
    d9_config_print(&shown, false, text);
    return d9_text_status(text);
}

static json_t *scalar_to_json(const yaml_node_t *node) {
    const char *text = (const char *)node->data.scalar.value;
    int64_t integer;
    double real;
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return json_string(text);
    if (d9_text_to_integer(text, &integer)) return json_integer(integer);
    if (d9_text_to_real(text, &real) && isfinite(real)) return json_real(real);
    if (!strcmp(text, "true") || !strcmp(text, "on") || !strcmp(text, "yes")) return json_true();
    if (!strcmp(text, "false") || !strcmp(text, "off") || !strcmp(text, "no")) return json_false();
    if (!strcmp(text, "null") || !strcmp(text, "~") || !*text) return json_null();
    return json_string(text);
}

/* Returns NULL on failure. The recursion is as deep as the YAML, which d9_config_print wrote. */
static json_t *yaml_to_json(yaml_document_t *document, const yaml_node_t *node) {
    if (!node) return json_null();
    if (node->type == YAML_SCALAR_NODE) return scalar_to_json(node);
    bool map = node->type == YAML_MAPPING_NODE, fine = true;
    json_t *result = map ? json_object() : json_array();
    if (map) {
        for (yaml_node_pair_t *p = node->data.mapping.pairs.start; fine && p < node->data.mapping.pairs.top; p++) {
            const yaml_node_t *key = yaml_document_get_node(document, p->key);
            json_t *value = yaml_to_json(document, yaml_document_get_node(document, p->value));
            fine = json_object_set_new(result, (const char *)key->data.scalar.value, value) == 0;
        }
    } else {
        for (yaml_node_item_t *i = node->data.sequence.items.start; fine && i < node->data.sequence.items.top; i++)
            fine = json_array_append_new(result, yaml_to_json(document, yaml_document_get_node(document, *i))) == 0;
    }
    if (fine) return result;
    json_decref(result);
    return NULL;
}

d9_status d9_effective_json(d9_context *context, const d9_config *config, json_t **object) {
    d9_status status = D9_OK;
    d9_text yaml;
    yaml_parser_t parser;
    yaml_document_t document;
    d9_text_init(context, &yaml);
    *object = NULL;
    D9_TRY(d9_effective_yaml(config, &yaml));
    if (!yaml_parser_initialize(&parser)) D9_TRY(d9_fail(context, D9_DEVICE, "out of memory for a YAML parser"));
    yaml_parser_set_input_string(&parser, (const unsigned char *)d9_text_get(&yaml), yaml.size);
    if (yaml_parser_load(&parser, &document)) {
        *object = yaml_to_json(&document, yaml_document_get_root_node(&document));
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
    if (!*object) status = d9_fail(context, D9_DEVICE, "the effective configuration could not be turned into JSON");
done:
    d9_text_free(&yaml);
    return status;
}

static const char time_fault[] = "has an invalid time or speed", count_fault[] = "has an invalid count, seed or epoch";

/* Legal ranges of the training accuracy, times, speeds, counts, seed and epochs in result.json and in its lists. */
static const struct bound {
    const char *key;
    bool integer;
    double minimum, maximum;
    const char *fault;
} bounds[] = {
    {"train_accuracy", false, 0, 100, "has an accuracy outside 0 to 100"},
    {"train_seconds", false, 0, INFINITY, time_fault},
    {"airbench_seconds", false, 0, INFINITY, time_fault},
    {"dawnbench_seconds", false, 0, INFINITY, time_fault},
    {"process_seconds", false, 0, INFINITY, time_fault},
    {"seconds", false, 0, INFINITY, time_fault},
    {"images_per_second", false, 0, INFINITY, time_fault},
    {"train_teraflop", false, 0, INFINITY, count_fault},
    {"evaluation_teraflop", false, 0, INFINITY, count_fault},
    {"seed", true, 0, INFINITY, count_fault},
    {"epoch", true, 1, INFINITY, count_fault},
    {"epoch_to_target", true, 1, INFINITY, count_fault},
    {"best_epoch", true, 1, INFINITY, count_fault},
    {"threads", true, 1, INFINITY, count_fault},
    {"parameters", true, 1, INFINITY, count_fault},
    {"batch_size", true, 1, INFINITY, count_fault},
    {"steps", true, 1, INFINITY, count_fault},
    {"train_images", true, 1, INFINITY, count_fault},
    {"eval_images", true, 1, INFINITY, count_fault},
};

/* True if the object's value at the bound's key is out of bounds or of another type; false if it is null or missing. */
static bool is_out_of_bounds(const json_t *object, const struct bound *bound) {
    const json_t *value = json_object_get(object, bound->key);
    const double number = json_number_value(value);
    if (!value || json_is_null(value)) return false;
    if (bound->integer ? !json_is_integer(value) : !json_is_number(value)) return true;
    return !(number >= bound->minimum && number <= bound->maximum);
}

static const char *object_fault(const json_t *object) {
    const d9_measure *measure;
    for (int i = 0; (measure = d9_measure_at(i)); i++)
        if (is_out_of_bounds(object, &(struct bound){measure->name, false, measure->minimum, measure->maximum, NULL}) ||
            is_out_of_bounds(object,
                             &(struct bound){measure->name_tta, false, measure->minimum, measure->maximum, NULL}))
            return measure->illegal_score_message;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (is_out_of_bounds(object, &bounds[i])) return bounds[i].fault;
    return NULL;
}

const d9_measure *d9_result_measure(const json_t *result) {
    const json_t *name = json_object_get(result, "measure");
    return name && !json_is_string(name) ? NULL : d9_measure_find(json_string_value(name));
}

double d9_json_score(const json_t *object, const d9_measure *measure) {
    const double views = d9_json_real(object, measure->name_tta);
    return isnan(views) ? d9_json_real(object, measure->name) : views;
}

const char *d9_result_fault(const json_t *result) {
    static const char *const lists[] = {"epochs", "timeline", "rules"};
    const char *fault =
        d9_result_measure(result) ? object_fault(result) : "has a measure that this version does not know";
    for (size_t l = 0; !fault && l < sizeof lists / sizeof *lists; l++) {
        size_t row;
        const json_t *list = json_object_get(result, lists[l]), *object;
        if (list && !json_is_array(list)) return "has epochs, a timeline or rules that are not lists";
        json_array_foreach(list, row, object) {
            if (!json_is_object(object)) return "has epochs, a timeline or rules that are not lists of objects";
            if (!fault) fault = object_fault(object);
        }
    }
    return fault;
}
