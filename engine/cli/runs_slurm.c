/* Submits a Slurm array job, or prints the commands of its tasks for another launcher. There is a task for each run or
 * pack of runs; if there are more than TASKS_MAX, a task has several of them. Tasks without remaining runs are left
 * out. A search has --tasks tasks instead, each of which trains until no run is left.
 *
 * Task I is this command with --shard I/N; in a search, without it. Giving the same command again submits a killed task
 * under its old number. Options of the cluster, such as partition, time and GPUs, are passed with --sbatch or in
 * sbatch's environment variables. */
#include "cli/runs.h"
#include "core/system.h"
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { TASKS_MAX = 1000 }; /* Slurm's default MaxArraySize is 1001 */

static int64_t pack_count(const d9_runs *runs) { return (runs->count + runs->work.pack - 1) / runs->work.pack; }
static int64_t task_count(const d9_runs *runs) {
    const int64_t count = d9_runs_is_search(runs) ? runs->options->tasks.value : pack_count(runs);
    return count < TASKS_MAX ? count : TASKS_MAX;
}

/* Adds this command without the options of the submission and its output and, except in a search, with --shard I/N.
 * `shard`: I, inserted without quotes, so it may be shell code. */
static d9_status add_command(const d9_runs *runs, const char *shard, d9_text *text) {
    static const char *const dropped[] = {"--slurm", "--retry", "--json", "--requeue", "--commands", "--dry-run"};
    static const char *const valued[] = {"--sbatch", "--tasks"};
    char program[D9_PROGRAM_BYTES];
    char *const *words = runs->cli->words;
    d9_text_add_sh_word(text, d9_program_path(program) ? program : words[0]);
    bool sharded = d9_runs_is_search(runs);
    for (int i = 1; words[i]; i++) {
        bool drop = false;
        if (!sharded && strcmp(words[i], "--") == 0) { /* --shard must come before it */
            d9_text_add(text, " --shard %s/%lld", shard, (long long)task_count(runs));
            sharded = true;
        }
        for (size_t d = 0; d < sizeof dropped / sizeof *dropped; d++) drop = drop || !strcmp(words[i], dropped[d]);
        for (size_t d = 0; d < sizeof valued / sizeof *valued; d++) {
            const size_t bytes = strlen(valued[d]);
            if (strncmp(words[i], valued[d], bytes) != 0 || (words[i][bytes] && words[i][bytes] != '=')) continue;
            drop = true;
            if (!words[i][bytes] && words[i + 1]) i++; /* skips its value */
        }
        if (drop) continue;
        d9_text_add(text, " ");
        d9_text_add_sh_word(text, words[i]);
    }
    if (!sharded) d9_text_add(text, " --shard %s/%lld", shard, (long long)task_count(runs));
    return d9_text_status(text);
}

/* Sets *wanted if the search has a run to train that no process trains now. */
static d9_status find_next(const d9_runs *runs, bool *wanted) {
    d9_status status;
    int64_t index;
    D9_TRY(d9_experiment_update_seen(&runs->cli->context, runs->experiment, runs->out, runs->seen));
    D9_TRY(d9_experiment_next(&runs->cli->context, runs->experiment, runs->seen, &index));
    *wanted = index >= 0;
done:
    return status;
}

/* Sets *wanted if the task has a run to train: one that is not done, not being trained now and, without --retry, not
 * failed. */
static d9_status find_work(const d9_runs *runs, int64_t task, bool *wanted) {
    d9_status status = D9_OK;
    d9_work_options work = runs->work;
    *wanted = false;
    if (d9_runs_is_search(runs)) return find_next(runs, wanted);
    work.shard = task;
    work.shards = task_count(runs);
    for (int64_t i = 0; i < runs->count && !*wanted; i++) {
        bool left, running;
        D9_TRY(d9_runs_check_left(runs, &runs->cli->context, &work, i, &left, &running));
        *wanted = left && !running;
    }
done:
    return status;
}

/* Adds the numbers of the tasks that have work, as "1,4-9". `tasks`: the number of such tasks. */
static d9_status add_tasks(const d9_runs *runs, d9_text *text, int64_t *tasks) {
    d9_status status = D9_OK;
    const int64_t all = task_count(runs);
    int64_t first = -1;
    *tasks = 0;
    for (int64_t task = 0; task <= all; task++) {
        bool wanted = false;
        if (task < all) D9_TRY(find_work(runs, task, &wanted));
        *tasks += wanted;
        if (wanted && first < 0) first = task;
        if (wanted || first < 0) continue;
        d9_text_add(text, "%s%lld", text->size ? "," : "", (long long)first + 1);
        if (task - first > 1) d9_text_add(text, "-%lld", (long long)task);
        first = -1;
    }
    D9_TRY(d9_text_status(text));
done:
    return status;
}

/* Adds the script of a task. With --requeue, a shell forwards SIGUSR1 to the program, and requeues the task if the
 * program's exit status says that the signal stopped it. The task is not named by SLURM_JOB_ID, which in one of the
 * tasks is the number of the whole array. */
static d9_status add_script(const d9_runs *runs, d9_text *text) {
    static const char shard[] = "\"$SLURM_ARRAY_TASK_ID\"";
    d9_status status;
    if (!runs->options->requeue) d9_text_add(text, "exec ");
    D9_TRY(add_command(runs, shard, text));
    if (!runs->options->requeue) return D9_OK;
    d9_text_add(text,
                " & child=$!; trap 'kill -USR1 $child' USR1; wait $child; status=$?; "
                "while kill -0 $child 2>/dev/null; do wait $child; status=$?; done; "
                "[ $status -ne %d ] || scontrol requeue \"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}\"; "
                "exit $status",
                (int)D9_SIGUSR1);
    status = d9_text_status(text);
done:
    return status;
}

d9_status d9_runs_check_commands(const d9_runs *runs) {
    d9_status status = D9_OK;
    d9_context *context = &runs->cli->context;
    d9_text text;
    d9_text_init(context, &text);
    if (runs->options->slurm && strchr(runs->out, '\\')) /* with a backslash, Slurm keeps %A and %a as they are */
        D9_TRY(d9_fail(context, D9_USAGE,
                       "--out %s: with --slurm the name must not contain a backslash, which turns off the patterns in "
                       "the names of Slurm's output files",
                       runs->out));
    if (!runs->options->commands) goto done;
    D9_TRY(add_command(runs, "1", &text));
    if (strchr(d9_text_get(&text), '\n'))
        D9_TRY(d9_fail(context, D9_USAGE,
                       "--commands: each command must fit on a line, but an argument or the path of dawn9 contains a "
                       "newline"));
done:
    d9_text_free(&text);
    return status;
}

d9_status d9_runs_print_commands(const d9_runs *runs) {
    d9_status status = D9_OK;
    d9_text text;
    char shard[24];
    d9_text_init(&runs->cli->context, &text);
    for (int64_t task = 0; task < task_count(runs); task++) {
        bool wanted;
        D9_TRY(find_work(runs, task, &wanted));
        if (!wanted) continue;
        snprintf(shard, sizeof shard, "%lld", (long long)task + 1);
        D9_TRY(add_command(runs, shard, &text));
        d9_text_add(&text, "\n");
    }
    return d9_cli_print_text(runs->cli, &text);
done:
    d9_text_free(&text);
    return status;
}

/* Runs sbatch and stores the first line of its output in `answer`. */
static d9_status call_sbatch(const d9_runs *runs, char *const *words, char answer[128]) {
    d9_status status = D9_OK;
    const d9_system *system = runs->cli->context.system;
    posix_spawn_file_actions_t actions;
    int answer_pipe[2], state = 0;
    pid_t child = 0;
    if (pipe(answer_pipe) != 0) return d9_fail(&runs->cli->context, D9_DEVICE, "cannot create a pipe for sbatch");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, answer_pipe[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, answer_pipe[0]);
    int error = posix_spawnp(&child, words[0], &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    system->close(system->user, answer_pipe[1]);
    ssize_t got = error ? 0 : system->read(system->user, answer_pipe[0], answer, 127);
    answer[got > 0 ? got : 0] = 0;
    answer[strcspn(answer, "\n")] = 0;
    if (!error) waitpid(child, &state, 0);
    system->close(system->user, answer_pipe[0]);
    if (error)
        status = d9_fail(&runs->cli->context, D9_DEVICE, "sbatch: %s: is Slurm installed here?", strerror(error));
    if (!error && (!WIFEXITED(state) || WEXITSTATUS(state) != 0))
        status = d9_fail(&runs->cli->context, D9_DEVICE, "sbatch rejected the job (see its message above)");
    return status;
}

/* Makes sbatch's option --output. Its value is a pattern (%A: job, %a: task), so a % in the folder is doubled. */
static d9_status make_output_option(const d9_runs *runs, char **option) {
    d9_status status;
    d9_context *context = &runs->cli->context;
    d9_text text;
    d9_text_init(context, &text);
    d9_text_add(&text, "--output=");
    for (const char *c = runs->out; *c; c++) d9_text_add(&text, *c == '%' ? "%%%%" : "%c", *c);
    d9_text_add(&text, "/slurm/%%A_%%a.txt");
    D9_TRY(d9_text_status(&text));
    D9_TRY(d9_arena_copy(context, &runs->cli->arena, d9_text_get(&text), option));
done:
    d9_text_free(&text);
    return status;
}

/* Makes the words of the sbatch command, with a NULL at the end. */
static d9_status make_sbatch_words(const d9_runs *runs, const char *tasks, const char *command, char ***made) {
    d9_status status;
    d9_context *context = &runs->cli->context;
    d9_arena *arena = &runs->cli->arena;
    char **words = NULL;
    int count = 0;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, runs->options->sbatch.count + 10, &words));
    words[count++] = "sbatch";
    words[count++] = "--parsable";
    D9_TRY(d9_arena_format(context, arena, &words[count++], "--job-name=%s", runs->experiment->title));
    if (runs->options->tasks.given)
        D9_TRY(d9_arena_format(context, arena, &words[count++], "--array=%s%%%lld", tasks,
                               (long long)runs->options->tasks.value));
    else
        D9_TRY(d9_arena_format(context, arena, &words[count++], "--array=%s", tasks));
    if (runs->options->ranks.given)
        D9_TRY(
            d9_arena_format(context, arena, &words[count++], "--ntasks=%lld", (long long)runs->options->ranks.value));
    if (runs->options->requeue) {
        words[count++] = "--requeue";
        words[count++] = "--signal=B:USR1@120";
    }
    D9_TRY(make_output_option(runs, &words[count++]));
    for (int i = 0; i < runs->options->sbatch.count; i++)
        D9_TRY(d9_arena_copy(context, arena, runs->options->sbatch.items[i], &words[count++]));
    D9_TRY(d9_arena_format(context, arena, &words[count++], "--wrap=%s", command));
    *made = words;
done:
    return status;
}

static d9_status print_command(const d9_runs *runs, char *const *words) {
    d9_text text;
    d9_text_init(&runs->cli->context, &text);
    for (int i = 0; words[i]; i++) {
        d9_text_add(&text, "%s", i ? " " : "");
        d9_text_add_shell_word(&text, words[i]);
    }
    d9_text_add(&text, "\n");
    return d9_cli_print_text(runs->cli, &text);
}

d9_status d9_runs_submit(const d9_runs *runs) {
    d9_status status;
    int64_t count;
    char answer[128], *folder, **words;
    d9_text tasks, command;
    d9_cli *cli = runs->cli;
    d9_text_init(&cli->context, &tasks);
    d9_text_init(&cli->context, &command);
    D9_TRY(add_tasks(runs, &tasks, &count));
    if (count == 0) {
        d9_cli_print(cli, "no runs are left in %s\n", runs->out);
        goto done;
    }
    D9_TRY(add_script(runs, &command));
    D9_TRY(make_sbatch_words(runs, d9_text_get(&tasks), d9_text_get(&command), &words));
    if (runs->options->dry_run) {
        status = print_command(runs, words);
        goto done;
    }
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &folder, "%s/slurm", runs->out));
    D9_TRY(d9_directory_make(&cli->context, folder));
    D9_TRY(call_sbatch(runs, words, answer));
    d9_cli_print(cli, "submitted  job %s, %lld task%s (%s)\noutput     %s\nstatus     the same command with --status\n",
                 answer, (long long)count, d9_text_plural(count), d9_text_get(&tasks), folder);
done:
    d9_text_free(&tasks);
    d9_text_free(&command);
    return status;
}
