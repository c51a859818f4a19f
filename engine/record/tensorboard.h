/* TensorBoard's event files: a file of records, each an Event message (tensorboard/compat/proto/event.proto and
 * summary.proto of github.com/tensorflow/tensorboard).
 *
 *   8 bytes   length n            4 bytes   masked CRC-32C of those eight
 *   n bytes   the Event           4 bytes   masked CRC-32C of those n
 *
 *   D9_TRY(d9_tensorboard_open(context, &board, "logs", step, wall_time));
 *   d9_tensorboard_begin(&board, step, wall_time);
 *   d9_tensorboard_scalar(&board, "train/loss", 1.25);
 *   D9_TRY(d9_tensorboard_end(&board));                 one record, on disk
 *   d9_tensorboard_close(&board);
 *
 * Wall times are seconds since 1970. No host name is written. */
#ifndef D9_RECORD_TENSORBOARD_H
#define D9_RECORD_TENSORBOARD_H

#include "record/message.h"

typedef struct d9_tensorboard {
    d9_context *context;
    char path[1024];
    d9_message event;
    size_t summary; /* where the open event's Summary begins */
} d9_tensorboard;

/* Makes the folder and a new event file in it, FOLDER/events.out.tfevents.SECONDS.dawn9.STEP, that begins with its
 * version and a session's start at `step`: the viewer forgets what older files of the folder hold of later steps. A
 * folder or file that cannot be written: D9_OUTPUT. */
D9_MUST_USE d9_status d9_tensorboard_open(d9_context *context, d9_tensorboard *board, const char *folder, int64_t step,
                                          double wall_time);
void d9_tensorboard_close(d9_tensorboard *board); /* one that was zeroed and never opened is fine */

/* An event of any number of values. Values that are not finite are left out: the viewer cannot draw them. */
void d9_tensorboard_begin(d9_tensorboard *board, int64_t step, double wall_time);
void d9_tensorboard_scalar(d9_tensorboard *board, const char *tag, double value); /* kept as float */
void d9_tensorboard_image(d9_tensorboard *board, const char *tag, int height, int width, const uint8_t *png,
                          size_t png_size);
/* 64 buckets of equal width from the least to the largest value. */
enum { D9_TENSORBOARD_BUCKETS = 64 };
void d9_tensorboard_histogram(d9_tensorboard *board, const char *tag, const double *values, int64_t count);
/* Appends the record. A full disk: D9_OUTPUT, and the file is as it was. */
D9_MUST_USE d9_status d9_tensorboard_end(d9_tensorboard *board);

/* CRC-32C (Castagnoli), reflected, as iSCSI's: of "123456789" it is 0xe3069283. */
uint32_t d9_crc32c(const void *bytes, size_t size);

#endif
