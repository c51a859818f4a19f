/* Output about many runs: the plan, a line per ended run, the state of all runs, the summary.
 *
 *     short: 3 arms x 2 seeds = 6 runs, 1 done before
 *      2/6  celu  seed 1  93.10%, with TTA 93.40%  12.3 s  about 0:49 left
 *     so far     1 of 2 changes has a clear effect: ...    (after each further seed)
 *     runs       6 of 6 done
 *     verdict    2 of 2 changes have a clear effect: ...
 *     record     runs/short
 *     report     dawn9 report runs/short */
#include "cli/help.h"
#include "cli/runs.h"
#include "core/system.h"
#include "record/effective.h"
#include "report/report.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- counting and names ---- */

typedef struct tally {
    int64_t counts[D9_RUN_DONE + 1]; /* number of runs in each state, indexed by d9_run_kind */
    int64_t without_model;           /* number of runs whose state has without_model */
    int64_t failed_here;             /* number of failed runs; with --shard, of this shard */
    int64_t failed_index;            /* the first of them; -1: none */
    d9_run_state failed;             /* its state */
} tally;

/* Counts the runs by state, and calls `show` (may be NULL) for each, with `rows`. Skips waiting runs of a search,
 * because most of them will not be trained. */
static d9_status count_states(const d9_runs *runs, tally *tally,
                              void (*show)(const d9_runs *runs, int64_t index, const d9_run_state *state, json_t *rows),
                              json_t *rows) {
    d9_status status = D9_OK;
    *tally = (struct tally){.failed_index = -1};
    D9_TRY(d9_experiment_update_seen(&runs->cli->context, runs->experiment, runs->out, runs->seen));
    for (int64_t i = 0; i < runs->count; i++) {
        d9_run_state state;
        if (d9_runs_is_search(runs) && runs->seen[i].kind == D9_RUN_WAITING) continue;
        D9_TRY(d9_run_read_state(&runs->cli->context, runs->experiment, runs->out, i, &state));
        tally->counts[state.kind]++;
        tally->without_model += state.without_model;
        if (show) show(runs, i, &state, rows);
        if (state.kind != D9_RUN_FAILED || !d9_work_has(&runs->work, i) || tally->failed_here++ > 0) continue;
        tally->failed_index = i;
        tally->failed = state;
    }
done:
    return status;
}

/* Number of runs, one per arm and seed, whose folder has a result.json. The files are not read. */
static int64_t count_results(const d9_runs *runs) {
    d9_context quiet = runs->cli->context;
    int64_t found = 0;
    for (int64_t i = 0; i < runs->count; i++) {
        char folder[D9_RUN_FOLDER_BYTES], path[D9_RUN_FOLDER_BYTES + 16];
        if (d9_experiment_folder(&quiet, runs->experiment, runs->out, i, folder) != D9_OK) continue;
        snprintf(path, sizeof path, "%s/result.json", folder);
        found += d9_file_exists(&quiet, path);
    }
    return found;
}

enum { NAME_LEAST = 12, NAME_MOST = 120, LEFT_COLUMNS = 20 };

/* Width of the column of arm names: that of the longest name, but at most NAME_MOST, and at most the width that is left
 * on the terminal beside `others` columns or NAME_LEAST, whichever is larger. */
static int name_width(const d9_runs *runs, int others) {
    const d9_experiment *experiment = runs->experiment;
    const int columns = d9_cli_columns(runs->cli), rest = columns > others + NAME_LEAST ? columns - others : NAME_LEAST;
    int width = 0;
    for (int i = 0; i < experiment->arm_count; i++) {
        int length = (int)strlen(experiment->arms[i].name);
        if (length > width) width = length;
    }
    const int most = rest < NAME_MOST ? rest : NAME_MOST;
    return width > most ? most : width;
}

typedef char short_text[128];
/* Removes the middle of a name that is too long, because arms of a grid differ at the end: "crop,tra..ochs=1.5". */
static const char *shorten(const char *name, int width, short_text text) {
    const int length = (int)strlen(name), end = (width - 2) / 2;
    if (length <= width)
        snprintf(text, sizeof(short_text), "%s", name);
    else
        snprintf(text, sizeof(short_text), "%.*s..%s", width - 2 - end, name, name + length - end);
    return text;
}

/* Prints title, trials, rungs and share of promoted trials of a search, without a line break. */
static void print_search_size(const d9_runs *runs) {
    const d9_search *search = &runs->experiment->search;
    d9_cli_print(runs->cli, "%s: a search of %lld trial%s, rungs of ", runs->experiment->title,
                 (long long)search->trials, d9_text_plural(search->trials));
    for (int i = 0; i < search->rung_count; i++) d9_cli_print(runs->cli, "%s%.10g", i ? ", " : "", search->rungs[i]);
    d9_cli_print(runs->cli, " %s%s, the best 1/%lld promoted", search->by_seeds ? "seed" : "epoch",
                 search->rung_count == 1 && search->rungs[0] == 1 ? "" : "s", (long long)search->eta);
}

static void print_size(const d9_runs *runs) {
    const d9_experiment *experiment = runs->experiment;
    if (d9_runs_is_search(runs)) {
        print_search_size(runs);
        return;
    }
    d9_cli_print(runs->cli, "%s: %d arm%s x %d seed%s = %lld run%s", experiment->title, experiment->arm_count,
                 d9_text_plural(experiment->arm_count), experiment->seed_count, d9_text_plural(experiment->seed_count),
                 (long long)runs->count, d9_text_plural(runs->count));
    int64_t own = 0;
    for (int64_t i = 0; i < runs->count; i++) own += d9_experiment_run_is_trained(experiment, i);
    if (own < runs->count)
        d9_cli_print(runs->cli, ", %lld trained: arms with identical configurations share runs", (long long)own);
    if (runs->work.shards > 1)
        d9_cli_print(runs->cli, ", shard %lld of %lld", (long long)runs->work.shard + 1, (long long)runs->work.shards);
}

static const char *arm_name(const d9_runs *runs, int64_t index) {
    return d9_experiment_arm(runs->experiment, index)->name;
}

static long long seed_of(const d9_runs *runs, int64_t index) { return d9_experiment_seed(runs->experiment, index); }

/* Prints the progress of a search and, with `next`, the next run; nothing if the experiment is no search. */
static d9_status show_search(const d9_runs *runs, bool next) {
    d9_status status = D9_OK;
    const d9_experiment *experiment = runs->experiment;
    const d9_search *search = &experiment->search;
    d9_search_progress progress;
    int64_t index;
    if (!d9_runs_is_search(runs)) return D9_OK;
    D9_TRY(d9_experiment_update_seen(&runs->cli->context, experiment, runs->out, runs->seen));
    D9_TRY(d9_experiment_next(&runs->cli->context, experiment, runs->seen, &index));
    d9_search_compute_progress(experiment, runs->seen, &progress);
    d9_cli_print(runs->cli, "search     %lld of %lld trials begun, %lld failed, finished by rung ",
                 (long long)progress.begun, (long long)search->trials, (long long)progress.failed);
    for (int i = 0; i < search->rung_count; i++)
        d9_cli_print(runs->cli, "%s%lld", i ? ", " : "", (long long)progress.finished[i]);
    d9_cli_print(runs->cli, "; %.4g", progress.teraflop);
    if (search->teraflop > 0) d9_cli_print(runs->cli, " of %.4g", search->teraflop);
    d9_cli_print(runs->cli, " TFLOP, %.2g", progress.hours);
    if (search->hours > 0) d9_cli_print(runs->cli, " of %.4g", search->hours);
    d9_cli_print(runs->cli, " hours%s\n", progress.over ? ": the budget is spent" : "");
    if (next && index >= 0)
        d9_cli_print(runs->cli, "next       %s seed %lld\n", d9_experiment_arm(experiment, index)->name,
                     (long long)d9_experiment_seed(experiment, index));
done:
    return status;
}

/* ---- the plan ---- */

/* Prints the edits shared by all arms (`shared`), one per line, or those of a single arm, on its line. */
static d9_status print_edits(const d9_runs *runs, const d9_config_edits *edits, bool shared) {
    d9_status status = D9_OK;
    const char *heading = "all arms";
    for (int i = 0; i < edits->count && status == D9_OK; i++) {
        d9_text text;
        if (edits->items[i].shared != shared) continue;
        d9_text_init(&runs->cli->context, &text);
        d9_config_edit_write(&edits->items[i], &text);
        if (shared)
            d9_cli_print(runs->cli, "%s %s\n", heading, d9_text_get(&text));
        else
            d9_cli_print(runs->cli, " %s", d9_text_get(&text));
        heading = "       ";
        status = d9_text_status(&text);
        d9_text_free(&text);
    }
    return status;
}

d9_status d9_runs_show_plan(const d9_runs *runs) {
    d9_status status = D9_OK;
    const d9_experiment *experiment = runs->experiment;
    json_t *object;
    if (runs->options->json) {
        D9_TRY(d9_experiment_json(&runs->cli->context, experiment, &object));
        for (int64_t i = runs->count; i-- > 0;)
            if (!d9_work_has(&runs->work, i)) json_array_remove(json_object_get(object, "runs"), (size_t)i);
        d9_cli_print_json(runs->cli, object);
        goto done;
    }
    print_size(runs);
    d9_cli_print(runs->cli, ", into %s\n", runs->out);
    if (experiment->question) d9_cli_print(runs->cli, "%s\n", experiment->question);
    D9_TRY(print_edits(runs, &experiment->arms[0].edits, true));
    for (int i = 0; i < experiment->arm_count; i++) {
        const d9_arm *arm = &experiment->arms[i];
        d9_cli_print(runs->cli, "%-*s  %.8s  %s", name_width(runs, 0), arm->name, arm->config_hash, arm->config->path);
        D9_TRY(print_edits(runs, &arm->edits, false));
        if (arm->baseline) d9_cli_print(runs->cli, "  (against %s)", arm->baseline);
        if (arm->rejected) d9_cli_print(runs->cli, "  (rejected: %s)", arm->rejected);
        if (arm->runs_of != i) d9_cli_print(runs->cli, "  (the runs of %s)", experiment->arms[arm->runs_of].name);
        d9_cli_print(runs->cli, "\n");
    }
    d9_cli_print(runs->cli, "seeds");
    for (int i = 0; i < experiment->seed_count; i++) d9_cli_print(runs->cli, " %lld", (long long)experiment->seeds[i]);
    d9_cli_print(runs->cli, "\n");
    D9_TRY(d9_runs_show_work(runs));
    D9_TRY(show_search(runs, true));
done:
    return status;
}

/* ---- state ---- */

static const d9_run_kind kinds[] = {D9_RUN_DONE, D9_RUN_RUNNING, D9_RUN_FAILED, D9_RUN_STOPPED, D9_RUN_WAITING};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Formats the scores of a finished run. Returns the number of characters. */
static int format_scores(const d9_run_state *state, char *text, size_t size) {
    const d9_score_text plain = d9_measure_format(state->measure, state->score),
                        tta = d9_measure_format(state->measure, state->score_tta);
    return state->views == 1 ? snprintf(text, size, "%7s", plain.text)
                             : snprintf(text, size, "%7s, with TTA %7s", plain.text, tta.text);
}

static void print_state(const d9_runs *runs, int64_t index, const d9_run_state *state, json_t *rows) {
    (void)rows;
    if (state->kind == D9_RUN_WAITING) return;
    char scores[112];
    short_text name;
    const int others = (int)strlen("  seed 123  ") + format_scores(state, scores, sizeof scores),
              width = name_width(runs, others);
    d9_cli_print(runs->cli, "%-*s  seed %-3lld  ", width, shorten(arm_name(runs, index), width, name),
                 seed_of(runs, index));
    if (state->kind == D9_RUN_DONE)
        d9_cli_print(runs->cli, "%s\n", scores);
    else
        d9_cli_print(runs->cli, "%s%s%s\n", d9_run_kind_name(state->kind), state->kind == D9_RUN_FAILED ? ": " : "",
                     state->kind == D9_RUN_FAILED ? state->message : "");
}

static void add_state(const d9_runs *runs, int64_t index, const d9_run_state *state, json_t *rows) {
    json_t *object = json_pack("{s:s, s:I, s:s}", "arm", arm_name(runs, index), "seed",
                               (json_int_t)seed_of(runs, index), "state", d9_run_kind_name(state->kind));
    d9_scores_set(object, state->measure, (int)state->views, state->score, state->score_tta);
    json_object_set_new(object, "train_seconds", d9_json_number(state->train_seconds));
    if (state->kind == D9_RUN_FAILED)
        json_object_set_new(object, "message", d9_cli_json_text(runs->cli, state->message));
    json_array_append_new(rows, object);
}

static d9_status print_json(const d9_runs *runs, tally *tally) {
    json_t *rows = json_array();
    json_t *object = json_pack("{s:o, s:o}", "title", d9_cli_json_text(runs->cli, runs->experiment->title), "out",
                               d9_cli_json_text(runs->cli, runs->out));
    const d9_status status = count_states(runs, tally, add_state, rows);
    for (int k = 0; k < KINDS; k++)
        json_object_set_new(object, d9_run_kind_name(kinds[k]), json_integer(tally->counts[kinds[k]]));
    json_object_set_new(object, "runs", rows);
    if (status == D9_OK)
        d9_cli_print_json(runs->cli, object);
    else
        json_decref(object);
    return status;
}

/* Prints "4 of 6 done, 1 running, 1 failed", and a note if finished runs lack the model that `keep` asks for. */
static void print_tally(const d9_runs *runs, const tally *tally) {
    d9_cli_print(runs->cli, "runs       %lld", (long long)tally->counts[D9_RUN_DONE]);
    if (!d9_runs_is_search(runs)) d9_cli_print(runs->cli, " of %lld", (long long)runs->count);
    d9_cli_print(runs->cli, " done");
    for (int k = 1; k < KINDS; k++)
        if (tally->counts[kinds[k]])
            d9_cli_print(runs->cli, ", %lld %s", (long long)tally->counts[kinds[k]], d9_run_kind_name(kinds[k]));
    d9_cli_print(runs->cli, "\n");
    if (tally->without_model > 0)
        d9_cli_print(runs->cli,
                     "note       %lld finished run%s kept no model, because keep was none; delete a run's folder "
                     "(%s/runs/ARM/seedN) and repeat the command to train it again\n",
                     (long long)tally->without_model, d9_text_plural(tally->without_model), runs->out);
}

d9_status d9_runs_show_status(const d9_runs *runs) {
    tally tally;
    if (runs->options->json) return print_json(runs, &tally);
    d9_status status = count_states(runs, &tally, print_state, NULL);
    if (status == D9_OK) print_tally(runs, &tally);
    if (status == D9_OK) status = show_search(runs, true);
    return status;
}

/* ---- during training ---- */

static bool is_quiet(const d9_runs *runs) { return runs->options->quiet || runs->options->json; }

void d9_runs_show_start(const d9_runs *runs) {
    if (is_quiet(runs)) return;
    print_size(runs);
    int64_t before = count_results(runs);
    if (before > 0) d9_cli_print(runs->cli, ", %lld done before", (long long)before);
    if (runs->work.worker_count > 1) d9_cli_print(runs->cli, ", %d at a time", runs->work.worker_count);
    d9_cli_print(runs->cli, "\n");
}

/* True if runs are trained in worker processes, whose parent draws the live line. */
static bool uses_workers(const d9_runs *runs) { return runs->work.worker_count > 1 || runs->work.devices; }

/* Sets runs->open from the folders, but only at the first call and after a run has ended: reading them more often would
 * delay runs. */
static void update_open(d9_runs *runs) {
    d9_context quiet = runs->cli->context;
    int64_t ended = 0;
    for (int64_t i = 0; i < runs->count; i++) ended += runs->shared->runs[i].ended;
    if (ended == runs->ended_count) return;
    runs->ended_count = ended;
    for (int64_t i = 0; i < runs->count; i++) {
        d9_run_state state;
        runs->open[i] = d9_work_has(&runs->work, i) && d9_experiment_run_is_trained(runs->experiment, i) &&
                        d9_run_read_state(&quiet, runs->experiment, runs->out, i, &state) == D9_OK &&
                        state.kind != D9_RUN_DONE && state.kind != D9_RUN_FAILED;
    }
}

/* Operations of a run. If this command has not started it: those of a started run of the same arm; without one, the
 * mean of all started runs; if none was started, 1. */
static double operations_of(const d9_runs *runs, int64_t run) {
    const d9_arm *arm = d9_experiment_arm(runs->experiment, run);
    double sum = 0;
    int64_t known = 0;
    if (runs->shared->runs[run].operations > 0) return runs->shared->runs[run].operations;
    for (int64_t i = 0; i < runs->count; i++) {
        const double other = runs->shared->runs[i].operations;
        if (other > 0 && d9_experiment_arm(runs->experiment, i) == arm) return other;
        sum += other;
        known += other > 0;
    }
    return known ? sum / (double)known : 1;
}

/* Writes "about 3:20 left", extrapolated from the operations that this command has done, and returns `text`. Writes ""
 * in a search, whose runs are not known in advance; if no operations are done or left; and during the first 2 seconds
 * unless a run has ended. */
static const char *format_time_left(const d9_runs *runs, char text[48]) {
    enum { SECONDS_LEAST = 2 };
    double computed = 0, left = 0;
    char duration[24];
    const double seconds = d9_clock_now() - runs->began;
    for (int64_t i = 0; i < runs->count; i++) {
        const d9_runs_progress progress = runs->shared->runs[i];
        computed += operations_of(runs, i) * (progress.done - progress.first);
        if (runs->open[i] && !progress.ended) left += operations_of(runs, i) * (1 - progress.done);
    }
    text[0] = 0;
    if (d9_runs_is_search(runs) || left == 0 || computed <= 0 || (runs->ended_count == 0 && seconds < SECONDS_LEAST))
        return text;
    d9_duration_format(left * seconds / computed, duration, sizeof duration);
    snprintf(text, 48, "about %s left", duration);
    return text;
}

static void update_progress(const d9_runs *runs, int64_t index, const d9_program *program, int64_t step) {
    const d9_config *config = d9_experiment_arm(runs->experiment, index)->config;
    d9_runs_progress *progress = &runs->shared->runs[index];
    if (progress->done == 0) {
        progress->operations = d9_operations_left(program, config, 0);
        progress->first =
            1 - d9_operations_left(program, config, d9_program_step_before(program, step)) / progress->operations;
    }
    progress->done = 1 - d9_operations_left(program, config, step) / progress->operations;
}

/* Records the progress of a run. Shows it on a terminal unless this is a worker, whose parent shows all runs. */
static void on_step(void *user, int64_t index, const d9_program *program, int64_t step, double loss) {
    d9_runs *runs = user;
    char text[200], loss_text[32] = "", left[48];
    const double now = d9_clock_now();
    if (now - runs->live.drawn_at < 0.2 && runs->shared->runs[index].done > 0) return;
    runs->live.drawn_at = now;
    update_progress(runs, index, program, step);
    if (!runs->cli->terminal || uses_workers(runs)) return;
    if (isfinite(loss)) snprintf(loss_text, sizeof loss_text, "  loss %.4f", loss);
    format_time_left(runs, left);
    snprintf(text, sizeof text, "%s%sepoch %lld/%lld  %.60s seed %lld%s", left, *left ? ": " : "",
             (long long)d9_program_epochs_begun(program, step),
             (long long)d9_program_epochs_begun(program, program->steps), arm_name(runs, index), seed_of(runs, index),
             loss_text);
    d9_live_line_show(&runs->live, text);
}

/* Shows "about 3:20 left: flip seed 1 45%, celu seed 1 12%". */
static void on_waiting(void *user) {
    d9_runs *runs = user;
    char text[512], left[48];
    const double now = d9_clock_now();
    if (now - runs->live.drawn_at < 1) return;
    runs->live.drawn_at = now;
    update_open(runs);
    const int begins = snprintf(text, sizeof text, "%s", format_time_left(runs, left));
    int used = begins;
    for (int64_t i = 0; i < runs->count && used < (int)sizeof text - 128; i++) {
        const d9_runs_progress progress = runs->shared->runs[i];
        short_text name;
        if (progress.done == 0 || progress.ended) continue;
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%s seed %lld %.0f%%",
                         used > begins ? ", "
                         : begins > 0  ? ": "
                                       : "",
                         shorten(arm_name(runs, i), 20, name), seed_of(runs, i), 100 * progress.done);
    }
    if (used > begins) d9_live_line_show(&runs->live, text);
}

/* Columns that a worker erases before it prints, because its parent may have drawn a live line; 0 without workers. */
static int columns_to_erase(const d9_runs *runs) {
    return runs->cli->terminal && uses_workers(runs) ? d9_cli_columns(runs->cli) - 1 : 0;
}

/* Prints the line of an ended run with a single write, because several workers share the screen. */
static void print_run(const d9_runs *runs, int64_t index, const d9_run_state *state, double seconds) {
    char scores[112], figures[1100], left[48] = "", of[24] = "";
    const int64_t done = count_results(runs);
    const int others = (int)strlen("1234/1234    seed 123    12345.7 s") + format_scores(state, scores, sizeof scores);
    const int width = name_width(runs, others);
    snprintf(figures, sizeof figures, "%s  %7.1f s", scores, seconds);
    if (state->kind == D9_RUN_FAILED) snprintf(figures, sizeof figures, "failed: %s", state->message);
    short_text name;
    if (state->kind == D9_RUN_DONE && width + others + LEFT_COLUMNS < d9_cli_columns(runs->cli))
        format_time_left(runs, left);
    if (!d9_runs_is_search(runs)) snprintf(of, sizeof of, "/%lld", (long long)runs->count);
    d9_cli_print(runs->cli,
                 columns_to_erase(runs) ? "\r%*s\r%4lld%s  %-*s  seed %-3lld  %s%s%s\n"
                                        : "%*s%4lld%s  %-*s  seed %-3lld  %s%s%s\n",
                 columns_to_erase(runs), "", (long long)done, of, width, shorten(arm_name(runs, index), width, name),
                 seed_of(runs, index), figures, *left ? "  " : "", left);
}

/* Prints the report's verdict on the finished runs, after `head`; nothing if the folder cannot be read. */
static d9_status print_verdict(const d9_runs *runs, const char *head) {
    d9_context quiet = runs->cli->context;
    d9_report *report = NULL;
    d9_text text, verdict;
    if (d9_report_read(&quiet, runs->out, &report) != D9_OK) return D9_OK;
    d9_text_init(&runs->cli->context, &text);
    d9_text_init(&runs->cli->context, &verdict);
    d9_text_add_escaped(&verdict, report->verdict); /* labels come from files */
    if (columns_to_erase(runs)) d9_text_add(&text, "\r%*s\r", columns_to_erase(runs), "");
    d9_text_add(&text, "%-11s", head);
    d9_wrap(d9_text_get(&verdict), 11, 11, d9_help_width(runs->cli), &text);
    d9_text_free_part(&verdict, &text);
    d9_report_free(&quiet, report);
    return d9_cli_print_text(runs->cli, &text);
}

/* Prints the verdict each time the mean number of finished runs per arm reaches 2 (intervals need two seeds), 3, and so
 * on; but not after the last run, for a single arm or in a search. */
static void print_so_far(d9_runs *runs) {
    const int64_t done = count_results(runs), arms = runs->experiment->arm_count, seeds = done / arms;
    if (d9_runs_is_search(runs) || arms < 2 || seeds < 2 || done == runs->count || seeds <= runs->shared->reported)
        return;
    runs->shared->reported = seeds;
    if (print_verdict(runs, "so far") != D9_OK) runs->cli->output_error = ENOMEM;
}

static void on_run(void *user, int64_t index, const d9_run_state *state, double seconds) {
    d9_runs *runs = user;
    d9_runs_progress *progress = &runs->shared->runs[index];
    progress->ended = true;
    if (state->kind == D9_RUN_DONE && progress->done > 0) progress->done = 1;
    update_open(runs);
    d9_live_line_clear(&runs->live);
    print_run(runs, index, state, seconds);
    print_so_far(runs);
}

d9_work_observer d9_runs_observer(d9_runs *runs) {
    if (is_quiet(runs)) return (d9_work_observer){0};
    update_open(runs);
    return (d9_work_observer){
        .user = runs, .step = on_step, .run = on_run, .waiting = runs->cli->terminal ? on_waiting : NULL};
}

/* ---- summary ---- */

d9_status d9_runs_show_end(const d9_runs *runs) {
    d9_status status;
    tally tally;
    D9_TRY(runs->options->json ? print_json(runs, &tally) : count_states(runs, &tally, NULL, NULL));
    if (!runs->options->json) {
        print_tally(runs, &tally);
        D9_TRY(show_search(runs, false));
        D9_TRY(print_verdict(runs, "verdict"));
        d9_cli_print(runs->cli, "record     %s\n", runs->out);
        if (tally.counts[D9_RUN_DONE] > 0) d9_cli_print_next(runs->cli, "report", runs->out);
    }
    if (tally.failed_index >= 0 &&
        !(d9_runs_is_search(runs) && tally.counts[D9_RUN_DONE] > 0)) /* trials of a search may fail */
        status =
            d9_fail(&runs->cli->context, tally.failed.failure,
                    "%lld of %lld runs failed (--status lists them, --retry trains them again), first %s seed %lld: %s",
                    (long long)tally.failed_here, (long long)runs->count, arm_name(runs, tally.failed_index),
                    seed_of(runs, tally.failed_index), tally.failed.message);
done:
    return status;
}
