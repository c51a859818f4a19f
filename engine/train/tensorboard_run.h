/* Writes the events of a run for TensorBoard, after each epoch:
 *
 *   loss/train, loss/evaluation,
 *   accuracy/train                   as in events.jsonl
 *   MEASURE/plain, MEASURE/tta       as in events.jsonl; MEASURE: accuracy, perplexity, auc
 *   learning_rate/GROUP              weights, biases, ...: in the last step of the epoch; 0 once the group is frozen
 *   speed/images_per_second
 *   NAME (layer1.conv.weight, ...)   histogram of each trained parameter, not of its EMA
 *   augmentation                     once, before the first step: up to 8 training images, unchanged and as augmented
 *                                    in eight epochs
 *
 * The step of an event is the number of batches trained. */
#pragma once

#include "record/tensorboard.h"
#include "train/session.h"

typedef struct d9_tensorboard_run { /* all zeros: not open */
    d9_tensorboard files;
    double *state; /* space for a copy of STATE; NULL: not open */
} d9_tensorboard_run;

/* Opens a new event file that starts at `step`. At step 0 it writes the augmented images (if they have 3 channels),
 * which overwrites ORDER and scratch, so call it before d9_session_begin_epoch. */
D9_MUST_USE d9_status d9_tensorboard_run_open(d9_tensorboard_run *run, d9_session *session, const char *folder,
                                              int64_t step);
/* Writes the event of the epoch that ended before `step`. `rate_factor`: by which train.plateau had multiplied its
 * learning rates. If the file cannot be written, for example on a full disk, warns and closes `run`: the training is
 * worth more than its curves. */
D9_MUST_USE d9_status d9_tensorboard_run_epoch(d9_tensorboard_run *run, d9_session *session, int64_t step,
                                               double rate_factor, const d9_epoch_row *row);
void d9_tensorboard_run_close(d9_context *context, d9_tensorboard_run *run);
