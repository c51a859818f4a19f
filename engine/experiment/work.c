/* The loop over the runs of an experiment.
 *
 * Every process trains the runs of its shard one after another, in the order of d9_experiment_next. It skips runs that
 * are done, failed or locked by another process. Processes share only the run folders with their lock files, so
 * workers, a second command and another machine on the same file system cooperate. A process that finds only locked
 * runs waits, and takes over the run of a process that was killed. */
#include "experiment/work.h"
#include "core/process.h"
#include "core/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void pause_seconds(double seconds) {
    const struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - floor(seconds)))};
    nanosleep(&time, NULL); /* a signal may end it early; callers loop */
}

static d9_status fail_interrupted(d9_context *context, int number) {
    d9_context_clear(context);
    return d9_fail(context, (d9_status)(128 + number),
                   "interrupted: finished runs are kept; repeat the command to continue");
}

/* ---- one process ---- */

typedef struct worker {
    d9_context *context;
    const d9_experiment *experiment;
    const char *out;
    const d9_work_options *options;
    d9_run_options run;
    int64_t index;        /* the current run */
    d9_run_summary *seen; /* all runs; those of other shards count as done */
    bool any_trained;     /* this process has trained a run since it last waited */
} worker;

static void on_step(void *user, const d9_program *program, int64_t step, double loss, double epoch_seconds) {
    const worker *self = user;
    (void)epoch_seconds;
    self->options->observer.step(self->options->observer.user, self->index, program, step, loss);
}

static d9_status train_run(worker *self, int64_t index) {
    d9_status status;
    d9_run_state state;
    bool trained;
    const d9_work_observer *observer = &self->options->observer;
    const double start = d9_clock_now();
    self->index = index;
    D9_TRY(d9_run_train(self->context, self->experiment, self->out, index, &self->run, &state, &trained));
    if (trained && state.kind == D9_RUN_DONE) /* selects by the rounded scores of the record, as other processes do */
        D9_TRY(d9_run_read_state(self->context, self->experiment, self->out, index, &state));
    self->seen[index] = d9_run_summarise(&state);
    if (!trained) goto done;
    self->any_trained = true;
    self->run.process_start = 0; /* process start counts only for the first run */
    if (observer->run) observer->run(observer->user, index, &state, d9_clock_now() - start);
done:
    return status;
}

static bool any_running(const worker *self) {
    for (int64_t i = 0; i < d9_experiment_run_count(self->experiment); i++)
        if (self->seen[i].kind == D9_RUN_RUNNING) return true;
    return false;
}

/* Trains until d9_experiment_next selects no run: all are done, failed or being trained by other processes. */
static d9_status train_selected(worker *self) {
    d9_status status = D9_OK;
    self->any_trained = false;
    for (;;) {
        int64_t index;
        const int signal_number = d9_context_interrupt(self->context);
        if (signal_number) return fail_interrupted(self->context, signal_number);
        D9_TRY(d9_experiment_update_seen(self->context, self->experiment, self->out, self->seen));
        D9_TRY(d9_experiment_next(self->context, self->experiment, self->seen, &index));
        if (index < 0) break;
        D9_TRY(train_run(self, index));
    }
done:
    if (d9_status_is_interrupt(status)) return fail_interrupted(self->context, (int)status - 128);
    return status;
}

/* Divides the machine's threads among the workers, for configurations that do not set threads. */
static d9_status divide_threads(d9_context *context, int worker_count, int64_t *threads) {
    d9_device_info info;
    const d9_status status = d9_backend_describe(context, "reference", 0, &info);
    if (status == D9_OK) *threads = info.threads > worker_count ? info.threads / worker_count : 1;
    return status;
}

static d9_status train_runs(worker *self) {
    d9_status status;
    const int64_t count = d9_experiment_run_count(self->experiment);
    double pause = 0.025; /* seconds; doubled, up to 1, while other processes train all remaining runs */
    if (self->options->observer.step) self->run.observer = (d9_observer){.user = self, .step = on_step};
    if (self->options->worker_count > 1)
        D9_TRY(divide_threads(self->context, self->options->worker_count, &self->run.threads_default));
    D9_TRY(D9_ALLOCATE(self->context, count, "the runs", &self->seen));
    for (int64_t i = 0; i < count; i++)
        if (!d9_work_has(self->options, i)) self->seen[i].kind = D9_RUN_DONE;
    for (;;) {
        D9_TRY(train_selected(self));
        if (!any_running(self)) break;
        pause = self->any_trained ? 0.05 : fmin(2 * pause, 1);
        pause_seconds(pause);
        for (int64_t i = 0; i < count; i++) /* tries the runs of other processes, which may have died */
            if (self->seen[i].kind == D9_RUN_RUNNING) self->seen[i].kind = D9_RUN_WAITING;
    }
done:
    d9_release(self->context, self->seen);
    return status;
}

/* ---- several processes ---- */

typedef struct worker_pool {
    worker *self;        /* initial state of each worker */
    pid_t *pids;         /* 0: has ended */
    int started, killed; /* numbers of workers */
    int pipe[2];         /* failing workers write a message to [1]; the parent reads the first from [0] */
} worker_pool;

/* Writes one line, short enough for an atomic write to the pipe. */
static void report_error(const worker_pool *pool) {
    const d9_context *context = pool->self->context;
    char line[sizeof context->message + 1];
    const int length = snprintf(line, sizeof line, "%s\n", context->message);
    const ssize_t put = context->system->write(context->system->user, pool->pipe[1], line, (size_t)length);
    (void)put; /* the parent gets the exit status in any case */
}

static d9_status run_worker(const worker_pool *pool, int index, pid_t parent) {
    worker *self = pool->self;
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* the worker ends with its parent */
    if (getppid() != parent) raise(SIGTERM);
    if (self->options->worker_count > 1) d9_processors_unbind();
    self->run.process_start = 0;
    d9_status status = D9_OK;
    if (self->options->devices) status = d9_gpu_choose(self->context, self->options->devices[index]);
    if (status == D9_OK) status = train_runs(self);
    if (status != D9_OK) report_error(pool);
    return status;
}

/* Forwards a signal to the workers with sigqueue, so that they can distinguish it from a second Ctrl-C of the
 * terminal. */
static void forward_signal(const worker_pool *pool, int number) {
    for (int i = 0; i < pool->started; i++)
        if (pool->pids[i] > 0) sigqueue(pool->pids[i], number, (union sigval){0});
}

/* Waits until all workers have ended. Returns the first failure. A killed worker counts as no failure, because
 * other workers or the next call take over its run. */
static d9_status wait_for_all(worker_pool *pool) {
    enum { FORWARD_AFTER = 10 }; /* pauses before forwarding; by then the workers have a Ctrl-C of the terminal */
    d9_status first = D9_OK;
    int waited = 0; /* pauses since the signal */
    const d9_work_observer *observer = &pool->self->options->observer;
    for (int left = pool->started; left > 0;) {
        int state;
        pid_t ended = waitpid(-1, &state, WNOHANG);
        if (ended <= 0) {
            const int signal_number = d9_context_interrupt(pool->self->context);
            if (signal_number && ++waited == FORWARD_AFTER) forward_signal(pool, signal_number);
            if (observer->waiting && !waited) observer->waiting(observer->user);
            pause_seconds(0.02);
            continue;
        }
        for (int i = 0; i < pool->started; i++) {
            if (pool->pids[i] != ended) continue;
            pool->pids[i] = 0;
            left--;
            pool->killed += WIFSIGNALED(state);
            if (first == D9_OK && WIFEXITED(state)) first = (d9_status)WEXITSTATUS(state);
        }
    }
    return first;
}

/* Reports a worker's failure with its message, or that all workers were killed, as the parent's own failure. */
static d9_status report_failure(const worker_pool *pool, d9_status status) {
    d9_context *context = pool->self->context;
    char message[sizeof context->message] = "";
    if (status == D9_OK && pool->killed == pool->started)
        return d9_fail(context, D9_DEVICE, "all workers were killed (out of memory?); repeat the command to continue");
    if (status == D9_OK) return D9_OK;
    if (d9_status_is_interrupt(status)) return fail_interrupted(context, (int)status - 128);
    ssize_t got = context->system->read(context->system->user, pool->pipe[0], message, sizeof message - 1);
    message[got > 0 ? strcspn(message, "\n") : 0] = 0;
    return d9_fail(context, status, "%s", got > 0 ? message : "a worker failed without a message");
}

static void close_pipe_end(const worker_pool *pool, int *end) {
    const d9_system *system = pool->self->context->system;
    if (*end >= 0) system->close(system->user, *end);
    *end = -1;
}

/* Forks the workers and waits for them. Returns in every process; *is_worker is true in a worker. */
static d9_status work_in_processes(worker *self, bool *is_worker) {
    d9_status status;
    const int wanted = self->options->worker_count;
    const pid_t parent = getpid();
    worker_pool pool = {.self = self, .pipe = {-1, -1}};
    D9_TRY(D9_ALLOCATE(self->context, wanted, "the workers", &pool.pids));
    if (pipe(pool.pipe) != 0) D9_TRY(d9_fail(self->context, D9_DEVICE, "cannot create a pipe for the workers"));
    for (; pool.started < wanted; pool.started++) {
        const pid_t child = fork();
        if (child == 0) {
            *is_worker = true;
            D9_TRY(run_worker(&pool, pool.started, parent));
            goto done;
        }
        if (child < 0) break; /* the workers already started do all runs */
        pool.pids[pool.started] = child;
    }
    if (pool.started == 0) D9_TRY(d9_fail(self->context, D9_DEVICE, "cannot start a worker process"));
    close_pipe_end(&pool, &pool.pipe[1]);
    if (self->run.unsaved_steps) *self->run.unsaved_steps = -1;
    status = report_failure(&pool, wait_for_all(&pool));
done:
    close_pipe_end(&pool, &pool.pipe[0]);
    close_pipe_end(&pool, &pool.pipe[1]);
    d9_release(self->context, pool.pids);
    return status;
}

d9_status d9_experiment_work(d9_context *context, const d9_experiment *experiment, const char *out,
                             const d9_work_options *options, bool *is_worker) {
    worker self = {.context = context, .experiment = experiment, .out = out, .options = options, .run = options->run};
    *is_worker = false;
    return options->worker_count > 1 || options->devices ? work_in_processes(&self, is_worker) : train_runs(&self);
}
