/* Models and samples named on the command line: see cli.h. */
#include "cli/cli.h"

#include "core/system.h"
#include "data/image.h"
#include "data/vocabulary.h"
#include "core/listing.h"
#include "exchange/description.h"

enum { DEPTH_MAX = 32 };

d9_status d9_cli_model(d9_cli *cli, const char *word, const char **path) {
    *path = word;
    return d9_folder_exists(&cli->context, word) ? d9_model_path(&cli->context, &cli->arena, word, path)
                                                 : d9_cli_check_path(cli, word);
}

d9_status d9_cli_model_config(d9_cli *cli, const char *model, const d9_description *description,
                              const d9_cli_edits *edits, d9_config **config) {
    d9_status status = D9_OK;
    d9_config_edits all;
    *config = NULL;
    D9_TRY(d9_cli_edits_collect(cli, edits, NULL, &all));
    all.eval_only = true;
    D9_TRY(d9_description_config(&cli->context, description, model, &all, config));
done:
    return status;
}

static d9_status add_sample(d9_cli *cli, d9_cli_samples *samples, const char *path, const char *failure) {
    d9_status status = D9_OK;
    char *kept = NULL;
    D9_TRY(D9_ARENA_GROW(&cli->context, &cli->arena, samples->count, &samples->capacity, &samples->rows));
    if (failure) D9_TRY(d9_arena_copy(&cli->context, &cli->arena, failure, &kept));
    samples->rows[samples->count++] = (d9_cli_sample){path, kept};
done:
    return status;
}

static d9_status add_folder(d9_cli *cli, d9_cli_samples *samples, const char *folder, const d9_walk *above) {
    d9_status status = D9_OK;
    d9_walk here;
    if (!d9_walk_enter(&cli->context, folder, above, &here)) return D9_OK;
    d9_context quiet = cli->context; /* an unreadable folder becomes a row with a failure */
    d9_listing listing;
    if (d9_listing_read(&quiet, &cli->arena, folder, &listing) != D9_OK)
        return add_sample(cli, samples, folder, quiet.message);
    for (int64_t i = 0; i < listing.count; i++) {
        const d9_entry *entry = &listing.entries[i];
        if (entry->foreign) continue;
        if (entry->folder && here.depth < DEPTH_MAX)
            D9_TRY(add_folder(cli, samples, entry->path, &here));
        else if (entry->folder)
            D9_TRY(d9_fail(&cli->context, D9_DATA, "%s: folders nested more than %d deep", folder, DEPTH_MAX));
        else if (samples->texts ? d9_is_text_name(entry->name) : d9_is_image_name(entry->name))
            D9_TRY(add_sample(cli, samples, entry->path, NULL));
    }
done:
    return status;
}

/* Adds a file, with a failure if the ending of its name is that of an image for a model of texts, or the reverse. */
static d9_status add_file(d9_cli *cli, d9_cli_samples *samples, const char *path) {
    d9_status status = D9_OK;
    char *failure = NULL;
    if (samples->texts && d9_is_image_name(path))
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, &failure, "%s: an image, but the model takes texts", path));
    if (!samples->texts && d9_is_text_name(path))
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, &failure, "%s: a text, but the model takes images", path));
    D9_TRY(add_sample(cli, samples, path, failure));
done:
    return status;
}

d9_status d9_cli_samples_find(d9_cli *cli, const d9_flag_list *words, d9_cli_samples *samples) {
    d9_status status = D9_OK;
    for (int i = 0; i < words->count; i++) {
        const int before = samples->count;
        char *failure = NULL;
        if (!d9_folder_exists(&cli->context, words->items[i])) {
            D9_TRY(add_file(cli, samples, words->items[i]));
            continue;
        }
        D9_TRY(add_folder(cli, samples, words->items[i], NULL));
        if (samples->count > before) continue;
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, &failure, "%s: no %s in it", words->items[i],
                               samples->texts ? ".txt" : ".png, .jpg, .jpeg or .webp"));
        D9_TRY(add_sample(cli, samples, words->items[i], failure));
    }
done:
    return status;
}
