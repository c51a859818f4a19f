/* The work of an experiment: counted from its configurations. With --time, some steps of the first arm are timed, and
 * the time of other arms follows from their operations. */
#include "cli/runs.h"
#include "core/system.h"

typedef struct work {
    double runs, steps;
    double operations; /* additions and multiplications, also of evaluations; NAN: not known */
    bool counted;      /* false: the number of images is assumed, because those of a folder are not counted yet, or the
                          operations of an arm are unknown; steps and operations then only serve to compare arms */
} work;

/* Work of one run. Its operations are NAN if its program cannot be built. */
static work work_of(d9_context *context, const d9_config *config) {
    d9_program program = {0};
    d9_extent extent;
    work found = {.runs = 1, .operations = NAN};
    if (d9_config_extent(context, config, &extent, &found.counted) == D9_OK &&
        d9_program_build(context, config, &extent, d9_precision_find("f32"), &(d9_program_options){.seed = 1},
                         &program) == D9_OK) {
        found.operations = d9_operations_left(&program, config, 0);
        found.steps = (double)program.steps;
    }
    d9_program_free(context, &program);
    return found;
}

/* Runs the step *step, and sets *step to the next one and *seconds to the time per batch. */
static d9_status run_step(d9_session *session, int64_t *step, double *seconds) {
    d9_status status;
    const double start = d9_clock_now();
    if (*step == session->program.steps) *step = 0; /* starts over at the end of a short run */
    const int64_t batches = d9_program_batches(&session->program, *step);
    D9_TRY(d9_session_check_interrupt(session, "the first steps"));
    if (*step % session->program.steps_per_epoch == 0) D9_TRY(d9_session_begin_epoch(session, *step));
    D9_TRY(d9_session_step(session, *step));
    D9_TRY(session->backend->sync(session->context, session->device));
    *step += batches;
    *seconds = (d9_clock_now() - start) / (double)batches;
done:
    return status;
}

/* Predicts the seconds of one run of this configuration from D9_TIMED_STEPS timed steps. */
static d9_status predict_run(d9_context *context, const d9_config *config, d9_time_range *seconds) {
    d9_status status;
    d9_session session = {0};
    int64_t step = 0;
    double timed[D9_TIMED_STEPS];
    const d9_session_options options = {.config = config, .seed = (uint64_t)config->seed, .no_eval = true};
    D9_TRY(d9_session_open(context, &options, &session));
    D9_TRY(d9_session_initialize(&session));
    D9_TRY(run_step(&session, &step, timed)); /* warms up: it touches all memory for the first time; not counted */
    for (int i = 0; i < D9_TIMED_STEPS; i++) D9_TRY(run_step(&session, &step, &timed[i]));
    *seconds =
        d9_time_range_scale(d9_time_range_of(timed, D9_TIMED_STEPS), d9_seconds_left(&session.program, config, 0, 1));
done:
    if (session.context) d9_session_close(&session);
    return status;
}

/* Sets *left to the number of runs of an arm that are to be trained; in a search to the expected number. Fails, as
 * training would, if the state of a run cannot be read. */
static d9_status count_left(const d9_runs *runs, const d9_arm *arm, double *left) {
    d9_status status = D9_OK;
    *left = 0;
    for (int64_t i = 0; i < runs->count; i++) {
        bool is_left, running;
        if (d9_experiment_arm(runs->experiment, i) != arm) continue;
        D9_TRY(d9_runs_check_left(runs, &runs->cli->context, &runs->work, i, &is_left, &running));
        *left += is_left ? d9_experiment_planned_share(runs->experiment, i) : 0;
    }
done:
    return status;
}

/* Sets *over if a search selects no run any more and none is being trained: trials that are planned for a rung need not
 * enter it, because some failed or the budget is spent. Not over if --retry has failed runs to train again. */
static d9_status check_over(const d9_runs *runs, bool *over) {
    d9_status status;
    d9_context *context = &runs->cli->context;
    d9_search_progress progress;
    int64_t next;
    D9_TRY(d9_experiment_update_seen(context, runs->experiment, runs->out, runs->seen));
    D9_TRY(d9_experiment_next(context, runs->experiment, runs->seen, &next));
    d9_search_compute_progress(runs->experiment, runs->seen, &progress);
    *over = next < 0 && !(runs->options->retry && progress.failed > 0);
    for (int64_t i = 0; i < runs->count; i++) *over = *over && runs->seen[i].kind != D9_RUN_RUNNING;
done:
    return status;
}

/* Adds up the work of all runs to be trained. An arm with unknown operations is counted with those of the first arm. */
static d9_status add_up_work(const d9_runs *runs, const work *first, work *all) {
    d9_status status = D9_OK;
    const d9_experiment *experiment = runs->experiment;
    d9_context quiet = runs->cli->context;
    bool over = false;
    *all = (work){.counted = true};
    if (d9_runs_is_search(runs)) D9_TRY(check_over(runs, &over));
    if (over) goto done;
    for (int a = 0; a < experiment->arm_count; a++) {
        double left;
        D9_TRY(count_left(runs, &experiment->arms[a], &left));
        if (left == 0) continue;
        const work own = work_of(&quiet, experiment->arms[a].config);
        all->runs += left;
        all->steps += left * own.steps;
        all->operations += left * (own.operations > 0 ? own.operations : first->operations);
        all->counted = all->counted && own.counted && own.operations > 0;
    }
done:
    return status;
}

/* Prints the predicted time of all remaining runs (`all`) and of one run of the first arm (`first`). */
static d9_status show_time(const d9_runs *runs, const work *first, const work *all) {
    char one_text[80], all_text[80];
    d9_time_range seconds;
    d9_context quiet = runs->cli->context; /* if the time cannot be measured, the plan is still shown */
    d9_config config = *d9_experiment_arm(runs->experiment, 0)->config;
    if (runs->options->edits.data) config.data.path = runs->options->edits.data;
    if (runs->options->edits.threads.given) config.threads = runs->options->edits.threads.value;
    const d9_status status = predict_run(&quiet, &config, &seconds);
    if (d9_status_is_interrupt(status)) return d9_fail(&runs->cli->context, status, "%s", quiet.message);
    if (status != D9_OK) {
        d9_cli_print(runs->cli, "time       unknown: %s\n", quiet.message);
        return D9_OK;
    }
    const double ratio = first->operations > 0 ? all->operations / first->operations : all->runs;
    d9_time_range_format(seconds, one_text, sizeof one_text);
    d9_time_range_format(d9_time_range_scale(seconds, ratio), all_text, sizeof all_text);
    d9_cli_print(runs->cli,
                 "time       about %s for all remaining runs, one at a time; %s for one of %s, by its first steps\n",
                 all_text, one_text, d9_experiment_arm(runs->experiment, 0)->name);
    return D9_OK;
}

d9_status d9_runs_show_work(const d9_runs *runs) {
    d9_status status;
    d9_context quiet = runs->cli->context;
    const work first = work_of(&quiet, runs->experiment->arms[0].config);
    work all;
    int64_t count = 0;
    D9_TRY(add_up_work(runs, &first, &all));
    for (int64_t i = 0; i < runs->count; i++) count += d9_work_has(&runs->work, i);
    const int64_t about = llround(fmax(all.runs, 1)); /* shares of runs may sum to less than one */
    if (!d9_runs_is_search(runs))
        d9_cli_print(runs->cli, "work       %.0f of %lld run%s left", all.runs, (long long)count,
                     d9_text_plural(count));
    else if (all.runs == 0)
        d9_cli_print(runs->cli, "work       0 runs left");
    else
        d9_cli_print(runs->cli, "work       about %lld run%s left if none fails", (long long)about,
                     d9_text_plural(about));
    if (all.runs > 0 && all.counted)
        d9_cli_print(runs->cli, all.operations < 1e13 ? ", %.0f steps, %.2g TFLOP" : ", %.0f steps, %.0f TFLOP",
                     all.steps, 1e-12 * all.operations);
    d9_cli_print(runs->cli, "%s\n",
                 all.runs > 0 && !runs->options->time ? "; --time estimates how long they take" : "");
    if (all.runs > 0 && runs->options->time) status = show_time(runs, &first, &all);
done:
    return status;
}
