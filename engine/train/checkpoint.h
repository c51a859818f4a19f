/* Checkpoints: the file from which an interrupted run goes on. */
#ifndef D9_TRAIN_CHECKPOINT_H
#define D9_TRAIN_CHECKPOINT_H

#include "train/session.h"
#include "train/checkpoint.h"

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
