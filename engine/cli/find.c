/* Finds files named on the command line, and suggests similar names; see cli.h. */
#include "cli/cli.h"

#include <string.h>

#include "core/listing.h"
#include "core/system.h"

enum { NAMES_MAX = 1024 };

/* Files and folders whose names may be suggested. Names are compared without extension; otherwise none.yaml would be
 * similar to tiny.yaml. */
typedef struct candidates {
    const char *stems[NAMES_MAX]; /* names without extension */
    const char *paths[NAMES_MAX]; /* paths that a user would type */
    int count;
} candidates;

static d9_status copy_stem(d9_cli *cli, const char *name, char **stem) {
    const char *dot = strrchr(name, '.');
    return d9_arena_format(&cli->context, &cli->arena, stem, "%.*s", (int)(dot ? (size_t)(dot - name) : strlen(name)),
                           name);
}

/* Adds the files in `root` + `folder` with this ending, or all files and folders if it is NULL, by their paths without
 * `root`. Adds none if the folder is unreadable. */
static d9_status add_folder(d9_cli *cli, const char *root, const char *folder, const char *ending, candidates *all) {
    d9_status status = D9_OK;
    char *path, *stem;
    d9_listing listing = {0};
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &path, "%s%s.", root, folder));
    D9_TRY(d9_listing_read(&cli->context, &cli->arena, path, &listing));
    for (int64_t i = 0; i < listing.count && all->count < NAMES_MAX; i++) {
        const d9_entry *entry = &listing.entries[i];
        if (ending && (entry->folder || !d9_text_ends_in(entry->name, ending))) continue;
        D9_TRY(copy_stem(cli, entry->name, &stem));
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, &path, "%s%s", folder, entry->name));
        all->stems[all->count] = stem;
        all->paths[all->count++] = path;
    }
done:
    if (status != D9_DATA) return status;
    d9_context_clear(&cli->context); /* no suggestions from a folder that cannot be read */
    return D9_OK;
}

/* Fails with a suggestion if a similar name exists; otherwise D9_OK. */
static d9_status suggest(d9_cli *cli, const char *word, const char *name, const candidates *all) {
    d9_status status = D9_OK;
    const char *nearest;
    char *stem;
    D9_TRY(copy_stem(cli, name, &stem));
    nearest = d9_text_nearest(stem, all->stems, all->count);
    for (int i = 0; nearest && i < all->count; i++) {
        if (all->stems[i] != nearest) continue;
        D9_TRY(d9_fail(&cli->context, D9_USAGE, "%s: there is no such %s; did you mean %s?", word,
                       d9_folder_exists(&cli->context, all->paths[i]) ? "folder" : "file", all->paths[i]));
    }
done:
    return status;
}

/* Splits `word` after its last slash, and allocates an empty list of candidates. */
static d9_status prepare_search(d9_cli *cli, const char *word, char **folder, const char **name, candidates **all) {
    d9_status status;
    *name = d9_text_file_name(word);
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, folder, "%.*s", (int)(*name - word), word));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, 1, all));
done:
    return status;
}

d9_status d9_cli_check_path(d9_cli *cli, const char *path) {
    d9_status status = D9_OK;
    const char *name;
    char *folder;
    candidates *all;
    if (!*path || d9_file_exists(&cli->context, path)) goto done; /* loading reports other errors */
    D9_TRY(prepare_search(cli, path, &folder, &name, &all));
    D9_TRY(add_folder(cli, "", folder, NULL, all));
    D9_TRY(suggest(cli, path, name, all));
done:
    return status;
}

d9_status d9_cli_find(d9_cli *cli, d9_installed_kind kind, const char *word, char found[D9_INSTALLED_BYTES]) {
    d9_status status = D9_OK;
    const char *name, *const *usual = d9_installed_subfolders(kind);
    char *folder, *path, root[D9_INSTALLED_BYTES];
    const bool exact = d9_installed_is_exact(word);
    candidates *all;
    if (d9_installed_resolve(&cli->context, kind, word, found) || !*word) goto done;
    D9_TRY(prepare_search(cli, word, &folder, &name, &all));
    const bool installed = !exact && d9_installed_find(&cli->context, kind, "", root);
    for (int r = 0; r < 1 + installed; r++)
        for (int i = 0; usual[i] && !(exact && i); i++) {
            D9_TRY(d9_arena_format(&cli->context, &cli->arena, &path, "%s%s", usual[i], folder));
            D9_TRY(add_folder(cli, r ? root : "", path, ".yaml", all));
        }
    const bool empty = all->count == 0; /* config/small.yaml: there is no such folder, but configs/small.yaml */
    for (int i = 0; empty && usual[i]; i++) D9_TRY(add_folder(cli, "", usual[i], ".yaml", all));
    D9_TRY(suggest(cli, word, name, all));
done:
    return status;
}

/* Fails. The message names the file of the other kind (configuration or experiment) that has this name, or else the
 * folders that were searched. */
static d9_status fail_not_found(d9_cli *cli, d9_installed_kind kind, const char *word) {
    const d9_installed_kind other = kind == D9_INSTALLED_CONFIGS ? D9_INSTALLED_EXPERIMENTS : D9_INSTALLED_CONFIGS;
    const char *const *usual = d9_installed_subfolders(kind);
    const char *ending = d9_text_ends_in(word, ".yaml") ? "" : ".yaml";
    char path[D9_INSTALLED_BYTES];
    d9_text places;
    if (d9_installed_resolve(&cli->context, other, word, path))
        return d9_fail(&cli->context, D9_USAGE, "%s: %s is %s", word, path,
                       other == D9_INSTALLED_CONFIGS ? "a configuration: for train, ablate and config"
                                                     : "an experiment: for dawn9 experiment");
    d9_text_init(&cli->context, &places);
    for (int i = 1; usual[i]; i++) d9_text_add(&places, "%s %s", usual[i + 1] ? ", in" : " or in", usual[i]);
    if (d9_installed_find(&cli->context, kind, usual[1], path)) {
        /* NOLINTNEXTLINE(clang-analyzer-core.*): every list of folders has two entries */
        const size_t folder_bytes = strlen(path) - strlen(usual[1]);
        d9_text_add(&places, ", nor below %.*s", (int)folder_bytes, path);
    } else {
        d9_text_add(&places, ", and none came with this program: give the path of the file");
    }
    const d9_status status =
        d9_fail(&cli->context, D9_USAGE, "%s: there is no %s%s here%s", word, word, ending, d9_text_get(&places));
    d9_text_free(&places);
    return status;
}

static d9_status reject_folder(d9_cli *cli, const char *folder) {
    d9_status status;
    char *inside;
    bool held;
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &inside, "%s/config.yaml", folder));
    D9_TRY(d9_file_find(&cli->context, D9_USAGE, inside, &held));
    status = held ? d9_fail(&cli->context, D9_USAGE, "%s: is the folder of a run; give its configuration, %s", folder,
                            inside)
                  : d9_fail(&cli->context, D9_USAGE, "%s: is a folder, not a file", folder);
done:
    return status;
}

d9_status d9_cli_find_file(d9_cli *cli, d9_installed_kind kind, const char *word, char found[D9_INSTALLED_BYTES]) {
    const d9_status status = d9_cli_find(cli, kind, word, found);
    if (status == D9_OK && *word && d9_folder_exists(&cli->context, found)) return reject_folder(cli, found);
    const bool path = d9_installed_is_exact(word) || strchr(word, '/'); /* loading reports other errors */
    return status != D9_OK || path || d9_file_exists(&cli->context, found) ? status : fail_not_found(cli, kind, word);
}
