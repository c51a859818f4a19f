/* Builds the effective configuration: merges layers of YAML into one tree and reads it by the option tables. */
#include "config/config.h"
#include "config/layers.h"
#include "config/reference.h"
#include "config/values.h"
#include "core/system.h"
#include "data/dataset.h"

#include <string.h>

/* ---- sections and initial weights ---- */

/* Fails, with a suggestion, if the first unknown key has a dot (`train.epochs`) or belongs in another map (`epochs` at
 * the top). A key that exists nowhere is left to d9_values_bind, which lists the known ones. */
static d9_status check_misplaced(d9_context *context, const d9_tree *map, const d9_binding *binding,
                                 const char *const *others) {
    d9_status status = D9_OK;
    d9_text text;
    d9_text_init(context, &text);
    for (const d9_tree *child = map->first; child; child = child->next) {
        if (d9_values_has_key(binding, 1, others, child->key)) continue;
        const char *dot = strchr(child->key, '.');
        if (dot)
            D9_TRY(d9_tree_fail_key(context, child, "unknown key; did you mean %.*s: {%s: ...}?",
                                    (int)(dot - child->key), child->key, dot + 1));
        if (!d9_config_key_paths(child->key, &text)) break;
        D9_TRY(d9_text_status(&text));
        D9_TRY(d9_tree_fail_key(context, child, "unknown key; did you mean %s?", d9_text_get(&text)));
    }
done:
    d9_text_free(&text);
    return status;
}

/* Rejects an experiment and, because JSON is YAML, the result of a run and the record of an experiment. */
static d9_status reject_other_files(d9_context *context, const d9_tree *root) {
    static const char *const keys[] = {"config", "question", "arms", "grid"};
    const d9_tree *config = d9_tree_find(root, "config"), *arms = d9_tree_find(root, "arms");
    if (config && config->kind == D9_TREE_MAP && config->key_place.line > 0)
        return d9_tree_fail_key(context, config,
                                "no configuration has this key: this is the result of a run; its configuration is "
                                "config.yaml in the same folder, and compare and report take the folder");
    if (arms && arms->kind == D9_TREE_LIST && arms->key_place.line > 0)
        return d9_tree_fail_key(context, arms,
                                "no configuration has this key: this is the record of an experiment; compare and "
                                "report take its folder");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const d9_tree *node = d9_tree_find(root, keys[i]);
        if (node && node->key_place.line > 0)
            return d9_tree_fail_key(context, node,
                                    "no configuration has this key: this is an experiment, which "
                                    "`dawn9 experiment` runs");
    }
    return D9_OK;
}

static d9_status bind_sections(d9_context *context, d9_config *config, d9_tree *root) {
    enum { OTHERS_MAX = 16 };
    const char *others[OTHERS_MAX] = {"base", "model", "tricks", "ablate"};
    d9_status status = D9_OK;
    d9_tree *map;
    D9_TRY(reject_other_files(context, root));
    for (int i = 1; d9_section_at(i); i++) others[i + 3] = d9_section_at(i)->name;
    for (int i = 0; d9_section_at(i); i++) {
        const d9_binding binding = {d9_section_at(i)->options, config};
        const char *const *names = i == 0 ? others : NULL;
        map = root;
        if (i > 0) D9_TRY(d9_tree_find_or_add_map(context, &config->arena, root, d9_section_at(i)->name, &map));
        if (map->kind == D9_TREE_MAP) D9_TRY(check_misplaced(context, map, &binding, names));
        D9_TRY(d9_values_bind(context, &config->arena, map, &binding, 1, names));
    }
done:
    return status;
}

/* Sets from_sha256 to "sha256:" and the checksum of the file `from`. For a run's folder, `from` becomes its model file.
 * If `from` is a checksum, as in a record, from_sha256 is the same. The checksum of published weights is known, so
 * their file is not read. */
static d9_status identify_weights(d9_context *context, d9_config *config, const d9_tree *root) {
    d9_status status = D9_OK;
    const char *path = config->train.from;
    uint8_t *bytes = NULL;
    size_t size;
    char *sum, hex[65];
    config->train.from_sha256 = path;
    if (!path || strncmp(path, D9_FROM_RECORD, strlen(D9_FROM_RECORD)) == 0) return D9_OK;
    const d9_dataset_file *published = d9_weights_file(context, path);
    if (published) {
        D9_TRY(d9_arena_format(context, &config->arena, &sum, D9_FROM_RECORD "%s", published->digest));
        config->train.from_sha256 = sum;
        goto done;
    }
    d9_context quiet = *context;
    d9_status read = d9_model_path(&quiet, &config->arena, path, &config->train.from);
    if (read == D9_OK) read = d9_file_read_limited(&quiet, config->train.from, D9_TENSORS_MAX_BYTES, &bytes, &size);
    if (read == D9_DEVICE) D9_TRY(d9_fail(context, read, "%s", quiet.message));
    if (read != D9_OK)
        D9_TRY(d9_tree_fail(context, d9_tree_find(d9_tree_find(root, "train"), "from"), "%s", quiet.message));
    d9_sha256_hex(&(d9_bytes){bytes, size}, 1, hex);
    D9_TRY(d9_arena_format(context, &config->arena, &sum, D9_FROM_RECORD "%s", hex));
    config->train.from_sha256 = sum;
done:
    d9_release(context, bytes);
    return status;
}

/* ---- the model ---- */

static d9_status bind_model(d9_context *context, d9_config *config, d9_tree *root) {
    d9_status status = D9_OK;
    d9_tree *map;
    const char *name = NULL;
    const d9_option *row = d9_section_model_name();
    D9_TRY(d9_tree_find_or_add_map(context, &config->arena, root, "model", &map));
    if (map->kind != D9_TREE_MAP) D9_TRY(d9_tree_fail(context, map, "needs a map, like {name: %s}", row->fallback));
    D9_TRY(d9_value_read(context, &config->arena, row, d9_tree_find(map, "name"), &name));
    config->model = d9_model_find(name);
    config->measure = d9_measure_find(d9_loss_multi_label(config->train.loss) ? "auc" : config->model->measure);
    D9_TRY(d9_arena_allocate(context, &config->arena, config->model->options_size, &config->model_options));
    d9_binding bindings[] = {{row, &name}, {config->model->options, config->model_options}};
    D9_TRY(d9_values_bind(context, &config->arena, map, bindings, 2, NULL));
done:
    return status;
}

/* ---- tricks ---- */

static d9_status check_trick_names(d9_context *context, d9_config *config, const d9_tree *map) {
    const char *names[D9_TRICK_COUNT + 1] = {0};
    for (int i = 0; i < D9_TRICK_COUNT; i++) names[i] = d9_trick_at(i)->name;
    return d9_values_bind(context, &config->arena, map, NULL, 0, names);
}

static d9_status bind_trick(d9_context *context, d9_config *config, const d9_tree *tricks, int index) {
    d9_status status = D9_OK;
    const d9_trick *trick = d9_trick_at(index);
    const d9_tree *node = d9_tree_find(tricks, trick->name);
    if (!node || d9_config_trick_is_off(node)) return D9_OK;
    if (node->kind != D9_TREE_MAP)
        D9_TRY(d9_tree_fail(context, node, "needs a map of options ({} for the defaults), on, or off"));
    D9_TRY(d9_arena_allocate(context, &config->arena, trick->options_size, &config->trick_options[index]));
    D9_TRY(d9_values_bind(context, &config->arena, node, &(d9_binding){trick->options, config->trick_options[index]}, 1,
                          NULL));
    config->trick_on[index] = true;
done:
    return status;
}

static d9_status check_conflicts(d9_context *context, const d9_config *config, const d9_tree *tricks) {
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        for (int other = i + 1; other < D9_TRICK_COUNT; other++)
            if (config->trick_on[i] && config->trick_on[other] && d9_tricks_conflict(i, other))
                return d9_tree_fail_key(context, d9_tree_find(tricks, d9_trick_at(i)->name),
                                        "conflicts with tricks.%s; switch one of them off", d9_trick_at(other)->name);
    return D9_OK;
}

static d9_status bind_tricks(d9_context *context, d9_config *config, d9_tree *root) {
    d9_status status = D9_OK;
    d9_tree *map;
    D9_TRY(d9_tree_find_or_add_map(context, &config->arena, root, "tricks", &map));
    D9_TRY(check_trick_names(context, config, map));
    for (int i = 0; i < D9_TRICK_COUNT; i++) D9_TRY(bind_trick(context, config, map, i));
    D9_TRY(check_conflicts(context, config, map));
done:
    return status;
}

/* ---- companions ---- */

/* Reads `ablate`, a map of tricks to settings. The settings are checked when an arm of an ablation is made. */
static d9_status bind_ablate(d9_context *context, d9_config *config, d9_tree *root) {
    d9_status status = D9_OK;
    const d9_tree *map = d9_tree_find(root, "ablate");
    if (!map) return D9_OK;
    D9_TRY(check_trick_names(context, config, map));
    for (const d9_tree *trick = map->first; trick; trick = trick->next)
        if (trick->kind != D9_TREE_MAP || !trick->first)
            D9_TRY(d9_tree_fail(context, trick,
                                "needs the settings that change when %s is left out, like {train.weight_decay: 5e-4}",
                                trick->key));
    config->ablate = map;
done:
    return status;
}

/* ---- the measure: target and selection ---- */

/* Sets a missing target to the default of the measure; fails if the target is not a legal score. */
static d9_status resolve_target(d9_context *context, d9_config *config, const d9_tree *root) {
    const d9_measure *measure = config->measure;
    const d9_tree *node = d9_tree_find(root, "target");
    if (!node) {
        config->target = measure->target;
        return D9_OK;
    }
    if (config->target >= measure->minimum && config->target <= measure->maximum) return D9_OK;
    return d9_tree_fail(context, node, "%s is out of range; must lie between %g and %g (%s)", node->text,
                        measure->minimum, measure->maximum, measure->word);
}

double d9_config_published(const d9_config *config) {
    return config->published.scores[d9_measure_index(config->measure)];
}

/* Early stopping, keep: best and a plateau of the learning rate need validation data, because the test set must not
 * be used for selection. Early stopping also needs an evaluation after each epoch, a plateau some during training. */
static d9_status check_selection(d9_context *context, const d9_config *config, const d9_tree *root) {
    const bool best = config->keep == D9_KEEP_BEST, stops = config->eval.patience > 0,
               slows = config->train.plateau < 1;
    const d9_tree *node = stops   ? d9_tree_find(d9_tree_find(root, "eval"), "patience")
                          : slows ? d9_tree_find(d9_tree_find(root, "train"), "plateau")
                                  : d9_tree_find(root, "keep");
    if (!best && !stops && !slows) return D9_OK;
    if (config->data.validation == 0)
        return d9_tree_fail_key(context, node,
                                "needs data.validation, because the test set must not be used for selection");
    if (stops && config->eval.every != 1)
        return d9_tree_fail_key(context, node, "counts epochs, so it needs eval.every: 1");
    if (slows && config->eval.every == 0)
        return d9_tree_fail_key(context, node, "compares evaluations during training, so it needs eval.every above 0");
    return D9_OK;
}

/* Rejects class weights for images with several labels. */
static d9_status check_class_weights(d9_context *context, const d9_config *config, const d9_tree *root) {
    const d9_tree *node = d9_tree_find(d9_tree_find(root, "train"), "class_weights");
    if (config->train.class_weights == D9_CLASS_WEIGHTS_NONE) return D9_OK;
    if (!d9_loss_multi_label(config->train.loss)) return D9_OK;
    return d9_tree_fail_key(context, node, "needs one class for each image; with train.loss sigmoid it has several");
}

/* ---- whole configurations ---- */

static d9_status build_config(d9_context *context, d9_config *config, const char *path, const char *yaml,
                              const d9_config_edits *edits) {
    d9_status status = D9_OK;
    d9_tree *root;
    char *copy, *title;
    D9_TRY(d9_arena_copy(context, &config->arena, path, &copy));
    config->path = copy;
    D9_TRY(d9_config_layers_load(context, &config->arena, copy, yaml, &config->files, &root));
    if (edits) D9_TRY(d9_config_layers_edit(context, &config->arena, edits, root));
    config->tree = root;
    D9_TRY(bind_sections(context, config, root));
    D9_TRY(identify_weights(context, config, root));
    D9_TRY(bind_model(context, config, root));
    D9_TRY(resolve_target(context, config, root));
    D9_TRY(check_class_weights(context, config, root));
    D9_TRY(bind_tricks(context, config, root));
    D9_TRY(bind_ablate(context, config, root));
    if (!edits || !edits->eval_only) D9_TRY(check_selection(context, config, root));
    if (config->title) goto done;
    const char *name = d9_text_file_name(path);
    const size_t length = strlen(name) - (d9_text_ends_in(name, ".yaml") ? strlen(".yaml") : 0);
    D9_TRY(d9_arena_format(context, &config->arena, &title, "%.*s", (int)length, name));
    config->title = title;
done:
    return status;
}

d9_status d9_config_parse(d9_context *context, const char *name, const char *yaml, const d9_config_edits *edits,
                          d9_config **config) {
    d9_status status = D9_OK;
    d9_config *made = NULL;
    *config = NULL;
    D9_TRY(D9_ALLOCATE(context, 1, "the configuration", &made));
    D9_TRY(build_config(context, made, name, yaml, edits));
    *config = made;
    made = NULL;
done:
    d9_config_free(context, made);
    return status;
}

bool d9_config_find(d9_context *context, const char *path, char found[D9_INSTALLED_BYTES]) {
    return d9_installed_resolve(context, D9_INSTALLED_CONFIGS, path, found);
}

d9_status d9_config_load(d9_context *context, const char *path, const d9_config_edits *edits, d9_config **config) {
    char found[D9_INSTALLED_BYTES];
    return d9_config_parse(context, d9_config_find(context, path, found) ? found : path, NULL, edits, config);
}

void d9_config_free(d9_context *context, d9_config *config) {
    if (!config) return;
    d9_arena_free(context, &config->arena);
    d9_release(context, config);
}
