/* Protocol buffer messages, encoded by hand: a tag (field << 3 | wire type), then a varint, four or eight bytes, or a
 * length and that many bytes. Little-endian. (protobuf.dev/programming-guides/encoding)
 *
 *   d9_message_init(context, &event);
 *   d9_message_double(&event, 1, wall_time);           field 1: double
 *   size_t summary = d9_message_begin(&event, 5);      field 5: a message
 *   d9_message_text(&event, 1, "loss");                field 1 of that message
 *   d9_message_end(&event, summary);
 *   D9_TRY(d9_message_status(&event));                 event.bytes, event.size
 *   d9_message_free(&event);
 *
 * The first allocation failure is kept for d9_message_status, so no other call needs a check. */
#pragma once

#include "core/context.h"

typedef struct d9_message {
    d9_context *context;
    uint8_t *bytes; /* NULL until bytes are added */
    size_t size, capacity;
    d9_status status;
} d9_message;

void d9_message_init(d9_context *context, d9_message *message);
void d9_message_clear(d9_message *message); /* sets the size to 0; keeps memory and status */
D9_MUST_USE d9_status d9_message_status(const d9_message *message);
void d9_message_free(d9_message *message);

void d9_message_integer(d9_message *message, int field, int64_t value); /* int32, int64, enum, bool */
void d9_message_double(d9_message *message, int field, double value);
void d9_message_float(d9_message *message, int field, float value);
void d9_message_bytes(d9_message *message, int field, const void *bytes, size_t size);
void d9_message_text(d9_message *message, int field, const char *text);
void d9_message_doubles(d9_message *message, int field, const double *values, size_t count);   /* packed */
void d9_message_integers(d9_message *message, int field, const int64_t *values, size_t count); /* packed */
/* Fields added between begin and end form one message in `field`. Pass the result of begin to end. Messages nest. */
size_t d9_message_begin(d9_message *message, int field);
void d9_message_end(d9_message *message, size_t begin);
