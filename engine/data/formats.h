/* The picture formats behind d9_image_decode: PNG by libpng (png.c), JPEG by stb_image (jpeg.c looks first, stb.c
 * decodes), WebP by libwebp (webp.c) where the build has it. */
#ifndef D9_DATA_FORMATS_H
#define D9_DATA_FORMATS_H

#include "data/image.h"

/* What a file says of itself before anything is decoded. */
typedef struct d9_picture_header {
    int width, height;
    double bytes_per_pixel; /* what decoding it takes at most, the pixels that come of it included */
} d9_picture_header;

/* False: not of this format, or its header is damaged. */
bool d9_png_header(const uint8_t *bytes, size_t size, d9_picture_header *header);
bool d9_jpeg_header(const uint8_t *bytes, size_t size, d9_picture_header *header);
bool d9_webp_header(const uint8_t *bytes, size_t size, d9_picture_header *header); /* of a still picture */
bool d9_webp_is(const uint8_t *bytes, size_t size); /* begins as a WebP file, whatever the build can read */

D9_MUST_USE d9_status d9_webp_refuse(d9_context *context, const char *name); /* why it cannot be: D9_DATA */

/* Colours of four bytes with their alpha on white, of three bytes each; may be in place. */
void d9_lay_on_white(const uint8_t *rgba, int64_t count, uint8_t *rgb);

/* Whether stb_image may have this JPEG: its end is there (stb_image fills what is missing with grey and calls it read),
 * and no Huffman table has more than 256 codes (the version of 2022 writes such a table past its end). */
bool d9_jpeg_is_whole(const uint8_t *bytes, size_t size);

/* The picture of a file whose header was accepted. Damaged or cut short: D9_DATA. */
D9_MUST_USE d9_status d9_png_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size,
                                    d9_image *image);
D9_MUST_USE d9_status d9_jpeg_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size,
                                     d9_image *image);
D9_MUST_USE d9_status d9_webp_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size,
                                     d9_image *image);

#endif
