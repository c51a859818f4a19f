/* Selects the next run of an experiment from the states of its runs on disk. Selection uses no other shared state, so
 * processes on several machines can work on one folder. Without a search: the first run that waits or was stopped.
 *
 * A search is asynchronous successive halving (Li et al. 2018, arXiv 1810.05934, algorithm 2). A trial has entered a
 * rung if one of its runs there was started, and has finished it if all are done; its score is the mean over its seeds.
 * A process selects, in this order: a run left to do in a rung that its trial has entered, the highest rung first; the
 * first run in the next rung of a trial among the best 1/eta of those that finished a rung; the first run of a new
 * trial. It does not wait until a rung is full. If the budget is used up, it only continues stopped runs. A trial with
 * a failed run is not continued; it counts only in the rungs that it finished before.
 *
 * Trials are ranked by score or, with promote: frontier, first by their layer of the frontier of score against
 * operations, then by score. A trial dominates another if its score is at least as high with at most as many
 * operations; of equal trials the first dominates. Layer 1 has the trials that none dominates, layer 2 those that only
 * trials of layer 1 dominate, and so on (as in Schmucker et al. 2021, arXiv 2106.12639). */
#include "core/system.h"
#include "experiment/experiment.h"

#include <stdlib.h>

d9_rung_runs d9_search_rung(const d9_experiment *experiment, int64_t trial, int rung) {
    const d9_search *search = &experiment->search;
    if (!search->by_seeds) return (d9_rung_runs){trial * search->rung_count + rung, 0, experiment->seed_count};
    return (d9_rung_runs){trial, rung > 0 ? (int)search->rungs[rung - 1] : 0, (int)search->rungs[rung]};
}

/* ---- states ---- */

static bool has_ended(d9_run_kind kind) { return kind == D9_RUN_DONE || kind == D9_RUN_FAILED; }

d9_run_summary d9_run_summarise(const d9_run_state *state) {
    const double score = state->views > 1 && !isnan(state->score_tta) ? state->score_tta : state->score;
    return (d9_run_summary){.kind = state->kind,
                            .rank_score = state->measure->higher_is_better ? score : -score,
                            .teraflop = isnan(state->teraflop) ? 0 : state->teraflop,
                            .seconds = isnan(state->process_seconds) ? 0 : state->process_seconds};
}

static d9_status read_seen(d9_context *context, const d9_experiment *experiment, const char *out, int64_t index,
                           d9_run_summary *seen) {
    d9_run_state state;
    if (has_ended(seen->kind)) return D9_OK;
    const d9_status status = d9_run_read_state(context, experiment, out, index, &state);
    if (status != D9_OK) return status;
    *seen = d9_run_summarise(&state);
    return D9_OK;
}

d9_status d9_experiment_update_seen(d9_context *context, const d9_experiment *experiment, const char *out,
                                    d9_run_summary *seen) {
    d9_status status = D9_OK;
    if (experiment->kind != D9_EXPERIMENT_SEARCH) return D9_OK;
    for (int64_t trial = 0; trial < experiment->search.trials; trial++) {
        bool complete = true;
        for (int rung = 0; complete && rung < experiment->search.rung_count; rung++) {
            const d9_rung_runs runs = d9_search_rung(experiment, trial, rung);
            for (int seed = runs.first; seed < runs.end; seed++) {
                const int64_t index = (int64_t)seed * experiment->arm_count + runs.arm;
                D9_TRY(read_seen(context, experiment, out, index, &seen[index]));
                complete = complete && seen[index].kind == D9_RUN_DONE;
            }
        }
    }
done:
    return status;
}

/* ---- a rung of a trial ---- */

typedef struct standing { /* the state of a trial in a rung */
    bool entered, finished, failed;
    int64_t open;      /* the first run of the rung that waits or was stopped; -1: none */
    int64_t stopped;   /* the first run of the rung that was stopped; -1: none */
    double rank_score; /* mean over the trial's seeds up to this rung */
    double teraflop;   /* mean per run */
    int layer;         /* of the frontier, from 1 */
    int64_t trial;
} standing;

static standing standing_of(const d9_experiment *experiment, const d9_run_summary *seen, int64_t trial, int rung) {
    const d9_rung_runs runs = d9_search_rung(experiment, trial, rung);
    standing found = {.finished = true, .open = -1, .stopped = -1, .trial = trial};
    for (int seed = runs.end; seed-- > 0;) { /* backwards, so that `open` and `stopped` end as the first such runs */
        const int64_t index = (int64_t)seed * experiment->arm_count + runs.arm;
        const d9_run_kind kind = seen[index].kind;
        found.rank_score += seen[index].rank_score / runs.end;
        found.teraflop += seen[index].teraflop / runs.end;
        if (seed < runs.first) continue;
        found.entered = found.entered || kind != D9_RUN_WAITING;
        found.failed = found.failed || kind == D9_RUN_FAILED;
        found.finished = found.finished && kind == D9_RUN_DONE;
        if (kind == D9_RUN_STOPPED) found.stopped = index;
        if (kind == D9_RUN_STOPPED || kind == D9_RUN_WAITING) found.open = index;
    }
    return found;
}

/* ---- order of the trials of a rung ---- */

static int by_cost(const void *a, const void *b) {
    const standing *one = a, *other = b;
    if (one->teraflop != other->teraflop) return one->teraflop < other->teraflop ? -1 : 1;
    if (one->rank_score != other->rank_score) return one->rank_score > other->rank_score ? -1 : 1;
    return one->trial < other->trial ? -1 : 1;
}

static int by_rank(const void *a, const void *b) {
    const standing *one = a, *other = b;
    if (one->layer != other->layer) return one->layer < other->layer ? -1 : 1;
    if (one->rank_score != other->rank_score) return one->rank_score > other->rank_score ? -1 : 1;
    return one->trial < other->trial ? -1 : 1;
}

/* Sorts the standings, the best first. */
static void rank_trials(const d9_search *search, standing *all, int64_t count) {
    qsort(all, (size_t)count, sizeof *all, by_cost);
    for (int64_t i = 0; i < count; i++) {
        all[i].layer = 1;
        for (int64_t j = 0; j < i && search->promote == D9_PROMOTE_FRONTIER; j++) /* j costs at most as much as i */
            if (all[j].rank_score >= all[i].rank_score && all[j].layer >= all[i].layer) all[i].layer = all[j].layer + 1;
    }
    qsort(all, (size_t)count, sizeof *all, by_rank);
}

/* The trial to promote from a rung; -1: none. `all` has space for every trial. */
static int64_t trial_to_promote(const d9_experiment *experiment, const d9_run_summary *seen, int rung, standing *all) {
    const d9_search *search = &experiment->search;
    int64_t count = 0;
    for (int64_t trial = 0; trial < search->trials; trial++) {
        const standing found = standing_of(experiment, seen, trial, rung);
        if (found.finished && !isnan(found.rank_score)) all[count++] = found;
    }
    rank_trials(search, all, count);
    for (int64_t i = 0; i < count / search->eta; i++)
        if (!standing_of(experiment, seen, all[i].trial, rung + 1).entered) return all[i].trial;
    return -1;
}

/* ---- selection ---- */

void d9_search_compute_progress(const d9_experiment *experiment, const d9_run_summary *seen,
                                d9_search_progress *progress) {
    const d9_search *search = &experiment->search;
    int64_t planned = search->trials;
    *progress = (d9_search_progress){0};
    for (int64_t i = 0; i < d9_experiment_run_count(experiment); i++) {
        if (seen[i].kind != D9_RUN_DONE || !d9_experiment_run_is_trained(experiment, i)) continue;
        progress->teraflop += seen[i].teraflop;
        progress->hours += seen[i].seconds / 3600;
    }
    for (int rung = 0; rung < search->rung_count; rung++, planned /= search->eta) {
        progress->planned[rung] = planned;
        for (int64_t trial = 0; trial < search->trials; trial++) {
            const standing found = standing_of(experiment, seen, trial, rung);
            progress->finished[rung] += found.finished;
            progress->failed += found.failed;
            progress->begun += rung == 0 && found.entered;
        }
    }
    progress->over = (search->teraflop > 0 && progress->teraflop >= search->teraflop) ||
                     (search->hours > 0 && progress->hours >= search->hours);
}

double d9_experiment_planned_share(const d9_experiment *experiment, int64_t index) {
    const d9_search *search = &experiment->search;
    const int64_t arm = index % experiment->arm_count, seed = index / experiment->arm_count;
    int64_t planned = search->trials;
    if (!d9_experiment_run_is_trained(experiment, index)) return 0;
    if (experiment->kind != D9_EXPERIMENT_SEARCH) return 1;
    int rung = search->by_seeds ? 0 : (int)(arm % search->rung_count);
    while (search->by_seeds && (double)seed >= search->rungs[rung]) rung++;
    for (int i = 0; i < rung; i++) planned /= search->eta;
    return (double)planned / (double)search->trials;
}

/* An open run (`stopped`: a stopped run) of a rung that its trial has entered and not failed, the highest rung first;
 * -1: none. */
static int64_t begun_run(const d9_experiment *experiment, const d9_run_summary *seen, bool stopped) {
    const d9_search *search = &experiment->search;
    for (int rung = search->rung_count; rung-- > 0;)
        for (int64_t trial = 0; trial < search->trials; trial++) {
            const standing found = standing_of(experiment, seen, trial, rung);
            const int64_t index = stopped ? found.stopped : found.open;
            if (found.entered && !found.failed && index >= 0) return index;
        }
    return -1;
}

static int64_t next_of_search(const d9_experiment *experiment, const d9_run_summary *seen, standing *all) {
    const d9_search *search = &experiment->search;
    d9_search_progress progress;
    d9_search_compute_progress(experiment, seen, &progress);
    const int64_t begun = begun_run(experiment, seen, progress.over);
    if (begun >= 0 || progress.over) return begun;
    for (int rung = search->rung_count - 1; rung-- > 0;) {
        const int64_t trial = trial_to_promote(experiment, seen, rung, all);
        if (trial >= 0) return standing_of(experiment, seen, trial, rung + 1).open;
    }
    for (int64_t trial = 0; trial < search->trials; trial++) {
        const standing found = standing_of(experiment, seen, trial, 0);
        if (!found.entered) return found.open;
    }
    return -1;
}

d9_status d9_experiment_next(d9_context *context, const d9_experiment *experiment, const d9_run_summary *seen,
                             int64_t *index) {
    d9_status status = D9_OK;
    standing *all = NULL;
    *index = -1;
    if (experiment->kind == D9_EXPERIMENT_SEARCH) {
        D9_TRY(D9_ALLOCATE(context, experiment->search.trials, "the trials", &all));
        *index = next_of_search(experiment, seen, all);
        goto done;
    }
    for (int64_t i = 0; *index < 0 && i < d9_experiment_run_count(experiment); i++)
        if ((seen[i].kind == D9_RUN_WAITING || seen[i].kind == D9_RUN_STOPPED) &&
            d9_experiment_run_is_trained(experiment, i))
            *index = i;
done:
    d9_release(context, all);
    return status;
}
