/* Protocol buffer messages: see message.h. */
#include "record/message.h"
#include "core/system.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied from memory: little-endian hosts only");

typedef enum wire { WIRE_VARINT = 0, WIRE_EIGHT = 1, WIRE_LENGTH = 2, WIRE_FOUR = 5 } wire;
enum { VARINT_BYTES = 10 }; /* longest encoding of 64 bits */

void d9_message_init(d9_context *context, d9_message *message) { *message = (d9_message){.context = context}; }

void d9_message_clear(d9_message *message) { message->size = 0; }

d9_status d9_message_status(const d9_message *message) { return message->status; }

void d9_message_free(d9_message *message) {
    d9_release(message->context, message->bytes);
    d9_message_init(message->context, message);
}

/* Makes room for `more` bytes at the end and returns their address; NULL on failure, which message->status records. */
static uint8_t *extend(d9_message *message, size_t more) {
    if (message->status == D9_OK)
        message->status =
            D9_GROW(message->context, message->size, more, "a message", &message->capacity, &message->bytes);
    if (message->status != D9_OK) return NULL;
    message->size += more;
    return message->bytes + message->size - more;
}

static void append(d9_message *message, const void *bytes, size_t size) {
    uint8_t *to = extend(message, size);
    if (to && size > 0) memcpy(to, bytes, size);
}

/* Encodes seven bits per byte, lowest first; the top bit is set if more bytes follow. */
static size_t encode_varint(uint64_t value, uint8_t bytes[VARINT_BYTES]) {
    size_t size = 0;
    do {
        bytes[size++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value);
    return size;
}

static void put_varint(d9_message *message, uint64_t value) {
    uint8_t bytes[VARINT_BYTES];
    append(message, bytes, encode_varint(value, bytes));
}

static void put_tag(d9_message *message, int field, wire wire) {
    put_varint(message, (uint64_t)field << 3 | (uint64_t)wire);
}

void d9_message_integer(d9_message *message, int field, int64_t value) {
    put_tag(message, field, WIRE_VARINT);
    put_varint(message, (uint64_t)value);
}

void d9_message_double(d9_message *message, int field, double value) {
    put_tag(message, field, WIRE_EIGHT);
    append(message, &value, sizeof value);
}

void d9_message_float(d9_message *message, int field, float value) {
    put_tag(message, field, WIRE_FOUR);
    append(message, &value, sizeof value);
}

void d9_message_bytes(d9_message *message, int field, const void *bytes, size_t size) {
    put_tag(message, field, WIRE_LENGTH);
    put_varint(message, size);
    append(message, bytes, size);
}

void d9_message_text(d9_message *message, int field, const char *text) {
    d9_message_bytes(message, field, text, strlen(text));
}

void d9_message_doubles(d9_message *message, int field, const double *values, size_t count) {
    d9_message_bytes(message, field, values, count * sizeof *values);
}

void d9_message_integers(d9_message *message, int field, const int64_t *values, size_t count) {
    const size_t begin = d9_message_begin(message, field);
    for (size_t i = 0; i < count; i++) put_varint(message, (uint64_t)values[i]);
    d9_message_end(message, begin);
}

size_t d9_message_begin(d9_message *message, int field) {
    put_tag(message, field, WIRE_LENGTH);
    return message->size;
}

/* Inserts the content's length before the content, which moves up. */
void d9_message_end(d9_message *message, size_t begin) {
    uint8_t length[VARINT_BYTES];
    if (message->status != D9_OK) return;
    const size_t content = message->size - begin, size = encode_varint(content, length);
    if (!extend(message, size)) return;
    memmove(message->bytes + begin + size, message->bytes + begin, content);
    memcpy(message->bytes + begin, length, size);
}
