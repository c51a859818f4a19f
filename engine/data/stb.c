/* The stb libraries, compiled only in this file; formats.h, image.h and dataset.h (d9_png_...) declare its functions.
 *
 * The hooks of stb_image's allocator have no user pointer, and a global context is not allowed, so the hooks use the
 * default system's memory. The memory is zeroed, because stb_image uses data that a damaged JPEG lacks (Huffman and
 * quantisation tables, a component or its end). stb_image's output is copied and freed at once. */
#include "data/formats.h"

#include <stdlib.h>
#include <string.h>

#include "core/system.h"
#include "data/dataset.h"

enum { STB_ALIGNMENT = 64 };
static const uint8_t adobe_cmyk[] = {0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0};

static void *stb_allocate(size_t bytes) {
    const d9_system *system = d9_system_default();
    return system->allocate(system->user, STB_ALIGNMENT, bytes);
}
static void stb_release(void *pointer) {
    const d9_system *system = d9_system_default();
    system->release(system->user, pointer);
}

#pragma GCC diagnostic ignored                                                                                         \
    "-Wunused-function" /* reported at the end of the file, so it cannot be between push and pop */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#define STBI_MALLOC(bytes)                         stb_allocate(bytes)
#define STBI_FREE(pointer)                         stb_release(pointer)
#define STBI_REALLOC_SIZED(pointer, before, bytes) NULL      /* used only by formats that are not built */
#define STBI_ASSERT(condition)                     ((void)0) /* would end the program on a damaged file */
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

/* Copies a JPEG and inserts an Adobe segment that says that its four components are CMYK. Without one, stb_image takes
 * them for Y, Cb, Cr and transparency. */
static d9_status mark_as_cmyk(d9_context *context, const char *name, const uint8_t *bytes, size_t size,
                              uint8_t **copy) {
    d9_status status = D9_OK;
    D9_TRY(D9_ALLOCATE(context, size + sizeof adobe_cmyk, name, copy));
    memcpy(*copy, bytes, 2);
    memcpy(*copy + 2, adobe_cmyk, sizeof adobe_cmyk);
    memcpy(*copy + 2 + sizeof adobe_cmyk, bytes + 2, size - 2);
done:
    return status;
}

d9_status d9_jpeg_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size, d9_image *image,
                         int *orientation) {
    d9_status status = D9_OK;
    int width = 0, height = 0, channels;
    uint8_t *rgb = NULL, *marked = NULL;
    *orientation = d9_exif_jpeg_orientation(bytes, size);
    if (d9_jpeg_is_unmarked_cmyk(bytes, size)) {
        D9_TRY(mark_as_cmyk(context, name, bytes, size, &marked));
        bytes = marked;
        size += sizeof adobe_cmyk;
    }
    if (size <= INT32_MAX && d9_jpeg_is_decodable(bytes, size))
        rgb = stbi_load_from_memory(bytes, (int)size, &width, &height, &channels, 3);
    d9_release(context, marked);
    if (!rgb || width != image->width || height != image->height)
        D9_TRY(d9_fail(context, D9_DATA, "%s: damaged or cut short, cannot be decoded", name));
    D9_TRY(D9_ALLOCATE(context, (size_t)width * (size_t)height * 3, name, &image->pixels));
    memcpy(image->pixels, rgb, (size_t)width * (size_t)height * 3);
done:
    stbi_image_free(rgb);
    return status;
}

typedef struct box { /* part of an image with rows of `row_bytes` */
    int width, height, row_bytes;
} box;

static d9_status resize_box(d9_context *context, const char *name, const uint8_t *from, box part, int channels,
                            uint8_t *to, box target) {
    if (part.width == target.width && part.height == target.height) {
        for (int y = 0; y < part.height; y++)
            memcpy(to + (size_t)y * (size_t)target.row_bytes, from + (size_t)y * (size_t)part.row_bytes,
                   (size_t)part.width * (size_t)channels);
        return D9_OK;
    }
    if (!stbir_resize_uint8(from, part.width, part.height, part.row_bytes, to, target.width, target.height,
                            target.row_bytes, channels))
        return d9_fail(context, D9_DEVICE, "%s: out of memory while resizing to %d x %d", name, target.width,
                       target.height);
    return D9_OK;
}

d9_status d9_pixels_resize(d9_context *context, const char *name, const uint8_t *pixels, int width, int height,
                           int channels, int to_width, int to_height, uint8_t *to) {
    return resize_box(context, name, pixels, (box){width, height, width * channels}, channels, to,
                      (box){to_width, to_height, to_width * channels});
}

d9_status d9_image_resize(d9_context *context, const char *name, const d9_image *image, int width, int height,
                          uint8_t *pixels) {
    return d9_pixels_resize(context, name, image->pixels, image->width, image->height, 3, width, height, pixels);
}

/* size * to / from, rounded, at least 1 and at most `most` */
static int scaled(int size, int to, int from, int most) {
    const int64_t rounded = (2 * (int64_t)size * to + from) / (2 * (int64_t)from);
    return rounded < 1 ? 1 : rounded > most ? most : (int)rounded;
}

/* Narrows `whole` to its largest centred box with the proportions of width x height. Returns the byte at which the box
 * begins. */
static size_t narrow(box *whole, int width, int height) {
    const box part = {scaled(whole->height, width, height, whole->width),
                      scaled(whole->width, height, width, whole->height), whole->row_bytes};
    const size_t top = (size_t)(whole->height - part.height) / 2, left = (size_t)(whole->width - part.width) / 2;
    *whole = part;
    return top * (size_t)part.row_bytes + 3 * left;
}

d9_status d9_image_resize_as(d9_context *context, const char *name, const d9_image *image, d9_image_fit fit, int width,
                             int height, uint8_t *pixels) {
    box part = {image->width, image->height, 3 * image->width}, target = {width, height, 3 * width};
    size_t from = 0, to = 0;
    if (fit == D9_FIT_CROP) from = narrow(&part, width, height);
    if (fit == D9_FIT_LETTERBOX) {
        to = narrow(&target, image->width, image->height);
        memset(pixels, 0, (size_t)width * (size_t)height * 3);
    }
    return resize_box(context, name, image->pixels + from, part, 3, pixels + to, target);
}

typedef struct png {
    d9_context *context;
    uint8_t *bytes;
    size_t size;
    d9_status status;
} png;

/* stb_image_write calls this once, with the whole PNG. */
static void keep_png(void *user, void *bytes, int size) {
    png *png = user;
    png->size = (size_t)size;
    png->status = D9_ALLOCATE(png->context, size, "a PNG", &png->bytes);
    if (png->status == D9_OK) memcpy(png->bytes, bytes, png->size);
}

/* `path`: prefix of error messages; "" for none. */
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
