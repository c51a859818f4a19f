/* Status codes, and the context: the first error message, requests to stop, the log, and the table of file and memory
 * calls (core/system.h).
 *
 * A function that fails with a message returns d9_status; out-parameters get its results. Only cli/ prints. */
#pragma once

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are the exit statuses of the dawn9 command. */
typedef enum d9_status {
    D9_OK = 0,
    D9_CHECK_FAILED = 1, /* a comparison or verification failed */
    D9_USAGE = 2,        /* command line or configuration is invalid, or does not fit a file such as a checkpoint */
    D9_DATA = 3,         /* input data missing, truncated or invalid */
    D9_DEVICE = 4,       /* device or backend failed, or memory ran out */
    D9_NONFINITE = 5,    /* training or an evaluation produced inf or NaN */
    D9_OUTPUT = 6,       /* a file or standard output could not be written */
    D9_SIGHUP = 129,
    D9_SIGINT = 130,
    D9_SIGUSR1 = 138, /* SIGUSR1, SIGUSR2: a scheduler's warning before the time limit */
    D9_SIGUSR2 = 140,
    D9_SIGTERM = 143,
    D9_SIGXCPU = 152 /* the soft limit of processor time is exceeded (ulimit -S -t) */
} d9_status;

/* True for the status of a signal that asked for an orderly end: 128 + the number of the signal. */
static inline bool d9_status_is_interrupt(d9_status status) {
    return status == D9_SIGHUP || status == D9_SIGINT || status == D9_SIGUSR1 || status == D9_SIGUSR2 ||
           status == D9_SIGTERM || status == D9_SIGXCPU;
}

#define D9_MUST_USE            __attribute__((warn_unused_result))
#define D9_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Jumps to the function's `done:` label if the call fails. Needs a local `status`. */
#define D9_TRY(call)                                                                                                   \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != D9_OK) goto done;                                                                                \
    } while (0)

typedef enum d9_log_level { D9_LOG_WARNING, D9_LOG_INFO, D9_LOG_DEBUG } d9_log_level;
typedef void (*d9_log_sink)(void *user, d9_log_level level, const char *line);

struct d9_system;

typedef struct d9_context {
    const struct d9_system *system; /* never NULL: d9_system_default(), or a table in which a test injects faults */
    d9_log_sink log;                /* NULL: nothing is logged */
    void *log_user;
    /* Number of a signal that asks for an orderly end, set by a handler or a callback; 0: none. NULL: never set */
    const volatile sig_atomic_t *interrupt;
    int (*poll)(void *user); /* called at checks for interrupts; 0: go on, else end as on SIGINT; NULL: not called */
    void *poll_user;
    d9_status status;   /* status of the first failure */
    char message[1024]; /* one line, without a newline; empty before the first failure */
} d9_context;

/* Length in bytes, 1 to 4, of the control character that begins at `at`; 0: none. U+0080 to U+009F and invisible format
 * characters, such as U+202E, which reverses the text after it, are included. */
int d9_control_bytes(const char *at);

void d9_context_init(d9_context *context);

/* Records status and message if nothing failed before. Returns `status`, so that a function can end with it. */
d9_status d9_fail(d9_context *context, d9_status status, const char *format, ...) D9_PRINTF(3, 4);

/* Number of the signal that asked for an orderly end; 0: none. */
static inline int d9_context_interrupt(const d9_context *context) {
    return context->interrupt ? *context->interrupt : 0;
}

/* Clears a failure that the caller has handled, for example a backend that is not available. */
void d9_context_clear(d9_context *context);

void d9_log(d9_context *context, d9_log_level level, const char *format, ...) D9_PRINTF(3, 4);
