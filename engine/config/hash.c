/* Compares configurations: the hash, and a description of the first difference. */
#include "config/config.h"
#include "config/values.h"
#include "data/dataset.h"

#include <stdlib.h>
#include <string.h>

/* A key and its value: of an option, "train.epochs" and "3"; of a trick that is on, "tricks.ema" and "on"; or the
 * version of the rule that draws test and validation samples, "data.split" and "2". An absent value is "". */
typedef struct setting {
    const char *key, *value;
    bool is_default;
} setting;

typedef struct settings {
    d9_context *context;
    d9_arena arena;
    setting *items;
    int count, capacity;
    bool plateau; /* the learning rates depend on evaluations, so eval.every is hashed */
} settings;

/* False for options that do not change the training, for those whose effect the recorded digest of the data shows, and
 * for the seed, which a run records separately. */
static bool is_hashed(const char *key) {
    static const char *const others[] = {"title",
                                         "target",
                                         "threads",
                                         "keep",
                                         "seed",
                                         "backend_options.choices",
                                         "data.path",
                                         "eval.every", /* see add_option */
                                         "eval.tta",   /* see add_deciding_views */
                                         "data.check",
                                         "data.skip_damaged",
                                         "data.skip_empty",
                                         "data.largest_picture"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(key, others[i]) == 0) return false;
    return strncmp(key, "published.", strlen("published.")) != 0;
}

static d9_status add_setting(settings *all, const char *key, const char *value, bool is_default) {
    d9_status status;
    char *kept;
    D9_TRY(d9_arena_copy(all->context, &all->arena, value, &kept));
    D9_TRY(D9_ARENA_GROW(all->context, &all->arena, all->count, &all->capacity, &all->items));
    all->items[all->count++] = (setting){key, kept, is_default};
done:
    return status;
}

static d9_status add_option(settings *all, const char *section, const d9_option *option, const void *base) {
    d9_status status;
    d9_text value;
    char *key;
    d9_text_init(all->context, &value);
    D9_TRY(d9_arena_format(all->context, &all->arena, &key, "%s%s%s", section, *section ? "." : "", option->key));
    if (!is_hashed(key) && !(all->plateau && strcmp(key, "eval.every") == 0)) goto done;
    const bool is_default = d9_value_is_default(option, base, &value);
    d9_value_write(option, base, &value);
    D9_TRY(d9_text_status(&value));
    D9_TRY(add_setting(all, key, d9_text_get(&value), is_default));
done:
    d9_text_free(&value);
    return status;
}

static d9_status add_options(settings *all, const char *section, const d9_option *options, const void *base) {
    d9_status status = D9_OK;
    for (const d9_option *option = options; option && option->type != D9_OPTION_NONE; option++)
        D9_TRY(add_option(all, section, option, base));
done:
    return status;
}

static d9_status add_trick(settings *all, const d9_trick *trick, const void *options) {
    d9_status status;
    char *section;
    D9_TRY(d9_arena_format(all->context, &all->arena, &section, "tricks.%s", trick->name));
    D9_TRY(add_setting(all, section, "on", false));
    D9_TRY(add_options(all, section, trick->options, options));
done:
    return status;
}

/* Adds, for folder, text and labelled, the version of the rule that draws test and validation samples: 2, by the names
 * of files; 3, for tables without a column of groups or parts, by paths. */
static d9_status add_split_rule(settings *all, const d9_config *config) {
    static const char *const drawn[] = {"folder", "text", "labelled"};
    bool is_drawn = false;
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) is_drawn |= !strcmp(config->data.dataset, drawn[i]);
    if (!is_drawn) return D9_OK;
    const bool by_path =
        strcmp(config->data.dataset, "labelled") == 0 && !config->data.group_column && !config->data.split_column;
    return add_setting(all, "data.split", by_path ? "3" /* D9_SPLIT_BY_PATH */ : "2" /* D9_SPLIT_BY_NAME */, false);
}

/* Adds eval.tta if it can change the parameters: through early stopping or the plateau of the learning rate, and only
 * if a trick adds views. Versions without this key behaved like `every`, so `every` adds no line to the hash. */
static d9_status add_deciding_views(settings *all, const d9_config *config) {
    const bool every = config->eval.tta == D9_EVAL_TTA_EVERY;
    bool views = false;
    for (int i = 0; i < D9_TRICK_COUNT; i++) views |= config->trick_on[i] && d9_trick_at(i)->on_views;
    if (!views || (config->eval.patience == 0 && !all->plateau)) return D9_OK;
    return add_setting(all, "eval.tta", every ? "every" : "last", every);
}

static d9_status collect_settings(const d9_config *config, settings *all) {
    d9_status status = D9_OK;
    d9_config hashed = *config;
    const d9_section *section;
    hashed.train.from = config->train.from_sha256;
    all->plateau = config->train.plateau < 1;
    for (int i = 0; (section = d9_section_at(i)); i++)
        D9_TRY(add_options(all, i > 0 ? section->name : "", section->options, &hashed));
    D9_TRY(add_split_rule(all, config));
    D9_TRY(add_deciding_views(all, config));
    D9_TRY(add_options(all, "model", d9_section_model_name(), &config->model->name));
    D9_TRY(add_options(all, "model", config->model->options, config->model_options));
    for (int i = 0; i < D9_TRICK_COUNT; i++)
        if (config->trick_on[i]) D9_TRY(add_trick(all, d9_trick_at(i), config->trick_options[i]));
done:
    return status;
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(((const setting *)a)->key, ((const setting *)b)->key);
}

void d9_config_hash(d9_context *context, const d9_config *config, char hex[65]) {
    settings all = {.context = context};
    d9_text text;
    d9_text_init(context, &text);
    hex[0] = 0; /* out of memory: no hash, and the context has the message */
    if (collect_settings(config, &all) != D9_OK) goto done;
    qsort(all.items, (size_t)all.count, sizeof *all.items, compare_keys);
    for (int i = 0; i < all.count; i++)
        if (!all.items[i].is_default) d9_text_add(&text, "%s: %s\n", all.items[i].key, all.items[i].value);
    if (d9_text_status(&text) == D9_OK) d9_sha256_hex(&(d9_bytes){d9_text_get(&text), text.size}, 1, hex);
done:
    d9_text_free(&text);
    d9_arena_free(context, &all.arena);
}

/* The value of a key; NULL if the key is missing or its value is empty. */
static const char *value_of(const settings *all, const char *key) {
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->items[i].key, key) == 0 && *all->items[i].value) return all->items[i].value;
    return NULL;
}

static void add_difference(const settings *there, const settings *here, d9_text *text) {
    for (int i = 0; i < there->count; i++) {
        const char *key = there->items[i].key, *theirs = value_of(there, key), *ours = value_of(here, key);
        if (!theirs || (ours && strcmp(theirs, ours) == 0)) continue;
        if (ours)
            d9_text_add(text, "%s is %s, here %s", key, theirs, ours);
        else
            d9_text_add(text, "it has %s", key);
        return;
    }
    for (int i = 0; i < here->count; i++) {
        const char *key = here->items[i].key;
        if (!value_of(here, key) || value_of(there, key)) continue;
        d9_text_add(text, "it has no %s", key);
        return;
    }
}

void d9_config_difference(const d9_config *there, const d9_config *here, d9_text *text) {
    settings theirs = {.context = text->context}, ours = {.context = text->context};
    d9_status status;
    D9_TRY(collect_settings(there, &theirs));
    D9_TRY(collect_settings(here, &ours));
    add_difference(&theirs, &ours, text);
done:
    d9_arena_free(text->context, &theirs.arena);
    d9_arena_free(text->context, &ours.arena);
    if (text->status == D9_OK) text->status = status;
}
