/* The loop over the runs, in this process or in several.
 *
 * Every process walks over all runs and does what nobody has done and nobody is at; the locks of the run folders are
 * the only thing they agree by, so that a second command, another machine on the same disk and a worker are the same
 * to each other. One that finds only runs of others waits for them: should one be killed, its run is taken over. */
#include "cli/batch.h"
#include "core/system.h"
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void pause_seconds(double seconds) {
    const struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - floor(seconds)))};
    nanosleep(&time, NULL); /* a signal ends it early, which is welcome */
}

/* ---- one process ---- */

typedef struct live { /* the line of the run in progress, on a terminal */
    const d9_batch *batch;
    int64_t index;
    double shown_seconds;
    int width;
} live;

/* Never wider than the screen: a line that wrapped could not be taken off again. */
static void on_step(void *user, const d9_program *program, int64_t step, double loss, double epoch_seconds) {
    live *line = user;
    char text[200], loss_text[32] = "";
    const double now = d9_clock_now();
    const int room = d9_cli_columns(line->batch->cli) - 1;
    const int64_t per_epoch = program->steps_per_epoch;
    (void)epoch_seconds;
    if (now - line->shown_seconds < 0.2) return;
    line->shown_seconds = now;
    if (isfinite(loss)) snprintf(loss_text, sizeof loss_text, "  loss %.4f", loss);
    int width = snprintf(text, sizeof text, "epoch %lld/%lld  %.60s seed %lld%s",
                         (long long)((step + per_epoch - 1) / per_epoch),
                         (long long)((program->steps + per_epoch - 1) / per_epoch),
                         d9_experiment_arm(line->batch->experiment, line->index)->name,
                         (long long)d9_experiment_seed(line->batch->experiment, line->index), loss_text);
    if (width > room) width = room;
    int old = line->width < room ? line->width : room;
    d9_cli_print(line->batch->cli, "\r%.*s%*s", width, text, old > width ? old - width : 0, "");
    line->width = width;
}

static void clear(live *line) {
    if (line->width) d9_cli_print(line->batch->cli, "\r%*s\r", line->width, "");
    line->width = 0;
}

typedef struct worker {
    d9_batch *batch;
    d9_run_options run;
    bool *settled; /* per run: done or failed, whoever did it */
    int64_t busy;  /* runs that others were at, in the last walk */
} worker;

static d9_status do_one(worker *self, int64_t index) {
    d9_status status;
    d9_batch *batch = self->batch;
    d9_run_state state;
    bool trained;
    live line = {.batch = batch, .index = index};
    if (batch->cli->terminal && batch->worker_count == 1 && !batch->options->quiet && !batch->options->json)
        self->run.observer = (d9_observer){.user = &line, .step = on_step};
    const double start = d9_clock_now();
    status = d9_run_do(&batch->cli->context, batch->experiment, batch->out, index, &self->run, &state, &trained);
    clear(&line);
    D9_TRY(status);
    self->settled[index] = state.kind == D9_RUN_DONE || state.kind == D9_RUN_FAILED;
    self->busy += state.kind == D9_RUN_RUNNING;
    if (!trained) goto done;
    self->run.process_start = 0; /* later runs did not start with the process */
    batch->trained++;
    batch->trained_seconds += d9_clock_now() - start;
    d9_batch_show_run(batch, index, &state, d9_clock_now() - start);
done:
    return status;
}

static d9_status interrupted(d9_context *context, int number) {
    d9_context_clear(context);
    return d9_fail(context, number == SIGTERM ? D9_SIGTERM : D9_SIGINT,
                   "interrupted: what is done stays done, and the same command goes on");
}

static d9_status walk(worker *self) {
    d9_status status = D9_OK;
    d9_batch *batch = self->batch;
    self->busy = 0;
    for (int64_t i = 0; i < batch->runs; i++) {
        if (*batch->cli->interrupt) return interrupted(&batch->cli->context, *batch->cli->interrupt);
        if (self->settled[i] || !d9_batch_has(batch, i)) continue;
        D9_TRY(do_one(self, i));
    }
done:
    if (status == D9_SIGINT || status == D9_SIGTERM) return interrupted(&batch->cli->context, (int)status - 128);
    return status;
}

/* How many threads a worker may have where a configuration leaves it open. */
static d9_status share_threads(d9_cli *cli, int worker_count, int64_t *threads) {
    d9_status status;
    const d9_backend *backend;
    d9_device *device;
    d9_device_info info;
    const d9_backend_options options = {.fuse = true};
    D9_TRY(d9_backend_find(&cli->context, "reference", &backend));
    D9_TRY(backend->open(&cli->context, &options, &device));
    backend->describe(device, &info);
    backend->close(&cli->context, device);
    *threads = info.threads > worker_count ? info.threads / worker_count : 1;
done:
    return status;
}

static d9_status work(d9_batch *batch) {
    d9_status status;
    d9_cli *cli = batch->cli;
    void *memory = NULL;
    worker self = {.batch = batch,
                   .run = {.threads = batch->options->edits.threads.value,
                           .data = batch->options->edits.data,
                           .process_start = cli->process_start,
                           .interrupt = cli->interrupt}};
    if (batch->worker_count > 1) D9_TRY(share_threads(cli, batch->worker_count, &self.run.threads_default));
    D9_TRY(d9_allocate(&cli->context, (size_t)batch->runs * sizeof(bool), "the runs", &memory));
    self.settled = memory;
    for (double pause = 0.05;; pause = fmin(2 * pause, 1)) {
        const int64_t before = batch->trained;
        D9_TRY(walk(&self));
        if (self.busy == 0) break;
        if (batch->trained > before) pause = 0.05;
        pause_seconds(pause);
    }
done:
    d9_release(&cli->context, memory);
    return status;
}

/* ---- several processes ---- */

typedef struct crew {
    d9_batch *batch;
    pid_t *workers; /* 0: has ended */
    int killed;     /* of them */
    int mouth[2];   /* workers say into [1] why they failed, one line each; the parent passes on the first */
} crew;

/* The `index`th of "0,2,5". */
static void choose_device(const char *list, int index) {
    char device[24];
    for (; index > 0; index--) list = strchr(list, ',') + 1;
    snprintf(device, sizeof device, "%.*s", (int)strcspn(list, ","), list);
    setenv("CUDA_VISIBLE_DEVICES", device, 1);
}

/* The parent speaks for its workers: theirs would be as many lines as they are. */
static void speak_through(crew *crew, const char *message) {
    const d9_system *system = crew->batch->cli->context.system;
    char line[1100];
    int length = snprintf(line, sizeof line, "%s\n", message); /* short enough for a pipe to keep in one piece */
    ssize_t put = system->write(system->user, crew->mouth[1], line, (size_t)length);
    (void)put;
    int nowhere = system->open(system->user, "/dev/null", O_WRONLY, 0);
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
}

static d9_status be_worker(crew *crew, int index, pid_t parent) {
    d9_batch *batch = crew->batch;
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a killed parent leaves nobody behind */
    if (getppid() != parent) raise(SIGTERM);
    batch->cli->process_start = 0;
    if (batch->options->devices) choose_device(batch->options->devices, index);
    d9_status status = work(batch);
    if (status != D9_OK) speak_through(crew, batch->cli->context.message);
    return status;
}

static void tell_all(const crew *crew, int number) {
    for (int i = 0; i < crew->batch->worker_count; i++)
        if (crew->workers[i] > 0) kill(crew->workers[i], number);
}

/* The first failure of a worker; one that was killed says nothing, and its run is stopped: the others took it over,
 * or the same command will. */
static d9_status wait_for_all(crew *crew) {
    d9_status first = D9_OK;
    bool told = false;
    for (int left = crew->batch->worker_count; left > 0;) {
        int state;
        pid_t ended = waitpid(-1, &state, WNOHANG);
        if (*crew->batch->cli->interrupt && !told) {
            told = true;
            tell_all(crew, *crew->batch->cli->interrupt);
        }
        if (ended <= 0) {
            pause_seconds(0.02);
            continue;
        }
        for (int i = 0; i < crew->batch->worker_count; i++) {
            if (crew->workers[i] != ended) continue;
            crew->workers[i] = 0;
            left--;
            crew->killed += WIFSIGNALED(state);
            if (first == D9_OK && WIFEXITED(state)) first = (d9_status)WEXITSTATUS(state);
        }
    }
    return first;
}

static d9_status pass_on(const crew *crew, d9_status status) {
    const d9_system *system = crew->batch->cli->context.system;
    d9_context *context = &crew->batch->cli->context;
    char message[sizeof context->message] = "";
    if (status == D9_OK && crew->killed == crew->batch->worker_count)
        return d9_fail(context, D9_DEVICE, "all workers were killed (out of memory?); the same command goes on");
    if (status == D9_OK) return D9_OK;
    if (status == D9_SIGINT || status == D9_SIGTERM) return interrupted(context, (int)status - 128);
    ssize_t got = system->read(system->user, crew->mouth[0], message, sizeof message - 1);
    message[got > 0 ? strcspn(message, "\n") : 0] = 0;
    return d9_fail(context, status, "%s", got > 0 ? message : "a worker failed without a message");
}

static d9_status work_in_processes(d9_batch *batch, bool *worker) {
    d9_status status;
    d9_cli *cli = batch->cli;
    crew crew = {.batch = batch, .mouth = {-1, -1}};
    const pid_t parent = getpid();
    void *memory;
    D9_TRY(d9_arena_allocate(&cli->context, &cli->arena, (size_t)batch->worker_count * sizeof(pid_t), &memory));
    crew.workers = memory;
    if (pipe(crew.mouth) != 0) D9_TRY(d9_fail(&cli->context, D9_DEVICE, "no pipe for the workers"));
    for (int i = 0; i < batch->worker_count; i++) {
        pid_t child = fork();
        if (child == 0) {
            *worker = true;
            return be_worker(&crew, i, parent);
        }
        if (child < 0) { /* those there are do it all */
            batch->worker_count = i;
            if (i == 0) status = d9_fail(&cli->context, D9_DEVICE, "no worker process could be started");
            break;
        }
        crew.workers[i] = child;
    }
    D9_TRY(status);
    cli->context.system->close(cli->context.system->user, crew.mouth[1]);
    crew.mouth[1] = -1;
    status = pass_on(&crew, wait_for_all(&crew));
done:
    for (int i = 0; i < 2; i++)
        if (crew.mouth[i] >= 0) cli->context.system->close(cli->context.system->user, crew.mouth[i]);
    return status;
}

d9_status d9_batch_work(d9_batch *batch, bool *worker) {
    *worker = false;
    bool several = batch->worker_count > 1 || batch->options->devices;
    return several ? work_in_processes(batch, worker) : work(batch);
}
