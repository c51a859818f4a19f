/* A session: dataset, device, program and plans, opened once for training, evaluation, verification or a benchmark. It
 * keeps the timeline of a run. */
#pragma once

#include "build/build.h"
#include "data/dataset.h"
#include "record/record.h"

struct d9_sheet; /* data/preview.h */

/* Callbacks that report the progress of a run; each may be NULL. The run waits for them, so they must return soon. */
typedef struct d9_observer {
    void *user;
    /* `precision_why`: d9_session.precision_why */
    void (*planned)(void *user, const d9_program *program, const d9_device_info *device, const char *precision_why);
    /* Called after `planned` if a checkpoint was read, with the steps done and the rows of finished epochs. */
    void (*resumed)(void *user, int64_t step, const d9_epoch_row *rows, int64_t count);
    /* `step`: number of steps done. `loss`: mean training loss of the epoch so far; NAN on asynchronous devices.
     * `epoch_seconds`: time that this process has trained in the epoch so far. */
    void (*step)(void *user, const d9_program *program, int64_t step, double loss, double epoch_seconds);
    void (*epoch)(void *user, const d9_program *program, const d9_epoch_row *row);
    void (*lap)(void *user, d9_segment_kind kind); /* a segment of the timeline has ended */
    /* Progress of an evaluation: inferences (images times views) done, and their total. */
    void (*evaluation_progress)(void *user, const d9_program *program, int64_t seen, int64_t all);
} d9_observer;

typedef struct d9_session {
    d9_context *context;
    const d9_config *config;
    uint64_t seed;
    d9_dataset *dataset;                    /* owned */
    char data_digest[D9_DIGEST_DIGITS + 1]; /* set by d9_session_data_digest; "": not computed yet */
    const d9_backend *backend;
    d9_device *device;
    d9_device_info info;
    char precision_why[160]; /* for users: why `precision: auto` took bf16 or f32; "": the network did not matter */
    d9_program program;
    d9_plan *train_plan, *phase_plan[D9_MAX_PHASES], *eval_plan; /* phase_plan: one for each of program.phase */
    d9_timeline timeline;
    double mark;           /* end of the timeline's last segment, CLOCK_MONOTONIC seconds */
    d9_observer observer;  /* the session itself calls only `lap` and `evaluation_progress` */
    int64_t seen, to_see;  /* inferences (images times views) of the current evaluation: done, and their total */
    d9_parallel *parallel; /* the processes of the run; NULL: one */
    bool warned_undefined; /* a warning has named the labels whose score is undefined */
} d9_session;

/* True if a sample may have several labels. */
static inline bool d9_session_is_multilabel(const d9_session *session) {
    return d9_loss_multi_label(session->config->train.loss) != 0;
}

/* Waits for submitted steps, ends the segment of the timeline that began at `mark`, and sets `mark` to now. */
D9_MUST_USE d9_status d9_session_lap(d9_session *session, d9_segment_kind kind, int64_t epoch);

typedef struct d9_session_options {
    const d9_config *config;
    uint64_t seed;
    const char *plan;     /* text of a saved plan; NULL: choose implementations */
    double process_start; /* CLOCK_MONOTONIC seconds; 0: now */
    d9_observer observer;
    d9_parallel *parallel; /* the processes that train together, of which this is one; NULL: one */
    d9_dataset *dataset;   /* the session becomes its owner; NULL: loads the configuration's dataset */
    d9_program_options program;
    bool no_eval;  /* no evaluation plan */
    bool no_train; /* no training plan */
} d9_session_options;

/* Computes the sizes of data and run, without reading a file. *counted is false if only files tell the number of
 * samples: an epoch then has at least D9_MAX_BATCHES batches, and there are two classes. */
D9_MUST_USE d9_status d9_config_extent(d9_context *context, const d9_config *config, d9_extent *extent, bool *counted);
/* Checks a configuration by building its program, to report the errors that training would report about network and
 * data set (D9_USAGE). Reads no file, so the number of samples in the user's own files is unknown. */
D9_MUST_USE d9_status d9_config_try(d9_context *context, const d9_config *config);
/* D9_USAGE: the run would have no step, because train.epochs is too small. */
D9_MUST_USE d9_status d9_config_check_steps(d9_context *context, const d9_config *config, const d9_program *program);
/* Checks a configuration as d9_config_try does, for a run of `ranks` processes. Sets *found to true if the network has
 * a batch norm over the whole batch, for which several processes need train.norm_groups, else to false. */
D9_MUST_USE d9_status d9_config_find_whole_norm(d9_context *context, const d9_config *config, int ranks, bool *found);
/* Describes the dataset of a configuration as far as it is known without reading a file (d9_dataset_describe). */
D9_MUST_USE d9_status d9_config_describe_dataset(d9_context *context, const d9_config *config, d9_dataset *promised);
/* Loads the dataset of a configuration. `known` and `words`: provenance and vocabulary of the model that is to be
 * evaluated; NULL: the samples are for training. */
D9_MUST_USE d9_status d9_config_dataset(d9_context *context, const d9_config *config, const d9_provenance *known,
                                        const d9_vocabulary *words, d9_dataset **dataset);
/* Opens dataset and device, builds and plans the program, and uploads the data. Does not initialise parameters. */
D9_MUST_USE d9_status d9_session_open(d9_context *context, const d9_session_options *options, d9_session *session);
void d9_session_close(d9_session *session);
/* Warns of settings and data with which training runs but gives a poor result. */
D9_MUST_USE d9_status d9_session_warn(d9_session *session);
/* Plans another list of nodes over the buffers of the session. The caller frees the plan before closing the session. */
D9_MUST_USE d9_status d9_session_plan(d9_session *session, const d9_graph *graph, d9_plan **plan);
/* On a device that loads code when it is first used, runs each plan once to load its code; counts as planning.
 * Overwrites what steps write: call it before d9_session_initialize. Processes that train together must all call it. */
D9_MUST_USE d9_status d9_session_load_code(d9_session *session);
/* Initialises STATE. Metrics, gradients and states of updates become zero; accumulators with the layout of STATE become
 * copies of STATE. */
D9_MUST_USE d9_status d9_session_initialize(d9_session *session);
/* Writes the sample order of the epoch that contains `step`. Call it at the epoch's first step, where it also zeroes
 * METRICS and CARRY, and after resuming within an epoch. */
D9_MUST_USE d9_status d9_session_begin_epoch(d9_session *session, int64_t step);
/* Makes every batch the first images of the data, by writing the buffer `order`, ORDER or EVAL_ORDER; for checks,
 * benchmarks and previews. */
D9_MUST_USE d9_status d9_session_repeat_batch(d9_session *session, d9_buffer order);
/* Runs the step that begins at `step`. An asynchronous device may still be computing when this returns. */
D9_MUST_USE d9_status d9_session_step(d9_session *session, int64_t step);
/* The plan of the step that begins at `step`. */
d9_plan *d9_session_step_plan(const d9_session *session, int64_t step);
/* Adds the plan texts of all lists that a training step may run. */
void d9_session_add_train_plans(const d9_session *session, d9_text *text);

/* ---- the state, and other buffers ---- */
/* Reads or writes STATE, or an accumulator with the layout of STATE, as program.state_elements doubles. */
D9_MUST_USE d9_status d9_session_read_state(d9_session *session, d9_buffer buffer, double *state);
D9_MUST_USE d9_status d9_session_write_state(d9_session *session, d9_buffer buffer, const double *state);
/* Reads a value as doubles. Without keep_all, later nodes of the step may have overwritten a value in SCRATCH. */
D9_MUST_USE d9_status d9_session_read_value(d9_session *session, const d9_value *value, double *values);
/* Reads, writes or zeroes a whole buffer: program.buffer_bytes[buffer] bytes. */
D9_MUST_USE d9_status d9_session_read(d9_session *session, d9_buffer buffer, void *bytes);
D9_MUST_USE d9_status d9_session_write(d9_session *session, d9_buffer buffer, const void *bytes);
D9_MUST_USE d9_status d9_session_zero(d9_session *session, d9_buffer buffer);
/* Multiplies the learning rates of all steps by `factor`. */
D9_MUST_USE d9_status d9_session_scale_rates(d9_session *session, double factor);
/* Writes `state` to STATE and to every accumulator with the layout of STATE. */
D9_MUST_USE d9_status d9_session_set_state(d9_session *session, const double *state);
/* SHA-256 of STATE and of every accumulator with the layout of STATE. */
D9_MUST_USE d9_status d9_session_params_sha256(d9_session *session, char hex[65]);
/* Digest of the dataset. The first call computes it and reads all samples. */
const char *d9_session_data_digest(d9_session *session);

/* ---- only the nodes that make the batch, for `bench pipeline`, `data preview` and the images in TensorBoard ---- */
/* Fills `graph` (initialised, empty) with the nodes of `list`, a training list of the program, that make the batch:
 * draw, augment, gather, mix, paste, tokens, stream. Plans it. Free the plan, then the graph. */
D9_MUST_USE d9_status d9_batch_plan(d9_session *session, const d9_graph *list, d9_graph *graph, d9_plan **plan);

/* Draws a sheet of the first training images, up to D9_BATCH_SHEET_IMAGES. Each row has the name of the image's class,
 * the image cropped to the network's size, and the image as augmented in the first step of each of the first
 * D9_PREVIEW_EPOCHS epochs; smaller images of a step are enlarged. Overwrites ORDER and scratch. The images need three
 * channels. The caller frees the sheet. */
enum { D9_BATCH_SHEET_IMAGES = 8 };
D9_MUST_USE d9_status d9_batch_sheet_make(d9_session *session, struct d9_sheet *sheet);

/* Fails with the status of an arrived signal, or with D9_SIGINT if context->poll asks to stop; else D9_OK. `where`
 * names the interrupted work in the message: "an evaluation". All processes of a run must call it equally often; all
 * fail if one of them must stop. */
D9_MUST_USE d9_status d9_session_check_interrupt(const d9_session *session, const char *where);
