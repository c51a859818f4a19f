/* Running another program and waiting for it. A Ctrl-C meanwhile ends it, and what it left is still cleared up. And the
 * processors that this process may use. */
#ifndef D9_CORE_PROCESS_H
#define D9_CORE_PROCESS_H

#include <signal.h>

#include "core/context.h"

/* Between begin and end SIGHUP, SIGINT and SIGTERM wait: d9_process_run hands them to its program and reports them,
 * and what arrives elsewhere is delivered at the end, when everything is tidy. */
typedef struct d9_signal_guard {
    sigset_t before;
} d9_signal_guard;
void d9_signal_guard_begin(d9_signal_guard *guard);
void d9_signal_guard_end(const d9_signal_guard *guard);

/* Runs argv[0] from $PATH in `folder`; what it prints goes to folder/log. Not installed, or another exit
 * status than 0: D9_DATA with the last line that it printed. Interrupted: D9_SIGHUP, D9_SIGINT or
 * D9_SIGTERM. Call it inside a guard. */
D9_MUST_USE d9_status d9_process_run(d9_context *context, const d9_signal_guard *guard, const char *const *argv,
                                     const char *folder);

/* How many processors this process may use, by its affinity. */
int d9_processors(void);
/* `wanted` threads, or as many as there are processors: then with a warning. 0 stays 0. */
int d9_threads_limit(d9_context *context, int64_t wanted);

#endif
