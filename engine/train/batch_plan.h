/* The batch nodes of a program, planned on their own: what `bench pipeline` times, `data preview` shows and
 * TensorBoard is given. */
#ifndef D9_TRAIN_BATCH_PLAN_H
#define D9_TRAIN_BATCH_PLAN_H

#include "train/trainer.h"

/* `graph` (initialised, empty) becomes draw, augment and gather at their places in the session's buffers.
 * Both are the caller's: free the plan first. */
D9_MUST_USE d9_status d9_batch_plan(d9_session *session, d9_graph *graph, d9_plan **plan);

#endif
