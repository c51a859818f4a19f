/* Many runs on this machine: what `experiment` and `ablate` share once the experiment is known. */
#ifndef D9_CLI_BATCH_H
#define D9_CLI_BATCH_H

#include "cli/cli.h"
#include "cli/progress.h"
#include "experiment/work.h"

typedef struct d9_batch_options {
    d9_cli_edits edits;
    d9_flag_integer seeds, workers;
    const char *out, *shard, *devices;
    d9_flag_list sbatch;
    bool status, slurm, retry, dry_run, quiet, json;
} d9_batch_options;
extern const d9_flag d9_cli_batch_flags[];

/* What the command line adds to an experiment, checked. */
D9_MUST_USE d9_status d9_batch_experiment_options(d9_cli *cli, const d9_batch_options *options,
                                                  d9_experiment_options *wanted);
/* Shows, submits or runs it, as the options say. */
D9_MUST_USE d9_status d9_batch_run(d9_cli *cli, const d9_experiment *experiment, const d9_batch_options *options);

/* ---- the parts (batch_*.c) ---- */
typedef struct d9_batch {
    d9_cli *cli;
    const d9_experiment *experiment;
    const d9_batch_options *options;
    const char *out;
    int64_t runs;
    d9_work_options work;
    d9_live_line live;      /* of the run at hand */
    int64_t trained;        /* in this process, so far */
    double trained_seconds; /* wall clock of them */
} d9_batch;

/* batch_show.c */
void d9_batch_show_plan(const d9_batch *batch);
D9_MUST_USE d9_status d9_batch_show_status(const d9_batch *batch);
void d9_batch_show_start(const d9_batch *batch);
d9_work_observer d9_batch_observer(d9_batch *batch); /* a line for each finished run, and on a terminal a live one */
/* The last lines; a failure of runs is the command's. */
D9_MUST_USE d9_status d9_batch_show_end(const d9_batch *batch);

/* batch_slurm.c: one array task for each run that is left. */
D9_MUST_USE d9_status d9_batch_submit(const d9_batch *batch);

#endif
