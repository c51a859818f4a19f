/* The trainer: runs the steps of a session, evaluates, writes checkpoints and keeps the record. */
#pragma once

#include "train/session.h"
#include "record/record.h"

typedef struct d9_train_options {
    const d9_config *config;
    uint64_t seed;
    const char *out;       /* run folder; NULL: no record on disk */
    bool resume;           /* continue the run in `out`, from its checkpoint if there is one */
    bool overwrite;        /* delete the run in `out`. Without resume and overwrite, a result, checkpoint, model, other
                            * configuration or other seed there is D9_USAGE */
    bool locked;           /* the caller holds out/lock; otherwise d9_train takes it */
    const char *plan;      /* file of a saved plan; NULL: choose implementations */
    const char *save_plan; /* file to write the plan to; NULL: none */
    const char *tensorboard;   /* folder of event files (train/trainer_parts.h); NULL: none */
    int64_t checkpoint_every;  /* epochs; 0: by time */
    double checkpoint_seconds; /* by time: after an epoch if the last checkpoint is this old; 0: 30 */
    int64_t stop_after_steps;  /* stop as after an interrupt, with a checkpoint, once the run has done this many steps
                                * (tests); 0: train to the end */
    double process_start;      /* CLOCK_MONOTONIC seconds; 0: now */
    volatile sig_atomic_t *unsaved_steps; /* set to the number of steps since the last checkpoint; may be NULL */
    d9_observer observer;
    /* The processes that train together; each calls d9_train with the same configuration, seed and folder. Only rank 0
     * writes files, reads the files that it wrote, and calls `observer`, `ready` and `kept`. NULL: one process. */
    d9_parallel *parallel;
    /* Writes the trained model if `keep` asks for one (exchange/model.h: d9_model_write); NULL: never. */
    d9_status (*write_model)(d9_session *session, const char *path);
    /* Loads the weights that config->train.from names (exchange/model.h: d9_model_load_initial_weights); NULL: not
     * possible. */
    d9_status (*load_weights)(d9_session *session, const char *path);
    /* Called once before the first step, with `observer.user`; may be NULL. Its time counts as writing, not as
     * training. A failure ends the run. */
    d9_status (*ready)(void *user, d9_session *session);
    /* Called when the state is the run's model, whether or not it is written: at the end, or with keep: best after each
     * evaluation that is the best so far. May be NULL. */
    d9_status (*kept)(void *user, d9_session *session);
} d9_train_options;

/* Trains once. An interrupt lets the current update finish (several processes on an asynchronous device stop only
 * before the 1st, 51st, 101st ... batch of an epoch) but not an evaluation, writes a checkpoint to `out` and returns
 * D9_SIGHUP, D9_SIGINT, D9_SIGTERM, D9_SIGUSR1, D9_SIGUSR2 or D9_SIGXCPU. D9_USAGE also with both resume and overwrite,
 * or if another process trains in `out`. D9_NONFINITE: the loss, the logits or the score of an evaluation, or numbers
 * of a checkpoint are not finite. Free the result with d9_result_free. */
D9_MUST_USE d9_status d9_train(d9_context *context, const d9_train_options *options, d9_result *result);
void d9_result_free(d9_context *context, d9_result *result);

/* ---- the work of a run, known in advance ---- */
/* True if the network is evaluated after this epoch (from 1). `last`: it is the last epoch of the run. */
bool d9_evaluation_due(const d9_config *config, int64_t epoch, bool last);
/* True if an evaluation computes all views: the last one and, with eval.tta: every, all others. False: only the plain
 * view; the run then evaluates again, with all views, if the epoch becomes the best (keep: best) or the last
 * (eval.patience). */
bool d9_evaluation_has_all_views(const d9_config *config, bool last);
/* Additions and multiplications of convolutions and matrix products, in all processes. d9_train_operations: in the
 * steps after the first `steps_done`, forward and backward. d9_evaluation_operations: in one evaluation of all images
 * with their views. */
double d9_train_operations(const d9_program *program, int64_t steps_done);
double d9_evaluation_operations(const d9_program *program);
/* Operations of the rest of a run after `steps_done` steps, evaluations included. */
double d9_operations_left(const d9_program *program, const d9_config *config, int64_t steps_done);
/* Seconds left of a run, evaluations included. batch_seconds: of a batch in the last step done (none: in the first). */
double d9_seconds_left(const d9_program *program, const d9_config *config, int64_t steps_done, double batch_seconds);

/* Seconds of single steps, or a time predicted from them: the median and the quartiles. */
typedef struct d9_time_range {
    double low, median, high;
} d9_time_range;
d9_time_range d9_time_range_of(double *seconds, int64_t count); /* sorts `seconds`; `count` > 0 */
d9_time_range d9_time_range_scale(d9_time_range range, double factor);

/* Decisions of a run by the scores of its epochs: the best, reaching the target, stopping early. The deciding score
 * is that of the plain view or, if eval.tta is `every`, that of all views. */

/* The deciding score of a row; NAN if its epoch was not evaluated. */
double d9_deciding_score(const d9_result *result, int64_t row);
/* Index of the best deciding score among the first `rows` rows, of equal scores the first; -1: none was evaluated. */
int64_t d9_best_of(const d9_result *result, int64_t rows);
int64_t d9_best_row(const d9_result *result); /* of all rows */
/* True if eval.patience epochs have passed without a better score. A configuration with eval.patience evaluates after
 * each epoch. */
bool d9_out_of_patience(const d9_result *result);
/* The first epoch whose d9_epoch_score reached the target; 0: none. */
int64_t d9_epoch_to_target(const d9_result *result);
