/* TensorBoard's event files: see tensorboard.h. */
#include "record/tensorboard.h"
#include "core/listing.h"
#include "core/system.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "events.out.tfevents."
static const int64_t SECONDS_MOST = 9999999999; /* largest time of ten digits, the width of the time in file names */

/* Field numbers, and two values (SESSION_START, COLOURS_RGB), of event.proto and summary.proto. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION_LOG = 7 };
enum { SESSION_LOG_STATUS = 1, SESSION_START = 1 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_IMAGE = 4, VALUE_HISTOGRAM = 5 };
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH = 2, IMAGE_COLOURS = 3, IMAGE_BYTES = 4, COLOURS_RGB = 3 };
enum {
    HISTOGRAM_MIN = 1,
    HISTOGRAM_MAX,
    HISTOGRAM_COUNT,
    HISTOGRAM_SUM,
    HISTOGRAM_SQUARES,
    HISTOGRAM_LIMITS,
    HISTOGRAM_BUCKETS
};

/* ---- records ---- */

uint32_t d9_crc32c(const void *bytes, size_t size) {
    /* The CRC of each four-bit value, for the reflected polynomial 0x82f63b78. */
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                       0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < size; i++) {
        crc ^= ((const uint8_t *)bytes)[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

/* Writes the CRC in the format's masked form: rotated, plus a constant. */
static void write_masked_crc(const void *bytes, size_t size, uint8_t *to) {
    const uint32_t crc = d9_crc32c(bytes, size), masked = (crc >> 15 | crc << 17) + 0xa282ead8;
    memcpy(to, &masked, sizeof masked);
}

static d9_status append_record(d9_tensorboard *board) {
    d9_status status;
    const uint64_t length = board->event.size;
    uint8_t *record = NULL;
    D9_TRY(d9_message_status(&board->event));
    D9_TRY(D9_ALLOCATE(board->context, length + 16, "an event", &record));
    memcpy(record, &length, 8);
    write_masked_crc(record, 8, record + 8);
    memcpy(record + 12, board->event.bytes, (size_t)length);
    write_masked_crc(board->event.bytes, (size_t)length, record + 12 + length);
    D9_TRY(d9_file_append(board->context, board->path, record, (size_t)length + 16));
done:
    d9_release(board->context, record);
    return status;
}

static void begin_event(d9_tensorboard *board, int64_t step, double wall_time) {
    d9_message_clear(&board->event);
    d9_message_double(&board->event, EVENT_WALL_TIME, wall_time);
    if (step) d9_message_integer(&board->event, EVENT_STEP, step); /* proto3 omits zeros */
}

/* Chooses the time in the name of a new file: the wall time or, if an event file of the folder has this time or a later
 * one, a second after the latest, because TensorBoard reads files in the order of their names. */
static int64_t choose_seconds(const d9_context *context, const char *folder, double wall_time) {
    d9_context quiet = *context; /* a folder that cannot be listed counts as empty */
    d9_arena arena = {0};
    d9_listing listing;
    int64_t seconds = (int64_t)floor(wall_time);
    if (d9_listing_read(&quiet, &arena, folder, &listing) != D9_OK) listing.count = 0;
    for (int64_t i = 0; i < listing.count; i++) {
        const char *name = listing.entries[i].name;
        const int64_t other = strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? strtoll(name + strlen(PREFIX), NULL, 10) : 0;
        if (other >= seconds && other < SECONDS_MOST) seconds = other + 1;
    }
    d9_arena_free(&quiet, &arena);
    return seconds;
}

d9_status d9_tensorboard_open(d9_context *context, d9_tensorboard *board, const char *folder, int64_t step,
                              double wall_time) {
    d9_status status;
    *board = (d9_tensorboard){.context = context};
    d9_message_init(context, &board->event);
    D9_TRY(d9_directory_make(context, folder));
    const int64_t seconds = choose_seconds(context, folder, wall_time);
    const int length = snprintf(board->path, sizeof board->path, "%s/" PREFIX "%010lld.dawn9.%09lld", folder,
                                (long long)seconds, (long long)step);
    if (length >= (int)sizeof board->path)
        D9_TRY(d9_fail(context, D9_OUTPUT, "%.80s...: the folder's name is too long", folder));
    begin_event(board, 0, wall_time);
    d9_message_text(&board->event, EVENT_FILE_VERSION, "brain.Event:2");
    D9_TRY(append_record(board));
    begin_event(board, step, wall_time);
    const size_t session = d9_message_begin(&board->event, EVENT_SESSION_LOG);
    d9_message_integer(&board->event, SESSION_LOG_STATUS, SESSION_START);
    d9_message_end(&board->event, session);
    D9_TRY(append_record(board));
done:
    return status;
}

void d9_tensorboard_close(d9_tensorboard *board) {
    if (board->context) d9_message_free(&board->event);
    *board = (d9_tensorboard){0};
}

/* ---- events ---- */

void d9_tensorboard_begin(d9_tensorboard *board, int64_t step, double wall_time) {
    begin_event(board, step, wall_time);
    board->summary = d9_message_begin(&board->event, EVENT_SUMMARY);
}

d9_status d9_tensorboard_end(d9_tensorboard *board) {
    d9_message_end(&board->event, board->summary);
    return append_record(board);
}

static size_t begin_value(d9_tensorboard *board, const char *tag) {
    const size_t value = d9_message_begin(&board->event, SUMMARY_VALUE);
    d9_message_text(&board->event, VALUE_TAG, tag);
    return value;
}

void d9_tensorboard_scalar(d9_tensorboard *board, const char *tag, double value) {
    if (!isfinite(value)) return;
    const size_t begin = begin_value(board, tag);
    d9_message_float(&board->event, VALUE_SIMPLE, (float)value);
    d9_message_end(&board->event, begin);
}

void d9_tensorboard_image(d9_tensorboard *board, const char *tag, int height, int width, const uint8_t *png,
                          size_t png_size) {
    const size_t begin = begin_value(board, tag), image = d9_message_begin(&board->event, VALUE_IMAGE);
    d9_message_integer(&board->event, IMAGE_HEIGHT, height);
    d9_message_integer(&board->event, IMAGE_WIDTH, width);
    d9_message_integer(&board->event, IMAGE_COLOURS, COLOURS_RGB);
    d9_message_bytes(&board->event, IMAGE_BYTES, png, png_size);
    d9_message_end(&board->event, image);
    d9_message_end(&board->event, begin);
}

typedef struct histogram {
    double least, largest, count, sum, squares, limits[D9_TENSORBOARD_BUCKETS], buckets[D9_TENSORBOARD_BUCKETS];
} histogram;

static histogram make_histogram(const double *values, int64_t count) {
    histogram h = {.least = INFINITY, .largest = -INFINITY};
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) continue;
        h.least = fmin(h.least, values[i]);
        h.largest = fmax(h.largest, values[i]);
        h.count++;
        h.sum += values[i];
        h.squares += values[i] * values[i];
    }
    const double width = (h.largest - h.least) / D9_TENSORBOARD_BUCKETS;
    for (int b = 0; b < D9_TENSORBOARD_BUCKETS; b++) h.limits[b] = h.least + width * (b + 1);
    h.limits[D9_TENSORBOARD_BUCKETS - 1] = h.largest;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) continue;
        const double place = width > 0 ? floor((values[i] - h.least) / width) : 0;
        h.buckets[(int)fmin(place, D9_TENSORBOARD_BUCKETS - 1)]++;
    }
    return h;
}

void d9_tensorboard_histogram(d9_tensorboard *board, const char *tag, const double *values, int64_t count) {
    const histogram h = make_histogram(values, count);
    if (h.count == 0) return;
    const size_t begin = begin_value(board, tag), histo = d9_message_begin(&board->event, VALUE_HISTOGRAM);
    d9_message_double(&board->event, HISTOGRAM_MIN, h.least);
    d9_message_double(&board->event, HISTOGRAM_MAX, h.largest);
    d9_message_double(&board->event, HISTOGRAM_COUNT, h.count);
    d9_message_double(&board->event, HISTOGRAM_SUM, h.sum);
    d9_message_double(&board->event, HISTOGRAM_SQUARES, h.squares);
    d9_message_doubles(&board->event, HISTOGRAM_LIMITS, h.limits, D9_TENSORBOARD_BUCKETS);
    d9_message_doubles(&board->event, HISTOGRAM_BUCKETS, h.buckets, D9_TENSORBOARD_BUCKETS);
    d9_message_end(&board->event, histo);
    d9_message_end(&board->event, begin);
}
