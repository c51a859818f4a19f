/* Contact sheets for viewing: grids of tiles, enlarged without smoothing, with gaps; thumbnails; text on images.
 *
 *   d9_sheet_make(context, rows, columns, &(d9_sheet_options){.tile_height = 32, .tile_width = 32}, &sheet)
 *   d9_sheet_put_reals(&sheet, row, column, pixels, dataset->mean, dataset->std)
 *   d9_sheet_write(context, &sheet, "preview.png"); d9_sheet_free(context, &sheet) */
#pragma once

#include "core/context.h"
#include "data/image.h"
#include <stddef.h>
#include <stdint.h>

typedef struct d9_sheet_options {
    int tile_height, tile_width; /* tile pixels */
    int scale;                   /* sheet pixels per tile pixel; 0: 3 */
    int gap;                     /* sheet pixels between and around tiles; 0: 2 */
    int top, left;               /* sheet pixels above and left of all tiles, for headings and names; 0: none */
} d9_sheet_options;

typedef struct d9_sheet {
    int rows, columns, tile_height, tile_width, scale, gap, top, left;
    int height, width; /* size of the sheet, in pixels */
    uint8_t *pixels;   /* (height, width, 3) */
} d9_sheet;

/* Creates a grey sheet; tiles that are never drawn stay grey. Returns D9_USAGE if it has no tile or a side of more than
 * 65536 pixels. */
D9_MUST_USE d9_status d9_sheet_make(d9_context *context, int rows, int columns, const d9_sheet_options *options,
                                    d9_sheet *sheet);

enum { D9_SHEET_HEADING = 24 }; /* d9_sheet_options.top for a row of headings */
/* Width of a column of names for d9_sheet_options.left, in pixels. `longest`: the longest name. At most 332; longer
 * names are shortened. */
int d9_sheet_name_width(const char *longest);
/* Write `text` above a column or to the left of a row, shortened to fit. */
void d9_sheet_put_heading(d9_sheet *sheet, int column, const char *text);
void d9_sheet_put_name(d9_sheet *sheet, int row, const char *text);

/* Draws a tile of bytes (tile_height, tile_width, 3). */
void d9_sheet_put_bytes(d9_sheet *sheet, int row, int column, const uint8_t *tile);

/* Draws a tile of normalised values, (byte - mean) / std, converted back to bytes and clamped; a cutout square
 * therefore has the colour `mean`. Values that are not finite are drawn in magenta. */
void d9_sheet_put_reals(d9_sheet *sheet, int row, int column, const float *tile, const double mean[3],
                        const double std[3]);

/* Draws one convolution filter (tile_height, tile_width, 3), one output channel of (O, KH, KW, I): zero becomes
 * mid-grey and the largest magnitude 0 or 255. Values that are not finite are drawn in magenta. */
void d9_sheet_put_filter(d9_sheet *sheet, int row, int column, const double *filter);

D9_MUST_USE d9_status d9_sheet_write(d9_context *context, const d9_sheet *sheet, const char *path); /* as a PNG */
void d9_sheet_free(d9_context *context, d9_sheet *sheet);

/* Contact sheet of images with captions, for viewing a model's predictions.
 *
 *   d9_contact_make(context, count, &sheet)
 *   d9_thumbnail_make(context, &image, tile)              from any thread
 *   d9_contact_put(context, &sheet, index, tile, &caption)
 *   d9_sheet_write(context, &sheet, "sheet.png"); d9_sheet_free(context, &sheet) */
enum { D9_THUMBNAIL_SIDE = 192, D9_THUMBNAIL_BYTES = D9_THUMBNAIL_SIDE * D9_THUMBNAIL_SIDE * 3 };

/* Scales the whole image, without distortion, to the centre of a white square (D9_THUMBNAIL_SIDE, D9_THUMBNAIL_SIDE,
 * 3). Small images are enlarged without smoothing. */
D9_MUST_USE d9_status d9_thumbnail_make(d9_context *context, const d9_image *image, uint8_t *thumbnail);

typedef struct d9_caption {
    const char *label, *name; /* predicted class and file, on two lines each if necessary */
    const char *truth;        /* true class, written in red if it is not `label`; NULL: unknown */
    double probability;       /* probability of `label`, 0 to 1, written as a percentage and drawn as a bar */
} d9_caption;

/* Makes a white sheet for `count` tiles, up to ten in a row; tiles are numbered row by row. */
D9_MUST_USE d9_status d9_contact_make(d9_context *context, int count, d9_sheet *sheet);
D9_MUST_USE d9_status d9_contact_put(d9_context *context, d9_sheet *sheet, int index, const uint8_t *thumbnail,
                                     const d9_caption *caption);

/* Draws small text on images: a proportional 5x7 bitmap font of ASCII. Characters U+00C0 to U+017F are drawn as
 * the similar ASCII letter or as a question mark, others outside ASCII as a box. */
enum { D9_FONT_HEIGHT = 9 }; /* rows of a line, 7 of them above the baseline; a row is `scale` pixels high */

typedef struct d9_canvas {
    uint8_t *pixels; /* (height, width, 3) */
    int height, width;
} d9_canvas;

int d9_font_width(const char *text, int scale); /* width of `text` in pixels */

/* Draws `text` with its upper left corner at (x, y), clipped to the canvas. */
void d9_font_draw(const d9_canvas *canvas, int x, int y, int scale, const uint8_t colour[3], const char *text);

/* Copies `text` to `fitted` (size). If it exceeds `width` pixels or `size` bytes, ".." replaces its last characters. */
void d9_font_fit(const char *text, int scale, int width, char *fitted, size_t size);
