/* The parts of an experiment's output and options that only a search has. */
#include "cli/runs.h"

d9_status d9_runs_check_search(const d9_runs *runs) {
    const d9_runs_options *options = runs->options;
    if (!d9_runs_is_search(runs)) return D9_OK;
    const char *wrong =
        options->shard ? "--shard: not with a search, whose runs follow from the scores of all others; give the same "
                         "command on each machine, with one disk"
        : options->pack.given ? "--pack: not with a search, whose runs are not known in advance"
        : options->commands ? "--commands: not with a search, whose runs are not known in advance; start this command "
                              "once for each worker instead"
        : options->slurm && !options->tasks.given
            ? "--slurm: a search needs --tasks N, the number of tasks, each of which trains until no run is left"
            : NULL;
    return wrong ? d9_fail(&runs->cli->context, D9_USAGE, "%s", wrong) : D9_OK;
}

void d9_runs_print_search_size(const d9_runs *runs) {
    const d9_search *search = &runs->experiment->search;
    d9_cli_print(runs->cli, "%s: a search of %lld trial%s, rungs of ", runs->experiment->title,
                 (long long)search->trials, search->trials == 1 ? "" : "s");
    for (int i = 0; i < search->rung_count; i++) d9_cli_print(runs->cli, "%s%.10g", i ? ", " : "", search->rungs[i]);
    d9_cli_print(runs->cli, " %s%s, the best 1/%lld promoted", search->by_seeds ? "seed" : "epoch",
                 search->rung_count == 1 && search->rungs[0] == 1 ? "" : "s", (long long)search->eta);
}

d9_status d9_runs_show_search(const d9_runs *runs, bool next) {
    d9_status status = D9_OK;
    const d9_experiment *experiment = runs->experiment;
    const d9_search *search = &experiment->search;
    d9_search_progress progress;
    int64_t index;
    if (!d9_runs_is_search(runs)) return D9_OK;
    D9_TRY(d9_experiment_look(&runs->cli->context, experiment, runs->out, runs->seen));
    D9_TRY(d9_experiment_next(&runs->cli->context, experiment, runs->seen, &index));
    d9_search_measure(experiment, runs->seen, &progress);
    d9_cli_print(runs->cli, "search     %lld of %lld trials begun, %lld failed, finished by rung ",
                 (long long)progress.begun, (long long)search->trials, (long long)progress.failed);
    for (int i = 0; i < search->rung_count; i++)
        d9_cli_print(runs->cli, "%s%lld", i ? ", " : "", (long long)progress.finished[i]);
    d9_cli_print(runs->cli, "; %.4g", progress.teraflop);
    if (search->teraflop > 0) d9_cli_print(runs->cli, " of %.4g", search->teraflop);
    d9_cli_print(runs->cli, " TFLOP, %.2g", progress.hours);
    if (search->hours > 0) d9_cli_print(runs->cli, " of %.4g", search->hours);
    d9_cli_print(runs->cli, " hours%s\n", progress.over ? ": the budget is spent" : "");
    if (next && index >= 0)
        d9_cli_print(runs->cli, "next       %s seed %lld\n", d9_experiment_arm(experiment, index)->name,
                     (long long)d9_experiment_seed(experiment, index));
done:
    return status;
}
