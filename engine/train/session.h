/* A session: dataset, device, program and plans, opened once for training, evaluation, verification or a benchmark. It
 * keeps the timeline, the only clock of a run. */
#ifndef D9_TRAIN_SESSION_H
#define D9_TRAIN_SESSION_H

#include "build/build.h"
#include "data/dataset.h"
#include "record/record.h"
#include <signal.h>

/* Callbacks for whoever watches a run. Each may be NULL; they are called between steps and must return soon. */
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

typedef struct d9_session {
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
} d9_session;

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

/* ---- the state, and other buffers ---- */
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
D9_MUST_USE d9_status d9_session_params_sha256(d9_session *session, char hex[65]);
/* Digest of the dataset. The first call computes it and reads all images. */
const char *d9_session_data_digest(d9_session *session);

/* Fails with the status of a signal that has arrived. `where` names the work for the message: "an evaluation". */
D9_MUST_USE d9_status d9_session_check_interrupt(const d9_session *session, const char *where);

#endif
