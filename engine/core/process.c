/* Runs programs, waits for them while handling signals, and reads their output for error messages. Also counts the
 * processors and threads that this process may use, and chooses its GPU. */
#define _GNU_SOURCE /* sched_getaffinity, pthread_getattr_np */
#include "core/process.h"

#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/system.h"
#include "core/text.h"

enum { POLL_NANOSECONDS = 100000000, LINE_SIZE = 240, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };
/* Least size of a thread's stack. OMP_STACKSIZE=192k suffices, although the system uses a part of the 192 KiB. */
enum { STACK_LEAST_BYTES = 128 << 10 };

/* Signals that the guard blocks. Not SIGHUP if it is ignored, as under nohup: sigtimedwait would receive it anyway. */
static void list_blocked_signals(sigset_t *signals) {
    struct sigaction hangup;
    sigemptyset(signals);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(signals, SIGHUP);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
}

void d9_signal_guard_begin(d9_signal_guard *guard) {
    sigset_t signals;
    list_blocked_signals(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, &guard->before);
}

void d9_signal_guard_end(const d9_signal_guard *guard) { pthread_sigmask(SIG_SETMASK, &guard->before, NULL); }

/* Replaces the child by the program; the kernel kills it when dawn9 ends, even by SIGKILL. Calls only functions that
 * are safe between fork and exec, and exits as a shell does: with 127 if there is no such program, else 126. */
static void become_program(const d9_signal_guard *guard, pid_t parent, const char *const *argv, const char *folder,
                           const char *log) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int output = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (getppid() != parent || dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0 || chdir(folder) != 0)
        _exit(NOT_EXECUTABLE);
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    execvp(argv[0], (char *const *)argv);
    _exit(errno == ENOENT ? NOT_FOUND : NOT_EXECUTABLE);
}

/* Waits for the child. When a signal that the guard blocks arrives, sends the child SIGTERM: background jobs of a shell
 * ignore SIGINT. Returns the last signal that arrived; 0: none. */
static int wait_for_child(pid_t child, int *state) {
    const struct timespec poll = {.tv_nsec = POLL_NANOSECONDS};
    sigset_t signals;
    int interrupted = 0;
    list_blocked_signals(&signals);
    for (;;) {
        const pid_t ended = waitpid(child, state, WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR)) return interrupted;
        const int signal = sigtimedwait(&signals, NULL, &poll);
        if (signal <= 0) continue;
        interrupted = signal;
        kill(child, SIGTERM);
    }
}

static void read_last_line(d9_context *context, const char *log, char line[LINE_SIZE]) {
    uint8_t *bytes = NULL;
    size_t end, begin;
    d9_context quiet = *context; /* errors are ignored: if the log cannot be read, the line is empty */
    line[0] = 0;
    if (d9_file_read(&quiet, log, &bytes, &end) != D9_OK) return;
    while (end > 0 && (bytes[end - 1] == '\n' || bytes[end - 1] == '\r' || bytes[end - 1] == ' ')) end--;
    for (begin = end; begin > 0 && bytes[begin - 1] != '\n';) begin--;
    snprintf(line, LINE_SIZE, "%.*s", (int)(end - begin), (const char *)bytes + begin);
    d9_release(&quiet, bytes);
}

/* The end of a program: the word "status" with its exit status, or "signal" with the number of the signal. */
typedef struct program_end {
    const char *kind;
    int number;
} program_end;

static program_end end_of(int state) {
    return WIFEXITED(state) ? (program_end){"status", WEXITSTATUS(state)} : (program_end){"signal", WTERMSIG(state)};
}

/* The program that argv finally starts, after env and prlimit, whose options all contain "=". */
static const char *program_of(const char *const *argv) {
    while (argv[1] && (!strcmp(*argv, "env") || !strcmp(*argv, "prlimit") || strchr(*argv, '='))) argv++;
    return *argv;
}

d9_status d9_process_run(d9_context *context, const d9_signal_guard *guard, const char *const *argv,
                         const char *folder) {
    char log[4200], line[LINE_SIZE];
    const char *program = program_of(argv);
    int state = 0;
    snprintf(log, sizeof log, "%s/log", folder);
    const pid_t parent = getpid(), child = fork();
    if (child < 0) return d9_fail(context, D9_DATA, "%s cannot be run: %s", program, strerror(errno));
    if (child == 0) become_program(guard, parent, argv, folder, log);

    const int interrupted = wait_for_child(child, &state);
    if (interrupted) return d9_fail(context, (d9_status)(128 + interrupted), "interrupted while %s ran", program);
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return D9_OK;
    read_last_line(context, log, line);
    if (WIFEXITED(state) && WEXITSTATUS(state) >= NOT_EXECUTABLE && !*line)
        return d9_fail(context, D9_DATA, "%s %s", program,
                       WEXITSTATUS(state) == NOT_FOUND ? "is not installed" : "cannot be run");
    const program_end end = end_of(state);
    return d9_fail(context, D9_DATA, "%s ended with %s %d%s%s", program, end.kind, end.number, *line ? ": " : "", line);
}

d9_status d9_signal_guard_check(d9_context *context) {
    const struct timespec now = {0};
    sigset_t signals;
    list_blocked_signals(&signals);
    const int signal = sigtimedwait(&signals, NULL, &now);
    return signal > 0 ? d9_fail(context, (d9_status)(128 + signal), "interrupted") : D9_OK;
}

/* ---- launchers ---- */

/* Replaces the child by the program; the kernel sends it SIGTERM when dawn9 ends. Calls only functions that are safe
 * after fork. */
static void become_launcher(const char *const *argv, pid_t parent, int output) {
    const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent && dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
        dup2(output, STDERR_FILENO) >= 0)
        execvp(argv[0], (char *const *)argv);
    _exit(NOT_FOUND);
}

/* Waits for the program; sends it SIGUSR1, once, if a signal asks for an orderly end. Returns its wait status. */
static int pass_on_and_wait(const d9_context *context, pid_t child) {
    const struct timespec poll = {.tv_nsec = POLL_NANOSECONDS / 5};
    bool passed = false;
    int state = 0;
    for (;;) {
        const pid_t ended = waitpid(child, &state, WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR)) return state;
        if (d9_context_interrupt(context) && !passed) passed = kill(child, SIGUSR1) == 0;
        nanosleep(&poll, NULL);
    }
}

/* Fails with the last error of the log (a line "dawn9: ...", not a warning). Without one, the message says how the
 * program ended, names the log and shows its first line of text. */
static d9_status fail_with_log(d9_context *context, d9_status status, program_end end, const char *log) {
    static const char mark[] = "dawn9: ";
    d9_context quiet = *context;
    uint8_t *bytes = NULL;
    size_t size = 0;
    const char *line = NULL, *first = "";
    if (d9_file_read(&quiet, log, &bytes, &size) == D9_OK)
        for (const char *at = (const char *)bytes; at && *at; at = strchr(at, '\n'), at += at ? 1 : 0)
            if (strncmp(at, mark, strlen(mark)) == 0 && strncmp(at, "dawn9: warning", 14) != 0)
                line = at + strlen(mark);
    if (bytes) first = (const char *)bytes + strspn((const char *)bytes, " \t\r\n-=*"); /* frames of launchers */
    const size_t length = strcspn(first, "\r\n");
    if (line)
        status = d9_fail(context, status, "%.*s", (int)strcspn(line, "\n"), line);
    else
        status = d9_fail(context, status, "the processes of the run ended with %s %d: %s%s%.*s", end.kind, end.number,
                         log, length ? ": " : "", (int)(length < LINE_SIZE ? length : LINE_SIZE), first);
    d9_release(context, bytes);
    return status;
}

d9_status d9_process_launch(d9_context *context, const char *const *argv, const char *log) {
    const d9_system *system = context->system;
    const int output = system->open(system->user, log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (output < 0) return d9_fail(context, D9_OUTPUT, "%s: cannot be written: %s", log, strerror(errno));
    d9_processors_unbind(); /* the program inherits the mask */
    const pid_t parent = getpid(), child = fork();
    if (child == 0) become_launcher(argv, parent, output);
    system->close(system->user, output);
    if (child < 0) return d9_fail(context, D9_DEVICE, "%s cannot be run: %s", argv[0], strerror(errno));
    const int state = pass_on_and_wait(context, child);
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return D9_OK;
    const int signal_number = d9_context_interrupt(context);
    if (signal_number) return d9_fail(context, (d9_status)(128 + signal_number), "interrupted");
    const program_end end = end_of(state);
    const bool known = WIFEXITED(state) && end.number >= D9_USAGE && end.number <= D9_OUTPUT;
    return fail_with_log(context, known ? (d9_status)end.number : D9_DEVICE, end, log);
}

/* ---- processors ---- */

enum { PLACE_MOST = 4096 }; /* processors of a place; if it has more, the calling thread's mask counts */

typedef struct mask { /* sched_getaffinity fails if the kernel's mask is larger */
    cpu_set_t sets[D9_PROCESSORS_MAX / CPU_SETSIZE];
} mask;

/* Finds the processors of all of OpenMP's places. False if OpenMP binds no threads. Otherwise it has bound the first
 * thread of the process to one of the places before main, and sched_getaffinity reports only that one. */
static bool find_places(mask *all) {
    int processors[PLACE_MOST];
    const int places = omp_get_proc_bind() == omp_proc_bind_false ? 0 : omp_get_num_places();
    CPU_ZERO_S(sizeof *all, all->sets);
    for (int place = 0; place < places; place++) {
        const int count = omp_get_place_num_procs(place);
        if (count > PLACE_MOST) return false;
        omp_get_place_proc_ids(place, processors);
        for (int i = 0; i < count; i++) CPU_SET_S((size_t)processors[i], sizeof *all, all->sets);
    }
    return CPU_COUNT_S(sizeof *all, all->sets) > 0;
}

static bool find_own(mask *own) { return sched_getaffinity(0, sizeof *own, own->sets) == 0; }

int d9_processors(bool *allowed) {
    mask all;
    const bool known = find_places(&all) || find_own(&all);
    for (size_t cpu = 0; allowed && cpu < D9_PROCESSORS_MAX; cpu++)
        allowed[cpu] = known && CPU_ISSET_S(cpu, sizeof all, all.sets);
    return known ? CPU_COUNT_S(sizeof all, all.sets) : D9_PROCESSORS_MAX;
}

void d9_processors_unbind(void) {
    mask all;
    if (find_places(&all)) sched_setaffinity(0, sizeof all, all.sets);
}

/* True if OpenMP binds threads, but the calling thread was unbound. `all` receives the processors of all places. */
static bool find_unbound(mask *all) {
    mask own;
    return find_places(all) && find_own(&own) && CPU_EQUAL_S(sizeof own, own.sets, all->sets);
}

int d9_threads_limit(d9_context *context, int64_t wanted, int sharers) {
    const int processors = d9_processors(NULL);
    if (wanted <= processors && wanted * sharers > processors)
        d9_log(context, D9_LOG_WARNING, "threads: %lld in each of %d processes are too many for their %d processor%s",
               (long long)wanted, sharers, processors, d9_text_plural(processors));
    if (wanted <= processors) return (int)wanted;
    d9_log(context, D9_LOG_WARNING,
           "threads: %lld are too many for the %d processor%s that this process may use: using %d", (long long)wanted,
           processors, d9_text_plural(processors), processors);
    return processors;
}

/* ---- threads ---- */

/* Number of threads of this process; 0: unknown. */
static int count_threads(void) {
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 2 ? (int)tasks.st_nlink - 2 : 0;
}

static void *pass_gate(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* Starts `count` threads that exist at the same time, and ends them. Returns the error of the first that could not be
 * started, or 0; *started: number of threads started. */
static int start_and_end_threads(int count, pthread_t *threads, int *started) {
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int error = 0;
    pthread_mutex_lock(&gate);
    for (*started = 0; *started < count; ++*started) {
        error = pthread_create(&threads[*started], NULL, pass_gate, &gate);
        if (error) break;
    }
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < *started; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&gate);
    return error;
}

/* Returns D9_DEVICE if the process cannot have `wanted` threads. */
static d9_status check_threads(d9_context *context, int wanted) {
    const struct timespec pause = {.tv_nsec = 1000000};
    const int before = count_threads();
    pthread_t *threads = NULL;
    int started;
    if (before >= wanted) return D9_OK; /* OpenMP keeps the threads of earlier regions */
    d9_status status = D9_ALLOCATE(context, wanted, "threads", &threads);
    if (status != D9_OK) return status;
    const int error = start_and_end_threads(wanted - 1, threads, &started);
    d9_release(context, threads);
    /* A thread that was joined counts against the limit for another moment. */
    for (int i = 0; i < 100 && count_threads() > before; i++) nanosleep(&pause, NULL);
    if (!error) return D9_OK;
    return d9_fail(context, D9_DEVICE,
                   "threads: the system starts %d of %d: %s (ulimit -u, or pids.max of the cgroup); give --threads %d",
                   started + 1, wanted, strerror(error), started + 1);
}

/* Stack of the calling thread in bytes; SIZE_MAX if the system does not say. */
static size_t stack_bytes(void) {
    pthread_attr_t attributes;
    size_t bytes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return SIZE_MAX;
    if (pthread_attr_getstacksize(&attributes, &bytes) != 0) bytes = SIZE_MAX;
    pthread_attr_destroy(&attributes);
    return bytes;
}

d9_status d9_openmp_threads_prepare(d9_context *context, int wanted, int *given) {
    d9_status status = D9_OK;
    int team = 1;
    size_t stack = SIZE_MAX;
    omp_set_dynamic(0);
    if (wanted > omp_get_thread_limit()) wanted = omp_get_thread_limit();
    if (wanted > 1) D9_TRY(check_threads(context, wanted));
    mask all;
    const bool unbound = find_unbound(&all);
#pragma omp parallel num_threads(wanted) reduction(min : stack)
    {
        if (omp_get_thread_num() > 0) stack = stack_bytes();
        if (unbound) sched_setaffinity(0, sizeof all, all.sets);
#pragma omp single
        team = omp_get_num_threads();
    }
    if (stack < STACK_LEAST_BYTES)
        D9_TRY(d9_fail(context, D9_DEVICE,
                       "threads: OpenMP gives them a stack of %zu KiB, too little; OMP_STACKSIZE=192k is enough",
                       stack >> 10));
    *given = team;
done:
    return status;
}

/* ---- the GPU of a process, among those that CUDA_VISIBLE_DEVICES lists ---- */

static const char visible_devices[] = "CUDA_VISIBLE_DEVICES";

static bool is_uuid(const char *name) { return strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0; }

bool d9_gpu_is_name(const char *name) {
    const bool uuid = is_uuid(name);
    const char *rest = uuid ? name + 4 : name;
    /* before CUDA 12 the UUID of a part of a GPU (MIG) was MIG-GPU-UUID/1/0 */
    return *rest && rest[strspn(rest, uuid ? "0123456789abcdefABCDEFGPU-/" : "0123456789")] == 0;
}

/* True if entry number `index` of the list is the wanted GPU. Either UUID may be shortened; a UUID matches any entry
 * that is a number, because the two cannot be compared. */
static bool entry_matches(const char *entry, size_t length, int64_t index, const char *name) {
    const size_t wanted = strlen(name);
    if (!is_uuid(name)) return index == strtoll(name, NULL, 10);
    return !is_uuid(entry) || strncmp(entry, name, length < wanted ? length : wanted) == 0;
}

d9_status d9_gpu_choose(d9_context *context, const char *name) {
    const char *list = getenv(visible_devices), *entry = list;
    char chosen[128];
    int64_t index = 0;
    size_t length = 0;
    /* an empty or negative entry hides the entries after it, as in CUDA */
    for (; entry; entry = entry[length] ? entry + length + 1 : NULL, index++) {
        length = strcspn(entry, ",");
        if (length == 0 || *entry == '-') entry = NULL;
        if (!entry || entry_matches(entry, length, index, name)) break;
    }
    if (list && !entry)
        return d9_fail(context, D9_DEVICE, "%s is not among the %lld GPUs of %s=%s", name, (long long)index,
                       visible_devices, list);
    if (entry && !is_uuid(name))
        snprintf(chosen, sizeof chosen, "%.*s", (int)length, entry);
    else
        snprintf(chosen, sizeof chosen, "%s", name);
    setenv(visible_devices, chosen, 1);
    return D9_OK;
}
