/* The options that edit a configuration: --set and its short forms. */
#include "cli/cli.h"
#include "core/system.h"
#include "data/listing.h"
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

const d9_flag d9_cli_edit_flags[] = {
    {.name = "set",
     .type = D9_FLAG_LIST,
     .offset = offsetof(d9_cli_edits, set),
     .value = "K=V",
     .doc = "change one key of the configuration (train.epochs=3); may be repeated"},
    {.name = "with",
     .type = D9_FLAG_LIST,
     .offset = offsetof(d9_cli_edits, with),
     .value = "T[:k=v,...]",
     .doc = "add a trick, or change its options; may be repeated"},
    {.name = "without",
     .type = D9_FLAG_LIST,
     .offset = offsetof(d9_cli_edits, without),
     .value = "T",
     .doc = "remove a trick; may be repeated"},
    {.name = "seed",
     .type = D9_FLAG_INTEGER,
     .offset = offsetof(d9_cli_edits, seed),
     .value = "N",
     .minimum = 0,
     .maximum = INT64_MAX,
     .doc = "of the initial weights, the order and the augmentation"},
    {.name = "backend",
     .type = D9_FLAG_TEXT,
     .offset = offsetof(d9_cli_edits, backend),
     .value = "B",
     .doc = "auto, or one that `dawn9 devices` lists"},
    {.name = "precision",
     .type = D9_FLAG_TEXT,
     .offset = offsetof(d9_cli_edits, precision),
     .value = "P",
     .doc = "auto, f64, f32, bf16 or fp16"},
    {.name = "threads",
     .type = D9_FLAG_INTEGER,
     .offset = offsetof(d9_cli_edits, threads),
     .value = "N",
     .minimum = 0,
     .maximum = 4096,
     .doc = "0: one per physical core this process may use"},
    {.name = "data",
     .type = D9_FLAG_TEXT,
     .offset = offsetof(d9_cli_edits, data),
     .value = "DIR",
     .doc = "folder of the dataset; default $DAWN9_DATA, then the user's cache folder"},
    {.type = D9_FLAG_END},
};

enum { SHORT_FORMS = 5 };

typedef struct set_list {
    d9_cli *cli;
    const char **items;
    int count;
} set_list;

static d9_status add_text(set_list *list, const char *key, const char *value) {
    char *item = NULL;
    if (!value) return D9_OK;
    d9_status status = d9_arena_format(&list->cli->context, &list->cli->arena, &item, "%s=%s", key, value);
    list->items[list->count] = item;
    list->count += status == D9_OK;
    return status;
}

static d9_status add_integer(set_list *list, const char *key, const d9_flag_integer *value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value->value);
    return value->given ? add_text(list, key, text) : D9_OK;
}

/* The file that was meant by a path that leads nowhere: with .yaml behind it, or the nearest name beside it. *meant is
 * NULL where there is none, or where the path leads somewhere. */
static d9_status find_meant(d9_cli *cli, const char *path, char **meant) {
    d9_status status = D9_OK;
    d9_context *context = &cli->context;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *nearest;
    const int before = (int)(name - path);
    char *folder = NULL;
    void *names = NULL;
    d9_listing listing;
    *meant = NULL;
    if (d9_file_exists(context, path)) goto done;
    D9_TRY(d9_arena_format(context, &cli->arena, meant, "%s.yaml", path));
    if (d9_file_exists(context, *meant)) goto done;
    *meant = NULL;
    D9_TRY(d9_arena_format(context, &cli->arena, &folder, "%.*s.", before, path));
    D9_TRY(d9_listing_read(context, &cli->arena, folder, &listing));
    D9_TRY(d9_arena_allocate(context, &cli->arena, ((size_t)listing.count + 1) * sizeof(char *), &names));
    for (int64_t i = 0; i < listing.count; i++) ((const char **)names)[i] = listing.entries[i].name;
    nearest = d9_text_nearest(name, names, (int)listing.count);
    if (nearest) D9_TRY(d9_arena_format(context, &cli->arena, meant, "%.*s%s", before, path, nearest));
done:
    return status;
}

static d9_status check_path(d9_cli *cli, const char *path) {
    char *meant = NULL, found[D9_INSTALLED_BYTES];
    if (d9_config_find(&cli->context, path, found)) return D9_OK;
    if (find_meant(cli, path, &meant) != D9_OK) d9_context_clear(&cli->context); /* loading says what is wrong */
    if (!meant) return D9_OK;
    return d9_fail(&cli->context, D9_USAGE, "%s: there is no such file; did you mean %s?", path, meant);
}

/* The edits of the command line as lists; the short forms come behind --set. */
static d9_status collect(d9_cli *cli, const d9_cli_edits *edits, const int64_t *seed, d9_config_edits *all) {
    d9_status status = D9_OK;
    d9_flag_integer chosen = edits->seed;
    set_list list = {.cli = cli};
    void *memory = NULL;
    if (seed) chosen = (d9_flag_integer){.given = true, .value = *seed};
    D9_TRY(d9_arena_allocate(&cli->context, &cli->arena, (size_t)(edits->set.count + SHORT_FORMS) * sizeof(char *),
                             &memory));
    list.items = memory;
    for (int i = 0; i < edits->set.count; i++) list.items[list.count++] = edits->set.items[i];
    D9_TRY(add_integer(&list, "seed", &chosen));
    D9_TRY(add_integer(&list, "threads", &edits->threads));
    D9_TRY(add_text(&list, "backend", edits->backend));
    D9_TRY(add_text(&list, "precision", edits->precision));
    D9_TRY(add_text(&list, "data.path", edits->data));
    *all = (d9_config_edits){.with = edits->with.items,
                             .with_count = edits->with.count,
                             .without = edits->without.items,
                             .without_count = edits->without.count,
                             .set = list.items,
                             .set_count = list.count};
done:
    return status;
}

d9_status d9_cli_config(d9_cli *cli, const char *path, const d9_cli_edits *edits, const int64_t *seed,
                        d9_config **config) {
    d9_status status = D9_OK;
    d9_config_edits all;
    *config = NULL;
    D9_TRY(check_path(cli, path));
    D9_TRY(collect(cli, edits, seed, &all));
    D9_TRY(d9_config_load(&cli->context, path, &all, config));
done:
    return status;
}

d9_status d9_cli_config_text(d9_cli *cli, const char *name, const char *yaml, const d9_cli_edits *edits,
                             d9_config **config) {
    d9_status status = D9_OK;
    d9_config_edits all;
    *config = NULL;
    D9_TRY(collect(cli, edits, NULL, &all));
    D9_TRY(d9_config_parse(&cli->context, name, yaml, &all, config));
done:
    return status;
}
