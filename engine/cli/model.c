/* Models and images named on the command line: see model.h. */
#include "cli/model.h"

#include <string.h>

#include "core/system.h"
#include "data/image.h"
#include "core/listing.h"

enum { DEPTH_MAX = 32 };

d9_status d9_cli_model(d9_cli *cli, const char *word, const char **path) {
    char *inside = NULL;
    *path = word;
    if (!d9_folder_exists(&cli->context, word)) return d9_cli_check_path(cli, word);
    d9_status status = d9_arena_format(&cli->context, &cli->arena, &inside, "%s/model.safetensors", word);
    *path = inside;
    return status;
}

static d9_status add_picture(d9_cli *cli, d9_cli_pictures *pictures, const char *path, const char *failure) {
    d9_status status = D9_OK;
    char *kept = NULL;
    D9_TRY(D9_ARENA_GROW(&cli->context, &cli->arena, pictures->count, &pictures->capacity, &pictures->rows));
    if (failure) D9_TRY(d9_arena_copy(&cli->context, &cli->arena, failure, &kept));
    pictures->rows[pictures->count++] = (d9_cli_picture){path, kept};
done:
    return status;
}

typedef struct walk { /* a folder that is being listed */
    const struct walk *above;
    struct stat state;
    int depth;
} walk;

/* True if the folder is one of those above it: a symbolic link leads back. */
static bool leads_back(d9_context *context, const char *folder, const walk *above, walk *here) {
    *here = (walk){.above = above, .depth = above ? above->depth + 1 : 0};
    if (context->system->stat(context->system->user, folder, &here->state) != 0) return false; /* listing says why */
    while (above && !d9_same_file(&above->state, &here->state)) above = above->above;
    return above;
}

static d9_status add_folder(d9_cli *cli, d9_cli_pictures *pictures, const char *folder, const walk *above) {
    d9_status status = D9_OK;
    walk here;
    if (leads_back(&cli->context, folder, above, &here)) {
        d9_log(&cli->context, D9_LOG_WARNING, "%s: leads back to a folder that it is in; left out", folder);
        return D9_OK;
    }
    d9_context quiet = cli->context; /* an unreadable folder becomes a row with a failure */
    d9_listing listing;
    if (d9_listing_read(&quiet, &cli->arena, folder, &listing) != D9_OK)
        return add_picture(cli, pictures, folder, quiet.message);
    for (int64_t i = 0; i < listing.count; i++) {
        const d9_entry *entry = &listing.entries[i];
        if (entry->folder && here.depth < DEPTH_MAX)
            D9_TRY(add_folder(cli, pictures, entry->path, &here));
        else if (entry->folder)
            D9_TRY(d9_fail(&cli->context, D9_DATA, "%s: folders nested more than %d deep", folder, DEPTH_MAX));
        else if (d9_is_image_name(entry->name))
            D9_TRY(add_picture(cli, pictures, entry->path, NULL));
    }
done:
    return status;
}

d9_status d9_cli_pictures_find(d9_cli *cli, const d9_flag_list *words, d9_cli_pictures *pictures) {
    d9_status status = D9_OK;
    for (int i = 0; i < words->count; i++) {
        const int before = pictures->count;
        char *failure = NULL;
        if (!d9_folder_exists(&cli->context, words->items[i])) {
            D9_TRY(add_picture(cli, pictures, words->items[i], NULL));
            continue;
        }
        D9_TRY(add_folder(cli, pictures, words->items[i], NULL));
        if (pictures->count > before) continue;
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, &failure, "%s: no .png, .jpg, .jpeg or .webp in it",
                               words->items[i]));
        D9_TRY(add_picture(cli, pictures, words->items[i], failure));
    }
done:
    return status;
}
