/* Reads an experiment file (experiment.h): arms x grid, an ablation or a search. Also ablates one configuration. */
#include "config/values.h"
#include "core/system.h"
#include "experiment/spec.h"

#include <string.h>

enum { NAME_MAX_BYTES = 200 };

static const d9_option head_options[] = {
    {"title", D9_OPTION_TEXT, offsetof(d9_spec_head, title), "", 0, 0, NULL,
     "name of the folder for the runs; default: the file's name"},
    {"question", D9_OPTION_TEXT, offsetof(d9_spec_head, question), "", 0, 0, NULL,
     "question to answer, in one sentence"},
    {"config", D9_OPTION_TEXT, offsetof(d9_spec_head, config), "", 0, 0, NULL,
     "configuration of arms that do not set their own, relative to this file"},
    {"keep", D9_OPTION_CHOICE, offsetof(d9_spec_head, keep), "none", 0, 0, "none|model|all",
     "which weights to keep from each run"},
    {"checkpoint_every", D9_OPTION_INT, offsetof(d9_spec_head, checkpoint_every), "0", 0, 1e6, NULL,
     "epochs between checkpoints; 0: at the end of an epoch if 30 s have passed"},
    {0},
};
static const char *const head_others[] = {"seeds", "arms", "grid", "set", "with", "without", "ablate", "search", NULL};

typedef struct arm_head {
    const char *config, *label, *baseline;
} arm_head;

static const d9_option arm_options[] = {
    {"config", D9_OPTION_TEXT, offsetof(arm_head, config), "", 0, 0, NULL, "replaces the experiment's"},
    {"label", D9_OPTION_TEXT, offsetof(arm_head, label), "", 0, 0, NULL, "displayed name; default: the arm's name"},
    {"baseline", D9_OPTION_TEXT, offsetof(arm_head, baseline), "", 0, 0, NULL, "arm that this one is compared with"},
    {0},
};
static const char *const arm_others[] = {"set", "with", "without", "published", NULL};

/* ---- paths ---- */

/* The file's name without folder and extension. */
static d9_status file_stem(d9_context *context, d9_arena *arena, const char *path, const char **name) {
    const char *start = d9_text_file_name(path), *dot = strrchr(start, '.');
    char *made;
    d9_status status = d9_arena_format(context, arena, &made, "%.*s",
                                       (int)(dot && dot > start ? dot - start : (int)strlen(start)), start);
    *name = made;
    return status;
}

/* ---- edits ---- */

static d9_status read_tricks(d9_spec *spec, const d9_tree *map, const char *key, d9_config_edit_kind kind,
                             d9_config_edits *edits) {
    d9_status status = D9_OK;
    const d9_tree *list = d9_tree_find(map, key);
    if (!list) return D9_OK;
    if (list->kind != D9_TREE_LIST) D9_TRY(d9_tree_fail(spec->context, list, "needs a list of tricks, like [ema]"));
    for (const d9_tree *node = list->first; node; node = node->next) {
        if (node->kind != D9_TREE_SCALAR)
            D9_TRY(
                d9_tree_fail(spec->context, node, "needs a trick as on the command line: NAME, or \"NAME:KEY=VALUE\""));
        D9_TRY(d9_config_edits_add(spec->context, spec->arena, edits,
                                   (d9_config_edit){.kind = kind, .text = node->text, .node = node}));
    }
done:
    return status;
}

static d9_status read_edits(d9_spec *spec, const d9_tree *map, d9_config_edits *edits) {
    d9_status status = D9_OK;
    const d9_tree *set = d9_tree_find(map, "set");
    D9_TRY(read_tricks(spec, map, "with", D9_EDIT_WITH, edits));
    D9_TRY(read_tricks(spec, map, "without", D9_EDIT_WITHOUT, edits));
    if (set && set->kind != D9_TREE_MAP)
        D9_TRY(d9_tree_fail(spec->context, set, "needs a map of keys, like {train.epochs: 10}"));
    for (const d9_tree *node = set ? set->first : NULL; node; node = node->next)
        D9_TRY(d9_draft_set(spec->context, spec->arena, edits, node->key, node, node));
done:
    return status;
}

static d9_status read_shared(d9_spec *spec, const d9_experiment_options *options) {
    d9_status status;
    d9_config_edits own = {0};
    D9_TRY(read_edits(spec, spec->root, &own));
    D9_TRY(d9_draft_add_shared(spec->context, spec->arena, &spec->shared, &own));
    D9_TRY(d9_draft_add_shared(spec->context, spec->arena, &spec->added, &options->edits));
done:
    return status;
}

/* ---- arms ---- */

static d9_status resolve_points(d9_spec *spec, const d9_draft *base) {
    d9_status status = D9_OK;
    d9_experiment *experiment = spec->experiment;
    for (int64_t i = 0; i < spec->grid.points; i++) {
        d9_draft draft = *base;
        draft.edits = (d9_config_edits){0};
        D9_TRY(d9_config_edits_append(spec->context, spec->arena, &draft.edits, &base->edits));
        D9_TRY(d9_spec_apply_point(spec, i, &draft));
        D9_TRY(d9_config_edits_append(spec->context, spec->arena, &draft.edits, &spec->added));
        if (strlen(draft.name) > NAME_MAX_BYTES)
            D9_TRY(d9_fail(spec->context, D9_USAGE,
                           "%s: the folder of an arm would have a name of %zu bytes, at most %d: %.60s...",
                           experiment->file, strlen(draft.name), NAME_MAX_BYTES, draft.name));
        D9_TRY(d9_draft_resolve(spec->context, spec->arena, &draft, &experiment->arms[experiment->arm_count++]));
    }
done:
    return status;
}

static d9_status check_name(d9_context *context, const d9_tree *arm) {
    if (!arm->key[strspn(arm->key, D9_NAME_CHARACTERS)] && *arm->key != '.') return D9_OK;
    return d9_tree_fail_key(context, arm, "an arm's name is also a folder's name: use letters, digits, _ . + -");
}

static d9_status read_arm(d9_spec *spec, const d9_tree *arm) {
    d9_status status;
    arm_head head = {0};
    char *path;
    d9_config_edits own = {0};
    d9_draft draft = {.name = arm->key, .node = arm, .published = d9_tree_find(arm, "published")};
    D9_TRY(d9_values_bind(spec->context, spec->arena, arm, &(d9_binding){arm_options, &head}, 1, arm_others));
    const char *config = head.config ? head.config : spec->head.config;
    if (!config) D9_TRY(d9_tree_fail_key(spec->context, arm, "has no config, and neither has the experiment"));
    draft.label = head.label;
    draft.baseline = head.baseline;
    D9_TRY(d9_path_beside(spec->context, spec->arena, spec->experiment->file, config, &path));
    draft.config = path;
    const d9_tree *said = d9_tree_find(head.config ? arm : spec->root, "config");
    if (said) draft.node = said;
    D9_TRY(d9_config_edits_append(spec->context, spec->arena, &draft.edits, &spec->shared));
    D9_TRY(read_edits(spec, arm, &own));
    D9_TRY(d9_config_edits_append(spec->context, spec->arena, &draft.edits, &own));
    D9_TRY(resolve_points(spec, &draft));
done:
    return status;
}

static d9_status read_arms(d9_spec *spec) {
    d9_status status = D9_OK;
    d9_experiment *experiment = spec->experiment;
    const d9_tree *arms = d9_tree_find(spec->root, "arms");
    d9_tree *made = NULL, *only;
    const char *name;
    if (!arms) {
        if (!spec->head.config) D9_TRY(d9_tree_fail(spec->context, spec->root, "config or arms must be given"));
        D9_TRY(file_stem(spec->context, spec->arena, spec->head.config, &name));
        d9_spec_clean_folder_name((char *)name);
        if (!*name || *name == '.') name = "only";
        D9_TRY(d9_tree_make(spec->context, spec->arena, D9_TREE_MAP, &spec->root->place, NULL, &made));
        D9_TRY(d9_tree_make(spec->context, spec->arena, D9_TREE_MAP, &spec->root->place, name, &only));
        d9_tree_append(made, only);
        arms = made;
    }
    if (arms->kind != D9_TREE_MAP || !arms->first)
        D9_TRY(d9_tree_fail(spec->context, arms, "needs a map of arms, like {final: {}, plain: {without: [ema]}}"));
    if (arms->count * spec->grid.points * experiment->seed_count > D9_RUNS_MAX)
        D9_TRY(d9_tree_fail(spec->context, arms, "more than %d runs", D9_RUNS_MAX));
    D9_TRY(D9_ARENA_ALLOCATE(spec->context, spec->arena, arms->count * spec->grid.points, &experiment->arms));
    for (const d9_tree *arm = arms->first; arm; arm = arm->next) {
        if (arms != made) D9_TRY(check_name(spec->context, arm));
        D9_TRY(read_arm(spec, arm));
    }
done:
    return status;
}

/* Reads `ablate`, "all" or a list of tricks, and makes the arms. */
static d9_status read_ablation(d9_spec *spec, const d9_tree *ablate) {
    d9_status status = D9_OK;
    d9_draft base = {.node = d9_tree_find(spec->root, "config")};
    const char **words = NULL;
    char *path;
    bool all = ablate->kind == D9_TREE_SCALAR && strcmp(ablate->text, "all") == 0;
    const d9_tree *arms = d9_tree_find(spec->root, "arms"), *grid = d9_tree_find(spec->root, "grid");
    if (arms || grid) D9_TRY(d9_tree_fail_key(spec->context, arms ? arms : grid, "an ablation makes its own arms"));
    if (!spec->head.config) D9_TRY(d9_tree_fail(spec->context, ablate, "config must be given"));
    if (!all && (ablate->kind != D9_TREE_LIST || !ablate->first))
        D9_TRY(d9_tree_fail(spec->context, ablate, "needs all, or a list of tricks, like [celu, ema]"));
    D9_TRY(d9_path_beside(spec->context, spec->arena, spec->experiment->file, spec->head.config, &path));
    base.config = path;
    D9_TRY(d9_config_edits_append(spec->context, spec->arena, &base.edits, &spec->shared));
    D9_TRY(d9_config_edits_append(spec->context, spec->arena, &base.edits, &spec->added));
    D9_TRY(D9_ARENA_ALLOCATE(spec->context, spec->arena, ablate->count + 1, &words));
    int count = 0;
    for (const d9_tree *node = ablate->first; node; node = node->next)
        words[count++] = node->kind == D9_TREE_SCALAR ? node->text : "";
    status = d9_ablation_make_arms(spec->context, &base, all ? NULL : words, count, spec->experiment);
done:
    return status;
}

/* ---- file ---- */

/* Rejects a configuration file given as an experiment. */
static d9_status reject_configuration(d9_spec *spec) {
    static const char *const keys[] = {"base", "model", "tricks", "train"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const d9_tree *node = d9_tree_find(spec->root, keys[i]);
        if (node)
            return d9_tree_fail_key(spec->context, node,
                                    "not a key of an experiment: this is a configuration file; run it with "
                                    "`dawn9 train`, or name it in an experiment: `config: FILE`");
    }
    return D9_OK;
}

static d9_status read_root(d9_spec *spec, const d9_experiment_options *options) {
    d9_status status;
    d9_experiment *experiment = spec->experiment;
    const d9_tree *ablate, *search;
    D9_TRY(reject_configuration(spec));
    D9_TRY(d9_values_bind(spec->context, spec->arena, spec->root, &(d9_binding){head_options, &spec->head}, 1,
                          head_others));
    experiment->title = spec->head.title;
    experiment->question = spec->head.question;
    experiment->keep = spec->head.keep;
    experiment->checkpoint_every = spec->head.checkpoint_every;
    if (!experiment->title) D9_TRY(file_stem(spec->context, spec->arena, experiment->file, &experiment->title));
    D9_TRY(d9_spec_read_seeds(spec, options->seeds));
    D9_TRY(read_shared(spec, options));
    D9_TRY(d9_spec_read_grid(spec));
    ablate = d9_tree_find(spec->root, "ablate");
    search = d9_tree_find(spec->root, "search");
    D9_TRY(search   ? d9_spec_read_search(spec, search, options)
           : ablate ? read_ablation(spec, ablate)
                    : read_arms(spec));
    D9_TRY(d9_arms_link(spec->context, experiment));
    D9_TRY(d9_experiment_set_command(spec->context, experiment, "experiment", NULL, 0, options));
done:
    return status;
}

/* Reads the whole file. A missing or unreadable file is D9_USAGE, not D9_DATA, because it was named by the user. */
static d9_status read_file(d9_context *context, const char *path, uint8_t **bytes, size_t *size) {
    d9_context quiet = *context;
    d9_status status = d9_file_read(&quiet, path, bytes, size);
    if (status == D9_OK && strlen((char *)*bytes) != *size)
        return d9_fail(context, D9_USAGE, "%s: not YAML: it contains a zero byte", path);
    return status == D9_OK ? D9_OK : d9_fail(context, status == D9_DATA ? D9_USAGE : status, "%s", quiet.message);
}

static d9_status make_experiment(d9_context *context, const char *file, d9_experiment **experiment) {
    char *copy;
    d9_status status = D9_ALLOCATE(context, 1, "the experiment", experiment);
    if (status != D9_OK) return status;
    status = d9_arena_copy(context, &(*experiment)->arena, file, &copy);
    (*experiment)->file = copy;
    return status;
}

d9_status d9_experiment_load(d9_context *context, const char *path, const d9_experiment_options *options,
                             d9_experiment **experiment) {
    d9_status status;
    uint8_t *bytes = NULL;
    size_t size;
    d9_tree *root;
    D9_TRY(make_experiment(context, path, experiment));
    d9_arena *arena = &(*experiment)->arena;
    D9_TRY(read_file(context, path, &bytes, &size));
    D9_TRY(d9_tree_parse(context, arena, &(d9_place){.source = (*experiment)->file, .line = 1}, (char *)bytes, size,
                         &root));
    if (root->kind != D9_TREE_MAP)
        D9_TRY(d9_tree_fail(context, root, "an experiment is a map of keys, like {config: dawn94.yaml, seeds: 5}"));
    d9_spec spec = {.context = context, .arena = arena, .experiment = *experiment, .root = root};
    D9_TRY(read_root(&spec, options));
done:
    d9_release(context, bytes);
    if (status != D9_OK) {
        d9_experiment_free(context, *experiment);
        *experiment = NULL;
    }
    return status;
}

d9_status d9_experiment_ablation(d9_context *context, const char *config, const char *const *only, int only_count,
                                 const d9_experiment_options *options, d9_experiment **experiment) {
    d9_status status;
    const char *name;
    char *title;
    d9_draft base = {0};
    D9_TRY(make_experiment(context, config, experiment));
    d9_arena *arena = &(*experiment)->arena;
    D9_TRY(file_stem(context, arena, config, &name));
    D9_TRY(d9_arena_format(context, arena, &title, "ablate-%s", name));
    (*experiment)->title = title;
    (*experiment)->question = "What does each trick contribute?";
    D9_TRY(d9_seeds_set_first(context, *experiment, options->seeds ? options->seeds : 5));
    base.config = (*experiment)->file;
    D9_TRY(d9_draft_add_shared(context, arena, &base.edits, &options->edits));
    D9_TRY(d9_ablation_make_arms(context, &base, only, only_count, *experiment));
    D9_TRY(d9_arms_link(context, *experiment));
    D9_TRY(d9_experiment_set_command(context, *experiment, "ablate", only, only_count, options));
done:
    if (status != D9_OK) {
        d9_experiment_free(context, *experiment);
        *experiment = NULL;
    }
    return status;
}

void d9_experiment_free(d9_context *context, d9_experiment *experiment) {
    if (!experiment) return;
    for (int i = 0; i < experiment->arm_count; i++) d9_config_free(context, experiment->arms[i].config);
    d9_arena_free(context, &experiment->arena);
    d9_release(context, experiment);
}
