/* Many runs: options, output and training shared by `experiment` and `ablate`. */
#pragma once

#include "cli/progress.h"
#include "experiment/work.h"

typedef struct d9_runs_options {
    d9_cli_edits edits;
    d9_flag_integer seeds, workers, pack, tasks, ranks, run;
    const char *out, *shard, *devices, *launcher;
    d9_flag_list sbatch;
    bool status, slurm, requeue, commands, retry, dry_run, time, quiet, json, resume_run;
} d9_runs_options;
extern const d9_flag d9_runs_flags[];

/* Converts the options to those of an experiment. D9_USAGE if --seed is given. */
D9_MUST_USE d9_status d9_runs_experiment_options(d9_cli *cli, const d9_runs_options *options,
                                                 d9_experiment_options *wanted);
/* Shows, submits or trains the experiment, as the options require. */
D9_MUST_USE d9_status d9_runs_command(d9_cli *cli, d9_experiment *experiment, const d9_runs_options *options);

/* ---- shared by runs.c and runs_*.c ---- */
typedef struct d9_runs_progress {
    /* Share of the run's operations done before its first step in this command, and until now. done 0: not started */
    double first, done;
    double operations; /* operations of the whole run; 0: not started by this command */
    bool ended;        /* the run ended in this command */
} d9_runs_progress;
typedef struct d9_runs_shared {
    int64_t reported; /* mean seeds per arm, rounded down, at the last "so far" line; 0: no such line yet */
    d9_runs_progress runs[];
} d9_runs_shared;

typedef struct d9_runs {
    d9_cli *cli;
    const d9_experiment *experiment;
    const d9_runs_options *options;
    const char *out;
    int64_t count;
    d9_work_options work;
    d9_live_line live;      /* shows the current runs */
    double began;           /* start of training, CLOCK_MONOTONIC */
    d9_runs_shared *shared; /* memory shared with the worker processes */
    int64_t ended_count;    /* number of runs that had ended when `open` was set; -1: not set yet */
    bool *open;             /* per run: this command's share has the run, which is neither done nor failed */
    d9_run_summary *seen;   /* per run, of a search: its state when the folder was last read */
} d9_runs;

static inline bool d9_runs_is_search(const d9_runs *runs) { return runs->experiment->kind == D9_EXPERIMENT_SEARCH; }

/* runs.c: sets *left if the run remains to be trained: the shard of `work` has it, d9_experiment_run_is_trained is
 * true, and it is neither done nor, without --retry, failed. *running: *left and a process trains it. An unreadable
 * state fails. */
D9_MUST_USE d9_status d9_runs_check_left(const d9_runs *runs, d9_context *context, const d9_work_options *work,
                                         int64_t index, bool *left, bool *running);

/* runs_ranks.c: with --ranks N, builds the command that starts the processes of a run; not for --status. D9_USAGE, for
 * N > 1, if N processes cannot train an arm, or an arm has a batch norm over the whole batch; D9_DEVICE if the launcher
 * is not installed, unless --slurm, --commands or --dry-run is given. */
D9_MUST_USE d9_status d9_runs_prepare_ranks(d9_runs *runs);
/* With --run INDEX: trains this run; the process is one of those that the command with --ranks started. */
D9_MUST_USE d9_status d9_runs_train_one(d9_runs *runs);

/* runs_time.c: prints the number of remaining runs, their steps and operations (if known) and, with --time, the
 * predicted time on this machine. */
D9_MUST_USE d9_status d9_runs_show_work(const d9_runs *runs);

/* runs_show.c */
D9_MUST_USE d9_status d9_runs_show_plan(const d9_runs *runs);
D9_MUST_USE d9_status d9_runs_show_status(const d9_runs *runs);
void d9_runs_show_start(const d9_runs *runs);
d9_work_observer d9_runs_observer(d9_runs *runs); /* prints a line per ended run, and a live line */
/* Prints the summary. Fails with the status of the first failed run of this command's share; in a search only if no run
 * is done. */
D9_MUST_USE d9_status d9_runs_show_end(const d9_runs *runs);

/* runs_slurm.c: checks, before anything is written, that --slurm and --commands can express the tasks. */
D9_MUST_USE d9_status d9_runs_check_commands(const d9_runs *runs);
/* Submits an array job of the tasks that have remaining runs; with --dry-run only prints the sbatch command. */
D9_MUST_USE d9_status d9_runs_submit(const d9_runs *runs);
/* Prints the commands of these tasks, one per line, for any launcher. */
D9_MUST_USE d9_status d9_runs_print_commands(const d9_runs *runs);
