/* A Slurm array job: one task for each run that is left, each of which is this very command with --shard.
 *
 * Tasks are numbered like runs, so that a task that was killed is submitted again under its number, by the same
 * command. What a site needs beyond that (partition, time, GPUs) comes by --sbatch, or by sbatch's own environment. */
#include "cli/runs.h"
#include "core/system.h"
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { TASKS_MAX = 1000 }; /* Slurm's MaxArraySize is 1001 unless a site says otherwise */

static int64_t shard_count(const d9_runs *runs) { return runs->count < TASKS_MAX ? runs->count : TASKS_MAX; }

/* This command without the options that only the submission needs. */
static d9_status add_command(const d9_runs *runs, d9_text *text) {
    static const char *const dropped[] = {"--slurm", "--retry", "--json"};
    char program[4096];
    char *const *words = runs->cli->words;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    d9_text_add(text, "exec ");
    d9_text_add_shell_word(text, length > 0 ? program : words[0]);
    for (int i = 1; words[i]; i++) {
        bool drop = strncmp(words[i], "--sbatch=", 9) == 0;
        for (int d = 0; d < 3; d++) drop = drop || strcmp(words[i], dropped[d]) == 0;
        if (strcmp(words[i], "--sbatch") == 0 && words[i + 1]) {
            i++; /* and its value */
            drop = true;
        }
        if (drop) continue;
        d9_text_add(text, " ");
        d9_text_add_shell_word(text, words[i]);
    }
    d9_text_add(text, " --shard \"$SLURM_ARRAY_TASK_ID/%lld\"", (long long)shard_count(runs));
    return d9_text_status(text);
}

/* "1,4-9": the tasks that have something to do. */
static d9_status add_tasks(const d9_runs *runs, d9_text *text, int64_t *tasks) {
    d9_status status = D9_OK;
    const int64_t shards = shard_count(runs);
    int64_t first = -1;
    *tasks = 0;
    for (int64_t task = 0; task <= shards; task++) {
        bool wanted = false;
        for (int64_t i = task; task < shards && i < runs->count && !wanted; i += shards) {
            d9_run_state state;
            D9_TRY(d9_run_look(&runs->cli->context, runs->experiment, runs->out, i, &state));
            wanted = state.kind != D9_RUN_DONE && state.kind != D9_RUN_FAILED;
        }
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

/* Runs sbatch; the first line that it prints goes to `answer`. */
static d9_status call_sbatch(const d9_runs *runs, char *const *words, char answer[128]) {
    d9_status status = D9_OK;
    const d9_system *system = runs->cli->context.system;
    posix_spawn_file_actions_t actions;
    int answer_pipe[2], state = 0;
    pid_t child = 0;
    if (pipe(answer_pipe) != 0) return d9_fail(&runs->cli->context, D9_DEVICE, "no pipe for sbatch");
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
        status = d9_fail(&runs->cli->context, D9_DEVICE, "sbatch refused the job (its own message is above)");
    return status;
}

static d9_status submit(const d9_runs *runs, const char *tasks, const char *command, char answer[128]) {
    d9_status status;
    d9_context *context = &runs->cli->context;
    d9_arena *arena = &runs->cli->arena;
    char **words = NULL;
    int count = 0;
    D9_TRY(D9_ARENA_ALLOCATE(context, arena, runs->options->sbatch.count + 7, &words));
    words[count++] = "sbatch";
    words[count++] = "--parsable";
    D9_TRY(d9_arena_format(context, arena, &words[count++], "--job-name=%s", runs->experiment->title));
    D9_TRY(d9_arena_format(context, arena, &words[count++], "--array=%s", tasks));
    D9_TRY(d9_arena_format(context, arena, &words[count++], "--output=%s/slurm/%%A_%%a.txt", runs->out));
    for (int i = 0; i < runs->options->sbatch.count; i++)
        D9_TRY(d9_arena_copy(context, arena, runs->options->sbatch.items[i], &words[count++]));
    D9_TRY(d9_arena_format(context, arena, &words[count++], "--wrap=%s", command)); /* the last: NULL follows */
    status = call_sbatch(runs, words, answer);
done:
    return status;
}

d9_status d9_runs_submit(const d9_runs *runs) {
    d9_status status;
    int64_t count;
    char answer[128], *folder;
    d9_text tasks, command;
    d9_cli *cli = runs->cli;
    d9_text_init(&cli->context, &tasks);
    d9_text_init(&cli->context, &command);
    if (runs->options->shard)
        D9_TRY(d9_fail(&cli->context, D9_USAGE, "--shard: the tasks of an array job are shards already"));
    D9_TRY(add_tasks(runs, &tasks, &count));
    if (count == 0) {
        d9_cli_print(cli, "nothing is left to run in %s\n", runs->out);
        goto done;
    }
    D9_TRY(add_command(runs, &command));
    D9_TRY(d9_arena_format(&cli->context, &cli->arena, &folder, "%s/slurm", runs->out));
    D9_TRY(d9_directory_make(&cli->context, folder));
    D9_TRY(submit(runs, d9_text_get(&tasks), d9_text_get(&command), answer));
    d9_cli_print(cli, "submitted  job %s, %lld task%s (%s)\noutput     %s\nstatus     the same command with --status\n",
                 answer, (long long)count, count == 1 ? "" : "s", d9_text_get(&tasks), folder);
done:
    d9_text_free(&tasks);
    d9_text_free(&command);
    return status;
}
