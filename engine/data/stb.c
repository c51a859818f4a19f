/* The stb libraries, compiled only in this file; formats.h, image.h and dataset.h (d9_png_...) declare the
 * functions below.
 *
 * The hooks of stb_image's allocator have no user pointer, so they use d9_system_default. Its memory is zeroed, because
 * stb_image uses data that a damaged JPEG lacks (a component or its end). */
#include "data/formats.h"

#include <stdlib.h>
#include <string.h>

#include "core/system.h"
#include "data/dataset.h"

enum { STB_ALIGNMENT = 64 };
/* An Adobe segment that declares four components CMYK. Without it, stb_image reads Y, Cb, Cr and transparency. */
static const uint8_t adobe_cmyk[] = {0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0};
/* The Huffman tables of ITU T.81, Annex K.3: DC and AC of luminance, DC and AC of chrominance. */
static const uint8_t standard_huffman[] = {
    255, 196, 1,   162, 0,   0,   1,   5,   1,   1,   1,   1,   1,   1,   0,   0,   0,   0,   0,   0,   0,   0,   1,
    2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  16,  0,   2,   1,   3,   3,   2,   4,   3,   5,   5,   4,   4,
    0,   0,   1,   125, 1,   2,   3,   0,   4,   17,  5,   18,  33,  49,  65,  6,   19,  81,  97,  7,   34,  113, 20,
    50,  129, 145, 161, 8,   35,  66,  177, 193, 21,  82,  209, 240, 36,  51,  98,  114, 130, 9,   10,  22,  23,  24,
    25,  26,  37,  38,  39,  40,  41,  42,  52,  53,  54,  55,  56,  57,  58,  67,  68,  69,  70,  71,  72,  73,  74,
    83,  84,  85,  86,  87,  88,  89,  90,  99,  100, 101, 102, 103, 104, 105, 106, 115, 116, 117, 118, 119, 120, 121,
    122, 131, 132, 133, 134, 135, 136, 137, 138, 146, 147, 148, 149, 150, 151, 152, 153, 154, 162, 163, 164, 165, 166,
    167, 168, 169, 170, 178, 179, 180, 181, 182, 183, 184, 185, 186, 194, 195, 196, 197, 198, 199, 200, 201, 202, 210,
    211, 212, 213, 214, 215, 216, 217, 218, 225, 226, 227, 228, 229, 230, 231, 232, 233, 234, 241, 242, 243, 244, 245,
    246, 247, 248, 249, 250, 1,   0,   3,   1,   1,   1,   1,   1,   1,   1,   1,   1,   0,   0,   0,   0,   0,   0,
    1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  17,  0,   2,   1,   2,   4,   4,   3,   4,   7,   5,   4,
    4,   0,   1,   2,   119, 0,   1,   2,   3,   17,  4,   5,   33,  49,  6,   18,  65,  81,  7,   97,  113, 19,  34,
    50,  129, 8,   20,  66,  145, 161, 177, 193, 9,   35,  51,  82,  240, 21,  98,  114, 209, 10,  22,  36,  52,  225,
    37,  241, 23,  24,  25,  26,  38,  39,  40,  41,  42,  53,  54,  55,  56,  57,  58,  67,  68,  69,  70,  71,  72,
    73,  74,  83,  84,  85,  86,  87,  88,  89,  90,  99,  100, 101, 102, 103, 104, 105, 106, 115, 116, 117, 118, 119,
    120, 121, 122, 130, 131, 132, 133, 134, 135, 136, 137, 138, 146, 147, 148, 149, 150, 151, 152, 153, 154, 162, 163,
    164, 165, 166, 167, 168, 169, 170, 178, 179, 180, 181, 182, 183, 184, 185, 186, 194, 195, 196, 197, 198, 199, 200,
    201, 202, 210, 211, 212, 213, 214, 215, 216, 217, 218, 226, 227, 228, 229, 230, 231, 232, 233, 234, 242, 243, 244,
    245, 246, 247, 248, 249, 250};

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
#define STBIR_ASSERT(condition)                    ((void)0)
/* STBIW_ASSERT stays: without memory stb_image_write would go on to write past the end of its buffer. */
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

/* The bytes of a JPEG file, or of a copy with added segments. */
typedef struct jpeg {
    const uint8_t *bytes;
    size_t size;
    uint8_t *copy; /* owned; NULL: `bytes` is the file */
} jpeg;

/* Replaces *to by a copy with a segment inserted after the first marker. */
static d9_status insert_segment(d9_context *context, const char *name, const uint8_t *added, size_t added_size,
                                jpeg *to) {
    d9_status status;
    uint8_t *copy;
    D9_TRY(D9_ALLOCATE(context, to->size + added_size, name, &copy));
    memcpy(copy, to->bytes, 2);
    memcpy(copy + 2, added, added_size);
    memcpy(copy + 2 + added_size, to->bytes + 2, to->size - 2);
    d9_release(context, to->copy);
    *to = (jpeg){copy, to->size + added_size, copy};
done:
    return status;
}

static uint8_t *decode_rgb(const jpeg *file, int *width, int *height) {
    int channels;
    return stbi_load_from_memory(file->bytes, (int)file->size, width, height, &channels, 3);
}

d9_status d9_jpeg_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size, d9_image *image,
                         int *orientation) {
    d9_status status = D9_OK;
    int width = 0, height = 0;
    uint8_t *rgb = NULL;
    jpeg file = {.bytes = bytes, .size = size};
    *orientation = d9_jpeg_orientation(bytes, size);
    if (d9_jpeg_is_unmarked_cmyk(bytes, size))
        D9_TRY(insert_segment(context, name, adobe_cmyk, sizeof adobe_cmyk, &file));
    if (d9_jpeg_needs_standard_tables(bytes, size))
        D9_TRY(insert_segment(context, name, standard_huffman, sizeof standard_huffman, &file));
    const bool decodable = file.size <= INT32_MAX && d9_jpeg_is_decodable(file.bytes, file.size);
    const char *missing = decodable ? d9_jpeg_missing_table(file.bytes, file.size) : NULL;
    if (missing)
        D9_TRY(d9_fail(context, D9_DATA, "%s: has no %s for its coded pixels, cannot be decoded", name, missing));
    if (decodable) rgb = decode_rgb(&file, &width, &height);
    if (decodable && !rgb) {
        D9_TRY(insert_segment(context, name, file.bytes, 0, &file)); /* a copy that may be changed */
        d9_jpeg_hide_filler(file.copy, file.size);
        rgb = decode_rgb(&file, &width, &height);
    }
    if (!rgb || width != image->width || height != image->height)
        D9_TRY(d9_fail(context, D9_DATA, "%s: damaged or cut short, cannot be decoded", name));
    D9_TRY(D9_ALLOCATE(context, (size_t)width * (size_t)height * 3, name, &image->pixels));
    memcpy(image->pixels, rgb, (size_t)width * (size_t)height * 3);
done:
    d9_release(context, file.copy);
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

/* Returns size * to / from, rounded, at least 1 and at most `most`. */
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

/* Encodes pixels (height, width, 3) to *png; the caller frees png->bytes. `path`: prefix of messages; "": none. */
static d9_status encode_png(d9_context *context, const char *path, const uint8_t *pixels, int width, int height,
                            png *png) {
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
    D9_TRY(encode_png(context, path, pixels, width, height, &png));
    D9_TRY(d9_file_write(context, path, png.bytes, png.size));
done:
    d9_release(context, png.bytes);
    return status;
}

d9_status d9_png_encode(d9_context *context, const uint8_t *pixels, int width, int height, uint8_t **bytes,
                        size_t *size) {
    png png = {0};
    const d9_status status = encode_png(context, "", pixels, width, height, &png);
    *bytes = png.bytes;
    *size = png.size;
    return status;
}
