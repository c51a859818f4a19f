/* The stb libraries, compiled here and nowhere else, behind image.h and d9_png_write.
 *
 * stb_image keeps its own allocator: its hooks carry no user pointer, and a global context is not allowed
 * here. What it hands out is freed by d9_image_free. */
#include "data/image.h"

#include <stdlib.h>
#include <string.h>

#include "core/system.h"
#include "data/dataset.h"
#include "data/exif.h"

#pragma GCC diagnostic ignored "-Wunused-function" /* judged at the end of the file, so not between push and pop */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#include <stb_image.h>
#define STB_IMAGE_RESIZE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#include <stb_image_resize.h>
#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb_image_write.h>
#pragma GCC diagnostic pop

enum { SIDE_MAX = 16384, JPEG_TRAILER_BYTES = 65536 };

/* stb_image fills what a truncated JPEG lacks with grey and calls it read, so the end marker is looked for.
 */
static bool jpeg_is_cut(const uint8_t *bytes, size_t size) {
    if (size < 4 || bytes[0] != 0xff || bytes[1] != 0xd8) return false;
    const size_t last = size - 2, first = size > JPEG_TRAILER_BYTES ? size - JPEG_TRAILER_BYTES : 2;
    for (size_t i = last; i >= first; i--)
        if (bytes[i] == 0xff && bytes[i + 1] == 0xd9) return false;
    return true;
}

static void lay_on_white(const uint8_t *rgba, int64_t count, uint8_t *rgb) {
    for (int64_t i = 0; i < count; i++, rgba += 4, rgb += 3) {
        const int alpha = rgba[3];
        for (int channel = 0; channel < 3; channel++)
            rgb[channel] = (uint8_t)((rgba[channel] * alpha + 255 * (255 - alpha) + 127) / 255);
    }
}

/* In place, by way of a copy: the pixels stay stb_image's to free. */
static d9_status turn_upright(d9_context *context, const char *name, int orientation, d9_image *image) {
    d9_status status = D9_OK;
    uint8_t *copy = NULL;
    const size_t bytes = (size_t)image->width * (size_t)image->height * 3;
    if (orientation == 1) return D9_OK;
    D9_TRY(D9_ALLOCATE(context, bytes, name, &copy));
    memcpy(copy, image->pixels, bytes);
    d9_exif_turn(orientation, copy, image->width, image->height, image->pixels);
    if (orientation >= 5) *image = (d9_image){image->height, image->width, image->pixels};
done:
    d9_release(context, copy);
    return status;
}

d9_status d9_image_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size, d9_image *image) {
    int width, height, channels;
    *image = (d9_image){0};
    if (size > INT32_MAX || !stbi_info_from_memory(bytes, (int)size, &width, &height, &channels))
        return d9_fail(context, D9_DATA, "%s: not a PNG or JPEG image", name);
    if (width < 1 || height < 1 || width > SIDE_MAX || height > SIDE_MAX)
        return d9_fail(context, D9_DATA, "%s: %d x %d pixels, must be 1 to %d on each side", name, width, height,
                       SIDE_MAX);
    /* Four channels always: a palette's transparency does not show in the file's own channel count. */
    uint8_t *rgba =
        jpeg_is_cut(bytes, size) ? NULL : stbi_load_from_memory(bytes, (int)size, &width, &height, &channels, 4);
    if (!rgba) return d9_fail(context, D9_DATA, "%s: damaged or cut short, cannot be decoded", name);
    lay_on_white(rgba, (int64_t)width * height, rgba); /* in place: rgb never overtakes rgba */
    *image = (d9_image){.width = width, .height = height, .pixels = rgba};
    const d9_status status = turn_upright(context, name, d9_exif_orientation(bytes, size), image);
    if (status != D9_OK) d9_image_free(image);
    return status;
}

void d9_image_free(d9_image *image) {
    stbi_image_free(image->pixels);
    *image = (d9_image){0};
}

d9_status d9_image_resize(d9_context *context, const char *name, const d9_image *image, int width, int height,
                          uint8_t *pixels) {
    if (image->width == width && image->height == height) {
        memcpy(pixels, image->pixels, (size_t)width * (size_t)height * 3);
        return D9_OK;
    }
    if (!stbir_resize_uint8(image->pixels, image->width, image->height, 0, pixels, width, height, 0, 3))
        return d9_fail(context, D9_DEVICE, "%s: out of memory while resizing to %d x %d", name, width, height);
    return D9_OK;
}

typedef struct png {
    d9_context *context;
    uint8_t *bytes;
    size_t size;
    d9_status status;
} png;

/* stb_image_write hands over a whole PNG in one call. */
static void keep_png(void *user, void *bytes, int size) {
    png *png = user;
    png->size = (size_t)size;
    png->status = D9_ALLOCATE(png->context, size, "a PNG", &png->bytes);
    if (png->status == D9_OK) memcpy(png->bytes, bytes, png->size);
}

/* `path`: what messages begin with; "" for none. */
static d9_status encode(d9_context *context, const char *path, const uint8_t *pixels, int width, int height, png *png) {
    png->context = context;
    if (width < 1 || height < 1 || width > INT32_MAX / 3 ||
        !stbi_write_png_to_func(keep_png, png, width, height, 3, pixels, 3 * width))
        return d9_fail(context, D9_OUTPUT, "%s%sa PNG of %d x %d pixels could not be made", path, *path ? ": " : "",
                       width, height);
    return png->status;
}

d9_status d9_png_write(d9_context *context, const char *path, const uint8_t *pixels, int width, int height) {
    d9_status status = D9_OK;
    png png = {0};
    D9_TRY(encode(context, path, pixels, width, height, &png));
    D9_TRY(d9_file_write(context, path, png.bytes, png.size));
done:
    d9_release(context, png.bytes);
    return status;
}

d9_status d9_png_encode(d9_context *context, const uint8_t *pixels, int width, int height, uint8_t **bytes,
                        size_t *size) {
    png png = {0};
    const d9_status status = encode(context, "", pixels, width, height, &png);
    *bytes = png.bytes;
    *size = png.size;
    return status;
}
