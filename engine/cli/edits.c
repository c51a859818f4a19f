/* The options that edit a configuration: --set and its short forms. */
#include "cli/cli.h"
#include "core/system.h"
#include "core/listing.h"
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

const d9_flag d9_cli_edit_flags[] = {
    {"set", D9_FLAG_LIST, offsetof(d9_cli_edits, set), "K=V",
     .doc = "change one key of the configuration (train.epochs=3); may be repeated"},
    {"with", D9_FLAG_LIST, offsetof(d9_cli_edits, with), "T[:k=v,...]",
     .doc = "add a trick, or change its options; may be repeated"},
    {"without", D9_FLAG_LIST, offsetof(d9_cli_edits, without), "T", .doc = "remove a trick; may be repeated"},
    {"seed", D9_FLAG_INTEGER, offsetof(d9_cli_edits, seed), "N", .minimum = 0, .maximum = INT64_MAX,
     .doc = "of the initial weights, the order and the augmentation"},
    {"epochs", D9_FLAG_TEXT, offsetof(d9_cli_edits, epochs), "N",
     .doc = "passes over the training images (train.epochs)"},
    {"lr", D9_FLAG_TEXT, offsetof(d9_cli_edits, lr), "R",
     .doc =
         "largest learning rate; the schedule keeps its shape (train.lr.peak). The trick muon has a rate of its own"},
    {"batch-size", D9_FLAG_TEXT, offsetof(d9_cli_edits, batch_size), "N", .doc = "images a step (train.batch_size)"},
    {"backend", D9_FLAG_TEXT, offsetof(d9_cli_edits, backend), "B", .doc = "auto, or one that `dawn9 devices` lists"},
    {"precision", D9_FLAG_TEXT, offsetof(d9_cli_edits, precision), "P",
     .doc = "auto, f64, f32, tf32 (cuda), bf16 or fp16"},
    {"threads", D9_FLAG_INTEGER, offsetof(d9_cli_edits, threads), "N", .minimum = 0, .maximum = 4096,
     .doc = "0: one per physical core this process may use"},
    {"data", D9_FLAG_TEXT, offsetof(d9_cli_edits, data), "DIR",
     .doc = "folder of the dataset; default $DAWN9_DATA, then the user's cache folder"},
    {"skip-damaged", D9_FLAG_SWITCH, offsetof(d9_cli_edits, skip_damaged),
     .doc = "leave out the pictures of a folder that cannot be read, with a warning for each (data.skip_damaged)"},
    {"no-check", D9_FLAG_SWITCH, offsetof(d9_cli_edits, no_check),
     .doc = "take the files of a published dataset as they are, without verifying their checksums"},
    {.type = D9_FLAG_END},
};

/* ---- the file that was meant by a path that leads nowhere ---- */

/* Where a file may lie whose folder was left out; the first is the current one. */
static const char *const usual_folders[] = {"", "configs/", "configs/ladder/", "experiments/"};
enum { USUAL_FOLDERS = sizeof usual_folders / sizeof usual_folders[0], NAMES_MAX = 1024 };

/* Under its own name, or with .yaml behind it. */
static d9_status try_path(d9_cli *cli, const char *folder, const char *path, char **meant) {
    static const char *const endings[] = {"", ".yaml"};
    d9_status status = D9_OK;
    for (int i = 0; i < 2; i++) {
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, meant, "%s%s%s", folder, path, endings[i]));
        if (d9_file_exists(&cli->context, *meant)) goto done;
    }
    *meant = NULL;
done:
    return status;
}

/* Names are compared without their endings: otherwise none.yaml would be near to tiny.yaml. */
typedef struct neighbours {
    const char *stems[NAMES_MAX], *names[NAMES_MAX], *folders[NAMES_MAX];
    int count;
} neighbours;

static d9_status copy_stem(d9_cli *cli, const char *name, char **stem) {
    const char *dot = strrchr(name, '.');
    return d9_arena_format(&cli->context, &cli->arena, stem, "%.*s", (int)(dot ? (size_t)(dot - name) : strlen(name)),
                           name);
}

static d9_status add_neighbours(d9_cli *cli, const char *folder, neighbours *all) {
    d9_status status = D9_OK;
    char *path;
    d9_listing listing = {0};
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &path, "%s.", folder));
    D9_TRY(d9_listing_read(&cli->context, &cli->arena, path, &listing));
    for (int64_t i = 0; i < listing.count && all->count < NAMES_MAX; i++) {
        D9_TRY(copy_stem(cli, listing.entries[i].name, &path));
        all->stems[all->count] = path;
        all->names[all->count] = listing.entries[i].name;
        all->folders[all->count++] = folder;
    }
done:
    if (status != D9_DATA) return status;
    d9_context_clear(&cli->context); /* a folder that cannot be read suggests nothing */
    return D9_OK;
}

/* The nearest name in the path's folder; of a path without one also in the usual folders. */
static d9_status try_neighbours(d9_cli *cli, const char *path, char **meant) {
    d9_status status = D9_OK;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *nearest;
    char *folder, *stem;
    neighbours *all = NULL;
    D9_TRY(copy_stem(cli, name, &stem));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, 1, &all));
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &folder, "%.*s", (int)(name - path), path));
    D9_TRY(add_neighbours(cli, folder, all));
    for (int i = 1; i < USUAL_FOLDERS && !slash; i++) D9_TRY(add_neighbours(cli, usual_folders[i], all));
    nearest = d9_text_nearest(stem, all->stems, all->count);
    for (int i = 0; nearest && !*meant && i < all->count; i++) {
        if (all->stems[i] != nearest) continue;
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, meant, "%s%s", all->folders[i], all->names[i]));
    }
done:
    return status;
}

d9_status d9_cli_check_path(d9_cli *cli, const char *path) {
    d9_status status = D9_OK;
    char *meant = NULL, found[D9_INSTALLED_BYTES];
    if (!*path || d9_file_exists(&cli->context, path)) goto done; /* loading says what is wrong with it */
    if (d9_config_find(&cli->context, path, found)) goto done;    /* an installed one, by its name */
    for (int i = 0; i < (strchr(path, '/') ? 1 : USUAL_FOLDERS) && !meant; i++)
        D9_TRY(try_path(cli, usual_folders[i], path, &meant));
    if (!meant) D9_TRY(try_neighbours(cli, path, &meant));
    if (meant)
        status = d9_fail(&cli->context, D9_USAGE, "%s: there is no such %s; did you mean %s?", path,
                         d9_folder_exists(&cli->context, meant) ? "folder" : "file", meant);
done:
    return status;
}

void d9_cli_name_folder(char *title, const char *fine) {
    for (char *at = title; *at; at++)
        if (*at == '/' || (*at == '.' && at == title) || (fine && !strchr(fine, *at))) *at = '-';
}

d9_status d9_cli_check_output(d9_cli *cli, const char *output, const char *option, const char *input) {
    const d9_system *system = cli->context.system;
    struct stat written, read;
    const bool same = output && input && system->stat(system->user, output, &written) == 0 &&
                      system->stat(system->user, input, &read) == 0 && d9_same_file(&written, &read);
    if (!same) return D9_OK;
    return d9_fail(&cli->context, D9_USAGE, "%s: would overwrite its own input; give another %s", output, option);
}

/* ---- the edits as lists ---- */

static const char *integer_text(const d9_flag_integer *value, char text[24]) {
    snprintf(text, 24, "%lld", (long long)value->value);
    return value->given ? text : NULL;
}

d9_status d9_cli_edits_collect(d9_cli *cli, const d9_cli_edits *edits, const int64_t *seed, d9_config_edits *all) {
    enum { SHORT_FORMS = 10 };
    d9_status status = D9_OK;
    char seed_text[24], threads_text[24], *item;
    const char **set = NULL, **by; /* "seed=4", and the option that said it: "--seed" */
    const d9_flag_integer chosen = seed ? (d9_flag_integer){.given = true, .value = *seed} : edits->seed;
    const struct {
        const char *option, *key, *value;
    } forms[SHORT_FORMS] = {{"--seed", "seed", integer_text(&chosen, seed_text)},
                            {"--epochs", "train.epochs", edits->epochs},
                            {"--lr", "train.lr.peak", edits->lr},
                            {"--batch-size", "train.batch_size", edits->batch_size},
                            {"--threads", "threads", integer_text(&edits->threads, threads_text)},
                            {"--backend", "backend", edits->backend},
                            {"--precision", "precision", edits->precision},
                            {"--data", "data.path", edits->data},
                            {"--skip-damaged", "data.skip_damaged", edits->skip_damaged ? "on" : NULL},
                            {"--no-check", "data.check", edits->no_check ? "off" : NULL}};
    const int room = edits->set.count + SHORT_FORMS;
    int count = 0;
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, 2 * room, &set));
    by = set + room;
    for (; count < edits->set.count; count++) set[count] = edits->set.items[count];
    for (int i = 0; i < SHORT_FORMS; i++) {
        if (!forms[i].value) continue;
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, &item, "%s=%s", forms[i].key, forms[i].value));
        by[count] = forms[i].option;
        set[count++] = item;
    }
    *all = (d9_config_edits){.with = edits->with.items,
                             .with_count = edits->with.count,
                             .without = edits->without.items,
                             .without_count = edits->without.count,
                             .set = set,
                             .set_count = count,
                             .set_by = by};
done:
    return status;
}

d9_status d9_cli_config(d9_cli *cli, const char *path, const d9_cli_edits *edits, const int64_t *seed,
                        d9_config **config) {
    d9_status status = D9_OK;
    d9_config_edits all;
    *config = NULL;
    D9_TRY(d9_cli_check_path(cli, path));
    D9_TRY(d9_cli_edits_collect(cli, edits, seed, &all));
    D9_TRY(d9_config_load(&cli->context, path, &all, config));
done:
    return status;
}

d9_status d9_cli_config_text(d9_cli *cli, const char *name, const char *yaml, const d9_cli_edits *edits,
                             d9_config **config) {
    d9_status status = D9_OK;
    d9_config_edits all;
    *config = NULL;
    D9_TRY(d9_cli_edits_collect(cli, edits, NULL, &all));
    D9_TRY(d9_config_parse(&cli->context, name, yaml, &all, config));
done:
    return status;
}
