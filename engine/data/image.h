/* Images in memory: reads PNG, JPEG and WebP, and resizes. */
#pragma once

#include "core/context.h"

typedef struct d9_image {
    int width, height;
    uint8_t *pixels; /* (height, width, 3) RGB */
} d9_image;

/* Default and largest value of the option data.largest_picture, the size limit of an image in megapixels. */
enum { D9_MEGAPIXELS_DEFAULT = 64, D9_MEGAPIXELS_MAX = 268 };

/* Decodes a PNG, JPEG or WebP, also grey, with a palette, transparent or of 16 bits, to 8-bit RGB. Blends transparent
 * pixels with white, and turns the image upright by its Exif orientation. `name` is for messages. Returns D9_DATA if
 * the file is damaged or of another kind; also, after reading its header, if it has a side over 16384 pixels or more
 * than `megapixels` million pixels (0: D9_MEGAPIXELS_DEFAULT), or is a JPEG that needs more than 256 MiB and more than
 * twice its RGB size to decode. Free the image with d9_image_free. */
D9_MUST_USE d9_status d9_image_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size,
                                      int64_t megapixels, d9_image *image);
/* Decodes the file `path`. Returns D9_DATA also if it cannot be read. */
D9_MUST_USE d9_status d9_image_read(d9_context *context, const char *path, int64_t megapixels, d9_image *image);
/* True if the name ends in .png, .jpg, .jpeg or .webp, in upper or lower case. */
bool d9_is_image_name(const char *name);
void d9_image_free(d9_context *context, d9_image *image);

/* Stretches (height, width, channels) bytes to (to_height, to_width, channels), with an antialiasing filter. */
D9_MUST_USE d9_status d9_pixels_resize(d9_context *context, const char *name, const uint8_t *pixels, int width,
                                       int height, int channels, int to_width, int to_height, uint8_t *to);
/* Stretches the whole image to (height, width, 3) bytes at `pixels`, with an antialiasing filter. */
D9_MUST_USE d9_status d9_image_resize(d9_context *context, const char *name, const d9_image *image, int width,
                                      int height, uint8_t *pixels);

/* Resizing of an image to a height and width of other proportions. STRETCH: the proportions change. CROP: the largest
 * centred box with the new proportions is cut out and resized. LETTERBOX: the proportions stay, and black bars fill the
 * rest. */
typedef enum d9_image_fit { D9_FIT_STRETCH, D9_FIT_CROP, D9_FIT_LETTERBOX } d9_image_fit;
D9_MUST_USE d9_status d9_image_resize_as(d9_context *context, const char *name, const d9_image *image, d9_image_fit fit,
                                         int width, int height, uint8_t *pixels);
