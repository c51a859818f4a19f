/* Parts of the trainer: the exchange between processes, checkpoints, and events for TensorBoard. Only this folder and
 * tests include it. */
#pragma once

#include "record/tensorboard.h"
#include "train/trainer.h"

/* ---- exchange between the processes of a run (together.c) ---- */
/* The processes compare their configurations and states, collect statistics, metrics and carried states, and send files
 * of rank 0 to all. With one process nothing is exchanged. Every process calls the functions in the same order. */

/* Fails with D9_USAGE on a process whose configuration, seed, precision, backend, data, version, or options for record,
 * resuming, stopping and checkpoints differ from those of rank 0. Title, threads and paths may differ. */
D9_MUST_USE d9_status d9_together_check_same_run(d9_session *session, const d9_train_options *given);
/* Gives every process the running statistics of all, in STATE and in accumulators with its layout, then compares these
 * buffers with rank 0's: D9_DEVICE, naming the first value that differs. */
D9_MUST_USE d9_status d9_together_gather_state(d9_session *session);
/* Combines METRICS of all processes: sums of the first three numbers; metrics[3]: first non-finite step + 1; 0: none */
D9_MUST_USE d9_status d9_together_metrics(d9_session *session, double metrics[4]);
/* d9_together_gather_carry turns `carry`, this process's D9_BUFFER_CARRY, into the carried states of all processes, in
 * the layout of a run of one process. d9_together_scatter_carry does the reverse: it extracts this process's states. */
D9_MUST_USE d9_status d9_together_gather_carry(d9_session *session, uint8_t *carry);
D9_MUST_USE d9_status d9_together_scatter_carry(d9_session *session, uint8_t *carry);
/* Reads a file on rank 0 and sends its bytes to every process; only rank 0 needs the file. Otherwise as
 * d9_file_read_limited. */
D9_MUST_USE d9_status d9_together_read(d9_session *session, const char *path, size_t most, uint8_t **bytes,
                                       size_t *size);

/* ---- the file from which an interrupted run continues (checkpoint.c) ---- */
typedef struct d9_progress_state { /* progress of an unfinished run, stored in a checkpoint besides the buffers */
    int64_t step;                  /* the next step */
    d9_epoch_row *epochs;          /* finished epochs */
    int64_t epoch_count;
} d9_progress_state;
/* Writes a checkpoint, with the metrics and carried states of all processes. Every process calls this after
 * d9_together_gather_state; all but rank 0 with `path` NULL. D9_NONFINITE: not written, because a number of the run is
 * not finite or a variance negative. */
D9_MUST_USE d9_status d9_checkpoint_write(d9_session *session, const char *path, const d9_progress_state *progress);
/* Reads a checkpoint into the buffers, the timeline and `progress`, whose `epochs` has space for `capacity` rows.
 * D9_USAGE: of another configuration, seed, precision, backend, data set or file format; D9_DATA: not valid. Warns if
 * the further steps may compute other bits than the process that wrote it would have. */
D9_MUST_USE d9_status d9_checkpoint_read(d9_session *session, const char *path, int64_t capacity,
                                         d9_progress_state *progress);

/* ---- events for TensorBoard (tensorboard_run.c) ---- */
/* The events of a run, written after each epoch:
 *
 *   loss/train, loss/evaluation,
 *   accuracy/train                   as in events.jsonl
 *   MEASURE/plain, MEASURE/tta       scores without and with TTA; MEASURE: accuracy, perplexity, auc
 *   learning_rate/GROUP              weights, biases, ...: in the last step of the epoch; 0: the group is frozen then
 *   speed/images_per_second
 *   NAME (layer1.conv.weight, ...)   histogram of each trained parameter, not of its EMA
 *   augmentation                     once, before the first step: up to 8 training images of 3 channels, cropped to the
 *                                    network's size, and as augmented in eight epochs
 *
 * The step of an event is the number of batches trained. */
typedef struct d9_tensorboard_run { /* all zeros: not open */
    d9_tensorboard files;
    double *state; /* space for a copy of STATE; NULL: not open */
} d9_tensorboard_run;

/* Opens a new event file that starts at `step`. At step 0 it writes the augmented images (if they have 3 channels),
 * which overwrites ORDER and scratch, so call it before d9_session_begin_epoch. */
D9_MUST_USE d9_status d9_tensorboard_run_open(d9_tensorboard_run *run, d9_session *session, const char *folder,
                                              int64_t step);
/* Writes the event of the epoch that ended before `step`. `rate_factor`: the factor by which train.plateau had
 * multiplied the learning rates of this epoch. If the file cannot be written, for example on a full disk, warns and
 * closes `run`; the training goes on. */
D9_MUST_USE d9_status d9_tensorboard_run_epoch(d9_tensorboard_run *run, d9_session *session, int64_t step,
                                               double rate_factor, const d9_epoch_row *row);
void d9_tensorboard_run_close(d9_context *context, d9_tensorboard_run *run);
