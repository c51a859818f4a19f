/* dawn9 experiment: trains each run of an experiment file once: configurations x grid x seeds, or a search. */
#include "cli/runs.h"
#include "cli/cli.h"

typedef struct experiment_options {
    const char *file;
    d9_runs_options runs;
} experiment_options;

static const d9_flag flags[] = {
    {"EXPERIMENT", D9_FLAG_ARGUMENT, offsetof(experiment_options, file),
     .doc = "the experiment, a YAML file or the name of one in experiments/"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(experiment_options, runs), .table = d9_runs_flags},
    {.type = D9_FLAG_END},
};

static d9_status run(d9_cli *cli, const void *options) {
    d9_status status;
    const experiment_options *chosen = options;
    d9_experiment_options wanted;
    d9_experiment *experiment = NULL;
    char found[D9_INSTALLED_BYTES];
    D9_TRY(d9_runs_experiment_options(cli, &chosen->runs, &wanted));
    D9_TRY(d9_cli_find_file(cli, D9_INSTALLED_EXPERIMENTS, chosen->file, found));
    D9_TRY(d9_experiment_load(&cli->context, found, &wanted, &experiment));
    D9_TRY(d9_runs_command(cli, experiment, &chosen->runs));
done:
    d9_experiment_free(&cli->context, experiment);
    return status;
}

static const d9_example examples[] = {
    {"list arms and seeds without training", "dawn9 experiment experiments/ladder-small.yaml --dry-run"},
    {"train all runs, two at a time; repeat to continue", "dawn9 experiment experiments/ladder-small.yaml --workers 2"},
    {"show finished and failed runs", "dawn9 experiment experiments/ladder-small.yaml --status"},
    {0},
};

const d9_command d9_command_experiment = {
    .name = "experiment",
    .doc = "Train configurations x grid x seeds, or a search; each run once",
    .about = "Repeat the command after an interrupt (exit status 129, 130, 138, 140, 143 or 152) or a crash, or with "
             "more seeds:\n"
             "finished runs are kept. Several processes and machines may work on one folder; no run is trained twice.",
    .examples = examples,
    .flags = flags,
    .options_size = sizeof(experiment_options),
    .interruptible = true,
    .computes = true,
    .run = run,
};
