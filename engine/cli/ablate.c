/* dawn9 ablate: measures each trick of a configuration by runs without it, and with it alone. */
#include "cli/runs.h"
#include "cli/cli.h"

typedef struct ablate_options {
    const char *config, *only;
    d9_runs_options runs;
} ablate_options;

static const d9_flag flags[] = {
    {"CONFIG", D9_FLAG_ARGUMENT, offsetof(ablate_options, config),
     .doc = "the configuration whose tricks are tested: a YAML file, or the name of one in configs/"},
    {"only", D9_FLAG_TEXT, offsetof(ablate_options, only), "T,...", .doc = "only these tricks; default: all enabled"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(ablate_options, runs), .table = d9_runs_flags},
    {.type = D9_FLAG_END},
};

enum { WORDS_MAX = 64 };

static d9_status run(d9_cli *cli, const void *options) {
    d9_status status;
    const ablate_options *chosen = options;
    d9_experiment_options wanted;
    d9_experiment *experiment = NULL;
    const char *words[WORDS_MAX];
    char *copy, found[D9_INSTALLED_BYTES];
    int count = 0;
    D9_TRY(d9_runs_experiment_options(cli, &chosen->runs, &wanted));
    if (chosen->only) {
        D9_TRY(d9_arena_copy(&cli->context, &cli->arena, chosen->only, &copy));
        count = d9_text_split(copy, ',', words, WORDS_MAX);
    }
    for (int i = 0; i < count; i++)
        if (!*words[i])
            D9_TRY(d9_fail(&cli->context, D9_USAGE,
                           "--only: \"%s\" has an empty trick name; write a list like ema,celu", chosen->only));
    D9_TRY(d9_cli_find_file(cli, D9_INSTALLED_CONFIGS, chosen->config, found));
    D9_TRY(d9_experiment_ablation(&cli->context, chosen->config, chosen->only ? words : NULL, count, &wanted,
                                  &experiment));
    D9_TRY(d9_runs_command(cli, experiment, &chosen->runs));
done:
    d9_experiment_free(&cli->context, experiment);
    return status;
}

static const d9_example examples[] = {
    {"effect of two tricks, over three seeds",
     "dawn9 ablate configs/synthetic.yaml --only crop,pool_before_activation --seeds 3 --out runs/ablation"},
    {"work of an ablation of all tricks of a recipe: runs, steps, operations",
     "dawn9 ablate configs/dawn94.yaml --seeds 10 --dry-run"},
    {0},
};

const d9_command d9_command_ablate = {
    .name = "ablate",
    .doc = "Measure each trick: leave it out, and add it alone, with the same seeds",
    .about = "Companions of a trick, settings that change with it, are listed in the configuration's key `ablate`.\n"
             "Runs like an experiment: repeat the command to continue.",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(ablate_options),
    .interruptible = true,
    .computes = true,
    .run = run,
};
