/* Options that edit a configuration, and the loading of configurations. Also checks of output paths, and paths in
 * messages and names of folders. */
#include "cli/cli.h"
#include "core/system.h"
#include "record/record.h"
#include <limits.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const d9_flag d9_cli_edit_flags[] = {
    {"set", D9_FLAG_LIST, offsetof(d9_cli_edits, set), "K=V",
     .doc = "change one key of the configuration (train.epochs=3); may be repeated"},
    {"with", D9_FLAG_LIST, offsetof(d9_cli_edits, with), "T[:k=v,...]",
     .doc = "add a trick, or change its options; may be repeated"},
    {"without", D9_FLAG_LIST, offsetof(d9_cli_edits, without), "T", .doc = "remove a trick; may be repeated"},
    {"seed", D9_FLAG_INTEGER, offsetof(d9_cli_edits, seed), "N", .minimum = 0, .maximum = D9_SEED_MAX,
     .doc = "seed of initial weights, image order and augmentation"},
    {"epochs", D9_FLAG_TEXT, offsetof(d9_cli_edits, epochs), "N",
     .doc = "passes over the training part (train.epochs)"},
    {"lr", D9_FLAG_TEXT, offsetof(d9_cli_edits, lr), "R",
     .doc = "largest learning rate; the schedule keeps its shape (train.lr.peak). The trick muon has its own learning "
            "rate"},
    {"batch-size", D9_FLAG_TEXT, offsetof(d9_cli_edits, batch_size), "N",
     .doc = "images, texts or windows per batch (train.batch_size)"},
    {"backend", D9_FLAG_TEXT, offsetof(d9_cli_edits, backend), "B", .doc = "auto, or one that `dawn9 devices` lists"},
    {"precision", D9_FLAG_TEXT, offsetof(d9_cli_edits, precision), "P",
     .doc = "auto, f64, f32, tf32 (cuda), bf16 or fp16"},
    {"threads", D9_FLAG_INTEGER, offsetof(d9_cli_edits, threads), "N", .minimum = 0, .maximum = 4096,
     .doc = "0: one per physical core this process may use"},
    {"data", D9_FLAG_TEXT, offsetof(d9_cli_edits, data), "DIR",
     .doc = "folder of the dataset; default $DAWN9_DATA, then the user's cache folder"},
    {"skip-damaged", D9_FLAG_SWITCH, offsetof(d9_cli_edits, skip_damaged),
     .doc = "leave out files that cannot be read, with warnings (data.skip_damaged)"},
    {"skip-empty", D9_FLAG_SWITCH, offsetof(d9_cli_edits, skip_empty),
     .doc = "skip class folders without images or texts, with a warning for each (data.skip_empty)"},
    {"no-check", D9_FLAG_SWITCH, offsetof(d9_cli_edits, no_check),
     .doc = "do not verify the checksums of a published dataset"},
    {.type = D9_FLAG_END},
};

const char *d9_cli_shell_word(d9_cli *cli, const char *path) {
    const char *word = path;
    char *copy;
    d9_text text;
    d9_text_init(&cli->context, &text);
    if (*path == '-') d9_text_add(&text, "./");
    d9_text_add_shell_word(&text, path);
    if (d9_text_status(&text) == D9_OK && d9_arena_copy(&cli->context, &cli->arena, d9_text_get(&text), &copy) == D9_OK)
        word = copy;
    d9_text_free(&text);
    return word;
}

void d9_cli_print_next(d9_cli *cli, const char *command, const char *path) {
    d9_cli_print(cli, "%-10s %s %s %s\n", command, d9_cli_shell_word(cli, cli->words[0]), command,
                 d9_cli_shell_word(cli, path));
}

d9_status d9_cli_default_out(d9_cli *cli, const char *title, const char *suffix, const char *allowed,
                             const char **out) {
    static const char above[] = "runs/";
    char *made;
    const size_t bytes = strlen(title) + strlen(suffix);
    if (bytes > NAME_MAX)
        return d9_fail(&cli->context, D9_USAGE,
                       "title: the name of its folder in runs/ would have %zu bytes, at most %d; shorten the title or "
                       "give --out",
                       bytes, NAME_MAX);
    const d9_status status = d9_arena_format(&cli->context, &cli->arena, &made, "%s%s%s", above, title, suffix);
    if (status != D9_OK) return status;
    *out = made;
    made += strlen(above);
    for (char *at = made; *at; at++)
        if (*at == '/' || (*at == '.' && at == made) || (allowed && !strchr(allowed, *at))) *at = '-';
    return D9_OK;
}

/* Finds the folder of `path`. False if there is none. */
static bool stat_folder(const d9_system *system, const char *path, struct stat *state) {
    char folder[D9_INSTALLED_BYTES];
    const int length = snprintf(folder, sizeof folder, "%.*s.", (int)(d9_text_file_name(path) - path), path);
    return length < (int)sizeof folder && system->stat(system->user, folder, state) == 0;
}

/* True if the paths name the same file, which need not exist yet. */
static bool is_same_path(const d9_system *system, const char *a, const char *b) {
    struct stat one, other;
    if (system->stat(system->user, a, &one) == 0 && system->stat(system->user, b, &other) == 0)
        return d9_same_file(&one, &other);
    return strcmp(d9_text_file_name(a), d9_text_file_name(b)) == 0 && stat_folder(system, a, &one) &&
           stat_folder(system, b, &other) && d9_same_file(&one, &other);
}

/* True if the path exists and is no regular file: /dev/null, a pipe. */
static bool is_device(const d9_system *system, const char *path) {
    struct stat found;
    return system->stat(system->user, path, &found) == 0 && !S_ISREG(found.st_mode);
}

d9_status d9_cli_check_output(d9_cli *cli, const char *output, const char *option, const char *input) {
    struct stat file;
    const d9_system *system = cli->context.system;
    if (!output || !input || system->stat(system->user, input, &file) != 0 || !is_same_path(system, output, input))
        return D9_OK;
    return d9_fail(&cli->context, D9_USAGE, "%s: would overwrite its own input; give another %s", output, option);
}

d9_status d9_cli_check_output_config(d9_cli *cli, const char *output, const char *option, const d9_config *config) {
    d9_status status = D9_OK;
    for (int i = 0; i < config->files.count; i++)
        D9_TRY(d9_cli_check_output(cli, output, option, config->files.paths[i]));
done:
    return status;
}

d9_status d9_cli_check_outputs(d9_cli *cli, const d9_cli_output *outputs, int count) {
    for (int i = 0; i < count; i++) {
        if (outputs[i].file && d9_record_is_file(&cli->context, outputs[i].file))
            return d9_fail(&cli->context, D9_USAGE,
                           "%s: is a file of the record of a run or an experiment; give another %s", outputs[i].file,
                           outputs[i].option);
        for (int before = 0; before < i && outputs[i].file; before++)
            if (outputs[before].file && !is_device(cli->context.system, outputs[i].file) &&
                is_same_path(cli->context.system, outputs[before].file, outputs[i].file))
                return d9_fail(&cli->context, D9_USAGE, "%s: %s and %s need different files", outputs[i].file,
                               outputs[before].option, outputs[i].option);
    }
    return D9_OK;
}

d9_status d9_cli_check_ending(d9_cli *cli, const char *output, const char *option, const char *ending,
                              const char *format) {
    const char *dot = output ? strrchr(d9_text_file_name(output), '.') : NULL;
    if (!dot || strcasecmp(dot, ending) == 0) return D9_OK;
    return d9_fail(&cli->context, D9_USAGE, "%s: %s: it is written as %s: give a name that ends in %s", option, output,
                   format, ending);
}

/* ---- edits ---- */

/* The integer as text; NULL: the option was not given. */
static const char *given_text(const d9_flag_integer *value, char text[24]) {
    snprintf(text, 24, "%lld", (long long)value->value);
    return value->given ? text : NULL;
}

static d9_status collect_lists(d9_cli *cli, const d9_cli_edits *edits, d9_config_edits *all) {
    d9_status status = D9_OK;
    const d9_flag_list *const lists[] = {
        [D9_EDIT_WITH] = &edits->with, [D9_EDIT_WITHOUT] = &edits->without, [D9_EDIT_SET] = &edits->set};
    for (d9_config_edit_kind kind = D9_EDIT_WITH; kind <= D9_EDIT_SET; kind++)
        for (int i = 0; i < lists[kind]->count; i++)
            D9_TRY(d9_config_edits_add(&cli->context, &cli->arena, all,
                                       (d9_config_edit){.kind = kind, .text = lists[kind]->items[i]}));
done:
    return status;
}

d9_status d9_cli_edits_collect(d9_cli *cli, const d9_cli_edits *edits, const int64_t *seed, d9_config_edits *all) {
    d9_status status = D9_OK;
    char seed_text[24], threads_text[24], *text;
    const d9_flag_integer chosen = seed ? (d9_flag_integer){.given = true, .value = *seed} : edits->seed;
    const struct {
        const char *option, *key, *value;
    } forms[] = {{"--seed", "seed", given_text(&chosen, seed_text)},
                 {"--epochs", "train.epochs", edits->epochs},
                 {"--lr", "train.lr.peak", edits->lr},
                 {"--batch-size", "train.batch_size", edits->batch_size},
                 {"--threads", "threads", given_text(&edits->threads, threads_text)},
                 {"--backend", "backend", edits->backend},
                 {"--precision", "precision", edits->precision},
                 {"--data", "data.path", edits->data},
                 {"--skip-damaged", "data.skip_damaged", edits->skip_damaged ? "on" : NULL},
                 {"--skip-empty", "data.skip_empty", edits->skip_empty ? "on" : NULL},
                 {"--no-check", "data.check", edits->no_check ? "off" : NULL}};
    *all = (d9_config_edits){0};
    D9_TRY(collect_lists(cli, edits, all));
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (!forms[i].value) continue;
        D9_TRY(d9_arena_format(&cli->context, &cli->arena, &text, "%s=%s", forms[i].key, forms[i].value));
        D9_TRY(d9_config_edits_add(&cli->context, &cli->arena, all,
                                   (d9_config_edit){.kind = D9_EDIT_SET, .text = text, .option = forms[i].option}));
    }
done:
    return status;
}

d9_status d9_cli_config(d9_cli *cli, const char *path, const d9_cli_edits *edits, const int64_t *seed,
                        d9_config **config) {
    d9_status status = D9_OK;
    d9_config_edits all;
    *config = NULL;
    char found[D9_INSTALLED_BYTES];
    D9_TRY(d9_cli_find_file(cli, D9_INSTALLED_CONFIGS, path, found));
    D9_TRY(d9_cli_edits_collect(cli, edits, seed, &all));
    D9_TRY(d9_config_load(&cli->context, found, &all, config));
done:
    return status;
}
