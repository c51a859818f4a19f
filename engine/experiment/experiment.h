/* An experiment: configurations x grid x seeds, every run done once, even where a process is killed.
 *
 *     title: short                     # the folder is runs/TITLE
 *     question: Does CELU help?        # one sentence, for the report
 *     config: ../configs/dawn94.yaml   # relative to this file
 *     seeds: 5                         # 1 to 5; or a list
 *     set: {train.epochs: 4}           # for every arm, as are with: [TRICK] and without: [TRICK]
 *     arms:                            # none: one arm, the configuration as it is
 *       celu: {baseline: relu}
 *       relu: {without: [celu]}        # config, set, with, without, label, baseline, published
 *     grid: {train.epochs: [4, 8]}     # crossed with the arms; applied after their own edits
 *
 * On disk, below OUT: experiment.json, written first, says what there is to run; runs/ARM[,KEY=VALUE...]/seedN are
 * ordinary run records. A run that could not be finished leaves failure.json there. A file `lock` is held by the
 * process that runs, and is gone afterwards. */
#ifndef D9_EXPERIMENT_EXPERIMENT_H
#define D9_EXPERIMENT_EXPERIMENT_H

#include "train/session.h"
#include <jansson.h>

typedef enum d9_experiment_kind { D9_EXPERIMENT_GRID, D9_EXPERIMENT_ABLATION } d9_experiment_kind;

typedef struct d9_grid_point {
    const char *key, *value; /* as in --set */
} d9_grid_point;

typedef struct d9_arm {
    const char *name;      /* unique, and the name of its folder: "celu", "celu,train.epochs=4" */
    const char *label;     /* for people */
    const char *baseline;  /* the name of the arm it is compared with; NULL: none */
    const char *trick;     /* in an ablation: what left or came; NULL: nothing */
    bool companions;       /* and its companions with it */
    d9_config_edits edits; /* of its file: the experiment's, its own, the grid's and the command line's */
    const d9_grid_point *grid;
    int grid_count;
    d9_config *config; /* effective; `published` only where the figures are of exactly this arm */
    char config_hash[65];
    int runs_of; /* index of the first arm that is configured alike in everything: its runs are this one's, too */
} d9_arm;

typedef struct d9_experiment {
    d9_arena arena;
    const char *file, *title, *question; /* question NULL: none was put */
    const char *command;                 /* what a shell runs to have it again, without --seeds and --out */
    d9_experiment_kind kind;
    d9_arm *arms;
    int arm_count;
    const int64_t *seeds;
    int seed_count;
    int keep;                 /* d9_keep, for every run */
    int64_t checkpoint_every; /* epochs; 0: by time, as in d9_train_options */
} d9_experiment;

/* What the command line adds to a file. */
typedef struct d9_experiment_options {
    d9_config_edits edits; /* for every arm, after the file's own; its texts outlive the experiment */
    int64_t seeds;         /* seeds 1 to this number; 0: those of the file */
    const char *data;      /* the folder that --data names, for the record's command alone; NULL: none */
} d9_experiment_options;

/* Strict, like a configuration: a wrong key, an empty grid, a seed given twice, a key that a configuration does not
 * have are D9_USAGE with the place in the file. */
D9_MUST_USE d9_status d9_experiment_load(d9_context *context, const char *path, const d9_experiment_options *options,
                                         d9_experiment **experiment);
/* Leave one out and add one in: `full` as configured; `plain` without any trick and with all their companions;
 * `without-T` against full and `with-T` against plain, and each once more, "+companions", where the configuration
 * names companions of T. `only`: these tricks (NULL: all that are on). */
D9_MUST_USE d9_status d9_experiment_ablation(d9_context *context, const char *config, const char *const *only,
                                             int only_count, const d9_experiment_options *options,
                                             d9_experiment **experiment);
void d9_experiment_free(d9_context *context, d9_experiment *experiment);

/* Run `index` of arms x seeds: seed by seed, so that whatever was done so far is balanced over the arms. */
int64_t d9_experiment_runs(const d9_experiment *experiment);
const d9_arm *d9_experiment_arm(const d9_experiment *experiment, int64_t index);
int64_t d9_experiment_seed(const d9_experiment *experiment, int64_t index);
/* False: another arm, configured alike, has this run. */
bool d9_experiment_trains(const d9_experiment *experiment, int64_t index);
enum { D9_RUN_FOLDER_BYTES = 512 };
/* Its folder, below `out`; `out` "": relative. Too long: D9_USAGE. */
D9_MUST_USE d9_status d9_experiment_folder(d9_context *context, const d9_experiment *experiment, const char *out,
                                           int64_t index, char folder[D9_RUN_FOLDER_BYTES]);

/* experiment.json as text. */
D9_MUST_USE d9_status d9_experiment_json(d9_context *context, const d9_experiment *experiment, json_t **object);
/* Makes `out` and writes experiment.json. A folder of another experiment, or one where an arm has run with another
 * configuration: D9_USAGE, and nothing changed. Arms and seeds that the folder has from before stay in the record. */
D9_MUST_USE d9_status d9_experiment_open(d9_context *context, const d9_experiment *experiment, const char *out);

/* ---- runs (experiment/run.c) ---- */
typedef enum d9_run_kind {
    D9_RUN_WAITING, /* not begun */
    D9_RUN_STOPPED, /* begun, interrupted or killed: will be taken up again */
    D9_RUN_RUNNING, /* in some process now */
    D9_RUN_FAILED,  /* ended with a failure that would come again; d9_run_forget_failure allows another try */
    D9_RUN_DONE
} d9_run_kind;
const char *d9_run_kind_name(d9_run_kind kind);

typedef struct d9_run_state {
    d9_run_kind kind;
    double accuracy, accuracy_tta, train_seconds; /* when done; else NAN */
    int64_t views;                                /* likewise; 0: its record does not say */
    d9_status failure;                            /* when failed */
    char message[1024];                           /* when failed */
} d9_run_state;

/* Reads the state from the disk. The folder of another run: D9_USAGE. */
D9_MUST_USE d9_status d9_run_look(d9_context *context, const d9_experiment *experiment, const char *out, int64_t index,
                                  d9_run_state *state);
/* Failures are tried again. */
D9_MUST_USE d9_status d9_run_forget_failure(d9_context *context, const d9_experiment *experiment, const char *out,
                                            int64_t index);

typedef struct d9_run_options { /* what belongs to this machine and not to the experiment */
    int64_t threads;            /* 0: the configuration's */
    int64_t threads_default;    /* where the configuration leaves them open; 0: it stays open */
    const char *data;           /* folder of the dataset; NULL: the configuration's */
    double process_start;       /* of d9_train_options */
    const volatile sig_atomic_t *interrupt;
    volatile sig_atomic_t *unsaved_steps; /* as in d9_train_options; -1: those of workers, which only they know */
    d9_observer observer;
} d9_run_options;

/* Trains the run unless it is finished or another process trains it (state RUNNING). A failure of the run itself is
 * recorded and becomes its state. D9_DATA, D9_OUTPUT, interrupts and the folder of another run are returned.
 * `trained`: this call has trained it. */
D9_MUST_USE d9_status d9_run_do(d9_context *context, const d9_experiment *experiment, const char *out, int64_t index,
                                const d9_run_options *options, d9_run_state *state, bool *trained);

#endif
