/* Reads image files: recognises names and rejects oversized images before decoding. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "core/system.h"
#include "data/formats.h"

enum { SIDE_MAX = 16384, MEGA = 1000000, MIB = 1 << 20 };
/* Memory limit for decoding in bytes: twice the RGB size of the image, but at least DECODING_LEAST. */
enum { DECODING_LEAST = 256 * MIB, TWICE_RGB = 6 };

bool d9_is_image_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg") ||
                   !strcasecmp(dot, ".webp"));
}

void d9_blend_on_white(const uint8_t *rgba, int64_t count, uint8_t *rgb) {
    for (int64_t i = 0; i < count; i++, rgba += 4, rgb += 3) {
        const int alpha = rgba[3];
        for (int channel = 0; channel < 3; channel++)
            rgb[channel] = (uint8_t)((rgba[channel] * alpha + 255 * (255 - alpha) + 127) / 255);
    }
}

static d9_status check_header(d9_context *context, const char *name, const d9_picture_header *header,
                              int64_t megapixels) {
    const int width = header->width, height = header->height;
    if (width < 1 || height < 1 || width > SIDE_MAX || height > SIDE_MAX)
        return d9_fail(context, D9_DATA, "%s: %d x %d pixels, must be 1 to %d on each side", name, width, height,
                       SIDE_MAX);
    const double pixels = (double)width * height, needed = pixels * header->bytes_per_pixel;
    const double most = pixels * TWICE_RGB > DECODING_LEAST ? pixels * TWICE_RGB : DECODING_LEAST;
    if (pixels > (double)megapixels * MEGA) {
        const long long tenths = llround(10 * pixels / MEGA); /* %.1f would obey the locale of a worker thread */
        return d9_fail(context, D9_DATA,
                       "%s: %d x %d are %lld.%lld megapixels, must be at most %lld (data.largest_picture)", name, width,
                       height, tenths / 10, tenths % 10, (long long)megapixels);
    }
    if (needed > most)
        return d9_fail(context, D9_DATA,
                       "%s: a JPEG of this kind and of %d x %d pixels takes %.0f MiB to decode, must be at most %.0f: "
                       "save it as a baseline JPEG or as PNG",
                       name, width, height, needed / MIB, most / MIB);
    return D9_OK;
}

typedef struct format {
    bool (*header)(const uint8_t *bytes, size_t size, d9_picture_header *header);
    d9_status (*decode)(d9_context *context, const char *name, const uint8_t *bytes, size_t size, d9_image *image,
                        int *orientation);
} format;
static const format formats[] = {
    {d9_png_header, d9_png_decode}, {d9_jpeg_header, d9_jpeg_decode}, {d9_webp_header, d9_webp_decode}, {NULL, NULL}};

/* Name of the kind of a file that is neither PNG, WebP nor a JPEG that can be decoded. */
static const char *kind_name(const uint8_t *bytes, size_t size) {
    static const struct {
        size_t at;
        const char *magic, *name;
    } kinds[] = {
        {0, "GIF8", "a GIF image"},         {4, "ftyphei", "a HEIC image"},      {4, "ftyphev", "a HEIC image"},
        {4, "ftypmif1", "a HEIF image"},    {4, "ftypavif", "an AVIF image"},    {4, "ftypavis", "an AVIF image"},
        {0, "\xff\x0a", "a JPEG XL image"}, {4, "JXL ", "a JPEG XL image"},      {4, "jP  ", "a JPEG 2000 image"},
        {0, "BM", "a BMP image"},           {0, "II*", "a TIFF or raw image"},   {0, "MM", "a TIFF image"},
        {0, "%PDF", "a PDF document"},      {4, "ftyp", "a video or HEIF file"}, {0, "<", "HTML, XML or SVG text"}};
    const char *jpeg = d9_jpeg_unsupported(bytes, size);
    if (jpeg) return jpeg;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t length = strlen(kinds[i].magic);
        if (size >= kinds[i].at + length && memcmp(bytes + kinds[i].at, kinds[i].magic, length) == 0)
            return kinds[i].name;
    }
    return "not an image of a known kind, or a damaged one";
}

static d9_status turn_upright(d9_context *context, const char *name, int orientation, d9_image *image) {
    d9_status status;
    uint8_t *stored = image->pixels, *upright;
    const int width = image->width, height = image->height;
    D9_TRY(D9_ALLOCATE(context, (size_t)width * (size_t)height * 3, name, &upright));
    d9_exif_orient(orientation, stored, width, height, upright);
    *image = orientation < 5 ? (d9_image){width, height, upright} : (d9_image){height, width, upright};
    d9_release(context, stored);
done:
    return status;
}

d9_status d9_image_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size, int64_t megapixels,
                          d9_image *image) {
    d9_status status;
    d9_picture_header header = {0};
    int orientation;
    *image = (d9_image){0};
    const format *format = formats;
    while (format->header && !format->header(bytes, size, &header)) format++;
    if (!format->header && d9_is_webp(bytes, size)) return d9_webp_reject(context, name);
    if (!format->header && !size) return d9_fail(context, D9_DATA, "%s: the file is empty", name);
    if (!format->header)
        return d9_fail(context, D9_DATA, "%s: %s; must be PNG, WebP or JPEG (lossy, Huffman-coded, 8 bits)", name,
                       kind_name(bytes, size));
    D9_TRY(check_header(context, name, &header, megapixels ? megapixels : D9_MEGAPIXELS_DEFAULT));
    image->width = header.width;
    image->height = header.height;
    D9_TRY(format->decode(context, name, bytes, size, image, &orientation));
    if (orientation > 1) D9_TRY(turn_upright(context, name, orientation, image));
done:
    if (status != D9_OK) d9_image_free(context, image);
    return status;
}

d9_status d9_image_read(d9_context *context, const char *path, int64_t megapixels, d9_image *image) {
    d9_status status = D9_OK;
    uint8_t *bytes = NULL;
    size_t size;
    *image = (d9_image){0};
    D9_TRY(d9_file_read_limited(context, path, D9_IMAGE_MAX_BYTES, &bytes, &size));
    D9_TRY(d9_image_decode(context, path, bytes, size, megapixels, image));
done:
    d9_release(context, bytes);
    return status;
}

void d9_image_free(d9_context *context, d9_image *image) {
    d9_release(context, image->pixels);
    *image = (d9_image){0};
}
