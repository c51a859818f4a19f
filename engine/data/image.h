/* Pictures in memory: PNG, JPEG and WebP in, PNG out, and resizing. */
#ifndef D9_DATA_IMAGE_H
#define D9_DATA_IMAGE_H

#include "core/context.h"

typedef struct d9_image {
    int width, height;
    uint8_t *pixels; /* (height, width, 3) RGB */
} d9_image;

/* The largest picture that is decoded where nobody says otherwise (data.largest_picture), and the largest there is. */
enum { D9_MEGAPIXELS_MOST = 64, D9_MEGAPIXELS_EVER = 268 };

/* Whatever the file holds (grey, palette, alpha, 16 bits) becomes 8-bit RGB; what is transparent is laid on white, and
 * a photograph stands as its Exif orientation says. `name` stands in messages. Not a whole PNG, JPEG or WebP with right
 * checksums, a side over 16384, more than `megapixels` million pixels (0: D9_MEGAPIXELS_MOST), or a JPEG that takes
 * more than 256 MiB and more than twice its RGB to decode: D9_DATA. The last three are refused from the header. */
D9_MUST_USE d9_status d9_image_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size,
                                      int64_t megapixels, d9_image *image);
/* The same of a file. One that cannot be read: D9_DATA. */
D9_MUST_USE d9_status d9_image_read(d9_context *context, const char *path, int64_t megapixels, d9_image *image);
bool d9_image_has_name(const char *name); /* ends in .png, .jpg, .jpeg or .webp, in either case */
void d9_image_free(d9_context *context, d9_image *image);

/* Stretches the whole image to (height, width, 3) bytes at `pixels`, filtered and without aliasing. */
D9_MUST_USE d9_status d9_image_resize(d9_context *context, const char *name, const d9_image *image, int width,
                                      int height, uint8_t *pixels);

#endif
