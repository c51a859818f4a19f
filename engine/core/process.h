/* Runs another program and waits for it; an interrupt such as Ctrl-C ends the program first, so that its files can be
 * removed. Also counts the processors and threads that this process may use, and chooses its GPU. */
#pragma once

#include "core/context.h"

/* Between begin and end SIGINT, SIGTERM and, unless it is ignored, SIGHUP are blocked. When one of them arrives,
 * d9_process_run ends its program and returns the signal as its status; d9_signal_guard_check returns a pending one.
 * A signal that neither function has returned is delivered by d9_signal_guard_end. */
typedef struct d9_signal_guard {
    sigset_t before;
} d9_signal_guard;
void d9_signal_guard_begin(d9_signal_guard *guard);
void d9_signal_guard_end(const d9_signal_guard *guard);
D9_MUST_USE d9_status d9_signal_guard_check(d9_context *context);

/* Runs argv[0], found by $PATH, in `folder`; its output goes to folder/log. Returns D9_DATA if the program cannot be
 * started, exits with a status other than 0 (the message has the last line of its output) or is killed by a signal.
 * Messages leave out env and prlimit before the program's name. Returns D9_SIGHUP, D9_SIGINT or D9_SIGTERM if
 * interrupted. The kernel kills the program if this process is killed. Must be called inside a guard. */
D9_MUST_USE d9_status d9_process_run(d9_context *context, const d9_signal_guard *guard, const char *const *argv,
                                     const char *folder);

/* Runs argv (NULL-terminated), the launcher of several processes, with its output in the file `log`. A signal in
 * *context->interrupt is passed on as SIGUSR1, which launchers forward. Returns D9_OK if the program exits with 0,
 * else the status of that signal, else an exit status from 2 to 6 with the program's error line, or D9_DEVICE if it has
 * another status, was killed or cannot be run. D9_OUTPUT: the log cannot be written. */
D9_MUST_USE d9_status d9_process_launch(d9_context *context, const char *const *argv, const char *log);

enum { D9_PROCESSORS_MAX = 16384 };
/* Number of processors that this process may use: those of OpenMP's places if OpenMP binds threads to places, otherwise
 * those of the affinity mask; D9_PROCESSORS_MAX if it is unknown. `allowed` (D9_PROCESSORS_MAX; NULL: not wanted)
 * receives the mask, all false if it is unknown. */
int d9_processors(bool *allowed);
/* If OpenMP has bound the calling thread to a place, lets it run on the processors of all places, and with it the
 * threads of its OpenMP regions after d9_openmp_threads_prepare, and programs that it starts. For processes that share
 * processors: OpenMP would bind the threads of each to the same places. GNU OpenMP binds
 * threads that it starts later, because a region before had fewer; clang's binds the calling thread again in its next
 * region. OMP_PROC_BIND=false prevents both. */
void d9_processors_unbind(void);
/* Returns `wanted` (0, the default number, stays 0), or the number of processors, with a warning, if that is smaller.
 * Also warns if `sharers` processes with `wanted` threads each have more threads than there are processors. */
int d9_threads_limit(d9_context *context, int64_t wanted, int sharers);
/* Sets *given to the number of threads, at most `wanted`, of the calling thread's OpenMP regions: OMP_THREAD_LIMIT and
 * OMP_MAX_ACTIVE_LEVELS may allow fewer. Switches OMP_DYNAMIC off, because it lets the number change from region
 * to region. D9_DEVICE if the system refuses the threads, because OpenMP would then end the process, or if their
 * stacks (OMP_STACKSIZE) are too small. */
D9_MUST_USE d9_status d9_openmp_threads_prepare(d9_context *context, int wanted, int *given);

/* ---- the GPU of a process, if several processes of a host use one each ---- */
/* True if `name` is a GPU's number, or its UUID as CUDA accepts it: "GPU-8f6c2d31", "MIG-...". */
bool d9_gpu_is_name(const char *name);

/* Sets CUDA_VISIBLE_DEVICES to one GPU; CUDA reads the variable when the device is opened. If a scheduler has set the
 * variable, a number is an index, from 0, into its entries, and a UUID must match an entry unless the entries are
 * numbers. Returns D9_DEVICE if no entry fits. */
D9_MUST_USE d9_status d9_gpu_choose(d9_context *context, const char *name);
