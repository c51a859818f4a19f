/* Many runs on this machine: what `experiment` and `ablate` share once the experiment is known. */
#ifndef D9_CLI_RUNS_H
#define D9_CLI_RUNS_H

#include "cli/cli.h"
#include "cli/progress.h"
#include "experiment/work.h"

typedef struct d9_runs_options {
    d9_cli_edits edits;
    d9_flag_integer seeds, workers, pack, tasks;
    const char *out, *shard, *devices;
    d9_flag_list sbatch;
    bool status, slurm, requeue, commands, retry, dry_run, quiet, json;
} d9_runs_options;
extern const d9_flag d9_runs_flags[];

/* What the command line adds to an experiment, checked. */
D9_MUST_USE d9_status d9_runs_experiment_options(d9_cli *cli, const d9_runs_options *options,
                                                 d9_experiment_options *wanted);
/* Shows, submits or runs it, as the options say. */
D9_MUST_USE d9_status d9_runs_command(d9_cli *cli, const d9_experiment *experiment, const d9_runs_options *options);

/* ---- the parts (runs_*.c) ---- */
typedef struct d9_runs_share {
    double first, now; /* how much of the run is computed, 0 to 1, at its first step here and now; 0: not begun here */
    double operations; /* of the whole run; 0: not begun here */
    bool ended;
} d9_runs_share;
typedef struct d9_runs_board {
    int64_t told; /* seeds that the last "so far" was about */
    d9_runs_share runs[];
} d9_runs_board;

typedef struct d9_runs {
    d9_cli *cli;
    const d9_experiment *experiment;
    const d9_runs_options *options;
    const char *out;
    int64_t count;
    d9_work_options work;
    d9_live_line live;    /* of the runs at hand */
    double began;         /* when training began, CLOCK_MONOTONIC */
    d9_runs_board *board; /* what the workers of this command say of themselves, in memory that they share */
    int64_t ended;        /* runs that had ended when `open` was read from the disk; -1: never yet */
    bool *open;           /* per run: to be trained by this command, and neither done nor failed */
} d9_runs;

/* runs_show.c */
D9_MUST_USE d9_status d9_runs_show_plan(const d9_runs *runs);
D9_MUST_USE d9_status d9_runs_show_status(const d9_runs *runs);
/* runs_time.c: a line that says how long what is left takes here. */
D9_MUST_USE d9_status d9_runs_show_time(const d9_runs *runs);

void d9_runs_show_start(const d9_runs *runs);
d9_work_observer d9_runs_observer(d9_runs *runs); /* a line for each finished run, and on a terminal a live one */
/* The last lines; a failure of runs is the command's. */
D9_MUST_USE d9_status d9_runs_show_end(const d9_runs *runs);

/* runs_slurm.c: one array task for each pack of runs that has something left. */
D9_MUST_USE d9_status d9_runs_submit(const d9_runs *runs);
/* The commands of these tasks, a line each, for any other launcher. */
D9_MUST_USE d9_status d9_runs_print_commands(const d9_runs *runs);

#endif
