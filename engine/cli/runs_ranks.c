/* Runs of several processes (--ranks): makes the command that starts the processes of a run, LAUNCHER N dawn9
 * experiment ..., and trains the run in each process, which has the option --run INDEX. */
#include "cli/runs.h"
#include "core/process.h"
#include "core/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* D9_USAGE if N processes cannot train an arm, or if an arm has a batch norm over the whole batch: the batch would be
 * divided into N groups (train.norm_groups), so that the hash of the run would depend on N. */
static d9_status check_arms(const d9_runs *runs) {
    d9_status status = D9_OK;
    d9_context *context = &runs->cli->context;
    const int ranks = (int)runs->options->ranks.value;
    for (int a = 0; ranks > 1 && a < runs->experiment->arm_count; a++) {
        const d9_arm *arm = &runs->experiment->arms[a];
        bool whole;
        D9_TRY(d9_config_find_whole_norm(context, arm->config, 1, &whole));
        if (whole)
            D9_TRY(d9_fail(context, D9_USAGE,
                           "--ranks %d: the arm %s normalises over the whole batch; give --set train.norm_groups=%d, "
                           "or a multiple of it",
                           ranks, arm->name, ranks));
        status = d9_config_find_whole_norm(context, arm->config, ranks, &whole);
        if (status == D9_OK) continue;
        char why[sizeof context->message];
        snprintf(why, sizeof why, "%s", context->message);
        d9_context_clear(context);
        D9_TRY(d9_fail(context, status, "--ranks %d: the arm %s: %s", ranks, arm->name, why));
    }
done:
    return status;
}

/* D9_DEVICE if the shell does not find the launcher's first word. */
static d9_status check_launcher(d9_runs *runs, const char *launcher) {
    d9_status status;
    d9_context *context = &runs->cli->context;
    char *shell;
    D9_TRY(d9_arena_format(context, &runs->cli->arena, &shell, "set -- %s; command -v \"$1\"", launcher));
    if (d9_process_launch(context, (const char *const[]){"sh", "-c", shell, NULL}, "/dev/null") == D9_OK) goto done;
    d9_context_clear(context);
    status = d9_fail(context, D9_DEVICE, "--ranks: the launcher \"%s\" is not installed; --launcher gives another",
                     launcher);
done:
    return status;
}

d9_status d9_runs_prepare_ranks(d9_runs *runs) {
    d9_status status = D9_OK;
    d9_context *context = &runs->cli->context;
    d9_arena *arena = &runs->cli->arena;
    char *const *own = runs->cli->words;
    const char *launcher = runs->options->launcher, **words = NULL;
    char *shell, *number, program[D9_PROGRAM_BYTES];
    int count = 0, given = 0;
    if (!runs->options->ranks.given || runs->options->status) goto done;
    D9_TRY(check_arms(runs));
    if (!launcher) launcher = getenv("SLURM_JOB_ID") ? D9_LAUNCH_SRUN : D9_LAUNCH_MPIRUN;
    if (!runs->options->slurm && !runs->options->commands && !runs->options->dry_run)
        D9_TRY(check_launcher(runs, launcher));
    /* srun of newer versions of Slurm does not take the job's SLURM_CPUS_PER_TASK. */
    const char *cpus = getenv("SLURM_CPUS_PER_TASK");
    if (cpus) setenv("SRUN_CPUS_PER_TASK", cpus, 0);
    while (own[given]) given++;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, given + 6, &words));
    D9_TRY(d9_arena_format(context, arena, &shell, "exec %s \"$@\"", launcher));
    D9_TRY(d9_arena_format(context, arena, &number, "%lld", (long long)runs->options->ranks.value));
    words[count++] = "sh";
    words[count++] = "-c";
    words[count++] = shell;
    words[count++] = "sh";
    words[count++] = number;
    char *self;
    D9_TRY(d9_arena_copy(context, arena, d9_program_path(program) ? program : own[0], &self));
    words[count++] = self;
    for (int i = 1; i < given; i++) words[count++] = own[i];
    runs->work.run.launch = words;
done:
    return status;
}

d9_status d9_runs_train_one(d9_runs *runs) {
    d9_status status;
    d9_cli *cli = runs->cli;
    runs->work.run.parallel = &cli->parallel;
    D9_TRY(d9_cli_connect_processes(cli));
    if (runs->options->run.value >= runs->count)
        D9_TRY(d9_fail(&cli->context, D9_USAGE, "--run %lld: there are %lld runs", (long long)runs->options->run.value,
                       (long long)runs->count));
    D9_TRY(d9_run_train_launched(&cli->context, runs->experiment, runs->out, runs->options->run.value,
                                 runs->options->resume_run, &runs->work.run));
done:
    return status;
}
