/* The trainer: opens dataset and backend, builds and plans the program, runs the steps, evaluates, keeps the
 * record. It alone takes the times of a run. */
#ifndef D9_TRAIN_TRAINER_H
#define D9_TRAIN_TRAINER_H

#include "data/dataset.h"
#include "build/build.h"
#include "record/record.h"
#include "record/safetensors.h"
#include <signal.h>

/* What a user may watch. Each may be NULL. Called between steps; must return soon. */
typedef struct d9_observer {
    void *user;
    void (*planned)(void *user, const d9_program *program, const d9_device_info *device, const char *precision);
    /* Behind `planned`, where a checkpoint was read: how many steps are done, and the rows of the epochs before. */
    void (*resumed)(void *user, int64_t step, const d9_epoch_row *rows, int64_t count);
    /* `step`: how many are done. `loss`: mean training loss of the epoch so far, NAN where the device was not asked */
    void (*step)(void *user, const d9_program *program, int64_t step, double loss, double epoch_seconds);
    void (*epoch)(void *user, const d9_program *program, const d9_epoch_row *row);
    void (*lap)(void *user, d9_segment_kind kind); /* a segment of the timeline has ended */
    /* Views of images that an evaluation has seen, of how many. */
    void (*evaluated)(void *user, const d9_program *program, int64_t seen, int64_t all);
} d9_observer;

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

typedef struct d9_session d9_session;

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

/* ---- a session: what train, eval, verify and bench share ---- */
struct d9_session {
    d9_context *context;
    const d9_config *config;
    uint64_t seed;
    d9_dataset *dataset;                    /* owned */
    char data_digest[D9_DIGEST_DIGITS + 1]; /* by d9_session_data_digest; "": nobody has asked */
    const d9_backend *backend;
    d9_device *device;
    d9_device_info info;
    d9_program program;
    d9_plan *train_plan, *phase_plan[D9_MAX_PHASES], *eval_plan; /* a plan for each phase of the program */
    d9_timeline timeline;
    double mark;                            /* end of the last segment of the timeline */
    const volatile sig_atomic_t *interrupt; /* leaves an evaluation between two batches; NULL: never */
    d9_observer observer;                   /* its `lap` and `evaluated` are called */
    int64_t seen;                           /* views of images in the evaluation at hand */
};

/* Ends the segment that began at `mark`. */
D9_MUST_USE d9_status d9_session_lap(d9_session *session, d9_segment_kind kind, int64_t epoch);

typedef struct d9_session_options {
    const d9_config *config;
    uint64_t seed;
    const char *plan; /* text of a saved plan; NULL: choose */
    double process_start;
    const volatile sig_atomic_t *interrupt; /* as in d9_train_options */
    d9_observer observer;
    d9_dataset *dataset; /* taken over; NULL: the config's is loaded */
    d9_program_options program;
    bool no_eval;  /* no evaluation plan */
    bool no_train; /* no training plan */
} d9_session_options;

/* What a run is over, without reading a file. Of a folder nothing is counted: then an epoch is one batch, with the
 * fewest classes there are. */
D9_MUST_USE d9_status d9_config_extent(d9_context *context, const d9_config *config, d9_extent *extent, bool *counted);
/* Builds the program that the configuration asks for and drops it: what training would refuse of network and data set
 * is refused, D9_USAGE. Reads no file, so of a folder the number of images is not known. */
D9_MUST_USE d9_status d9_config_try(d9_context *context, const d9_config *config);
/* What the dataset that a configuration names promises (data/dataset.h), without reading a file. */
D9_MUST_USE d9_status d9_config_promise(d9_context *context, const d9_config *config, d9_dataset *promised);
/* The dataset that a configuration names. */
D9_MUST_USE d9_status d9_config_dataset(d9_context *context, const d9_config *config, d9_dataset **dataset);
/* Dataset, device, program, plans, upload. Parameters are not initialised. */
D9_MUST_USE d9_status d9_session_open(d9_context *context, const d9_session_options *options, d9_session *session);
void d9_session_close(d9_session *session);
/* Plans a further list of nodes over the session's buffers; the caller frees it before the session is closed. */
D9_MUST_USE d9_status d9_session_plan(d9_session *session, const d9_graph *graph, d9_plan **plan);
/* Initial parameters and statistics, velocity zero, average = state, metrics zero. */
D9_MUST_USE d9_status d9_session_initialize(d9_session *session);
/* Writes the order of the epoch that `step` lies in; to be called at each epoch's first step and after resuming. */
D9_MUST_USE d9_status d9_session_begin_epoch(d9_session *session, int64_t step);
/* Instead: ORDER or EVAL_ORDER becomes the first `batch` images, again and again. */
D9_MUST_USE d9_status d9_session_repeat_batch(d9_session *session, d9_buffer order);
D9_MUST_USE d9_status d9_session_step(d9_session *session, int64_t step);
/* The plan that it runs. */
d9_plan *d9_session_step_plan(const d9_session *session, int64_t step);

/* Mean logits of the evaluation images over `views`, in the master type as doubles (eval_images, classes). An
 * interrupt: its status. */
D9_MUST_USE d9_status d9_session_logits(d9_session *session, const d9_views *views, double *logits);
/* The same and, of a program with features, the mean of what the classifier reads, flattened: (eval_images, numbers of
 * eval.features an image). NULL: not wanted. */
D9_MUST_USE d9_status d9_session_outputs(d9_session *session, const d9_views *views, double *logits, double *features);

/* The class with the largest of `classes` numbers; the first of several. */
int32_t d9_likeliest(const double *row, int64_t classes);

/* d9_evaluation_free frees its arrays. */
/* Fails with the signal's status where one has come. `where`: "an evaluation". */
D9_MUST_USE d9_status d9_session_check_interrupt(const d9_session *session, const char *where);

typedef struct d9_evaluation {
    double accuracy;     /* percent, plain view */
    double accuracy_tta; /* percent, the config's views; equals accuracy when there is one view */
    int32_t *top1;       /* (eval_images), with views */
    float *confidence;   /* softmax probability of top1 */
} d9_evaluation;
D9_MUST_USE d9_status d9_session_evaluate(d9_session *session, d9_evaluation *evaluation);
void d9_evaluation_free(d9_context *context, d9_evaluation *evaluation);

/* STATE, or an accumulator of it, as doubles: program.state_elements of them. */
D9_MUST_USE d9_status d9_session_read_state(d9_session *session, d9_buffer buffer, double *state);
D9_MUST_USE d9_status d9_session_write_state(d9_session *session, d9_buffer buffer, const double *state);
/* Any value as doubles; what lies in SCRATCH only of programs built with keep_all. */
D9_MUST_USE d9_status d9_session_read_value(d9_session *session, const d9_value *value, double *values);
/* A whole buffer, as many bytes as the program gives it. */
D9_MUST_USE d9_status d9_session_read(d9_session *session, d9_buffer buffer, void *bytes);
D9_MUST_USE d9_status d9_session_write(d9_session *session, d9_buffer buffer, const void *bytes);
/* Writes STATE, and every accumulator of it. */
D9_MUST_USE d9_status d9_session_set_state(d9_session *session, const double *state);
/* SHA-256 over STATE and every accumulator of it. */
/* Of the data set, made when it is first asked for: it reads all of it. */
const char *d9_session_data_digest(d9_session *session);
D9_MUST_USE d9_status d9_session_params_sha256(d9_session *session, char hex[65]);

/* ---- checkpoints (train/checkpoint.c) ---- */
typedef struct d9_progress_state { /* a run half way: what a checkpoint holds beside the buffers */
    int64_t step;                  /* the next one */
    d9_epoch_row *epochs;          /* finished epochs */
    int64_t epoch_count;
} d9_progress_state;
/* A number that is not finite, from which no run could go on: D9_NONFINITE, and what lies at `path` stays. */
D9_MUST_USE d9_status d9_checkpoint_write(d9_session *session, const char *path, const d9_progress_state *progress);
/* Fills the buffers, the timeline (the parts run so far) and `progress`, whose `epochs` has room for
 * `capacity` rows. A checkpoint of another configuration, seed or precision: D9_USAGE. */
D9_MUST_USE d9_status d9_checkpoint_read(d9_session *session, const char *path, int64_t capacity,
                                         d9_progress_state *progress);

#endif
