/* Reads the orientation from the Exif data of a JPEG, WebP or PNG, and turns images upright.
 *
 * Offsets in Exif data come from the file, so each is checked against the size before use. */
#include "data/formats.h"

#include <stdbool.h>
#include <string.h>

enum {
    TIFF_HEADER = 8,
    RIFF_HEADER = 12,
    CHUNK_HEADER = 8,
    ENTRY = 12,
    TAG_ORIENTATION = 0x0112,
    TYPE_SHORT = 3,
    TYPE_LONG = 4 /* against the standard, but some phones write it */
};

typedef struct tiff {
    const uint8_t *bytes;
    bool big; /* "MM": big-endian */
} tiff;

static unsigned read_16(const tiff *t, size_t at) {
    return t->big ? (unsigned)(t->bytes[at] << 8 | t->bytes[at + 1]) : (unsigned)(t->bytes[at + 1] << 8 | t->bytes[at]);
}

static size_t read_32(const tiff *t, size_t at) {
    const size_t first = read_16(t, at), second = read_16(t, at + 2);
    return t->big ? first << 16 | second : second << 16 | first;
}

static bool has_prefix(const uint8_t *bytes, size_t size) { return size >= 6 && memcmp(bytes, "Exif\0", 6) == 0; }

int d9_exif_orientation(const uint8_t *exif, size_t size) {
    const size_t prefix = has_prefix(exif, size) ? 6 : 0;
    const uint8_t *bytes = exif + prefix;
    size -= prefix;
    const tiff t = {bytes, size > 0 && bytes[0] == 'M'};
    if (size < TIFF_HEADER || (memcmp(bytes, "II", 2) != 0 && memcmp(bytes, "MM", 2) != 0)) return 1;
    const size_t directory = read_32(&t, 4);
    if (directory > size - 2) return 1;
    const size_t count = read_16(&t, directory);
    for (size_t i = 0; i < count; i++) {
        const size_t at = directory + 2 + i * ENTRY;
        if (at + ENTRY > size) return 1;
        const unsigned type = read_16(&t, at + 2);
        if (read_16(&t, at) != TAG_ORIENTATION || (type != TYPE_SHORT && type != TYPE_LONG)) continue;
        const size_t value = type == TYPE_SHORT ? read_16(&t, at + 8) : read_32(&t, at + 8);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* A WebP file is a RIFF header and chunks: four letters, a little-endian length, data, a zero if the length is odd. */
int d9_exif_webp_orientation(const uint8_t *bytes, size_t size) {
    const tiff file = {bytes, false};
    for (size_t at = RIFF_HEADER; at + CHUNK_HEADER <= size;) {
        const size_t length = read_32(&file, at + 4), left = size - at - CHUNK_HEADER;
        if (length > left) return 1;
        if (memcmp(bytes + at, "EXIF", 4) == 0) return d9_exif_orientation(bytes + at + CHUNK_HEADER, length);
        at += CHUNK_HEADER + length + length % 2;
    }
    return 1;
}

/* Index, in the stored image of w x h pixels, of the pixel shown at (x, y). The tables are indexed by orientation. */
static size_t stored_index(int orientation, int x, int y, int w, int h) {
    const int from_x[9] = {0, x, w - 1 - x, w - 1 - x, x, y, y, w - 1 - y, w - 1 - y};
    const int from_y[9] = {0, y, y, h - 1 - y, h - 1 - y, x, h - 1 - x, h - 1 - x, x};
    return (size_t)from_y[orientation] * (size_t)w + (size_t)from_x[orientation];
}

void d9_exif_orient(int orientation, const uint8_t *stored, int width, int height, uint8_t *seen) {
    const int seen_width = orientation < 5 ? width : height, seen_height = orientation < 5 ? height : width;
    for (int y = 0; y < seen_height; y++)
        for (int x = 0; x < seen_width; x++, seen += 3)
            memcpy(seen, stored + stored_index(orientation, x, y, width, height) * 3, 3);
}
