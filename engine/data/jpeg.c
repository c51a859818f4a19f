/* Checks a JPEG before stb_image decodes it: its kind, frame header, tables and end. Markers are found as in stb_image,
 * so that every table that stb_image reads is checked here. Also finds the Exif orientation. */
#include "data/formats.h"

#include <string.h>

enum {
    FILL = 0xff,
    NO_FILL = 0xfe,
    START = 0xd8,
    END = 0xd9,
    SCAN = 0xda,
    HUFFMAN = 0xc4,
    QUANTISATION = 0xdb,
    RESTART_FIRST = 0xd0,
    RESTART_LAST = 0xd7,
    FRAME_FIRST = 0xc0,
    FRAME_LAST = 0xc2,
    FRAME_PROGRESSIVE = 0xc2,
    COMPONENTS_MAX = 4,
    CODES_MAX = 256,
    TABLE_HEAD = 17,
    COEFFICIENTS = 64,
    EXIF = 0xe1, /* segment APP1: Exif, or other data such as XMP */
    ADOBE = 0xee,
    ADOBE_BYTES = 12
};

typedef struct segment {
    int marker;
    size_t start; /* offset of the marker's last 0xff */
    const uint8_t *bytes;
    size_t size;
} segment;

static bool is_jpeg(const uint8_t *bytes, size_t size) { return size >= 4 && bytes[0] == FILL && bytes[1] == START; }

/* True if 0xff and this byte belong to the data after a scan header: a data byte 0xff, or a restart marker. */
static bool is_coded(int marker) { return marker == 0 || (marker >= RESTART_FIRST && marker <= RESTART_LAST); }

/* Finds the next segment at or after `*at`, and advances `*at` past the segment; false if there is none. The end marker
 * counts as the last segment. A truncated last segment ends with the file, because stb_image starts to read it, too. If
 * `coded`, the data after a scan header come first. */
static bool next_segment(const uint8_t *bytes, size_t size, bool coded, size_t *at, segment *found) {
    size_t i = *at;
    for (;; i++) {
        while (i < size && bytes[i] != FILL) i++;
        while (i + 1 < size && bytes[i + 1] == FILL) i++;
        if (i + 2 > size) return false;
        if (!coded || !is_coded(bytes[i + 1])) break;
    }
    *found = (segment){.marker = bytes[i + 1], .start = i};
    *at = size;
    if (found->marker == END) return true;
    if (i + 4 > size) return false;
    const size_t said = (size_t)(bytes[i + 2] << 8 | bytes[i + 3]), left = size - i - 2;
    const size_t length = said < left ? said : left;
    if (length < 2) return false;
    found->bytes = bytes + i + 4;
    found->size = length - 2;
    *at = i + 2 + length;
    return true;
}

/* Reads the image size and the bytes per pixel that stb_image needs: component planes, coefficients of a progressive
 * file (2 bytes each), and RGB. */
static bool read_frame(const segment *frame, d9_picture_header *header) {
    int sampling[COMPONENTS_MAX], largest_h = 1, largest_v = 1;
    double planes = 0;
    const uint8_t *b = frame->bytes;
    const int count = frame->size < 6 ? 0 : b[5];
    if (count < 1 || count > COMPONENTS_MAX || b[0] != 8 || frame->size != 6 + 3 * (size_t)count) return false;
    for (int c = 0; c < count; c++) {
        const int h = b[7 + 3 * c] >> 4, v = b[7 + 3 * c] & 15;
        if (h < 1 || h > 4 || v < 1 || v > 4) return false;
        sampling[c] = h * v;
        if (h > largest_h) largest_h = h;
        if (v > largest_v) largest_v = v;
    }
    for (int c = 0; c < count; c++) planes += (double)sampling[c] / (largest_h * largest_v);
    header->height = b[1] << 8 | b[2];
    header->width = b[3] << 8 | b[4];
    header->bytes_per_pixel = 3 + planes * (frame->marker == FRAME_PROGRESSIVE ? 3 : 1);
    return true;
}

bool d9_jpeg_header(const uint8_t *bytes, size_t size, d9_picture_header *header) {
    segment found;
    if (!is_jpeg(bytes, size)) return false;
    for (size_t at = 2; next_segment(bytes, size, false, &at, &found);)
        if (found.marker >= FRAME_FIRST && found.marker <= FRAME_LAST) return read_frame(&found, header);
    return false;
}

/* The tables in front of a scan; bit t is set if table t is defined. */
typedef struct tables {
    unsigned dc, ac, quantisation;
} tables;

/* Notes the Huffman tables of a segment: each has one byte (class and number), 16 counts, and as many values as the sum
 * of the counts. False if a table is truncated or has too many codes. */
static bool read_huffman(const segment *from, tables *known) {
    for (size_t at = 0; at < from->size;) {
        size_t codes = 0;
        if (from->size - at < TABLE_HEAD) return false;
        for (size_t i = 1; i < TABLE_HEAD; i++) codes += from->bytes[at + i];
        if (codes > CODES_MAX || codes > from->size - at - TABLE_HEAD) return false;
        *(from->bytes[at] >> 4 ? &known->ac : &known->dc) |= 1U << (from->bytes[at] & 15);
        at += TABLE_HEAD + codes;
    }
    return true;
}

/* Notes the quantisation tables of a segment: each has one byte (precision and number) and its factors of 1 or 2 bytes.
 * stb_image rejects a segment that does not end with a table. */
static void read_quantisation(const segment *from, tables *known) {
    for (size_t at = 0; at < from->size; at += from->bytes[at] >> 4 ? 1 + 2 * COEFFICIENTS : 1 + COEFFICIENTS)
        known->quantisation |= 1U << (from->bytes[at] & 15);
}

bool d9_jpeg_is_decodable(const uint8_t *bytes, size_t size) {
    segment found = {0};
    tables known = {0};
    for (size_t at = 2; next_segment(bytes, size, found.marker == SCAN, &at, &found);)
        if (found.marker == HUFFMAN && !read_huffman(&found, &known)) return false;
    return found.marker == END;
}

/* Kind of a table that a scan needs but that is not defined; NULL: none is missing. In a progressive file the first
 * scan of DC coefficients needs no AC table, a later one no Huffman table, and a scan of AC coefficients no DC table.
 * stb_image itself rejects a scan header of a wrong size or with an unknown component. */
static const char *find_missing(const segment *frame, const segment *scan, const tables *known) {
    const size_t components = scan->size > 0 ? scan->bytes[0] : 0;
    if (scan->size != 4 + 2 * components) return NULL;
    /* Three bytes: index of the first coefficient, index of the last, and two 4-bit numbers: the lowest bit of these
     * coefficients that earlier scans sent (0: none did), and the lowest bit that this scan sends. */
    const uint8_t *coefficients = scan->bytes + 1 + 2 * components;
    const bool all = frame->marker != FRAME_PROGRESSIVE;
    const bool dc = all || (coefficients[0] == 0 && coefficients[2] >> 4 == 0), ac = all || coefficients[0] > 0;
    for (size_t s = 1; s < 1 + 2 * components; s += 2)
        for (size_t f = 6; f < frame->size; f += 3) {
            if (frame->bytes[f] != scan->bytes[s]) continue;
            const int huffman = scan->bytes[s + 1];
            if (!(known->quantisation >> (frame->bytes[f + 2] & 15) & 1)) return "quantisation table";
            if ((dc && !(known->dc >> (huffman >> 4) & 1)) || (ac && !(known->ac >> (huffman & 15) & 1)))
                return "Huffman table";
            break;
        }
    return NULL;
}

const char *d9_jpeg_missing_table(const uint8_t *bytes, size_t size) {
    d9_picture_header header;
    segment found = {0}, frame = {0};
    tables known = {0};
    const char *missing = NULL;
    for (size_t at = 2; !missing && next_segment(bytes, size, found.marker == SCAN, &at, &found);) {
        const bool starts = found.marker >= FRAME_FIRST && found.marker <= FRAME_LAST;
        if (starts && !frame.bytes && read_frame(&found, &header)) frame = found;
        if (found.marker == HUFFMAN && !read_huffman(&found, &known)) return NULL;
        if (found.marker == QUANTISATION) read_quantisation(&found, &known);
        if (found.marker == SCAN && frame.bytes) missing = find_missing(&frame, &found, &known);
    }
    return missing;
}

bool d9_jpeg_needs_standard_tables(const uint8_t *bytes, size_t size) {
    bool progressive = false;
    segment found = {0};
    for (size_t at = 2; next_segment(bytes, size, found.marker == SCAN, &at, &found);) {
        if (found.marker == HUFFMAN) return false;
        progressive |= found.marker == FRAME_PROGRESSIVE;
    }
    return !progressive;
}

void d9_jpeg_hide_filler(uint8_t *bytes, size_t size) {
    segment found;
    bool coded = false;
    for (size_t end = 2, at = 2; next_segment(bytes, size, coded, &at, &found); end = at) {
        size_t i = found.start;
        if (!coded) memset(bytes + end, FILL, i - end);
        while (coded && i > end &&
               (bytes[i - 1] == FILL || (i - end > 1 && bytes[i - 2] == FILL && is_coded(bytes[i - 1]))))
            bytes[--i] = NO_FILL;
        coded = found.marker == SCAN;
    }
}

const char *d9_jpeg_unsupported(const uint8_t *bytes, size_t size) {
    static const struct {
        int first, last; /* frame markers */
        const char *name;
    } kinds[] = {{0xc3, 0xc3, "a lossless JPEG"},          {0xc5, 0xc7, "a hierarchical JPEG"},
                 {0xc9, 0xca, "an arithmetic-coded JPEG"}, {0xcb, 0xcb, "a lossless JPEG"},
                 {0xcd, 0xcf, "a hierarchical JPEG"},      {0xf7, 0xf7, "a JPEG-LS image"}};
    segment found;
    if (!is_jpeg(bytes, size)) return NULL;
    for (size_t at = 2; next_segment(bytes, size, false, &at, &found) && found.marker != SCAN;) {
        const bool decodable = found.marker >= FRAME_FIRST && found.marker <= FRAME_LAST;
        if (decodable) return found.size > 0 && found.bytes[0] == 12 ? "a 12-bit JPEG" : NULL;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (found.marker >= kinds[i].first && found.marker <= kinds[i].last) return kinds[i].name;
    }
    return NULL;
}

bool d9_jpeg_is_unmarked_cmyk(const uint8_t *bytes, size_t size) {
    bool four = false;
    segment found;
    for (size_t at = 2; next_segment(bytes, size, false, &at, &found) && found.marker != SCAN;) {
        if (found.marker == ADOBE && found.size >= ADOBE_BYTES && memcmp(found.bytes, "Adobe", 6) == 0) return false;
        if (found.marker >= FRAME_FIRST && found.marker <= FRAME_LAST) four = found.size > 5 && found.bytes[5] == 4;
    }
    return four;
}

int d9_jpeg_orientation(const uint8_t *bytes, size_t size) {
    segment found;
    if (!is_jpeg(bytes, size)) return 1;
    for (size_t at = 2; next_segment(bytes, size, false, &at, &found) && found.marker != SCAN;)
        if (found.marker == EXIF && found.size >= 6 && memcmp(found.bytes, "Exif\0", 6) == 0)
            return d9_exif_orientation(found.bytes, found.size);
    return 1;
}
