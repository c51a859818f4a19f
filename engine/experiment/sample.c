/* The key `search` of an experiment file: reads it, draws the values of the trials and makes the arms.
 *
 *     search:
 *       trials: 100                # configurations
 *       seed: 1                    # of the sampler
 *       eta: 3                     # the best third of a rung enters the next one
 *       promote: score             # or frontier: score against operations
 *       rungs: {seeds: [1, 3, 9]}  # or {train.epochs: [2, 6, 18]}; default: one rung with the experiment's seeds
 *       budget: {teraflop: 5000}   # or hours, or both: no new run is started once finished runs have used it
 *       ranges:                    # KEY as in --set: a value, in which each of these maps stands for a drawn value
 *         train.momentum: {uniform: [0.5, 0.9]}
 *         tricks.muon.rate: {log: [0.1, 0.4]}
 *         model.widths: [{whole: [32, 64, 8]}, 256, 256]                  # low, high, step (default 1)
 *         tricks.cutout: {choice: [off, {size: {whole: [4, 12, 2]}}]}     # removes or adds a trick
 *
 * `whole` draws low, low + step, ... up to high. `uniform` and `log` round to four significant digits, in narrow ranges
 * to more. The random number for a range depends only on the seed of the sampler, the number of the trial and the path
 * of the range ("model.widths[0]"): not on the order of the runs, the other ranges or the number of trials. */
#include "config/values.h"
#include "experiment/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ranges ---- */

typedef enum range_kind { UNIFORM, LOG, WHOLE, CHOICE, NO_RANGE } range_kind;
static const char *const range_names[] = {"uniform", "log", "whole", "choice"};

/* Kind of a range, a map with one of these names as its only key. NO_RANGE: `node` is no range; it may contain some. */
static range_kind range_of(const d9_tree *node) {
    range_kind kind = UNIFORM;
    if (node->kind != D9_TREE_MAP || node->count != 1) return NO_RANGE;
    while (kind < NO_RANGE && strcmp(node->first->key, range_names[kind]) != 0) kind++;
    return kind;
}

/* Reads a range's low end, high end and step (only `whole` may have one; else 1). Returns false if one is invalid. */
static bool read_ends(const d9_tree *list, range_kind kind, double ends[3]) {
    int count = 0;
    int64_t integer;
    ends[0] = ends[1] = 0;
    ends[2] = 1;
    if (list->kind != D9_TREE_LIST || list->count < 2 || list->count > (kind == WHOLE ? 3 : 2)) return false;
    for (const d9_tree *node = list->first; node; node = node->next, count++) {
        if (node->kind != D9_TREE_SCALAR || node->quoted || !d9_text_to_real(node->text, &ends[count])) return false;
        if (kind == WHOLE && (!d9_text_to_integer(node->text, &integer) || fabs(ends[count]) > 1e9)) return false;
    }
    return ends[0] < ends[1] && ends[2] >= 1 && (kind != LOG || ends[0] > 0);
}

/* Checks the range `node` and all ranges within it, those of every choice included, and adds their number to *count. */
static d9_status check_ranges(d9_spec *spec, const d9_tree *node, int *count) {
    d9_status status = D9_OK;
    double ends[3];
    const range_kind kind = range_of(node);
    *count += kind != NO_RANGE;
    if (kind == CHOICE && (node->first->kind != D9_TREE_LIST || node->first->count < 2))
        D9_TRY(
            d9_tree_fail(spec->context, node->first, "needs a list of two or more values, like {choice: [off, on]}"));
    if (kind < CHOICE && !read_ends(node->first, kind, ends))
        D9_TRY(d9_tree_fail(spec->context, node->first,
                            kind == UNIFORM ? "needs two increasing numbers, like {uniform: [0.5, 0.9]}"
                            : kind == LOG
                                ? "needs two increasing numbers above 0, like {log: [0.01, 1]}"
                                : "needs two increasing whole numbers of at most 1e9, and a step of at least 1 "
                                  "if it is not 1, like {whole: [16, 64, 8]}"));
    for (const d9_tree *child = kind < CHOICE ? NULL : node->first; child; child = child->next)
        D9_TRY(check_ranges(spec, child, count));
done:
    return status;
}

/* ---- drawing ---- */

typedef struct draw {
    d9_spec *spec;
    int64_t trial;
} draw;

/* The random words of a range in this trial. `place`: the path of the range, "model.widths[0]". */
static d9_philox random_words_of(const draw *draw, const char *place) {
    char hex[65], eight[9];
    d9_sha256_hex(&(d9_bytes){place, strlen(place)}, 1, hex);
    snprintf(eight, sizeof eight, "%.8s", hex);
    return d9_philox4x32_10((uint64_t)draw->spec->experiment->search.seed, (uint32_t)draw->trial, 0, D9_STREAM_SEARCH,
                            (uint32_t)strtoul(eight, NULL, 16));
}

/* Significant digits of a number drawn from the range: four, and more if four give fewer than a hundred numbers. */
static int digits_of(const double ends[2]) {
    const double largest = fmax(fabs(ends[0]), fabs(ends[1]));
    int digits = 4;
    while (digits < 15 && ends[1] - ends[0] < 100 * pow(10, floor(log10(largest)) + 1 - digits)) digits++;
    return digits;
}

/* Writes the drawn number, rounded to digits_of; if that is outside the range, the end of the range. */
static void draw_number(uint32_t word, range_kind kind, const d9_tree *list, char text[32]) {
    double ends[3], value;
    (void)read_ends(list, kind, ends); /* checked before */
    if (kind == WHOLE) {
        const uint32_t values = (uint32_t)floor((ends[1] - ends[0]) / ends[2]) + 1;
        snprintf(text, 32, "%.0f", ends[0] + ends[2] * d9_philox_below(word, values));
        return;
    }
    const double low = kind == LOG ? log(ends[0]) : ends[0], high = kind == LOG ? log(ends[1]) : ends[1];
    value = low + d9_philox_unit(word) * (high - low);
    snprintf(text, 32, "%.*g", digits_of(ends), kind == LOG ? exp(value) : value);
    if (!d9_text_to_real(text, &value) || value < ends[0]) d9_text_of_real(ends[0], text);
    if (value > ends[1]) d9_text_of_real(ends[1], text);
}

/* Appends a copy of `node` to `parent`, in which drawn values replace the ranges. `place`: path of `node`. The copy
 * gets the key of `named`, because a value in a list of choices has none. */
static d9_status draw_value(const draw *draw, const d9_tree *node, const d9_tree *named, const char *place,
                            d9_tree *parent) {
    d9_status status = D9_OK;
    d9_context *context = draw->spec->context;
    d9_arena *arena = draw->spec->arena;
    const range_kind kind = range_of(node);
    const uint32_t word = random_words_of(draw, place).v[0];
    char number[32], *text;
    d9_tree *made;
    int index = 0;
    if (kind == CHOICE) {
        const uint32_t choice = d9_philox_below(word, (uint32_t)node->first->count);
        const d9_tree *chosen = node->first->first;
        for (uint32_t i = 0; i < choice; i++) chosen = chosen->next;
        D9_TRY(d9_arena_format(context, arena, &text, "%s.choice[%u]", place, choice));
        D9_TRY(draw_value(draw, chosen, named, text, parent));
        goto done;
    }
    D9_TRY(d9_tree_make(context, arena, kind < CHOICE ? D9_TREE_SCALAR : node->kind, &node->place, named->key, &made));
    d9_tree_append(parent, made);
    made->text = node->text;
    made->quoted = node->quoted;
    if (kind < CHOICE) {
        draw_number(word, kind, node->first, number);
        D9_TRY(d9_arena_copy(context, arena, number, &text));
        made->text = text;
        goto done;
    }
    for (const d9_tree *child = node->first; child; child = child->next, index++) {
        D9_TRY(child->key ? d9_arena_format(context, arena, &text, "%s.%s", place, child->key)
                          : d9_arena_format(context, arena, &text, "%s[%d]", place, index));
        D9_TRY(draw_value(draw, child, child, text, made));
    }
done:
    return status;
}

/* Adds the drawn value of a key as edits. A trick with any value but `off` is first switched on, as by --with. */
static d9_status add_edits(d9_spec *spec, const char *key, const d9_tree *value, const d9_tree *node,
                           d9_config_edits *edits) {
    d9_status status = D9_OK;
    const int before = edits->count;
    const bool scalar = value->kind == D9_TREE_SCALAR, on = scalar && strcmp(value->text, "on") == 0,
               off = scalar && strcmp(value->text, "off") == 0;
    if (!off) D9_TRY(d9_spec_add_trick(spec, key, node, edits));
    if (!on || edits->count == before) D9_TRY(d9_draft_set(spec->context, spec->arena, edits, key, value, node));
done:
    return status;
}

static d9_status write_value(d9_spec *spec, const d9_tree *value, const char **text) {
    d9_text written;
    char *copy = NULL;
    d9_text_init(spec->context, &written);
    d9_tree_write(value, &written);
    d9_status status = d9_text_status(&written);
    if (status == D9_OK) status = d9_arena_copy(spec->context, spec->arena, d9_text_get(&written), &copy);
    *text = copy;
    d9_text_free(&written);
    return status;
}

/* Draws all values of a trial. Adds them to the draft as edits and as its grid point, which has space for one more row
 * (add_epochs). */
static d9_status draw_trial(d9_spec *spec, const d9_tree *ranges, int64_t trial, d9_draft *draft) {
    d9_status status = D9_OK;
    const draw draw = {.spec = spec, .trial = trial};
    d9_config_edits edits = {0};
    d9_tree *values;
    d9_grid_setting *rows;
    D9_TRY(d9_tree_make(spec->context, spec->arena, D9_TREE_MAP, &ranges->place, NULL, &values));
    D9_TRY(D9_ARENA_ALLOCATE(spec->context, spec->arena, ranges->count + 1, &rows));
    draft->grid = rows;
    for (const d9_tree *range = ranges->first; range; range = range->next) {
        D9_TRY(draw_value(&draw, range, range, range->key, values));
        D9_TRY(add_edits(spec, range->key, values->last, range, &edits));
        rows[draft->grid_count].key = range->key;
        D9_TRY(write_value(spec, values->last, &rows[draft->grid_count++].value));
    }
    draft->grid_edits = edits.count;
    D9_TRY(d9_config_edits_append(spec->context, spec->arena, &draft->edits, &edits));
done:
    return status;
}

/* ---- arms ---- */

/* Removes the folder of an absolute path from a message that begins with the path of the experiment's file, because
 * records contain no absolute paths. */
static const char *without_folder(const d9_experiment *experiment, const char *message) {
    const char *file = experiment->file;
    const size_t length = *file == '/' ? (size_t)(d9_text_file_name(file) - file) : 0;
    return strncmp(message, file, length) == 0 ? message + length : message;
}

/* Resolves `base`, the draft without drawn values, with the edits of the command line. */
static d9_status resolve_base(d9_spec *spec, const d9_draft *base, d9_arm *arm) {
    d9_status status;
    d9_draft draft = *base;
    draft.edits = (d9_config_edits){0};
    D9_TRY(d9_config_edits_append(spec->context, spec->arena, &draft.edits, &base->edits));
    D9_TRY(d9_config_edits_append(spec->context, spec->arena, &draft.edits, &spec->added));
    D9_TRY(d9_draft_resolve(spec->context, spec->arena, &draft, arm));
done:
    return status;
}

/* Makes an arm of a trial. If its values are rejected, the arm gets the configuration of `base` and the message. */
static d9_status resolve_trial(d9_spec *spec, const d9_draft *base, const d9_draft *draft, d9_arm *arm) {
    d9_status status;
    d9_context quiet = *spec->context;
    char *message;
    const d9_status found = d9_draft_resolve(&quiet, spec->arena, draft, arm);
    if (found == D9_OK) return D9_OK;
    if (found != D9_USAGE) return d9_fail(spec->context, found, "%s", quiet.message);
    d9_config_free(&quiet, arm->config);
    D9_TRY(d9_arena_copy(spec->context, spec->arena, without_folder(spec->experiment, quiet.message), &message));
    D9_TRY(resolve_base(spec, base, arm));
    arm->name = draft->name;
    arm->label = draft->label;
    arm->edits = draft->edits;
    arm->grid = draft->grid;
    arm->grid_count = draft->grid_count;
    arm->rejected = message;
    arm->config_hash[0] = 0;
done:
    return status;
}

/* Adds a rung's train.epochs to the draft: as an edit, in the grid point that is recorded, and in name and label. */
static d9_status add_epochs(d9_spec *spec, double epochs, d9_draft *draft) {
    d9_status status;
    char *set, *made;
    d9_grid_setting *rows = (d9_grid_setting *)draft->grid; /* of draw_trial, with space for this one */
    D9_TRY(d9_arena_format(spec->context, spec->arena, &set, "train.epochs=%.10g", epochs));
    D9_TRY(d9_config_edits_add(
        spec->context, spec->arena, &draft->edits,
        (d9_config_edit){.kind = D9_EDIT_SET, .text = set, .node = d9_tree_find(spec->root, "search")}));
    draft->grid_edits++;
    rows[draft->grid_count++] = (d9_grid_setting){"train.epochs", set + strlen("train.epochs=")};
    D9_TRY(d9_arena_format(spec->context, spec->arena, &made, "%s,%s", draft->name, set));
    draft->name = made;
    D9_TRY(d9_arena_format(spec->context, spec->arena, &made, "%s, epochs %.10g", draft->label, epochs));
    draft->label = made;
done:
    return status;
}

/* Adds the arms of a trial. `base`: the draft that all trials share, without drawn values. */
static d9_status add_trial(d9_spec *spec, const d9_tree *ranges, const d9_draft *base, int64_t trial) {
    d9_status status = D9_OK;
    d9_experiment *experiment = spec->experiment;
    const d9_search *search = &experiment->search;
    char *name, *label;
    D9_TRY(d9_arena_format(spec->context, spec->arena, &name, "trial%04lld", (long long)trial + 1));
    D9_TRY(d9_arena_format(spec->context, spec->arena, &label, "trial %lld", (long long)trial + 1));
    for (int rung = 0; rung < d9_search_arms_per_trial(search); rung++) {
        d9_draft draft = *base;
        draft.name = name;
        draft.label = label;
        draft.edits = (d9_config_edits){0};
        D9_TRY(d9_config_edits_append(spec->context, spec->arena, &draft.edits, &base->edits));
        D9_TRY(draw_trial(spec, ranges, trial, &draft));
        if (!search->by_seeds) D9_TRY(add_epochs(spec, search->rungs[rung], &draft));
        D9_TRY(d9_config_edits_append(spec->context, spec->arena, &draft.edits, &spec->added));
        D9_TRY(resolve_trial(spec, base, &draft, &experiment->arms[experiment->arm_count++]));
    }
done:
    return status;
}

/* Fails if no trial has a legal configuration, or if the first legal one sets no validation samples aside. */
static d9_status check_trials(d9_spec *spec, const d9_tree *node) {
    d9_experiment *experiment = spec->experiment;
    for (int i = 0; i < experiment->arm_count; i++) {
        const d9_arm *arm = &experiment->arms[i];
        if (arm->rejected) continue;
        if (arm->config->data.validation == 0)
            return d9_tree_fail_key(spec->context, node,
                                    "needs images or texts that are set aside, like set: {data.validation: 5000}: the "
                                    "test set must not be used for selection");
        return D9_OK;
    }
    return d9_fail(spec->context, D9_USAGE, "%s", experiment->arms[0].rejected);
}

/* ---- the key `search` ---- */

static const d9_option search_options[] = {
    {"trials", D9_OPTION_INT, offsetof(d9_search, trials), NULL, 1, D9_RUNS_MAX, NULL, "number of configurations"},
    {"seed", D9_OPTION_INT, offsetof(d9_search, seed), "1", 0, 1e9, NULL, "seed of the sampler"},
    {"eta", D9_OPTION_INT, offsetof(d9_search, eta), "3", 2, 100, NULL,
     "the best 1/eta of a rung are promoted to the next rung"},
    {"promote", D9_OPTION_CHOICE, offsetof(d9_search, promote), "score", 0, 0, "score|frontier",
     "order of the trials of a rung"},
    {0},
};
static const char *const search_others[] = {"rungs", "budget", "ranges", NULL};

static const d9_option budget_options[] = {
    {"teraflop", D9_OPTION_REAL, offsetof(d9_search, teraflop), "0", 0, 1e12, NULL,
     "operations of all runs after which no new run is started, TFLOP; 0: no limit"},
    {"hours", D9_OPTION_REAL, offsetof(d9_search, hours), "0", 0, 1e6, NULL,
     "time of all runs, summed over workers, after which no new run is started; 0: no limit"},
    {0},
};

static d9_status read_rungs(d9_spec *spec, const d9_tree *map, const d9_experiment_options *options) {
    d9_status status = D9_OK;
    d9_search *search = &spec->experiment->search;
    const d9_tree *given = d9_tree_find(spec->root, "seeds"), *list = map ? map->first : NULL;
    const bool is_map = map && map->kind == D9_TREE_MAP && map->count == 1;
    search->by_seeds = !is_map || strcmp(list->key, "seeds") == 0;
    if (map && !(is_map && (search->by_seeds || strcmp(list->key, "train.epochs") == 0)))
        D9_TRY(d9_tree_fail(spec->context, map, "needs {seeds: [1, 3, 9]} or {train.epochs: [2, 6, 18]}"));
    if (!list) search->rungs[search->rung_count++] = spec->experiment->seed_count;
    if (list && (list->kind != D9_TREE_LIST || !list->first || list->count > D9_RUNGS_MAX))
        D9_TRY(d9_tree_fail(spec->context, list, "needs a list of 1 to %d increasing numbers", D9_RUNGS_MAX));
    for (const d9_tree *node = list ? list->first : NULL; node; node = node->next) {
        double *rung = &search->rungs[search->rung_count];
        int64_t whole;
        if (node->kind != D9_TREE_SCALAR || node->quoted || !d9_text_to_real(node->text, rung) || *rung <= 0 ||
            (search->rung_count > 0 && *rung <= rung[-1]) ||
            (search->by_seeds && (!d9_text_to_integer(node->text, &whole) || whole > 10000)))
            D9_TRY(d9_tree_fail(spec->context, node, "must be %s above 0, increasing",
                                search->by_seeds ? "a whole number to 10000" : "a number"));
        search->rung_count++;
    }
    if (list && search->by_seeds) {
        if (given) D9_TRY(d9_tree_fail_key(spec->context, given, "the rungs of the search set the seeds"));
        if (options->seeds)
            D9_TRY(d9_tree_fail(spec->context, list, "the rungs of the search set the seeds; --seeds cannot"));
        D9_TRY(d9_seeds_set_first(spec->context, spec->experiment, (int64_t)search->rungs[search->rung_count - 1]));
    } else if (list && !given && !options->seeds)
        D9_TRY(d9_seeds_set_first(spec->context, spec->experiment, 1));
done:
    return status;
}

static d9_status read_ranges(d9_spec *spec, const d9_tree *search, const d9_tree *ranges) {
    static const char *const fixed[] = {"seed", "keep", "data.validation", NULL};
    d9_status status = D9_OK;
    if (!ranges || ranges->kind != D9_TREE_MAP || !ranges->first)
        D9_TRY(d9_tree_fail(spec->context, ranges ? ranges : search,
                            "ranges must be a map of keys, like {train.momentum: {uniform: [0.5, 0.9]}}"));
    for (const d9_tree *range = ranges->first; range; range = range->next) {
        int count = 0;
        D9_TRY(check_ranges(spec, range, &count));
        if (count == 0)
            D9_TRY(d9_tree_fail(spec->context, range,
                                "has no range: {uniform: [0.5, 0.9]}, {log: [0.01, 1]}, {whole: [16, 64, 8]} or "
                                "{choice: [off, on]}; a constant belongs to set"));
        for (int i = 0; fixed[i]; i++)
            if (strcmp(range->key, fixed[i]) == 0)
                D9_TRY(d9_tree_fail_key(spec->context, range, "must be the same in all trials"));
        if (!spec->experiment->search.by_seeds && strcmp(range->key, "train.epochs") == 0)
            D9_TRY(d9_tree_fail_key(spec->context, range, "the rungs set it; give rungs of seeds, or no range"));
        D9_TRY(d9_spec_check_axis(spec, ranges, range));
    }
done:
    return status;
}

/* Fails if there are too few trials for one to reach the last rung, eta^(rungs - 1), or more than D9_RUNS_MAX runs. */
static d9_status check_size(d9_spec *spec, const d9_tree *node) {
    const d9_experiment *experiment = spec->experiment;
    const d9_search *search = &experiment->search;
    const double least = pow((double)search->eta, search->rung_count - 1);
    if ((double)search->trials < least)
        return d9_tree_fail(spec->context, d9_tree_find(node, "trials"),
                            "must be %.0f or more for %d rungs with eta %lld, otherwise none reaches the last", least,
                            search->rung_count, (long long)search->eta);
    if (search->trials * d9_search_arms_per_trial(search) * experiment->seed_count > D9_RUNS_MAX)
        return d9_tree_fail(spec->context, d9_tree_find(node, "trials"), "more than %d runs", D9_RUNS_MAX);
    return D9_OK;
}

d9_status d9_spec_read_search(d9_spec *spec, const d9_tree *node, const d9_experiment_options *options) {
    static const d9_tree none = {.kind = D9_TREE_MAP};
    static const char *const others[] = {"arms", "grid", "ablate"};
    d9_status status;
    d9_experiment *experiment = spec->experiment;
    d9_search *search = &experiment->search;
    d9_draft base = {.name = "search", .node = d9_tree_find(spec->root, "config")};
    const d9_tree *budget = d9_tree_find(node, "budget"), *ranges = d9_tree_find(node, "ranges");
    d9_arm alone = {0};
    char *path;
    experiment->kind = D9_EXPERIMENT_SEARCH;
    for (int i = 0; i < 3; i++)
        if (d9_tree_find(spec->root, others[i]))
            D9_TRY(d9_tree_fail_key(spec->context, d9_tree_find(spec->root, others[i]), "a search makes its own arms"));
    if (node->kind != D9_TREE_MAP) D9_TRY(d9_tree_fail(spec->context, node, "needs a map with trials and ranges"));
    if (!spec->head.config) D9_TRY(d9_tree_fail(spec->context, node, "config must be given"));
    D9_TRY(d9_values_bind(spec->context, spec->arena, node, &(d9_binding){search_options, search}, 1, search_others));
    D9_TRY(d9_values_bind(spec->context, spec->arena, budget ? budget : &none, &(d9_binding){budget_options, search}, 1,
                          NULL));
    D9_TRY(read_rungs(spec, d9_tree_find(node, "rungs"), options));
    D9_TRY(read_ranges(spec, node, ranges));
    D9_TRY(check_size(spec, node));
    D9_TRY(d9_path_beside(spec->context, spec->arena, experiment->file, spec->head.config, &path));
    base.config = path;
    D9_TRY(d9_config_edits_append(spec->context, spec->arena, &base.edits, &spec->shared));
    D9_TRY(resolve_base(spec, &base, &alone)); /* reports errors that do not depend on drawn values */
    D9_TRY(D9_ARENA_ALLOCATE(spec->context, spec->arena, search->trials * d9_search_arms_per_trial(search),
                             &experiment->arms));
    for (int64_t trial = 0; trial < search->trials; trial++) D9_TRY(add_trial(spec, ranges, &base, trial));
    status = check_trials(spec, node);
done:
    d9_config_free(spec->context, alone.config);
    return status;
}
