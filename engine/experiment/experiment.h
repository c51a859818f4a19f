/* An experiment: configurations x grid x seeds, or a search. A finished run is not trained again. If a process is
 * killed, another one continues or restarts its run.
 *
 *     title: short                     # the folder is runs/TITLE
 *     question: Does CELU help?        # one sentence, for the report
 *     config: ../configs/dawn94.yaml   # relative to this file
 *     seeds: 5                         # 1 to 5; or a list
 *     set: {train.epochs: 4}           # for every arm; also with: [TRICK] and without: [TRICK]
 *     arms:                            # if omitted: one arm without changes of its own
 *       celu: {baseline: relu}
 *       relu: {without: [celu]}        # all keys of an arm: config, set, with, without, label, baseline, published
 *     grid: {train.epochs: [4, 8]}     # crossed with the arms; applied after their own edits
 *
 * In place of arms and grid, `ablate:` makes the arms of an ablation, and `search:` those of a search (sample.c):
 *
 *     search:
 *       trials: 100                    # configurations, each with values drawn from the ranges
 *       ranges: {tricks.muon.rate: {log: [0.1, 0.4]}, train.momentum: {uniform: [0.5, 0.9]}}
 *       rungs: {seeds: [1, 3]}         # the best third of the trials with one seed get three
 *
 * Files below OUT: experiment.json, written first, lists the runs. runs/ARM[,KEY=VALUE...]/seedN are ordinary run
 * records; a failed run has a failure.json in its folder. A process that trains a run locks the file `lock` in the
 * run's folder and removes this file afterwards. */
#pragma once

#include "train/session.h"
#include <jansson.h>

typedef enum d9_experiment_kind { D9_EXPERIMENT_GRID, D9_EXPERIMENT_ABLATION, D9_EXPERIMENT_SEARCH } d9_experiment_kind;
const char *d9_experiment_kind_name(d9_experiment_kind kind);

typedef enum d9_promote { D9_PROMOTE_SCORE, D9_PROMOTE_FRONTIER } d9_promote;
enum { D9_RUNGS_MAX = 16 };
/* A search by successive halving. Its arms are the trials; if the rungs are numbers of epochs, there is an arm for each
 * trial and rung, all rungs of a trial one after another. */
typedef struct d9_search {
    int64_t trials, seed;   /* seed of the sampler */
    int64_t eta;            /* the best 1/eta of a rung enter the next rung */
    int promote;            /* d9_promote: ranking of the trials of a rung */
    double teraflop, hours; /* budget: no new run starts once the finished runs took this many TFLOP, training and
                               one evaluation each, or hours of process_seconds; 0: no limit */
    bool by_seeds;          /* `rungs` are numbers of seeds; false: of epochs */
    int rung_count;
    double rungs[D9_RUNGS_MAX]; /* seeds or epochs of each rung, increasing */
} d9_search;

typedef struct d9_grid_setting {
    const char *key, *value; /* as in --set */
} d9_grid_setting;

typedef struct d9_arm {
    const char *name;            /* unique; also the name of the folder of its runs: "celu,train.epochs=4" */
    const char *label;           /* shown in plots and tables */
    const char *baseline;        /* name of the arm that it is compared with; NULL: none */
    const char *trick;           /* ablation: the trick removed or added; NULL: none */
    bool companions;             /* ablation: the trick's companions change with it */
    d9_config_edits edits;       /* all that were applied to the configuration file, in order */
    const d9_grid_setting *grid; /* (grid_count): the arm's values of the grid's keys, or drawn values of a trial */
    int grid_count;
    d9_config *config; /* resolved; its `published` results are removed if they are not for exactly this arm */
    char config_hash[65];
    int runs_of; /* index of the first arm with an identical configuration, which trains the runs of both; or its own */
    /* Error message if the drawn values of a trial are not a legal configuration; NULL: legal. A rejected arm has the
     * configuration without drawn values and the hash "", and its runs count as failed. */
    const char *rejected;
} d9_arm;

typedef struct d9_experiment {
    d9_arena arena;
    const char *file, *title, *question; /* file: path of the experiment or configuration; question NULL: none */
    const char *command;                 /* shell command that repeats the experiment, without --out */
    d9_experiment_kind kind;
    d9_arm *arms;
    int arm_count;
    const int64_t *seeds;
    int seed_count;
    /* Per run: name of the arm in whose folder experiment.json lists the run; NULL: in that of the arm that trains it.
     * Only entries of runs that are trained are used. The list is NULL before d9_experiment_open. */
    const char **owners;
    int keep;                 /* d9_keep of every run */
    int64_t checkpoint_every; /* epochs; 0: by time, as in d9_train_options */
    d9_search search;         /* if kind is D9_EXPERIMENT_SEARCH */
} d9_experiment;

/* Options of the command line. */
typedef struct d9_experiment_options {
    d9_config_edits edits; /* for every arm, applied after the file's; their texts must outlive the experiment */
    int64_t seeds;         /* seeds 1 to this number; 0: the file's seeds; in d9_experiment_ablation 1 to 5 */
    const char *data;      /* argument of --data, only for the recorded command; NULL: none */
} d9_experiment_options;

/* Reads an experiment file, to be freed with d9_experiment_free. Unknown keys, an empty grid, duplicate seeds and keys
 * that no configuration has are D9_USAGE with their place in the file. *experiment is NULL after a failure. */
D9_MUST_USE d9_status d9_experiment_load(d9_context *context, const char *path, const d9_experiment_options *options,
                                         d9_experiment **experiment);
/* Makes an ablation. Arms: `full` as configured; `plain` without tricks, with the companion settings; for each trick T
 * `without-T`, compared with full, and `with-T`, compared with plain; if T has companions, these two again as
 * "+companions" (ablation.c). `only`: the tricks to ablate; NULL: all that are on. */
D9_MUST_USE d9_status d9_experiment_ablation(d9_context *context, const char *config, const char *const *only,
                                             int only_count, const d9_experiment_options *options,
                                             d9_experiment **experiment);
void d9_experiment_free(d9_context *context, d9_experiment *experiment);

/* Number of runs, arms x seeds, including those that d9_experiment_run_is_trained excludes. */
int64_t d9_experiment_run_count(const d9_experiment *experiment);
/* Arm and seed of run `index`. All arms of one seed come before the next seed, so that finished runs are balanced. */
const d9_arm *d9_experiment_arm(const d9_experiment *experiment, int64_t index);
int64_t d9_experiment_seed(const d9_experiment *experiment, int64_t index);
/* False if the run is never trained: its arm was rejected, or an earlier arm has an identical configuration, whose run
 * then serves both arms. True otherwise, also for runs that a search may leave out. */
bool d9_experiment_run_is_trained(const d9_experiment *experiment, int64_t index);
enum { D9_RUN_FOLDER_BYTES = 512 };
/* Writes the path of the run's folder: out/runs/ARM/seedN, or runs/ARM/seedN if `out` is "". ARM is the arm that trains
 * the run (d9_arm.runs_of), or the one in whose folder experiment.json lists it. Returns D9_USAGE if the path is too
 * long. */
D9_MUST_USE d9_status d9_experiment_folder(d9_context *context, const d9_experiment *experiment, const char *out,
                                           int64_t index, char folder[D9_RUN_FOLDER_BYTES]);

/* experiment.json as a JSON object. The caller owns the reference. */
D9_MUST_USE d9_status d9_experiment_json(d9_context *context, const d9_experiment *experiment, json_t **object);
/* Returns D9_USAGE if the folder holds config.yaml or result.json or, with `experiments`, experiment.json or lock. */
D9_MUST_USE d9_status d9_experiment_reject_folder(d9_context *context, d9_arena *arena, const char *out,
                                                  bool experiments);
/* Sets `owners` from OUT/experiment.json: a run that it lists stays where it is, whichever arms with an identical
 * configuration come or go. Writes nothing. Returns D9_USAGE if the folder holds another experiment, a search that this
 * one cannot continue, an arm of the same name with another configuration, or a single run. */
D9_MUST_USE d9_status d9_experiment_open(d9_context *context, d9_experiment *experiment, const char *out);
/* Does what d9_experiment_open does, then makes `out` and writes experiment.json, keeping the arms, runs, seeds and
 * commands that it already lists. */
D9_MUST_USE d9_status d9_experiment_write(d9_context *context, d9_experiment *experiment, const char *out);

/* Number of arms of each trial. */
static inline int d9_search_arms_per_trial(const d9_search *search) {
    return search->by_seeds ? 1 : search->rung_count;
}

/* ---- runs (experiment/run.c) ---- */
typedef enum d9_run_kind {
    D9_RUN_WAITING, /* not started */
    D9_RUN_STOPPED, /* started, then interrupted or killed; will be continued or restarted */
    D9_RUN_RUNNING, /* some process trains it now */
    D9_RUN_FAILED,  /* failed, or its arm was rejected; d9_run_forget_failure allows a failed run another try */
    D9_RUN_DONE
} d9_run_kind;
const char *d9_run_kind_name(d9_run_kind kind);

typedef struct d9_run_state {
    d9_run_kind kind;
    const d9_measure *measure;              /* measure of the scores: the one of the arm's configuration */
    double score, score_tta, train_seconds; /* if done; otherwise NAN */
    double process_seconds, teraflop;       /* if done and recorded, otherwise NAN. process_seconds: of a resumed run,
                                               of all its processes. teraflop: of training and one evaluation */
    int64_t views;                          /* test-time augmentation views, if done; 0: not recorded */
    bool without_model;                     /* done, with keep: none, but the experiment keeps models */
    d9_status failure;                      /* if failed */
    char message[1024];                     /* if failed */
} d9_run_state;

/* Reads the run's state from its folder. Returns D9_USAGE if the folder holds another run. */
D9_MUST_USE d9_status d9_run_read_state(d9_context *context, const d9_experiment *experiment, const char *out,
                                        int64_t index, d9_run_state *state);
/* Deletes the run's failure.json, so that the run is tried again. */
D9_MUST_USE d9_status d9_run_forget_failure(d9_context *context, const d9_experiment *experiment, const char *out,
                                            int64_t index);

/* ---- selection of the next run (experiment/select.c) ---- */
typedef struct d9_run_summary { /* the state of a run that a selection uses */
    d9_run_kind kind;
    double rank_score;        /* if done: the score with all TTA views, negated if lower is better */
    double teraflop, seconds; /* if done: operations in TFLOP, process_seconds; 0: not recorded */
} d9_run_summary;
d9_run_summary d9_run_summarise(const d9_run_state *state);
/* Updates `seen` (d9_experiment_run_count items, zeroed before the first call) from the folders of the runs, before a
 * selection. In a search it reads the runs of each trial up to its first incomplete rung, except runs that are done or
 * failed in `seen`. Without a search it reads nothing. */
D9_MUST_USE d9_status d9_experiment_update_seen(d9_context *context, const d9_experiment *experiment, const char *out,
                                                d9_run_summary *seen);
/* Sets *index to the run to train next; -1: none until a run that is now running ends, or none at all.
 *
 * Without a search: the first run that waits or was stopped. In a search, in this order:
 * 1. a run that waits or was stopped, of a rung that its trial has entered and not failed, from the highest rung down;
 * 2. the first run of the next rung, for the best trial that is among the best 1/eta of a rung and has not entered the
 *    next one, from the highest rung down;
 * 3. the first run of the next trial.
 * Once the budget is spent: only runs that were stopped. */
D9_MUST_USE d9_status d9_experiment_next(d9_context *context, const d9_experiment *experiment,
                                         const d9_run_summary *seen, int64_t *index);

/* Progress of a search. */
typedef struct d9_search_progress {
    int64_t begun, failed;          /* numbers of trials */
    int64_t finished[D9_RUNGS_MAX]; /* trials that have finished each rung */
    int64_t planned[D9_RUNGS_MAX];  /* trials that enter each rung if none fails: trials / eta^rung, rounded down */
    double teraflop, hours;         /* spent by finished runs */
    bool over;                      /* the budget is spent */
} d9_search_progress;
/* Expected number of times that the run is trained: 1, or 0 if d9_experiment_run_is_trained excludes it; in a search
 * the share of the trials that are planned to enter the run's rung. */
double d9_experiment_planned_share(const d9_experiment *experiment, int64_t index);
/* Computes the progress of a search from the states of its runs. */
void d9_search_compute_progress(const d9_experiment *experiment, const d9_run_summary *seen,
                                d9_search_progress *progress);
/* The runs of a trial in a rung: an arm, and the range [first, end) of indices into the experiment's seeds. */
typedef struct d9_rung_runs {
    int64_t arm;
    int first, end;
} d9_rung_runs;
d9_rung_runs d9_search_rung(const d9_experiment *experiment, int64_t trial, int rung);

typedef struct d9_run_options {           /* depends on the machine, not on the experiment */
    int64_t threads;                      /* 0: the configuration's */
    int64_t threads_default;              /* used if the configuration does not set threads; 0: no default */
    const char *data;                     /* folder of the dataset; NULL: the configuration's */
    double process_start;                 /* see d9_train_options */
    volatile sig_atomic_t *unsaved_steps; /* as in d9_train_options; the parent of workers, which does not know their
                                             unsaved steps, sets it to -1 */
    d9_observer observer;
    /* Command line (NULL-terminated) that starts the processes of a run, without "--run INDEX"; NULL: this process
     * trains. */
    const char *const *launch;
    d9_parallel *parallel; /* in a process that was started by `launch`: the run's processes; otherwise NULL */
} d9_run_options;

/* Trains the run in one of the processes that d9_run_train launched; the process that called d9_run_train holds the
 * lock. `resume`: continues from the checkpoint; false: deletes the record and starts again. */
D9_MUST_USE d9_status d9_run_train_launched(d9_context *context, const d9_experiment *experiment, const char *out,
                                            int64_t index, bool resume, const d9_run_options *options);
/* Trains the run unless it is done, has failed, or another process trains it (D9_RUN_RUNNING). D9_USAGE, D9_DEVICE and
 * D9_NONFINITE while training are recorded as the run's failure, and D9_OK is returned. Other failures, interrupts, and
 * D9_USAGE because the folder holds another run are returned. *trained: this call trained the run or tried to. */
D9_MUST_USE d9_status d9_run_train(d9_context *context, const d9_experiment *experiment, const char *out, int64_t index,
                                   const d9_run_options *options, d9_run_state *state, bool *trained);
