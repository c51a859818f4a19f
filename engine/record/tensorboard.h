/* TensorBoard event files: records that each hold one Event message (tensorboard/compat/proto/event.proto and
 * summary.proto of github.com/tensorflow/tensorboard).
 *
 *   8 bytes   length n            4 bytes   masked CRC-32C of the length
 *   n bytes   the Event           4 bytes   masked CRC-32C of the Event
 *
 *   D9_TRY(d9_tensorboard_open(context, &board, "logs", step, wall_time));
 *   d9_tensorboard_begin(&board, step, wall_time);
 *   d9_tensorboard_scalar(&board, "train/loss", 1.25);
 *   D9_TRY(d9_tensorboard_end(&board));                 writes one record
 *   d9_tensorboard_close(&board);
 *
 * Wall times are seconds since 1970. No host name is written. */
#pragma once

#include "record/message.h"

typedef struct d9_tensorboard {
    d9_context *context;
    char path[1024];
    d9_message event;
    size_t summary; /* offset of the open event's Summary */
} d9_tensorboard;

/* Makes the folder and a new event file in it, FOLDER/events.out.tfevents.SECONDS.dawn9.STEP, with a version event and
 * a session start at `step`. TensorBoard then drops events from `step` on in older files of the folder. SECONDS is the
 * wall time; if a file of the folder has this time or a later one (the clock went back), SECONDS is one more than the
 * latest, so that the new file is the last by name. D9_OUTPUT: folder or file cannot be written. */
D9_MUST_USE d9_status d9_tensorboard_open(d9_context *context, d9_tensorboard *board, const char *folder, int64_t step,
                                          double wall_time);
void d9_tensorboard_close(d9_tensorboard *board); /* `board` may be zeroed instead of open */

/* An event holds any number of values. Numbers that are not finite are omitted, because TensorBoard cannot draw
 * them. */
void d9_tensorboard_begin(d9_tensorboard *board, int64_t step, double wall_time);
void d9_tensorboard_scalar(d9_tensorboard *board, const char *tag, double value); /* stored as float */
void d9_tensorboard_image(d9_tensorboard *board, const char *tag, int height, int width, const uint8_t *png,
                          size_t png_size);
/* Adds a histogram of 64 buckets of equal width between the minimum and the maximum of the finite values; nothing if no
 * value is finite. */
enum { D9_TENSORBOARD_BUCKETS = 64 };
void d9_tensorboard_histogram(d9_tensorboard *board, const char *tag, const double *values, int64_t count);
/* Appends the event to the file, as d9_file_append does (core/system.h). D9_OUTPUT: the file cannot be written. */
D9_MUST_USE d9_status d9_tensorboard_end(d9_tensorboard *board);

/* CRC-32C (Castagnoli, reflected), as in iSCSI; the CRC of "123456789" is 0xe3069283. */
uint32_t d9_crc32c(const void *bytes, size_t size);
