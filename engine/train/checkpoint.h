/* Checkpoints: the file from which an interrupted run continues. */
#pragma once

#include "train/session.h"

typedef struct d9_progress_state { /* progress of an unfinished run, stored in a checkpoint besides the buffers */
    int64_t step;                  /* the next step */
    d9_epoch_row *epochs;          /* finished epochs */
    int64_t epoch_count;
    int64_t threads; /* CPU threads of the process that wrote it; 0: not recorded. d9_checkpoint_write ignores it and
                        records the session's */
} d9_progress_state;
/* Writes a checkpoint, with the metrics and carried states of all processes. Every process calls this after
 * d9_together_gather_state; all but rank 0 with `path` NULL. D9_NONFINITE: not written, because a number of the run is
 * not finite or a variance negative. */
D9_MUST_USE d9_status d9_checkpoint_write(d9_session *session, const char *path, const d9_progress_state *progress);
/* Reads a checkpoint into the buffers, the timeline and `progress`, whose `epochs` has space for `capacity` rows.
 * D9_USAGE: of another configuration, seed, precision, backend, data set or version; D9_DATA: no valid checkpoint. */
D9_MUST_USE d9_status d9_checkpoint_read(d9_session *session, const char *path, int64_t capacity,
                                         d9_progress_state *progress);
