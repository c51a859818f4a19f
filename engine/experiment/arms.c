/* Converts drafts to arms: loads their configurations, reports errors with their place in the experiment's file, and
 * finds arms with identical configurations. */
#include "config/values.h"
#include "experiment/draft.h"

#include <string.h>

/* ---- edits ---- */

d9_status d9_draft_set(d9_context *context, d9_arena *arena, d9_config_edits *edits, const char *key,
                       const d9_tree *value, const d9_tree *node) {
    d9_status status;
    char *copy;
    d9_text text;
    d9_text_init(context, &text);
    d9_text_add(&text, "%s=", key);
    d9_tree_write(value, &text);
    D9_TRY(d9_text_status(&text));
    D9_TRY(d9_arena_copy(context, arena, d9_text_get(&text), &copy));
    D9_TRY(
        d9_config_edits_add(context, arena, edits, (d9_config_edit){.kind = D9_EDIT_SET, .text = copy, .node = node}));
done:
    d9_text_free(&text);
    return status;
}

d9_status d9_draft_add_shared(d9_context *context, d9_arena *arena, d9_config_edits *edits,
                              const d9_config_edits *from) {
    d9_status status = D9_OK;
    for (int i = 0; i < from->count; i++) {
        d9_config_edit edit = from->items[i];
        edit.shared = true;
        D9_TRY(d9_config_edits_add(context, arena, edits, edit));
    }
done:
    return status;
}

/* Rejects edits that the experiment's own keys would replace. */
static d9_status check_edits(d9_context *context, const d9_config_edits *edits) {
    static const struct {
        const char *key, *says;
    } own[] = {{"keep=", "keep: an experiment sets it for all of its runs, with its key keep (keep: model)"},
               {"seed=", "seed: an experiment sets it for each of its runs, with its key seeds (seeds: [1, 2])"}};
    for (int i = 0; i < edits->count; i++)
        for (size_t k = 0; k < sizeof own / sizeof *own; k++) {
            const d9_config_edit *edit = &edits->items[i];
            if (edit->kind != D9_EDIT_SET || strncmp(edit->text, own[k].key, strlen(own[k].key)) != 0) continue;
            return edit->node ? d9_tree_fail(context, edit->node, "%s", own[k].says)
                              : d9_fail(context, D9_USAGE, "--set %s: %s", edit->text, own[k].says);
        }
    return D9_OK;
}

/* ---- errors ---- */

/* Finds the edit that makes loading fail: the first one after the longest prefix of the list that loads, because an
 * edit may need a later one, such as a model's option its name. NULL if the configuration file itself fails. */
static const d9_config_edit *find_failing_edit(const d9_context *context, const d9_draft *draft) {
    d9_config_edits some = draft->edits;
    while (some.count-- > 0) {
        d9_context quiet = *context;
        d9_config *config;
        if (d9_config_load(&quiet, draft->config, &some, &config) != D9_OK) continue;
        d9_config_free(&quiet, config);
        return &draft->edits.items[some.count];
    }
    return NULL;
}

/* Fails with `message`. For D9_USAGE, adds the place in the file of the edit that causes the error, and removes the
 * text of this edit from the start of `message`; if no edit causes the error, adds the place of the arm. An edit of
 * the command line has no place. */
static d9_status fail_at_edit(d9_context *context, d9_arena *arena, const d9_draft *draft, d9_status why,
                              const char *message) {
    char *prefix;
    if (why != D9_USAGE) return d9_fail(context, why, "%s", message);
    const d9_config_edit *edit = find_failing_edit(context, draft);
    if (!edit && draft->node) return d9_tree_fail(context, draft->node, "%s", message);
    if (!edit || !edit->node) return d9_fail(context, why, "%s", message);
    d9_status status =
        d9_arena_format(context, arena, &prefix, "%s %s: ", d9_config_edit_option(edit->kind), edit->text);
    if (status != D9_OK) return status;
    size_t length = strlen(prefix);
    return d9_tree_fail(context, edit->node, "%s", strncmp(message, prefix, length) == 0 ? message + length : message);
}

static d9_status load_config(d9_context *context, d9_arena *arena, const d9_draft *draft, d9_arm *arm) {
    d9_context quiet = *context;
    d9_status status = d9_config_load(&quiet, draft->config, &arm->edits, &arm->config);
    return status == D9_OK ? D9_OK : fail_at_edit(context, arena, draft, status, quiet.message);
}

/* ---- published results ---- */

static const d9_option *published_options(void) {
    for (int i = 0; d9_section_at(i); i++)
        if (strcmp(d9_section_at(i)->name, "published") == 0) return d9_section_at(i)->options;
    return NULL;
}

/* Gives an arm the published results for its number of epochs: from the arm's rows in the experiment file; without
 * rows, from the configuration, unless they are for another number of epochs or the arm is `edited` (in more than the
 * grid's settings); otherwise none. */
static d9_status attach_published(d9_context *context, const d9_draft *draft, bool edited, d9_config *config) {
    d9_status status = D9_OK;
    static const d9_tree none = {.kind = D9_TREE_MAP};
    const d9_binding binding = {published_options(), config};
    const double epochs = config->train.epochs;
    bool own = !edited && !(isfinite(config->published.epochs) && config->published.epochs != epochs);
    if (!draft->published && own) return D9_OK;
    if (draft->published && draft->published->kind != D9_TREE_LIST)
        D9_TRY(d9_tree_fail(context, draft->published, "needs a list of rows, like [{epochs: 24, accuracy: 94.1}]"));
    for (const d9_tree *row = draft->published ? draft->published->first : NULL; row; row = row->next) {
        D9_TRY(d9_values_bind(context, &config->arena, row, &binding, 1, NULL));
        if (!isfinite(config->published.epochs)) D9_TRY(d9_tree_fail(context, row, "epochs must be given"));
        if (config->published.epochs == epochs) return D9_OK;
    }
    D9_TRY(d9_values_bind(context, &config->arena, &none, &binding, 1, NULL));
done:
    return status;
}

/* ---- arms ---- */

d9_status d9_draft_resolve(d9_context *context, d9_arena *arena, const d9_draft *draft, d9_arm *arm) {
    d9_status status;
    int own = 0; /* edits that not all arms have */
    *arm = (d9_arm){.name = draft->name,
                    .label = draft->label ? draft->label : draft->name,
                    .baseline = draft->baseline,
                    .trick = draft->trick,
                    .companions = draft->companions,
                    .edits = draft->edits,
                    .grid = draft->grid,
                    .grid_count = draft->grid_count};
    for (int i = 0; i < arm->edits.count; i++) own += !arm->edits.items[i].shared;
    D9_TRY(check_edits(context, &arm->edits));
    D9_TRY(load_config(context, arena, draft, arm));
    D9_TRY(attach_published(context, draft, own > draft->grid_edits, arm->config));
    d9_config_hash(context, arm->config, arm->config_hash);
    if (!*arm->config_hash) status = context->status;
done:
    return status;
}

static const d9_arm *find_arm(const d9_experiment *experiment, const char *name, const d9_arm *except) {
    for (int i = 0; i < experiment->arm_count; i++)
        if (&experiment->arms[i] != except && strcmp(experiment->arms[i].name, name) == 0) return &experiment->arms[i];
    return NULL;
}

static d9_status reject_baseline(d9_context *context, const d9_experiment *experiment, const d9_arm *arm) {
    enum { NAMES_MAX = 64 };
    const char *names[NAMES_MAX];
    int count = 0;
    for (int i = 0; i < experiment->arm_count && count < NAMES_MAX; i++)
        if (&experiment->arms[i] != arm) names[count++] = experiment->arms[i].name;
    const char *nearest = d9_text_nearest(arm->baseline, names, count);
    return d9_fail(context, D9_USAGE, "%s: arms.%s.baseline: there is no other arm %s%s%s%s", experiment->file,
                   arm->name, arm->baseline, nearest ? "; did you mean " : "", nearest ? nearest : "",
                   nearest ? "?" : "");
}

/* Compares all keys, including those that the hash omits, such as title and eval.every. */
static d9_status compare_configs(d9_context *context, const d9_config *a, const d9_config *b, bool *identical) {
    d9_status status;
    d9_text one, other;
    d9_text_init(context, &one);
    d9_text_init(context, &other);
    d9_config_print(a, false, &one);
    d9_config_print(b, false, &other);
    *identical = strcmp(d9_text_get(&one), d9_text_get(&other)) == 0;
    D9_TRY(d9_text_status(&one));
    D9_TRY(d9_text_status(&other));
done:
    d9_text_free(&one);
    d9_text_free(&other);
    return status;
}

/* Sets runs_of of each arm: the index of the first arm with an identical configuration, or its own. */
static d9_status find_shared_runs(d9_context *context, d9_experiment *experiment) {
    d9_status status = D9_OK;
    for (int i = 0; i < experiment->arm_count; i++) {
        d9_arm *arm = &experiment->arms[i];
        arm->runs_of = i;
        for (int before = 0; before < i && arm->runs_of == i; before++) {
            const d9_arm *other = &experiment->arms[before];
            bool identical;
            if (arm->rejected || strcmp(other->config_hash, arm->config_hash) != 0) continue;
            D9_TRY(compare_configs(context, other->config, arm->config, &identical));
            if (identical) arm->runs_of = before;
        }
    }
done:
    return status;
}

d9_status d9_arms_link(d9_context *context, d9_experiment *experiment) {
    for (int i = 0; i < experiment->arm_count; i++) {
        const d9_arm *arm = &experiment->arms[i];
        if (find_arm(experiment, arm->name, arm))
            return d9_fail(context, D9_USAGE, "%s: two arms would have the folder %s", experiment->file, arm->name);
        if (arm->baseline && !find_arm(experiment, arm->baseline, arm))
            return reject_baseline(context, experiment, arm);
    }
    return find_shared_runs(context, experiment);
}
