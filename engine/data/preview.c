/* Contact sheets of augmented images and of filters. */
#include "data/preview.h"

#include <math.h>
#include <string.h>

#include "core/system.h"
#include "data/dataset.h"

enum { SCALE_DEFAULT = 3, GAP_DEFAULT = 2, SIDE_MAX = 65536, GREY = 96 };

d9_status d9_sheet_make(d9_context *context, int rows, int columns, const d9_sheet_options *options, d9_sheet *sheet) {
    d9_status status = D9_OK;
    uint8_t *pixels;
    const int scale = options->scale ? options->scale : SCALE_DEFAULT, gap = options->gap ? options->gap : GAP_DEFAULT;
    const int64_t height = options->top + (int64_t)rows * ((int64_t)options->tile_height * scale + gap) + gap;
    const int64_t width = options->left + (int64_t)columns * ((int64_t)options->tile_width * scale + gap) + gap;
    *sheet = (d9_sheet){0};
    if (rows < 1 || columns < 1 || height > SIDE_MAX || width > SIDE_MAX)
        D9_TRY(d9_fail(context, D9_USAGE, "a sheet of %d rows and %d columns: must be 1 to %d pixels on each side",
                       rows, columns, SIDE_MAX));
    D9_TRY(D9_ALLOCATE(context, height * width * 3, "the preview sheet", &pixels));
    memset(pixels, GREY, (size_t)(height * width * 3));
    *sheet = (d9_sheet){.rows = rows,
                        .columns = columns,
                        .tile_height = options->tile_height,
                        .tile_width = options->tile_width,
                        .scale = scale,
                        .gap = gap,
                        .top = options->top,
                        .left = options->left,
                        .height = (int)height,
                        .width = (int)width,
                        .pixels = pixels};
done:
    return status;
}

/* Upper left corner of a tile, in pixels of the sheet. */
static int tile_y(const d9_sheet *sheet, int row) {
    return sheet->top + sheet->gap + row * (sheet->tile_height * sheet->scale + sheet->gap);
}
static int tile_x(const d9_sheet *sheet, int column) {
    return sheet->left + sheet->gap + column * (sheet->tile_width * sheet->scale + sheet->gap);
}

/* ---- headings and names ---- */

enum { TEXT_SCALE = 2, TEXT_MARGIN = 6, NAME_MAX_WIDTH = 320 };
static const uint8_t light[3] = {240, 240, 240};

int d9_sheet_name_width(const char *longest) {
    const int width = d9_font_width(longest, TEXT_SCALE);
    return (width < NAME_MAX_WIDTH ? width : NAME_MAX_WIDTH) + 2 * TEXT_MARGIN;
}

static void put_text(d9_sheet *sheet, int x, int y, int scale, int width, const char *text) {
    char fitted[256];
    d9_font_fit(text, scale, width, fitted, sizeof fitted);
    d9_font_draw(&(d9_canvas){.pixels = sheet->pixels, .height = sheet->height, .width = sheet->width}, x, y, scale,
                 light, fitted);
}

void d9_sheet_put_heading(d9_sheet *sheet, int column, const char *text) {
    const int width = sheet->tile_width * sheet->scale;
    put_text(sheet, tile_x(sheet, column), 4, d9_font_width(text, TEXT_SCALE) <= width ? TEXT_SCALE : 1, width, text);
}

void d9_sheet_put_name(d9_sheet *sheet, int row, const char *text) {
    const int middle = tile_y(sheet, row) + (sheet->tile_height * sheet->scale - D9_FONT_HEIGHT * TEXT_SCALE) / 2;
    put_text(sheet, TEXT_MARGIN, middle, TEXT_SCALE, sheet->left - 2 * TEXT_MARGIN, text);
}

/* ---- tiles ---- */

static void put_pixel(d9_sheet *sheet, int row, int column, int pixel, const uint8_t colour[3]) {
    const int y0 = tile_y(sheet, row) + pixel / sheet->tile_width * sheet->scale;
    const int x0 = tile_x(sheet, column) + pixel % sheet->tile_width * sheet->scale;
    for (int y = y0; y < y0 + sheet->scale; y++)
        for (int x = x0; x < x0 + sheet->scale; x++)
            memcpy(sheet->pixels + ((int64_t)y * sheet->width + x) * 3, colour, 3);
}

void d9_sheet_put_bytes(d9_sheet *sheet, int row, int column, const uint8_t *tile) {
    for (int i = 0; i < sheet->tile_height * sheet->tile_width; i++) put_pixel(sheet, row, column, i, tile + 3 * i);
}

static void put_value(d9_sheet *sheet, int row, int column, int pixel, const double value[3]) {
    static const uint8_t magenta[3] = {255, 0, 255};
    uint8_t colour[3];
    for (int channel = 0; channel < 3; channel++)
        colour[channel] = (uint8_t)(fmin(fmax(value[channel], 0), 255) + 0.5); /* NaN becomes 0 */
    const bool finite = isfinite(value[0]) && isfinite(value[1]) && isfinite(value[2]);
    put_pixel(sheet, row, column, pixel, finite ? colour : magenta);
}

void d9_sheet_put_reals(d9_sheet *sheet, int row, int column, const float *tile, const double mean[3],
                        const double std[3]) {
    for (int i = 0; i < sheet->tile_height * sheet->tile_width; i++, tile += 3) {
        const double value[] = {(double)tile[0] * std[0] + mean[0], (double)tile[1] * std[1] + mean[1],
                                (double)tile[2] * std[2] + mean[2]};
        put_value(sheet, row, column, i, value);
    }
}

void d9_sheet_put_filter(d9_sheet *sheet, int row, int column, const double *filter) {
    const int count = sheet->tile_height * sheet->tile_width;
    double largest = 0;
    for (int i = 0; i < 3 * count; i++) largest = fmax(largest, fabs(filter[i])); /* fmax ignores NaN */
    const double full = largest > 0 ? 127.5 / largest : 0;
    for (int i = 0; i < count; i++, filter += 3) {
        const double value[] = {127.5 + full * filter[0], 127.5 + full * filter[1], 127.5 + full * filter[2]};
        put_value(sheet, row, column, i, value);
    }
}

d9_status d9_sheet_write(d9_context *context, const d9_sheet *sheet, const char *path) {
    return d9_png_write(context, path, sheet->pixels, sheet->width, sheet->height);
}

void d9_sheet_free(d9_context *context, d9_sheet *sheet) {
    d9_release(context, sheet->pixels);
    *sheet = (d9_sheet){0};
}
