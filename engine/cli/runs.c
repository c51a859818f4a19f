/* Options shared by `experiment` and `ablate`, and their dispatch to runs_*.c. */
#include "cli/runs.h"
#include "core/process.h"
#include "core/system.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <errno.h>
#include <sys/wait.h>

/* ---- checks before anything is written: the GPUs of --devices, options of a search; the table of options ---- */

/* Returns D9_USAGE if an arm has a backend that uses no GPU. */
static d9_status check_backends(d9_context *context, const d9_experiment *experiment) {
    for (int i = 0; i < experiment->arm_count; i++) {
        const char *backend = experiment->arms[i].config->backend;
        if (strcmp(backend, "auto") != 0 && strcmp(backend, "cuda") != 0)
            return d9_fail(context, D9_USAGE, "--devices: the arm %s has backend %s, which uses no GPU (auto, cuda)",
                           experiment->arms[i].name, backend);
    }
    return D9_OK;
}

/* Selects the worker's GPU, opens it and closes it again. Fails if there is none of this name, or if it cannot be
 * opened. */
static d9_status open_gpu(d9_context *context, const char *name) {
    d9_device_info info;
    d9_status status = d9_gpu_choose(context, name);
    if (status == D9_OK) status = d9_backend_describe(context, "cuda", 0, &info);
    if (status == D9_OK) return D9_OK;
    const d9_context why = *context;
    d9_context_clear(context);
    return d9_fail(context, status, "--devices: GPU %s: %s", name, why.message);
}

/* Tries a worker's GPU in a process of its own, because a forked process cannot use CUDA after its parent did. */
static d9_status check_gpu(d9_context *context, const char *name) {
    const d9_system *system = context->system;
    char message[sizeof context->message] = "";
    int state = 0, ends[2];
    if (pipe(ends) != 0) return d9_fail(context, D9_DEVICE, "cannot create a pipe for the GPUs");
    const pid_t child = fork();
    if (child == 0) {
        const d9_status status = open_gpu(context, name);
        const ssize_t put = system->write(system->user, ends[1], context->message, strlen(context->message));
        (void)put; /* the parent gets the exit status in any case */
        _exit((int)status);
    }
    while (child > 0 && waitpid(child, &state, 0) < 0 && errno == EINTR) continue;
    system->close(system->user, ends[1]);
    const ssize_t got = system->read(system->user, ends[0], message, sizeof message - 1);
    system->close(system->user, ends[0]);
    if (child > 0 && WIFEXITED(state) && WEXITSTATUS(state) == 0) return D9_OK;
    if (child < 0 || !WIFEXITED(state) || got <= 0)
        return d9_fail(context, D9_DEVICE, "--devices: GPU %s could not be opened", name);
    return d9_fail(context, (d9_status)WEXITSTATUS(state), "%s", message);
}

/* With --devices: D9_USAGE if an arm's backend uses no GPU; fails if a worker's GPU cannot be opened. */
static d9_status check_devices(const d9_runs *runs) {
    d9_status status;
    d9_context *context = &runs->cli->context;
    if (!runs->work.devices) return D9_OK;
    D9_TRY(check_backends(context, runs->experiment));
    for (int i = 0; i < runs->work.worker_count; i++) D9_TRY(check_gpu(context, runs->work.devices[i]));
done:
    return status;
}

/* D9_USAGE for an option that a search cannot have, or for --slurm without the --tasks that it needs. */
static d9_status check_search(const d9_runs *runs) {
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

const d9_flag d9_runs_flags[] = {
    {"seeds", D9_FLAG_INTEGER, offsetof(d9_runs_options, seeds), "N", .minimum = 1, .maximum = 100000,
     .doc = "use seeds 1 to N in every arm"},
    {"out", D9_FLAG_TEXT, offsetof(d9_runs_options, out), "DIR", .doc = "folder of the experiment; default runs/TITLE"},
    {"workers", D9_FLAG_INTEGER, offsetof(d9_runs_options, workers), "N", .minimum = 1, .maximum = 1024,
     .doc = "runs trained at a time, each in its own process; they share the cores"},
    {"devices", D9_FLAG_TEXT, offsetof(d9_runs_options, devices), "LIST",
     .doc = "one worker per GPU, by number or UUID, like 0,1"},
    {"ranks", D9_FLAG_INTEGER, offsetof(d9_runs_options, ranks), "N", .minimum = 1, .maximum = 65536,
     .doc = "train each run by N processes, which share its batches; in a Slurm job they are a job step"},
    {"launcher", D9_FLAG_TEXT, offsetof(d9_runs_options, launcher), "COMMAND",
     .doc =
         "with --ranks: start the processes by this command, before their number; default \"" D9_LAUNCH_SRUN "\" in a "
         "Slurm job, otherwise \"" D9_LAUNCH_MPIRUN "\""},
    {"run", D9_FLAG_INTEGER, offsetof(d9_runs_options, run), "INDEX", .minimum = 0, .maximum = 100000000, .doc = NULL},
    {"resume-run", D9_FLAG_SWITCH, offsetof(d9_runs_options, resume_run), .doc = NULL},
    {"shard", D9_FLAG_TEXT, offsetof(d9_runs_options, shard), "I/N",
     .doc = "train only every Nth run (with --pack: task), from the Ith"},
    {"status", D9_FLAG_SWITCH, offsetof(d9_runs_options, status),
     .doc = "show finished, running, stopped and failed runs, of all shards; train nothing"},
    {"dry-run", D9_FLAG_SWITCH, offsetof(d9_runs_options, dry_run),
     .doc =
         "list arms and seeds, count steps and operations; with --slurm or --commands print what would be submitted; "
         "train and write nothing"},
    {"time", D9_FLAG_SWITCH, offsetof(d9_runs_options, time),
     .doc = "with --dry-run: estimate the time on this machine from some training steps, up to a minute"},
    {"retry", D9_FLAG_SWITCH, offsetof(d9_runs_options, retry), .doc = "train failed runs again"},
    {"slurm", D9_FLAG_SWITCH, offsetof(d9_runs_options, slurm),
     .doc = "submit an array job with a task per remaining run, at most 1000 tasks"},
    {"commands", D9_FLAG_SWITCH, offsetof(d9_runs_options, commands),
     .doc = "print the command of each of these tasks, for another launcher"},
    {"pack", D9_FLAG_INTEGER, offsetof(d9_runs_options, pack), "N", .minimum = 1, .maximum = 100000,
     .doc =
         "with --slurm, --commands or --shard: N consecutive runs form a task. If N is the number of arms, a task runs "
         "one seed of every arm"},
    {"tasks", D9_FLAG_INTEGER, offsetof(d9_runs_options, tasks), "N", .minimum = 1, .maximum = 100000,
     .doc = "with --slurm: at most N tasks at a time; of a search, N tasks"},
    {"requeue", D9_FLAG_SWITCH, offsetof(d9_runs_options, requeue),
     .doc = "with --slurm: a task stops two minutes before its time limit and is queued again to continue"},
    {"sbatch", D9_FLAG_LIST, offsetof(d9_runs_options, sbatch), "OPTION",
     .doc = "with --slurm: pass this option to sbatch (--sbatch=--gres=gpu:1); may be repeated"},
    {.type = D9_FLAG_TABLE, .offset = offsetof(d9_runs_options, edits), .table = d9_cli_edit_flags},
    {"quiet", D9_FLAG_SWITCH, offsetof(d9_runs_options, quiet), .doc = "print only the final lines"},
    {"json", D9_FLAG_SWITCH, offsetof(d9_runs_options, json),
     .doc = "print only the state of every run, as JSON; with --dry-run the plan"},
    {.type = D9_FLAG_END},
};

d9_status d9_runs_experiment_options(d9_cli *cli, const d9_runs_options *options, d9_experiment_options *wanted) {
    d9_cli_edits edits = options->edits;
    if (edits.seed.given)
        return d9_fail(&cli->context, D9_USAGE, "--seed: an experiment has several seeds; --seeds N uses 1 to N");
    edits.threads = (d9_flag_integer){.given = false}; /* not part of the experiment: they depend on the machine */
    edits.data = NULL;
    *wanted = (d9_experiment_options){.seeds = options->seeds.value, .data = options->edits.data};
    return d9_cli_edits_collect(cli, &edits, NULL, &wanted->edits);
}

/* ---- folder and selection of runs ---- */

static d9_status parse_shard(d9_cli *cli, const char *text, d9_runs *runs) {
    char first[24];
    int64_t index, count;
    const char *slash = strchr(text, '/');
    snprintf(first, sizeof first, "%.*s", slash ? (int)(slash - text) : 0, text);
    if (!slash || !d9_text_to_integer(first, &index) || !d9_text_to_integer(slash + 1, &count) || index < 1 ||
        index > count)
        return d9_fail(&cli->context, D9_USAGE, "--shard: \"%s\" is not I/N with I from 1 to N, like 1/4", text);
    runs->work.shard = index - 1;
    runs->work.shards = count;
    return D9_OK;
}

static d9_status split_devices(d9_cli *cli, const char *list, d9_work_options *work) {
    d9_status status;
    const char **names = NULL;
    const size_t most = strlen(list) + 1;
    char *copy;
    D9_TRY(d9_arena_copy(&cli->context, &cli->arena, list, &copy));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, most, &names));
    work->worker_count = d9_text_split(copy, ',', names, (int)most);
    work->devices = names;
    for (int i = 0; i < work->worker_count; i++)
        if (!d9_gpu_is_name(names[i]))
            D9_TRY(d9_fail(&cli->context, D9_USAGE,
                           "--devices: \"%s\" is not a list of numbers or UUIDs, like 0,1 or GPU-8f6c2d31", list));
done:
    return status;
}

static d9_status open_runs(d9_cli *cli, const d9_experiment *experiment, const d9_runs_options *options,
                           d9_runs *runs) {
    d9_status status = D9_OK;
    *runs = (d9_runs){.cli = cli,
                      .experiment = experiment,
                      .options = options,
                      .out = options->out,
                      .count = d9_experiment_run_count(experiment),
                      .work = {.shards = 1,
                               .pack = options->pack.given ? options->pack.value : 1,
                               .worker_count = options->workers.given ? (int)options->workers.value : 1,
                               .run = {.threads = options->edits.threads.value,
                                       .data = options->edits.data,
                                       .process_start = cli->process_start,
                                       .unsaved_steps = cli->unsaved_steps}},
                      .live = {.cli = cli},
                      .ended_count = -1};
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, runs->count, &runs->open));
    D9_TRY(D9_ARENA_ALLOCATE(&cli->context, &cli->arena, runs->count, &runs->seen));
    if (!runs->out) D9_TRY(d9_cli_default_out(cli, experiment->title, "", D9_NAME_CHARACTERS, &runs->out));
    if (options->shard) D9_TRY(parse_shard(cli, options->shard, runs));
    if (options->devices && options->workers.given)
        D9_TRY(d9_fail(&cli->context, D9_USAGE, "--workers: --devices already sets their number"));
    if (options->devices) D9_TRY(split_devices(cli, options->devices, &runs->work));
    const bool slurm = options->slurm, tasks = slurm || options->commands;
    const char *alone =
        options->sbatch.count && !slurm              ? "--sbatch: only with --slurm"
        : options->tasks.given && !slurm             ? "--tasks: only with --slurm"
        : options->requeue && !slurm                 ? "--requeue: only with --slurm"
        : options->launcher && !options->ranks.given ? "--launcher: only with --ranks"
        : options->ranks.given && (options->workers.given || options->devices)
            ? "--ranks: not with --workers or --devices; --slurm trains several runs at a time"
        : options->time && (!options->dry_run || tasks) ? "--time: only with --dry-run, without --slurm or --commands"
        : options->time && options->json                ? "--time: not with --json, which prints the plan without times"
        : options->pack.given && !tasks && !options->shard ? "--pack: only with --slurm, --commands or --shard"
        : tasks && options->shard                          ? "--shard: the tasks are shards already"
        : slurm && options->commands         ? "--commands: prints the tasks that --slurm submits; give one"
        : options->json && options->commands ? "--json: not with --commands, which prints a command per line"
        : options->json && slurm && options->dry_run
            ? "--json: not with --slurm --dry-run, which prints the sbatch line"
        : options->dry_run && options->status ? "--status: shows what was trained, --dry-run what will be; give one"
        : options->status && (tasks || options->retry)
            ? "--status: trains nothing; give it without --slurm, --commands and --retry"
            : NULL;
    if (alone) D9_TRY(d9_fail(&cli->context, D9_USAGE, "%s", alone));
    D9_TRY(check_search(runs));
done:
    return status;
}

d9_status d9_runs_check_left(const d9_runs *runs, d9_context *context, const d9_work_options *work, int64_t index,
                             bool *left, bool *running) {
    d9_status status = D9_OK;
    d9_run_state state;
    *running = false;
    *left = d9_work_has(work, index) && d9_experiment_run_is_trained(runs->experiment, index);
    if (!*left) return D9_OK;
    D9_TRY(d9_run_read_state(context, runs->experiment, runs->out, index, &state));
    *left = state.kind != D9_RUN_DONE && (state.kind != D9_RUN_FAILED || runs->options->retry);
    *running = state.kind == D9_RUN_RUNNING;
done:
    return status;
}

/* ---- command ---- */

static d9_status forget_failures(const d9_runs *runs) {
    d9_status status = D9_OK;
    for (int64_t i = 0; i < runs->count; i++)
        if (d9_work_has(&runs->work, i))
            D9_TRY(d9_run_forget_failure(&runs->cli->context, runs->experiment, runs->out, i));
done:
    return status;
}

/* Trains the remaining runs. Returns also in each worker process, with *worker true: the worker must then end. A failed
 * worker's standard error leads nowhere, because the parent prints the error. */
static d9_status train_runs(d9_runs *runs, bool *worker) {
    const d9_system *system = runs->cli->context.system;
    const size_t size = sizeof *runs->shared + (size_t)runs->count * sizeof *runs->shared->runs;
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return d9_fail(&runs->cli->context, D9_DEVICE, "out of memory for the runs");
    runs->shared = shared;
    runs->began = d9_clock_now();
    runs->work.observer = d9_runs_observer(runs);
    d9_status status = d9_experiment_work(&runs->cli->context, runs->experiment, runs->out, &runs->work, worker);
    d9_live_line_clear(&runs->live);
    munmap(shared, size);
    const int nowhere = *worker && status != D9_OK ? system->open(system->user, "/dev/null", O_WRONLY, 0) : -1;
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    return status;
}

d9_status d9_runs_command(d9_cli *cli, d9_experiment *experiment, const d9_runs_options *options) {
    d9_status status;
    d9_runs runs;
    bool worker = false;
    D9_TRY(open_runs(cli, experiment, options, &runs));
    const bool writes = !options->run.given && !options->status && !options->dry_run;
    if (!writes) D9_TRY(d9_experiment_open(&cli->context, experiment, runs.out));
    if (options->run.given) return d9_runs_train_one(&runs);
    D9_TRY(d9_runs_prepare_ranks(&runs));
    D9_TRY(d9_runs_check_commands(&runs));
    if (options->status) return d9_runs_show_status(&runs);
    const bool tasks = options->slurm || options->commands; /* each task checks the GPUs where it runs */
    if (!tasks) D9_TRY(check_devices(&runs));
    if (options->dry_run && !tasks) return d9_runs_show_plan(&runs);
    if (writes) D9_TRY(d9_experiment_write(&cli->context, experiment, runs.out));
    if (options->retry && !options->dry_run) D9_TRY(forget_failures(&runs));
    if (options->slurm) return d9_runs_submit(&runs);
    if (options->commands) return d9_runs_print_commands(&runs);
    d9_runs_show_start(&runs);
    D9_TRY(train_runs(&runs, &worker));
    if (!worker) status = d9_runs_show_end(&runs);
done:
    return status;
}
