/* What is printed of many runs: the plan, a line for each finished run, the state of all, the end.
 *
 *     short: 3 arms x 2 seeds = 6 runs, 1 done before
 *      2/6  celu  seed 1  93.10%, with TTA 93.40%  12.3 s  about 0:49 left
 *     runs       6 of 6 done
 *     record     runs/short
 *     report     dawn9 report runs/short */
#include "cli/batch.h"
#include "core/system.h"
#include "record/effective.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- counting ---- */

typedef struct tally {
    int64_t of[D9_RUN_DONE + 1];
    int64_t failed_index; /* the first; -1: none */
    d9_run_state failed;
} tally;

static d9_status count(const d9_batch *batch, tally *tally) {
    d9_status status = D9_OK;
    *tally = (struct tally){.failed_index = -1};
    for (int64_t i = 0; i < batch->runs; i++) {
        d9_run_state state;
        D9_TRY(d9_run_look(&batch->cli->context, batch->experiment, batch->out, i, &state));
        tally->of[state.kind]++;
        if (state.kind != D9_RUN_FAILED || tally->failed_index >= 0) continue;
        tally->failed_index = i;
        tally->failed = state;
    }
done:
    return status;
}

/* How many runs have a file of this name in their folder. The files are not read. */
static int64_t count_with(const d9_batch *batch, const char *name) {
    d9_context quiet = batch->cli->context;
    int64_t found = 0;
    for (int64_t i = 0; i < batch->runs; i++) {
        char folder[D9_RUN_FOLDER_BYTES], path[D9_RUN_FOLDER_BYTES + 16];
        if (d9_experiment_folder(&quiet, batch->experiment, batch->out, i, folder) != D9_OK) continue;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        found += d9_file_exists(&quiet, path);
    }
    return found;
}

/* The widest name of an arm. */
static int name_width(const d9_experiment *experiment) {
    int width = 0;
    for (int i = 0; i < experiment->arm_count; i++) {
        int length = (int)strlen(experiment->arms[i].name);
        if (length > width) width = length;
    }
    return width > 60 ? 60 : width;
}

static const char *plural(int64_t count) { return count == 1 ? "" : "s"; }

static void print_size(const d9_batch *batch) {
    const d9_experiment *experiment = batch->experiment;
    d9_cli_print(batch->cli, "%s: %d arm%s x %d seed%s = %lld run%s", experiment->title, experiment->arm_count,
                 plural(experiment->arm_count), experiment->seed_count, plural(experiment->seed_count),
                 (long long)batch->runs, plural(batch->runs));
}

/* ---- the plan ---- */

static void plan_json(const d9_batch *batch) {
    json_t *object = NULL;
    if (d9_experiment_json(&batch->cli->context, batch->experiment, &object) != D9_OK) object = NULL;
    d9_cli_print_json(batch->cli, object);
}

void d9_batch_show_plan(const d9_batch *batch) {
    const d9_experiment *experiment = batch->experiment;
    if (batch->options->json) {
        plan_json(batch);
        return;
    }
    print_size(batch);
    d9_cli_print(batch->cli, ", into %s\n", batch->out);
    if (experiment->question) d9_cli_print(batch->cli, "%s\n", experiment->question);
    for (int i = 0; i < experiment->shared.count; i++)
        d9_cli_print(batch->cli, "%s %s\n", i ? "       " : "all arms", experiment->shared.items[i]);
    for (int i = 0; i < experiment->arm_count; i++) {
        const d9_arm *arm = &experiment->arms[i];
        d9_cli_print(batch->cli, "%-*s  %.8s  %s", name_width(experiment), arm->name, arm->config_hash,
                     arm->config->path);
        for (int e = 0; e < arm->own.count; e++) d9_cli_print(batch->cli, " %s", arm->own.items[e]);
        d9_cli_print(batch->cli, arm->baseline ? "  (against %s)\n" : "\n", arm->baseline);
    }
    d9_cli_print(batch->cli, "seeds");
    for (int i = 0; i < experiment->seed_count; i++) d9_cli_print(batch->cli, " %lld", (long long)experiment->seeds[i]);
    d9_cli_print(batch->cli, "\n");
}

/* ---- the state of all ---- */

static void print_state(const d9_batch *batch, int64_t index, const d9_run_state *state) {
    d9_cli_print(batch->cli, "%-*s  seed %-3lld  ", name_width(batch->experiment),
                 d9_experiment_arm(batch->experiment, index)->name,
                 (long long)d9_experiment_seed(batch->experiment, index));
    if (state->kind == D9_RUN_DONE)
        d9_cli_print(batch->cli, "%6.2f%%, with TTA %6.2f%%", state->accuracy, state->accuracy_tta);
    else
        d9_cli_print(batch->cli, "%s", d9_run_kind_name(state->kind));
    if (state->kind == D9_RUN_FAILED) d9_cli_print(batch->cli, ": %s", state->message);
}

static json_t *state_json(const d9_batch *batch, int64_t index, const d9_run_state *state) {
    json_t *object =
        json_pack("{s:s, s:I, s:s, s:o, s:o, s:o}", "arm", d9_experiment_arm(batch->experiment, index)->name, "seed",
                  (json_int_t)d9_experiment_seed(batch->experiment, index), "state", d9_run_kind_name(state->kind),
                  "accuracy", d9_json_number(state->accuracy), "accuracy_tta", d9_json_number(state->accuracy_tta),
                  "train_seconds", d9_json_number(state->train_seconds));
    if (state->kind == D9_RUN_FAILED) json_object_set_new(object, "message", json_string(state->message));
    return object;
}

static d9_status print_states_json(const d9_batch *batch) {
    d9_status status = D9_OK;
    json_t *runs = json_array();
    tally tally;
    D9_TRY(count(batch, &tally));
    for (int64_t i = 0; i < batch->runs; i++) {
        d9_run_state state;
        D9_TRY(d9_run_look(&batch->cli->context, batch->experiment, batch->out, i, &state));
        json_array_append_new(runs, state_json(batch, i, &state));
    }
    d9_cli_print_json(batch->cli,
                      json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:O}", "title", batch->experiment->title, "out",
                                batch->out, "done", (json_int_t)tally.of[D9_RUN_DONE], "running",
                                (json_int_t)tally.of[D9_RUN_RUNNING], "failed", (json_int_t)tally.of[D9_RUN_FAILED],
                                "stopped", (json_int_t)tally.of[D9_RUN_STOPPED], "waiting",
                                (json_int_t)tally.of[D9_RUN_WAITING], "runs", runs));
done:
    json_decref(runs);
    return status;
}

/* "4 of 6 done, 1 running, 1 failed" */
static void print_tally(const d9_batch *batch, const tally *tally) {
    static const d9_run_kind kinds[] = {D9_RUN_RUNNING, D9_RUN_FAILED, D9_RUN_STOPPED, D9_RUN_WAITING};
    d9_cli_print(batch->cli, "runs       %lld of %lld done", (long long)tally->of[D9_RUN_DONE], (long long)batch->runs);
    for (int k = 0; k < 4; k++)
        if (tally->of[kinds[k]])
            d9_cli_print(batch->cli, ", %lld %s", (long long)tally->of[kinds[k]], d9_run_kind_name(kinds[k]));
    d9_cli_print(batch->cli, "\n");
}

d9_status d9_batch_show_status(const d9_batch *batch) {
    d9_status status = D9_OK;
    tally tally;
    if (batch->options->json) return print_states_json(batch);
    D9_TRY(count(batch, &tally));
    for (int64_t i = 0; i < batch->runs; i++) {
        d9_run_state state;
        D9_TRY(d9_run_look(&batch->cli->context, batch->experiment, batch->out, i, &state));
        if (state.kind == D9_RUN_WAITING) continue;
        print_state(batch, i, &state);
        d9_cli_print(batch->cli, "\n");
    }
    print_tally(batch, &tally);
done:
    return status;
}

/* ---- while it runs ---- */

static bool is_quiet(const d9_batch *batch) { return batch->options->quiet || batch->options->json; }

void d9_batch_show_start(const d9_batch *batch) {
    if (is_quiet(batch)) return;
    print_size(batch);
    int64_t before = count_with(batch, "result.json");
    if (before > 0) d9_cli_print(batch->cli, ", %lld done before", (long long)before);
    if (batch->work.worker_count > 1) d9_cli_print(batch->cli, ", %d at a time", batch->work.worker_count);
    if (batch->work.shards > 1)
        d9_cli_print(batch->cli, ", shard %lld of %lld", (long long)batch->work.shard + 1,
                     (long long)batch->work.shards);
    d9_cli_print(batch->cli, "\n");
}

/* Never wider than the screen: a line that has wrapped cannot be taken off again. */
static void on_step(void *user, int64_t index, const d9_program *program, int64_t step, double loss) {
    d9_batch *batch = user;
    char text[200], loss_text[32] = "";
    const double now = d9_clock_now();
    const int room = d9_cli_columns(batch->cli) - 1;
    const int64_t per_epoch = program->steps_per_epoch;
    if (now - batch->live.shown_seconds < 0.2) return;
    batch->live.shown_seconds = now;
    if (isfinite(loss)) snprintf(loss_text, sizeof loss_text, "  loss %.4f", loss);
    int width = snprintf(
        text, sizeof text, "epoch %lld/%lld  %.60s seed %lld%s", (long long)((step + per_epoch - 1) / per_epoch),
        (long long)((program->steps + per_epoch - 1) / per_epoch), d9_experiment_arm(batch->experiment, index)->name,
        (long long)d9_experiment_seed(batch->experiment, index), loss_text);
    if (width > room) width = room;
    d9_cli_print(batch->cli, "\r%.*s%*s", width, text, d9_live_line_padding(&batch->live, width), "");
    batch->live.width = width;
}

/* One write, because several workers share the screen. */
static void print_run(const d9_batch *batch, int64_t index, const d9_run_state *state, double seconds) {
    char figures[1100], left[48] = "", duration[24];
    const int64_t done = count_with(batch, "result.json"), failed = count_with(batch, "failure.json"),
                  shards = batch->work.shards, rest = (batch->runs - done - failed + shards - 1) / shards;
    snprintf(figures, sizeof figures, "%6.2f%%, with TTA %6.2f%%  %7.1f s", state->accuracy, state->accuracy_tta,
             seconds);
    if (state->kind == D9_RUN_FAILED) snprintf(figures, sizeof figures, "failed: %s", state->message);
    if (rest > 0 && state->kind == D9_RUN_DONE) {
        d9_duration_format((double)rest * batch->trained_seconds / (double)batch->trained / batch->work.worker_count,
                           duration, sizeof duration);
        snprintf(left, sizeof left, "  about %s left", duration);
    }
    d9_cli_print(batch->cli, "%4lld/%lld  %-*s  seed %-3lld  %s%s\n", (long long)done, (long long)batch->runs,
                 name_width(batch->experiment), d9_experiment_arm(batch->experiment, index)->name,
                 (long long)d9_experiment_seed(batch->experiment, index), figures, left);
}

static void on_run(void *user, int64_t index, const d9_run_state *state, double seconds) {
    d9_batch *batch = user;
    d9_live_line_clear(&batch->live);
    batch->trained++;
    batch->trained_seconds += seconds;
    print_run(batch, index, state, seconds);
}

d9_work_observer d9_batch_observer(d9_batch *batch) {
    if (is_quiet(batch)) return (d9_work_observer){0};
    const bool live = batch->cli->terminal && batch->work.worker_count == 1;
    return (d9_work_observer){.user = batch, .step = live ? on_step : NULL, .run = on_run};
}

/* ---- the end ---- */

d9_status d9_batch_show_end(const d9_batch *batch) {
    d9_status status;
    tally tally;
    D9_TRY(count(batch, &tally));
    if (batch->options->json) {
        D9_TRY(print_states_json(batch));
    } else {
        print_tally(batch, &tally);
        d9_cli_print(batch->cli, "record     %s\n", batch->out);
        if (tally.of[D9_RUN_DONE] > 0) d9_cli_print(batch->cli, "report     dawn9 report %s\n", batch->out);
    }
    if (tally.failed_index >= 0)
        status =
            d9_fail(&batch->cli->context, tally.failed.failure,
                    "%lld of %lld runs failed (--status lists them, --retry does them again), first %s seed %lld: %s",
                    (long long)tally.of[D9_RUN_FAILED], (long long)batch->runs,
                    d9_experiment_arm(batch->experiment, tally.failed_index)->name,
                    (long long)d9_experiment_seed(batch->experiment, tally.failed_index), tally.failed.message);
done:
    return status;
}
