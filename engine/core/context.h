/* The context every fallible call receives: where the first error message is kept, and the only
 * doors to the outside world (files, memory, log).
 *
 * Rules of the house: everything that can fail returns d9_status; results leave through
 * out-parameters; the first message survives; only the command line prints or exits. */
#ifndef D9_CORE_CONTEXT_H
#define D9_CORE_CONTEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are the exit statuses of the dawn9 command. */
typedef enum d9_status {
    D9_OK = 0,
    D9_CHECK_FAILED = 1, /* a comparison or verification did not hold */
    D9_USAGE = 2,        /* command line or configuration; a checkpoint of another configuration */
    D9_DATA = 3,         /* input data: missing, truncated, wrong */
    D9_DEVICE = 4,       /* device or backend; out of memory */
    D9_NONFINITE = 5,    /* training or an evaluation left the finite numbers */
    D9_OUTPUT = 6,       /* something could not be written */
    D9_SIGHUP = 129,
    D9_SIGINT = 130,
    D9_SIGUSR1 = 138, /* a scheduler's word before its limit */
    D9_SIGTERM = 143
} d9_status;

/* Whether a signal asked for an orderly end: 128 and its number. */
static inline bool d9_status_is_interrupt(d9_status status) {
    return status == D9_SIGHUP || status == D9_SIGINT || status == D9_SIGUSR1 || status == D9_SIGTERM;
}

#define D9_MUST_USE            __attribute__((warn_unused_result))
#define D9_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Leaves for the one `done:` label of the function when a call fails. Needs a local `status`. */
#define D9_TRY(call)                                                                                                   \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != D9_OK) goto done;                                                                                \
    } while (0)

typedef enum d9_log_level { D9_LOG_WARNING, D9_LOG_INFO, D9_LOG_DEBUG } d9_log_level;
typedef void (*d9_log_sink)(void *user, d9_log_level level, const char *line);

struct d9_system;

typedef struct d9_context {
    const struct d9_system *system; /* never NULL: d9_system_default() unless a test plants faults */
    d9_log_sink log;                /* NULL: silent */
    void *log_user;
    d9_status status;   /* of the first failure */
    char message[1024]; /* one line, without a newline; empty while nothing failed */
} d9_context;

/* Bytes of the control character at `at`, in UTF-8, U+0080 to U+009F with them: 1 or 2; 0: there is none. */
int d9_control_bytes(const char *at);

void d9_context_init(d9_context *context);

/* Keeps status and message if nothing failed before; returns `status`, so that it can end a function. */
d9_status d9_fail(d9_context *context, d9_status status, const char *format, ...) D9_PRINTF(3, 4);

/* Forgets a failure that the caller dealt with (a backend that is absent, say). */
void d9_context_clear(d9_context *context);

void d9_log(d9_context *context, d9_log_level level, const char *format, ...) D9_PRINTF(3, 4);

#endif
