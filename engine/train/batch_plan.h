/* The batch nodes of a program, planned on their own: what `bench pipeline` times, `data preview` shows and
 * TensorBoard is given. */
#ifndef D9_TRAIN_BATCH_PLAN_H
#define D9_TRAIN_BATCH_PLAN_H

#include "data/preview.h"
#include "train/trainer.h"

/* `graph` (initialised, empty) becomes draw, augment and gather at their places in the session's buffers.
 * Both are the caller's: free the plan first. */
D9_MUST_USE d9_status d9_batch_plan(d9_session *session, d9_graph *graph, d9_plan **plan);

/* The first training images, a row each: as they are, then under each of the first epochs. The images need three
 * channels. The caller frees the sheet. */
enum { D9_BATCH_SHEET_IMAGES = 8, D9_BATCH_SHEET_EPOCHS = 8 };
D9_MUST_USE d9_status d9_batch_sheet(d9_session *session, d9_sheet *sheet);

#endif
