/* Image formats used by d9_image_decode: PNG by libpng (png.c), JPEG by stb_image (jpeg.c checks the file, stb.c
 * decodes it), WebP by libwebp (webp.c) if the build has it. */
#pragma once

#include "data/image.h"
#include <stddef.h>
#include <stdint.h>

/* Size information from a file's header. */
typedef struct d9_picture_header {
    int width, height;
    double bytes_per_pixel; /* estimated memory for decoding, the decoded pixels included */
} d9_picture_header;

/* Read the header; false if the file has another format or a damaged header. */
bool d9_png_header(const uint8_t *bytes, size_t size, d9_picture_header *header);
bool d9_jpeg_header(const uint8_t *bytes, size_t size, d9_picture_header *header);
bool d9_webp_header(const uint8_t *bytes, size_t size, d9_picture_header *header); /* rejects animations */
/* True if the file begins like a WebP file, even if the build cannot decode WebP. */
bool d9_is_webp(const uint8_t *bytes, size_t size);
/* Returns D9_DATA with the reason why a WebP file cannot be decoded. */
D9_MUST_USE d9_status d9_webp_reject(d9_context *context, const char *name);

/* Blends `count` RGBA pixels with a white background to RGB; `rgb` may be `rgba`. */
void d9_blend_on_white(const uint8_t *rgba, int64_t count, uint8_t *rgb);

/* True if stb_image can safely decode this JPEG: an end marker follows the coded data (stb_image fills missing parts
 * with grey without an error; a motion photo has a video behind the marker), and no Huffman table has more than 256
 * codes (with more, stb_image of 2022 writes past the end of its table). */
bool d9_jpeg_is_decodable(const uint8_t *bytes, size_t size);
/* Kind of a table that a scan of a decodable JPEG needs but that is not defined before the scan: "Huffman table" or
 * "quantisation table"; stb_image would read it as zeros. NULL: none is missing. */
const char *d9_jpeg_missing_table(const uint8_t *bytes, size_t size);
/* True for a JPEG, not progressive, that has no Huffman table at all. Its tables are then those of ITU T.81, Annex K.3,
 * as in a frame of a Motion JPEG video. */
bool d9_jpeg_needs_standard_tables(const uint8_t *bytes, size_t size);
/* Overwrites bytes of a decodable JPEG that decoders skip, but that stb_image of 2022 rejects: bytes between two
 * segments, with 0xff; restart markers, 0xff 0 and fill bytes between the data of a scan and the next marker, as some
 * cameras write them, with 0xfe. A 0xff 0 that belongs to the data keeps its first seven bits; the eighth is nearly
 * always padding. */
void d9_jpeg_hide_filler(uint8_t *bytes, size_t size);
/* Name of a kind of JPEG that cannot be decoded, such as "an arithmetic-coded JPEG"; NULL for every other file. */
const char *d9_jpeg_unsupported(const uint8_t *bytes, size_t size);
/* True for a JPEG of four components without an Adobe marker. Its pixels are CMYK, with 255 for no ink. */
bool d9_jpeg_is_unmarked_cmyk(const uint8_t *bytes, size_t size);
/* Orientation, 1 to 8, of a JPEG by its Exif data; 1 (upright) if it has none. */
int d9_jpeg_orientation(const uint8_t *bytes, size_t size);

/* Decode a file whose header was accepted. The caller has set the width and height of `image` from the header; the
 * pixels are added in stored order. *orientation is set to the Exif orientation, 1 to 8. Return D9_DATA if the file is
 * damaged. */
D9_MUST_USE d9_status d9_png_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size,
                                    d9_image *image, int *orientation);
D9_MUST_USE d9_status d9_jpeg_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size,
                                     d9_image *image, int *orientation);
D9_MUST_USE d9_status d9_webp_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size,
                                     d9_image *image, int *orientation);

/* ---- the orientation of photographs: cameras store the sensor's rows and their orientation (Exif, tag 0x0112) ---- */
/* Orientation, 1 to 8, in Exif data: a TIFF header and its first directory, with or without "Exif" and two zeros in
 * front; 1 (upright) if there is none or an invalid one. */
int d9_exif_orientation(const uint8_t *exif, size_t size);

/* Orientation, 1 to 8, of a WebP file by its Exif data; 1 (upright) if it has none. */
int d9_exif_webp_orientation(const uint8_t *bytes, size_t size);

/* Turns the image `stored` (height, width, 3) upright; for an orientation of 5 to 8, `seen` is (width, height, 3),
 * otherwise (height, width, 3). */
void d9_exif_orient(int orientation, const uint8_t *stored, int width, int height, uint8_t *seen);
