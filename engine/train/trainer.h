/* The trainer: runs the steps of a session, evaluates, writes checkpoints and keeps the record. */
#ifndef D9_TRAIN_TRAINER_H
#define D9_TRAIN_TRAINER_H

#include "train/session.h"

typedef struct d9_train_options {
    const d9_config *config;
    uint64_t seed;
    const char *out;  /* run folder; NULL: no record on disk */
    bool resume;      /* go on with the run in `out`, from its checkpoint where there is one */
    bool overwrite;   /* delete the run in `out`; without either a result or a checkpoint there is D9_USAGE */
    bool locked;      /* the caller holds out/lock, which is taken otherwise */
    const char *plan; /* file of a saved plan; NULL: choose */
    const char *save_plan;
    const char *tensorboard;   /* folder of event files (train/tensorboard_run.h); NULL: none */
    int64_t checkpoint_every;  /* epochs; 0: by time */
    double checkpoint_seconds; /* by time: at the end of an epoch, when the last one is so old; 0: 30 */
    int64_t stop_after_steps;  /* stop and checkpoint there, as an interrupt would (tests); 0: run through */
    double process_start;      /* CLOCK_MONOTONIC seconds; 0: now */
    const volatile sig_atomic_t *interrupt; /* becomes a signal number; NULL: never */
    volatile sig_atomic_t *unsaved_steps;   /* kept: steps done that no checkpoint holds; NULL: nobody asks */
    d9_observer observer;
    /* Writes the trained model where `keep` asks for one (exchange/model.h: d9_model_write); NULL: never. */
    d9_status (*write_model)(d9_session *session, const char *path);
    /* Puts the weights that config->train.from names into the state (exchange/model.h: d9_model_start); NULL: such a
     * configuration is refused. */
    d9_status (*start_model)(d9_session *session, const char *path);
    /* Called once before the first step, with `observer.user`; NULL: not. Its time is the record's, not training's. A
     * failure is the run's. */
    d9_status (*ready)(void *user, d9_session *session);
    /* Called likewise with the state that becomes the run's model, whether or not it is written: at the end; with keep:
     * best after each evaluation that is the best so far. NULL: not. */
    d9_status (*kept)(void *user, d9_session *session);
} d9_train_options;

/* Trains once. On an interrupt a step is finished, an evaluation left; then a checkpoint, and D9_SIGHUP, D9_SIGINT or
 * D9_SIGTERM. Another process that trains in `out`: D9_USAGE. A non-finite loss: D9_NONFINITE naming step and epoch;
 * an evaluation's logits or a checkpoint's numbers that are not finite: D9_NONFINITE. The result's arrays live until
 * d9_result_free. */
D9_MUST_USE d9_status d9_train(d9_context *context, const d9_train_options *options, d9_result *result);
void d9_result_free(d9_context *context, d9_result *result);

/* ---- what a run costs, before it is over ---- */
/* Whether an epoch (from 1) ends with an evaluation. */
bool d9_evaluation_due(const d9_config *config, int64_t epoch, bool last);
/* Additions and multiplications of a run's convolutions and matrix products: of the steps behind the first
 * `steps_done`, forward and backward, and of one evaluation of every image with its views. */
double d9_train_operations(const d9_program *program, int64_t steps_done);
double d9_evaluation_operations(const d9_program *program);
/* Of all that a run still computes after `steps_done` steps, evaluations included. */
double d9_operations_left(const d9_program *program, const d9_config *config, int64_t steps_done);
/* What a run still needs after `steps_done` steps, evaluations included, when a step takes `step_seconds`. */
double d9_seconds_left(const d9_program *program, const d9_config *config, int64_t steps_done, double step_seconds);

#endif
