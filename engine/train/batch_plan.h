/* Plans only the nodes that make the batch, for `bench pipeline`, `data preview` and the images in TensorBoard. */
#pragma once

#include "data/preview.h"
#include "train/session.h"

/* Fills `graph` (initialised, empty) with the nodes of the training list that make the batch: draw, augment, gather,
 * mix, paste, tokens. Plans it. Free the plan, then the graph. */
D9_MUST_USE d9_status d9_batch_plan(d9_session *session, d9_graph *graph, d9_plan **plan);

/* Draws a sheet of the first training images, one per row with the name of its class: unchanged, then as augmented in
 * each of the first D9_PREVIEW_EPOCHS epochs, which the headings number. Overwrites ORDER and scratch. The images need
 * three channels. The caller frees the sheet. */
enum { D9_BATCH_SHEET_IMAGES = 8 };
D9_MUST_USE d9_status d9_batch_sheet(d9_session *session, d9_sheet *sheet);
