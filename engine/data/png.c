/* Reads PNG files with libpng, which verifies checksums and inflates by rows: decoding needs four bytes per pixel. */
#include "data/formats.h"

#include <png.h>
#include <string.h>

#include "core/system.h"

enum { SIGNATURE_BYTES = 8, HEADER_BYTES = 33, RGBA = 4 };

static int read_32(const uint8_t *bytes) {
    const uint32_t value = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    return value > INT32_MAX ? INT32_MAX : (int)value;
}

bool d9_png_header(const uint8_t *bytes, size_t size, d9_picture_header *header) {
    if (size < HEADER_BYTES || png_sig_cmp(bytes, 0, SIGNATURE_BYTES) != 0 || memcmp(bytes + 12, "IHDR", 4) != 0)
        return false;
    *header = (d9_picture_header){read_32(bytes + 16), read_32(bytes + 20), RGBA};
    return true;
}

typedef struct reader {
    d9_context *context;
    const uint8_t *bytes;
    size_t left;
    png_structp png;
    png_infop info;
    uint8_t *pixels, **rows;
} reader;

/* libpng reports errors by longjmp; the caller then reports a damaged file. */
static void on_error(png_structp png, png_const_charp message) {
    (void)message;
    png_longjmp(png, 1);
}
static void on_warning(png_structp png, png_const_charp message) { (void)png, (void)message; }

static png_voidp on_allocate(png_structp png, png_alloc_size_t bytes) {
    const d9_system *system = ((reader *)png_get_mem_ptr(png))->context->system;
    return system->allocate(system->user, 16, bytes);
}
static void on_free(png_structp png, png_voidp pointer) {
    d9_release(((reader *)png_get_mem_ptr(png))->context, pointer);
}

static void on_read(png_structp png, png_bytep bytes, size_t size) {
    reader *self = png_get_io_ptr(png);
    if (size > self->left) png_error(png, "cut short");
    memcpy(bytes, self->bytes, size);
    self->bytes += size;
    self->left -= size;
}

/* Makes libpng convert every format to rows of 8-bit RGBA. */
static void request_rgba(png_structp png) {
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_gray_to_rgb(png);
    png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
    (void)png_set_interlace_handling(png);
}

/* Returns false if the file is damaged. Owns no resources, because libpng's longjmp would leak them. */
static bool read_rows(reader *self, uint32_t width, uint32_t height) {
    if (setjmp(png_jmpbuf(self->png)) != 0) return false;
    png_set_read_fn(self->png, self, on_read);
    png_set_crc_action(self->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_read_info(self->png, self->info);
    request_rgba(self->png);
    png_read_update_info(self->png, self->info);
    if (png_get_image_width(self->png, self->info) != width || png_get_image_height(self->png, self->info) != height ||
        png_get_rowbytes(self->png, self->info) != (size_t)width * RGBA)
        return false;
    png_read_image(self->png, self->rows);
    png_read_end(self->png, self->info); /* an eXIf chunk may follow the pixels */
    return true;
}

static int find_orientation(const reader *self) {
    png_bytep exif = NULL;
    png_uint_32 size = 0;
    if (!png_get_eXIf_1(self->png, self->info, &size, &exif)) return 1;
    return d9_exif_orientation(exif, size);
}

d9_status d9_png_decode(d9_context *context, const char *name, const uint8_t *bytes, size_t size, d9_image *image,
                        int *orientation) {
    d9_status status = D9_OK;
    reader self = {.context = context, .bytes = bytes, .left = size};
    const size_t width = (size_t)image->width, height = (size_t)image->height;
    D9_TRY(D9_ALLOCATE(context, width * height * RGBA, name, &self.pixels));
    D9_TRY(D9_ALLOCATE(context, height, name, &self.rows));
    for (size_t y = 0; y < height; y++) self.rows[y] = self.pixels + y * width * RGBA;
    self.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, NULL, on_error, on_warning, &self, on_allocate, on_free);
    if (self.png) self.info = png_create_info_struct(self.png);
    if (!self.info) D9_TRY(d9_fail(context, D9_DEVICE, "%s: out of memory for decoding it", name));
    if (!read_rows(&self, (uint32_t)width, (uint32_t)height))
        D9_TRY(d9_fail(context, D9_DATA, "%s: damaged or cut short, cannot be decoded", name));
    d9_blend_on_white(self.pixels, (int64_t)(width * height), self.pixels); /* RGB replaces RGBA in place */
    *orientation = find_orientation(&self);
    image->pixels = self.pixels;
    self.pixels = NULL;
done:
    png_destroy_read_struct(&self.png, &self.info, NULL);
    d9_release(context, self.rows);
    d9_release(context, self.pixels);
    return status;
}
