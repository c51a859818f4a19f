/* Predicts the time of an experiment: three timed steps of its first arm, and the operations of the other arms. */
#include "cli/runs.h"
#include "core/system.h"
#include "graph/passes.h"
#include "build/build.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 3 };

/* Operations of one run with its evaluations. NAN: its program cannot be built. */
static double operations(d9_context *context, const d9_config *config) {
    d9_program program = {0};
    d9_extent extent;
    bool counted;
    double found = NAN;
    if (d9_config_extent(context, config, &extent, &counted) == D9_OK &&
        d9_program_build(context, config, &extent, d9_precision_find("f32"), &(d9_program_options){.seed = 1},
                         &program) == D9_OK)
        found = d9_operations_left(&program, config, 0);
    d9_program_free(context, &program);
    return found;
}

/* Runs `count` steps from `*step` on and advances it. `batches`: receives the number of batches. */
static d9_status run_steps(d9_session *session, int count, int64_t *step, int64_t *batches) {
    d9_status status = D9_OK;
    *batches = 0;
    for (int i = 0; i < count; i++) {
        if (*step == session->program.steps) *step = 0; /* starts over at the end of a short run */
        D9_TRY(d9_session_check_interrupt(session, "the first steps"));
        if (*step % session->program.steps_per_epoch == 0) D9_TRY(d9_session_begin_epoch(session, *step));
        D9_TRY(d9_session_step(session, *step));
        *batches += d9_program_batches(&session->program, *step);
        *step += d9_program_batches(&session->program, *step);
    }
    D9_TRY(session->backend->sync(session->context, session->device));
done:
    return status;
}

/* Predicts the seconds of one run of this configuration from STEPS timed steps. */
static d9_status predict_run(d9_context *context, const d9_runs *runs, const d9_config *config, double *seconds) {
    d9_status status;
    d9_session session = {0};
    int64_t step = 0, batches;
    const d9_session_options options = {
        .config = config, .seed = (uint64_t)config->seed, .no_eval = true, .interrupt = runs->cli->interrupt};
    D9_TRY(d9_session_open(context, &options, &session));
    D9_TRY(d9_session_initialize(&session));
    D9_TRY(run_steps(&session, 1, &step, &batches)); /* not timed: touches all memory for the first time */
    const double start = d9_clock_now();
    D9_TRY(run_steps(&session, STEPS, &step, &batches));
    *seconds = d9_seconds_left(&session.program, config, 0, (d9_clock_now() - start) / (double)batches);
done:
    if (session.context) d9_session_close(&session);
    return status;
}

/* Number of runs to be trained for an arm (NULL: for all arms): those not done, failed ones included. */
static int64_t count_left(const d9_runs *runs, d9_context *quiet, const d9_arm *arm) {
    int64_t left = 0;
    for (int64_t i = 0; i < runs->count; i++) {
        d9_run_state state;
        if (arm && d9_experiment_arm(runs->experiment, i) != arm) continue;
        if (!d9_experiment_trains(runs->experiment, i)) continue;
        left += d9_run_read_state(quiet, runs->experiment, runs->out, i, &state) != D9_OK || state.kind != D9_RUN_DONE;
    }
    return left;
}

/* Work of all runs to be trained, as a number of runs of the first arm. */
static double runs_left(const d9_runs *runs, d9_context *quiet) {
    const d9_experiment *experiment = runs->experiment;
    const double first = operations(quiet, experiment->arms[0].config);
    double all = 0;
    for (int a = 0; a < experiment->arm_count; a++) {
        const int64_t left = count_left(runs, quiet, &experiment->arms[a]);
        const double own = left > 0 ? operations(quiet, experiment->arms[a].config) : 0;
        all += (double)left * (own > 0 && first > 0 ? own / first : 1);
    }
    return all;
}

d9_status d9_runs_show_time(const d9_runs *runs) {
    char one[32], all[32];
    double seconds = NAN;
    d9_context quiet = runs->cli->context; /* if the time cannot be measured, the plan is still shown */
    d9_config config = *d9_experiment_arm(runs->experiment, 0)->config;
    if (count_left(runs, &quiet, NULL) == 0) {
        d9_cli_print(runs->cli, "time       no runs are left: %lld of %lld done\n", (long long)runs->count,
                     (long long)runs->count);
        return D9_OK;
    }
    if (runs->options->edits.data) config.data.path = runs->options->edits.data;
    if (runs->options->edits.threads.given) config.threads = runs->options->edits.threads.value;
    const d9_status status = predict_run(&quiet, runs, &config, &seconds);
    if (d9_status_is_interrupt(status)) return d9_fail(&runs->cli->context, status, "%s", quiet.message);
    if (status != D9_OK) {
        d9_cli_print(runs->cli, "time       unknown: %s\n", quiet.message);
        return D9_OK;
    }
    d9_duration_format(seconds, one, sizeof one);
    d9_duration_format(seconds * runs_left(runs, &quiet), all, sizeof all);
    d9_cli_print(runs->cli,
                 "time       about %s for all remaining runs, one at a time; %s for one of %s, by its first steps\n",
                 all, one, d9_experiment_arm(runs->experiment, 0)->name);
    return D9_OK;
}
