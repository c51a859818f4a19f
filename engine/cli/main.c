/* dawn9: runs the subcommand, prints the error line, and ends the process. Its mutable globals exist because a signal
 * handler can reach nothing else. */
#include "cli/help.h"
#include "core/system.h"
#include "record/record.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t interrupt_signal;
static double interrupt_seconds;            /* d9_clock_now when the first signal came */
static volatile sig_atomic_t unsaved_steps; /* steps since the last checkpoint; negative: unknown */
static pid_t main_process;                  /* worker processes also get Ctrl-C, but only this one prints about it */

/* Prints a line to standard error or, if that is no terminal, to standard output; nothing if neither is a terminal, or
 * in another process than the main one. Async-signal-safe. */
static void print_to_terminal(const char *line, size_t length) {
    struct termios unused;
    if (getpid() != main_process) return;
    const int file = tcgetattr(STDERR_FILENO, &unused) == 0 ? STDERR_FILENO : STDOUT_FILENO;
    ssize_t put = tcgetattr(file, &unused) == 0 ? write(file, line, length) : 0;
    (void)put; /* nothing can be done about a failure */
}

/* Prints how many steps are lost, if known; without printf, which is not async-signal-safe. */
static void print_lost_steps(void) {
    static const char known[] = "\nstopped at once; steps lost since the last checkpoint: ";
    static const char unknown[] = "\nstopped at once; the current runs lose their steps since their last checkpoints\n";
    char digits[24], *const end = digits + sizeof digits, *at = end;
    long unsaved = unsaved_steps;
    if (unsaved < 0) {
        print_to_terminal(unknown, sizeof unknown - 1);
        return;
    }
    *--at = '\n';
    do *--at = (char)('0' + unsaved % 10);
    while ((unsaved /= 10) > 0);
    print_to_terminal(known, sizeof known - 1);
    print_to_terminal(at, (size_t)(end - at));
}

/* True if a signal that comes `seconds` after the first one ends the process at once. Only SIGINT and SIGTERM do so. A
 * SIGINT within a second may be a copy of the first signal: `timeout` signals the process and its group. A SIGTERM
 * within 30 seconds is ignored, because stopping a service or a job may send several. A signal that the parent
 * forwarded to its worker (SI_QUEUE) never ends the worker at once. */
static bool ends_at_once(int number, const siginfo_t *about, double seconds) {
    return about->si_code != SI_QUEUE && ((number == SIGINT && seconds >= 1) || (number == SIGTERM && seconds >= 30));
}

/* Requests a clean stop at the first signal; a later one may end the process at once. */
static void on_signal(int number, siginfo_t *about, void *unused) {
    static const char heard[] = "\nstopping after the current batch; Ctrl-C again after one second stops at once\n";
    const int error = errno;
    (void)unused;
    if (!interrupt_signal) {
        interrupt_seconds = d9_clock_now();
        interrupt_signal = number;
        if (number == SIGINT) print_to_terminal(heard, sizeof heard - 1);
    } else if (ends_at_once(number, about, d9_clock_now() - interrupt_seconds)) {
        print_lost_steps();
        _exit(128 + number);
    }
    errno = error;
}

/* Installs on_signal. SIGHUP stays ignored if dawn9 was started so, because nohup relies on that. */
static void catch_signals(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO}, hangup;
    main_process = getpid();
    sigfillset(&action.sa_mask); /* a second signal waits until the first has stored its time */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGXCPU, &action, NULL);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
}

static void end_at_once(int number) { _exit(128 + number); }

/* Makes SIGINT and SIGTERM end a command that is not interruptible, if it is process 1, as in a container: the kernel
 * drops signals to process 1 that have no handler. */
static void catch_signals_of_process_1(void) {
    const struct sigaction action = {.sa_handler = end_at_once};
    if (getpid() != 1) return;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Opens file descriptors 0, 1 and 2 if they are closed. Otherwise the next file opened would get one of these numbers
 * and receive what is written to standard output or error. They are opened in the wrong direction, so that reading
 * standard input and writing the others fail, as they would if closed. */
static void open_standard_files(void) {
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0 && open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
}

static d9_status reject_unknown_command(d9_cli *cli, const char *name) {
    const char *names[32];
    int count = 0;
    if (name[0] == '-') {
        names[count++] = "--help";
        names[count++] = "--version";
    }
    for (const d9_command *command; name[0] != '-' && count < 32 && (command = d9_command_at(count)); count++)
        names[count] = command->name;
    const char *nearest = d9_text_nearest(name, names, count);
    const char *what = name[0] == '-' ? "option" : "command";
    if (nearest)
        return d9_fail(&cli->context, D9_USAGE, "unknown %s \"%s\"; did you mean %s? (dawn9 --help)", what, name,
                       nearest);
    if (name[0] == '-')
        return d9_fail(&cli->context, D9_USAGE, "unknown option \"%s\": the command must come first (dawn9 --help)",
                       name);
    bool found;
    const d9_status status = d9_file_find(&cli->context, D9_USAGE, name, &found);
    if (status != D9_OK) return status;
    if (found)
        return d9_fail(&cli->context, D9_USAGE, "\"%s\" is a file: give a command first, like dawn9 train %s", name,
                       d9_cli_shell_word(cli, name));
    return d9_fail(&cli->context, D9_USAGE, "unknown command \"%s\" (dawn9 --help lists them)", name);
}

static d9_status run_command(d9_cli *cli, const char *name, int count, const char *const *words) {
    d9_status status = D9_OK;
    const d9_command *command = d9_command_find(name);
    void *options = NULL;
    bool help = false;
    if (!command) return reject_unknown_command(cli, name);
    D9_TRY(d9_arena_allocate(&cli->context, &cli->arena, command->options_size, &options));
    D9_TRY(d9_cli_parse(cli, command, count, words, options, &help));
    if (help) return d9_cli_help(cli, command);
    if (command->computes) d9_this_process_wait_briefly(cli->words);
    if (command->interruptible)
        catch_signals();
    else
        catch_signals_of_process_1();
    D9_TRY(command->run(cli, options));
done:
    return status;
}

static d9_status print_version(d9_cli *cli) {
    const char *name;
    d9_cli_print(cli, "dawn9 %s (commit %s, %s)\nbackends", d9_build_version(), d9_build_commit(), d9_build_compiler());
    for (int i = 0; (name = d9_backend_name_at(i)); i++)
        if (d9_backend_is_installed(&cli->context, i)) d9_cli_print(cli, " %s", name);
    d9_cli_print(cli, "\n");
    for (int i = 0; (name = d9_backend_name_at(i)); i++) {
        const d9_backend *backend;
        char libraries[160];
        if (!d9_backend_is_installed(&cli->context, i)) continue;
        if (d9_backend_find(&cli->context, name, &backend) == D9_OK && backend->libraries) {
            backend->libraries(libraries, sizeof libraries);
            d9_cli_print(cli, "%-10s compiled with %s\n", name, libraries);
        }
        d9_context_clear(&cli->context); /* a backend that does not load is not an error here */
    }
    return D9_OK;
}

static d9_status run(d9_cli *cli, int count, const char *const *words) {
    if (count == 0) return d9_fail(&cli->context, D9_USAGE, "no command given (dawn9 --help lists them)");
    if (strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0)
        return run_command(cli, "help", count - 1, words + 1);
    if (strcmp(words[0], "--version") == 0 || strcmp(words[0], "-V") == 0) return print_version(cli);
    return run_command(cli, words[0], count - 1, words + 1);
}

static void print_message(const d9_system *system, const char *kind, const char *line) {
    char text[1100];
    int length = snprintf(text, sizeof text, "dawn9: %s%s\n", kind, line);
    (void)d9_cli_write(system, STDERR_FILENO, text, (size_t)length); /* nothing can be done about a failure */
}

/* True if this process prints its error: rank 0 always, any other rank only if it fails alone. Such a rank first waits
 * two seconds, because rank 0, if it fails too, ends all processes by a signal within this time. */
static bool prints_reason(const d9_parallel *parallel) {
    const struct timespec first = {.tv_sec = 2};
    return parallel->rank == 0 || (!parallel->together && nanosleep(&first, NULL) == 0);
}

/* Prints the error line and disconnects from the other processes of the run, if there are any. */
static void print_error_and_disconnect(d9_cli *cli, d9_status status) {
    const char *message = cli->context.message;
    if (status != D9_OK && prints_reason(&cli->parallel))
        print_message(cli->context.system, "", *message ? message : "failed without a message");
    d9_parallel_close(&cli->context, &cli->parallel, status);
}

/* Prints warnings to standard error; drops other messages, unless a command replaces this sink. */
static void on_log(void *user, d9_log_level level, const char *line) {
    if (level == D9_LOG_WARNING) print_message(user, "warning: ", line);
}

int main(int count, char **words) {
    d9_cli cli = {.words = words, .unsaved_steps = &unsaved_steps};
    const char *no_color = getenv("NO_COLOR"), *kind = getenv("TERM");
    open_standard_files();
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves early, like `head`, does not end a run */
    signal(SIGXFSZ, SIG_IGN); /* exceeding ulimit -f is then a write error, no signal */
    signal(SIGCHLD, SIG_DFL); /* if a parent left it ignored, children would leave no exit status */
    d9_context_init(&cli.context);
    cli.context.interrupt = &interrupt_signal;
    cli.context.log = on_log;
    cli.context.log_user = (void *)(uintptr_t)cli.context.system;
    cli.process_start = d9_this_process_start(&cli.context);
    cli.terminal = isatty(STDOUT_FILENO) == 1 && !(kind && strcmp(kind, "dumb") == 0);
    cli.colour = cli.terminal && !(no_color && *no_color);
    d9_status status = run(&cli, count - 1, (const char *const *)words + 1);
    status = d9_cli_finish(&cli, status);
    print_error_and_disconnect(&cli, status);
    d9_arena_free(&cli.context, &cli.arena);
    return (int)status;
}
