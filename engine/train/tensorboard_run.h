/* A run as TensorBoard is given it, an event an epoch:
 *
 *   loss/train, accuracy/train, accuracy/plain, accuracy/tta       as in events.jsonl; accuracies in percent
 *   learning_rate/GROUP                                            weights, biases, ...: at the epoch's last step
 *   speed/images_per_second
 *   NAME (layer1.conv.weight, ...)                                 a histogram of each trained parameter, not averaged
 *   augmentation                                                   once, before the first step: 8 images, then each as
 *                                                                  eight epochs show it
 *
 * The step of an event is the number of training steps done. */
#ifndef D9_TRAIN_TENSORBOARD_RUN_H
#define D9_TRAIN_TENSORBOARD_RUN_H

#include "record/tensorboard.h"
#include "train/trainer.h"

typedef struct d9_tensorboard_run { /* zeroed: none */
    d9_tensorboard files;
    double *state; /* room for STATE; NULL: none */
} d9_tensorboard_run;

/* A new event file from `step` on. At step 0 it begins with the augmentation, for which it runs the batch nodes: it
 * writes ORDER and scratch, so it must come before d9_session_begin_epoch. Images that have not 3 channels: no sheet.
 */
D9_MUST_USE d9_status d9_tensorboard_run_open(d9_tensorboard_run *run, d9_session *session, const char *folder,
                                              int64_t step);
D9_MUST_USE d9_status d9_tensorboard_run_epoch(d9_tensorboard_run *run, d9_session *session, int64_t step,
                                               const d9_epoch_row *row);
void d9_tensorboard_run_close(d9_context *context, d9_tensorboard_run *run);

#endif
